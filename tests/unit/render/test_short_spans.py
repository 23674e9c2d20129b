"""Short spans are seen: contrast computed from pixels, in every theme and picture."""

from dataclasses import replace

import numpy as np
import pytest

import builders
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import FEW_LANES, LaneState
from ggscope.model.units import TimeRange
from ggscope.render.colors import category_color
from ggscope.render.export import ensure_gui_application, render_image
from ggscope.render.texels import FLOOR
from ggscope.render.theme import MIN_CONTRAST, THEMES, contrast, mix, theme
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.figure import timeline_figure
from ggscope.render.timeline.overview import compose_overview, compose_thumbnail
from ggscope.render.timeline.scene import OverviewScene, TimelineScene, TimeScale
from scenes import make_scene
from short_spans import SECOND, best_contrast, colors_of, short_spans


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    ensure_gui_application()


def lane_pixels(scene: TimelineScene, key: str) -> np.ndarray:
    box = scene.layout.box_of(key)
    assert box is not None
    top = round(26 + box.y)
    pixels = colors_of(render_image(compose_timeline(scene)))
    return pixels[top : top + round(box.height)]


@pytest.mark.parametrize("theme_name", THEMES)
@pytest.mark.parametrize("color_by", ["family", "op", "layer", "phase", "quality"])
@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_one_nanosecond_in_ten_seconds_stands_out_from_its_lane(
    theme_name: str, color_by: str, scale: float
) -> None:
    trace = short_spans()
    scene = make_scene(trace, theme_name=theme_name, color_by=color_by)
    for key in ("thread:thread 0", "layer:0", "layer:1", "layer:2"):
        if scene.index.lanes.position(key) < 0:
            continue
        pixels = lane_pixels(scene, key)
        time = TimeScale(scene.visible, scene.header_width, scene.width, 1.0)
        for start, layer in zip(
            trace.spans.start[:-2].tolist(), trace.spans.layer.tolist(), strict=False
        ):
            if key.startswith("layer") and key != f"layer:{layer}":
                continue
            column = round(time.x0) + int(time.column_of(np.array([start]))[0])
            assert best_contrast(pixels, column) >= MIN_CONTRAST, (key, start)


@pytest.mark.parametrize("theme_name", THEMES)
def test_short_spans_stand_out_in_overview_and_thumbnail(theme_name: str) -> None:
    trace = short_spans()
    scene = OverviewScene(
        index=TraceIndex(trace), visible=TimeRange(0, 10), width=900, height=48,
        theme=theme(theme_name),
    )  # fmt: skip
    time = TimeScale(trace.extent, 0, 900, 1.0)
    columns = time.column_of(trace.spans.start[:-2]).tolist()

    for picture in (
        compose_overview(scene),
        compose_thumbnail(scene, is_part=False),
    ):
        pixels = colors_of(render_image(picture))
        for column in columns:
            assert best_contrast(pixels, column) >= MIN_CONTRAST


def test_short_spans_stand_out_in_the_overview_of_very_many_lanes() -> None:
    n = FEW_LANES + 1
    start = np.arange(n) * SECOND
    trace = builders.spans_trace(start, start, lane=np.arange(n), op=3)
    scene = OverviewScene(
        index=TraceIndex(trace), visible=TimeRange(0, 10), width=8 * n, height=48,
        theme=theme("dark"),
    )  # fmt: skip

    pixels = colors_of(render_image(compose_overview(scene)))

    time = TimeScale(trace.extent, 0, 8 * n, 1.0)
    for column in time.column_of(trace.spans.start[20:-1]).tolist():
        assert best_contrast(pixels[10:], column) >= MIN_CONTRAST


@pytest.mark.parametrize("theme_name", THEMES)
def test_short_spans_stand_out_in_figures(theme_name: str) -> None:
    figure = timeline_figure(short_spans())
    picture = figure.draw(replace(figure.style, theme=theme_name)).picture

    pixels = colors_of(render_image(picture))

    row = pixels[:, 500:]
    ground = theme(theme_name).lane
    is_ground = row == ground
    clear = np.array([contrast(int(c), ground) for c in np.unique(row)])
    seen = np.isin(row, np.unique(row)[clear >= MIN_CONTRAST])
    # Three lanes of layers, each with spans whose columns stand out from the lane.
    assert (seen & np.roll(is_ground, 1, axis=1)).any(axis=1).sum() >= 12


def test_share_can_be_read_above_the_foot() -> None:
    at = np.arange(0, 10_000, 50)  # one in each column
    half = builders.spans_trace(at, at + 25, op=1)
    scene = make_scene(half, state=LaneState(), width=368)

    pixels = lane_pixels(scene, "thread:thread 0")[:, 200:300]

    body, foot = pixels[5], pixels[-5]
    strong = category_color("elementwise", scene.theme)
    expected = mix(scene.theme.lane, strong, FLOOR + (1 - FLOOR) / 2)
    channels = [(int(np.median(body)) >> shift) & 255 for shift in (16, 8, 0)]
    assert channels == pytest.approx(
        [(expected >> shift) & 255 for shift in (16, 8, 0)], abs=1
    )
    assert (foot == strong).all()
