"""The strip at the bottom of the window: what it tells is told whole."""

from collections.abc import Callable
from pathlib import Path

import pytest

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
