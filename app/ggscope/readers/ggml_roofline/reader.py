"""Reader of the report of ``GGML_ROOFLINE_OUT``; it has durations and no times.

Source: ``ggml/src/ggml-cuda/ggml-cuda-roofline.cpp`` of AMD-Ecosystem/llama.cpp (pull
requests 33, 42 and 53): ``device, total_gpu_time_us, rows[{ggml_op, invocation, name,
in_names[], M, N, K, n_experts, top_k, experts_used, tokens_per_expert[],
kernels[{name, gpu_time_us}]}]``. Rows come in any order; `invocation` numbers the
launches. ``tokens_per_expert`` is there for MUL_MAT_ID since pull request 53: how many
tokens of the launch each expert was chosen for. Early reports lack names.
"""

from decimal import Decimal, InvalidOperation

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.expert_counts import ExpertCounts
from ggscope.model.names import parse
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import LaneKind, OpTable, Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace, refuse_larger
from ggscope.readers.common.json_cursor import outer_keys
from ggscope.readers.common.json_walk import integer_of, note_fault, walk_root
from ggscope.readers.ggml_roofline import INFO
from ggscope.readers.source import Source

_DERIVED = int(SpanFlag.INFERRED_START | SpanFlag.INFERRED_END)
_MAX_BYTES = 1 << 30
_MAX_NAME, _MAX_KERNELS = 256, 1 << 12
_MAX_NS = 1 << 50
_MAX_LAYER, _MAX_EXPERTS, _MAX_COUNT = 1 << 9, 1 << 12, 1 << 40


class GgmlRooflineReader:
    """Reads reports of ``GGML_ROOFLINE_OUT``."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its keys."""
        keys = outer_keys(head.data)
        is_row = b'"ggml_op"' in head.data and b'"kernels"' in head.data
        if "rows" not in keys or not is_row:
            return NOT_MINE
        is_whole = "total_gpu_time_us" in keys
        return Sniff(90 if is_whole else 60, "rows of ops with their kernels")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a report.

        Raises
        ------
        CorruptError
            If there is no row.
        LimitExceededError
            If the file is too large to be one.
        """
        refuse_larger(source, _MAX_BYTES, "Profile fewer tokens.")
        builder, rows = TraceBuilder(), _Rows()
        walked = walk_root(source, context, builder, {"rows": rows.take})
        n = len(rows.invocation)
        if walked.fault is not None:
            note_fault(builder, source, walked.fault, f"{n:,} rows", n)
        if not n:
            raise CorruptError(
                "no row of the report can be read.",
                hint="Is this what GGML_ROOFLINE_OUT named?",
            )
        rows.add_to(builder)
        builder.expert_counts = rows.counts.table()
        _warn(builder, rows)
        producer = {}
        if isinstance(device := walked.facts.get("device"), str) and device:
            producer["device"] = device[:_MAX_NAME]
        return file_trace(builder, INFO, source, n, {"rows": n}, producer=producer)


def _warn(builder: TraceBuilder, rows: "_Rows") -> None:
    builder.warn(
        Severity.NOTICE,
        "no_times",
        "the report has durations and no times: ops follow one another in the order of "
        "their launches, kernels in that of their op. When nothing ran is unknown.",
    )
    builder.warn(
        Severity.DATA_LOSS,
        "bad_record",
        "rows without op, invocation or kernels were skipped.",
        count=rows.n_bad,
        place=f"rows[{rows.first_bad}]",
    )
    builder.warn(
        Severity.NOTICE,
        "experts_without_layer",
        "counts of experts whose layer is in no name, or that are no counts, are "
        "left out.",
        count=rows.counts.n_unplaced,
    )


class _Rows:
    """Takes the rows one by one."""

    def __init__(self) -> None:
        self.invocation: list[int] = []
        self.op: list[str] = []
        self.name: list[str] = []
        self.layer: list[int] = []
        self.kernels: list[list[tuple[str, int]]] = []
        self.counts = _Counts()
        self.n_bad, self.first_bad, self._n_seen = 0, -1, 0

    def take(self, value: object) -> None:
        """Take one element of "rows"."""
        number, self._n_seen = self._n_seen, self._n_seen + 1
        row = value if isinstance(value, dict) else {}
        invocation, kernels = integer_of(row.get("invocation")), _kernels(row)
        op = row.get("ggml_op")
        is_far = invocation is None or not 0 <= invocation < 1 << 62
        if invocation is None or is_far or not kernels or not isinstance(op, str):
            self.n_bad += 1
            self.first_bad = number if self.first_bad < 0 else self.first_bad
            return
        weight = _weight(row)
        name = row.get("name")
        shown = name if isinstance(name, str) and name else _shape(row, op)
        layer = parse(weight).layer
        if layer is None and isinstance(name, str):
            layer = parse(name[:_MAX_NAME]).layer
        known = layer is not None and 0 <= layer < _MAX_LAYER
        self.invocation.append(invocation)
        self.op.append(op[:_MAX_NAME])
        self.name.append(shown[:_MAX_NAME])
        self.layer.append(layer if known and layer is not None else -1)
        self.kernels.append(kernels)
        if (counts := row.get("tokens_per_expert")) is not None:
            self.counts.take(self.layer[-1], weight, counts)

    def add_to(self, builder: TraceBuilder) -> None:
        """Add ops and kernels, one behind the other."""
        order = np.argsort(np.array(self.invocation, np.int64), kind="stable")
        rows = order.tolist()
        n_kernels = np.array([len(self.kernels[i]) for i in rows], np.int64)
        kernels = [kernel for i in rows for kernel in self.kernels[i]]
        end = np.cumsum(np.array([ns for _, ns in kernels], np.int64))
        start = np.concatenate([np.zeros(1, np.int64), end[:-1]])
        last = np.cumsum(n_kernels) - 1
        ops = sorted(set(self.op))
        number = {name: i for i, name in enumerate(ops)}
        builder.ops = OpTable("roofline", tuple(ops), "spelled")
        layer = np.array(self.layer, np.int16)[order]
        names = builder.strings.intern_many([self.name[i] for i in rows])
        builder.add_spans(
            start=start[last - n_kernels + 1],
            end=end[last],
            lane=builder.add_lane("ops", LaneKind.THREAD, ("GPU",), (0,)),
            name=np.asarray(names, np.int32),
            op=np.array([number[self.op[i]] for i in rows], np.int16),
            layer=layer,
            flags=_DERIVED,
            record=order.astype(np.int64),
        )
        of_kernel = np.repeat(np.arange(len(rows)), n_kernels)
        names = builder.strings.intern_many([name for name, _ in kernels])
        builder.add_spans(
            start=start,
            end=end,
            lane=builder.add_lane("kernels", LaneKind.COMMAND, ("GPU",), (1,)),
            name=np.asarray(names, np.int32),
            layer=layer[of_kernel],
            flags=_DERIVED,
            record=order.astype(np.int64)[of_kernel],
        )


class _Counts:
    """Sums counts of experts by layer.

    The tensors of a layer's experts are launched with the same choices: those of one
    of them count, the first that comes.
    """

    def __init__(self) -> None:
        self.n_unplaced, self.n_launches = 0, 0
        self._weight: dict[int, str] = {}
        self._counts: dict[int, np.ndarray] = {}

    def take(self, layer: int, weight: str, value: object) -> None:
        """Take the counts of a launch."""
        numbers = value if isinstance(value, list) else []
        counts = [integer_of(number) for number in numbers]
        is_sound = 0 < len(counts) <= _MAX_EXPERTS and all(
            count is not None and 0 <= count < _MAX_COUNT for count in counts
        )
        if layer < 0 or not is_sound:
            self.n_unplaced += 1
            return
        if self._weight.setdefault(layer, weight) != weight:
            return
        new = np.array(counts, np.int64)
        old = self._counts.get(layer)
        if old is None or len(old) == len(new):
            self._counts[layer] = new if old is None else old + new
            self.n_launches += 1
        else:
            self.n_unplaced += 1

    def table(self) -> ExpertCounts | None:
        """Return the sums; None without any."""
        if not self._counts:
            return None
        layers = sorted(self._counts)
        size = [len(self._counts[layer]) for layer in layers]
        return ExpertCounts(
            np.repeat(np.array(layers, np.int64), size),
            np.concatenate([np.arange(n, dtype=np.int64) for n in size]),
            np.concatenate([self._counts[layer] for layer in layers]),
            self.n_launches,
        )


def _kernels(row: dict[str, object]) -> list[tuple[str, int]]:
    """Return name and nanoseconds of the kernels of a row; [] where one is damaged."""
    listed = row.get("kernels")
    kernels: list[tuple[str, int]] = []
    for kernel in listed[:_MAX_KERNELS] if isinstance(listed, list) else ():
        if not isinstance(kernel, dict):
            return []
        ns, name = _nanoseconds(kernel.get("gpu_time_us")), kernel.get("name")
        if ns is None:
            return []
        kernels.append((name[:_MAX_NAME] if isinstance(name, str) else "", ns))
    return kernels


def _nanoseconds(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        ns = round(Decimal(value) * 1000)
    except (InvalidOperation, OverflowError, ValueError):
        return None
    return ns if 0 <= ns < _MAX_NS else None


def _weight(row: dict[str, object]) -> str:
    """Return the name of the weight that an op reads; "" where none is named."""
    names = row.get("in_names")
    texts = [n for n in names if isinstance(n, str)] if isinstance(names, list) else []
    weight = next((n for n in texts if n.endswith(".weight")), "")
    return weight[:_MAX_NAME]


def _shape(row: dict[str, object], op: str) -> str:
    """Return ``MUL_MAT 512×4096×4096``, of a row without a name."""
    sizes = [integer_of(row.get(key)) for key in ("M", "N", "K")]
    if any(size is None or size <= 0 for size in sizes):
        return op
    return f"{op} {'×'.join(map(str, sizes))}"
