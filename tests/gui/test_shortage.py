"""Too little memory, a full disk, no more threads: messages, and the window stays."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.gui.dialogs.window_dialogs import write_figure
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.start import samples
from ggscope.gui.panes.host import ErrorPanel
from ggscope.readers import registry
from ggscope.readers.api import ReadContext, Sniff
from ggscope.readers.tensor.reader import TensorAccessReader
from ggscope.session.loader import LoadState
from ggscope.session.settings import Settings
from ggscope.session.settings_store import IniStore
from ggscope.session.tasks import NO_MEMORY, TaskContext, TaskFailure, Tasks
from messages import newest_message
from reading import Reading, wait_for

needs_limits = pytest.mark.skipif(
    sys.platform == "win32", reason="this system has no resource limits"
)

PROGRAM = """
import os, resource, signal, sys, threading, time
from pathlib import Path
from ggscope.gui import app as app_module
from ggscope.gui.single_instance.client import OpenOptions
from ggscope.session.loader import LoadState
from ggscope.session.settings import Settings
from ggscope.session.settings_store import IniStore, MemoryStore
import ggscope.views.details.view, ggscope.views.overview, ggscope.views.problems
import ggscope.views.statistics.view, ggscope.views.table.view
import ggscope.views.timeline.view
import ggscope.session_loading, numpy.ma, numpy.random
import importlib
from ggscope.views.registry import BUILTIN
for entry in BUILTIN:  # modules are not what memory is to run out for
    importlib.import_module(entry.module)
from ggscope.readers import registry
def toast_text(window):
    shown = window.messages.toasts
    return shown[-1].text.text() if shown else ""
registry.readers()
what, path, folder = sys.argv[1:]
app = app_module.create_app()
store = IniStore(Path(folder) / "settings.ini") if what == "disk" else MemoryStore()
settings = Settings(store)
window = app_module.create_window(settings, "dark")
app_module.install_exception_hook(window)
window.resize(1200, 800)
window.show()
until = time.monotonic() + 60
def turn(is_done):
    while not is_done() and time.monotonic() < until:
        app.processEvents()
        time.sleep(0.001)
if what == "disk":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
else:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    room = used + (int(what) << 20)
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
reading = (LoadState.IDLE, LoadState.LOADING)
document = window.open_path(Path(path), OpenOptions(is_forced=True))
turn(lambda: document.loader.state not in reading)
turn(lambda: document.session.tasks.is_idle)
if what == "disk":
    from ggscope.gui.dialogs.window_dialogs import write_figure
    done = []
    figure = document.workspace.views("timeline")[0].figure()
    write_figure(
        document.session, figure, Path(folder) / "figure.png", done.append, done.append
    )
    turn(lambda: done)
    settings.add_recent(Path("/somewhere/else"))
    settings.sync()
    print(document.loader.state.name, done[0])
    print(bool(toast_text(window)), toast_text(window))
    print(sorted(os.listdir(folder)))
else:
    resource.setrlimit(
        resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )
    print(document.loader.state.name)
    document.loader.open()
    turn(lambda: document.loader.state not in reading)
    print(document.loader.state.name, window.isVisible())
window.close()
"""


def run_short_of(what: str, path: Path, folder: Path) -> list[str]:
    """Open `path` in a process that is short of something; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what, str(path), str(folder)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """Return a good trace of 24 MB."""
    values = [p for p in samples() if p.suffix == ".bin"]
    if not values:
        pytest.skip("the samples have not been made")
    path = tmp_path / "big.bin"
    data = values[0].read_bytes()
    path.write_bytes(data * (24_000_000 // len(data)))
    return path


@needs_limits
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for what is used")
@pytest.mark.parametrize("room_mib", ["96", "128", "200"])
def test_window_stays_whatever_the_memory_does_not_suffice_for(
    big: Path, tmp_path: Path, room_mib: str
) -> None:
    short, after = run_short_of(room_mib, big, tmp_path)

    assert short in ("FAILED", "READY")
    assert after == "READY True"


@needs_limits
def test_full_disk_gives_messages_and_leaves_nothing_behind(tmp_path: Path) -> None:
    values = [p for p in samples() if p.suffix == ".ggmlviz"]
    if not values:
        pytest.skip("the samples have not been made")
    folder = tmp_path / "full"
    folder.mkdir()

    exported, notice, left = run_short_of("disk", values[0], folder)

    assert exported.startswith("READY")
    assert "cannot be written" in exported
    assert notice.startswith("True Cannot save the settings")
    assert "figure" not in left


def test_reader_without_memory_says_what_to_do(
    window: MainWindow,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(TensorAccessReader, "sniff", lambda *_: Sniff(100))
    monkeypatch.setattr(TensorAccessReader, "read", read)
    path = tmp_path / "a.bin"
    path.write_bytes(b"x" * 1000)

    document = window.open_path(path)
    wait_for(qtbot, document.loader, LoadState.FAILED)

    assert "enough memory" in document.problem_page.message.text()
    assert "Close other" in document.problem_page.hint.text()


def test_job_without_memory_is_a_message_and_the_next_one_runs(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path
) -> None:
    def request(_: TaskContext) -> None:
        raise MemoryError

    document = window.open_path(file)
    wait_for(qtbot, document.loader, LoadState.READY)

    document.session.tasks.run("analysis", request, lambda _: None)
    qtbot.waitUntil(lambda: bool(newest_message(window)))
    done: list[int] = []
    document.session.tasks.run("analysis", lambda _: 1, done.append)
    qtbot.waitUntil(lambda: done == [1])

    assert newest_message(window) == NO_MEMORY


@pytest.mark.parametrize(
    "last",
    [
        "MemoryError",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3 GiB",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 3 GiB",
    ],
)
def test_view_without_memory_says_what_to_do(qtbot: QtBot, last: str) -> None:
    panel = ErrorPanel("Timeline", f"Traceback:\n  somewhere\n{last}")
    qtbot.addWidget(panel)

    text = " ".join(part.text() for part in panel.findChildren(QLabel))

    assert "Not enough memory" in text
    assert "part of the file" in text


def test_view_with_another_fault_does_not_speak_of_memory(qtbot: QtBot) -> None:
    panel = ErrorPanel("Timeline", "Traceback:\nIndexError: no MemoryError")
    qtbot.addWidget(panel)

    text = " ".join(part.text() for part in panel.findChildren(QLabel))

    assert "Not enough memory" not in text


def test_system_without_threads_gives_a_message(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    tasks, failures = Tasks(), []
    monkeypatch.setattr(threading.Thread, "start", start)

    tasks.run("k", lambda _: 1, lambda _: None, on_error=failures.append)
    qtbot.waitUntil(lambda: bool(failures))

    assert isinstance(failures[0], TaskFailure)
    assert failures[0].message == NO_MEMORY
    assert tasks.is_idle
    tasks.close()


def test_settings_that_cannot_be_written_are_reported_once(
    qtbot: QtBot, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    settings, messages = Settings(IniStore(tmp_path / "file" / "settings.ini")), []
    settings.store_failed.connect(messages.append)

    for size in (110, 125, 150):
        settings.change("appearance", font_scale=size)
        settings.sync()

    assert settings.appearance.font_scale == 150
    assert len(messages) == 1
    assert "cannot be written" in messages[0]


def test_changes_are_written_soon_without_being_asked(
    qtbot: QtBot, tmp_path: Path
) -> None:
    path = tmp_path / "settings.ini"
    settings = Settings(IniStore(path))

    settings.change("appearance", font_scale=110)

    qtbot.waitUntil(path.exists)
    assert "110" in path.read_text()


@pytest.mark.parametrize("name", ["missing/figure.png", "figure.png/figure.svg"])
def test_export_that_cannot_be_written_is_a_message(
    window: MainWindow,
    qtbot: QtBot,
    opened: Callable[[Path], Document],
    reading: Reading,
    file: Path,
    tmp_path: Path,
    name: str,
) -> None:
    (tmp_path / "figure.png").write_text("in the way")
    reading.result = llama_like_trace(tokens=1, layers=1)
    document = opened(file)
    failed: list[str] = []

    figure = document.workspace.views("timeline")[0].figure()
    assert figure is not None
    write_figure(
        document.session, figure, tmp_path / name, failed.append, failed.append
    )
    qtbot.waitUntil(lambda: bool(failed))

    assert "cannot be written" in failed[0]


def test_a_cancelled_reader_that_does_not_listen_does_not_hold_up_the_tab(
    window: MainWindow, qtbot: QtBot, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def deaf(*_: object, context: ReadContext, **named: object) -> object:
        gate.wait(10)
        return llama_like_trace(tokens=1, layers=1)

    monkeypatch.setattr(registry, "open_trace", deaf)
    document = window.open_path(file)
    qtbot.waitUntil(lambda: document.loader.state is LoadState.LOADING)

    QTest.keyClick(window, Qt.Key.Key_Escape)
    state = document.loader.state
    window.close_document(document)
    gate.set()

    assert state is LoadState.CANCELLED
    assert window.n_documents == 0
