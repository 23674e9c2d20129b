"""Faces and sizes follow the application's font, and nobody shares one by accident."""

import pytest
from PySide6.QtGui import QFont, QFontInfo, QGuiApplication
from PySide6.QtWidgets import QApplication

from ggscope.views.base.widgets import mono_font, scaled, ui_font


@pytest.fixture
def font(qapp: QApplication):
    before = QGuiApplication.font()
    yield before
    QApplication.setFont(before)


@pytest.mark.parametrize("pixels", [9, 12, 18, 24, 40])
def test_sizes_follow_the_font_of_the_application(font: QFont, pixels: int) -> None:
    larger = QFont(font)
    larger.setPixelSize(pixels)
    QApplication.setFont(larger)

    scale = max(0.75, min(2.0, QFontInfo(larger).pixelSize() / 12))
    assert scaled(100) == round(100 * scale)
    for face in (ui_font(11.5, bold=True), mono_font(11.5, bold=True)):
        assert face.pixelSize() == round(11.5 * scale)
        assert face.bold()
    assert ui_font(12).family() == larger.family()

    QApplication.setFont(font)
    assert ui_font(10).pixelSize() == scaled(10)


@pytest.mark.parametrize("make", [ui_font, mono_font])
def test_a_face_that_is_changed_changes_no_other(font: QFont, make) -> None:
    changed = make(12)
    changed.setItalic(True)
    changed.setPixelSize(77)

    assert not make(12).italic()
    assert make(12).pixelSize() == scaled(12)
