"""Save table as…: rows of a pane in a file, in the form that its name asks for."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QFileDialog, QMenu, QMessageBox
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.selection import MarkedRange
from ggscope.model.units import TimeRange
from ggscope.views.base import cells
from ggscope.views.base.cells import TableFile
from ggscope.views.base.copying import Copyable
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.statistics import counting
from ggscope.views.table.view import TableView
from messages import clear, newest_message
from panes import LEFT, click_row, experiment, pane, settle
from statements import new_statement, new_statements
from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "tinyllama-256.bin"
Saved = Callable[..., tuple[str, str]]


@pytest.fixture
def saved(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Saved:
    """Return a function that runs what saves, and returns the file and what is said."""

    def save(run: Callable[[], object], name: str) -> tuple[str, str]:
        path = tmp_path / name
        result = lambda *_: (str(path), "")  # noqa: E731 - in the place of a dialog
        monkeypatch.setattr(QFileDialog, "getSaveFileName", result)
        clear(window)
        run()
        qtbot.waitUntil(lambda: bool(newest_message(window)), timeout=20_000)
        return path.read_text("utf-8"), newest_message(window)

    return save


def action_of(menu: QMenu, text: str) -> Any:
    (action,) = [a for a in menu.actions() if a.text() == text]
    return action


def table_of(document: Document, view_id: str) -> TextTable:
    document.workspace.show_view(view_id)
    tables = pane(document, view_id).findChildren(TextTable)
    (table,) = [t for t in tables if "pivot" not in t.accessibleName().lower()]
    return table


def test_every_form_holds_the_figures_of_the_statistics(
    opened: Callable[[Path], Document], qtbot: QtBot, saved: Saved
) -> None:
    document = opened(SAMPLE)
    table = table_of(document, "statistics")
    qtbot.waitUntil(lambda: table.rows.rowCount() > 1, timeout=20_000)
    settle(qtbot, document)
    menu = QMenu()
    table.fill_menu(menu)
    save = action_of(menu, "Save as…").trigger
    n = table.rows.rowCount()
    rows = [[c.text if c.raw is None else c.raw for c in table.rows.row(r)]
            for r in range(n)]  # fmt: skip

    as_csv, report = saved(save, "a.csv")
    as_tsv, _ = saved(save, "a.tsv")
    as_json, _ = saved(save, "a.json")
    as_markdown, _ = saved(save, "a.md")

    items = list(csv.reader(as_csv.splitlines()))
    assert items[1:] == [[str(cell) for cell in row] for row in rows]
    assert [line.split("\t") for line in as_tsv.splitlines()] == items
    assert [list(r.values()) for r in json.loads(as_json)] == [
        [None if cell == "" else cell for cell in row] for row in rows
    ]
    assert len(as_markdown.splitlines()) == n + 2
    assert table.rows.row(0)[2].text in as_markdown
    assert report == f"Saved a.csv: {n} rows."


def answering(qtbot: QtBot, role_text: str) -> list[str]:
    """Press a button of the next question; return what will be asked."""
    question: list[str] = []

    def answer() -> None:
        box = QApplication.activeModalWidget()
        if not isinstance(box, QMessageBox):
            QTimer.singleShot(5, answer)
            return
        question.extend(box.text().split("\n\n"))
        (value,) = [b for b in box.buttons() if role_text in b.text()]
        qtbot.mouseClick(value, LEFT)

    QTimer.singleShot(0, answer)
    return question


def test_one_selected_row_is_no_choice_and_all_rows_are_saved(
    opened: Callable[[Path], Document], qtbot: QtBot, saved: Saved
) -> None:
    document = opened(SAMPLE)
    table = table_of(document, "statistics")
    qtbot.waitUntil(lambda: table.rows.rowCount() > 1, timeout=20_000)
    settle(qtbot, document)
    table.selectRow(1)

    text, _ = saved(table.save, "a.csv")

    assert len(text.splitlines()) == table.rows.rowCount() + 1


@pytest.mark.parametrize(("button", "n"), [("selected", 2), ("all", 0)])
def test_of_several_selected_rows_it_is_asked_which_are_meant(
    opened: Callable[[Path], Document],
    qtbot: QtBot,
    saved: Saved,
    button: str,
    n: int,
) -> None:
    document = opened(SAMPLE)
    table = table_of(document, "statistics")
    qtbot.waitUntil(lambda: table.rows.rowCount() > 3, timeout=20_000)
    settle(qtbot, document)
    table.selectRow(0)
    down = table.selectionModel().SelectionFlag
    table.selectionModel().select(
        table.rows.index(2, 0), down.Select | down.Rows
    )  # as Ctrl+click does
    question = answering(qtbot, button)

    text, _ = saved(table.save, "a.csv")

    keys = [line.split(",")[0] for line in text.splitlines()[1:]]
    expected = [table.rows.row(r)[0].text for r in range(table.rows.rowCount())]
    assert keys == ([expected[0], expected[2]] if n else expected)
    assert question[0] == f"{table.rows.rowCount()} rows · 2 selected"


def test_cancelled_question_saves_nothing(
    opened: Callable[[Path], Document],
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = opened(SAMPLE)
    table = table_of(document, "statistics")
    qtbot.waitUntil(lambda: table.rows.rowCount() > 3, timeout=20_000)
    settle(qtbot, document)
    table.selectAll()
    flags = table.selectionModel().SelectionFlag
    table.selectionModel().select(table.rows.index(0, 0), flags.Deselect | flags.Rows)
    asked_for: list[object] = []
    monkeypatch.setattr(
        QFileDialog,
        "getSaveFileName",
        lambda *_: asked_for.append(_) or ("", ""),
    )
    answering(qtbot, "Cancel")

    table.save()

    assert not asked_for


def test_row_of_the_trace_that_was_clicked_does_not_shrink_the_file(
    opened: Callable[[Path], Document], qtbot: QtBot, saved: Saved
) -> None:
    document = opened(SAMPLE)
    session = document.session
    document.workspace.show_view("table")
    view = pane(document, "table")
    assert isinstance(view, TableView)
    qtbot.waitUntil(lambda: view.table_file() is not None)
    settle(qtbot, document)
    marked = TimeRange(0, session.viewport.visible.duration // 4)
    session.ranges.set_marked(MarkedRange(marked))
    qtbot.waitUntil(lambda: view.model.rowCount() < len(session.trace.spans) // 2)
    click_row(view, view.model.span_at(2))
    n = view.model.rowCount()

    menu = view.menu_for(2)
    text, report = saved(action_of(menu, "Save as…").trigger, "rows.csv")

    assert session.selection.current.table == "spans"
    assert n > 2
    assert len(text.splitlines()) == n + 1
    assert report == f"Saved rows.csv: {n} rows."


def test_what_the_pane_leaves_out_is_reported(
    opened: Callable[[Path], Document],
    qtbot: QtBot,
    saved: Saved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counting, "MAX_ROWS", 2)
    monkeypatch.setattr(cells, "MAX_COPIED_ROWS", 5)
    document = opened(SAMPLE)
    table = table_of(document, "statistics")
    qtbot.waitUntil(lambda: table.rows.rowCount() == 3, timeout=20_000)
    settle(qtbot, document)

    few, report = saved(table.save, "few.csv")
    flags = table.selectionModel().SelectionFlag
    for row in (0, 1):
        table.selectionModel().select(
            table.rows.index(row, 0), flags.Select | flags.Rows
        )
    answering(qtbot, "selected")
    _, chosen = saved(table.save, "two.csv")

    assert len(few.splitlines()) == 4
    assert len(new_statements(report, chosen)) >= 2


def test_command_saves_what_holds_the_focus(
    window: MainWindow,
    opened: Callable[[Path], Document],
    qtbot: QtBot,
    saved: Saved,
) -> None:
    document = opened(SAMPLE)
    session = document.session
    assert session.trace is not None
    document.workspace.show_view("table")
    qtbot.waitUntil(lambda: pane(document, "table").table_file() is not None)
    session.selection.select_span(3)
    session.selection.select_span(5, add=True)
    settle(qtbot, document)
    pane(document, "table").setFocus()
    command = window.actions_["file.save_table"].trigger
    answering(qtbot, "selected")

    text, report = saved(command, "rows.json")
    rows = json.loads(text)

    spans = session.trace.spans
    assert len(rows) == 2
    for row, span in zip(rows, (3, 5), strict=True):
        assert int(spans.end[span] - spans.start[span]) in row.values()
    assert report == "Saved rows.json: 2 rows."


def test_records_beyond_what_is_written_at_once_are_reported(
    opened: Callable[[Path], Document],
    qtbot: QtBot,
    saved: Saved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ggscope.views.table import view as table_module

    monkeypatch.setattr(table_module, "MAX_COPIED_ROWS", 7)
    document = opened(SAMPLE)
    document.workspace.show_view("table")
    view = pane(document, "table")
    qtbot.waitUntil(lambda: view.table_file() is not None)
    settle(qtbot, document)
    menu = view.menu_for(0)
    document.session.clear_selection()

    text, report = saved(action_of(menu, "Save as…").trigger, "rows.csv")
    document.session.selection.select_span(0)
    document.session.selection.select_span(1, add=True)
    answering(qtbot, "selected")
    _, one = saved(action_of(menu, "Save as…").trigger, "rows.csv")

    assert len(text.splitlines()) == 8
    assert new_statements(report, one)


def test_command_says_so_where_there_is_no_table(
    window: MainWindow,
    opened: Callable[[Path], Document],
    qtbot: QtBot,
    saved: Saved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = opened(SAMPLE)
    settle(qtbot, document)
    _, written = saved(lambda: window.dialogs.save_table(), "a.csv")
    monkeypatch.setattr(window, "copying", list)
    window.actions_["file.save_table"].trigger()

    none = newest_message(window)
    problems = table_of(document, "problems")
    problems.rows.set_rows([])
    problems.save()
    empty = newest_message(window)

    assert new_statement(none, written)
    assert new_statement(empty, none)


@pytest.mark.parametrize(
    "view_id",
    [
        "statistics",
        "problems",
        "buffers",
        "bookmarks",
        "hot_cold",
        "details",
        "threads",
        "tokens",
        "roofline",
        "flags",
        "load",
    ],
)
def test_every_pane_with_rows_saves_them(
    window: MainWindow,
    opened: Callable[[Path], Document],
    qtbot: QtBot,
    saved: Saved,
    view_id: str,
) -> None:
    document = opened(experiment())
    session = document.session
    assert session.trace is not None
    session.selection.select_span(5)
    session.bookmarks.add("one")
    document.workspace.show_view(view_id)
    view = pane(document, view_id)
    settle(qtbot, document)
    sources = [view] if isinstance(view, Copyable) else view.findChildren(TextTable)

    def filled() -> list[TableFile]:
        tables = (source.table_file() for source in sources)
        return [table for table in tables if table is not None and table.n > 0]

    qtbot.waitUntil(lambda: bool(filled()), timeout=20_000)
    table = filled()[0]

    text, _ = saved(lambda: view.table_requested.emit(table), "rows.json")
    rows = json.loads(text)

    assert len(rows) == table.n > 0
    assert all(len(row) > 1 for row in rows)


def test_names_that_a_spreadsheet_would_run_are_defused(qtbot: QtBot) -> None:
    from PySide6.QtWidgets import QWidget

    parent = QWidget()
    qtbot.addWidget(parent)
    model = TextTableModel([Heading("name"), Heading("n")], parent)
    model.set_rows([(Cell("=1+1"), Cell("2", 2, 2)), (Cell("a\tb"), Cell("–", raw=""))])

    assert model.text([0, 1], "csv") == "name,n\n'=1+1,2\na\tb,\n"
    assert json.loads(model.text([0, 1], "json")) == [
        {"name": "=1+1", "n": 2},
        {"name": "a\tb", "n": None},
    ]
