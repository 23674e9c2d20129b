"""Filter and search of one session: what is asked, and what was found."""

from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Any

from ggscope.errors import QueryError
from ggscope.model.selection import Filter, Selection
from ggscope.model.time import TimeRange
from ggscope.session.matching import (
    FilterRequest,
    Mask,
    OrderedHits,
    SearchRequest,
)
from ggscope.session.tasks import Request, TaskContext, TaskFailure

if TYPE_CHECKING:
    from ggscope.session.session import Session

SYNC_SPANS = 200_000
"""Below this, filters and searches are quicker than a trip to a worker."""


class Queries:
    """The filter and the search of `session`, which tells about them by its signals.

    Attributes
    ----------
    filter : which spans to show.
    mask : bool[n_spans] of the spans that match the filter; None = all.
    text : what is searched; "" = nothing.
    found : the hits in time order, or None.
    position : the hit that `step` stands on; -1 = none yet.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self.filter = Filter()
        self.mask: Mask | None = None
        self._mask_filter = Filter()
        self.text = ""
        self.found: OrderedHits | None = None
        self.position = -1

    def on_trace(self, *, keeps_rows: bool) -> None:
        """Ask again of a new trace; hits stay meanwhile where rows keep their ids."""
        self.mask = None
        if not keeps_rows:
            self._set_hits(None)

    def ask_again(self) -> None:
        """Compute mask and hits of the present trace."""
        if self.filter:
            self._refilter()
        if self.text:
            self._research()

    def forget(self) -> None:
        """Let go of what was found; the trace is gone."""
        self.mask = self.found = None

    # -- filter ------------------------------------------------------------

    def set_filter(self, wanted: Filter) -> None:
        """Show only what matches; see `Session.set_filter`."""
        self.filter = wanted
        if self._session.trace is None or self._is_small:
            self._filter_now(wanted)
        else:
            self._session.filter_changed.emit(wanted)
            self._refilter()

    def _filter_now(self, wanted: Filter) -> None:
        mask: Mask | None = None
        trace = self._session.trace
        try:
            if trace is not None and wanted:
                mask = FilterRequest(trace, wanted)(_quiet())
        except QueryError as error:
            self.filter = self._mask_filter
            self._session.problem_reported.emit(str(error))
            return
        self._session.filter_changed.emit(wanted)
        self._on_mask(wanted, mask)

    def _refilter(self) -> None:
        """Compute the mask of the current filter for the current trace."""
        wanted, trace = self.filter, self._session.trace
        if trace is None or not wanted:
            self._session.tasks.cancel("filter")
            self._on_mask(wanted, None)
            return

        def on_result(mask: Mask | None) -> None:
            self._on_mask(wanted, mask)

        def on_error(failure: TaskFailure) -> None:
            self.filter = self._mask_filter
            self._session.filter_changed.emit(self.filter)
            self._session.report(failure)

        self._run(
            "filter", "Filtering", FilterRequest(trace, wanted), on_result, on_error
        )

    def _on_mask(self, wanted: Filter, mask: Mask | None) -> None:
        self.mask, self._mask_filter = mask, wanted
        self._session.mask_changed.emit(None)

    # -- search ------------------------------------------------------------

    def search(self, text: str) -> None:
        """Find `text` (or ``/regex/``); "" ends the search."""
        if text != self.text:
            self.text = text
            self._research()

    def step(self, by: int) -> None:
        """Select the next or previous hit; see `Session.step_hit`."""
        session, found = self._session, self.found
        if found is None or not len(found):
            return
        self._set_position(found.step(self.position, by, session.visible_range.start))
        table, row = found.at(self.position)
        if table == "spans":
            session.select_span(row)
        else:
            session.select(Selection("markers", (row,)))
            tick = found.tick(self.position)
            session.bring_into_view(TimeRange(tick, tick))

    def _research(self) -> None:
        trace = self._session.trace
        if trace is None or not self.text:
            self._session.tasks.cancel("search")
            self._set_hits(None)
            return
        self._run(
            "search",
            "Searching",
            SearchRequest(trace, self.text),
            self._set_hits,
            self._on_search_failed,
        )

    def _on_search_failed(self, failure: TaskFailure) -> None:
        self._set_hits(None)
        self._session.report(failure)

    def _set_hits(self, found: OrderedHits | None) -> None:
        if found is None and self.found is None:
            return
        self.found = found
        self._set_position(-1)
        self._session.search_changed.emit(self._session.hits)

    def _set_position(self, position: int) -> None:
        if position != self.position:
            self.position = position
            self._session.hit_position_changed.emit(position)

    # -- work --------------------------------------------------------------

    @property
    def _is_small(self) -> bool:
        trace = self._session.trace
        return trace is not None and len(trace.spans) < SYNC_SPANS

    def _run(
        self,
        key: str,
        title: str,
        request: Request[Any],
        on_result: Callable[[Any], None],
        on_error: Callable[[TaskFailure], None],
    ) -> None:
        """Run at once where the trace is small, else on a worker."""
        tasks = self._session.tasks
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
    """Return a context for work that is done at once."""
    return TaskContext(Event(), lambda _done, _total: None, lambda _value: None)


__all__ = ["SYNC_SPANS", "Queries"]
