"""The hand reaches the window: what the other tests of this folder rest on."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from support import ROOT
from touching import Hand, focused

SAMPLE = ROOT / "resources" / "samples" / "llama.ggmlviz"


def test_wheel_drag_and_keys_reach_the_timeline(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    session = opened(SAMPLE).session
    (timeline,) = window.document.workspace.views("timeline")
    whole = session.viewport.visible
    middle = QPoint(timeline.width() * 2 // 3, timeline.height() // 2)

    hand.wheel(timeline, "up", 3, middle, held="ctrl")
    qtbot.waitUntil(lambda: session.viewport.visible.duration < whole.duration)
    nearer = session.viewport.visible
    hand.drag(timeline, middle, middle + QPoint(-80, 0), "middle")
    qtbot.waitUntil(lambda: session.viewport.visible.start > nearer.start)
    hand.press("0")
    qtbot.waitUntil(lambda: session.viewport.visible == whole)
    hand.drag(timeline, middle, middle + QPoint(-80, 5))
    qtbot.waitUntil(lambda: session.ranges.marked is not None)


def test_text_goes_where_the_mouse_clicked(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand
) -> None:
    opened(SAMPLE)

    hand.press("ctrl+f")
    field = focused()
    assert isinstance(field, QLineEdit)
    hand.type("mul")

    assert field.text() == "mul"
    assert isinstance(field, QWidget)
