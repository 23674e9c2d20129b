"""Mouse, wheel, trackpad, keys and context menu of the 3D view."""

from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QMenu

from ggscope.views.base.gestures import CanvasGestures, WheelDelta
from ggscope.views.base.safe_text import add_action
from ggscope.views.base.widgets import add_replay

if TYPE_CHECKING:
    from ggscope.views.points.view import PointsView

_DEGREES_PER_PX = 0.4
_DEGREES = 6.0
_ZOOM, _WHEEL_ZOOM = 1.25, 1.15
_PAN_SHARE = 0.06
_Key = Qt.Key
_ARROWS = {
    _Key.Key_Left: (-1, 0), _Key.Key_Right: (1, 0),
    _Key.Key_Up: (0, 1), _Key.Key_Down: (0, -1),
}  # fmt: skip
_ZOOMS = {
    _Key.Key_W: 1 / _ZOOM, _Key.Key_Plus: 1 / _ZOOM, _Key.Key_Equal: 1 / _ZOOM,
    _Key.Key_S: _ZOOM, _Key.Key_Minus: _ZOOM,
}  # fmt: skip
_REPLAY_STEPS = {_Key.Key_Comma: -1, _Key.Key_Period: 1}
_POINT_STEPS = {_Key.Key_Left: -1, _Key.Key_Right: 1}
"""With Ctrl."""
_LAYER_STEPS = {_Key.Key_PageUp: 1, _Key.Key_PageDown: -1}
_ENTER = (_Key.Key_Return, _Key.Key_Enter)
_PLAIN = {
    *_LAYER_STEPS, *_ENTER, _Key.Key_Space, _Key.Key_F,
    _Key.Key_0, _Key.Key_Home, _Key.Key_Backspace, _Key.Key_Menu,
}  # fmt: skip
_NONE, _SHIFT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
_CONTROL = Qt.KeyboardModifier.ControlModifier


class _Mode(Enum):
    IDLE = auto()
    PRESSED = auto()
    ROTATE = auto()
    PAN = auto()


class PointsGestures(CanvasGestures):
    """Turns input into calls of the view.

    A drag turns the box, a Shift or middle drag moves it, the wheel zooms, a click
    selects what is under the mouse.
    """

    def __init__(self, view: "PointsView") -> None:
        super().__init__(view)
        self._view = view
        self._mode = _Mode.IDLE
        self._start = self._last = QPointF()

    def _is_ready(self) -> bool:
        return self._view.placed is not None

    def _leave(self) -> None:
        self._view.set_hover(-1)

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        self._start = self._last = at
        has_shift = bool(event.modifiers() & _SHIFT)
        is_left = event.button() == Qt.MouseButton.LeftButton
        if event.button() == Qt.MouseButton.MiddleButton or (is_left and has_shift):
            self._begin(_Mode.PAN)
            return True
        self._mode = _Mode.PRESSED if is_left else _Mode.IDLE
        return is_left

    def _begin(self, mode: _Mode) -> None:
        self._mode = mode
        self._view.remember_camera()
        self._view.set_hover(-1)
        self._view.set_canvas_cursor(Qt.CursorShape.ClosedHandCursor)

    def _move(self, event: QMouseEvent, at: QPointF) -> bool:
        view, moved = self._view, at - self._last
        if self._mode is _Mode.PRESSED:
            far = (at - self._start).manhattanLength()
            if far >= QApplication.startDragDistance() / 2:
                self._begin(_Mode.ROTATE)
        if self._mode is _Mode.ROTATE:
            right, up = -moved.x() * _DEGREES_PER_PX, moved.y() * _DEGREES_PER_PX
            view.set_camera(view.camera.orbited(right, up))
        elif self._mode is _Mode.PAN:
            high = max(view.canvas_size().height(), 1)
            view.set_camera(view.camera.panned(-moved.x() / high, moved.y() / high))
        elif self._mode is _Mode.IDLE:
            view.point_to(at)
        self._last = at
        return True

    def _release(self, event: QMouseEvent, at: QPointF) -> bool:
        mode, self._mode = self._mode, _Mode.IDLE
        if mode is _Mode.PRESSED:
            self._view.click(at)
        self._view.set_canvas_cursor(Qt.CursorShape.ArrowCursor)
        return mode is not _Mode.IDLE

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() == Qt.MouseButton.LeftButton:
            self._view.focus_at(at)
        return True

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        view = self._view
        view.remember_camera(is_burst=True)
        if turn.has_shift or (turn.x and not turn.y):
            high = max(view.canvas_size().height(), 1)
            view.set_camera(view.camera.panned(-turn.pan_px / high, 0.0))
        else:
            view.set_camera(view.camera.zoomed(_WHEEL_ZOOM**-turn.notches))
        return True

    def _pinch(self, factor: float, at: QPointF) -> bool:
        self._view.remember_camera(is_burst=True)
        self._view.set_camera(self._view.camera.zoomed(1.0 / factor))
        return True


def _mods(event: QKeyEvent) -> Qt.KeyboardModifier:
    """Return the modifiers but that of the number pad."""
    return event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier


def is_points_key(view: "PointsView", event: QKeyEvent) -> bool:
    """Return whether the view does something with a key."""
    key, mods = _Key(event.key()), _mods(event)
    if view.placed is None:
        return False
    is_replaying = view.session.replay.tick is not None
    if key == _Key.Key_Escape:
        return is_replaying and not mods
    if (
        key in _REPLAY_STEPS
    ):  # else they step through what is highlighted, as everywhere
        return is_replaying and not mods
    if key in _POINT_STEPS and mods == _CONTROL:
        return True
    if key in _ARROWS or key in _ZOOMS:
        return mods in (_NONE, _SHIFT)
    return key in _PLAIN and not mods


def run_points_key(view: "PointsView", event: QKeyEvent) -> None:
    """Do what a key means."""
    key, camera = _Key(event.key()), view.camera
    if key in _POINT_STEPS and _mods(event) == _CONTROL:
        view.step_point(_POINT_STEPS[key])
    elif key in _ARROWS or key in _ZOOMS:
        view.remember_camera(is_burst=True)
        if key in _ZOOMS:
            camera = camera.zoomed(_ZOOMS[key])
        elif _mods(event) == _SHIFT:
            right, up = _ARROWS[key]
            camera = camera.panned(right * _PAN_SHARE, up * _PAN_SHARE)
        else:
            right, up = _ARROWS[key]
            camera = camera.orbited(-right * _DEGREES, up * _DEGREES)
        view.set_camera(camera)
    elif key in _REPLAY_STEPS:
        view.step_replay(_REPLAY_STEPS[key])
    elif key in _LAYER_STEPS:
        view.step_layer(_LAYER_STEPS[key])
    else:
        _run_plain(view, key)


def _run_plain(view: "PointsView", key: Qt.Key) -> None:
    if key in _ENTER:
        view.show_selected()
    elif key == _Key.Key_Space:
        view.session.replay.toggle()
    elif key == _Key.Key_Escape:
        view.put_out()
    elif key == _Key.Key_Backspace:
        view.undo_camera()
    elif key == _Key.Key_Menu:
        view.show_keyboard_menu()
    else:
        view.reset_camera()


def points_menu(view: "PointsView", at: QPointF) -> QMenu | None:
    """Return the menu of a position of the picture; None without a picture."""
    if view.placed is None:
        return None
    menu = QMenu(view)
    menu.setObjectName("points-menu")
    add = partial(add_action, menu)
    point, layer = view.point_under(at), view.layer_under(at)
    if point >= 0:
        points = view.placed.points
        tensor, of_layer = int(points.tensor[point]), int(points.layer[point])
        add("Select this op", partial(view.select_point, point))
        add("Show it in the timeline", partial(view.show_point, point))
        if tensor >= 0:
            add("Select its tensor", partial(view.select_tensor, tensor))
            add("Show only its tensor", partial(view.filter_to_tensor, tensor))
        layer = of_layer if layer < 0 else layer
    if layer >= 0:
        add(f"Select layer {layer}", partial(view.select_layer, layer))
        add(f"Show only layer {layer}", partial(view.filter_to_layer, layer))
    if point >= 0 or layer >= 0:
        menu.addSeparator()
    add_replay(menu, view.session.replay)
    menu.addSeparator()
    undo = add("Undo view change", view.undo_camera)
    undo.setEnabled(view.can_undo_camera)
    add("Reset view", view.reset_camera)
    menu.addSeparator()
    add("Export figure…", partial(view.figure_requested.emit, view.figure()))
    return menu
