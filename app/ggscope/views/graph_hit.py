"""What lies under the mouse in the picture of a graph."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.graph_layout import BoxKind
from ggscope.model.tables import I64
from ggscope.render.compose_graph_scene import STUB, GraphScene

_STUB_REACH_PX = 7.0


@dataclass(frozen=True, slots=True)
class GraphHit:
    """What is at a position.

    Attributes
    ----------
    box : of the layout, -1 none. A node wins over the frame around it.
    stub : row of ``layout.stubs``, -1 none.
    leaves : whether it is the end where the edge leaves.
    """

    box: int = -1
    stub: int = -1
    leaves: bool = False


def hit_at(scene: GraphScene, x: float, y: float) -> GraphHit:
    """Return what is at position (x, y) of the picture."""
    layout = scene.layout
    at_x, at_y = scene.x + x / scene.zoom, scene.y + y / scene.zoom
    stop = int(np.searchsorted(layout.y0, at_y, "right"))
    inside = np.flatnonzero(
        (layout.y1[:stop] >= at_y)
        & (layout.x0[:stop] <= at_x)
        & (layout.x1[:stop] >= at_x)
    )
    solid = inside[layout.kind[inside] != BoxKind.FRAME]
    if len(solid):
        return GraphHit(int(solid[-1]))
    found = _stub_at(scene, at_x, at_y)
    box = int(inside[-1]) if len(inside) else -1
    return GraphHit(box, *found)


def _stub_at(scene: GraphScene, x: float, y: float) -> tuple[int, bool]:
    stubs = scene.layout.stubs
    if not len(stubs):
        return -1, False
    reach = _STUB_REACH_PX / scene.zoom
    best = (-1, False)
    nearest = reach
    for column, shift, leaves in ((0, STUB, True), (2, -STUB, False)):
        away = np.hypot(stubs[:, column] - x, stubs[:, column + 1] + shift - y)
        row = int(np.argmin(away))
        if away[row] <= nearest:
            nearest, best = float(away[row]), (row, leaves)
    return best


def nodes_in(scene: GraphScene, band: tuple[float, float, float, float]) -> I64:
    """Return the rows of nodes whose boxes touch a rectangle of the picture."""
    layout = scene.layout
    x0, x1 = sorted((band[0], band[2]))
    y0, y1 = sorted((band[1], band[3]))
    left, right = scene.x + x0 / scene.zoom, scene.x + x1 / scene.zoom
    top, bottom = scene.y + y0 / scene.zoom, scene.y + y1 / scene.zoom
    touched = (layout.x0 <= right) & (layout.x1 >= left)
    touched &= (layout.y0 <= bottom) & (layout.y1 >= top)
    touched &= layout.kind != BoxKind.FRAME
    shown = layout.box_of >= 0
    chosen = np.zeros(len(layout.box_of), np.bool_)
    chosen[shown] = touched[layout.box_of[shown]]
    copies = np.flatnonzero(touched & (layout.node >= 0))
    chosen[layout.node[copies]] = True
    return np.flatnonzero(chosen).astype(np.int64)


def nodes_of(scene: GraphScene, box: int) -> I64:
    """Return the rows of the nodes that a box or frame stands for."""
    layout = scene.layout
    node = int(layout.node[box])
    if node >= 0:
        return np.array([node], np.int64)
    return np.flatnonzero(layout.layers.layer == layout.layer[box]).astype(np.int64)


__all__ = ["GraphHit", "hit_at", "nodes_in", "nodes_of"]
