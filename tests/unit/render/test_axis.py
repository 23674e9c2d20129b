import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import llama_like_trace
from ggscope.model.units import Clock, TimeRange
from ggscope.render.axis import CHARACTER_PX, axis_ticks
from ggscope.render.batch import Align, Text, TextBatch
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.marks import time_label_place
from ggscope.render.timeline.scene import TimelineGeometry, TimelineScene
from scenes import make_scene

MS = 1_000_000


def labels(start: int, end: int, width: float = 1000, **clock: object) -> list[str]:
    axis = axis_ticks(TimeRange(start, end), width, Clock(**clock))  # type: ignore[arg-type]
    return [text for _, text in axis.ticks]


def test_labels_of_a_few_milliseconds_share_unit_and_digits() -> None:
    result = labels(412 * MS, 417 * MS)

    assert "412.5 ms" in result
    assert all(text.endswith(" ms") and len(text) == 8 for text in result)


def test_labels_beyond_two_minutes_read_like_a_clock() -> None:
    assert "3:00" in labels(0, 600 * 10**9)
    assert any(t.startswith("1:00:") for t in labels(0, 7200 * 10**9))


def test_labels_of_single_nanoseconds_are_exact_at_a_hundred_seconds() -> None:
    result = labels(100 * 10**9, 100 * 10**9 + 20)

    assert any(text == "1:40.000000005" for text in result)


def test_labels_of_cycles_have_no_time_unit() -> None:
    assert "2,000" in labels(0, 20_000, unit="cycle")


def test_absolute_axis_lies_on_round_values_of_the_files_clock() -> None:
    clock = Clock("cycle", origin=1_234)

    axis = axis_ticks(TimeRange(0, 10_000), 800, clock, absolute=True)

    assert all((tick + 1_234) % axis.step == 0 for tick, _ in axis.ticks)
    assert any(text == "5,000" for _, text in axis.ticks)


def test_absolute_epoch_time_moves_the_long_part_into_the_base() -> None:
    clock = Clock.of_stamps(1_712_345_678_123_456_789)

    axis = axis_ticks(TimeRange(0, 5_000), 1000, clock, absolute=True)

    assert axis.base.startswith("2024-04-05 19:34:38.123")
    assert axis.base.endswith(" UTC")
    assert all(text.startswith("+") and len(text) < 12 for _, text in axis.ticks)


def test_absolute_axis_of_a_clock_of_unknown_zero_shows_no_time_of_day() -> None:
    clock = Clock("ns", origin=48_120_500 * MS)

    axis = axis_ticks(TimeRange(0, 500 * MS), 1000, clock, absolute=True)

    assert (0, "48,120.50 s") in axis.ticks
    assert axis.base == ""


def test_absolute_axis_shows_the_time_of_day_with_its_zone() -> None:
    clock = Clock("ns", origin=5, epoch=1_700_049_600 * 1000 * MS - 5)

    axis = axis_ticks(TimeRange(0, 500 * MS), 1000, clock, absolute=True)

    assert (100 * MS, "12:00:00.10") in axis.ticks
    assert axis.base == "UTC"


def test_an_empty_range_still_has_a_tick() -> None:
    assert labels(0, 0)


@given(
    start=st.integers(-(10**15), 10**18),
    duration=st.integers(1, 10**18),
    width=st.integers(80, 4000),
    unit=st.sampled_from(["ns", "cycle"]),
    absolute=st.booleans(),
)
def test_ticks_cover_the_view_are_even_distinct_and_do_not_touch(
    start: int, duration: int, width: int, unit: str, absolute: bool
) -> None:
    clock = Clock(unit, 7 * 10**17)  # type: ignore[arg-type]
    visible = TimeRange(start, start + duration)

    axis = axis_ticks(visible, width, clock, absolute=absolute)

    ticks = [tick for tick, _ in axis.ticks]
    texts = [text for _, text in axis.ticks]
    assert {b - a for a, b in itertools.pairwise(ticks)} <= {axis.step}
    assert ticks[0] <= visible.start
    assert ticks[-1] + axis.step >= visible.end
    assert len(set(texts)) == len(texts)
    assert axis.step % axis.minor == 0
    spacing = axis.step / duration * width
    assert max(map(len, texts)) * CHARACTER_PX < spacing or len(ticks) <= 3


@pytest.mark.parametrize("width", [200, 800, 3840])
def test_ticks_are_not_more_than_fit(width: int) -> None:
    assert len(labels(0, 12_345_678, width)) <= width / 68 + 3


def test_no_number_of_the_axis_is_half_below_the_time_of_the_cursor() -> None:
    whole = make_scene(llama_like_trace())
    labels = [text for text in axis_texts(whole) if text.color == whole.theme.dim]
    assert len(labels) > 3
    extent = whole.visible

    for share in np.linspace(0.02, 0.98, 40).tolist():
        tick = extent.start + round(extent.duration * share)
        scene = replace(whole, cursor_tick=tick)
        place = time_label_place(TimelineGeometry(scene))
        assert place is not None
        texts, x0, x1 = place
        shown = [text for text in axis_texts(scene) if text.text != texts]
        for text in shown:
            half = len(text.text) * CHARACTER_PX / 2
            assert text.x + half <= x0 or text.x - half >= x1
        assert len(shown) >= len(labels) - 2


def axis_texts(scene: TimelineScene) -> list[Text]:
    """Return the texts of the axis that are centred on a time."""
    geometry = TimelineGeometry(scene)
    batches = [
        text
        for batch in compose_timeline(scene).batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
    ]
    return [
        text
        for text in batches
        if text.y < geometry.lanes_y and text.align is Align.CENTER
    ]
