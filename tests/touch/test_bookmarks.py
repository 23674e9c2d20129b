"""D6: bookmarks by real keys and mouse, and after reopening."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.units import TimeRange
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.views.bookmarks import NAME, BookmarksView
from support import ROOT
from touching import PATIENCE_MS, Hand, focused

SAMPLE = ROOT / "resources" / "samples" / "llama.ggmlviz"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return settings of a person who has said where bookmarks are kept."""
    made = Settings(MemoryStore(), data_folder=tmp_path / "data")
    made.change("bookmarks", place="data")
    return made


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return Path(shutil.copy(SAMPLE, tmp_path / "run.ggmlviz"))


def names(document: Document) -> list[str]:
    return [b.name for b in document.session.bookmarks.items]


def bookmarks_pane(document: Document) -> BookmarksView:
    (view,) = document.workspace.views("bookmarks")
    assert isinstance(view, BookmarksView)
    return view


def test_bookmarks_live_by_keys_and_mouse_and_are_there_after_reopening(
    window: MainWindow,
    opened: Callable[[Path], Document],
    trace: Path,
    hand: Hand,
    qtbot: QtBot,
) -> None:
    document = opened(trace)
    session, keeper = document.session, document.bookmarks.keeper
    qtbot.waitUntil(lambda: keeper.is_read)
    (timeline,) = document.workspace.views("timeline")
    at = QPoint(timeline.width() // 2, timeline.height() // 2)

    # A span is selected; the range dragged after it is what M and Ctrl+D take.
    session.selection.select_span(3)
    hand.drag(timeline, at, at + QPoint(90, 2))
    qtbot.waitUntil(lambda: session.ranges.marked is not None)
    hand.press("ctrl+d")
    assert session.bookmarks.items[0].time == session.ranges.marked.time
    assert "range" in document.status.message.full_text
    # A point, by name.
    hand.press("Escape")
    hand.hover(timeline, at - QPoint(60, 0))
    # The dialog takes the release of the key that opens it, and leaves that of Return.
    hand.send("key", "shift+m")
    qtbot.waitUntil(lambda: isinstance(focused(), QLineEdit), timeout=PATIENCE_MS)
    hand.type("slow token")
    hand.send("key", "Return")
    qtbot.waitUntil(lambda: names(document) == ["Bookmark 1", "slow token"])
    assert session.bookmarks.items[1].time.duration == 0
    # The pane, by keys alone: rename, move, delete, undo.
    hand.press("ctrl+b")
    view = bookmarks_pane(document)
    qtbot.waitUntil(view.table.isVisible)
    assert focused() is view.table
    hand.press("Home", "F2")
    assert isinstance(focused(), QLineEdit)
    hand.type("mul")  # M and other letters type here
    hand.press("Return")
    assert names(document) == ["mul", "slow token"]
    hand.press("alt+Down")
    assert names(document) == ["slow token", "mul"]
    hand.press("Delete")
    assert names(document) == ["slow token"]
    hand.press("ctrl+z")
    assert names(document) == ["slow token", "mul"]
    # By mouse: a double click goes there.
    session.viewport.fit()
    hand.press("w")
    row = view.table.visualRect(view.model.index(1, NAME)).center()
    hand.double_click(view.table.viewport(), row)
    middle = session.bookmarks.items[1].time
    qtbot.waitUntil(
        lambda: (
            session.viewport.visible.start <= middle.start
            and middle.end <= session.viewport.visible.end
            and session.ranges.marked is not None
        )
    )
    items = session.bookmarks.items
    hand.press("ctrl+w")
    qtbot.waitUntil(lambda: window.document is None)

    again = opened(trace)

    qtbot.waitUntil(lambda: again.session.bookmarks.items == items, timeout=10_000)
    hand.press("alt+2")
    assert again.session.ranges.marked is not None
    assert again.session.ranges.marked.time == middle


def test_menu_lists_what_there_is_and_a_button_adds(
    window: MainWindow,
    opened: Callable[[Path], Document],
    trace: Path,
    hand: Hand,
    qtbot: QtBot,
) -> None:
    document = opened(trace)
    (timeline,) = document.workspace.views("timeline")
    for step in range(3):
        hand.hover(
            timeline, QPoint(timeline.width() // 2 + 50 * step, timeline.height() // 2)
        )
        hand.press("ctrl+d")
    expected = ["Bookmark 1", "Bookmark 2", "Bookmark 3"]
    actions = [window.actions_[f"go.bookmark_{n}"] for n in range(1, 10)]
    assert [a.text() for a in actions if a.isVisible()] == expected
    hand.press("ctrl+b")
    view = bookmarks_pane(document)
    qtbot.waitUntil(view.table.isVisible)
    view.table.setFocus(Qt.FocusReason.OtherFocusReason)
    hand.click(view.add_button)
    assert len(names(document)) == 4


def test_two_drags_at_once_in_a_busy_program_are_one(
    opened: Callable[[Path], Document],
    trace: Path,
    hand: Hand,
    qtbot: QtBot,
    qtlog: Any,
) -> None:
    document = opened(trace)
    for name in ("one", "two", "three"):
        document.session.bookmarks.add(name, TimeRange(1_000, 2_000))
    hand.press("ctrl+b")
    view = bookmarks_pane(document)
    qtbot.waitUntil(view.table.isVisible)
    Hand.settle()
    begin = view.table.visualRect(view.model.index(0, NAME)).center()

    hand.carry(view.table.viewport(), begin, begin + QPoint(60, 1), times=4)

    assert names(document) == ["one", "two", "three"]
    assert [record.message for record in qtlog.records] == []
