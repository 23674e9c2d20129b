"""Nodes of listed ops against the graph that the list was written from."""

import numpy as np
import pytest

import op_files
import profile_files
from builders import empty_trace
from ggscope.analysis.backends.graph_nodes import Rule, joined_nodes
from ggscope.model.backend_ops import BackendOps
from ggscope.model.graph import NodeFlag, first_node
from ggscope.model.trace import Trace
from ggscope.readers.common.op_lines import scan_op_text
from ggscope.readers.common.op_listing import listing_of
from ggscope.readers.registry import open_trace
from graph_traces import network_trace
from op_files import Node, Split


def rows_of(trace: Trace, graph: int = 0) -> list[int]:
    """Return the rows of a graph that something computes, in its order."""
    one = trace.graphs[graph]
    return np.flatnonzero((one.flags & NodeFlag.LEAF) == 0).tolist()


def nodes_of(trace: Trace, rows: list[int]) -> list[Node]:
    one = trace.graphs[0]
    return [
        Node(
            i, trace.op_name(int(one.op[row])), trace.strings[int(one.name[row])],
            1024, "CPU",
        )
        for i, row in enumerate(rows)
    ]  # fmt: skip


def listed(nodes: list[Node], n_graphs: int = 1) -> BackendOps:
    graphs = [[Split(0, "CPU", [], nodes)] for _ in range(n_graphs)]
    listing = listing_of(scan_op_text(op_files.scheduler(graphs)))
    assert listing is not None
    return listing


@pytest.mark.parametrize("n_graphs", [1, 3])
def test_ops_of_a_list_are_the_nodes_that_they_were_written_from(n_graphs):
    trace = network_trace(4, graphs=1)
    rows = rows_of(trace)

    node_join = joined_nodes(trace, listed(nodes_of(trace, rows), n_graphs))

    assert node_join.node.tolist() == rows * n_graphs
    assert node_join.n_found == len(rows) * n_graphs


def test_names_that_repeat_are_counted_off_in_order():
    trace = network_trace(2)
    rows = rows_of(trace)
    nodes = nodes_of(trace, rows)
    names = [node.name for node in nodes]

    node_join = joined_nodes(trace, listed(nodes))

    assert len(set(names)) < len(names)
    assert node_join.node.tolist() == rows


def test_ops_that_the_list_calls_otherwise_are_found_by_name():
    trace = network_trace(2)
    rows = rows_of(trace)
    nodes = nodes_of(trace, rows)
    names = [node.name for node in nodes]
    unique = [i for i, name in enumerate(names) if names.count(name) == 1]
    nodes[unique[0]].op = "SWIGLU"

    node_join = joined_nodes(trace, listed(nodes))

    assert node_join.node.tolist() == rows
    assert node_join.rule[unique[0]] == Rule.RENAMED


def test_lists_of_another_graph_are_left_alone():
    trace = network_trace(2)
    nodes = [Node(i, "ADD", f"other-{i}", 1024, "CPU") for i in range(4)]

    node_join = joined_nodes(trace, listed(nodes))

    assert node_join.n_found == 0
    assert set(node_join.rule.tolist()) == {Rule.NONE}


def test_ids_count_over_all_graphs():
    trace = network_trace(3, graphs=2)
    rows = rows_of(trace, 0)

    node_join = joined_nodes(trace, listed(nodes_of(trace, rows)))

    ids = set(rows) | {row + first_node(trace.graphs, 1) for row in rows}
    assert node_join.n_found == len(rows)
    assert set(node_join.node.tolist()) <= ids


def test_records_without_names_are_found_by_op_shapes_and_order(tmp_path):
    trace = network_trace(2)
    graph, rows = trace.graphs[0], rows_of(trace)
    _, records = profile_files.profile(1, len(rows))
    for record, row in zip(records, rows, strict=True):
        edges = np.flatnonzero(graph.target == row)
        edges = edges[np.argsort(graph.slot[edges])][:3]
        shapes = [graph.shape[source].tolist() for source in graph.source[edges]]
        record["type"] = 0
        record["name"] = trace.op_name(int(graph.op[row]))
        for k in range(3):
            record[f"ne_src{k}"] = shapes[k] if k < len(shapes) else [0] * 4
    path = tmp_path / "profile.json"
    path.write_bytes(profile_files.profile(1, records=records)[0])
    listing = open_trace(path).backend_ops
    assert listing is not None

    node_join = joined_nodes(trace, listing)

    few = [row for row in rows if np.count_nonzero(graph.target == row) <= 3]
    assert [n for n in node_join.node.tolist() if n in few] == few
    assert set(node_join.rule[node_join.node >= 0].tolist()) == {Rule.SHAPE}


def test_a_list_without_a_graph_beside_has_no_nodes():
    trace = network_trace(1)
    listing = listed(nodes_of(trace, rows_of(trace)))

    alone = joined_nodes(empty_trace(), listing)

    assert set(alone.node.tolist()) == {-1}
