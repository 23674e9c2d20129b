"""Mouse, wheel, trackpad, keys and context menu of the file heatmap.

They are those of the timeline.
"""

from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QComboBox, QMenu

from ggscope.model.units import format_offset
from ggscope.views.base.gestures import CanvasGestures, WheelDelta
from ggscope.views.base.safe_text import add_action, copy_name, copy_text
from ggscope.views.base.widgets import add_replay

if TYPE_CHECKING:
    from ggscope.views.heatmap.view import HeatmapView

ZOOM_STEP = 1.12
_ROWS_MATTER_PX = 10
_ZOOM = 1.5
_Key = Qt.Key
_ZOOMS = {
    _Key.Key_W: 1 / _ZOOM, _Key.Key_Plus: 1 / _ZOOM, _Key.Key_Equal: 1 / _ZOOM,
    _Key.Key_S: _ZOOM, _Key.Key_Minus: _ZOOM,
}  # fmt: skip
_PANS = {_Key.Key_A: -1, _Key.Key_Left: -1, _Key.Key_D: 1, _Key.Key_Right: 1}
_SCROLLS = {
    _Key.Key_Up: -0.1, _Key.Key_Down: 0.1,
    _Key.Key_PageUp: -0.9, _Key.Key_PageDown: 0.9,
}  # fmt: skip
_REPLAY_STEPS = {_Key.Key_Comma: -1, _Key.Key_Period: 1}
_ENTER = (_Key.Key_Return, _Key.Key_Enter)
_PLAIN = (_Key.Key_0, _Key.Key_Home, _Key.Key_End, _Key.Key_F, _Key.Key_Menu)
_NONE, _SHIFT, _CONTROL = (
    Qt.KeyboardModifier.NoModifier,
    Qt.KeyboardModifier.ShiftModifier,
    Qt.KeyboardModifier.ControlModifier,
)


class _Mode(Enum):
    IDLE = auto()
    PRESSED = auto()
    MARK = auto()
    ZOOM = auto()
    PAN = auto()


class HeatmapGestures(CanvasGestures):
    """Turns input into calls of the view.

    A drag marks bytes (and rows, if it goes up or down), a Shift or middle drag pans,
    a Ctrl drag zooms to the marked bytes; the wheel scrolls rows, with Ctrl it zooms
    at the mouse, with Shift it pans.
    """

    def __init__(self, view: "HeatmapView") -> None:
        super().__init__(view)
        self._view = view
        self._mode = _Mode.IDLE
        self._start = QPointF()
        self._last = QPointF()
        self._pending = _Mode.MARK

    def _is_ready(self) -> bool:
        return self._view.geometry_now() is not None

    def _leave(self) -> None:
        self._view.set_hover(None)

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() == Qt.MouseButton.LeftButton:
            self._view.fit_at(at)
        return True

    def cancel(self) -> bool:
        """Give up a drag; return whether there was one."""
        was, self._mode = self._mode, _Mode.IDLE
        self._view.set_canvas_cursor(Qt.CursorShape.ArrowCursor)
        return was in (_Mode.MARK, _Mode.ZOOM)

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        self._start = self._last = at
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

    def _move(self, event: QMouseEvent, at: QPointF) -> bool:
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

    def _release(self, event: QMouseEvent, at: QPointF) -> bool:
        mode, self._mode = self._mode, _Mode.IDLE
        if mode is _Mode.PRESSED:
            self._view.click(at)
        elif mode is _Mode.ZOOM:
            self._view.zoom_to_mark()
        self._view.set_canvas_cursor(Qt.CursorShape.ArrowCursor)
        return mode is not _Mode.IDLE

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        view = self._view
        if turn.has_shift and turn.zooms:
            view.zoom_rows(ZOOM_STEP**-turn.notches, at.y())
        elif turn.zooms and turn.y:
            view.zoom_x(ZOOM_STEP ** (-4 * turn.notches), at.x())
        elif turn.x:
            view.pan_px(-turn.pan_px)
        elif turn.y:
            view.scroll_px(-turn.y)
        return True

    def _pinch(self, factor: float, at: QPointF) -> bool:
        self._view.zoom_x(1.0 / factor, at.x())
        return True


def is_heatmap_key(view: "HeatmapView", event: QKeyEvent) -> bool:
    """Return whether the view does something with a key."""
    key, mods = _Key(event.key()), _mods(event)
    is_replaying = view.session.replay.tick is not None
    if key == _Key.Key_Space:
        return not mods
    if (
        key in _REPLAY_STEPS
    ):  # else they step through what is highlighted, as everywhere
        return is_replaying and not mods
    if key in _ENTER or key == _Key.Key_Escape:
        has_end = key == _Key.Key_Escape and is_replaying
        return (view.mark is not None or has_end) and not mods
    if key in _PANS:
        letters = key in (_Key.Key_A, _Key.Key_D)
        return mods in ((_NONE, _SHIFT) if letters else (_NONE, _SHIFT, _CONTROL))
    if key in _ZOOMS:
        return mods in (_NONE, _SHIFT)
    return (key in _SCROLLS or key in _PLAIN) and not mods


def run_heatmap_key(view: "HeatmapView", event: QKeyEvent) -> None:
    """Do what a key means.

    W and S zoom (with Shift: rows), A, D and the arrows pan, up and down scroll rows,
    0 and Home show everything, F the selection, Enter filters to what is marked.
    """
    key, mods = _Key(event.key()), _mods(event)
    if key in _ZOOMS:
        # Shift is part of "+" on many keyboards.
        by_rows = mods == _SHIFT and key in (_Key.Key_W, _Key.Key_S)
        (view.zoom_rows if by_rows else view.zoom_x)(_ZOOMS[key])
    elif key in _PANS:
        share = {_SHIFT: 0.05, _CONTROL: 1.0}.get(mods, 0.25)
        view.pan(share * _PANS[key])
    elif key in _SCROLLS:
        view.scroll_rows(_SCROLLS[key])
    elif key in _REPLAY_STEPS:
        view.session.replay.step(_REPLAY_STEPS[key])
    elif key in _ENTER:
        view.filter_to_mark()
    else:
        _run_plain(view, key)


def _run_plain(view: "HeatmapView", key: Qt.Key) -> None:
    if key == _Key.Key_Escape:
        view.put_out()
    elif key == _Key.Key_Space:
        view.session.replay.toggle()
    elif key == _Key.Key_F:
        view.focus_selection()
    elif key == _Key.Key_Menu:
        view.show_keyboard_menu()
    elif key == _Key.Key_End:
        if view.axis is not None and view.shown is not None:
            width = view.shown.stop - view.shown.begin
            view.show_positions(view.axis.extent - width, view.axis.extent)
    else:
        view.fit()


def _mods(event: QKeyEvent) -> Qt.KeyboardModifier:
    """Return the modifiers but that of the number pad."""
    return event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier


def heatmap_menu(view: "HeatmapView", at: QPointF) -> QMenu | None:
    """Return the menu of a position of the picture; None without a picture."""
    place = view.geometry_now()
    if place is None or view.base is None or view.axis is None:
        return None
    menu = QMenu(view)
    add = partial(add_action, menu)
    menu.setObjectName("heatmap-menu")
    unit = view.unit_under(at)
    if view.mark is not None:
        add("Show only this range", view.filter_to_mark)
        add("Zoom to this range", view.zoom_to_mark)
        menu.addSeparator()
    if unit >= 0:
        _unit_entries(view, menu, unit, place.scene.unit_name(unit))
        menu.addSeparator()
    if place.x.x0 <= at.x() < place.x.x1:
        offset = format_offset(view.axis.offset(place.position_at(at.x())))
        text = f"Copy offset {offset}"
        add(text, partial(copy_text, offset))
    add("Show the whole file", view.fit)
    menu.addSeparator()
    add_replay(menu, view.session.replay)
    menu.addSeparator()
    head = view.head
    for text, combo in (
        ("Rows", head.rows), ("X axis", head.axis),
        ("Show", head.shows), ("Scale", head.scale),
        ("Colours", head.colors),
    ):  # fmt: skip
        _choices(menu, text, combo)
    menu.addSeparator()
    add("Export figure…", partial(view.figure_requested.emit, view.figure()))
    return menu


def _unit_entries(view: "HeatmapView", menu: QMenu, unit: int, name: str) -> None:
    add = partial(add_action, menu)
    base = view.base
    if base is None:
        return
    tensor = int(base.files.tensor[unit])
    begin = format_offset(int(base.files.offset[unit]))
    add(f"Select “{name}”", partial(view.select_tensor, tensor))
    add("Fit this tensor", partial(view.fit_unit, unit))
    add("Show only this tensor", partial(view.filter_to_tensor, tensor))
    add("Copy name", partial(copy_name, name))
    add(f"Copy its offset {begin}", partial(copy_text, begin))


def _choices(menu: QMenu, labels: str, combo: QComboBox) -> None:
    """Offer what a combo box of the head offers."""
    part = menu.addMenu(labels)
    for i in range(combo.count()):
        entry = add_action(part, combo.itemText(i), partial(combo.setCurrentIndex, i))
        entry.setCheckable(True)
        entry.setChecked(i == combo.currentIndex())
