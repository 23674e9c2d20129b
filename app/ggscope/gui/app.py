"""The application: made, equipped, run.

What opening a file will need is imported while the user looks for one. Signals that
ask the program to end close the window, as its own button does.
"""

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType

import platformdirs
from PySide6.QtCore import QEvent, QObject, QSocketNotifier, Qt, QTimer, Signal
from PySide6.QtGui import QFileOpenEvent, QIcon, QSurfaceFormat
from PySide6.QtWidgets import QApplication, QWidget

import ggscope
from ggscope import assets
from ggscope.errors import NativeError
from ggscope.gui.commands.shortcuts import load_overrides
from ggscope.gui.imports import import_ahead, spare_sources
from ggscope.gui.main_window import MainWindow
from ggscope.gui.memory import RETURNER, MainThreadCollector, share_one_heap
from ggscope.gui.single_instance.client import InstanceLock, open_options
from ggscope.gui.single_instance.server import InstanceServer
from ggscope.gui.single_instance.startup import forget_tokens
from ggscope.gui.theme import ThemeManager
from ggscope.session.settings import Settings
from ggscope.session.settings_store import IniStore, MemoryStore
from ggscope.session.tasks import NO_MEMORY
from ggscope.views.base.view import guarded, later

logger = logging.getLogger(__name__)


KEYS_FILE = "keys.json"
_AHEAD_MS = 2_000
_RELOAD_MS = 500
"""So often it is looked whether the file with settings has changed."""
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_SIGNALLED = 128
_SWITCH_S = 0.001
"""So soon a worker's Python code gives the interpreter to who waits for it. Painting
lets go of it at each call of Qt; with the 5 ms of Python's own the longest stall while
10 million records open took 1.5 times as long (five pairs on a busy machine)."""
_LEAVE_SECONDS = 3.0


def wait_for_threads() -> None:
    """Let threads that give memory back come to an end before the program does."""
    for thread in threading.enumerate():
        if thread.name == RETURNER:
            thread.join(_LEAVE_SECONDS)


class EndingSignals(QObject):
    """Closes the window when a signal asks for it, and leaves the event loop.

    Settings are stored and temporary files removed, as when the user closes it; the
    exit code is 128 plus the signal's number. A second signal ends the program at
    once. Signals that are ignored, as under nohup, stay so.

    Notes
    -----
    Python runs its handlers only when it runs at all, and an event loop that waits
    does not. So the signal also writes a byte to a socket, which wakes the loop.
    """

    window: QWidget | None = None
    """What to close; a signal that comes earlier waits for it."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._number = 0
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)
        self._notifier = QSocketNotifier(
            self._reader.fileno(), QSocketNotifier.Type.Read, self
        )
        self._notifier.activated.connect(self._on_woken)
        self._waker = signal.set_wakeup_fd(
            self._writer.fileno(), warn_on_full_buffer=False
        )
        self._before = {}
        for name in _ENDING:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)

    def stop(self) -> None:
        """Let signals do what they did before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._waker)
        self._notifier.setEnabled(False)
        for end in (self._reader, self._writer):
            end.close()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._number = number
        for other in self._before:
            signal.signal(other, signal.SIG_DFL)

    def _on_woken(self) -> None:
        if self._number and self.window is None:
            return  # not up yet: the byte stays, and wakes the loop again
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(64)
        if not self._number or self.window is None:
            return
        self.window.close()
        # Also out of the loops of dialogs, which close with the window.
        QApplication.exit(_SIGNALLED + self._number)


@guarded
class Application(QApplication):
    """QApplication that keeps files handed over by the desktop until a window asks.

    macOS sends them as events, the first before there is a window.
    """

    file_requested = Signal(str)

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(list(arguments))
        self._is_listening = False
        self._queued: list[str] = []

    def event(self, event: QEvent) -> bool:
        """Take files that the desktop opens with this program."""
        if isinstance(event, QFileOpenEvent):
            if self._is_listening:
                self.file_requested.emit(event.file())
            else:
                self._queued.append(event.file())
            return True
        return super().event(event)

    def take_queued_files(self) -> list[str]:
        """Return the files that came so far; later ones come by signal."""
        self._is_listening = True
        queued, self._queued = self._queued, []
        return queued


def create_app(arguments: Sequence[str] = ("ggscope",)) -> QApplication:
    """Return the application, made where there is none yet.

    Surface format and context sharing only count before the application exists.
    """
    running = QApplication.instance()
    if isinstance(running, QApplication):
        return running
    share_one_heap()
    spare_sources()
    sys.setswitchinterval(_SWITCH_S)
    surface = QSurfaceFormat()
    surface.setVersion(3, 3)
    surface.setProfile(QSurfaceFormat.OpenGLContextProfile.CoreProfile)
    surface.setSwapInterval(1)
    QSurfaceFormat.setDefaultFormat(surface)
    # Panes that move between windows keep their GL objects only with shared contexts.
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_ShareOpenGLContexts)
    app = Application(arguments)
    app.setApplicationName("ggscope")
    app.setApplicationDisplayName("ggscope")
    app.setOrganizationName("ggscope")
    app.setApplicationVersion(ggscope.__version__)
    app.setDesktopFileName(assets.APPLICATION_ID)
    return app


def create_window(
    settings: Settings,
    theme: str | None = None,
    key_overrides: dict[str, tuple[str, ...]] | None = None,
) -> MainWindow:
    """Return a main window under a theme; the application must exist."""
    app = create_app()
    themes = ThemeManager(app, settings, theme)
    return MainWindow(settings, themes, key_overrides)


def run(
    paths: Sequence[Path], options: object = None, lock: InstanceLock | None = None
) -> int:
    """Open a window with `paths` in tabs and run it; return the exit code.

    Parameters
    ----------
    options : attributes of the command line's ``open``: reader, ops, option, theme,
        software_gl, safe_mode, range, layout, records, names, force, beside,
        live, demo, and reload, which takes settings anew where their file has changed.
        Missing ones count as not given.
    lock : makes this the instance that opens the files of later processes.
    """
    app = create_app([sys.argv[0] or "ggscope"])
    # Before there is a window: what a signal raised inside of Qt would be lost.
    signals = EndingSignals(app)
    is_safe = bool(getattr(options, "safe_mode", False))
    settings = make_settings(is_safe=is_safe)
    apply_options(settings, options)
    overrides, problems = ({}, []) if is_safe else load_overrides(keys_path(settings))
    theme = getattr(options, "theme", None)
    window = create_window(settings, None if theme == "auto" else theme, overrides)
    install_exception_hook(window)
    collector = MainThreadCollector()
    problems = [*settings.problems, *problems]
    signals.window = window
    window.show()
    later(window, forget_tokens)  # Qt has them
    later(window, partial(_report, window, problems))
    live = getattr(options, "live", None)
    then: Callable[[], object] | None = None
    if live is not None:
        then = partial(window.follow, live)
    elif getattr(options, "demo", False):
        then = window.live_demo
    window.open_soon(paths, open_options(options), then)
    if isinstance(app, Application):
        app.file_requested.connect(window.open_requested)
        for path in app.take_queued_files():
            window.open_requested(path)
    reload = getattr(options, "reload", None)
    if reload is not None:
        watch = QTimer(window, interval=_RELOAD_MS)
        watch.timeout.connect(reload)
        watch.start()
    server = None if lock is None else _start_server(lock, app, window)
    # The icon is read and drawn after the window is out.
    later(window, set_icon)
    # With a file, when it is likely to be open: a pane that is shown for the first time
    # then need not wait for its modules.
    ahead = partial(import_ahead, window, lambda: window.had_tabs)
    later(window, ahead, _AHEAD_MS if paths else 0)
    try:
        return int(app.exec())
    finally:
        if server is not None:
            server.stop()
        signals.stop()
        collector.stop()
        wait_for_threads()
        sys.excepthook = sys.__excepthook__


def _report(window: MainWindow, problems: list[str]) -> None:
    """Tell what is wrong with settings and keys, and with the compiled library."""
    from ggscope.native.library import library

    try:
        library()
    except NativeError as error:
        problems = [str(error), *problems]
    for problem in problems:
        logger.warning("%s", problem)
    if problems:
        window.report("\n".join(problems[:3]))


def _start_server(
    lock: InstanceLock, app: QApplication, window: MainWindow
) -> InstanceServer:
    """Return the server that opens files of later processes in `window`."""
    server = InstanceServer(lock, app)
    server.request_received.connect(window.open_request)
    # At once: requests to a closed window would be lost.
    app.lastWindowClosed.connect(server.stop)
    app.aboutToQuit.connect(server.stop)
    later(server, server.start)
    return server


def make_settings(*, is_safe: bool = False) -> Settings:
    """Return the user's settings; defaults and nothing stored in safe mode."""
    if is_safe:
        return Settings(MemoryStore(), is_safe=True)
    data = Path(platformdirs.user_data_dir("ggscope", appauthor=False))
    settings = Settings(IniStore(), data_folder=data)
    plugins = settings.plugins
    if plugins.is_enabled and plugins.folder:
        known = os.environ.get("GGSCOPE_PLUGIN_PATH", "")
        os.environ["GGSCOPE_PLUGIN_PATH"] = os.pathsep.join(
            part for part in (plugins.folder, known) if part
        )
    return settings


def apply_options(settings: Settings, options: object) -> None:
    """Let the command line win over the settings, for drawing and layout."""
    if getattr(options, "software_gl", False):
        settings.change("drawing", renderer="raster")
    layout = getattr(options, "layout", None)
    if layout in ("dual", "grid", "single"):
        settings.change("layout", name=layout)


def keys_path(settings: Settings) -> Path:
    """Return where the user's own keys are: beside the settings file."""
    store = settings.store
    folder = store.path.parent if isinstance(store, IniStore) else Path()
    return folder / KEYS_FILE


def set_icon() -> None:
    """Put the program's icon on all windows."""
    try:
        icon = QIcon(str(assets.path("icons/ggscope.svg")))
    except FileNotFoundError:
        return
    app = QApplication.instance()
    if isinstance(app, QApplication):
        app.setWindowIcon(icon)


class ExceptionHook:
    """Keeps the program running whatever a slot or an event handler raises.

    A fault inside a view puts an error panel in its place; any other shows in the
    window's messages. All are logged, those that repeat themselves once.
    """

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self._last = ""

    def __call__(
        self,
        kind: type[BaseException],
        value: BaseException,
        trace: TracebackType | None,
    ) -> None:
        """Handle an exception that nobody caught."""
        if issubclass(kind, KeyboardInterrupt):
            app = QApplication.instance()
            if app is not None:
                app.exit(130)
            return
        report = "".join(traceback.format_exception(kind, value, trace))
        # What Python keeps of the last one would keep the trace that it was about.
        sys.last_type = sys.last_value = sys.last_traceback = None
        if report != self._last:  # what fails on every paint floods the log
            logger.error("not caught:\n%s", report)
        is_shown = report == self._last and self._window.shows_crash
        self._last = report
        from ggscope.gui.panes.host import host_of

        try:
            # Shown later: a widget may be in the middle of painting.
            host = host_of(trace)
            if host is not None:
                later(host, partial(host.fail, report))
            elif not is_shown:  # showing it again would paint again, and fail again
                text = f"Something went wrong: {kind.__name__}: {value}"[:400]
                if issubclass(kind, MemoryError):
                    text = NO_MEMORY
                show = partial(self._window.report_crash, text, report)
                later(self._window, show)
        except RuntimeError:  # the window is gone already
            sys.__excepthook__(kind, value, trace)


def install_exception_hook(window: MainWindow) -> ExceptionHook:
    """Route exceptions that nobody catches to `window`; return the hook."""
    hook = ExceptionHook(window)
    sys.excepthook = hook
    return hook
