"""The protocol by which pictures are laid out around their texts.

Composers take a `TextMeasurer` with their scene and import no toolkit: Qt measures
what Qt draws, a test may count letters.
"""

from typing import Protocol

from ggscope.render.batch import Face


class TextMeasurer(Protocol):
    """Measures texts in the fonts of a picture."""

    def width(self, text: str, face: Face, size: float) -> float:
        """Return the width of `text` in device-independent pixels."""
        ...


def qt_measurer() -> TextMeasurer:
    """Return the measurer of Qt, imported when first asked for."""
    from ggscope.render.text_metrics import QT_TEXT

    return QT_TEXT
