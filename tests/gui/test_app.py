"""The application: options, files from the desktop, start without heavy imports."""

import gc
import os
import subprocess
import sys
import weakref
from argparse import Namespace
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ggscope.gui.app import (
    Application,
    ExceptionHook,
    apply_options,
    create_app,
    keys_path,
    make_settings,
)
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.start import samples
from ggscope.gui.single_instance.client import OpenOptions, open_options
from ggscope.session.loader import LoadState
from ggscope.session.settings import Settings
from ggscope.session.settings_store import IniStore
from messages import newest_message

START = """
import sys
from ggscope.gui.app import create_app, create_window
from ggscope.session.settings import Settings
app = create_app()
window = create_window(Settings())
window.show()
app.processEvents()
heavy = {"numpy", "ggscope.session.session", "pyqtgraph", "OpenGL", "scipy", "gguf", "duckdb", "psutil", "ggscope.readers.registry"}
print(sorted(heavy & set(sys.modules)))
window.close()
"""  # noqa: E501

TAB = """
import sys
import ggscope.gui.document
print([name for name in sys.modules if name.startswith("ggscope.live")])
"""

FILES = """
import sys
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent
from ggscope.gui.app import Application
app = Application(["ggscope"])
seen = []
app.file_requested.connect(seen.append)
app.sendEvent(app, QFileOpenEvent("/a b.bin"))
app.sendEvent(app, QFileOpenEvent("/ü.bin"))
print(app.take_queued_files(), seen)
app.sendEvent(app, QFileOpenEvent("/c.bin"))
print(app.take_queued_files(), seen)
"""

DOUBLE_CLICKS = """
import sys
from argparse import Namespace
from PySide6.QtCore import QCoreApplication, QTimer
from PySide6.QtGui import QFileOpenEvent
from ggscope import assets
from ggscope.gui import app as app_module
from ggscope.gui.main_window import MainWindow
first, second = (assets.path(f"samples/{n}.ggmlviz") for n in ("llama", "whisper"))
app = app_module.create_app(["ggscope"])
# As macOS sends them: posted before there is a window, with the path as it is.
QCoreApplication.postEvent(app, QFileOpenEvent(str(first)))
app.processEvents()
is_sent = False
rounds = 0
def look():
    global is_sent, rounds
    rounds += 1
    window = next(w for w in app.topLevelWidgets() if isinstance(w, MainWindow))
    names = [document.parts.opened_as[0].name for document in window.documents]
    if len(names) == 1 and window.isVisible() and not is_sent:
        is_sent = True
        QCoreApplication.postEvent(app, QFileOpenEvent(str(second)))
    if len(names) == 2 or rounds > 400:
        print(names, window.document.parts.opened_as[0].name)
        timer.stop()
        window.close()
timer = QTimer()
timer.timeout.connect(look)
timer.start(50)
sys.exit(app_module.run([], Namespace(safe_mode=True)))
"""

FORMAT = """
import sys
from PySide6.QtCore import Qt
from PySide6.QtGui import QSurfaceFormat
from PySide6.QtWidgets import QApplication
from ggscope.gui.app import create_app
app = create_app()
f = QSurfaceFormat.defaultFormat()
print(f.majorVersion(), f.minorVersion(), f.profile().name)
print(QApplication.testAttribute(Qt.ApplicationAttribute.AA_ShareOpenGLContexts))
print(app.desktopFileName())
assert sys.getswitchinterval() < 0.005
assert create_app() is app
"""

RUN = """
import sys
from argparse import Namespace
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from ggscope.gui import app as app_module
def boom():
    raise ValueError("in a slot")
def find():
    return next((w for w in QApplication.topLevelWidgets() if type(w).__name__ == "MainWindow"), None)
def wait():
    window = find()
    loaded = window is not None and window.session is not None and window.session.trace is not None
    if loaded:
        QTimer.singleShot(0, boom)
        QTimer.singleShot(50, look)
    else:
        QTimer.singleShot(50, wait)
def toast_text(window):
    shown = window.messages.toasts
    return shown[-1].text.text() if shown else ""
def look(left=400):
    window = find()
    if left and not toast_text(window):  # the message comes in a later turn
        QTimer.singleShot(50, lambda: look(left - 1))
        return
    print(window.n_documents, toast_text(window))
    window.close()
app = app_module.create_app(["ggscope"])
QTimer.singleShot(50, wait)
options = Namespace(safe_mode=True, theme="light", software_gl=True, layout="grid",
                    reader=None, ops="auto", option=[], range="0:1ms")
sys.exit(app_module.run([Path(p) for p in sys.argv[1:]], options))
"""  # noqa: E501


PAINT = """
import sys
from argparse import Namespace
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from ggscope.gui import app as app_module
from ggscope.views.table.view import TableView
def bad(self, event):
    raise RuntimeError("broken on purpose")
TableView.paintEvent = bad
app = app_module.create_app(["ggscope"])
def look():
    window = next(w for w in QApplication.topLevelWidgets() if type(w).__name__ == "MainWindow")
    cells = window.document.workspace.cells
    if cells[1].error_panel is None:
        return
    print([c.error_panel is not None for c in cells])
    timer.stop()
    window.close()
timer = QTimer()
timer.timeout.connect(look)
timer.start(50)
sys.exit(app_module.run([Path(p) for p in sys.argv[1:]], Namespace(safe_mode=True)))
"""  # noqa: E501


LIBRARY = """
import sys
from argparse import Namespace
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from ggscope.gui import app as app_module
def toast_text(window):
    shown = window.messages.toasts
    return shown[-1].text.text() if shown else ""
app = app_module.create_app(["ggscope"])
def look():
    for window in QApplication.topLevelWidgets():
        if type(window).__name__ == "MainWindow" and toast_text(window):
            print(toast_text(window))
            timer.stop()
            window.close()
timer = QTimer()
timer.timeout.connect(look)
timer.start(50)
sys.exit(app_module.run([], Namespace(safe_mode=True)))
"""


def python(
    code: str, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of its own: the tests' process has its application already."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_first_window_needs_no_heavy_modules() -> None:
    done = python(START)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_tab_of_a_file_leaves_out_what_follows_programs() -> None:
    done = python(TAB)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_files_from_the_desktop_wait_for_the_window() -> None:
    done = python(FILES)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['/a b.bin', '/ü.bin'] []",
        "[] ['/c.bin']",
    ]


def test_a_double_click_before_and_after_the_window_is_up_opens_tabs() -> None:
    done = python(DOUBLE_CLICKS, QT_QPA_PLATFORM="offscreen", GGSCOPE_INSTANCE="off")

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['llama.ggmlviz', 'whisper.ggmlviz'] whisper.ggmlviz"


def test_surface_format_is_set_before_the_application() -> None:
    done = python(FORMAT)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "3 3 CoreProfile",
        "True",
        "org.ggscope.ggscope",
    ]


def test_run_opens_files_survives_a_fault_and_ends_well() -> None:
    if not samples():
        pytest.skip("the samples have not been made")

    done = python(RUN, str(samples()[0]))

    assert done.returncode == 0, done.stderr
    # PySide 6.11 may leave sys.stdout pointing elsewhere after an exception.
    stdout = done.stdout + done.stderr
    assert "1 Something went wrong: ValueError" in stdout, stdout


def test_view_that_cannot_paint_is_replaced_and_the_rest_goes_on() -> None:
    if not samples():
        pytest.skip("the samples have not been made")

    done = python(PAINT, str(samples()[0]))

    assert done.returncode == 0, done.stderr
    # PySide 6.11 leaves sys.stdout pointing elsewhere after such an exception.
    assert "[False, True]" in done.stdout + done.stderr
    assert done.stderr.count("broken on purpose") < 20


def test_window_says_that_the_compiled_library_is_missing(tmp_path: Path) -> None:
    done = python(LIBRARY, GGSCOPE_NATIVE=str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert "the compiled part of ggscope is missing" in done.stdout
    assert "Traceback" not in done.stderr


def test_create_app_returns_the_running_one(qapp: QApplication) -> None:
    assert create_app() is qapp
    assert isinstance(qapp, QApplication)
    assert issubclass(Application, QApplication)


def test_options_become_reader_options() -> None:
    options = Namespace(
        reader="tensor-access",
        ops="ggml-x",
        option=[("layout", "256")],
        range="1ms:2ms",
    )

    assert open_options(options) == OpenOptions(
        "tensor-access", (("layout", "256"), ("ops", "ggml-x")), "1ms:2ms"
    )
    assert open_options(Namespace(ops="auto")) is None
    assert open_options(None) is None


def test_options_win_over_settings(settings: Settings) -> None:
    apply_options(settings, Namespace(software_gl=True, layout="grid"))

    assert settings.drawing.renderer == "raster"
    assert settings.layout.name == "grid"
    apply_options(settings, Namespace(layout="nonsense"))
    assert settings.layout.name == "grid"


def test_safe_mode_settings_are_not_stored() -> None:
    assert make_settings(is_safe=True).is_safe


def test_plugin_folder_reaches_the_readers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GGSCOPE_PLUGIN_PATH", "")
    settings = make_settings()
    settings.change("plugins", is_enabled=True, folder=str(tmp_path))
    assert isinstance(settings.store, IniStore)
    settings.store.sync()

    make_settings()

    import os

    assert os.environ["GGSCOPE_PLUGIN_PATH"] == str(tmp_path)
    assert keys_path(settings).name == "keys.json"


def test_range_of_the_command_line_is_shown(window: MainWindow, qtbot: QtBot) -> None:
    if not samples():
        pytest.skip("the samples have not been made")

    document = window.open_path(samples()[0], OpenOptions(time_range="0:1ms"))
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY)

    assert document.session.viewport.visible.duration == 1_000_000


def test_bad_range_is_reported(window: MainWindow, qtbot: QtBot) -> None:
    if not samples():
        pytest.skip("the samples have not been made")

    document = window.open_path(samples()[0], OpenOptions(time_range="soon"))
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY)

    assert newest_message(window)


def test_exception_that_nobody_catches_keeps_nothing_alive(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Held:
        """Stands for a trace that a frame of the exception refers to."""

    watched: list[weakref.ref[Held]] = []

    def fail() -> None:
        held = Held()
        watched.append(weakref.ref(held))
        raise ValueError("a fault of a slot")

    monkeypatch.setattr(sys, "excepthook", ExceptionHook(window))
    QTimer.singleShot(0, fail)
    qtbot.waitUntil(lambda: "a fault of a slot" in newest_message(window))
    gc.collect()

    assert [watch() for watch in watched] == [None]
