"""The waits behind the spans of a row: how much of a column they are, and whose."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.rows import Row
from ggscope.model.tables import I64, NO_WAIT
from ggscope.model.units import TimeRange

WAIT_STEP = 32
"""Waits are summed up before every so many spans: a quarter of a byte per span."""


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """The waits behind the spans of a row.

    A wait lies between its span and the next one of the row, never beyond.

    Attributes
    ----------
    wait : uint32[n_spans], by span id, as of `Spans`.
    before : int64[n // WAIT_STEP + 1], time waited before every WAIT_STEP-th span of
        the row; under a filter behind the spans alone that it keeps.
    """

    wait: npt.NDArray[np.uint32]
    before: I64

    def behind(self, row: Row, positions: I64) -> I64:
        """Return how long is waited behind the spans at some positions, int64[m]."""
        known = self.wait[row.id[positions]].astype(np.int64)
        known[known == NO_WAIT] = 0
        if not len(row):
            return known
        following = np.minimum(positions + 1, len(row) - 1)
        room = np.maximum(row.start[following] - row.end[positions], 0)
        return np.where(positions + 1 < len(row), np.minimum(known, room), known)

    def total(self, row: Row) -> int:
        """Return the time waited behind all spans of the row, without a filter."""
        rest = np.arange((len(self.before) - 1) * WAIT_STEP, len(row), dtype=np.int64)
        return int(self.before[-1]) + int(self.behind(row, rest).sum())

    def at(self, row: Row, tick: int) -> int | None:
        """Return the id of the span whose wait covers `tick`, or None."""
        i = int(np.searchsorted(row.start, tick, "right")) - 1
        if i < 0 or tick < int(row.end[i]):
            return None
        end = int(row.end[i]) + self.behind_one(row, i)
        return int(row.id[i]) if tick < end else None

    def behind_one(self, row: Row, position: int) -> int:
        """Return how long is waited behind the span at a position."""
        return int(self.behind(row, np.array([position]))[0])


@dataclass(frozen=True, slots=True)
class Gap:
    """Idle time in a row: neither a span nor the wait behind one.

    Attributes
    ----------
    before, after : ids of the spans around it.
    """

    time: TimeRange
    before: int
    after: int


def gap_at(row: Row, waits: Waits | None, tick: int) -> Gap | None:
    """Return the gap between two spans of a row that holds `tick`, or None."""
    i = int(np.searchsorted(row.start, tick, "right")) - 1
    if not 0 <= i < len(row) - 1:
        return None
    begin = int(row.end[i]) + (0 if waits is None else waits.behind_one(row, i))
    stop = int(row.start[i + 1])
    if not begin <= tick < stop:
        return None
    return Gap(TimeRange(begin, stop), int(row.id[i]), int(row.id[i + 1]))
