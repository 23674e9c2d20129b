"""What is around a wait or a gap: the op behind it, and what other threads did."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.summary.threads import LaneTimes, lane_times
from ggscope.analysis.workers import Watcher, chunks
from ggscope.model.tables import Array
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange


@dataclass(frozen=True, slots=True)
class PauseContext:
    """What is around a wait or a gap.

    Attributes
    ----------
    after : the first span of the lane that begins at its end or later; -1 = none.
    duration : ticks of it.
    others : how the other threads, or engines, spent its time.
    """

    after: int
    duration: int
    others: tuple[LaneTimes, ...]


def pause_context(
    trace: Trace, span: int, time: TimeRange, watcher: Watcher | None = None
) -> PauseContext:
    """Return what is around the time `time` behind a span; O(n). Raises Cancelled."""
    if watcher is not None:
        watcher.progress(0, 2)
    after = _first_from(trace, int(trace.spans.lane[span]), span, time.end)
    if watcher is not None:
        watcher.progress(1, 2)
    lane = int(trace.spans.lane[span])
    others = lane_times(trace, time, without=lane)
    return PauseContext(after, time.duration, others)


def _first_from(trace: Trace, lane: int, span: int, tick: int) -> int:
    """Return the first span of a lane that begins at `tick` or later; -1 = none.

    Of ops only, where `span` is of one: graphs lie around them.
    """
    spans = trace.spans
    is_op, best, begin = bool(spans.op[span] >= 0), -1, 0
    for rows in chunks(len(spans)):
        start: Array = spans.start[rows]
        hits = np.flatnonzero((spans.lane[rows] == lane) & (start >= tick))
        if is_op:
            hits = hits[spans.op[rows][hits] >= 0]
        hits = hits[hits + rows.start != span]
        if len(hits):
            first = int(hits[np.argmin(start[hits])])
            if best < 0 or int(start[first]) < begin:
                best, begin = first + rows.start, int(start[first])
    return best
