from dataclasses import replace

import numpy as np
import pytest

from builders import empty_trace, llama_like_trace, random_trace, spans_trace
from ggscope.analysis.filters.masks import SearchHits
from ggscope.analysis.rows.columns import column_edges
from ggscope.analysis.rows.index import TraceIndex
from ggscope.model.selection import Selection
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import DisplayList, ImageBatch, RectBatch, StaticLayer
from ggscope.render.colors import phase_color
from ggscope.render.theme import theme
from ggscope.render.timeline.overview import compose_overview
from ggscope.render.timeline.scene import OverviewScene
from scenes import overview_scene, texts_of


def make_overview(trace: Trace, **values: object) -> OverviewScene:
    known: dict[str, object] = {
        "index": TraceIndex(trace), "visible": trace.extent, "width": 400,
        "height": 48, "theme": theme("dark"),
    }  # fmt: skip
    return OverviewScene(**{**known, **values})  # type: ignore[arg-type]


def bar_heights(picture: DisplayList) -> np.ndarray:
    """Return how many rows of each column are filled, as a share of all."""
    [image] = [b for b in picture.batches if isinstance(b, ImageBatch)]
    return ((image.pixels >> 24) > 0).mean(axis=0)


def filled(picture: DisplayList, color: int) -> np.ndarray:
    parts = [
        np.stack([b.x0, b.x1], 1)[b.fill == color]
        for b in picture.batches
        if isinstance(b, RectBatch)
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_bars_are_as_high_as_the_mean_busy_share(scale: float) -> None:
    trace = random_trace(5, 3_000, lanes=3)
    scene = make_overview(trace, scale=scale)

    result = bar_heights(compose_overview(scene))

    edges = column_edges(trace.extent, round(400 * scale))
    covered = np.zeros(len(edges) - 1)
    for k in range(len(edges) - 1):
        inside = np.minimum(trace.spans.end, edges[k + 1]) - np.maximum(
            trace.spans.start, edges[k]
        )
        covered[k] = np.maximum(inside, 0).sum()
    expected = covered / np.diff(edges) / 3
    [image] = [b for b in compose_overview(scene).batches if isinstance(b, ImageBatch)]
    assert np.abs(result - expected).max() <= 1 / len(image.pixels) + 1e-9


def test_one_short_span_is_still_one_row_high() -> None:
    trace = spans_trace([0, 5 * 10**9, 10**10 - 1], [1, 5 * 10**9 + 1, 10**10])

    assert (bar_heights(compose_overview(make_overview(trace))) > 0).sum() == 3


def test_phases_are_bands_with_names_and_counts() -> None:
    scene = make_overview(llama_like_trace(tokens=5))

    picture = compose_overview(scene)

    assert texts_of(picture) == ["prompt, 1 pass", "generate, 4 passes"]
    assert len(filled(picture, phase_color(0, scene.theme))) == 1
    assert len(filled(picture, phase_color(1, scene.theme))) == 1


def test_names_of_phases_at_once_never_lie_over_each_other() -> None:
    trace = spans_trace(
        [0, 20, 600, 605],
        [1000, 590, 1000, 1000],
        kind=LaneKind.PHASE,
        phase=np.array([1, 0, 0, 1], np.int8),
    )

    picture = compose_overview(make_overview(trace))

    assert len(filled(picture, phase_color(0, theme("dark")))) == 2
    assert len(texts_of(picture)) == 2


def test_shown_range_is_framed_and_never_narrower_than_six_pixels() -> None:
    trace = spans_trace([0], [10**10])
    scene = make_overview(trace, visible=TimeRange(5 * 10**9, 5 * 10**9 + 1))

    frame = compose_overview(scene).batches[-1]

    assert isinstance(frame, RectBatch)
    assert frame.x1[0] - frame.x0[0] == pytest.approx(6, abs=1)
    assert frame.x0[0] < 200 < frame.x1[0]


def test_hits_are_ticks_one_per_column() -> None:
    trace = spans_trace([0], [1_000])
    times = np.sort(np.tile(np.array([10, 500, 990]), 20))
    hits = SearchHits("x", np.zeros(60, np.int64), times, np.zeros(0, np.int64))
    scene = make_overview(trace, hits=hits)

    assert len(filled(compose_overview(scene), scene.theme.selection)) == 3


def test_filter_lowers_the_bars() -> None:
    trace = random_trace(5, 500, lanes=2)
    scene = make_overview(trace)
    mask = np.zeros(500, np.bool_)
    mask[:100] = True

    whole = bar_heights(compose_overview(scene)).sum()
    part = bar_heights(
        compose_overview(replace(scene, mask=mask, mask_token="m"))
    ).sum()

    assert 0 < part < whole


def test_second_picture_equals_the_first() -> None:
    scene = overview_scene()

    first, second = compose_overview(scene), compose_overview(scene)

    assert (bar_heights(first) == bar_heights(second)).all()


def test_another_range_makes_only_the_frame_anew() -> None:
    scene = make_overview(llama_like_trace(tokens=5))
    first = compose_overview(scene)

    moved = compose_overview(replace(scene, visible=TimeRange(0, 1_000)))
    lower = compose_overview(replace(scene, height=40))

    assert first.still == moved.still == (StaticLayer(0, len(first.batches) - 1),)
    assert len(first.batches) > 1
    for old, new in zip(first.batches, moved.batches[:-1], strict=False):
        assert old is new
    assert lower.batches[0] is not first.batches[0]


def test_empty_trace_has_an_empty_strip() -> None:
    picture = compose_overview(make_overview(empty_trace()))

    assert not [b for b in picture.batches if isinstance(b, ImageBatch)]


@pytest.mark.parametrize("width", [1, 20, 300])
def test_selected_span_is_seen_and_leaves_what_lies_in_it(width: int) -> None:
    trace = spans_trace([0, 50], [width, 400])
    scene = make_overview(trace, selection=Selection("spans", (0,)))
    color = scene.theme.selection & 0xFFFFFF

    covered = np.zeros((48, 400), np.bool_)
    for batch in compose_overview(scene).batches:
        if isinstance(batch, RectBatch):
            for i in np.flatnonzero(batch.fill & 0xFFFFFF == color):
                x0, x1 = max(round(float(batch.x0[i])), 0), round(float(batch.x1[i]))
                covered[
                    round(float(batch.y0[i])) : round(float(batch.y1[i])), x0:x1
                ] = 1

    assert covered.any(axis=0)[: max(width, 2)].all()
    assert covered.any(axis=0).sum() <= width + 2
    assert covered[20].sum() <= 6
