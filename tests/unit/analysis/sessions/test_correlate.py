"""Spans and graph nodes are matched by name, op and order, never by address."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import OPS, finished, op_number
from ggscope.analysis.sessions.correlate import (
    Correlation,
    Rule,
    correlate,
    graph_join,
    node_text,
)
from ggscope.analysis.sessions.runs import run_hashes, runs_of
from ggscope.errors import Cancelled
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind, RawFileValues, Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from graph_traces import add_graph
from statements import new_statement
from support import need_corpus
from watchers import CancelAfter

Op = tuple[str, str]
LAYER: tuple[Op, ...] = (
    ("norm-0", "RMS_NORM"),
    ("Qcur-0", "MUL_MAT"),
    ("Qcur-0", "ROPE"),
    ("cache_k_l0 (view)", "CPY"),
    ("norm-0", "RMS_NORM"),
    ("ffn_out-0", "MUL_MAT"),
)


@dataclass(frozen=True)
class Run:
    """The ops of one pass, the token it claims, and the thread of each op."""

    ops: tuple[Op, ...]
    token: int = 0
    lanes: tuple[int, ...] = ()


def traced(
    runs: list[Run],
    graphs: list[tuple[tuple[Op, ...], int]],
    *,
    with_bands: bool = True,
    threads: int = 1,
    shuffle: int | None = None,
) -> Trace:
    """Return the runs one after the other, and graphs with their tokens."""
    builder = TraceBuilder()
    builder.ops = OPS
    lanes = [
        builder.add_lane(f"thread {i}", LaneKind.THREAD, ("Threads",))
        for i in range(threads)
    ]
    rows: list[tuple[int, int, str, str, int]] = []
    bands: list[tuple[int, int]] = []
    tick = 0
    for run in runs:
        begin = tick
        for i, (name, op) in enumerate(run.ops):
            on = run.lanes[i] if run.lanes else 0
            rows.append((tick, lanes[on], name, op, run.token))
            tick += 10
        bands.append((begin, run.token))
        tick += 100
    rows.sort(key=lambda row: (row[1], row[0]))
    if shuffle is not None:
        order = np.random.default_rng(shuffle).permutation(len(rows))
        rows = [rows[i] for i in order.tolist()]
    builder.add_spans(
        start=np.array([r[0] for r in rows], np.int64),
        end=np.array([r[0] + 8 for r in rows], np.int64),
        lane=np.array([r[1] for r in rows], np.int32),
        name=builder.strings.intern_many([r[2] for r in rows]),
        op=np.array([op_number(r[3]) for r in rows], np.int16),
        token=np.array([r[4] for r in rows], np.int32),
    )
    if with_bands:
        lane = builder.add_lane("tokens", LaneKind.TOKEN, ("Tokens",))
        builder.add_spans(
            start=np.array([b[0] for b in bands], np.int64),
            end=np.array([b[0] + 50 for b in bands], np.int64),
            lane=lane,
            name=builder.strings.intern_many([f"pass {i}" for i in range(len(bands))]),
            token=np.array([b[1] for b in bands], np.int32),
        )
    for ops, token in graphs:
        names, numbers = [o[0] for o in ops], [op_number(o[1]) for o in ops]
        add_graph(builder, names, [], ops=numbers, token=token)
    return finished(builder)


def matched(trace: Trace) -> tuple[Correlation, list[int]]:
    """Return the correlation and the node of each op span in order of time."""
    correlation = correlate(trace)
    assert correlation is not None
    ids = np.flatnonzero(trace.spans.op >= 0)
    ids = ids[np.lexsort((ids, trace.spans.start[ids]))]
    return correlation, correlation.nodes_of(ids)[0].tolist()


def rules(trace: Trace) -> str:
    """Return the words of the rules that found nodes, a line each."""
    return "\n".join(matched(trace)[0].rules)


def test_same_name_and_op_are_distinguished_by_order() -> None:
    result, nodes = matched(traced([Run(LAYER)] * 3, [(LAYER, 0)]))

    assert nodes == [0, 1, 2, 3, 4, 5] * 3
    assert result.rules == {"name, op and order": 18}
    assert (result.n_found, result.n_all, result.n_borrowed) == (18, 18, 0)


def test_same_name_with_another_op_is_another_node() -> None:
    ops = (("Qcur-0", "ROPE"),)

    result, nodes = matched(traced([Run(ops)], [(LAYER, 0)]))

    assert nodes == [2]
    assert result.node_of(0) == (2, Rule.ORDER)


def test_suffix_is_left_out_where_the_graph_has_none() -> None:
    graph = tuple((name.removesuffix(" (view)"), op) for name, op in LAYER)

    result, nodes = matched(traced([Run(LAYER)], [(graph, 0)]))

    assert nodes == [0, 1, 2, 3, 4, 5]
    assert result.rules == {
        "name, op and order": 5,
        "name without suffix, op and order": 1,
    }
    alike = rules(traced([Run(LAYER)], [(LAYER, 0)]))
    assert new_statement("\n".join(result.rules), alike)


def test_other_op_of_the_name_is_another_node() -> None:
    result, nodes = matched(traced([Run((("ffn_out-0", "ADD"),))], [(LAYER, 0)]))

    assert nodes == [-1]
    assert result.rules == {}
    assert (result.n_found, result.n_all) == (0, 1)


def test_names_of_sources_lead_to_the_ops_that_read_them() -> None:
    """A MUL_MAT that reads ``ffn_swiglu-0`` is not the GLU that computes it."""
    trace = traced([Run((("swiglu-0", "MUL_MAT"), ("w", "MUL_MAT")))] * 2, [])
    builder = TraceBuilder()
    builder.strings = trace.strings
    names = ["w", "up-0", "swiglu-0", "out-0", "other-0"]
    ops = [-1, *(op_number(o) for o in ("MUL_MAT", "GLU", "MUL_MAT", "MUL_MAT"))]
    edges = [(1, 2), (0, 3), (2, 3), (1, 4)]
    add_graph(builder, names, edges, ops=ops, leaves=[0])
    graphs = finished(builder).graphs
    none = np.zeros(0, np.int32)
    values = RawFileValues(
        name=none, layer=none, n_sources=none.astype(np.int16),
        lists_experts=none.astype(np.bool_), source_name=none, source_layer=none,
        source_index=none.astype(np.int64), source_is_zero=none.astype(np.bool_),
        has_results=False,
    )  # fmt: skip

    result, nodes = matched(replace(trace, graphs=graphs, claims=values))

    assert nodes == [3, 3, 3, 3]
    assert result.rules == {"name of a source, op and order": 4}
    assert new_statement("\n".join(result.rules), rules(replace(trace, graphs=graphs)))


def test_fewer_spans_than_nodes_are_not_said_to_be_in_order() -> None:
    result, nodes = matched(traced([Run((("norm-0", "RMS_NORM"),))], [(LAYER, 0)]))

    assert nodes == [0]
    assert result.rules == {"name and op, not order": 1}
    both = rules(traced([Run((("norm-0", "RMS_NORM"),) * 2)], [(LAYER, 0)]))
    assert new_statement("\n".join(result.rules), both)


def test_unknown_name_is_in_no_graph() -> None:
    ops = (("norm-0", "RMS_NORM"), ("mystery", "ADD"), ("norm-0", "RMS_NORM"))

    result, nodes = matched(traced([Run(ops)], [(LAYER, 0)]))

    assert nodes == [0, -1, 4]
    assert (result.n_found, result.n_all) == (2, 3)
    assert result.node_of(1) == (-1, Rule.NONE)


def test_several_passes_in_one_run_are_counted_anew() -> None:
    trace = traced([Run(LAYER * 3)], [(LAYER, 0)], with_bands=False)

    result, nodes = matched(trace)

    assert nodes == [0, 1, 2, 3, 4, 5] * 3
    assert result.rules == {"name, op and order": 18}


def test_tokens_without_bands_cut_passes() -> None:
    runs = [Run(LAYER, token) for token in range(4)]

    _, nodes = matched(traced(runs, [(LAYER, 0)], with_bands=False))

    assert nodes == [0, 1, 2, 3, 4, 5] * 4


def test_each_token_has_the_nodes_of_its_own_graph() -> None:
    runs = [Run(LAYER, token) for token in (0, 1, 2)]
    graphs = [(LAYER, 2), (LAYER, 0), (LAYER, 1)]

    result, nodes = matched(traced(runs, graphs))

    assert [node // 6 for node in nodes] == [1] * 6 + [2] * 6 + [0] * 6
    assert result.n_borrowed == 0


def test_token_without_a_graph_borrows_the_one_before_and_says_so() -> None:
    runs = [Run(LAYER, token) for token in (0, 1, 7)]

    result, nodes = matched(traced(runs, [(LAYER, 0), (LAYER, 1)]))

    assert [node // 6 for node in nodes] == [0] * 6 + [1] * 12
    assert result.n_borrowed == 6


def test_passes_that_claim_one_token_take_graphs_in_order() -> None:
    runs = [Run(LAYER, 0)] * 3
    graphs = [(LAYER, 0), (LAYER, 1), (LAYER, 2)]

    _, nodes = matched(traced(runs, graphs))

    assert [node // 6 for node in nodes] == [0] * 6 + [1] * 6 + [2] * 6


def test_threads_that_share_the_ops_out_are_one_run() -> None:
    lanes = ((0, 1, 2, 0, 1, 2), (2, 2, 0, 1, 0, 1), (1, 0, 2, 2, 1, 0))
    runs = [Run(LAYER, 0, on) for on in lanes]

    trace = traced(runs, [(LAYER, 0)], threads=3)
    result, nodes = matched(trace)

    assert nodes == [0, 1, 2, 3, 4, 5] * 3
    assert result.rules == {"name, op and order": 18}
    assert len(runs_of(trace).stretches) == 1


def test_threads_that_each_compute_every_op_are_runs_of_their_own() -> None:
    doubled = tuple(op for op in LAYER for _ in range(2))
    runs = [Run(doubled, 0, (0, 1) * len(LAYER))] * 3

    trace = traced(runs, [(LAYER, 0)], threads=2)
    _, nodes = matched(trace)

    assert nodes == [n for n in range(6) for _ in range(2)] * 3
    assert len(runs_of(trace).stretches) == 2


def test_rows_in_any_order_are_put_in_order_first() -> None:
    runs = [Run(LAYER, token, (0, 1, 0, 1, 1, 0)) for token in range(100)]

    result, nodes = matched(traced(runs, [(LAYER, 0)], threads=2, shuffle=3))

    assert nodes == [0, 1, 2, 3, 4, 5] * 100
    assert len(result.spans_of(3)) == 100


def test_alike_runs_are_matched_once() -> None:
    other = (*LAYER, ("extra", "ADD"))
    trace = traced([Run(LAYER), Run(other), Run(LAYER)] * 20, [(LAYER, 0)])

    hashes = run_hashes(trace, runs_of(trace))
    ops = hashes[: len(hashes) - 1] if len(hashes) % 3 else hashes

    assert len(np.unique(ops)) == 2


def test_leaves_are_no_ops_and_match_nothing_by_op() -> None:
    builder = TraceBuilder()
    builder.ops = OPS
    lane = builder.add_lane("thread 0", LaneKind.THREAD)
    name = builder.strings.intern("w")
    builder.add_spans(
        start=np.arange(2), end=np.arange(2) + 1, lane=lane, name=name, op=1
    )
    add_graph(builder, ["w", "w"], [(0, 1)], ops=[1, 1], leaves=[0])

    correlation = correlate(finished(builder))

    assert correlation is not None
    assert correlation.nodes_of(np.arange(2))[0].tolist() == [1, 1]


def test_nothing_to_match_gives_nothing() -> None:
    assert correlate(traced([Run(LAYER)], [])) is None
    builder = TraceBuilder()
    add_graph(builder, ["a"], [])
    assert correlate(finished(builder)) is None
    assert graph_join(finished(builder)) is None


def test_ids_beyond_the_trace_are_in_no_graph() -> None:
    correlation = correlate(traced([Run(LAYER)], [(LAYER, 0)]))
    assert correlation is not None

    assert correlation.nodes_of(np.array([-1, 99]))[0].tolist() == [-1, -1]
    assert correlation.spans_of(-1).tolist() == correlation.spans_of(6).tolist() == []
    assert correlation.rules_of(6) == ()
    assert correlation.rules_of(0) == (Rule.ORDER,)


def test_join_counts_ops_by_rule() -> None:
    join = graph_join(traced([Run((*LAYER, ("x", "ADD")))], [(LAYER, 0)]))

    assert join is not None
    assert (join.kind, join.part, join.n_found, join.n_all) == (
        "graph",
        "graph 0",
        6,
        7,
    )
    assert dict(join.rules) == {"name, op and order": 6}


def test_node_reads_as_name_op_and_graph() -> None:
    trace = traced([Run(LAYER)], [(LAYER, 4)])

    assert node_text(trace, 2) == "Qcur-0 (ROPE) in graph 4"


def test_matching_stops_when_nobody_waits() -> None:
    trace = traced([Run(LAYER)] * 5, [(LAYER, 0)])

    with pytest.raises(Cancelled):
        correlate(trace, CancelAfter(0))


def node_slow(run: tuple[Op, ...], graph: tuple[Op, ...]) -> list[int]:
    """Return the node of each op of a run that has all of the graph's ops."""
    left: dict[Op, list[int]] = {}
    for node, op in enumerate(graph):
        left.setdefault(op, []).append(node)
    return [left[op].pop(0) for op in run]


OP = st.tuples(
    st.sampled_from(["norm-0", "Qcur-0", "l_out-0", "Kcur-1"]),
    st.sampled_from(["ADD", "ROPE", "MUL_MAT"]),
)


@settings(max_examples=60, deadline=None)
@given(
    graph=st.lists(OP, min_size=1, max_size=12),
    seeds=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    shuffle=st.none() | st.integers(0, 9),
)
def test_any_order_of_the_graphs_ops_is_counted_off(
    graph: list[Op], seeds: list[int], shuffle: int | None
) -> None:
    runs = [
        tuple(graph[i] for i in np.random.default_rng(seed).permutation(len(graph)))
        for seed in seeds
    ]
    trace = traced([Run(run) for run in runs], [(tuple(graph), 0)], shuffle=shuffle)

    result, nodes = matched(trace)

    assert nodes == [node for run in runs for node in node_slow(run, tuple(graph))]
    for node in range(len(graph)):
        spans = result.spans_of(node)
        assert len(spans) == len(runs)
        assert set(result.nodes_of(spans)[0].tolist()) == {node}


@pytest.mark.parametrize(
    ("commit", "n_ops", "n_base"),
    [("3584a339", 582, 2), ("a6ba6071", 850, 2), ("962e44d2", 1696, 4)],
)
def test_real_runs_are_found_op_by_op(commit: str, n_ops: int, n_base: int) -> None:
    folder = need_corpus() / "bsc" / commit / "tensor-tracing/webui/public/data"
    trace = open_bundle(survey([folder]))

    result, nodes = matched(trace)

    assert (result.n_found, result.n_all) == (n_ops, n_ops)
    assert result.rules == {
        "name, op and order": n_ops - n_base,
        "name without suffix, op and order": n_base,
    }
    # The graph lists its nodes in the order of the program: so do both passes.
    assert int((np.diff(nodes) <= 0).sum()) == 1
