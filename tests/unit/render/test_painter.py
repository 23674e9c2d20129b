from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPointF
from PySide6.QtGui import QImage, QPainter

import builders
import pictures
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState
from ggscope.model.selection import Selection
from ggscope.model.units import TimeRange
from ggscope.render.batch import (
    AreaBatch,
    Clip,
    DisplayList,
    Face,
    ImageBatch,
    Pattern,
    RectBatch,
    Text,
    TextBatch,
)
from ggscope.render.compare.timelines import (
    TimelineSide,
    TimelinesScene,
    compose_timelines,
)
from ggscope.render.export import ensure_gui_application, render_image
from ggscope.render.painter import color_of, paint
from ggscope.render.static_layer import StaticLayerCache
from ggscope.render.text_metrics import baseline_shift, font
from ggscope.render.theme import theme
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.overview import compose_overview
from scenes import busy_scene, make_scene, npu_scene, overview_scene

GROUND = 0xFF101010


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    """Text needs an application; pytest-qt makes the one of this process."""
    ensure_gui_application()


def drawn(*batches: object, scale: float = 1.0) -> np.ndarray:
    """Return uint32[h, w] of a picture of 40 × 20 with these batches."""
    picture = DisplayList(40, 20, scale, GROUND, batches)  # type: ignore[arg-type]
    image = render_image(picture)
    array = np.frombuffer(image.constBits(), np.uint32)
    return array.reshape(image.height(), image.bytesPerLine() // 4)[
        :, : image.width()
    ].copy()


@pytest.mark.parametrize("scale", [1.0, 1.25, 1.5, 2.0])
def test_rectangle_fills_exactly_its_device_pixels(scale: float) -> None:
    pixels = drawn(pictures.rect(4, 4, 12, 8, pictures.BLUE), scale=scale)

    expected = np.full(pixels.shape, GROUND, np.uint32)
    low, high, stop = (round(edge * scale) for edge in (4, 8, 12))
    expected[low:high, low:stop] = pictures.BLUE
    assert (pixels == expected).all()


def test_border_lies_inside_and_leaves_the_fill() -> None:
    pixels = drawn(pictures.rect(4, 4, 12, 10, pictures.BLUE, border=pictures.ORANGE))

    assert pixels[4, 4] == pixels[9, 11] == pixels[6, 4] == pictures.ORANGE
    assert pixels[5, 5] == pixels[8, 10] == pictures.BLUE
    assert pixels[3, 4] == pixels[10, 4] == pixels[6, 12] == GROUND


def test_border_over_a_translucent_fill_keeps_the_fill_translucent() -> None:
    pixels = drawn(pictures.rect(4, 4, 12, 10, 0x80000000, border=pictures.ORANGE))

    assert pixels[4, 4] == pictures.ORANGE
    assert pixels[6, 6] == 0xFF080808


def test_one_pixel_wide_rectangle_with_a_border_is_all_border() -> None:
    pixels = drawn(pictures.rect(4, 4, 5, 10, pictures.BLUE, border=pictures.ORANGE))

    assert (pixels[4:10, 4] == pictures.ORANGE).all()
    assert pixels[6, 5] == GROUND


def test_hatch_leaves_the_ground_between_its_lines() -> None:
    pixels = drawn(
        pictures.rect(0, 0, 40, 20, pictures.GREEN, pattern=int(Pattern.HATCH))
    )

    assert set(np.unique(pixels).tolist()) == {GROUND, pictures.GREEN}
    assert (pixels == pictures.GREEN).mean() == pytest.approx(0.25, abs=0.03)


def test_dots_lie_on_the_fill() -> None:
    pixels = drawn(
        pictures.rect(0, 0, 40, 20, pictures.GREEN, pattern=int(Pattern.DOTTED))
    )

    assert GROUND not in pixels
    assert (pixels == pictures.GREEN).mean() > 0.85
    assert len(np.unique(pixels)) == 2


@pytest.mark.parametrize("scale", [1.0, 1.25, 2.0])
def test_image_puts_each_texel_on_its_device_column(scale: float) -> None:
    n = round(32 * scale)
    texels = (0xFF000000 + np.arange(n, dtype=np.uint32) * 5)[None, :]
    batch = ImageBatch(texels, 4, 36, pictures.floats(4), pictures.floats(12))

    pixels = drawn(batch, scale=scale)

    rows = pixels[round(4 * scale) : round(12 * scale)]
    left = round(4 * scale)
    assert (rows[:, left : left + n] == texels).all()
    assert (pixels[round(12 * scale)] == GROUND).all()


def test_image_opacity_mixes_with_what_lies_under_it() -> None:
    texels = np.full((1, 32), 0x80FFFFFF, np.uint32)

    pixels = drawn(ImageBatch(texels, 4, 36, pictures.floats(0), pictures.floats(8)))

    assert abs((int(pixels[2, 8]) & 255) - (0x10 + (255 - 0x10) * 128 / 255)) <= 1


def test_clip_bounds_a_batch() -> None:
    pixels = drawn(pictures.rect(0, 0, 40, 20, pictures.BLUE, clip=Clip(10, 5, 4, 3)))

    assert (pixels == pictures.BLUE).sum() == 12
    assert (pixels[5:8, 10:14] == pictures.BLUE).all()


def test_area_reaches_from_its_steps_to_the_base() -> None:
    x = np.array([4, 8, 12], np.float32)
    batch = AreaBatch(x, np.array([10, 4], np.float32), 16, pictures.GREEN)

    pixels = drawn(batch)

    assert (pixels[10:16, 4:8] == pictures.GREEN).all()
    assert (pixels[4:16, 8:12] == pictures.GREEN).all()
    assert (pixels[:4] == GROUND).all()
    assert (pixels[:9, 4:8] == GROUND).all()


def test_empty_list_is_the_background() -> None:
    assert (drawn() == GROUND).all()


def test_batch_of_no_rectangles_draws_nothing() -> None:
    none = RectBatch(*(pictures.floats() for _ in range(4)), pictures.colors())

    image = render_image(DisplayList(4, 4, 1.0, 0xFF102030, (none,)))

    assert image.pixel(2, 2) == 0xFF102030


def test_texts_can_be_left_out() -> None:
    with_texts = render_image(pictures.everything())
    without = render_image(pictures.everything(texts=False))

    assert isinstance(without, QImage)
    assert with_texts != without


@pytest.mark.parametrize("scale", [1.0, 1.25, 2.0])
@pytest.mark.parametrize("face", Face)
def test_letters_lie_where_qt_puts_those_of_a_line(scale: float, face: Face) -> None:
    lines = ["blk.0.ffn_up.weight", "#12 decode 3.25 ms", "fi ffl AVAT_%", "größer · 7"]
    color, size = 0xFFE0D0C0, 11.5
    texts = [
        Text(3, 12 + 20 * i, line, color, size, face) for i, line in enumerate(lines)
    ]
    picture = DisplayList(240, 80, scale, GROUND, (TextBatch(tuple(texts)),))

    expected = render_image(replace(picture, batches=()))
    painter = QPainter(expected)
    painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
    painter.setFont(font(face, size))
    painter.setPen(color_of(color))
    for text in texts:
        y = round(text.y + baseline_shift(face, size))
        painter.drawText(QPointF(text.x, y), text.text)
    painter.end()

    assert render_image(picture) == expected


@pytest.mark.parametrize("scale", [1.0, 1.25, 2.0])
def test_picture_on_its_kept_part_is_the_same_to_the_pixel(scale: float) -> None:
    first = overview_scene(scale=scale)
    moved = replace(first, visible=TimeRange(0, first.index.trace.extent.end // 3))
    assert_same_with_cache(
        [
            compose_overview(scene)
            for scene in (first, moved, replace(moved, theme=theme("light")))
        ]
    )


def test_overview_of_a_trace_without_spans_is_painted_over_what_was_there() -> None:
    busy = overview_scene()
    empty = replace(busy, index=TraceIndex(builders.empty_trace()), hits=None)
    empty = replace(empty, selection=Selection(), marked=None, bookmarks=())
    composed = [compose_overview(scene) for scene in (empty, busy, empty)]

    assert_same_with_cache(composed)

    assert render_image(composed[0]).pixelColor(450, 24) == color_of(busy.theme.pane)


@pytest.mark.parametrize("scale", [1.0, 1.25, 2.0])
def test_timeline_on_its_kept_headers_is_the_same_to_the_pixel(scale: float) -> None:
    first = busy_scene(scale=scale)
    moved = replace(first, visible=first.visible.shifted(300_000), scroll_y=0)
    down = replace(moved, scroll_y=37)
    pinned = first.index.lanes.keys[0]
    state = LaneState(pinned=(pinned,))
    scenes = [
        first, moved, down, replace(down, theme=theme("light")), first,
        make_scene(first.index, state=state, scale=scale), npu_scene(scale=scale),
    ]  # fmt: skip
    composed = [compose_timeline(scene) for scene in scenes]
    assert_same_with_cache(composed)
    a, b = composed[:2]
    assert a.still
    assert a.still[0].first == b.still[0].first
    parts = slice(a.still[0].first, a.still[0].stop)
    assert all(x is y for x, y in zip(a.batches[parts], b.batches[parts], strict=True))


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_two_timelines_on_their_headers_are_the_same_to_the_pixel(scale: float) -> None:
    runs = [builders.random_trace(seed, 300, lanes=5, layers=2) for seed in (1, 2)]
    sides = []
    for trace in runs:
        lanes = make_scene(trace)
        sides.append(TimelineSide(lanes.index, lanes.layout, "run"))
    visible = runs[0].extent
    first = TimelinesScene(
        sides[0], sides[1], visible, 0, 700, 500, theme("dark"), scale
    )
    moved = replace(first, visible=visible.shifted(visible.duration // 7))
    scenes = [
        first, moved, replace(moved, b=replace(sides[1], scroll_y=20)),
        replace(moved, theme=theme("light")), replace(moved, height=400), first,
    ]  # fmt: skip
    composed = [compose_timelines(scene) for scene in scenes]

    assert_same_with_cache(composed)

    a, b = composed[:2]
    assert len(a.still) == len(b.still) == 2
    for old, new in zip(a.still, b.still, strict=True):
        parts = a.batches[old.first : old.stop], b.batches[new.first : new.stop]
        assert all(x is y for x, y in zip(*parts, strict=True))


def assert_same_with_cache(composed: list[DisplayList]) -> None:
    """Compare pictures drawn with cached layers with pictures drawn whole."""
    cache = StaticLayerCache()
    for picture in composed:
        scale = picture.scale
        images = []
        for part in (cache, None):
            image = QImage(
                round(picture.width * scale),
                round(picture.height * scale),
                QImage.Format.Format_RGB32,
            )
            image.setDevicePixelRatio(scale)
            image.fill(0xFFFF0000)  # what was there before
            painter = QPainter(image)
            paint(picture, painter, cache=part)
            painter.end()
            images.append(image)
        assert picture.still
        assert images[0] == images[1]


@pytest.mark.parametrize("scale", [1.0, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("base", [60.0, 40.3, 0.0])
def test_area_covers_the_pixels_whose_middles_lie_in_it(
    scale: float, base: float
) -> None:
    rng = np.random.default_rng(7)
    edges = np.sort(rng.choice(np.arange(1, 200), 60, replace=False))
    y = (rng.random(59) * 80).astype(np.float32)
    x = (edges / scale).astype(np.float32)
    area = AreaBatch(x, y, base, fill=0xFF3060FF)
    image = QImage(210, 190, QImage.Format.Format_RGB32)
    image.fill(0xFF000000)
    painter = QPainter(image)
    painter.scale(scale, scale)
    paint(DisplayList(300, 300, scale, 0xFF000000, (area,)), painter)
    painter.end()

    array = np.frombuffer(image.constBits(), np.uint32).reshape(190, -1)[:, :210]
    middle = (np.arange(190) + 0.5) / scale
    for step in range(59):
        low, high = sorted((float(y[step]), base))
        inside = (middle > low) & (middle < high)
        for column in range(edges[step], edges[step + 1]):
            is_blue = array[:, column] == 0xFF3060FF
            assert np.array_equal(is_blue, inside), (step, column)
