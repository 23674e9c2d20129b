"""The picture of buffers: levels, peak, lives, and figures as files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffer_traces import MIB, Life, buffers_trace, busy_buffers, reference_buffers
from figures import export
from ggscope.analysis.buffers import Grouping, lives, occupancy
from ggscope.errors import ExportError
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import Align, AreaBatch, RectBatch, Text, TextBatch
from ggscope.render.buffers import (
    BuffersGeometry,
    BuffersScene,
    area_columns,
    compose_buffers,
    peak_text,
)
from ggscope.render.text_metrics import text_width
from ggscope.render.theme import theme
from ggscope.render.timeline.scene import TimeScale
from scenes import texts_of


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    """Texts are measured."""


def make(trace: Trace, by: Grouping = "usage", **changes: object) -> BuffersScene:
    scene = BuffersScene(
        trace, occupancy(trace, by), lives(trace.buffers), trace.extent, 900, 420,
        theme("dark"), by,
    )  # fmt: skip
    return replace(scene, **changes)  # type: ignore[arg-type]


def test_pill_names_the_peak_of_the_reference_run() -> None:
    scene = make(reference_buffers())

    assert peak_text(scene) == "peak 624.0 MiB · 5 buffers · 4.00 ms"
    assert peak_text(scene) in texts_of(compose_buffers(scene))


def drawn_texts(scene: BuffersScene) -> list[Text]:
    return [
        text
        for batch in compose_buffers(scene).batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
    ]


def test_words_of_the_peak_leave_a_low_or_narrow_occupancy_free() -> None:
    usual = make(reference_buffers())
    low, narrow = replace(usual, height=110), replace(usual, width=300)

    (in_area,) = [t for t in drawn_texts(usual) if t.text.startswith("peak")]
    (above,) = [t for t in drawn_texts(low) if t.text.startswith("peak")]
    (short,) = [t for t in drawn_texts(narrow) if t.text.startswith("peak")]

    assert in_area.y > BuffersGeometry(usual).area_y
    assert above.y < BuffersGeometry(low).axis_y
    assert above.text == in_area.text
    assert short.text == "peak 624.0 MiB"


def test_lowest_label_of_bytes_stands_above_the_line_under_it() -> None:
    for scene in (make(reference_buffers()), make(reference_buffers(), is_figure=True)):
        (zero,) = [text for text in drawn_texts(scene) if text.text == "0 B"]
        place = BuffersGeometry(scene)

        assert zero.y + zero.size / 2 <= place.area_bottom < place.lives_y


def test_label_at_the_hair_line_leaves_no_half_numbers_of_the_axis() -> None:
    scene = make(reference_buffers())
    extent = scene.visible
    for share in np.linspace(0, 1, 40):
        tick = extent.start + int(share * extent.duration)
        texts = drawn_texts(replace(scene, cursor_tick=tick))
        row = [t for t in texts if abs(t.y - BuffersGeometry(scene).axis_y - 11) < 1]
        (label,) = [t for t in row if " · " in t.text]

        half = text_width(label.text, label.face, label.size) / 2
        for other in (t for t in row if t is not label and t.align is Align.CENTER):
            other_half = text_width(other.text, other.face, other.size) / 2
            assert abs(other.x - label.x) >= half + other_half


@given(st.integers(0, 1000), st.integers(1, 60), st.integers(5, 400))
@settings(max_examples=50)
def test_each_column_shows_the_highest_level_that_it_touches(
    seed: int, n: int, n_columns: int
) -> None:
    rng = np.random.default_rng(seed)
    born = rng.integers(0, 1000, n)
    length = rng.integers(1, 300, n)
    size = rng.integers(1, 1000, n)
    trace = buffers_trace(
        [
            Life(int(s), int(b), int(b + k))
            for s, b, k in zip(size, born, length, strict=True)
        ]
    )
    result = occupancy(trace)
    time = TimeScale(TimeRange(-50, 1400), 0, n_columns, 1.0)

    level, total = area_columns(result, time)

    ticks = np.arange(-50, 1400)
    alive = (born <= ticks[:, None]) & (ticks[:, None] < born + length)
    truth = (alive * size).sum(axis=1)
    for column in range(time.n_columns):
        inside = truth[time.edges[column] + 50 : time.edges[column + 1] + 50]
        assert total[column] == (inside.max() if len(inside) else 0)
    np.testing.assert_array_equal(level.sum(axis=1), total)


def test_stack_reaches_the_top_where_the_peak_is() -> None:
    scene = make(reference_buffers())
    place = BuffersGeometry(scene)

    areas = [b for b in compose_buffers(scene).batches if isinstance(b, AreaBatch)]

    assert len(areas) == 2  # weights and compute
    tops = [float(area.y.min()) for area in areas]
    height = place.area_bottom - min(tops)
    weights = place.area_bottom - max(tops)
    assert weights / height == pytest.approx(480 / 624, abs=0.01)
    assert min(tops) >= place.area_y


def test_nothing_is_drawn_after_the_end_of_the_record() -> None:
    trace = reference_buffers()
    scene = make(trace, visible=TimeRange(0, 20_000_000))
    place = BuffersGeometry(scene)

    areas = [b for b in compose_buffers(scene).batches if isinstance(b, AreaBatch)]

    assert max(float(a.x.max()) for a in areas) <= place.time.x(10_000_000) + 2


def test_lives_are_found_where_they_are_drawn() -> None:
    scene = make(busy_buffers(), height=600)
    place = BuffersGeometry(scene)
    middle = place.time.x(8_500_000)

    buffers = [
        place.buffer_at(middle, place.lives_y + 6 + 20 * row + 8) for row in range(5)
    ]

    assert buffers == [0, 1, 3, 4, 2]  # the largest on top
    assert place.buffer_at(place.time.x(39_000_000), place.lives_y + 6 + 40 + 8) == -1
    assert place.buffer_at(middle, place.area_y + 5) == -1


def test_scrolled_lives_are_found_one_row_further() -> None:
    scene = make(busy_buffers(), height=200)
    place = BuffersGeometry(replace(scene, scroll=20.0))

    assert place.max_scroll > 20
    assert place.buffer_at(place.time.x(8_500_000), place.lives_y + 8) == 1


def test_life_that_ended_before_the_first_span_ends_there() -> None:
    """Recordings have buffers from before time 0: their times are below 0."""
    times = [Life(MIB, -900, -600), Life(8 * MIB, -500, 900)]
    scene = make(buffers_trace(times, extent=TimeRange(-500, 1000)))
    place = BuffersGeometry(replace(scene, visible=TimeRange(-900, 1000)))
    row_y = place.lives_y + 6 + 8

    ends = place.life_xs()[1][np.argsort(place.scene.lives.buffer)]
    assert ends[0] == pytest.approx(place.time.x(-600))
    # Both are in one row: one has gone where the other begins.
    assert place.buffer_at(place.time.x(-700), row_y) == 0
    assert place.buffer_at(place.time.x(-400), row_y) == 1
    view = BuffersGeometry(replace(scene, visible=TimeRange(-500, 1000)))
    texts = texts_of(compose_buffers(view.scene))
    assert "buffer · 8.0 MiB" in texts
    assert "buffer · 1.0 MiB" not in texts


def test_a_life_that_nobody_saw_end_fades() -> None:
    never = make(buffers_trace([Life(MIB, 0)], extent=TimeRange(0, 1000)))
    freed = make(buffers_trace([Life(MIB, 0, 1000)], extent=TimeRange(0, 1000)))

    def fills(scene: BuffersScene) -> set[int]:
        rects = [b for b in compose_buffers(scene).batches
                 if isinstance(b, RectBatch) and b.clip is not None]  # fmt: skip
        return {int(color) for b in rects for color in b.fill}

    assert len(fills(never)) > 5
    assert len(fills(freed)) == 1


def test_selected_and_accessed_buffers_are_framed() -> None:
    scene = make(
        busy_buffers(), selected=frozenset({0}), accessed=frozenset({2}), height=600,
        alive=frozenset({0, 2}),
    )  # fmt: skip

    rects = [b for b in compose_buffers(scene).batches
             if isinstance(b, RectBatch) and b.border is not None]  # fmt: skip
    borders = np.concatenate([b.border for b in rects]).tolist()
    assert borders.count(scene.theme.selection) == 1
    assert borders.count(scene.theme.accent) == 1


def test_hair_line_says_time_and_level() -> None:
    scene = make(reference_buffers(), cursor_tick=4_500_000)

    assert any(
        text.startswith("4.5") and text.endswith(" ms · 624.0 MiB")
        for text in texts_of(compose_buffers(scene))
    )


def test_backends_are_named_in_the_legend() -> None:
    texts = texts_of(compose_buffers(make(busy_buffers(), "backend")))

    assert {"CPU", "CUDA0"} <= set(texts)


def test_tiny_pictures_do_not_fail() -> None:
    for width, height in ((1, 1), (60, 30), (200, 70)):
        compose_buffers(make(busy_buffers(), width=width, height=height))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_figure_is_written(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"buffers{suffix}"

    export("buffers", busy_buffers(), target, by="backend")

    assert target.stat().st_size > 2000


def test_figure_without_allocations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="allocation"):
        export("buffers", buffers_trace([Life(-1, -1)]), tmp_path / "buffers.png")
