"""Time ranges and clocks. All times are int64 ticks since the clock's origin."""

from dataclasses import dataclass
from typing import Literal

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
