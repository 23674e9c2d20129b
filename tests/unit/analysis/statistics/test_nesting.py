"""Self and wall time against a count of every tick in plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from ggmlviz_files import T0, graph, run, write
from ggscope.analysis import workers
from ggscope.analysis.order import turns
from ggscope.analysis.statistics import nesting, scan
from ggscope.analysis.statistics.nesting import covered, own_times
from ggscope.analysis.statistics.table import StatTable, stat_table
from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.selection import BY
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Lane, LaneKind, Lanes, Trace, lane_titles
from ggscope.model.units import TimeRange
from ggscope.readers.registry import open_trace
from support import ROOT, need_corpus

spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 25), st.integers(0, 2)), max_size=25
)


def columns(rows):
    start = np.array([s for s, _, _ in rows], np.int64)
    length = np.array([n for _, n, _ in rows], np.int64)
    return start, start + length, np.array([lane for _, _, lane in rows], np.int32)


@given(spans)
@settings(max_examples=200, deadline=None)
def test_own_times_give_each_tick_to_the_innermost_span(rows):
    start, end, lane = columns(rows)

    result = own_times(start, end, lane)

    busy = 0
    for which in range(3):
        for tick in range(100):
            here = [
                i
                for i in range(len(rows))
                if lane[i] == which and start[i] <= tick < end[i]
            ]
            busy += bool(here)
    assert int(result.sum()) == busy
    assert (result <= end - start).all()
    for i in range(len(rows)):
        inside = [
            j
            for j in range(len(rows))
            if j != i
            and lane[j] == lane[i]
            and (start[j], -end[j]) >= (start[i], -end[i])
            and end[j] > start[j]
            and start[j] < end[i]
        ]
        if not inside:
            assert result[i] == end[i] - start[i]


@pytest.mark.parametrize("factor", [1, 1 << 40, 1 << 52])
def test_own_times_of_very_many_lanes_are_those_of_each(factor):
    random = np.random.default_rng(5)
    n, n_lanes = 150_000, 40_000
    lane = random.integers(0, n_lanes, n)
    lane[:70_000] = 7
    start = random.integers(-200, 200, n) * factor
    end = start + random.integers(0, 60, n) * factor

    result = own_times(start, end, lane)

    for one in (0, 7, 8, 20_000, n_lanes - 1, *random.integers(0, n_lanes, 300)):
        rows = np.flatnonzero(lane == one)
        alone = own_times(start[rows], end[rows], lane[rows])
        assert result[rows].tolist() == alone.tolist()


@given(spans, st.booleans())
@settings(max_examples=200, deadline=None)
def test_covered_time_is_that_of_every_tick(rows, is_huge):
    start, end, group = columns(rows)
    factor = 1 << 50 if is_huge else 1

    result = covered(group.astype(np.int64), start * factor, end * factor, 1 << 13)

    for g in range(3):
        ticks = {
            t for s, n, which in rows if which == g for t in range(s, s + n)
        }  # fmt: skip
        assert result[g] == len(ticks) * factor
    assert not result[3:].any()


def times(table: StatTable) -> dict[str, tuple]:
    return {r.key: (r.total, r.self_time, r.wall) for r in (*table.rows, table.all)}


def nested() -> Trace:
    """Return 160 ticks: a graph of 130 and its two ops, and an op on a lane beside."""
    builder = TraceBuilder()
    builder.ops = builders.OPS
    one = builder.add_lane("thread 0", LaneKind.THREAD, ("Backend 1",))
    two = builder.add_lane("thread 0", LaneKind.THREAD, ("Backend 2",))
    builder.add_spans(
        start=np.array([0, 10, 60, 60]),
        end=np.array([130, 50, 120, 160]),
        lane=np.array([one, one, one, two], np.int32),
        op=np.array([-1, 1, 2, 1], np.int16),
    )
    return builders.finished(builder)


def test_lanes_with_nested_spans_show_self_and_wall_time():
    result = times(stat_table(nested(), "lane"))

    assert result == {
        "Backend 1 / thread 0": (230, 130, 130),
        "Backend 2 / thread 0": (100, 100, 100),
        "": (330, 230, 160),
    }


def test_ops_side_by_side_show_wall_time():
    names = [nested().op_name(i) for i in (1, 2)]

    result = times(stat_table(nested(), "op"))

    assert result[names[0]] == (140, 140, 140)
    assert result[names[1]] == (60, 60, 60)
    assert result[""] == (200, 200, 140)


def test_range_and_mask_choose_the_spans():
    trace = nested()

    early = times(stat_table(trace, "lane", time=TimeRange(0, 60)))
    masked = times(stat_table(trace, "lane", mask=np.array([1, 0, 0, 1], np.bool_)))
    chosen = times(stat_table(trace, "lane", ids=np.array([1, 2])))

    assert early[""] == (170, 70, 130)
    # Self time leaves out what lies within, whether that is counted or not.
    assert masked["Backend 1 / thread 0"] == (130, 30, 130)
    assert chosen[""] == (100, 100, 100)


def test_estimated_spans_nest_only_where_their_times_are_used(tmp_path):
    path = write(tmp_path / "demo.ggmlviz", run())
    trace = open_trace(path)

    plain = times(stat_table(trace, "lane"))
    whole = times(stat_table(trace, "lane", include_estimated=True))

    assert plain[""][:2] == (plain[""][0], plain[""][0])
    assert whole[""] == (2 * plain[""][0], plain[""][0], plain[""][0])


def test_corpus_trace_of_nested_estimates_adds_up_to_its_graphs():
    trace = open_trace(need_corpus() / "ggmlviz/test_trace.ggmlviz")

    table = stat_table(trace, "lane", include_estimated=True)

    assert table.all.total == 427_992_252
    assert table.all.self_time == table.all.wall == 213_996_126


@pytest.mark.parametrize("by", BY)
def test_sums_of_self_time_are_never_more_than_the_totals(by):
    trace = open_trace(ROOT / "resources/samples/llama.ggmlviz")

    table = stat_table(trace, by)

    for row in (*table.rows, table.all):
        if by in ("source", "expert"):
            assert (row.self_time, row.wall) == (None, None)
        elif row.timed:
            assert row.self_time <= row.total
            assert row.wall <= row.self_time or by not in ("lane", "thread")
            assert row.wall <= trace.extent.duration


def share_out_among(monkeypatch, n_workers):
    """Have that many workers go over few spans at a time."""
    for module in (scan, turns, workers):
        monkeypatch.setattr(module, "n_workers", lambda: n_workers)
    monkeypatch.setattr(scan, "BLOCK_ROWS", 16)
    monkeypatch.setattr(scan, "_CALL_ROWS", 32)
    monkeypatch.setattr(turns, "MIN_SHARED", 32)


def by_hand(monkeypatch):
    """Have self and wall time computed by sorting, as without the compiled scan."""
    monkeypatch.setattr(scan, "nested", lambda *_, **__: None)


@pytest.mark.parametrize("seed", range(12))
def test_compiled_scan_and_sorting_agree(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 400))
    lane = np.sort(rng.integers(0, rng.integers(1, 6), n))
    start = rng.integers(-50, 60 * (1 + seed), n)
    end = start + rng.integers(0, 40, n)
    order = np.lexsort((-end, start, lane))
    trace = builders.spans_trace(
        start[order], end[order], lane=lane[order], op=rng.integers(-1, 4, n),
        flags=rng.choice([0, 2, 4, 64], n).astype(np.uint16),
    )  # fmt: skip
    chosen = {
        "mask": rng.random(n) < 0.7 if seed % 2 else None,
        "time": TimeRange(0, 60) if seed % 3 == 1 else None,
        "include_estimated": bool(seed % 4 == 2),
    }
    compiled = [times(stat_table(trace, by, **chosen)) for by in ("lane", "op")]
    by_hand(monkeypatch)

    sorted_ = [times(stat_table(trace, by, **chosen)) for by in ("lane", "op")]

    assert compiled == sorted_


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("n_lanes", [1, 5, 12, 40])
@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("keeps", ["order", "keys", "both", "nothing"])
def test_time_that_workers_share_out_adds_up(
    monkeypatch, n_workers, n_lanes, is_nested, is_far, keeps
):
    rng = np.random.default_rng(n_lanes)
    n = 2_000
    lane = np.sort(rng.integers(0, n_lanes, n))
    start = rng.integers(0, 9_000, n)
    if is_far:
        start[lane == 0] += 1 << 61
    order = np.lexsort((start, lane))
    lane, start = lane[order], start[order]
    gap = np.append(np.diff(start), 0)
    is_last = np.append(np.diff(lane) != 0, True)
    space = np.where(is_last, 50, np.maximum(gap, 0))
    end = start + (rng.integers(0, 900, n) if is_nested else space)
    order = np.lexsort((-end, start, lane))
    trace = builders.spans_trace(
        start[order], end[order], lane=lane, op=rng.integers(0, 4, n),
        flags=rng.choice([0, 0, 0, 4], n).astype(np.uint16),
    )  # fmt: skip
    share_out_among(monkeypatch, n_workers)
    if keeps in ("order", "both"):
        monkeypatch.setattr(turns, "MIN_SPANS", 1)
    if keeps in ("order", "nothing"):
        monkeypatch.setattr(scan, "MAX_KEYS", 0)
    ranges = (None, TimeRange(4_000, 4_300), TimeRange(0, 50), TimeRange(8_999, 9_999))
    blocks = scan.SpanBlocks(trace)
    compiled = [
        times(stat_table(trace, by, time=time, blocks=blocks))
        for time in ranges
        for by in ("op", "lane")
    ]
    assert list(blocks.nests.values()) == [is_nested] * 2  # by op, by lane
    by_hand(monkeypatch)

    sorted_ = [
        times(stat_table(trace, by, time=time))
        for time in ranges
        for by in ("op", "lane")
    ]

    assert compiled == sorted_


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("inside", [-1, 2])
def test_graphs_around_ops_take_nothing_from_them(monkeypatch, n_workers, inside):
    rng = np.random.default_rng(3)
    n = 600
    edges = np.sort(rng.choice(20_000, 2 * n, replace=False))
    start, end, op = edges[::2], edges[1::2], rng.integers(0, 4, n)
    lane, flags = rng.integers(0, 3, n), rng.choice([0, 0, 0, 4], n)
    at = np.arange(0, n, 50)
    graph = start[at], end[np.minimum(at + 49, n - 1)]
    # A graph around the ops of each lane, and one op with a span inside.
    low = np.concatenate([start, *[graph[0]] * 3, [20_100, 20_110]])
    high = np.concatenate([end, *[graph[1]] * 3, [20_200, 20_120]])
    lane = np.concatenate([lane, np.repeat([0, 1, 2], len(at)), [0, 0]])
    op = np.concatenate([op, np.full(3 * len(at), -1), [1, inside]])
    flags = np.concatenate([flags, np.zeros(3 * len(at) + 2, int)])
    order = np.lexsort((-high, low, lane))
    trace = builders.spans_trace(
        low[order], high[order], lane=lane[order], op=op[order],
        flags=flags[order].astype(np.uint16),
    )  # fmt: skip
    only_graphs = np.ones(len(order), np.bool_)
    only_graphs[order >= len(order) - 2] = False
    share_out_among(monkeypatch, n_workers)
    requested = [
        {"by": by, "mask": mask, "time": time}
        for by in ("op", "lane", "thread")
        for mask in (None, only_graphs)
        for time in (None, TimeRange(4_000, 5_000))
    ]
    compiled = [times(stat_table(trace, **one)) for one in requested]
    by_hand(monkeypatch)

    assert compiled == [times(stat_table(trace, **one)) for one in requested]


def test_graphs_alone_hold_spans_so_self_times_are_totals():
    blocks = {}
    for inside in (-1, 1):
        trace = builders.spans_trace([0, 10, 20], [100, 15, 40], op=[inside, 1, 2])
        blocks[inside] = scan.SpanBlocks(trace)
        stat_table(trace, "op", blocks=blocks[inside])
        stat_table(trace, "lane", blocks=blocks[inside])

    assert [list(blocks[inside].nests.values()) for inside in (-1, 1)] == [
        [False, True], [True, True],
    ]  # fmt: skip


def test_deep_nests_and_other_orders_of_equals_are_no_trouble():
    n = 5000
    start = np.arange(n)
    deep = builders.spans_trace(start, 2 * n - start)
    equals = builders.spans_trace([0, 0, 0], [1, 3, 2])

    assert times(stat_table(deep, "lane"))[""][1:] == (2 * n, 2 * n)
    assert times(stat_table(equals, "lane"))[""] == (6, 3, 3)


def test_times_of_too_many_spans_are_not_reported(monkeypatch):
    by_hand(monkeypatch)
    monkeypatch.setattr(nesting, "MAX_SPANS", 3)
    trace = nested()

    assert times(stat_table(trace, "lane"))[""] == (330, None, None)
    assert times(stat_table(trace, "op"))[""] == (200, None, None)


def test_spans_in_any_order_are_found_to_nest():
    trace = builders.spans_trace([50, 0, 20], [60, 100, 30])

    assert times(stat_table(trace, "lane"))[""] == (120, 100, 100)


def test_unfinished_spans_have_no_time_to_nest():
    flags = np.array([SpanFlag.UNFINISHED, 0], np.uint16)
    trace = builders.spans_trace([0, 10], [100, 30], flags=flags)

    assert times(stat_table(trace, "lane"))[""] == (20, 20, 20)


def test_lane_titles_differ():
    lanes = (
        Lane(0, "thread 0", LaneKind.THREAD, ("CPU backend",)),
        Lane(1, "thread 0", LaneKind.THREAD, ("Backend 1",)),
        Lane(2, "thread 1", LaneKind.THREAD, ("Backend 1",)),
        Lane(3, "x", LaneKind.MARKER),
        Lane(4, "x", LaneKind.MARKER),
    )

    assert lane_titles(Lanes.of(lanes)) == [
        "CPU backend / thread 0", "Backend 1 / thread 0", "thread 1",
        "x (lane 3)", "x (lane 4)",
    ]  # fmt: skip


SAMPLES = sorted(p for p in (ROOT / "resources/samples").iterdir() if p.is_file())


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.name)
def test_keys_of_statistics_are_unique(path):
    trace = open_trace(path)

    for by in BY:
        keys = [row.key for row in stat_table(trace, by).rows]
        assert len(set(keys)) == len(keys), by


def test_keys_of_several_backends_are_unique(tmp_path):
    events = [
        event
        for i, backend in enumerate((0, 0x10, 0x20))
        for event in graph(T0 + 5000 * i, backend=backend, interleaved=True)
    ]
    trace = open_trace(write(tmp_path / "three.ggmlviz", events))

    for by in ("thread", "lane"):
        keys = {row.key for row in stat_table(trace, by).rows}
        assert keys == {
            "CPU backend / thread 0", "Backend 1 / thread 0", "Backend 2 / thread 0",
        }  # fmt: skip


def test_keys_of_the_corpus_are_unique():
    folder = need_corpus()
    paths = [*folder.glob("ggmlviz/**/*.ggmlviz"), *folder.glob("npu/valid*.json")]

    for path in paths:
        try:
            trace = open_trace(path)
        except ReadError:
            continue
        for by in ("op", "lane", "thread", "engine", "token"):
            keys = [row.key for row in stat_table(trace, by).rows]
            assert len(set(keys)) == len(keys), (path.name, by)
