"""Session: one open trace and everything the user did to its view."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.selection_mapping import reselected
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session.bookmarks.model import BookmarkModel
from ggscope.session.critical_path import CriticalPathModel
from ggscope.session.current_trace import CurrentTrace
from ggscope.session.display import DisplayOptions
from ggscope.session.history import History
from ggscope.session.lanes import LaneModel
from ggscope.session.linking import Linking
from ggscope.session.navigator import Navigator
from ggscope.session.queries import Queries
from ggscope.session.ranges import RangeModel
from ggscope.session.replay import ReplayModel
from ggscope.session.ruler import RulerModel
from ggscope.session.scheduler import FrameScheduler
from ggscope.session.selection import SelectionModel
from ggscope.session.tasks import TaskFailure, Tasks
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

    Views connect to the signals, ask `trace` and `index`, and call the session
    what the user pointed at. Payloads are frozen values. Everything here runs
    on the main thread.
    """

    trace_changed = Signal(object)  # TraceChange
    status_message = Signal(object)  # str: for the status bar
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
        self._current = CurrentTrace()
        self.viewport = Viewport(self)
        self.selection = SelectionModel(self)
        self.ranges = RangeModel(self.viewport, self.selection, self)
        self.history = History(self)
        self.lanes = LaneModel(self.history, self)
        self.display = DisplayOptions(self)
        self.replay = ReplayModel(self._current, self.viewport, self)
        self.queries = Queries(self._current, self.tasks, self)
        self.linking = Linking(self._current, self.selection, self.tasks, self)
        self.critical_path = CriticalPathModel(
            self._current, self.selection, self.linking, self.display, self.tasks, self
        )
        self.navigator = Navigator(
            self._current,
            viewport=self.viewport,
            selection=self.selection,
            ranges=self.ranges,
            linking=self.linking,
            queries=self.queries,
            lanes=self.lanes,
            history=self.history,
            parent=self,
        )
        subject = self.navigator.bookmark_subject
        self.ruler = RulerModel(self._current, self.viewport, self.tasks, subject, self)
        self.bookmarks = BookmarkModel(subject, self)
        self.selection.settled.connect(self.linking.update)
        self.linking.problems_found.connect(self.set_problems)
        self.bookmarks.show_requested.connect(self.navigator.show_bookmark)
        self.bookmarks.status_message.connect(self.status_message)
        self.ruler.status_message.connect(self.status_message)
        self.navigator.status_message.connect(self.status_message)
        self.critical_path.status_message.connect(self.status_message)
        self.queries.filter_rejected.connect(self.problem_reported)
        self.queries.failed.connect(self.report)
        self.linking.failed.connect(self.report)
        self.tasks.failed.connect(self.report)

    # -- the trace ---------------------------------------------------------

    @property
    def trace(self) -> Trace | None:
        """The trace; None before it is read and after `close`."""
        return self._current.trace

    @property
    def appended_from(self) -> int:
        """The first span that the trace before this one did not have."""
        return self._current.appended_from

    @property
    def index(self) -> TraceIndex | None:
        """What is derived from the trace; None where there is none."""
        return self._current.index

    @property
    def is_appending(self) -> bool:
        """Whether a running program causes the present signals, and not the user."""
        return self.frames.is_appending

    def set_trace(
        self,
        trace: Trace,
        change: TraceChange = TraceChange.REPLACED,
        visible: TimeRange | None = None,
    ) -> None:
        """Show `trace` from now on, and of it the range `visible` where that is given.

        EXTENDED, GREW and APPENDED keep all that the user did (a view that showed
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
        self, trace: Trace, change: TraceChange, time: TimeRange | None
    ) -> None:
        old = self.trace
        showed_all = old is None or self.viewport.visible == self.viewport.fitted
        is_new = old is None or change is TraceChange.REPLACED
        is_appended = old is not None and change is TraceChange.APPENDED
        self._current.replace(
            trace, is_appended=is_appended, keeps_rows=change is TraceChange.GREW
        )
        self.viewport.extent = trace.extent
        if not is_appended:  # else what waits is about spans that stay
            self.tasks.forget_held()
        self.tasks.hold(trace.is_partial)
        self.queries.on_trace(
            keeps_rows=change is TraceChange.GREW, is_appended=is_appended
        )
        if is_new or old is None:
            self.replay.end()
            self.ranges.unpin()
            self.selection.forget_listed()
            self.clear_selection()
        elif change is TraceChange.EXTENDED:
            self.selection.select(reselected(self.selection.current, old, trace))
        self.display.set_trace(trace)
        self.ruler.follow(trace, is_other=change is TraceChange.REPLACED)
        self.trace_changed.emit(change)
        if not (is_appended and trace.is_running):
            self.linking.on_trace()
        if is_new:
            self.history.clear()
        viewport = self.viewport
        if time is None:
            time = viewport.fitted if is_new or showed_all else viewport.visible
        else:  # it follows a program: no step of the user's
            showed_all = time != viewport.visible
        viewport.set_visible(time)
        self.queries.ask_again(is_appended=is_appended)
        if is_new:
            self.navigator.note()
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
        if self.trace is None:
            return
        self._current.close()
        self.viewport.extent = None
        self.queries.forget()
        self.linking.forget()
        self.ruler.clear()
        self.replay.end()
        self.trace_changed.emit(TraceChange.CLOSED)

    def reload(self, options: dict[str, str] | None = None) -> None:
        """Ask for the file to be read again, with these reader options if given."""
        self.reload_requested.emit(options)

    # -- selection ---------------------------------------------------------

    def clear_selection(self) -> None:
        """Select nothing and mark nothing."""
        self.selection.select(Selection())
        self.ranges.set_marked(None)

    def report(self, failure: TaskFailure) -> None:
        """Report people that a task failed."""
        title = f"{failure.title}: " if failure.title and failure.report else ""
        self.problem_reported.emit(title + failure.message)
