"""Links of one session: what the selection has to do with, and steps through it."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ggscope.analysis.completeness.expected import Completeness, completeness
from ggscope.analysis.links import QUICK_SPANS, Linked, is_quick, linked
from ggscope.analysis.sessions.correlate import Correlation, correlate
from ggscope.model.selection import Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session import view as view_range
from ggscope.session.tasks import TaskFailure
from ggscope.words.completeness import CODE, with_completeness

if TYPE_CHECKING:
    from ggscope.session.session import Session

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
        self.found = Linked()
        self.correlation: Correlation | None = None
        self.position = -1
        self._in_time: I64 | None = None
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
        title = session.tr("Matching spans with the graph")
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
            if found.n_missing and all(w.code != CODE for w in trace.warnings):
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
        self._publish(Linked())

    def update(self) -> None:
        """Find what the selection has to do with; the signal follows."""
        session, trace = self._session, self._session.trace
        selection = session.selection
        session.tasks.cancel(_LINKS)
        if trace is None or not selection:
            self._publish(Linked(selection))
            return
        request = partial(linked, trace, selection, self.correlation)
        if is_quick(trace, selection):
            self._publish(request())
            return
        session.tasks.run(
            _LINKS,
            request,
            self._publish,
            title=session.tr("Finding what belongs together"),
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
