"""A picture and what there is to say of it: side by side, or one over the other."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QScrollArea, QSplitter, QWidget

from ggscope.render.theme import Theme, css
from ggscope.views.guard import guarded
from ggscope.views.plain import Label
from ggscope.views.widgets import scaled, words_font

_LEAST_WIDTH, _LEAST_HEIGHT = 520, 300
"""A picture narrower than this has the words below it; lower too, it has none."""


@guarded
class WordsBeside(QSplitter):
    """Puts words beside a picture where it is wide, below it where it is high.

    Attributes
    ----------
    words : the label; its text can be selected and copied.
    """

    def __init__(self, picture: QWidget, name: str, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setChildrenCollapsible(False)
        self.words = Label(parent=self)
        self.words.setWordWrap(True)
        self.words.setFont(words_font(12))
        self.words.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.words.setContentsMargins(12, 8, 12, 8)
        self.words.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.words.setAccessibleName(name)
        self.frame = QScrollArea(self)
        self.frame.setWidgetResizable(True)
        self.frame.setWidget(self.words)
        self.frame.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.frame.setAccessibleName(name)
        self.addWidget(picture)
        self.addWidget(self.frame)
        self.setStretchFactor(0, 3)
        self.setStretchFactor(1, 2)
        self.setSizes([600, 400])
        self.frame.hide()

    def say(self, text: str) -> None:
        """Show a text, Html as rich text; "" leaves all the room to the picture."""
        self.words.setText(text)
        self._arrange()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.words.setStyleSheet(
            f"color: {css(theme.text)}; background: {css(theme.pane)};"
        )
        self.frame.setStyleSheet(
            f"QScrollArea {{ border: none; background: {css(theme.pane)}; }}"
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange both anew."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        is_wide = self.width() >= scaled(_LEAST_WIDTH)
        is_high = self.height() >= scaled(_LEAST_HEIGHT)
        way = Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical
        if way != self.orientation():
            self.setOrientation(way)
        self.frame.setVisible(bool(self.words.text()) and (is_wide or is_high))


__all__ = ["WordsBeside"]
