"""Filter and search as background requests."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filtering import SearchHits, filter_mask, search
from ggscope.model.selection import Filter
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.session.tasks import TaskContext

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class OrderedHits:
    """Search hits as one list in time order.

    Attributes
    ----------
    hits : what the views read.
    marker_times : int64[m], ticks of the markers found, sorted.
    marker_places : int64[m], the positions of the markers in the list, ascending.

    Notes
    -----
    The list of both is not made: spans are hits by the million, markers few. At the
    same tick spans come first.
    """

    hits: SearchHits
    marker_times: I64
    marker_places: I64

    def __len__(self) -> int:
        return len(self.hits.ids) + len(self.marker_places)

    def at(self, position: int) -> tuple[str, int]:
        """Return ("spans" or "markers", id) of the hit at `position`."""
        marker, is_marker = self._marker(position)
        if is_marker:
            return ("markers", int(self.hits.markers[marker]))
        return ("spans", int(self.hits.ids[position - marker]))

    def tick(self, position: int) -> int:
        """Return the tick at which the hit at `position` begins."""
        marker, is_marker = self._marker(position)
        if is_marker:
            return int(self.marker_times[marker])
        return int(self.hits.times[position - marker])

    def step(self, position: int, by: int, tick: int) -> int:
        """Return the position `by` away from `position`, round and round.

        From -1 (none yet) the first step goes to the hit nearest to `tick`.
        """
        if position < 0:
            first = int(np.searchsorted(self.hits.times, tick))
            first += int(np.searchsorted(self.marker_times, tick))
            position = first - 1 if by > 0 else first
        return (position + by) % len(self)

    def _marker(self, position: int) -> tuple[int, bool]:
        """Return how many markers come before, and whether here is one."""
        if position < 0:
            position += len(self)
        before = int(np.searchsorted(self.marker_places, position))
        here = before < len(self.marker_places)
        return before, here and int(self.marker_places[before]) == position


def ordered(trace: Trace, hits: SearchHits) -> OrderedHits:
    """Return the hits of spans and markers merged by time."""
    times = trace.markers.time[hits.markers]
    before = np.searchsorted(hits.times, times, "right")
    return OrderedHits(hits, times, before + np.arange(len(times)))


@dataclass(frozen=True, slots=True, eq=False)
class FilterRequest:
    """Compute the mask of a filter."""

    trace: Trace
    wanted: Filter

    def __call__(self, context: TaskContext) -> Mask | None:
        """Return bool[n_spans], or None for "all"."""
        context.check_cancelled()
        return filter_mask(self.trace, self.wanted, context)


@dataclass(frozen=True, slots=True, eq=False)
class SearchRequest:
    """Find a text."""

    trace: Trace
    text: str

    def __call__(self, context: TaskContext) -> OrderedHits:
        """Return the hits in time order."""
        context.check_cancelled()
        return ordered(self.trace, search(self.trace, self.text, context))


__all__ = ["FilterRequest", "Mask", "OrderedHits", "SearchRequest", "ordered"]
