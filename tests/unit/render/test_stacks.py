"""Stacked columns in pictures: every category within a pixel of its true share."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import ggscope
from builders import random_trace, spans_trace
from ggscope.analysis.rows.columns import FEW, RowColumns
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import FEW_LANES, LaneState
from ggscope.model.selection import ColorBy
from ggscope.model.units import TimeRange
from ggscope.render.batch import ImageBatch
from ggscope.render.colors import lut
from ggscope.render.export import ensure_gui_application, render_image
from ggscope.render.texels import WHOLE, stack_weights
from ggscope.render.theme import MIN_CONTRAST, THEMES, theme
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.lanes import LanesDraft
from ggscope.render.timeline.overview import compose_overview
from ggscope.render.timeline.rows import ALONE_PX
from ggscope.render.timeline.scene import (
    OverviewScene,
    TimelineGeometry,
    TimelineScene,
    TimeScale,
)
from ggscope.render.timeline.waits import wait_color
from oracles.stacks import ticks_slow
from oracles.waits import waits_slow
from scenes import busy_scene, make_scene, npu_scene, stack_scene, wait_scene
from short_spans import best_contrast, colors_of
from support import ROOT, need_corpus
from wait_traces import random_waits


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    ensure_gui_application()


def lane_rows(
    scene: TimelineScene,
) -> Iterator[tuple[RowColumns, int, int]]:
    """Yield (row, top, bottom) of the rows of lanes, in device pixels."""
    geometry = TimelineGeometry(scene)
    for box, y in geometry.visible_boxes():
        if box.lane is None or not box.lane.track.has_rows or box.lane.track.band:
            continue
        if box.lane.track.encloses:  # in one colour
            continue
        inset = 1.0 if box.lane.track.is_thin else 2.0
        rows = scene.index.row_columns(box.lane.key, scene.color_by)
        for row, place in zip(rows, box.row_y, strict=False):
            top = geometry.time.snap(y + place + inset)
            bottom = geometry.time.snap(y + place + box.row_height - inset)
            if bottom <= scene.height:
                yield row, round(top * scene.scale), round(bottom * scene.scale)


def assert_shares(scene: TimelineScene) -> int:
    """Hold the picture to the true shares; return how many columns were stacks."""
    pixels = colors_of(render_image(compose_timeline(scene)))
    time, n_stacks = TimelineGeometry(scene).time, 0
    categories = scene.index.categories(scene.color_by)
    colors = lut(categories, scene.theme)
    assert len(set(colors.tolist())) == len(colors)
    left, edges = round(time.x0 * scene.scale), time.edges
    width = np.maximum(np.diff(edges), 1)
    for row, top, bottom in lane_rows(scene):
        columns = row.query(edges)
        weight = stack_weights([columns], round(ALONE_PX * scene.scale))[0]
        assert (weight[columns.count <= FEW] == 0).all()
        n, stacked = bottom - top, weight == WHOLE
        ticks = ticks_slow(row.row, edges, categories.index, len(colors))
        picture = pixels[top:bottom, left : left + time.n_columns]
        for color, covered in zip(colors.tolist(), ticks, strict=True):
            shown = (picture == color).sum(axis=0)
            away = np.abs(shown - covered / width * n)[stacked]
            assert away.max(initial=0) <= max(1.0, scene.scale), (top, hex(color))
        if row.waits is not None and scene.show_waits:
            waited = np.array(waits_slow(row.row, edges, row.waits.wait))
            shown = (picture == wait_color(scene.theme)).sum(axis=0)
            away = np.abs(shown - waited / width * n)[stacked]
            assert away.max(initial=0) <= max(1.0, scene.scale)
        n_stacks += int(stacked.sum())
    return n_stacks


@pytest.mark.parametrize("theme_name", THEMES)
@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_shares_of_random_lanes(theme_name: str, scale: float, share: float) -> None:
    trace = random_trace(4, int(30_000 / share), lanes=3, layers=4)
    visible = TimeRange(0, int(trace.extent.duration * share))
    scene = make_scene(
        trace, theme_name=theme_name, scale=scale, visible=visible, height=600
    )

    assert assert_shares(scene) > 500


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_shares_of_waiting_lanes(scale: float) -> None:
    scene = make_scene(random_waits(5, 20_000, lanes=2), scale=scale)

    assert assert_shares(scene) > 500


@pytest.mark.parametrize("color_by", ["family", "op", "layer"])
@pytest.mark.parametrize("name", ["tinyllama-256.bin", "llama.ggmlviz"])
def test_shares_of_samples(name: str, color_by: ColorBy) -> None:
    trace = ggscope.open(ROOT / "resources" / "samples" / name)
    state = LaneState(collapsed=frozenset())
    scene = make_scene(
        trace, color_by=color_by, width=218, height=900, scale=2.0, state=state
    )
    colors = lut(scene.index.categories(color_by), scene.theme).tolist()
    if len(set(colors)) < len(colors):
        pytest.skip("some categories share a colour")

    assert assert_shares(scene) > 10


def test_shares_of_reference_traces() -> None:
    """Those of the corpus, in a narrow picture, so that many spans share a column."""
    folder, n_stacks = need_corpus(), 0
    for path in sorted(folder.rglob("*.bin")):
        try:
            trace = ggscope.open(path)
        except ggscope.TraceError:
            continue
        if len(trace.spans) > 200:
            n_stacks += assert_shares(make_scene(trace, width=248, height=700))
    assert n_stacks > 100


def test_filter_leaves_the_shares_of_what_it_keeps_before_ghosts() -> None:
    trace = random_trace(8, 60_000, lanes=1, layers=0)
    is_match = trace.spans.op == 3
    scene = make_scene(trace, mask=is_match, mask_token="m", width=500)
    time = TimelineGeometry(scene).time
    [(row, top, bottom)] = [x for x in lane_rows(scene) if x[0].n_spans == 60_000]
    color = lut(scene.index.categories("family"), scene.theme)
    matmul = color[scene.index.categories("family").index[np.argmax(is_match)]]

    pixels = colors_of(render_image(compose_timeline(scene)))[top:bottom, 168:]

    covered = ticks_slow(row.row, time.edges, is_match.astype(np.uint8), 2)[1]
    true = covered / np.diff(time.edges) * (bottom - top)
    assert np.abs((pixels == matmul).sum(axis=0) - true).max() <= 1
    # Above them what was left out, pale.
    above = pixels[(bottom - top) // 2]
    assert (above != scene.theme.lane).all()


def test_change_between_boxes_and_stacks_is_no_jump() -> None:
    """A texel goes from one to the other in steps, the more spans a column has."""
    n = 4_000  # seven parts of the one op, on top of them three of the other
    start = np.arange(n) * 10 + np.where(np.arange(n) % 2, 4, 0)
    end = np.append(start[1:], start[-1] + 6)
    trace = spans_trace(start, end, op=np.where(np.arange(n) % 2, 1, 3))
    [lane] = [x.key for x in TraceIndex(trace).lanes if x.track.id == "thread"]
    seen = []
    for n_spans in (2, 3, 4, 5, 6):
        visible = TimeRange(0, 300 * 10 * n_spans)
        scene = make_scene(trace, visible=visible, width=468)
        box = scene.layout.box_of(lane)
        assert box is not None
        pixels = colors_of(render_image(compose_timeline(scene)))
        texel = pixels[int(26 + box.y + 4), 168 + 150]
        seen.append([int(texel >> shift) & 255 for shift in (16, 8, 0)])
    steps = np.abs(np.diff(np.array(seen), axis=0)).max(axis=1)
    whole = np.abs(np.array(seen[-1]) - seen[0]).max()
    assert whole > 60
    assert steps.max() < 0.6 * whole


def test_few_columns_in_an_empty_row_are_marks_as_single_spans_are() -> None:
    start = np.concatenate([np.arange(50), 5_000 + np.arange(50), [10_000]])
    trace = spans_trace(start, start, op=3)
    [lane] = [x.key for x in TraceIndex(trace).lanes if x.track.id == "thread"]
    scene = make_scene(trace, width=468)
    box = scene.layout.box_of(lane)
    assert box is not None
    top = round(26 + box.y)

    pixels = colors_of(render_image(compose_timeline(scene)))[top : top + 22]

    at = 168 + int(TimelineGeometry(scene).time.column_of(np.array([5_020]))[0])
    assert best_contrast(pixels, at) >= MIN_CONTRAST
    assert (pixels[12:18, at] != scene.theme.lane).all()


@pytest.mark.parametrize("lanes", [3, FEW_LANES + 1])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_overview_stacks_the_mean_shares_of_all_lanes(lanes: int, scale: float) -> None:
    trace = random_trace(5, 900 * lanes, lanes=lanes, layers=0)
    index = TraceIndex(trace)
    scene = OverviewScene(
        index=index, visible=trace.extent, width=300, height=48, theme=theme("dark"),
        scale=scale,
    )  # fmt: skip
    time = TimeScale(trace.extent, 0, 300, scale)
    categories = index.categories("family")

    image = next(
        b for b in compose_overview(scene).batches
        if hasattr(b, "pixels") and b.pixels.shape[1] == time.n_columns
    )  # fmt: skip

    ticks = sum(
        ticks_slow(
            index.rows(lane.key)[0], time.edges, categories.index, len(categories.keys)
        )
        for lane in index.lanes
        if lane.track.id == "thread"
    )
    n = len(image.pixels)
    shares = ticks / np.maximum(np.diff(time.edges), 1) / lanes
    for color, share in zip(lut(categories, scene.theme).tolist(), shares, strict=True):
        shown = ((image.pixels & 0xFFFFFF) == (color & 0xFFFFFF)).sum(axis=0)
        assert np.abs(shown - share * n).max() <= max(1.0, scale)


def test_low_lanes_keep_one_hue_for_each_column() -> None:
    trace = random_trace(4, 30_000, lanes=1, layers=0)
    [lane] = [x.key for x in TraceIndex(trace).lanes if x.track.id == "thread"]
    low = make_scene(trace, state=LaneState(heights=((lane, 0.5),)))

    tall = replace(low, layout=make_scene(trace).layout)

    assert [
        len(b.pixels) for b in compose_timeline(low).batches if hasattr(b, "pixels")
    ] == [2]
    assert [
        len(b.pixels) for b in compose_timeline(tall).batches if hasattr(b, "pixels")
    ] == [18]


@pytest.mark.parametrize("make", [busy_scene, npu_scene, wait_scene, stack_scene])
def test_pictures_are_let_go_of_without_the_garbage_collector(
    make: Callable[[], TimelineScene],
) -> None:
    # The window looks for garbage once a second: until then it would pile up.
    scene = make()
    gc.collect()
    gc.disable()
    try:
        compose_timeline(scene)

        assert not [x for x in gc.get_objects() if isinstance(x, LanesDraft)]
    finally:
        gc.enable()


@pytest.mark.parametrize("theme_name", ["dark", "light"])
@pytest.mark.parametrize("scale", [1.0, 1.25, 2.0])
def test_premultiplied_picture_is_drawn_as_the_straight_one(
    theme_name: str, scale: float
) -> None:
    scene = stack_scene(theme_name, scale)
    mask = np.arange(len(scene.index.trace.spans)) % 3 > 0
    for one in (scene, replace(scene, mask=mask, mask_token="third")):
        screen = compose_timeline(replace(one, premultiplied=True))
        straight = compose_timeline(one)

        assert any(getattr(batch, "premultiplied", False) for batch in screen.batches)
        assert (
            colors_of(render_image(screen)) == colors_of(render_image(straight))
        ).all()


def test_colors_of_a_premultiplied_picture_are_those_before() -> None:
    scene = stack_scene()

    screen = compose_timeline(replace(scene, premultiplied=True))

    for shown, expected in zip(
        screen.batches, compose_timeline(scene).batches, strict=True
    ):
        if not isinstance(shown, ImageBatch) or not shown.premultiplied:
            continue
        assert isinstance(expected, ImageBatch)
        seen, true = shown.straight(), expected.straight()
        assert (seen >> 24 == true >> 24).all()
        # Of a nearly transparent colour eight bits tell little.
        opaque = true >> 24 == 255
        assert (seen[opaque] == true[opaque]).all()


def test_rows_stay_in_place_while_time_moves_and_move_with_the_lanes() -> None:
    scene = make_scene(random_trace(4, 20_000, lanes=6, layers=4), height=240)
    half = scene.visible.duration // 2
    scenes = [
        replace(scene, visible=TimeRange(half // 2, half)),
        replace(scene, scroll_y=40.0),
        replace(scene, color_by="layer"),
        replace(scene, mask=scene.index.trace.spans.lane % 2 == 0, mask_token=0),
        replace(scene, mask=scene.index.trace.spans.lane % 2 == 1, mask_token=1),
        replace(scene, theme=theme("light")),
        scene,
    ]
    for one in scenes:
        again = replace(one, index=TraceIndex(one.index.trace))
        warm, cold = (
            colors_of(render_image(compose_timeline(x))) for x in (one, again)
        )
        assert (warm == cold).all()
