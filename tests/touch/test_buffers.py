"""The pane of buffers with real keys: what it knows can be read without scrolling."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.buffers.view import BuffersView
from side_files import sound_buffer_lines
from support import ROOT
from touching import Hand

SAMPLES = ROOT / "resources" / "samples"


def buffers_of(document: Document, hand: Hand, qtbot: QtBot) -> BuffersView:
    """Return the pane of buffers, in front and filled."""
    hand.press("ctrl+6")
    (view,) = document.workspace.views("buffers")
    assert isinstance(view, BuffersView)
    qtbot.waitUntil(lambda: view.table.model.rowCount() > 0)
    hand.settle()
    return view


@pytest.mark.parametrize("name", ["moe-experiment", "tinyllama-256.bin"])
def test_names_are_whole_and_columns_in_sight(
    window: MainWindow,
    opened: Callable[[Path], Document],
    hand: Hand,
    qtbot: QtBot,
    name: str,
) -> None:
    table = buffers_of(opened(SAMPLES / name), hand, qtbot).table.table
    header = table.horizontalHeader()
    assert header.sectionSize(0) >= table.sizeHintForColumn(0)
    if window.width() >= 1600:
        assert table.horizontalScrollBar().maximum() == 0
        for column in range(header.count()):
            if not table.isColumnHidden(column):
                title = table.rows.headings[column].title
                expected = header.fontMetrics().horizontalAdvance(title) + 16
                expected = max(expected, table.sizeHintForColumn(column))
                assert header.sectionSize(column) >= expected


def test_columns_of_which_nothing_is_known_are_left_out(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    def hidden(name: str) -> set[str]:
        table = buffers_of(opened(SAMPLES / name), hand, qtbot).table
        titles = [heading.title for heading in table.model.headings]
        return {t for i, t in enumerate(titles) if table.table.isColumnHidden(i)}

    assert hidden("moe-experiment") == {"layer"}
    assert hidden("tinyllama-256.bin") == {"backend", "layer"}


def test_line_between_picture_and_table_stays_where_it_was_dragged(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "moe-experiment")
    view = buffers_of(document, hand, qtbot)
    handle = view.splitter.handle(1)
    middle = handle.rect().center()
    to = middle.__class__(middle.x() + 60, middle.y())
    before = view.splitter.sizes()
    hand.drag(handle, middle, to)
    moved = view.splitter.sizes()
    assert moved != before

    view.by.setCurrentIndex(1)
    qtbot.waitUntil(lambda: view.result is not None and view.result.by == "backend")
    assert view.splitter.sizes() == moved


@pytest.mark.parametrize("size", [(1600, 1000)], ids=["1600x1000"], indirect=True)
def test_table_needs_no_horizontal_scroll_bar_beside_a_vertical_one(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot, tmp_path: Path
) -> None:
    path = tmp_path / "buffers.jsonl"
    path.write_text(sound_buffer_lines())
    table = buffers_of(opened(path), hand, qtbot).table.table
    assert table.verticalScrollBar().isVisible()
    assert table.horizontalScrollBar().maximum() == 0


@pytest.mark.parametrize("size", [(1600, 1000)], ids=["1600x1000"], indirect=True)
def test_table_widens_for_longer_times(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "moe-experiment")
    table = buffers_of(document, hand, qtbot).table.table
    before = table.width()

    document.toolbar.time.setFocus()
    hand.press("Down")
    assert document.session.display.absolute_time
    assert table.width() > before
    assert table.horizontalScrollBar().maximum() == 0
