"""The what-if cache with real events."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.analysis.reads.what_if import what_if
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.cache import CacheView
from reads_builder import moe_reads


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
            not view._timer.isActive()
            and view.session is not None
            and view.session.tasks.is_idle
            and view._answer is not None
            and view._answer.capacity == view.capacity
            and view._best is not None
        )
    )


def test_view_begins_with_half_the_working_set(view, session):
    found = what_if(session.trace)

    assert view.capacity == found.working_set // 2
    assert "this run reads" in view.words.text()


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
    assert view._answer.bytes_read == read


def test_arrow_keys_change_the_size(view, qtbot, session):
    view.setFocus()
    before = view.capacity

    QTest.keyClick(view, Qt.Key.Key_Right)
    larger = view.capacity
    QTest.keyClick(view, Qt.Key.Key_End)
    answered(qtbot, view)

    assert larger > before
    assert view.capacity == what_if(session.trace).working_set
    assert view._answer.bytes_read == view.capacity


def test_typed_size_is_answered_for(view, qtbot):
    assert view.size_box.suffix() == " KiB"  # what suits so small a model

    view.size_box.setValue(20.0)
    answered(qtbot, view)

    assert view.capacity == 20 << 10
    assert view.words.text().startswith("With 20.0 KiB of page cache")


def test_read_ahead_adds_a_sentence(view, qtbot):
    view.ahead_box.setValue(3)

    qtbot.waitUntil(lambda: "Reading 3 tensors ahead" in view.words.text())


def test_row_look_ups_count_when_asked(view, qtbot, session):
    view.rows_box.setChecked(True)

    expected = what_if(session.trace, with_row_reads=True).working_set
    qtbot.waitUntil(
        lambda: view._found is not None and view._found.working_set == expected
    )
    answered(qtbot, view)


def test_tooltip_tells_what_a_size_reads(view):
    words = view.tooltip_at(500, 100)

    assert "page cache of" in words
    assert "bytes) read from disk" in words


def test_copy_gives_the_answer_and_what_it_rests_on(view):
    view._copy()

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
    assert "No reads" in view.empty_words()[0]
    session.close()
