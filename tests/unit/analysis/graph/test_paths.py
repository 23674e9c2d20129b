"""Paths and search in graphs, against brute force and networks that are known."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_traces
from ggscope.analysis.graph.layered import sorted_by_edges
from ggscope.analysis.graph.measures import (
    critical_path,
    edges_within,
    path_edges,
    predecessors,
    successors,
)
from ggscope.analysis.graph.search import find_nodes, op_text
from ggscope.errors import QueryError
from ggscope.model.graph import Graph


def reach(graph: Graph) -> np.ndarray:
    """Return bool[n, n]: which node leads to which, with itself."""
    n = len(graph)
    reach = np.eye(n, dtype=bool)
    reach[graph.source, graph.target] = True
    for middle in range(n):
        reach |= reach[:, [middle]] & reach[[middle], :]
    return reach


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 15), st.integers(0, 30), st.booleans())
def test_reached_nodes_agree_with_the_closure(
    seed: int, n: int, m: int, acyclic: bool
) -> None:
    graph = graph_traces.random_graph(seed, n, m, acyclic=acyclic).graphs[0]
    closure, nodes = reach(graph), np.array([n // 2])

    assert np.array_equal(successors(graph, nodes), closure[n // 2])
    assert np.array_equal(predecessors(graph, nodes), closure[:, n // 2])


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 10), st.integers(0, 20))
def test_critical_path_takes_longest(seed: int, n: int, m: int) -> None:
    graph = graph_traces.random_graph(seed, n, m).graphs[0]
    time = np.random.default_rng(seed).integers(1, 50, n).astype(float)
    best = time.copy()
    for target in range(n):
        for source in graph.source[graph.target == target]:
            best[target] = max(best[target], best[source] + time[target])

    path = critical_path(graph, time)

    assert path.total == best.max() == time[path.nodes].sum()
    assert path.everything == time.sum()
    edges = set(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    steps = path.nodes.tolist()
    assert all(pair in edges for pair in pairwise(steps))


def test_critical_path_of_a_known_graph() -> None:
    # 0 → 1 → 3 and 0 → 2 → 3 → 4
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    graph = graph_traces.graph_trace(5, edges).graphs[0]

    path = critical_path(graph, np.array([1.0, 5.0, 2.0, np.nan, 3.0]))

    assert path.nodes.tolist() == [0, 1, 3, 4]
    assert path.total == 9
    assert path.n_timed == 3
    assert path_edges(graph, path.nodes).tolist() == [True, False, True, False, True]


def test_critical_path_ends_with_the_result_though_it_has_no_time() -> None:
    # 2 ends the graph; 3 is a branch beside it that has a follower.
    edges = [(0, 1), (1, 3), (3, 4), (1, 2)]
    graph = graph_traces.graph_trace(5, edges).graphs[0]

    path = critical_path(graph, np.array([np.nan, 5.0, np.nan, np.nan, np.nan]))

    assert path.nodes.tolist() == [1, 2]
    assert (path.total, path.n_timed) == (5, 1)


def test_node_that_took_no_time_is_not_one_without_a_time() -> None:
    graph = graph_traces.graph_trace(3, [(0, 1), (1, 2)]).graphs[0]

    path = critical_path(graph, np.array([2.0, 0.0, 3.0]))

    assert (path.nodes.tolist(), path.n_timed) == ([0, 1, 2], 3)


def test_critical_path_without_times_is_empty() -> None:
    graph = graph_traces.graph_trace(3, [(0, 1), (1, 2)]).graphs[0]

    path = critical_path(graph, np.full(3, np.nan))

    assert len(path.nodes) == 0
    assert path.total == 0


def test_critical_path_in_a_cycle_ends() -> None:
    graph = graph_traces.graph_trace(3, [(0, 1), (1, 2), (2, 0)]).graphs[0]

    assert critical_path(graph, np.ones(3)).nodes.tolist() == [0, 1, 2]


def test_edges_within_have_both_ends_marked() -> None:
    graph = graph_traces.graph_trace(3, [(0, 1), (1, 2)]).graphs[0]

    marked = np.array([True, True, False])

    assert edges_within(graph, marked).tolist() == [True, False]


def test_sources_come_before_targets_with_the_program_as_tie_break() -> None:
    order = sorted_by_edges(5, np.array([4, 0]), np.array([1, 3]))

    assert order.tolist() == [0, 2, 3, 4, 1]


def test_search_finds_names_and_ops_in_any_case() -> None:
    trace = graph_traces.network_trace(2)
    graph = trace.graphs[0]

    by_name = find_nodes(trace, graph, "QCUR-1")
    by_op = find_nodes(trace, graph, "rope")
    by_pattern = find_nodes(trace, graph, "/^ffn_.*-0$/")

    assert [trace.strings[int(graph.name[i])] for i in by_name] == ["Qcur-1"] * 2
    assert {op_text(trace, graph, i) for i in by_op.tolist()} == {"ROPE"}
    assert len(by_op) == 4
    assert len(by_pattern) == 4
    assert find_nodes(trace, graph, "  ").tolist() == []


def test_search_with_a_broken_pattern_says_so() -> None:
    trace = graph_traces.network_trace(1)

    with pytest.raises(QueryError, match="invalid regular expression"):
        find_nodes(trace, trace.graphs[0], "/(/")
