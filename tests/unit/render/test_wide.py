"""Rows that something else draws: the picture is that of asking the processor."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QImage

import builders
from ggscope.analysis.rows.columns import RowColumns
from ggscope.analysis.rows.peaks import COARSE, RowPeaks
from ggscope.analysis.rows.rows import Row, make_row
from ggscope.model.tables import Array
from ggscope.model.units import TimeRange
from ggscope.render.batch import ColumnBatch, ImageBatch
from ggscope.render.export import ensure_gui_application, render_image
from ggscope.render.timeline import runs as timeline_runs
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.runs import (
    GpuRow,
    empty_runs,
    filled_runs,
    gap_runs,
    wide_runs,
)
from ggscope.render.timeline.scene import TimelineScene, TimeScale
from scenes import busy_scene, make_scene, npu_scene


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    ensure_gui_application()


class Holder:
    """Takes every row at once, in parts, as a graphics card does."""

    def __init__(self) -> None:
        self.rows: list[RowColumns] = []

    def hold(
        self, columns: RowColumns, by_id: Array | None, n_categories: int
    ) -> RowPeaks:
        self.rows.append(columns)
        return peaks_of(columns.row)


def peaks_of(row: Row) -> RowPeaks:
    peaks = RowPeaks(len(row))
    for first in range(0, len(row), 2 * COARSE):
        peaks.add(row, slice(first, min(first + 2 * COARSE, len(row))))
    return peaks


def row_of(lengths: np.ndarray, gaps: np.ndarray) -> Row:
    end = np.cumsum(lengths + gaps)
    return make_row(end - lengths, end, np.arange(len(end), dtype=np.int32))


def picture_of(scene: TimelineScene) -> QImage:
    return render_image(compose_timeline(scene))


def held_scenes() -> list[TimelineScene]:
    trace = builders.llama_like_trace(tokens=12, layers=8)
    extent = trace.extent
    wide = make_scene(trace, width=900, height=500)
    scenes = [busy_scene(), npu_scene(), wide, busy_scene("light", 1.5)]
    for share in (3, 40, 400):
        view = TimeRange(extent.start, extent.start + extent.duration // share)
        scenes.append(replace(wide, visible=view))
    mask = np.zeros(len(trace.spans), np.bool_)
    mask[::5] = True
    filtered = replace(wide, mask=mask, mask_token=1)
    return [*scenes, filtered]


@pytest.mark.parametrize("number", range(8))
def test_picture_with_a_holder_equals_the_one_without(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_runs, "MIN_IN_VIEW", 1)
    scene, holder = held_scenes()[number], Holder()

    picture = compose_timeline(replace(scene, holder=holder))

    assert holder.rows
    assert any(isinstance(batch, ColumnBatch) for batch in picture.batches)
    assert render_image(picture) == picture_of(scene)


def test_filter_draws_ghosts_and_what_is_kept_by_the_holder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline_runs, "MIN_IN_VIEW", 1)
    scene = replace(held_scenes()[-1], holder=Holder())

    batches = compose_timeline(scene).batches

    strengths = {
        row.strength
        for batch in batches
        if isinstance(batch, ColumnBatch)
        for row in batch.rows
    }
    assert len(strengths) == 2


def test_rows_with_few_spans_in_view_are_not_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline_runs, "MIN_IN_VIEW", 10_000)
    holder = Holder()

    picture = compose_timeline(replace(busy_scene(), holder=holder))

    assert not holder.rows
    assert any(isinstance(batch, ImageBatch) for batch in picture.batches)


def test_view_of_fewer_ticks_than_pixels_is_not_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline_runs, "MIN_IN_VIEW", 1)
    scene, holder = busy_scene(), Holder()
    at = scene.visible.start

    compose_timeline(replace(scene, holder=holder, visible=TimeRange(at, at + 50)))

    assert not holder.rows


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    n=st.integers(1, 400),
    longest=st.sampled_from([1, 3, 40, 5000]),
    widest=st.sampled_from([1, 2, 60, 3000]),
    px=st.integers(1, 90),
    least=st.integers(1, 9),
    data=st.data(),
)
def test_wide_spans_and_gaps_are_the_runs_of_the_columns(
    seed: int,
    n: int,
    longest: int,
    widest: int,
    px: int,
    least: int,
    data: st.DataObject,
) -> None:
    rng = np.random.default_rng(seed)
    row = row_of(rng.integers(0, longest, n), rng.integers(0, widest, n))
    last = int(row.end[-1]) + 10
    start = data.draw(st.integers(-20, last))
    view = TimeRange(start, start + data.draw(st.integers(px, last + 40 + px)))
    time = TimeScale(view, 0, px, 1.0)
    columns = RowColumns(row)
    low, high = np.searchsorted(row.start, time.edges[[0, -1]]).tolist()
    held = GpuRow(columns, low, high, peaks_of(row))
    found = columns.query(time.edges)
    number = np.array([7])

    wide = wide_runs([(7, held)], time, least)
    expected = filled_runs([found], number, least)
    for name in ("owner", "row", "first", "stop"):
        assert getattr(wide, name).tolist() == getattr(expected, name).tolist()

    gaps = gap_runs([(7, held)], time, least)
    expected = empty_runs([found], number, least)
    # Before the first and behind the last span nothing is hatched.
    inner = (expected.first >= first_used(found.count)) & (
        expected.stop <= last_used(found.count)
    )
    starts_before = int(row.start[0]) < int(time.edges[0])
    ends_behind = int(row.end[-1]) > int(time.edges[-1])
    inner |= (expected.first == 0) & starts_before & (expected.stop < px)
    inner |= (expected.stop == px) & ends_behind & (expected.first > 0)
    inner |= (expected.first == 0) & (expected.stop == px) & starts_before & ends_behind
    shown = expected.take(inner)
    keep = (gaps.first > 0) | starts_before
    keep &= (gaps.stop < px) | ends_behind
    gaps = gaps.take(keep)
    assert gaps.first.tolist() == shown.first.tolist()
    assert gaps.stop.tolist() == shown.stop.tolist()


@settings(max_examples=80, deadline=None)
@given(
    start=st.integers(-(1 << 60), 1 << 60),
    duration=st.integers(1, 1 << 61),
    px=st.integers(1, 4000),
    seed=st.integers(0, 1 << 30),
)
def test_column_of_a_tick_is_found_without_a_search(
    start: int, duration: int, px: int, seed: int
) -> None:
    time = TimeScale(TimeRange(start, start + max(duration, px)), 0, px, 1.0)
    rng = np.random.default_rng(seed)
    ticks = np.concatenate(
        [
            rng.choice(time.edges, 50) + rng.integers(-2, 3, 50),
            rng.integers(start - 10, start + time.duration + 10, 50),
        ]
    )

    found = time.column_of(ticks)

    inside = np.clip(ticks, time.edges[0], time.edges[-1])
    wanted = np.searchsorted(time.edges, inside, "right") - 1
    assert found.tolist() == wanted.tolist()


def first_used(count: np.ndarray) -> int:
    used = np.flatnonzero(count)
    return int(used[0]) if len(used) else len(count)


def last_used(count: np.ndarray) -> int:
    used = np.flatnonzero(count)
    return int(used[-1]) + 1 if len(used) else 0


def test_peaks_find_the_same_as_looking_at_every_span() -> None:
    rng = np.random.default_rng(4)
    n = 5 * COARSE + 77
    row = row_of((rng.pareto(1.2, n) * 9).astype(np.int64), rng.integers(0, 90, n))
    peaks = peaks_of(row)
    length, gap = row.end - row.start, row.start[1:] - row.end[:-1]

    for first, stop in ((0, n), (5, n - 5), (COARSE - 1, 2 * COARSE + 1), (9, 9)):
        for least in (1, 50, 80, 1000, 1 << 40):
            spans = np.flatnonzero(length[first:stop] >= least) + first
            behind = np.flatnonzero(gap[first:stop] >= least) + first
            assert np.array_equal(peaks.long_spans(row, first, stop, least), spans)
            assert np.array_equal(peaks.long_gaps(row, first, stop, least), behind)
