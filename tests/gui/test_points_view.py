"""The 3D view with real events."""

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from builders import empty_trace, llama_like_trace
from ggscope.model.selection import Filter, MarkedRange
from ggscope.model.units import TimeRange
from ggscope.render.points import HOME
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.points.head import STEPS
from ggscope.views.points.view import PointsView
from heat_traces import moe_trace
from panes import LEFT, NONE, settle_view

SHIFT = Qt.KeyboardModifier.ShiftModifier
CONTROL = Qt.KeyboardModifier.ControlModifier
Key = Qt.Key


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(moe_trace())
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> PointsView:
    view = PointsView(session, theme("dark"))
    qtbot.addWidget(view)
    qtbot.addWidget(view.head)
    view.resize(900, 600)
    view.show()
    qtbot.waitExposed(view)
    settle_view(qtbot, view)
    assert view.placed is not None
    return view


def place(view: PointsView, point: int) -> QPoint:
    x, y = view.geometry_now().project(view.placed.xyz[point])[0]
    return QPoint(int(x), int(y))


def layer_place(view: PointsView, row: int) -> QPoint:
    x0, x1, y0, y1 = view.geometry_now().layer_box(row)
    return QPoint(round((x0 + x1) / 2), round((y0 + y1) / 2))


def some_point(view: PointsView) -> int:
    """Return a point that lies on top where it is drawn."""
    for point in range(len(view.placed.points)):
        if view.point_under(QPointF(place(view, point))) == point:
            return point
    raise AssertionError("no point can be seen")


def test_click_selects_the_op_of_a_point_and_nothing_beside(
    view: PointsView, session: Session, qtbot: QtBot
) -> None:
    point = some_point(view)
    span = int(view.placed.points.span[point])

    QTest.mouseClick(view.canvas, LEFT, NONE, place(view, point))
    settle_view(qtbot, view)

    assert session.selection.current.table == "spans"
    assert session.selection.current.ids == (span,)
    highlighted = view.scene_now().is_highlighted
    assert highlighted[point]
    assert (view.placed.points.span[highlighted] == span).all()
    QTest.mouseClick(view.canvas, LEFT, NONE, QPoint(3, 590))
    settle_view(qtbot, view)
    assert not session.selection.current
    assert view.scene_now().is_highlighted is None


def test_what_is_selected_elsewhere_is_highlighted(
    view: PointsView, session: Session, qtbot: QtBot
) -> None:
    points = view.placed.points
    tensor = int(points.tensor[10])

    session.selection.select_tensor(tensor)
    settle_view(qtbot, view)

    highlighted = view.scene_now().is_highlighted
    assert highlighted.any()
    assert set(points.tensor[highlighted].tolist()) == {tensor} or (
        np.isin(points.span[highlighted], session.linking.linked.spans).all()
    )


def test_click_on_a_layer_selects_its_ops(
    view: PointsView, session: Session, qtbot: QtBot
) -> None:
    QTest.mouseClick(view.canvas, LEFT, NONE, layer_place(view, 2))
    settle_view(qtbot, view)

    layer = int(view.layers.activity.layer[2])
    group = session.selection.current.group
    assert (group.by, group.key) == ("layer", str(layer))
    spans = session.linking.linked.spans
    assert set(session.trace.spans.layer[spans].tolist()) == {layer}
    assert view.scene_now().layer == layer
    highlighted = view.scene_now().is_highlighted
    assert highlighted.tolist() == (view.placed.points.layer == layer).tolist()
    assert f"layer {layer}" in view.accessibleDescription()
    QTest.keyClick(view, Key.Key_PageUp)
    assert view.selected_layer == layer + 1
    QTest.keyClick(view, Key.Key_PageDown)
    assert view.selected_layer == layer


def test_layers_are_those_of_the_token_or_of_the_marked_range(
    view: PointsView, session: Session, qtbot: QtBot
) -> None:
    trace = session.trace
    whole = view.layers.activity.ticks.tolist()
    token = int(trace.spans.token[-1])
    of_token = np.flatnonzero(trace.spans.token == token)
    session.selection.select_span(int(of_token[0]))
    settle_view(qtbot, view)

    assert view.layers.of == f"token {token}"
    assert sum(view.layers.activity.ticks.tolist()) < sum(whole)
    session.ranges.set_marked(MarkedRange(TimeRange(0, 5)))
    settle_view(qtbot, view)
    assert view.layers.of == "marked range"
    session.ranges.set_marked(None)
    settle_view(qtbot, view)
    assert view.layers.of == f"token {token}"


def test_layers_are_not_added_up_again_for_another_op_of_the_token(
    view: PointsView, session: Session, qtbot: QtBot
) -> None:
    tensors = view.placed.points.tensor
    before = view.layers
    session.selection.select_tensor(int(tensors[0]))
    settle_view(qtbot, view)

    assert view.layers is before
    session.queries.set_filter(Filter(layers=frozenset({1})))
    settle_view(qtbot, view)
    assert view.layers is not before
    assert np.count_nonzero(view.layers.activity.ticks) == 1


def test_drag_turns_and_shift_drag_moves_and_backspace_undoes(
    view: PointsView,
) -> None:
    def drag(modifier: Qt.KeyboardModifier) -> None:
        start = QPoint(300, 300)
        QTest.mousePress(view.canvas, LEFT, modifier, start)
        for step in range(1, 6):
            QTest.mouseMove(view.canvas, start + QPoint(20 * step, 8 * step))
        QTest.mouseRelease(view.canvas, LEFT, modifier, start + QPoint(100, 40))

    drag(NONE)
    turned = view.camera
    drag(SHIFT)
    moved = view.camera

    assert turned.azimuth != HOME.azimuth
    assert turned.elevation > HOME.elevation
    assert turned.centre == HOME.centre
    assert moved.centre != HOME.centre
    assert moved.azimuth == turned.azimuth
    QTest.keyClick(view, Key.Key_Backspace)
    assert view.camera == turned
    QTest.keyClick(view, Key.Key_F)
    assert view.camera == HOME
    QTest.keyClick(view, Key.Key_Backspace)
    assert view.camera == turned
    QTest.keyClick(view, Key.Key_Backspace)
    assert view.camera == HOME
    assert not view.can_undo_camera


def test_wheel_and_keys_zoom_and_turns_in_a_row_are_undone_together(
    view: PointsView,
) -> None:
    for _ in range(3):
        at = QPointF(300, 300)
        event = QWheelEvent(
            at, view.canvas.mapToGlobal(at), QPoint(), QPoint(0, 120),
            Qt.MouseButton.NoButton, NONE, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(view.canvas, event)

    assert view.camera.distance < HOME.distance
    view.undo_camera()
    assert view.camera == HOME
    QTest.keyClick(view, Key.Key_W)
    assert view.camera.distance < HOME.distance
    QTest.keyClick(view, Key.Key_Left)
    QTest.keyClick(view, Key.Key_Up, SHIFT)
    assert view.camera.azimuth != HOME.azimuth
    assert view.camera.centre != HOME.centre


def test_double_click_looks_closer_at_a_point(view: PointsView) -> None:
    point = some_point(view)
    at = place(view, point)

    QTest.mouseDClick(view.canvas, LEFT, NONE, at)

    assert view.camera.distance == pytest.approx(HOME.distance / 2)
    x, y = view.geometry_now().project(view.placed.xyz[point])[0]
    geometry = view.geometry_now()
    assert x == pytest.approx(geometry.box_width / 2, abs=1)
    assert y == pytest.approx(view.canvas.height() / 2, abs=1)
    QTest.mouseDClick(view.canvas, LEFT, NONE, QPoint(3, 590))
    assert view.camera == HOME


def test_replay_plays_pauses_steps_and_ends(view: PointsView, qtbot: QtBot) -> None:
    points = view.placed.points
    assert view.session.replay.tick is None
    assert not view.session.replay.is_playing

    QTest.keyClick(view, Key.Key_Space)
    assert view.session.replay.is_playing
    start = view.session.replay.tick
    qtbot.waitUntil(lambda: view.session.replay.tick > start)
    QTest.keyClick(view, Key.Key_Space)
    assert not view.session.replay.is_playing
    assert view.scene_now().n_shown < len(points)

    view.head.slider.setValue(0)
    assert view.session.replay.tick == points.extent.start
    QTest.keyClick(view, Key.Key_Period)
    tokens = session_tokens(view)
    assert view.session.replay.tick == tokens[1]
    QTest.keyClick(view, Key.Key_Period)
    assert view.session.replay.tick == tokens[2]
    QTest.keyClick(view, Key.Key_Comma)
    assert view.session.replay.tick == tokens[1]
    share = (tokens[1] - points.extent.start) / points.extent.duration
    assert view.head.slider.value() == pytest.approx(share * STEPS, abs=1)
    QTest.keyClick(view, Key.Key_Escape)
    assert view.session.replay.tick is None
    assert view.scene_now().n_shown == len(points)


def session_tokens(view: PointsView) -> list[int]:
    """Return when the first point of each token is."""
    points, token = view.placed.points, view.session.trace.spans.token
    first: dict[int, int] = {}
    for time, span in zip(points.time.tolist(), points.span.tolist(), strict=True):
        first.setdefault(int(token[span]), time)
    return sorted(first.values())


def test_replay_ends_at_the_end_and_begins_anew(view: PointsView) -> None:
    extent = view.placed.points.extent
    view.head.slider.setValue(STEPS - 1)
    view.step_replay(1)
    view.step_replay(1)

    assert view.session.replay.tick == extent.end
    view.session.replay.toggle()
    assert view.session.replay.tick == extent.start


def test_arrows_walk_through_points_in_time(view: PointsView, session: Session) -> None:
    points = view.placed.points

    QTest.keyClick(view, Key.Key_Right, CONTROL)
    first = session.selection.current.ids
    QTest.keyClick(view, Key.Key_Right, CONTROL)

    assert first == (int(points.span[0]),)
    after = np.flatnonzero(points.span == first[0])[-1] + 1
    assert session.selection.current.ids == (int(points.span[after]),)
    QTest.keyClick(view, Key.Key_Left, CONTROL)
    assert session.selection.current.ids == first


def test_filter_and_colouring_of_the_session_apply(
    view: PointsView, session: Session, qtbot: QtBot
) -> None:
    n, before = len(view.placed.points), view.scene_now().colors

    session.queries.set_filter(Filter(layers=frozenset({1})))
    settle_view(qtbot, view)
    assert 0 < len(view.placed.points) < n
    assert set(view.placed.points.layer.tolist()) <= {1}
    session.queries.set_filter(Filter())
    session.display.set_color_by("layer")
    settle_view(qtbot, view)

    colors = view.scene_now().colors
    assert len(view.placed.points) == n
    assert colors.tolist() != before.tolist()
    layer = view.placed.points.layer
    of_layer = {number: set(colors[layer == number].tolist()) for number in range(4)}
    assert all(len(hues) == 1 for hues in of_layer.values())
    assert len(set.union(*of_layer.values())) == 4


def test_tooltip_names_tensor_op_and_time(view: PointsView, session: Session) -> None:
    point = some_point(view)
    at, trace = place(view, point), session.trace
    points = view.placed.points

    tooltip = view.tooltip_at(at.x(), at.y())

    assert trace.strings[int(trace.tensors.name[points.tensor[point]])] in tooltip
    assert trace.span_name(int(points.span[point])) in tooltip
    assert "from the start" in tooltip
    row = layer_place(view, 1)
    assert "layer 1" in view.tooltip_at(row.x(), row.y())
    assert view.tooltip_at(3, 590) == ""


def test_menu_acts_on_the_point(
    view: PointsView, session: Session, qtbot: QtBot
) -> None:
    point = some_point(view)
    at = place(view, point)
    entries = {a.text(): a for a in view.menu_at(at.x(), at.y()).actions()}

    entries["Show only its tensor"].trigger()
    settle_view(qtbot, view)

    tensor = int(view.placed.points.tensor[0])
    assert set(view.placed.points.tensor.tolist()) == {tensor}
    entries["Play replay"].trigger()
    assert view.session.replay.is_playing
    view.session.replay.end()


@pytest.mark.parametrize("trace", [empty_trace, llama_like_trace])
def test_trace_without_points_says_what_it_lacks(
    view: PointsView, session: Session, qtbot: QtBot, trace
) -> None:
    session.set_trace(trace())
    settle_view(qtbot, view)

    title, hint = view.placeholder_text()
    assert view.scene_now() is None or len(view.placed.points)
    if view.scene_now() is None:
        assert title
        assert "Add" in hint
        assert not view.head.play.isEnabled()
        assert view.figure() is None
        for key in (
            Key.Key_Space,
            Key.Key_Period,
            Key.Key_Home,
            Key.Key_PageUp,
        ):
            QTest.keyClick(view, key)
        assert view.session.replay.tick is None


def test_without_opengl_the_cpu_draws_and_the_head_says_so(
    view: PointsView, qtbot: QtBot
) -> None:
    assert "CPU" in view.head.note.text()

    view.canvas_failed("no OpenGL 3.3 context can be made")
    settle_view(qtbot, view)

    assert view.renderer_text() == "raster"
    assert "No OpenGL" in view.head.note.text()
    assert view.scene_now() is not None
    image = view.canvas.grab().toImage()
    hues = {
        image.pixelColor(x, y).rgb()
        for x in range(0, image.width(), 3)
        for y in range(0, image.height(), 3)
    }
    assert len(hues) > 5
