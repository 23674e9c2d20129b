"""Processor cores: on which ones a thread ran, and how often it moved between them."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, Array, distinct
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange


@dataclass(frozen=True, slots=True)
class CoreUse:
    """What is recorded of the cores of one lane.

    Attributes
    ----------
    cores : numbers of the cores on which its spans began, ascending.
    migrations : how often a span began on another core than the one before it, of
        those whose core is recorded: the thread moved at least so often.
    """

    cores: tuple[int, ...]
    migrations: int


def core_use(trace: Trace, time: TimeRange | None = None) -> dict[int, CoreUse]:
    """Return what is recorded of the cores of each lane, by its number.

    Lanes of which no core is recorded are left out.

    Parameters
    ----------
    time : only spans that begin in it; None = all.

    Notes
    -----
    O(n) where the spans of each lane lie in the order of time, else O(n log n).
    """
    spans = trace.spans
    if spans.core is None:
        return {}
    is_known = spans.core >= 0
    if time is not None:
        is_known &= (spans.start >= time.start) & (spans.start < time.end)
    rows = np.flatnonzero(is_known)
    if not len(rows):
        return {}
    lane = spans.lane[rows]
    order = rows[_by_lane(lane, len(trace.lanes))]
    lane, start = spans.lane[order], spans.start[order]
    is_same = lane[1:] == lane[:-1]
    if (is_same & (start[1:] < start[:-1])).any():
        order = order[np.lexsort((start, lane))]
    core = spans.core[order]
    has_moved = is_same & (core[1:] != core[:-1])
    first = np.append(0, np.flatnonzero(~is_same) + 1)
    parts = zip(lane[first].tolist(), np.split(core, first[1:]), strict=True)
    moves = np.bincount(lane[1:][has_moved], minlength=len(trace.lanes)).tolist()
    return {
        number: CoreUse(tuple(distinct(part).tolist()), moves[number])
        for number, part in parts
    }


def _by_lane(lane: Array, n_lanes: int) -> I64:
    """Return a stable order by lane; numbers of 16 bits are sorted in one pass."""
    narrow = lane.astype(np.uint16) if n_lanes < 1 << 16 else lane
    return np.argsort(narrow, kind="stable")
