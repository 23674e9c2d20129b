"""Filters by tensors, offsets, experts and buffers, against a loop over all spans."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.filters.text import parse_filter
from ggscope.analysis.links import linked
from ggscope.analysis.statistics.grouping import grouping
from ggscope.model.builder import TraceBuilder
from ggscope.model.names import normalise
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import AccessColumns, Space
from ggscope.model.trace import LaneKind, Trace
from link_traces import random_links_trace


def accesses_slow(trace: Trace, span: int) -> list[tuple[AccessColumns, int]]:
    of_span = trace.accesses.of_span(span)
    pairs = [(of_span, row) for row in range(len(of_span))]
    loose = trace.accesses.loose
    return pairs + [(loose.what, i) for i in range(len(loose)) if loose.span[i] == span]


def names_slow(trace: Trace, span: int) -> set[str]:
    """Return the names of the tensors that a span is or accesses."""
    assert trace.spans.tensor is not None
    rows = [int(trace.spans.tensor[span])]
    rows += [int(what.tensor[row]) for what, row in accesses_slow(trace, span)]
    return {trace.strings[int(trace.tensors.name[r])] for r in rows if r >= 0}


def in_range_slow(
    trace: Trace, what: AccessColumns, row: int, requested: Filter
) -> bool:
    assert requested.offsets is not None
    offset, size = int(what.offset[row]), int(what.size[row])
    tensor = int(what.tensor[row])
    if offset < 0 and tensor >= 0:
        offset, size = (
            int(trace.tensors.offset[tensor]),
            int(trace.tensors.size[tensor]),
        )
    touched = range(max(offset, requested.offsets[0]), requested.offsets[1])
    return (
        int(what.space[row]) == Space.FILE
        and offset >= 0
        and any(b < offset + max(size, 1) for b in touched[:1])
    )


def matches_slow(trace: Trace, span: int, requested: Filter) -> bool:
    accesses = accesses_slow(trace, span)
    if requested.tensors is not None and not (
        names_slow(trace, span) & requested.tensors
    ):
        return False
    if requested.offsets is not None and not any(
        in_range_slow(trace, what, row, requested) for what, row in accesses
    ):
        return False
    if requested.buffers is not None:
        ids = {
            int(trace.buffers.address[what.buffer[row]])
            for what, row in accesses
            if what.buffer[row] >= 0
        }
        if not ids & requested.buffers:
            return False
    return True


NAMES = [f"t{i}" for i in range(6)] + ["blk.2.ffn_up_exps.weight", "none of them"]


def some(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | st.frozensets(values, min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 5000),
    requested=st.builds(
        Filter,
        tensors=some(st.sampled_from(NAMES)),
        offsets=st.none()
        | st.tuples(st.integers(0, 1500), st.integers(0, 1500)).map(sorted).map(tuple),
        buffers=some(st.sampled_from([0xA0, 0xB0, 0, 7])),
    ),
)
def test_mask_of_things_equals_a_plain_loop(seed: int, requested: Filter) -> None:
    trace = random_links_trace(seed)

    mask = filter_mask(trace, requested)

    expected = [matches_slow(trace, s, requested) for s in range(len(trace.spans))]
    assert ([True] * len(expected) if mask is None else mask.tolist()) == expected


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 5000), experts=st.frozensets(st.integers(0, 5), min_size=1))
def test_filter_by_experts_leaves_what_statistics_count_with_them(
    seed: int, experts: frozenset[int]
) -> None:
    trace = random_links_trace(seed)
    groups = grouping(trace, "expert")

    mask = filter_mask(trace, Filter(experts=experts))

    expected = set()
    for span in range(len(trace.spans)):
        labels = [groups.label(g) for g in groups.of(np.array([span])).group.tolist()]
        expected |= {span} if {str(e) for e in experts} & set(labels) else set()
    assert mask is not None
    assert set(np.flatnonzero(mask).tolist()) == expected


def test_filter_by_a_tensor_shows_what_is_linked_with_it() -> None:
    trace = builders.llama_like_trace()
    row = 1
    name = trace.strings[int(trace.tensors.name[row])]

    mask = filter_mask(trace, parse_filter(f"tensor={name}"))

    assert mask is not None
    links = linked(trace, Selection("tensors", (row,)))
    assert np.flatnonzero(mask).tolist() == links.spans.tolist()


@pytest.mark.parametrize(
    ("expression", "n"),
    [
        ("tensor=blk.0.*", 6 * 2 * 4),
        ("tensor=blk.*.attn_q.weight", 4 * 2 * 4),
        ("tensor=BLK.0.attn_q.weight", 0),
        ("tensor=activation layer=0", 10 * 2 * 4),
        ("offset=0:1", 2 * 4),
        ("offset=64KiB:64KiB", 0),
        ("offset=0:1GiB", 6 * 4 * 2 * 4),
        ("expert=0", 0),
        ("buffer=0x10", 0),
    ],
)
def test_expression_counts_what_it_says(expression: str, n: int) -> None:
    mask = filter_mask(builders.llama_like_trace(), parse_filter(expression))

    assert mask is not None
    assert int(mask.sum()) == n


def test_ops_without_a_tensor_column_are_found_by_their_own_name() -> None:
    trace = builders.llama_like_trace()

    mask = filter_mask(trace, parse_filter("tensor=Qcur-0"))

    assert mask is not None
    assert int(mask.sum()) == 2 * 4


def test_suffixes_do_not_matter_and_nameless_tensors_stay_apart() -> None:
    builder = TraceBuilder()
    builder.ops = builders.OPS
    lane = builder.add_lane("thread 0", LaneKind.THREAD)
    names = ["Qcur-0 (view)", "Qcur-0", " (copy)", " (view)"]
    builder.add_spans(
        start=np.arange(4),
        end=np.arange(4) + 1,
        lane=lane,
        op=1,
        name=builder.strings.intern_many(names),
    )
    trace = builders.finished(builder)

    def matching(name: str) -> list[int]:
        mask = filter_mask(trace, Filter(tensors=frozenset({name})))
        assert mask is not None
        return np.flatnonzero(mask).tolist()

    assert matching("Qcur-0") == matching("Qcur-0 (view)") == [0, 1]
    assert normalise(" (copy)") == ""
    assert matching(" (copy)") == [2]
