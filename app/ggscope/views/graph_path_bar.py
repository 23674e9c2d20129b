"""The line below the graph that says what path is lit, with its steps as text."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QListWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ggscope.render.theme import Theme, css
from ggscope.text import caption
from ggscope.views.elided import ElidedLabel
from ggscope.views.guard import guarded
from ggscope.views.plain import set_tip
from ggscope.views.widgets import (
    copy_text,
    mono_font,
    scaled,
    set_label_color,
    words_font,
)


@guarded
class PathBar(QWidget):
    """Says what is lit; lists the steps and lets people copy them.

    Attributes
    ----------
    words : the sentence.
    steps : list of the steps, hidden until asked for.
    """

    closed = Signal()
    step_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.words = ElidedLabel(self)
        self.words.setFont(words_font(12))
        self.steps = QListWidget(self)
        self.steps.setFont(mono_font(11.5))
        self.steps.setAccessibleName(self.tr("Steps of the path"))
        self.steps.setMaximumHeight(scaled(160))
        self.steps.setUniformItemSizes(True)
        self.steps.hide()
        self.steps.currentRowChanged.connect(self._on_row)
        self.list_button = self._button(self.tr("Steps"), self.tr("List the steps"))
        self.list_button.setCheckable(True)
        self.list_button.toggled.connect(self.steps.setVisible)
        self.copy_button = self._button(
            self.tr("Copy"), self.tr("Copy the path with its steps")
        )
        self.copy_button.clicked.connect(self._on_copy)
        self.close_button = self._button(
            self.tr("Clear"), self.tr("Show all nodes again (Esc)")
        )
        self.close_button.clicked.connect(self.closed)
        row = QHBoxLayout()
        row.setContentsMargins(12, 2, 8, 2)
        row.setSpacing(4)
        row.addWidget(self.words, 1)
        for button in (self.list_button, self.copy_button, self.close_button):
            row.addWidget(button)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(row)
        box.addWidget(self.steps)
        self.hide()

    def _button(self, text: str, tip: str) -> QToolButton:
        made = QToolButton(self)
        made.setText(caption(text))
        set_tip(made, tip)
        made.setAutoRaise(True)
        made.setFont(words_font(12))
        made.setMinimumHeight(scaled(24))
        return made

    def say(self, words: str, steps: Sequence[str]) -> None:
        """Show a sentence and its steps; "" hides the bar."""
        self.words.setText(words)
        self.steps.blockSignals(True)
        self.steps.clear()
        self.steps.addItems(list(steps))
        self.steps.blockSignals(False)
        self.list_button.setVisible(bool(steps))
        if not steps:
            self.list_button.setChecked(False)
        self.setVisible(bool(words))

    def text(self) -> str:
        """Return the sentence and the steps, a line each."""
        lines = [self.steps.item(i).text() for i in range(self.steps.count())]
        return "\n".join([self.words.full_text, *lines])

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self.words, theme.text)
        self.steps.setStyleSheet(
            f"QListWidget {{ background: {css(theme.pane)}; border: none;"
            f" color: {css(theme.text)}; }}"
        )

    def _on_row(self, row: int) -> None:
        if row >= 0:
            self.step_chosen.emit(row)

    def _on_copy(self) -> None:
        copy_text(self.text())


__all__ = ["PathBar"]
