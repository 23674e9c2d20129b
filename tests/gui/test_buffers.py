"""The view of buffers, with a real mouse and real keys."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QWheelEvent
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

import builders
from buffer_traces import MIB, Life, buffers_trace, busy_buffers, reference_buffers
from ggscope.model.selection import Filter, Selection
from ggscope.model.units import TimeRange
from ggscope.render.batch import TextBatch
from ggscope.render.buffers import BuffersGeometry
from ggscope.render.text_metrics import text_width
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.buffers.view import BuffersView
from scenes import texts_of
from statements import new_statement, new_statements

LEFT = Qt.MouseButton.LeftButton
CTRL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
NONE = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(busy_buffers())
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> BuffersView:
    made = BuffersView(session, theme("dark"))
    qtbot.addWidget(made)
    made.resize(1300, 460)
    made.show()
    qtbot.waitExposed(made)
    settled(qtbot, made)
    return made


def settled(qtbot: QtBot, view: BuffersView) -> None:
    """Wait until what is shown is what was asked for."""
    qtbot.waitUntil(
        lambda: (
            view.session is not None
            and view.session.tasks.is_idle
            and view.result is not None
            and view.result.trace is view.session.trace
            and view.result.by == view.by.currentData()
        )
    )


def geometry(view: BuffersView) -> BuffersGeometry:
    place = view.geometry_now()
    assert place is not None
    return place


def middle_of(view: BuffersView, buffer: int) -> QPoint:
    """Return a place on the life of a buffer."""
    place = geometry(view)
    lives = place.scene.lives
    i = int(np.flatnonzero(lives.buffer == buffer)[0])
    x0, x1 = place.life_xs()
    y = place.lives_y + 6 + 20 * int(lives.row[i]) - place.scene.scroll + 8
    left = max(float(x0[i]), place.time.x0)
    return QPoint(round((left + min(float(x1[i]), place.time.x1)) / 2), round(y))


def wheel(
    view: BuffersView, x: float, y: float, angle: int, modifier: Qt.KeyboardModifier
) -> None:
    event = QWheelEvent(
        QPointF(x, y), view.canvas.mapToGlobal(QPointF(x, y)), QPoint(),
        QPoint(0, angle), Qt.MouseButton.NoButton, modifier,
        Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(view.canvas, event)


def shown(view: BuffersView) -> list[str]:
    size = view.canvas_size()
    return texts_of(view.picture(size.width(), size.height(), 1.0))


def test_figures_name_the_peak_and_its_contents(
    qtbot: QtBot, view: BuffersView, session: Session
) -> None:
    session.set_trace(reference_buffers())
    settled(qtbot, view)

    assert view.about.full_text.startswith(
        "peak 624.0 MiB · 5 buffers alive (2 WEIGHTS, 3 COMPUTE) · 5 in total"
    )
    assert "3 never freed" in view.about.full_text
    assert "peak 624.0 MiB · 5 buffers · 4.00 ms" in shown(view)


def test_click_on_a_life_selects_the_buffer_and_its_line(
    view: BuffersView, session: Session
) -> None:
    QTest.mouseClick(view.canvas, LEFT, NONE, middle_of(view, 3))

    assert session.selection.current == Selection("buffers", (3,))
    assert view.table.rows() == (3,)


def test_ctrl_click_adds_and_click_elsewhere_clears(
    view: BuffersView, session: Session
) -> None:
    QTest.mouseClick(view.canvas, LEFT, NONE, middle_of(view, 3))
    QTest.mouseClick(view.canvas, LEFT, CTRL, middle_of(view, 1))
    assert session.selection.current.ids == (1, 3)

    QTest.mouseClick(view.canvas, LEFT, NONE, QPoint(300, 70))

    assert not session.selection.current


def test_choosing_a_line_selects_the_buffer(
    view: BuffersView, session: Session
) -> None:
    index = view.table.model.index(1, 0)
    place = view.table.table.visualRect(index).center()

    QTest.mouseClick(view.table.table.viewport(), LEFT, NONE, place)

    assert session.selection.current == Selection("buffers", (1,))


def test_selection_from_elsewhere_marks_the_line_and_is_not_sent_back(
    view: BuffersView, session: Session
) -> None:
    selections: list[Selection] = []
    session.selection.changed.connect(selections.append)

    session.selection.select(Selection("buffers", (4, 0)))

    assert set(view.table.rows()) == {0, 4}
    assert selections == [Selection("buffers", (4, 0))]


def test_table_is_sorted_by_size_and_copies_plain_figures(view: BuffersView) -> None:
    view.table.table.setFocus()

    QTest.keyClick(view.table.table, Qt.Key.Key_C, CTRL)

    lines = [x.split("\t") for x in QGuiApplication.clipboard().text().splitlines()]
    sizes = [int(line[3]) for line in lines[1:]]
    assert sizes == sorted(sizes, reverse=True)
    assert lines[0][3:6] == ["size (bytes)", "allocated (ns)", "freed (ns)"]
    assert lines[1] == [
        "CPU_Mapped model",
        "CPU",
        "WEIGHTS",
        str(460 * MIB),
        "0",
        "",
        "",
        "",
    ]


def test_times_of_the_table_have_one_unit_and_their_clock(
    view: BuffersView, session: Session
) -> None:
    columns = [
        [view.table.model.row(row)[column].text for row in range(5)]
        for column in (4, 5)
    ]
    units = {text.split(" ")[-1] for texts in columns for text in texts if " " in text}
    assert len(units) == 1

    session.display.set_absolute_time(True)

    titles = [heading.copied for heading in view.table.model.headings]
    assert "allocated (ns, file's clock)" in titles


def test_table_model_keeps_the_rules_of_item_models(view: BuffersView) -> None:
    QAbstractItemModelTester(
        view.table.model, QAbstractItemModelTester.FailureReportingMode.Fatal, view
    )

    view.table.model.sort(3, Qt.SortOrder.AscendingOrder)

    assert view.table.model.row(0)[3].text == "20.0 MiB"


def test_ctrl_wheel_zooms_the_time_of_the_session(
    view: BuffersView, session: Session
) -> None:
    before, place = session.viewport.visible, geometry(view)
    x = (place.time.x0 + place.time.x1) / 2
    tick = place.tick_at(x)

    wheel(view, x, place.area_y + 20, 120, CTRL)

    after = session.viewport.visible
    assert after.duration == pytest.approx(before.duration / 1.25, rel=0.01)
    assert after.contains(tick)


def test_shift_wheel_and_drag_pan(view: BuffersView, session: Session) -> None:
    session.viewport.set_visible(TimeRange(10_000_000, 20_000_000))
    place = geometry(view)
    y = round(place.area_y + 20)

    wheel(view, 300, y, -120, SHIFT)
    panned = session.viewport.visible
    QTest.mousePress(view.canvas, LEFT, NONE, QPoint(400, y))
    QTest.mouseMove(view.canvas, QPoint(350, y))
    QTest.mouseRelease(view.canvas, LEFT, NONE, QPoint(350, y))

    assert panned.start > 10_000_000
    assert session.viewport.visible.start > panned.start
    assert session.viewport.visible.duration == 10_000_000


def test_plain_wheel_scrolls_the_lives(
    qtbot: QtBot, view: BuffersView, session: Session
) -> None:
    session.set_trace(buffers_trace([Life(MIB + i, 0) for i in range(40)],
                                    extent=TimeRange(0, 1000)))  # fmt: skip
    settled(qtbot, view)

    wheel(view, 400, geometry(view).lives_y + 10, -240, NONE)
    assert view.scroll_y == 120
    wheel(view, 400, geometry(view).lives_y + 10, 2400, NONE)

    assert view.scroll_y == 0


def test_mouse_puts_the_hair_line_of_every_view(
    view: BuffersView, session: Session
) -> None:
    QTest.mouseMove(view.canvas, QPoint(300, 100))

    assert session.viewport.cursor_tick == geometry(view).tick_at(300)
    assert any(" ms · " in text for text in shown(view))


def test_double_click_shows_the_whole_life(view: BuffersView, session: Session) -> None:
    QTest.mouseDClick(view.canvas, LEFT, NONE, middle_of(view, 3))

    assert session.selection.current.ids == (3,)
    visible = session.viewport.visible
    assert visible.start <= 7_000_000 < 31_000_000 <= visible.end
    assert visible.duration < 30_000_000


def test_menu_filters_spans_to_the_buffer(view: BuffersView, session: Session) -> None:
    at = middle_of(view, 2)
    menu = view.menu_at(at.x(), at.y())
    assert menu is not None
    actions = {action.text(): action for action in menu.actions()}

    actions["Show only this buffer"].trigger()

    assert session.queries.filter == Filter(buffers=frozenset({0x3000}))
    assert not actions["Go to its last access"].isEnabled()


def test_menu_of_a_row_offers_what_the_picture_does(
    view: BuffersView, session: Session
) -> None:
    inner = view.table.table
    line = next(
        i for i in range(view.table.model.rowCount())
        if view.table.model.payload(i) == 2
    )  # fmt: skip
    at = inner.visualRect(view.table.model.index(line, 0)).center()

    inner.customContextMenuRequested.emit(at)

    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    actions = {action.text(): action for action in menu.actions()}
    assert {a.text() for a in view.menu_of(2).actions()} <= set(actions)
    assert "Copy as TSV" in actions
    actions["Show only this buffer"].trigger()
    menu.close()
    assert session.queries.filter == Filter(buffers=frozenset({0x3000}))


def test_menu_goes_to_the_last_op(
    qtbot: QtBot, view: BuffersView, session: Session
) -> None:
    session.set_trace(buffers_trace([Life(MIB)], accessed=[[0], [0], []]))
    settled(qtbot, view)
    actions = {action.text(): action for action in view.menu_of(0).actions()}

    actions["Go to its last access"].trigger()

    assert session.selection.current == Selection("spans", (1,))


def test_up_and_down_go_through_the_buffers_by_size(
    view: BuffersView, session: Session
) -> None:
    view.setFocus()
    for _ in range(3):
        QTest.keyClick(view, Qt.Key.Key_Down)
    QTest.keyClick(view, Qt.Key.Key_Up)

    assert session.selection.current.ids == (1,)
    assert view.accessibleDescription().startswith("CUDA0\nWEIGHTS · backend CUDA0")


def test_tooltips_show_lives_levels_and_the_peak(view: BuffersView) -> None:
    at = middle_of(view, 3)
    place = geometry(view)
    peak = place.scene.occupancy.peak
    assert peak is not None

    of_life = view.tooltip_at(at.x(), at.y())
    of_level = view.tooltip_at(place.time.x(3_000_000), place.area_y + 40)
    of_peak = view.tooltip_at(place.time.x(peak.time), place.area_y + 40)

    assert "size 96.0 MiB (100,663,296 bytes)" in of_life
    assert "after 24.00 ms" in of_life
    assert "580.0 MiB" in of_level
    assert "WEIGHTS: 580.0 MiB" in of_level
    assert of_peak.startswith("peak ")
    assert "460.0 MiB  CPU_Mapped model · WEIGHTS" in of_peak


def test_selected_op_greys_what_was_not_alive(
    qtbot: QtBot, view: BuffersView, session: Session
) -> None:
    session.set_trace(
        buffers_trace([Life(MIB, 0, 500), Life(MIB, 900)], accessed=[[0], [1]])
    )
    settled(qtbot, view)

    session.selection.select(Selection("spans", (1,)))

    assert geometry(view).scene.alive == frozenset({1})


def test_stack_by_backend_changes_the_legend(qtbot: QtBot, view: BuffersView) -> None:
    view.by.setCurrentIndex(view.by.findData("backend"))
    settled(qtbot, view)

    assert {"CPU", "CUDA0"} <= set(shown(view))


def test_incomplete_recording_is_reported(
    qtbot: QtBot, view: BuffersView, session: Session
) -> None:
    session.set_trace(buffers_trace([Life(44 * MIB, 5, name="KVCache_CPU")],
                                    extent=TimeRange(0, 100)))  # fmt: skip
    settled(qtbot, view)

    assert (
        view.note.full_text == "recording incomplete: no weights, no scheduler buffers"
    )
    assert "lower bound" in view.note.toolTip()


def test_buffers_known_by_accesses_only_are_listed_without_a_picture(
    qtbot: QtBot, view: BuffersView, session: Session
) -> None:
    session.set_trace(buffers_trace([Life(-1, -1)], accessed=[[0], [0]]))
    settled(qtbot, view)

    none = "\n".join(shown(view))
    assert "No allocations recorded" in shown(view)
    cells = view.table.model.row(0)
    assert [cell.text for cell in cells[3:6]] == ["N/A", "N/A", "N/A"]
    assert cells[7].text == "2"
    session.set_trace(buffers_trace([Life(-1, 0)], accessed=[[0], [0]]))
    settled(qtbot, view)
    unsized = "\n".join(shown(view))
    session.set_trace(buffers_trace([Life(64, 0)], accessed=[[0], [0]]))
    settled(qtbot, view)
    sized = "\n".join(shown(view))
    assert "\nNo allocations recorded\n" not in unsized
    assert new_statements(none, sized)
    assert new_statement(unsized, none)
    assert new_statement(unsized, sized)


@pytest.mark.parametrize("width", [160, 470, 1300])
def test_why_there_is_no_picture_is_wrapped_and_not_cut(
    view: BuffersView, session: Session, width: int
) -> None:
    session.set_trace(builders.llama_like_trace(tokens=1, layers=1))

    picture = view.picture(width, 400, 1.0)

    text = " ".join(view.placeholder_text())
    lines = [t for b in picture.batches if isinstance(b, TextBatch) for t in b.texts]
    wide = [text_width(line.text, line.face, line.size) for line in lines]
    assert " ".join(line.text for line in lines) == text
    assert (len(lines) > 2) == (width < 1300)
    assert max(wide) <= width - 24
    places = [line.y for line in lines]
    assert places == sorted(set(places))
    assert (places[0] > 0, places[-1] < 200 + 28 - 8) == (
        True,
        True,
    )  # a button is below


def test_a_trace_without_buffers_says_so(view: BuffersView, session: Session) -> None:
    session.set_trace(builders.llama_like_trace(tokens=1, layers=1))

    assert "No buffers in this trace" in shown(view)
    assert not view.table.isVisible()


def test_absolute_time_changes_axis_and_table(
    qtbot: QtBot, view: BuffersView, session: Session
) -> None:
    trace = reference_buffers()
    session.set_trace(replace(trace, clock=replace(trace.clock, origin=5_000_000_000)))
    settled(qtbot, view)

    session.display.set_absolute_time(True)

    assert view.table.model.row(0)[4].text == "5.000000 s"


def test_a_released_view_hears_nothing(view: BuffersView, session: Session) -> None:
    view.release()

    session.selection.select(Selection("buffers", (1,)))

    assert view.table.rows() == ()
