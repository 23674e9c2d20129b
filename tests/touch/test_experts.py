"""The pane of experts in narrow windows: its choices can be read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionComboBox
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.views.experts.view import ExpertsView
from support import ROOT
from touching import Hand

SAMPLE = ROOT / "resources" / "samples" / "moe-experiment"


def is_whole(combo: QComboBox) -> bool:
    """Return whether all words of the choice can be seen."""
    option = QStyleOptionComboBox()
    combo.initStyleOption(option)
    kind, part = (
        QStyle.ComplexControl.CC_ComboBox,
        QStyle.SubControl.SC_ComboBoxEditField,
    )
    field = combo.style().subControlRect(kind, option, part, combo)
    expected = combo.fontMetrics().horizontalAdvance(combo.currentText())
    return combo.isVisible() and field.width() >= expected


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
def test_choices_are_whole_beside_details(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLE)
    hand.press("ctrl+5")
    (view,) = document.workspace.views("experts")
    assert isinstance(view, ExpertsView)
    qtbot.waitUntil(lambda: view.result is not None)
    document.workspace.set_details_shown(True)
    hand.settle()
    bar = view.bar
    combos = (bar.measure, bar.kind, bar.token, bar.beside, bar.layer)
    assert view.width() < 620
    assert all(map(is_whole, combos))

    # The longest choices have lines of their own.
    bar.measure.setFocus()
    hand.press("Down", "Down")
    bar.kind.setFocus()
    hand.press("Down", "Down")
    assert bar.measure.currentText() == "share of layer"
    assert all(map(is_whole, combos))
    assert all(c.geometry().right() < bar.width() for c in combos)
