"""Spans of one or several lanes as one list in time order, without making the list."""

from collections.abc import Sequence

import numpy as np

from ggscope.analysis.time_merge import TimeMerge
from ggscope.model.tables import I64, Array


class Stretch:
    """Spans by (start, id), found by their place and the other way round.

    Parameters
    ----------
    start : int64[n_spans], of all spans.
    pieces : slices of ids, ascending, each of one lane and in time order.
    ids : all ids by (start, id), instead of pieces.
    """

    def __init__(
        self, start: I64, pieces: Sequence[slice] = (), ids: Array | None = None
    ) -> None:
        self._start = start
        self._pieces, self._ids = tuple(pieces), ids
        self._merge = TimeMerge(start, self._pieces if ids is None else [ids])
        self._place: Array | None = None

    def __len__(self) -> int:
        return len(self._merge)

    def ids(self, low: int, high: int) -> Array:
        """Return the ids of places low <= place < high."""
        if len(self._pieces) == 1:
            first = int(self._pieces[0].start)
            return np.arange(first + low, first + high)
        return self._merge.slice(low, high)

    def before(self, ticks: I64) -> I64:
        """Return how many spans start before each tick, int64."""
        if self._ids is not None:
            return np.searchsorted(self._start[self._ids], ticks, "left")
        total = np.zeros(len(ticks), np.int64)
        for piece in self._pieces:
            total += np.searchsorted(self._start[piece], ticks, "left")
        return total

    def places(self, ids: I64) -> I64:
        """Return the place of each of the given spans, which are all in here."""
        if self._ids is not None:
            return self._places_by_list(ids)
        ticks, total = self._start[ids], np.zeros(len(ids), np.int64)
        for piece in self._pieces:
            starts = self._start[piece]
            own = (ids >= piece.start) & (ids < piece.stop)
            total[own] += ids[own] - piece.start
            # Of equal starts the one with the smaller id comes first.
            after, before = ids >= piece.stop, ids < piece.start
            total[after] += np.searchsorted(starts, ticks[after], "right")
            total[before] += np.searchsorted(starts, ticks[before], "left")
        return total

    def _places_by_list(self, ids: I64) -> I64:
        assert self._ids is not None
        if self._place is None:
            place = np.zeros(len(self._start), np.int32)
            place[self._ids] = np.arange(len(self._ids), dtype=np.int32)
            self._place = place
        return self._place[ids].astype(np.int64)


__all__ = ["Stretch"]
