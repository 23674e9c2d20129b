"""Mouse and trackpad on the graph, one gesture at a time."""

from enum import Enum, auto
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QNativeGestureEvent, QWheelEvent
from PySide6.QtWidgets import QApplication

if TYPE_CHECKING:
    from ggscope.views.graph import GraphView

ZOOM_STEP = 1.25
"""Zoom factor of one wheel notch."""
_NOTCH = 120.0
_PIXELS_PER_NOTCH = 60.0


class Mode(Enum):
    """What the pressed button is doing."""

    IDLE = auto()
    PRESSED = auto()
    PAN = auto()
    BAND = auto()
    MAP = auto()


class Gestures:
    """Turns mouse events into calls of the view.

    The wheel zooms, a drag pans, Ctrl+drag draws a rubber band, a click selects, a
    double click opens and closes layers, a drag in the overview moves the view.
    """

    def __init__(self, view: "GraphView") -> None:
        self._view = view
        self.mode = Mode.IDLE
        self._start = QPointF()
        self._last = QPointF()
        self._adds = False

    def handle(self, event: QEvent) -> bool:
        """Handle one event; return whether it is done with."""
        kind = event.type()
        if isinstance(event, QWheelEvent):
            return self._wheel(event)
        if isinstance(event, QNativeGestureEvent):
            return self._pinch(event)
        if kind == QEvent.Type.Leave:
            self._view.set_hover(-1)
            return False
        if not isinstance(event, QMouseEvent):
            return False
        at = self._view.position_of(event)
        if kind == QEvent.Type.MouseButtonPress:
            return self._press(event, at)
        if kind == QEvent.Type.MouseMove:
            return self._move(at)
        if kind == QEvent.Type.MouseButtonRelease:
            return self._release(event, at)
        if (
            kind == QEvent.Type.MouseButtonDblClick
            and event.button() == Qt.MouseButton.LeftButton
        ):
            self._view.open_or_close_at(at.x(), at.y())
            return True
        return False

    def cancel(self) -> None:
        """Give the gesture up."""
        self.mode = Mode.IDLE
        self._view.set_band(None)
        self._view.set_canvas_cursor(Qt.CursorShape.ArrowCursor)

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        self._start = self._last = at
        self._adds = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        if event.button() == Qt.MouseButton.MiddleButton:
            self._begin_pan()
            return True
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        if self._view.look_from_map(at.x(), at.y(), is_first=True):
            self.mode = Mode.MAP
        else:
            self.mode = Mode.PRESSED
        return True

    def _begin_pan(self) -> None:
        self.mode = Mode.PAN
        self._view.set_canvas_cursor(Qt.CursorShape.ClosedHandCursor)

    def _move(self, at: QPointF) -> bool:
        if self.mode is Mode.PRESSED:
            far = (at - self._start).manhattanLength()
            if far < QApplication.startDragDistance():
                return True
            if self._adds:
                self.mode = Mode.BAND
            else:
                self._begin_pan()
        if self.mode is Mode.PAN:
            step = at - self._last
            self._view.pan_by(step.x(), step.y())
        elif self.mode is Mode.BAND:
            self._view.set_band((self._start.x(), self._start.y(), at.x(), at.y()))
        elif self.mode is Mode.MAP:
            self._view.look_from_map(at.x(), at.y(), is_first=False)
        else:
            self._view.hover_at(at.x(), at.y())
        self._last = at
        return True

    def _release(self, event: QMouseEvent, at: QPointF) -> bool:
        mode = self.mode
        if mode is Mode.IDLE:
            return False
        if mode is Mode.PRESSED and event.button() == Qt.MouseButton.LeftButton:
            self._view.click_at(at.x(), at.y(), adds=self._adds)
        elif mode is Mode.BAND:
            self._view.select_band()
        self.cancel()
        return True

    def _wheel(self, event: QWheelEvent) -> bool:
        at = self._view.position_of(event)
        pixels, angle = event.pixelDelta(), event.angleDelta()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            # Some systems turn the axis by themselves while Shift is held.
            step = angle.y() or angle.x()
            self._view.pan_by(step / _NOTCH * _PIXELS_PER_NOTCH, 0.0)
            return True
        notches = angle.y() / _NOTCH
        if not notches and pixels.y():
            notches = pixels.y() / _PIXELS_PER_NOTCH
        if notches:
            self._view.zoom_by(ZOOM_STEP**notches, at.x(), at.y())
        elif angle.x():
            self._view.pan_by(angle.x() / _NOTCH * _PIXELS_PER_NOTCH, 0.0)
        return True

    def _pinch(self, event: QNativeGestureEvent) -> bool:
        if event.gestureType() != Qt.NativeGestureType.ZoomNativeGesture:
            return False
        at = self._view.position_of(event)
        self._view.zoom_by(1.0 + event.value(), at.x(), at.y())
        return True


__all__ = ["ZOOM_STEP", "Gestures", "Mode"]
