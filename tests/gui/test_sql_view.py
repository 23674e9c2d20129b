"""The pane SQL, with keys and clicks."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QMenu,
    QPlainTextEdit,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

import sqlite_files
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.base.text_table import TextTable
from ggscope.views.base.view import View
from panes import pane, settle
from recordings import recording

pytest.importorskip("duckdb")
CONTROL = Qt.KeyboardModifier.ControlModifier


class SqlPage:
    """What a person sees and does in the pane."""

    def __init__(self, qtbot: QtBot, document: Document) -> None:
        self.qtbot, self.document = qtbot, document
        self.view: View = pane(document, "sql")
        self.editor = self.view.findChild(QPlainTextEdit, "sql_editor")
        self.table = self.view.findChild(TextTable)
        self.history = self.view.findChild(QMenu, "sql_history")

    def button(self, text: str) -> QToolButton:
        buttons = self.view.findChildren(QToolButton)
        return next(b for b in buttons if b.text() == text)

    def run(self, sql: str) -> list[list[str]]:
        self.editor.setPlainText(sql)
        QTest.keyClick(self.editor, Qt.Key.Key_Return, CONTROL)
        settle(self.qtbot, self.document)
        model = self.table.model()
        return [
            [str(model.index(r, c).data() or "") for c in range(model.columnCount())]
            for r in range(model.rowCount())
        ]

    def texts(self) -> str:
        labels = self.view.findChildren(QLabel)
        return " ".join(getattr(w, "full_text", "") or w.text() for w in labels)


@pytest.fixture
def page(opened: Callable[[Path], Document], qtbot: QtBot, tmp_path: Path) -> SqlPage:
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1).data)
    document = opened(path)
    settle(qtbot, document)
    document.workspace.show_view("sql")
    settle(qtbot, document)
    return SqlPage(qtbot, document)


def test_rows_of_a_query_are_shown_and_select_spans(page):
    rows = page.run("select id as span, duration_ns from spans order by id limit 3")

    assert [row[0] for row in rows] == ["0", "1", "2"]
    page.table.selectRow(1)
    assert page.document.session.selection.current.ids == (1,)
    QTest.keyClick(page.table, Qt.Key.Key_Return)
    visible = page.document.session.viewport.visible
    spans = page.document.session.trace.spans
    assert visible.start <= spans.start[1]
    assert visible.end >= spans.end[1]


def test_what_cannot_be_run_is_reported(page):
    assert page.run("drop view spans") == []
    assert "can only be read" in page.texts()


def test_a_query_that_takes_long_can_be_cancelled(page, qtbot):
    page.editor.setFocus()
    page.editor.setPlainText(
        "select count(*) from range(100000000) a, range(100000000) b "
        "where (a.range * b.range) % 7 = 3"
    )
    QTest.keyClick(page.editor, Qt.Key.Key_Return, CONTROL)
    assert page.button("Cancel").isEnabled()
    qtbot.wait(300)
    QTest.keyClick(page.editor, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: "Cancelled" in page.texts(), timeout=20_000)
    assert page.run("select 1") == [["1"]]


def test_the_error_of_a_query_goes_when_another_runs(page, qtbot):
    page.run("drop view spans")
    page.editor.setPlainText(
        "select count(*) from range(100000000) a, range(100000000) b "
        "where (a.range * b.range) % 7 = 3"
    )
    QTest.keyClick(page.editor, Qt.Key.Key_Return, CONTROL)
    qtbot.wait(300)
    assert "can only be read" not in page.texts()
    QTest.keyClick(page.editor, Qt.Key.Key_Escape)

    qtbot.waitUntil(lambda: "Cancelled" in page.texts(), timeout=20_000)
    assert "can only be read" not in page.texts()


def test_a_query_that_cannot_be_stopped_keeps_nobody_waiting(page, qtbot):
    page.editor.setFocus()
    # One value of a list: DuckDB looks whether to stop between values.
    page.editor.setPlainText("select list_sum(range(20000000))")
    QTest.keyClick(page.editor, Qt.Key.Key_Return, CONTROL)
    qtbot.wait(300)
    QTest.keyClick(page.editor, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: "Cancelled" in page.texts(), timeout=2_000)

    assert page.run("select 1") == [["1"]]


def test_earlier_queries_come_back_also_after_a_start(page, window: MainWindow):
    page.run("select 1 as first")
    page.run("select 2 as second")

    QTest.keyClick(page.editor, Qt.Key.Key_Up, CONTROL)
    assert page.editor.toPlainText() == "select 2 as second"
    QTest.keyClick(page.editor, Qt.Key.Key_Up, CONTROL)
    assert page.editor.toPlainText() == "select 1 as first"
    QTest.keyClick(page.editor, Qt.Key.Key_Down, CONTROL)
    assert page.editor.toPlainText() == "select 2 as second"
    assert page.history.actions()[0].data() == "select 2 as second"
    page.history.actions()[1].trigger()
    assert page.editor.toPlainText() == "select 1 as first"
    assert window.settings.filters.queries == (
        "select 2 as second",
        "select 1 as first",
    )


def test_words_are_completed(page, qtbot):
    page.editor.setPlainText("select dura")
    page.editor.moveCursor(QTextCursor.MoveOperation.End)
    page.editor.setFocus()
    QTest.keyClick(page.editor, Qt.Key.Key_Space, CONTROL)
    qtbot.waitUntil(lambda: QApplication.activePopupWidget() is not None)
    QTest.keyClick(QApplication.activePopupWidget(), Qt.Key.Key_Return)
    assert page.editor.toPlainText() == "select duration_ns"


def test_two_columns_of_numbers_are_plotted(page):
    page.run("select id, duration_ns from spans")
    button = page.button("Plot")
    assert button.isEnabled()

    button.click()

    plots = [
        widget
        for widget in page.view.findChildren(QWidget)
        if widget.accessibleName() == "Plot of the rows"
    ]
    assert len(plots) == 1
    assert plots[0].isVisible()
    button.click()
    assert page.table.isVisible()
    page.run("select name, op from spans")
    assert not button.isEnabled()


def test_what_a_recording_left_out_stands_beside_the_buttons(
    opened: Callable[[Path], Document], qtbot: QtBot, tmp_path: Path
):
    document = opened(recording(tmp_path, settings={"sample_every": 3}))
    settle(qtbot, document)
    document.workspace.show_view("sql")
    settle(qtbot, document)
    page = SqlPage(qtbot, document)

    page.run("select 1")

    assert "only 1 of 3 graphs" in page.texts()
