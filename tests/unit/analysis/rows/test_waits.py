"""The waits in a picture's columns are exact, whatever the zoom and the filter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from ggscope.analysis.rows import columns as module
from ggscope.analysis.rows.columns import (
    RowColumns,
    column_edges,
    make_waits,
    query_many,
)
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.rows import Row, SpanIds, make_row
from ggscope.analysis.rows.waits import WAIT_STEP, next_gap, next_wait, pauses
from ggscope.model.selection import Gap, Selection
from ggscope.model.tables import LONGEST_WAIT, NO_WAIT, Array
from ggscope.model.units import TimeRange
from oracles.waits import waits_slow
from wait_traces import random_waits, recorded_wait, with_waits


def random_row(seed: int, n: int, **limits: int) -> tuple[Row, Array]:
    """Return a row and the waits by span id, some of which reach too far."""
    rng = np.random.default_rng(seed)
    start, end = builders.random_row(seed, n, **limits)
    ids = rng.permutation(n + 5)[:n].astype(np.int32)
    wait = rng.integers(0, 80, n + 5).astype(np.uint32)
    wait[rng.random(n + 5) < 0.2] = NO_WAIT
    return make_row(start, end, ids), wait


def queried(row: Row, wait: Array, edges: Array, category: Array | None = None):
    n = 1 if category is None else int(category.max()) + 1
    columns = RowColumns(row, category, n, waits=make_waits(row, wait)).query(edges)
    assert columns.waited_ticks is not None
    assert columns.waited_ticks.dtype == np.int64
    return columns.waited_ticks


VIEWS = [
    TimeRange(0, 4000), TimeRange(-500, 90_000), TimeRange(777, 778),
    TimeRange(1000, 1030), TimeRange(100_000, 200_000), TimeRange(30, 31),
]  # fmt: skip


@pytest.mark.parametrize("px", [1, 7, 200])
@pytest.mark.parametrize("n", [1, 15, 64, 65, 129, 700])
def test_waits_equal_brute_force(n, px):
    row, wait = random_row(n, n)
    extent = TimeRange(int(row.start[0]) - 9, int(row.end[-1]) + 99)

    for visible in (extent, *VIEWS):
        edges = column_edges(visible, px)
        assert queried(row, wait, edges).tolist() == waits_slow(row, edges, wait)


@pytest.mark.parametrize("n_categories", [1, 5, 200])
@pytest.mark.parametrize("px", [1, 3, 12])
def test_waits_of_looked_up_columns_equal_brute_force(px, n_categories):
    """Where there are many spans per column only edges are looked at."""
    row, wait = random_row(4, 6_000)
    category = (np.arange(len(wait)) % n_categories).astype(np.uint8)

    for share in (1, 2, 5):
        edges = column_edges(TimeRange(-20, int(row.end[-1]) // share), px)
        result = queried(row, wait, edges, category)
        assert result.tolist() == waits_slow(row, edges, wait)


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(0, 60)),
        min_size=1,
        max_size=150,
    ),
    st.lists(st.integers(-50, 4000), min_size=2, max_size=40),
    st.integers(0, 1 << 30),
)
@settings(max_examples=150, deadline=None)
def test_waits_of_any_row_equal_brute_force(spans, ticks, seed):
    gap, length, waits = (np.array(part, np.int64) for part in zip(*spans, strict=True))
    end = np.cumsum(gap + length)
    row = make_row(end - length, end, SpanIds(0, len(end)))
    wait = np.where(waits > 50, NO_WAIT, waits).astype(np.uint32)
    keep = np.random.default_rng(seed).random(len(end)) < 0.6
    edges = np.array(sorted(ticks), np.int64)
    every = RowColumns(row, waits=make_waits(row, wait))
    filtered = every.filtered(keep)

    assert every.query(edges).waited_ticks.tolist() == waits_slow(row, edges, wait)
    assert filtered.query(edges).waited_ticks.tolist() == waits_slow(
        row, edges, wait, keep
    )


def test_columns_of_a_view_add_up_to_the_waits_of_the_row():
    row, wait = random_row(9, 5_000)
    waits = make_waits(row, wait)
    edges = column_edges(TimeRange(-10, int(row.end[-1]) + 1000), 640)

    waited_ticks = RowColumns(row, waits=waits).query(edges).waited_ticks

    assert int(waited_ticks.sum()) == waits.total(row)
    assert len(waits.before) == len(row) // WAIT_STEP + 1


def test_work_and_wait_never_fill_more_than_a_column():
    row, wait = random_row(11, 3_000)
    columns = RowColumns(row, waits=make_waits(row, wait))

    for visible in (*VIEWS, TimeRange(0, int(row.end[-1]))):
        edges = column_edges(visible, 333)
        result = columns.query(edges)
        width = np.maximum(np.diff(edges), 1)
        assert (result.waited_ticks >= 0).all()
        assert (result.covered_ticks + result.waited_ticks <= width).all()


def test_longest_wait_is_drawn_as_long_as_is_known():
    row = make_row(np.array([0, 10**10]), np.array([10, 10**10 + 5]), SpanIds(0, 2))
    wait = np.array([LONGEST_WAIT, LONGEST_WAIT], np.uint32)

    result = queried(row, wait, np.array([0, 10**10, 10**11]))

    assert result.tolist() == [LONGEST_WAIT, LONGEST_WAIT]


def test_rows_without_waits_beside_others_have_none():
    row, wait = random_row(2, 50)
    plain, waiting = RowColumns(row), RowColumns(row, waits=make_waits(row, wait))

    first, second = query_many([plain, waiting], np.array([0, 500, 1000]))

    assert first.waited_ticks is None
    assert second.waited_ticks.tolist() == waits_slow(row, [0, 500, 1000], wait)


def test_span_whose_wait_covers_a_tick_is_found():
    row = make_row(np.array([0, 50, 90]), np.array([10, 60, 95]), SpanIds(7, 3))
    wait = np.full(10, NO_WAIT, np.uint32)
    wait[[7, 8, 9]] = (20, 999, 4)
    waits = make_waits(row, wait)

    ticks = {5: None, 10: 7, 29: 7, 30: None, 60: 8, 89: 8, 92: None, 98: 9, 99: None}

    assert {tick: waits.at(row, tick) for tick in ticks} == ticks
    assert waits.behind(row, np.arange(3)).tolist() == [20, 30, 4]


@pytest.mark.parametrize("shuffled", [False, True])
def test_lane_shows_how_much_of_the_trace_it_waits(shuffled):
    trace = random_waits(3, 3_000, lanes=3, shuffled=shuffled)
    index, wait = TraceIndex(trace), recorded_wait(trace)
    threads = [lane for lane in index.lanes if lane.track.id == "thread"]

    for lane in threads[:3]:
        own = wait[np.isin(trace.spans.lane, lane.lane_ids)]
        share = own[own >= 0].sum() / trace.extent.duration
        assert index.wait_share(lane.key) == pytest.approx(share)
        busy = index.busy_share(lane.key)
        assert busy + index.wait_share(lane.key) <= 1


def test_lanes_by_layer_and_traces_without_waits_have_none():
    trace = random_waits(3, 300)
    index, plain = TraceIndex(trace), TraceIndex(builders.random_trace(3, 300))

    fields = [lane.key for lane in index.lanes if lane.track.column]

    assert fields
    assert {index.waits(key) for key in fields} == {()}
    assert {plain.wait_share(lane.key) for lane in plain.lanes} == {None}


def test_filter_with_too_many_categories_holds_waits_as_well(monkeypatch):
    monkeypatch.setattr(module, "MAX_EXACT", 2)
    row, wait = random_row(6, 400, max_gap=100)
    wait = np.minimum(wait, 0)
    category = (np.arange(len(wait)) % 7).astype(np.uint8)
    mask = np.random.default_rng(3).random(len(wait)) < 0.5
    columns = RowColumns(row, category, 7, waits=make_waits(row, wait))
    edges = column_edges(TimeRange(0, int(row.end[-1])), 50)

    result = columns.filtered(mask).query(edges)

    assert result.waited_ticks.tolist() == [0] * 50


def test_waits_of_a_trace_are_taken_over_with_its_rows():
    trace = random_waits(5, 200)
    before = TraceIndex(trace)
    key = before.lane_of_span(0)
    waits = before.waits(key)
    named = with_waits(trace, trace.spans.wait.copy())

    same = TraceIndex(trace, before)
    other = TraceIndex(named, before)

    assert same.waits(key) is waits
    assert other.waits(key) is not waits


@pytest.mark.parametrize("n", [2, 65, 700])
def test_steps_visit_every_wait_and_every_gap_of_a_row(n):
    row, wait = random_row(n, n)
    # The first half of the row has none, so that a step goes far.
    wait[row.id[: n // 2]] = 0
    waits = make_waits(row, wait)
    waited = waits.behind(row, np.arange(n))

    def walk(step, at, by):
        seen = []
        while (result := step(at, by)) is not None:
            seen.append(result)
            span = result if isinstance(result, int) else result.before
            at = ids.index(span)
        return seen

    ids = row.id[np.arange(n)].tolist()
    expected = [ids[i] for i in range(n) if waited[i] > 0]
    gaps = [
        (int(row.end[i] + waited[i]), int(row.start[i + 1]), ids[i], ids[i + 1])
        for i in range(n - 1)
        if row.start[i + 1] > row.end[i] + waited[i]
    ]
    assert walk(lambda at, by: next_wait(row, waits, at, by), -1, 1) == expected
    back = walk(lambda at, by: next_wait(row, waits, at, by), n, -1)
    assert back == expected[::-1]
    for start, by in ((-1, 1), (n, -1)):
        result = walk(lambda at, by: next_gap(row, waits, at, by), start, by)
        seen = [(g.time.start, g.time.end, g.before, g.after) for g in result]
        assert seen == gaps[::by]


def test_selected_waits_and_gaps_have_times():
    trace = random_waits(3, 40)
    recorded = recorded_wait(trace)
    gap = Gap(TimeRange(3, 8), 1, 2)

    result = pauses(trace, Selection("waits", (5, 999, 7)))

    ends = {i: int(trace.spans.end[i]) for i in (5, 7)}
    assert result == tuple(
        (i, TimeRange(ends[i], ends[i] + max(int(recorded[i]), 0))) for i in (5, 7)
    )
    assert pauses(trace, Selection("gaps", (1,), gap=gap)) == ((1, gap.time),)
    gone = Selection("gaps", (40,), gap=Gap(gap.time, 40, 2))
    assert pauses(trace, gone) == ()
    assert pauses(trace, Selection("spans", (5,))) == ()
