"""Dialogs on screens that are smaller than they would like."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ggscope.gui.dialogs
from ggscope.gui.commands.registry import COMMANDS
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"

PROGRAM = """
import json, sys, time
from pathlib import Path
from PySide6.QtCore import QPoint, QRect, QTimer
from PySide6.QtWidgets import (
    QAbstractButton, QAbstractScrollArea, QApplication, QDialog, QScrollArea, QWidget,
)
from ggscope.gui import app as app_module
from ggscope.gui.commands.registry import COMMANDS
from ggscope.gui.dialogs.dialogs import NameDialog
from ggscope.session.loader import LoadState
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.views.base.safe_text import ask_choice, ask_yes

paths, commands = sys.argv[1].split("|"), sys.argv[2].split()
app = app_module.create_app(["ggscope"])
settings = Settings(MemoryStore())
settings.change("appearance", font_scale=int(sys.argv[3]))
window = app_module.create_window(settings, "dark")
window.show()
document = window.open_path(Path(paths[0]))

def turn(is_done):
    until = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < until, found
        app.processEvents()
        time.sleep(0.002)

turn(lambda: document.loader.state is LoadState.READY)
turn(lambda: document.workspace.filler.is_done)
document.session.selection.select_span(1)
document.session.bookmarks.add("one")
room = window.screen().availableGeometry()
found = {"room": [room.width(), room.height()], "wrong": [], "seen": []}

def in_scroll(widget):
    parent = widget.parentWidget()
    while parent is not None:
        if isinstance(parent, QAbstractScrollArea):
            return True
        parent = parent.parentWidget()
    return False

def check(name, dialog):
    found["seen"].append(name)
    for _ in range(5):
        app.processEvents()
    wrong = []
    frame = QRect(dialog.pos(), dialog.size())
    if not room.contains(frame):
        wrong.append(f"{frame} is not on the screen")
    least = dialog.minimumSizeHint()
    if dialog.layout() is not None:
        least = dialog.layout().totalMinimumSize()
    if least.width() > dialog.width() or least.height() > dialog.height():
        wrong.append(f"{dialog.size()} cuts {least}")
    for made in dialog.findChildren(QAbstractButton):
        if made.isVisible() and not in_scroll(made):
            place = QRect(made.mapTo(dialog, QPoint()), made.size())
            if not dialog.rect().contains(place):
                wrong.append(f"{made.text()} lies at {place}")
    for area in dialog.findChildren(QScrollArea):
        least = area.widget().minimumSizeHint().width()
        if area.isVisible() and least > area.viewport().width():
            wrong.append(f"{least} of width is cut at the side")
        if area.isVisible() and area.viewport().height() < 40:
            wrong.append("nothing of the options is seen")
    if wrong:
        found["wrong"].append([name, wrong])

def look(name):
    shown = [w for w in app.topLevelWidgets()
             if w.isVisible() and w.isWindow() and w is not window]
    for dialog in shown:
        check(name, dialog)
        dialog.close()
    app.processEvents()

def look_at_modal(name, left=200):
    if name in found["seen"]:
        return
    if app.activeModalWidget() is not None:
        look(name)
    elif left:
        QTimer.singleShot(10, lambda: look_at_modal(name, left - 1))

def ask(name, call):
    QTimer.singleShot(10, lambda: look_at_modal(name))
    call()  # returns at once, or when a modal dialog has been closed
    look(name)
    turn(lambda: name in found["seen"])

for command in commands:
    ask(command, window.actions_[command].trigger)
ask("filter", document.show_filter_popup)
long = "A question with many words that says what comes of it. " * 8
ask("ask_yes", lambda: ask_yes(window, long))
ask("name", lambda: NameDialog(window, "Name", long).open())
ask("ask_choice", lambda: ask_choice(window, "Save", long, ["Save all", "Save two"]))
print(json.dumps(found))
window.close()
"""

OPENING = (
    "file.open file.open_folder file.record file.live file.add file.parts "
    "file.open_with file.export file.export_data file.report mark.named "
    "mark.edit "
    "edit.settings help.guide help.keys help.readers help.messages help.about "
    "analyse.ops help.demo"
)
"""Commands that open a dialog."""


@pytest.mark.parametrize(
    ("screen", "scale", "fonts"),
    [((1600, 1000), "2", 100), ((1366, 768), "1.25", 100), ((1366, 768), "1", 150)],
)
def test_dialogs_fit_a_small_screen(
    tmp_path: Path, screen: tuple[int, int], scale: str, fonts: int
) -> None:
    config = tmp_path / "screen.json"
    width, height = screen
    config.write_text(
        json.dumps(
            {
                "screens": [
                    {
                        "name": "small", "x": 0, "y": 0, "width": width,
                        "height": height, "logicalDpi": 96, "logicalBaseDpi": 96,
                        "dpr": 1,
                    }
                ]
            }
        )
    )  # fmt: skip
    environment = {
        **os.environ,
        "QT_QPA_PLATFORM": f"offscreen:configfile={config}",
        "QT_SCALE_FACTOR": scale,
    }
    path = SAMPLES / "moe-experiment"

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), OPENING, str(fonts)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-3000:]
    data = json.loads(done.stdout.splitlines()[-1])
    assert data["room"] == [round(width / float(scale)), round(height / float(scale))]
    assert data["wrong"] == []
    asked = {*OPENING.split(), "filter", "ask_yes", "name", "ask_choice"}
    assert set(data["seen"]) == asked


def test_every_dialog_is_one_that_fits_the_screen() -> None:
    folder = Path(ggscope.gui.dialogs.__file__).parent.parent
    direct = [
        f"{path.name}: {line.strip()}"
        for path in folder.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"^class .*\(QDialog\)|= QDialog\(", line)
        and path.name != "fitted.py"
    ]

    assert direct == []


def test_every_command_that_asks_is_tried() -> None:
    asking = {c.id for c in COMMANDS if c.text.endswith("…")}
    elsewhere = {
        "file.save_recording", "go.lane", "go.palette", "edit.add_filter",
        "analyse.save_filter", "file.save_table", "lanes.rename",
    }  # fmt: skip
    assert asking - elsewhere <= set(OPENING.split())
