"""One name for one action, in the menus that a right click opens."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QTimer
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QApplication,
    QLineEdit,
    QMenu,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ggscope.gui.commands.palette import Palette
from ggscope.gui.document import Document
from ggscope.views.graph.view import GraphView
from support import ROOT
from touching import Hand, focused

FOLDER = ROOT / "resources" / "samples" / "moe-experiment"


def texts_at(
    hand: Hand, view: QWidget, at: QPoint, qtbot: QtBot, button: str = "right"
) -> list[str]:
    """Return the entries of the menu that a click opens; close it again."""
    texts: list[str] = []

    def look() -> None:
        # A button waits within its press until its menu is closed: nobody else looks.
        menu = QApplication.activePopupWidget()
        if isinstance(menu, QMenu) and menu.isVisible():
            texts.extend(action.text() for action in menu.actions())
            hand.press("Escape")
        else:
            QTimer.singleShot(10, look)

    QTimer.singleShot(10, look)
    hand.click(view, at, button)
    qtbot.waitUntil(lambda: bool(texts) and QApplication.activePopupWidget() is None)
    return texts


def test_showing_only_something_has_one_name(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(FOLDER)
    (table,) = document.workspace.views("table")
    grid = table.focusProxy()
    assert isinstance(grid, QAbstractScrollArea)

    texts = texts_at(hand, grid.viewport(), QPoint(120, 8), qtbot)

    assert any(text.startswith("Show only ") for text in texts)
    old = ("Isolate", "Filter by", "Filter to", "Filter spans")
    assert [text for text in texts if text.startswith(old)] == []


@pytest.fixture
def graph(opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot) -> GraphView:
    """Return the graph of the experiment, brought to the front by its key."""
    document = opened(FOLDER)
    hand.press("ctrl+4")
    (view,) = document.workspace.views("graph")
    assert isinstance(view, GraphView)
    qtbot.waitUntil(view.isVisible)
    qtbot.waitUntil(lambda: view.shown is not None)
    hand.settle()
    return view


OF_THE_VIEW = ["Fit all", "Critical path by time", "Export this view…"]
OLD_NAMES = ("Isolate", "Filter by", "Filter to", "Filter spans", "Layers")


def test_menu_of_the_graph_is_named_after_what_it_holds(
    graph: GraphView, hand: Hand, qtbot: QtBot
) -> None:
    button = graph.head.view_button
    qtbot.waitUntil(button.isVisible)

    texts = texts_at(hand, button, button.rect().center(), qtbot, "left")

    assert button.text().startswith("View")
    assert button.accessibleName() == "View"
    assert [text for text in texts if text in OF_THE_VIEW] == OF_THE_VIEW
    assert [text for text in texts if text.startswith(OLD_NAMES)] == []


def test_right_click_in_the_graph_shows_the_same_names(
    graph: GraphView, hand: Hand, qtbot: QtBot
) -> None:
    size = graph.canvas.size()
    places = [
        QPoint(size.width() * x // 16, size.height() * y // 16)
        for y in range(1, 16)
        for x in range(1, 16)
    ]
    box = next(at for at in places if graph.hit(at.x(), at.y()).box >= 0)

    texts = texts_at(hand, graph.canvas, box, qtbot)

    assert texts[0].startswith("Select ")
    assert [text for text in texts if text in OF_THE_VIEW] == OF_THE_VIEW
    assert [text for text in texts if text.startswith(OLD_NAMES)] == []


def test_palette_lists_no_bookmark_that_is_not_there(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(FOLDER)
    hand.press("ctrl+shift+p")
    qtbot.waitUntil(lambda: isinstance(focused(), QLineEdit))

    hand.type("bookmark")

    (palette,) = document.window().findChildren(Palette)
    rows = range(palette.model.rowCount())
    listed = [str(palette.model.index(row).data()) for row in rows]
    assert listed
    assert [text for text in listed if re.search(r"bookmark \d", text)] == []
