"""Session: one open trace and everything a person did to its view."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.selection_mapping import reselected
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session import time_ranges
from ggscope.session.bookmarks.bookmarks import (
    Subject,
    subject_of_range,
    subject_of_selection,
)
from ggscope.session.bookmarks.model import BookmarkModel
from ggscope.session.deferred_release import free_in_steps
from ggscope.session.display import DisplayOptions
from ggscope.session.history import History, ViewPoint
from ggscope.session.lanes import LaneModel
from ggscope.session.linking import Linking
from ggscope.session.queries import Queries
from ggscope.session.ranges import RangeModel
from ggscope.session.scheduler import FrameScheduler
from ggscope.session.selection import SelectionModel
from ggscope.session.tasks import TaskFailure, Tasks
from ggscope.session.tokens import NO_TOKENS, TokenTimes, token_times
from ggscope.session.viewport import Viewport

if TYPE_CHECKING:
    from ggscope.session.live import LiveSession
    from ggscope.session.open_traces import OpenTraces
    from ggscope.session.run import Run


class TraceChange(Enum):
    """What happened to the trace.

    REPLACED : another trace, or the file read anew.
    EXTENDED : the next snapshot while spans are being read; ids may be others.
    GREW : the next snapshot with the same spans; names or accesses came.
    APPENDED : the next snapshot of a program that runs: the same spans, and others
        behind them from `Session.appended_from` on.
    CLOSED : there is none any more.
    """

    REPLACED = "replaced"
    EXTENDED = "extended"
    GREW = "grew"
    APPENDED = "appended"
    CLOSED = "closed"


class Session(QObject):
    """The document. Setters compare first: same value, no signal.

    Views connect to the signals, ask `trace` and `index`, and tell the session
    what the person pointed at. Payloads are frozen values. Everything here runs
    on the main thread.
    """

    trace_changed = Signal(object)  # TraceChange
    view_requested = Signal(object)  # id of a view to bring to the front
    show_requested = Signal(object)  # id of a view to show the selection in, large
    status_message = Signal(object)  # str: for the status bar
    reveal_requested = Signal(object)  # span id: scroll it into view
    reload_requested = Signal(object)  # dict of reader options, or None
    problem_reported = Signal(object)  # str: a failure of a view or a task

    def __init__(self, path: Path | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.path = path
        self.run: Run | None = None
        """A program that the tab has started; set before its views are made."""
        self.follower: LiveSession | None = None
        """What shows a program here while it runs; set before its views are made."""
        self.open_traces: OpenTraces | None = None
        """The sessions of all tabs; set before its views are made."""
        self.tasks = Tasks(self)
        self.frames = FrameScheduler(self.tasks, self)
        self.viewport = Viewport(self)
        self.selection = SelectionModel(self)
        self.ranges = RangeModel(self.viewport, self.selection, self)
        self.history = History(self)
        self.lanes = LaneModel(self.history, self)
        self.lanes.changed.connect(self._note)
        self.viewport.settled.connect(self._note)
        self.selection.settled.connect(self._on_selection)
        self.selection.reveal_requested.connect(self.reveal_span)
        self.display = DisplayOptions(self)
        self.bookmarks = BookmarkModel(self.bookmark_subject, self)
        self.bookmarks.status_message.connect(self.status_message)
        self._trace: Trace | None = None
        self._index: TraceIndex | None = None
        self._earlier: TraceIndex | None = None
        self.appended_from = 0
        """The first span that the trace before this one did not have."""
        self.linking = Linking(self)
        self.linking.reveal_requested.connect(self.reveal_requested)
        self._shown_in = ("", Selection())
        self._tokens: TokenTimes | None = None
        self.queries = Queries(self)
        self.queries.failed.connect(self.problem_reported)
        self.queries.filter_changed.connect(self._note)
        self.tasks.failed.connect(self.report)

    # -- the trace ---------------------------------------------------------

    @property
    def trace(self) -> Trace | None:
        """The trace; None before it is read and after `close`."""
        return self._trace

    @property
    def is_appending(self) -> bool:
        """Whether a running program causes the present signals, and not a person."""
        return self.frames.is_appending

    @property
    def index(self) -> TraceIndex | None:
        """What is derived from the trace; None where there is none."""
        if self._index is None and self._trace is not None:
            self._index = TraceIndex(
                self._trace, self._earlier, is_appended=self.appended_from > 0
            )
            self._earlier = None
        return self._index

    def set_trace(
        self,
        trace: Trace,
        change: TraceChange = TraceChange.REPLACED,
        visible: TimeRange | None = None,
    ) -> None:
        """Show `trace` from now on, and of it the range `visible` where that is given.

        EXTENDED, GREW and APPENDED keep all that a person did (a view that showed
        everything goes on showing everything); EXTENDED looks the selected spans up by
        their record. REPLACED fits, and forgets what refers to rows of the old trace.

        While spans are still to come, tasks wait that are not worth doing yet.
        """
        self.frames.is_appending = change is TraceChange.APPENDED and trace.is_running
        self.frames.n_spans = len(trace.spans)
        try:
            self._set_trace(trace, change, visible)
        finally:
            self.frames.is_appending = False

    def _set_trace(
        self, trace: Trace, change: TraceChange, wanted: TimeRange | None
    ) -> None:
        old = self._trace
        showed_all = old is None or self.viewport.visible == self.viewport.fitted
        is_new = old is None or change is TraceChange.REPLACED
        is_appended = old is not None and change is TraceChange.APPENDED
        self.appended_from = len(old.spans) if old is not None and is_appended else 0
        if is_appended:  # its columns go on in the next snapshot
            self._earlier = self._index or self._earlier
        else:
            if old is not None:
                free_in_steps(old, self._index)
            # Names and accesses change nothing of the rows and most of the colours.
            self._earlier = self._index if change is TraceChange.GREW else None
        self._trace, self._index, self._tokens = trace, None, None
        self.viewport.extent = trace.extent
        if not is_appended:  # else what waits is about spans that stay
            self.tasks.forget_held()
        self.tasks.hold(trace.is_partial)
        self.queries.on_trace(
            keeps_rows=change is TraceChange.GREW, is_appended=is_appended
        )
        if is_new or old is None:
            self.ranges.stop_keeping()
            self.selection.forget_listed()
            self.clear_selection()
        elif change is TraceChange.EXTENDED:
            self.selection.select(reselected(self.selection.current, old, trace))
        self.display.set_trace(trace)
        self.trace_changed.emit(change)
        if not (is_appended and trace.is_running):
            self.linking.on_trace()
        if is_new:
            self.history.clear()
        viewport = self.viewport
        if wanted is None:
            wanted = viewport.fitted if is_new or showed_all else viewport.visible
        else:  # it follows a program: no step of the person's
            showed_all = wanted != viewport.visible
        viewport.set_visible(wanted)
        self.queries.ask_again(is_appended=is_appended)
        if is_new:
            self._note()
        if is_new or showed_all:
            self.history.settle()

    def set_problems(self, trace: Trace) -> None:
        """Show the present trace with other problems, and nothing else changed."""
        self.set_trace(trace, TraceChange.GREW)

    def close(self) -> None:
        """Stop all work, without waiting for it, and let go of the trace."""
        self.tasks.close()
        self.frames.close()
        self.history.clear()
        if self._trace is None:
            return
        free_in_steps(self._trace, self._index)
        self._trace = self._index = self._earlier = self._tokens = None
        self.viewport.extent = None
        self.queries.forget()
        self.linking.forget()
        self.trace_changed.emit(TraceChange.CLOSED)

    def reload(self, options: dict[str, str] | None = None) -> None:
        """Ask for the file to be read again, with these reader options if given."""
        self.reload_requested.emit(options)

    # -- selection ---------------------------------------------------------

    def show_in(self, view_id: str, selection: Selection) -> None:
        """Select something, and show it in a view, whatever that has to open for it."""
        self.selection.select(selection)
        self._shown_in = (view_id, selection)
        self.view_requested.emit(view_id)
        self.show_requested.emit(view_id)

    def is_shown_in(self, view_id: str) -> bool:
        """Tell whether what is selected was last asked to be shown in a view.

        For views that are made only then.
        """
        return bool(self.selection.current) and self._shown_in == (
            view_id,
            self.selection.current,
        )

    def clear_selection(self) -> None:
        """Select nothing and mark nothing."""
        self.selection.select(Selection())
        self.ranges.set_marked(None)

    def reveal_span(self, span: int) -> None:
        """Scroll time and lanes so that a span can be seen, without zooming."""
        if self._trace is None or not 0 <= span < len(self._trace.spans):
            return
        spans = self._trace.spans
        self.viewport.bring_into_view(
            TimeRange(int(spans.start[span]), int(spans.end[span]))
        )
        self.reveal_requested.emit(span)

    def selected_range(self) -> TimeRange | None:
        """Return the time from the first to the last selected thing, or None.

        Of what does not lie in time: that of the spans that are linked with it.
        """
        if self._trace is None or not self.selection.current:
            return None
        found = time_ranges.of_selection(self._trace, self.selection.current)
        return self.linking.time() if found is None else found

    def step_span(self, by: int) -> None:
        """Select the next (+1) or previous (-1) span of the same row.

        Where something else than a span is selected, look at the next or previous of
        the spans that are linked with it; the selection stays.
        """
        index, active = self.index, self.selection.current.active
        if index is None or active is None:
            return
        if self.selection.current.table != "spans":
            self.linking.step(by)
            return
        neighbour = index.neighbours(active)[1 if by > 0 else 0]
        if neighbour is not None:
            self.selection.select_span(int(neighbour))

    def fit_selection(self) -> None:
        """Show the selected things, or else the marked range, with some air."""
        target = self._target_range()
        if target is not None:
            self._show_selected(time_ranges.with_air(target))

    def focus_selection(self) -> None:
        """Bring the selection to the middle; where it is there already, fit it."""
        target = self._target_range()
        if target is None:
            return
        viewport = self.viewport
        centred = time_ranges.centred(viewport.visible, target)
        centred = time_ranges.clamped(centred, viewport.bounds)
        if centred == viewport.visible:
            self.fit_selection()
        else:
            self._show_selected(centred)

    def _show_selected(self, visible: TimeRange) -> None:
        self.viewport.set_visible(visible, to_selection=self.selection.is_listed)

    def mark_selection(self) -> None:
        """Turn the selection into a marked range."""
        chosen = self.selected_range()
        if chosen is not None:
            self.ranges.set_marked(MarkedRange(chosen))

    def _target_range(self) -> TimeRange | None:
        chosen = self.selected_range()
        if chosen is None and self.ranges.marked is not None:
            return self.ranges.marked.time
        return chosen

    def step_hit(self, by: int) -> None:
        """Select the next (+1) or previous (-1) hit and bring it into view.

        The first step goes to the hit nearest to the left edge of the view;
        after the last hit comes the first again.
        """
        self.queries.step(by)

    # -- tokens ------------------------------------------------------------

    def step_token(self, by: int) -> None:
        """Go to the next (+1) or previous (-1) token and select its span."""
        tokens = self.tokens
        chosen = self.selected_range()
        middle = self.viewport.middle
        position = tokens.step(middle if chosen is None else chosen.start, by)
        if position is not None:
            self.go_to_token(position)
        elif self._trace is not None:
            self.status_message.emit(_no_token(len(tokens), by))

    @property
    def tokens(self) -> TokenTimes:
        """The tokens of the trace in time order; found when first asked for."""
        if self._trace is None:
            return NO_TOKENS
        if self._tokens is None:
            self._tokens = token_times(self._trace)
        return self._tokens

    def go_to_token(self, position: int) -> None:
        """Show the token at a place of `tokens`, and select its span."""
        tokens = self.tokens
        if not 0 <= position < len(tokens):
            return
        span, time = int(tokens.span[position]), tokens.range_of(position)
        if span >= 0:
            self.selection.select_span(span, reveal=False)
        else:
            self.ranges.set_marked(MarkedRange(time))
        self.viewport.set_visible(time_ranges.with_air(time))
        if span >= 0:
            self.reveal_requested.emit(span)

    # -- bookmarks ---------------------------------------------------------

    def go_to_bookmark(self, position: int) -> None:
        """Show the bookmark at `position`; nothing happens where there is none.

        One that is in view stays where it is. A range is marked, so that one sees where
        it ends.
        """
        if not 0 <= position < len(self.bookmarks.items):
            return
        found = self.bookmarks.items[position]
        shown = self.viewport.visible
        if found.time.duration > shown.duration:
            self.viewport.set_visible(time_ranges.with_air(found.time))
        elif not shown.start <= found.time.start <= found.time.end <= shown.end:
            self.viewport.set_visible(
                time_ranges.centred(self.viewport.visible, found.time)
            )
        if found.time.duration:
            self.ranges.set_marked(MarkedRange(found.time))
        index = self.index
        if found.lane and index is not None and index.lanes.position(found.lane) >= 0:
            self.lanes.reveal_requested.emit(found.lane)

    def bookmark_subject(self) -> Subject:
        """Return what a bookmark would be set on now: what was made last.

        That is the marked range or the selection, else the point under the mouse, else
        the middle of the view.
        """
        if self.ranges.marked is not None and (
            self.ranges.is_marked_last or not self.selection.current
        ):
            return subject_of_range(self.index, self.ranges.marked)
        chosen = self.selected_range()
        if chosen is not None:
            return subject_of_selection(self.index, self.selection.current, chosen)
        tick = self.viewport.cursor_tick
        if tick is None:
            tick = self.viewport.middle
        return Subject(TimeRange(tick, tick))

    # -- history -----------------------------------------------------------

    def back(self) -> None:
        """Return to the previous view point."""
        self._apply(self.history.back())

    def forward(self) -> None:
        """Go to the next view point again."""
        self._apply(self.history.forward())

    def _apply(self, point: ViewPoint | None) -> None:
        if point is None:
            return
        self.viewport.set_visible(point.visible)
        self.queries.set_filter(point.filter)
        self.selection.select(point.selection)
        self.lanes.set_state(point.lanes)

    def _note(self, _: object = None) -> None:
        if self._trace is not None:
            self.history.note(
                ViewPoint(
                    self.viewport.visible,
                    self.selection.current,
                    self.queries.filter,
                    self.lanes.state,
                )
            )

    def _on_selection(self, _: object) -> None:
        self._note()
        self.linking.update()

    def report(self, failure: TaskFailure) -> None:
        """Tell people that a task failed."""
        title = f"{failure.title}: " if failure.title and failure.report else ""
        self.problem_reported.emit(title + failure.message)


def _no_token(n: int, by: int) -> str:
    """Say why there is no token to step to."""
    if not n:
        return "No tokens recorded in this trace"
    return "This is the last token" if by > 0 else "This is the first token"
