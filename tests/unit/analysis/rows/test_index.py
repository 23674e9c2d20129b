import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from ggscope.analysis import workers
from ggscope.analysis.rows.colorings import coloring_ids
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.once_cache import OnceCache
from ggscope.analysis.workers import group_spans
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import CounterShape
from ggscope.model.trace import LaneKind
from ggscope.model.units import TimeRange
from wait_traces import random_waits


@pytest.fixture(scope="module")
def llama() -> TraceIndex:
    return TraceIndex(builders.llama_like_trace(tokens=3, layers=2))


@pytest.fixture(scope="module")
def npu() -> TraceIndex:
    return TraceIndex(builders.npu_like_trace())


def key_groups(trace_index: TraceIndex) -> list[tuple[str, str]]:
    return [(lane.group, lane.key) for lane in trace_index.lanes]


def test_lanes_of_a_llama_trace_come_in_default_order(llama):
    assert key_groups(llama) == [
        ("Tokens", "token"),
        ("Tokens", "phase"),
        ("Threads", "thread:thread 0"),
        ("Threads", "thread:thread 1"),
        ("Threads", "busy"),
        ("CPU backend", "graph:graphs"),
        ("Layers", "layer:0"),
        ("Layers", "layer:1"),
        ("Ops", "op:MUL_MAT"),
        ("Ops", "op:ADD"),
        ("Ops", "op:RMS_NORM"),
        ("Ops", "op:ROPE"),
        ("Ops", "op:GLU"),
        ("Ops", "op:FLASH_ATTN_EXT"),
        ("Counters", "counter:Memory"),
    ]


def test_lanes_of_an_npu_trace_lay_stalls_over_their_engine(npu):
    assert [key for _, key in key_groups(npu)] == [
        "token",
        "phase",
        "engine:DMA0",
        "engine:TE0",
        "engine:VE0",
        "engine:CTRL",
        "engine:HOST",
        "stall:bus stalls",
        "layer:0",
        "layer:1",
        "layer:2",
        "layer:3",
        "counter:DRAM read",
        "counter:SPM used",
        "counter:allocations",
    ]
    (dma,) = (lane for lane in npu.lanes if lane.key == "engine:DMA0")
    assert dma.overlay == (5,)
    assert len(npu.overlay_rows("engine:DMA0")[0]) == 20
    assert npu.overlay_rows("engine:TE0") == ()


def test_lanes_of_an_empty_trace_are_none():
    assert TraceIndex(builders.empty_trace()).lanes == ()


def test_lane_keys_are_unique_and_groups_follow_the_file():
    builder = TraceBuilder()
    builder.ops = builders.OPS
    builder.add_lane("thread 0", LaneKind.THREAD, ("Backend 1",))
    builder.add_lane("thread 0", LaneKind.THREAD, ("CPU backend",))
    builder.add_lane("thread 0", LaneKind.THREAD, ("CPU backend",), (-1,))
    builder.add_lane("graphs", LaneKind.GRAPH, ("Backend 1",))
    builder.add_lane("empty", LaneKind.THREAD)
    builder.add_lane("notes", LaneKind.MARKER)
    builder.add_lane("queue", LaneKind.COMMAND)
    builder.add_lane("passes", LaneKind.TOKEN, ("odd",))
    builder.add_lane("blocks", LaneKind.MEMORY)
    n = np.array([0, 1, 2, 3, 5, 6, 7, 8], np.int32)
    builder.add_spans(start=n, end=n + 1, lane=n, op=1)
    counted = builder.add_lane("ram", LaneKind.COUNTER)
    builder.add_counter(
        "ram",
        "bytes",
        CounterShape.LEVEL,
        np.array([0]),
        np.array([1.0]),
        lane=counted,
    )

    index = TraceIndex(builders.finished(builder))

    assert key_groups(index) == [
        ("Tokens", "token"),
        ("Backend 1", "thread:thread 0"),
        ("Backend 1", "busy"),
        ("Backend 1", "graph:graphs"),
        ("CPU backend", "thread:thread 0#2"),
        ("CPU backend", "thread:thread 0#3"),
        ("Commands", "command:queue"),
        ("Ops", "op:ADD"),
        ("Memory", "memory:blocks"),
        ("Counters", "counter:ram"),
        ("Markers", "marker:notes"),
    ]
    assert [index.lane(f"thread:thread 0{s}").lane_ids for s in ("", "#2", "#3")] == [
        (0,),
        (2,),
        (1,),
    ]


@pytest.mark.parametrize("over", ["", "x", "99", "1", "-2"])
def test_stalls_without_a_target_get_a_lane_of_their_own(over):
    builder = TraceBuilder()
    builder.add_lane("TE0", LaneKind.ENGINE)
    builder.add_lane("stalls", LaneKind.STALL, ("Engines",), over=over)
    builder.add_spans(
        start=np.array([0, 3]), end=np.array([5, 4]), lane=np.array([0, 1], np.int32)
    )

    index = TraceIndex(builders.finished(builder))

    assert key_groups(index) == [
        ("Engines", "engine:TE0"),
        ("Stalls", "stall:stalls"),
    ]


def test_stalls_over_a_lane_without_spans_keep_it_visible():
    builder = TraceBuilder()
    builder.add_lane("TE0", LaneKind.ENGINE)
    builder.add_lane("stalls", LaneKind.STALL, over="0")
    builder.add_spans(start=np.array([3]), end=np.array([4]), lane=1)

    index = TraceIndex(builders.finished(builder))

    assert key_groups(index) == [("Engines", "engine:TE0")]
    assert index.rows("engine:TE0") == ()
    assert index.busy_share("engine:TE0") == 0.0
    assert index.row_of_span(0) == ("engine:TE0", 0)


def test_unknown_lane_raises_key_error(llama):
    for ask in (llama.rows, llama.lane, llama.overlay_rows, llama.busy_share):
        with pytest.raises(KeyError):
            ask("thread:99")


def test_rows_of_consecutive_spans_are_views_of_the_trace(llama):
    (row,) = llama.rows("thread:thread 1")

    assert np.shares_memory(row.start, llama.trace.spans.start)
    assert row.id.dtype == np.int32
    assert np.array_equal(row.id, np.flatnonzero(llama.trace.spans.lane == 3))


@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_hold_every_span_of_their_lane_once(shuffled):
    trace = builders.random_trace(3, 600, lanes=5, shuffled=shuffled)
    index = TraceIndex(trace)

    for number in range(5):
        (row,) = index.rows(f"thread:thread {number}")
        assert (
            sorted(np.asarray(row.id).tolist())
            == np.flatnonzero(trace.spans.lane == number).tolist()
        )
        assert np.array_equal(row.start, trace.spans.start[row.id])


def test_rows_of_overlapping_engine_work_stack(npu):
    assert [len(row) for row in npu.rows("engine:TE0")] == [19, 1]


def test_rows_by_layer_hold_the_union_of_its_ops(llama):
    spans = llama.trace.spans
    (row,) = llama.rows("layer:1")
    mine = (spans.layer == 1) & (spans.op >= 0)

    ticks = np.unique(np.concatenate([spans.start[mine], spans.end[mine]]))
    inside = (spans.start[mine] <= ticks[:-1, None]) & (
        spans.end[mine] >= ticks[1:, None]
    )
    assert row.total_covered == int(np.diff(ticks)[inside.any(axis=1)].sum())
    assert llama.lane("layer:1").n_spans == int(mine.sum())
    assert llama.lane("layer:1").track.is_thin


def test_counters_have_no_rows(llama):
    assert llama.rows("counter:Memory") == ()
    assert llama.row_columns("counter:Memory", "op") == ()


def test_rows_are_computed_once(llama):
    assert llama.rows("thread:thread 0") is llama.rows("thread:thread 0")
    assert llama.lanes is llama.lanes


@pytest.mark.parametrize("by", coloring_ids())
def test_row_columns_show_the_category_of_their_spans(llama, by):
    categories = llama.categories(by)
    (row,), (columns,) = (
        llama.rows("thread:thread 0"),
        llama.row_columns("thread:thread 0", by),
    )

    result = columns.query(np.array([int(row.start[5]), int(row.end[5])]))

    assert result.category.tolist() == [int(categories.index[row.id[5]])]
    assert result.busy.tolist() == [1.0]


def test_filtered_columns_show_marked_spans_only(llama):
    spans = llama.trace.spans
    mask = spans.op == builders.op_number("ADD")

    (columns,) = llama.filtered_columns("thread:thread 0", "op", mask, "adds")

    assert np.array_equal(columns.row.id, np.flatnonzero(mask & (spans.lane == 2)))


def test_filtered_columns_are_kept_for_the_last_two_masks():
    index = TraceIndex(builders.random_trace(1, 50))
    mask = np.ones(50, np.bool_)

    def ask(token: object) -> object:
        return index.filtered_columns("thread:thread 0", "op", mask, token)

    first, second = ask(1), ask(2)
    assert ask(1) is first
    assert ask(2) is second
    ask(3)
    assert ask(2) is second
    assert ask(1) is not first


def test_colourings_are_kept_for_the_last_three():
    index = TraceIndex(builders.random_trace(1, 50))

    first = index.row_columns("thread:thread 0", "op")
    for by in ("family", "layer", "token"):
        index.row_columns("thread:thread 0", by)

    assert index.row_columns("thread:thread 0", "op") is not first


def test_time_order_sorts_by_start_then_id():
    trace = builders.random_trace(2, 400, lanes=3, shuffled=True)

    order = TraceIndex(trace).time_order()

    expected = sorted(range(400), key=lambda i: (int(trace.spans.start[i]), i))
    assert order.tolist() == expected
    assert order.dtype == np.int32


def test_time_order_of_a_sorted_trace_is_its_own():
    assert TraceIndex(
        builders.spans_trace([0, 0, 5], [1, 3, 6])
    ).time_order().tolist() == [0, 1, 2]


def test_every_span_is_where_row_of_span_says(npu):
    for span in range(len(npu.trace.spans)):
        key, number = npu.row_of_span(span)
        lane = int(npu.trace.spans.lane[span])
        if lane in npu.lane(key).overlay:
            assert number == 0
            assert span in npu.overlay_rows(key)[0].id
        else:
            assert lane in npu.lane(key).lane_ids
            assert span in npu.rows(key)[number].id


def test_neighbours_walk_along_a_row(npu):
    first, *_ = np.asarray(npu.rows("engine:TE0")[0].id).tolist()
    walked = [first]
    while (following := npu.neighbours(walked[-1])[1]) is not None:
        assert npu.neighbours(following)[0] == walked[-1]
        walked.append(following)

    assert walked == np.asarray(npu.rows("engine:TE0")[0].id).tolist()
    assert npu.neighbours(first)[0] is None


def test_neighbours_of_a_stall_are_stalls(npu):
    stalls = np.asarray(npu.overlay_rows("engine:DMA0")[0].id).tolist()

    assert npu.neighbours(stalls[1]) == (stalls[0], stalls[2])


def test_busy_share_is_covered_time_of_the_extent():
    index = TraceIndex(builders.spans_trace([0, 60, 10], [25, 100, 20]))

    assert index.busy_share("thread:thread 0") == pytest.approx(0.65)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 99), cut=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_shares_of_a_range_are_those_of_brute_force(seed, cut) -> None:
    trace = random_waits(seed, 200, lanes=2)
    index = TraceIndex(trace)
    extent = trace.extent
    low, high = sorted(extent.start + int(c * extent.duration) for c in cut)
    keys = ["thread:thread 0", "thread:thread 1"]

    uses = index.shares_in(keys, TimeRange(low, high), "family")

    for key, use in zip(keys, uses, strict=True):
        (row,) = index.rows(key)
        inside = np.minimum(row.end, high) - np.maximum(row.start, low)
        waited = index.waits(key)[0].behind(row, np.arange(len(row)))
        of_waits = np.minimum(row.end + waited, high) - np.maximum(row.end, low)
        length = max(high - low, 1)
        assert use.busy == pytest.approx(np.maximum(inside, 0).sum() / length)
        if high > low:
            expected = np.maximum(of_waits, 0).sum() / length
            assert use.waiting == pytest.approx(expected)


def test_shares_of_the_whole_are_the_busy_shares() -> None:
    trace = builders.llama_like_trace()
    index = TraceIndex(trace)
    keys = [lane.key for lane in index.lanes if lane.track.id == "thread"]

    for by in ("family", "op"):
        uses = index.shares_in(keys, trace.extent, by)
        assert [use.busy for use in uses] == [index.busy_share(key) for key in keys]
        assert [use.waiting for use in uses] == [None] * len(keys)


def test_busy_share_of_a_trace_without_length_is_zero():
    assert (
        TraceIndex(builders.spans_trace([5], [5])).busy_share("thread:thread 0") == 0.0
    )


def test_span_at_and_nearest_span_find_what_a_person_sees():
    index = TraceIndex(
        builders.spans_trace([0, 100, 103, 110, 300], [50, 101, 106, 110, 301])
    )
    key = "thread:thread 0"

    assert index.span_at(key, 0, 20) == 0
    assert index.span_at(key, 0, 50) is None
    assert index.span_at(key, 7, 20) is None
    assert index.nearest_span(key, 0, 102, 5) == 2
    assert index.nearest_span(key, 0, 110, 2) == 3
    assert index.nearest_span(key, 0, 200, 5) is None
    assert index.nearest_span(key, -1, 102, 5) is None


def test_nearest_edge_is_the_begin_or_end_that_is_nearest():
    starts, ends = [0, 100, 103, 110, 300], [50, 101, 106, 110, 301]
    index = TraceIndex(builders.spans_trace(starts, ends))
    key, edges = "thread:thread 0", sorted({*starts, *ends})

    for tick in range(-20, 330):
        distance, edge = min((abs(edge - tick), edge) for edge in edges)
        expected = edge if distance <= 8 else None
        assert index.nearest_edge(key, 0, tick, 8) == expected, tick
    assert index.nearest_edge(key, 5, 100, 8) is None
    assert index.nearest_edge(key, -1, 100, 8) is None


def test_token_spans_come_in_time_order(llama):
    ids = llama.token_spans()

    assert llama.trace.spans.token[ids].tolist() == [0, 1, 2]
    assert TraceIndex(builders.empty_trace()).token_spans().tolist() == []


def bands(index: TraceIndex) -> list[tuple[str, int, TimeRange]]:
    phase_bands = index.phase_bands()
    times = [phase_bands.time(i) for i in range(len(phase_bands))]
    return list(zip(phase_bands.names, phase_bands.phase.tolist(), times, strict=True))


def test_phase_bands_follow_their_lane(npu):
    assert bands(npu) == [
        ("prefill", 0, TimeRange(0, 10_000)),
        ("decode", 1, TimeRange(10_000, 20_000)),
    ]


def test_phase_bands_without_a_lane_span_their_phase():
    trace = builders.spans_trace(
        [0, 10, 20, 30], [5, 15, 25, 35], phase=np.array([1, 0, 0, -1], np.int8)
    )
    bare = builders.spans_trace([0], [1], kind=LaneKind.PHASE)

    assert bands(TraceIndex(trace)) == [
        ("generate", 1, TimeRange(0, 5)),
        ("prompt", 0, TimeRange(10, 25)),
    ]
    assert bands(TraceIndex(bare)) == [("–", -1, TimeRange(0, 1))]
    assert bands(TraceIndex(builders.spans_trace([0], [1]))) == []
    only = builders.spans_trace([0], [1], phase=np.array([0], np.int8))
    assert bands(TraceIndex(only)) == [("prompt", 0, TimeRange(0, 1))]


def test_lanes_may_draw_several_lanes_of_the_trace(npu):
    rows = npu._stacked((0, 1))

    assert sum(len(row) for row in rows) == 40


def test_two_threads_compute_a_value_once():
    cache, barrier, made = OnceCache(), Barrier(4), []

    def make() -> int:
        made.append(1)
        time.sleep(0.05)  # so that the others ask meanwhile
        return 7

    def ask(_: int) -> int:
        barrier.wait()
        return cache.get("key", make)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [7] * 4

    assert len(made) == 1


def test_a_value_that_failed_is_tried_again():
    cache = OnceCache()

    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get("key", fail)

    assert cache.get("key", lambda: 3) == 3


def test_threads_asking_for_different_things_do_not_deadlock():
    index = TraceIndex(builders.llama_like_trace(tokens=2, layers=2))
    barrier = Barrier(6)

    def ask(number: int) -> int:
        barrier.wait()
        n = 0
        for lane in index.lanes[:: 1 if number % 2 else -1]:
            n += len(index.row_columns(lane.key, coloring_ids()[number % 3]))
        return n

    with ThreadPoolExecutor(6) as pool:
        counts = set(pool.map(ask, range(6)))

    assert len(counts) == 1


@pytest.mark.parametrize(
    "column",
    [[0, 0, 2, 2, 1], [-1, 0, -1, 1, 1, -1], [0, 1, 0, 1, 2, -1, 0], [], [3]],
)
def test_group_spans_finds_the_ids_of_each_group(column, monkeypatch):
    values = np.array(column, np.int16)
    monkeypatch.setattr(
        workers, "chunks", lambda n: [slice(i, min(i + 2, n)) for i in range(0, n, 2)]
    )

    groups = group_spans(values, 4)

    everything = np.arange(len(values))
    for group in range(4):
        ids = everything[groups.ids(group)] if len(values) else []
        assert list(ids) == np.flatnonzero(values == group).tolist()


def test_group_spans_of_runs_needs_no_order():
    assert group_spans(np.array([1, 1, 0, -1, 2], np.int8), 3).order is None


def test_work_row_is_the_outermost_row_of_ops():
    trace = builders.spans_trace(
        [0, 10, 60, 0], [100, 20, 70, 5], lane=[0, 0, 0, 1], op=[-1, 3, 3, -1]
    )
    index = TraceIndex(trace)

    assert index.work_row("thread:thread 0") == 1
    assert index.work_row("thread:thread 1") == 0
    assert index.busy_share("thread:thread 0") == pytest.approx(0.2)
    assert index.busy_share("thread:thread 1") == pytest.approx(0.05)


def test_work_row_holds_ops_even_where_its_first_spans_are_none():
    """The outer row has one op, its last span, over which nothing lies."""
    start = np.append(np.arange(30) * 10, [2, 300])
    length = np.append(np.full(30, 8), [4, 8])
    op = np.append(np.full(30, -1), [3, 3])
    index = TraceIndex(builders.spans_trace(start, start + length, op=op))
    key = index.lane_of_span(0)

    assert len(index.rows(key)) == 2
    assert index.work_row(key) == 0
