"""Scenes of graphs for the tests of the composer, the goldens and the benchmarks."""

from ggscope.analysis.graph.layout import GraphChoice, lay_out_graph
from ggscope.analysis.graph.measures import node_measures
from ggscope.analysis.sessions.correlate import correlate
from ggscope.model.trace import Trace
from ggscope.render.graph.look import GraphColorBy, box_look
from ggscope.render.graph.scene import GraphScene
from ggscope.render.theme import theme


def graph_scene(
    trace: Trace,
    *,
    choice: GraphChoice | None = None,
    by: GraphColorBy = GraphColorBy.CATEGORY,
    theme_name: str = "dark",
    width: float = 900,
    height: float = 600,
    **values: object,
) -> GraphScene:
    """Return a scene of a trace's first graph; centred, at zoom 1 by default."""
    graph = trace.graphs[0]
    layout = lay_out_graph(graph, choice)
    measures = node_measures(trace, 0, correlate(trace)) if by.is_heat else None
    colors = theme(theme_name)
    zoom = float(values.get("zoom", 1.0))  # type: ignore[arg-type]
    place = {"x": (layout.width - width / zoom) / 2, "y": -20 / zoom, "zoom": zoom}
    return GraphScene(
        trace, 0, layout, box_look(trace, graph, layout, by, measures, colors),
        width, height, colors, **{**place, **values},  # type: ignore[arg-type]
    )  # fmt: skip
