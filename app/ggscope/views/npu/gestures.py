"""Mouse and wheel on the pictures of an NPU."""

from typing import Protocol

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QMouseEvent

from ggscope.model.units import TimeRange
from ggscope.render.npu.scene import NpuGeometry, NpuScene
from ggscope.views.base.gestures import CanvasGestures, Pointed, WheelDelta

_ZOOM_STEP = 1.25
_DRAG_PX = 4.0


class NpuPicture(Pointed, Protocol):
    """The view that the gestures are about."""

    def scene_now(self) -> NpuScene | None:
        """Return what the picture is drawn from."""

    def geometry_now(self) -> NpuGeometry | None:
        """Return where things lie; None without a picture with a time axis."""

    def thing_at(self, x: float, y: float) -> int:
        """Return the row, stall or point at a position; -1 = none."""

    def point_to(self, thing: int) -> None:
        """Light what is under the mouse, -1 for nothing."""

    def click(self, x: float, y: float) -> None:
        """Select what lies at a position."""

    def show_chosen(self) -> None:
        """Fit the timeline to what is selected."""

    def scroll_by(self, by: float) -> None:
        """Scroll rows by pixels, or bars by one."""


class NpuGestures(CanvasGestures):
    """Turns mouse events into calls of the view and its session."""

    def __init__(self, view: "NpuPicture") -> None:
        super().__init__(view)
        self._view = view
        self._pressed: QPointF | None = None
        self._pressed_range = TimeRange(0, 1)
        self._is_panning = False

    def _is_ready(self) -> bool:
        return self._view.scene_now() is not None

    def _leave(self) -> None:
        self._view.point_to(-1)
        self._view.session.viewport.cursor_tick = None

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        buttons = (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton)
        if event.button() not in buttons:
            return False
        self._pressed, self._is_panning = at, False
        self._pressed_range = self._view.session.viewport.visible
        return True

    def _move(self, _: QMouseEvent, at: QPointF) -> bool:
        place = self._view.geometry_now()
        if place is not None:
            self._view.session.viewport.cursor_tick = place.tick_at(at.x())
        if self._pressed is None:
            self._view.point_to(self._view.thing_at(at.x(), at.y()))
            return True
        dx = self._pressed.x() - at.x()
        if place is not None and (self._is_panning or abs(dx) >= _DRAG_PX):
            self._is_panning = True
            shift = round(dx / place.time.px_per_tick)
            self._view.session.viewport.set_visible(self._pressed_range.shifted(shift))
        return True

    def _release(self, event: QMouseEvent, at: QPointF) -> bool:
        pressed, self._pressed = self._pressed, None
        is_click = pressed is not None and not self._is_panning
        self._is_panning = False
        if is_click and event.button() == Qt.MouseButton.LeftButton:
            self._view.click(at.x(), at.y())
        return pressed is not None

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        place = self._view.geometry_now()
        if place is not None and at.y() < place.top:
            self._view.session.viewport.fit()
        else:
            self._view.show_chosen()
        return True

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        place, viewport = self._view.geometry_now(), self._view.session.viewport
        if place is not None and turn.zooms and turn.y:
            viewport.zoom(_ZOOM_STEP**-turn.notches, place.time.tick(at.x()))
        elif place is not None and turn.x:
            shift = round(-turn.pan_px / place.time.px_per_tick)
            viewport.set_visible(viewport.visible.shifted(shift))
        elif turn.y:
            self._view.scroll_by(-turn.y)
        return True

    def _pinch(self, factor: float, at: QPointF) -> bool:
        place = self._view.geometry_now()
        if place is not None:
            self._view.session.viewport.zoom(1 / factor, place.time.tick(at.x()))
        return place is not None
