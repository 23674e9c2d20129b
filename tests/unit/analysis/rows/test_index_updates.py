"""An index takes over what the next snapshot of a file leaves as it is."""

from dataclasses import replace

import numpy as np
import pytest

from builders import llama_like_trace
from ggscope.analysis.rows.index import TraceIndex
from ggscope.model.trace import Trace
from staged import spans_only, with_records


@pytest.fixture
def whole() -> Trace:
    return with_records(llama_like_trace(tokens=2, layers=2))


@pytest.fixture
def before(whole: Trace) -> TraceIndex:
    index = TraceIndex(spans_only(whole))
    for lane in index.lanes:
        if lane.track.has_rows:
            index.row_columns(lane.key, "family")
            index.row_columns(lane.key, "source")
    index.time_order()
    return index


def plain_key(index: TraceIndex) -> str:
    return next(x.key for x in index.lanes if not x.track.column and x.n_spans > 10)


def test_rows_colours_and_order_are_taken_over(
    whole: Trace, before: TraceIndex
) -> None:
    after, key = TraceIndex(whole, before), plain_key(before)

    assert after.rows(key)[0] is before.rows(key)[0]
    assert after.row_columns(key, "family")[0] is before.row_columns(key, "family")[0]
    assert after.time_order() is before.time_order()
    assert after.trace is whole


def test_what_depends_on_accesses_is_computed_anew(
    whole: Trace, before: TraceIndex
) -> None:
    after, key = TraceIndex(whole, before), plain_key(before)

    assert (
        after.row_columns(key, "source")[0] is not before.row_columns(key, "source")[0]
    )
    assert np.array_equal(
        after.categories("source").index, TraceIndex(whole).categories("source").index
    )
    assert not np.array_equal(
        after.categories("source").index, before.categories("source").index
    )


def test_result_is_that_of_an_index_without_forebear(
    whole: Trace, before: TraceIndex
) -> None:
    after, fresh = TraceIndex(whole, before), TraceIndex(whole)
    edges = np.linspace(0, whole.extent.end, 200).astype(np.int64)

    assert after.lanes == fresh.lanes
    for lane in fresh.lanes:
        for by in ("family", "op", "layer", "token", "quality", "source"):
            one = after.row_columns(lane.key, by)
            other = fresh.row_columns(lane.key, by)
            assert len(one) == len(other)
            for a, b in zip(one, other, strict=True):
                assert np.array_equal(a.query(edges).category, b.query(edges).category)


@pytest.mark.parametrize("column", ["start", "end", "lane"])
def test_other_spans_inherit_nothing(
    whole: Trace, before: TraceIndex, column: str
) -> None:
    copied = getattr(whole.spans, column).copy()
    other = replace(whole, spans=replace(whole.spans, **{column: copied}))

    after, key = TraceIndex(other, before), plain_key(before)

    assert after.rows(key)[0] is not before.rows(key)[0]


def test_other_ops_keep_rows_but_not_colours(whole: Trace, before: TraceIndex) -> None:
    other = replace(whole, spans=replace(whole.spans, op=whole.spans.op.copy()))

    after, key = TraceIndex(other, before), plain_key(before)

    assert after.rows(key)[0] is before.rows(key)[0]
    assert (
        after.row_columns(key, "family")[0] is not before.row_columns(key, "family")[0]
    )


def test_index_that_was_never_asked_has_nothing_to_give(whole: Trace) -> None:
    after = TraceIndex(whole, TraceIndex(spans_only(whole)))

    assert after.rows(plain_key(after))
