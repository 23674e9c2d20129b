"""Document: one tab with one file, from opening to closing."""

import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from ggscope.gui.filter_popup import FilterPopup
from ggscope.gui.load_pages import Banner, LoadingCard, ProblemPage
from ggscope.gui.status import StatusStrip, progress_text
from ggscope.gui.toolbar import Toolbar
from ggscope.gui.workspace import Workspace
from ggscope.model.trace import Trace
from ggscope.render.theme import Theme
from ggscope.session.loader import Loader, LoadState
from ggscope.session.session import Session, TraceChange
from ggscope.session.settings import Settings
from ggscope.session.tasks import TaskState
from ggscope.views.base import View

LOW_CONFIDENCE = "low_confidence"


class Document(QWidget):
    """Toolbar, panes and status strip of one session.

    Signals
    -------
    title_changed : the tab's text.
    ops_requested, renderer_requested : a click in the status strip.
    problem_reported(str) : for the window's message bar.
    """

    title_changed = Signal()
    ops_requested = Signal()
    renderer_requested = Signal()
    problem_reported = Signal(str)
    close_requested = Signal()
    ready = Signal()

    def __init__(
        self,
        path: Path,
        settings: Settings,
        theme: Theme,
        *,
        open_files: Callable[[], object],
        export: Callable[[], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.path = path
        self._settings = settings
        self._lanes_reader = ""
        self._guessed = ""
        self.session = Session(path, self)
        self.session.wheel_zooms = settings.drawing.wheel == "zoom"
        self.session.set_shows_stalls(settings.drawing.shows_stalls)
        self.loader = Loader(self.session, is_window_active)
        self.toolbar = Toolbar(self.session, open_files, export, self)
        self.banner = Banner(self)
        self.workspace = Workspace(self.session, settings, theme, self)
        self.problem_page = ProblemPage(path, self)
        self.status = StatusStrip(self.session, self)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.workspace)
        self._stack.addWidget(self.problem_page)
        self._popup: FilterPopup | None = None
        self._banner_box = QWidget(self)
        inner = QVBoxLayout(self._banner_box)
        inner.setContentsMargins(8, 8, 8, 0)
        inner.addWidget(self.banner)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.toolbar)
        box.addWidget(self._banner_box)
        box.addWidget(self._stack, 1)
        box.addWidget(self.status)
        self._banner_box.hide()
        self.card = LoadingCard(path.name, self.workspace)
        self._connect()

    @property
    def title(self) -> str:
        """Text of the tab."""
        return self.path.name or str(self.path)

    def open(
        self, reader_id: str | None = None, options: dict[str, str] | None = None
    ) -> None:
        """Start reading the file."""
        self.loader.open(reader_id, options)

    def release(self) -> None:
        """Stop all work and detach the views; the tab is about to go."""
        self.workspace.release()
        self.session.close()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.workspace.set_theme(theme)

    def show_filter_popup(self, anchor: QWidget | None = None) -> None:
        """Open the popup that adds to the filter."""
        if self._popup is not None:
            self._popup.close()
        self._popup = FilterPopup(self.session, self, self._settings)
        self._popup.closed.connect(self._on_popup_closed)
        self._popup.show_below(anchor or self.toolbar.add_filter)

    def focus_views(self) -> None:
        """Give the focus to the active pane."""
        cell = self.workspace.active_cell
        if cell is not None:
            cell.setFocus()

    def say(self, text: str, action_text: str = "", action: object = None) -> None:
        """Show a quiet message above the panes."""
        self._guessed = ""
        self._banner_box.show()
        self.banner.say(text, action_text, action)

    def hide_message(self) -> None:
        """Take the message away."""
        self.banner.hide()
        self._banner_box.hide()

    # -- reactions ---------------------------------------------------------

    def _connect(self) -> None:
        self.toolbar.filter_requested.connect(self.show_filter_popup)
        self.toolbar.search.left.connect(self.focus_views)
        self.banner.close_button.clicked.connect(self._on_banner_closed)
        self.status.ops_clicked.connect(self.ops_requested)
        self.status.problems_clicked.connect(self._on_problems_clicked)
        self.status.renderer_clicked.connect(self.renderer_requested)
        self.card.cancel_requested.connect(self.loader.cancel)
        self.problem_page.reload_requested.connect(self._on_reload)
        self.problem_page.salvage_requested.connect(self._on_salvage)
        self.problem_page.reader_chosen.connect(self._on_reader_chosen)
        self.problem_page.close_requested.connect(self.close_requested)
        self.loader.state_changed.connect(self._on_load_state)
        self.loader.file_changed.connect(self._on_file_changed)
        self.session.tasks.task_changed.connect(self._on_task_changed)
        self.session.trace_changed.connect(self._on_trace_changed)
        self.session.lanes_changed.connect(self._on_lanes_changed)
        self.session.problem_reported.connect(self._on_problem)
        self.workspace.cells_changed.connect(self._bind_timelines)
        self._settings.changed.connect(self._on_settings_changed)

    def _on_problems_clicked(self) -> None:
        self.workspace.show_drawer("problems")

    def _on_banner_closed(self) -> None:
        self._banner_box.hide()
        if self._guessed:
            trusted = {*self._settings.files.trusted, self._guessed}
            self._settings.change("files", trusted=tuple(sorted(trusted)))
            self._guessed = ""

    def _on_problem(self, text: str) -> None:
        self.problem_reported.emit(text)

    def _on_popup_closed(self) -> None:
        self._popup = None

    def _on_reload(self) -> None:
        self.loader.reload()

    def _on_salvage(self) -> None:
        self.loader.reload({"salvage": "true"})

    def _on_reader_chosen(self, reader_id: str) -> None:
        self.loader.open(reader_id)

    def _on_load_state(self, state: LoadState) -> None:
        has_trace = self.session.trace is not None
        self.card.set_wanted(state is LoadState.LOADING and not has_trace)
        if state in (LoadState.FAILED, LoadState.CANCELLED) and not has_trace:
            failure = self.loader.failure
            self.problem_page.show_failure(failure, reader_choices())
            self._stack.setCurrentWidget(self.problem_page)
        elif state is LoadState.FAILED and self.loader.failure is not None:
            # What was readable stays on the screen.
            self.say(self.loader.failure.message, self.tr("Reload"), self._on_reload)
        else:
            self._stack.setCurrentWidget(self.workspace)
        self.toolbar.set_usable(self._stack.currentWidget() is self.workspace)
        if state is LoadState.LOADING:
            self.hide_message()
        if state is LoadState.READY:
            self._say_if_guessed()
            self.ready.emit()
        self.title_changed.emit()

    def _say_if_guessed(self) -> None:
        """Offer another reader, until the person has closed that once per format."""
        trace = self.session.trace
        if trace is None or trace.info.reader_id in self._settings.files.trusted:
            return
        for warning in trace.warnings:
            if warning.code == LOW_CONFIDENCE:
                self.say(
                    warning.message,
                    self.tr("Open with another reader"),
                    self._on_other_reader,
                )
                self._guessed = trace.info.reader_id

    def _on_other_reader(self) -> None:
        from ggscope.gui.dialogs import choose_reader

        chosen = choose_reader(self.path, reader_choices(), self)
        if chosen is not None:
            self._on_reader_chosen(chosen)

    def _on_file_changed(self, is_stale: bool) -> None:
        if is_stale:
            self.say(
                self.tr("The file changed on disk."),
                self.tr("Reload (F5)"),
                self._on_reload,
            )
        else:
            self.hide_message()

    def _on_task_changed(self, state: TaskState) -> None:
        if state.key == "load" and state.is_running:
            text = progress_text(state, time.monotonic()).partition(" · ")[2]
            self.card.set_progress(text, state.done, state.total)

    def _on_trace_changed(self, change: TraceChange) -> None:
        self.card.set_wanted(False)
        trace = self.session.trace
        if change is TraceChange.REPLACED and trace is not None:
            self._restore_lanes(trace)
            self._name_problems(trace)
        elif trace is not None:
            self._name_problems(trace)

    def _name_problems(self, trace: Trace) -> None:
        n = len(trace.warnings)
        text = self.tr("Problems")
        self.workspace.drawer.set_tab_text("problems", f"{text}  {n}" if n else text)

    def _restore_lanes(self, trace: Trace) -> None:
        """Arrange lanes as they were in the last trace of this format."""
        if self._lanes_reader != trace.info.reader_id:
            self._lanes_reader = trace.info.reader_id
            self.session.set_lane_state(self._settings.lane_state(self._lanes_reader))

    def _on_lanes_changed(self, _: object) -> None:
        if self._lanes_reader:
            self._settings.set_lane_state(self._lanes_reader, self.session.lane_state)

    # -- what the timeline draws with --------------------------------------

    def _bind_timelines(self) -> None:
        """Tell new timelines which renderer and wheel to use, and listen to them."""
        for view in self.workspace.views("timeline"):
            if view.property("isBound"):
                continue
            view.setProperty("isBound", True)
            for name, slot in (
                ("renderer_changed", self._on_renderer),
                ("renderer_failed", self._on_problem),
            ):
                signal = getattr(view, name, None)
                if signal is not None:
                    signal.connect(slot)
            self._apply_drawing(view)

    def _on_settings_changed(self, topic: str) -> None:
        if topic == "drawing":
            self.session.wheel_zooms = self._settings.drawing.wheel == "zoom"
            self.session.set_shows_stalls(self._settings.drawing.shows_stalls)
            for view in self.workspace.views("timeline"):
                self._apply_drawing(view)

    def _apply_drawing(self, view: View) -> None:
        drawing = self._settings.drawing
        choose = getattr(view, "choose_renderer", None)
        if choose is not None:
            choose(drawing.renderer)
        self._on_renderer("")

    def _on_renderer(self, _: str) -> None:
        for view in self.workspace.views("timeline"):
            text = getattr(view, "renderer_text", "")
            self.status.set_renderer(str(text() if callable(text) else text))
            return


def is_window_active() -> bool:
    """Tell whether a window of the program is the one that is worked in."""
    active = Qt.ApplicationState.ApplicationActive
    return QGuiApplication.applicationState() is active


def reader_choices() -> tuple[tuple[str, str], ...]:
    """Return (id, title) of all readers; none where they cannot be listed."""
    try:
        from ggscope.readers.registry import readers

        return tuple((r.info.id, r.info.title) for r in readers())
    except Exception:  # noqa: BLE001 - an error page must not fail for this
        return ()


__all__ = ["Document", "reader_choices"]
