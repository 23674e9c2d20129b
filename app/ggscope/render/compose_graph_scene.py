"""What a picture of a graph is composed from, and where things are in it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph_layout import GraphLayout
from ggscope.analysis.graph_rows import F64
from ggscope.model.graph import Graph
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.render.batch import Clip
from ggscope.render.compose_graph_look import BoxLook
from ggscope.render.theme import Theme

Flags = npt.NDArray[np.bool_]
MIN_ZOOM, MAX_ZOOM = 0.002, 4.0
TITLE_HEIGHT = 34.0
NEAR_ZOOM = 0.3
"""From here on boxes have round corners, borders and arrow heads."""
STUB = 9.0
"""Length of a stub, in units of the layout."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphScene:
    """What a picture of a graph is composed from.

    Attributes
    ----------
    graph : number of the graph in ``trace.graphs``.
    look : colours of the boxes of `layout`.
    x, y, zoom : the layout's point (x, y) is at the top left of the picture, one unit
        is `zoom` pixels.
    selected, linked, hits : bool[n_nodes], nodes outlined as such; None = none.
    lit : bool[n_nodes], nodes of a path; all others are pale. None = no path.
    lit_edges : bool[n_edges], edges drawn in the colour of the selection.
    hover : box under the mouse, -1 = none.
    band : rubber band (x0, y0, x1, y1) in pixels of the picture.
    title : head of an exported figure, "" = none.
    """

    trace: Trace
    graph: int
    layout: GraphLayout
    look: BoxLook
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    x: float = 0.0
    y: float = 0.0
    zoom: float = 1.0
    selected: Flags | None = None
    linked: Flags | None = None
    hits: Flags | None = None
    lit: Flags | None = None
    lit_edges: Flags | None = None
    hover: int = -1
    band: tuple[float, float, float, float] | None = None
    show_minimap: bool = True
    show_legend: bool = True
    title: str = ""

    @property
    def table(self) -> Graph:
        """The graph itself."""
        return self.trace.graphs[self.graph]

    @property
    def clip(self) -> Clip:
        """Where boxes and lines may be drawn."""
        top = TITLE_HEIGHT if self.title else 0.0
        return Clip(0.0, top, self.width, max(self.height - top, 0.0))


def visible_boxes(scene: GraphScene) -> I64:
    """Return the boxes that lie in the picture, ascending."""
    layout = scene.layout
    left, top = scene.x, scene.y
    right = left + scene.width / scene.zoom
    bottom = top + scene.height / scene.zoom
    # Boxes are ordered by their top, so what begins below ends the search.
    stop = int(np.searchsorted(layout.y0, bottom))
    inside = layout.y1[:stop] > top
    inside &= (layout.x1[:stop] > left) & (layout.x0[:stop] < right)
    return np.flatnonzero(inside).astype(np.int64)


def to_picture(scene: GraphScene, x: F64, y: F64) -> tuple[F64, F64]:
    """Return where points of the layout are in the picture, in pixels.

    Far points are moved near: painters count in 32 bits.
    """
    far = 1e6
    px = np.clip((x - scene.x) * scene.zoom, -far, far)
    py = np.clip((y - scene.y) * scene.zoom, -far, far)
    return px, py


def corners(scene: GraphScene, boxes: I64) -> tuple[F64, F64, F64, F64]:
    """Return x0, y0, x1, y1 of boxes in the picture; at least a pixel each way."""
    layout = scene.layout
    x0, y0 = to_picture(scene, layout.x0[boxes], layout.y0[boxes])
    x1, y1 = to_picture(scene, layout.x1[boxes], layout.y1[boxes])
    return x0, y0, np.maximum(x1, x0 + 1), np.maximum(y1, y0 + 1)


def in_view(scene: GraphScene, segments: F64) -> Flags:
    """Return which lines (float64[s, 4]) touch the picture, bool[s]."""
    left, top = scene.x, scene.y
    right = left + scene.width / scene.zoom
    bottom = top + scene.height / scene.zoom
    x0, y0, x1, y1 = segments.T
    seen: Flags = (y1 >= top) & (y0 <= bottom)
    seen &= (np.maximum(x0, x1) >= left) & (np.minimum(x0, x1) <= right)
    return seen


def pale_boxes(scene: GraphScene, boxes: I64) -> Flags:
    """Return which boxes are not on the path that is lit, bool[len(boxes)]."""
    if scene.lit is None:
        return np.zeros(len(boxes), np.bool_)
    shown = np.zeros(len(scene.layout), np.bool_)
    shown[boxes_of(scene.layout, scene.lit)] = True
    return ~shown[boxes]


def boxes_of(layout: GraphLayout, nodes: Flags) -> I64:
    """Return all boxes that show the marked nodes (bool[n]), copies too."""
    shown = np.zeros(len(layout) + 1, np.bool_)
    shown[layout.box_of[nodes]] = True
    single = np.flatnonzero(layout.node >= 0)
    shown[single] |= nodes[layout.node[single]]
    return np.flatnonzero(shown[:-1]).astype(np.int64)


__all__ = [
    "MAX_ZOOM",
    "MIN_ZOOM",
    "NEAR_ZOOM",
    "STUB",
    "TITLE_HEIGHT",
    "GraphScene",
    "boxes_of",
    "corners",
    "in_view",
    "pale_boxes",
    "to_picture",
    "visible_boxes",
]
