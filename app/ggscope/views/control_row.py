"""A row of labelled controls above a picture, in the manner of a pane's head."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from ggscope.render.theme import Theme, css
from ggscope.views.elided import ElidedLabel
from ggscope.views.widgets import scaled, set_label_color, words_font


class ControlRow(QWidget):
    """Choices and switches from left to right; a sentence takes what room is left.

    Attributes
    ----------
    words : the sentence; empty at first.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._labels: list[QLabel] = []
        self._buttons: list[QToolButton] = []
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(12, 4, 8, 4)
        self._row.setSpacing(8)
        self.words = ElidedLabel(self)
        self.words.setFont(words_font(12))
        self._row.addWidget(self.words, 1)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def add_choice(
        self,
        label: str,
        items: Sequence[tuple[str, object]],
        tip: str,
        changed: Callable[[], object],
    ) -> QComboBox:
        """Add a choice of (words, value) after a label; `changed` hears of it."""
        self._add_label(label)
        box = QComboBox(self)
        for words, value in items:
            box.addItem(words, value)
        box.setToolTip(tip)
        box.setAccessibleName(label or tip)
        box.setFont(words_font(12))
        box.setMinimumHeight(scaled(24))
        box.currentIndexChanged.connect(lambda _: changed())
        self._place(box)
        return box

    def add_switch(
        self, label: str, tip: str, changed: Callable[[], object]
    ) -> QCheckBox:
        """Add a switch that is off."""
        box = QCheckBox(label, self)
        box.setToolTip(tip)
        box.setFont(words_font(12))
        box.setMinimumHeight(scaled(24))
        box.toggled.connect(lambda _: changed())
        self._place(box)
        return box

    def add_button(
        self, label: str, tip: str, clicked: Callable[[], object]
    ) -> QToolButton:
        """Add a command."""
        button = QToolButton(self)
        button.setText(label)
        button.setToolTip(tip)
        button.setAutoRaise(True)
        button.setFont(words_font(12))
        button.setMinimumHeight(scaled(24))
        button.clicked.connect(lambda _: clicked())
        self._buttons.append(button)
        self._place(button)
        return button

    def add_widget(self, widget: QWidget, label: str = "") -> None:
        """Add any control, after a label."""
        self._add_label(label)
        widget.setFont(words_font(12))
        widget.setMinimumHeight(scaled(24))
        self._place(widget)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        for label in (self.words, *self._labels):
            set_label_color(label, theme.dim)
        for button in self._buttons:
            button.setStyleSheet(
                f"QToolButton {{ color: {css(theme.dim)}; border: none;"
                " padding: 0 8px; border-radius: 4px; background: transparent; }"
                f" QToolButton:hover {{ background: {css(theme.raised)}; }}"
            )

    def _add_label(self, text: str) -> None:
        if text:
            label = QLabel(text, self)
            label.setFont(words_font(12))
            label.setAlignment(Qt.AlignmentFlag.AlignVCenter)
            self._labels.append(label)
            self._place(label)

    def _place(self, widget: QWidget) -> None:
        self._row.insertWidget(self._row.count() - 1, widget)


def choose(box: QComboBox, value: object) -> None:
    """Show the item of a value without telling anybody; do nothing for no such one."""
    with QSignalBlocker(box):
        i = box.findData(value)
        if i >= 0:
            box.setCurrentIndex(i)


__all__ = ["ControlRow", "choose"]
