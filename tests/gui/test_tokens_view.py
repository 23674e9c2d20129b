"""Token latency with real events."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from builders import npu_like_trace
from ggscope.model.trace import RUNNING, Trace
from ggscope.model.units import TimeRange
from ggscope.render.charts import ChartGeometry
from ggscope.render.theme import theme
from ggscope.render.tokens import chart_of_tokens, full_window
from ggscope.session.session import Session, TraceChange
from ggscope.views.tokens import TokensView
from latency_traces import generation, mixed_tokens
from panes import LEFT, NONE, settle_view


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(generation(60))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> TokensView:
    view = TokensView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 320)
    view.show()
    qtbot.waitExposed(view)
    settle_view(qtbot, view)
    assert view.latency is not None
    return view


def place(view: TokensView, row: int) -> QPoint:
    """Return a place on the bar (or the dot) of a row."""
    scene = view.scene_now()
    geometry = ChartGeometry(chart_of_tokens(scene))
    if scene.over == "context":
        x = float(geometry.px(float(scene.latency.position[row])))
        y = float(geometry.py(float(scene.latency.bars.duration[row])))
        return QPoint(round(x), round(y))
    return QPoint(round(float(geometry.px(float(row)))), round(geometry.bottom) - 4)


def turn(view: TokensView, at: QPoint, delta: int) -> None:
    """Turn the wheel by so many eighths of a degree."""
    canvas = view.canvas
    event = QWheelEvent(
        QPointF(at), QPointF(canvas.mapToGlobal(at)), QPoint(), QPoint(0, delta),
        Qt.MouseButton.NoButton, NONE, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(canvas, event)


def choose(qtbot: QtBot, view: TokensView, box: str, value: str) -> None:
    choice = getattr(view, box)
    choice.setCurrentIndex(choice.findData(value))
    settle_view(qtbot, view)


def test_click_selects_the_span_and_fits_the_timeline(view, session, qtbot):
    bars = view.latency.bars

    QTest.mouseClick(view.canvas, LEFT, NONE, place(view, 12))

    span = int(bars.span[12])
    assert (session.selection.current.table, session.selection.current.ids) == (
        "spans",
        (span,),
    )
    shown, time = session.viewport.visible, bars.time(12)
    assert shown.start <= time.start
    assert time.end <= shown.end
    assert shown.duration < 2 * time.duration
    assert view.scene_now().selected == 12


def test_arrows_step_and_enter_goes_there(view, session):
    whole, span = session.viewport.visible, view.latency.bars.span
    view.setFocus()

    QTest.keyClick(view, Qt.Key.Key_Right)
    first = session.selection.current.ids
    QTest.keyClick(view, Qt.Key.Key_Right)
    second = session.selection.current.ids
    QTest.keyClick(view, Qt.Key.Key_End)
    last = session.selection.current.ids
    QTest.keyClick(view, Qt.Key.Key_Left)

    assert [first, second, last] == [(int(span[i]),) for i in (0, 1, 60)]
    assert session.selection.current.ids == (int(span[59]),)
    assert session.viewport.visible == whole, "only Enter goes there"
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert session.viewport.visible.duration < 2 * view.latency.bars.duration[59]


def test_step_brings_a_bar_into_the_window(view, session):
    view.set_window(-0.5, 9.5)
    session.selection.select_span(int(view.latency.bars.span[9]))

    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Right)

    low, high = view.window_now()
    assert high - low == pytest.approx(10)
    assert low <= 9.5
    assert high >= 10.5


def test_wheel_zooms_at_the_pointer_and_a_drag_pans(view, session, qtbot):
    visible = session.viewport.visible
    at = place(view, 40)

    turn(view, at, 480)
    low, high = view.window_now()

    assert high - low == pytest.approx(61 / 1.25**4)
    assert abs(place(view, 40).x() - at.x()) <= 1
    QTest.mousePress(view.canvas, LEFT, NONE, at)
    QTest.mouseMove(view.canvas, at + QPoint(30, 0))
    QTest.mouseMove(view.canvas, at + QPoint(60, 0))
    QTest.mouseRelease(view.canvas, LEFT, NONE, at + QPoint(60, 0))
    moved = view.window_now()
    assert moved[0] < low
    assert moved[1] - moved[0] == pytest.approx(high - low)
    assert abs(place(view, 40).x() - at.x() - 60) <= 1
    assert not session.selection.current, "a drag is no click"
    turn(view, at, -4800)
    assert view.window_range is None
    assert view.window_now() == full_window(view.scene_now())
    assert session.viewport.visible == visible, "no other pane follows"


def test_axis_follows_nothing(view, session):
    view.set_window(9.5, 29.5)

    session.viewport.set_visible(TimeRange(0, 5_000))
    session.selection.select_span(int(view.latency.bars.span[3]))

    assert view.window_now() == (9.5, 29.5)


def test_tooltip_says_name_time_phase_tokens_and_begin(view):
    bars = view.latency.bars
    slow = int(np.flatnonzero(view.latency.is_outlier)[0])
    at, of_slow = place(view, 0), place(view, slow)

    tooltip = view.tooltip_at(at.x(), at.y())

    assert "ubatch 0" in tooltip
    assert "9.000 µs" in tooltip
    assert "phase: prompt" in tooltip
    assert "tokens: 8" in tooltip
    assert f"begin: {int(bars.start[0])}" in tooltip
    assert "× the median" not in tooltip
    assert "× the median" in view.tooltip_at(of_slow.x(), of_slow.y())


def test_context_has_dots_to_click_and_its_slope(view, session, qtbot):
    choose(qtbot, view, "show_box", "generated")
    choose(qtbot, view, "over_box", "context")

    QTest.mouseClick(view.canvas, LEFT, NONE, place(view, 20))

    assert session.selection.current.ids == (int(view.latency.bars.span[20]),)
    slope = view.latency.fit.slope * 1000 / 1e6
    assert f"{slope:+.3g} ±" in view.controls.message.text()


def shown(qtbot: QtBot, view: TokensView, trace: Trace) -> TokensView:
    view.session.set_trace(trace)
    settle_view(qtbot, view)
    return view


def test_trace_without_positions_says_so(view, qtbot):
    shown(qtbot, view, npu_like_trace())
    assert view.scene_now() is not None

    choose(qtbot, view, "over_box", "context")

    assert view.scene_now() is None
    assert "positions" in view.placeholder_text()[0]
    assert "no slope" in view.controls.message.text()


def test_another_trace_begins_with_the_whole_axis(view, qtbot):
    view.set_window(9.5, 29.5)

    shown(qtbot, view, generation(20, 3))

    assert view.window_range is None
    assert len(view.latency.bars) == 21


def test_copied_rows_are_those_of_the_chosen_phase(view, qtbot):
    choose(qtbot, view, "show_box", "generated")

    view.copy_tsv()
    settle_view(qtbot, view)
    lines = QGuiApplication.clipboard().text().strip().split("\n")

    assert len(lines) == 61
    durations = [int(line.split("\t")[6]) for line in lines[1:]]
    assert durations == view.latency.bars.duration[1:].tolist()


def test_figure_is_that_of_the_command_for_what_is_shown(view):
    view.set_window(9.5, 29.5)

    recipe = view.recipe(view.session.trace, view.scene_now())

    assert recipe.options == {"window": [9.5, 29.5]}


def stack(qtbot: QtBot, view: TokensView) -> None:
    """Turn the switch of op families with its key."""
    view.stack_box.setFocus()
    QTest.keyClick(view.stack_box, Qt.Key.Key_Space)
    settle_view(qtbot, view)


def test_switch_stacks_bars_by_op_family_and_back(view, qtbot):
    shown(qtbot, view, mixed_tokens(15))
    assert view.scene_now().stack is None

    stack(qtbot, view)

    assert view.scene_now().stack.families == ("matmul", "elementwise")
    assert "mean shares: matmul" in view.controls.message.text()
    at, without = place(view, 0), place(view, 3)
    parts = view.tooltip_at(at.x(), at.y()).split("\n")
    # 300 of matmul, 600 of elementwise, 100 of which at once; 200 idle of 1,000.
    assert parts[-3:] == [
        "matmul: 250 ns, 25.0 %", "elementwise: 550 ns, 55.0 %",
        "no op runs: 200 ns, 20.0 %",
    ]  # fmt: skip
    assert "none of known time" in view.tooltip_at(without.x(), without.y())
    recipe = view.recipe(view.session.trace, view.scene_now())
    assert recipe.options == {"stack": "family"}
    stack(qtbot, view)
    assert view.scene_now().stack is None
    assert "mean shares" not in view.controls.message.text()


def test_stacks_stay_with_another_trace_but_not_over_the_context(view, qtbot):
    stack(qtbot, view)
    assert "no op of known time" in view.controls.message.text()

    shown(qtbot, view, mixed_tokens(9))
    assert len(view.scene_now().stack.idle) == 9
    shown(qtbot, view, generation(20))
    choose(qtbot, view, "over_box", "context")

    assert not view.stack_box.isEnabled()
    assert view.scene_now().stack is None
    assert view.recipe(view.session.trace, view.scene_now()).options == {
        "over": "context"
    }
    choose(qtbot, view, "over_box", "time")
    assert view.stack_box.isEnabled()
    assert view.scene_now().stack is not None


def test_copied_rows_of_stacked_bars_have_their_parts(view, qtbot):
    shown(qtbot, view, mixed_tokens(9))
    stack(qtbot, view)

    view.copy_tsv()
    settle_view(qtbot, view)
    lines = QGuiApplication.clipboard().text().strip("\n").split("\n")

    assert lines[0].split("\t")[-3:] == [
        "matmul (ns)", "elementwise (ns)", "no op runs (ns)",
    ]  # fmt: skip
    assert lines[1].split("\t")[-3:] == ["250", "550", "200"]
    assert lines[4].split("\t")[-3:] == ["", "", ""]


def test_bars_of_a_running_program_come_with_their_parts(view, qtbot):
    stack(qtbot, view)
    first, *more = (
        replace(mixed_tokens(n), pending=frozenset({RUNNING})) for n in (9, 10, 12)
    )
    shown(qtbot, view, first)

    for trace, n in zip(more, (10, 12), strict=True):
        view.session.set_trace(trace, TraceChange.EXTENDED)
        qtbot.waitUntil(lambda n=n: len(view.latency.bars) == n)
        assert len(view.parts.idle) == n, "else bars would be plain for a while"
