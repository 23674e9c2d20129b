"""Fonts and widths of texts as Qt draws them, with invisible characters spelled.

Needs a QGuiApplication.
"""

import re
from functools import lru_cache

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontDatabase, QFontMetricsF, QGuiApplication

from ggscope.render.batch import Align, Face
from ggscope.sanitize import one_line

ISOLATE, END_ISOLATE = "\u2068", "\u2069"
_RTL_LETTERS = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff"
_RIGHT_TO_LEFT = re.compile(f"[{_RTL_LETTERS}](?:[^\u0041-\u024f·]*[{_RTL_LETTERS}])?")
"""A run, with what lies between its letters unless that is Latin."""
_MIN_LETTERS = 4
"""Fewer letters with an ellipsis are not worth their place."""


@lru_cache(maxsize=256)
def font(face: Face, size: float) -> QFont:
    """Return the font of `face` with `size` pixels per em.

    Words have the application's typeface, numbers and names the system's monospaced
    one. Shared: do not change the result.
    """
    if face is Face.MONO:
        qfont = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        qfont.setStyleHint(QFont.StyleHint.Monospace)
    else:
        qfont = QFont(QGuiApplication.font())
    if face is Face.HEADING:
        qfont.setWeight(QFont.Weight.DemiBold)
    # Pixels, not points: layouts count pixels, and points change with the screen.
    qfont.setPixelSize(max(1, round(size)))
    return qfont


@lru_cache(maxsize=256)
def metrics(face: Face, size: float) -> QFontMetricsF:
    """Return the metrics of a font."""
    return QFontMetricsF(font(face, size))


@lru_cache(maxsize=8192)
def text_width(text: str, face: Face, size: float) -> float:
    """Return the width of `text` in pixels."""
    return metrics(face, size).horizontalAdvance(one_line(text))


def wrapped(text: str, face: Face, size: float, width: float) -> list[str]:
    """Return `text` as lines of at most `width` pixels, cut between words.

    A word that is wider has a line of its own.
    """
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, face, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


@lru_cache(maxsize=16384)
def elided(text: str, face: Face, size: float, width: int) -> str:
    """Return `text` shortened to `width` pixels; "" where nothing useful fits."""
    text = one_line(text)
    if text_width(text, face, size) <= width:
        return text
    short = metrics(face, size).elidedText(text, Qt.TextElideMode.ElideRight, width)
    return short if len(short) > _MIN_LETTERS else ""


@lru_cache(maxsize=16384)
def placed_text(
    text: str, face: Face, size: float, width: float, align: Align
) -> tuple[str, float, float]:
    """Return what is drawn of a text, and how its origin lies to where the text is.

    Returns
    -------
    The text on one line, shortened to `width` where that is above 0, "" where nothing
    useful fits; how far its origin is to the left of the place that it is aligned at,
    and how far its baseline is below the middle of its line.
    """
    text = elided(text, face, size, int(width)) if width > 0 else one_line(text)
    dx = 0.0
    if align is not Align.LEFT:
        dx = text_width(text, face, size) / (1 if align is Align.RIGHT else 2)
    if not text.isascii():
        text = isolated(text)
    return text, dx, baseline_shift(face, size)


def isolated(text: str) -> str:
    """Return `text` with runs from right to left isolated from the text around."""
    return _RIGHT_TO_LEFT.sub(rf"{ISOLATE}\g<0>{END_ISOLATE}", text)


@lru_cache(maxsize=256)
def baseline_shift(face: Face, size: float) -> float:
    """Return how far the baseline lies below the middle of a line of text."""
    font_metrics = metrics(face, size)
    return (font_metrics.ascent() - font_metrics.descent()) / 2


class QtTextMeasurer:
    """Measures texts as the painter draws them; see `TextMeasurer`."""

    # The cached function itself: a call costs no frame of its own.
    width = staticmethod(text_width)


QT_TEXT = QtTextMeasurer()
"""The measurer of pictures that Qt draws."""


def clear_text_caches() -> None:
    """Drop the cached widths and places of texts."""
    elided.cache_clear()
    placed_text.cache_clear()
    text_width.cache_clear()
