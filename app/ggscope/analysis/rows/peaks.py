"""Long spans and long gaps of a row, found without looking at all of them.

The maximum length of every 64 and of every 4096 spans: a quarter byte per span. A
query visits only the blocks that hold something long enough, so its cost grows with
its result.
"""

import numpy as np

from ggscope.analysis.rows.rows import Row
from ggscope.model.tables import I64

FINE = 64
"""Spans per block of the finer level."""
COARSE = FINE * FINE
"""Spans per block of the coarser level; parts to `RowPeaks.add` begin at multiples."""


class RowPeaks:
    """Finds the long spans and gaps of one row.

    Parameters
    ----------
    n : number of spans of the row.

    Notes
    -----
    Holds no reference to the row; whoever asks brings it along. It is filled part by
    part by `add`, and complete when the last span has been added.
    """

    __slots__ = ("_gaps", "_lengths")

    def __init__(self, n: int) -> None:
        self._lengths = _Maxima(n)
        self._gaps = _Maxima(n)

    def add(self, row: Row, part: slice) -> None:
        """Take in the spans of `part`, which begins at a multiple of COARSE."""
        end = row.end[part]
        self._lengths.add(part.start, end - row.start[part])
        # The gap behind each span; there is none behind the last one.
        following = row.start[part.start + 1 : part.stop + 1]
        self._gaps.add(part.start, following - end[: len(following)])

    def long_spans(self, row: Row, first: int, stop: int, least: int) -> I64:
        """Return positions in [first, stop) of spans of `least` ticks or more."""
        at = self._lengths.candidates(first, stop, least)
        return at[row.end[at] - row.start[at] >= least]

    def long_gaps(self, row: Row, first: int, stop: int, least: int) -> I64:
        """Return the spans in [first, stop) with `least` ticks of nothing behind."""
        first, stop = max(first, 0), min(stop, len(row) - 1)
        at = self._gaps.candidates(first, stop, least)
        return at[row.start[at + 1] - row.end[at] >= least]


class _Maxima:
    """Block maxima of a long column, in two levels."""

    __slots__ = ("_coarse", "_fine", "_max")

    def __init__(self, n: int) -> None:
        self._fine = np.zeros(-(-n // FINE), np.int64)
        self._coarse = np.zeros(-(-n // COARSE), np.int64)
        self._max = 0

    def add(self, first: int, values: I64) -> None:
        if not len(values):
            return
        fine = np.maximum.reduceat(values, np.arange(0, len(values), FINE))
        coarse = np.maximum.reduceat(fine, np.arange(0, len(fine), FINE))
        self._fine[first // FINE :][: len(fine)] = fine
        self._coarse[first // COARSE :][: len(coarse)] = coarse
        self._max = max(self._max, int(coarse.max()))

    def candidates(self, first: int, stop: int, least: int) -> I64:
        """Return positions in [first, stop) of blocks that reach `least`."""
        if self._max < least or stop <= first:
            return np.zeros(0, np.int64)
        if stop - first <= COARSE:
            return np.arange(first, stop)
        blocks = _reaching(self._coarse, first // COARSE, -(-stop // COARSE), least)
        fine = _members(blocks, first // FINE, -(-stop // FINE))
        fine = fine[self._fine[fine] >= least]
        return _members(fine, first, stop)


def _reaching(values: I64, first: int, stop: int, least: int) -> I64:
    return np.flatnonzero(values[first:stop] >= least) + first


def _members(blocks: I64, first: int, stop: int) -> I64:
    """Return the members of blocks of FINE that lie in [first, stop), ascending."""
    inside = (blocks[:, None] * FINE + np.arange(FINE)).ravel()
    return inside[(inside >= first) & (inside < stop)]
