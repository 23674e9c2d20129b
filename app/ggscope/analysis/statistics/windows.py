"""Parts of the time in which alone spans count, such as those of some tokens."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The only time that counts, as disjoint ranges.

    Attributes
    ----------
    start, end : int64[n], ascending.
    before : int64[n], ticks of the ranges before each.
    """

    start: I64
    end: I64
    before: I64

    @property
    def total(self) -> int:
        """All ticks."""
        return int((self.end - self.start).sum())

    def elapsed(self, ticks: I64) -> I64:
        """Return how much of the time lies before each tick, int64[n]."""
        if not len(self.start):
            return np.zeros(len(ticks), np.int64)
        at = np.searchsorted(self.start, ticks, "right") - 1
        i = np.maximum(at, 0)
        inside = np.clip(ticks - self.start[i], 0, self.end[i] - self.start[i])
        return np.where(at >= 0, self.before[i] + inside, 0)


def joined(start: I64, end: I64) -> Windows:
    """Return ranges in order of their start with those joined that meet."""
    if not len(start):
        return Windows(start, end, start)
    reach = np.maximum.accumulate(end)
    is_first = np.ones(len(start), np.bool_)
    is_first[1:] = start[1:] > reach[:-1]
    first = np.flatnonzero(is_first)
    low, high = start[first], reach[np.append(first[1:], len(start)) - 1]
    return Windows(low, high, np.cumsum(high - low) - (high - low))
