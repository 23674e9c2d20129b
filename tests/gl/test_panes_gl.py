"""The file heatmap and the graph on OpenGL: the same pictures as by the raster."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ggscope.gui.panes.workspace import Workspace
from ggscope.model.selection import Selection
from ggscope.render.points import HOME
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.views.base.canvas import GlCanvas, PaintedView, RasterCanvas
from ggscope.views.base.view import View
from ggscope.views.graph.view import GraphView
from ggscope.views.heatmap.view import HeatmapView
from ggscope.views.points.view import PointsView
from graph_traces import network_trace
from heat_traces import moe_trace

pytestmark = pytest.mark.gl

Shown = Callable[..., PaintedView]


@pytest.fixture
def shown(qapp: QApplication, qtbot: QtBot) -> Iterator[Shown]:
    """Return a function that shows a view of a trace and waits for its picture."""
    if QGuiApplication.platformName() == "offscreen":
        pytest.skip("OpenGL tests need an X display; run them under xvfb-run")
    made: list[tuple[PaintedView, Session]] = []

    def show(kind: type[View], trace: object, theme_name: str = "dark") -> PaintedView:
        session = Session()
        session.set_trace(trace)
        view = kind(session, theme(theme_name))
        assert isinstance(view, PaintedView)
        made.append((view, session))
        qtbot.addWidget(view)
        view.resize(900, 420)
        view.show()
        qtbot.waitExposed(view)
        qtbot.waitUntil(
            lambda: session.tasks.is_idle and _has_picture(view), timeout=30_000
        )
        session.selection.select(Selection("tensors", (3,)))
        qtbot.waitUntil(
            lambda: session.linking.linked.selection == session.selection.current
        )
        # What is selected is looked for on a worker: two pictures would differ in it.
        qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=30_000)
        return view

    yield show
    for view, session in made:
        view.release()
        session.close()


def _has_picture(view: PaintedView) -> bool:
    return view.compose(900.0, 420.0, 1.0) is not None


def on_gl(qtbot: QtBot, view: PaintedView) -> GlCanvas:
    view.choose_renderer("opengl")
    # The 3D view imports pyqtgraph first.
    qtbot.waitUntil(lambda: "OpenGL " in view.renderer_text(), timeout=30_000)
    canvas = view.canvas
    assert isinstance(canvas, GlCanvas)
    return canvas


def pixels(image: QImage) -> np.ndarray:
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    data = np.frombuffer(image.constBits(), np.uint8)
    shape = (image.height(), image.bytesPerLine() // 4, 4)
    return data.reshape(shape)[:, : image.width(), :3].astype(int)


def by_raster(qtbot: QtBot, view: PaintedView) -> np.ndarray:
    view.choose_renderer("raster")
    assert isinstance(view.canvas, RasterCanvas)
    QApplication.processEvents()
    return pixels(view.canvas.grab().toImage())


def by_gl(qtbot: QtBot, view: PaintedView) -> np.ndarray:
    return pixels(on_gl(qtbot, view).grabFramebuffer())


def share_of_difference(one: np.ndarray, other: np.ndarray) -> float:
    """Return the share of pixels that differ by more than rounding."""
    assert one.shape == other.shape
    return float((np.abs(one - other).max(axis=2) > 40).mean())


@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_heatmap_on_opengl_is_that_of_the_raster(
    shown: Shown, qtbot: QtBot, theme_name: str
) -> None:
    view = shown(HeatmapView, moe_trace(), theme_name)

    raster, gl = by_raster(qtbot, view), by_gl(qtbot, view)

    assert len(np.unique(gl.reshape(-1, 3), axis=0)) > 50
    assert share_of_difference(raster, gl) < 0.02


def test_zoomed_heatmap_on_opengl_is_that_of_the_raster(
    shown: Shown, qtbot: QtBot
) -> None:
    view = shown(HeatmapView, moe_trace())
    assert isinstance(view, HeatmapView)
    view.fit_unit(5)
    view.zoom_x(0.13)

    assert share_of_difference(by_raster(qtbot, view), by_gl(qtbot, view)) < 0.02


class GraphOnGl(GraphView):
    """The graph as it would be on OpenGL; by itself it draws by the raster."""

    uses_gl = True


@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_graph_on_opengl_is_that_of_the_raster(
    shown: Shown, qtbot: QtBot, theme_name: str
) -> None:
    view = shown(GraphOnGl, network_trace(6, 2), theme_name)
    assert isinstance(view, GraphView)
    view.open_all(True)
    qtbot.waitUntil(lambda: view.session.tasks.is_idle)
    view.zoom_by(1.4, 300, 100)

    raster, gl = by_raster(qtbot, view), by_gl(qtbot, view)

    assert len(np.unique(gl.reshape(-1, 3), axis=0)) > 20
    assert share_of_difference(raster, gl) < 0.02


@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_points_on_opengl_are_those_of_the_cpu(
    shown: Shown, qtbot: QtBot, theme_name: str
) -> None:
    view = shown(PointsView, moe_trace(), theme_name)
    assert isinstance(view, PointsView)
    view.session.selection.select(Selection())
    qtbot.waitUntil(lambda: view.session.tasks.is_idle)
    for change in (
        lambda: None,
        lambda: view.set_camera(HOME.orbited(75.0, -60.0).zoomed(0.6)),
        lambda: view.step_replay(-1),
        lambda: view.select_layer(2),
    ):
        change()
        qtbot.waitUntil(lambda: view.session.tasks.is_idle)

        raster, gl = by_raster(qtbot, view), by_gl(qtbot, view)

        assert "CPU" not in view.head.note.text()
        assert len(np.unique(gl.reshape(-1, 3), axis=0)) > 20
        assert share_of_difference(raster, gl) < 0.01


def test_points_of_a_million_reads_are_drawn_by_opengl(
    shown: Shown, qtbot: QtBot
) -> None:
    view = shown(PointsView, moe_trace(tokens=4000, layers=20))
    assert isinstance(view, PointsView)
    assert len(view.placed.points) > 300_000

    assert share_of_difference(by_raster(qtbot, view), by_gl(qtbot, view)) < 0.02


def test_points_draw_on_in_another_window_and_in_two_at_once(
    shown: Shown, qtbot: QtBot
) -> None:
    view, second = (shown(PointsView, moe_trace()) for _ in range(2))
    before = by_gl(qtbot, view)
    size = view.size()
    other = QWidget()
    qtbot.addWidget(other)
    other.resize(1000, 500)
    other.show()
    qtbot.waitExposed(other)

    view.setParent(other)
    view.resize(size)
    view.show()
    qtbot.waitUntil(lambda: view.isVisible())
    QApplication.processEvents()
    moved = by_gl(qtbot, view)
    there = by_gl(qtbot, second)

    assert (moved == before).all()
    assert share_of_difference(there, before) < 0.001
    view.setParent(None)


def test_canvas_that_cannot_draw_falls_back_for_good(
    shown: Shown, qtbot: QtBot
) -> None:
    view = shown(HeatmapView, moe_trace())
    on_gl(qtbot, view)

    view.canvas_failed("the driver gave up")
    qtbot.waitUntil(lambda: isinstance(view.canvas, RasterCanvas))
    view.hide()
    view.show()
    QApplication.processEvents()

    assert isinstance(view.canvas, RasterCanvas)


@pytest.fixture
def settings() -> Settings:
    made = Settings(MemoryStore())
    made.change("drawing", renderer="opengl")
    made.change("layout", name="grid")
    return made


@pytest.fixture
def workspace(
    qapp: QApplication, qtbot: QtBot, settings: Settings
) -> Iterator[Workspace]:
    if QGuiApplication.platformName() == "offscreen":
        pytest.skip("OpenGL tests need an X display; run them under xvfb-run")
    session = Session()
    session.set_trace(moe_trace())
    made = Workspace(session, settings, theme("dark"))
    qtbot.addWidget(made)
    made.resize(1300, 900)
    made.show()
    qtbot.waitExposed(made)
    made.filler.finish()
    yield made
    made.release()
    session.close()


def heatmap_of(workspace: Workspace, qtbot: QtBot) -> HeatmapView:
    (view,) = workspace.views("heatmap")
    assert isinstance(view, HeatmapView)
    qtbot.waitUntil(lambda: view.base is not None and "OpenGL " in view.renderer_text())
    return view


def frame(view: HeatmapView) -> np.ndarray:
    canvas = view.canvas
    assert isinstance(canvas, GlCanvas)
    return pixels(canvas.grabFramebuffer())


def test_setting_decides_what_draws_the_heatmap(
    workspace: Workspace, settings: Settings, qtbot: QtBot
) -> None:
    view = heatmap_of(workspace, qtbot)

    settings.change("drawing", renderer="raster")

    assert isinstance(view.canvas, RasterCanvas)
    assert view.canvas.isVisible()


def test_heatmap_draws_on_in_another_cell_and_after_full_screen(
    workspace: Workspace, qtbot: QtBot
) -> None:
    view = heatmap_of(workspace, qtbot)
    before = frame(view)
    cell = next(c for c in workspace.cells if c.entry.id == "heatmap")

    workspace.swap_cells(cell, workspace.cells[0])
    QApplication.processEvents()
    workspace.fill_with(cell)
    QApplication.processEvents()
    workspace.leave_full_screen()
    workspace.set_layout_name("dual")
    workspace.set_layout_name("grid")
    view = heatmap_of(workspace, qtbot)
    QApplication.processEvents()

    after = frame(view)
    assert len(np.unique(after.reshape(-1, 3), axis=0)) > 50
    if after.shape == before.shape:
        assert share_of_difference(before, after) < 0.02


def test_heatmap_made_anew_draws_again(workspace: Workspace, qtbot: QtBot) -> None:
    heatmap_of(workspace, qtbot)

    workspace.rebuild_views()
    QApplication.processEvents()

    after = frame(heatmap_of(workspace, qtbot))
    assert len(np.unique(after.reshape(-1, 3), axis=0)) > 50


def test_canvas_moves_with_its_view_to_another_window(
    shown: Shown, qtbot: QtBot
) -> None:
    view = shown(HeatmapView, moe_trace())
    before = by_gl(qtbot, view)
    other = QWidget()
    qtbot.addWidget(other)
    other.resize(1000, 500)
    other.show()

    view.setParent(other)
    view.show()
    qtbot.waitUntil(lambda: "OpenGL " in view.renderer_text())
    QApplication.processEvents()
    view.resize(900, 420)
    QApplication.processEvents()

    after = by_gl(qtbot, view)
    assert share_of_difference(before, after) < 0.02
    view.setParent(None)
