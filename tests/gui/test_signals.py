"""Signals that ask the window to end: it closes in order."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="this system has no such signals"
)

PROGRAM = """
import os, signal, sys
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QInputDialog
from ggscope.cli import main
from ggscope.gui import app as app_module
number, moment = int(sys.argv[1]), sys.argv[2]
# A shell that runs the tests in the background has its children ignore SIGINT.
signal.signal(number, signal.SIG_DFL)
real = app_module.create_window

def create_window(settings, *rest):
    '''Send the signal at a certain moment of the window's life.'''
    if moment == "early":
        os.kill(os.getpid(), number)
    settings.save_filter("kept", "op=ADD")
    window = real(settings, *rest)
    if moment == "idle":
        QTimer.singleShot(0, lambda: os.kill(os.getpid(), number))
    if moment == "dialog":
        QTimer.singleShot(0, lambda: QInputDialog.getText(window, "a", "b"))
        QTimer.singleShot(50, lambda: os.kill(os.getpid(), number))
    return window

app_module.create_window = create_window
sys.exit(main(["open"]))
"""


@pytest.mark.parametrize(
    ("name", "moment"),
    [("SIGTERM", "idle"), ("SIGINT", "dialog"), ("SIGHUP", "early")],
)
def test_signal_closes_the_window_in_order(
    tmp_path: Path, name: str, moment: str
) -> None:
    number = signal.Signals[name].value
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(number), moment],
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen",
             "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    assert "kept" in (tmp_path / "ggscope" / "ggscope.ini").read_text()
    assert os.listdir(tmp_path / "ggscope") == ["ggscope.ini"]
