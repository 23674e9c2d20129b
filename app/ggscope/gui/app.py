"""The application: made, equipped, run."""

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

import platformdirs
from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QFileOpenEvent, QIcon, QSurfaceFormat
from PySide6.QtWidgets import QApplication

import ggscope
from ggscope import assets
from ggscope.gui.garbage import MainThreadCollector
from ggscope.gui.hand_over import Door, open_options
from ggscope.gui.main_window import MainWindow
from ggscope.gui.reception import Reception
from ggscope.gui.shortcuts import load_overrides
from ggscope.gui.signals import EndingSignals
from ggscope.gui.theme import ThemeManager
from ggscope.gui.view_host import host_of
from ggscope.gui.warm_up import wait_for_imports, warm_up
from ggscope.session.settings import IniStore, MemoryStore, Settings
from ggscope.session.tasks import NO_MEMORY
from ggscope.views.guard import guarded

logger = logging.getLogger(__name__)

DESKTOP_NAME = "ggscope"
_WARM_UP_MS = 2_000
KEYS_FILE = "keys.json"


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
    app.setDesktopFileName(DESKTOP_NAME)
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


def run(paths: Sequence[Path], options: object = None, door: Door | None = None) -> int:
    """Open a window with `paths` in tabs and run it; return the exit code.

    Parameters
    ----------
    options : attributes of the command line's ``open``: reader, ops, option, theme,
        software_gl, safe_mode, range, layout, records, names, force, beside. Missing
        ones count as not given.
    door : where later starts hand their files over; closed when the window closes.
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
    for problem in (*settings.problems, *problems):
        logger.warning("%s", problem)
    if problems or settings.problems:
        window.report("\n".join([*settings.problems, *problems][:3]))
    signals.window = window
    window.show()
    window.open_soon(paths, open_options(options))
    if isinstance(app, Application):
        app.file_requested.connect(window.open_requested)
        window.open_paths(Path(p) for p in app.take_queued_files())
    reception = None if door is None else _reception(door, app, window)
    # The icon is read and drawn after the window is out.
    QTimer.singleShot(0, window, set_icon)
    # With a file, when it is likely to be open: a pane that is shown for the first time
    # then need not wait for its modules.
    QTimer.singleShot(_WARM_UP_MS if paths else 0, window, warm_up)
    try:
        return int(app.exec())
    finally:
        if reception is not None:
            reception.stop()
        signals.stop()
        collector.stop()
        wait_for_imports()
        sys.excepthook = sys.__excepthook__


def _reception(door: Door, app: QApplication, window: MainWindow) -> Reception:
    """Return what opens the files of later starts in `window`, after its own."""
    reception = Reception(door, app)
    reception.came.connect(window.open_letter)
    # At once: what came to a closed window would be lost.
    app.lastWindowClosed.connect(reception.stop)
    app.aboutToQuit.connect(reception.stop)
    QTimer.singleShot(0, reception, reception.start)
    return reception


def make_settings(*, is_safe: bool = False) -> Settings:
    """Return the person's settings; defaults and nothing stored in safe mode."""
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
    """Return where the person's own keys are: beside the settings file."""
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
    window's message bar. All are logged, those that repeat themselves once.
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
        if report != self._last:  # what fails on every paint floods the log
            logger.error("not caught:\n%s", report)
        is_shown = report == self._last and self._window.notice.isVisible()
        self._last = report
        try:
            # Shown later: a widget may be in the middle of painting.
            host = host_of(trace)
            if host is not None:
                QTimer.singleShot(0, host, partial(host.fail, report))
            elif not is_shown:  # showing it again would paint again, and fail again
                text = f"Something went wrong: {kind.__name__}: {value}"[:400]
                if issubclass(kind, MemoryError):
                    text = NO_MEMORY
                show = partial(self._window.report_crash, text, report)
                QTimer.singleShot(0, self._window, show)
        except RuntimeError:  # the window is gone already
            sys.__excepthook__(kind, value, trace)


def install_exception_hook(window: MainWindow) -> ExceptionHook:
    """Route exceptions that nobody catches to `window`; return the hook."""
    hook = ExceptionHook(window)
    sys.excepthook = hook
    return hook


__all__ = [
    "Application",
    "ExceptionHook",
    "apply_options",
    "create_app",
    "create_window",
    "install_exception_hook",
    "keys_path",
    "make_settings",
    "run",
    "set_icon",
]
