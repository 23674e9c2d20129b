"""The strips of the window, above and below the views: what they tell is told whole."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QStyle, QStyleOptionFrame

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from support import ROOT
from touching import Hand

SAMPLES = ROOT / "resources" / "samples"


@pytest.mark.parametrize(
    "name", ["moe-experiment", "tinyllama-256.bin", "npu-prefill-decode.json"]
)
def test_range_is_whole_after_opening_and_after_zooming(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, name: str
) -> None:
    status = opened(SAMPLES / name).status
    assert status.range.full_text.startswith("range ")
    assert status.range.text() == status.range.full_text

    hand.press("w", "w", "w")
    assert status.range.text() == status.range.full_text
    assert not status.ops.isVisible() or "margin" in status.ops.accessibleName()
    width = (window.width(), window.height())
    hand.press("d", "d", "a")
    assert (window.width(), window.height()) == width


@pytest.mark.parametrize("name", ["moe-experiment", "npu-prefill-decode.json"])
def test_hint_of_the_search_is_whole(
    window: MainWindow, opened: Callable[[Path], Document], name: str
) -> None:
    edit = opened(SAMPLES / name).toolbar.search.edit
    option = QStyleOptionFrame()
    edit.initStyleOption(option)
    part = QStyle.SubElement.SE_LineEditContents
    room = edit.style().subElementRect(part, option, edit).width()
    hint = edit.placeholderText()
    assert hint.startswith("Search")
    assert edit.fontMetrics().horizontalAdvance(hint) + 4 <= room
    assert window.width() < 1600 or "Ctrl+F" in hint
