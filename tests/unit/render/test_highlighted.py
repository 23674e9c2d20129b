"""Highlighted spans lie at the right places at any zoom and cost what is in view."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from ggscope.model.selection import Selection
from ggscope.model.tables import Phase
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import RectBatch, TextBatch
from ggscope.render.colors import category_color, label_color, lut, phase_color
from ggscope.render.theme import contrast, mix, theme, with_alpha
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.marks import NARROW_SHARE, highlight_batches
from ggscope.render.timeline.rows import neutral_color
from ggscope.render.timeline.scene import (
    HIGHLIGHT_SHARE,
    HighlightedSpans,
    TimelineGeometry,
    TimelineScene,
)
from scenes import make_scene

YELLOW = theme("dark").selection
TINTS = tuple(with_alpha(YELLOW, share) for share in (HIGHLIGHT_SHARE, NARROW_SHARE))
Box = tuple[float, float]


def highlighted_boxes(scene: TimelineScene) -> list[Box]:
    """Return x0 and x1 of every tint, rounded to a hundredth of a pixel."""
    geometry = TimelineGeometry(scene)
    boxs: list[Box] = []
    tints, _ = highlight_batches(geometry, geometry.visible_boxes())
    for batch in tints:
        assert isinstance(batch, RectBatch)
        some = np.isin(batch.fill, np.array(TINTS, np.uint32))
        boxs += zip(
            batch.x0[some].round(2).tolist(),
            batch.x1[some].round(2).tolist(),
            strict=True,
        )
    return sorted(boxs)


def highlighted(trace: Trace, ids: list[int], **values: object) -> TimelineScene:
    spans = HighlightedSpans(np.array(sorted(ids), np.int64))
    return make_scene(trace, height=4000, highlighted=spans, **values)  # type: ignore[arg-type]


def test_span_is_highlighted_on_each_lane_that_shows_it() -> None:
    trace = builders.llama_like_trace(tokens=2, layers=2, threads=1)
    scene = highlighted(trace, [3, 40])
    time = TimelineGeometry(scene).time

    boxes = highlighted_boxes(scene)

    for span in (3, 40):
        ends = np.array([trace.spans.start[span], trace.spans.end[span]])
        x0, x1 = time.xs(ends).tolist()
        lack = max(3 - (x1 - x0), 0) / 2
        expected = (x0 - lack, x1 + lack)
        close = [b for b in boxes if np.allclose(b, expected, atol=0.02)]
        assert len(close) == 2  # its thread's lane and its layer's
    assert len(boxes) == 4


def test_nothing_is_highlighted_without_spans_or_out_of_view() -> None:
    trace = builders.llama_like_trace()

    assert highlighted_boxes(make_scene(trace)) == []
    assert highlighted_boxes(highlighted(trace, [])) == []
    late = int(trace.spans.start[0]) + 10_000_000
    assert (
        highlighted_boxes(highlighted(trace, [0], visible=TimeRange(late, late + 1000)))
        == []
    )
    assert highlighted_boxes(highlighted(trace, [10**6])) == []


def test_long_span_that_began_before_the_view_is_highlighted() -> None:
    trace = builders.spans_trace([0, 10, 200], [9, 190, 201], op=1)

    boxes = highlighted_boxes(highlighted(trace, [1, 2], visible=TimeRange(100, 150)))

    assert len(boxes) == 1


def test_spans_without_length_at_one_tick_are_all_found() -> None:
    trace = builders.spans_trace([0, 5, 5, 5, 9], [5, 5, 5, 5, 12], op=1)

    for span in range(5):
        assert len(highlighted_boxes(highlighted(trace, [span]))) >= 1


def test_very_many_spans_cost_few_boxes_and_every_column_stays_highlighted() -> None:
    n = 50_000
    trace = builders.spans_trace(np.arange(n) * 10, np.arange(n) * 10 + 5, op=1)

    boxes = highlighted_boxes(highlighted(trace, list(range(n))))

    assert len(boxes) <= 2
    time = TimelineGeometry(make_scene(trace)).time
    assert boxes[0][0] <= time.x0 + 1
    assert boxes[-1][1] >= time.x1 - 1


@pytest.mark.parametrize("name", ["dark", "light", "print"])
def test_labels_of_highlighted_spans_can_be_read(name: str) -> None:
    trace = builders.llama_like_trace(tokens=1, layers=2, threads=1)
    ids = list(range(len(trace.spans)))
    scene = highlighted(trace, ids, theme_name=name)
    batches = compose_timeline(scene).batches
    tint = with_alpha(scene.theme.selection, HIGHLIGHT_SHARE)

    tinted = [
        i
        for i, batch in enumerate(batches)
        if isinstance(batch, RectBatch) and (batch.fill == tint).any()
    ]
    names = {trace.span_name(i) for i in ids}
    labels = [
        (i, text)
        for i, batch in enumerate(batches)
        if isinstance(batch, TextBatch)
        for text in batch.texts
        if text.text in names
    ]

    assert len(labels) > 3
    assert name == "print" or tinted
    assert max(tinted, default=-1) < min(i for i, _ in labels)
    colors = lut(scene.index.categories(scene.color_by), scene.theme).tolist()
    colors.append(neutral_color(scene.theme))
    colors += [phase_color(phase, scene.theme) for phase in (*Phase, -1)]
    grounds = [mix(c, scene.theme.selection, HIGHLIGHT_SHARE) for c in colors]
    assert {text.color for _, text in labels} <= {label_color(g) for g in grounds}


@pytest.mark.parametrize("name", ["dark", "light"])
def test_frame_of_a_selected_span_shows_on_a_span_of_its_colour(name: str) -> None:
    trace = builders.spans_trace([0], [100], op=1)
    chosen = make_scene(
        trace, theme_name=name, selection=Selection("spans", (0,)), height=120
    )
    plain = make_scene(trace, theme_name=name, height=120)

    def framed(scene: TimelineScene) -> Counter[int]:
        batches = compose_timeline(scene).batches
        rects = [batch for batch in batches if isinstance(batch, RectBatch)]
        return Counter(color for batch in rects for color in batch.fill.tolist())

    lines = framed(chosen) - framed(plain)

    selection = chosen.theme.selection
    assert lines[selection] >= 4
    fills = lut(chosen.index.categories("family"), chosen.theme).tolist()
    families = [category_color(key, chosen.theme) for key in ("moe", "matmul", "norm")]
    for ground in (*fills, *families):
        assert max(contrast(color, ground) for color in lines) >= 1.5


def test_span_that_is_looked_at_has_a_frame_of_its_own() -> None:
    trace = builders.llama_like_trace(tokens=1, layers=1, threads=1)
    plain = make_scene(trace, highlighted=HighlightedSpans(np.array([3])))
    framed = make_scene(trace, highlighted=HighlightedSpans(np.array([3]), looked_at=3))

    def n_yellow(scene: TimelineScene) -> int:
        batches = compose_timeline(scene).batches
        return sum(
            int((b.fill == YELLOW).sum()) for b in batches if isinstance(b, RectBatch)
        )

    assert n_yellow(framed) == n_yellow(plain) + 4 * 2


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 100),
    ids=st.sets(st.integers(0, 119), max_size=30),
    begin=st.integers(0, 20_000),
    width=st.integers(20, 40_000),
)
def test_highlighted_pixels_are_those_of_the_spans_in_view(
    seed: int, ids: set[int], begin: int, width: int
) -> None:
    trace = builders.random_trace(seed, 120, lanes=3, layers=0)
    visible = TimeRange(begin, begin + width)

    boxes = highlighted_boxes(highlighted(trace, sorted(ids), visible=visible))

    time = TimelineGeometry(make_scene(trace, visible=visible)).time
    expected, covered = np.zeros(1000, np.bool_), np.zeros(1000, np.bool_)
    edges: list[float] = []
    for i in sorted(ids):
        start, end = int(trace.spans.start[i]), int(trace.spans.end[i])
        if start <= visible.end and end >= visible.start:
            x0, x1 = time.xs(np.array([start, end])).tolist()
            lack = max(3 - (x1 - x0), 0) / 2
            edges += [x0 - lack, x1 + lack]
            expected[_pixels(x0 - lack, x1 + lack)] = True
    for x0, x1 in boxes:
        covered[_pixels(x0, x1)] = True
    # Of a pixel that an edge goes through either answer is right.
    for x in np.flatnonzero(covered != expected).tolist():
        assert min(abs(x + 0.5 - edge) for edge in edges) <= 1


def _pixels(x0: float, x1: float) -> slice:
    return slice(max(round(x0), 0), max(round(x1), 0))
