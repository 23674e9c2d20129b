"""Where ``ggscope bench`` goes, and how it counts frames."""

import itertools

import pytest

from ggscope.analysis.rows.lanes import TimelineLane
from ggscope.analysis.rows.tracks import TRACKS
from ggscope.bench.frames import BenchError, FrameTimes, groups_to_close, range_at
from ggscope.model.units import TimeRange

SPECS = {spec.id: spec for spec in TRACKS}
EXTENT = TimeRange(1_000, 1_000 + 10**12)


def lane(key, group, *, n_spans=1, track="thread"):
    return TimelineLane(key, key, group, SPECS[track], n_spans=n_spans)


def walk(extent=EXTENT, n=2_000):
    return [range_at(extent, i / n) for i in range(n + 1)]


def test_walk_stays_inside_and_reaches_both_ends():
    ranges = walk()

    assert min(r.start for r in ranges) == EXTENT.start
    assert max(r.end for r in ranges) == EXTENT.end
    middle = [r.start + r.duration // 2 for r in ranges if r.duration < 10**10]
    assert min(middle) < EXTENT.start + 10**11
    assert max(middle) > EXTENT.end - 10**11


def test_walk_zooms_from_nearly_all_to_a_hundred_thousandth():
    widths = [r.duration / EXTENT.duration for r in walk()]

    assert max(widths) == pytest.approx(0.95)
    assert min(widths) == pytest.approx(1e-5, rel=0.01)


def test_walk_moves_with_every_step():
    ranges = walk()

    assert all(a != b for a, b in itertools.pairwise(ranges))


def test_walk_of_a_trace_without_duration_shows_something():
    assert all(r.duration == 1 for r in walk(TimeRange(5, 5), 10))


LANES = (
    *(lane(f"thread {i}", "Threads") for i in range(8)),
    *(lane(f"layer {i}", "Layers", n_spans=10**6, track="layer") for i in range(32)),
    *(lane(f"op {i}", "Ops", track="op") for i in range(9)),
)


def test_groups_are_opened_until_there_are_enough_lanes_ops_last():
    assert groups_to_close(LANES, 8) == {"Layers", "Ops"}
    assert groups_to_close(LANES, 32) == {"Ops"}
    assert groups_to_close(LANES, 41) == frozenset()
    assert groups_to_close(LANES, 1000) == frozenset()


def test_only_frames_that_moved_count():
    times = FrameTimes(
        elapsed_s=2.0, n_frames=8, moved_ms=[10.0, 20.0, 30.0, 40.0], cpu_s=0.4
    )

    figures = times.figures()

    assert figures["fps"] == 2.0
    assert figures["max_ms"] == 40.0
    assert figures["median_ms"] == 25.0
    assert figures["cpu_ms"] == 50.0
    assert (figures["frames"], figures["moved"]) == (8, 4)


def test_no_frame_that_moved_is_an_error():
    with pytest.raises(BenchError, match="no frame"):
        FrameTimes(elapsed_s=1.0, n_frames=3).figures()
