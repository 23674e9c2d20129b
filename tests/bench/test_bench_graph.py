import numpy as np
import pytest

import graph_traces
from ggscope.analysis.graph.layout import GraphChoice, lay_out_graph
from ggscope.analysis.graph.measures import node_measures
from ggscope.analysis.sessions.correlate import correlate
from ggscope.model.trace import Trace
from ggscope.render.export import render_image
from ggscope.render.graph.compose import compose_graph
from graph_scenes import graph_scene

ALL = GraphChoice(None)


@pytest.fixture(scope="module")
def network() -> Trace:
    """Return 96 layers: 1,829 nodes."""
    return graph_traces.network_trace(96)


@pytest.fixture(scope="module")
def flat() -> Trace:
    """Return 100,000 nodes without layers, each with two sources nearby."""
    n = 100_000
    rng = np.random.default_rng(0)
    target = np.repeat(np.arange(1, n), 2)
    source = np.maximum(target - rng.integers(1, 30, len(target)), 0)
    return graph_traces.graph_trace(
        n, list(zip(source.tolist(), target.tolist(), strict=True))
    )


def test_bench_lay_out_closed_1829_nodes(benchmark, network):
    benchmark(lay_out_graph, network.graphs[0])


def test_bench_lay_out_open_1829_nodes(benchmark, network):
    benchmark(lambda: lay_out_graph(network.graphs[0], ALL))


def test_bench_open_one_layer_1829_nodes(benchmark, network):
    cache = {}
    lay_out_graph(network.graphs[0], GraphChoice(frozenset({3})), cache)

    benchmark(lay_out_graph, network.graphs[0], GraphChoice(frozenset({5})), cache)


@pytest.mark.slow
def test_bench_lay_out_100k_nodes_without_layers(benchmark, flat):
    benchmark.pedantic(lay_out_graph, (flat.graphs[0], ALL), rounds=1)


@pytest.mark.parametrize("zoom", [0.01, 0.1, 0.4, 1.0])
def test_bench_frame_1829_nodes_1920x1080(benchmark, qapp, network, zoom):
    scene = graph_scene(network, choice=ALL, width=1920, height=1080, zoom=zoom)

    benchmark(lambda: render_image(compose_graph(scene)))


def test_bench_measures_1829_nodes_10_tokens(benchmark):
    trace = graph_traces.network_trace(96, 10)

    known = correlate(trace)

    benchmark(node_measures, trace, 0, known)
