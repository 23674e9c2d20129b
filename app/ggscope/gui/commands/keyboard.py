"""Who gets a key: the widget with the focus, or a command.

Commands do not act while somebody types, or chooses from a list by letters and arrows.
W, A, S and D may go by where they lie, for keyboards that put other letters there.
"""

import sys
from collections.abc import Callable

import shiboken6
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QMouseEvent, QWindow
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QFileDialog,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QTextEdit,
    QTreeView,
    QWidget,
)

from ggscope.views.base.view import guarded


@guarded
class KeyGuard(QObject):
    """Gives the widget with the focus all keys that mean something to it.

    A shortcut is first offered to the widget with the focus; accepting that offer
    makes W type a w, and choose what begins with w from a list. Only the widget with
    the focus is filtered: a filter on the application would run Python code for every
    event of every widget.

    A press on text that is selected begins a new selection, and drags no text away;
    nor are files dragged within a dialog. Nobody drops them anywhere, and where several
    drags lie in the queue of a busy program, Qt starts one within the other and
    complains.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._on_focus_changed)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Accept the offer of keys that the widget itself acts on."""
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.ShortcutOverride
            and uses_key(watched, event)
        ):
            event.accept()
            return True
        if (
            isinstance(event, QMouseEvent)
            and event.type() == QEvent.Type.MouseButtonPress
            and event.button() == Qt.MouseButton.LeftButton
            and not event.modifiers()
        ):
            _deselect(watched)
        return super().eventFilter(watched, event)

    def _on_focus_changed(self, old: QWidget | None, now: QWidget | None) -> None:
        for part in _filtered(old):
            part.removeEventFilter(self)
        for part in _filtered(now):
            part.installEventFilter(self)
        if isinstance(now, QAbstractItemView) and isinstance(now.window(), QFileDialog):
            now.setDragEnabled(False)


def _filtered(widget: QWidget | None) -> tuple[QWidget, ...]:
    """Return what of a widget gets the keys that it uses, and presses on its text."""
    if isinstance(widget, _TEXT_AREAS):
        return widget, widget.viewport()
    if widget is None:
        return ()
    is_filtered = isinstance(widget, (QLabel, *_CHOICES)) or is_text_field(widget)
    return (widget,) if is_filtered else ()


def _deselect(pressed: QObject) -> None:
    """Let go of the selected text of a label or a text area, which would be dragged."""
    if isinstance(pressed, QLabel):
        if pressed.hasSelectedText():
            pressed.setSelection(0, 0)
        return
    area = pressed.parent()
    if isinstance(area, _TEXT_AREAS):
        cursor = area.textCursor()
        if cursor.hasSelection():
            cursor.clearSelection()
            area.setTextCursor(cursor)


def uses_key(widget: QObject, event: QKeyEvent) -> bool:
    """Return whether a widget acts on a key by itself, typed or chosen by it."""
    if is_text_field(widget):
        return means_text(event)
    if event.modifiers() & ~_WITHOUT_MEANING:
        return False
    key = event.key()
    if isinstance(widget, QComboBox):
        return key in _MOVES or key == Qt.Key.Key_Space or event.text().isalnum()
    if isinstance(widget, (QTabBar, QTreeView)):
        return key in _ENDS or key in _SIDEWAYS
    return isinstance(widget, QAbstractItemView) and key in _ENDS


def is_text_field(widget: QObject) -> bool:
    """Return whether one can type text into a widget."""
    if isinstance(widget, QLineEdit):
        return not widget.isReadOnly()
    if isinstance(widget, (QTextEdit, QPlainTextEdit)):
        return not widget.isReadOnly()
    if isinstance(widget, QComboBox):
        return widget.isEditable()
    return isinstance(widget, QAbstractSpinBox)


def means_text(event: QKeyEvent) -> bool:
    """Return whether a key means something to a text field."""
    modifiers = event.modifiers() & ~_WITHOUT_MEANING
    if not modifiers:
        return (event.text().isprintable() and bool(event.text())) or (
            event.key() in _EDITING
        )
    if modifiers == Qt.KeyboardModifier.ControlModifier:
        return event.key() in _CTRL_EDITING
    return False


_TEXT_AREAS = (QTextEdit, QPlainTextEdit)
_CHOICES = (QComboBox, QTabBar, QAbstractItemView)
"""Widgets in which one chooses by keys."""
_WITHOUT_MEANING = (
    Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.KeypadModifier
)
_ENDS = {Qt.Key.Key_Home, Qt.Key.Key_End}
_SIDEWAYS = {Qt.Key.Key_Left, Qt.Key.Key_Right}
_MOVES = {
    *_ENDS,
    Qt.Key.Key_Up,
    Qt.Key.Key_Down,
    Qt.Key.Key_PageUp,
    Qt.Key.Key_PageDown,
}
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


# Where the keys lie: X11 and Wayland count key codes from evdev + 8, Windows has
# scan codes of set 1, macOS leaves the scan code 0 and fills the virtual key.
_PLACES: dict[str, tuple[int, int, int, int]] = {
    "linux": (25, 38, 39, 40),
    "win32": (17, 30, 31, 32),
    "darwin": (13, 0, 1, 2),
}
_COMMANDS = ("zoom.in", "go.left", "zoom.out", "go.right")
_WITH_SHIFT = {"go.left": "go.left_little", "go.right": "go.right_little"}


def command_at(event: QKeyEvent, platform: str = sys.platform) -> str:
    """Return the command of the key at this place, "" for another key.

    Parameters
    ----------
    platform : as in ``sys.platform``; unknown ones have no places.
    """
    places = _PLACES.get(platform)
    if places is None:
        return ""
    is_mac = platform == "darwin"
    # On macOS the place of A is 0, which other keys have in place of a code too.
    if is_mac and not event.text():
        return ""
    code = event.nativeVirtualKey() if is_mac else event.nativeScanCode()
    if code not in places:
        return ""
    command = _COMMANDS[places.index(code)]
    if event.modifiers() == Qt.KeyboardModifier.ShiftModifier:
        return _WITH_SHIFT.get(command, "")
    return "" if event.modifiers() else command


@guarded
class PositionKeys(QObject):
    """Runs commands by the places of keys, while that is switched on.

    It filters the events of one native window: a handful, not those of every
    widget.
    """

    def __init__(self, run: Callable[[str], object], parent: QObject) -> None:
        super().__init__(parent)
        self._run = run
        self._is_on = False
        self._window: QWindow | None = None
        app = QGuiApplication.instance()
        if isinstance(app, QGuiApplication):
            app.focusWindowChanged.connect(self._on_focus_window)

    def set_on(self, is_on: bool) -> None:
        """Begin or end to watch the keys of the window that is worked in."""
        self._is_on = is_on
        self._watch(QGuiApplication.focusWindow() if is_on else None)

    def _on_focus_window(self, window: QWindow | None) -> None:
        # Also when a window gets another native one, as for its first OpenGL view.
        if self._is_on:
            self._watch(window)

    def _watch(self, window: QWindow | None) -> None:
        old, self._window = self._window, window
        if old is not None and shiboken6.isValid(old):
            old.removeEventFilter(self)
        if window is not None:
            window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take the four keys before shortcuts see what letters they are."""
        if not isinstance(event, QKeyEvent) or _is_busy():
            return super().eventFilter(watched, event)
        kind = event.type()
        if kind not in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress):
            return super().eventFilter(watched, event)
        command = command_at(event)
        if not command:
            return super().eventFilter(watched, event)
        event.accept()
        if kind == QEvent.Type.KeyPress:
            self._run(command)
        return True


def _is_busy() -> bool:
    """Return whether somebody types or chooses, or works in a menu or a dialog."""
    focus = QApplication.focusWidget()
    takes_letters = focus is not None and (
        is_text_field(focus) or isinstance(focus, QComboBox)
    )
    return (
        takes_letters
        or QApplication.activePopupWidget() is not None
        or isinstance(QApplication.activeWindow(), QDialog)
    )
