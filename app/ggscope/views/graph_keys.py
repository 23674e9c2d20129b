"""Keys of the graph pane while it has the focus."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent

from ggscope.views.graph_gestures import ZOOM_STEP, Mode

if TYPE_CHECKING:
    from ggscope.views.graph import GraphView

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
        return partial(_toggle, view)
    if key == _K.Key_Menu:
        return partial(_menu, view)
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


def _toggle(view: "GraphView") -> None:
    view.toggle_layer(_layer(view))


def _menu(view: "GraphView") -> None:
    size = view.canvas_size()
    menu = view.menu_at(size.width() / 2, size.height() / 2)
    if menu is not None:
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(view.canvas.mapToGlobal(view.canvas.rect().center()))


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


__all__ = ["command_of"]
