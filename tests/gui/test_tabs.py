"""The row of tabs: names that differ, the menu of a tab, closed tabs that come back."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from ggscope.gui import main_window
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.tabs import TabName, differing_options, distinct_titles
from ggscope.model.units import TimeRange
from pages import tab_row
from session_files import write_experiment
from support import ROOT

DEMO = ROOT / "resources" / "samples" / "llama-demo.ggmlviz"
CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
Opened = Callable[[Path], Document]


def titles(window: MainWindow) -> list[str]:
    bar = tab_row(window).bar
    return [bar.tabText(i) for i in range(bar.count())]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        ([TabName("a", ("x",)), TabName("b", ("x",))], ["a", "b"]),
        (
            [TabName("t.json", ("/", "lane7")), TabName("t.json", ("/", "lane8"))],
            ["lane7/t.json", "lane8/t.json"],
        ),
        (
            [
                TabName("t.json", ("/", "a", "traces")),
                TabName("t.json", ("/", "b", "traces")),
                TabName("other", ("/",)),
            ],
            ["a/…/t.json", "b/…/t.json", "other"],
        ),
        (
            [TabName("t", ("/", "a")), TabName("t", ("/", "a"))],
            ["a/t", "a/t (2)"],
        ),
        (
            [TabName("llama", sign="process 7"), TabName("llama", sign="process 8")],
            ["llama · process 7", "llama · process 8"],
        ),
        (
            [TabName("t", ("/",)), TabName("t", ("/", "a"))],
            ["//t", "a/t"],
        ),
    ],
)
def test_titles_are_distinguished(names: list[TabName], expected: list[str]) -> None:
    assert distinct_titles(names) == expected


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([("a", "-t", "1"), ("a", "-t", "2")], ["-t 1", "-t 2"]),
        ([("a", "-t", "1"), ("b", "-t", "2")], ["", ""]),
        ([("a", "-t", "1"), ("a", "-t", "1"), ()], ["", "", ""]),
        ([("a", "-m", "/x/p.gguf"), ("a", "-m", "/y/q.gguf")],
         ["-m p.gguf", "-m q.gguf"]),
        ([("a", "-v", "--temp", "-1"), ("a",)], ["-v --temp -1", ""]),
        ([("a", "-p", "x" * 99), ("a", "-p", "y")], [f"-p {'x' * 21}", "-p y"]),
    ],
)  # fmt: skip
def test_options_that_differ_between_runs_of_a_program_are_reported(
    commands: list[tuple[str, ...]], expected: list[str]
) -> None:
    assert differing_options(commands) == expected


def test_files_of_one_name_are_called_after_their_folders(
    window: MainWindow, opened: Opened, tmp_path: Path
) -> None:
    paths = [tmp_path / name / "run.ggmlviz" for name in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        shutil.copy(DEMO, path)
    opened(paths[0])
    assert titles(window) == ["run.ggmlviz"]

    second = opened(paths[1])

    assert titles(window) == ["one/run.ggmlviz", "two/run.ggmlviz"]
    assert window.windowTitle() == "two/run.ggmlviz — ggscope"
    assert str(paths[1]) in tab_row(window).bar.tabToolTip(1)
    window.close_document(second)
    assert titles(window) == ["run.ggmlviz"]


def test_added_files_are_counted_but_no_sidecar(
    window: MainWindow, opened: Opened, qtbot: QtBot, tmp_path: Path
) -> None:
    folder = write_experiment(tmp_path / "run")
    assert opened(folder).title == "run"

    document = opened(folder / "traces" / "token-00000.json")
    qtbot.waitUntil(lambda: document.status.related.isVisible())
    document.parts.add_offered()

    qtbot.waitUntil(lambda: document.title == "token-00000.json +1")
    assert "memory-map.json" in tab_row(window).bar.tabToolTip(1)


def choose(window: MainWindow, position: int, expected: str) -> list[str]:
    """Ask for the menu of a tab and take an entry; return all that can be taken."""
    offered: list[str] = []
    bar = tab_row(window).bar
    at = bar.tabRect(position).center()

    def take() -> None:
        menu = QApplication.activePopupWidget()
        assert isinstance(menu, QMenu)
        for action in menu.actions():
            if action.isEnabled() and not action.isSeparator():
                offered.append(action.text())
        (chosen,) = [a for a in menu.actions() if a.text() == expected] or [None]
        menu.close()
        if chosen is not None:
            chosen.trigger()

    QTimer.singleShot(0, take)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, bar.mapToGlobal(at))
    QApplication.sendEvent(bar, event)
    QTest.qWait(10)
    return offered


@pytest.fixture
def three(window: MainWindow, opened: Opened, tmp_path: Path) -> list[Document]:
    made = []
    for name in "abc":
        path = tmp_path / f"{name}.ggmlviz"
        shutil.copy(DEMO, path)
        made.append(opened(path))
    return made


def test_menu_of_a_tab_acts_on_that_tab(
    window: MainWindow, three: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Path] = []
    monkeypatch.setattr(main_window, "show_in_folder", lambda p, _: shown.append(p))

    assert "Close tabs to the right" in choose(window, 0, "Copy path")
    assert QApplication.clipboard().text() == str(three[0].path)
    assert "Close tabs to the right" not in choose(window, 2, "Show in folder")
    assert shown == [three[2].path]

    choose(window, 0, "Close tabs to the right")
    assert window.documents == (three[0],)
    assert "Close others" not in choose(window, 0, "Reopen closed tab")
    assert len(window.documents) == 2
    choose(window, 1, "Close others")
    assert [d.path.name for d in window.documents] == ["c.ggmlviz"]
    choose(window, 0, "Close")
    assert window.documents == ()


def test_closed_tab_comes_back_in_its_place_at_its_range(
    window: MainWindow, three: list[Document], qtbot: QtBot
) -> None:
    time = TimeRange(1_000, 5_000)
    three[1].session.viewport.set_visible(time)
    window.close_document(three[1])
    window.close_document(three[0])

    QTest.keyClick(window, Qt.Key.Key_T, CTRL | SHIFT)
    assert titles(window) == ["a.ggmlviz", "c.ggmlviz"]
    QTest.keyClick(window, Qt.Key.Key_T, CTRL | SHIFT)
    QTest.keyClick(window, Qt.Key.Key_T, CTRL | SHIFT)  # there is no other

    assert titles(window) == ["a.ggmlviz", "b.ggmlviz", "c.ggmlviz"]
    again = window.document
    assert again is not None
    qtbot.waitUntil(lambda: again.session.viewport.visible == time)
    assert not window.can_reopen


def test_all_tabs_are_listed_where_they_do_not_fit(
    window: MainWindow, three: list[Document]
) -> None:
    row = tab_row(window)
    assert not row.all_tabs.isVisible()

    window.resize(640, 500)
    for number in range(6):
        path = three[0].path.with_name(f"{number}-of-a-long-series-of-runs.ggmlviz")
        shutil.copy(DEMO, path)
        window.open_path(path)
    QApplication.processEvents()

    assert row.all_tabs.isVisible()
    menu = row.all_tabs.menu()
    menu.aboutToShow.emit()
    assert [a.text() for a in menu.actions()][:3] == [
        "a.ggmlviz", "b.ggmlviz", "c.ggmlviz",
    ]  # fmt: skip
    menu.actions()[1].trigger()
    assert window.document is three[1]


def test_the_bar_is_as_wide_as_its_tabs(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    bar = tab_row(window).bar

    def is_snug() -> bool:
        rects = [bar.tabRect(i) for i in range(bar.count())]
        return bar.width() == sum(rect.width() for rect in rects)

    for name in ("a", "iiiiii", "MMMMMM"):
        path = tmp_path / f"{name}.bin"
        shutil.copy(DEMO, path)
        window.open_path(path)
        qtbot.waitUntil(is_snug)
    for position in range(bar.count()):  # the name in front is bold
        bar.setCurrentIndex(position)
        qtbot.waitUntil(is_snug)
    while bar.count() > 1:
        window.close_document(window.documents[0])
        qtbot.waitUntil(is_snug)
