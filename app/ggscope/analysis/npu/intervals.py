"""Unions of intervals by group, and how much of a stretch of time they cover."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, ranked


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

    def covered(self, group: int, begin: I64, stop: I64) -> I64:
        """Return the ticks that a group covers in each of some stretches of time.

        Parameters
        ----------
        begin, stop : int64[k], ticks, half-open; in any order.

        Returns
        -------
        int64[k]. O(k log m).
        """
        if len(begin) > 1 and np.array_equal(begin[1:], stop[:-1]):
            edges = np.append(begin, stop[-1])
            return np.diff(self._until(group, edges)).astype(np.int64)
        ticks: I64 = self._until(group, stop) - self._until(group, begin)
        return ticks

    def _until(self, group: int, ticks: I64) -> I64:
        """Return how much a group covers before each tick, from a common start."""
        low, high = self.first[group : group + 2].tolist()
        if low == high:
            return np.zeros(len(ticks), np.int64)
        start, end = self.start[low:high], self.end[low:high]
        at = np.searchsorted(start, ticks, "right") - 1
        here = np.maximum(at, 0)
        until = self.before[low + here] + np.minimum(ticks, end[here]) - start[here]
        ticks_before: I64 = np.where(at < 0, self.before[low], until)
        return ticks_before


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
