"""Two runs under one zoom: a click on one of them, with a real mouse."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPointF
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.compare.timelines import TimelinesPane
from ggscope.views.compare.view import CompareView
from support import ROOT
from touching import PATIENCE_MS, Hand

SAMPLE = ROOT / "resources" / "samples" / "llama.ggmlviz"
A, B = 0, 1
Opened = Callable[[Path], Document]


def op_at(pane: TimelinesPane, document: Document, side: int) -> tuple[QPointF, str]:
    """Return a point over a span of an op on a side, and the name of the op."""
    trace = document.session.trace
    assert trace is not None
    size = pane.canvas.size()
    for y in np.arange(4, size.height(), 5):
        for x in np.arange(200, size.width(), 37):
            there, hit = pane.hit(float(x), float(y))
            if there == side and hit.span >= 0 and trace.spans.op[hit.span] >= 0:
                return QPointF(x, y), trace.op_name(int(trace.spans.op[hit.span]))
    raise AssertionError(f"no op on side {side}")


@pytest.mark.parametrize("size", [(1600, 1000)], ids=["1600x1000"], indirect=True)
@pytest.mark.parametrize("side", [A, B])
def test_click_selects_on_both_sides_and_marks_the_row(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot, tmp_path: Path,
    side: int,
) -> None:  # fmt: skip
    other, own = (
        opened(Path(shutil.copy(SAMPLE, tmp_path / name)))
        for name in ("b.ggmlviz", "a.ggmlviz")
    )
    own.workspace.show_view("compare")
    (view,) = own.workspace.views("compare")
    assert isinstance(view, CompareView)
    qtbot.waitUntil(lambda: view.result is not None, timeout=PATIENCE_MS)
    steps = view.page_box.findData("timelines") - view.page_box.currentIndex()
    hand.click(view.page_box)
    qtbot.waitUntil(lambda: view.page_box.view().isVisible())
    hand.press(*["Down"] * steps, "Return")
    pane = view.page("timelines")
    assert isinstance(pane, TimelinesPane)
    qtbot.waitUntil(lambda: pane.scene_now() is not None, timeout=PATIENCE_MS)
    hand.settle()
    clicked, far = (own, other) if side == A else (other, own)
    place, op = op_at(pane, clicked, side)

    hand.click(pane.canvas, place)

    def group() -> object:
        return far.session.selection.current.group

    qtbot.waitUntil(lambda: group() is not None, timeout=PATIENCE_MS)
    assert clicked.session.selection.current.table == "spans"
    assert (group().by, group().key) == ("op", op)  # type: ignore[attr-defined]
    (row,) = view.table.selected_rows()
    assert view.model.row(row)[0].text == op
