"""Figures of graphs: PNG, SVG and PDF, and the graph itself as DOT."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ggscope.analysis.graph.layout import (
    GraphChoice,
    GraphLayout,
    lay_out_graph,
    opening_choice,
    view_ops,
)
from ggscope.analysis.graph.measures import NodeMeasures, node_measures
from ggscope.analysis.sessions.correlate import correlate
from ggscope.errors import ExportError
from ggscope.exporters.dot import graph_as_dot
from ggscope.model.graph import count_text
from ggscope.model.trace import Trace
from ggscope.render.batch import DisplayList, Pattern
from ggscope.render.colors import Entry
from ggscope.render.export import (
    MAX_PIXELS,
    NOT_MARKED,
    ExportCommand,
    Figure,
    RenderedFigure,
    trace_name,
)
from ggscope.render.figure_style import CSS_DPI, FigureStyle
from ggscope.render.frame import framed
from ggscope.render.graph.compose import compose_graph
from ggscope.render.graph.look import GraphColorBy, box_look
from ggscope.render.graph.marks import heat_bar
from ggscope.render.graph.scene import SHORT_ZOOM, GraphScene
from ggscope.render.options import changed_options, option
from ggscope.render.theme import theme as theme_named

_PAD = 24.0
_MIN_SIZE = (520.0, 240.0)
_PAGE_INCHES = 9.7
_FLAGS = ("repeats_inputs", "hides_views", "across")
_AROUND = 200.0
"""More than title and legend take."""
_MAX_PDF_PX = 19_200
"""Readers of PDF files take pages of up to 200 inches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions:
    """Options of the figure of a graph.

    Attributes
    ----------
    graph : number of the graph in ``trace.graphs``.
    collapsed : whether the layers of the network are closed.
    boxes_by : what colours the boxes, a `GraphColorBy` or its value.
    layer : only this layer with its shared inputs.
    repeats_inputs : draw shared inputs beside each of their users.
    hides_views : leave out views, reshapes and permutes, which compute nothing.
    across : from left to right.
    """

    graph: int = field(default=0, metadata=option(flag="graph"))
    collapsed: bool = field(default=True, metadata=option(flag="expanded"))
    boxes_by: GraphColorBy | str = GraphColorBy.CATEGORY
    layer: int | None = None
    repeats_inputs: bool = False
    hides_views: bool = False
    across: bool = False


def graph_figure(trace: Trace, options: GraphOptions = GraphOptions()) -> Figure:
    """Return the figure of a graph of a trace, whole; its title is the graph's own.

    Without a size it becomes as large as it needs to be read. As ``.dot`` it holds all
    nodes and edges, whatever the options are.

    Raises
    ------
    ExportError
        If there is no such graph; where it is drawn, if there is no such layer.
    """
    graph, layer = options.graph, options.layer
    if not 0 <= graph < len(trace.graphs):
        count = len(trace.graphs)
        raise ExportError(
            f"There is no graph {graph}: the trace has {count}."
            if count
            else "The trace has no graph. Open a graph file or the experiment's folder."
        )
    table = trace.graphs[graph]
    by = _color_by(options.boxes_by)

    def draw(style: FigureStyle) -> RenderedFigure:
        choice = opening_choice(table) if options.collapsed else GraphChoice(None)
        hidden = frozenset[int]()
        if options.hides_views:
            hidden = view_ops(table, trace.op_name)
        choice = replace(
            choice, layer=layer, repeats_inputs=options.repeats_inputs,
            across=options.across, hidden_ops=hidden,
        )  # fmt: skip
        layout = lay_out_graph(table, choice)
        if layer is not None and layer not in layout.layers.numbers:
            raise ExportError(f"There is no layer {layer} in this graph.")
        measures = None
        if by.is_heat:
            measures = node_measures(trace, graph, correlate(trace))
        scene = whole_scene(trace, graph, layout, by, measures, style.theme)
        return _draw_whole(scene, style)

    texts = {".dot": partial(graph_as_dot, trace, table)}
    return Figure("graph", draw, texts=texts, recipe=_export_command(trace, options))


def _export_command(
    trace: Trace, options: GraphOptions, lacks: Sequence[str] = ()
) -> ExportCommand:
    """Return the command line that makes the figure of a graph."""
    values = changed_options(options, "boxes_by", "layer", *_FLAGS)
    flags = ["--graph", str(options.graph)] if options.graph else []
    flags += [] if options.collapsed else ["--expanded"]
    opened = trace.info.opened
    return ExportCommand("graph", opened, values, tuple(flags), lacks=tuple(lacks))


def graph_scene_figure(
    scene: GraphScene, measures: NodeMeasures | None = None, *, whole: bool
) -> Figure:
    """Return the figure of what a view shows, or of all of it (`whole`)."""

    def draw(style: FigureStyle) -> RenderedFigure:
        chosen = replace(scene, hover=-1, band=None, show_minimap=False)
        if not style.seen:
            chosen = replace(
                chosen,
                selected=None,
                linked=None,
                hits=None,
                highlighted=None,
                highlighted_edges=None,
            )
        if style.theme != scene.theme.name:
            colors, by = theme_named(style.theme), scene.look.by
            boxes = box_look(
                scene.trace, scene.table, scene.layout, by, measures, colors
            )
            chosen = replace(chosen, theme=colors, look=boxes)
        return _draw_whole(chosen, style) if whole else _draw_part(chosen, style)

    dot = partial(graph_as_dot, scene.trace, scene.table)
    style = FigureStyle(theme=scene.theme.name, seen=True)
    recipe = _recipe_of(scene, is_whole=whole)
    return Figure("graph", draw, style, {".dot": dot}, recipe)


def _recipe_of(scene: GraphScene, *, is_whole: bool) -> ExportCommand:
    """Return the command line that makes the figure of a graph in a window."""
    table, choice = scene.table, scene.layout.choice
    is_expanded = choice.opened == GraphChoice(None).opened
    if not is_expanded and choice.opened != opening_choice(table).opened:
        is_whole = False
    options = GraphOptions(
        graph=scene.graph,
        collapsed=not is_expanded,
        boxes_by=scene.look.by,
        layer=choice.layer,
        repeats_inputs=choice.repeats_inputs,
        hides_views=bool(choice.hidden_ops),
        across=choice.across,
    )
    lacks = []
    if not is_whole:
        lacks.append(
            "The command draws the whole graph, with the layers closed that are so at "
            "first."
        )
    marks = (scene.selected, scene.linked, scene.hits, scene.highlighted)
    if any(mark is not None and mark.any() for mark in marks):
        lacks.append(NOT_MARKED)
    return _export_command(scene.trace, options, lacks)


def whole_scene(
    trace: Trace,
    graph: int,
    layout: GraphLayout,
    by: GraphColorBy,
    measures: NodeMeasures | None,
    theme: str,
) -> GraphScene:
    """Return the scene of a whole layout; see `graph_figure`."""
    colors = theme_named(theme)
    look = box_look(trace, trace.graphs[graph], layout, by, measures, colors)
    return GraphScene(trace, graph, layout, look, 1.0, 1.0, colors, show_minimap=False)


def _draw_whole(scene: GraphScene, style: FigureStyle) -> RenderedFigure:
    """Return the figure of all of a graph; without a size, one to be read."""
    layout, max_size = scene.layout, _max_size(style)
    if style.width is None:
        zoom = min(1.0, max_size / (max(layout.width, layout.height) + 2 * _PAD))
        width = max(layout.width * zoom + 2 * _PAD, _MIN_SIZE[0])
    else:
        width = style.width_or(0.0)
        zoom = min((width - 2 * _PAD) / max(layout.width, 1.0), 1.0)
    # A figure as wide as a column is at most as high as a page.
    page = max_size if style.width is None else _PAGE_INCHES * CSS_DPI / style.zoom
    natural_height = min(
        max(layout.height * zoom + 2 * _PAD, _MIN_SIZE[1]), page, max_size
    )

    left_out: list[str] = []

    def compose(height: float) -> DisplayList:
        fitted = _fitted(scene, width, height, style.scale)
        if fitted.zoom < SHORT_ZOOM:
            left_out.append("Texts on the boxes are too small to be drawn.")
        return compose_graph(fitted)

    return _framed(scene, style, width, natural_height, compose, left_out)


def _draw_part(scene: GraphScene, style: FigureStyle) -> RenderedFigure:
    """Return the figure of what a view shows of a graph."""
    width = style.width_or(scene.width)
    grown = width / scene.width
    scene = replace(scene, width=width, zoom=scene.zoom * grown, scale=style.scale)

    def compose(height: float) -> DisplayList:
        return compose_graph(replace(scene, height=height))

    return _framed(scene, style, width, scene.height * grown, compose, ())


def _framed(
    scene: GraphScene,
    style: FigureStyle,
    width: float,
    natural_height: float,
    compose: Callable[[float], DisplayList],
    left_out: Sequence[str],
) -> RenderedFigure:
    title, theme = graph_title(scene.trace, scene.graph), scene.theme
    entries = [Entry(word, color) for word, color in scene.look.legend]
    bars = []
    if scene.look.by.is_heat:
        bars = [heat_bar(scene)]
        hatch = Pattern.FAINT_HATCH
        entries = [Entry("not in the trace", theme.line, pattern=hatch)]
    return framed(
        style, title, compose, width=width,
        natural_height=natural_height, entries=entries, bars=bars,
        description=f"Computation graph {' of '.join(reversed(title.split(' · ')))}: "
        f"{count_text(scene.table)}, coloured by {scene.look.by.value}.",
        left_out=left_out,
    )  # fmt: skip


def _fitted(scene: GraphScene, width: float, height: float, scale: float) -> GraphScene:
    """Return the scene with all of the graph in it."""
    layout = scene.layout
    space = max(width - 2 * _PAD, 1.0), max(height - 2 * _PAD, 1.0)
    zoom = min(
        space[0] / max(layout.width, 1.0), space[1] / max(layout.height, 1.0), 1.0
    )
    x = (layout.width - width / zoom) / 2
    y = (layout.height - height / zoom) / 2
    return replace(scene, width=width, height=height, x=x, y=y, zoom=zoom, scale=scale)


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


def _max_size(style: FigureStyle) -> float:
    if style.suffix == ".png":
        return MAX_PIXELS / max(style.scale, 1.0) - _AROUND
    return float(_MAX_PDF_PX if style.suffix == ".pdf" else 1 << 20)
