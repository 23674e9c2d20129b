"""A short walk by real keys and mouse through the program as a process of its own."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from support import ROOT

sys.path.insert(0, str(ROOT / "packaging"))
import walk


def test_program_survives_a_random_walk(
    window_manager: None, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "STEPS_PER_ROUND", 150)

    report = walk.walk("npu", seconds=6, seed=3)

    assert report.steps >= walk.STEPS_PER_ROUND
    assert report.events > report.steps
    assert report.rests or report.quits
    assert report.faults == [], report.text()


@pytest.fixture
def empty_display(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of an X display of the test's own, on which nothing runs."""
    if shutil.which("Xvfb") is None or shutil.which("openbox") is None:
        pytest.skip("a display of its own needs Xvfb and openbox")
    reader, writer = os.pipe()
    command = ["Xvfb", "-displayfd", str(writer), "-screen", "0", "800x600x24"]
    server = subprocess.Popen(
        command, pass_fds=[writer], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(writer)
    with os.fdopen(reader) as report:
        name = f":{report.readline().strip()}"
    monkeypatch.setenv("DISPLAY", name)
    yield name
    server.terminate()
    server.wait()


def test_click_beside_all_windows_opens_no_menu(
    empty_display: str, tmp_path: Path
) -> None:
    manager = walk.start_window_manager()
    display = walk.Display()
    walk.photograph(tmp_path / "before.png")

    for number in (1, 2, 3):
        display.move(700, 500)
        display.button(number, True)
        display.button(number, False)
        time.sleep(0.3)  # nothing is to come: there is no sign of it to wait for
        walk.photograph(tmp_path / "after.png")

        # Openbox's own menu offers a terminal, a browser and its own end.
        before, after = (
            QImage(str(tmp_path / f"{name}.png")) for name in ("before", "after")
        )
        assert not before.isNull()
        assert before == after, f"button {number} opened something"

    assert manager.poll() is None
    display.close()
    manager.terminate()
    manager.wait()


def test_walk_takes_what_the_program_copied(
    window_manager: None, qapp: QApplication, qtbot: QtBot
) -> None:
    gone: list[bool] = []
    copied = QMimeData()
    copied.setText("100,000 rows")
    copied.destroyed.connect(lambda: gone.append(True))
    qapp.clipboard().setMimeData(copied)
    assert qapp.clipboard().ownsClipboard()
    display = walk.Display()

    walker = threading.Thread(target=display.take_clipboard)
    walker.start()  # elsewhere, as the walk is another process

    qtbot.waitUntil(lambda: bool(gone))
    walker.join()
    assert not qapp.clipboard().ownsClipboard()
    display.close()


def test_walk_that_does_not_come_home_says_so() -> None:
    report = walk.Report("planted", 1, rounds=3, came_home=2, homeless=[600])

    report.judge()

    assert report.faults == ["did not come home by keyboard after steps 600"]
    assert "2 of 3 rounds came home" in report.text()


def test_walk_shows_what_is_not_flat() -> None:
    report = walk.Report("planted", 1)
    report.rests = [
        walk.Figures(step, 250 << 20, (200 + 20 * step) << 20, 10 + step, 12)
        for step in range(12)
    ]
    report.stderr = ["Traceback (most recent call last):"]

    report.judge()

    text = " ".join(report.faults)
    assert "stderr" in text
    assert "private" in text
    assert "rss" not in text
    assert "threads" in text
    assert "descriptors" not in text
