"""Figures of graph nodes against plain counting over the spans."""

import numpy as np
import pytest

import builders
import graph_traces
from ggscope.analysis.graph.layout import graph_layers
from ggscope.analysis.graph.measures import NodeMeasures, node_measures
from ggscope.analysis.sessions.correlate import Rule, correlate
from ggscope.descriptions.nodes import drawn_node_facts
from ggscope.model.builder import TraceBuilder
from ggscope.model.graph import Graph
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace

TOKENS, LAYERS = 3, 4


@pytest.fixture(scope="module")
def trace() -> Trace:
    return graph_traces.network_trace(LAYERS, TOKENS)


def measured(trace: Trace, number: int = 0) -> NodeMeasures:
    return node_measures(trace, number, correlate(trace))


def n_ops(graph: Graph) -> int:
    return 2 + LAYERS * graph_traces.N_LAYER_NODES


def test_time_of_each_node_is_the_sum_of_its_spans(trace: Trace) -> None:
    graph = trace.graphs[0]

    figures = measured(trace)

    k = np.arange(n_ops(graph) - 1)
    assert figures.time[k].tolist() == ((k + 1) * 1_000 * TOKENS).tolist()
    assert (figures.n_spans[k] == TOKENS).all()
    assert np.nansum(figures.time) == (trace.spans.end - trace.spans.start).sum()


def test_node_without_spans_is_not_zero_but_unknown(trace: Trace) -> None:
    graph = trace.graphs[0]

    figures = measured(trace)

    missing = n_ops(graph) - 1
    assert np.isnan(figures.time[missing])
    assert figures.rule[missing] == Rule.NONE
    assert np.isnan(figures.time[missing:]).all()


def test_accesses_and_bytes_are_those_of_the_tensor(trace: Trace) -> None:
    graph = trace.graphs[0]
    names = [trace.strings[int(i)] for i in graph.name]

    figures = measured(trace)

    weight, positions = names.index("blk.1.attn_q.weight"), names.index("positions")
    assert figures.accesses[weight] == TOKENS
    assert figures.access_bytes[weight] == TOKENS * 100
    assert figures.accesses[positions] == TOKENS * LAYERS * 2
    assert figures.accesses[names.index("output.weight")] == 0
    assert np.isnan(figures.accesses[0])


def test_only_spans_of_the_graphs_token_count_where_there_are_several() -> None:
    several = graph_traces.network_trace(LAYERS, TOKENS, graphs=2)

    figures = measured(several, 1)

    # The second graph also serves token 2, which has none of its own.
    assert figures.n_spans[0] == TOKENS - 1
    assert figures.time[3] == 4_000 * (TOKENS - 1)


def spans_and_graph(
    span_names: list[str], node_names: list[str], ops: list[int], **columns: object
) -> Trace:
    """Return one span of 10, 20, 30 … ticks per name, and a graph of `node_names`."""
    builder = TraceBuilder()
    builder.ops = builders.OPS
    lane = builder.add_lane("thread 0", builders.LaneKind.THREAD, ("Threads",))
    took = (np.arange(len(span_names)) + 1) * 10
    builder.add_spans(
        start=np.cumsum(took) - took, end=np.cumsum(took), lane=lane,
        name=builder.strings.intern_many(span_names), op=1, **columns,
    )  # fmt: skip
    graph_traces.add_graph(builder, node_names, [], ops=ops)
    return builders.finished(builder)


def test_nodes_of_one_name_and_op_are_distinguished_by_order() -> None:
    trace = spans_and_graph(["a", "a", "a", "a"], ["a", "b", "a"], [1, 1, 1])

    figures = measured(trace)

    assert figures.time[[0, 2]].tolist() == [10 + 30, 20 + 40]
    assert np.isnan(figures.time[1])
    assert figures.rule[0] == figures.rule[2] == Rule.ORDER


def test_weakest_rule_is_reported() -> None:
    trace = spans_and_graph(["q (view)", "k"], ["q", "k"], [1, 1])

    figures = measured(trace)

    assert figures.time.tolist() == [10, 20]
    assert figures.rule.tolist() == [Rule.BASE_ORDER, Rule.ORDER]


def test_times_are_those_of_the_spans_that_are_linked(trace: Trace) -> None:
    known = correlate(trace)
    assert known is not None

    measures = node_measures(trace, 0, known)

    for node in (0, 7, 20):
        spans = known.spans_of(node)
        took = trace.spans.end[spans] - trace.spans.start[spans]
        assert measures.time[node] == took.sum()


def test_worst_quality_of_the_spans_is_reported() -> None:
    flags = np.array([0, SpanFlag.ESTIMATED], np.uint16)
    trace = spans_and_graph(["a", "a"], ["a"], [1], flags=flags)

    figures = measured(trace)
    facts = drawn_node_facts(
        trace, trace.graphs[0], 0, graph_layers(trace.graphs[0]), figures
    )

    time = next(f for f in facts if f.label == "time")
    assert time.value == "30 ns in 2 spans, estimated"
    assert time.caution


@pytest.mark.parametrize(
    ("flags", "time", "value"),
    [
        ((0, 4), 10.0, "at least 10 ns in 2 spans, 1 unfinished"),
        ((4, 4), np.nan, "2 spans without a recorded end, unfinished"),
    ],
)
def test_spans_without_an_end_add_no_time(
    flags: tuple[int, int], time: float, value: str
) -> None:
    bits = np.array(flags, np.uint16)
    trace = spans_and_graph(["a", "a"], ["a"], [1], flags=bits)

    figures = measured(trace)
    facts = drawn_node_facts(
        trace, trace.graphs[0], 0, graph_layers(trace.graphs[0]), figures
    )

    assert np.array_equal(figures.time, [time], equal_nan=True)
    assert figures.n_open.tolist() == [sum(bit == SpanFlag.UNFINISHED for bit in flags)]
    assert next(f for f in facts if f.label == "time").value == value


def test_facts_show_what_is_not_in_the_trace(trace: Trace) -> None:
    graph = trace.graphs[0]
    figures = measured(trace)
    layers = graph_layers(graph)

    missing = drawn_node_facts(trace, graph, n_ops(graph) - 1, layers, figures)
    unnamed = drawn_node_facts(trace, graph, 8, layers, figures)

    assert {f.label: f.value for f in missing}["time"] == "not in the trace"
    values = {f.label: f.value for f in unnamed}
    assert values["layer"] == "0 (inferred from its place)"
    assert values["shape"] == "64 × 9"
    assert values["matched by"] == "name, op and order"
    assert values["address"] == "0x1080"


def test_graph_without_spans_knows_nothing() -> None:
    alone = graph_traces.graph_trace(3, [(0, 1)])

    figures = measured(alone)

    assert np.isnan(figures.time).all()
    assert np.isnan(figures.accesses).all()


def test_chunks_do_not_change_the_sums(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = measured(trace)
    monkeypatch.setattr("ggscope.analysis.workers.chunks.__defaults__", (7,))

    parts = measured(trace)

    for name in ("time", "n_spans", "rule", "accesses", "access_bytes"):
        assert np.array_equal(
            getattr(whole, name), getattr(parts, name), equal_nan=name != "rule"
        )
