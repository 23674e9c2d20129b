"""The picture of the 3D view against one point after the other."""

import math
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtGui import QImage, QPainter

from builders import empty_trace, spans_trace
from ggscope.analysis.heat.points import access_points
from ggscope.analysis.layers import layer_activity
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.native.library import library
from ggscope.render.batch import ImageBatch, TextBatch
from ggscope.render.figure_style import FigureStyle, css_px
from ggscope.render.figures import FIGURES
from ggscope.render.painter import paint
from ggscope.render.points import (
    HALF,
    HOME,
    MAX_DISTANCE,
    MIN_DISTANCE,
    Camera,
    PointsCache,
    PointsGeometry,
    PointsScene,
    compose_points,
    layer_axis,
    places,
    point_colors,
)
from ggscope.render.theme import theme
from heat_traces import moe_trace
from oracles.points import nearest_points

DARK = theme("dark")


def scene_of(trace: Trace, **values: object) -> PointsScene:
    points = access_points(trace)
    axis = layer_axis(points)
    hues = point_colors(trace, points, str(values.pop("by", "family")))
    scene = PointsScene(
        trace, points, axis, places(points, axis), hues.colors(DARK), 640.0, 480.0,
        DARK, activity=layer_activity(trace),
    )  # fmt: skip
    return replace(scene, **values)


def drawn(xyz: np.ndarray, matrix: np.ndarray, size: tuple[int, int], radius: float):
    width, height = size
    cells = np.full((height, width), (1 << 64) - 1, np.uint64)
    library().ggscope_points_draw(
        np.ascontiguousarray(xyz, np.float32), len(xyz), 0,
        np.ascontiguousarray(matrix), width, height, radius, cells,
    )  # fmt: skip
    drawn = (cells & np.uint64(0xFFFFFFFF)).astype(np.int64)
    drawn[cells == np.uint64((1 << 64) - 1)] = -1
    return drawn


@pytest.mark.parametrize("radius", [0.0, 0.9, 1.4, 3.0])
@pytest.mark.parametrize("seed", range(6))
def test_compiled_points_are_those_of_python(seed: int, radius: float) -> None:
    rng = np.random.default_rng(seed)
    # Of eighths, so that no pixel's middle lies at the very edge of a disc.
    xyz = rng.integers(-16, 17, (60, 3)) / 8
    camera = Camera(
        float(rng.uniform(-180, 180)), float(rng.uniform(-80, 80)),
        float(rng.uniform(0.3, 6)),
    )  # fmt: skip
    matrix = camera.matrix(23 / 17)

    picture = drawn(xyz, matrix, (23, 17), radius)

    expected = nearest_points(xyz.tolist(), matrix, 23, 17, radius)
    # Single precision may turn over a tie, or an edge.
    assert np.count_nonzero(picture != np.array(expected)) <= 2
    assert (picture >= 0).any()


def test_points_that_are_no_numbers_are_left_out() -> None:
    odd = np.array([[math.nan] * 3, [math.inf, 0, 0], [0, -math.inf, 0], [1e30] * 3])

    assert (drawn(odd, HOME.matrix(1.0), (9, 9), 2.0) == -1).all()


def test_many_points_of_one_place_are_the_first() -> None:
    xyz = np.zeros((1000, 3))

    picture = drawn(xyz, HOME.matrix(1.0), (9, 9), 1.0)

    assert set(picture.ravel().tolist()) == {-1, 0}


def test_times_since_1970_keep_their_nanoseconds() -> None:
    points = access_points(moe_trace())
    axis = layer_axis(points)
    start = 1_700_000_000_000_000_000
    late = replace(
        points, time=points.time + start,
        extent=TimeRange(points.extent.start + start, points.extent.end + start),
    )  # fmt: skip

    assert places(late, axis).tolist() == places(points, axis).tolist()
    assert len(np.unique(places(late, axis)[:, 0])) == len(np.unique(points.time))


def test_places_fill_the_box_and_no_more() -> None:
    points = access_points(moe_trace())

    xyz = places(points, layer_axis(points))

    assert (np.abs(xyz) <= HALF + 1e-6).all()
    layers = np.unique(xyz[:, 1])
    assert len(layers) == len(np.unique(points.layer))
    assert np.allclose(np.diff(layers), np.diff(layers)[0])


@pytest.mark.parametrize("camera", [HOME, Camera(120.0, -30.0, 2.0), Camera(5, 80, 9)])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_pixel_of_a_point_has_its_colour_and_finds_it(
    camera: Camera, scale: float
) -> None:
    scene = scene_of(moe_trace(tokens=2), camera=camera, scale=scale)
    geometry = PointsGeometry(scene)
    image = next(b for b in compose_points(scene).batches if isinstance(b, ImageBatch))
    n_seen = 0
    for i, (x, y) in enumerate(geometry.project(scene.xyz).tolist()):
        if not (0 <= x < geometry.box_width and 0 <= y < scene.height):
            continue
        point = geometry.point_at(x, y)
        if point != i:  # another one lies over it
            assert point >= 0
            continue
        n_seen += 1
        pixel = image.pixels[int(y * scale), int(x * scale)]
        assert pixel == scene.colors[i]
    assert n_seen > 5
    assert geometry.point_at(-5, 10) == -1
    assert geometry.point_at(2, scene.height - 2) == -1


def test_replay_draws_the_points_until_its_time() -> None:
    scene = scene_of(moe_trace(), width=400.0)
    begin = scene.points.extent.start

    none = replace(scene, tick=begin - 1, cache=PointsCache())
    some = replace(scene, tick=int(scene.points.time[20]), cache=PointsCache())

    def n_pixels(scene: PointsScene) -> int:
        batches = compose_points(scene).batches
        image = next(b for b in batches if isinstance(b, ImageBatch))
        return int(np.count_nonzero(image.pixels))

    assert n_pixels(none) == 0
    assert 0 < n_pixels(some) < n_pixels(scene)
    assert some.n_shown == some.points.until(some.tick)
    last = PointsGeometry(scene).project(scene.xyz[-1])[0]
    assert PointsGeometry(none).point_at(*last) == -1


def test_points_beside_the_selection_step_back() -> None:
    scene = scene_of(moe_trace())
    highlighted = scene.points.layer == 1
    assert highlighted.any()

    colors = replace(scene, is_highlighted=highlighted).shown_colors()

    assert (colors[highlighted] == scene.colors[highlighted]).all()
    assert (colors[~highlighted] != scene.colors[~highlighted]).all()
    assert (colors >> 24 == 255).all()
    every = replace(
        scene, is_highlighted=np.ones(len(highlighted), np.bool_)
    ).shown_colors()
    assert every is scene.colors


def test_picture_is_kept_until_something_changes() -> None:
    scene = scene_of(moe_trace())

    def image(scene: PointsScene) -> object:
        batches = compose_points(scene).batches
        return next(b for b in batches if isinstance(b, ImageBatch)).pixels

    first = image(scene)

    assert image(replace(scene, hover=3)) is first
    assert image(replace(scene, camera=HOME.zoomed(0.5))) is not first


def test_wheel_and_drag_stay_within_bounds() -> None:
    camera = HOME
    for _ in range(100):
        camera = camera.zoomed(0.5).orbited(77.0, 40.0).panned(3.0, -2.0)

    assert camera.distance == MIN_DISTANCE
    assert camera.elevation < 90
    assert -180 <= camera.azimuth < 180
    assert (np.abs(camera.centre) <= 3 * HALF + 1e-9).all()
    assert HOME.zoomed(1e9).distance == MAX_DISTANCE


def test_drag_to_the_right_moves_the_picture_to_the_right() -> None:
    before = PointsGeometry(scene_of(moe_trace())).project(np.zeros(3))[0]
    moved = scene_of(moe_trace(), camera=HOME.panned(-0.1, 0.1))

    after = PointsGeometry(moved).project(np.zeros(3))[0]

    assert after[0] > before[0]
    assert after[1] > before[1]


@pytest.mark.parametrize("azimuth", range(-180, 180, 30))
@pytest.mark.parametrize("elevation", [-80.0, -10.0, 24.0, 85.0])
def test_texts_lie_apart_and_axes_are_named(azimuth: int, elevation: float) -> None:
    camera = replace(HOME, azimuth=float(azimuth), elevation=elevation)
    picture = compose_points(scene_of(moe_trace(), camera=camera))

    texts = [t for b in picture.batches if isinstance(b, TextBatch) for t in b.texts]
    text = {t.text for t in texts}
    assert {"time", "layer", "file offset"} <= text
    assert len({(round(t.x), round(t.y)) for t in texts}) == len(texts)


def test_layer_boxes_are_found_where_they_are_drawn() -> None:
    scene = scene_of(moe_trace())
    geometry = PointsGeometry(scene)
    n = len(scene.activity)

    tops = []
    for i in range(n):
        x0, x1, y0, y1 = geometry.layer_box(i)
        assert geometry.layer_at((x0 + x1) / 2, (y0 + y1) / 2) == i
        tops.append(y0)
    assert tops == sorted(tops, reverse=True)  # the last layer is on top
    assert geometry.layer_at(geometry.box_width + 5, scene.height - 1) == -1
    assert geometry.layer_at(10, 100) == -1
    assert PointsGeometry(replace(scene, width=200.0)).layer_at(195, 60) == -1


@pytest.mark.parametrize("theme_name", ["dark", "light", "print"])
def test_figure_has_points_axes_and_legend(qapp, theme_name: str) -> None:
    figure = (
        FIGURES["3d"]
        .figure(moe_trace(), color_by="layer")
        .draw(FigureStyle(theme=theme_name, width=css_px(700), height=css_px(500)))
    )
    picture = figure.picture

    image = QImage(
        round(picture.width), round(picture.height), QImage.Format.Format_RGB32
    )
    painter = QPainter(image)
    paint(picture, painter)
    painter.end()
    hues = {
        image.pixelColor(x, y).rgb()
        for x in range(0, image.width(), 2)
        for y in range(40, image.height() - 40, 2)
    }
    texts = {
        t.text for b in picture.batches if isinstance(b, TextBatch) for t in b.texts
    }
    assert len(hues) > 5
    assert {"layer 0", "file offset"} <= texts


def test_figure_of_a_range_has_its_reads_and_its_times(qapp) -> None:
    trace = moe_trace()
    times = access_points(trace).time
    begin, end = int(times[40]), int(times[120])
    n = int(((times >= begin) & (times < end)).sum())

    figure = FIGURES["3d"].figure(trace, visible=TimeRange(begin, end))

    assert f"{n} reads" in figure.draw(FigureStyle()).description
    scene = scene_of(trace)
    part = replace(scene.points, extent=TimeRange(begin, end))
    inside = (times >= begin) & (times < end)
    assert (np.abs(places(part, scene.axis)[inside, 0]) <= HALF[0] + 1e-6).all()


def test_figure_refuses_what_it_cannot_draw(qapp) -> None:
    spec = FIGURES["3d"]
    with pytest.raises(ExportError, match="color_by"):
        spec.figure(moe_trace(), color_by="nothing")
    with pytest.raises(ExportError, match="azimuth"):
        spec.figure(moe_trace(), azimuth=math.nan)
    for trace in (empty_trace(), spans_trace([0], [5])):
        with pytest.raises(NothingToDrawError):
            spec.figure(trace).draw(FigureStyle())
