"""Tokens that are too narrow for a label have the colour of their latency."""

import numpy as np
import pytest

from builders import spans_trace
from ggscope.analysis.rows.lanes import LaneState
from ggscope.analysis.summary.latency import SLOW
from ggscope.model.tables import Array, Phase, SpanFlag
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import ImageBatch, RectBatch, TextBatch
from ggscope.render.theme import THEMES, contrast, mix, theme
from ggscope.render.timeline.compose import compose_timeline, figure_legend
from ggscope.render.timeline.latency import COLORED_PX, PLAIN_PX
from ggscope.render.timeline.rows import neutral_color
from ggscope.render.timeline.scene import TimelineGeometry, TimelineScene
from scenes import make_scene

MEDIAN = 100


def token_trace(durations: Array, **columns: object) -> Trace:
    """Return tokens that follow each other, most of which take 100 ticks."""
    start = np.concatenate([[0], np.cumsum(durations)[:-1]])
    return spans_trace(
        start, start + durations, kind=LaneKind.TOKEN, group=("Tokens",),
        token=np.arange(len(durations)), **columns,
    )  # fmt: skip


def random_durations(seed: int, n: int) -> Array:
    """Return latencies of which the median is `MEDIAN`."""
    rng = np.random.default_rng(seed)
    durations = np.sort(rng.integers(40, 180, n))
    durations[n // 2 - n // 6 : n // 2 + n // 6] = MEDIAN
    durations[-n // 20 :] *= 3
    return rng.permutation(durations)


def scene_of(trace: Trace, visible: TimeRange | None = None, **values: object):
    return make_scene(trace, visible=visible, state=LaneState(), **values)


def expected_color(duration: int, scene: TimelineScene, share: float = 1.0) -> int:
    slow = min(max((duration / MEDIAN - 1) / (SLOW - 1), 0.0), 1.0)
    return mix(neutral_color(scene.theme), scene.theme.caution, share * slow)


def is_near(value: int, expected: int) -> bool:
    return value >> 24 == 255 and all(
        abs((value >> shift & 255) - (expected >> shift & 255)) <= 3
        for shift in (0, 8, 16)
    )


@pytest.mark.parametrize("theme_name", THEMES)
@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("n", [900, 9_000])
def test_columns_have_the_colour_of_the_token_that_takes_most_of_them(
    theme_name: str, scale: float, n: int
) -> None:
    trace = token_trace(random_durations(n, n))
    scene = scene_of(trace, theme_name=theme_name, scale=scale)
    edges = TimelineGeometry(scene).time.edges
    spans = trace.spans

    [image] = [b for b in compose_timeline(scene).batches if isinstance(b, ImageBatch)]

    assert (image.pixels[0] == image.pixels[1]).all()  # flat: no foot
    n_drawn = 0
    for column, actual in enumerate(image.pixels[0].tolist()):
        low, high = edges[column], edges[column + 1]
        inside = np.minimum(spans.end, high) - np.maximum(spans.start, low)
        if actual == 0:  # its token is a box
            continue
        duration = int((spans.end - spans.start)[np.argmax(inside)])
        assert is_near(actual, expected_color(duration, scene)), column
        n_drawn += 1
    assert n_drawn > 100


@pytest.mark.parametrize("px", [200.0, 33.0, 12.0])
def test_boxes_are_coloured_the_more_the_narrower_they_are(px: float) -> None:
    durations = np.full(400, MEDIAN)
    durations[5], durations[6] = 150, 300
    trace = token_trace(durations)
    visible = TimeRange(0, int(600 / px * MEDIAN))
    scene = scene_of(trace, visible, width=768)
    share = min(max((PLAIN_PX - px) / (PLAIN_PX - COLORED_PX), 0.0), 1.0)

    fills = [
        int(fill)
        for b in compose_timeline(scene).batches
        if isinstance(b, RectBatch)
        for fill, x0, x1 in zip(b.fill, b.x0, b.x1, strict=True)
        if x1 - x0 > 5 and x0 > 160
    ]

    expected = {expected_color(d, scene, share) for d in (100, 150, 300)}
    n_visible = visible.end // MEDIAN
    for color in expected if n_visible > 9 else {neutral_color(scene.theme)}:
        assert any(is_near(fill, color) for fill in fills), hex(color)
    has_entry = any("median" in entry.label for entry in figure_legend(scene))
    assert has_entry == (share > 0)
    even = scene_of(token_trace(np.full(400, MEDIAN)), visible, width=768)
    assert all("median" not in entry.label for entry in figure_legend(even))


def test_tokens_that_the_median_is_not_about_are_grey() -> None:
    """Those of the prompt, and those whose end is not known."""
    durations = np.full(600, MEDIAN)
    durations[[10, 300, 400]] = 2_000
    phase = np.full(600, int(Phase.GENERATE))
    phase[10] = int(Phase.PROMPT)
    flags = np.zeros(600, np.uint16)
    flags[300] = np.uint16(SpanFlag.UNFINISHED)
    trace = token_trace(durations, phase=phase, flags=flags)
    scene = scene_of(trace, width=1768)

    boxes = {
        round(float(x0)): int(fill)
        for b in compose_timeline(scene).batches
        if isinstance(b, RectBatch)
        for fill, x0, x1 in zip(b.fill, b.x0, b.x1, strict=True)
        if x1 - x0 > 20 and x0 > 160
    }

    time, start = TimelineGeometry(scene).time, trace.spans.start
    colors = [
        next(c for x, c in boxes.items() if abs(x - time.x(int(start[i]))) <= 12)
        for i in (10, 300, 400)
    ]
    grey = neutral_color(scene.theme)
    assert colors == [grey, grey, scene.theme.caution]


@pytest.mark.parametrize("theme_name", THEMES)
def test_numbers_of_coloured_tokens_can_be_read(theme_name: str) -> None:
    durations = np.full(60, MEDIAN)
    durations[20:24] = [150, 180, 250, 300]
    scene = scene_of(token_trace(durations), width=1568, theme_name=theme_name)

    picture = compose_timeline(scene)

    labels = [
        text
        for b in picture.batches
        if isinstance(b, TextBatch)
        for text in b.texts
        if text.text.startswith("#2")
    ]
    assert len(labels) >= 3
    for text in labels:
        duration = int(durations[int(text.text[1:3])])
        px = TimelineGeometry(scene).time.px_per_tick * MEDIAN
        share = min(max((PLAIN_PX - px) / (PLAIN_PX - COLORED_PX), 0.0), 1.0)
        assert share > 0
        fill = expected_color(duration, scene, share)
        assert contrast(text.color, fill) >= 4.3, (text.text, hex(fill))


def test_without_measured_tokens_all_are_grey() -> None:
    trace = token_trace(np.arange(100, 1_000), flags=np.uint16(SpanFlag.UNFINISHED))
    scene = scene_of(trace)

    [image] = [b for b in compose_timeline(scene).batches if isinstance(b, ImageBatch)]

    drawn = np.unique(image.pixels[image.pixels > 0])
    assert drawn.tolist() == [neutral_color(theme("dark"))]
