"""What is under the pointer stays right when the picture moves below it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTextBrowser,
)
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.buffers.view import BuffersView
from ggscope.views.timeline.view import TimelineView
from support import ROOT
from touching import Hand

SAMPLES = ROOT / "resources" / "samples"


@pytest.mark.parametrize("keys", [("w", "w"), ("d",)])
def test_outline_and_hair_line_follow_the_keys(
    window: MainWindow,
    opened: Callable[[Path], Document],
    hand: Hand,
    qtbot: QtBot,
    keys: tuple[str, ...],
) -> None:
    document = opened(SAMPLES / "llama.ggmlviz")
    session = document.session
    (timeline,) = document.workspace.views("timeline")
    assert isinstance(timeline, TimelineView)
    at = QPoint(timeline.width() * 2 // 3, timeline.height() // 2)
    hand.click(timeline, at)
    hand.press("w", "w", "w", "w")
    before = session.viewport.visible, timeline.hit(at.x(), at.y()).box

    hand.press(*keys)

    scene = timeline.scene(*_size(timeline), 1.0)
    assert scene is not None
    seen = timeline.hit(at.x(), at.y())
    assert (session.viewport.visible, seen.box) != before
    assert scene.cursor_tick == session.viewport.cursor_tick == seen.tick
    assert scene.hover_span == seen.span


def test_hair_line_of_buffers_follows_the_keys(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "moe-experiment")
    session = document.session
    document.workspace.show_view("buffers")
    (buffers,) = document.workspace.views("buffers")
    assert isinstance(buffers, BuffersView)
    qtbot.waitUntil(lambda: buffers.geometry_now() is not None)
    Hand.settle()
    at = QPoint(buffers.canvas.width() * 2 // 3, buffers.canvas.height() // 3)
    hand.click(buffers.canvas, at)
    hand.press("w", "w")
    before = session.viewport.visible

    hand.press("d")

    assert session.viewport.visible != before
    place = buffers.geometry_now()
    assert place is not None
    assert session.viewport.cursor_tick == place.tick_at(at.x())


def test_drag_on_selected_text_selects_anew(window: MainWindow, hand: Hand) -> None:
    label, edit = QLabel("words words words words", window), QLineEdit(window)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    edit.setText(label.text())
    for row, widget in enumerate((label, edit)):
        widget.setGeometry(100, 150 + 60 * row, 300, 40)
        widget.show()
        widget.raise_()
    Hand.settle()
    begin, end = QPoint(20, 20), QPoint(80, 20)

    hand.double_click(label, begin)
    assert label.selectedText().strip() == "words"
    QTest.qWait(QApplication.doubleClickInterval())  # or it is a triple click
    hand.drag(label, begin, end)
    assert len(label.selectedText()) > len("words ")
    hand.click(edit, begin)
    hand.press("ctrl+a")
    hand.drag(edit, begin, end)

    assert edit.text() == label.text()
    assert 0 < len(edit.selectedText()) < len(edit.text())


@pytest.mark.parametrize("kind", [QPlainTextEdit, QTextBrowser])
def test_busy_program_starts_no_drag_of_text(
    window: MainWindow,
    hand: Hand,
    qtlog: Any,
    kind: type[QPlainTextEdit] | type[QTextBrowser],
) -> None:
    widget = kind(window)
    widget.setReadOnly(True)
    widget.setPlainText("words words words words")
    widget.setGeometry(100, 150, 300, 60)
    widget.show()
    widget.raise_()
    Hand.settle()
    begin = QPoint(20, 15)
    hand.click(widget, begin)
    hand.press("ctrl+a")
    QTest.qWait(QApplication.doubleClickInterval())

    hand.carry(widget, begin, begin + QPoint(40, 0), times=3)

    assert [record.message for record in qtlog.records] == []
    chosen = widget.textCursor().selectedText()
    assert 0 < len(chosen) < len(widget.toPlainText())


def _size(timeline: TimelineView) -> tuple[float, float]:
    size = QPointF(timeline.canvas_size().width(), timeline.canvas_size().height())
    return size.x(), size.y()
