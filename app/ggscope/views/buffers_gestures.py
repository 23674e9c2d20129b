"""Mouse and trackpad on the picture of buffers; time moves as on the timeline."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QNativeGestureEvent, QWheelEvent

from ggscope.model.selection import Selection
from ggscope.model.time import TimeRange
from ggscope.render.compose_buffers import BuffersGeometry
from ggscope.session.session import Session

if TYPE_CHECKING:
    from ggscope.views.buffers import BuffersView

ZOOM_STEP = 1.25
"""Zoom factor of one wheel notch, as on the timeline."""
DRAG_PX = 4.0
"""A press that moves less is a click."""
_BUTTONS = (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton)


class BuffersGestures:
    """Turns mouse events into calls of the view and its session."""

    def __init__(self, view: "BuffersView") -> None:
        self._view = view
        self._pressed: QPointF | None = None
        self._pressed_range = TimeRange(0, 1)
        self._is_panning = False
        self._pointer: QPointF | None = None

    def follow(self) -> None:
        """Look again at what lies under a pointer that rests: the picture has moved."""
        session, place = self._view.session, self._view.geometry_now()
        if self._pointer is None or self._pressed is not None:
            return
        if session is not None and place is not None:
            self._hover(self._pointer, session, place)

    def handle(self, event: QEvent) -> bool:
        """Handle one event; return whether it is done with."""
        session, place = self._view.session, self._view.geometry_now()
        if event.type() == QEvent.Type.Leave:
            self._pointer = None
            self._view.point_at(-1)
            if session is not None:
                session.cursor_tick = None
            return False
        if session is None or place is None:
            return False
        if isinstance(event, QWheelEvent):
            self._wheel(event, session, place)
            return True
        if isinstance(event, QNativeGestureEvent):
            return self._pinch(event, session, place)
        if not isinstance(event, QMouseEvent):
            return False
        kind = event.type()
        if kind == QEvent.Type.MouseButtonPress:
            return self._press(event, session)
        if kind == QEvent.Type.MouseMove:
            self._move(event, session, place)
            return True
        if kind == QEvent.Type.MouseButtonRelease:
            return self._release(event, session, place)
        if kind == QEvent.Type.MouseButtonDblClick:
            at = self._view.position_of(event)
            row = place.buffer_at(at.x(), at.y())
            if row >= 0:
                self._view.show_life(row)
            elif at.y() < place.area_y:
                session.fit()
            return True
        return False

    def _press(self, event: QMouseEvent, session: Session) -> bool:
        if event.button() not in (
            Qt.MouseButton.LeftButton,
            Qt.MouseButton.MiddleButton,
        ):
            return False
        self._pressed, self._is_panning = self._view.position_of(event), False
        self._pressed_range = session.visible_range
        return True

    def _move(
        self, event: QMouseEvent, session: Session, place: BuffersGeometry
    ) -> None:
        at = self._view.position_of(event)
        self._hover(at, session, place)
        if self._pressed is None:
            return
        dx = self._pressed.x() - at.x()
        if self._is_panning or abs(dx) >= DRAG_PX:
            self._is_panning = True
            shift = round(dx / place.time.px_per_tick)
            session.set_visible(self._pressed_range.shifted(shift))

    def _hover(self, at: QPointF, session: Session, place: BuffersGeometry) -> None:
        self._pointer = at
        session.cursor_tick = place.tick_at(at.x()) if at.x() >= place.time.x0 else None
        if self._pressed is None:
            self._view.point_at(place.buffer_at(at.x(), at.y()))

    def _release(
        self, event: QMouseEvent, session: Session, place: BuffersGeometry
    ) -> bool:
        pressed, self._pressed = self._pressed, None
        if pressed is None or self._is_panning:
            self._is_panning = False
            return pressed is not None
        at = self._view.position_of(event)
        row = place.buffer_at(at.x(), at.y())
        if row >= 0:
            adds = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
            self._view.select_buffer(row, add=adds)
        elif session.selection.table == "buffers":
            session.select(Selection())
        return True

    def _wheel(
        self, event: QWheelEvent, session: Session, place: BuffersGeometry
    ) -> None:
        pixels, angle, mods = event.pixelDelta(), event.angleDelta(), event.modifiers()
        dx = float(pixels.x()) if not pixels.isNull() else angle.x() / 2
        dy = float(pixels.y()) if not pixels.isNull() else angle.y() / 2
        zooms = bool(mods & Qt.KeyboardModifier.ControlModifier) != session.wheel_zooms
        if mods & Qt.KeyboardModifier.ShiftModifier:
            dx, dy, zooms = dx or dy, 0.0, False
        if zooms and dy:
            tick = place.tick_at(self._x_of(event))
            session.zoom(ZOOM_STEP ** (-dy / 60), tick)
        elif abs(dx) > abs(dy):
            shift = round(-dx / place.time.px_per_tick)
            session.set_visible(session.visible_range.shifted(shift))
        elif dy:
            self._view.scroll_to(self._view.scroll_y - dy)

    def _x_of(self, event: QWheelEvent | QNativeGestureEvent) -> float:
        return self._view.position_of(event).x()

    def _pinch(
        self, event: QNativeGestureEvent, session: Session, place: BuffersGeometry
    ) -> bool:
        if event.gestureType() != Qt.NativeGestureType.ZoomNativeGesture:
            return False
        tick = place.tick_at(self._x_of(event))
        session.zoom(1.0 / max(0.1, 1.0 + event.value()), tick)
        return True


__all__ = ["DRAG_PX", "ZOOM_STEP", "BuffersGestures"]
