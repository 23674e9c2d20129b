"""Who computes what an op reads, against all assignments that are consistent."""

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from dependency_traces import Op, dependency_trace, span_named
from ggscope.analysis.graph.dependencies import PassEdges, op_links, pass_edges
from ggscope.analysis.graph.op_links import (
    NO_LINKS,
    EdgeSource,
    NoEdges,
    NoPass,
    NoProducer,
)
from ggscope.analysis.sessions.correlate import correlate
from ggscope.api import open as open_trace
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    FlatAccesses,
    Flows,
    Space,
    SpanFlag,
)
from ggscope.model.trace import LaneKind, Trace
from graph_traces import add_graph, network_trace
from support import need_corpus

SAMPLES = Path(__file__).parents[4] / "resources" / "samples"

_NAMES = ("a", "b", "c")
_reads = st.lists(
    st.tuples(st.sampled_from(_NAMES), st.sampled_from((0, 16, 32))), max_size=3
)
_ops = st.lists(st.tuples(st.sampled_from(_NAMES), _reads), min_size=1, max_size=7)


def edges_of(trace: Trace, span: int) -> PassEdges:
    edges = pass_edges(trace, span, correlate(trace))
    assert isinstance(edges, PassEdges)
    return edges


def pairs(edges: PassEdges) -> set[tuple[int, int]]:
    return set(zip(edges.source.tolist(), edges.target.tolist(), strict=True))


def names_of(trace: Trace, links: tuple) -> list[str]:
    return [trace.span_name(link.span) for link in links]


# -- names --------------------------------------------------------------------


def consistent(
    writers: list[int], reads: list[tuple[int, int]]
) -> list[tuple[int, ...]]:
    """Return every way in which reads (reader, address) can be of results of a name.

    A result is of a writer before the reader; it has a reader if any read comes
    behind it; and what another result has overwritten cannot be read any more.
    """
    choices = [[w for w in writers if w < reader] for reader, _ in reads]
    ways = []
    for way in product(*choices):
        must = {w for w in writers if any(w < reader for reader, _ in reads)}
        # A result that no op reads before the name is written again, or at all, may
        # be the output of the pass.
        for w, border in pairwise([*writers, 1 << 30]):
            if not any(w < reader <= border for reader, _ in reads):
                must.discard(w)
        if not must <= set(way):
            continue
        is_overwritten = any(
            address and address == other_address and mine < other < reader
            for (reader, address), mine in zip(reads, way, strict=True)
            for (_, other_address), other in zip(reads, way, strict=True)
        )
        if not is_overwritten:
            ways.append(way)
    return ways


def edges_slow(ops: list[Op]) -> tuple[set[tuple[int, int]], set[tuple[int, str]]]:
    """Return the edges by names, and (reader, name) of what is ambiguous."""
    edges: set[tuple[int, int]] = set()
    ambiguous: set[tuple[int, str]] = set()
    for name in _NAMES:
        writers = [i for i, (result, _) in enumerate(ops) if result == name]
        reads = [
            (i, address)
            for i, (_, of_op) in enumerate(ops)
            for read, address in of_op
            if read == name and any(w < i for w in writers)
        ]
        ways = consistent(writers, reads)
        for at, (reader, _) in enumerate(reads):
            last = max(w for w in writers if w < reader)
            if {way[at] for way in ways} == {last}:
                edges.add((last, reader))
            else:
                ambiguous.add((reader, name))
    return edges, ambiguous


@settings(max_examples=400)
@given(_ops)
def test_edges_by_name_are_what_all_consistent_ways_share(ops: list[Op]) -> None:
    trace = dependency_trace([ops])

    edges = edges_of(trace, 1)

    certain, ambiguous = edges_slow(ops)
    assert pairs(edges) <= certain
    report = {(o.op, o.name) for o in edges.open if o.why is NoProducer.AMBIGUOUS}
    assert ambiguous <= report
    assert {int(how) for how in edges.how} <= {EdgeSource.NAME}


def test_name_that_one_op_writes_is_certain() -> None:
    trace = dependency_trace([[("x", []), ("y", [("x", 0)]), ("z", [("x", 0)])]])

    links = op_links(trace, span_named(trace, "x"), None)

    assert names_of(trace, links.consumers) == ["y", "z"]
    assert not links.inputs


def test_name_that_is_rewritten_is_of_the_last_writer_where_it_has_one_reader() -> None:
    ops: list[Op] = [
        ("Qcur", []), ("Qcur", [("Qcur", 0)]), ("kqv", [("Qcur", 0)]),
    ]  # fmt: skip
    trace = dependency_trace([ops])

    assert pairs(edges_of(trace, 1)) == {(0, 1), (1, 2)}


def test_name_of_two_results_with_several_readers_is_ambiguous() -> None:
    ops: list[Op] = [
        ("x", []), ("x", []), ("y", [("x", 16)]), ("z", [("x", 32)]),
    ]  # fmt: skip
    trace = dependency_trace([ops])

    links = op_links(trace, span_named(trace, "y"), None)

    assert not links.inputs
    assert [(o.name, o.why, o.n_writers) for o in links.open] == [
        ("x", NoProducer.AMBIGUOUS, 2)
    ]


def test_name_that_no_op_of_the_pass_has_written_has_no_producer() -> None:
    ops: list[Op] = [("y", [("x", 0)]), ("x", [])]
    trace = dependency_trace([ops, ops])

    links = op_links(trace, span_named(trace, "y", 1), None)

    assert not links.inputs
    assert [o.why for o in links.open] == [NoProducer.NOT_WRITTEN]


@given(st.lists(_ops, min_size=2, max_size=4), st.integers(0, 3))
def test_edges_never_leave_their_token(passes: list[list[Op]], token: int) -> None:
    trace = dependency_trace(passes)
    assert trace.spans.token is not None
    token %= len(passes)
    span = int(np.flatnonzero(trace.spans.token == token)[1])

    edges = edges_of(trace, span)

    assert set(trace.spans.token[edges.ops.spans].tolist()) == {token}
    assert pairs(edges) == pairs(edges_of(dependency_trace([passes[token]]), 1))


def test_names_show_nothing_where_ops_may_be_missing(monkeypatch) -> None:
    trace = dependency_trace([[("x", []), ("y", [("x", 0)])]])
    monkeypatch.setattr(
        "ggscope.analysis.graph.dependencies.hidden_ops", lambda _: "ops filtered"
    )

    links = op_links(trace, 1, None)

    assert links.unknown is NoEdges.OPS_HIDDEN
    assert not links.consumers


# -- graphs ---------------------------------------------------------------------


def graph_edges_slow(trace: Trace, number: int) -> set[tuple[str, str]]:
    """Return names of nodes that reach each other through views alone."""
    graph = trace.graphs[number]
    views = ("VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE")
    sources: dict[int, list[int]] = {}
    for source, target in zip(graph.source, graph.target, strict=True):
        sources.setdefault(int(target), []).append(int(source))

    def computed(node: int) -> set[int]:
        slow = set()
        for source in sources.get(node, ()):
            if trace.op_name(int(graph.op[source])) in views:
                slow |= computed(source)
            elif int(graph.op[source]) >= 0:
                slow.add(source)
        return slow

    def name(node: int) -> str:
        return trace.strings[int(graph.name[node])]

    return {
        (name(source), name(node))
        for node in range(len(graph))
        if int(graph.op[node]) >= 0 and trace.op_name(int(graph.op[node])) not in views
        for source in computed(node)
    }


@pytest.mark.parametrize("token", [0, 1])
def test_edges_of_a_graph_are_those_between_its_ops(token: int) -> None:
    trace = network_trace(3, tokens=2, graphs=2)
    assert trace.spans.token is not None
    span = int(np.flatnonzero(trace.spans.token == token)[4])

    edges = edges_of(trace, span)

    ops = edges.ops.ops
    named = {
        (trace.span_name(int(ops[a])), trace.span_name(int(ops[b])))
        for a, b in pairs(edges)
    }
    recorded = {trace.span_name(int(i)) for i in ops}
    expected = {
        (a, b)
        for a, b in graph_edges_slow(trace, token)
        if a in recorded and b in recorded and a != b
    }
    assert named - {(a, b) for a, b in named if a == b} == expected
    assert {int(how) for how in edges.how} == {EdgeSource.GRAPH}
    assert set(trace.spans.token[ops].tolist()) == {token}


def viewed(*, fused: bool) -> Trace:
    """Return x, a view of it, and y, which reads the view; z has no span."""
    builder = TraceBuilder()
    builder.ops = builders.OPS
    lane = builder.add_lane("thread 0", LaneKind.THREAD)
    names = builder.strings.intern_many(["x", "y", "w"])
    flags = [SpanFlag.FUSED if fused else 0, 0, 0]
    builder.add_spans(
        start=np.array([0, 10, 20]), end=np.array([10, 20, 30]), lane=lane,
        name=names, op=np.full(3, 1, np.int16), flags=np.array(flags, np.uint16),
    )  # fmt: skip
    add_graph(
        builder,
        ["x", "x (view)", "y", "z", "w"] if not fused else ["x", "z", "y", "-", "w"],
        [(0, 1), (1, 2), (2, 3), (3, 4)] if not fused else [(0, 1), (1, 2), (2, 4)],
        ops=[1, 0, 1, 1, 1] if not fused else [1, 2, 1, 1, 1],
    )
    return builders.finished(builder)


def test_edges_of_a_graph_pass_through_views_and_stop_at_lost_ops() -> None:
    trace = viewed(fused=False)

    links = op_links(trace, 1, correlate(trace))
    lost = op_links(trace, 2, correlate(trace))

    assert names_of(trace, links.inputs) == ["x"]
    assert not lost.inputs
    assert [(o.name, o.why) for o in lost.open] == [("z", NoProducer.NOT_RECORDED)]


def test_node_that_ran_within_a_span_is_that_span() -> None:
    trace = viewed(fused=True)

    links = op_links(trace, 1, correlate(trace))

    assert names_of(trace, links.inputs) == ["x"]
    assert names_of(trace, links.consumers) == ["w"]
    assert not links.open


def test_names_agree_with_the_graph_of_a_recorded_run() -> None:
    trace = open_trace(SAMPLES / "moe-experiment")
    spans = [int(np.flatnonzero(trace.spans.token == k)[3]) for k in (0, 1, 5)]
    for span in spans:
        by_graph = edges_of(trace, span)
        by_name = pass_edges(trace, span, None)
        assert isinstance(by_name, PassEdges)

        assert len(by_graph.source) > 100
        assert pairs(by_name) < pairs(by_graph)
        assert not by_graph.open


@pytest.mark.parametrize("folder", ["962e44d2", "a6ba6071"])
def test_names_agree_with_graphs_of_the_corpus(folder: str) -> None:
    data = need_corpus() / "bsc" / folder / "tensor-tracing/webui/public/data"
    name = "token-00000.json"
    trace = open_trace(data / "traces" / name, beside=[data / "graphs" / name])
    span = int(np.flatnonzero(trace.spans.op >= 0)[0])

    by_graph, by_name = edges_of(trace, span), pass_edges(trace, span, None)

    assert isinstance(by_name, PassEdges)
    assert len(by_name.source) > 400
    assert pairs(by_name) <= pairs(by_graph)
    assert not by_graph.open


# -- recorded, and what is not known ------------------------------------------


def test_recorded_dependencies_of_a_pass_are_edges() -> None:
    trace = dependency_trace([[("x", []), ("y", [])], [("x", [])]])
    flows = Flows(np.array([1, 1]), np.array([2, 4]))
    trace = replace(trace, flows=flows)

    links = op_links(trace, 1, None)

    assert [(link.span, link.how) for link in links.consumers] == [
        (2, EdgeSource.RECORDED)
    ]


def test_span_that_is_no_op_has_no_links() -> None:
    trace = dependency_trace([[("x", [])]])

    assert op_links(trace, 0, None) is NO_LINKS
    assert op_links(trace, 99, None) is NO_LINKS


def test_trace_without_graph_and_sources_is_unknown() -> None:
    trace = builders.spans_trace([0, 10], [10, 20], op=1)

    assert op_links(trace, 1, correlate(trace)).unknown is NoEdges.NO_SOURCES


def test_ops_of_passes_that_overlap_are_unknown() -> None:
    builder = TraceBuilder()
    builder.ops = builders.OPS
    tokens = builder.add_lane("tokens", LaneKind.TOKEN)
    lane = builder.add_lane("thread 0", LaneKind.THREAD)
    builder.add_spans(
        start=np.array([0, 50, 60]), end=np.array([100, 150, 70]),
        lane=np.array([tokens, tokens, lane], np.int32),
        op=np.array([-1, -1, 1], np.int16),
    )  # fmt: skip

    assert op_links(builders.finished(builder), 2, None).unknown is NoPass.OVERLAP


def test_spans_of_threads_that_share_an_op_are_one_op() -> None:
    ops: list[Op] = [("x", []), ("x", []), ("y", [("x", 0)]), ("y", [("x", 0)])]
    times = [[(0, 90), (2, 95), (100, 190), (101, 180)]]
    trace = dependency_trace([ops], lanes=[[0, 1, 0, 1]], times=times)
    flags = np.zeros(len(trace.spans), np.uint16)
    flags[[2, 4]] = SpanFlag.REPEATED
    trace = replace(trace, spans=replace(trace.spans, flags=flags))

    edges = edges_of(trace, 1)

    assert edges.ops.ops.tolist() == [1, 3]
    assert pairs(edges) == {(0, 1)}
    assert [link.span for link in op_links(trace, 4, None).inputs] == [2]
    assert [link.span for link in op_links(trace, 1, None).consumers] == [3]


def test_what_is_written_into_a_cache_is_read_from_it_beside_a_graph() -> None:
    builder = TraceBuilder()
    builder.ops = builders.OPS
    lane = builder.add_lane("thread 0", LaneKind.THREAD)
    names = builder.strings.intern_many(["k", "cache (view)", "kqv"])
    builder.tensors = replace(
        dependency_trace([[("k", [("cache", 0), ("k", 0)])]]).tensors,
        name=builder.strings.intern_many(["cache", "k"]),
    )
    builder.add_spans(
        start=np.array([0, 10, 20]), end=np.array([10, 20, 30]), lane=lane,
        name=names, op=np.array([1, builders.op_number("CPY"), 1], np.int16),
    )  # fmt: skip
    add_graph(
        builder, ["k", "cache (view)", "kqv", "cache"], [(0, 1), (3, 1), (3, 2)],
        ops=[1, builders.op_number("CPY"), 1, 0], leaves=[3],
    )  # fmt: skip
    columns = replace(
        AccessColumns.blank(3),
        tensor=np.array([1, 0, 0], np.int32),
        space=np.full(3, Space.BUFFER, np.uint8),
    )
    builder.accesses = Accesses(
        np.array([-1, 0, 1], np.int32), np.array([0, 2, 3]), columns,
        FlatAccesses.blank(),
    )  # fmt: skip
    trace = builders.finished(builder)

    links = op_links(trace, 1, correlate(trace))

    assert [(link.span, link.how) for link in links.inputs] == [(0, EdgeSource.GRAPH)]
    assert [(link.span, link.how) for link in links.consumers] == [(2, EdgeSource.NAME)]
    assert not op_links(trace, 2, correlate(trace)).open


# -- ops that are recorded to have computed a source ---------------------------------


def with_writers(trace: Trace, writer: list[int]) -> Trace:
    column = np.array(writer, np.int32)
    return replace(trace, accesses=replace(trace.accesses, writer=column))


def test_recorded_writers_show_what_names_leave_open() -> None:
    # Nobody writes "z" by name: it is a view of x. "w" is an input.
    ops: list[Op] = [("x", []), ("x", []), ("y", [("z", 0), ("w", 0)])]
    trace = with_writers(dependency_trace([ops]), [0, -1])

    links = op_links(trace, 3, None)

    assert not links.inputs
    assert [(o.name, o.why, o.n_writers) for o in links.open] == [
        ("z", NoProducer.AMBIGUOUS, 2)
    ]
    ops[1] = ("v", [])
    known = op_links(with_writers(dependency_trace([ops]), [0, -1]), 3, None)
    assert [(link.span, link.how) for link in known.inputs] == [
        (1, EdgeSource.RECORDED)
    ]
    assert not known.open


def test_recorded_writers_hold_where_ops_are_missing(monkeypatch) -> None:
    monkeypatch.setattr(
        "ggscope.analysis.graph.dependencies.hidden_ops", lambda _: "ops filtered"
    )
    ops: list[Op] = [("x", []), ("y", [("x", 0), ("lost", 0)])]
    trace = with_writers(dependency_trace([ops, [("z", [])]]), [0, 2])

    links = op_links(trace, 2, None)

    assert links.unknown is None
    assert [link.span for link in links.inputs] == [1]
    assert [(o.name, o.why) for o in links.open] == [("lost", NoProducer.NOT_RECORDED)]


def test_read_through_memory_is_found_by_name_beside_recorded_writers() -> None:
    ops: list[Op] = [("cache", [("k", 0)]), ("kqv", [("cache", 0)])]
    trace = with_writers(dependency_trace([ops]), [-1, -1])

    links = op_links(trace, 2, None)

    assert [(link.span, link.how) for link in links.inputs] == [(1, EdgeSource.NAME)]
    assert not links.open
