"""Where one looks at a graph from, what lies there, and what is computed for it."""

from dataclasses import dataclass, replace
from operator import is_

import numpy as np

from ggscope.analysis.graph.layout import (
    BoxKind,
    Cache,
    GraphChoice,
    GraphLayout,
    lay_out_graph,
    opening_choice,
    view_ops,
)
from ggscope.analysis.graph.measures import NodeMeasures
from ggscope.analysis.links import Linked
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.nodes import drawn_node_facts
from ggscope.model.graph import first_node
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.render.graph.look import BoxLook, GraphColorBy, box_look
from ggscope.render.graph.scene import (
    MAX_ZOOM,
    MIN_ZOOM,
    Flags,
    GraphScene,
    amount_text,
    layer_text,
)
from ggscope.render.theme import Theme
from ggscope.sanitize import Html, html, join_html
from ggscope.views.base.safe_text import fact_table

_AIR = 24.0
"""Pixels around what is fitted."""
READABLE_ZOOM = 0.62
"""From here on boxes have all their words."""
_STUB_REACH_PX = 7.0
Anchor = tuple[int, float, float]
"""A layer, and where in the picture the middle of the edge is at which it begins."""


@dataclass(slots=True)
class Camera:
    """The point (x, y) of the layout is at the top left, one unit is `zoom` pixels.

    Attributes
    ----------
    is_set : whether anything was fitted yet.
    fits : what was fitted, and nothing moved since: "whole" graph, or its "head", as
        it is shown first; "" = else. That is fitted again where the picture is resized.
    """

    x: float = 0.0
    y: float = 0.0
    zoom: float = 1.0
    is_set: bool = False
    fits: str = ""

    def pan(self, dx: float, dy: float) -> None:
        """Move the picture by so many pixels."""
        self.fits = ""
        self.x -= dx / self.zoom
        self.y -= dy / self.zoom

    def zoom_at(self, factor: float, px: float, py: float) -> None:
        """Zoom; what is at pixel (px, py) stays there."""
        self.fits = ""
        x, y = self.x + px / self.zoom, self.y + py / self.zoom
        self.zoom = min(max(self.zoom * factor, MIN_ZOOM), MAX_ZOOM)
        self.x, self.y = x - px / self.zoom, y - py / self.zoom

    def centre(self, x: float, y: float, width: float, height: float) -> None:
        """Bring a point of the layout to the middle of the picture."""
        self.fits = ""
        self.x = x - width / 2 / self.zoom
        self.y = y - height / 2 / self.zoom
        self.is_set = True

    def fit(
        self,
        box: tuple[float, float, float, float],
        width: float,
        height: float,
        max_zoom: float = 1.5,
    ) -> None:
        """Show a box (x0, y0, x1, y1) of the layout whole, at most `max_zoom` large."""
        x0, y0, x1, y1 = box
        space = max(width - 2 * _AIR, 1.0), max(height - 2 * _AIR, 1.0)
        zoom = min(space[0] / max(x1 - x0, 1.0), space[1] / max(y1 - y0, 1.0), max_zoom)
        self.zoom = min(max(zoom, MIN_ZOOM), MAX_ZOOM)
        self.centre((x0 + x1) / 2, (y0 + y1) / 2, width, height)

    def fit_whole(self, layout: GraphLayout, width: float, height: float) -> None:
        """Show the whole graph."""
        self.fit((0.0, 0.0, layout.width, layout.height), width, height)
        self.fits = "whole"

    def open_on(self, layout: GraphLayout, width: float, height: float) -> None:
        """Show a graph for the first time: whole if it can be read, else its head."""
        whole = (0.0, 0.0, layout.width, layout.height)
        self.fit(whole, width, height, 1.0)
        if self.zoom < READABLE_ZOOM:
            is_across = layout.choice.across
            side, space = layout.width, width
            if is_across:
                side, space = layout.height, height
            whole_side = (space - 2 * _AIR) / max(side, 1.0)
            is_cut = whole_side < READABLE_ZOOM
            self.zoom = READABLE_ZOOM + 0.1 if is_cut else min(1.0, whole_side)
            self.centre(layout.width / 2, layout.height / 2, width, height)
            if is_across:
                self.x = -_AIR / self.zoom
                if is_cut:
                    self.y = self._first_y(layout, height)
            else:
                self.y = -_AIR / self.zoom
        self.fits = "head"

    def _first_y(self, layout: GraphLayout, height: float) -> float:
        """Return where a low picture begins: at the top row, if layers are seen then.

        Else as little below it as lets the first layer be seen.
        """
        air, numbers = _AIR / self.zoom, layout.layers.numbers
        box = layout.box_of_layer(int(numbers[0])) if len(numbers) else -1
        if box < 0:
            return -air
        y0, y1 = float(layout.y0[box]), float(layout.y1[box])
        return min(max(-air, y1 + air - height / self.zoom), y0 - air)

    def refit(self, layout: GraphLayout, width: float, height: float) -> bool:
        """Fit again what was fitted, in another size; False where nothing was."""
        if self.fits == "whole":
            self.fit_whole(layout, width, height)
        elif self.fits == "head":
            self.open_on(layout, width, height)
        return bool(self.fits)

    def bring_in(
        self,
        box: tuple[float, float, float, float],
        width: float,
        height: float,
        min_zoom: float,
    ) -> None:
        """Move a box (x0, y0, x1, y1) into the picture, as little as need be.

        Where it is larger than the picture that becomes smaller, down to a zoom of
        `least`; where it still is, one sees where it begins.
        """
        x0, y0, x1, y1 = box
        space = max(width - 2 * _AIR, 1.0), max(height - 2 * _AIR, 1.0)
        fitting = min(space[0] / max(x1 - x0, 1.0), space[1] / max(y1 - y0, 1.0))
        if fitting < self.zoom:
            zoom = min(max(fitting, min_zoom), self.zoom)
            # What is at the box's corner stays where it is.
            self.x = x0 - (x0 - self.x) * self.zoom / zoom
            self.y = y0 - (y0 - self.y) * self.zoom / zoom
            self.zoom = zoom
        air = _AIR / self.zoom
        self.x = max(self.x, x1 + air - width / self.zoom)
        self.x = min(self.x, x0 - air)
        self.y = max(self.y, y1 + air - height / self.zoom)
        self.y = min(self.y, y0 - air)
        self.fits = ""

    def keep_in(
        self, layout_width: float, layout_height: float, width: float, height: float
    ) -> None:
        """Move back to where a part of the graph is in the picture."""
        half = width / 2 / self.zoom, height / 2 / self.zoom
        self.x = min(max(self.x, -half[0]), layout_width - half[0])
        self.y = min(max(self.y, -half[1]), layout_height - half[1])

    def resize(
        self, layout: GraphLayout, width: float, height: float, wider: float
    ) -> None:
        """Fit anew what was fitted; else keep the middle, and leave no side empty."""
        if self.refit(layout, width, height):
            return
        self.x -= wider / 2 / self.zoom
        self.keep_in(layout.width, layout.height, width, height)
        space = width / self.zoom, height / self.zoom
        if layout.width <= space[0]:
            self.x = (layout.width - space[0]) / 2
        if layout.height <= space[1]:
            self.y = (layout.height - space[1]) / 2

    def fill(self, layout: GraphLayout, width: float, height: float) -> None:
        """Leave no side of the picture empty that the graph can fill, as little moved.

        A graph that is smaller than the picture is in its middle.
        """
        space, air = (width / self.zoom, height / self.zoom), _AIR / self.zoom
        self.x = _filled(self.x, layout.width, space[0], air)
        self.y = _filled(self.y, layout.height, space[1], air)


def _filled(at: float, side: float, space: float, air: float) -> float:
    """Return where a picture of `space` begins beside a graph as long as `side`."""
    if side + 2 * air <= space:
        return (side - space) / 2
    return min(max(at, -air), side + air - space)


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
    hit = _stub_at(scene, at_x, at_y)
    box = int(inside[-1]) if len(inside) else -1
    return GraphHit(box, *hit)


def _stub_at(scene: GraphScene, x: float, y: float) -> tuple[int, bool]:
    stubs = scene.layout.stubs
    if not len(stubs):
        return -1, False
    reach = _STUB_REACH_PX / scene.zoom
    best = (-1, False)
    nearest = reach
    for column, side, leaves in ((0, 1.0, True), (2, -1.0, False)):
        dx, dy = (side * part for part in scene.stub)
        away = np.hypot(stubs[:, column] + dx - x, stubs[:, column + 1] + dy - y)
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


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A graph of a trace with its layout: what the picture is drawn from."""

    trace: Trace
    number: int
    layout: GraphLayout


def laid_out(
    trace: Trace,
    number: int,
    choice: GraphChoice | None,
    cache: Cache,
    watcher: Watcher | None = None,
    *,
    across: bool = False,
    hides_views: bool = False,
) -> Shown:
    """Return a graph laid out; without a choice, as graphs are shown first."""
    graph = trace.graphs[number]
    choice = opening_choice(graph) if choice is None else choice
    hidden = view_ops(graph, trace.op_name) if hides_views else frozenset[int]()
    choice = replace(choice, across=across, hidden_ops=hidden)
    return Shown(trace, number, lay_out_graph(graph, choice, cache, watcher))


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
    camera.fits = ""
    camera.x = x - anchor[1] / camera.zoom
    camera.y = y - anchor[2] / camera.zoom


def _top_of(shown: Shown, box: int) -> tuple[float, float]:
    layout = shown.layout
    if layout.choice.across:
        return float(layout.x0[box]), float(layout.y0[box] + layout.y1[box]) / 2
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
    first, last = layout.y0[boxes], layout.y1[boxes]
    if layout.choice.across:
        middle = scene.x + scene.width / 2 / scene.zoom
        first, last = layout.x0[boxes], layout.x1[boxes]
    away = np.maximum(first - middle, middle - last)
    return int(layout.layer[boxes[np.argmin(away)]])


def mask_of(shown: Shown | None, rows: I64) -> Flags | None:
    """Return bool[n] that marks `rows` of the graph; None for no rows."""
    if shown is None or not len(rows):
        return None
    mask = np.zeros(len(shown.trace.graphs[shown.number]), np.bool_)
    mask[rows] = True
    return mask


def linked_nodes(shown: Shown | None, linked: Linked) -> Flags | None:
    """Return bool[n] of the nodes that belong to what is selected elsewhere."""
    if shown is None or linked.selection.table == "nodes":
        return None
    graphs = shown.trace.graphs
    rows = linked.nodes - first_node(graphs, shown.number)
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


def tooltip_for(
    scene: GraphScene, hit: GraphHit, measures: NodeMeasures | None
) -> Html:
    """Return rich text for what `hit` found; "" where there is nothing to say."""
    if hit.stub >= 0:
        return _stub_text(scene, hit)
    if hit.box < 0:
        return Html()
    if scene.layout.kind[hit.box] != BoxKind.NODE:
        return _layer_text(scene, hit.box)
    node = int(scene.layout.node[hit.box])
    graph, trace = scene.table, scene.trace
    facts = drawn_node_facts(trace, graph, node, scene.layout.layers, measures)
    return fact_table(trace.strings[int(graph.name[node])] or "–", facts)


def _layer_text(scene: GraphScene, box: int) -> Html:
    title, inside = layer_text(scene, int(scene.layout.layer[box]))
    lines = [inside]
    if scene.look.by.is_heat and scene.layout.kind[box] == BoxKind.LAYER:
        value = float(scene.look.values[box])
        lines.append(amount_text(value, scene.look.by, scene.trace))
    is_open = scene.layout.kind[box] == BoxKind.FRAME
    lines.append("Double-click to collapse" if is_open else "Double-click to expand")
    below = join_html((html("{}", line) for line in lines), html("<br>"))
    return html("<b>{}</b><br>{}", title, below)


def _stub_text(scene: GraphScene, hit: GraphHit) -> Html:
    layout, graph = scene.layout, scene.table
    nodes = layout.stub_target if hit.leaves else layout.stub_source
    name = scene.trace.strings[int(graph.name[nodes[hit.stub]])]
    text = "Edge to {0}" if hit.leaves else "Edge from {0}"
    return html(
        "<b>{}</b><br>{}",
        text.format(name),
        "Too long to draw; click to go to its other end",
    )
