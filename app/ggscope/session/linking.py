"""What belongs to the selection: linked spans, graph nodes, and missing records."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from PySide6.QtCore import QObject, Signal

from ggscope.analysis.completeness.expected import Completeness, completeness
from ggscope.analysis.graph.op_links import NO_LINKS, OpLinks
from ggscope.analysis.links import NOTHING, QUICK_SPANS, Linked, is_quick, linked
from ggscope.analysis.sessions.correlate import Correlation, correlate
from ggscope.descriptions.completeness import is_reported, with_completeness
from ggscope.model.selection import Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session.current_trace import CurrentTrace
from ggscope.session.selection import SelectionModel
from ggscope.session.tasks import Request, TaskFailure, Tasks
from ggscope.session.time_ranges import of_selection

_LINKS, _CORRELATION, _COMPLETENESS = "links", "correlation", "completeness"
_OP_LINKS = "op links"
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
    op_links_changed(OpLinks) : the links of the selected op followed from a worker;
        nothing else of `linked` is new.
    linked_position_changed(int) : `step` went to another linked span.
    correlation_changed(Correlation | None) : it became known, or the trace changed.
    span_reached(int) : `step` went to this linked span.
    longest_found(int) : the span that `show_longest` looked for.
    problems_found(Trace) : the trace with the problem that records are missing.
    failed(TaskFailure) : the links could not be computed.
    """

    linked_changed = Signal(object)
    op_links_changed = Signal(object)
    linked_position_changed = Signal(object)
    correlation_changed = Signal(object)
    span_reached = Signal(object)
    longest_found = Signal(object)
    problems_found = Signal(object)
    failed = Signal(object)

    def __init__(
        self,
        current: CurrentTrace,
        selection: SelectionModel,
        tasks: Tasks,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._current = current
        self._selection = selection
        self._tasks = tasks
        self.linked = NOTHING
        self.correlation: Correlation | None = None
        self.position = -1
        self._in_time: I64 | None = None
        self._longest_pending = Selection()
        self._complete: tuple[Trace, Completeness] | None = None

    def on_trace(self) -> None:
        """Match spans and nodes of a new trace, then update the links."""
        trace = self._current.trace
        self.correlation = None
        self._check_completeness()
        self._tasks.cancel(_CORRELATION)
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
        self._tasks.run(_CORRELATION, request, self._on_correlation, title=title)

    def _check_completeness(self) -> None:
        """Compare the passes of a complete trace; missing records become a problem."""
        trace = self._current.trace
        self._tasks.cancel(_COMPLETENESS)
        known = self._complete
        if trace is None or known is None or known[0].spans is not trace.spans:
            known = self._complete = None
        if trace is None or trace.pending or len(trace.spans) > _MAX_COMPARED:
            return
        if known is not None:
            result = known[1]
            if not is_reported(trace, result):
                # Files were added or removed: the same spans, other problems.
                self._tasks.run(_COMPLETENESS, lambda _: result, self._on_completeness)
            return
        request = partial(completeness, trace)
        self._tasks.run(_COMPLETENESS, request, self._on_completeness)

    def _on_completeness(self, result: Completeness) -> None:
        trace = self._current.trace
        if trace is None:
            return
        self._complete = (trace, result)
        with_problems = with_completeness(trace, result)
        if with_problems is not trace:
            self.problems_found.emit(with_problems)

    def forget(self) -> None:
        """Release everything; the trace is closed."""
        self._complete = None
        self.correlation = None
        self._publish(NOTHING)

    def update(self) -> None:
        """Compute the links of the selection; `linked_changed` follows."""
        trace = self._current.trace
        selection = self._selection.current
        self._tasks.cancel(_LINKS)
        self._tasks.cancel(_OP_LINKS)
        if trace is None or not selection:
            self._publish(Linked(selection) if selection else NOTHING)
            return
        request: Request[Linked] | Callable[[], Linked]
        index = None if selection.group is None else self._current.index
        if index is not None:
            # Imported late: statistics import much.
            from ggscope.analysis.statistics.members import linked_group

            request = partial(linked_group, index, selection, self.correlation)
        else:
            request = partial(linked, trace, selection, self.correlation)
        if is_quick(trace, selection):
            self._publish(self._with_op_links(trace, request()))
            return
        self._tasks.run(
            _LINKS,
            request,
            self._publish,
            title="Finding related spans",
            on_error=self._on_failed,
            even_if_held=True,
        )

    def _with_op_links(self, trace: Trace, result: Linked) -> Linked:
        """Return links with those of a selected op; in long traces these follow."""
        selection = result.selection
        is_one_op = selection.table == "spans" and len(selection.ids) == 1
        if not is_one_op or trace.pending:
            return result
        # Imported late: it looks at passes, which the first picture does without.
        from ggscope.analysis.graph.dependencies import op_links

        request = partial(op_links, trace, selection.ids[0], self.correlation)
        if len(trace.spans) <= QUICK_SPANS and not trace.is_running:
            return replace(result, op_links=request())

        def publish(links: OpLinks) -> None:
            is_same = self.linked.selection == selection
            if is_same and links != self.linked.op_links:
                self.linked = replace(self.linked, op_links=links)
                self.op_links_changed.emit(links)

        # As long as the program runs those of the last snapshot stay.
        known = self.linked.op_links
        is_same = self.linked.selection == selection
        self._tasks.run(_OP_LINKS, lambda _: request(), publish, even_if_held=True)
        return replace(result, op_links=known if is_same else NO_LINKS)

    def step(self, by: int, tick: int) -> None:
        """Go to the next or previous linked span, at first to one near `tick`."""
        trace = self._current.trace
        if trace is None or not len(self.linked.spans):
            return
        ids = self._by_time(trace)
        if self.position < 0:
            starts = trace.spans.start[ids]
            first = int(np.searchsorted(starts, tick))
            self.position = first - 1 if by > 0 else first
        self.position = (self.position + by) % len(ids)
        self.span_reached.emit(int(ids[self.position]))
        self.linked_position_changed.emit(self.position)

    def show_longest(self) -> None:
        """Zoom to the longest span of the selected group, once it is known."""
        if self._selection.current.group is None:
            return
        self._longest_pending = self._selection.current
        if self.linked.selection == self._longest_pending:
            self._go_to_longest()

    def _go_to_longest(self) -> None:
        trace, longest = self._current.trace, self.linked.longest
        self._longest_pending = Selection()
        if trace is None or longest < 0:
            return
        positions = np.flatnonzero(self._by_time(trace) == longest)
        self.position = int(positions[0]) if len(positions) else -1
        self.linked_position_changed.emit(self.position)
        self.longest_found.emit(longest)

    @property
    def current_span(self) -> int | None:
        """The linked span that `step` is at, if any."""
        trace = self._current.trace
        if trace is None or self.position < 0:
            return None
        return int(self._by_time(trace)[self.position])

    def time(self) -> TimeRange | None:
        """Return the time of the current linked span, otherwise of all of them."""
        trace, span = self._current.trace, self.current_span
        if trace is None or self.linked.selection != self._selection.current:
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
        self._publish(Linked(self._selection.current))
        self.failed.emit(failure)

    def _publish(self, result: Linked) -> None:
        is_other = result.selection != self.linked.selection
        if is_other or self.position >= len(result.spans):
            self.position = -1
        self.linked, self._in_time = result, None
        self.linked_changed.emit(result)
        if result.selection and result.selection == self._longest_pending:
            self._go_to_longest()
