"""What a view asked for does not come back once the view is gone."""

import threading

import numpy as np
import pytest
import shiboken6
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.analysis.rows.lanes import FEW_LANES
from ggscope.render.theme import theme
from ggscope.session import tasks
from ggscope.session.session import Session
from ggscope.views.registry import BUILTIN, ViewEntry


@pytest.mark.parametrize("entry", BUILTIN, ids=lambda entry: entry.id)
def test_nothing_comes_back_to_a_view_that_is_gone(
    entry: ViewEntry,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """The session stays, as where another view is chosen for a pane."""
    gate, work = threading.Event(), tasks._work
    request.addfinalizer(gate.set)

    def work_later(*arguments: object) -> None:
        gate.wait()
        work(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(tasks, "_work", work_later)
    lane = np.arange(2 * FEW_LANES)  # so many that a worker prepares them
    session = Session()
    session.set_trace(builders.spans_trace(lane, lane + 5, lane, op=3))
    view = entry.load()(session, theme("dark"))
    view.resize(640, 400)
    view.show()
    QApplication.processEvents()

    view.release()
    view.hide()
    shiboken6.delete(view)

    gate.set()
    # A slot that finds its widgets deleted raises, which fails the test.
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    session.close()
