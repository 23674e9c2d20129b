"""What is where in the picture of a graph, and what stays there as layers open."""

from operator import is_

import numpy as np

from ggscope.analysis.graph_layout import BoxKind
from ggscope.analysis.graph_measures import NodeMeasures
from ggscope.analysis.links import Linked
from ggscope.model.graph import first_node
from ggscope.model.tables import I64
from ggscope.render.compose_graph_look import BoxLook, GraphColorBy, box_look
from ggscope.render.compose_graph_scene import Flags, GraphScene
from ggscope.render.theme import Theme
from ggscope.views.graph_camera import Camera
from ggscope.views.graph_requests import Shown

Anchor = tuple[int, float, float]
"""A layer, and where in the picture the middle of its upper edge is."""


def anchor_of(shown: Shown | None, camera: Camera, layer: int) -> Anchor | None:
    """Return where a layer is in the picture; None where it is not shown."""
    box = -1 if shown is None or layer < 0 else shown.layout.box_of_layer(layer)
    if shown is None or box < 0:
        return None
    x, y = _top_of(shown, box)
    return layer, (x - camera.x) * camera.zoom, (y - camera.y) * camera.zoom


def put_back(anchor: Anchor | None, shown: Shown, camera: Camera) -> None:
    """Move the camera so that the anchor's layer is where it was."""
    box = -1 if anchor is None else shown.layout.box_of_layer(anchor[0])
    if anchor is None or box < 0:
        return
    x, y = _top_of(shown, box)
    camera.x = x - anchor[1] / camera.zoom
    camera.y = y - anchor[2] / camera.zoom


def _top_of(shown: Shown, box: int) -> tuple[float, float]:
    layout = shown.layout
    return float(layout.x0[box] + layout.x1[box]) / 2, float(layout.y0[box])


def layer_in_view(scene: GraphScene | None) -> int:
    """Return the layer nearest to the middle of the picture, -1 for none."""
    if scene is None:
        return -1
    layout = scene.layout
    boxes = np.flatnonzero(layout.kind != BoxKind.NODE)
    if not len(boxes):
        return -1
    middle = scene.y + scene.height / 2 / scene.zoom
    away = np.maximum(layout.y0[boxes] - middle, middle - layout.y1[boxes])
    return int(layout.layer[boxes[np.argmin(away)]])


def mask_of(shown: Shown | None, rows: I64) -> Flags | None:
    """Return bool[n] that marks `rows` of the graph; None for no rows."""
    if shown is None or not len(rows):
        return None
    mask = np.zeros(len(shown.trace.graphs[shown.number]), np.bool_)
    mask[rows] = True
    return mask


def linked_nodes(shown: Shown | None, found: Linked) -> Flags | None:
    """Return bool[n] of the nodes that belong to what is selected elsewhere."""
    if shown is None or found.selection.table == "nodes":
        return None
    graphs = shown.trace.graphs
    rows = found.nodes - first_node(graphs, shown.number)
    return mask_of(shown, rows[(rows >= 0) & (rows < len(graphs[shown.number]))])


class LookCache:
    """Keeps the colours of the boxes from picture to picture."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._look: BoxLook | None = None

    def look(
        self,
        shown: Shown,
        by: GraphColorBy,
        measures: NodeMeasures | None,
        theme: Theme,
    ) -> BoxLook:
        """Return the colours of what is shown."""
        key = (shown, by, measures, theme)
        is_same = len(self._key) == len(key) and all(map(is_, self._key, key))
        if self._look is None or not is_same:
            graph = shown.trace.graphs[shown.number]
            self._look = box_look(shown.trace, graph, shown.layout, by, measures, theme)
            self._key = key
        return self._look


__all__ = [
    "Anchor",
    "LookCache",
    "anchor_of",
    "layer_in_view",
    "linked_nodes",
    "mask_of",
    "put_back",
]
