"""What belongs to the selection: linked spans, graph nodes, and missing records."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QObject, Signal

from ggscope.analysis.completeness.expected import Completeness, completeness
from ggscope.analysis.links import NOTHING, QUICK_SPANS, Linked, is_quick, linked
from ggscope.analysis.sessions.correlate import Correlation, correlate
from ggscope.descriptions.completeness import is_reported, with_completeness
from ggscope.model.selection import Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session.tasks import Request, TaskFailure
from ggscope.session.time_ranges import of_selection

if TYPE_CHECKING:
    from ggscope.session.session import Session


_LINKS, _CORRELATION, _COMPLETENESS = "links", "correlation", "completeness"
_MAX_COMPARED = 1 << 23
"""Largest trace, in spans, whose passes are compared in the window."""


class Linking(QObject):
    """Links of the selection of a session.

    Attributes
    ----------
    linked : what belongs to the selection; to the previous one while it is computed.
    correlation : spans and graph nodes of the trace; None until known, or without
        graphs.
    position : index of the linked span that `step` is at, in time order; -1 = none.

    Signals
    -------
    linked_changed(Linked) : follows `SelectionModel.changed`.
    linked_position_changed(int) : `step` went to another linked span.
    correlation_changed(Correlation | None) : it became known, or the trace changed.
    reveal_requested(int) : span id to scroll into view.
    """

    linked_changed = Signal(object)
    linked_position_changed = Signal(object)
    correlation_changed = Signal(object)
    reveal_requested = Signal(object)

    def __init__(self, session: "Session") -> None:
        super().__init__(session)
        self._session = session
        self.linked = NOTHING
        self.correlation: Correlation | None = None
        self.position = -1
        self._in_time: I64 | None = None
        self._longest_pending = Selection()
        self._complete: tuple[Trace, Completeness] | None = None

    def on_trace(self) -> None:
        """Match spans and nodes of a new trace, then update the links."""
        session, trace = self._session, self._session.trace
        self.correlation = None
        self._check_completeness()
        session.tasks.cancel(_CORRELATION)
        is_whole = trace is not None and not {"spans", "names"} & trace.pending
        if trace is None or not is_whole or not trace.graphs:
            self.correlation_changed.emit(None)
            self.update()
            return
        request = partial(correlate, trace)
        if len(trace.spans) <= QUICK_SPANS:
            self._on_correlation(request())
            return
        self.correlation_changed.emit(None)
        self.update()
        title = "Matching spans with the graph"
        session.tasks.run(_CORRELATION, request, self._on_correlation, title=title)

    def _check_completeness(self) -> None:
        """Compare the passes of a complete trace; missing records become a problem."""
        session, trace = self._session, self._session.trace
        session.tasks.cancel(_COMPLETENESS)
        known = self._complete
        if trace is None or known is None or known[0].spans is not trace.spans:
            known = self._complete = None
        if trace is None or trace.pending or len(trace.spans) > _MAX_COMPARED:
            return
        if known is not None:
            result = known[1]
            if not is_reported(trace, result):
                # Files were added or removed: the same spans, other problems.
                session.tasks.run(
                    _COMPLETENESS, lambda _: result, self._on_completeness
                )
            return
        request = partial(completeness, trace)
        session.tasks.run(_COMPLETENESS, request, self._on_completeness)

    def _on_completeness(self, result: Completeness) -> None:
        trace = self._session.trace
        if trace is None:
            return
        self._complete = (trace, result)
        with_problems = with_completeness(trace, result)
        if with_problems is not trace:
            self._session.set_problems(with_problems)

    def forget(self) -> None:
        """Release everything; the trace is closed."""
        self._complete = None
        self.correlation = None
        self._publish(NOTHING)

    def update(self) -> None:
        """Compute the links of the selection; `linked_changed` follows."""
        session, trace = self._session, self._session.trace
        selection = session.selection.current
        session.tasks.cancel(_LINKS)
        if trace is None or not selection:
            self._publish(Linked(selection) if selection else NOTHING)
            return
        request: Request[Linked] | Callable[[], Linked]
        if selection.group is not None and session.index is not None:
            # Imported late: statistics import much.
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
        if trace is None or not len(self.linked.spans):
            return
        ids = self._by_time(trace)
        if self.position < 0:
            starts = trace.spans.start[ids]
            first = int(np.searchsorted(starts, session.viewport.visible.start))
            self.position = first - 1 if by > 0 else first
        self.position = (self.position + by) % len(ids)
        session.reveal_span(int(ids[self.position]))
        self.linked_position_changed.emit(self.position)

    def show_longest(self) -> None:
        """Zoom to the longest span of the selected group, once it is known."""
        if self._session.selection.current.group is None:
            return
        self._longest_pending = self._session.selection.current
        if self.linked.selection == self._longest_pending:
            self._go_to_longest()

    def _go_to_longest(self) -> None:
        session, trace, longest = (
            self._session,
            self._session.trace,
            self.linked.longest,
        )
        self._longest_pending = Selection()
        if trace is None or longest < 0:
            return
        positions = np.flatnonzero(self._by_time(trace) == longest)
        self.position = int(positions[0]) if len(positions) else -1
        self.linked_position_changed.emit(self.position)
        session.fit_selection()
        self.reveal_requested.emit(longest)

    @property
    def current_span(self) -> int | None:
        """The linked span that `step` is at, if any."""
        trace = self._session.trace
        if trace is None or self.position < 0:
            return None
        return int(self._by_time(trace)[self.position])

    def time(self) -> TimeRange | None:
        """Return the time of the current linked span, otherwise of all of them."""
        trace, span = self._session.trace, self.current_span
        if trace is None or self.linked.selection != self._session.selection.current:
            return None
        ids = self.linked.spans.tolist() if span is None else [span]
        return of_selection(trace, Selection("spans", tuple(ids)))

    def _by_time(self, trace: Trace) -> I64:
        """Return the linked spans in time order."""
        if self._in_time is None:
            ids = self.linked.spans
            self._in_time = ids[np.argsort(trace.spans.start[ids], kind="stable")]
        return self._in_time

    def _on_correlation(self, correlation: Correlation | None) -> None:
        self.correlation = correlation
        self.correlation_changed.emit(correlation)
        self.update()

    def _on_failed(self, failure: TaskFailure) -> None:
        self._publish(Linked(self._session.selection.current))
        self._session.report(failure)

    def _publish(self, result: Linked) -> None:
        is_other = result.selection != self.linked.selection
        if is_other or self.position >= len(result.spans):
            self.position = -1
        self.linked, self._in_time = result, None
        self.linked_changed.emit(result)
        if result.selection and result.selection == self._longest_pending:
            self._go_to_longest()
