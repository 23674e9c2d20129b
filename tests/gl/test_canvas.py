"""The timeline on an OpenGL surface: drawn, switched, moved, and when it fails."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtOpenGLWidgets import QOpenGLWidget
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget
from pytestqt.qtbot import QtBot

import builders
from ggscope.model.selection import MarkedRange
from ggscope.model.units import TimeRange
from ggscope.render.gl import painter
from ggscope.render.gl.base import gl_module
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.base import canvas as painted_module
from ggscope.views.base.canvas import GlCanvas, RasterCanvas, hardware_renderer
from ggscope.views.timeline.view import TimelineView

pytestmark = pytest.mark.gl


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    if QGuiApplication.platformName() == "offscreen":
        pytest.skip("OpenGL tests need an X display; run them under xvfb-run")
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=6, layers=4))
    extent = session.trace.extent  # type: ignore[union-attr]
    session.ranges.set_marked(
        MarkedRange(TimeRange(extent.duration // 4, extent.duration // 3))
    )
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> TimelineView:
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 500)
    view.show()
    qtbot.waitExposed(view)
    return view


def gl_canvas(qtbot: QtBot, view: TimelineView) -> GlCanvas:
    view.choose_renderer("opengl")
    qtbot.waitUntil(lambda: "OpenGL " in view.renderer_text())
    canvas = view.canvas
    assert isinstance(canvas, GlCanvas)
    return canvas


def pixels(image: QImage) -> np.ndarray:
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    data = np.frombuffer(image.constBits(), np.uint8)
    shape = (image.height(), image.bytesPerLine() // 4, 4)
    return data.reshape(shape)[:, : image.width(), :3].astype(int)


def differing(a: np.ndarray, b: np.ndarray) -> float:
    return float((np.abs(a - b).max(axis=2) > 40).mean())


def test_opengl_canvas_shows_the_picture_of_the_raster_canvas(
    qtbot: QtBot, view: TimelineView
) -> None:
    raster = pixels(view.canvas.grab().toImage())

    canvas = gl_canvas(qtbot, view)
    drawn = pixels(canvas.grabFramebuffer())

    assert drawn.shape == raster.shape
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 20
    assert differing(drawn, raster) < 0.02


def test_renderer_can_be_switched_back_and_forth(
    qtbot: QtBot, view: TimelineView
) -> None:
    names = []
    view.renderer_changed.connect(names.append)

    gl_canvas(qtbot, view)
    view.choose_renderer("raster")

    assert isinstance(view.canvas, RasterCanvas)
    assert view.renderer_text() == "raster"
    assert len(names) >= 2
    assert len(np.unique(pixels(view.canvas.grab().toImage()))) > 20


def test_canvas_draws_again_after_its_context_was_destroyed(
    qtbot: QtBot, view: TimelineView
) -> None:
    canvas = gl_canvas(qtbot, view)
    before = pixels(canvas.grabFramebuffer())
    contexts = [canvas.context()]

    # Docking and undocking put a widget into another window: a new context.
    window = QMainWindow()
    qtbot.addWidget(window)
    window.resize(1000, 500)
    window.setCentralWidget(view)
    window.show()
    qtbot.waitExposed(window)
    view.resize(1000, 500)
    contexts.append(canvas.context())
    after = pixels(canvas.grabFramebuffer())
    window.takeCentralWidget()
    view.setParent(None)
    view.show()
    qtbot.waitExposed(view)

    assert len(np.unique(after.reshape(-1, 3), axis=0)) > 20
    if before.shape == after.shape:
        assert differing(before, after) < 0.02
    assert len(np.unique(pixels(canvas.grabFramebuffer()).reshape(-1, 3), axis=0)) > 20


def test_view_that_is_let_go_frees_what_lies_on_the_card(
    qtbot: QtBot, view: TimelineView, monkeypatch: pytest.MonkeyPatch
) -> None:
    gl, programs = gl_module(), []
    link = gl.glLinkProgram

    def noted(program: int) -> None:
        programs.append(program)
        link(program)

    monkeypatch.setattr(gl, "glLinkProgram", noted)
    # Another canvas of the window, which shares its objects and stays.
    canvas = gl_canvas(qtbot, view)
    stays = QOpenGLWidget(view)
    stays.show()
    qtbot.waitUntil(stays.isValid)
    pointers = sys.modules["OpenGL.contextdata"].storedPointers
    n_contexts = len(pointers)

    view.release()

    stays.makeCurrent()
    still_there = [bool(gl.glIsProgram(program)) for program in programs]
    stays.doneCurrent()
    assert programs
    assert not any(still_there)
    assert len(pointers) == n_contexts - 1
    canvas.update()
    qtbot.wait(50)  # it is in sight still, and fails at nothing
    assert isinstance(view.canvas, GlCanvas)


def test_failing_opengl_falls_back_to_raster_with_a_notice(
    qtbot: QtBot, view: TimelineView, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object) -> None:
        raise painter.GlError("no shaders today")

    monkeypatch.setattr(painter.GlPainter, "initialize", broken)

    with qtbot.waitSignal(view.renderer_failed) as failed:
        view.choose_renderer("opengl")
    qtbot.waitUntil(lambda: isinstance(view.canvas, RasterCanvas))

    assert "no shaders today" in failed.args[0]
    assert len(np.unique(pixels(view.canvas.grab().toImage()))) > 20


def test_software_renderer_is_no_reason_to_leave_raster(
    qtbot: QtBot, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed = []
    monkeypatch.setattr(TimelineView, "probe_ms", 0)
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.show()
    # Also where there is no card: what a context says is what is looked at.
    monkeypatch.setattr(painted_module, "has_graphics_card", lambda _: True)
    hardware_renderer.cache_clear()
    monkeypatch.setattr(
        painted_module,
        "hardware_renderer",
        lambda: probed.append(hardware_renderer()) or probed[0],
    )

    view.choose_renderer("auto")
    qtbot.waitUntil(lambda: bool(probed))

    assert isinstance(view.canvas, RasterCanvas) is (probed[0] is None)


def test_two_timelines_share_a_window(
    qtbot: QtBot, view: TimelineView, session: Session
) -> None:
    other = TimelineView(session, theme("dark"))
    qtbot.addWidget(other)
    other.resize(600, 300)
    other.show()
    qtbot.waitExposed(other)

    first, second = gl_canvas(qtbot, view), gl_canvas(qtbot, other)

    for canvas in (first, second):
        seen = pixels(canvas.grabFramebuffer())
        assert len(np.unique(seen.reshape(-1, 3), axis=0)) > 20
    assert isinstance(first.parentWidget(), QWidget)
