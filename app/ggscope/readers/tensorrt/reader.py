"""Reader of trtexec's exports.

Source: ``sampleReporting.cpp`` of NVIDIA's TensorRT. ``--exportProfile``: a list of
``{count}`` and of ``{name, timeMs, averageMs, medianMs, percentage}``; `timeMs` is the
sum over `count` runs. ``--exportLayerInfo``: an object with ``Layers``, names or
objects with ``Name, LayerType, Outputs[{Dimensions, Format/Datatype}]``, and
``Bindings``.
"""

import re
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.backend_ops import (
    BackendOps,
    ListedOps,
    OpSources,
    SplitInputs,
    Splits,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import BOM, NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace, refuse_larger
from ggscope.readers.common.packed_text import TextBlocks, text_of
from ggscope.readers.common.text_cursor import TextCursor
from ggscope.readers.source import Source
from ggscope.readers.tensorrt import INFO

_MAX_BYTES = 256 << 20
_LAYER_BYTES = 1 << 20
_MAX_NAME = 4096
_MAX_RUNS = 1 << 40
_MAX_MS = Decimal(10) ** 12
_MIN_MS = 1 / _MAX_MS
_BACKEND = "TensorRT"
_LAYERS = re.compile(rb'\s*\{\s*"Layers"\s*:\s*\[')


class TensorrtReader:
    """Reads times and facts of layers."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first keys."""
        text = head.data.removeprefix(BOM)
        if text.lstrip().startswith(b"[") and b'"averageMs"' in text:
            is_sure = b'"percentage"' in text
            return Sniff(90 if is_sure else 60, "layers with their average times")
        if _LAYERS.match(text):
            is_sure = b'"LayerType"' in text or b'"Bindings"' in text
            return Sniff(88 if is_sure else 55, "a list of layers")
        return NOT_MINE

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of no spans with the layers.

        Raises
        ------
        CorruptError
            If no layer can be read.
        LimitExceededError
            If the file is too large to be one.
        """
        refuse_larger(source, _MAX_BYTES, "Is this the right file?")
        context.progress(0, source.size)
        layers = _Layers()
        with TextBlocks(text_of(source)) as blocks:
            cursor = TextCursor(blocks, context.check_cancelled)
            _take(cursor, layers)
        if not len(layers):
            raise CorruptError("no layer of the list can be read.")
        builder = TraceBuilder()
        builder.backend_ops = layers.listing()
        _warn(builder, layers, is_cut=cursor.is_cut)
        facts = {"runs": f"{layers.n_runs:,}"} if layers.n_runs else {}
        n = len(layers)
        return file_trace(
            builder, INFO, source, n, {"layers": n}, noun="layers", producer=facts
        )


def _take(cursor: TextCursor, layers: "_Layers") -> None:
    if cursor.byte() == ord("["):
        for _ in cursor.elements():
            layers.take(cursor.parsed(_LAYER_BYTES, Decimal))
        return
    for key in cursor.members():
        if key == "Layers" and cursor.byte() == ord("["):
            for _ in cursor.elements():
                layers.take_facts(cursor.parsed(_LAYER_BYTES, Decimal))
        else:
            cursor.value(0)


@dataclass(slots=True)
class _Layers:
    """Takes layers one by one.

    Attributes
    ----------
    n_runs : of the network that was profiled; 0 where the file does not state it.
    n_bad : elements that are no layers.
    has_times : whether these are times; else facts.
    """

    n_runs: int = 0
    n_bad: int = 0
    has_times: bool = False
    _op: list[str] = field(default_factory=list)
    _name: list[str] = field(default_factory=list)
    _shape: list[str] = field(default_factory=list)
    _dtype: list[str] = field(default_factory=list)
    _total: list[Decimal | None] = field(default_factory=list)
    """Milliseconds of all runs, as `_mean` those of one."""
    _mean: list[Decimal | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._op)

    def take(self, value: object) -> None:
        """Take an element of a profile: a layer, or how often all of them ran."""
        facts = value if isinstance(value, dict) else {}
        name, count = facts.get("name"), facts.get("count")
        if not isinstance(name, str):
            if isinstance(count, int) and 0 < count < _MAX_RUNS:
                self.n_runs = int(count)
            else:
                self.n_bad += 1
            return
        self.has_times = True
        self._add(name, "", "", "")
        self._total[-1] = _milliseconds(facts.get("timeMs"))
        self._mean[-1] = _milliseconds(facts.get("averageMs"))

    def take_facts(self, value: object) -> None:
        """Take an element of a list of layers: its name, or an object."""
        if isinstance(value, str):
            self._add(value, "", "", "")
            return
        facts = value if isinstance(value, dict) else {}
        name, kind = facts.get("Name"), facts.get("LayerType")
        if not isinstance(name, str):
            self.n_bad += 1
            return
        outputs = facts.get("Outputs")
        listed = outputs if isinstance(outputs, list) else []
        results = [one for one in listed if isinstance(one, dict)]
        shapes = filter(None, (_shape(one.get("Dimensions")) for one in results))
        formats = [str(one.get("Format/Datatype") or "") for one in results]
        op = kind if isinstance(kind, str) and kind else name
        self._add(op, name, " · ".join(shapes), " · ".join(filter(None, formats)))

    def _add(self, op: str, name: str, shape: str, dtype: str) -> None:
        texts = (op, name, shape, dtype)
        columns = (self._op, self._name, self._shape, self._dtype)
        for text, column in zip(texts, columns, strict=True):
            # Halves of surrogate pairs are no text.
            whole = text[:_MAX_NAME].encode("utf-8", "replace").decode()
            column.append(whole)
        self._total.append(None)
        self._mean.append(None)

    def _runs(self, total: Decimal | None, mean: Decimal | None) -> int:
        """Return how many runs a layer's time stands for."""
        if total is None:
            return 1
        if self.n_runs:
            return self.n_runs
        if mean is None or mean < _MIN_MS:
            return 1
        return min(max(round(total / mean), 1), _MAX_RUNS)

    def listing(self) -> BackendOps:
        """Return the layers in the order of the file."""
        numbers: dict[str, int] = {}

        def numbered(texts: list[str]) -> np.ndarray:
            ids = [numbers.setdefault(t, len(numbers)) if t else -1 for t in texts]
            return np.array(ids, np.int32)

        n = len(self)
        rows = list(zip(self._total, self._mean, strict=True))
        ops = replace(
            ListedOps.blank(n),
            line=np.arange(n, dtype=np.int64),
            op=numbered(self._op),
            name=numbered(self._name),
            shape=numbered(self._shape),
            dtype=numbered(self._dtype),
            backend=numbered([_BACKEND] * n),
            count=np.array([self._runs(*row) for row in rows], np.int64),
            time=np.array(
                [
                    _nanoseconds(mean if total is None else total)
                    for total, mean in rows
                ],
                np.int64,
            ),
        )
        return BackendOps(
            tuple(numbers),
            ops,
            OpSources.blank(),
            Splits.blank(),
            SplitInputs.blank(),
            1,
        )


def _milliseconds(value: object) -> Decimal | None:
    """Return a time, None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    ms = Decimal(value)
    return ms if ms.is_finite() and 0 <= ms < _MAX_MS else None


def _nanoseconds(ms: Decimal | None) -> int:
    return -1 if ms is None else round(ms * 1_000_000)


def _shape(value: object) -> str:
    """Return ``1×64×112×112``; "" where it is no shape."""
    if not isinstance(value, list) or not value:
        return ""
    sizes = [one for one in value if isinstance(one, int)]
    return "×".join(map(str, sizes)) if len(sizes) == len(value) else ""


def _warn(builder: TraceBuilder, layers: _Layers, *, is_cut: bool) -> None:
    if is_cut:
        builder.warn(
            Severity.DATA_LOSS,
            "truncated_json",
            f"the file ends inside its JSON; the {len(layers):,} layers before that "
            "are shown.",
            remedy="Export it again.",
        )
    builder.warn(
        Severity.DATA_LOSS,
        "bad_record",
        "elements of the list are no layers; they were skipped.",
        count=layers.n_bad,
    )
    if layers.has_times:
        runs = f" of {layers.n_runs:,} runs" if layers.n_runs else ""
        builder.warn(
            Severity.NOTICE,
            "no_times",
            f"the profile has sums and averages{runs} and no times: when a layer ran, "
            "and how single runs differ, is unknown.",
            remedy="nsys profile trtexec …, then nsys export --type sqlite, has times.",
        )
