"""A timeline on OpenGL that changes its place in the window, and its size of text."""

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.gui.panes.workspace import Workspace
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.views.base.canvas import GlCanvas
from ggscope.views.timeline.view import TimelineView

pytestmark = pytest.mark.gl


@pytest.fixture
def workspace(qapp: QApplication, qtbot: QtBot) -> Iterator[Workspace]:
    if QGuiApplication.platformName() == "offscreen":
        pytest.skip("OpenGL tests need an X display; run them under xvfb-run")
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=6, layers=4))
    made = Workspace(session, Settings(MemoryStore()), theme("dark"))
    qtbot.addWidget(made)
    made.resize(1200, 1600)  # every lane fits at each size of text: no scroll bar
    made.show()
    qtbot.waitExposed(made)
    yield made
    made.release()
    session.close()


def timeline(workspace: Workspace, qtbot: QtBot) -> TimelineView:
    view = workspace.views("timeline")[0]
    assert isinstance(view, TimelineView)
    view.choose_renderer("opengl")
    qtbot.waitUntil(lambda: "OpenGL " in view.renderer_text())
    return view


def frame(view: TimelineView) -> np.ndarray:
    canvas = view.canvas
    assert isinstance(canvas, GlCanvas)
    image = canvas.grabFramebuffer().convertToFormat(QImage.Format.Format_RGB32)
    data = np.frombuffer(image.constBits(), np.uint8)
    return data.reshape(image.height(), -1, 4)[:, : image.width(), :3].copy()


def test_swapped_timeline_draws_the_same_picture_again(
    workspace: Workspace, qtbot: QtBot
) -> None:
    view = timeline(workspace, qtbot)
    size = view.canvas.size()
    before = frame(view)

    workspace.swap_cells(*workspace.cells)
    qtbot.waitUntil(view.isVisible)
    QApplication.processEvents()

    assert workspace.views("timeline")[0] is view
    assert isinstance(view.canvas, GlCanvas)
    after = frame(view)
    assert len(np.unique(after.reshape(-1, 3), axis=0)) > 5
    if view.canvas.size() == size:
        assert np.array_equal(before, after)


def test_larger_text_fills_the_same_surface(workspace: Workspace, qtbot: QtBot) -> None:
    view = timeline(workspace, qtbot)
    before = frame(view)

    view.set_zoom(1.5)
    after = frame(view)

    assert after.shape == before.shape
    assert not np.array_equal(before, after)
    # The axis is half as high again: its lower line lies further down.
    line = theme("dark").line & 0xFFFFFF
    expected = [(line >> shift) & 255 for shift in (0, 8, 16)]
    lines = np.flatnonzero((after[:, 4] == expected).all(axis=1))
    assert round(26 * 1.5) - 1 in lines
