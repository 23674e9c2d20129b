"""How busy lanes are: work, waits at barriers, idle time; and who is waited for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ggscope.analysis.cores import CoreUse, core_use
from ggscope.analysis.statistics.nesting import covered
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.statistics.table import stat_table
from ggscope.analysis.summary.barriers import (
    CoreSharing,
    SharedOps,
    WaitedFor,
    barriers,
    shared_ops,
)
from ggscope.analysis.summary.op_imbalance import OpImbalance, op_imbalance
from ggscope.analysis.summary.partial import (
    hidden_graphs,
    hidden_ops,
    hidden_threads,
)
from ggscope.analysis.summary.thread_estimate import (
    NoEstimate,
    Reason,
    ThreadEstimate,
    thread_estimate,
)
from ggscope.analysis.workers import add_by_group
from ggscope.model.selection import By
from ggscope.model.tables import NO_WAIT, Quality, quality_of
from ggscope.model.trace import Lane, LaneKind, Trace, lane_titles
from ggscope.model.units import TimeRange

_NO_THREADS = NoEstimate(Reason.NO_THREADS)


@dataclass(frozen=True, slots=True)
class LaneTimes:
    """How the time of a thread or an engine is spent, in ticks.

    Attributes
    ----------
    name : of the lane, unlike all others.
    busy : while any of its spans runs; None where no time is known.
    wait : recorded waits at barriers; None where the trace records none.
    idle : the rest of the range; None where `busy` is, and where the recording leaves
        out what may have run then.
    is_measured : whether all begins and ends are; a derived end is the begin of the
        next record, so that idle time between cannot be seen.
    """

    name: str
    busy: int | None
    wait: int | None
    idle: int | None
    is_measured: bool


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """The times of all lanes that compute.

    Attributes
    ----------
    kind : `LaneKind.THREAD` or `LaneKind.ENGINE`; None without either.
    lanes : in the order of the trace.
    duration : ticks of the range that the times are of.
    n_barriers : ops that several threads computed together, and that ended in the
        range; None where no waits are recorded or the spans of an op are not found.
    last : who came last at these, most waited for first.
    by_op : how evenly threads share the work of each kind of op; None where the spans
        of an op are not found, or threads or times are not known.
    cores : by the name of the lane, where they are recorded.
    sharing : how threads that compute an op share cores; None where that is not known.
    estimate : what one thread more or fewer would do, or why that is not known.
    hidden_idle, hidden_work : why idle time, or work of threads, is not known, as the
        recording leaves something out; "" where it is known.
    """

    kind: LaneKind | None
    lanes: tuple[LaneTimes, ...]
    duration: int
    n_barriers: int | None = None
    last: tuple[WaitedFor, ...] = ()
    by_op: tuple[OpImbalance, ...] | None = None
    cores: Mapping[str, CoreUse] = field(default_factory=dict)
    hidden_idle: str = ""
    hidden_work: str = ""
    estimate: ThreadEstimate | NoEstimate = _NO_THREADS
    sharing: CoreSharing | None = None

    @property
    def n_cores(self) -> int:
        """Number of different cores on which threads were seen; 0 = not recorded."""
        return len({core for use in self.cores.values() for core in use.cores})

    def waited_for(self, name: str) -> WaitedFor | None:
        """Return how often a lane came last; None where barriers are not known."""
        if self.n_barriers is None:
            return None
        times = (one for one in self.last if one.name == name)
        return next(times, WaitedFor(name, 0, 0))

    @property
    def imbalance(self) -> float | None:
        """How much busier the busiest lane is than the mean, 0 = even; None unknown.

        Of threads alone: engines of an NPU do different work. Derived ends make all
        threads look alike.
        """
        busy = [lane.busy for lane in self.lanes]
        known = [ticks for ticks in busy if ticks is not None]
        if self.kind is not LaneKind.THREAD or len(known) < 2 or len(known) < len(busy):
            return None
        if self.hidden_work:
            return None
        if not all(lane.is_measured for lane in self.lanes) or not sum(known):
            return None
        return max(known) * len(known) / sum(known) - 1

    @property
    def waiting(self) -> float | None:
        """Recorded waits as a share of work and waits of all threads; None unknown."""
        waits = [lane.wait for lane in self.lanes if lane.wait is not None]
        busy = [lane.busy for lane in self.lanes if lane.busy is not None]
        whole = sum(waits) + sum(busy)
        return sum(waits) / whole if waits and whole else None


def thread_times(
    trace: Trace, time: TimeRange | None = None, blocks: SpanBlocks | None = None
) -> ThreadTimes:
    """Return work, waits and idle time of threads, or of engines.

    Parameters
    ----------
    time : the range that the times are of; None = all. Spans that it cuts count with
        their part inside.
    """
    shown = trace.extent if time is None else time
    for kind in (LaneKind.THREAD, LaneKind.ENGINE):
        if trace.lanes.of_kind(kind).any():
            break
    else:
        return ThreadTimes(None, (), shown.duration)
    if time is None:
        lanes = _of_all(trace, kind, blocks)
    else:
        lanes = _of_range(trace, kind, time)
    hidden_idle = hidden_graphs(trace) or hidden_ops(trace)
    if hidden_idle:
        lanes = [replace(lane, idle=None) for lane in lanes]
    if kind is not LaneKind.THREAD:
        return ThreadTimes(kind, tuple(lanes), shown.duration, hidden_idle=hidden_idle)
    titles = lane_titles(trace.lanes)
    cores = {titles[lane]: use for lane, use in core_use(trace, time).items()}
    hidden_work = hidden_ops(trace) or hidden_threads(trace)
    ops = shared_ops(trace)
    n_barriers, last = (None, ()) if ops is None else barriers(trace, time, ops)
    by_op = None
    is_measured = all(lane.is_measured for lane in lanes)
    if ops is not None and is_measured and not hidden_threads(trace):
        by_op = op_imbalance(trace, ops.ending_in(time))
    times = ThreadTimes(
        kind, tuple(lanes), shown.duration, n_barriers, last, by_op, cores,
        hidden_idle, hidden_work,
    )  # fmt: skip
    sharing = None if ops is None else ops.ending_in(time).sharing()
    estimate = _estimate(trace, times, ops, time)
    return replace(times, estimate=estimate, sharing=sharing)


def _estimate(
    trace: Trace, times: ThreadTimes, ops: SharedOps | None, time: TimeRange | None
) -> ThreadEstimate | NoEstimate:
    """Return what one thread more or fewer would do, or why that is not known."""
    if trace.spans.wait is None:
        return NoEstimate(Reason.NO_WAITS)
    if hidden_threads(trace):
        return NoEstimate(Reason.THREADS_LEFT_OUT)
    if not all(lane.is_measured for lane in times.lanes):
        return NoEstimate(Reason.DERIVED_TIMES)
    if ops is None:
        return NoEstimate(Reason.TOO_LONG)
    return thread_estimate(trace, ops.ending_in(time), len(times.lanes), times.n_cores)


def lane_times(
    trace: Trace, time: TimeRange, *, without: int = -1
) -> tuple[LaneTimes, ...]:
    """Return the times of threads, or of engines, within a range.

    Idle time that the recording may hide is None.

    Parameters
    ----------
    without : a lane that is left out.
    """
    for kind in (LaneKind.THREAD, LaneKind.ENGINE):
        if trace.lanes.of_kind(kind).any():
            break
    else:
        return ()
    lanes = _of_range(trace, kind, time)
    titles = lane_titles(trace.lanes)
    left_out = titles[without] if without >= 0 else None
    hides_idle = bool(hidden_graphs(trace) or hidden_ops(trace))
    return tuple(
        replace(lane, idle=None) if hides_idle else lane
        for lane in lanes
        if lane.name != left_out
    )


def _of_all(trace: Trace, kind: LaneKind, blocks: SpanBlocks | None) -> list[LaneTimes]:
    """Return the times of all lanes of a kind that have spans."""
    by: By = "thread" if kind is LaneKind.THREAD else "engine"
    rows = {row.key: row for row in stat_table(trace, by, blocks=blocks).rows}
    titles, duration = lane_titles(trace.lanes), trace.extent.duration
    lanes = []
    for i in np.flatnonzero(trace.lanes.of_kind(kind)).tolist():
        if (row := rows.get(titles[i])) is None:
            continue
        is_measured = row.quality == Quality.MEASURED.word
        busy = row.wall if row.timed else None
        lanes.append(_times(titles[i], duration, busy, row.wait, is_measured))
    return lanes


def _of_range(trace: Trace, kind: LaneKind, time: TimeRange) -> list[LaneTimes]:
    """Return the times within a range of all lanes of a kind that have spans."""
    spans, n = trace.spans, len(trace.lanes)
    is_requested = trace.lanes.of_kind(kind)[spans.lane]
    if kind is LaneKind.THREAD:
        is_requested &= spans.op >= 0
    n_spans = np.bincount(spans.lane[is_requested], minlength=n)
    is_timed = is_requested & (quality_of(spans.flags) <= Quality.DERIVED)
    n_timed = np.bincount(spans.lane[is_timed], minlength=n)
    n_waits = np.zeros(n, np.int64)
    if spans.wait is not None:
        is_waiting = is_requested & (spans.wait != NO_WAIT)
        n_waits = np.bincount(spans.lane[is_waiting], minlength=n)
    # A wait lies behind its span, so a span before the range may have one within.
    ids = np.flatnonzero(is_requested & (spans.start < time.end))
    end = spans.end[ids].astype(np.int64)
    wait = np.zeros(len(ids), np.int64)
    if spans.wait is not None:
        wait = np.where(spans.wait[ids] == NO_WAIT, 0, spans.wait[ids])
        wait = wait.astype(np.int64)
    inside = end + wait > time.start
    ids, end, wait = ids[inside], end[inside], wait[inside]
    lane, touches = spans.lane[ids].astype(np.int64), end > time.start
    quality = quality_of(spans.flags[ids])
    timed = (quality <= Quality.DERIVED) & touches
    low = np.maximum(spans.start[ids], time.start)
    busy = covered(lane[timed], low[timed], np.minimum(end, time.end)[timed], n)
    waited = np.zeros(n, np.int64)
    cut = np.minimum(end + wait, time.end) - np.clip(end, time.start, time.end)
    add_by_group(waited, lane, np.maximum(cut, 0))
    has_timed = np.bincount(lane[timed], minlength=n) > 0
    # Busy for no time at all is known only where nothing untimed runs.
    is_free = np.bincount(lane[touches], minlength=n) == 0
    is_known = (n_timed > 0) & (has_timed | is_free)
    has_derived = np.bincount(lane[timed & (quality > Quality.MEASURED)], minlength=n)
    titles = lane_titles(trace.lanes)
    return [
        _times(
            titles[i],
            time.duration,
            int(busy[i]) if is_known[i] else None,
            int(waited[i]) if n_waits[i] else None,
            not has_derived[i],
        )
        for i in np.flatnonzero(n_spans).tolist()
    ]


def _times(
    name: str, duration: int, busy: int | None, wait: int | None, is_measured: bool
) -> LaneTimes:
    idle = None if busy is None else max(duration - busy - (wait or 0), 0)
    return LaneTimes(name, busy, wait, idle, is_measured)


def lane_of(trace: Trace, name: str) -> Lane | None:
    """Return the lane with a title, see ``model.trace.lane_titles``."""
    titles = lane_titles(trace.lanes)
    return trace.lanes[titles.index(name)] if name in titles else None
