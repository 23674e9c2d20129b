"""Figures of graphs: PNG, SVG and PDF, and the graph itself as DOT."""

from dataclasses import replace
from pathlib import Path

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
from ggscope.render.export import (
    CSS_DPI,
    MAX_PIXELS,
    ensure_gui_application,
    export_display_list,
)
from ggscope.render.graph.compose import compose_graph
from ggscope.render.graph.look import GraphColorBy, box_look
from ggscope.render.graph.scene import TITLE_HEIGHT, GraphScene
from ggscope.render.theme import theme as theme_named
from ggscope.writers.dot import graph_as_dot
from ggscope.writing import write_file

_PAD = 24.0
_LEGEND_SPACE = 40.0
_MIN_SIZE = (520.0, 240.0)
_MOST_PDF_PX = 19_200
"""Readers of PDF files take pages of up to 200 inches."""


def export_graph(
    trace: Trace,
    path: Path | str,
    *,
    size: tuple[int, int] | None = None,
    dpi: float = CSS_DPI,
    theme: str = "light",
    graph: int = 0,
    collapsed: bool = True,
    color_by: GraphColorBy | str = GraphColorBy.CATEGORY,
    layer: int | None = None,
    repeats_inputs: bool = False,
    title: str | None = None,
    overwrite: bool = True,
) -> None:
    """Write a graph of a trace whole.

    Parameters
    ----------
    path : ends in ``.png``, ``.svg``, ``.pdf`` or ``.dot``; a DOT file holds all nodes
        and edges, whatever the other arguments are.
    size : width and height in device-independent pixels that the graph is fitted
        into; as large as it needs to be read where None.
    graph : number of the graph in ``trace.graphs``.
    collapsed : whether the layers of the network are closed.
    color_by : a `GraphColorBy` or its value.
    layer : only this layer with its shared inputs.
    title : of the figure; the graph's own where None, "" draws none.
    overwrite : whether a file that is there may be replaced.

    Raises
    ------
    ExportError
        If there is no such graph or layer, the suffix is unknown or the file cannot be
        written.
    """
    if not 0 <= graph < len(trace.graphs):
        count = len(trace.graphs)
        raise ExportError(
            f"There is no graph {graph}: the trace has {count}."
            if count
            else "The trace has no graph. Open a graph file or the experiment's folder."
        )
    if Path(path).suffix.lower() == ".dot":
        _write_dot(trace, graph, path, overwrite=overwrite)
        return
    ensure_gui_application()
    by = _color_by(color_by)
    table = trace.graphs[graph]
    choice = opening_choice(table) if collapsed else GraphChoice(None)
    choice = replace(choice, layer=layer, repeats_inputs=repeats_inputs)
    layout = lay_out_graph(table, choice)
    if layer is not None and layer not in layout.layers.numbers:
        raise ExportError(f"There is no layer {layer} in this graph.")
    measures = None
    if by.is_heat:
        measures = node_measures(trace, graph, correlate(trace))
    scene = whole_scene(
        trace, graph, layout, by, measures, theme,
        size=size, title=graph_title(trace, graph) if title is None else title,
        most=_most(Path(path), dpi / CSS_DPI),
    )  # fmt: skip
    _write(replace(scene, scale=dpi / CSS_DPI), path, dpi, overwrite=overwrite)


def export_graph_scene(
    scene: GraphScene, path: Path | str, *, whole: bool, dpi: float = CSS_DPI
) -> None:
    """Write what a view shows, or all of it (`whole`); raises as `export_graph`."""
    if Path(path).suffix.lower() == ".dot":
        _write_dot(scene.trace, scene.graph, path)
        return
    scale = dpi / CSS_DPI
    chosen = replace(scene, hover=-1, band=None, show_minimap=False, scale=scale)
    if whole:
        chosen = replace(chosen, title=graph_title(scene.trace, scene.graph))
        chosen = _fitted(chosen, None, _most(Path(path), scale))
    _write(chosen, path, dpi)


def whole_scene(
    trace: Trace,
    graph: int,
    layout: GraphLayout,
    by: GraphColorBy,
    measures: NodeMeasures | None,
    theme: str,
    *,
    size: tuple[int, int] | None = None,
    title: str = "",
    most: float = MAX_PIXELS,
) -> GraphScene:
    """Return the scene of a whole layout; see `export_graph`.

    `most` is the longest side in pixels where `size` is None.
    """
    colors = theme_named(theme)
    look = box_look(trace, trace.graphs[graph], layout, by, measures, colors)
    scene = GraphScene(
        trace, graph, layout, look, 1.0, 1.0, colors, show_minimap=False, title=title
    )
    return _fitted(scene, size, most)


def _fitted(scene: GraphScene, size: tuple[int, int] | None, most: float) -> GraphScene:
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
    name = trace.info.paths[0].name if trace.info.paths else "trace"
    title = trace.graphs[graph].title
    return f"{name} · {title}" if title and title != name else name


def _color_by(value: GraphColorBy | str) -> GraphColorBy:
    try:
        return GraphColorBy(value)
    except ValueError:
        known = ", ".join(by.value for by in GraphColorBy)
        raise ExportError(f"A graph can be coloured by {known}, not {value}.") from None


def _most(path: Path, scale: float) -> float:
    suffix = path.suffix.lower()
    if suffix == ".png":
        return MAX_PIXELS / max(scale, 1.0) - 1
    return float(_MOST_PDF_PX if suffix == ".pdf" else 1 << 20)


def _write(
    scene: GraphScene, path: Path | str, dpi: float, *, overwrite: bool = True
) -> None:
    graph = scene.table
    export_display_list(
        compose_graph(scene),
        path,
        title=graph_title(scene.trace, scene.graph),
        description=(
            f"Computation graph of {count_words(graph)}, "
            f"coloured by {scene.look.by.value}."
        ),
        dpi=dpi,
        overwrite=overwrite,
    )


def _write_dot(
    trace: Trace, graph: int, path: Path | str, *, overwrite: bool = True
) -> None:
    text = graph_as_dot(trace, trace.graphs[graph])
    write_file(path, text.encode("utf-8"), overwrite=overwrite)
