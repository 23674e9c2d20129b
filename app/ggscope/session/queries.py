"""What one session asks in the background: its filter, searches, and links.

Links: what the selection has to do with, and steps through it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.completeness.expected import Completeness, completeness
from ggscope.analysis.filters.masks import (
    GrowingHits,
    GrowingMask,
    SearchHits,
    filter_mask,
    search,
)
from ggscope.analysis.links import NOTHING, QUICK_SPANS, Linked, is_quick, linked
from ggscope.analysis.sessions.correlate import Correlation, correlate
from ggscope.descriptions.completeness import is_told, with_completeness
from ggscope.errors import QueryError
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session import viewport as view_range
from ggscope.session.tasks import Request, TaskContext, TaskFailure

if TYPE_CHECKING:
    from ggscope.session.session import Session


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
        self._growing_mask: GrowingMask | None = None
        self._growing_hits: GrowingHits | None = None

    def on_trace(self, *, keeps_rows: bool, is_appended: bool = False) -> None:
        """Ask again of a new trace; hits stay meanwhile where rows keep their ids.

        Mask and hits of a trace to which spans were appended are appended to, at once.
        """
        if is_appended:
            if self.mask is not None:
                self.mask = self._grown_mask(self.mask)
            if self.found is not None:
                self.found = self._grown_hits(self.found)
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
                self._session.mask_changed.emit(None)
            if self.found is not None:
                self._session.search_changed.emit(self._session.hits)
            return
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
                mask = filter_mask(trace, wanted)
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

        request = partial(filter_mask, trace, wanted)
        self._run("filter", "Filtering", request, on_result, on_error)

    def _on_mask(self, wanted: Filter, mask: Mask | None) -> None:
        self._growing_mask, self._mask_filter = None, wanted
        self.mask = None if mask is None else self._grown_mask(mask)
        self._session.mask_changed.emit(None)

    def _grown_mask(self, mask: Mask) -> Mask:
        """Return the mask with the spans that came behind those that it is of."""
        trace = self._session.trace
        if trace is None or len(mask) == len(trace.spans):
            return mask
        if self._growing_mask is None:
            self._growing_mask = GrowingMask(mask)
        return self._growing_mask.upto(trace, self._mask_filter)

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
        self._growing_hits = None
        self._run(
            "search",
            "Searching",
            partial(_ordered_hits, trace, self.text),
            self._on_found,
            self._on_search_failed,
        )

    def _on_search_failed(self, failure: TaskFailure) -> None:
        self._set_hits(None)
        self._session.report(failure)

    def _on_found(self, found: OrderedHits) -> None:
        self._set_hits(self._grown_hits(found))

    def _grown_hits(self, found: OrderedHits) -> OrderedHits:
        """Return the hits with those that came behind the spans they were found in."""
        trace = self._session.trace
        if trace is None or found.n_spans == len(trace.spans):
            return found
        if self._growing_hits is None:
            self._growing_hits = GrowingHits(found.hits, found.n_spans)
        grown = ordered(trace, self._growing_hits.upto(trace))
        if self.position >= self._growing_hits.kept:
            self._set_position(-1)
        return grown

    def _set_hits(self, found: OrderedHits | None) -> None:
        if found is None and self.found is None:
            return
        if found is None:
            self._growing_hits = None
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


_LINKS, _CORRELATION, _COMPLETENESS = "links", "correlation", "completeness"
_MOST_COMPARED = 1 << 23
"""Spans of a trace whose passes are compared unasked; of more the command line does."""


class Linking:
    """The links of `session`, which tells about them by its signals.

    Attributes
    ----------
    found : what the selection has to do with; of an earlier one until it is found.
    correlation : of the present trace; None until it is known, or without graphs.
    position : which of the linked spans `step` stands on, in time order; -1 none.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self.found = NOTHING
        self.correlation: Correlation | None = None
        self.position = -1
        self._in_time: I64 | None = None
        self._longest_wanted = Selection()
        self._complete: tuple[Trace, Completeness] | None = None

    def on_trace(self) -> None:
        """Match spans and nodes of a new trace, then link the selection anew."""
        session, trace = self._session, self._session.trace
        self.correlation = None
        self._look_for_gaps()
        session.tasks.cancel(_CORRELATION)
        is_whole = trace is not None and not {"spans", "names"} & trace.pending
        if trace is None or not is_whole or not trace.graphs:
            session.correlation_changed.emit(None)
            self.update()
            return
        request = partial(correlate, trace)
        if len(trace.spans) <= QUICK_SPANS:
            self._on_correlation(request())
            return
        session.correlation_changed.emit(None)
        self.update()
        title = "Matching spans with the graph"
        session.tasks.run(_CORRELATION, request, self._on_correlation, title=title)

    def _look_for_gaps(self) -> None:
        """Compare the passes of a whole trace; missing records become a problem."""
        session, trace = self._session, self._session.trace
        session.tasks.cancel(_COMPLETENESS)
        known = self._complete
        if trace is None or known is None or known[0].spans is not trace.spans:
            known = self._complete = None
        if trace is None or trace.pending or len(trace.spans) > _MOST_COMPARED:
            return
        if known is not None:
            found = known[1]
            if not is_told(trace, found):
                # Files came or went: the same spans, other problems.
                session.tasks.run(_COMPLETENESS, lambda _: found, self._on_completeness)
            return
        request = partial(completeness, trace)
        session.tasks.run(_COMPLETENESS, request, self._on_completeness)

    def _on_completeness(self, found: Completeness) -> None:
        trace = self._session.trace
        if trace is None:
            return
        self._complete = (trace, found)
        told = with_completeness(trace, found)
        if told is not trace:
            self._session.set_problems(told)

    def forget(self) -> None:
        """Let go of everything; the trace is gone."""
        self._complete = None
        self.correlation = None
        self._publish(NOTHING)

    def update(self) -> None:
        """Find what the selection has to do with; the signal follows."""
        session, trace = self._session, self._session.trace
        selection = session.selection
        session.tasks.cancel(_LINKS)
        if trace is None or not selection:
            self._publish(Linked(selection) if selection else NOTHING)
            return
        request: Request[Linked] | Callable[[], Linked]
        if selection.group is not None and session.index is not None:
            # Later than the window: statistics bring much along.
            from ggscope.analysis.statistics.members import linked_group

            index = session.index
            request = partial(linked_group, index, selection, self.correlation)
        else:
            request = partial(linked, trace, selection, self.correlation)
        if is_quick(trace, selection):
            self._publish(request())
            return
        session.tasks.run(
            _LINKS,
            request,
            self._publish,
            title="Finding related spans",
            on_error=self._on_failed,
            even_if_held=True,
        )

    def step(self, by: int) -> None:
        """Bring the next or previous linked span into view; the selection stays."""
        session, trace = self._session, self._session.trace
        if trace is None or not len(self.found.spans):
            return
        ids = self._by_time(trace)
        if self.position < 0:
            starts = trace.spans.start[ids]
            first = int(np.searchsorted(starts, session.visible_range.start))
            self.position = first - 1 if by > 0 else first
        self.position = (self.position + by) % len(ids)
        session.reveal_span(int(ids[self.position]))
        session.linked_position_changed.emit(self.position)

    def show_longest(self) -> None:
        """Zoom to the longest span of the selected group, now or once it is found."""
        self._longest_wanted = self._session.selection
        if self.found.selection == self._longest_wanted:
            self._go_to_longest()

    def _go_to_longest(self) -> None:
        session, trace, found = self._session, self._session.trace, self.found
        self._longest_wanted = Selection()
        if trace is None or found.longest < 0:
            return
        place = np.flatnonzero(self._by_time(trace) == found.longest)
        self.position = int(place[0]) if len(place) else -1
        session.linked_position_changed.emit(self.position)
        session.fit_selection()
        session.reveal_requested.emit(found.longest)

    def looked_at(self) -> int | None:
        """Return the linked span that `step` went to last, if any."""
        trace = self._session.trace
        if trace is None or self.position < 0:
            return None
        return int(self._by_time(trace)[self.position])

    def time(self) -> TimeRange | None:
        """Return the time of the linked span that is looked at, else of all of them."""
        trace, span = self._session.trace, self.looked_at()
        if trace is None or self.found.selection != self._session.selection:
            return None
        ids = self.found.spans.tolist() if span is None else [span]
        return view_range.of_selection(trace, Selection("spans", tuple(ids)))

    def _by_time(self, trace: Trace) -> I64:
        """Return the linked spans in time order."""
        if self._in_time is None:
            ids = self.found.spans
            self._in_time = ids[np.argsort(trace.spans.start[ids], kind="stable")]
        return self._in_time

    def _on_correlation(self, found: Correlation | None) -> None:
        self.correlation = found
        self._session.correlation_changed.emit(found)
        self.update()

    def _on_failed(self, failure: TaskFailure) -> None:
        self._publish(Linked(self._session.selection))
        self._session.report(failure)

    def _publish(self, found: Linked) -> None:
        is_other = found.selection != self.found.selection
        if is_other or self.position >= len(found.spans):
            self.position = -1
        self.found, self._in_time = found, None
        self._session.linked_changed.emit(found)
        if found.selection and found.selection == self._longest_wanted:
            self._go_to_longest()
