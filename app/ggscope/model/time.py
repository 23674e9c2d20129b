"""Time ranges, clocks, overlaps. All times are int64 ticks since the clock's origin."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ggscope.model.tables import I64

Unit = Literal["ns", "cycle"]


@dataclass(frozen=True, slots=True, order=True)
class TimeRange:
    """Half-open interval ``[start, end)`` in ticks; `start` <= `end`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"time range ends before it starts: {self}")

    @property
    def duration(self) -> int:
        """Length in ticks, >= 0."""
        return self.end - self.start

    def contains(self, tick: int) -> bool:
        """Tell whether `tick` lies inside."""
        return self.start <= tick < self.end

    def intersect(self, other: "TimeRange") -> "TimeRange | None":
        """Return the common part, or None where the two do not touch."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return TimeRange(start, end) if start <= end else None

    def padded(self, ticks: int) -> "TimeRange":
        """Return the range grown by `ticks` on both sides."""
        return TimeRange(self.start - ticks, self.end + ticks)

    def shifted(self, ticks: int) -> "TimeRange":
        """Return the range moved by `ticks`."""
        return TimeRange(self.start + ticks, self.end + ticks)


@dataclass(frozen=True, slots=True)
class Clock:
    """What one tick is, and where times count from.

    Tick 0 is the zero of every time that is shown, in all parts of a session; what was
    before it (buffers allocated before the first op) is negative.

    Attributes
    ----------
    unit : "ns" or "cycle".
    origin : raw value of tick 0 in the file's own clock; raw = tick + origin.
    hz : ticks per second where known (1e9 for "ns" is implied).
    """

    unit: Unit = "ns"
    origin: int = 0
    hz: float | None = None

    def shift(self, absolute: bool) -> int:
        """Return what is added to a tick for the file's own clock; else 0."""
        return self.origin if absolute else 0


def latest_owner(first: I64, last: I64, n: int) -> I64:
    """Return for each of `n` pieces the highest i with ``first[i] <= piece < last[i]``.

    A range is two overlapping ranges whose lengths are a power of two; each level
    takes the higher number and hands it down to its halves.
    """
    length = last - first
    some = np.flatnonzero(length > 0)
    level = np.zeros(len(length), np.int64)
    level[some] = np.log2(length[some]).astype(np.int64)
    owner = np.full(n, -1, np.int64)
    for k in range(int(level.max(initial=0)), -1, -1):
        here = some[level[some] == k]
        np.maximum.at(owner, first[here], here)
        np.maximum.at(owner, last[here] - (1 << k), here)
        if k:
            half = 1 << (k - 1)
            lower = owner.copy()
            np.maximum(lower[half:], owner[: n - half], out=lower[half:])
            owner = lower
    return owner
