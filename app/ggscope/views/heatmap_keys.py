"""Keys of the file heatmap: those of the timeline, for the bytes of a file."""

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent

if TYPE_CHECKING:
    from ggscope.views.heatmap import HeatmapView

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
_ENTER = (_Key.Key_Return, _Key.Key_Enter)
_PLAIN = (_Key.Key_0, _Key.Key_Home, _Key.Key_End, _Key.Key_F, _Key.Key_Menu)
_NONE, _SHIFT, _CONTROL = (
    Qt.KeyboardModifier.NoModifier,
    Qt.KeyboardModifier.ShiftModifier,
    Qt.KeyboardModifier.ControlModifier,
)


def is_heatmap_key(view: "HeatmapView", event: QKeyEvent) -> bool:
    """Return whether the view does something with a key."""
    key, mods = _Key(event.key()), _mods(event)
    if key in _ENTER or key == _Key.Key_Escape:
        return view.mark is not None and not mods
    if key in _PANS:
        letters = key in (_Key.Key_A, _Key.Key_D)
        return mods in ((_NONE, _SHIFT) if letters else (_NONE, _SHIFT, _CONTROL))
    if key in _ZOOMS:
        return mods in (_NONE, _SHIFT)
    return (key in _SCROLLS or key in _PLAIN) and not mods


def run_key(view: "HeatmapView", event: QKeyEvent) -> bool:
    """Do what a key means; return whether it means something.

    W and S zoom (with Shift: rows), A, D and the arrows pan, up and down scroll rows,
    0 and Home show everything, F the selection, Enter filters to what is marked.
    """
    if not is_heatmap_key(view, event):
        return False
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
    elif key in _ENTER:
        view.filter_to_mark()
    else:
        _run_plain(view, key)
    return True


def _run_plain(view: "HeatmapView", key: Qt.Key) -> None:
    if key == _Key.Key_Escape:
        view.put_out()
    elif key == _Key.Key_F:
        view.focus_selection()
    elif key == _Key.Key_Menu:
        view.keyboard_menu()
    elif key == _Key.Key_End:
        if view.axis is not None and view.shown is not None:
            width = view.shown.stop - view.shown.begin
            view.show_positions(view.axis.extent - width, view.axis.extent)
    else:
        view.fit()


def _mods(event: QKeyEvent) -> Qt.KeyboardModifier:
    """Return the modifiers but that of the number pad."""
    return event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier


__all__ = ["is_heatmap_key", "run_key"]
