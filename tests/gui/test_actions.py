"""One table of commands, real keys, and what happens while somebody types."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QTabBar
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.gui.commands.keys_sheet import KeysSheet
from ggscope.gui.commands.menus import Actions
from ggscope.gui.commands.registry import COMMANDS, MENUS
from ggscope.gui.commands.shortcuts import keys_markdown, keys_of, load_overrides
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.selection import Selection
from ggscope.model.units import TimeRange
from ggscope.session.session import Session
from ggscope.views.registry import BUILTIN
from pages import show_workspace
from statements import new_statement

SHIFT = Qt.KeyboardModifier.ShiftModifier
CTRL = Qt.KeyboardModifier.ControlModifier
ALT = Qt.KeyboardModifier.AltModifier
NONE = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def document(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> Iterator[Document]:
    """Return a tab with a built trace; its file is only there in name."""
    made = window.open_path(tmp_path / "built.bin")
    qtbot.waitUntil(lambda: made.session.tasks.is_idle)
    made.session.set_trace(llama_like_trace(tokens=4, layers=3))
    show_workspace(made)
    made.toolbar.set_usable(True)
    made.focus_views()
    return made


@pytest.fixture
def session(document: Document) -> Session:
    return document.session


def test_no_two_commands_share_an_id_or_a_key() -> None:
    ids = [c.id for c in COMMANDS]
    keys = [QKeySequence(k).toString() for c in COMMANDS for k in c.keys]

    assert len(set(ids)) == len(ids)
    assert len(set(keys)) == len(keys)
    assert "" not in keys


def test_no_menu_has_two_entries_of_one_name(window: MainWindow) -> None:
    for title in window.menuBar().actions():
        top = title.menu()
        assert isinstance(top, QMenu)
        for menu in [top, *top.findChildren(QMenu)]:
            names = [a.text() for a in menu.actions() if not a.isSeparator()]
            assert len(names) == len(set(names)), (title.text(), names)


def test_every_command_is_in_a_menu(window: MainWindow) -> None:
    def actions(menu: QMenu) -> set[str]:
        test_every_command_is = set()
        for action in menu.actions():
            inner = action.menu()
            test_every_command_is |= (
                actions(inner) if isinstance(inner, QMenu) else {action.objectName()}
            )
        return test_every_command_is

    shown: set[str] = set()
    for action in window.menuBar().actions():
        shown |= actions(action.menu())

    assert {c.id for c in COMMANDS} <= shown
    assert {c.menu.split("/")[0] for c in COMMANDS} == set(MENUS)


def test_every_action_has_text_and_tooltip(window: MainWindow) -> None:
    for action in window.actions_.all():
        assert action.text()
        assert action.toolTip()


@pytest.mark.parametrize(
    ("key", "modifiers", "moved"),
    [
        (Qt.Key.Key_A, Qt.KeyboardModifier.NoModifier, -0.25),
        (Qt.Key.Key_D, Qt.KeyboardModifier.NoModifier, 0.25),
        (Qt.Key.Key_Right, SHIFT, 0.05),
        (Qt.Key.Key_Left, CTRL, -1.0),
    ],
)
def test_pan_keys(
    window: MainWindow,
    session: Session,
    key: Qt.Key,
    modifiers: Qt.KeyboardModifier,
    moved: float,
) -> None:
    middle = session.trace.extent.duration // 2
    session.viewport.set_visible(TimeRange(middle, middle + 100_000))
    before = session.viewport.visible

    QTest.keyClick(window, key, modifiers)

    assert session.viewport.visible == before.shifted(round(moved * 100_000))


def test_zoom_keys_and_fit(window: MainWindow, session: Session) -> None:
    full = session.viewport.visible

    QTest.keyClick(window, Qt.Key.Key_W)
    assert session.viewport.visible.duration < full.duration
    inner = session.viewport.visible
    QTest.keyClick(window, Qt.Key.Key_S)
    assert session.viewport.visible.duration > inner.duration
    QTest.keyClick(window, Qt.Key.Key_Plus)
    QTest.keyClick(window, Qt.Key.Key_0)
    assert session.viewport.visible == full


def test_token_keys_walk_through_tokens(window: MainWindow, session: Session) -> None:
    QTest.keyClick(window, Qt.Key.Key_BracketRight)
    first = session.selection.current.active
    QTest.keyClick(window, Qt.Key.Key_BracketRight)
    second = session.selection.current.active
    QTest.keyClick(window, Qt.Key.Key_BracketLeft)

    assert first is not None
    assert second not in (None, first)
    assert session.selection.current.active == first


def test_span_keys_need_a_selection(window: MainWindow, session: Session) -> None:
    QTest.keyClick(window, Qt.Key.Key_Period)
    assert not session.selection.current

    session.selection.select_span(5)
    QTest.keyClick(window, Qt.Key.Key_Period)
    assert session.selection.current.active not in (None, 5)
    QTest.keyClick(window, Qt.Key.Key_Comma)
    assert session.selection.current.active == 5


def test_f_centres_then_fits_and_r_marks(window: MainWindow, session: Session) -> None:
    session.selection.select_span(20, reveal=False)

    QTest.keyClick(window, Qt.Key.Key_F)
    QTest.keyClick(window, Qt.Key.Key_F)
    QTest.keyClick(window, Qt.Key.Key_R)

    assert session.viewport.visible.duration < session.trace.extent.duration / 10
    assert session.ranges.marked.time == session.navigator.selected_range()


def test_history_keys(window: MainWindow, session: Session, qtbot: QtBot) -> None:
    full = session.viewport.visible
    QTest.keyClick(window, Qt.Key.Key_W)
    inner = session.viewport.visible
    qtbot.waitUntil(lambda: window.actions_["go.back"].isEnabled())

    QTest.keyClick(window, Qt.Key.Key_Left, ALT)
    assert session.viewport.visible == full
    qtbot.waitUntil(lambda: window.actions_["go.forward"].isEnabled())
    QTest.keyClick(window, Qt.Key.Key_Z, CTRL | SHIFT)
    assert session.viewport.visible == inner


def test_bookmark_keys(window: MainWindow, session: Session) -> None:
    session.viewport.set_visible(TimeRange(100_000, 200_000))
    QTest.keyClick(window, Qt.Key.Key_D, CTRL)
    session.viewport.fit()
    session.viewport.set_visible(TimeRange(500_000, 600_000))

    QTest.keyClick(window, Qt.Key.Key_1, ALT)

    assert session.viewport.visible == TimeRange(100_000, 200_000)
    QTest.keyClick(window, Qt.Key.Key_M)
    QTest.keyClick(window, Qt.Key.Key_M)
    assert len(session.bookmarks.items) == 2


def test_ruler_is_made_stepped_and_removed_by_keys(
    window: MainWindow, session: Session
) -> None:
    session.selection.select_span(4)
    QTest.keyClick(window, Qt.Key.Key_U)
    first = session.ruler.current
    assert first is not None
    assert window.actions_["mark.measure"].isChecked()

    QTest.keyClick(window, Qt.Key.Key_Period, ALT)
    assert session.ruler.current.moving > first.moving  # type: ignore[union-attr]
    QTest.keyClick(window, Qt.Key.Key_U, ALT)
    QTest.keyClick(window, Qt.Key.Key_Comma, ALT)
    assert session.ruler.current.moving < first.fixed  # type: ignore[union-attr]

    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert session.ruler.current is None
    assert session.selection.current  # that is the next Esc
    assert not window.actions_["mark.measure"].isChecked()


def test_letters_and_arrows_type_while_a_text_field_has_the_focus(
    window: MainWindow, document: Document, session: Session
) -> None:
    before = session.viewport.visible
    layout = document.workspace.layout_name
    QTest.keyClick(window, Qt.Key.Key_Slash)
    edit = document.toolbar.search.edit
    assert edit.hasFocus()

    QTest.keyClicks(edit, "wasdgqtfm[].,0+-?/")
    QTest.keyClick(edit, Qt.Key.Key_Home)
    QTest.keyClick(edit, Qt.Key.Key_Right)
    QTest.keyClick(edit, Qt.Key.Key_Left, CTRL)

    assert edit.text() == "wasdgqtfm[].,0+-?/"
    assert session.viewport.visible == before
    assert document.workspace.layout_name == layout
    assert session.bookmarks.items == ()


def test_letters_and_moves_choose_while_a_list_of_choices_has_the_focus(
    window: MainWindow, document: Document, session: Session
) -> None:
    before = session.viewport.visible
    layout = document.workspace.layout_name
    combo = document.toolbar.color
    combo.setFocus()

    for letter in "wasdgqt0r":
        QTest.keyClick(combo, letter)
    QTest.keyClick(combo, Qt.Key.Key_Home)
    first = combo.currentIndex()
    QTest.qWait(QApplication.keyboardInputInterval() + 50)  # else letters add up
    QTest.keyClick(combo, "l")

    assert (first, combo.currentData()) == (0, "layer")
    assert session.viewport.visible == before
    assert session.display.color_by == "layer"
    assert document.workspace.layout_name == layout
    assert document.workspace.shows_details


def test_places_of_letters_choose_too_while_a_list_has_the_focus(
    window: MainWindow, document: Document, session: Session
) -> None:
    before = session.viewport.visible
    document.toolbar.color.setFocus()
    window.settings.change("drawing", keys_by_place=True)

    for kind in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress):
        event = QKeyEvent(kind, Qt.Key.Key_Z, NONE, 25, 25, 0, "z")
        QApplication.sendEvent(window.windowHandle(), event)

    assert session.viewport.visible == before


def test_arrows_walk_along_tabs_that_have_the_focus(
    window: MainWindow, document: Document, session: Session
) -> None:
    session.viewport.zoom(0.5)
    before, drawer = session.viewport.visible, document.workspace.drawer
    bar = drawer.findChild(QTabBar)
    assert bar is not None
    tabs = [host.entry.id for host in drawer.hosts() if not host.entry.of_run]
    following = tabs[tabs.index(drawer.tab) + 1]
    bar.setFocus()

    QTest.keyClick(bar, Qt.Key.Key_Right)

    assert drawer.tab == following
    assert session.viewport.visible == before


def test_enter_steps_through_hits_only_where_there_are_some(
    window: MainWindow, document: Document, session: Session
) -> None:
    QTest.keyClick(window, Qt.Key.Key_Return)
    assert session.queries.position == -1

    session.queries.search("ffn_up")
    QTest.keyClick(window, Qt.Key.Key_Return)
    QTest.keyClick(window, Qt.Key.Key_F3)
    assert session.queries.position == 1
    QTest.keyClick(window, Qt.Key.Key_Return, SHIFT)
    assert session.queries.position == 0


def test_q_and_g_change_the_layout(window: MainWindow, document: Document) -> None:
    workspace = document.workspace
    QTest.keyClick(window, Qt.Key.Key_Q)
    assert not workspace.details.isVisible()
    QTest.keyClick(window, Qt.Key.Key_Q)
    assert workspace.details.isVisible()

    QTest.keyClick(window, Qt.Key.Key_G)
    assert workspace.layout_name == "grid"
    QTest.keyClick(window, Qt.Key.Key_G)
    assert workspace.layout_name == "dual"


def test_commands_are_disabled_without_a_file(window: MainWindow) -> None:
    enabled = {a.objectName() for a in window.actions_.all() if a.isEnabled()}

    assert "file.open" in enabled
    assert "help.keys" in enabled
    assert not {"zoom.in", "go.next_token", "file.export", "view.full"} & enabled


def test_clearing_the_selection_disables_what_needs_one(
    window: MainWindow, session: Session
) -> None:
    session.selection.select_span(3)
    assert window.actions_["mark.range"].isEnabled()

    session.selection.select(Selection())

    assert not window.actions_["mark.range"].isEnabled()


def test_ticks_follow_the_state(window: MainWindow, session: Session) -> None:
    window.actions_["color.layer"].trigger()

    assert session.display.color_by == "layer"
    assert window.actions_["color.layer"].isChecked()
    assert not window.actions_["color.family"].isChecked()


def test_copy_takes_the_selected_rows(
    window: MainWindow, session: Session, qapp: object, qtbot: QtBot
) -> None:
    qapp.clipboard().setText("old")
    session.selection.select_span(3)

    QTest.keyClick(window, Qt.Key.Key_C, CTRL)
    qtbot.waitUntil(lambda: qapp.clipboard().text() != "old")

    assert session.trace.span_name(3) in qapp.clipboard().text()


def test_overrides_replace_keys(window: MainWindow) -> None:
    actions = Actions(window, window, {"zoom.in": ("Z",), "view.details": ()})

    assert [k.toString() for k in actions["zoom.in"].shortcuts()] == ["Z"]
    assert actions["view.details"].shortcuts() == []


@pytest.mark.parametrize(
    ("text", "good", "n_problems"),
    [
        (
            '{"zoom.in": "Z", "view.details": []}',
            {"zoom.in": ("Z",), "view.details": ()},
            0,
        ),
        ('{"no.such": "Z", "zoom.in": ["Z", 3], "zoom.out": "Foo+"}', {}, 3),
        ("[1, 2]", {}, 1),
        ("{not json", {}, 1),
        ("[" * 100_000, {}, 1),
    ],
)
def test_key_file_is_read_with_care(
    tmp_path: Path, text: str, good: dict, n_problems: int
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)

    result, problems = load_overrides(path)

    assert result == good
    assert len(problems) == n_problems


@pytest.mark.parametrize(
    ("claim", "shown", "like"),
    [
        ("*: unknown command *.", '{"zoom.inn": ["Z"]}', '{"zoom.in": ["Z"]}'),
        (
            "*: invalid keys for *.",
            '{"zoom.in": ["Zzz"]}',
            '{"zoom.in": ["Z"]}',
        ),
    ],
)
def test_entry_of_the_key_file_that_is_ignored_is_reported(
    tmp_path: Path, claim: str, shown: str, like: str
) -> None:
    items = []
    for text in (shown, like):
        (tmp_path / "keys.json").write_text(text)
        items.append("\n".join(load_overrides(tmp_path / "keys.json")[1]))

    assert new_statement(*items)


def test_missing_key_file_is_no_problem(tmp_path: Path) -> None:
    assert load_overrides(tmp_path / "keys.json") == ({}, [])


def test_markdown_lists_every_command_with_keys() -> None:
    text = keys_markdown()

    for command in COMMANDS:
        if command.keys and not command.id.startswith("go.bookmark_"):
            assert f"`{command.keys[0]}`" in text
    assert all(line.startswith("|") for line in text.splitlines())


def test_keys_sheet_lists_and_narrows_down(window: MainWindow, qtbot: QtBot) -> None:
    sheet = KeysSheet(window.actions_, window)
    qtbot.addWidget(sheet)
    rows = [row for _, group in sheet.groups() for row in group]

    with_keys = [c for c in COMMANDS if keys_of(c) and "bookmark_" not in c.id]
    assert len(rows) >= len(with_keys)
    declared = {gesture for view in BUILTIN for gesture in view.gestures}
    assert declared
    assert declared <= set(rows)
    QTest.keyClicks(sheet.edit, "token")
    assert {t for _, g in sheet.groups("token") for _, t in g} == {
        "Go to lane, tensor or token",
        "Next token",
        "Previous token",
        "Replay: previous or next token, or step",
        "Select a token and fit the timeline to it",
        "Select the previous, next, first or last token",
        "Fit the timeline to the selected token",
        "Align by the previous or next token",
    }


def test_clicking_a_menu_entry_runs_it(
    window: MainWindow, document: Document, session: Session
) -> None:
    menu = next(a.menu() for a in window.menuBar().actions() if a.text() == "Analyse")
    menu.popup(window.mapToGlobal(QPoint(50, 50)))
    action = window.actions_["show.problems"]

    QTest.mouseClick(
        menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(action).center()
    )

    assert document.workspace.drawer.tab == "problems"


def test_replay_is_played_and_ended_from_the_menu(
    window: MainWindow, document: Document, session: Session
) -> None:
    play, end = (window.actions_[name] for name in ("go.replay", "go.replay_end"))

    play.trigger()
    assert session.replay.is_playing
    play.trigger()
    assert not session.replay.is_playing
    assert session.replay.tick is not None
    end.trigger()
    assert session.replay.tick is None
