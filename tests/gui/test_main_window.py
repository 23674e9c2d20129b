"""The window with real events: tabs, dropping, messages, full screen."""

import gc
import logging
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import (
    QMimeData,
    QPoint,
    QPointF,
    Qt,
    QTimer,
    QUrl,
)
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QTabBar, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from builders import llama_like_trace, npu_like_trace
from ggscope.errors import ReadError
from ggscope.gui import main_window
from ggscope.gui.app import ExceptionHook
from ggscope.gui.dialogs import window_dialogs
from ggscope.gui.dialogs.figure import FigureDialog
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.start import samples
from ggscope.gui.single_instance.client import OpenRequest
from ggscope.gui.status import StatusStrip
from ggscope.gui.widgets import ProgressBar
from ggscope.model.selection import Filter, MarkedRange
from ggscope.model.trace import ReadWarning, Severity
from ggscope.model.units import Clock, TimeRange
from ggscope.session.loader import LoadState, read_error
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from messages import clear, newest_message, toast
from pages import filter_popup
from panes import titles_of
from statements import new_statement, new_statements
from watchers import PaintCount

Opened = Callable[[Path], Document]


@pytest.fixture
def sample() -> Path:
    """Return the smallest bundled sample."""
    values = [p for p in samples() if p.name == "llama-demo.ggmlviz"]
    if not values:
        pytest.skip("the samples have not been made")
    return values[0]


def tab_bar(window: MainWindow) -> QTabBar:
    return next(b for b in window.findChildren(QTabBar) if b.isMovable())


def drop(window: MainWindow, *paths: Path) -> None:
    """Drop files onto the window, as a file manager does."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(p)) for p in paths])
    copy, left = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    none = Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPoint(300, 300), copy, data, left, none)
    window.dragEnterEvent(enter)
    assert enter.isAccepted()
    window.dropEvent(QDropEvent(QPointF(300, 300), copy, data, left, none))


def test_window_without_files_shows_the_start_page(window: MainWindow) -> None:
    assert window.start_page.isVisible()
    assert window.document is None


def test_opening_a_file_shows_it_and_remembers_it(
    window: MainWindow, opened: Opened, sample: Path, settings: Settings
) -> None:
    document = opened(sample)

    assert document.loader.state is LoadState.READY
    assert window.document is document
    assert sample.name in window.windowTitle()
    assert settings.files.recent == (str(sample.absolute()),)
    assert len(document.workspace.views("timeline")) == 1
    assert len(document.workspace.views("table")) == 1


@pytest.mark.parametrize("name", ["n" * 300, "/".join(["d" * 200] * 25)])
def test_dropped_path_that_is_too_long_is_reported(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, name: str
) -> None:
    drop(window, tmp_path / name)
    qtbot.waitUntil(lambda: window.documents[0].loader.state is LoadState.FAILED)

    error = read_error(window.documents[0].loader.failure)
    assert isinstance(error, ReadError)
    assert "too long" in error.text


def test_dropping_several_files_opens_a_tab_each(
    window: MainWindow, qtbot: QtBot, sample: Path, tmp_path: Path
) -> None:
    other = tmp_path / "ünï cödé & co.ggmlviz"
    other.write_bytes(sample.read_bytes())

    drop(window, sample, other)
    qtbot.waitUntil(
        lambda: (
            window.n_documents == 2
            and all(d.loader.state is LoadState.READY for d in window.documents)
        )
    )

    assert [d.path for d in window.documents] == [sample.absolute(), other]
    assert window.document is window.documents[1]


def test_opening_an_open_file_brings_its_tab_to_the_front(
    window: MainWindow, opened: Opened, sample: Path, tmp_path: Path
) -> None:
    other = tmp_path / "b.ggmlviz"
    other.write_bytes(sample.read_bytes())
    first = opened(sample)
    opened(other)

    opened(sample)

    assert window.n_documents == 2
    assert window.document is first


def test_tabs_step_close_and_end_on_the_start_page(
    window: MainWindow, opened: Opened, qtbot: QtBot, sample: Path, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{n}.ggmlviz" for n in "abc"]
    for path in paths:
        path.write_bytes(sample.read_bytes())
        opened(path)

    QTest.keyClick(window, Qt.Key.Key_Tab, Qt.KeyboardModifier.ControlModifier)
    assert window.document.path == paths[0]
    QTest.keyClick(window, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    assert window.n_documents == 2
    middle = tab_bar(window).tabRect(0).center()
    QTest.mouseClick(tab_bar(window), Qt.MouseButton.MiddleButton, pos=middle)
    assert [d.path for d in window.documents] == [paths[2]]
    window.close_current()

    assert window.start_page.isVisible()
    assert window.windowTitle() == "ggscope"


def test_palette_goes_with_the_tab_that_it_is_about(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    """A click on one of its entries would find the session deleted."""
    opened(sample)
    shift = Qt.KeyboardModifier.ShiftModifier
    QTest.keyClick(window, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier | shift)
    assert window.palette_.isVisible()

    window.close_current()

    assert not window.palette_.isVisible()
    assert window.palette_.model.entry(0) is None


def test_closed_tab_is_forgotten_without_the_collector(
    window: MainWindow, opened: Opened, sample: Path, qtbot: QtBot
) -> None:
    was_enabled = gc.isenabled()
    gc.disable()  # as in the program, where a timer collects now and then
    try:
        document = weakref.ref(opened(sample))
        session = weakref.ref(document().session)

        window.close_current()

        qtbot.waitUntil(lambda: document() is None and session() is None)
    finally:
        if was_enabled:
            gc.enable()


def test_failure_shows_in_the_window_and_not_on_stderr(
    window: MainWindow, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        window.report("out.png cannot be written")

    assert newest_message(window)
    assert [r.levelno for r in caplog.records if "out.png" in r.message] == [
        logging.INFO
    ]


def test_moved_tab_keeps_its_document(
    window: MainWindow, opened: Opened, sample: Path, tmp_path: Path
) -> None:
    for name in "abc":
        path = tmp_path / f"{name}.ggmlviz"
        path.write_bytes(sample.read_bytes())
        opened(path)

    tab_bar(window).moveTab(0, 2)

    assert [d.path.stem for d in window.documents] == ["b", "c", "a"]
    for position, document in enumerate(window.documents):
        tab_bar(window).setCurrentIndex(position)
        assert window.document is document


def test_close_button_of_a_tab_closes_that_tab(
    window: MainWindow, opened: Opened, sample: Path, tmp_path: Path
) -> None:
    other = tmp_path / "b.ggmlviz"
    other.write_bytes(sample.read_bytes())
    opened(sample)
    opened(other)

    side = QTabBar.ButtonPosition.RightSide
    button = tab_bar(window).tabButton(0, side)
    assert isinstance(button, QToolButton)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)

    assert [d.path for d in window.documents] == [other]


def test_missing_file_gives_an_error_page_with_a_way_out(
    window: MainWindow, opened: Opened, tmp_path: Path, sample: Path
) -> None:
    path = tmp_path / "later.ggmlviz"

    document = opened(path)

    assert document.loader.state is LoadState.FAILED
    assert document.problem_page.isVisible()
    assert "later.ggmlviz" in document.problem_page.head.text()
    assert document.problem_page.message.text()
    path.write_bytes(sample.read_bytes())
    QTest.mouseClick(document.problem_page.reload_button, Qt.MouseButton.LeftButton)
    document.session.tasks.became_idle.connect(lambda: None)
    opened(path)
    assert document.workspace.isVisible()


def test_unknown_format_offers_readers_and_copies_its_report(
    window: MainWindow, opened: Opened, tmp_path: Path, qapp: object
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 100)

    page = opened(path).problem_page
    QTest.mouseClick(page.copy_button, Qt.MouseButton.LeftButton)

    assert page.reader_button.isVisible()
    assert page.reader_button.menu().actions()
    copied = qapp.clipboard().text()
    assert "notes.txt" in copied
    assert page.message.text() in copied


def test_escape_clears_selection_then_search_then_full_screen(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    document = opened(sample)
    session = document.session
    window.toggle_full_screen()
    session.queries.search("a")
    session.selection.select_span(0)
    session.ranges.set_marked(MarkedRange(TimeRange(0, 10)))

    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert not session.selection.current
    assert session.ranges.marked is None
    assert session.queries.text == "a"
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert session.queries.text == ""
    assert document.workspace.full_cell is not None
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert document.workspace.full_cell is None


def test_full_screen_hides_all_else_and_comes_back_the_same(
    window: MainWindow, opened: Opened, sample: Path, qtbot: QtBot
) -> None:
    document = opened(sample)
    workspace = document.workspace
    qtbot.wait(20)
    before = [cell.geometry() for cell in workspace.cells]

    QTest.keyClick(window, Qt.Key.Key_F11)
    assert workspace.full_cell is workspace.cells[0]
    assert not workspace.cells[1].isVisible()
    assert not workspace.details.isVisible()
    assert not document.toolbar.isVisible()
    assert not window.menuBar().isVisible()
    QTest.keyClick(window, Qt.Key.Key_F11)
    window.resize(1280, 800)
    qtbot.waitUntil(lambda: [c.geometry() for c in workspace.cells] == before)

    assert document.toolbar.isVisible()
    assert not window.isFullScreen()


def test_fault_in_a_view_puts_a_panel_in_its_place(
    window: MainWindow, opened: Opened, sample: Path, qtbot: QtBot
) -> None:
    workspace = opened(sample).workspace
    host = workspace.cells[0]
    view = host.view

    class BugError(Exception):
        pass

    def fail(self: object) -> None:
        raise BugError("inside")

    try:
        fail(view)
    except BugError as error:
        ExceptionHook(window)(BugError, error, error.__traceback__)
    qtbot.waitUntil(lambda: host.error_panel is not None)

    assert host.view is None
    assert "inside" in host.error_panel.report
    assert workspace.cells[1].view is not None
    QTest.mouseClick(host.error_panel.retry_button, Qt.MouseButton.LeftButton)
    assert host.error_panel is None
    assert host.view is not None
    assert host.view is not view


def test_fault_elsewhere_shows_a_bar_and_copies_the_report(
    window: MainWindow, qapp: object, qtbot: QtBot
) -> None:
    def after(error: Exception) -> str:
        ExceptionHook(window)(type(error), error, error.__traceback__)
        qtbot.waitUntil(lambda: bool(newest_message(window)))
        return newest_message(window)

    lack = after(MemoryError())
    clear(window)
    fault = after(ValueError("odd"))

    assert "ValueError: odd" in fault
    assert new_statement(fault, lack)
    QTest.mouseClick(toast(window).buttons[0], Qt.MouseButton.LeftButton)
    assert "ValueError: odd" in qapp.clipboard().text()


def test_closing_the_window_stops_reading(
    window: MainWindow, sample: Path, settings: Settings
) -> None:
    document = window.open_path(sample)

    window.close()

    assert document.session.trace is None
    assert window.n_documents == 0
    assert settings.window.geometry


def test_search_field_counts_and_steps(
    window: MainWindow, opened: Opened, sample: Path, qtbot: QtBot
) -> None:
    document = opened(sample)
    field = document.toolbar.search
    QTest.keyClick(window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert field.edit.hasFocus()

    QTest.keyClicks(field.edit, "w")
    QTest.keyClick(field.edit, Qt.Key.Key_Backspace)
    QTest.keyClicks(field.edit, "t")
    QTest.keyClick(field.edit, Qt.Key.Key_Return)

    n = document.session.queries.n_hits
    assert n > 0
    assert field.count.text() == f"1 of {n}"
    QTest.keyClick(field.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert field.count.text() == f"{n} of {n}"
    QTest.keyClick(field.edit, Qt.Key.Key_Escape)
    assert field.edit.text() == ""
    assert document.session.queries.hits is None
    assert not field.edit.hasFocus()


def test_chips_show_and_remove_parts_of_the_filter(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    document = opened(sample)
    chips = document.toolbar.chips
    document.session.queries.set_filter(
        Filter(layers=frozenset({0, 1}), text="x", min_duration=5)
    )
    assert len(chips.chips) == 3

    part = chips.chips[0].part
    QTest.mouseClick(chips.chips[0].close_button, Qt.MouseButton.LeftButton)

    assert len(chips.chips) == 2
    assert getattr(document.session.queries.filter, part) == getattr(Filter(), part)


def test_chips_that_do_not_fit_are_behind_a_number(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    document = opened(sample)
    window.resize(660, 600)
    document.session.queries.set_filter(
        Filter(
            ops=frozenset({"A" * 60}),
            layers=frozenset({0, 1}),
            tokens=frozenset({5}),
            text="some long text to look for",
            min_duration=5,
        )
    )

    shown = [chip for chip in document.toolbar.chips.chips if chip.isVisible()]
    assert len(shown) < 5
    assert window.width() == 660


def test_filter_popup_takes_an_expression(
    window: MainWindow, opened: Opened, sample: Path, qtbot: QtBot
) -> None:
    document = opened(sample)
    document.show_filter_popup()
    popup = filter_popup(document)
    QTest.keyClicks(popup.edit, "layer=")
    QTest.keyClick(popup.edit, Qt.Key.Key_Return)
    assert popup.problem.isVisible()

    popup.edit.setText("layer=0-3 dur>1us")
    QTest.keyClick(popup.edit, Qt.Key.Key_Return)

    assert document.session.queries.filter.layers == frozenset(range(4))
    assert document.session.queries.filter.min_duration is not None
    assert filter_popup(document) is None


def test_filter_popup_lists_what_occurs(
    window: MainWindow, opened: Opened, sample: Path, qtbot: QtBot
) -> None:
    document = opened(sample)
    document.show_filter_popup()
    popup = filter_popup(document)
    popup.field.setCurrentIndex(4)
    qtbot.waitUntil(lambda: popup.list.item(0).text() != "…")

    popup.list.item(0).setCheckState(Qt.CheckState.Checked)

    assert document.session.queries.filter.threads == frozenset(
        {popup.list.item(0).text()}
    )
    popup.close()


def test_status_names_file_range_and_problems(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    status = opened(sample).status

    assert sample.name in status.file.full_text
    assert "records" in status.file.full_text
    assert status.range.full_text.startswith("range ")
    assert status.problems.text()
    assert status.renderer.text()


def test_status_leaves_out_what_would_be_cut(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    status = opened(sample).status
    window.resize(1400, 800)
    assert status.memory.isVisible()
    assert status.renderer.isVisible()

    window.resize(780, 500)

    assert not status.memory.isVisible()
    assert not status.renderer.isVisible()
    for shown in (status.ops, status.problems):
        assert shown.width() >= shown.sizeHint().width()


def test_status_counts_problems_of_each_severity_apart(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    document = opened(sample)
    trace = document.session.trace
    assert trace is not None
    severities = [Severity.ERROR, *[Severity.NOTICE] * 2, Severity.INFO]
    warnings = tuple(ReadWarning(s, f"w{n}", "") for n, s in enumerate(severities))
    window.resize(1400, 800)

    document.session.set_trace(replace(trace, warnings=warnings))
    assert document.status.problems.text() == "▲ 1 error, 2 notices"
    assert document.status.problems.property("level") == "error"
    window.resize(900, 600)
    problems = document.status.problems
    assert problems.text() == "▲ 1 error +2"
    assert problems.accessibleName() == "1 error, 2 notices"
    document.session.set_trace(replace(trace, warnings=warnings[1:]))
    assert document.status.problems.text() == "▲ 2 notices"
    assert document.status.problems.property("level") == "caution"
    document.session.set_trace(replace(trace, warnings=warnings[3:]))
    assert document.status.problems.text() == "1 note"
    assert document.status.problems.property("level") == ""


def test_status_problems_open_the_drawer(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    document = opened(sample)
    document.workspace.drawer.set_open(False)

    QTest.mouseClick(document.status.problems, Qt.MouseButton.LeftButton)

    assert document.workspace.drawer.is_open
    assert document.workspace.drawer.tab == "problems"


def test_huge_names_do_not_widen_the_window(
    window: MainWindow, opened: Opened, sample: Path, tmp_path: Path
) -> None:
    path = tmp_path / ("very-long-name-" * 15 + ".ggmlviz")
    path.write_bytes(sample.read_bytes())
    window.resize(700, 500)

    opened(path)

    assert window.width() == 700
    assert window.minimumSizeHint().width() <= 700


def test_status_counts_notes_where_there_is_nothing_worse(
    qtbot: QtBot, window: MainWindow
) -> None:
    session = Session()
    strip = StatusStrip(session)
    qtbot.addWidget(strip)
    trace = llama_like_trace(tokens=1, layers=1)
    note = ReadWarning(
        code="a_note", message="Something to know.", severity=Severity.INFO
    )

    session.set_trace(replace(trace, pending=frozenset({"spans"})))
    assert strip.problems.text() == "no problems yet"
    session.set_trace(trace)
    assert strip.problems.text() == "no problems"
    session.set_trace(replace(trace, warnings=(note,)))
    assert strip.problems.text() == "1 note"
    session.set_trace(replace(trace, warnings=(note, note)))
    assert strip.problems.text() == "2 notes"
    session.close()


def test_step_of_a_progress_bar_paints_nothing_at_once(qtbot: QtBot) -> None:
    bar = ProgressBar("Progress")
    qtbot.addWidget(bar)
    bar.show()
    qtbot.waitExposed(bar)
    watched = PaintCount(bar)

    for done in (0, 100, 500, 1000):
        bar.show_share(done, 1000)
        assert watched.n == 0

    qtbot.waitUntil(lambda: watched.n > 0)
    assert bar.value() == 1000
    bar.show_share(0, 0)
    assert bar.maximum() == 0


def test_reduced_motion_stops_what_moves_by_itself(
    window: MainWindow, qapp: QApplication
) -> None:
    menu = Qt.UIEffect.UI_AnimateMenu

    window.settings.change("appearance", reduced_motion=True)
    assert not qapp.isEffectEnabled(menu)
    assert qapp.cursorFlashTime() == 0
    assert "widget-animation-duration: 0" in qapp.styleSheet()

    window.settings.change("appearance", reduced_motion=False)
    assert qapp.cursorFlashTime() > 0
    assert "widget-animation-duration" not in qapp.styleSheet()


def test_font_scale_reaches_the_painted_views(
    window: MainWindow, opened: Opened, sample: Path, qtbot: QtBot
) -> None:
    window.resize(1280, 1500)  # high enough for the whole overview at 200 %
    document = opened(sample)
    overview = document.workspace.overview
    before = overview.height()

    window.settings.change("appearance", font_scale=200)

    timeline = document.workspace.views("timeline")[0]
    assert timeline.canvas_size().width() <= timeline.width() / 2 + 1
    qtbot.waitUntil(lambda: overview.height() == 2 * before)


def test_stalls_are_left_out_by_a_command(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    document = opened(sample)
    assert document.session.display.shows_stalls

    window.actions_["view.stalls"].trigger()

    assert not document.session.display.shows_stalls
    assert not window.settings.drawing.shows_stalls
    assert not window.actions_["view.stalls"].isChecked()


def test_time_formats_say_cycles_where_the_trace_counts_them(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    document = opened(sample)
    combo = document.toolbar.time
    assert combo.itemText(0) == "time from start"

    document.session.set_trace(npu_like_trace())

    assert [combo.itemText(i) for i in range(2)] == [
        "cycles from start",
        "absolute cycles",
    ]

    dated = replace(llama_like_trace(), clock=Clock.of_stamps(1_700_000_000 * 10**9))
    document.session.set_trace(dated)
    assert combo.itemText(1) == "time of day (UTC)"
    document.session.display.set_absolute_time(True)
    assert " UTC (" in document.status.range.text()


def test_figure_of_any_pane_is_written_beside_the_trace_on_a_worker(
    window: MainWindow,
    opened: Callable[[Path], Document],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names without a suffix get that of the chosen filter."""
    proposed: list[tuple[str, str]] = []

    def ask(
        _parent: QWidget, _title: str, name: str, filters: str, *_: object
    ) -> tuple[str, str]:
        proposed.append((Path(name).name, filters))
        return str(tmp_path / "my figure"), "DOT graph (*.dot)"

    monkeypatch.setattr(QFileDialog, "getSaveFileName", ask)
    folder = next(p for p in samples() if p.is_dir())
    document = opened(folder)
    document.workspace.show_view("graph")
    view = document.workspace.views("graph")[0]
    qtbot.waitUntil(lambda: view.figure() is not None)

    view.figure_requested.emit(view.figure())
    (dialog,) = window.findChildren(FigureDialog)
    assert dialog.view.currentText() == "Graph"
    qtbot.waitUntil(lambda: dialog.preview is not None)
    QTest.mouseClick(dialog.export, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: newest_message(window) == "Saved my figure.dot.")
    dialog.close()

    assert "digraph" in (tmp_path / "my figure.dot").read_text("utf-8")
    assert proposed[0][0] == f"{folder.stem}.graph.png"
    assert "PNG picture (*.png)" in proposed[0][1]


def test_picture_of_the_view_used_last_is_copied(
    qtbot: QtBot, window: MainWindow, opened: Opened, sample: Path, monkeypatch
) -> None:
    document = opened(sample)
    (view,) = document.workspace.views("timeline")
    figure = view.figure()
    assert figure is not None

    titles = titles_of(document.session, monkeypatch)
    document.session.navigator.step_token(1)
    before, without = newest_message(window), "\n".join(titles)
    window.actions_["edit.copy_picture"].trigger()
    while_drawn = newest_message(window)
    qtbot.waitUntil(lambda: "Copied the picture" in newest_message(window))

    assert QGuiApplication.clipboard().image() == figure.image()
    assert new_statement(newest_message(window), before + while_drawn)
    assert new_statement("\n".join(titles), without)


def test_name_that_gets_a_suffix_is_asked_about_where_it_is_taken(
    window: MainWindow, opened: Opened, sample: Path, tmp_path: Path, monkeypatch
) -> None:
    document = opened(sample)
    (view,) = document.workspace.views("timeline")
    figure, questions = view.figure(), []
    chosen = str(tmp_path / "picture"), "PNG picture (*.png)"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: chosen)
    monkeypatch.setattr(
        window_dialogs, "ask_yes", lambda _, text: bool(questions.append(text))
    )

    def question() -> str:
        questions.clear()
        window_dialogs.ask_path(figure, document, window.settings, window)
        return "\n".join(questions)

    free = question()
    (tmp_path / "picture.png").write_bytes(b"precious")
    assert new_statements(question(), free)


def test_dialogs_for_files_delete_and_rename_nothing(
    qtbot: QtBot, window: MainWindow, opened: Opened, sample: Path
) -> None:
    opened(sample)
    dialogs: list[tuple[str, bool]] = []

    def look() -> None:
        dialog = QApplication.activeModalWidget()
        if isinstance(dialog, QFileDialog):
            is_read_only = dialog.testOption(QFileDialog.Option.ReadOnly)
            dialogs.append((dialog.windowTitle(), is_read_only))
            dialog.reject()

    timer = QTimer()
    timer.timeout.connect(look)
    timer.start(20)
    for command in ("file.open", "file.open_folder", "file.add", "file.export"):
        window.actions_[command].trigger()
    (figure,) = window.findChildren(FigureDialog)
    qtbot.waitUntil(figure.export.isEnabled)
    qtbot.waitUntil(lambda: figure.preview is not None)
    QTest.mouseClick(figure.export, Qt.MouseButton.LeftButton)
    timer.stop()
    figure.close()

    titles = ["Open traces", "Open folder", "Add to session", "Export figure"]
    assert dialogs == [(title, True) for title in titles]


def test_tabs_leave_no_references_to_the_dialogs_of_the_window(
    window: MainWindow, opened: Opened, sample: Path
) -> None:
    def n_references() -> int:
        return len(weakref.getweakrefs(window.dialogs))

    window.close_document(opened(sample))
    before = n_references()
    for _ in range(3):
        window.close_document(opened(sample))

    # PySide keeps a reference for each signal that calls a method of a plain object.
    assert n_references() <= before


def test_first_tab_is_made_when_what_it_needs_is_imported(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Callable[[], object]] = []
    opened: list[object] = []
    monkeypatch.setattr(main_window, "later", lambda _, call: call())
    monkeypatch.setattr(main_window, "import_tab", lambda _, then: waiting.append(then))
    monkeypatch.setattr(window, "open_paths", lambda *given: opened.append(given))

    window.open_soon([Path("a.bin")], None)
    imported_first = not opened and len(waiting) == 1
    waiting.pop()()

    assert imported_first
    assert opened == [([Path("a.bin")], None)]


def test_what_is_handed_over_while_the_first_tab_is_imported_opens_behind_it(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Callable[[], object]] = []
    opened: list[str] = []
    monkeypatch.setattr(main_window, "later", lambda _, call: call())
    monkeypatch.setattr(main_window, "import_tab", lambda _, then: waiting.append(then))
    monkeypatch.setattr(
        window, "open_paths", lambda paths, _: opened.extend(p.name for p in paths)
    )

    window.open_soon([Path("own")], None, lambda: opened.append("live"))
    window.open_request(OpenRequest((Path("handed"),)))
    early = list(opened)
    waiting.pop()()
    qtbot.waitUntil(lambda: len(opened) == 3)

    assert early == []
    assert opened == ["own", "live", "handed"]
