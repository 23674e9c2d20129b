"""Reader of BigMoeOnEdge's tables; none of them has times, only durations.

Source: ``docs/telemetry.md`` and ``core/src/metrics`` of BigMoeOnEdge. Columns are
found by name: new ones are appended from version to version. The table of routed
experts (``route_trace``) is read as `moe-csv`.

``compute_trace v1``: ``turn,phase,step,seq,layer,op,name,wall_ns,majflt``, a row per
node in the order of execution. ``io_trace v1``: ``turn,phase,step,layer,expert,proj,
lane,spec,offset,req_bytes,read_bytes,latency_ns``, a row per read of the model file.
Per token: ``step,steps,wall_ms,io_ms,compute_ms,read_bytes,…``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    F64,
    I32,
    I64,
    AccessColumns,
    Accesses,
    AccessKind,
    CounterShape,
    FlatAccesses,
    Phase,
    Space,
    SpanFlag,
)
from ggscope.model.trace import LaneKind, OpTable, Severity, Trace
from ggscope.model.units import format_bytes
from ggscope.readers.api import (
    BOM,
    HEAD_BYTES,
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.bigmoe import INFO
from ggscope.readers.bigmoe.summary import is_summary, summary_trace
from ggscope.readers.common.csv_rows import (
    CsvBlocks,
    CsvRows,
    comment_facts,
    table_estimate,
    warn_of_strays,
)
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.source import Source

Columns = dict[str, npt.NDArray[np.generic]]

_DERIVED = int(SpanFlag.INFERRED_START | SpanFlag.INFERRED_END)
_MS = 1_000_000
_MAX_NS = 1 << 55
_MAX_NUMBER = 1 << 62
_MAX_SUM_NS = 1 << 62
_MAX_BYTES = 1 << 48
_ROW_BYTES = 120
_PASS = ("turn", "phase", "step")
_COUNTED = ("io_ms", "compute_ms", "stall_ms", "mgmt_ms", "drain_ms")
"""Columns of the table per token that are parts of its time, or run beside it."""
_LEVELS = (
    ("read_bytes", "bytes"), ("cache_hit_pct", "%"), ("majflt", "faults"),
    ("rss_mib", "MiB"), ("mem_available_mib", "MiB"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Form:
    """A table: the columns by which it is known, those of text, and what reads it.

    `build` returns facts of the whole table, by their names.
    """

    id: str
    title: str
    needs: tuple[str, ...]
    texts: tuple[str, ...]
    build: Callable[[TraceBuilder, Columns], dict[str, str]]


class BigMoeReader:
    """Reads the tables of BigMoeOnEdge."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the names of its columns."""
        if b"\0" in head.data:
            return NOT_MINE
        if is_summary(head.data):
            return Sniff(90, "what BigMoeOnEdge prints at the end of a run")
        layout = _layout(head.data)
        if layout is None:
            return NOT_MINE
        return Sniff(95, f"columns of BigMoeOnEdge's {layout[0].title}")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by the length of its rows."""
        return table_estimate(head, _ROW_BYTES, 4)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a table.

        Raises
        ------
        CorruptError
            If there is no row.
        """
        context.progress(0, source.size)
        head = source.head(HEAD_BYTES)
        if is_summary(head):
            return summary_trace(source)
        layout = _layout(head)
        if layout is None:
            raise CorruptError("no line names the columns of a known table.", offset=0)
        form, names, start = layout
        blocks = CsvBlocks(source, context, start, len(names))
        parts: list[Columns] = []
        n_bad = 0
        for rows in blocks:
            part, n_wrong = _columns(rows, form, names)
            parts.append(part)
            n_bad += n_wrong + len(rows.strays)
        columns = {
            name: np.concatenate([part[name] for part in parts])
            for name in (parts[0] if parts else {})
        }
        n = len(next(iter(columns.values()))) if columns else 0
        if not n:
            raise CorruptError("the table has no row that can be read.", offset=start)
        builder = TraceBuilder()
        facts = form.build(builder, columns)
        _warn(builder, n_bad, has_open_end=blocks.has_open_end)
        return file_trace(
            builder, INFO, source, n, {"rows": n}, version=form.id,
            producer=_facts(head, source) | facts,
        )  # fmt: skip


def _warn(builder: TraceBuilder, n_bad: int, *, has_open_end: bool) -> None:
    builder.warn(
        Severity.NOTICE,
        "no_times",
        "the table has durations and no times: rows follow one another, reads of "
        "several lanes run side by side. When nothing ran is unknown.",
    )
    warn_of_strays(builder, n_bad, has_open_end=has_open_end)


def _layout(data: bytes) -> tuple[Form, tuple[str, ...], int] | None:
    """Return the form, the names of the columns and where the rows begin."""
    start = len(BOM) if data.startswith(BOM) else 0
    for line in data[start:].splitlines(keepends=True):
        start += len(line)
        text = line.strip().decode("utf-8", "replace")
        if not text or text.startswith("#"):
            continue
        names = tuple(name.strip() for name in text.split(","))
        for form in FORMS:
            if set(form.needs) <= set(names) and line.endswith(b"\n"):
                return form, names, start
        return None
    return None


def _facts(head: bytes, source: Source) -> dict[str, str]:
    """Return what the lines of comment say, ``key=value``."""
    tail = source.read(max(source.size - 2048, 0), min(source.size, 2048))
    return comment_facts(head[:8192]) | comment_facts(tail)


def _columns(rows: CsvRows, form: Form, names: tuple[str, ...]) -> tuple[Columns, int]:
    """Return the columns of the sound rows of a block, and how many are not."""
    good = np.ones(len(rows.line), np.bool_)
    columns: Columns = {}
    for position, name in enumerate(names):
        if name in columns:
            continue
        if name in form.texts:
            columns[name] = rows.texts(position)
            continue
        values = rows.decimals(position)
        if name in form.needs:
            limit = _MAX_NS / _MS if name.endswith("_ms") else _MAX_NS
            good &= np.isfinite(values) & (np.abs(values) < limit)
        columns[name] = values
    if not good.all():
        columns = {name: values[good] for name, values in columns.items()}
    # One width for all blocks.
    columns = {
        name: values.astype("S128") if name in form.texts else values
        for name, values in columns.items()
    }
    return columns, int(len(good) - np.count_nonzero(good))


def _whole(columns: Columns, name: str) -> I64:
    """Return a column of whole numbers; -1 where there is none."""
    if name not in columns:
        n = len(next(iter(columns.values())))
        return np.full(n, -1, np.int64)
    values = columns[name].astype(np.float64)
    known = np.isfinite(values) & (np.abs(values) < _MAX_NUMBER)
    return np.where(known, np.rint(values), -1).astype(np.int64)


def _durations(nanoseconds: I64) -> I64:
    """Return durations; those below zero as zero.

    Raises
    ------
    CorruptError
        If one behind the other they are longer than times can be.
    """
    duration = np.maximum(nanoseconds, 0)
    if duration.sum(dtype=np.float64) >= _MAX_SUM_NS:
        raise CorruptError("the durations of the rows add up to more than 146 years.")
    return duration


def _passes(columns: Columns) -> tuple[I64, I64]:
    """Return the number of the pass of each row, and where each begins."""
    keys = [_whole(columns, name) for name in _PASS]
    n = len(keys[0])
    changes = np.zeros(n, np.bool_)
    changes[0] = True
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    return np.cumsum(changes) - 1, np.flatnonzero(changes)


def _add_passes(
    builder: TraceBuilder, columns: Columns, begin: I64, end: I64, first: I64
) -> None:
    """Add the lane of passes: the prompt, then a pass per token."""
    phase = _phase(columns)[first]
    step = _whole(columns, "step")[first]
    names = [
        f"prompt, position {at:,}" if kind == Phase.PROMPT else f"position {at:,}"
        for kind, at in zip(phase.tolist(), step.tolist(), strict=True)
    ]
    builder.add_spans(
        start=begin,
        end=end,
        lane=builder.add_lane("passes", LaneKind.TOKEN, ("Tokens",)),
        name=np.asarray(builder.strings.intern_many(names), np.int32),
        flags=_DERIVED,
        token=np.arange(len(first), dtype=np.int32),
        phase=phase.astype(np.int8),
    )


def _phase(columns: Columns) -> I64:
    phase = _whole(columns, "phase")
    codes = np.full(len(phase), -1, np.int64)
    codes[phase == 0], codes[phase == 1] = Phase.PROMPT, Phase.GENERATE
    return codes


def _interned(builder: TraceBuilder, texts: npt.NDArray[np.generic]) -> I64:
    """Return the number of the string of each text."""
    names, place = np.unique(texts, return_inverse=True)
    decoded = [bytes(name).decode("utf-8", "replace") for name in names.tolist()]
    numbers = np.asarray(builder.strings.intern_many(decoded), np.int64)
    of_text: I64 = numbers[place.reshape(-1)]
    return of_text


# -- the three tables ----------------------------------------------------------


def _build_compute(builder: TraceBuilder, columns: Columns) -> dict[str, str]:
    """Add the nodes, one behind the other."""
    number, first = _passes(columns)
    duration = _durations(_whole(columns, "wall_ns"))
    end = np.cumsum(duration)
    start = end - duration
    ops, op = np.unique(columns["op"], return_inverse=True)
    names = tuple(bytes(name).decode("utf-8", "replace") for name in ops.tolist())
    builder.ops = OpTable("bigmoe", names, "spelled")
    builder.add_spans(
        start=start,
        end=end,
        lane=builder.add_lane("graph", LaneKind.THREAD, ("Ops",)),
        name=_interned(builder, columns["name"]).astype(np.int32),
        op=op.reshape(-1).astype(np.int16),
        layer=np.clip(_whole(columns, "layer"), -1, (1 << 15) - 1).astype(np.int16),
        token=number.astype(np.int32),
        phase=_phase(columns).astype(np.int8),
        flags=_DERIVED,
        record=np.arange(len(start), dtype=np.int64),
    )
    lasts = np.append(first[1:], len(start)) - 1
    _add_passes(builder, columns, start[first], end[lasts], first)
    faults = _whole(columns, "majflt")
    if (faults > 0).any():
        builder.add_counter(
            "major faults", "faults", CounterShape.LEVEL, start, np.maximum(faults, 0)
        )
    return {}


def _build_reads(builder: TraceBuilder, columns: Columns) -> dict[str, str]:
    """Add the reads; lanes run side by side, passes one behind the other."""
    number, first = _passes(columns)
    lane = np.maximum(_whole(columns, "lane"), 0)
    duration = _durations(_whole(columns, "latency_ns"))
    order = np.lexsort((np.arange(len(lane)), lane, number))
    start, begin, end = _side_by_side(number[order], lane[order], duration[order])
    at = np.empty_like(start)
    at[order] = start
    expert, layer = _whole(columns, "expert"), _whole(columns, "layer")
    size = _whole(columns, "read_bytes")
    spec = _whole(columns, "spec")
    numbers, of_lane = np.unique(lane, return_inverse=True)
    ids = [
        builder.add_lane(f"read lane {one}", LaneKind.THREAD, ("Reads",), (one,))
        for one in numbers.tolist()
    ]
    builder.ops = OpTable("bigmoe", ("READ", "PREFETCH"), "spelled")
    builder.add_spans(
        start=at,
        end=at + duration,
        lane=np.array(ids, np.int32)[of_lane.reshape(-1)],
        name=_read_names(builder, expert),
        op=np.where(spec == 1, 1, 0).astype(np.int16),
        layer=np.clip(layer, -1, (1 << 15) - 1).astype(np.int16),
        token=number.astype(np.int32),
        phase=_phase(columns).astype(np.int8),
        flags=_DERIVED,
        record=np.arange(len(at), dtype=np.int64),
    )
    n = len(at)
    _add_passes(builder, columns, begin, end, first)
    none = np.full(n, -1, np.int32)
    what = AccessColumns(
        tensor=none,
        kind=np.full(n, AccessKind.READ, np.uint8),
        space=np.full(n, Space.FILE, np.uint8),
        offset=_whole(columns, "offset"),
        size=size,
        buffer=none,
        layer=np.clip(layer, -1, (1 << 15) - 1).astype(np.int16),
        expert=np.clip(expert, -1, (1 << 15) - 1).astype(np.int16),
        address=np.zeros(n, np.uint64),
    )
    pattern = np.full(builder.n_spans, -1, np.int32)
    pattern[:n] = np.arange(n)
    builder.accesses = Accesses(
        pattern, np.arange(n + 1, dtype=np.int64), what, FlatAccesses.blank()
    )
    return _add_amplification(builder, columns, number, begin)


def _add_amplification(
    builder: TraceBuilder, columns: Columns, number: I64, begin: I64
) -> dict[str, str]:
    """Add bytes asked for and read, and their ratio, of each pass; return the total.

    Direct reads are of whole blocks, so that more is read than the engine asks for.
    Rows that lack one of the two numbers count in neither.
    """
    requested, read = _whole(columns, "req_bytes"), _whole(columns, "read_bytes")
    known = (
        (requested > 0) & (read >= 0) & (requested < _MAX_BYTES) & (read < _MAX_BYTES)
    )
    if not known.any():
        return {}
    sums = np.zeros((2, len(begin)), np.float64)
    for total, values in zip(sums, (requested, read), strict=True):
        np.add.at(total, number[known], values[known].astype(np.float64))
    of_pass = sums[0] > 0
    time, (of_requested, of_read) = begin[of_pass], sums[:, of_pass]
    for name, unit, values in (
        ("bytes requested", "bytes", of_requested),
        ("bytes read", "bytes", of_read),
        ("read amplification", "x", of_read / of_requested),
    ):
        builder.add_counter(name, unit, CounterShape.LEVEL, time, values)
    whole_requested, whole_read = (int(total) for total in sums.sum(axis=1))
    text = (
        f"{whole_read / whole_requested:.3f} ({format_bytes(whole_read)} read for "
        f"{format_bytes(whole_requested)} requested)"
    )
    return {"read amplification": text}


def _side_by_side(number: I64, lane: I64, duration: I64) -> tuple[I64, I64, I64]:
    """Return the start of each read, and begin and end of each pass.

    Rows are sorted by pass and lane. In a pass the reads of a lane follow one another;
    the next pass begins when all of them are done.
    """
    whole = np.cumsum(duration) - duration
    heads = np.ones(len(number), np.bool_)
    heads[1:] = (number[1:] != number[:-1]) | (lane[1:] != lane[:-1])
    head = np.maximum.accumulate(np.where(heads, np.arange(len(number)), 0))
    inside = whole - whole[head]
    n_passes = int(number[-1]) + 1
    longest = np.zeros(n_passes, np.int64)
    np.maximum.at(longest, number, inside + duration)
    end = np.cumsum(longest)
    begin = end - longest
    return begin[number] + inside, begin, end


def _read_names(builder: TraceBuilder, expert: I64) -> I32:
    known, place = np.unique(expert, return_inverse=True)
    names = [f"expert {one}" if one >= 0 else "read" for one in known.tolist()]
    numbers = np.asarray(builder.strings.intern_many(names), np.int32)
    return numbers[place.reshape(-1)]


def _build_tokens(builder: TraceBuilder, columns: Columns) -> dict[str, str]:
    """Add a span per token, one behind the other, and the other columns as counters."""
    nanoseconds = np.rint(_number(columns, "wall_ms") * _MS)
    duration = _durations(nanoseconds.astype(np.int64))
    end = np.cumsum(duration)
    start = end - duration
    step = _whole(columns, "step")
    names = [f"token {number:,}" for number in step.tolist()]
    builder.add_spans(
        start=start,
        end=end,
        lane=builder.add_lane("tokens", LaneKind.TOKEN, ("Tokens",)),
        name=np.asarray(builder.strings.intern_many(names), np.int32),
        flags=_DERIVED,
        token=np.clip(step, -1, (1 << 31) - 1).astype(np.int32),
        phase=int(Phase.GENERATE),
        record=np.arange(len(start), dtype=np.int64),
    )
    for name in _COUNTED:
        if name in columns:
            _add_level(builder, name.removesuffix("_ms"), "ms", start, columns[name])
    for name, unit in _LEVELS:
        if name in columns:
            _add_level(builder, name.rpartition("_")[0], unit, start, columns[name])
    return {}


def _add_level(
    builder: TraceBuilder,
    name: str,
    unit: str,
    time: I64,
    values: npt.NDArray[np.generic],
) -> None:
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    if known.any():
        builder.add_counter(
            name.replace("_", " "), unit, CounterShape.LEVEL, time[known],
            numbers[known],
        )  # fmt: skip


def _number(columns: Columns, name: str) -> F64:
    return columns[name].astype(np.float64)


FORMS = (
    Form(
        "compute_trace",
        "compute trace",
        ("step", "layer", "op", "name", "wall_ns"),
        ("op", "name"),
        _build_compute,
    ),
    Form(
        "io_trace",
        "I/O trace",
        ("step", "layer", "expert", "offset", "read_bytes", "latency_ns"),
        (),
        _build_reads,
    ),
    Form("metrics", "table per token", ("step", "steps", "wall_ms"), (), _build_tokens),
)
