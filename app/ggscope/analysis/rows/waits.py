"""Waits and gaps of a row: how much of a column waits are, whose, and the next ones."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.rows import Row
from ggscope.model.selection import Gap, Selection
from ggscope.model.tables import I64, NO_WAIT
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

WAIT_STEP = 32
"""Waits are summed up before every so many spans: a quarter of a byte per span."""
_MAX_PAUSES = 1_000
_FIRST_PIECE = 64


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
        gap = np.maximum(row.start[following] - row.end[positions], 0)
        return np.where(positions + 1 < len(row), np.minimum(known, gap), known)

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


def gap_at(row: Row, waits: Waits | None, tick: int) -> Gap | None:
    """Return the gap between two spans of a row that holds `tick`, or None."""
    i = int(np.searchsorted(row.start, tick, "right")) - 1
    if not 0 <= i < len(row) - 1:
        return None
    gap = _gap_behind(row, waits, i)
    return gap if gap.time.start <= tick < gap.time.end else None


def next_wait(row: Row, waits: Waits, position: int, by: int) -> int | None:
    """Return the next (+1) or previous (-1) span of a row with a wait behind it."""
    waiting = _next(len(row), position, by, lambda at: waits.behind(row, at) > 0)
    return None if waiting is None else int(row.id[waiting])


def next_gap(row: Row, waits: Waits | None, position: int, by: int) -> Gap | None:
    """Return the next (+1) or previous (-1) gap than the one behind a position."""

    def is_before_gap(at: I64) -> npt.NDArray[np.bool_]:
        waited = 0 if waits is None else waits.behind(row, at)
        idle: npt.NDArray[np.bool_] = row.start[at + 1] > row.end[at] + waited
        return idle

    before_gap = _next(len(row) - 1, position, by, is_before_gap)
    return None if before_gap is None else _gap_behind(row, waits, before_gap)


def wait_time(trace: Trace, span: int) -> TimeRange:
    """Return from when to when the thread of a span waited behind it.

    As recorded; without a length where no wait is.
    """
    end, column = int(trace.spans.end[span]), trace.spans.wait
    known = 0 if column is None or column[span] == NO_WAIT else int(column[span])
    return TimeRange(end, end + known)


def pauses(trace: Trace, selection: Selection) -> tuple[tuple[int, TimeRange], ...]:
    """Return selected waits and gaps: the span before each, and its time.

    () where something else is selected; rows that do not exist are left out.
    """
    gap = selection.gap
    if gap is None and selection.table != "waits":
        return ()
    n = len(trace.spans)
    if gap is not None:
        return ((gap.before, gap.time),) if 0 <= gap.before < n else ()
    ids = (span for span in selection.ids[:_MAX_PAUSES] if 0 <= span < n)
    return tuple((span, wait_time(trace, span)) for span in ids)


def _gap_behind(row: Row, waits: Waits | None, position: int) -> Gap:
    """Return the time between the spans at a position and the next one."""
    waited = 0 if waits is None else waits.behind_one(row, position)
    time = TimeRange(int(row.end[position]) + waited, int(row.start[position + 1]))
    return Gap(time, int(row.id[position]), int(row.id[position + 1]))


def _next(
    n: int, position: int, by: int, test: Callable[[I64], npt.NDArray[np.bool_]]
) -> int | None:
    """Return the nearest position above or below that passes a test, of 0..n - 1.

    Looks at ever larger pieces: mostly the next one passes.
    """
    size, low = _FIRST_PIECE, position
    while True:
        if by > 0:
            at = np.arange(low + 1, min(low + 1 + size, n), dtype=np.int64)
        else:
            at = np.arange(min(low, n) - 1, max(low - 1 - size, -1), -1, dtype=np.int64)
        if not len(at):
            return None
        hits = np.flatnonzero(test(at))
        if len(hits):
            return int(at[hits[0]])
        low, size = int(at[-1]), size * 4
