"""Traces of very many lanes or levels: linear work, and only for what is in view."""

from collections import Counter

import numpy as np
import pytest

import builders
from ggscope.analysis.rows import index as index_module
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import FEW_LANES, LaneState, lay_out
from ggscope.analysis.rows.rows import MAX_ROWS, depths, stack
from ggscope.exporters.ascii import ascii_timeline
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind, Trace
from ggscope.render.theme import theme
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.overview import skyline
from ggscope.render.timeline.prepare import PrepareRequest
from ggscope.render.timeline.scene import OverviewScene, TimelineScene, TimeScale

MANY = 3 * FEW_LANES


def many_lanes(n: int = MANY, *, each: int = 3) -> Trace:
    """Return a trace of `n` threads with ops, two of which are nested in the first."""
    lane = np.repeat(np.arange(n), each)
    within = np.tile(np.arange(each), n)
    start = lane * 7 + within
    return builders.spans_trace(start, start + 20 - 3 * within, lane, op=3 + within % 2)


def onion(depth: int) -> Trace:
    """Return spans of one lane that lie one within the other."""
    at = np.arange(depth)
    return builders.spans_trace(at, 3 * depth - at, op=3)


def composed_rows(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Return a counter of the calls that make rows."""
    calls: Counter[int] = Counter()

    def counted(*columns):
        calls["stack"] += 1
        return stack(*columns)

    monkeypatch.setattr(index_module, "stack", counted)
    return calls


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("order", ["mixed", "by lane", "in order"])
@pytest.mark.parametrize("tick", [1, 1 << 57])
def test_depths_show_how_many_rows_each_lane_needs(seed, order, tick):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 80))
    start = rng.integers(0, 25, n) * tick
    end = start + rng.integers(0, 9, n) * tick
    lane = rng.integers(0, 6, n)
    if order != "mixed":
        keys = (lane,) if order == "by lane" else (-end, end > start, start, lane)
        at = np.lexsort(keys)
        start, end, lane = start[at], end[at], lane[at]

    depth = depths(start, end, lane)

    for one in np.unique(lane).tolist():
        mine = np.flatnonzero(lane == one)
        rows = stack(start[mine], end[mine], mine)
        assert len(rows) == int(depth[mine].max()) + 1


@pytest.mark.parametrize("levels", [3, 40, 3000])
@pytest.mark.parametrize("is_nested", [True, False])
def test_depths_count_the_spans_that_are_open(levels, is_nested):
    rng = np.random.default_rng(levels)
    lane = np.repeat([0, 4, 5], levels)
    start = np.tile(np.arange(levels) // 2, 3)
    end = 3 * levels - start - np.tile(np.arange(levels) % 2, 3)
    end[rng.random(3 * levels) < 0.1] = -1
    end = np.maximum(end, start)  # some have no length
    if not is_nested:
        end[levels // 2 :: levels] += 2 * levels
    mixed = rng.permutation(3 * levels)
    lane, start, end = lane[mixed], start[mixed], end[mixed]

    depth = depths(start, end, lane)

    order = np.lexsort((-end, end > start, start, lane))
    lane, start, end, depth = lane[order], start[order], end[order], depth[order]
    for i in rng.integers(0, 3 * levels, 200).tolist():
        before = slice(0, i)
        is_open = (lane[before] == lane[i]) & (end[before] > start[i])
        assert depth[i] == np.count_nonzero(is_open & (end[before] > start[before]))


def test_row_counts_equal_the_rows_without_making_them(monkeypatch):
    calls = composed_rows(monkeypatch)
    index = TraceIndex(many_lanes())

    counts = index.row_counts()

    assert not calls
    expected = [1 if x.track.column else len(index.rows(x.key)) for x in index.lanes]
    assert counts.tolist() == expected
    assert sum(not lane.track.column for lane in index.lanes) == MANY


def test_of_many_lanes_only_those_in_view_are_prepared(monkeypatch):
    calls = composed_rows(monkeypatch)
    index = TraceIndex(many_lanes())
    state = LaneState(collapsed=frozenset())

    prepared = PrepareRequest(index, state, "family", None, None)()
    scene = TimelineScene(
        index, prepared.layout, index.trace.extent, 800, 600, theme("dark")
    )
    compose_timeline(scene)

    assert calls["stack"] < 50
    expected = {lane.key: len(index.rows(lane.key)) for lane in index.lanes}
    assert prepared.layout == lay_out(index.lanes, expected, state)


def test_skyline_of_many_lanes_says_how_busy_they_are_on_average():
    index = TraceIndex(many_lanes())
    scene = OverviewScene(index, index.trace.extent, 200, 40, theme("dark"))
    time = TimeScale(index.trace.extent, 0, 200, 1)

    result = skyline(scene, time)

    lanes = [lane for lane in index.lanes if not lane.track.column]
    rows = [index.row_columns(x.key, "family")[index.work_row(x.key)] for x in lanes]
    busy = np.mean([row.query(time.edges).busy for row in rows], axis=0)
    np.testing.assert_allclose(result.busy, busy, atol=1e-9)
    assert ((result.category >= 0) == (busy > 0)).all()


def test_lane_of_very_many_levels_ends_with_their_union():
    trace = onion(MAX_ROWS + 100)
    index = TraceIndex(trace)
    key = index.lanes[0].key

    rows = index.rows(key)

    assert len(rows) == MAX_ROWS
    assert rows[-1].levels == 101
    assert sum(row.levels for row in rows) == MAX_ROWS + 100
    # Exact in every row that is one level, and the union of the others.
    assert [int(row.id[0]) for row in rows] == list(range(MAX_ROWS))
    deepest = len(trace.spans) - 1
    assert index.row_of_span(deepest) == (key, MAX_ROWS - 1)
    assert index.neighbours(deepest) == (MAX_ROWS - 1, None)


def test_figure_in_letters_says_which_lanes_and_levels_it_leaves_out():
    text = ascii_timeline(many_lanes())

    assert f"({MANY - 64:,} more lanes of Threads)" in text
    assert text.count("\n") < 300
    assert f"({10_000 - 6:,} more rows)" in ascii_timeline(onion(10_000))


def test_lanes_of_the_same_name_and_many_groups_have_keys_of_their_own():
    builder = TraceBuilder()
    n = 2_000
    for i in range(n):
        builder.add_lane("same", LaneKind.STALL, (f"group {i}",))
    at = np.arange(n, dtype=np.int64)
    builder.add_spans(start=at, end=at + 1, lane=at.astype(np.int32))

    lanes = TraceIndex(builders.finished(builder)).lanes

    assert [lane.key for lane in lanes[:3]] == [
        "stall:same",
        "stall:same#2",
        "stall:same#3",
    ]
    assert len({lane.key for lane in lanes}) == n


def test_scrolled_picture_shows_the_boxes_of_its_place():
    index = TraceIndex(many_lanes())
    layout = lay_out(index.lanes, index.row_counts(), LaneState(collapsed=frozenset()))
    expected = layout.boxes[500]

    near = layout.boxes_between(expected.y + 1, expected.y + expected.height - 1)

    assert near == (expected,)
    assert layout.box_of(expected.lane.key) is expected
    assert layout.boxes_between(-10, layout.height + 10) == layout.boxes
