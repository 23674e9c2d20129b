"""The overview strip with real mouse events."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

import builders
from ggscope.model.units import TimeRange
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views import overview as overview_module
from ggscope.views.base.canvas import RasterCanvas
from ggscope.views.overview import OverviewView

LEFT, PLAIN = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
WIDTH = 1000


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=4, layers=4))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> OverviewView:
    view = OverviewView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(WIDTH, 58)
    view.show()
    qtbot.waitExposed(view)
    return view


def canvas(view: OverviewView) -> QWidget:
    return view.findChild(RasterCanvas)


def drag(view: OverviewView, x0: int, x1: int) -> None:
    target = canvas(view)
    QTest.mousePress(target, LEFT, PLAIN, QPoint(x0, 30))
    for x in ((x0 + x1) // 2, x1):
        event = QMouseEvent(
            QEvent.Type.MouseMove, QPointF(x, 30), target.mapToGlobal(QPointF(x, 30)),
            Qt.MouseButton.NoButton, LEFT, PLAIN,
        )  # fmt: skip
        QApplication.sendEvent(target, event)
    QTest.mouseRelease(target, LEFT, PLAIN, QPoint(x1, 30))


def share(session: Session, part: float) -> int:
    extent = session.trace.extent  # type: ignore[union-attr]
    return extent.start + round(part * extent.duration)


def near(session: Session, tick: int, part: float) -> bool:
    slack = session.trace.extent.duration / WIDTH * 3  # type: ignore[union-attr]
    return abs(tick - share(session, part)) <= slack


def test_drag_outside_the_frame_shows_a_new_range(
    view: OverviewView, session: Session
) -> None:
    drag(view, 200, 400)

    assert near(session, session.viewport.visible.start, 0.2)
    assert near(session, session.viewport.visible.end, 0.4)


def test_drag_inside_the_frame_pans(view: OverviewView, session: Session) -> None:
    session.viewport.set_visible(TimeRange(share(session, 0.2), share(session, 0.4)))
    duration = session.viewport.visible.duration

    drag(view, 300, 500)

    assert session.viewport.visible.duration == duration
    assert near(session, session.viewport.visible.start, 0.4)


@pytest.mark.parametrize(
    ("x0", "x1", "start", "end"), [(200, 100, 0.1, 0.4), (400, 600, 0.2, 0.6)]
)
def test_dragging_an_edge_resizes_the_frame(
    view: OverviewView, session: Session, x0: int, x1: int, start: float, end: float
) -> None:
    session.viewport.set_visible(TimeRange(share(session, 0.2), share(session, 0.4)))

    drag(view, x0, x1)

    assert near(session, session.viewport.visible.start, start)
    assert near(session, session.viewport.visible.end, end)


def test_click_centres_and_double_click_fits(
    view: OverviewView, session: Session
) -> None:
    whole = session.viewport.visible
    session.viewport.set_visible(TimeRange(share(session, 0.1), share(session, 0.2)))

    QTest.mouseClick(canvas(view), LEFT, PLAIN, QPoint(700, 30))
    middle = (session.viewport.visible.start + session.viewport.visible.end) // 2
    QTest.mouseDClick(canvas(view), LEFT, PLAIN, QPoint(500, 30))

    assert near(session, middle, 0.7)
    assert session.viewport.visible == whole


def test_wheel_zooms_at_the_cursor(view: OverviewView, session: Session) -> None:
    before = session.viewport.visible.duration
    event = QWheelEvent(
        QPointF(500, 30), QPointF(500, 30), QPoint(), QPoint(0, 240),
        Qt.MouseButton.NoButton, PLAIN, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip

    QApplication.sendEvent(canvas(view), event)

    assert session.viewport.visible.duration < before
    middle = (session.viewport.visible.start + session.viewport.visible.end) // 2
    assert near(session, middle, 0.5)


def test_large_trace_is_prepared_on_a_worker(
    qtbot: QtBot, view: OverviewView, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview_module, "SYNC_SPANS", 10)

    ran: list[str] = []
    session.tasks.task_changed.connect(lambda state: ran.append(state.key))

    session.set_trace(builders.random_trace(3, 5_000, lanes=3))
    waiting = view.picture(WIDTH, 58, 1.0)
    qtbot.waitUntil(lambda: any("overview" in key for key in ran))
    qtbot.waitUntil(lambda: session.tasks.is_idle)

    drawn = view.picture(WIDTH, 58, 1.0)
    assert drawn is not waiting
    assert drawn.batches


def test_strip_without_a_trace_is_empty(qtbot: QtBot) -> None:
    view = OverviewView(Session(), theme("dark"))
    qtbot.addWidget(view)

    assert view.picture(100, 58, 1.0).batches == ()
