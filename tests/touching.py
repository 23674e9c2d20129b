"""A hand for the window tests: real keys and mouse through the X server."""

import contextlib
import subprocess
import time
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRect, QTimer
from PySide6.QtGui import QWindow
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget
from pytestqt.qtbot import QtBot

PATIENCE_MS = 20_000
_BUTTONS = {"left": 1, "middle": 2, "right": 3}
_WHEEL = {"up": 4, "down": 5, "left": 6, "right": 7}


class _Arrivals(QObject):
    """Counts what the window system delivers to windows, by type of event."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[QEvent.Type, int] = {}

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(watched, QWindow) and event.spontaneous():
            kind = event.type()
            self.counts[kind] = self.counts.get(kind, 0) + 1
        return False


class Hand:
    """Keys and mouse of a person.

    Points are in a widget's own device-independent pixels; the middle where none is
    given. Each call returns when Qt has received its last event and nothing that it
    posted is left.
    """

    def __init__(self) -> None:
        self._arrivals = _Arrivals()
        command = ["xdotool", "getmouselocation", "--shell"]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        values = dict(line.split("=") for line in result.stdout.split())
        self._at: tuple[int, int] = int(values["X"]), int(values["Y"])
        app = QApplication.instance()
        assert app is not None
        app.installEventFilter(self._arrivals)

    def close(self) -> None:
        """Take the hand off; a key that is still down comes up."""
        app = QApplication.instance()
        assert app is not None
        app.removeEventFilter(self._arrivals)

    def press(self, *keys: str) -> None:
        """Press keys one after another, in xdotool's names: "w", "ctrl+shift+p"."""
        for key in keys:
            self._do(QEvent.Type.KeyRelease, "key", "--clearmodifiers", key)

    def type(self, text: str) -> None:
        """Type text, letter by letter."""
        self._do(QEvent.Type.KeyRelease, "type", "--delay", "2", text)

    def hover(self, widget: QWidget, at: QPoint | QPointF | None = None) -> None:
        """Move the pointer there."""
        place = self._place(widget, at)
        if self._at in (None, place):
            # X reports no move to where the pointer is.
            self._move_aside(*place)
        self._move(*place)

    def click(
        self,
        widget: QWidget,
        at: QPoint | QPointF | None = None,
        button: str = "left",
        *,
        held: str | None = None,
        times: int = 1,
    ) -> None:
        """Click there; `held` is a modifier such as "ctrl"."""
        self.hover(widget, at)
        arguments = ["click", "--repeat", str(times), "--delay", "40"]
        self._with(
            held, QEvent.Type.MouseButtonRelease, [*arguments, str(_BUTTONS[button])]
        )

    def double_click(self, widget: QWidget, at: QPoint | QPointF | None = None) -> None:
        """Click twice, quickly."""
        self.click(widget, at, times=2)

    def drag(
        self,
        widget: QWidget,
        start: QPoint | QPointF,
        end: QPoint | QPointF,
        button: str = "left",
        *,
        held: str | None = None,
    ) -> None:
        """Press at `start`, move in steps, let go at `end`."""
        text = self._drag_text(widget, start, end, _BUTTONS[button])
        self._with(held, QEvent.Type.MouseButtonRelease, text)

    def carry(
        self,
        widget: QWidget,
        start: QPoint | QPointF,
        end: QPoint | QPointF,
        *,
        times: int = 1,
    ) -> None:
        """Drag something out of `widget` and drop it; wait for what that does.

        The program is busy meanwhile: it hears of all `times` at once.
        """
        # Qt's own drag takes the events: no window hears of the release.
        text = self._drag_text(widget, start, end, _BUTTONS["left"])
        back = ["mousemove", *map(str, self._place(widget, start))]
        self.send(*text, *(times - 1) * [*back, *text])
        self.settle()

    def _drag_text(
        self,
        widget: QWidget,
        start: QPoint | QPointF,
        end: QPoint | QPointF,
        button: int,
    ) -> list[str]:
        self.hover(widget, start)
        (x0, y0), (x1, y1) = self._place(widget, start), self._place(widget, end)
        parts = ["mousedown", str(button)]
        for step in range(1, 6):
            x, y = x0 + (x1 - x0) * step // 5, y0 + (y1 - y0) * step // 5
            parts += ["mousemove", str(x), str(y), "sleep", "0.01"]
        self._at = (x1, y1)
        return [*parts, "mouseup", str(button)]

    def wheel(
        self,
        widget: QWidget,
        direction: str = "down",
        steps: int = 1,
        at: QPoint | QPointF | None = None,
        *,
        held: str | None = None,
    ) -> None:
        """Turn the wheel there: up, down, left or right."""
        self.hover(widget, at)
        arguments = [
            "click",
            "--repeat",
            str(steps),
            "--delay",
            "10",
            str(_WHEEL[direction]),
        ]
        self._with(held, QEvent.Type.Wheel, arguments)

    def _move(self, x: int, y: int) -> None:
        try:
            self._do(
                QEvent.Type.MouseMove, "mousemove", str(x), str(y), patience_ms=3_000
            )
        except AssertionError:
            # Seldom, on a busy machine, a move that comes while a window is being put
            # in its place is not reported; a person's hand goes on moving.
            self._move_aside(x, y)
            self._do(QEvent.Type.MouseMove, "mousemove", str(x), str(y))
        self._at = (x, y)

    def _move_aside(self, x: int, y: int) -> None:
        """Move to beside a place, and wait until Qt knows.

        Two moves that it hears of at once would be one to where the pointer was.
        """
        with contextlib.suppress(AssertionError):  # the pointer may have been there
            self._do(
                QEvent.Type.MouseMove, "mousemove", str(x + 1), str(y),
                patience_ms=3_000,
            )  # fmt: skip

    def _with(self, held: str | None, kind: QEvent.Type, items: list[str]) -> None:
        if held is None:
            self._do(kind, *items)
            return
        self._do(QEvent.Type.KeyPress, "keydown", held)
        try:
            self._do(kind, *items)
        finally:
            self._do(QEvent.Type.KeyRelease, "keyup", held)

    def _place(self, widget: QWidget, at: QPoint | QPointF | None) -> tuple[int, int]:
        point = QPointF(widget.rect().center()) if at is None else QPointF(at)
        whole = widget.mapToGlobal(point)
        # With one screen at the origin, native pixels are Qt's times the ratio.
        ratio = widget.devicePixelRatioF()
        return round(whole.x() * ratio), round(whole.y() * ratio)

    def _do(
        self, kind: QEvent.Type, *text: str, patience_ms: int = PATIENCE_MS
    ) -> None:
        before = self._arrivals.counts.get(kind, 0)
        self.send(*text)
        deadline = time.monotonic() + patience_ms / 1000
        while self._arrivals.counts.get(kind, 0) == before:
            QTest.qWait(2)
            if time.monotonic() > deadline:
                raise AssertionError(f"Qt heard nothing of: xdotool {' '.join(text)}")
        self.settle()

    @staticmethod
    def settle() -> None:
        """Let everything that was posted happen."""
        for _ in range(3):
            QTest.qWait(5)

    @staticmethod
    def send(*text: str) -> None:
        """Send input by xdotool; wait for nothing."""
        subprocess.run(["xdotool", *text], check=True, capture_output=True)


def answer_file_dialog(hand: Hand, path: Path, qtbot: QtBot) -> None:
    """Type a path into the file dialog as soon as it asks, and press Enter."""

    def answer() -> None:
        dialog = QApplication.activeModalWidget()
        if isinstance(dialog, QFileDialog) and dialog.isActiveWindow():
            hand.type(str(path))
            hand.press("Return")
            if dialog.isVisible():  # the first Enter took a completion
                hand.press("Return")
        else:
            QTimer.singleShot(10, answer)

    QTimer.singleShot(10, answer)


def visible_rect(widget: QWidget) -> QRect:
    """Return where `widget` lies in its window, device-independent pixels."""
    window = widget.window()
    return QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())


def focused() -> QWidget | None:
    """Return the widget that keys go to."""
    return QApplication.focusWidget()
