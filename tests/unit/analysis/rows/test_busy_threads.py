"""How many threads are busy, against a plain count of spans tick by tick."""

import numpy as np
import pytest

import builders
from ggscope.analysis.rows.busy_threads import (
    busy_lane,
    busy_step,
    busy_threads,
    thread_lanes,
    thread_rows,
)
from ggscope.analysis.rows.columns import column_edges, query_many
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import FEW_LANES
from ggscope.analysis.rows.tracks import BUSY_THREADS
from ggscope.model.tables import Array
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange
from wait_traces import random_waits


def short_trace(seed: int, threads: int, n: int = 60) -> Trace:
    """Return ops of a few ticks on threads, some of no length."""
    rng = np.random.default_rng(seed)
    lane = np.sort(rng.integers(0, threads, n))
    lane[:threads] = np.arange(threads)
    lane.sort()
    start = np.zeros(n, np.int64)
    end = np.zeros(n, np.int64)
    for thread in range(threads):
        mine = lane == thread
        steps = rng.integers(0, 6, 2 * int(mine.sum())).cumsum()
        start[mine], end[mine] = steps[::2], steps[1::2]
    return builders.spans_trace(start, end, lane, op=1)


def counts(trace: Trace) -> Array:
    """Return how many threads are busy in each tick of the extent."""
    s, extent = trace.spans, trace.extent
    busy = np.zeros((len(trace.lanes), extent.duration), np.bool_)
    for i in range(len(s)):
        is_thread = trace.lanes.kinds[s.lane[i]] == LaneKind.THREAD
        if is_thread and s.op[i] >= 0:
            low, high = int(s.start[i]), int(s.end[i])
            busy[s.lane[i], low - extent.start : high - extent.start] = True
    return busy.sum(axis=0)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_every_tick_has_the_count_of_a_plain_loop(threads: int) -> None:
    trace = short_trace(threads, threads)
    index, expected = TraceIndex(trace), counts(trace)
    first = trace.extent.start

    for tick in range(first, trace.extent.end):
        step = busy_step(index, tick)
        assert step.n == expected[tick - first]
        inside = expected[step.time.start - first : step.time.end - first]
        assert step.time.start <= tick < step.time.end
        assert set(inside.tolist()) == {step.n}


@pytest.mark.parametrize("px", [1, 7, 40, 400])
@pytest.mark.parametrize("seed", range(3))
def test_columns_have_the_mean_of_their_ticks(px: int, seed: int) -> None:
    trace = short_trace(seed, 4)
    index, expected = TraceIndex(trace), counts(trace)
    edges = column_edges(trace.extent, px)

    rows = thread_rows(index, "family")
    result = busy_threads(query_many(rows, edges))
    with_levels = busy_threads(query_many(rows, edges, [8] * len(rows)))

    assert with_levels.tolist() == result.tolist()
    for i in range(px):
        low, high = int(edges[i]), int(edges[i + 1])
        ticks = expected[low - trace.extent.start : high - trace.extent.start]
        if high > low:
            assert result[i] == pytest.approx(ticks.mean())
        else:
            assert result[i] == busy_step(index, low).n
    assert result.shape == (px,)


def test_graphs_around_ops_do_not_make_threads_busy() -> None:
    trace = builders.spans_trace(
        [0, 10, 0, 40], [100, 20, 100, 60], [0, 0, 1, 1], op=[-1, 1, -1, 1]
    )
    index = TraceIndex(trace)

    assert [busy_step(index, tick).n for tick in (5, 15, 30, 50, 90)] == [0, 1, 0, 1, 0]
    assert busy_step(index, 30).time == TimeRange(20, 40)


@pytest.mark.parametrize(
    ("threads", "has_lane"), [(1, False), (2, True), (FEW_LANES + 1, False)]
)
def test_lane_is_there_for_several_threads(threads: int, has_lane: bool) -> None:
    index = TraceIndex(short_trace(1, threads, 2 * threads))

    at = busy_lane(index)

    assert (at >= 0) is has_lane
    assert len(thread_lanes(index)) == threads
    if has_lane:
        lane = index.lane(BUSY_THREADS)
        assert (lane.group, lane.title) == ("Threads", "threads busy")
        # Behind the threads, before all else.
        assert at == thread_lanes(index).max() + 1


def test_waits_do_not_make_threads_busy() -> None:
    trace = random_waits(2, 200, lanes=3)
    plain = builders.spans_trace(
        trace.spans.start, trace.spans.end, trace.spans.lane, op=trace.spans.op
    )
    edges = column_edges(trace.extent, 50)

    result, expected = (
        busy_threads(query_many(thread_rows(TraceIndex(one), "family"), edges))
        for one in (trace, plain)
    )

    assert result.tolist() == expected.tolist()
