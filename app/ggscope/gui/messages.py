"""Messages over a page: they leave by themselves, and can be read again later.

A message belongs to the tab in which its work was done. It lies over the page, just
above the status bar: nothing moves when it comes or goes.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QEvent, QObject, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QWidget

from ggscope.gui.open_file import open_file, show_in_folder
from ggscope.gui.widgets import GlyphButton, button
from ggscope.sanitize import one_line
from ggscope.views.base.safe_text import Label, copy_text
from ggscope.views.base.view import guarded

logger = logging.getLogger(__name__)

Level = Literal["", "caution", "error"]
LEAVES_MS, LEAVES_WITH_ACTION_MS = 8_000, 15_000
"""So long a message stays, unless the mouse or the focus is on it."""
_AGAIN_MS = 2_000
MAX_SHOWN = 4
MAX_LOGGED = 200
_MAX_LETTERS = 1_000
_MARGIN_PX = 12
_GAP_PX = 8
_WIDE_PX = 560
"""Width of a message at most, device-independent pixels at 100 %."""


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    """A button of a message; the message leaves when it is pressed."""

    text: str
    run: Callable[[], object]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message to the user.

    Attributes
    ----------
    key : a message of the same key, "" = none, takes the place of this one.
    stays : until it is closed, or no longer true.
    """

    text: str
    actions: tuple[Action, ...] = ()
    level: Level = ""
    key: str = ""
    stays: bool = False


@guarded
class Toast(QFrame):
    """A message with its buttons, over a page.

    Signals
    -------
    dismissed(bool) : it goes; whether a button other than × was pressed.
    """

    dismissed = Signal(bool)

    def __init__(self, message: Message, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("toast")
        self.message = message
        self.setProperty("level", message.level)
        self.setAccessibleName(message.text)
        self.text = Label(message.text[:_MAX_LETTERS], self)
        self.text.setWordWrap(True)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.buttons = tuple(
            button(action.text, partial(self._on_action, action), self, link=True)
            for action in message.actions
        )
        self.close_button = GlyphButton("close", "Close this message", self)
        self.close_button.clicked.connect(self._on_close)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 6, 6, 6)
        row.setSpacing(8)
        row.addWidget(self.text, 1)
        for made in (*self.buttons, self.close_button):
            row.addWidget(made)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._on_time)
        if not message.stays:
            self._timer.start(LEAVES_WITH_ACTION_MS if message.actions else LEAVES_MS)

    def size_for(self, max_width: int) -> QSize:
        """Return the size that shows all of the text in at most `max_width` pixels."""
        self.ensurePolished()
        beside = self.sizeHint().width() - self.text.sizeHint().width()
        line = self.text.fontMetrics().size(0, self.text.text()).width() + 4
        wide = min(max_width, max(beside + line, self.minimumSizeHint().width()))
        return QSize(wide, self.heightForWidth(wide))

    @property
    def is_held(self) -> bool:
        """Whether somebody reads it, or nobody can."""
        focus = QApplication.focusWidget()
        has_focus = focus is not None and self.isAncestorOf(focus)
        return (
            self.underMouse()
            or has_focus
            or not self.isVisible()
            or not self.isActiveWindow()
        )

    def _on_time(self) -> None:
        if self.is_held:
            self._timer.start(_AGAIN_MS)
        else:
            self.dismissed.emit(False)

    def _on_close(self) -> None:
        self.dismissed.emit(False)

    def _on_action(self, action: Action) -> None:
        self.dismissed.emit(True)
        action.run()


@guarded
class Messages(QObject):
    """The messages of one page, the newest at the bottom.

    Parameters
    ----------
    over : they lie over its lower right corner.
    above : they end above this part of it, where that is seen.

    Signals
    -------
    shown(Message) : a message appeared.
    dismissed(Message, bool) : it disappeared; whether one of its buttons was pressed.
    """

    shown = Signal(object)
    dismissed = Signal(object, bool)

    def __init__(self, over: QWidget, above: QWidget | None = None) -> None:
        super().__init__(over)
        self._over, self._above = over, above
        self._toasts: list[Toast] = []
        over.installEventFilter(self)
        if above is not None:
            above.installEventFilter(self)

    @property
    def toasts(self) -> tuple[Toast, ...]:
        """What is shown, the newest last."""
        return tuple(self._toasts)

    def with_key(self, key: str) -> Toast | None:
        """Return the message of this key that is shown."""
        return next((t for t in self._toasts if t.message.key == key), None)

    def say(
        self,
        text: str,
        *actions: Action,
        level: Level = "",
        key: str = "",
        stays: bool = False,
    ) -> None:
        """Show a message; one of the same key, or the same text, goes."""
        message = Message(text, actions, level, key, stays)
        for old in self.toasts:
            if (key and old.message.key == key) or old.message.text == text:
                self._remove(old)
        if len(self._toasts) >= MAX_SHOWN:
            passing = [t for t in self._toasts if not t.message.stays]
            self._remove((passing or self._toasts)[0])
        toast = Toast(message, self._over)
        toast.dismissed.connect(partial(self._on_dismissed, toast))
        self._toasts.append(toast)
        self._place()
        toast.show()
        toast.raise_()
        if QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(toast, text))
        self.shown.emit(message)

    def fail(self, text: str) -> None:
        """Show that something failed, until it is closed."""
        logger.info("%s", text)  # stderr is for what nobody would see
        copy = Action("Copy", partial(copy_text, text))
        self.say(text, copy, level="error", stays=True)

    def say_saved(self, path: Path, text: str = "") -> None:
        """Report that a file was written, and let people open it or see where it is."""
        self.say(
            text or f"Saved {one_line(path.name)}.",
            Action("Open", partial(self._open, path)),
            Action("Show in folder", partial(show_in_folder, path, self)),
        )

    def dismiss(self, *keys: str) -> None:
        """Take the messages of these keys away."""
        for toast in self.toasts:
            if toast.message.key and toast.message.key in keys:
                self._remove(toast)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay in the corner when the page changes its size."""
        if event.type() in _MOVING and self._toasts:
            self._place()
        return False

    def _open(self, path: Path) -> None:
        if not open_file(path):
            self.fail(f"No program opens {one_line(path.name)}.")

    def _on_dismissed(self, toast: Toast, is_used: bool) -> None:
        if toast in self._toasts:
            self._remove(toast)
            self.dismissed.emit(toast.message, is_used)

    def _remove(self, toast: Toast) -> None:
        self._toasts.remove(toast)
        toast.hide()
        toast.deleteLater()
        self._place()

    def _place(self) -> None:
        over, above = self._over, self._above
        bottom = over.height() - _MARGIN_PX
        if above is not None and not above.isHidden():
            bottom = above.y() - _MARGIN_PX
        zoom = over.fontMetrics().height() / 15
        max_width = min(round(_WIDE_PX * max(zoom, 1)), over.width() - 2 * _MARGIN_PX)
        for toast in reversed(self._toasts):
            size = toast.size_for(max(max_width, 160))
            bottom -= size.height()
            left = over.width() - _MARGIN_PX - size.width()
            toast.setGeometry(left, bottom, size.width(), size.height())
            bottom -= _GAP_PX


_MOVING = {QEvent.Type.Resize, QEvent.Type.Move, QEvent.Type.Show, QEvent.Type.Hide}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A message that came: when, and of which tab; "" = of the window."""

    time: datetime
    origin: str
    text: str


class MessageLog(QObject):
    """The last messages of all tabs of a window, the oldest first."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.entries: list[LogEntry] = []

    def add(self, origin: str, text: str) -> None:
        """Remember a message."""
        self.entries.append(LogEntry(datetime.now(), origin, text))
        del self.entries[:-MAX_LOGGED]
