"""One name for one action, in the menus that a right click opens."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.views.graph.view import GraphView
from support import ROOT
from touching import Hand

FOLDER = ROOT / "resources" / "samples" / "moe-experiment"


def texts_at(hand: Hand, view: QWidget, at: QPoint, qtbot: QtBot) -> list[str]:
    """Return the entries of the menu that a right click opens; close it again."""
    hand.click(view, at, "right")
    qtbot.waitUntil(lambda: isinstance(QApplication.activePopupWidget(), QMenu))
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    texts = [action.text() for action in menu.actions()]
    hand.press("Escape")
    qtbot.waitUntil(lambda: QApplication.activePopupWidget() is None)
    return texts


def test_showing_only_something_has_one_name(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(FOLDER)
    (table,) = document.workspace.views("table")
    grid = table.focusProxy()
    assert isinstance(grid, QAbstractScrollArea)

    found = texts_at(hand, grid.viewport(), QPoint(120, 8), qtbot)

    assert any(text.startswith("Show only ") for text in found)
    old = ("Isolate", "Filter by", "Filter to", "Filter spans")
    assert [text for text in found if text.startswith(old)] == []


def test_menu_of_the_graph_is_named_after_what_it_holds(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(FOLDER)
    hand.press("ctrl+4")
    (graph,) = document.workspace.views("graph")
    assert isinstance(graph, GraphView)
    qtbot.waitUntil(graph.isVisible)
    hand.settle()
    button = graph.head.view_button

    assert button.accessibleName() == "View"
    assert "Layers" not in button.text()
    assert "export" in button.toolTip()
