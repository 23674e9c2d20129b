"""Pictures of graphs that must not change by accident; see test_golden_timeline."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtGui import QImage

import graph_traces
from ggscope.analysis.graph.layout import GraphChoice
from ggscope.analysis.graph.measures import edges_within, predecessors
from ggscope.render.export import render_image
from ggscope.render.graph.compose import compose_graph
from ggscope.render.graph.look import GraphColorBy
from graph_scenes import graph_scene
from scenes import without_texts

Check = Callable[[QImage, str], None]


@pytest.mark.parametrize("theme_name", ["dark", "light", "print"])
def test_graph_looks_as_before(theme_name: str, check_golden: Check) -> None:
    trace = graph_traces.network_trace(4)
    scene = graph_scene(
        trace, choice=GraphChoice(frozenset({0})), theme_name=theme_name, zoom=0.8,
    )  # fmt: skip
    marked = np.arange(len(scene.table)) == 4

    picture = compose_graph(replace(scene, selected=marked))

    check_golden(render_image(without_texts(picture)), f"graph-{theme_name}")


def test_path_in_a_heat_map_looks_as_before(check_golden: Check) -> None:
    trace = graph_traces.network_trace(4)
    scene = graph_scene(
        trace, choice=GraphChoice(None), by=GraphColorBy.TIME, zoom=0.5,
    )  # fmt: skip
    nodes = predecessors(scene.table, np.array([12]))

    picture = compose_graph(
        replace(
            scene, highlighted=nodes, highlighted_edges=edges_within(scene.table, nodes)
        )
    )

    check_golden(render_image(without_texts(picture)), "graph-path")
