"""Keeps commands from acting while somebody types."""

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

from ggscope.views.guard import guarded


@guarded
class TextFieldGuard(QObject):
    """Gives a text field with the focus all keys that mean something to it.

    A shortcut is first offered to the widget with the focus; accepting that offer
    makes W type a w. Only the field that is typed in is filtered: a filter on the
    application would run Python code for every event of every widget.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._on_focus_changed)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Accept the offer of keys that are text or edit text."""
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.ShortcutOverride
            and is_text_field(watched)
            and means_text(event)
        ):
            event.accept()
            return True
        return super().eventFilter(watched, event)

    def _on_focus_changed(self, old: QWidget | None, now: QWidget | None) -> None:
        if old is not None and is_text_field(old):
            old.removeEventFilter(self)
        if now is not None and is_text_field(now):
            now.installEventFilter(self)


def is_text_field(widget: QObject) -> bool:
    """Tell whether one can type text into a widget."""
    if isinstance(widget, QLineEdit):
        return not widget.isReadOnly()
    if isinstance(widget, (QTextEdit, QPlainTextEdit)):
        return not widget.isReadOnly()
    if isinstance(widget, QComboBox):
        return widget.isEditable()
    return isinstance(widget, QAbstractSpinBox)


def means_text(event: QKeyEvent) -> bool:
    """Tell whether a key means something to a text field."""
    modifiers = event.modifiers() & ~(
        Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.KeypadModifier
    )
    if not modifiers:
        return (event.text().isprintable() and bool(event.text())) or (
            event.key() in _EDITING
        )
    if modifiers == Qt.KeyboardModifier.ControlModifier:
        return event.key() in _CTRL_EDITING
    return False


_EDITING = {
    Qt.Key.Key_Left,
    Qt.Key.Key_Right,
    Qt.Key.Key_Home,
    Qt.Key.Key_End,
    Qt.Key.Key_Backspace,
    Qt.Key.Key_Delete,
    Qt.Key.Key_Return,
    Qt.Key.Key_Enter,
    Qt.Key.Key_Up,
    Qt.Key.Key_Down,
}
_CTRL_EDITING = {
    Qt.Key.Key_Left,
    Qt.Key.Key_Right,
    Qt.Key.Key_C,
    Qt.Key.Key_V,
    Qt.Key.Key_X,
    Qt.Key.Key_Z,
    Qt.Key.Key_A,
    Qt.Key.Key_Backspace,
    Qt.Key.Key_Delete,
    Qt.Key.Key_Home,
    Qt.Key.Key_End,
}

__all__ = ["TextFieldGuard", "is_text_field", "means_text"]
