"""The table's order against a plain sort, in traces of several shapes."""

from dataclasses import replace

import numpy as np
import pytest

import builders
from ggscope.analysis.order import table_order, time_merge
from ggscope.analysis.order import table_order as table_order_module
from ggscope.analysis.order.table_order import OrderKey, OrderRequest, RowOrder, Sorting
from ggscope.analysis.order.time_merge import TimeRuns
from ggscope.analysis.rows.index import TraceIndex, mask_of_lanes
from ggscope.errors import Cancelled, QueryError
from ggscope.model.selection import MarkedRange
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.views.table.view import span_for
from wait_traces import random_waits
from watchers import CancelAfter

COLUMNS = (
    "time", "record", "duration", "op", "layer", "lane", "token", "destination",
    "sources", "bytes", "quality", "wait",
)  # fmt: skip


def with_ties(trace: Trace) -> Trace:
    """Return the trace with few distinct starts and durations, in time order."""
    spans = trace.spans
    start = spans.start // 400 * 400
    end = np.maximum(start, spans.end // 900 * 900)
    return replace(trace, spans=replace(spans, start=start, end=end))


TRACES = {
    "llama": builders.llama_like_trace(tokens=5, layers=5),
    "lanes": builders.random_trace(3, 2_000, lanes=4),
    "ties": with_ties(builders.random_trace(4, 1_500, lanes=3)),
    "shuffled": builders.random_trace(5, 2_000, lanes=3, shuffled=True),
    "waits": random_waits(7, 2_000, lanes=3, shuffled=True),
    "npu": builders.npu_like_trace(tiles=12),
    "empty": builders.empty_trace(),
}


def plain(trace: Trace, sorting: Sorting, mask: np.ndarray | None) -> list[int]:
    """Return the rows by one lexsort of everything."""
    kinds = [lane.kind.name for lane in trace.lanes]
    listed = np.array([kinds[i] not in ("TOKEN", "PHASE") for i in trace.spans.lane])
    ids = np.flatnonzero(listed.astype(bool))
    if mask is not None:
        ids = ids[mask[ids]]
    start = trace.spans.start[ids]
    if sorting.column == "time":
        order = np.lexsort((ids, start))
        return ids[order[::-1] if sorting.descending else order].tolist()
    values = OrderKey(trace, sorting).values(ids)
    return ids[np.lexsort((ids, start, values))].tolist()


@pytest.fixture(params=["usual", "crowded"])
def buckets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with buckets as they are, and with ones that are soon too large."""
    if request.param == "crowded":
        monkeypatch.setattr(table_order_module, "MAX_UNSORTED", 8)
        monkeypatch.setattr(table_order_module, "_MIN_COMPILED", 0)
        monkeypatch.setattr(table_order, "MAX_UNSORTED", 8)
        monkeypatch.setattr(table_order, "_BLOCK_ROWS", 16)
        monkeypatch.setattr(table_order, "_KEPT_BLOCKS", 2)


@pytest.mark.usefixtures("buckets")
@pytest.mark.parametrize("name", list(TRACES))
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("descending", [False, True])
def test_order_equals_a_plain_sort(name: str, column: str, descending: bool) -> None:
    trace, sorting = TRACES[name], Sorting(column, descending)
    index = TraceIndex(trace)
    rng = np.random.default_rng(len(column))
    for mask in (None, rng.random(len(trace.spans)) < 0.4):
        order = OrderRequest(index, sorting, mask)()

        expected = plain(trace, sorting, mask)
        n = len(expected)
        assert len(order) == n
        assert order.slice(0, n).tolist() == expected
        assert order.slice(n // 3, n // 3 + 40).tolist() == expected[n // 3 :][:40]
        assert [order.at(row) for row in range(0, n, 7)] == expected[::7]
        assert [order.row_of(i) for i in expected[::5]] == list(range(0, n, 5))
        missing = set(range(len(trace.spans))) - set(expected)
        assert all(order.row_of(i) is None for i in sorted(missing)[::9])


def test_rows_beyond_the_end_are_refused() -> None:
    order = OrderRequest(TraceIndex(TRACES["lanes"]), Sorting())()

    for row in (-1, len(order)):
        with pytest.raises(IndexError):
            order.at(row)


@pytest.mark.parametrize("k", range(6))
@pytest.mark.parametrize("sorting", [Sorting("duration", True), Sorting("layer")])
def test_cancelled_sort_leaves_the_next_one_right(
    monkeypatch: pytest.MonkeyPatch, sorting: Sorting, k: int
) -> None:
    monkeypatch.setattr(table_order_module, "_PIECE_ROWS", 300)
    trace = TRACES["lanes"]
    index, runs = TraceIndex(trace), TimeRuns(trace)

    try:
        order = OrderRequest(index, sorting, None, runs)(CancelAfter(k))
    except Cancelled:
        order = OrderRequest(index, sorting, None, runs)()

    assert order.slice(0, 2_000).tolist() == plain(trace, sorting, None)


def test_mask_of_an_older_snapshot_lists_what_it_knows() -> None:
    trace = TRACES["lanes"]
    mask = np.ones(700, bool)

    for sorting in (Sorting(), Sorting("duration")):
        order = OrderRequest(TraceIndex(trace), sorting, mask)()
        assert sorted(order.slice(0, 2_000).tolist()) == list(range(700))


# -- jumping -----------------------------------------------------------------


def jump(text: str, trace: Trace, sorting: Sorting | None = None, **named: bool) -> int:
    runs = TimeRuns(trace)
    order = OrderRequest(TraceIndex(trace), sorting or Sorting(), None, runs)()
    return span_for(text, order, runs, **named)


def order_of(trace: Trace, sorting: Sorting) -> RowOrder:
    return OrderRequest(TraceIndex(trace), sorting)()


@pytest.mark.parametrize("text", ["1200", "1,200", " 1 200 ", "1_200"])
def test_plain_number_is_a_row_counted_from_one(text: str) -> None:
    ids = plain(TRACES["lanes"], Sorting(), None)

    assert jump(text, TRACES["lanes"]) == ids[1_199]


def test_number_sign_is_a_record_wherever_it_is() -> None:
    trace, sorting = TRACES["lanes"], Sorting("duration", True)

    assert jump("#77", trace, sorting) == jump("record 77", trace, sorting) == 77


def test_record_is_looked_up_where_the_trace_numbers_them() -> None:
    trace = TRACES["lanes"]
    record = np.arange(2_000)[::-1].astype(np.int32).copy()
    numbered = replace(trace, spans=replace(trace.spans, record=record))

    assert jump("#0", numbered) == 1_999


@pytest.mark.parametrize("sorting", [Sorting(), Sorting("time", True), Sorting("op")])
def test_time_is_the_first_span_from_then_on(sorting: Sorting) -> None:
    trace = TRACES["llama"]
    ids = np.array(plain(trace, Sorting(), None))
    tick = 1_000_000
    first = ids[trace.spans.start[ids] >= tick][0]

    assert jump("1ms", trace, sorting) == first


@pytest.mark.parametrize("text", ["0:01.5", "1.5s", "0:00:01.5"])
def test_time_may_be_of_a_clock_as_the_program_prints_it(text: str) -> None:
    starts = [0, 1_400_000_000, 1_500_000_000, 90_000_000_000, 661_440_000_000]
    trace = builders.spans_trace(starts, [start + 10 for start in starts])

    assert jump(text, trace) == 2
    assert jump("1:30", trace) == 3
    assert jump("11:01.44", trace) == 4


@pytest.mark.parametrize("text", ["token 2", "Token#2", "token2"])
def test_token_is_its_first_record(text: str) -> None:
    trace = TRACES["llama"]
    ids = np.array(plain(trace, Sorting(), None))
    assert trace.spans.token is not None

    assert jump(text, trace) == ids[trace.spans.token[ids] == 2][0]


def test_range_lists_what_touches_it_on_its_lanes() -> None:
    trace = TRACES["shuffled"]
    time = TimeRange(trace.extent.end // 4, trace.extent.end // 2)
    index = TraceIndex(trace)
    keys = frozenset(lane.key for lane in index.lanes[1:2])
    mask = np.arange(len(trace.spans)) % 2 == 0
    s = trace.spans
    inside = (s.start < time.end) & (s.end > time.start)

    for lanes, on_lanes in ((None, True), (keys, mask_of_lanes(index, keys, time))):
        for item in (None, mask):
            for column in ("time", "duration"):
                order = OrderRequest(
                    index, Sorting(column), item, None, MarkedRange(time, lanes)
                )()
                expected = inside & on_lanes & (True if item is None else item)
                assert 0 < expected.sum() < len(s)
                items = sorted(order.slice(0, len(order)).tolist())
                assert items == np.flatnonzero(expected).tolist()
                assert order.n_rows == len(s)


def test_jump_leads_out_of_the_range_that_is_listed() -> None:
    trace = TRACES["lanes"]
    runs = TimeRuns(trace)
    part = MarkedRange(TimeRange(0, 10))
    order = OrderRequest(TraceIndex(trace), Sorting(), None, runs, part)()

    assert order.row_of(77) is None
    assert span_for("#77", order, runs) == 77


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0", "rows are 1 to"),
        ("2001", "rows are 1 to"),
        ("#2000", "no record 2,000"),
        ("soon", "time"),
        ("9999s", "no record starts at or after"),
        ("token 9999", "no record of token 9,999|no tokens recorded"),
    ],
)
def test_what_leads_nowhere_is_explained(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        jump(text, TRACES["lanes"])


def test_time_order_is_asked_for_only_where_lanes_are_not_sorted() -> None:
    assert TimeRuns(TRACES["lanes"]).edges is not None
    assert TimeRuns(TRACES["shuffled"]).edges is None
    assert time_merge.MAX_RUNS >= 64


@pytest.mark.parametrize("descending", [False, True])
def test_more_names_than_codes_are_sorted_all_the_same(
    monkeypatch: pytest.MonkeyPatch, descending: bool
) -> None:
    trace, sorting = TRACES["llama"], Sorting("destination", descending)
    expected = plain(trace, sorting, None)
    monkeypatch.setattr(table_order, "N_CODES", 6)

    order = OrderRequest(TraceIndex(trace), sorting)()

    assert order.slice(0, len(order)).tolist() == expected
