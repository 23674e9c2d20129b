"""The window's frame: what drawer, details, panes and full screen take and give."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.panes.layouts import OTHER_ROOM, ROOM_OF_ROWS, TIMELINE_ROOM
from ggscope.gui.panes.workspace import (
    DRAWER_SHARE,
    LOW_OVERVIEW,
    OVERVIEW_HEIGHT,
    Workspace,
)
from ggscope.gui.widgets import GUTTER
from ggscope.session.settings import Settings
from ggscope.views.table.view import TableView
from pages import drawer_tabs
from support import ROOT
from touching import PATIENCE_MS, Hand, visible_rect

SAMPLES = ROOT / "resources" / "samples"
LLAMA = SAMPLES / "llama.ggmlviz"
DEMO = SAMPLES / "llama-demo.ggmlviz"
TINY = SAMPLES / "tinyllama-256.bin"
FOLDER = SAMPLES / "moe-experiment"

Opened = Callable[[Path], Document]


def pane(document: Document, view_id: str) -> QWidget:
    """Return the pane in sight that shows a view."""
    hosts = document.workspace.hosts()
    return next(h for h in hosts if h.entry.id == view_id and h.isVisible())


def shown(workspace: Workspace) -> list[str]:
    return [host.entry.id for host in workspace.cells]


def n_lanes_in_sight(document: Document) -> int:
    """Return how many rows of lanes, heads of groups too, the timeline shows whole."""
    (view,) = document.workspace.views("timeline")
    return sum(
        view.hit(view.width() / 2, y).box is not None
        for y in range(60, view.height() - 12, 20)
    )


def assert_nothing_is_lost(document: Document) -> None:
    """The panes reach down to the drawer, and the drawer to the status strip."""
    workspace = document.workspace
    drawer = visible_rect(workspace.drawer)
    seen = [visible_rect(cell) for cell in workspace.cells if cell.isVisible()]
    lowest = max(rect.bottom() for rect in seen)
    assert drawer.top() - lowest - 1 == GUTTER
    status = visible_rect(document.status).top()
    assert status - drawer.bottom() - 1 == GUTTER


def test_fresh_window_belongs_to_the_timeline(
    window: MainWindow, opened: Opened, size: tuple[int, int]
) -> None:
    document = opened(LLAMA)
    timeline = pane(document, "timeline")

    assert_nothing_is_lost(document)
    if size[1] >= 1000:
        assert timeline.height() >= 0.45 * size[1]
        assert document.workspace.details.isVisible()
    else:
        assert not document.workspace.details.isVisible()
        assert timeline.width() > 0.9 * size[0]
    assert n_lanes_in_sight(document) >= 4


@pytest.mark.parametrize("path", [LLAMA, SAMPLES / "npu-prefill-decode.json"])
def test_fresh_window_shows_rows_of_the_table_too(
    window: MainWindow, opened: Opened, size: tuple[int, int], path: Path
) -> None:
    document = opened(path)
    (table,) = document.workspace.views("table")
    assert isinstance(table, TableView)
    grid = table.grid
    shown = [y + h <= grid.viewport().height() for _, y, h in grid.visible_rows()]

    assert sum(shown) >= 4
    assert n_lanes_in_sight(document) >= 4
    assert_nothing_is_lost(document)
    # The overview is as high as in the design where there is room.
    low = OVERVIEW_HEIGHT if size[1] >= 1000 else LOW_OVERVIEW
    assert document.workspace.overview.height() == low
    window.resize(size[0], 1100)  # and grows with the window
    Hand.settle()
    assert document.workspace.overview.height() == OVERVIEW_HEIGHT


def test_edge_that_a_person_has_moved_stays(
    window: MainWindow, opened: Opened, settings: Settings
) -> None:
    settings.change("layout", splits=(700, 500, 500))
    document = opened(LLAMA)
    upper, lower = document.workspace.cells

    share = upper.height() / (upper.height() + lower.height())
    assert share >= 0.6


def test_drawer_has_the_same_height_for_all_that_it_shows(
    make_window: Callable[..., MainWindow],
    settings: Settings,
    size: tuple[int, int],
    wait_read: Callable[[MainWindow], Document],
    hand: Hand,
    qtbot: QtBot,
) -> None:
    window = make_window(settings, size)
    window.open_path(FOLDER)
    document = wait_read(window)
    drawer = document.workspace.drawer
    bar = drawer_tabs(drawer)
    closed = drawer.height()
    assert closed == drawer.head_height()

    hand.click(bar, bar.tabRect(0).center())
    qtbot.waitUntil(lambda: drawer.is_open)
    height, y = drawer.height(), visible_rect(bar).y()
    assert abs(height - DRAWER_SHARE * size[1]) <= 2
    assert_nothing_is_lost(document)

    hand.press("shift+q")
    qtbot.waitUntil(lambda: not drawer.is_open)
    assert drawer.height() == closed
    assert_nothing_is_lost(document)

    hand.press("ctrl+5")
    experts = pane(document, "experts")
    assert (drawer.height(), visible_rect(bar).y()) == (height, y)
    assert pane(document, "timeline").height() >= TIMELINE_ROOM
    assert experts.isAncestorOf(window.focusWidget())
    assert_nothing_is_lost(document)

    hand.press("shift+q")
    window.close()
    window = make_window(Settings(settings.store), size)  # the next start
    window.open_path(FOLDER)
    document = wait_read(window)
    assert not document.workspace.drawer.is_open
    assert_nothing_is_lost(document)


def test_pane_without_data_is_as_high_as_others_and_lanes_stay(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(TINY)  # of a model without experts, and without buffers
    workspace = document.workspace
    cell = workspace.cells[1]
    hand.press("ctrl+5")
    qtbot.waitUntil(lambda: workspace.drawer.is_open)
    Hand.settle()

    height = workspace.drawer.height()
    hand.press("ctrl+9")
    assert workspace.drawer.height() == height
    assert pane(document, "timeline").height() >= TIMELINE_ROOM
    assert n_lanes_in_sight(document) >= 4  # three, and the head of their group
    assert not cell.isVisible() or cell.height() >= OTHER_ROOM
    assert_nothing_is_lost(document)

    hand.press("ctrl+2")  # what gave way takes its place back from the drawer
    qtbot.waitUntil(
        lambda: cell.isVisible() and cell.isAncestorOf(window.focusWidget())
    )
    assert cell.height() >= 90
    assert_nothing_is_lost(document)


def test_full_screen_is_for_the_view_used_last(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(FOLDER)
    workspace = document.workspace

    def fills(view_id: str) -> bool:
        host = workspace.full_cell
        return (
            host is not None
            and host.entry.id == view_id
            and window.isFullScreen()
            and host.width() > 0.9 * window.width()
            and host.height() > 0.85 * window.height()
        )

    def is_back() -> bool:
        return workspace.full_cell is None and not window.isFullScreen()

    def shows(view_id: str) -> bool:
        return any(h.entry.id == view_id and h.isVisible() for h in workspace.hosts())

    hand.press("ctrl+5", "F11")
    qtbot.waitUntil(lambda: fills("experts"), timeout=PATIENCE_MS)
    hand.press("ctrl+6")  # another tab of the drawer, still full
    qtbot.waitUntil(lambda: fills("buffers"), timeout=PATIENCE_MS)
    hand.press("Escape")
    qtbot.waitUntil(is_back, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: workspace.overview.isVisible())
    assert_nothing_is_lost(document)

    hand.press("ctrl+2")  # in a small window it gave way to the drawer
    qtbot.waitUntil(lambda: shows("table"), timeout=PATIENCE_MS)
    table = pane(document, "table")
    hand.click(table, QPoint(table.width() // 2, table.height() - 8))
    hand.press("F11")
    qtbot.waitUntil(lambda: fills("table"), timeout=PATIENCE_MS)
    hand.press("F11")
    qtbot.waitUntil(is_back, timeout=PATIENCE_MS)

    button = workspace.drawer.full_screen_button
    if not button.isVisible():  # the drawer made room for the table
        hand.press("ctrl+6")
        qtbot.waitUntil(button.isVisible, timeout=PATIENCE_MS)
    hand.click(button)
    qtbot.waitUntil(lambda: fills("buffers"), timeout=PATIENCE_MS)
    hand.press("F11")
    qtbot.waitUntil(is_back, timeout=PATIENCE_MS)
    assert_nothing_is_lost(document)


def test_views_asked_for_leave_the_timeline_where_it_is(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(TINY)
    workspace = document.workspace
    for key, view_id in (("ctrl+3", "heatmap"), ("ctrl+4", "graph")):
        hand.press(key, key)
        assert shown(workspace) == ["timeline", view_id]
        # The view that came is the active one now: the next takes its place.
        assert workspace.used_host is pane(document, view_id)
    hand.press("ctrl+3")

    # The other file has no accesses: the table stands in, until it is asked for.
    other = opened(DEMO)
    assert shown(other.workspace) == ["timeline", "table"]
    hand.press("ctrl+3")
    assert shown(other.workspace) == ["timeline", "heatmap"]
    (heatmap,) = other.workspace.views("heatmap")
    qtbot.waitUntil(lambda: "Add" in heatmap.placeholder_text()[1])

    hand.press("ctrl+Tab")
    assert window.document is document
    assert shown(workspace) == ["timeline", "heatmap"]


def test_details_come_and_go_by_key_and_by_button(
    window: MainWindow, opened: Opened, size: tuple[int, int], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(LLAMA)
    details, button = document.workspace.details, document.toolbar.details_button
    is_wide = size[0] >= 1100
    assert details.isVisible() is is_wide
    assert button.toolTip() == f"{'Hide' if is_wide else 'Show'} the details (Q)"

    hand.press("q")
    qtbot.waitUntil(lambda: details.isVisible() is not is_wide)
    assert ("Show" in button.toolTip()) is is_wide
    hand.click(button)
    qtbot.waitUntil(lambda: details.isVisible() is is_wide)
    if not is_wide:
        hand.press("q")
    qtbot.waitUntil(lambda: details.isVisible())
    assert details.width() <= 0.33 * size[0]
    assert document.workspace.isAncestorOf(window.focusWidget())


def test_tab_bears_the_name_of_the_folder_and_heads_lie_at_the_top(
    window: MainWindow,
    hand: Hand,
    qtbot: QtBot,
    wait_read: Callable[[MainWindow], Document],
) -> None:
    document = window.open_path(FOLDER)
    details = document.workspace.details
    document.workspace.set_details_shown(True)
    Hand.settle()
    if details.view is None:  # still waiting for its turn
        assert visible_rect(details.head).top() == visible_rect(details).top()
    wait_read(window)

    assert document.title == FOLDER.name
    assert visible_rect(details.head).top() == visible_rect(details).top()


def test_filter_chips_fold_only_where_there_is_no_room(
    window: MainWindow, opened: Opened, size: tuple[int, int], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(LLAMA)
    chips = document.toolbar.chips
    for expression in ("layer=0", "thread=1", "op=MUL_MAT"):
        hand.press("ctrl+shift+f")
        hand.type(expression)
        hand.press("Return")
    qtbot.waitUntil(lambda: len(chips.chips) == 3)
    Hand.settle()

    folded = [chip for chip in chips.chips if not chip.isVisible()]
    if size[0] >= 1600:
        assert folded == []
    elif folded:
        spare = (
            document.toolbar.color.x() - document.toolbar.add_filter.geometry().right()
        )
        assert spare < folded[0].sizeHint().width()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_both_themes_give_the_panes_the_same_room(
    make_window: Callable[..., MainWindow],
    settings: Settings,
    size: tuple[int, int],
    theme: str,
    wait_read: Callable[[MainWindow], Document],
) -> None:
    window = make_window(settings, size, theme)
    window.open_path(DEMO)
    document = wait_read(window)

    assert_nothing_is_lost(document)
    heights = pane(document, "timeline").height(), pane(document, "table").height()
    if size[1] >= 1000:
        assert heights[0] > heights[1]
    else:
        assert heights == (TIMELINE_ROOM, ROOM_OF_ROWS)
