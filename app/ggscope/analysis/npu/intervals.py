"""Unions of intervals by group, and how much of a stretch of time they cover."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, ranked
from ggscope.model.units import TimeRange

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """Disjoint intervals, group by group in order of time; none touches the next.

    Attributes
    ----------
    start, end : int64[m], ticks.
    first : int64[n_groups + 1], group g has the intervals first[g] to first[g + 1].
    before : int64[m + 1], ticks that all intervals before each one cover.
    """

    start: I64
    end: I64
    first: I64
    before: I64

    @property
    def totals(self) -> I64:
        """Ticks that each group covers, int64[n_groups]."""
        totals: I64 = np.diff(self.before[self.first])
        return totals

    def covered(self, group: int, edges: I64) -> I64:
        """Return the ticks that a group covers between neighbouring edges.

        Parameters
        ----------
        edges : int64[k + 1], ascending.

        Returns
        -------
        int64[k]. O((k + 1) log m).
        """
        low, high = self.first[group : group + 2].tolist()
        if low == high:
            return np.zeros(len(edges) - 1, np.int64)
        start, end = self.start[low:high], self.end[low:high]
        at = np.searchsorted(start, edges, "right") - 1
        here = np.maximum(at, 0)
        inside = np.minimum(edges, end[here]) - start[here]
        until = self.before[low + here] + inside
        ticks: I64 = np.diff(np.where(at < 0, self.before[low], until))
        return ticks


def union(group: I64, start: I64, end: I64, n_groups: int) -> Union:
    """Return the union of the intervals of each group; those without length vanish.

    Parameters
    ----------
    group, start, end : int64[n], in any order. O(n log n).
    """
    some = end > start
    group, start, end = group[some], start[some], end[some]
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], end[order]
    if not len(start):
        none = np.zeros(0, np.int64)
        return Union(
            none, none, np.zeros(n_groups + 1, np.int64), np.zeros(1, np.int64)
        )
    # Ends by rank, the group in front: the latest so far stays within its group.
    ends, _, rank = ranked(end)
    key = group * len(ends) + rank
    reach = ends[np.maximum.accumulate(key) % len(ends)]
    is_first = np.ones(len(start), np.bool_)
    is_first[1:] = (group[1:] != group[:-1]) | (start[1:] > reach[:-1])
    begins = np.flatnonzero(is_first)
    start, group = start[begins], group[begins]
    end = reach[np.append(begins[1:], len(reach)) - 1]
    first = np.searchsorted(group, np.arange(n_groups + 1))
    before = np.concatenate([[0], np.cumsum(end - start)])
    return Union(start, end, first, before)


def edges_of(time: TimeRange, most: int) -> I64:
    """Return whole ticks that cut a time into `most` equal parts, or one per tick.

    Returns
    -------
    int64[k + 1], strictly ascending unless the time is empty.
    """
    k = max(min(most, time.duration), 1)
    step, rest = divmod(time.duration, k)
    i = np.arange(k + 1, dtype=np.int64)
    return time.start + i * step + (i * rest) // k
