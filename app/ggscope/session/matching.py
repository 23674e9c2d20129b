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
    times : int64[n], start ticks of spans and markers together, sorted.
    ids : int64[n]; a marker is stored as ``-1 - id``.
    """

    hits: SearchHits
    times: I64
    ids: I64

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, position: int) -> tuple[str, int]:
        """Return ("spans" or "markers", id) of the hit at `position`."""
        raw = int(self.ids[position])
        return ("spans", raw) if raw >= 0 else ("markers", -1 - raw)

    def step(self, position: int, by: int, tick: int) -> int:
        """Return the position `by` away from `position`, round and round.

        From -1 (none yet) the first step goes to the hit nearest to `tick`.
        """
        if position < 0:
            first = int(np.searchsorted(self.times, tick))
            position = first - 1 if by > 0 else first
        return (position + by) % len(self)


def ordered(trace: Trace, hits: SearchHits) -> OrderedHits:
    """Return the hits of spans and markers merged by time."""
    times = np.asarray(hits.times, np.int64)
    ids = np.asarray(hits.ids, np.int64)
    if len(hits.markers):
        markers = np.asarray(hits.markers, np.int64)
        times = np.concatenate([times, trace.markers.time[markers]])
        ids = np.concatenate([ids, -1 - markers])
        order = np.argsort(times, kind="stable")
        times, ids = times[order], ids[order]
    return OrderedHits(hits, times, ids)


@dataclass(frozen=True, slots=True, eq=False)
class FilterRequest:
    """Compute the mask of a filter."""

    trace: Trace
    wanted: Filter

    def __call__(self, context: TaskContext) -> Mask | None:
        """Return bool[n_spans], or None for "all"."""
        context.check_cancelled()
        return filter_mask(self.trace, self.wanted)


@dataclass(frozen=True, slots=True, eq=False)
class SearchRequest:
    """Find a text."""

    trace: Trace
    text: str

    def __call__(self, context: TaskContext) -> OrderedHits:
        """Return the hits in time order."""
        context.check_cancelled()
        return ordered(self.trace, search(self.trace, self.text))


__all__ = ["FilterRequest", "Mask", "OrderedHits", "SearchRequest", "ordered"]
