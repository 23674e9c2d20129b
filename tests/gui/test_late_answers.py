"""What a view asked for is not shown once the view, or the trace, is another."""

import threading
from pathlib import Path

import numpy as np
import pytest
import shiboken6
from PySide6.QtCore import QPoint
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.analysis.rows.lanes import FEW_LANES
from ggscope.readers.registry import open_trace
from ggscope.render.theme import theme
from ggscope.session import tasks
from ggscope.session.session import Session, TraceChange
from ggscope.views.registry import BUILTIN, ViewEntry

SAMPLES = Path(__file__).parents[2] / "resources" / "samples"
SAMPLE_NAMES = ("tinyllama-256.bin", "moe-experiment/trace-1024.bin")


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


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "hidden"])
@pytest.mark.parametrize("entry", BUILTIN, ids=lambda entry: entry.id)
def test_what_was_counted_is_not_shown_of_a_trace_with_fewer_tensors(
    entry: ViewEntry,
    is_seen: bool,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """As where a file is removed from a session: the answer for it is not there yet."""
    many, few = (open_trace(SAMPLES / name) for name in SAMPLE_NAMES)
    assert len(few.tensors) < len(many.tensors)
    session = Session()
    session.set_trace(many)
    view = entry.load()(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(900, 500)
    view.show()
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    QApplication.processEvents()
    gate, work = threading.Event(), tasks._work
    request.addfinalizer(gate.set)

    def work_later(*arguments: object) -> None:
        gate.wait()
        work(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(tasks, "_work", work_later)
    view.setVisible(is_seen)
    session.set_trace(few, TraceChange.EXTENDED)
    view.show()
    for switch in view.findChildren(QAbstractButton):
        if switch.isCheckable():
            switch.toggle()

    # Painting and pointing at rows that are no more raises, which fails the test.
    for y in range(10, view.height(), 15):
        QTest.mouseMove(view.childAt(200, y) or view, QPoint(200, 5))
        view.grab()
    gate.set()
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    view.grab()
    session.close()
