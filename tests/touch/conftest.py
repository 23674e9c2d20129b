"""Windows as people use them: an X display, a window manager, real keys and mouse.

Events come from `xdotool`, so they pass the X server, the window manager and Qt's
platform plug-in; nothing is sent to a widget directly. `QT_SCALE_FACTOR` chooses the
scale of the whole run: `packaging/run-tests.sh` runs this folder at 100 and 200 %.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ggscope.gui.app import create_window
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.session.loader import LoadState
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from touching import PATIENCE_MS, Hand

SIZES = [(900, 600), (1600, 1000)]
"""Inner sizes of the window in device-independent pixels."""


@pytest.fixture(scope="session")
def window_manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run openbox on this display for as long as the tests take."""
    if not os.environ.get("DISPLAY"):
        pytest.skip("real events need an X display; run them under xvfb-run")
    if QGuiApplication.platformName() not in ("", "xcb"):
        pytest.skip(f"real events need X; Qt draws to {QGuiApplication.platformName()}")
    for tool in ("openbox", "xdotool"):
        if shutil.which(tool) is None:
            pytest.skip(f"real events need {tool}, which is not installed")
    log = tmp_path_factory.mktemp("openbox") / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(["openbox", "--sm-disable"], stdout=out, stderr=out)
        # Answers only once the window manager has taken the display over.
        command = ["xdotool", "get_desktop"]
        for _ in range(PATIENCE_MS // 20):
            # While the window manager starts, xdotool may wait for ever.
            with contextlib.suppress(subprocess.TimeoutExpired):
                if not subprocess.run(
                    command, capture_output=True, timeout=2
                ).returncode:
                    break
            time.sleep(0.02)
        yield
        process.terminate()
        process.wait()


@pytest.fixture
def hand(window_manager: None, qapp: QApplication) -> Iterator[Hand]:
    """Return what presses keys and moves the mouse."""
    made = Hand()
    yield made
    made.close()


@pytest.fixture
def settings() -> Settings:
    """Return the settings of a first start, which live as long as the test."""
    return Settings(MemoryStore())


@pytest.fixture(params=SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    """Return width and height of the window, device-independent pixels."""
    value: tuple[int, int] = request.param
    return value


@pytest.fixture
def make_window(
    window_manager: None, qtbot: QtBot
) -> Iterator[Callable[..., MainWindow]]:
    """Return a function (settings, size, theme="dark") that shows an active window."""
    made: list[MainWindow] = []

    def make(
        settings: Settings, size: tuple[int, int], theme: str = "dark"
    ) -> MainWindow:
        window = create_window(settings, theme)
        made.append(window)
        window.resize(*size)
        window.move(0, 0)
        window.show()
        qtbot.waitExposed(window)
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow, timeout=PATIENCE_MS)
        qtbot.waitUntil(lambda: (window.width(), window.height()) == size)
        Hand.settle()
        return window

    yield make
    for window in made:
        window.close()
        window.deleteLater()
    app = QApplication.instance()
    assert app is not None
    for child in app.findChildren(QObject, "themeManager"):
        child.deleteLater()
    QTest.qWait(5)


@pytest.fixture
def window(
    make_window: Callable[..., MainWindow], settings: Settings, size: tuple[int, int]
) -> MainWindow:
    """Return an active window on its start page, in each of the sizes."""
    return make_window(settings, size)


@pytest.fixture
def wait_read(qtbot: QtBot) -> Callable[[MainWindow], Document]:
    """Return a function that waits for the tab in front to be read, panes made."""

    def wait(window: MainWindow) -> Document:
        done = (LoadState.READY, LoadState.FAILED, LoadState.CANCELLED)

        def is_read() -> bool:
            document = window.document
            return (
                document is not None
                and document.loader.state in done
                and document.workspace.filler.is_done
            )

        qtbot.waitUntil(is_read, timeout=20_000)
        Hand.settle()
        document = window.document
        assert document is not None
        return document

    return wait


@pytest.fixture
def opened(
    window: MainWindow, wait_read: Callable[[MainWindow], Document]
) -> Callable[[Path], Document]:
    """Return a function that opens a file in `window` and waits until it is read."""

    def open_file(path: Path) -> Document:
        window.open_path(path)
        return wait_read(window)

    return open_file
