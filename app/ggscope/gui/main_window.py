"""The main window: tabs of sessions, menus, drag and drop, messages.

The row of tabs: one per open trace, and a + at the end.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QEvent, QObject, QPoint, QSize, Qt, QTimer
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
)
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QFileDialog,
    QLineEdit,
    QMainWindow,
    QMenu,
    QPlainTextEdit,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from ggscope.errors import TraceError
from ggscope.gui.commands.keyboard import KeyGuard, PositionKeys
from ggscope.gui.commands.menus import Actions, Menus
from ggscope.gui.drag_and_drop import Drops, accept_copy, dropped_paths
from ggscope.gui.imports import import_tab
from ggscope.gui.memory import ClosedReturner
from ggscope.gui.messages import Action, Message, MessageLog, Messages
from ggscope.gui.open_file import show_in_folder
from ggscope.gui.pages.start import StartPage, recent_paths
from ggscope.gui.single_instance.client import OpenOptions, OpenRequest
from ggscope.gui.single_instance.startup import (
    finish_x11,
    forget_tokens,
    set_wayland_token,
)
from ggscope.gui.tabs import (
    TabRow,
    differing_options,
    distinct_titles,
    recording_options,
)
from ggscope.gui.theme import ThemeManager
from ggscope.gui.widgets import CHANGES_NOTHING
from ggscope.model.units import TimeRange
from ggscope.render.theme import Theme
from ggscope.sanitize import one_line
from ggscope.session.bookmarks.bookmarks import Subject
from ggscope.session.settings import Settings
from ggscope.views.base.copying import Copyable, copying
from ggscope.views.base.safe_text import add_action, ask_choice, copy_text, set_title
from ggscope.views.base.view import Connection, View, guarded, later

if TYPE_CHECKING:
    from ggscope.gui.commands.palette import Palette
    from ggscope.gui.dialogs.window_dialogs import WindowDialogs
    from ggscope.gui.document import Document
    from ggscope.live.launcher import LaunchSpec, TraceabilityCheck
    from ggscope.session.loader import LoadRequest
    from ggscope.session.open_traces import OpenTraces, RunsRequest
    from ggscope.session.run import Run
    from ggscope.session.session import Session
    from ggscope.views.base.cells import CopyForm

logger = logging.getLogger(__name__)
_CRASH = "crash"
_MAX_CLOSED = 20
"""So many closed tabs can be opened again."""


@dataclass(frozen=True, slots=True)
class _ClosedTab:
    """A tab that was closed: what opens it again, and what it showed."""

    files: tuple[Path, ...]
    position: int
    options: OpenOptions
    shown: TimeRange


@guarded
class MainWindow(QMainWindow):
    """Menu, tabs, and one `Document` per file; the start page where there is none.

    What only an open file or a command needs is imported when it is asked for: the
    first picture of the window needs neither numpy nor a trace.
    """

    def __init__(
        self,
        settings: Settings,
        themes: ThemeManager,
        key_overrides: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        super().__init__()
        self.settings: Settings = settings
        self.themes = themes
        self._documents: list[Document] = []
        self._had_tabs = False
        self._watched: Session | None = None
        self._palette: Palette | None = None
        self._drops = Drops(self)
        self._closed_tabs: list[_ClosedTab] = []
        self.log = MessageLog(self)
        self._was_maximised = False
        self._pending_requests: list[OpenRequest] = []
        self._is_starting = False
        self._requests_timer = QTimer(self)
        self._requests_timer.setSingleShot(True)
        self._requests_timer.setInterval(100)
        self._requests_timer.timeout.connect(self._open_pending_requests)
        self._font_scale = settings.appearance.font_scale
        self.setObjectName("mainWindow")
        set_title(self, "ggscope")
        self.setAcceptDrops(True)
        self.resize(_first_size(self))
        self.setMinimumSize(640, 420)
        self._build()
        self.actions_ = Actions(self, self, key_overrides)
        self._menus = Menus(self.menuBar(), self.actions_, settings)
        self._menus.file_chosen.connect(self._on_file_chosen)
        self._menus.filter_chosen.connect(self._on_filter_chosen)
        # The menu bar hides in full screen; the keys must go on working.
        self.addActions(list(self.actions_.all()))
        self._refresh_later = QTimer(self)
        self._refresh_later.setSingleShot(True)
        self._refresh_later.setInterval(50)
        self._refresh_later.timeout.connect(self.actions_.refresh)
        themes.changed.connect(self._on_theme)
        settings.changed.connect(self._on_settings_changed)
        settings.store_failed.connect(self.report)
        self._guard = KeyGuard(self)
        self._places = PositionKeys(self._run_command, self)
        self._places.set_on(settings.drawing.keys_by_place)
        self._restore_geometry()
        self._show_current()

    # -- documents ---------------------------------------------------------

    @property
    def document(self) -> "Document | None":
        """The tab in front, None on the start page."""
        return self._tab(self._stack.currentWidget())

    @property
    def session(self) -> "Session | None":
        """The session of the tab in front."""
        document = self.document
        return None if document is None else document.session

    @property
    def documents(self) -> "tuple[Document, ...]":
        """All tabs from left to right."""
        return tuple(self._documents)

    @property
    def n_documents(self) -> int:
        """Number of tabs."""
        return len(self._documents)

    @property
    def had_tabs(self) -> bool:
        """Whether there was ever a tab: what is left of one may still be garbage."""
        return self._had_tabs

    def open_paths(
        self, paths: Iterable[Path], options: OpenOptions | None = None
    ) -> None:
        """Open each file in a tab of its own; one that is open comes to the front."""
        for path in paths:
            self.open_path(path, options)

    def open_path(
        self,
        path: Path,
        options: OpenOptions | None = None,
        more: Sequence[Path] = (),
    ) -> "Document":
        """Open a file or folder in a new tab, or bring its tab to the front.

        With `more` files it is one session of all of them.
        """
        full = path.absolute()
        named = (*more, *(() if options is None else options.more))
        others = tuple(other.absolute() for other in named)
        for document in self._documents:
            is_open = document.parts.opened_as == (full, *others)
            if is_open and options is None:
                self._bring_to_front(document)
                return document
        return self._add_document(full, options, others)

    def compare_paths(self, a: Path, b: Path) -> None:
        """Open two runs, each in a tab, and compare them in that of the first."""
        from ggscope.gui.compare_tabs import PendingComparison

        first, second = self.open_path(a), self.open_path(b)
        PendingComparison(
            first,
            second,
            lambda view: view.compare_with(second.session),
            self._bring_to_front,
        )

    def compare_sides(self, a: Sequence[Path], b: Sequence[Path]) -> None:
        """Compare several runs of each side in a tab of the first one of A.

        The others are read into no tab. One run of each is as `compare_paths`.
        """
        from ggscope.gui.compare_tabs import PendingComparison

        if len(a) == len(b) == 1:
            self.compare_paths(a[0], b[0])
            return
        more = self._runs_request(a[1:], a) if len(a) > 1 else None
        others = self._runs_request(b, b)
        PendingComparison(
            self.open_path(a[0]),
            None,
            lambda view: view.compare_runs(more, others),
            self._bring_to_front,
        )

    def _runs_request(
        self, runs: Sequence[Path], side: Sequence[Path]
    ) -> "RunsRequest":
        """Return how to read runs of a side into no tab."""
        from ggscope.descriptions.runs import side_title
        from ggscope.session.open_traces import RunsRequest

        limit = self.settings.memory.limit_bytes
        name = side_title(side)
        return RunsRequest(side[0].parent, limit, runs=tuple(runs), name=name)

    def follow(self, target: str = "") -> "Document":
        """Follow a running program in a new tab; see `live.open_source.path_to_follow`.

        "" is the ring of the environment, else the newest there is, or the next.
        """
        from ggscope.session.live import title_of

        for document in self._documents:
            live = document.live
            if live is not None and live.is_on and (live.target or "") == target:
                self._bring_to_front(document)
                return document
        path = Path(target or title_of(None))
        return self._add_document(path.absolute(), None, (), target)

    def record(
        self, spec: "LaunchSpec", check: "TraceabilityCheck | None" = None
    ) -> None:
        """Run a program under the capture tool and follow it in a new tab."""
        from ggscope.session.run import start

        try:
            run = start(spec, check)
        except TraceError as error:
            self.report(f"{error}.")
        else:
            self._follow_run(run)

    def live_demo(self) -> None:
        """Trace a llama.cpp on a made model, which brings both where they are not."""
        from ggscope.session.run import start_demo

        try:
            run = start_demo(self.settings)
        except TraceError as error:
            self.report(f"{error}.")
        else:
            self._follow_run(run)

    def _follow_run(self, run: "Run") -> None:
        pid = str(run.pid)
        document = self._add_document(Path(pid).absolute(), None, (), pid, run)
        document.recording_requested.connect(self._on_recording)
        run.open_requested.connect(self._on_file_chosen)
        run.again_requested.connect(self._on_run_again)

    def _on_run_again(self) -> None:
        from ggscope.session.run import Run

        run = self.sender()
        if isinstance(run, Run):
            self.dialogs.show_record(run.spec_again())

    def _on_recording(self, path: str) -> None:
        """Show the recording of a run in the place of the tab that was to follow it."""
        document = self._tab(self.sender())
        if document is None or document.run is None:
            return
        self._add_document(Path(path), None, (), None, document.run)
        self.close_document(document)

    def _add_document(
        self,
        full: Path,
        options: OpenOptions | None,
        others: tuple[Path, ...],
        live: str | None = None,
        run: "Run | None" = None,
        position: int | None = None,
    ) -> "Document":
        from ggscope.gui.document import Document

        document = Document(
            full,
            self.settings,
            self.themes.current,
            open_files=self.open_dialog,
            export=self.export,
            more=others,
            live=live,
            run=run,
            open_traces=self._open_traces,
            parent=self,
        )
        if document.live is not None:
            document.live.mode_changed.connect(self._on_state_changed)
        document.problem_reported.connect(document.messages.fail)
        document.messages.shown.connect(self._on_document_message)
        document.session.status_message.connect(self._on_status_message)
        document.session.lanes.name_requested.connect(self._on_lane_name_requested)
        document.session.bookmarks.edit_requested.connect(self._on_edit_requested)
        document.title_changed.connect(self._on_title_changed)
        document.ops_requested.connect(self._on_ops_requested)
        document.renderer_requested.connect(self._on_renderer_requested)
        document.close_requested.connect(self._on_close_requested)
        document.open_requested.connect(self._on_file_chosen)
        document.compare_requested.connect(self.compare_paths)
        document.sides_requested.connect(self.compare_sides)
        document.follow_requested.connect(self.follow)
        document.shown.connect(self._on_shown)
        document.ready.connect(self._on_ready)
        document.workspace.add_requested.connect(self.add_dialog)
        document.workspace.full_screen_changed.connect(self._on_full_screen)
        document.workspace.details_changed.connect(self._on_state_changed)
        options = options or OpenOptions()
        document.setProperty("timeRange", options.time_range)
        # First of all: the worker reads while the panes are made and shown.
        document.open(
            options.reader_id,
            dict(options.reader_options),
            is_forced=options.is_forced,
            shifts=options.shifts,
        )
        at = len(self._documents) if position is None else position
        self._documents.insert(at, document)
        self._had_tabs = True
        self._stack.addWidget(document)
        self._tab_row.add(document.title, at)
        self._name_tabs()
        self._bring_to_front(document)
        return document

    def open_soon(
        self,
        paths: Sequence[Path],
        options: OpenOptions | None,
        then: Callable[[], object] | None = None,
    ) -> None:
        """Open files once the window itself has been painted, then call `then`.

        Panes take some tenths of a second to import; the window need not wait.
        Requests of other processes open behind these files.
        """

        def open_them() -> None:
            self._is_starting = False
            self._requests_timer.start()  # whatever becomes of these files
            self.open_paths(paths, options)
            if then is not None:
                then()

        if paths or then is not None:
            self._is_starting = True
            self._stack.setCurrentWidget(self._blank)
            later(self, partial(import_tab, self, open_them))

    def open_requested(self, path: str) -> None:
        """Open a file that the desktop asks for, and raise the window."""
        self.open_request(OpenRequest((Path(path),)))

    def open_request(self, request: OpenRequest) -> None:
        """Open the files of another process, and raise the window.

        They wait while a dialog or a menu is open, which is about the tab in front, and
        until the window's first files are open.
        """
        self._pending_requests.append(request)
        if not self._is_starting:
            self._open_pending_requests()
        self._come_to_front(request.activation)

    def _open_pending_requests(self) -> None:
        app = QApplication
        if app.activeModalWidget() is not None or app.activePopupWidget() is not None:
            self._requests_timer.start()
            return
        requests, self._pending_requests = self._pending_requests, []
        for request in requests:
            self.open_paths(request.files, request.options)

    def _come_to_front(self, activation: str) -> None:
        platform = QApplication.platformName()
        if activation and platform.startswith("wayland"):
            set_wayland_token(activation)
        minimised = Qt.WindowState.WindowMinimized
        if self.windowState() & minimised:
            self.setWindowState(self.windowState() & ~minimised)
        self.raise_()
        self.activateWindow()
        forget_tokens()
        if activation and platform == "xcb":
            finish_x11(activation, int(self.winId()))
        # Where the desktop lets nobody take the front, it shows that there is news.
        QApplication.alert(self)

    def close_document(self, document: "Document") -> None:
        """Close a tab; its work is stopped."""
        if document not in self._documents:
            return
        position = self._documents.index(document)
        self._remember_closed(document, position)
        self._documents.remove(document)
        self._tab_row.remove(position)
        self._name_tabs()
        self._stack.removeWidget(document)
        document.release()
        document.deleteLater()
        self._closed.start(document.session.tasks.jobs)
        self._show_current()

    def ask_and_close(self, *documents: "Document") -> bool:
        """Close tabs; ask first where programs that they started run.

        Returns
        -------
        Whether they were closed.
        """
        if not self._may_leave(*documents):
            return False
        for document in documents:
            self.close_document(document)
        return True

    def _may_leave(self, *documents: "Document") -> bool:
        """Ask what is to become of programs that run; False = nothing is closed."""
        running = [d for d in documents if d.runs_program]
        if not running:
            return True
        names = ", ".join(one_line(d.title) for d in running)
        text = f"{names} is still running."
        if len(running) > 1:
            text = f"These programs are still running: {names}."
        more = (
            "A program that keeps running is recorded until it ends, into its chosen "
            "file."
        )
        # The first one is taken by Enter: it ends nothing.
        choices = ["Keep running", "Stop program"]
        title = "Close"
        choice = ask_choice(self, title, text, choices, more)
        if choice is None:
            return False
        for document in running:
            document.stops_run = choice == 1
        return True

    def quit(self) -> None:
        """Close the window, once it is known what becomes of programs that run."""
        if self._may_leave(*self._documents):
            self.close()

    def close_current(self) -> None:
        """Close the tab in front."""
        if self.document is not None:
            self.ask_and_close(self.document)

    def close_others(self, current: "Document | None" = None) -> None:
        """Close all tabs but one; None = but that in front."""
        current = current or self.document
        self.ask_and_close(*(d for d in self.documents if d is not current))

    def close_right(self, of: "Document | None" = None) -> None:
        """Close the tabs to the right of one; None = of that in front."""
        of = of or self.document
        if of is not None:
            self.ask_and_close(*self._documents[self._documents.index(of) + 1 :])

    def copy_path(self, document: "Document | None" = None) -> None:
        """Copy the paths of a tab's files; None = of the tab in front."""
        document = document or self.document
        if document is not None:
            copy_text("\n".join(map(str, document.saved_files)))

    def show_file(self, document: "Document | None" = None) -> None:
        """Show a tab's file in the file manager; None = that of the tab in front."""
        document = document or self.document
        if document is not None and document.saved_files:
            show_in_folder(document.saved_files[0], self)

    def _remember_closed(self, document: "Document", position: int) -> None:
        if not document.saved_files or document.run is not None:
            return
        loader = document.loader
        options = OpenOptions(
            loader.reader_id,
            tuple(loader.options.items()),
            is_forced=bool(loader.options),  # it was asked about once
        )
        shown = document.session.viewport.visible
        closed = _ClosedTab(document.saved_files, position, options, shown)
        self._closed_tabs.append(closed)
        del self._closed_tabs[:-_MAX_CLOSED]

    @property
    def can_reopen(self) -> bool:
        """Whether a tab was closed that can be opened again."""
        return bool(self._closed_tabs)

    def reopen_tab(self) -> None:
        """Open the tab again that was closed last, in its place and at its range."""
        if not self._closed_tabs:
            return
        closed = self._closed_tabs.pop()
        position = min(closed.position, len(self._documents))
        first, *more = closed.files
        document = self._add_document(
            first, closed.options, tuple(more), position=position
        )
        document.show_when_read(closed.shown)
        self.actions_.refresh()

    def step_tab(self, by: int) -> None:
        """Go to the next or previous tab, round and round."""
        if self._documents:
            self._tab_row.bring_to_front(
                (self._tab_row.current + by) % len(self._documents)
            )

    def open_dialog(self) -> None:
        """Ask for files and open them."""
        from ggscope.gui.dialogs.window_dialogs import name_filters

        paths, _ = QFileDialog.getOpenFileNames(
            self,
            "Open traces",
            self.settings.files.folder,
            name_filters(),
            "",
            CHANGES_NOTHING,
        )
        self.open_paths(Path(p) for p in paths)

    def open_folder_dialog(self) -> None:
        """Ask for a folder and open it: a session, or the table of its runs."""
        chosen = QFileDialog.getExistingDirectory(
            self,
            "Open folder",
            self.settings.files.folder,
            QFileDialog.Option.ShowDirsOnly | CHANGES_NOTHING,
        )
        if chosen:
            self.open_path(Path(chosen))

    def add_dialog(self) -> None:
        """Ask for files and add them to the session in front."""
        from ggscope.gui.dialogs.window_dialogs import name_filters

        document = self.document
        if document is None:
            return
        paths, _ = QFileDialog.getOpenFileNames(
            self,
            "Add to session",
            str(document.path.parent),
            name_filters(),
            "",
            CHANGES_NOTHING,
        )
        document.parts.add([Path(p) for p in paths])

    def open_with_dialog(self) -> None:
        """Read the tab's file with a reader that the user picks."""
        from ggscope.gui.dialogs.dialogs import choose_reader
        from ggscope.gui.document import reader_choices

        if self.document is None:
            return
        chosen = choose_reader(self.document.path, reader_choices(), self)
        if chosen is not None:
            self.document.open(chosen)

    # -- made when they are asked for --------------------------------------

    @cached_property
    def _open_traces(self) -> "OpenTraces":
        """The sessions of all tabs, for views that look at another one."""
        from ggscope.session.open_traces import OpenTraces

        return OpenTraces(self._ask_run, self, self._ask_runs)

    def _ask_run(self) -> "LoadRequest | None":
        """Ask for a run to compare with; it is read into no tab."""
        from ggscope.gui.dialogs.window_dialogs import name_filters
        from ggscope.session.loader import LoadRequest

        path, _ = QFileDialog.getOpenFileName(
            self,
            "Compare with",
            self.settings.files.folder,
            name_filters(),
            "",
            CHANGES_NOTHING,
        )
        if not path:
            return None
        limit = self.settings.memory.limit_bytes
        return LoadRequest(Path(path).absolute(), limit_bytes=limit)

    def _ask_runs(self) -> "RunsRequest | None":
        """Ask for a folder of several runs to compare; they are read into no tab."""
        from ggscope.session.open_traces import RunsRequest

        folder = QFileDialog.getExistingDirectory(
            self, "Folder of runs", self.settings.files.folder
        )
        if not folder:
            return None
        return RunsRequest(Path(folder).absolute(), self.settings.memory.limit_bytes)

    @cached_property
    def dialogs(self) -> "WindowDialogs":
        """Dialogs and lists that commands open."""
        from ggscope.gui.dialogs.window_dialogs import WindowDialogs

        return WindowDialogs(self, self)

    def show_keys(self) -> None:
        """Show the sheet of keys."""
        from ggscope.gui.commands.keys_sheet import KeysSheet

        self.dialogs.show("keys", lambda: KeysSheet(self.actions_, self))

    def export(self, what: object = None) -> None:
        """Ask for a name and write a figure or rows; None = the view used last."""
        self.dialogs.export(what)

    @property
    def palette_(self) -> "Palette":
        """The line to type in, with a list of what fits."""
        if self._palette is None:
            from ggscope.gui.commands.palette import Palette

            self._palette = Palette(self)
        return self._palette

    # -- messages ----------------------------------------------------------

    @property
    def messages(self) -> Messages:
        """The messages of the tab in front, or of the start page."""
        document = self.document
        return self._messages if document is None else document.messages

    def report(self, text: str) -> None:
        """Show a failure over the page in front; it blocks nothing."""
        self.messages.fail(text)

    def report_crash(self, text: str, report: str) -> None:
        """Show a fault of the program in the same way; Copy takes the report."""
        copy = Action("Copy report", partial(copy_text, report))
        self.messages.say(text, copy, level="error", key=_CRASH, stays=True)

    @property
    def shows_crash(self) -> bool:
        """Whether faults of the program are shown now."""
        return self.messages.with_key(_CRASH) is not None

    def _on_message(self, message: Message) -> None:
        self.log.add("", message.text)

    def _on_document_message(self, message: Message) -> None:
        self._log_of(self.sender(), message.text)

    def _on_status_message(self, text: str) -> None:
        self._log_of(self.sender(), text)

    def _log_of(self, sender: QObject | None, text: str) -> None:
        """Add a message of a tab to the log."""
        of = next(
            (d for d in self._documents if sender in (d.messages, d.session)), None
        )
        self.log.add("" if of is None else of.title, text)

    # -- commands ----------------------------------------------------------

    def escape(self) -> None:
        """Remove the ruler, clear selection, close the search, leave full screen.

        Or stop reading; only the first of these that there is.
        """
        session, document = self.session, self.document
        if session is None or document is None:
            return
        if session.ruler.current is not None or session.ruler.is_active:
            session.ruler.clear()
        elif session.selection.current or session.ranges.marked is not None:
            session.clear_selection()
        elif session.queries.text:
            document.toolbar.search.clear()
        elif document.workspace.full_cell is not None:
            document.workspace.leave_full_screen()
        else:
            document.stop_reading()

    def toggle_full_screen(self) -> None:
        """Let the active view fill the screen, or end that."""
        document = self.document
        if document is not None and not document.workspace.leave_full_screen():
            document.workspace.fill_with(None)

    def toggle_detailed(self) -> None:
        """Switch the table between compact and detailed rows."""
        for view in self._cell_views():
            view.toggle_detailed()

    def copying(self) -> list[Copyable]:
        """Return what has rows to copy: the view with the focus, else those in view."""
        return copying(QApplication.focusWidget(), self._cell_views())

    def copy(self, form: "CopyForm") -> None:
        """Copy what the view with the focus has selected, else the table's rows."""
        can_copy = self.copying()
        for source in can_copy:
            source.copy_rows(form)
        if not can_copy and self.session is not None:
            self._copy_names(self.session)

    # -- Qt ----------------------------------------------------------------

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take files from anywhere over the window."""
        if dropped_paths(event) and accept_copy(event):
            self.start_page.set_hot(True)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        """Cool down."""
        self.start_page.set_hot(False)
        super().dragLeaveEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        """Open what was dropped; see `Drops`."""
        self.start_page.set_hot(False)
        paths = dropped_paths(event)
        if paths and accept_copy(event):
            is_apart = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._drops.take(paths, is_apart=is_apart)

    def focusNextPrevChild(self, is_next: bool) -> bool:
        """Follow Tab; where what had the keys is gone, give them to the page.

        Qt asks for the next in the row of Tab for both. Of a start page, a message or
        a palette that goes, that would be whatever is next to it: the search field.
        """
        focus = QApplication.focusWidget()
        if focus is not None and not (focus.isVisible() and focus.isEnabled()):
            self._focus_page()
            return True
        return super().focusNextPrevChild(is_next)

    def event(self, event: QEvent) -> bool:
        """Give the keys to the page when the window comes forward without them."""
        if event.type() == QEvent.Type.WindowActivate and self._has_no_focus():
            self._focus_page()
        return super().event(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Remember the geometry and stop all work; ask about programs that run."""
        if event.spontaneous() and not self._may_leave(*self._documents):
            event.ignore()
            return
        self._store_geometry()
        self.settings.sync()
        self._drops.release()
        for dialog in self.findChildren(QDialog):  # what works for them ends, too
            dialog.close()
        for document in list(self._documents):
            self.close_document(document)
        super().closeEvent(event)

    # -- building ----------------------------------------------------------

    def _build(self) -> None:
        desk = QWidget(self)
        desk.setObjectName("desk")
        self._tab_row = TabRow(desk)
        self._tab_row.chosen.connect(self._on_tab_changed)
        self._tab_row.moved.connect(self._on_tab_moved)
        self._tab_row.close_requested.connect(self._on_tab_closed)
        self._tab_row.plus_clicked.connect(self.open_dialog)
        self._tab_row.menu_requested.connect(self._on_tab_menu)
        self.start_page = StartPage(self.settings, desk)
        self.start_page.open_requested.connect(self.open_dialog)
        self.start_page.record_requested.connect(self._on_record_requested)
        self.start_page.programs_requested.connect(self._on_programs_requested)
        self.start_page.follow_requested.connect(self.follow)
        self.start_page.file_chosen.connect(self._on_file_chosen)
        self._stack = QStackedWidget(desk)
        self._blank = QWidget(desk)
        self._stack.addWidget(self.start_page)
        self._stack.addWidget(self._blank)
        box = QVBoxLayout(desk)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self._tab_row)
        box.addWidget(self._stack, 1)
        self.setCentralWidget(desk)
        self._closed = ClosedReturner(self)
        self._messages = Messages(self._stack)
        self._messages.shown.connect(self._on_message)

    # -- reactions ---------------------------------------------------------

    def _on_tab_changed(self, position: int) -> None:
        if 0 <= position < len(self._documents):
            self._show_current()

    def _on_tab_moved(self, source: int, target: int) -> None:
        self._documents.insert(target, self._documents.pop(source))

    def _on_tab_closed(self, position: int) -> None:
        if 0 <= position < len(self._documents):
            self.ask_and_close(self._documents[position])

    def _on_tab_menu(self, position: int, at: QPoint) -> None:
        """Show the menu of a tab, which need not be the one in front."""
        document = self._documents[position]
        n, has_files = len(self._documents), bool(document.saved_files)
        is_last = position == n - 1
        menu = QMenu(self)
        close = partial(self.ask_and_close, document)
        add_action(menu, "Close", close)
        others = partial(self.close_others, document)
        add_action(menu, "Close others", others, enabled=n > 1)
        right = partial(self.close_right, document)
        add_action(menu, "Close tabs to the right", right, enabled=not is_last)
        menu.addSeparator()
        copy = partial(self.copy_path, document)
        add_action(menu, "Copy path", copy, enabled=has_files)
        show = partial(self.show_file, document)
        add_action(menu, "Show in folder", show, enabled=has_files)
        menu.addSeparator()
        menu.addAction(self.actions_["file.reopen"])
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(at)

    def _on_lane_name_requested(self, key: str) -> None:
        self.dialogs.rename_lane(key)

    def _on_edit_requested(self, bookmark: int | Subject) -> None:
        if isinstance(bookmark, Subject):
            self.dialogs.name_bookmark(bookmark)
        else:
            self.dialogs.edit_bookmark(bookmark)

    def _on_ops_requested(self) -> None:
        self.dialogs.show_op_tables()

    def _on_programs_requested(self) -> None:
        self.dialogs.show_follow()

    def _on_record_requested(self) -> None:
        self.dialogs.show_record()

    def _on_renderer_requested(self) -> None:
        self.dialogs.show_settings()

    def _on_close_requested(self) -> None:
        document = self._tab(self.sender())
        if document is not None:
            self.ask_and_close(document)

    def _on_title_changed(self) -> None:
        self._name_tabs()
        self.actions_.refresh()

    def _name_tabs(self) -> None:
        """Name all tabs, so that no two are called alike, and the window."""
        commands = [document.command for document in self._documents]
        recorded = [document.recorded_command for document in self._documents]
        for document, started, options in zip(
            self._documents,
            differing_options(commands),
            recording_options(recorded),
            strict=True,
        ):
            document.set_options(started or options)
        names = distinct_titles([document.tab_name for document in self._documents])
        for position, document in enumerate(self._documents):
            self._tab_row.set_title(position, names[position], document.tip)
        sessions = [document.session for document in self._documents]
        self._open_traces.set_sessions(list(zip(names, sessions, strict=True)))
        self._show_title()

    def _on_shown(self) -> None:
        document = self._tab(self.sender())
        if document is not None:
            self._show_requested(document)
            if document is self.document and not _is_typing():
                document.focus_page()

    def _on_ready(self) -> None:
        document = self._tab(self.sender())
        if document is not None:
            self.settings.add_recent(*document.parts.opened_as)
            self._show_requested(document)
            document.setProperty("timeRange", "")

    def _show_requested(self, document: "Document") -> None:
        """Show the range of the command line, until the user goes elsewhere."""
        time, session = str(document.property("timeRange") or ""), document.session
        last = document.property("timeShown")
        if time and last in (None, session.viewport.visible):
            self._show_range(session, time)
            document.setProperty("timeShown", session.viewport.visible)

    def _show_range(self, session: "Session", text: str) -> None:
        from ggscope.analysis.filters.text import parse_range
        from ggscope.errors import QueryError

        if session.trace is None:
            return
        try:
            session.viewport.set_visible(
                parse_range(text, session.trace.extent, session.trace.clock.unit)
            )
        except QueryError as error:
            self.report(str(error))

    def _on_file_chosen(self, text: str) -> None:
        path, *more = recent_paths(text)
        self.open_path(path, more=more)

    def _on_filter_chosen(self, name: str) -> None:
        from ggscope.gui.dialogs.filters import apply_saved

        if self.session is not None:
            apply_saved(self.settings, self.session, name)

    def _on_theme(self, theme: Theme) -> None:
        scale = self.settings.appearance.font_scale
        for document in self._documents:
            document.set_theme(theme)
            if scale != self._font_scale:
                document.workspace.rebuild_views()
        self._font_scale = scale

    def _on_settings_changed(self, topic: str) -> None:
        if topic == "layout":
            self._refresh_later.start()
        else:
            self.actions_.refresh()
        if topic == "drawing":
            self._places.set_on(self.settings.drawing.keys_by_place)

    def _run_command(self, command_id: str) -> None:
        self.actions_[command_id].trigger()

    def _on_state_changed(self, _: object = None) -> None:
        if not self._is_appending():
            self.actions_.refresh()

    def _on_moved(self, _: object = None) -> None:
        if not self._is_appending():
            self.actions_.enable()

    def _is_appending(self) -> bool:
        """Return whether a program that runs moves things, which changes no command."""
        return self._watched is not None and self._watched.is_appending

    def _on_full_screen(self, is_full: bool) -> None:
        for part in (self.menuBar(), self._tab_row):
            part.setVisible(not is_full)
        document = self.document
        if document is not None:
            document.toolbar.setVisible(not is_full)
            document.status.setVisible(not is_full)
        if is_full:
            self._was_maximised = self.isMaximized()
            self.showFullScreen()
        elif self._was_maximised:
            self.showMaximized()
        else:
            self.showNormal()

    # -- helpers -----------------------------------------------------------

    def _tab(self, thing: QObject | None) -> "Document | None":
        """Return `thing` where it is one of the tabs."""
        return next((d for d in self._documents if d is thing), None)

    def _bring_to_front(self, document: "Document") -> None:
        self._tab_row.bring_to_front(self._documents.index(document))
        self._show_current()

    def _show_current(self) -> None:
        """Show the page of the current tab, or the start page."""
        if self.document is not None:
            self.document.workspace.leave_full_screen()
        if self._palette is not None:
            self._palette.dismiss()  # it is about the tab that was in front
        position = self._tab_row.current
        document = None
        if 0 <= position < len(self._documents):
            document = self._documents[position]
        self._stack.setCurrentWidget(document or self.start_page)
        self._tab_row.setVisible(bool(self._documents))
        line = None if document is None else document.workspace.summary_bar
        self._tab_row.show_beside(line)
        if document is not None:
            document.workspace.take_layout()
        if not self._tab_row.bar.hasFocus():  # with the arrow keys on the tabs
            self._focus_page()
        self._show_title()
        self._watch(self.session)
        self.actions_.refresh()

    def _has_no_focus(self) -> bool:
        focus = self.focusWidget()
        return focus is None or not focus.isVisibleTo(self)

    def _focus_page(self) -> None:
        """Let the keys go to what the page in front is about."""
        page = self._stack.currentWidget()
        document = self._tab(page)
        if document is not None:
            document.focus_page()
        elif page is not None:
            page.setFocus()

    def _show_title(self) -> None:
        """Name the tab in front in the window's title."""
        document = self.document
        title = "ggscope"
        if document is not None:
            names = distinct_titles([other.tab_name for other in self._documents])
            title = f"{names[self._documents.index(document)]} — ggscope"
        set_title(self, title)
        self.setWindowFilePath("" if document is None else str(document.path))

    def _watch(self, session: "Session | None") -> None:
        """Listen to what enables and disables commands, of the tab in front."""
        if session is self._watched:
            return
        old, self._watched = self._watched, session
        if old is not None:
            for signal, slot in self._session_connections(old):
                signal.disconnect(slot)
        if session is not None:
            for signal, slot in self._session_connections(session):
                signal.connect(slot)

    def _session_connections(self, session: "Session") -> tuple[Connection, ...]:
        return (
            (session.trace_changed, self._on_state_changed),
            (session.bookmarks.changed, self._on_state_changed),
            (session.ruler.active_changed, self._on_state_changed),
            (session.display.color_by_changed, self._on_state_changed),
            (session.display.absolute_time_changed, self._on_state_changed),
            (session.selection.changed, self._on_moved),
            (session.ranges.marked_changed, self._on_moved),
            (session.queries.search_changed, self._on_moved),
            (session.queries.filter_changed, self._on_moved),
            (session.lanes.changed, self._on_moved),
            (session.history.changed, self._on_moved),
        )

    def _cell_views(self) -> tuple[View, ...]:
        if self.document is None:
            return ()
        cells = self.document.workspace.cells
        return tuple(host.view for host in cells if host.view is not None)

    def _copy_names(self, session: "Session") -> None:
        trace = session.trace
        if trace is not None and session.selection.current.table == "spans":
            names = [trace.span_name(i) for i in session.selection.current.ids[:10_000]]
            copy_text("\n".join(map(one_line, names)))

    def _restore_geometry(self) -> None:
        stored = self.settings.window.geometry
        if stored:
            self.restoreGeometry(QByteArray.fromBase64(stored.encode()))

    def _store_geometry(self) -> None:
        encoded = self.saveGeometry().toBase64().toStdString()
        self.settings.change("window", geometry=encoded)


def _is_typing() -> bool:
    """Return whether a text field has the focus."""
    return isinstance(QApplication.focusWidget(), QLineEdit | QPlainTextEdit)


def _first_size(window: QMainWindow) -> QSize:
    """Return the size of the first start: as designed, or what the screen has."""
    screen = window.screen().availableSize()
    return QSize(1600, 1000).boundedTo(screen * 0.92)
