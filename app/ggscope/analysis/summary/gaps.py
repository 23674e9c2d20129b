"""Idle gaps of lanes, the longest first: from when to when, and between what."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.summary.partial import hidden_graphs, hidden_ops
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64, NO_WAIT, Quality, narrow, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Idle gaps, the longest first; equally long columns.

    Attributes
    ----------
    lane : int64[n], lane ids.
    start, end : int64[n], ticks; waits at barriers are no part of a gap.
    before, after : int64[n], the spans around each gap.
    n_all, total : number and ticks of all gaps, of which these are the longest.
    n_spans, n_derived, n_open : spans of these lanes that touch the range, those whose
        begin or end is derived, so that no idle time is seen there, and those whose
        times are estimated or whose end is missing, which border no gap.
    hidden : why gaps may not be idle time, as the recording leaves something out; "".
    """

    lane: I64
    start: I64
    end: I64
    before: I64
    after: I64
    n_all: int
    total: int
    n_spans: int = 0
    n_derived: int = 0
    n_open: int = 0
    hidden: str = ""

    def __len__(self) -> int:
        return len(self.lane)


def gaps(
    trace: Trace,
    time: TimeRange | None = None,
    *,
    lanes: npt.NDArray[np.bool_] | None = None,
    limit: int | None = 1000,
    watcher: Watcher | None = None,
) -> Gaps:
    """Return the gaps between the spans of threads, engines and commands.

    Parameters
    ----------
    time : gaps are cut at its ends, and those outside left out.
    lanes : bool[n_lanes], only these; None = all that compute.
    limit : only so many, the longest; None = all.

    Notes
    -----
    A lane is idle where none of its spans runs and no wait behind one is recorded; a
    thread that computes ops, where none of these runs.
    Spans whose end is not known are left out: what follows them is no gap that is
    known. O(n log n).
    """
    spans = trace.spans
    all_lanes = trace.lanes
    is_computing = all_lanes.is_thread | all_lanes.is_engine | all_lanes.is_command
    chosen = is_computing if lanes is None else lanes
    is_chosen = chosen[spans.lane]
    if (around := _around_ops(trace)) is not None:
        is_chosen &= ~around
    ids = np.flatnonzero(is_chosen)
    if watcher is not None:
        watcher.progress(0, 3)
    ids = _by_lane_and_start(trace, ids)
    lane, start, end = spans.lane[ids], spans.start[ids], spans.end[ids]
    if watcher is not None:
        watcher.progress(1, 3)
    if spans.wait is not None:
        wait = spans.wait[ids]
        end = end + np.where(wait == NO_WAIT, 0, wait).astype(np.int64)
    quality = quality_of(spans.flags[ids])
    is_open = quality > Quality.DERIVED
    inside = quality
    if time is not None:
        inside = quality[(start < time.end) & (end > time.start)]
    n_by_quality = np.bincount(inside, minlength=len(Quality))
    is_new = np.ones(len(ids), np.bool_)
    is_new[1:] = lane[1:] != lane[:-1]
    last, reached = _furthest(end, is_new)
    if watcher is not None:
        watcher.progress(2, 3)
    at = np.flatnonzero(~is_new)
    before = last[at - 1]
    low, high = reached[at - 1], start[at]
    known = ~is_open[before] & ~is_open[at] if is_open.any() else True
    if time is not None:
        low, high = np.maximum(low, time.start), np.minimum(high, time.end)
    is_gap = known & (high > low)
    at, before, low, high = at[is_gap], before[is_gap], low[is_gap], high[is_gap]
    length = high - low
    by_length = np.lexsort((lane[at], low, -length))
    rows = by_length if limit is None else by_length[:limit]
    return Gaps(
        lane[at[rows]].astype(np.int64),
        low[rows],
        high[rows],
        ids[before[rows]],
        ids[at[rows]],
        len(length),
        int(length.sum()),
        int(n_by_quality.sum()),
        int(n_by_quality[Quality.DERIVED]),
        int(n_by_quality[Quality.DERIVED + 1 :].sum()),
        hidden_graphs(trace) or hidden_ops(trace),
    )


def _around_ops(trace: Trace) -> npt.NDArray[np.bool_] | None:
    """Return which spans of lanes that compute ops are no ops; None = no span is."""
    spans = trace.spans
    if not len(spans) or int(spans.op.min()) >= 0:
        return None
    is_op = spans.op >= 0
    n_ops = np.bincount(spans.lane[is_op], minlength=len(trace.lanes))
    computes = trace.lanes.is_thread & (n_ops > 0)
    if spans.category is not None:  # annotations lie around kernels
        computes |= trace.lanes.is_engine & (n_ops > 0)
    return np.asarray(computes[spans.lane] & ~is_op, np.bool_)


def _by_lane_and_start(trace: Trace, ids: I64) -> I64:
    """Return spans lane by lane in the order of time; most traces have them so."""
    lane, start = trace.spans.lane[ids], trace.spans.start[ids]
    if (lane[1:] < lane[:-1]).any():
        order = np.argsort(narrow(lane), kind="stable")
        ids, lane, start = ids[order], lane[order], start[order]
    if ((lane[1:] == lane[:-1]) & (start[1:] < start[:-1])).any():
        return ids[np.lexsort((start, lane))]
    return ids


def _furthest(end: I64, is_new: npt.NDArray[np.bool_]) -> tuple[I64, I64]:
    """Return which span up to each reaches furthest in its lane, and how far.

    Of several that reach as far, the last: an op without an end may begin where another
    one ends.
    """
    if not len(end):
        return np.zeros(0, np.int64), end
    # Lanes are distinguished by adding a step that is larger than all times.
    low = int(end.min())
    step = int(end.max()) - low + 1
    lane = np.cumsum(is_new) - 1
    if step * (int(lane[-1]) + 1) < 1 << 62:
        ends = end - low + lane * step
        reached = np.maximum.accumulate(ends)
        place = np.where(ends == reached, np.arange(len(end)), 0)
        return np.maximum.accumulate(place), reached - lane * step + low
    reached, last = end.copy(), np.arange(len(end))
    edges = np.append(np.flatnonzero(is_new), len(end))
    for begin, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = np.maximum.accumulate(end[begin:stop])
        is_furthest = end[begin:stop] == part
        place = np.where(is_furthest, np.arange(begin, stop), begin)
        last[begin:stop], reached[begin:stop] = np.maximum.accumulate(place), part
    return last, reached
