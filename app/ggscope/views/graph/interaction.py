"""Mouse, trackpad, keys and context menus of the graph pane."""

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QMenu

from ggscope.model.tables import I64
from ggscope.model.units import format_count
from ggscope.views.base.gestures import CanvasGestures, WheelDelta
from ggscope.views.base.safe_text import add_action, add_menu, copy_name
from ggscope.views.graph.viewport import GraphHit, nodes_of

if TYPE_CHECKING:
    from ggscope.views.graph.view import GraphView

DIRECTIONS = {
    "auto": "automatic",
    "down": "top to bottom",
    "right": "left to right",
}
"""Which way the edges lead, in words."""
ZOOM_STEP = 1.25
"""Zoom factor of one wheel notch."""
_K = Qt.Key
_PAN = {
    _K.Key_Left: (1, 0), _K.Key_A: (1, 0),
    _K.Key_Right: (-1, 0), _K.Key_D: (-1, 0),
    _K.Key_Up: (0, 1), _K.Key_Down: (0, -1),
}  # fmt: skip
_PAN_SHARE, _LITTLE, _PAGE = 0.25, 0.05, 1.0
_ZOOM = {
    _K.Key_Plus: ZOOM_STEP, _K.Key_Equal: ZOOM_STEP, _K.Key_W: ZOOM_STEP,
    _K.Key_Minus: 1 / ZOOM_STEP, _K.Key_Underscore: 1 / ZOOM_STEP,
    _K.Key_S: 1 / ZOOM_STEP,
}  # fmt: skip
_WALK = {
    _K.Key_Period: (True, False), _K.Key_Comma: (False, False),
    _K.Key_Greater: (True, True), _K.Key_Less: (False, True),
}  # fmt: skip
"""Key: (with the edges, to a sibling)."""


class Mode(Enum):
    """What the pressed button is doing."""

    IDLE = auto()
    PRESSED = auto()
    PAN = auto()
    BAND = auto()
    MAP = auto()


class Gestures(CanvasGestures):
    """Turns mouse events into calls of the view.

    The wheel zooms, a drag pans, Ctrl+drag draws a rubber band, a click selects, a
    double click opens and closes layers, a drag in the overview moves the view.
    """

    def __init__(self, view: "GraphView") -> None:
        super().__init__(view)
        self._view = view
        self.mode = Mode.IDLE
        self._start = QPointF()
        self._last = QPointF()
        self._adds = False

    def _leave(self) -> None:
        self._view.set_hover(-1)

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        self._view.open_or_close_at(at.x(), at.y())
        return True

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

    def _move(self, _: QMouseEvent, at: QPointF) -> bool:
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

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        # There are no rows to scroll: the wheel zooms with Ctrl and without.
        if turn.y:
            self._view.zoom_by(ZOOM_STEP**turn.notches, at.x(), at.y())
        elif turn.x:
            self._view.pan_by(turn.pan_px, 0.0)
        return True

    def _pinch(self, factor: float, at: QPointF) -> bool:
        self._view.zoom_by(factor, at.x(), at.y())
        return True


def command_of(view: "GraphView", event: QKeyEvent) -> Callable[[], None] | None:
    """Return what a key does in the graph, or None where it is not for it.

    Arrows and A, D pan, + - W S zoom, 0 and Home fit, F centres the selection, "." and
    "," follow the edges forth and back, with Shift to a sibling, Enter opens or closes
    the layer of the selection, Ctrl+F goes to the search field, Esc puts the path out.
    """
    key, mods = Qt.Key(event.key()), event.modifiers()
    mods &= ~Qt.KeyboardModifier.KeypadModifier
    shift, ctrl = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier
    if view.shown is None:
        return None
    if (key == _K.Key_F and mods == ctrl) or (key == _K.Key_Slash and mods != ctrl):
        return partial(_search, view)
    if key in _PAN and mods in (Qt.KeyboardModifier.NoModifier, shift, ctrl):
        if mods == ctrl and key in (_K.Key_A, _K.Key_D):
            return None
        share = _LITTLE if mods == shift else _PAGE if mods == ctrl else _PAN_SHARE
        return partial(_pan, view, *_PAN[key], share)
    if mods not in (Qt.KeyboardModifier.NoModifier, shift):
        return None
    if key in _ZOOM:
        return partial(_zoom, view, _ZOOM[key])
    if key in _WALK:
        return partial(_walk, view, *_WALK[key])
    if mods:
        return None
    return _plain(view, key)


def _plain(view: "GraphView", key: Qt.Key) -> Callable[[], None] | None:
    if key in (_K.Key_0, _K.Key_Home):
        return view.fit
    if key == _K.Key_F and len(view.selected_rows()):
        return view.centre_selection
    if key in (_K.Key_Return, _K.Key_Enter) and _layer(view) >= 0:
        return partial(view.toggle_layer, _layer(view))
    if key == _K.Key_Menu:
        return view.show_keyboard_menu
    if key == _K.Key_Escape:
        if view.gestures.mode is not Mode.IDLE:
            return view.gestures.cancel
        if view.path_bar.isVisible():
            return view.paths.clear
        choice = view.choice
        if choice is not None and choice.layer is not None:
            return partial(view.isolate_layer, None)
    return None


def _pan(view: "GraphView", across: int, down: int, share: float) -> None:
    size = view.canvas_size()
    view.pan_by(across * share * size.width(), down * share * size.height())


def _zoom(view: "GraphView", factor: float) -> None:
    size = view.canvas_size()
    at = view.mouse_position()
    x, y = (size.width() / 2, size.height() / 2) if at is None else at
    view.zoom_by(factor, x, y)


def _search(view: "GraphView") -> None:
    view.head.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
    view.head.search.selectAll()


def _layer(view: "GraphView") -> int:
    """Return the layer of the active node, -1 for none."""
    rows, shown = view.selected_rows(), view.shown
    if shown is None or not len(rows):
        return -1
    return int(shown.layout.layers.layer[rows[0]])


def _walk(view: "GraphView", forth: bool, to_sibling: bool) -> None:
    """Select the first node along the edges, or another one beside the active node.

    Siblings share the source (forth) or the user (back) of the active node.
    """
    graph, rows = view.graph, view.selected_rows()
    if graph is None:
        return
    if not len(rows):
        if len(graph):
            view.go_to(0)
        return
    node = int(rows[0])
    begin, end = (graph.source, graph.target)
    if not forth:
        begin, end = end, begin
    if not to_sibling:
        onward = end[(begin == node) & (end != node)]
        if len(onward):
            view.go_to(int(onward.min() if forth else onward[0]))
        return
    parents = begin[(end == node) & (begin != node)]
    if not len(parents):
        return
    beside = np.unique(end[begin == parents[0]])
    place = int(np.searchsorted(beside, node))
    view.go_to(int(beside[(place + 1) % len(beside)]))


def connect_menus(view: "GraphView") -> None:
    """Have the menus in the head filled whenever they open."""
    for menu, fill in (
        (view.head.view_menu, fill_view_menu),
        (view.head.path_menu, fill_path_menu),
    ):
        menu.aboutToShow.connect(partial(_empty, menu))
        menu.aboutToShow.connect(partial(fill, view, menu))


def _empty(menu: QMenu) -> None:
    """Remove the entries, and the menus within, which `clear` would leave behind."""
    menu.clear()
    for inner in menu.findChildren(QMenu):
        inner.deleteLater()


def menu_of(view: "GraphView", hit: GraphHit) -> QMenu:
    """Return the menu of what `hit` found."""
    menu = QMenu(view)
    menu.setObjectName("graph-menu")
    scene = view.scene_now()
    if scene is not None and hit.box >= 0:
        rows = nodes_of(scene, hit.box)
        _box_entries(view, menu, rows)
        menu.addSeparator()
    fill_view_menu(view, menu)
    return menu


def _box_entries(view: "GraphView", menu: QMenu, rows: I64) -> None:
    add = partial(add_action, menu)
    shown, graph = view.shown, view.graph
    if shown is None or graph is None or not len(rows):
        return
    layers = shown.layout.layers
    layer = int(layers.layer[rows[0]])
    name = shown.trace.strings[int(graph.name[rows[0]])]
    is_node = len(rows) == 1
    what = f"“{name}”" if is_node else f"Layer {layer}"

    def highlighted(show: Callable[[], None]) -> None:
        view.select_rows(rows)
        show()

    add(f"Select {what} in the trace",
         partial(view.select_rows, rows))  # fmt: skip
    if is_node:
        add("Copy name", partial(copy_name, name))
    menu.addSeparator()
    add("Predecessors", partial(highlighted, view.paths.show_sources))
    add("Successors", partial(highlighted, view.paths.show_users))
    if layer >= 0:
        menu.addSeparator()
        choice = shown.layout.choice
        is_open = (
            choice.opened is None or layer in choice.opened or choice.layer == layer
        )
        text = "Collapse layer {0}" if is_open else "Expand layer {0}"
        add(text.format(layer), partial(view.toggle_layer, layer))
        if choice.layer is None:
            add(f"Draw only layer {layer}",
                 partial(view.isolate_layer, layer))  # fmt: skip


def fill_view_menu(view: "GraphView", menu: QMenu) -> None:
    """Add what concerns the whole picture."""
    add = partial(add_action, menu)
    shown = view.shown
    if shown is None:
        add("No graph", lambda: None, enabled=False)
        return
    choice, has_layers = shown.layout.choice, bool(len(shown.layout.layers.numbers))
    add("Expand all layers", partial(view.open_all, True), enabled=has_layers)
    add("Collapse all layers", partial(view.open_all, False), enabled=has_layers)
    if choice.layer is not None:
        add("Draw all layers", partial(view.isolate_layer, None))
    repeats = menu.addAction("Repeat shared inputs next to their consumers")
    repeats.setCheckable(True)
    repeats.setChecked(choice.repeats_inputs)
    repeats.setEnabled(bool(shown.layout.layers.is_shared.any()))
    repeats.toggled.connect(view.repeat_inputs)
    n_views = view.n_views()
    text = "Hide views, reshapes and permutes ({0})"
    hides = add(text.format(format_count(n_views)), enabled=n_views > 0)
    hides.setCheckable(True)
    hides.setChecked(view.hides_views)
    hides.toggled.connect(view.hide_views)
    inner = add_menu(menu, "Direction")
    for way, text in DIRECTIONS.items():
        action = add_action(inner, text, partial(view.set_direction, way))
        action.setCheckable(True)
        action.setChecked(view.direction == way)
    menu.addSeparator()
    add("Fit all", view.fit)
    add("Critical path by time", view.paths.show_critical)
    menu.addSeparator()
    want = view.figure_requested.emit
    add("Export this view…", lambda: want(view.figure()))
    add("Export the whole graph…", lambda: want(view.figure(whole=True)))


def fill_path_menu(view: "GraphView", menu: QMenu) -> None:
    """Add what lights paths."""
    add = partial(add_action, menu)
    some = bool(len(view.selected_rows()))
    add("Predecessors of the selection", view.paths.show_sources, enabled=some)
    add("Successors of the selection", view.paths.show_users, enabled=some)
    add(
        "Critical path by time",
        view.paths.show_critical,
        enabled=view.shown is not None,
    )
    menu.addSeparator()
    add("Clear", view.paths.clear, enabled=view.path_bar.isVisible())
