"""When each engine of an NPU works, stalls and idles; and what it moves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.npu.intervals import Union, union
from ggscope.analysis.once import once
from ggscope.model.tables import I64, AccessKind, Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

F64 = npt.NDArray[np.float64]
UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Engines:
    """Engines, and masters of which only stalls are recorded, in the order of lanes.

    Attributes
    ----------
    names : of each, such as "TE 0".
    kinds : of each: DMA, TE, VE ….
    lane : int64[n], of its spans; -1 where only its stalls are recorded.
    stall_lane : int64[n], of its stalls; -1 where none is recorded.
    count : int64[n], spans with a known time.
    busy : when at least one of its spans runs, by engine.
    stalled : when at least one of its stalls lasts.
    either : when one or the other.
    extent : of the trace.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    lane: I64
    stall_lane: I64
    count: I64
    busy: Union
    stalled: Union
    either: Union
    extent: TimeRange

    def __len__(self) -> int:
        return len(self.names)

    def ticks(
        self, begin: I64, stop: I64, rows: Sequence[int] | None = None
    ) -> tuple[I64, I64, I64]:
        """Return how long engines work, stall and idle in each stretch of time.

        Parameters
        ----------
        begin, stop : int64[k], ticks, half-open.
        rows : engines; None = all.

        Returns
        -------
        Three int64[n, k] whose sum is the length of the stretches: working is without
        stalls, and time of a stall counts as stalled whether a span runs or not. Of a
        master without spans what is not stalled is idle.
        """
        rows = range(len(self)) if rows is None else rows
        shape = (len(rows), len(begin))
        stalled, either = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for i, row in enumerate(rows):
            stalled[i] = self.stalled.covered(row, begin, stop)
            either[i] = self.either.covered(row, begin, stop)
        return either - stalled, stalled, stop - begin - either


@once
def engines_of(trace: Trace) -> Engines:
    """Return the engines of a trace and when they work; O(n log n) of their spans."""
    lanes, spans = trace.lanes, trace.spans
    own = np.flatnonzero(lanes.is_engine)
    stalls = np.flatnonzero(lanes.is_stall)
    row_of_lane = np.full(len(lanes) + 1, -1, np.int64)
    row_of_lane[own] = np.arange(len(own))
    row_of_stall = np.full(len(lanes) + 1, -1, np.int64)
    names, kinds = _names(trace, own), _kinds(trace, own)
    stall_lane = np.full(len(own), -1, np.int64)
    alone: list[int] = []
    for lane in stalls.tolist():
        over = lanes.attributes[lane].get("over", "")
        row = int(row_of_lane[int(over)]) if over.isdecimal() else -1
        if row >= 0:
            stall_lane[row] = lane
        else:
            row = len(own) + len(alone)
            alone.append(lane)
        row_of_stall[lane] = row
    only = np.array(alone, np.int64)
    n = len(own) + len(alone)
    known = quality_of(spans.flags) <= Quality.DERIVED
    lane_of = spans.lane.astype(np.int64)
    work = np.flatnonzero(known & (row_of_lane[lane_of] >= 0))
    held = np.flatnonzero(known & (row_of_stall[lane_of] >= 0))
    work_row, held_row = row_of_lane[lane_of[work]], row_of_stall[lane_of[held]]
    both, both_row = np.concatenate([work, held]), np.concatenate([work_row, held_row])
    return Engines(
        names + tuple(n.removesuffix(" stalls") for n in _names(trace, only)),
        kinds + _kinds(trace, only),
        np.concatenate([own, np.full(len(only), -1, np.int64)]),
        np.concatenate([stall_lane, only]),
        np.bincount(work_row, minlength=n).astype(np.int64),
        union(work_row, spans.start[work], spans.end[work], n),
        union(held_row, spans.start[held], spans.end[held], n),
        union(both_row, spans.start[both], spans.end[both], n),
        trace.extent,
    )


def _names(trace: Trace, lanes: I64) -> tuple[str, ...]:
    return tuple(trace.lanes.names[lane] for lane in lanes.tolist())


def _kinds(trace: Trace, lanes: I64) -> tuple[str, ...]:
    attributes = trace.lanes.attributes
    names = trace.lanes.names
    return tuple(
        attributes[lane].get("engine", names[lane].split(" ")[0])
        for lane in lanes.tolist()
    )


@dataclass(frozen=True, slots=True, eq=False)
class Concurrency:
    """How many spans of a kind of engine run at once at most.

    Attributes
    ----------
    maximum : spans that run at once.
    time : when that first is so, for the first time; None without spans.
    """

    kind: str
    maximum: int
    time: TimeRange | None


def concurrency(trace: Trace) -> tuple[Concurrency, ...]:
    """Return how many spans of each kind of engine run at once; O(n log n).

    Spans without length do not count.
    """
    engines, spans = engines_of(trace), trace.spans
    result = []
    for kind in dict.fromkeys(
        k
        for k, lane in zip(engines.kinds, engines.lane.tolist(), strict=True)
        if lane >= 0
    ):
        mine = [
            lane
            for k, lane in zip(engines.kinds, engines.lane.tolist(), strict=True)
            if k == kind and lane >= 0
        ]
        is_mine = np.isin(spans.lane, mine)
        result.append(_concurrency(kind, spans.start[is_mine], spans.end[is_mine]))
    return tuple(result)


def _concurrency(kind: str, start: I64, end: I64) -> Concurrency:
    some = end > start
    begins, ends = np.sort(start[some]), np.sort(end[some])
    if not len(begins):
        return Concurrency(kind, 0, None)
    open_at = np.arange(1, len(begins) + 1) - np.searchsorted(ends, begins, "right")
    at = int(np.argmax(open_at))
    until = int(ends[np.searchsorted(ends, begins[at], "right")])
    return Concurrency(kind, int(open_at[at]), TimeRange(int(begins[at]), until))


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """What engines move, of which the trace has three records; -1 = none recorded.

    Attributes
    ----------
    stated : int64[n], bytes that the spans of each engine state.
    read, written : int64[n], bytes of the memory accesses that name it.
    n_unknown : int64[n], accesses of it whose bytes are not stated.
    """

    stated: I64
    read: I64
    written: I64
    n_unknown: I64


@once
def moved_bytes(trace: Trace) -> Moved:
    """Return the bytes that each engine of `engines_of` moves."""
    engines, spans, loose = engines_of(trace), trace.spans, trace.accesses.loose
    n = len(engines)
    row_of_lane = np.full(len(trace.lanes) + 1, -1, np.int64)
    has_lane = engines.lane >= 0
    row_of_lane[engines.lane[has_lane]] = np.flatnonzero(has_lane)
    stated = np.full(n, UNKNOWN, np.int64)
    if spans.moved is not None:
        row = row_of_lane[spans.lane.astype(np.int64)]
        stated = _sums(row, spans.moved.astype(np.int64), n)
    row = row_of_lane[loose.lane.astype(np.int64)]
    size, kind = loose.what.size.astype(np.int64), loose.what.kind
    is_read = kind == AccessKind.READ
    unknown = (row >= 0) & (size < 0)
    return Moved(
        stated,
        _sums(np.where(is_read, row, -1), size, n),
        _sums(np.where(is_read, -1, row), size, n),
        np.bincount(row[unknown], minlength=n).astype(np.int64),
    )


def _sums(row: I64, size: I64, n: int) -> I64:
    """Return the sum of known sizes (>= 0) of each row; -1 where there is none."""
    some = (row >= 0) & (size >= 0)
    total, seen = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    np.add.at(total, row[some], size[some])
    seen[row[some]] = True
    return np.where(seen, total, UNKNOWN)


@dataclass(frozen=True, slots=True, eq=False)
class StallReason:
    """Stalls of one engine for one reason.

    Attributes
    ----------
    engine : row of `engines_of`.
    reason : as the file spells it.
    spans : int64[k], ids of the stalls.
    ticks : that they cover together, each counted once.
    """

    engine: int
    reason: str
    spans: I64
    ticks: int


@once
def stall_reasons(trace: Trace) -> tuple[StallReason, ...]:
    """Return what engines stall for, the longest first."""
    engines, spans = engines_of(trace), trace.spans
    row_of_lane = np.full(len(trace.lanes) + 1, -1, np.int64)
    has_lane = engines.stall_lane >= 0
    row_of_lane[engines.stall_lane[has_lane]] = np.flatnonzero(has_lane)
    row = row_of_lane[spans.lane.astype(np.int64)]
    ids = np.flatnonzero(row >= 0)
    n_names = len(trace.strings)
    key = row[ids] * (n_names + 1) + spans.name[ids].astype(np.int64) + 1
    keys, group = np.unique(key, return_inverse=True)
    ticks = union(group, spans.start[ids], spans.end[ids], len(keys)).totals
    order = np.argsort(group, kind="stable")
    parts = np.split(
        ids[order], np.cumsum(np.bincount(group, minlength=len(keys)))[:-1]
    )
    result = []
    for i, k in enumerate(keys.tolist()):
        engine, name = divmod(k, n_names + 1)
        reason = trace.strings[name - 1] if name else ""
        result.append(StallReason(engine, reason, parts[i], int(ticks[i])))
    return tuple(sorted(result, key=lambda r: (-r.ticks, r.engine, r.reason)))
