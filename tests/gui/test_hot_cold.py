"""The hot-and-cold pane with real events."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QTextDocumentFragment
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QScrollArea
from pytestqt.qtbot import QtBot

import builders
from ggscope.model.selection import Filter, MarkedRange, Selection
from ggscope.model.units import TimeRange
from ggscope.render.charts import BAR_HEIGHT
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.hot_cold import HotColdView
from pages import Page
from reads_builder import TensorRow, moe_reads, reads_trace
from statements import new_statement, new_statements


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(moe_reads())
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> HotColdView:
    view = HotColdView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1100, 300)
    view.show()
    qtbot.waitExposed(view)
    qtbot.waitUntil(lambda: bool(view.current_facts()))
    return view


def show(view: HotColdView, picture: str) -> None:
    view.picture_box.setCurrentIndex(view.picture_box.findData(picture))


def middle_of_bar(i: int) -> QPoint:
    return QPoint(300, round(4 + BAR_HEIGHT * (i + 0.5)))


def name_of(session: Session, row: int) -> str:
    assert session.trace is not None
    return session.trace.strings[int(session.trace.tensors.name[row])]


def test_click_on_a_bar_selects_its_tensor(view, session, qtbot):
    QTest.mouseClick(view.canvas, Qt.MouseButton.LeftButton, pos=middle_of_bar(0))

    assert session.selection.current.table == "tensors"
    assert name_of(session, session.selection.current.ids[0]) == "output.weight"


def test_tooltip_of_a_bar_gives_exact_bytes(view):
    at = middle_of_bar(0)

    tooltip = view.tooltip_at(at.x(), at.y())

    assert "output.weight" in tooltip
    assert "30,000 bytes" in tooltip
    assert "6 accesses" in tooltip
    assert "in 6 of 6 tokens" in tooltip
    show(view, "layers")
    cell = view.tooltip_at(view.canvas.width() // 2, view.canvas.height() // 2)
    assert new_statements(tooltip, cell)
    assert new_statements(cell, tooltip)


def test_tooltip_of_a_cell_calls_its_token_as_the_axis_does(qtbot, view, session):
    trace = moe_reads()
    phase = np.where(trace.spans.token == 0, 0, 1).astype(np.int8)
    session.set_trace(replace(trace, spans=replace(trace.spans, phase=phase)))
    show(view, "layers")
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    width, y = view.canvas.width(), view.canvas.height() // 2

    text = "\n".join(view.tooltip_at(x, y) for x in range(0, width, 9))

    for name in ("prefill 0", "decode 1", "decode 5"):
        assert f"token {name}\n" in text


def test_tooltip_of_a_bar_counts_tokens_only_where_they_are_known(qtbot, session):
    trace = moe_reads()
    none = np.full(len(trace.spans), -1, np.int32)
    session.set_trace(replace(trace, spans=replace(trace.spans, token=none)))
    view = HotColdView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1100, 300)
    view.show()
    qtbot.waitUntil(lambda: bool(view.current_facts()))
    at = middle_of_bar(0)
    without = view.tooltip_at(at.x(), at.y())
    session.set_trace(trace)
    qtbot.waitUntil(lambda: view.tooltip_at(at.x(), at.y()) not in ("", without))

    tooltip = view.tooltip_at(at.x(), at.y())
    assert new_statement(tooltip, without)


def test_facts_show_shares_below_a_tenth_of_a_per_cent(view, session, qtbot):
    session.set_trace(moe_reads(layers=3, experts=64, tokens=2))
    qtbot.waitUntil(lambda: session.tasks.is_idle and bool(view.current_facts()))

    shown = QTextDocumentFragment.fromHtml(view.facts.text()).toPlainText()

    for fact in view.current_facts():
        assert fact.text in shown.replace("\n", " ")


def test_list_of_never_touched_holds_just_these(view, session):
    show(view, "cold")

    names = {
        view.tooltip_at(300, middle_of_bar(i).y()).split("\n")[0] for i in range(5)
    }

    assert names - {""} == {f"blk.{i}.ffn_norm.weight" for i in range(3)}


def test_wheel_and_keys_scroll_the_ranking(view, qtbot):
    view.by_box.setCurrentIndex(view.by_box.findData("expert"))
    view.setFocus()

    QTest.keyClick(view, Qt.Key.Key_End)
    last = view.tooltip_at(300, middle_of_bar(0).y())
    QTest.keyClick(view, Qt.Key.Key_Home)
    first = view.tooltip_at(300, middle_of_bar(0).y())
    QTest.keyClick(view, Qt.Key.Key_Down)
    second = view.tooltip_at(300, middle_of_bar(0).y())

    assert len({first, second, last}) == 3


def test_marked_range_only_counts_what_starts_in_it(view, session, qtbot):
    session.ranges.set_marked(MarkedRange(TimeRange(0, 12 * 11)))

    view.range_box.setChecked(True)

    at = middle_of_bar(0)
    qtbot.waitUntil(lambda: "1 accesses" in view.tooltip_at(at.x(), at.y()))


def test_copy_puts_ranking_and_facts_on_the_clipboard(view):
    Page(view).button("Copy").click()

    text = QGuiApplication.clipboard().text()
    assert "Never touched: 120 B" in text
    assert "output.weight\t6\t0\t30000\t0\t5000\t0" in text


def test_filter_of_a_bar_shows_its_ops_only(view, session):
    menu = view.menu_at(300, middle_of_bar(0).y())
    assert menu is not None
    action = next(a for a in menu.actions() if "Show only" in a.text())

    action.trigger()

    assert session.queries.filter == Filter(tensors=frozenset({"output.weight"}))


@pytest.mark.parametrize("picture", ["coverage", "place", "jumps", "kv"])
@pytest.mark.parametrize("name", ["dark", "light"])
def test_charts_are_drawn_and_show_their_numbers(view, picture, name):
    view.set_theme(theme(name))
    show(view, picture)

    middle = view.canvas.rect().center()
    tooltip = view.tooltip_at(middle.x(), middle.y())

    assert tooltip.count("\n") == 1
    image = view.canvas.grab().toImage()
    hues = {image.pixel(x, middle.y()) for x in range(0, image.width(), 3)}
    assert len(hues) > 2


@pytest.mark.parametrize("measure", ["bytes", "accesses", "time"])
def test_layers_by_tokens_show_each_cell(view, measure):
    show(view, "layers")
    view.measure_box.setCurrentIndex(view.measure_box.findData(measure))

    tooltips = {
        view.tooltip_at(x, view.canvas.height() // 2)
        for x in range(0, view.canvas.width(), 9)
    } - {""}

    assert len(tooltips) == 6  # one row of cells, a column per token
    assert all("ops" in text and "measured or derived" in text for text in tooltips)
    assert view.compose(900, 300, 1.0) is not None


def test_selected_tensor_is_highlighted(view, session):
    before = view.canvas.grab().toImage()

    names = [name_of(session, row) for row in range(len(session.trace.tensors))]
    session.selection.select(Selection("tensors", (names.index("output.weight"),)))

    qt_after = view.canvas.grab().toImage()
    assert before.pixel(300, 6) != qt_after.pixel(300, 6)


def test_trace_without_accesses_says_so(qtbot, qapp):
    session = Session()
    session.set_trace(builders.nested_trace())
    view = HotColdView(session, theme("dark"))
    qtbot.addWidget(view)
    view.show()
    qtbot.waitUntil(lambda: session.tasks.is_idle)

    assert view.compose(600, 200, 1.0) is None
    assert view.placeholder_text()[0] == "No accesses"
    session.close()


def test_hidden_view_counts_only_when_it_is_seen(qtbot, session):
    view = HotColdView(session, theme("dark"))
    qtbot.addWidget(view)
    qtbot.waitUntil(lambda: session.tasks.is_idle)

    assert view.current_facts() == ()
    view.show()
    qtbot.waitUntil(lambda: bool(view.current_facts()))


def whole_controls(view: HotColdView) -> list[str]:
    """Return the words of switches and buttons that are seen, each of them whole."""
    shown: list[str] = []
    controls = view.controls.findChildren(QAbstractButton)
    for control in sorted(controls, key=QAbstractButton.x):
        if control.isVisible():
            at = control.mapTo(view.controls, control.rect().bottomRight())
            assert at.x() < view.controls.width(), control.text()
            assert control.visibleRegion().boundingRect() == control.rect()
            shown.append(control.text())
    return shown


def test_controls_without_room_are_in_a_menu(view):
    view.resize(1600, 300)
    QTest.qWait(1)
    everything = whole_controls(view)
    assert not view.controls.more.isVisible()

    for width in range(1600, 550, -20):
        view.resize(width, 300)
        QTest.qWait(1)
        if view.controls.findChild(QScrollArea).horizontalScrollBar().maximum() > 0:
            assert width < 640  # the choices alone have no room: the row scrolls
            break
        shown = whole_controls(view)
        menu = view.controls.more.menu()
        menu.aboutToShow.emit()
        hidden = [action.text() for action in menu.actions()]
        assert view.controls.more.isVisible() == bool(hidden)
        if hidden:
            assert shown.pop() == "More"
        assert shown + hidden == everything
    assert hidden


def test_switch_in_the_menu_is_clicked(view, session, qtbot):
    view.resize(560, 300)
    QTest.qWait(1)
    assert not view.range_box.isVisible()
    more = view.controls.more
    seen: list[QRect] = []

    def choose() -> None:
        menu = more.menu()
        action = next(a for a in menu.actions() if a.text() == view.range_box.text())
        assert action.isCheckable()
        assert not action.isChecked()
        seen.append(menu.geometry())
        at = menu.actionGeometry(action).center()
        QTest.mouseClick(menu, Qt.MouseButton.LeftButton, pos=at)

    QTimer.singleShot(50, choose)
    QTest.mouseClick(more, Qt.MouseButton.LeftButton)

    qtbot.waitUntil(lambda: bool(seen))
    assert view.range_box.isChecked()


def test_tensors_of_a_trace_without_accesses_are_not_ranked(
    qtbot: QtBot, qapp: QApplication
) -> None:
    """What is read is not recorded: 0 bytes of each tensor would be a claim."""
    session = Session()
    session.set_trace(reads_trace((TensorRow("a", 0, 100),), []))
    view = HotColdView(session, theme("dark"))
    qtbot.addWidget(view)
    view.show()
    qtbot.waitUntil(lambda: session.tasks.is_idle)

    assert view.compose(600, 200, 1.0) is None
    session.close()
