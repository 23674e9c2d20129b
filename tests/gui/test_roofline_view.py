"""The roofline pane with real events."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.render.charts import ChartGeometry
from ggscope.render.roofline import chart_of_roofline, point_at, points_xy
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.roofline import RooflineView
from panes import LEFT, NONE, settle_view
from roofline_traces import random_roofline


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(random_roofline(5, threads=2))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> RooflineView:
    view = RooflineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1200, 400)
    view.show()
    qtbot.waitExposed(view)
    settle_view(qtbot, view)
    assert view.chart is not None
    return view


def place(view: RooflineView, point: int) -> QPoint:
    scene = view.scene_now()
    geometry = ChartGeometry(chart_of_roofline(scene))
    x, y = points_xy(scene)
    return QPoint(
        round(float(geometry.px(x[point]))), round(float(geometry.py(y[point])))
    )


def highlighted(session: Session) -> list[int]:
    group = session.selection.current.group
    return [] if group is None else list(group.ids)


def test_click_selects_the_ops_of_a_point_and_lights_their_spans(
    view: RooflineView, session: Session, qtbot: QtBot
) -> None:
    at = place(view, 2)
    scene = view.scene_now()
    point = point_at(scene, at.x(), at.y())  # another one may lie over it

    QTest.mouseClick(view.canvas, LEFT, NONE, at)

    expected = view.chart.spans_of(point).tolist()
    assert highlighted(session) == expected
    qtbot.waitUntil(lambda: session.linking.linked.n_spans == len(expected))
    assert view.table.selected_rows() == [point]
    assert view.scene_now().selected == point


def test_arrows_walk_through_points_by_intensity(
    view: RooflineView, session: Session
) -> None:
    view.setFocus()
    points = view.chart.points
    order = sorted(range(len(points)), key=lambda i: points[i].intensity)

    QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.scene_now().selected == order[0]
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.scene_now().selected == order[1]
    QTest.keyClick(view, Qt.Key.Key_End)
    assert view.scene_now().selected == order[-1]
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.scene_now().selected == order[-1]
    assert points[order[-1]].op in view.accessibleDescription()
    assert highlighted(session) == view.chart.spans_of(order[-1]).tolist()


def test_rows_are_points_then_what_is_left_out(
    view: RooflineView, session: Session
) -> None:
    chart = view.chart
    n = len(chart.points)
    assert view.model.rowCount() == n + len(chart.left_out)

    view.table.selectRow(1)
    assert highlighted(session) == chart.spans_of(1).tolist()
    before = session.selection.current
    view.table.selectRow(n)  # left out: there is nothing to light
    assert session.selection.current == before
    text = view.model.text(range(view.model.rowCount()), "tsv")
    assert all(x.op in text for x in chart.left_out)
    assert str(chart.points[0].ticks) in text
    view.table.setFocus()
    view.table.selectAll()
    QTest.keyClick(view.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert "MUL_MAT" in QGuiApplication.clipboard().text()


def test_tooltip_and_menu_are_of_the_point(
    view: RooflineView, session: Session
) -> None:
    at = place(view, 0)

    assert "FLOP/B" in view.tooltip_at(at.x(), at.y())
    assert view.tooltip_at(3, 3) == ""
    menu = view.menu_at(at.x(), at.y())
    menu.actions()[0].trigger()
    assert highlighted(session)
    assert view.menu_at(3, 3) is None


def test_without_roofs_the_pane_says_how_to_get_them(view: RooflineView) -> None:
    assert "no roofs" in view.controls.message.full_text


def test_trace_without_shapes_says_what_it_lacks(
    view: RooflineView, session: Session, qtbot: QtBot
) -> None:
    session.set_trace(llama_like_trace())
    settle_view(qtbot, view)

    assert view.scene_now() is None
    title, hint = view.placeholder_text()
    assert "shapes" in title
    assert "GGUF" in hint
    assert view.figure() is None
