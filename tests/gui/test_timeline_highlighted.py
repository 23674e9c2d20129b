"""Spans of what is selected elsewhere are highlighted on the timeline."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.model.selection import Selection
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.timeline.view import TimelineView


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=2, layers=2, threads=1))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> Iterator[TimelineView]:
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 500)
    view.show()
    qtbot.waitExposed(view)
    yield view
    view.release()


def highlighted(view: TimelineView) -> list[int]:
    scene = view.scene(1000, 500, 1.0)
    assert scene is not None
    return [] if scene.highlighted is None else scene.highlighted.ids.tolist()


def test_tensor_lights_its_spans_and_a_span_lights_none(
    view: TimelineView, session: Session
) -> None:
    session.selection.select_tensor(1)
    assert highlighted(view) == session.linking.linked.spans.tolist() != []

    session.selection.select_span(1)
    assert highlighted(view) == []


def test_view_that_comes_later_lights_them_too(qtbot: QtBot, session: Session) -> None:
    session.selection.select_tensor(1)
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)

    assert highlighted(view) == session.linking.linked.spans.tolist()
    view.release()


def test_step_frames_the_span_that_is_looked_at(
    view: TimelineView, session: Session
) -> None:
    session.selection.select_tensor(1)

    session.navigator.step_span(1)

    scene = view.scene(1000, 500, 1.0)
    assert scene is not None
    assert scene.highlighted is not None
    assert scene.highlighted.looked_at == session.linking.current_span


def test_click_on_a_highlighted_span_selects_it_and_ends_the_light(
    view: TimelineView, session: Session
) -> None:
    session.selection.select_tensor(1)
    span = int(session.linking.linked.spans[0])
    session.selection.select_span(span)
    session.navigator.fit_selection()
    session.selection.select_tensor(1)

    prepared = view.prepared()
    assert prepared is not None
    key, _ = prepared.index.row_of_span(span)
    box = prepared.layout.box_of(key)
    assert box is not None
    x = int(view.header_width() + view.lane_area_width() / 2)
    place = view.canvas.rect().topLeft()
    place.setX(x)
    place.setY(int(box.y + box.height / 2 + 26))
    QTest.mouseClick(view.canvas, Qt.MouseButton.LeftButton, pos=place)

    assert session.selection.current == Selection("spans", (span,))
    assert highlighted(view) == []
