"""The tables of a trace: one frozen dataclass of equally long arrays each.

Every column has a widest dtype. A reader may store a narrower signed integer
where the values fit (33 million rows make every byte count), so code that adds
or multiplies converts to int64 first. -1 means "none" in every id column.
Columns that a format cannot fill are None, never zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]


class SpanFlag(IntFlag):
    """Why a span's times are not simply measured, and other oddities."""

    INFERRED_START = 1
    INFERRED_END = 2
    """The end is the next record of the same thread: *derived*."""
    UNFINISHED = 4
    """No end was recorded; drawn to the end of its surroundings."""
    OVERLAPS_PARENT = 8
    OUT_OF_ORDER = 16
    TRUNCATED_NAME = 32
    ESTIMATED = 64
    """The times share out a measured whole: *estimated*, not in rankings."""
    REPEATED = 128
    """Another span, of another thread, tells of the same op: what the op reads and
    writes is counted there."""


class Quality(IntEnum):
    """How far a span's duration can be trusted."""

    MEASURED = 0
    DERIVED = 1
    ESTIMATED = 2
    UNFINISHED = 3


class Phase(IntEnum):
    """Phase of inference; -1 where the format does not say."""

    PROMPT = 0
    GENERATE = 1


class AccessKind(IntEnum):
    """Direction of an access."""

    READ = 0
    WRITE = 1


class Space(IntEnum):
    """Where the bytes of an access live."""

    FILE = 0
    """A weight of the model file ("DISK")."""
    BUFFER = 1
    """A runtime buffer ("BUFFER")."""
    DRAM = 2
    SPM = 3
    UNKNOWN = 4


class CounterShape(IntEnum):
    """How a counter's samples are meant."""

    LEVEL = 0
    """Holds until the next sample."""
    RATE = 1
    """Amount within a window of known width."""
    DELTA = 2
    """Change at an instant."""


def quality_of(flags: Array) -> npt.NDArray[np.uint8]:
    """Return the `Quality` of each span from its flags, uint8[n]."""
    bits = np.asarray(flags)
    result = np.zeros(bits.shape, np.uint8)
    inferred = SpanFlag.INFERRED_START | SpanFlag.INFERRED_END
    result[(bits & int(inferred)) != 0] = Quality.DERIVED
    result[(bits & int(SpanFlag.ESTIMATED)) != 0] = Quality.ESTIMATED
    result[(bits & int(SpanFlag.UNFINISHED)) != 0] = Quality.UNFINISHED
    return result


def empty(dtype: npt.DTypeLike) -> Array:
    """Return a read-only array without rows."""
    array = np.zeros(0, dtype)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Intervals on lanes, one row each.

    Attributes
    ----------
    start, end : int64[n], ticks, ``start <= end``; end is exclusive.
    lane : id in ``Trace.lanes``.
    name : string id of what people read (destination tensor, tile, graph).
    op : raw op number, named by ``Trace.ops``; -1 where the span is no op
        (graph, token, phase, stall).
    flags : uint16[n] or uint8[n], `SpanFlag`.
    tensor : row of ``Trace.tensors``.
    token : token number as the file claims it.
    layer : transformer layer.
    phase : int8, `Phase`; -1 unknown.
    record : row number in the file's own terms, for ``Trace.records``; None
        where span i is record i.
    color : uint32[n] 0xRRGGBB + 0xFF000000 as the file asks for, 0 = none.

    Notes
    -----
    The row number is the span's id, for ever. Rows need not be sorted; readers
    that can write all spans of a lane next to each other in start order, which
    lets ``analysis.rows`` use them without a copy.
    """

    start: I64
    end: I64
    lane: Array
    name: Array
    op: Array
    flags: Array
    tensor: Array | None = None
    token: Array | None = None
    layer: Array | None = None
    phase: Array | None = None
    record: Array | None = None
    color: Array | None = None

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class Markers:
    """Instants, one row each.

    Attributes
    ----------
    time : int64[n], ticks.
    lane : id in ``Trace.lanes``.
    name : string id.
    detail : string id of further text (JSON or "key=value, …"), -1 none.
    flags : uint16[n].
    record : as in `Spans`; -1 unknown.
    """

    time: I64
    lane: Array
    name: Array
    detail: Array
    flags: Array
    record: Array | None = None

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, slots=True, eq=False)
class AccessColumns:
    """What was touched, without when: equally long columns.

    Attributes
    ----------
    tensor : row of ``Trace.tensors``; -1 unknown.
    kind : uint8, `AccessKind`.
    space : uint8, `Space`.
    offset : int64, byte offset in the model file (FILE), in the buffer or the
        address (DRAM, SPM); -1 unknown.
    size : int64, bytes; -1 unknown.
    buffer : row of ``Trace.buffers``; -1 none.
    layer : of the access itself (not of the span); -1 none.
    expert : -1 none.
    address : uint64, raw pointer; 0 none. Nobody computes with it.
    """

    tensor: Array
    kind: Array
    space: Array
    offset: I64
    size: I64
    buffer: Array
    layer: Array
    expert: Array
    address: Array

    def __len__(self) -> int:
        return len(self.tensor)

    def take(self, rows: Array) -> "AccessColumns":
        """Return the given rows."""
        return AccessColumns(*(getattr(self, f.name)[rows] for f in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class FlatAccesses:
    """Accesses with their time and context, one row each."""

    time: I64
    lane: Array
    span: I64
    token: Array
    what: AccessColumns

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """All accesses of a trace, dictionary-encoded.

    An inference run does the same accesses once per token, so spans refer to
    *patterns*: span i makes the accesses
    ``patterns[first[p] : first[p + 1]]`` with ``p = pattern[i]``, at the span's
    start. That costs 1 to 4 bytes per span instead of about 50 per access. Accesses
    that belong to no span (NPU memory events) are in `loose`.

    Attributes
    ----------
    pattern : int32[n_spans] or narrower, -1 = the span accesses nothing.
    first : int64[n_patterns + 1], ascending, first[0] == 0.
    patterns : `AccessColumns` of ``first[-1]`` rows.
    loose : accesses with a time of their own.
    """

    pattern: Array
    first: I64
    patterns: AccessColumns
    loose: FlatAccesses

    def __len__(self) -> int:
        return int(self.counts().sum()) + len(self.loose)

    def counts(self) -> I64:
        """Return the number of accesses of each span, int64[n_spans]."""
        return self.per_span(np.diff(self.first))

    def bytes_read_written(self) -> I64:
        """Return the known bytes that each span accesses, int64[n_spans]."""
        size = np.maximum(self.patterns.size.astype(np.int64), 0)
        total = np.concatenate([[0], np.cumsum(size)])
        return self.per_span(total[self.first[1:]] - total[self.first[:-1]])

    def per_span(self, per_pattern: Array) -> Array:
        """Spread one value per pattern over the spans; 0 where a span has none."""
        padded = np.append(per_pattern, per_pattern.dtype.type(0))
        return padded[self.pattern]

    def of_span(self, span: int) -> AccessColumns:
        """Return the accesses of one span, in the order of the file."""
        p = int(self.pattern[span]) if len(self.pattern) else -1
        rows = np.arange(self.first[p], self.first[p + 1]) if p >= 0 else np.arange(0)
        return self.patterns.take(rows)

    def spans_touching(self, pattern_rows: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Return bool[n_spans]: spans with at least one of the marked pattern rows.

        `pattern_rows` is bool[len(patterns)].
        """
        total = np.concatenate([[0], np.cumsum(pattern_rows)])
        hit = total[self.first[1:]] > total[self.first[:-1]]
        return np.append(hit, False)[self.pattern]

    def flat(self, spans: Spans, ids: Array | None = None) -> FlatAccesses:
        """Return the accesses of spans `ids` (all: None) as one row each.

        The result grows with the accesses asked for: call it on a slice, not
        on 33 million spans. Loose accesses are appended where `ids` is None.
        """
        chosen = np.arange(len(spans)) if ids is None else np.asarray(ids)
        pattern = self.pattern[chosen]
        chosen, pattern = chosen[pattern >= 0], pattern[pattern >= 0]
        n = np.diff(self.first)[pattern]
        span = np.repeat(chosen, n).astype(np.int64)
        begin = np.repeat(self.first[pattern] - (np.cumsum(n) - n), n)
        what = self.patterns.take(begin + np.arange(len(span)))
        token = (
            np.full(len(span), -1, np.int32)
            if spans.token is None
            else spans.token[span].astype(np.int32)
        )
        part = FlatAccesses(
            spans.start[span], spans.lane[span].astype(np.int32), span, token, what
        )
        return (
            part
            if ids is not None or not len(self.loose)
            else _joined(part, self.loose)
        )


def _joined(a: FlatAccesses, b: FlatAccesses) -> FlatAccesses:
    what = AccessColumns(
        *(
            np.concatenate([getattr(a.what, f.name), getattr(b.what, f.name)])
            for f in fields(AccessColumns)
        )
    )
    return FlatAccesses(
        np.concatenate([a.time, b.time]),
        np.concatenate([a.lane, b.lane]),
        np.concatenate([a.span, b.span]),
        np.concatenate([a.token, b.token]),
        what,
    )


@dataclass(frozen=True, slots=True, eq=False)
class CounterSeries:
    """Samples of one quantity.

    Attributes
    ----------
    time : int64[n], ticks, non-decreasing; for RATE the start of the window.
    value : float64[n], NaN = unknown.
    window : int64[n] width in ticks for RATE, else None.
    """

    id: int
    name: str
    lane: int
    unit: str
    shape: CounterShape
    time: I64
    value: npt.NDArray[np.float64]
    window: I64 | None = None

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """Dependencies between spans: source before target."""

    source: I64
    target: I64

    def __len__(self) -> int:
        return len(self.source)


def no_access_columns(n: int = 0) -> AccessColumns:
    """Return `n` rows of "unknown"."""
    return AccessColumns(
        tensor=np.full(n, -1, np.int32),
        kind=np.zeros(n, np.uint8),
        space=np.full(n, Space.UNKNOWN, np.uint8),
        offset=np.full(n, -1, np.int64),
        size=np.full(n, -1, np.int64),
        buffer=np.full(n, -1, np.int32),
        layer=np.full(n, -1, np.int16),
        expert=np.full(n, -1, np.int16),
        address=np.zeros(n, np.uint64),
    )


def no_flat_accesses() -> FlatAccesses:
    """Return a table without rows."""
    return FlatAccesses(
        empty(np.int64),
        empty(np.int32),
        empty(np.int64),
        empty(np.int32),
        no_access_columns(),
    )


def no_accesses(n_spans: int) -> Accesses:
    """Return the accesses of `n_spans` spans that access nothing."""
    return Accesses(
        np.full(n_spans, -1, np.int32),
        np.zeros(1, np.int64),
        no_access_columns(),
        no_flat_accesses(),
    )


def freeze(table: object) -> None:
    """Mark every array of a table (and of the tables inside it) read-only."""
    for f in fields(table):  # type: ignore[arg-type]  # tables are dataclasses
        value = getattr(table, f.name)
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        elif hasattr(value, "__dataclass_fields__"):
            freeze(value)


def distinct(values: Array) -> Array:
    """Return the different integers in ascending order.

    Values close together are ticked off in a table, others sorted. ``np.unique``
    hashes in newer numpy: ten times slower here, and it holds the interpreter lock
    all the while.
    """
    if not len(values):
        return values
    low = int(values.min())
    width = int(values.max()) - low + 1
    if width <= 4 * len(values) + 1024:
        is_there = np.zeros(width, np.bool_)
        is_there[values - values.dtype.type(low)] = True
        # Unsigned numbers may be beyond what the type of positions holds.
        found: Array = np.flatnonzero(is_there).astype(values.dtype)
        found += values.dtype.type(low)
        return found
    ranked: Array = np.sort(values)
    is_first: Array = np.concatenate([[True], ranked[1:] != ranked[:-1]])
    return np.asarray(ranked[is_first])


def narrow(values: Array, widest: npt.DTypeLike = np.int64) -> Array:
    """Return `values` in the narrowest signed integer dtype that holds them."""
    if not len(values):
        return values.astype(np.int8)
    low, high = int(values.min()), int(values.max())
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return values.astype(dtype, copy=False)
    return values.astype(widest, copy=False)


__all__: Sequence[str] = [
    "I64",
    "AccessColumns",
    "AccessKind",
    "Accesses",
    "Array",
    "CounterSeries",
    "CounterShape",
    "FlatAccesses",
    "Flows",
    "Markers",
    "Phase",
    "Quality",
    "Space",
    "SpanFlag",
    "Spans",
    "distinct",
    "empty",
    "freeze",
    "narrow",
    "no_access_columns",
    "no_accesses",
    "no_flat_accesses",
    "quality_of",
]
