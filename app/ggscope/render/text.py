"""Typefaces and the measures of texts. Needs a QGuiApplication.

Texts are measured as they are drawn: with what cannot be seen shown (`one_line`).
"""

from functools import lru_cache

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontDatabase, QFontMetricsF, QGuiApplication

from ggscope.render.batch import Face
from ggscope.text import one_line

_LEAST = 4
"""Fewer letters and an ellipsis say nothing that the colour does not say."""


@lru_cache(maxsize=256)
def font(face: Face, size: float) -> QFont:
    """Return the font of `face` with `size` pixels per em.

    Words are set in the application's face, numbers and names in the system's
    monospaced one. Shared: do not change the result.
    """
    if face is Face.NUMBERS:
        chosen = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        chosen.setStyleHint(QFont.StyleHint.Monospace)
    else:
        chosen = QFont(QGuiApplication.font())
    if face is Face.HEADING:
        chosen.setWeight(QFont.Weight.DemiBold)
    # Pixels, not points: layouts count pixels, and points change with the screen.
    chosen.setPixelSize(max(1, round(size)))
    return chosen


@lru_cache(maxsize=256)
def metrics(face: Face, size: float) -> QFontMetricsF:
    """Return the measures of a font."""
    return QFontMetricsF(font(face, size))


@lru_cache(maxsize=8192)
def text_width(text: str, face: Face, size: float) -> float:
    """Return the width of `text` in pixels."""
    return metrics(face, size).horizontalAdvance(one_line(text))


@lru_cache(maxsize=16384)
def elided(text: str, face: Face, size: float, width: int) -> str:
    """Return `text` shortened to `width` pixels; "" where nothing useful fits."""
    text = one_line(text)
    if text_width(text, face, size) <= width:
        return text
    short = metrics(face, size).elidedText(text, Qt.TextElideMode.ElideRight, width)
    return short if len(short) > _LEAST else ""


@lru_cache(maxsize=256)
def baseline_shift(face: Face, size: float) -> float:
    """Return how far the baseline lies below the middle of a line of text."""
    measures = metrics(face, size)
    return (measures.ascent() - measures.descent()) / 2


def forget_fonts() -> None:
    """Drop everything cached: the application's font or screen has changed."""
    for cached in (font, metrics, text_width, elided, baseline_shift):
        cached.cache_clear()
