"""Everything that a selection has to do with, against plain loops over all spans."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from ggscope.analysis import links
from ggscope.analysis.links import is_quick, linked, merged_ranges
from ggscope.analysis.reads.usage import usage_of
from ggscope.analysis.sessions.correlate import correlate
from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import expert_key
from ggscope.model.selection import Selection, TableName
from ggscope.model.tables import AccessColumns, AccessKind, Space
from ggscope.model.trace import Trace
from graph_traces import add_graph
from link_traces import EXPS, N_BUFFERS, N_TENSORS, SLICE, random_links_trace


def accesses_slow(trace: Trace, span: int) -> list[tuple[AccessColumns, int]]:
    """Return all accesses of a span, as (columns, row)."""
    of_span = trace.accesses.of_span(span)
    slow = [(of_span, row) for row in range(len(of_span))]
    loose = trace.accesses.loose
    slow += [(loose.what, i) for i in range(len(loose)) if loose.span[i] == span]
    return slow


def expert_slow(trace: Trace, what: AccessColumns, row: int) -> tuple[int, int]:
    tensor = int(what.tensor[row])
    layer, expert = int(what.layer[row]), int(what.expert[row])
    if tensor >= 0:
        layer = layer if layer >= 0 else int(trace.tensors.layer[tensor])
        expert = expert if expert >= 0 else int(trace.tensors.expert[tensor])
    return layer, expert


def size_slow(what: AccessColumns, row: int) -> int:
    """Return the bytes of an access; of a stack at most the slice of its expert."""
    names_one = int(what.tensor[row]) == EXPS and int(what.expert[row]) >= 0
    size = max(int(what.size[row]), 0)
    return min(size, 100) if names_one else size


def touches_slow(trace: Trace, table: str, thing: int, span: int) -> bool:
    """Return whether a span accesses (or writes, or routes to) a thing."""
    if table == "experts":
        r = trace.routing
        if any(
            int(r.span[i]) == span
            and expert_key(int(r.layer[i]), int(r.expert[i])) == thing
            for i in range(len(r))
        ):
            return True
    assert trace.spans.tensor is not None
    if table == "tensors" and int(trace.spans.tensor[span]) == thing:
        return True
    return any(
        access_slow(trace, table, thing, what, row)
        for what, row in accesses_slow(trace, span)
    )


def access_slow(
    trace: Trace, table: str, thing: int, what: AccessColumns, row: int
) -> bool:
    if table == "experts":
        layer, expert = expert_slow(trace, what, row)
        return layer >= 0 and expert >= 0 and expert_key(layer, expert) == thing
    if table == "buffers":
        buffer = int(what.buffer[row])
        if buffer < 0:
            return False
        a, b = trace.buffers.address[buffer], trace.buffers.address[thing]
        return buffer == thing or (a == b and a != 0)
    tensor = int(what.tensor[row])
    if thing == SLICE and tensor == EXPS:
        return int(what.expert[row]) in (-1, 3)
    return tensor == thing or (thing == EXPS and tensor == SLICE)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    thing=st.sampled_from(
        [
            *(("tensors", i) for i in range(N_TENSORS)),
            *(("buffers", i) for i in range(N_BUFFERS)),
            *(("experts", expert_key(2, i)) for i in range(4)),
        ]
    ),
)
def test_spans_and_sums_of_a_thing_are_those_of_a_plain_loop(
    seed: int, thing: tuple[TableName, int]
) -> None:
    trace = random_links_trace(seed)
    selection = Selection(thing[0], (thing[1],))

    links = linked(trace, selection)
    figures = usage_of(trace, selection)

    spans = [s for s in range(len(trace.spans)) if touches_slow(trace, *thing, s)]
    assert links.selection == selection
    assert links.spans.tolist() == spans
    assert links.n_spans == figures.n_spans == len(spans)
    hits = [
        (what, row)
        for span in range(len(trace.spans))
        for what, row in accesses_slow(trace, span)
        if access_slow(trace, *thing, what, row)
    ]
    loose = trace.accesses.loose
    hits += [
        (loose.what, i)
        for i in range(len(loose))
        if loose.span[i] < 0 and access_slow(trace, *thing, loose.what, i)
    ]
    assert figures.n_accesses == len(hits)
    for kind, total in (
        (AccessKind.READ, figures.bytes_read),
        (AccessKind.WRITE, figures.bytes_written),
    ):
        assert total == sum(size_slow(w, r) for w, r in hits if int(w.kind[r]) == kind)
    if spans:
        assert figures.time is not None
        assert figures.time.start == trace.spans.start[spans].min()
        assert figures.time.end == trace.spans.end[spans].max()
        assert trace.spans.token is not None
        assert figures.n_tokens == len(set(trace.spans.token[spans].tolist()))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), ids=st.sets(st.integers(0, 70), max_size=4))
def test_things_of_spans_are_those_of_a_plain_loop(seed: int, ids: set[int]) -> None:
    trace = random_links_trace(seed)

    links = linked(trace, Selection("spans", tuple(ids)))

    spans = sorted(i for i in ids if i < len(trace.spans))
    accesses = [pair for span in spans for pair in accesses_slow(trace, span)]
    tensors = {int(what.tensor[row]) for what, row in accesses} - {-1}
    assert trace.spans.tensor is not None
    own = {int(trace.spans.tensor[span]) for span in spans} - {-1}
    assert links.spans.tolist() == spans
    assert links.accessed.tolist() == sorted(tensors)
    assert links.tensors.tolist() == sorted(tensors | own)
    buffers = {int(what.buffer[row]) for what, row in accesses} - {-1}
    assert links.buffers.tolist() == sorted(buffers)
    touched = np.zeros(3000, np.bool_)
    for what, row in accesses:
        for first, stop in bytes_slow(trace, what, row):
            touched[first:stop] = True
    highlighted = np.zeros(3000, np.bool_)
    for first, stop in links.ranges.tolist():
        highlighted[first:stop] = True
    np.testing.assert_array_equal(highlighted, touched)


def bytes_slow(trace: Trace, what: AccessColumns, row: int) -> list[tuple[int, int]]:
    """Return the bytes of the file that an access touches."""
    if int(what.space[row]) != Space.FILE:
        return []
    offset, size = int(what.offset[row]), int(what.size[row])
    if offset >= 0:
        return [(offset, offset + max(size, 1))]
    tensor, expert = int(what.tensor[row]), int(what.expert[row])
    if tensor < 0:
        return []
    first, size = int(trace.tensors.offset[tensor]), int(trace.tensors.size[tensor])
    if first < 0 or size <= 0:
        return []
    if tensor == EXPS and expert >= 0:
        return [(first + expert * size // 4, first + (expert + 1) * size // 4)]
    return [(first, first + size)]


def test_stack_of_experts_counts_its_listed_slices() -> None:
    trace = random_links_trace(5)

    links = linked(trace, Selection("experts", (expert_key(2, 3),)))

    assert {EXPS, SLICE} <= set(links.tensors.tolist())
    assert links.ranges.tolist() == [[1300, 1400]]
    assert links.layers.tolist() == [2]


def test_node_has_its_spans_tensor_and_sources() -> None:
    trace = random_links_trace(1)
    correlation = correlate(trace)
    assert correlation is not None

    links = linked(trace, Selection("nodes", (1,)), correlation)

    assert links.nodes.tolist() == [1]
    assert links.spans.tolist() == correlation.spans_of(1).tolist()
    assert links.tensors.tolist() == [0, 1]
    assert links.accessed.tolist() == [0]
    assert links.rules


def test_span_and_its_node_point_at_each_other() -> None:
    trace = random_links_trace(1)
    correlation = correlate(trace)
    assert correlation is not None
    span = int(correlation.spans_of(2)[0])

    links = linked(trace, Selection("spans", (span,)), correlation)

    assert links.nodes.tolist() == [2]
    assert 2 in linked(trace, Selection("tensors", (2,)), correlation).nodes.tolist()


def test_leaf_node_lights_the_spans_that_read_it() -> None:
    trace = builders.llama_like_trace(tokens=2, layers=2)
    builder = TraceBuilder()
    builder.strings, builder.ops = trace.strings, builders.OPS
    add_graph(builder, ["blk.0.attn_q.weight"], [], leaves=[0], tensors=[1])
    graph = builder.snapshot(builders.make_info()).graphs
    trace = replace(trace, graphs=graph)

    links = linked(trace, Selection("nodes", (0,)), correlate(trace))

    assert (
        links.spans.tolist() == linked(trace, Selection("tensors", (1,))).spans.tolist()
    )
    assert links.n_spans == 4


@pytest.mark.parametrize(
    "selection",
    [
        Selection(),
        Selection("markers", (0,)),
        Selection("spans", (10**6,)),
        Selection("tensors", (10**6,)),
        Selection("buffers", (10**6, -1)),
        Selection("nodes", (10**6,)),
        Selection("experts", (expert_key(900, 900),)),
    ],
)
def test_what_is_not_there_has_no_links(selection: Selection) -> None:
    trace = random_links_trace(0)

    links = linked(trace, selection, correlate(trace))

    assert links.n_spans == 0
    for table in ("spans", "tensors", "buffers", "nodes"):
        assert getattr(links, table).tolist() == []
        assert getattr(links, table).dtype == np.int64


def test_listed_spans_are_bounded_and_all_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(links, "MAX_SPANS", 5)
    trace = builders.llama_like_trace()

    result = linked(trace, Selection("tensors", (len(trace.tensors) - 1,)))

    assert len(result.spans) == 5
    assert result.n_spans == 4 * 4 * 2 * 10


def test_ranges_that_touch_or_overlap_become_one() -> None:
    ranges = np.array([[5, 9], [0, 3], [9, 12], [2, 4], [20, 20]], np.int64)

    assert merged_ranges(ranges).tolist() == [[0, 4], [5, 12]]
    assert merged_ranges(ranges[4:]).tolist() == []


def test_few_spans_are_quick_and_a_tensor_of_a_large_trace_is_not() -> None:
    small, large = builders.empty_trace(), builders.random_trace(1, 200_001)

    assert is_quick(small, Selection("tensors", (0,)))
    assert is_quick(large, Selection("spans", (1, 2)))
    assert not is_quick(large, Selection("spans", tuple(range(10_000))))
    assert not is_quick(large, Selection("tensors", (0,)))


def test_time_of_a_node_is_reported_by_quality() -> None:
    trace = random_links_trace(3)
    correlation = correlate(trace)
    assert correlation is not None

    figures = usage_of(trace, Selection("nodes", (0,)), correlation)

    spans = correlation.spans_of(0)
    lasted = trace.spans.end[spans] - trace.spans.start[spans]
    assert int(figures.ticks.sum()) == int(lasted.sum())
    assert int(figures.n_by_quality.sum()) == len(spans)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), with_leaf=st.booleans())
def test_figures_of_a_node_are_of_the_spans_that_it_lights(
    seed: int, with_leaf: bool
) -> None:
    trace = random_links_trace(seed)
    if with_leaf:  # nothing computes it, but ops read its tensor
        (graph,) = trace.graphs
        leaf = replace(graph, op=np.full_like(graph.op, -1))
        trace = replace(trace, graphs=(leaf,))
    correlation = correlate(trace)

    for node in range(len(trace.graphs[0])):
        selection = Selection("nodes", (node,))
        links = linked(trace, selection, correlation)
        figures = usage_of(trace, selection, correlation)

        assert figures.n_spans == links.n_spans
        if links.n_spans:
            assert figures.time is not None
            assert figures.time.start == trace.spans.start[links.spans].min()
