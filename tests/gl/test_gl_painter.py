import numpy as np
import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QImage, QOpenGLContext, QPainter
from PySide6.QtOpenGL import QOpenGLFramebufferObject

import pictures
from ggscope.render.batch import DisplayList
from ggscope.render.export import render_image
from ggscope.render.gl.base import current_renderer, is_software
from ggscope.render.gl.painter import GlPainter
from ggscope.render.theme import MIN_CONTRAST
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.overview import compose_overview
from ggscope.render.timeline.scene import AXIS_HEIGHT, TimeScale
from scenes import (
    arrow_scene,
    busy_scene,
    make_scene,
    npu_scene,
    overview_scene,
    stack_scene,
    wait_scene,
    without_texts,
)
from short_spans import best_contrast, colors_of, short_spans

pytestmark = pytest.mark.gl


def channels(image: QImage) -> np.ndarray:
    """Return int[height, width, 3] of an image."""
    plain = image.convertToFormat(QImage.Format.Format_RGB32)
    array = np.frombuffer(plain.constBits(), np.uint8)
    rows = array.reshape(plain.height(), plain.bytesPerLine())
    return (
        rows[:, : plain.width() * 4]
        .reshape(plain.height(), -1, 4)[:, :, :3]
        .astype(int)
    )


def drawn_by_gl(painter: GlPainter, picture: DisplayList) -> QImage:
    size = QSize(
        round(picture.width * picture.scale), round(picture.height * picture.scale)
    )
    buffer = QOpenGLFramebufferObject(size)
    painter.paint(picture, buffer.handle())
    return buffer.toImage()


def share_of_different_pixels(a: QImage, b: QImage) -> float:
    """Return the share of pixels with a channel that differs by more than 40."""
    assert a.size() == b.size()
    away = np.abs(channels(a) - channels(b)).max(axis=2)
    return float((away > 40).mean())


@pytest.mark.parametrize("scale", [1.0, 1.25, 1.5, 2.0])
def test_every_batch_gl_and_qpainter_agree(
    gl_context: QOpenGLContext, scale: float
) -> None:
    picture = pictures.everything(scale, texts=False)
    painter = GlPainter()
    painter.initialize()

    by_gl = drawn_by_gl(painter, picture)
    by_qpainter = render_image(picture)

    assert share_of_different_pixels(by_gl, by_qpainter) < 0.02
    painter.release()


def test_release_and_initialize_again_draws_the_same(
    gl_context: QOpenGLContext,
) -> None:
    picture = pictures.everything(texts=False)
    painter = GlPainter()
    painter.initialize()
    before = drawn_by_gl(painter, picture)

    painter.release()
    painter.release()
    painter.initialize()
    after = drawn_by_gl(painter, picture)

    assert (channels(before) == channels(after)).all()
    painter.release()


def test_new_context_needs_only_initialize(gl_context: QOpenGLContext) -> None:
    picture = pictures.everything(texts=False)
    painter = GlPainter()
    painter.initialize()
    before = drawn_by_gl(painter, picture)
    second = QOpenGLContext()
    second.setFormat(gl_context.format())
    surface = gl_context.surface()
    assert second.create()
    assert second.makeCurrent(surface)

    painter.initialize()
    after = drawn_by_gl(painter, picture)

    assert (channels(before) == channels(after)).all()
    painter.release()
    second.doneCurrent()


def test_info_names_vendor_renderer_and_version(gl_context: QOpenGLContext) -> None:
    painter = GlPainter()
    painter.initialize()

    vendor, renderer, version = painter.info()

    assert vendor
    assert renderer == current_renderer()
    assert version[0].isdigit()
    painter.release()


@pytest.mark.parametrize(
    ("renderer", "expected"),
    [
        ("llvmpipe (LLVM 15.0.7, 256 bits)", True),
        ("softpipe", True),
        ("Google SwiftShader", True),
        ("NVIDIA GeForce RTX 4090/PCIe/SSE2", False),
        ("Mesa Intel(R) UHD Graphics 620", False),
    ],
)
def test_software_renderers_are_known(renderer: str, expected: bool) -> None:
    assert is_software(renderer) is expected


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_timeline_gl_and_qpainter_agree(
    gl_context: QOpenGLContext, theme_name: str, scale: float
) -> None:
    painter = GlPainter()
    painter.initialize()

    for make in (busy_scene, npu_scene, wait_scene, stack_scene, arrow_scene):
        scene = make(theme_name, scale)
        picture = without_texts(compose_timeline(scene))
        by_gl = drawn_by_gl(painter, picture)
        by_qpainter = render_image(picture)

        assert share_of_different_pixels(by_gl, by_qpainter) < 0.02
    painter.release()


def test_overview_gl_and_qpainter_agree(gl_context: QOpenGLContext) -> None:
    picture = without_texts(compose_overview(overview_scene()))
    painter = GlPainter()
    painter.initialize()

    by_gl = drawn_by_gl(painter, picture)

    assert share_of_different_pixels(by_gl, render_image(picture)) < 0.02
    painter.release()


def test_texts_over_a_gl_picture_equal_those_of_qpainter(
    gl_context: QOpenGLContext,
) -> None:
    picture = compose_timeline(busy_scene())
    gl_painter = GlPainter()
    gl_painter.initialize()
    image = drawn_by_gl(gl_painter, picture).convertToFormat(QImage.Format.Format_RGB32)

    painter = QPainter(image)
    gl_painter.paint_text(picture, painter)
    painter.end()

    assert share_of_different_pixels(image, render_image(picture)) < 0.02
    gl_painter.release()


@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_short_spans_stand_out(gl_context: QOpenGLContext, theme_name: str) -> None:
    painter = GlPainter()
    painter.initialize()
    trace = short_spans()
    scene = make_scene(trace, theme_name=theme_name)

    pixels = colors_of(drawn_by_gl(painter, without_texts(compose_timeline(scene))))

    box = scene.layout.box_of("thread:thread 0")
    assert box is not None
    top = round(AXIS_HEIGHT + box.y)
    time = TimeScale(scene.visible, scene.header_width, scene.width, 1.0)
    columns = round(time.x0) + time.column_of(trace.spans.start[:-2])
    for column in columns.tolist():
        lane = pixels[top : top + round(box.height)]
        assert best_contrast(lane, column) >= MIN_CONTRAST
    painter.release()
