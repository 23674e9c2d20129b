"""Early pictures of a long ``.ggmlviz`` file: when, and what is in them."""

import time

import numpy as np

from ggscope.model.tables import I64
from ggscope.model.time import TimeRange
from ggscope.readers.ggmlviz_events import Events
from ggscope.readers.ggmlviz_layouts import DAY_NS, ZERO_RUN
from ggscope.readers.ggmlviz_ops import IntervalFlag
from ggscope.readers.ggmlviz_pairing import Intervals
from ggscope.readers.ggmlviz_resync import first_in
from ggscope.readers.ggmlviz_walk import Walk
from ggscope.readers.ggmlviz_window import Window
from ggscope.readers.source import Source

PENDING = frozenset({"spans", "names", "accesses"})

FIRST_S = 0.1
MOST = 4
"""One part in so many of the events is the most that is shown early: each picture
costs as much as finishing so many events does, and is thrown away."""

_TAIL_BYTES = 1 << 16


class Stages:
    """Decides when an early picture is worth its cost.

    Parameters
    ----------
    n_events : about how many there are.
    """

    def __init__(self, n_events: int, *, enabled: bool) -> None:
        self._most = n_events // MOST
        self._next_s = time.monotonic() + FIRST_S if enabled else float("inf")
        self._shown = 0

    def n_due(self, n_read: int) -> int:
        """Return how many events to show now; 0 for none."""
        if time.monotonic() < self._next_s:
            return 0
        n = min(n_read, self._most)
        if n < max(2 * self._shown, 1):
            return 0
        self._shown = n
        return n


def known_part(events: Events, intervals: Intervals) -> tuple[Intervals, int]:
    """Return the intervals that later events cannot change, and up to which ns.

    What is still open ends there for now. Ops may begin before their own begin event
    where they share the time of a graph, so nothing is known of open graphs.
    """
    time = events.time
    until = int(time.max())
    if len(events.backward):
        # Events to come may be as late as those so far.
        until -= int((np.maximum.accumulate(time) - time).max())
    if intervals.open_from is not None:
        until = min(until, intervals.open_from)
    part = intervals.take(np.flatnonzero(time[intervals.begin] < until))
    is_open = part.has(IntervalFlag.UNFINISHED)
    part.end[is_open] = np.minimum(part.end[is_open], until)
    ends = part.stray_ends
    return part.with_strays(ends[time[ends] < until]), until


def last_time(
    source: Source, walk: Walk, events: Events, origin: int
) -> TimeRange | None:
    """Return the time of the whole file, told from its end; None if it is not clear.

    Only a run of sound events that leads to the very end, with times that belong to
    those read so far, is believed.
    """
    window = Window(source, walk.end, _TAIL_BYTES)
    begin = max(walk.end - _TAIL_BYTES, 0)
    window.cover(begin, walk.end)
    tail = Walk(window, walk.layout, walk.max_label)
    middle = int(np.median(events.time[:ZERO_RUN]))
    found = first_in(tail, begin, window.end, middle)
    if found is None:
        return None
    starts, end, _ = tail.slowly(found, window.end)
    stamps: I64 = tail.stamps(starts)
    is_near = (abs(stamps - np.int64(middle)) <= DAY_NS) & (stamps > 0)
    if end < walk.end - tail.reach or not is_near.all():
        return None
    return TimeRange(0, max(int(stamps.max()) - origin, 0))
