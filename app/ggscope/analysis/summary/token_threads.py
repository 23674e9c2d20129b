"""How threads spend the time of each token: work, waits at barriers, idle time."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.summary.barriers import known_waits
from ggscope.analysis.summary.bars import TokenBars, token_bars
from ggscope.analysis.summary.partial import hidden_graphs, hidden_ops
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64, NO_WAIT, Quality, quality_of
from ggscope.model.trace import LaneKind, Trace, lane_titles
from ggscope.model.units import TimeRange

NO_TIMES = "times of ops are estimated or unfinished"
"""Why the work of a thread is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenThreads:
    """The time of threads, or engines, within each token; times in ticks.

    Attributes
    ----------
    bars : tokens, ubatches or graph passes whose begin and end are known.
    lanes : names of the threads that compute.
    busy : int64[n_bars, n_lanes], while any op of a thread runs; None where the
        recording leaves ops out, and where no op of one has a known time.
    wait : int64[n_bars, n_lanes], recorded waits; None where none are recorded, and
        where `busy` is.
    idle : int64[n_bars, n_lanes], the rest; None where it is not known.
    hidden_idle, hidden_work : why idle time, or work and waits, are not known; ""
        where they are.
    """

    bars: TokenBars
    lanes: tuple[str, ...]
    busy: I64 | None
    wait: I64 | None
    idle: I64 | None
    hidden_idle: str = ""
    hidden_work: str = ""

    def __len__(self) -> int:
        return len(self.bars)


def token_threads(
    trace: Trace,
    time: TimeRange | None = None,
    *,
    limit: int | None = None,
    watcher: Watcher | None = None,
) -> TokenThreads:
    """Return the times of threads within each token, in the order of time.

    Raises Cancelled from the watcher.

    Parameters
    ----------
    time : only tokens that lie in it as a whole; None = all.
    limit : only so many, the slowest; None = all.

    Notes
    -----
    O(n log n) in spans. Spans whose begin or end is not known are left out.
    """
    bars = token_bars(trace)
    chosen = bars.is_timed
    if time is not None:
        chosen &= (bars.start >= time.start) & (bars.end <= time.end)
    rows = np.flatnonzero(chosen)
    if limit is not None and len(rows) > limit:
        slowest = np.argsort(-bars.duration[rows], kind="stable")[:limit]
        rows = np.sort(rows[slowest])
    bars = bars.take(rows)
    lanes = _computing_lanes(trace)
    shape = (len(bars), len(lanes))
    busy, wait = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    has_derived = has_waits = has_untimed = False
    for column, lane in enumerate(lanes):
        if watcher is not None:
            watcher.progress(column, len(lanes))
        ids = _timed_ops(trace, lane)
        has_untimed = has_untimed or not len(ids)
        begin, end = trace.spans.start[ids], trace.spans.end[ids]
        quality = quality_of(trace.spans.flags[ids])
        has_derived = has_derived or bool((quality > Quality.MEASURED).any())
        busy[:, column] = _within(bars, *_union(begin, end))
        if trace.spans.wait is not None:
            has_waits = has_waits or bool((trace.spans.wait[ids] != NO_WAIT).any())
            wait[:, column] = _within(bars, end, end + known_waits(trace, ids))
    hidden_work = hidden_ops(trace) or (NO_TIMES if has_untimed else "")
    hidden = hidden_graphs(trace) or hidden_work
    if has_derived and not hidden:
        hidden = "derived times end at the next record, so idle time is not seen"
    idle = np.maximum(bars.duration[:, None] - busy - wait, 0)
    titles = lane_titles(trace.lanes)
    return TokenThreads(
        bars,
        tuple(titles[lane] for lane in lanes),
        None if hidden_work else busy,
        wait if has_waits and not hidden_work else None,
        None if hidden else idle,
        hidden,
        hidden_work,
    )


def _computing_lanes(trace: Trace) -> list[int]:
    """Return the threads that compute ops, or else the engines with spans."""
    spans, n = trace.spans, len(trace.lanes)
    is_thread = trace.lanes.is_thread
    counts = np.bincount(spans.lane[spans.op >= 0], minlength=n)
    lanes = np.flatnonzero(is_thread & (counts > 0))
    if len(lanes) or is_thread.any():
        return lanes.tolist()
    counts = np.bincount(spans.lane, minlength=n)
    is_engine = trace.lanes.of_kind(LaneKind.ENGINE)
    return np.flatnonzero(is_engine & (counts > 0)).tolist()


def _timed_ops(trace: Trace, lane: int) -> I64:
    """Return the spans of a lane whose begin and end are known; of threads, ops."""
    spans = trace.spans
    chosen = spans.lane == lane
    if trace.lanes.kinds[lane] == LaneKind.THREAD:
        chosen &= spans.op >= 0
    chosen &= quality_of(spans.flags) <= Quality.DERIVED
    return np.flatnonzero(chosen)


def _union(start: I64, end: I64) -> tuple[I64, I64]:
    """Return begins and ends of the times that any of some spans takes."""
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    is_new = np.ones(len(start), np.bool_)
    is_new[1:] = start[1:] > reach[:-1]
    last = np.append(np.flatnonzero(is_new)[1:] - 1, len(start) - 1)
    return start[is_new], reach[last[: int(is_new.sum())]]


def _within(bars: TokenBars, start: I64, end: I64) -> I64:
    """Return how much of some intervals lies in each bar, summed up, int64[n]."""
    begins, ends = np.sort(start), np.sort(end)
    sums = tuple(np.append(0, np.cumsum(times)) for times in (begins, ends))

    def until(tick: I64) -> I64:
        """Return how much of them lies before each tick."""
        # Σ max(t - begin, 0) - Σ max(t - end, 0); what overflows in one does so in
        # the other, and the difference is right.
        parts = []
        for times, before in zip((begins, ends), sums, strict=True):
            n = np.searchsorted(times, tick, "right")
            parts.append(n * tick - before[n])
        covered: I64 = parts[0] - parts[1]
        return covered

    return until(bars.end) - until(bars.start)
