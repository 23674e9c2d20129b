"""Merged time order against a plain sort."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import empty_trace, random_trace, spans_trace
from ggscope.analysis.order import time_merge
from ggscope.analysis.order.time_merge import TimeMerge, TimeRuns
from ggscope.model.trace import Trace


def plain(trace: Trace, ids: np.ndarray | None = None) -> list[int]:
    chosen = np.arange(len(trace.spans)) if ids is None else ids
    return chosen[np.argsort(trace.spans.start[chosen], kind="stable")].tolist()


def check(trace: Trace, merge: TimeMerge, expected: list[int]) -> None:
    n = len(expected)
    assert len(merge) == n
    assert merge.slice(0, n).tolist() == expected
    for low in range(0, n, max(1, n // 7)):
        for high in (low, low + 1, low + 3, n + 5):
            assert merge.slice(low, high).tolist() == expected[low:high]
    rows = {span: row for row, span in enumerate(expected)}
    for span in range(len(trace.spans)):
        assert merge.row_of(span) == rows.get(span)


lanes_of_starts = st.lists(
    st.lists(st.integers(0, 12), max_size=12).map(sorted), min_size=1, max_size=5
)


@given(lanes_of_starts, st.data())
@settings(max_examples=100, deadline=None)
def test_merge_equals_a_sort_ties_and_all(
    lanes: list[list[int]], data: st.DataObject
) -> None:
    start = np.array([tick for one in lanes for tick in one], np.int64)
    lane = np.repeat(np.arange(len(lanes)), [len(one) for one in lanes])
    trace = spans_trace(start, start + 1, lane)
    runs = TimeRuns(trace)
    chosen = data.draw(st.lists(st.booleans(), min_size=len(start)))
    ids = np.flatnonzero(np.array(chosen[: len(start)], np.bool_)).astype(np.int32)

    check(trace, runs.merge(), plain(trace))
    check(trace, runs.merge(ids), plain(trace, ids))


@pytest.mark.parametrize("shuffled", [False, True])
def test_lanes_that_are_not_requested_are_left_out(shuffled: bool) -> None:
    trace = random_trace(5, 900, lanes=3, shuffled=shuffled)
    lanes = np.array([True, False, True])

    merge = TimeRuns(trace).merge(lanes=lanes)

    check(trace, merge, plain(trace, np.flatnonzero(lanes[trace.spans.lane])))


def test_trace_out_of_order_has_too_many_runs_and_is_sorted() -> None:
    trace = random_trace(5, 3_000, lanes=3, shuffled=True)
    runs = TimeRuns(trace)
    ids = np.arange(0, 3_000, 3, dtype=np.int32)

    assert runs.edges is None
    check(trace, runs.merge(), plain(trace))
    check(trace, runs.merge(ids), plain(trace, ids))


def test_given_time_order_is_used_where_there_are_too_many_runs() -> None:
    trace = random_trace(5, 600, lanes=2, shuffled=True)
    calls: list[bool] = []

    def time_order() -> np.ndarray:
        calls.append(True)
        return np.array(plain(trace), np.int32)

    merge = TimeRuns(trace).merge(time_order=time_order)

    assert calls == [True]
    assert merge.slice(0, 600).tolist() == plain(trace)


def test_runs_over_several_chunks_equal_one(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = random_trace(6, 500, lanes=4)
    edges = TimeRuns(trace).edges
    assert edges is not None
    chunks = time_merge.chunks
    monkeypatch.setattr(time_merge, "chunks", lambda n: chunks(n, 13))

    again = TimeRuns(trace).edges

    assert again is not None
    assert again.tolist() == edges.tolist()
    assert len(edges) == 5


def test_trace_without_spans_has_no_rows() -> None:
    merge = TimeRuns(empty_trace()).merge()

    assert len(merge) == 0
    assert merge.slice(0, 10).tolist() == []
    assert merge.rank(5, 0) == 0


def test_rank_counts_what_starts_before() -> None:
    trace = spans_trace([0, 10, 10, 5, 10], [1, 11, 12, 6, 11], [0, 0, 0, 1, 1])
    merge = TimeRuns(trace).merge()

    assert [merge.rank(10, -1), merge.rank(10, 2), merge.rank(99, 0)] == [2, 3, 5]


def test_ticks_far_apart_are_found() -> None:
    big = 1 << 61
    trace = spans_trace([-big, big, 0], [-big + 1, big + 1, 1], [0, 0, 1])
    trace = replace(trace)

    assert TimeRuns(trace).merge().slice(0, 3).tolist() == [0, 2, 1]
