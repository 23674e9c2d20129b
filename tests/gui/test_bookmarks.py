"""The pane of bookmarks, and that they are there after reopening."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QModelIndex, QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from ggscope.gui.dialogs.dialogs import BookmarkDialog, NameDialog
from ggscope.gui.document import Document
from ggscope.gui.document import document as document_module
from ggscope.gui.main_window import MainWindow
from ggscope.model.selection import MarkedRange
from ggscope.model.units import TimeRange
from ggscope.render.theme import theme
from ggscope.session.bookmarks import files
from ggscope.session.bookmarks.files import side_car
from ggscope.session.loader import LoadState
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.views.base.canvas import RasterCanvas
from ggscope.views.bookmarks import NAME, NOTE, BookmarksView
from messages import clear, newest_message, toast
from pages import Page
from statements import new_statements
from support import ROOT

DEMO = ROOT / "resources" / "samples" / "llama-demo.ggmlviz"
SAMPLE = ROOT / "resources" / "samples" / "llama.ggmlviz"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return settings with a data folder, as a person's are."""
    return Settings(MemoryStore(), data_folder=tmp_path / "data")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "traces").mkdir()
    return Path(shutil.copy(SAMPLE, tmp_path / "traces" / "run.ggmlviz"))


@pytest.fixture
def document(opened: Callable[[Path], Document], trace: Path, qtbot: QtBot) -> Document:
    made = opened(trace)
    keeper = made.bookmarks.keeper
    qtbot.waitUntil(lambda: keeper.is_read)
    return made


@pytest.fixture
def session(document: Document) -> Session:
    return document.session


@pytest.fixture
def view(document: Document) -> BookmarksView:
    document.workspace.show_view("bookmarks")
    (view,) = document.workspace.views("bookmarks")
    assert isinstance(view, BookmarksView)
    QAbstractItemModelTester(
        view.model, QAbstractItemModelTester.FailureReportingMode.Fatal, view
    )
    return view


def names(session: Session) -> list[str]:
    return [b.name for b in session.bookmarks.items]


def editor_of(view: BookmarksView) -> QLineEdit:
    values = [e for e in view.table.findChildren(QLineEdit) if e.isVisible()]
    return values[-1]


def fill(session: Session, *names: str) -> None:
    for number, name in enumerate(names):
        time = TimeRange(number * 1_000_000, number * 1_000_000 + 500_000)
        session.bookmarks.add(name, time)


def wait_saved(qtbot: QtBot, document: Document) -> None:
    keeper = document.bookmarks.keeper
    qtbot.waitUntil(lambda: not keeper.is_saving, timeout=10_000)


def test_empty_pane_says_how_to_make_one(view: BookmarksView) -> None:
    assert "Ctrl+D" in Page(view).placeholder
    assert Page(view).is_empty
    assert not view.delete_button.isEnabled()


def test_rows_follow_the_bookmarks(view: BookmarksView, session: Session) -> None:
    session.bookmarks.add("<b>range</b>", TimeRange(1_000_000, 3_500_000))
    session.bookmarks.add("point", TimeRange(2_000_000, 2_000_000))
    session.bookmarks.add("mark", TimeRange(5, 5), permanent=False)

    texts = [[cell.text for cell in view.model.row(row)] for row in range(3)]
    assert [row[0] for row in texts] == ["Alt+1", "Alt+2", "Alt+3"]
    assert texts[0][1:4] == ["<b>range</b>", "1.000 ms", "2.500 ms"]
    assert texts[1][3] == "point"
    tips = [
        view.model.data(view.model.index(row, NAME), Qt.ItemDataRole.ToolTipRole)
        for row in range(3)
    ]
    assert new_statements(tips[2], "\n".join(tips[:2]))


def test_keys_are_reported_of_the_first_nine_bookmarks(session: Session) -> None:
    messages: list[str] = []
    session.status_message.connect(messages.append)
    fill(session, *"abcdefghij")

    assert ["(Alt+" in message for message in messages] == [True] * 9 + [False]
    assert "(Alt+9)" in messages[8]


def test_changed_note_is_distinguished_from_a_changed_name(session: Session) -> None:
    fill(session, "a")
    messages: list[str] = []
    session.status_message.connect(messages.append)
    session.bookmarks.set_name(0, "b")
    session.bookmarks.undo()
    renamed = "\n".join(messages)
    messages.clear()
    session.bookmarks.set_note(0, "here")
    session.bookmarks.undo()

    assert new_statements("\n".join(messages), renamed)


def test_keys_rename_note_move_delete_and_undo(
    view: BookmarksView, session: Session, qtbot: QtBot
) -> None:
    fill(session, "a", "b", "c")
    view.table.setFocus()
    view.table.setCurrentIndex(view.model.index(0, NAME))

    QTest.keyClick(view.table, Qt.Key.Key_F2)
    editor = editor_of(view)
    QTest.keyClicks(editor, "first")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: names(session) == ["first", "b", "c"])
    view.table.setCurrentIndex(view.model.index(1, NOTE))
    QTest.keyClick(view.table, Qt.Key.Key_F2)
    editor = editor_of(view)
    QTest.keyClicks(editor, "why")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: session.bookmarks.items[1].note == "why")

    QTest.keyClick(view.table, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert names(session) == ["first", "c", "b"]
    QTest.keyClick(view.table, Qt.Key.Key_Delete)
    assert names(session) == ["first", "c"]
    for expected in (["first", "c", "b"], ["first", "b", "c"]):
        QTest.keyClick(view.table, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        assert names(session) == expected


def test_new_bookmark_is_asked_for_its_name_and_a_note(
    window: MainWindow, document: Document, session: Session, qtbot: QtBot
) -> None:
    document.focus_views()
    QTest.keyClick(window, Qt.Key.Key_M, Qt.KeyboardModifier.ShiftModifier)
    (dialog,) = window.findChildren(BookmarkDialog)
    assert dialog.width() >= 420  # else the window manager cuts its title

    QTest.keyClicks(dialog.name, "slow token")
    QTest.keyClicks(dialog.note, "waits for the disk")
    QTest.keyClick(dialog.color, Qt.Key.Key_Down)
    QTest.keyClick(dialog.note, Qt.Key.Key_Return)

    (made,) = session.bookmarks.items
    assert made.as_note() == ("slow token", made.time, "waits for the disk", "red")
    qtbot.waitUntil(lambda: not window.findChildren(BookmarkDialog))


def test_tab_goes_through_the_fields_before_the_buttons(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = BookmarkDialog(parent, theme("light"))
    dialog.show()
    fields = [dialog.name, dialog.note, dialog.color]

    following = dialog.name
    order = [following := following.nextInFocusChain() for _ in range(8)]

    places = [order.index(field) for field in fields[1:]]
    assert places == sorted(places)
    for button in dialog.buttons.buttons():
        assert button not in order[: places[-1]]


def dialogs_of(window: MainWindow) -> list[BookmarkDialog]:
    return [d for d in window.findChildren(BookmarkDialog) if d.isVisible()]


def test_nearest_bookmark_is_edited_and_deleted_by_keys(
    window: MainWindow, document: Document, session: Session, qtbot: QtBot
) -> None:
    fill(session, "a", "b")
    before = session.bookmarks.items
    session.ranges.set_marked(MarkedRange(TimeRange(1_000_000, 1_400_000)))
    document.focus_views()
    held = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier

    QTest.keyClick(window, Qt.Key.Key_D, held)
    (dialog,) = dialogs_of(window)
    assert (dialog.name.text(), dialog.color.currentData()) == ("b", "")
    dialog.color.setCurrentIndex(2)
    QTest.keyClicks(dialog.note, "why")
    QTest.keyClick(dialog.note, Qt.Key.Key_Return)

    (_, edited) = session.bookmarks.items
    assert edited.as_note() == ("b", before[1].time, "why", "green")
    session.bookmarks.undo()  # all of it is one step
    assert session.bookmarks.items == before

    qtbot.waitUntil(lambda: not dialogs_of(window))
    QTest.keyClick(window, Qt.Key.Key_D, held)
    (dialog,) = dialogs_of(window)
    next(b for b in dialog.buttons.buttons() if b.text() == "Delete").click()
    assert names(session) == ["a"]
    window.actions_["mark.delete"].trigger()
    assert names(session) == []
    window.actions_["mark.undo"].trigger()
    assert names(session) == ["a"]


def test_label_goes_to_its_bookmark_and_is_edited_by_a_double_click(
    window: MainWindow, document: Document, session: Session
) -> None:
    fill(session, "a")
    (timeline,) = document.workspace.views("timeline")
    canvas = timeline.findChild(RasterCanvas)
    place = next(
        QPoint(x, 20)
        for x in range(timeline.width())
        if timeline.bookmarks_at(QPoint(x, 20).toPointF())
    )

    QTest.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=place)
    assert session.ranges.marked == MarkedRange(session.bookmarks.items[0].time)
    QTest.mouseDClick(canvas, Qt.MouseButton.LeftButton, pos=place)

    (dialog,) = dialogs_of(window)
    assert dialog.name.text() == "a"


def test_menu_of_the_timeline_colours_deletes_and_makes_bookmarks(
    window: MainWindow, document: Document, session: Session
) -> None:
    fill(session, "a")
    (timeline,) = document.workspace.views("timeline")
    x = next(
        x
        for x in range(timeline.width())
        if timeline.bookmarks_at(QPoint(x, 20).toPointF())
    )

    menu = timeline.menu_at(x, 20)
    colors = next(a.menu() for a in menu.actions() if a.text() == "Colour")
    assert [a.isChecked() for a in colors.actions()] == [True, *[False] * 5]
    colors.actions()[3].trigger()
    assert session.bookmarks.items[0].color == "blue"

    next(a for a in menu.actions() if a.text().startswith("Delete")).trigger()
    assert names(session) == []
    session.ranges.set_marked(MarkedRange(TimeRange(0, 5_000_000)))
    menu = timeline.menu_at(timeline.header_width() + 3, 200)
    next(a for a in menu.actions() if "with note" in a.text()).trigger()
    (dialog,) = dialogs_of(window)
    dialog.accept()
    assert session.bookmarks.items[0].time == TimeRange(0, 5_000_000)


def test_colour_of_several_rows_is_one_step(
    view: BookmarksView, session: Session
) -> None:
    fill(session, "a", "b", "c")
    before = session.bookmarks.items
    view.table.selectAll()
    menu = view.color_button.menu()
    assert menu is not None
    menu.aboutToShow.emit()

    menu.actions()[4].trigger()

    assert [b.color for b in session.bookmarks.items] == ["violet"] * 3
    session.bookmarks.undo()
    assert session.bookmarks.items == before


def test_note_is_offered_where_there_is_none(
    view: BookmarksView, session: Session, qtbot: QtBot
) -> None:
    fill(session, "a", "b")
    cell = view.model.index(1, NOTE)
    assert view.model.data(cell) != ""
    assert view.model.text(range(2), "tsv").splitlines()[1].endswith("\t")

    place = view.table.visualRect(cell).center()
    QTest.mouseClick(view.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    QTest.keyClicks(editor_of(view), "why")
    QTest.keyClick(editor_of(view), Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: session.bookmarks.items[1].note == "why")

    QTest.mouseClick(
        view.table.viewport(),
        Qt.MouseButton.LeftButton,
        pos=view.table.visualRect(view.model.index(0, NAME)).center(),
    )
    view.note_button.click()
    QTest.keyClicks(editor_of(view), "x")
    QTest.keyClick(editor_of(view), Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: session.bookmarks.items[0].note == "x")


def test_bookmark_in_view_stays_where_it_is(
    view: BookmarksView, session: Session
) -> None:
    session.viewport.set_visible(TimeRange(1_000_000, 2_000_000))
    session.bookmarks.add("in view", TimeRange(1_100_000, 1_200_000))
    session.bookmarks.add("outside", TimeRange(3_000_000, 3_000_000))

    session.bookmarks.show(0)
    assert session.viewport.visible == TimeRange(1_000_000, 2_000_000)
    assert session.ranges.marked is not None
    assert session.ranges.marked.time == TimeRange(1_100_000, 1_200_000)
    session.bookmarks.show(1)
    assert session.viewport.visible == TimeRange(2_500_000, 3_500_000)


def test_row_is_dragged_between_others(view: BookmarksView, session: Session) -> None:
    fill(session, "a", "b", "c")
    dragged = view.model.mimeData([view.model.index(2, NAME)])
    move, root = Qt.DropAction.MoveAction, QModelIndex()

    assert view.model.dropMimeData(dragged, move, 0, 0, root)
    assert names(session) == ["c", "a", "b"]
    assert view.model.dropMimeData(view.model.mimeData([view.model.index(0, NAME)]),
                                   move, -1, -1, root)  # fmt: skip
    assert names(session) == ["a", "b", "c"]
    assert not view.model.dropMimeData(QMimeData(), move, 0, 0, root)


def test_return_goes_there_and_marks_the_range(
    view: BookmarksView, session: Session
) -> None:
    fill(session, "a", "b")
    session.viewport.set_visible(TimeRange(50_000_000, 60_000_000))
    view.table.setCurrentIndex(view.model.index(1, NAME))

    QTest.keyClick(view.table, Qt.Key.Key_Return)

    assert session.viewport.visible.contains(1_250_000)
    assert session.ranges.marked == MarkedRange(TimeRange(1_000_000, 1_500_000))


def test_copy_gives_plain_figures(view: BookmarksView, session: Session) -> None:
    fill(session, "a", "=1+1")

    Page(view).button("Copy").menu().actions()[0].trigger()

    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0].split("\t")[1:4] == ["name", "start (ns)", "duration (ns)"]
    assert lines[2].split("\t")[:4] == ["2", "'=1+1", "1000000", "500000"]


def test_many_bookmarks_are_limited_and_said(session: Session) -> None:
    messages: list[object] = []
    session.status_message.connect(messages.append)
    for number in range(1000):
        session.bookmarks.add(str(number), TimeRange(number, number))
    before = "\n".join(map(str, messages))
    session.bookmarks.add("1000", TimeRange(1000, 1000))

    assert len(session.bookmarks.items) == 1000
    assert new_statements(str(messages[-1]), before)


def test_mark_takes_what_was_made_last(session: Session) -> None:
    session.selection.select_span(1)
    session.ranges.set_marked(MarkedRange(TimeRange(100, 900)))
    range_mark = session.bookmarks.add()
    session.selection.select_span(2)
    span_mark = session.bookmarks.add()
    session.selection.select_span(1)
    session.ranges.set_marked(None)
    other_mark = session.bookmarks.add()

    assert range_mark is not None
    assert range_mark.time == TimeRange(100, 900)
    assert session.trace is not None
    spans = session.trace.spans
    for mark, span in ((span_mark, 2), (other_mark, 1)):
        assert mark is not None
        assert mark.time == TimeRange(int(spans.start[span]), int(spans.end[span]))
        assert session.trace.span_name(span) in mark.what


def test_bookmarks_are_there_after_reopening_under_another_name(
    window: MainWindow,
    document: Document,
    opened: Callable[[Path], Document],
    trace: Path,
    qtbot: QtBot,
) -> None:
    fill(document.session, "a", "b")
    document.session.bookmarks.set_note(1, "why")
    document.session.bookmarks.add("mark", TimeRange(5, 5), permanent=False)
    before = document.session.bookmarks.items[:2]
    window.close_document(document)
    other = trace.rename(trace.with_name("renamed.ggmlviz"))

    session = opened(other).session

    qtbot.waitUntil(lambda: len(session.bookmarks.items) > 0)
    assert session.bookmarks.items == before
    assert session.bookmarks.location == "Saved in your profile"


def test_place_is_asked_once_and_beside_is_written_only_after_a_yes(
    document: Document, settings: Settings, trace: Path, qtbot: QtBot
) -> None:
    fill(document.session, "a")
    wait_saved(qtbot, document)
    assert not side_car(trace).exists()
    question = newest_message(document)

    toast(document).buttons[0].click()
    wait_saved(qtbot, document)
    clear(document)
    fill(document.session, "b")
    wait_saved(qtbot, document)
    assert new_statements(question, newest_message(document))

    assert settings.bookmarks.place == "beside"
    assert side_car(trace).exists()
    assert list((settings.data_folder / "bookmarks").iterdir()) == []
    assert not newest_message(document)
    assert side_car(trace).name in document.session.bookmarks.location


def test_why_nothing_lies_beside_the_trace_is_reported(
    document: Document,
    settings: Settings,
    trace: Path,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown_name(name: str) -> str:
        fill(document.session, name)
        wait_saved(qtbot, document)
        return document.session.bookmarks.location

    settings.change("bookmarks", place="data")
    expected = shown_name("a")
    settings.change("bookmarks", place="beside")
    side_car(trace).write_text("notes of somebody")
    taken = shown_name("b")
    assert side_car(trace).read_text() == "notes of somebody"
    side_car(trace).unlink()
    monkeypatch.setattr(files, "can_lie_beside", lambda _: False)
    refused = shown_name("c")
    monkeypatch.undo()
    beside = shown_name("d")

    assert new_statements(refused, expected + taken + beside)
    assert new_statements(taken, expected + refused + beside)


def test_closed_question_means_the_data_folder(
    document: Document, settings: Settings, trace: Path, qtbot: QtBot
) -> None:
    fill(document.session, "a")
    toast(document).close_button.click()
    fill(document.session, "b")
    wait_saved(qtbot, document)

    assert settings.bookmarks.place == "data"
    assert not newest_message(document)
    assert not side_car(trace).exists()


def test_reloading_keeps_them_and_their_undo(document: Document, qtbot: QtBot) -> None:
    fill(document.session, "a", "b")
    document.session.bookmarks.remove(0)
    with qtbot.waitSignal(document.ready):
        document.session.reload()
    wait_saved(qtbot, document)

    assert names(document.session) == ["b"]
    document.session.bookmarks.undo()
    assert names(document.session) == ["a", "b"]


def test_names_of_lanes_are_there_after_reopening(
    window: MainWindow, document: Document, trace: Path, qtbot: QtBot,
    opened: Callable[[Path], Document], settings: Settings,
) -> None:  # fmt: skip
    session = document.session
    assert session.trace is not None
    session.selection.select_span(3)
    key = session.index.lane_of_span(3)
    document.focus_views()
    QTest.keyClick(window, Qt.Key.Key_F2)
    (dialog,) = window.findChildren(NameDialog)
    QTest.keyClicks(dialog.name, "main")
    QTest.keyClick(dialog.name, Qt.Key.Key_Return)
    assert dict(session.lanes.state.names) == {key: "main"}
    wait_saved(qtbot, document)
    assert settings.lane_state(session.trace.info.reader_id).names == ()
    window.close_document(document)
    moved = trace.rename(trace.with_name("moved.ggmlviz"))

    again = opened(moved)
    qtbot.waitUntil(lambda: dict(again.session.lanes.state.names) == {key: "main"})
    assert not again.session.history.can_go_back  # nobody did anything
    again.loader.reload()
    qtbot.waitUntil(lambda: again.loader.state is LoadState.READY)
    other = opened(Path(shutil.copy(DEMO, trace.parent / "other.ggmlviz")))
    qtbot.waitUntil(lambda: other.bookmarks.keeper.is_read)

    assert dict(again.session.lanes.state.names) == {key: "main"}
    assert other.session.lanes.state.names == ()
    again.session.lanes.set_title(key, "")
    wait_saved(qtbot, again)
    window.close_document(again)
    third = opened(moved)
    qtbot.waitUntil(lambda: third.bookmarks.keeper.is_read)
    assert third.session.lanes.state.names == ()


def test_two_windows_see_each_others_bookmarks(
    window: MainWindow, document: Document, trace: Path, qtbot: QtBot,
    opened: Callable[[Path], Document], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(document_module, "is_window_active", lambda: True)
    copy = Path(shutil.copy(trace, trace.with_name("same content.ggmlviz")))
    other = opened(copy)
    qtbot.waitUntil(lambda: other.bookmarks.keeper.is_read)
    fill(document.session, "a", "b")
    wait_saved(qtbot, document)
    other.session.bookmarks.add("c", TimeRange(9, 9))
    wait_saved(qtbot, other)
    assert names(other.session) == ["c", "a", "b"]

    document.session.bookmarks.remove(0)
    wait_saved(qtbot, document)
    other.bookmarks.keeper.check_file()

    qtbot.waitUntil(lambda: names(other.session) == ["c", "b"])
    assert names(document.session) == ["b", "c"]


def test_bookmark_made_before_the_stored_ones_are_read_is_saved_with_them(
    window: MainWindow, document: Document, trace: Path, qtbot: QtBot,
    opened: Callable[[Path], Document],
) -> None:  # fmt: skip
    fill(document.session, "stored")
    wait_saved(qtbot, document)
    window.close_document(document)

    again = opened(trace)
    again.session.bookmarks.add("early", TimeRange(7, 9))
    qtbot.waitUntil(lambda: again.bookmarks.keeper.is_read)
    assert sorted(names(again.session)) == ["early", "stored"]
    wait_saved(qtbot, again)
    window.close_document(again)

    last = opened(trace)
    qtbot.waitUntil(lambda: last.bookmarks.keeper.is_read)
    assert sorted(names(last.session)) == ["early", "stored"]


def test_foreign_side_car_is_reported_and_shown_on_request(
    window: MainWindow, document: Document, settings: Settings, trace: Path,
    opened: Callable[[Path], Document], qtbot: QtBot,
) -> None:  # fmt: skip
    settings.change("bookmarks", place="beside")
    fill(document.session, "a")
    wait_saved(qtbot, document)
    window.close_document(document)
    again = opened(trace)
    qtbot.waitUntil(lambda: bool(again.session.bookmarks.items))
    of_own = newest_message(again, "bookmarks")
    window.close_document(again)
    other = Path(
        shutil.copy(ROOT / "resources/samples/tinyllama-256.bin", trace.parent)
    )
    side_car(trace).rename(side_car(other))

    result = opened(other)

    qtbot.waitUntil(lambda: bool(newest_message(result, "bookmarks")))
    assert result.session.bookmarks.items == ()
    assert new_statements(newest_message(result, "bookmarks"), of_own)


def test_safe_mode_and_settings_in_memory_keep_nothing(tmp_path: Path) -> None:
    assert Settings(MemoryStore()).data_folder is None
    safe = Settings(MemoryStore(), is_safe=True, data_folder=tmp_path)
    assert safe.data_folder is None


def test_menu_and_palette_list_only_bookmarks_that_exist(
    window: MainWindow, document: Document
) -> None:
    def listed() -> list[str]:
        actions = [window.actions_[f"go.bookmark_{n}"] for n in range(1, 10)]
        return [a.text() for a in actions if a.isVisible()]

    assert listed() == []
    fill(document.session, "fast & slow")
    assert listed() == ["fast && slow"]
    window.dialogs.show_palette()
    model = window.palette_.model
    texts = [model.entry(row).text for row in range(model.rowCount())]
    assert "fast & slow" in texts
    assert not any(t.startswith("Bookmark 2") for t in texts)
    window.palette_.dismiss()
    QTest.keyClick(window, Qt.Key.Key_1, Qt.KeyboardModifier.AltModifier)
    assert document.session.viewport.visible.contains(250_000)


def test_label_of_several_shows_all_in_a_tooltip(document: Document) -> None:
    session = document.session
    (timeline,) = document.workspace.views("timeline")
    for name in ("a", "b", "<i>one</i>", "two"):
        session.bookmarks.add(name, TimeRange(60_000_000, 60_000_000))

    from ggscope.views.base.safe_text import bookmark_tip

    whole = range(timeline.width())
    values = [
        {timeline.bookmarks_at(QPoint(x, y).toPointF()) for x in whole}
        for y in (20, 33, 46, 60)
    ]

    assert values == [{(), (0,)}, {(), (1,)}, {(), (2, 3)}, {()}]
    text = bookmark_tip(session, (2, 3))
    assert "&lt;i&gt;one&lt;/i&gt;" in text
    assert "Alt+4" in text
