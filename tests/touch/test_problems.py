"""Problems with real keys and mouse: every text can be read whole and copied."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QScrollArea, QStyleOptionViewItem
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.problems import ProblemsView
from pages import ProblemsPage
from support import ROOT
from touching import Hand

EXPERIMENT = ROOT / "resources" / "samples" / "moe-experiment"


def _shows(view: ProblemsView, message: str) -> bool:
    return ProblemsPage(view).full_text.text().startswith(message)


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

        qtbot.waitUntil(partial(_shows, view, problem.message))
        hand.settle()
        full = ProblemsPage(view).full_text
        assert full.isVisible()
        assert full.height() >= full.heightForWidth(full.width())
        assert view.rect().contains(full.geometry())
        assert view.table.viewport().height() >= view.table.rowHeight(row)
        rect = view.table.viewport().rect()
        assert rect.contains(view.table.visualRect(index).center())
    hand.press("ctrl+c")
    assert problem.message in QGuiApplication.clipboard().text()
    option = QStyleOptionViewItem()
    view.table.initViewItemOption(option)
    assert option.textElideMode == Qt.TextElideMode.ElideRight


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
def test_long_text_scrolls_where_the_pane_is_low(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot, tmp_path: Path
) -> None:
    path = tmp_path / "tensors.csv"
    path.write_text(overlapping_map(200))
    document = opened(path)
    document.workspace.set_details_shown(True)
    document.workspace.show_drawer("problems")
    (view,) = document.workspace.views("problems")
    assert isinstance(view, ProblemsView)
    codes = [problem.code for problem in view.problems]
    index = view.model.index(codes.index("map_overlaps"), 1)
    hand.settle()

    hand.click(view.table.viewport(), view.table.visualRect(index).center())
    full = ProblemsPage(view).full_text
    qtbot.waitUntil(full.isVisible)
    hand.settle()
    assert full.height() >= full.heightForWidth(full.width())
    frame = view.findChild(QScrollArea, "", Qt.FindChildOption.FindDirectChildrenOnly)
    assert isinstance(frame, QScrollArea)
    assert frame.viewport().height() < full.height()
    hand.wheel(frame.viewport(), "down", 10)
    below = full.mapTo(frame.viewport(), full.rect().bottomLeft())
    assert below.y() <= frame.viewport().height()


def overlapping_map(n: int) -> str:
    """Return a table of `n` tensors whose stated sizes are four times too large."""
    lines = ["tensor_name,file_offset,size_bytes,layer_id,component_type,n_dims,"
             "dim0,dim1,dim2,dim3"]  # fmt: skip
    lines += [
        f"blk.{i}.ffn_up.weight,{i << 20},{4 << 20},{i},FFN Up,2,1024,1024,0,0"
        for i in range(n)
    ]
    return "\n".join([*lines, ""])
