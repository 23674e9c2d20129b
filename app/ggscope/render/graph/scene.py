"""What a picture of a graph is composed from, where things are, and what boxes say."""

import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph.inputs import graph_input_purposes, input_title
from ggscope.analysis.graph.layered import F64
from ggscope.analysis.graph.layout import BoxKind, GraphLayout
from ggscope.analysis.graph.search import op_text
from ggscope.descriptions.selected import shape_text
from ggscope.model.graph import Graph
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import format_bytes, format_count, format_duration
from ggscope.render.batch import Align, Clip, Face, Pattern, Text
from ggscope.render.colors import label_color
from ggscope.render.graph.look import BoxLook, GraphColorBy
from ggscope.render.text_measurer import TextMeasurer, qt_measurer
from ggscope.render.theme import Theme, mix

Flags = npt.NDArray[np.bool_]
MIN_ZOOM, MAX_ZOOM = 0.002, 4.0
NEAR_ZOOM = 0.3
"""From here on boxes have round corners, borders and arrow heads."""
STUB = 9.0
"""Length of a stub, in units of the layout."""
FULL_ZOOM = 0.6
"""From here on boxes have all their words."""
SHORT_ZOOM = 0.3
"""From here on they have one short word."""
STUB_ZOOM = 0.8
_NAME_PX, _SMALL_PX, _TITLE_PX = 11.5, 10.0, 12.0
_SHORT_PX = 8.0
_MAX_PX = 17.0
_AROUND_NAME = re.compile(r"^blk\.\d+\.|\.weight$")
_Place = tuple[float, float, float, float]


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
    highlighted : bool[n_nodes], nodes of a path; all others are dimmed. None = no path.
    highlighted_edges : bool[n_edges], edges drawn in the colour of the selection.
    hover : box under the mouse, -1 = none.
    band : rubber band (x0, y0, x1, y1) in pixels of the picture.
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
    highlighted: Flags | None = None
    highlighted_edges: Flags | None = None
    hover: int = -1
    band: tuple[float, float, float, float] | None = None
    show_minimap: bool = True
    measurer: TextMeasurer = field(default_factory=qt_measurer)

    @property
    def table(self) -> Graph:
        """The graph itself."""
        return self.trace.graphs[self.graph]

    @property
    def stub(self) -> tuple[float, float]:
        """How far and which way a stub leads on from where its edge leaves a box."""
        return (STUB, 0.0) if self.layout.choice.across else (0.0, STUB)

    @property
    def clip(self) -> Clip:
        """Where boxes and lines may be drawn."""
        return Clip(0.0, 0.0, self.width, self.height)


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


def dimmed_boxes(scene: GraphScene, boxes: I64) -> Flags:
    """Return which boxes are not on the path that is highlighted, bool[len(boxes)]."""
    if scene.highlighted is None:
        return np.zeros(len(boxes), np.bool_)
    shown = np.zeros(len(scene.layout), np.bool_)
    shown[boxes_of(scene.layout, scene.highlighted)] = True
    return ~shown[boxes]


def boxes_of(layout: GraphLayout, nodes: Flags) -> I64:
    """Return all boxes that show the marked nodes (bool[n]), copies too."""
    shown = np.zeros(len(layout) + 1, np.bool_)
    shown[layout.box_of[nodes]] = True
    single = np.flatnonzero(layout.node >= 0)
    shown[single] |= nodes[layout.node[single]]
    return np.flatnonzero(shown[:-1]).astype(np.int64)


def amount_text(value: float, by: GraphColorBy, trace: Trace) -> str:
    """Return an amount of a heat map as people read it."""
    if value != value:
        return "not in the trace"
    if by is GraphColorBy.TIME:
        return format_duration(round(value), trace.clock.unit)
    if by is GraphColorBy.BYTES:
        return format_bytes(value)
    n = round(value)
    return f"{format_count(n)} access" + ("" if n == 1 else "es")


def layer_text(scene: GraphScene, layer: int) -> tuple[str, str]:
    """Return the title of a layer and how much is in it."""
    inside = scene.layout.layers.layer == layer
    n_inputs = int((inside & scene.layout.layers.is_input).sum())
    n_ops = int(inside.sum()) - n_inputs
    parts = [f"{n_ops} op" + ("" if n_ops == 1 else "s")]
    if n_inputs:
        parts.append(f"{n_inputs} input" + ("" if n_inputs == 1 else "s"))
    return f"Layer {layer}", " · ".join(parts)


def box_texts(scene: GraphScene, boxes: I64) -> list[Text]:
    """Return the texts of boxes that are in the picture, and of stubs."""
    if scene.zoom < SHORT_ZOOM:
        return []
    layout, texts = scene.layout, list[Text]()
    x0, y0, x1, y1 = (values.tolist() for values in corners(scene, boxes))
    dimmed = dimmed_boxes(scene, boxes).tolist()
    for i, box in enumerate(boxes.tolist()):
        place = (x0[i], y0[i], x1[i], y1[i])
        kind = layout.kind[box]
        if kind == BoxKind.LAYER:
            texts += _layer(scene, box, place, is_dimmed=dimmed[i])
        elif kind == BoxKind.NODE:
            texts += _node(scene, box, place, is_dimmed=dimmed[i])
    if scene.zoom >= STUB_ZOOM:
        texts += _stub_texts(scene)
    return texts


def font_size(scene: GraphScene, px: float) -> float:
    """Return a font size at this zoom, in steps that share fonts."""
    return min(round(px * scene.zoom * 2) / 2, _MAX_PX)


def _node(scene: GraphScene, box: int, place: _Place, *, is_dimmed: bool) -> list[Text]:
    x0, y0, x1, y1 = place
    graph, trace = scene.table, scene.trace
    node = int(scene.layout.node[box])
    color = _text_color(scene, box, is_dimmed=is_dimmed)
    is_input = bool(scene.layout.layers.is_input[node])
    op, name = op_text(trace, graph, node), trace.strings[int(graph.name[node])]
    inset = 7 * scene.zoom
    space = x1 - x0 - 2 * inset
    middle = (y0 + y1) / 2
    clip = scene.clip
    if scene.zoom < FULL_ZOOM:
        if is_input:  # what a nameless one is for says more than "leaf_4"
            purpose = graph_input_purposes(trace, graph).get(node, "")
            lines = [purpose or _short_name(name)]
        else:
            is_high = op and name and y1 - y0 >= 2 * _SHORT_PX + 1
            lines = [op or name, name] if is_high else [op or name]
        if y1 - y0 < _SHORT_PX:
            return []
        top = middle - (len(lines) - 1) * _SHORT_PX / 2
        return [
            Text((x0 + x1) / 2, top + i * _SHORT_PX, word, color, _SHORT_PX,
                 Face.UI, Align.CENTER, x1 - x0 - 4, clip)
            for i, word in enumerate(lines)
        ]  # fmt: skip
    size, small = font_size(scene, _NAME_PX), font_size(scene, _SMALL_PX)
    if is_input:
        title = input_title(trace, graph, node)
        # A sentence of letters of one width does not fit into the box.
        face = Face.MONO if title == name else Face.UI
        return [
            Text(x0 + inset, middle, title or "–", color, small, face, width=space,
                 clip=clip)
        ]  # fmt: skip
    if scene.look.by.is_heat:
        second = amount_text(float(scene.look.values[box]), scene.look.by, trace)
    else:
        second = shape_text(graph.shape[node])
    step = (y1 - y0) * 0.2
    first = op if not name else f"{op} {name}" if op else name
    return [
        Text(x0 + inset, middle - step, first, color, size, Face.UI, width=space,
             clip=clip),
        Text(x0 + inset, middle + step, second, color, small, Face.MONO,
             width=space, clip=clip),
    ]  # fmt: skip


def _short_name(name: str) -> str:
    """Return a weight's name without layer and kind: position and shape show these."""
    return _AROUND_NAME.sub("", name) or name


def _text_color(scene: GraphScene, box: int, *, is_dimmed: bool) -> int:
    theme, look = scene.theme, scene.look
    if look.pattern[box] != Pattern.SOLID:
        return theme.faint if is_dimmed else theme.dim
    fill = int(look.fill[box])
    return theme.faint if is_dimmed else label_color(fill)


def _layer(
    scene: GraphScene, box: int, place: _Place, *, is_dimmed: bool
) -> list[Text]:
    x0, y0, x1, y1 = place
    title, inside = layer_text(scene, int(scene.layout.layer[box]))
    color = _text_color(scene, box, is_dimmed=is_dimmed)
    inset = 10 * scene.zoom
    middle = (y0 + y1) / 2 - 2 * scene.zoom
    space = x1 - x0 - 2 * inset
    clip = scene.clip
    if scene.zoom < FULL_ZOOM:
        return [Text((x0 + x1) / 2, middle, title, color, 9.0, align=Align.CENTER,
                     width=x1 - x0 - 4, clip=clip)]  # fmt: skip
    if scene.look.by.is_heat:
        value = float(scene.look.values[box])
        inside = amount_text(value, scene.look.by, scene.trace)
    quiet = color
    if scene.look.pattern[box] == Pattern.SOLID and not is_dimmed:
        quiet = mix(color, int(scene.look.fill[box]), 0.25)
    large, small = font_size(scene, _TITLE_PX), font_size(scene, _SMALL_PX)
    return [
        Text(x0 + inset, middle, title, color, large, Face.HEADING, width=space * 0.45,
             clip=clip),
        Text(x1 - inset, middle, inside, quiet, small, Face.UI, Align.RIGHT,
             space * 0.55, clip),
    ]  # fmt: skip


def _stub_texts(scene: GraphScene) -> list[Text]:
    """Return where the edges come from that end in a stub, above each of them."""
    layout, graph = scene.layout, scene.table
    if not len(layout.stubs):
        return []
    ends, (dx, dy) = layout.stubs[:, 2:], scene.stub
    lines = ends[:, [0, 1, 0, 1]] - [dx, dy + 8, 0, 0]
    sources: dict[tuple[float, float], list[int]] = {}
    for row in in_view(scene, lines).nonzero()[0].tolist():
        at = (float(ends[row, 0]), float(ends[row, 1]))
        known = sources.setdefault(at, [])
        node = int(layout.stub_source[row])
        if node not in known:
            known.append(node)
    texts = []
    size = font_size(scene, 9.0)
    for (x, y), nodes in sources.items():
        px, py = to_picture(scene, x - dx, y - dy)  # type: ignore[arg-type]  # scalars
        name = scene.trace.strings[int(graph.name[nodes[0]])]
        text = name + (f" +{len(nodes) - 1}" if len(nodes) > 1 else "")
        texts.append(
            Text(float(px) + 5, float(py) - 1, text, scene.theme.caution, size,
                 Face.MONO, width=110 * scene.zoom, clip=scene.clip)
        )  # fmt: skip
    return texts
