"""A switch "this range | all": what a list or a count is about."""

from PySide6.QtCore import QSignalBlocker
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QToolButton, QWidget

from ggscope.render.theme import Theme, css
from ggscope.session.session import Session
from ggscope.views.guard import guarded
from ggscope.views.plain import set_tip
from ggscope.views.widgets import scaled, words_font


@guarded
class RangeSwitch(QWidget):
    """Two buttons, one of them down; every one of a session shows the same.

    Attributes
    ----------
    this_range, all : the buttons.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session: Session | None = None
        self.setAccessibleName(self.tr("What is listed and counted"))
        self.this_range = self._button(
            self.tr("this range"),
            self.tr(
                "Only spans that touch the marked range, or else the range that the "
                "timeline shows (Shift+T)"
            ),
        )
        self.all = self._button(
            self.tr("all"), self.tr("The whole trace, whatever is shown (Shift+T)")
        )
        self._group = QButtonGroup(self)
        self._group.addButton(self.this_range)
        self._group.addButton(self.all)
        self.this_range.setChecked(True)
        self._group.buttonClicked.connect(self._on_clicked)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.this_range)
        row.addWidget(self.all)

    def _button(self, text: str, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setText(text)
        set_tip(button, tip)
        button.setCheckable(True)
        button.setAutoRaise(True)
        button.setFont(words_font(11.5))
        button.setMinimumHeight(scaled(22))
        return button

    def attach(self, session: Session) -> None:
        """Show and set the choice of `session`."""
        self.detach()
        self._session = session
        session.only_range_changed.connect(self._show)
        self._show(session.only_range)

    def detach(self) -> None:
        """Belong to no session any more."""
        if self._session is not None:
            self._session.only_range_changed.disconnect(self._show)
            self._session = None

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.setStyleSheet(
            f"QToolButton {{ color: {css(theme.dim)}; padding: 0 7px;"
            f" border: 1px solid {css(theme.raised)}; border-radius: 4px;"
            " background: transparent; }"
            f" QToolButton:hover {{ background: {css(theme.raised)}; }}"
            f" QToolButton:checked {{ color: {css(theme.text)};"
            f" background: {css(theme.raised)}; }}"
            f" QToolButton:focus {{ border-color: {css(theme.accent)}; }}"
        )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave every key but those of the buttons to the window."""
        event.ignore()

    def _show(self, only_range: bool) -> None:
        with QSignalBlocker(self._group):
            (self.this_range if only_range else self.all).setChecked(True)

    def _on_clicked(self, button: QToolButton) -> None:
        if self._session is not None:
            self._session.set_only_range(button is self.this_range)


__all__ = ["RangeSwitch"]
