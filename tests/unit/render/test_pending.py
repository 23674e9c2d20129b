"""The cover over time of which the spans are not known yet."""

from dataclasses import replace

import numpy as np
import pytest

from builders import llama_like_trace
from ggscope.analysis.rows.index import TraceIndex
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import DisplayList, Pattern, RectBatch, TextBatch
from ggscope.render.theme import contrast, mix, theme
from ggscope.render.timeline.compose import compose_timeline, unknown_range
from ggscope.render.timeline.overview import compose_overview
from ggscope.render.timeline.scene import OverviewScene
from scenes import make_scene
from staged import stages


@pytest.fixture(scope="module")
def partial() -> Trace:
    return stages(llama_like_trace(tokens=4, layers=3), 0.4)[0]


def overview(trace: Trace, scale: float = 1.0) -> DisplayList:
    return compose_overview(
        OverviewScene(
            TraceIndex(trace), trace.extent, 800, 58, theme("light"), scale=scale
        )
    )


def covers(picture: DisplayList) -> list[tuple[float, float]]:
    """Return (x0, x1) of what is hatched from top to bottom."""
    return [
        (float(batch.x0[i]), float(batch.x1[i]))
        for batch in picture.batches
        if isinstance(batch, RectBatch) and batch.pattern is not None
        for i in np.flatnonzero(
            (batch.pattern == Pattern.FAINT_HATCH) & (batch.y1 - batch.y0 > 50)
        )
    ]


def texts_of(picture: DisplayList) -> list[str]:
    return [
        text.text
        for batch in picture.batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
        if text.text in ("still reading …", "not read")
    ]


@pytest.mark.parametrize("theme_name", ["dark", "light"])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_timeline_is_covered_from_what_is_read_to_the_end(
    partial: Trace, theme_name: str, scale: float
) -> None:
    scene = make_scene(partial, theme_name=theme_name, scale=scale)
    left, width = scene.header_width, scene.width - scene.header_width

    picture = compose_timeline(scene)

    ((x0, x1),) = covers(picture)
    assert x0 == pytest.approx(left + 0.4 * width, abs=1)
    assert x1 == pytest.approx(scene.width, abs=1)
    assert texts_of(picture) == ["still reading …"]


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_overview_is_covered_too(partial: Trace, scale: float) -> None:
    picture = overview(partial, scale)

    ((x0, x1),) = covers(picture)
    assert x0 == pytest.approx(320, abs=1)
    assert x1 == pytest.approx(800, abs=1)
    assert texts_of(picture) == ["still reading …"]


def test_nothing_of_the_spans_is_drawn_above_the_cover(partial: Trace) -> None:
    picture = compose_timeline(make_scene(partial))

    kinds = [type(batch).__name__ for batch in picture.batches]
    cover = next(
        i
        for i, batch in enumerate(picture.batches)
        if isinstance(batch, RectBatch)
        and batch.pattern is not None
        and ((batch.y1 - batch.y0 > 50) & (batch.pattern > 0)).any()
    )
    assert "ImageBatch" not in kinds[cover:]
    assert "FoldedBatch" not in kinds[cover:]


def test_zoomed_into_what_is_known_there_is_no_cover(partial: Trace) -> None:
    scene = make_scene(partial, visible=TimeRange(0, (partial.read_until or 0) // 2))

    assert covers(compose_timeline(scene)) == []


def test_zoomed_into_what_is_unknown_all_is_covered(partial: Trace) -> None:
    until = partial.read_until or 0
    scene = make_scene(partial, visible=TimeRange(until + 10, partial.extent.end))

    ((x0, x1),) = covers(compose_timeline(scene))

    assert (x0, x1) == (scene.header_width, scene.width)


def test_stopped_trace_says_that_it_was_not_read(partial: Trace) -> None:
    stopped = replace(partial, pending=frozenset())

    assert texts_of(compose_timeline(make_scene(stopped))) == ["not read"]


def test_narrow_cover_has_no_words(partial: Trace) -> None:
    scene = make_scene(partial, width=260)

    assert texts_of(compose_timeline(scene)) == []


def test_whole_trace_has_no_unknown_time(partial: Trace) -> None:
    whole = replace(partial, pending=frozenset(), read_until=None)
    to_the_end = replace(partial, read_until=partial.extent.end)

    assert unknown_range(whole) is None
    assert unknown_range(to_the_end) is None
    assert covers(compose_timeline(make_scene(whole))) == []


@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_words_can_be_read_on_their_plate(theme_name: str) -> None:
    colors = theme(theme_name)

    assert contrast(colors.text, mix(colors.pane, colors.lane, 0.5)) >= 4.5
