"""A colour swatch with a line of text."""

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from ggscope.render.colors import category_color
from ggscope.views.base.safe_text import set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import Themed, draw_elided, qcolor, scaled, ui_font


@guarded
class SwatchLine(Themed):
    """A square in the colour of an op, and a line of text, elided at its end."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = ""
        self._key = ""
        self.setFixedHeight(scaled(20))

    def show_text(self, text: str, color_key: str) -> None:
        """Show `text`; without a colour key there is no square."""
        self.text, self._key = text, color_key
        self.setAccessibleName(text)
        set_tip(self, text)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the square and the text."""
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            left, size = 0, scaled(9)
            if self._key:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(qcolor(category_color(self._key, self._theme)))
                top = (self.height() - size) / 2
                painter.drawRoundedRect(QRectF(0, top, size, size), 2, 2)
                left = size + scaled(7)
            box = self.rect().adjusted(left, 0, 0, 0)
            end = Qt.TextElideMode.ElideRight
            draw_elided(painter, box, self.text, ui_font(12), self._theme.dim, end)
