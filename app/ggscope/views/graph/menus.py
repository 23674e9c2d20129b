"""Menus of the graph pane: of a box, of the layers, of paths."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMenu

from ggscope.model.tables import I64
from ggscope.views.base.plain import add_action
from ggscope.views.base.widgets import copy_name
from ggscope.views.graph.sight import GraphHit, nodes_of

if TYPE_CHECKING:
    from ggscope.views.graph.view import GraphView


def connect_menus(view: "GraphView") -> None:
    """Have the menus in the head filled whenever they open."""
    for menu, fill in (
        (view.head.view_menu, fill_view_menu),
        (view.head.path_menu, fill_path_menu),
    ):
        menu.aboutToShow.connect(menu.clear)
        menu.aboutToShow.connect(partial(fill, view, menu))


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


def _add(
    menu: QMenu, text: str, run: Callable[[], object], *, enabled: bool = True
) -> None:
    action = add_action(menu, text)
    action.setEnabled(enabled)
    action.triggered.connect(lambda _checked=False, call=run: call())


def _box_entries(view: "GraphView", menu: QMenu, rows: I64) -> None:
    shown, graph, tr = view.shown, view.graph, view.tr
    if shown is None or graph is None or not len(rows):
        return
    layers = shown.layout.layers
    layer = int(layers.layer[rows[0]])
    name = shown.trace.strings[int(graph.name[rows[0]])]
    is_node = len(rows) == 1
    what = f"“{name}”" if is_node else tr("Layer {0}").format(layer)

    def lit(show: Callable[[], None]) -> None:
        view.select_rows(rows)
        show()

    _add(menu, tr("Select {0} in the trace").format(what),
         partial(view.select_rows, rows))  # fmt: skip
    if is_node:
        _add(menu, tr("Copy name"), partial(copy_name, name))
    menu.addSeparator()
    _add(menu, tr("Predecessors"), partial(lit, view.paths.show_sources))
    _add(menu, tr("Successors"), partial(lit, view.paths.show_users))
    if layer >= 0:
        menu.addSeparator()
        choice = shown.layout.choice
        is_open = (
            choice.opened is None or layer in choice.opened or choice.layer == layer
        )
        words = tr("Close layer {0}") if is_open else tr("Open layer {0}")
        _add(menu, words.format(layer), partial(view.toggle_layer, layer))
        if choice.layer is None:
            _add(menu, tr("Draw only layer {0}").format(layer),
                 partial(view.isolate_layer, layer))  # fmt: skip


def fill_view_menu(view: "GraphView", menu: QMenu) -> None:
    """Add what concerns the whole picture."""
    shown, tr = view.shown, view.tr
    if shown is None:
        _add(menu, tr("No graph"), lambda: None, enabled=False)
        return
    choice, has_layers = shown.layout.choice, bool(len(shown.layout.layers.numbers))
    _add(menu, tr("Open all layers"), partial(view.open_all, True),
         enabled=has_layers)  # fmt: skip
    _add(menu, tr("Close all layers"), partial(view.open_all, False),
         enabled=has_layers)  # fmt: skip
    if choice.layer is not None:
        _add(menu, tr("Draw all layers"), partial(view.isolate_layer, None))
    repeats = menu.addAction(tr("Repeat shared inputs beside their users"))
    repeats.setCheckable(True)
    repeats.setChecked(choice.repeats_inputs)
    repeats.setEnabled(bool(shown.layout.layers.is_shared.any()))
    repeats.toggled.connect(view.repeat_inputs)
    menu.addSeparator()
    _add(menu, tr("Fit all"), view.fit)
    _add(menu, tr("Critical path by time"), view.paths.show_critical)
    menu.addSeparator()
    want = view.figure_wanted.emit
    _add(menu, tr("Export this view…"), lambda: want(view.figure()))
    _add(menu, tr("Export the whole graph…"), lambda: want(view.figure(whole=True)))


def fill_path_menu(view: "GraphView", menu: QMenu) -> None:
    """Add what lights paths."""
    tr, some = view.tr, bool(len(view.selected_rows()))
    _add(menu, tr("Predecessors of the selection"), view.paths.show_sources,
         enabled=some)  # fmt: skip
    _add(menu, tr("Successors of the selection"), view.paths.show_users,
         enabled=some)  # fmt: skip
    _add(menu, tr("Critical path by time"), view.paths.show_critical,
         enabled=view.shown is not None)  # fmt: skip
    menu.addSeparator()
    _add(menu, tr("Clear"), view.paths.clear, enabled=view.path_bar.isVisible())
