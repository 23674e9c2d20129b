"""Mouse, wheel and trackpad of the file heatmap, as in the timeline."""

from enum import Enum, auto
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QNativeGestureEvent, QWheelEvent
from PySide6.QtWidgets import QApplication

if TYPE_CHECKING:
    from ggscope.views.heatmap import HeatmapView

ZOOM_STEP = 1.12
_ROWS_MATTER_PX = 10


class _Mode(Enum):
    IDLE = auto()
    PRESSED = auto()
    MARK = auto()
    ZOOM = auto()
    PAN = auto()


class HeatmapGestures:
    """Turns input into calls of the view.

    A drag marks bytes (and rows, if it goes up or down), a Shift or middle drag pans,
    a Ctrl drag zooms to the marked bytes; the wheel scrolls rows, with Ctrl it zooms
    at the mouse, with Shift it pans.
    """

    def __init__(self, view: "HeatmapView") -> None:
        self._view = view
        self._mode = _Mode.IDLE
        self._start = QPointF()
        self._last = QPointF()
        self._pending = _Mode.MARK

    def handle(self, event: QEvent) -> bool:
        """Handle one event; return whether it is done with."""
        kind = event.type()
        if isinstance(event, QWheelEvent):
            return self._wheel(event)
        if isinstance(event, QNativeGestureEvent):
            return self._native(event)
        if kind == QEvent.Type.Leave:
            self._view.set_hover(None)
            return False
        if not isinstance(event, QMouseEvent) or self._view.geometry_now() is None:
            return False
        if kind == QEvent.Type.MouseButtonPress:
            return self._press(event)
        if kind == QEvent.Type.MouseMove:
            return self._move(event)
        if kind == QEvent.Type.MouseButtonRelease:
            return self._release(event)
        if kind == QEvent.Type.MouseButtonDblClick:
            if event.button() == Qt.MouseButton.LeftButton:
                self._view.fit_at(self._view.position_of(event))
            return True
        return False

    def cancel(self) -> bool:
        """Give up a drag; return whether there was one."""
        was, self._mode = self._mode, _Mode.IDLE
        self._view.set_canvas_cursor(Qt.CursorShape.ArrowCursor)
        return was in (_Mode.MARK, _Mode.ZOOM)

    def _press(self, event: QMouseEvent) -> bool:
        self._start = self._last = self._view.position_of(event)
        if event.button() == Qt.MouseButton.MiddleButton:
            self._begin(_Mode.PAN)
            return True
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        mods = event.modifiers()
        if mods & Qt.KeyboardModifier.ShiftModifier:
            self._begin(_Mode.PAN)
            return True
        zoom = bool(mods & Qt.KeyboardModifier.ControlModifier)
        self._pending = _Mode.ZOOM if zoom else _Mode.MARK
        self._mode = _Mode.PRESSED
        return True

    def _begin(self, mode: _Mode) -> None:
        self._mode = mode
        shapes = {
            _Mode.PAN: Qt.CursorShape.ClosedHandCursor,
            _Mode.ZOOM: Qt.CursorShape.CrossCursor,
        }
        self._view.set_canvas_cursor(shapes.get(mode, Qt.CursorShape.ArrowCursor))

    def _move(self, event: QMouseEvent) -> bool:
        at = self._view.position_of(event)
        if self._mode is _Mode.PRESSED:
            far = (at - self._start).manhattanLength()
            if far >= QApplication.startDragDistance() / 2:
                self._begin(self._pending)
        if self._mode is _Mode.PAN:
            self._view.pan_px(self._last.x() - at.x())
            self._view.scroll_px(self._last.y() - at.y())
        elif self._mode in (_Mode.MARK, _Mode.ZOOM):
            with_rows = abs(at.y() - self._start.y()) > _ROWS_MATTER_PX
            with_rows &= self._mode is _Mode.MARK
            self._view.mark_between(self._start, at, with_rows=with_rows)
        self._last = at
        self._view.set_hover(at)
        return True

    def _release(self, event: QMouseEvent) -> bool:
        mode, self._mode = self._mode, _Mode.IDLE
        at = self._view.position_of(event)
        if mode is _Mode.PRESSED:
            self._view.click(at)
        elif mode is _Mode.ZOOM:
            self._view.zoom_to_mark()
        self._view.set_canvas_cursor(Qt.CursorShape.ArrowCursor)
        return mode is not _Mode.IDLE

    def _wheel(self, event: QWheelEvent) -> bool:
        view = self._view
        if view.geometry_now() is None:
            return False
        pixels, angle = event.pixelDelta(), event.angleDelta()
        precise = not pixels.isNull()
        dx = float(pixels.x()) if precise else angle.x() / 2
        dy = float(pixels.y()) if precise else angle.y() / 2
        mods, at = event.modifiers(), view.position_of(event)
        session = view.session
        swapped = session is not None and session.wheel_zooms
        zoom = bool(mods & Qt.KeyboardModifier.ControlModifier) != swapped
        if mods & Qt.KeyboardModifier.ShiftModifier:
            if zoom:
                view.zoom_rows(ZOOM_STEP ** (-(dy or dx) / 60), at.y())
            else:
                view.pan_px(-(dx or dy) * 2)
        elif zoom and dy:
            view.zoom_x(ZOOM_STEP ** (-dy / 15), at.x())
        elif abs(dx) > abs(dy):
            view.pan_px(-dx * (1 if precise else 2))
        elif dy:
            view.scroll_px(-dy)
        return True

    def _native(self, event: QNativeGestureEvent) -> bool:
        if event.gestureType() != Qt.NativeGestureType.ZoomNativeGesture:
            return False
        at = self._view.position_of(event)
        self._view.zoom_x(1.0 / max(0.1, 1.0 + event.value()), at.x())
        return True


__all__ = ["ZOOM_STEP", "HeatmapGestures"]
