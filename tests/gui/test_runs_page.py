"""A folder of several runs in the window: its table, and what is opened from it."""

from pathlib import Path

import pytest
from PySide6.QtCore import QItemSelectionModel, QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QLineEdit, QMenu
from pytestqt.qtbot import QtBot

import recordings
from ggscope.analysis.compare.compare import Comparison
from ggscope.gui.dialogs.sides import SidesDialog
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.runs import RunsPage
from ggscope.readers.discovery import run_folder
from ggscope.run_summaries import RunSummary, whole_summary
from ggscope.session.loader import LoadState
from ggscope.views.compare.view import CompareView
from pages import RunsTablePage
from panes import settle

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of three recordings, a damaged trace and a foreign file."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for threads in ("1", "2", "4"):
        command = ["/bin/llama", "-m", "x.gguf", "-t", threads]
        recordings.recording(
            folder, f"t{threads}", command=command, **recordings.requests()
        )
    (folder / "bad.ggmlviz").write_bytes(b"GGMLVIZ1")
    (folder / "notes.txt").write_text("no trace")
    return folder


@pytest.fixture
def document(window: MainWindow, folder: Path, qtbot: QtBot) -> Document:
    made = window.open_path(folder)
    state = LoadState.SEVERAL_RUNS
    qtbot.waitUntil(lambda: made.loader.state is state, timeout=20_000)
    qtbot.waitUntil(lambda: made.session.tasks.is_idle, timeout=20_000)
    return made


@pytest.fixture
def page(document: Document) -> RunsPage:
    return document.runs_page


def names(page: RunsPage) -> list[str]:
    return [str(page.model.index(r, 0).data()) for r in range(page.model.rowCount())]


def text(page: RunsPage, name: str, title: str) -> str:
    titles = [heading.title for heading in page.model.headings]
    row = names(page).index(name)
    return page.model.row(row)[titles.index(title)].text


def choose(page: RunsPage, *chosen: str) -> None:
    page.table.clearSelection()
    flag = QItemSelectionModel.SelectionFlag
    for name in chosen:
        index = page.model.index(names(page).index(name), 0)
        page.table.selectionModel().select(index, flag.Select | flag.Rows)


def test_folder_of_runs_opens_as_a_table(
    document: Document, page: RunsPage, folder: Path
) -> None:
    assert page.isVisible()
    assert RunsTablePage(page).heading == "4 runs in runs"
    assert RunsTablePage(page).state == ""
    assert names(page) == ["bad.ggmlviz", "t1.bin", "t2.bin", "t4.bin"]
    assert text(page, "t2.bin", "differs in") == "-t 2"
    assert text(page, "bad.ggmlviz", "recording") == "error"
    assert document.session.trace is None
    for row in range(1, 4):
        run = page.model.payload(row)
        assert isinstance(run, RunSummary)
        assert run.is_read
        assert run.families


def test_table_sorts_by_any_column(page: RunsPage) -> None:
    titles = [heading.title for heading in page.model.headings]

    page.table.sortByColumn(titles.index("run"), Qt.SortOrder.DescendingOrder)
    assert names(page) == ["t4.bin", "t2.bin", "t1.bin", "bad.ggmlviz"]

    page.table.sortByColumn(titles.index("size"), Qt.SortOrder.AscendingOrder)
    assert names(page)[0] == "bad.ggmlviz"


def test_search_lists_runs_by_name_and_command(page: RunsPage) -> None:
    find = page.findChild(QLineEdit, "runs_find")
    assert find is not None

    find.setText("-t 4")
    assert names(page) == ["t4.bin"]
    find.setText("/(/")
    assert names(page) == []
    find.clear()
    assert len(names(page)) == 4


def test_enter_and_double_click_open_a_run(
    window: MainWindow, page: RunsPage, folder: Path, qtbot: QtBot
) -> None:
    page.table.setFocus()
    page.table.selectRow(names(page).index("t1.bin"))
    QTest.keyClick(page.table, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.n_documents == 2)
    index = page.model.index(names(page).index("t2.bin"), 0)
    page.table.doubleClicked.emit(index)
    qtbot.waitUntil(lambda: window.n_documents == 3)

    opened = [document.path for document in window.documents[1:]]
    assert opened == [folder / "t1.bin", folder / "t2.bin"]
    for document in window.documents[1:]:
        settle(qtbot, document)


def test_tabs_of_recordings_are_named_by_what_differs(
    window: MainWindow, page: RunsPage, qtbot: QtBot
) -> None:
    choose(page, "t1.bin", "t4.bin")
    QTest.mouseClick(page.open_button, LEFT)
    qtbot.waitUntil(lambda: window.n_documents == 3)
    documents = window.documents[1:]
    for document in documents:
        qtbot.waitUntil(lambda d=document: d.loader.state is LoadState.READY)
        settle(qtbot, document)

    titles = [document.title for document in documents]
    assert titles == ["t1.bin · -t 1", "t4.bin · -t 4"]

    window.close_document(documents[1])
    assert documents[0].title == "t1.bin"


def test_two_rows_are_compared_in_the_tab_of_the_first(
    window: MainWindow, page: RunsPage, folder: Path, qtbot: QtBot
) -> None:
    assert not page.compare_button.isEnabled()
    choose(page, "t1.bin")
    assert not page.compare_button.isEnabled()
    window.open_path(folder / "t4.bin")  # a third tab, which is not meant
    qtbot.waitUntil(lambda: window.documents[1].loader.state is LoadState.READY)
    choose(page, "t1.bin", "t2.bin")
    assert page.compare_button.isEnabled()

    page.compare_button.click()
    qtbot.waitUntil(lambda: window.n_documents == 4)
    first = window.documents[2]

    def compared() -> bool:
        views = first.workspace.views("compare")
        boxes = [view.findChild(QComboBox, "compare_run") for view in views]
        return any(b is not None and b.currentText().startswith("t2") for b in boxes)

    qtbot.waitUntil(compared, timeout=20_000)
    assert window.document is first
    assert first.path == folder / "t1.bin"
    for document in window.documents[1:]:
        settle(qtbot, document)


@pytest.fixture
def folder_of_sides(tmp_path: Path) -> Path:
    """Return a folder of two folders of three runs each, one of them damaged."""
    folder = tmp_path / "set"
    for side, threads in (("a", "1"), ("b", "2")):
        (folder / side).mkdir(parents=True)
        command = ["/bin/llama", "-m", "x.gguf", "-t", threads]
        for number in ("1", "2", "3"):
            recordings.recording(
                folder / side, number, command=command, **recordings.requests()
            )
    (folder / "b" / "4.ggmlviz").write_bytes(b"GGMLVIZ1")
    return folder


def sides_dialog(page: RunsPage, qtbot: QtBot) -> SidesDialog:
    """Select all rows and press the button; return the dialog that it opens."""
    page.table.selectAll()
    QTest.mouseClick(page.compare_button, LEFT)
    dialog = page.window().findChild(SidesDialog)
    assert dialog is not None
    qtbot.waitExposed(dialog)
    return dialog


def sides_of(dialog: SidesDialog) -> list[str]:
    return [str(box.currentData()) for box in dialog.boxes]


def opened_page(window: MainWindow, folder: Path, qtbot: QtBot) -> RunsPage:
    made = window.open_path(folder)
    state = LoadState.SEVERAL_RUNS
    qtbot.waitUntil(lambda: made.loader.state is state, timeout=20_000)
    qtbot.waitUntil(lambda: made.session.tasks.is_idle, timeout=20_000)
    return made.runs_page


def test_many_rows_are_compared_as_two_sides(
    window: MainWindow, folder_of_sides: Path, qtbot: QtBot
) -> None:
    page = opened_page(window, folder_of_sides, qtbot)
    dialog = sides_dialog(page, qtbot)
    assert sides_of(dialog) == ["A", "A", "A", "B", "B", "B", ""]
    assert not dialog.boxes[-1].isEnabled()

    dialog.boxes[2].setCurrentIndex(dialog.boxes[2].findData(""))
    QTest.mouseClick(dialog.swap_button, LEFT)
    assert sides_of(dialog) == ["B", "B", "", "A", "A", "A", ""]
    QTest.mouseClick(dialog.compare_button, LEFT)

    qtbot.waitUntil(lambda: window.n_documents == 2)
    first = window.documents[1]
    assert first.path == folder_of_sides / "b" / "1.bin"

    def result() -> Comparison | None:
        (view,) = first.workspace.views("compare")
        assert isinstance(view, CompareView)
        return view.result

    qtbot.waitUntil(lambda: first.loader.state is LoadState.READY, timeout=20_000)
    qtbot.waitUntil(lambda: len(first.workspace.views("compare")) == 1)
    qtbot.waitUntil(lambda: result() is not None, timeout=20_000)
    comparison = result()
    assert comparison is not None
    assert (comparison.n_a, len(comparison.alignment.runs)) == (3, 5)
    (view,) = first.workspace.views("compare")
    assert isinstance(view, CompareView)
    assert view.run_box.currentText() == "a (2 runs)"
    assert view.own_box.currentText() == "b (3 runs)"

    view.own_box.setCurrentIndex(0)  # and back to this run alone
    view.own_box.activated.emit(0)
    qtbot.waitUntil(
        lambda: (now := result()) is not None and now.n_a == 1, timeout=20_000
    )
    settle(qtbot, first)


def test_sides_are_left_by_cancel_and_need_a_run_each(
    window: MainWindow, folder_of_sides: Path, qtbot: QtBot
) -> None:
    page = opened_page(window, folder_of_sides, qtbot)
    dialog = sides_dialog(page, qtbot)
    for box in dialog.boxes[:3]:
        box.setCurrentIndex(box.findData("B"))
    assert not dialog.compare_button.isEnabled()

    QTest.keyClick(dialog, Qt.Key.Key_Escape)

    assert not dialog.isVisible()
    assert window.n_documents == 1
    assert len(page.selected()) == 7


def test_all_runs_can_be_read_as_one_session(
    document: Document, page: RunsPage, qtbot: QtBot
) -> None:
    QTest.mouseClick(page.join_button, LEFT)
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY, timeout=20_000)
    settle(qtbot, document)

    trace = document.session.trace
    assert trace is not None
    assert sum(part.role == "trace" for part in trace.parts) == 3
    assert document.workspace.isVisible()


def test_folder_of_one_run_opens_as_its_session(
    window: MainWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    one = tmp_path / "one"
    one.mkdir()
    recordings.recording(one)

    document = window.open_path(one)
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY, timeout=20_000)
    settle(qtbot, document)

    assert document.workspace.isVisible()
    assert document.session.trace is not None


def test_reading_can_be_stopped_and_goes_on(
    document: Document, page: RunsPage, qtbot: QtBot
) -> None:
    QTest.mouseClick(page.join_button, LEFT)  # and back, to begin anew
    document.loader.open()
    qtbot.waitUntil(lambda: document.loader.state is LoadState.SEVERAL_RUNS)
    document.session.tasks.cancel("runs")

    if page.read_button.isVisible():  # it may be done before
        assert "stopped" in RunsTablePage(page).state
        QTest.mouseClick(page.read_button, LEFT)
    qtbot.waitUntil(lambda: document.session.tasks.is_idle, timeout=20_000)

    known = [page.model.payload(row) for row in range(page.model.rowCount())]
    assert all(isinstance(run, RunSummary) and run.is_read for run in known)


def test_selection_stays_while_rows_come(
    document: Document, page: RunsPage, folder: Path, qtbot: QtBot
) -> None:
    choose(page, "t2.bin", "t4.bin")
    page.find_line.setText("t")

    page.find_line.setText("")
    page.table.sortByColumn(0, Qt.SortOrder.DescendingOrder)

    assert [run.path.name for run in page.selected()] == ["t4.bin", "t2.bin"]


def test_rows_are_copied_and_saved_with_plain_numbers(
    page: RunsPage, folder: Path
) -> None:
    page.table.clearSelection()
    page.copy_tsv()
    head, *lines = QGuiApplication.clipboard().text().splitlines()
    column = head.split("\t").index("generated")
    values = {line.split("\t")[0]: line.split("\t")[column] for line in lines}

    for run in run_folder(folder).runs:
        expected = whole_summary(run).generated
        plain = "" if expected is None else str(expected)
        assert values[run.path.name] == plain
    page.copy_markdown()
    assert QGuiApplication.clipboard().text().startswith("| run")
    file = page.table_file()
    assert file is not None
    assert file.n == 4


def test_menu_copies_path_and_command(page: RunsPage, folder: Path) -> None:
    menu = QMenu(page)
    choose(page, "t4.bin")
    page.table.menu_requested.emit(menu, names(page).index("t4.bin"))
    actions = {action.text(): action for action in menu.actions()}

    actions["Copy path"].trigger()
    assert QGuiApplication.clipboard().text() == str(folder / "t4.bin")
    actions["Copy command"].trigger()
    assert QGuiApplication.clipboard().text() == "/bin/llama -m x.gguf -t 4"
    assert not actions["Compare"].isEnabled()

    menu = QMenu(page)
    page.table.selectAll()
    page.table.menu_requested.emit(menu, 0)
    assert {a.text(): a for a in menu.actions()}["Compare as sides…"].isEnabled()


def test_folder_is_recent_and_closes_while_it_reads(
    window: MainWindow, document: Document, folder: Path
) -> None:
    assert str(folder) in window.settings.files.recent

    document.runs_page.show_runs(run_folder(folder))
    window.close_document(document)

    assert window.n_documents == 0


def test_dropped_recordings_open_in_tabs_named_by_what_differs(
    window: MainWindow, folder: Path, qtbot: QtBot
) -> None:
    data = QMimeData()
    files = ("t1.bin", "t1.json", "t2.bin")
    data.setUrls([QUrl.fromLocalFile(str(folder / name)) for name in files])
    copy, none = Qt.DropAction.CopyAction, Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPointF(300, 300), copy, data, LEFT, none))

    qtbot.waitUntil(lambda: window.n_documents == 2, timeout=20_000)
    for document in window.documents:
        qtbot.waitUntil(lambda d=document: d.loader.state is LoadState.READY)
        settle(qtbot, document)
    titles = [document.title for document in window.documents]
    assert titles == ["t1.bin · -t 1", "t2.bin · -t 2"]
