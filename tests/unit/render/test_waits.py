"""Pictures of waits: exact shares behind the work, distinguished from work and idle
time."""

from dataclasses import replace

import numpy as np
import pytest

from builders import random_trace, spans_trace
from ggscope.analysis.rows.columns import Columns
from ggscope.analysis.rows.index import TraceIndex
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import ImageBatch, Pattern, RectBatch
from ggscope.render.colors import Sign
from ggscope.render.texels import FLOOR, WHOLE, stack_weights
from ggscope.render.theme import THEMES, contrast, theme
from ggscope.render.timeline.compose import compose_timeline, figure_legend
from ggscope.render.timeline.overview import compose_overview, skyline
from ggscope.render.timeline.scene import (
    OverviewScene,
    TimelineGeometry,
    TimelineScene,
    TimeScale,
)
from ggscope.render.timeline.waits import wait_band, wait_color, waiting_share
from oracles.waits import waits_slow
from scenes import make_scene
from wait_traces import random_waits, with_waits

RGB = 0xFFFFFF


def wait_pictures(scene: TimelineScene) -> list[ImageBatch]:
    color = wait_color(scene.theme) & RGB
    return [
        batch
        for batch in compose_timeline(scene).batches
        if isinstance(batch, ImageBatch) and bool(((batch.pixels & RGB) == color).all())
    ]


def threads(scene: TimelineScene) -> list[str]:
    lanes = scene.index.lanes
    return [lane.key for lane in lanes if lane.track.id == "thread"]


def shares_of(batch: ImageBatch) -> np.ndarray:
    """Return the share of the time without work that a picture says is waiting."""
    alpha = (batch.pixels >> np.uint32(24)).astype(float) / 255
    return np.where(alpha > 0, (alpha - FLOOR) / (1 - FLOOR), 0.0)


@pytest.mark.parametrize("zoom", [1, 3, 40, 700])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_share_of_waiting_can_be_read_back_from_the_picture(zoom, scale):
    trace = random_waits(5, 3_000, lanes=2)
    middle = trace.extent.duration // 2
    width = max(trace.extent.duration // zoom, 2)
    visible = TimeRange(middle - width // 2, middle + width // 2)
    scene = make_scene(trace, visible=visible, scale=scale)
    edges = TimelineGeometry(scene).time.edges

    (picture,) = wait_pictures(scene)

    shown = shares_of(picture)
    for number, key in enumerate(threads(scene)):
        (row,) = scene.index.rows(key)
        waited = np.array(waits_slow(row, edges, trace.spans.wait))
        (columns,) = scene.index.row_columns(key, "family")
        busy = columns.query(edges).busy
        size = np.maximum(np.diff(edges), 1)
        free = np.where(busy < 1, 1 - busy, 1)
        weight = stack_weights([columns.query(edges)], round(3 * scale))[0]
        away = np.abs(shown[number] - waited / size / free)
        assert away[weight == 0].max() <= 1 / 255 / (1 - FLOOR)
        # In stacks waits lie on top of the work.
        assert (picture.pixels[number][weight == WHOLE] >> np.uint32(24) == 0).all()


def test_picture_of_waits_lies_under_that_of_work_and_within_its_rows():
    trace = random_waits(5, 500)
    near = TimeRange(trace.extent.start, trace.extent.start + 1_000)
    scene = make_scene(trace, visible=near)  # nothing is stacked

    (waits,) = wait_pictures(scene)
    batches = compose_timeline(scene).batches
    images = [b for b in batches if isinstance(b, ImageBatch)]

    at = next(i for i, b in enumerate(images) if np.array_equal(b.pixels, waits.pixels))
    work = images[at + 1]
    assert len(images) > at + 1
    for y0, y1 in zip(waits.y0, waits.y1, strict=True):
        inside = (work.y0[::2] < y0) & (work.y1[1::2] > y1)  # columns above feet
        assert inside.any()


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("height", [2.0, 4.0, 12.0, 20.0])
def test_band_lies_on_device_pixels_in_the_middle_of_its_row(height, scale):
    y0 = np.array([10.0])

    top, bottom = wait_band(y0, y0 + height, scale)

    for edge in (top, bottom):
        assert (edge * scale) % 1 == pytest.approx(0)
    assert y0 <= top < bottom <= y0 + height
    above, below = top - y0, y0 + height - bottom
    assert abs(above - below) * scale <= 1
    if height >= 12:
        assert bottom - top < height / 2


def test_waits_can_be_left_out_and_time_of_waits_is_not_called_idle():
    trace = with_waits(spans_trace([0, 500], [100, 600], op=1), [200, 0])
    scene = make_scene(trace, width=1168)
    time = TimelineGeometry(scene).time

    for shown in (True, False):
        picture = compose_timeline(replace(scene, show_waits=shown))
        hatched = [
            (float(x0), float(x1))
            for b in picture.batches
            if isinstance(b, RectBatch) and b.pattern is not None
            for x0, x1, p in zip(b.x0, b.x1, b.pattern, strict=True)
            if p == Pattern.FAINT_HATCH
        ]
        assert hatched
        assert min(x for x, _ in hatched) == pytest.approx(time.x(300), abs=2)
        assert max(x for _, x in hatched) == pytest.approx(time.x(500), abs=2)
        assert bool(wait_pictures(replace(scene, show_waits=shown))) == shown


def test_trace_without_waits_has_no_picture_of_them():
    assert wait_pictures(make_scene(random_trace(3, 300))) == []


def test_lanes_by_layer_have_no_waits():
    scene = make_scene(random_waits(5, 500, lanes=2))

    (picture,) = wait_pictures(scene)

    assert len(picture.pixels) == len(threads(scene)) == 2


def test_filter_leaves_waits_of_other_spans_out():
    trace = with_waits(spans_trace([0, 500], [100, 600], op=[1, 2]), [300, 200])
    scene = make_scene(trace, mask=trace.spans.op == 2, mask_token=1)
    edges = TimelineGeometry(scene).time.edges

    (picture,) = wait_pictures(scene)

    seen = np.flatnonzero(picture.pixels[0] >> np.uint32(24))
    assert edges[seen[0] + 1] > 600
    assert edges[seen[0]] <= 600


def test_figure_has_shapes_of_wide_waits_and_an_entry_for_them():
    trace = with_waits(spans_trace([0, 500], [100, 600], op=1), [200, 0])
    scene = make_scene(trace, width=1168, is_figure=True)
    time = TimelineGeometry(scene).time

    shapes = [
        b
        for b in compose_timeline(scene).batches
        if isinstance(b, RectBatch) and (b.fill == wait_color(scene.theme)).all()
    ]
    entries = {entry.label: entry for entry in figure_legend(scene)}

    (shape,) = shapes
    assert shape.echo
    assert float(shape.x0[0]) == pytest.approx(time.x(100), abs=1)
    assert float(shape.x1[0]) == pytest.approx(time.x(300), abs=1)
    assert entries["waiting"].sign is Sign.BAND
    hidden = figure_legend(replace(scene, show_waits=False))
    plain = figure_legend(make_scene(spans_trace([0], [9], op=1)))
    assert "waiting" not in {e.label for e in (*hidden, *plain)}


@pytest.mark.parametrize("name", THEMES)
def test_waits_are_seen_on_the_lane_and_paler_than_text(name):
    theme_name = theme(name)

    assert contrast(wait_color(theme_name), theme_name.lane) >= 1.6
    assert contrast(wait_color(theme_name), theme_name.idle) >= 1.4
    assert contrast(wait_color(theme_name), theme_name.text) >= 4


def test_share_of_columns_without_waits_is_zero():
    none = np.zeros(3, np.int64)
    columns = Columns(np.zeros(3), none, none, none, none, None)  # type: ignore[arg-type]

    assert waiting_share(columns, np.arange(4)).tolist() == [0, 0, 0]


def is_image(batch: object) -> bool:
    return isinstance(batch, ImageBatch)


def overview(trace: Trace, **values: object) -> OverviewScene:
    index = TraceIndex(trace)
    return OverviewScene(
        index=index, visible=trace.extent, width=300, height=48, theme=theme("dark"),
        **values,  # type: ignore[arg-type]
    )  # fmt: skip


def test_overview_stacks_the_mean_of_waiting_on_that_of_work():
    trace = with_waits(spans_trace([0, 0], [300, 600], lane=[0, 1], op=1), [300, 0])
    scene = overview(trace)
    time = TimeScale(trace.extent, 0, scene.width, 1.0)

    sky = skyline(scene, time)

    assert sky.busy.tolist() == pytest.approx([1.0] * 150 + [0.5] * 150)
    assert sky.waiting.tolist() == pytest.approx([0.0] * 150 + [0.5] * 150)
    seen, hidden = (
        compose_overview(replace(scene, show_waits=shown)).batches
        for shown in (True, False)
    )
    filled = [
        [
            (b.pixels >> np.uint32(24) > 0).sum()
            for b in part
            if isinstance(b, ImageBatch)
        ]
        for part in (seen, hidden)
    ]
    assert filled[0][0] > filled[1][0]
