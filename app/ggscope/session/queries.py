"""Filter and search of a session: the mask and the hits, computed in the background."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject, Signal

from ggscope.analysis.filters.masks import (
    GrowingHits,
    GrowingMask,
    SearchHits,
    filter_mask,
    search,
)
from ggscope.errors import QueryError
from ggscope.model.selection import Filter
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.session.current_trace import CurrentTrace
from ggscope.session.tasks import Request, TaskContext, TaskFailure, Tasks

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class OrderedHits:
    """Search hits as one list in time order.

    Attributes
    ----------
    hits : what the views read.
    marker_times : int64[m], ticks of the markers found, sorted.
    marker_places : int64[m], the positions of the markers in the list, ascending.
    n_spans : how many spans were searched.

    Notes
    -----
    The list of both is not made: spans are hits by the million, markers few. At the
    same tick spans come first.
    """

    hits: SearchHits
    marker_times: I64
    marker_places: I64
    n_spans: int

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
    places = before + np.arange(len(times))
    return OrderedHits(hits, times, places, len(trace.spans))


def _ordered_hits(trace: Trace, text: str, context: TaskContext) -> OrderedHits:
    return ordered(trace, search(trace, text, context))


SYNC_SPANS = 200_000
"""Below this, filters and searches are quicker on the main thread."""


class Queries(QObject):
    """Filter and search of a session.

    Attributes
    ----------
    filter : which spans to show.
    mask : bool[n_spans] of the spans that match the filter; None = all.
    text : what is searched; "" = nothing.
    hits_in_order : the hits in time order; None without a search.
    position : index of the current hit of `step`; -1 = none yet.

    Signals
    -------
    filter_changed(Filter) : the mask follows with `mask_changed`.
    mask_changed(None) : read `mask`.
    search_changed(SearchHits | None) : of the present trace.
    hit_position_changed(int) : -1 = before the first step.
    filter_rejected(str) : a filter that cannot be parsed.
    failed(TaskFailure) : a filter or a search in the background.
    """

    filter_changed = Signal(object)
    mask_changed = Signal(object)
    search_changed = Signal(object)
    hit_position_changed = Signal(object)
    filter_rejected = Signal(object)
    failed = Signal(object)

    def __init__(
        self, current: CurrentTrace, tasks: Tasks, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._current = current
        self._tasks = tasks
        self.filter = Filter()
        self.mask: Mask | None = None
        self._mask_filter = Filter()
        self.text = ""
        self.hits_in_order: OrderedHits | None = None
        self.position = -1
        self._growing_mask: GrowingMask | None = None
        self._growing_hits: GrowingHits | None = None

    @property
    def hits(self) -> SearchHits | None:
        """The hits, as views read them; None without a search."""
        return None if self.hits_in_order is None else self.hits_in_order.hits

    @property
    def n_hits(self) -> int:
        """Number of spans and markers found."""
        return 0 if self.hits_in_order is None else len(self.hits_in_order)

    def on_trace(self, *, keeps_rows: bool, is_appended: bool = False) -> None:
        """Ask again of a new trace; hits stay meanwhile where rows keep their ids.

        Mask and hits of a trace to which spans were appended are appended to, at once.
        """
        if is_appended:
            if self.mask is not None:
                self.mask = self._grown_mask(self.mask)
            if self.hits_in_order is not None:
                self.hits_in_order = self._grown_hits(self.hits_in_order)
            return
        self.mask = self._growing_mask = self._growing_hits = None
        if not keeps_rows:
            self._set_hits(None)

    def ask_again(self, *, is_appended: bool = False) -> None:
        """Compute mask and hits of the present trace.

        Where spans were appended they are there, or were asked for already.
        """
        if is_appended:
            if self.mask is not None:
                self.mask_changed.emit(None)
            if self.hits_in_order is not None:
                self.search_changed.emit(self.hits)
            return
        if self.filter:
            self._refilter()
        if self.text:
            self._research()

    def forget(self) -> None:
        """Release mask and hits; the trace is closed."""
        self.mask = self.hits_in_order = None

    # -- filter ------------------------------------------------------------

    def set_filter(self, where: Filter) -> None:
        """Show only what matches; the mask follows with `mask_changed`.

        A filter that is not understood is reported and the old one stays.
        """
        if where == self.filter:
            return
        self.filter = where
        if self._current.trace is None or self._is_small:
            self._filter_now(where)
        else:
            self.filter_changed.emit(where)
            self._refilter()

    def _filter_now(self, where: Filter) -> None:
        mask: Mask | None = None
        trace = self._current.trace
        try:
            if trace is not None and where:
                mask = filter_mask(trace, where)
        except QueryError as error:
            self.filter = self._mask_filter
            self.filter_rejected.emit(str(error))
            return
        self.filter_changed.emit(where)
        self._on_mask(where, mask)

    def _refilter(self) -> None:
        """Compute the mask of the current filter for the current trace."""
        where, trace = self.filter, self._current.trace
        if trace is None or not where:
            self._tasks.cancel("filter")
            self._on_mask(where, None)
            return

        def on_result(mask: Mask | None) -> None:
            self._on_mask(where, mask)

        def on_error(failure: TaskFailure) -> None:
            self.filter = self._mask_filter
            self.filter_changed.emit(self.filter)
            self.failed.emit(failure)

        request = partial(filter_mask, trace, where)
        self._run("filter", "Filtering", request, on_result, on_error)

    def _on_mask(self, where: Filter, mask: Mask | None) -> None:
        self._growing_mask, self._mask_filter = None, where
        self.mask = None if mask is None else self._grown_mask(mask)
        self.mask_changed.emit(None)

    def _grown_mask(self, mask: Mask) -> Mask:
        """Return the mask extended to spans appended since it was computed."""
        trace = self._current.trace
        if trace is None or len(mask) == len(trace.spans):
            return mask
        if self._growing_mask is None:
            self._growing_mask = GrowingMask(mask)
        return self._growing_mask.extended_to(trace, self._mask_filter)

    # -- search ------------------------------------------------------------

    def search(self, text: str) -> None:
        """Find `text` (or ``/regex/``); "" ends the search."""
        if text != self.text:
            self.text = text
            self._research()

    def step(self, by: int, tick: int) -> int | None:
        """Return the position of the next or previous hit; None where there is none.

        The first step goes to the hit nearest to `tick`.
        """
        hits = self.hits_in_order
        if hits is None or not len(hits):
            return None
        self._set_position(hits.step(self.position, by, tick))
        return self.position

    def _research(self) -> None:
        trace = self._current.trace
        if trace is None or not self.text:
            self._tasks.cancel("search")
            self._set_hits(None)
            return
        self._growing_hits = None
        self._run(
            "search",
            "Searching",
            partial(_ordered_hits, trace, self.text),
            self._on_hits,
            self._on_search_failed,
        )

    def _on_search_failed(self, failure: TaskFailure) -> None:
        self._set_hits(None)
        self.failed.emit(failure)

    def _on_hits(self, hits: OrderedHits) -> None:
        self._set_hits(self._grown_hits(hits))

    def _grown_hits(self, hits: OrderedHits) -> OrderedHits:
        """Return the hits extended by those in spans appended since the search."""
        trace = self._current.trace
        if trace is None or hits.n_spans == len(trace.spans):
            return hits
        if self._growing_hits is None:
            self._growing_hits = GrowingHits(hits.hits, hits.n_spans)
        grown = ordered(trace, self._growing_hits.extended_to(trace))
        if self.position >= self._growing_hits.n_same:
            self._set_position(-1)
        return grown

    def _set_hits(self, hits: OrderedHits | None) -> None:
        if hits is None and self.hits_in_order is None:
            return
        if hits is None:
            self._growing_hits = None
        self.hits_in_order = hits
        self._set_position(-1)
        self.search_changed.emit(self.hits)

    def _set_position(self, position: int) -> None:
        if position != self.position:
            self.position = position
            self.hit_position_changed.emit(position)

    # -- work --------------------------------------------------------------

    @property
    def _is_small(self) -> bool:
        trace = self._current.trace
        return trace is not None and len(trace.spans) < SYNC_SPANS

    def _run(
        self,
        key: str,
        title: str,
        request: Request[Any],
        on_result: Callable[[Any], None],
        on_error: Callable[[TaskFailure], None],
    ) -> None:
        """Run now where the trace is small, otherwise on a worker."""
        tasks = self._tasks
        tasks.cancel(key)
        if not self._is_small:
            tasks.run(key, request, on_result, title=title, on_error=on_error)
            return
        try:
            result = request(_quiet())
        except QueryError as error:
            on_error(TaskFailure(key, title, str(error), error))
        else:
            on_result(result)


def _quiet() -> TaskContext:
    """Return a context for work on the main thread."""
    return TaskContext(Event(), lambda _done, _total: None, lambda _value: None)
