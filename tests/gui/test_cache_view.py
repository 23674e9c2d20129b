"""The what-if cache with real events."""

from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from expert_traces import routed
from ggscope.analysis.reads.what_if import what_if
from ggscope.descriptions.reads import rests_on
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.cache import CacheView
from ggscope.views.registry import entry
from pages import Page, is_settled
from panes import placeholder_text, titles_of
from reads_builder import moe_reads
from statements import new_statement, new_statements


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(moe_reads(tokens=12))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> CacheView:
    view = CacheView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1100, 360)
    view.show()
    qtbot.waitExposed(view)
    answered(qtbot, view)
    return view


def answered(qtbot: QtBot, view: CacheView) -> None:
    """Wait until the answer is that of the chosen size."""
    qtbot.waitUntil(
        lambda: (
            is_settled(view)
            and view.session is not None
            and view.session.tasks.is_idle
            and view.cache_result is not None
            and view.cache_result.capacity == view.capacity
            and view.optimum is not None
        )
    )


def test_view_begins_with_half_the_working_set(view, session):
    result = what_if(session.trace)

    assert view.capacity == result.working_set // 2
    assert "this run reads" in view.message.text()


def test_choices_of_experts_alone_have_a_curve(view, qtbot, session):
    trace = routed([[[1, 2], [3, 4]], [[1, 5], [3, 0]], [[1, 2], [4, 0]]])
    sizes = replace(trace.routing, expert_bytes=((0, 1 << 20), (1, 1 << 21)))

    session.set_trace(replace(trace, routing=sizes))
    answered(qtbot, view)

    assert view.what_if.working_set == (3 << 20) + (3 << 21)
    assert "of experts from disk" in view.message.text()


def test_choices_without_sizes_ask_for_the_model(view, qtbot, session):
    session.set_trace(routed([[[1, 2], [3, 4]]]))
    qtbot.waitUntil(lambda: is_settled(view) and session.tasks.is_idle)

    assert view.placeholder_text()[0] == "No sizes of experts"


@pytest.mark.parametrize(("sizes", "has_curve"), [((), False), (((0, 10),), True)])
def test_pane_of_a_routing_table_is_there_where_sizes_are_known(sizes, has_curve):
    trace = routed([[[1, 2]]])
    trace = replace(trace, routing=replace(trace.routing, expert_bytes=sizes))

    assert entry("cache").has_data(trace) == has_curve


def test_press_in_the_chart_chooses_the_size(view, qtbot, session):
    canvas, left = view.canvas, Qt.MouseButton.LeftButton
    middle, far = canvas.height() // 2, canvas.width() * 3 // 4
    QTest.mousePress(canvas, left, pos=QPoint(canvas.width() // 4, middle))
    small = view.capacity
    QTest.mouseMove(canvas, QPoint(far, middle))
    QTest.mouseRelease(canvas, left, pos=QPoint(far, middle))
    QTest.mousePress(canvas, left, pos=QPoint(far, middle))

    answered(qtbot, view)

    assert view.capacity > small
    read, _ = what_if(session.trace).curve.at(view.capacity)
    assert view.cache_result.bytes_read == read


def test_arrow_keys_change_the_size(view, qtbot, session):
    view.setFocus()
    before = view.capacity

    QTest.keyClick(view, Qt.Key.Key_Right)
    larger = view.capacity
    QTest.keyClick(view, Qt.Key.Key_End)
    answered(qtbot, view)

    assert larger > before
    assert view.capacity == what_if(session.trace).working_set
    assert view.cache_result.bytes_read == view.capacity


def test_typed_size_is_answered_for(view, qtbot):
    assert view.size_box.suffix() == " KiB"  # what suits so small a model

    view.size_box.setValue(20.0)
    answered(qtbot, view)

    assert view.capacity == 20 << 10
    assert "With 20.0 KiB of page cache" in view.message.text()


def test_what_the_answer_rests_on_stands_below_it_whole(view, qtbot):
    answered(qtbot, view)
    remarks = rests_on(view.what_if)

    shown = unescape(view.message.text())
    assert remarks
    assert all(remark in shown for remark in remarks)


def test_read_ahead_adds_a_sentence(view, qtbot):
    view.ahead_box.setValue(3)

    qtbot.waitUntil(lambda: "Reading 3 tensors ahead" in view.message.text())


def test_row_look_ups_count_when_asked(view, qtbot, session):
    view.rows_box.setChecked(True)

    expected = what_if(session.trace, with_row_reads=True).working_set
    qtbot.waitUntil(
        lambda: view.what_if is not None and view.what_if.working_set == expected
    )
    answered(qtbot, view)


def test_tooltip_shows_what_a_size_reads(view):
    tooltip = view.tooltip_at(500, 100)

    assert "page cache of" in tooltip
    assert "bytes) read from disk" in tooltip
    beside = view.tooltip_at(1, 1)  # left of the axis
    assert len(new_statements(tooltip, beside)) >= 3


def test_worker_is_reported_to_do_what_it_is_asked_for(
    view, qtbot, session, monkeypatch
) -> None:
    titles = titles_of(session, monkeypatch)
    view.size_box.setValue(20.0)
    answered(qtbot, view)
    of_size, titles[:] = "\n".join(titles), []
    view.invalidate()
    qtbot.waitUntil(lambda: "Computing Belady's optimum" in titles)
    answered(qtbot, view)
    of_all, titles[:] = "\n".join(titles), []
    session.set_trace(builders.nested_trace())
    qtbot.waitUntil(lambda: session.tasks.is_idle and bool(titles))
    without_reads = "\n".join(titles)

    assert new_statement(of_size, without_reads)
    assert new_statements(of_all, of_size)
    assert new_statements(of_all, of_size + without_reads)
    assert "Computing the miss-ratio curve" in without_reads


def test_sequence_is_called_read_as_long_as_it_is(shown) -> None:
    trace = moe_reads(tokens=12)
    partial = placeholder_text(
        shown("cache", replace(trace, pending=frozenset({"spans"})))
    )
    whole = placeholder_text(shown("cache", builders.nested_trace()))

    assert new_statement(partial, whole)


def test_copy_gives_the_answer_and_what_it_rests_on(view):
    Page(view).button("Copy").click()

    text = QGuiApplication.clipboard().text()
    assert "page cache this run reads" in text
    assert "Derived" in text


def test_trace_without_reads_says_so(qtbot, qapp):
    session = Session()
    session.set_trace(builders.nested_trace())
    view = CacheView(session, theme("dark"))
    qtbot.addWidget(view)
    view.show()
    qtbot.waitUntil(lambda: session.tasks.is_idle)

    assert view.compose(600, 200, 1.0) is None
    assert view.placeholder_text()[0] == "No accesses"
    session.close()
