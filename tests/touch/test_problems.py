"""Problems with real keys and mouse: every text can be read whole and copied."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QStyleOptionViewItem
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.problems import ProblemsView
from support import ROOT
from touching import Hand

EXPERIMENT = ROOT / "resources" / "samples" / "moe-experiment"


def _tells(view: ProblemsView, message: str) -> bool:
    return view._full.text().startswith(message)


def test_whole_text_of_a_problem_is_shown_and_copied(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(EXPERIMENT)
    document.workspace.show_drawer("problems")
    (view,) = document.workspace.views("problems")
    assert isinstance(view, ProblemsView)
    qtbot.waitUntil(lambda: view.table.isVisible() and view.model.rowCount() == 3)
    hand.settle()
    for row, problem in enumerate(view.problems):
        index = view.model.index(row, 1)

        if row == 0:
            place = view.table.visualRect(index).center()
            hand.click(view.table.viewport(), place)
        else:
            hand.press("Down")

        qtbot.waitUntil(partial(_tells, view, problem.message))
        hand.settle()
        full = view._full
        assert full.isVisible()
        assert full.height() >= full.heightForWidth(full.width())
        assert view.rect().contains(full.geometry())
        assert view.table.viewport().height() >= view.table.rowHeight(row)
        room = view.table.viewport().rect()
        assert room.contains(view.table.visualRect(index).center())
    hand.press("ctrl+c")
    assert problem.message in QGuiApplication.clipboard().text()
    option = QStyleOptionViewItem()
    view.table.initViewItemOption(option)
    assert option.textElideMode == Qt.TextElideMode.ElideRight
