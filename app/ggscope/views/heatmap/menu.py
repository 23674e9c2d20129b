"""The context menu of the file heatmap."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QComboBox, QMenu

from ggscope.model.units import format_offset
from ggscope.views.base.plain import add_action
from ggscope.views.base.widgets import copy_name, copy_text

if TYPE_CHECKING:
    from ggscope.views.heatmap.view import HeatmapView


def heatmap_menu(view: "HeatmapView", at: QPointF) -> QMenu | None:
    """Return the menu of a position of the picture; None without a picture."""
    place = view.geometry_now()
    if place is None or view.base is None or view.axis is None:
        return None
    menu = QMenu(view)
    menu.setObjectName("heatmap-menu")
    unit = view.unit_under(at)
    if view.mark is not None:
        _add(menu, view.tr("Show only this range"), view.filter_to_mark)
        _add(menu, view.tr("Zoom to this range"), view.zoom_to_mark)
        menu.addSeparator()
    if unit >= 0:
        _unit_entries(view, menu, unit, place.scene.unit_name(unit))
        menu.addSeparator()
    if place.x.x0 <= at.x() < place.x.x1:
        offset = format_offset(view.axis.offset(place.position_at(at.x())))
        words = view.tr("Copy offset {0}").format(offset)
        _add(menu, words, partial(copy_text, offset))
    _add(menu, view.tr("Show the whole file"), view.fit)
    menu.addSeparator()
    head = view.head
    for words, combo in (
        (view.tr("Rows"), head.rows), (view.tr("Along x"), head.axis),
        (view.tr("Show"), head.shows), (view.tr("Scale"), head.scale),
        (view.tr("Colours"), head.colors),
    ):  # fmt: skip
        _choices(menu, words, combo)
    menu.addSeparator()
    _add(
        menu, view.tr("Export figure…"), partial(view.figure_wanted.emit, view.figure())
    )
    return menu


def _add(menu: QMenu, text: str, action: Callable[[], object]) -> None:
    entry = add_action(menu, text)
    entry.triggered.connect(lambda _checked=False, run=action: run())


def _unit_entries(view: "HeatmapView", menu: QMenu, unit: int, name: str) -> None:
    base = view.base
    if base is None:
        return
    tensor = int(base.files.tensor[unit])
    tr = view.tr
    begin = format_offset(int(base.files.offset[unit]))
    _add(menu, tr("Select “{0}”").format(name), partial(view.select_tensor, tensor))
    _add(menu, tr("Fit this tensor"), partial(view.fit_unit, unit))
    _add(menu, tr("Show only this tensor"), partial(view.filter_to_tensor, tensor))
    _add(menu, tr("Copy name"), partial(copy_name, name))
    _add(menu, tr("Copy where it begins, {0}").format(begin), partial(copy_text, begin))


def _choices(menu: QMenu, words: str, combo: QComboBox) -> None:
    """Offer what a combo box of the head offers."""
    part = menu.addMenu(words)
    for i in range(combo.count()):
        entry = add_action(part, combo.itemText(i))
        entry.setCheckable(True)
        entry.setChecked(i == combo.currentIndex())
        entry.triggered.connect(partial(_choose, combo, i))


def _choose(combo: QComboBox, index: int, _: bool = False) -> None:
    combo.setCurrentIndex(index)
