"""The timeline with the search in the shader: chosen, shown, lost and refused."""

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QApplication, QMainWindow
from pytestqt.qtbot import QtBot

import builders
from ggscope.model.selection import Filter
from ggscope.model.units import TimeRange
from ggscope.render.gl.base import GlError
from ggscope.render.gl.search import GpuSearch
from ggscope.render.theme import theme
from ggscope.render.timeline import runs
from ggscope.session.session import Session
from ggscope.views.base.canvas import SEARCH_VARIABLE, GlCanvas, wants_search
from ggscope.views.timeline.view import TimelineView
from sentences import assert_sides

pytestmark = pytest.mark.gl


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    if QGuiApplication.platformName() == "offscreen":
        pytest.skip("OpenGL tests need an X display; run them under xvfb-run")
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=12, layers=8))
    yield session
    session.close()


@pytest.fixture
def view(
    qtbot: QtBot, session: Session, monkeypatch: pytest.MonkeyPatch
) -> TimelineView:
    monkeypatch.setenv(SEARCH_VARIABLE, "1")
    monkeypatch.setattr(runs, "MIN_IN_VIEW", 16)
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 500)
    view.show()
    qtbot.waitExposed(view)
    return view


def gl_canvas(qtbot: QtBot, view: TimelineView) -> GlCanvas:
    view.choose_renderer("opengl")
    qtbot.waitUntil(lambda: "OpenGL " in view.renderer_text())
    canvas = view._canvas
    assert isinstance(canvas, GlCanvas)
    return canvas


def settled(qtbot: QtBot, canvas: GlCanvas) -> np.ndarray:
    """Return the picture when all rows that it shows lie on the card."""

    def is_settled() -> bool:
        canvas.repaint()
        store = canvas._painter.store
        return store is not None and store.n_bytes > 0 and not store.has_work

    qtbot.waitUntil(is_settled)
    return pixels(canvas.grabFramebuffer())


def pixels(image: QImage) -> np.ndarray:
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    data = np.frombuffer(image.constBits(), np.uint8)
    shape = (image.height(), image.bytesPerLine() // 4, 4)
    return data.reshape(shape)[:, : image.width(), :3].astype(int)


def by_processor(canvas: GlCanvas) -> np.ndarray:
    """Return the picture that the same canvas draws when the search is off."""
    canvas.makeCurrent()
    canvas._painter.stop_search()
    canvas.doneCurrent()
    return pixels(canvas.grabFramebuffer())


@pytest.mark.parametrize("share", [1, 4])
def test_picture_of_the_shader_search_is_that_of_the_processor(
    qtbot: QtBot, view: TimelineView, session: Session, share: int
) -> None:
    canvas = gl_canvas(qtbot, view)
    extent = session.trace.extent  # type: ignore[union-attr]
    session.set_visible(
        TimeRange(extent.start, extent.start + extent.duration // share)
    )

    searched = settled(qtbot, canvas)
    expected = by_processor(canvas)

    assert len(np.unique(searched.reshape(-1, 3), axis=0)) > 20
    assert np.abs(searched - expected).max() <= 1


def test_filtered_picture_of_the_shader_search_is_that_of_the_processor(
    qtbot: QtBot, view: TimelineView, session: Session
) -> None:
    canvas = gl_canvas(qtbot, view)
    with qtbot.waitSignal(session.queries.mask_changed):
        session.set_filter(Filter(ops=frozenset({"MUL_MAT"})))
    qtbot.waitUntil(lambda: view.prepared().mask is not None)  # type: ignore[union-attr]

    searched = settled(qtbot, canvas)

    assert np.abs(searched - by_processor(canvas)).max() <= 1


def test_renderer_text_tells_where_the_search_is(
    qtbot: QtBot, view: TimelineView
) -> None:
    told: list[str] = []
    view.renderer_changed.connect(told.append)

    canvas = gl_canvas(qtbot, view)
    qtbot.waitUntil(lambda: bool(told) and "search on GPU" in told[-1])

    canvas.makeCurrent()
    canvas._painter.stop_search()
    canvas.doneCurrent()
    assert_sides("* · search on GPU", told[-1], view.renderer_text())


def test_rows_are_sent_again_after_the_context_was_destroyed(
    qtbot: QtBot, view: TimelineView
) -> None:
    canvas = gl_canvas(qtbot, view)
    before = settled(qtbot, canvas)
    store = canvas._painter.store

    window = QMainWindow()
    qtbot.addWidget(window)
    window.resize(1000, 500)
    window.setCentralWidget(view)
    window.show()
    qtbot.waitExposed(window)
    after = settled(qtbot, canvas)

    assert canvas._painter.store is not store
    assert "search on GPU" in view.renderer_text()
    if before.shape == after.shape:
        assert np.abs(after - before).max() <= 1
    window.takeCentralWidget()
    view.setParent(None)


def test_driver_that_fails_the_self_check_only_draws(
    qtbot: QtBot, view: TimelineView, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = GpuSearch.read_back
    monkeypatch.setattr(GpuSearch, "read_back", lambda self: honest(self) ^ 1)

    with qtbot.waitSignal(view.renderer_failed) as failed:
        canvas = gl_canvas(qtbot, view)

    assert "other columns" in failed.args[0]
    assert canvas.holder() is None
    assert isinstance(view._canvas, GlCanvas)
    assert "search on GPU" not in view.renderer_text()
    assert len(np.unique(pixels(canvas.grabFramebuffer()).reshape(-1, 3), axis=0)) > 20


def test_search_that_fails_in_mid_frame_is_given_up(
    qtbot: QtBot, view: TimelineView, monkeypatch: pytest.MonkeyPatch
) -> None:
    canvas = gl_canvas(qtbot, view)
    before = settled(qtbot, canvas)

    def broken(self: object, batches: object) -> None:
        raise GlError("no such texture")

    monkeypatch.setattr(GpuSearch, "draw", broken)
    with qtbot.waitSignal(view.renderer_failed) as failed:
        canvas.repaint()
    after = pixels(canvas.grabFramebuffer())

    assert "no such texture" in failed.args[0]
    assert view._canvas is canvas
    assert canvas.holder() is None
    assert np.abs(after - before).max() <= 1


def test_small_budget_leaves_rows_to_the_processor(
    qtbot: QtBot, view: TimelineView
) -> None:
    canvas = gl_canvas(qtbot, view)
    canvas.makeCurrent()
    canvas._painter.stop_search()
    canvas._painter.start_search(1 << 16)
    canvas.doneCurrent()

    canvas.repaint()
    picture = pixels(canvas.grabFramebuffer())

    store = canvas._painter.store
    assert store is not None
    assert store.n_bytes <= 1 << 16
    assert np.abs(picture - by_processor(canvas)).max() <= 1


@pytest.mark.parametrize(
    ("wish", "renderer", "expected"),
    [
        ("", "llvmpipe (LLVM 15.0.7, 256 bits)", False),
        ("", "NVIDIA GeForce RTX 4090/PCIe/SSE2", True),
        ("1", "llvmpipe (LLVM 15.0.7, 256 bits)", True),
        ("0", "NVIDIA GeForce RTX 4090/PCIe/SSE2", False),
        ("perhaps", "softpipe", False),
    ],
)
def test_search_is_chosen_by_renderer_and_variable(
    monkeypatch: pytest.MonkeyPatch, wish: str, renderer: str, *, expected: bool
) -> None:
    monkeypatch.setenv(SEARCH_VARIABLE, wish)

    assert wants_search(renderer) is expected
