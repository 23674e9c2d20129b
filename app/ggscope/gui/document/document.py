"""Document: one tab with one session, from opening its files to closing."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from ggscope.errors import SeveralRunsError, TooLargeError
from ggscope.gui.document.bookmarks import DocumentBookmarks
from ggscope.gui.document.files import DocumentFiles
from ggscope.gui.document.followed import FollowedProgram
from ggscope.gui.memory import MemoryReturner
from ggscope.gui.messages import Action, Message, Messages
from ggscope.gui.pages.load import LoadingCard, ProblemPage
from ggscope.gui.pages.too_large import part_text
from ggscope.gui.panes.workspace import Workspace
from ggscope.gui.status import StatusStrip, progress_texts
from ggscope.gui.tabs import TabName
from ggscope.gui.toolbar import Toolbar
from ggscope.gui.widgets import Banner
from ggscope.model.trace import INVALID_CODE, RANGE_CODES, VERSION_CODES, Trace
from ggscope.model.units import TimeRange
from ggscope.render.theme import Theme
from ggscope.session.loader import Loader, LoadState
from ggscope.session.session import Session, TraceChange
from ggscope.session.settings import Settings
from ggscope.session.tasks import TaskState
from ggscope.views.base.view import guarded

if TYPE_CHECKING:
    from ggscope.gui.dialogs.filters import FilterPopup
    from ggscope.gui.live import WaitingPage
    from ggscope.gui.pages.runs import RunsPage
    from ggscope.gui.pages.too_large import TooLargePage
    from ggscope.live.recording_store import Saved
    from ggscope.session.live import LiveSession
    from ggscope.session.open_traces import OpenTraces
    from ggscope.session.run import Run
    from ggscope.views.console import ConsoleView


LOW_CONFIDENCE = "low_confidence"
_READING, _CHANGED, _GUESS = "reading", "changed", "guess"
"""Keys of messages; each is removed once it is no longer true."""
_CARD_MS = 300
"""Faster files show no loading card, so that nothing flickers."""


@guarded
class Document(QWidget):
    """Toolbar, panes and status bar of one session.

    Parameters
    ----------
    live : what to follow, as `live.open_source.path_to_follow` takes it; "" = any.
        None: `path` is read.
    run : what was started from the window; the console shows what it prints.
    open_traces : the sessions of all tabs, for views that look at another one.

    Attributes
    ----------
    live : what follows it; None where a file is read.
    stops_run : whether the program that was started ends with the tab.

    Signals
    -------
    title_changed : the tab's text.
    ops_requested, renderer_requested : a click in the status strip.
    problem_reported(str) : for the window's message bar.
    recording_requested(path) : a run was over before it could be followed.
    follow_requested(path) : the file is to be followed as it grows.
    open_requested(path) : a file is to be opened in a tab of its own.
    compare_requested(a, b) : two files are, and compared.
    sides_requested(a, b) : several files of each side are to be compared.
    shown : the first picture of a file can be drawn.
    ready : it has been read to its end.
    """

    title_changed = Signal()
    ops_requested = Signal()
    renderer_requested = Signal()
    problem_reported = Signal(str)
    close_requested = Signal()
    recording_requested = Signal(str)
    follow_requested = Signal(str)
    open_requested = Signal(str)
    compare_requested = Signal(object, object)
    sides_requested = Signal(object, object)
    shown = Signal()
    ready = Signal()

    def __init__(
        self,
        path: Path,
        settings: Settings,
        theme: Theme,
        *,
        open_files: Callable[[], object],
        export: Callable[..., object],
        more: Sequence[Path] = (),
        live: str | None = None,
        run: "Run | None" = None,
        open_traces: "OpenTraces | None" = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.path = path
        self._settings = settings
        self._lanes_reader = ""
        self._guessed = ""
        self._requested_range: TimeRange | None = None
        # What is followed is no file that could be read again.
        self.session = Session(path if live is None else None, self)
        self.run = self.session.run = run
        self.session.open_traces = open_traces
        self.stops_run = True
        self._options = ""
        self.live: LiveSession | None = None
        if live is not None:
            from ggscope.session import live as follows

            self.live = follows.LiveSession(self.session, live or None, self)
        self._theme = theme
        self._waiting_page: WaitingPage | None = None
        self._early_console: ConsoleView | None = None
        self.session.viewport.wheel_zooms = settings.drawing.wheel == "zoom"
        self._show_overlays()
        self.session.ranges.set_limited(settings.tables.only_range)
        self.loader = Loader(self.session, is_window_active)
        self.loader.limit_bytes = settings.memory.limit_bytes
        self.loader.set_more(more)
        self.loader.set_shifts(settings.shifts_of(path))
        self._memory = MemoryReturner(self.session.tasks, self)
        self.toolbar: Toolbar = Toolbar(self.session, open_files, self)
        self.part_bar = Banner(self)
        self.alarm = Banner(self)
        self._is_alarm_closed = False
        self.workspace = Workspace(self.session, settings, theme, self)
        self._problem_page: ProblemPage | None = None
        self._too_large_page: TooLargePage | None = None
        self._runs_page: RunsPage | None = None
        self.status = StatusStrip(self.session, self)
        self.messages = Messages(self, self.status)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.workspace)
        self._popup: FilterPopup | None = None
        self._part_box = _boxed(self.part_bar, self)
        self._alarm_box = _boxed(self.alarm, self)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.toolbar)
        if self.live is not None:
            from ggscope.gui.live import LiveStrip

            strip = LiveStrip(self.live, run, self)
            strip.save_requested.connect(self.save_recording)
            box.addWidget(strip)
        box.addWidget(self._alarm_box)
        box.addWidget(self._part_box)
        box.addWidget(self._stack, 1)
        box.addWidget(self.status)
        self.card: LoadingCard | None = None
        self._card_due = QTimer(self, singleShot=True, interval=_CARD_MS)
        self._card_due.timeout.connect(self._show_card)
        self._connect()
        if run is not None:
            run.setParent(self)  # from the tab that followed it, where that ends
        self.followed: FollowedProgram | None = None
        if self.live is not None:
            self.followed = FollowedProgram(self, self.live, run, settings)
        self._export = export
        self.workspace.export_requested.connect(export)
        self.toolbar.export_requested.connect(export)
        self.parts = DocumentFiles(self, settings)
        self.bookmarks = DocumentBookmarks(self, settings, is_window_active)

    @property
    def title(self) -> str:
        """Text of the tab: the file's name, and what part of it is shown.

        Of several files it is that of the trace, and how many more there are; of a
        folder it is the folder's. Recordings of one program have the options besides in
        which their command lines differ.
        """
        if self.live is not None:
            from ggscope.session.live import program_title, title_of

            if self.run is not None:
                return program_title(self.run.name, self.run.began, self._options)
            return title_of(self.live.target, self.live.metrics.status)
        name = self.parts.title or self.path.name or str(self.path)
        if self._options:
            name = f"{name} · {self._options}"
        part = self.part
        return f"{name} ({part})" if part else name

    @property
    def tab_name(self) -> TabName:
        """Title of the tab, and what distinguishes it from others with that title."""
        if self.live is None:
            return TabName(self.title, self.path.parts[:-1])
        pid = "" if self.run is None else str(self.run.pid)
        sign = pid and f"process {pid}"
        return TabName(self.title, (), sign or self.live.target or "")

    @property
    def command(self) -> tuple[str, ...]:
        """Command of the program that the tab has started and shows; () = none."""
        if self.live is None or self.run is None or self.run.spec is None:
            return ()
        return tuple(self.run.spec.command())

    @property
    def recorded_command(self) -> str:
        """Command line of the program that its file is a recording of; "" unknown."""
        trace = self.session.trace
        if self.live is not None or trace is None:
            return ""
        return trace.info.producer.get("command", "")

    @property
    def runs_program(self) -> bool:
        """Whether a program that this tab has started still runs."""
        run = self.run
        return run is not None and run.is_running and run.parent() is self

    def set_options(self, text: str) -> None:
        """Name the options that distinguish its program from other runs of it."""
        self._options = text

    @property
    def tip(self) -> str:
        """What the tab is, in full: paths, or the command of the program."""
        if self.live is None:
            return self.parts.tip
        if self.run is not None:
            return self.run.shown_command
        return self.live.target or self.live.metrics.status.file

    @property
    def saved_files(self) -> tuple[Path, ...]:
        """Files from which the tab can be opened again; none of what only ran."""
        if self.live is None:
            return self.parts.opened_as
        output = "" if self.run is None else self.run.output
        return (Path(output),) if output and os.path.exists(output) else ()

    @property
    def part(self) -> str:
        """Which part of the file is shown, in words; "" = all of it."""
        if self.loader.state is LoadState.STOPPED:
            return "stopped"
        if not self.loader.options or self.session.trace is None:
            return ""
        options = dict(self.loader.options)
        is_read = self.loader.state is LoadState.READY
        if is_read and not any(
            w.code in RANGE_CODES for w in self.session.trace.warnings
        ):
            options.pop("range", None)  # it held all records
        return part_text(options, self.loader.n_records)

    @property
    def problem_page(self) -> ProblemPage:
        """The page that says why the file could not be read."""
        if self._problem_page is None:
            page = self._problem_page = ProblemPage(self.path, self)
            page.reload_requested.connect(self._on_reload)
            page.salvage_requested.connect(self._on_salvage)
            page.reader_chosen.connect(self._on_reader_chosen)
            page.close_requested.connect(self.close_requested)
            self._stack.addWidget(page)
        return self._problem_page

    @property
    def too_large_page(self) -> "TooLargePage":
        """The page that asks what to read of a file that would not fit."""
        if self._too_large_page is None:
            from ggscope.gui.pages.too_large import TooLargePage

            page = self._too_large_page = TooLargePage(self.path, self)
            page.read_requested.connect(self._on_read_requested)
            page.close_requested.connect(self.close_requested)
            self._stack.addWidget(page)
        return self._too_large_page

    @property
    def runs_page(self) -> "RunsPage":
        """The table of the runs of a folder."""
        if self._runs_page is None:
            from ggscope.gui.pages.runs import RunsPage

            page = self._runs_page = RunsPage(self.session, self._theme, self)
            page.open_requested.connect(self._on_run_opened)
            page.compare_requested.connect(self.compare_requested)
            page.sides_requested.connect(self.sides_requested)
            page.join_requested.connect(self._on_join_requested)
            page.table_requested.connect(self._export)
            self._stack.addWidget(page)
        return self._runs_page

    @property
    def is_reading(self) -> bool:
        """Whether its file is being read."""
        return self.loader.state is LoadState.LOADING

    def open(
        self,
        reader_id: str | None = None,
        options: dict[str, str] | None = None,
        *,
        is_forced: bool = False,
        shifts: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Start reading the file; for the arguments see `Loader.open`."""
        if self.live is not None:
            self.live.start()
            self._show_page(self.waiting_page)
            return
        self.loader.open(reader_id, options, is_forced=is_forced, shifts=shifts)

    def show_when_read(self, time: TimeRange) -> None:
        """Show a range once the file is read, unless the user has gone elsewhere."""
        self._requested_range = time

    def _show_requested_range(self) -> None:
        time, self._requested_range = self._requested_range, None
        trace, session = self.session.trace, self.session
        if time and trace is not None and session.viewport.visible == trace.extent:
            session.viewport.set_visible(time)

    @property
    def waiting_page(self) -> "WaitingPage":
        """What is shown before there is anything to follow."""
        assert self.live is not None
        if self._waiting_page is None:
            from ggscope.gui.live import WaitingPage

            output = None
            if self.run is not None:
                from ggscope.views.console import ConsoleView

                output = self._early_console = ConsoleView(self.session, self._theme)
            page = self._waiting_page = WaitingPage(
                self.live, self.session.tasks, self.run, output, self
            )
            page.close_requested.connect(self.close_requested)
            self._stack.addWidget(page)
        return self._waiting_page

    def go_to_end(self) -> None:
        """Pan to the end; of a program that runs, jump to now and follow."""
        if self.live is not None and self.live.is_on:
            self.live.jump()
        else:
            self.session.viewport.show_end()

    def showEvent(self, event: QShowEvent) -> None:
        """Look at a program that runs as often as can be seen."""
        super().showEvent(event)
        if self.live is not None:
            self.live.set_seen(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Look less often where nobody sees it."""
        super().hideEvent(event)
        if self.live is not None:
            self.live.set_seen(False)

    def stop_reading(self) -> bool:
        """Stop reading and keep what was read; return whether anything was stopped."""
        if self.loader.state is not LoadState.LOADING:
            return False
        self.loader.cancel()
        return True

    def release(self) -> None:
        """Stop all work and detach the views; the tab is about to go."""
        self.bookmarks.release()
        if self.live is not None:
            self.live.release()
        if self._early_console is not None:
            self._early_console.release()
        if self._runs_page is not None:
            self._runs_page.release()
        if self.run is not None and self.run.parent() is self:
            self.run.release(stops=self.stops_run)
        self.loader.release()
        self.workspace.release()
        self.session.close()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        self.workspace.set_theme(theme)
        for page in (self._early_console, self._runs_page):
            if page is not None:
                page.set_theme(theme)

    def show_filter_popup(self, anchor: QWidget | None = None) -> None:
        """Open the popup that adds to the filter."""
        from ggscope.gui.dialogs.filters import FilterPopup

        if self._popup is not None:
            self._popup.close()
        self._popup = FilterPopup(self.session, self, self._settings)
        self._popup.closed.connect(self._on_popup_closed)
        self._popup.show_below(anchor or self.toolbar.add_filter)

    def focus_views(self) -> None:
        """Give the focus to the pane that was used last."""
        host = self.workspace.used_host
        if host is not None:
            host.setFocus()

    def focus_page(self) -> None:
        """Give the focus to the panes, or to the page that stands in their place."""
        page = self._stack.currentWidget()
        if page is self.workspace:
            self.focus_views()
        elif page is not None:
            page.setFocus()

    # -- reactions ---------------------------------------------------------

    def _connect(self) -> None:
        self.toolbar.filter_requested.connect(self.show_filter_popup)
        self.toolbar.details_requested.connect(self.workspace.toggle_details)
        self.toolbar.show_details(self.workspace.shows_details)
        self.workspace.details_changed.connect(self.toolbar.show_details)
        self.toolbar.search.focus_released.connect(self.focus_views)
        self.part_bar.close_button.clicked.connect(self._part_box.hide)
        self.messages.dismissed.connect(self._on_message_dismissed)
        self.alarm.close_button.clicked.connect(self._on_alarm_closed)
        self.status.ops_clicked.connect(self.ops_requested)
        self.status.problems_clicked.connect(self._on_problems_clicked)
        self.status.related_clicked.connect(self._on_related_clicked)
        self.status.renderer_clicked.connect(self.renderer_requested)
        self.loader.state_changed.connect(self._on_load_state)
        self.loader.shown.connect(self.shown)
        self.loader.file_changed.connect(self._on_file_changed)
        self.session.tasks.task_changed.connect(self._on_task_changed)
        self.session.trace_changed.connect(self._on_trace_changed)
        self.session.lanes.changed.connect(self._on_lanes_changed)
        self.session.problem_reported.connect(self._on_problem)
        self.workspace.cells_changed.connect(self._show_renderer)
        self.workspace.renderer_changed.connect(self._show_renderer)
        self.workspace.renderer_failed.connect(self._on_problem)
        self._settings.changed.connect(self._on_settings_changed)
        self.session.ranges.limited_changed.connect(self._on_only_range)

    @property
    def has_recording(self) -> bool:
        """Whether a recording of this tab can be saved."""
        return self.followed is not None and self.followed.has_recording

    def save_recording(self) -> None:
        """Ask for a file and save what was recorded so far."""
        from ggscope.gui.save_recording import ask_and_save

        ask_and_save(self)

    def report_saved(self, saved: "Saved") -> None:
        """Report a saved recording, and offer to open it."""
        if self.followed is not None:
            self.followed.report_saved(saved)

    def _on_problems_clicked(self) -> None:
        self.workspace.show_drawer("problems")

    def _on_related_clicked(self) -> None:
        self.parts.add_offered()

    def _on_message_dismissed(self, message: Message, is_used: bool) -> None:
        """Do not repeat how a format is detected that the user has accepted."""
        if message.key == _GUESS and self._guessed and not is_used:
            self._settings.add("files/trusted", self._guessed)
            self._guessed = ""

    def _on_alarm_closed(self) -> None:
        self._is_alarm_closed = True
        self._alarm_box.hide()

    def _sound_alarm(self, trace: Trace) -> None:
        """Warn until it is closed of what puts the whole trace in doubt.

        Its own writer calls it invalid, or its version is not known.
        """
        by_code = {w.code: w.message for w in trace.warnings}
        alarms = [(c, "error") for c in (INVALID_CODE,) if c in by_code]
        alarms += [(c, "caution") for c in VERSION_CODES if c in by_code]
        self._alarm_box.setVisible(bool(alarms) and not self._is_alarm_closed)
        if alarms and not self._is_alarm_closed:
            code, level = alarms[0]
            text = by_code[code][:1].upper() + by_code[code][1:]
            show = self._on_problems_clicked
            self.alarm.say(text, "Problems", show, level=level)

    def _on_problem(self, text: str) -> None:
        self.problem_reported.emit(text)

    def _on_popup_closed(self) -> None:
        self._popup = None
        self.focus_views()

    def _on_reload(self) -> None:
        self.loader.reload()

    def _on_salvage(self) -> None:
        self.loader.reload({"strict": "false"})

    def _on_reader_chosen(self, reader_id: str) -> None:
        self.loader.open(reader_id)

    def _on_read_requested(self, options: dict[str, str]) -> None:
        """Read what the user chose, knowing the figures."""
        part = {"range": "", "names": "", **options}
        self.loader.reload(part, is_forced=True)

    def _on_run_opened(self, path: Path) -> None:
        self.open_requested.emit(str(path))

    def _on_join_requested(self) -> None:
        self.loader.open(joins_runs=True)

    def _on_load_state(self, state: LoadState) -> None:
        if state is LoadState.LOADING and self.session.trace is None:
            self._card_due.start()
        else:
            self._take_card()
        self._show_page(self._page_for(state))
        reload = Action("Reload", self._on_reload)
        if state is LoadState.LOADING:
            self.parts.forget_offer()
            self.messages.dismiss(_READING, _CHANGED, _GUESS)
        elif state is LoadState.STOPPED:
            self.messages.say(self._stopped_text(), reload, key=_READING, stays=True)
        elif state is LoadState.FAILED and self.session.trace is not None:
            failure = self.loader.failure
            if failure is not None:  # what was readable stays on the screen
                self.messages.say(
                    failure.message, reload, level="error", key=_READING, stays=True
                )
        if state in (LoadState.LOADING, LoadState.READY):
            self._show_part()
        if state is LoadState.READY:
            self._say_if_guessed()
            self._show_requested_range()
        if state in (LoadState.READY, LoadState.SEVERAL_RUNS):
            self.ready.emit()
        self.status.set_part(self.part)
        self.title_changed.emit()

    def _show_page(self, page: QWidget) -> None:
        is_new = page is not self._stack.currentWidget()
        self._stack.setCurrentWidget(page)
        self.toolbar.set_usable(page is self.workspace)
        if is_new and self.isVisible():
            self.focus_page()

    def _page_for(self, state: LoadState) -> QWidget:
        """Return the page that belongs to a state, filled in."""
        has_trace = self.session.trace is not None
        failure = self.loader.failure
        if state is LoadState.TOO_LARGE and failure is not None:
            from ggscope.readers.memory import Fit

            error = failure.error
            if isinstance(error, TooLargeError) and isinstance(error.fit, Fit):
                self.too_large_page.show_fit(error.fit)
                return self.too_large_page
        if state is LoadState.SEVERAL_RUNS and failure is not None:
            from ggscope.readers.discovery import RunFolder

            error = failure.error
            if isinstance(error, SeveralRunsError) and isinstance(
                error.runs, RunFolder
            ):
                self.runs_page.show_runs(error.runs, self.loader.limit_bytes)
                return self.runs_page
        if state in (LoadState.FAILED, LoadState.CANCELLED) and not has_trace:
            self.problem_page.show_failure(failure, reader_choices())
            return self.problem_page
        return self.workspace

    def _stopped_text(self) -> str:
        trace = self.session.trace
        notes = () if trace is None else trace.warnings
        return next((w.message for w in notes if w.code == "reading_stopped"), "")

    def _show_part(self) -> None:
        """Say above the panes which part is shown, and offer the whole.

        Before the first picture: what comes later would push that down.
        """
        part, options = self.part, self.loader.options
        if options and self.loader.state is LoadState.LOADING:
            part = part_text(options, self.loader.n_records)
        self._part_box.setVisible(bool(part))
        if part:
            text = "{0}: the rest has not been read."
            self.part_bar.say(
                text.format(part[:1].upper() + part[1:]),
                "Read all",
                self._on_read_all,
            )

    def _on_read_all(self) -> None:
        """Read the whole file; where it would not fit, the page asks again."""
        part = ("range", "names")
        options = {k: v for k, v in self.loader.options.items() if k not in part}
        self.loader.open(self.loader.reader_id, options)

    def _say_if_guessed(self) -> None:
        """Offer another reader, once per format; not for the samples."""
        from ggscope.gui.pages.start import samples

        trace = self.session.trace
        if trace is None or trace.info.reader_id in self._settings.files.trusted:
            return
        if self.path in samples():
            return
        for warning in trace.warnings:
            if warning.code == LOW_CONFIDENCE:
                self._guessed = trace.info.reader_id
                other = "Open with another reader"
                text = "Detected as {0}: the file has no signature."
                self.messages.say(
                    text.format(trace.info.format),
                    Action(other, self._on_other_reader),
                    key=_GUESS,
                )

    def _on_other_reader(self) -> None:
        from ggscope.gui.dialogs.dialogs import choose_reader

        chosen = choose_reader(self.path, reader_choices(), self)
        if chosen is not None:
            self._on_reader_chosen(chosen)

    def _on_file_changed(self, is_stale: bool) -> None:
        if is_stale:
            reload = Action("Reload (F5)", self._on_reload)
            actions = [reload]
            trace = self.session.trace
            if trace is not None and trace.log is not None:
                actions.append(Action("Follow", self._on_follow))
            text = "The file changed on disk."
            self.messages.say(text, *actions, key=_CHANGED, stays=True)
        else:
            self.messages.dismiss(_CHANGED)

    def _on_follow(self) -> None:
        self.follow_requested.emit(str(self.path))

    def _on_task_changed(self, state: TaskState) -> None:
        if self.card is not None and state.key == "load" and state.is_running:
            text = progress_texts(state, time.monotonic())[0].partition(" · ")[2]
            self.card.set_progress(text, state.done, state.total)

    def _on_trace_changed(self, change: TraceChange) -> None:
        self._take_card()
        trace = self.session.trace
        if trace is None:
            return
        if self.live is not None and self._stack.currentWidget() is not self.workspace:
            self._show_page(self.workspace)
            self.shown.emit()
        self._name_problems(trace)
        if change is TraceChange.REPLACED:
            self._is_alarm_closed = False
        self._sound_alarm(trace)
        if change is TraceChange.REPLACED:
            self._restore_lanes(trace)

    def _show_card(self) -> None:
        self.card = LoadingCard(self.path.name, self.workspace)
        self.card.cancel_requested.connect(self.loader.cancel)
        for state in self.session.tasks.states():
            self._on_task_changed(state)

    def _take_card(self) -> None:
        self._card_due.stop()
        if self.card is not None:
            self.card.hide()
            self.card.deleteLater()
            self.card = None

    def _name_problems(self, trace: Trace) -> None:
        n = len(trace.warnings)
        text = "Problems"
        self.workspace.drawer.set_tab_text("problems", f"{text}  {n}" if n else text)

    def _restore_lanes(self, trace: Trace) -> None:
        """Arrange lanes as they were in the last trace of this format.

        What was hidden there is shown: nothing of a file that is new is left out.
        """
        if self._lanes_reader != trace.info.reader_id:
            self._lanes_reader = trace.info.reader_id
            lane_state = self._settings.lane_state(self._lanes_reader)
            names = self.session.lanes.state.names
            self.session.lanes.set_state(
                replace(lane_state, hidden=frozenset(), names=names), is_step=False
            )

    def _on_lanes_changed(self, _: object) -> None:
        if self._lanes_reader:
            self._settings.set_lane_state(self._lanes_reader, self.session.lanes.state)

    def _on_settings_changed(self, topic: str) -> None:
        if topic == "memory":
            self.loader.limit_bytes = self._settings.memory.limit_bytes
            if self.live is not None:  # from the next start on
                self.live.limit_bytes = self._settings.memory.limit_bytes
        if topic == "tables":
            self.session.ranges.set_limited(self._settings.tables.only_range)
        if topic == "drawing":
            self.session.viewport.wheel_zooms = self._settings.drawing.wheel == "zoom"
            self._show_overlays()

    def _show_overlays(self) -> None:
        """Draw on the timeline what the settings say."""
        display, drawing = self.session.display, self._settings.drawing
        display.set_shows_stalls(drawing.shows_stalls)
        display.set_shows_waits(drawing.shows_waits)
        display.set_shows_arrows(drawing.shows_arrows)
        display.set_shows_critical_path(drawing.shows_critical_path)

    def _on_only_range(self, only: bool) -> None:
        self._settings.change("tables", only_range=only)

    def _show_renderer(self, _: object = None) -> None:
        """Say what draws the timeline."""
        for view in self.workspace.views("timeline")[:1]:
            self.status.set_renderer(view.renderer_text())


def _boxed(banner: Banner, parent: QWidget) -> QWidget:
    """Return a box with margins around a banner; hidden with it."""
    box = QWidget(parent)
    inner = QVBoxLayout(box)
    inner.setContentsMargins(8, 8, 8, 0)
    inner.addWidget(banner)
    box.hide()
    return box


def is_window_active() -> bool:
    """Return whether a window of the program is the one that is worked in."""
    active = Qt.ApplicationState.ApplicationActive
    return QGuiApplication.applicationState() is active


def reader_choices() -> tuple[tuple[str, str], ...]:
    """Return (id, title) of all readers; none where they cannot be listed."""
    try:
        from ggscope.readers.registry import infos

        return tuple((info.id, info.title) for info in infos(waits=False))
    except Exception:  # noqa: BLE001 - an error page must not fail for this
        return ()
