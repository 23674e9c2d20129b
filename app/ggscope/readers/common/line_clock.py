"""Times of lines of text, whatever their clocks count from."""

from enum import IntEnum

import numpy as np

from ggscope.model.tables import I64, U8, Bools

_SECOND = 1_000_000_000
_DAY_NS = 86_400 * _SECOND
_FURTHEST_NS = 1 << 61
_FIRST_EPOCH_S, _LAST_EPOCH_S = 1_000_000_000, 4_100_000_000
"""Between 2001 and 2099 a time counts from 1970."""


class LineClock(IntEnum):
    """What the time of a line counts from."""

    OF_FILE = 0
    """In a unit of the file, from whatever it says."""
    OF_DAY = 1
    SINCE_EPOCH = 2
    SINCE_LINE_BEFORE = 3
    OF_ROW_BEFORE = 4
    """The line has none: that of the line before it."""


def settled(clock: U8, time: I64, is_placed: Bools) -> None:
    """Make times of all clocks ascend: in place, in ns.

    What counts from the line before is summed up, times of day go on behind midnight,
    and lines without a time get that of the line before.

    Parameters
    ----------
    is_placed : bool[n], which lines have a time; changed as well.
    """
    since = clock == LineClock.SINCE_LINE_BEFORE
    if since.any():
        time[since] = np.cumsum(np.minimum(time[since], _DAY_NS))
        is_placed &= ~since | (np.abs(time) < _FURTHEST_NS)
    rows = np.flatnonzero(clock == LineClock.OF_DAY)
    if len(rows) > 1:
        is_midnight = np.diff(time[rows]) < -_DAY_NS // 2
        time[rows[1:]] += np.cumsum(is_midnight) * _DAY_NS
    before = clock == LineClock.OF_ROW_BEFORE
    if before.any():
        numbers = np.arange(len(time))
        source = np.maximum.accumulate(np.where(before | ~is_placed, -1, numbers))
        taken = before & (source >= 0)
        time[taken] = time[source[taken]]
        is_placed &= ~before | taken


def n_backwards(clock: U8, time: I64) -> int:
    """Return how many times are earlier than the one of the same clock before them."""
    return sum(
        int(np.count_nonzero(np.diff(time[clock == kind]) < 0))
        for kind in np.flatnonzero(np.bincount(clock)).tolist()
    )


def epoch_of(origin: int) -> int | None:
    """Return `origin` where it counts from 1970; None where it cannot."""
    has_epoch = _FIRST_EPOCH_S <= origin // _SECOND <= _LAST_EPOCH_S
    return origin if has_epoch else None
