"""Figures of graphs: PNG, SVG and PDF, and the graph itself as DOT."""

from dataclasses import replace
from functools import partial

from ggscope.analysis.graph.layout import (
    GraphChoice,
    GraphLayout,
    lay_out_graph,
    opening_choice,
)
from ggscope.analysis.graph.measures import NodeMeasures, node_measures
from ggscope.analysis.sessions.correlate import correlate
from ggscope.errors import ExportError
from ggscope.model.graph import count_words
from ggscope.model.trace import Trace
from ggscope.render.export import MAX_PIXELS, Drawn, Figure, trace_name
from ggscope.render.graph.compose import compose_graph
from ggscope.render.graph.look import GraphColorBy, box_look
from ggscope.render.graph.scene import TITLE_HEIGHT, GraphScene
from ggscope.render.look import Look
from ggscope.render.theme import theme as theme_named
from ggscope.writers.dot import graph_as_dot

_PAD = 24.0
_LEGEND_SPACE = 40.0
_MIN_SIZE = (520.0, 240.0)
_MOST_PDF_PX = 19_200
"""Readers of PDF files take pages of up to 200 inches."""


def graph_figure(
    trace: Trace,
    *,
    graph: int = 0,
    collapsed: bool = True,
    boxes_by: GraphColorBy | str = GraphColorBy.CATEGORY,
    layer: int | None = None,
    repeats_inputs: bool = False,
) -> Figure:
    """Return the figure of a graph of a trace, whole; its title is the graph's own.

    Without a size it becomes as large as it needs to be read. As ``.dot`` it holds all
    nodes and edges, whatever the other arguments are.

    Parameters
    ----------
    graph : number of the graph in ``trace.graphs``.
    collapsed : whether the layers of the network are closed.
    boxes_by : what colours the boxes, a `GraphColorBy` or its value.
    layer : only this layer with its shared inputs.

    Raises
    ------
    ExportError
        If there is no such graph; where it is drawn, if there is no such layer.
    """
    if not 0 <= graph < len(trace.graphs):
        count = len(trace.graphs)
        raise ExportError(
            f"There is no graph {graph}: the trace has {count}."
            if count
            else "The trace has no graph. Open a graph file or the experiment's folder."
        )
    table = trace.graphs[graph]

    def draw(look: Look) -> Drawn:
        by = _color_by(boxes_by)
        choice = opening_choice(table) if collapsed else GraphChoice(None)
        choice = replace(choice, layer=layer, repeats_inputs=repeats_inputs)
        layout = lay_out_graph(table, choice)
        if layer is not None and layer not in layout.layers.numbers:
            raise ExportError(f"There is no layer {layer} in this graph.")
        measures = None
        if by.is_heat:
            measures = node_measures(trace, graph, correlate(trace))
        scene = whole_scene(
            trace,
            graph,
            layout,
            by,
            measures,
            look.theme,
            size=_asked(look),
            title=graph_title(trace, graph) if look.title is None else look.title,
            most=_most(look),
        )
        return _drawn(replace(scene, scale=look.scale))

    return Figure("graph", draw, texts={".dot": partial(graph_as_dot, trace, table)})


def graph_scene_figure(
    scene: GraphScene, measures: NodeMeasures | None = None, *, whole: bool
) -> Figure:
    """Return the figure of what a view shows, or of all of it (`whole`)."""

    def draw(look: Look) -> Drawn:
        chosen = replace(
            scene, hover=-1, band=None, show_minimap=False, scale=look.scale
        )
        if look.theme != scene.theme.name:
            colors, by = theme_named(look.theme), scene.look.by
            boxes = box_look(
                scene.trace, scene.table, scene.layout, by, measures, colors
            )
            chosen = replace(chosen, theme=colors, look=boxes)
        if whole:
            title = graph_title(scene.trace, scene.graph)
            chosen = replace(chosen, title=title if look.title is None else look.title)
            chosen = _fitted(chosen, _asked(look), _most(look))
        else:
            width, height = look.size_or(chosen.width, chosen.height)
            chosen = replace(chosen, width=width, height=height)
        return _drawn(chosen)

    dot = partial(graph_as_dot, scene.trace, scene.table)
    return Figure("graph", draw, Look(theme=scene.theme.name, seen=True), {".dot": dot})


def whole_scene(
    trace: Trace,
    graph: int,
    layout: GraphLayout,
    by: GraphColorBy,
    measures: NodeMeasures | None,
    theme: str,
    *,
    size: tuple[float, float] | None = None,
    title: str = "",
    most: float = MAX_PIXELS,
) -> GraphScene:
    """Return the scene of a whole layout; see `graph_figure`.

    `most` is the longest side in pixels where `size` is None.
    """
    colors = theme_named(theme)
    look = box_look(trace, trace.graphs[graph], layout, by, measures, colors)
    scene = GraphScene(
        trace, graph, layout, look, 1.0, 1.0, colors, show_minimap=False, title=title
    )
    return _fitted(scene, size, most)


def _fitted(
    scene: GraphScene, size: tuple[float, float] | None, most: float
) -> GraphScene:
    """Return the scene with all of the graph in it."""
    layout = scene.layout
    top = _PAD + (TITLE_HEIGHT if scene.title else 0.0)
    below = _PAD + (_LEGEND_SPACE if scene.show_legend else 0.0)
    if size is None:
        longest = max(layout.width + 2 * _PAD, layout.height + top + below)
        zoom = min(1.0, most / longest)
        width = max(layout.width * zoom + 2 * _PAD, _MIN_SIZE[0])
        height = max(layout.height * zoom + top + below, _MIN_SIZE[1])
        width, height = min(width, most), min(height, most)
    else:
        width, height = float(size[0]), float(size[1])
    room = max(width - 2 * _PAD, 1.0), max(height - top - below, 1.0)
    zoom = min(room[0] / max(layout.width, 1.0), room[1] / max(layout.height, 1.0), 1.0)
    x = (layout.width - width / zoom) / 2
    spare = (room[1] - layout.height * zoom) / 2 if size is not None else 0.0
    y = -(top + max(spare, 0.0)) / zoom
    return replace(scene, width=width, height=height, x=x, y=y, zoom=zoom)


def graph_title(trace: Trace, graph: int) -> str:
    """Return what stands over a figure: the file's name and the graph's title."""
    name = trace_name(trace)
    title = trace.graphs[graph].title
    return f"{name} · {title}" if title and title != name else name


def _color_by(value: GraphColorBy | str) -> GraphColorBy:
    try:
        return GraphColorBy(value)
    except ValueError:
        known = ", ".join(by.value for by in GraphColorBy)
        raise ExportError(f"A graph can be coloured by {known}, not {value}.") from None


def _asked(look: Look) -> tuple[float, float] | None:
    is_asked = look.width is not None and look.height is not None
    return look.size_or(0.0, 0.0) if is_asked else None


def _most(look: Look) -> float:
    if look.suffix == ".png":
        return MAX_PIXELS / max(look.scale, 1.0) - 1
    return float(_MOST_PDF_PX if look.suffix == ".pdf" else 1 << 20)


def _drawn(scene: GraphScene) -> Drawn:
    return Drawn(
        compose_graph(scene),
        graph_title(scene.trace, scene.graph),
        f"Computation graph of {count_words(scene.table)}, "
        f"coloured by {scene.look.by.value}.",
    )
