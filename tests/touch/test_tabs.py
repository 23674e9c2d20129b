"""The row of tabs with many files open: names can be read, and tabs be reached."""

import shutil
from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QFont, QFontMetrics
from PySide6.QtWidgets import QStyle, QStyleOptionTab, QToolButton
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.tabs import TabBar
from ggscope.session.settings import Settings
from pages import tab_row
from support import ROOT
from touching import Hand

DEMO = ROOT / "resources" / "samples" / "llama-demo.ggmlviz"
N = 11
LEAST = 6
"""Letters of a name, beside the …, that distinguish files."""


def shown_name(bar: TabBar, position: int) -> tuple[str, int]:
    """Return what a tab shows of its name, and the room for it."""
    option = QStyleOptionTab()
    bar.initStyleOption(option, position)
    where = QStyle.SubElement.SE_TabBarTabText
    width = bar.style().subElementRect(where, option, bar).width()
    return option.text, width


def test_names_can_be_read_however_many_tabs_are_open(
    make_window: Callable[..., MainWindow],
    wait_read: Callable[[MainWindow], Document],
    settings: Settings,
    hand: Hand,
    qtbot: QtBot,
    tmp_path: Path,
) -> None:
    window = make_window(settings, (900, 600))
    for i in range(N):
        path = tmp_path / f"run-{i:02}-of-a-long-series.ggmlviz"
        shutil.copy(DEMO, path)
        window.open_path(path)
        wait_read(window)
    bar = tab_row(window).bar
    assert isinstance(bar, TabBar)

    for position in range(N):
        name, _ = shown_name(bar, position)
        assert len(name.replace("…", "")) >= LEAST, name
    in_front = bar.currentIndex()
    name, space = shown_name(bar, in_front)
    bold = QFont(bar.font())
    bold.setBold(True)
    assert name == bar.tabText(in_front)
    assert QFontMetrics(bold).horizontalAdvance(name) <= space
    assert bar.rect().contains(bar.tabRect(in_front))

    buttons = [b for b in bar.findChildren(QToolButton) if b.isVisible()]
    back, _forth = sorted(
        (b for b in buttons if b.arrowType().name != "NoArrow"), key=lambda b: b.x()
    )
    for _ in range(2 * N):
        if not back.isEnabled():
            break
        hand.click(back)
    assert bar.tabRect(0).left() >= 0
    hand.click(bar, bar.tabRect(0).center())
    qtbot.waitUntil(lambda: bar.currentIndex() == 0)
