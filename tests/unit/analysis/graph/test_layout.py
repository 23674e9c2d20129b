"""Layouts of graphs: nothing lost, nothing overlapping, edges lead down."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_traces
from ggscope.analysis.graph.layered import MAX_SPAN
from ggscope.analysis.graph.layout import (
    FRAME_HEAD,
    BoxKind,
    GraphChoice,
    GraphLayout,
    graph_layers,
    lay_out_graph,
    opening_choice,
    view_ops,
)
from ggscope.errors import Cancelled
from ggscope.model.graph import Graph
from ggscope.readers import registry
from support import need_corpus

ALL = GraphChoice(None)


def network(layers: int = 4) -> Graph:
    return graph_traces.network_trace(layers).graphs[0]


def overlapping(layout: GraphLayout) -> list[tuple[int, int]]:
    """Return pairs of nodes and closed layers that cover each other."""
    boxes = np.flatnonzero(layout.kind != BoxKind.FRAME).tolist()
    overlapping = []
    for k, a in enumerate(boxes):
        for b in boxes[k + 1 :]:
            apart = (
                layout.x1[a] <= layout.x0[b]
                or layout.x1[b] <= layout.x0[a]
                or layout.y1[a] <= layout.y0[b]
                or layout.y1[b] <= layout.y0[a]
            )
            if not apart:
                overlapping.append((a, b))
    return overlapping


def check(graph: Graph, layout: GraphLayout) -> None:
    """Assert what holds for every layout of a whole graph."""
    assert overlapping(layout) == []
    assert (layout.box_of >= 0).all()
    assert np.isfinite(layout.segments).all()
    assert (layout.segments[:, 1] <= layout.segments[:, 3] + 1e-9).all()
    for low, high in ((layout.x0, layout.x1), (layout.y0, layout.y1)):
        assert (low >= -1e-9).all()
        assert (high > low).all()
    assert (layout.x1 <= layout.width + 1e-6).all()
    assert (layout.y1 <= layout.height + 1e-6).all()
    assert (np.diff(layout.y0) >= 0).all()


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    n = draw(st.integers(0, 24))
    node = st.integers(0, max(n - 1, 0))
    edges = draw(st.lists(st.tuples(node, node), max_size=50)) if n else []
    layers = draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n))
    leaves = draw(st.sets(node, max_size=4)) if n else set()
    trace = graph_traces.graph_trace(n, edges, layers=layers, leaves=sorted(leaves))
    return trace.graphs[0]


@settings(max_examples=60)
@given(graphs(), st.sampled_from([None, frozenset(), frozenset({0, 2})]), st.booleans())
def test_any_graph_with_cycles_and_loops_is_laid_out_whole(
    graph: Graph, opened: frozenset[int] | None, repeats: bool
) -> None:
    layout = lay_out_graph(graph, GraphChoice(opened, None, repeats))

    used = np.zeros(len(graph), bool)
    used[graph.source] = True
    hidden = layout.box_of < 0
    assert not (hidden & ~(layout.layers.is_shared & used)).any()
    assert overlapping(layout) == []
    proper = np.flatnonzero(graph.source != graph.target)
    assert sorted(layout.edge.tolist()) == proper.tolist()


def test_edge_into_a_repeated_leaf_is_drawn() -> None:
    edges = [(0, 7), (7, 0), (7, 1)]
    layers = [0, 1, 0, 0, 0, 0, 0, -1]
    graph = graph_traces.graph_trace(8, edges, layers=layers, leaves=[7]).graphs[0]

    layout = lay_out_graph(graph, GraphChoice(None, None, True))

    assert sorted(layout.edge.tolist()) == [0, 1, 2]


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(0, 80))
def test_edges_of_acyclic_graphs_lead_down(seed: int, n: int, m: int) -> None:
    graph = graph_traces.random_graph(seed, n, m).graphs[0]

    layout = lay_out_graph(graph, ALL)

    check(graph, layout)
    above = layout.y1[layout.box_of[graph.source]]
    assert (above < layout.y0[layout.box_of[graph.target]]).all()


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_drawn_edges_connect_their_boxes(seed: int) -> None:
    graph = graph_traces.random_graph(seed, 20, 30).graphs[0]
    layout = lay_out_graph(graph, ALL)

    for row, edge in enumerate(layout.edge.tolist()):
        one = np.zeros(graph.n_edges, bool)
        one[edge] = True
        lines = layout.segments[layout.lines_of(one)]
        if not len(lines):
            assert len(layout.stubs), row
            continue
        source = layout.box_of[graph.source[edge]]
        target = layout.box_of[graph.target[edge]]
        order = lines[np.argsort(lines[:, 1], kind="stable")]
        middle = (layout.x0 + layout.x1) / 2
        assert order[0, :2] == pytest.approx([middle[source], layout.y1[source]])
        assert order[-1, 2:] == pytest.approx([middle[target], layout.y0[target]])
        assert (order[1:, :2] == pytest.approx(order[:-1, 2:])) is True


def test_layout_is_the_same_every_time() -> None:
    graph = graph_traces.random_graph(5, 80, 160, acyclic=False).graphs[0]

    first, second = lay_out_graph(graph, ALL), lay_out_graph(graph, ALL)

    for name in ("x0", "y0", "segments", "stubs", "kind", "node"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


def test_empty_graph_has_no_boxes() -> None:
    layout = lay_out_graph(graph_traces.graph_trace(0, []).graphs[0])

    assert len(layout) == 0
    assert len(layout.segments) == len(layout.stubs) == 0


def test_network_opens_with_one_box_per_layer() -> None:
    graph = network(24)

    layout = lay_out_graph(graph)

    assert int((layout.kind == BoxKind.LAYER).sum()) == 24
    assert len(layout) <= 60
    check(graph, layout)


def test_opening_a_layer_shows_its_nodes_in_a_frame() -> None:
    graph = network()

    layout = lay_out_graph(graph, GraphChoice(frozenset({2})))

    check(graph, layout)
    frame = layout.box_of_layer(2)
    assert layout.kind[frame] == BoxKind.FRAME
    inside = np.flatnonzero((layout.layer == 2) & (layout.kind == BoxKind.NODE))
    n_inside = graph_traces.N_LAYER_NODES + graph_traces.N_LAYER_INPUTS
    assert len(inside) == n_inside
    assert (layout.x0[inside] >= layout.x0[frame]).all()
    assert (layout.x1[inside] <= layout.x1[frame]).all()
    assert (layout.y0[inside] >= layout.y0[frame]).all()
    assert (layout.y1[inside] <= layout.y1[frame]).all()


def test_alike_layers_are_laid_out_once() -> None:
    graph, cache = network(8), {}

    layout = lay_out_graph(graph, ALL, cache)

    assert len(cache) <= 3
    check(graph, layout)
    shapes = set()
    for number in range(1, 7):
        frame = layout.box_of_layer(number)
        inside = (layout.layer == number) & (layout.kind == BoxKind.NODE)
        dx = np.round(layout.x0[inside] - layout.x0[frame], 6)
        dy = np.round(layout.y0[inside] - layout.y0[frame], 6)
        shapes.add((tuple(sorted(dx)), tuple(sorted(dy))))
    assert len(shapes) == 1


def test_frames_of_a_network_stand_above_each_other() -> None:
    layout = lay_out_graph(network(8), ALL)

    frames = np.flatnonzero(layout.kind == BoxKind.FRAME)
    middles = (layout.x0 + layout.x1)[frames] / 2
    assert np.ptp(middles) < 120


def test_lines_across_frames_reach_from_node_to_node() -> None:
    graph = network()
    layout = lay_out_graph(graph, ALL)
    names = np.arange(len(graph))
    step = graph_traces.N_LAYER_NODES
    source, target = names[1 + step - 1], names[1 + step]
    edges = (graph.source == source) & (graph.target == target)
    assert edges.any()

    lines = layout.segments[layout.lines_of(edges)]

    begin, end = layout.box_of[source], layout.box_of[target]
    assert lines[:, 1].min() == pytest.approx(layout.y1[begin])
    assert lines[:, 3].max() == pytest.approx(layout.y0[end])


def test_unnamed_node_belongs_to_the_layer_around_it() -> None:
    graph = network()

    layers = graph_layers(graph)

    unnamed = 1 + 7
    assert graph.layer[unnamed] == -1
    assert layers.layer[unnamed] == 0
    assert layers.is_inferred[unnamed]
    assert layers.layer[0] == -1
    assert layers.numbers.tolist() == [0, 1, 2, 3]


def test_inputs_of_several_layers_are_shared() -> None:
    trace = graph_traces.network_trace(4)
    graph, layers = trace.graphs[0], graph_layers(trace.graphs[0])

    shared = {trace.strings[int(graph.name[i])] for i in layers.is_shared.nonzero()[0]}

    assert shared == {"positions", "mask"}


def test_repeated_inputs_stand_beside_each_user() -> None:
    graph = network(20)

    layout = lay_out_graph(graph, GraphChoice(None, None, repeats_inputs=True))

    shared = np.flatnonzero(layout.layers.is_shared)
    n_uses = int(np.isin(graph.source, shared).sum())
    copies = np.isin(layout.node, shared)
    assert int(copies.sum()) == n_uses
    assert not np.isin(layout.stub_source, shared).any()


def test_layer_filter_keeps_the_shared_inputs_it_uses() -> None:
    trace = graph_traces.network_trace(4)
    graph = trace.graphs[0]

    layout = lay_out_graph(graph, GraphChoice(frozenset(), 2))

    shown = set(layout.node[layout.node >= 0].tolist())
    layers = layout.layers
    assert shown == set(np.flatnonzero((layers.layer == 2) | layers.is_shared).tolist())
    assert layout.box_of[0] == -1


def test_long_edges_become_stubs_at_both_ends() -> None:
    n = MAX_SPAN + 2
    chain = [(i, i + 1) for i in range(n - 1)]
    graph = graph_traces.graph_trace(n, [*chain, (0, n - 1), (1, n - 1)]).graphs[0]

    layout = lay_out_graph(graph, ALL)

    assert len(layout.stubs) == 1
    assert (layout.stub_source.tolist(), layout.stub_target.tolist()) == ([0], [n - 1])
    x0, y0, x1, y1 = layout.stubs[0]
    first, last = layout.box_of[0], layout.box_of[n - 1]
    assert y0 == layout.y1[first]
    assert y1 == layout.y0[last]
    assert layout.x0[first] < x0 < layout.x1[first]
    assert layout.x0[last] < x1 < layout.x1[last]


def test_cycle_is_broken_at_its_first_node() -> None:
    graph = graph_traces.graph_trace(3, [(0, 1), (1, 2), (2, 0)]).graphs[0]

    layout = lay_out_graph(graph, ALL)

    tops = layout.y0[layout.box_of]
    assert tops[0] < tops[1] < tops[2]
    assert layout.stub_source.tolist() == [2]


def test_weights_stand_just_above_their_op() -> None:
    # 0 → 1 → 2 → 3, and leaf 4 feeds 3 only.
    graph = graph_traces.graph_trace(
        5, [(0, 1), (1, 2), (2, 3), (4, 3)], leaves=[4]
    ).graphs[0]

    layout = lay_out_graph(graph, ALL)

    assert layout.y1[layout.box_of[4]] == layout.y1[layout.box_of[2]]


def test_layout_stops_where_it_is_cancelled() -> None:
    graph = graph_traces.random_graph(1, 300, 900).graphs[0]

    class Stopped:
        cancel = threading.Event()

        def progress(self, done: int, total: int) -> None:
            raise Cancelled

    with pytest.raises(Cancelled):
        lay_out_graph(graph, ALL, watcher=Stopped())


def test_graph_without_layers_opens_whole() -> None:
    graph = graph_traces.graph_trace(3, [(0, 1), (1, 2)]).graphs[0]

    assert opening_choice(graph) == ALL
    assert len(lay_out_graph(graph)) == 3


def test_real_graph_has_few_boxes_closed_and_all_nodes_open() -> None:
    folder = need_corpus() / "bsc/962e44d2"
    path = next(folder.rglob("graphs/token-00000.json"))
    graph = registry.open_trace(path).graphs[0]

    closed, opened = lay_out_graph(graph), lay_out_graph(graph, ALL)

    assert (len(graph), graph.n_edges) == (1868, 2367)
    assert int((closed.kind == BoxKind.LAYER).sum()) == 24
    assert len(closed) <= 60
    assert np.array_equal(np.sort(opened.node[opened.node >= 0]), np.arange(1868))


@settings(max_examples=60)
@given(graphs(), st.sampled_from([None, frozenset(), frozenset({0, 2})]), st.booleans())
def test_layout_from_left_to_right_has_the_same_boxes_and_no_overlap(
    graph: Graph, opened: frozenset[int] | None, repeats: bool
) -> None:
    choice = GraphChoice(opened, None, repeats)
    down = lay_out_graph(graph, choice)
    across = lay_out_graph(graph, replace(choice, across=True))

    assert overlapping(across) == []
    assert sorted(across.edge.tolist()) == sorted(down.edge.tolist())
    for layout in (across, down):
        shown = np.flatnonzero(layout.box_of >= 0)
        single = layout.kind[layout.box_of[shown]] == BoxKind.NODE
        assert (layout.node[layout.box_of[shown]][single] == shown[single]).all()
    assert (across.box_of >= 0).tolist() == (down.box_of >= 0).tolist()
    boxes = np.flatnonzero(across.kind == BoxKind.NODE)
    size = across.x1[boxes] - across.x0[boxes], across.y1[boxes] - across.y0[boxes]
    assert (size[0] > size[1]).all()  # turned are the edges, not the boxes
    assert (across.segments[:, 1] <= across.segments[:, 3] + 1e-9).all()


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(0, 80))
def test_edges_lead_to_the_right_in_a_layout_from_left_to_right(
    seed: int, n: int, m: int
) -> None:
    graph = graph_traces.random_graph(seed, n, m).graphs[0]

    layout = lay_out_graph(graph, replace(ALL, across=True))

    check(graph, layout)
    before = layout.x1[layout.box_of[graph.source]]
    assert (before < layout.x0[layout.box_of[graph.target]]).all()


def test_frame_from_left_to_right_has_room_for_its_title() -> None:
    layout = lay_out_graph(network(), replace(ALL, across=True))

    for layer in range(4):
        frame = layout.box_of_layer(layer)
        inside = np.flatnonzero((layout.layer == layer) & (layout.kind == BoxKind.NODE))
        assert layout.kind[frame] == BoxKind.FRAME
        assert (layout.y0[inside] >= layout.y0[frame] + FRAME_HEAD - 1e-6).all()
        assert (layout.y1[inside] <= layout.y1[frame] + 1e-6).all()


def test_hidden_ops_are_seen_through_to_what_they_look_at() -> None:
    # 0 → 1 (hidden) → 2 (hidden) → 3, 0 → 4 (hidden, nobody reads it)
    edges = [(0, 1), (1, 2), (2, 3), (0, 4), (0, 3)]
    graph = graph_traces.graph_trace(5, edges, ops=[1, 7, 8, 1, 7]).graphs[0]

    layout = lay_out_graph(graph, replace(ALL, hidden_ops=frozenset({7, 8})))

    assert sorted(layout.node.tolist()) == [0, 3]
    assert [(int(graph.source[e]), int(graph.target[e])) for e in layout.edge] == [
        (2, 3), (0, 3),
    ]  # fmt: skip
    # What is hidden is shown where it leads: in the box of what it looks at.
    assert (layout.box_of[[1, 2, 4]] == layout.box_of[0]).all()
    assert len(layout.segments)


def test_hidden_op_without_a_source_stays() -> None:
    graph = graph_traces.graph_trace(3, [(0, 1), (2, 2)], ops=[7, 1, 7]).graphs[0]

    layout = lay_out_graph(graph, replace(ALL, hidden_ops=frozenset({7})))

    assert sorted(layout.node.tolist()) == [0, 1, 2]


@settings(max_examples=60)
@given(graphs(), st.sampled_from([None, frozenset(), frozenset({0, 2})]), st.booleans())
def test_any_graph_can_be_drawn_without_some_ops(
    graph: Graph, opened: frozenset[int] | None, across: bool
) -> None:
    op = np.where(np.arange(len(graph)) % 3 == 0, 7, graph.op).astype(np.int16)
    graph = replace(graph, op=np.where(graph.op < 0, graph.op, op).astype(np.int16))
    choice = GraphChoice(opened, None, False, frozenset({7}), across)

    layout = lay_out_graph(graph, choice)

    assert overlapping(layout) == []
    assert (layout.box_of >= 0).all()


def test_view_ops_are_those_that_compute_nothing() -> None:
    names = {1: "ADD", 7: "VIEW", 8: "RESHAPE", 9: "CONT"}
    graph = graph_traces.graph_trace(5, [], ops=[1, 7, 8, 9, 7], leaves=[0]).graphs[0]

    assert view_ops(graph, lambda i: names.get(i, "")) == {7, 8}


def test_lines_of_weights_are_reported_from_those_of_results() -> None:
    edges = [(0, 2), (1, 2), (2, 3)]
    graph = graph_traces.graph_trace(4, edges, leaves=[0]).graphs[0]
    layout = lay_out_graph(graph, ALL)

    for edge, feeds in ((0, True), (2, False)):
        one = np.zeros(3, np.bool_)
        one[edge] = True
        assert (layout.feeds[layout.lines_of(one)] == feeds).all()
