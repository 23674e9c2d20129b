"""A line of text that ends in … where it does not fit, and says all in a tooltip."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from ggscope.text import one_line
from ggscope.views.guard import guarded
from ggscope.views.plain import Label, set_tip


@guarded
class ElidedLabel(Label):
    """A label that can be as narrow as its neighbours need it to be.

    `text` is what it shows, `full_text` what it was given.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self._full = ""
        self.tip = ""
        """Tooltip to show in any case; "" = the whole text where it is cut."""

    @property
    def full_text(self) -> str:
        """The whole text."""
        return self._full

    def setText(self, text: str) -> None:
        """Show `text`, as much of it as fits."""
        self._full = one_line(text)
        self.setAccessibleName(text)
        self.updateGeometry()
        self._elide()

    def clear(self) -> None:
        """Show nothing."""
        self.setText("")

    def sizeHint(self) -> QSize:
        """Ask for room for the whole text."""
        width = self.fontMetrics().horizontalAdvance(self._full)
        return QSize(width + 2, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Get by with room for one letter."""
        return QSize(self.fontMetrics().averageCharWidth(), super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the text to the new width."""
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        metrics, mode = self.fontMetrics(), Qt.TextElideMode.ElideRight
        shown = metrics.elidedText(self._full, mode, max(self.width(), 0))
        super().setText(shown)
        set_tip(self, self.tip or ("" if shown == self._full else self._full))


__all__ = ["ElidedLabel"]
