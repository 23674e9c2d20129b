"""Panes that change places, and panes in windows of their own."""

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ggscope.gui.panes.floats import parsed_place
from ggscope.gui.panes.host import ViewHost
from ggscope.gui.panes.workspace import Workspace
from ggscope.model.selection import Selection
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from heat_traces import moe_trace

LEFT = Qt.MouseButton.LeftButton


def ids(workspace: Workspace) -> list[str]:
    return [cell.entry.id for cell in workspace.cells]


def drag_head(source: ViewHost, target: ViewHost, *, drops: bool = True) -> None:
    """Drag the empty part of a pane's head to the middle of another pane."""
    head = source.head
    start = QPoint(head.width() - 80, head.height() // 2)
    end = head.mapFromGlobal(target.mapToGlobal(target.rect().center()))
    QTest.mousePress(head, LEFT, pos=start)
    QTest.mouseMove(head, start + QPoint(0, 30))
    QTest.mouseMove(head, end)
    if drops:
        QTest.mouseRelease(head, LEFT, pos=end)


def test_head_dragged_onto_another_pane_swaps_them(
    workspace: Workspace, settings: Settings
) -> None:
    upper, lower = workspace.cells

    drag_head(lower, upper)

    assert ids(workspace) == ["table", "timeline"]
    assert workspace.cells == (lower, upper)
    assert settings.layout.cells[:2] == ("table", "timeline")
    assert not workspace.drop_mark.isVisible()


def test_drag_marks_the_pane_that_it_would_swap_with(workspace: Workspace) -> None:
    upper, lower = workspace.cells

    drag_head(lower, upper, drops=False)

    mark = workspace.drop_mark
    assert mark.isVisible()
    assert mark.geometry() == QRect(upper.mapTo(workspace, QPoint(0, 0)), upper.size())
    QTest.mouseRelease(lower.head, LEFT)


def test_escape_gives_a_drag_up(workspace: Workspace) -> None:
    upper, lower = workspace.cells
    drag_head(lower, upper, drops=False)

    QTest.keyClick(lower.head, Qt.Key.Key_Escape)
    QTest.mouseRelease(lower.head, LEFT)

    assert ids(workspace) == ["timeline", "table"]
    assert not workspace.drop_mark.isVisible()


def test_panes_of_the_grid_swap_across_rows(workspace: Workspace) -> None:
    workspace.toggle_grid()
    workspace.show_view("graph")  # asked for, even without a graph
    workspace.show_view("heatmap")
    before = ids(workspace)

    drag_head(workspace.cells[3], workspace.cells[0])

    assert ids(workspace) == [before[3], before[1], before[2], before[0]]


def test_details_float_and_closing_docks_them(
    workspace: Workspace, settings: Settings, session: Session, qtbot: QtBot
) -> None:
    button = workspace.details.float_button
    assert button is not None

    QTest.mouseClick(button, LEFT)
    window = workspace.floats.window("details")
    assert window is not None
    assert window.isVisible()
    assert window.host.view is not None
    assert not workspace.details.isVisible()
    assert settings.layout.floating == ("details",)
    session.selection.select(Selection("spans", (3,)))

    window.close()
    assert workspace.floats.window("details") is None
    assert workspace.details.isVisible()
    assert settings.layout.floating == ()


def test_floating_drawer_tab_leaves_the_drawer(workspace: Workspace) -> None:
    workspace.show_drawer("problems")

    QTest.mouseClick(workspace.drawer.float_button, LEFT)

    assert workspace.floats.window("problems") is not None
    assert workspace.drawer.tab != "problems"
    for host in workspace.drawer.hosts():
        workspace.float_view(host.entry.id)
    assert not workspace.drawer.isVisible()
    workspace.dock_view("problems")
    assert workspace.drawer.isVisible()
    assert workspace.drawer.tab == "problems"


def test_floating_table_leaves_its_cell_to_the_timeline(workspace: Workspace) -> None:
    workspace.float_view("table")

    assert ids(workspace) == ["timeline"]
    assert len(workspace.views("table")) == 1

    workspace.dock_view("table")
    assert ids(workspace) == ["timeline", "table"]


def test_grid_with_floating_panes_keeps_the_rest(workspace: Workspace) -> None:
    workspace.toggle_grid()
    workspace.choose_view(workspace.cells[0], "experts")
    for view_id in ("experts", "table"):
        workspace.float_view(view_id)

    assert ids(workspace) == ["heatmap", "timeline"]
    assert all(cell.isVisible() for cell in workspace.cells)


@pytest.mark.parametrize("view_id", ["timeline", "heatmap", "graph", "overview"])
def test_what_may_draw_by_opengl_does_not_float(
    workspace: Workspace, view_id: str
) -> None:
    workspace.toggle_grid()
    workspace.show_view(view_id)

    workspace.float_view(view_id)

    assert workspace.floats.window(view_id) is None
    host = next(h for h in workspace.hosts() if h.entry.id == view_id)
    assert host.float_button is None


def test_pane_that_floats_computes_apart_from_that_in_the_drawer(
    workspace: Workspace, session: Session, qtbot: QtBot
) -> None:
    session.set_trace(moe_trace(tokens=2, layers=2))
    workspace.filler.finish()
    workspace.show_drawer("hot_cold")
    (docked,) = workspace.views("hot_cold")
    qtbot.waitUntil(docked.isVisible)
    docked.invalidate()
    assert docked.is_computing("hot_cold")

    workspace.float_view("hot_cold")
    (other,) = (v for v in workspace.views("hot_cold") if v is not docked)
    qtbot.waitUntil(lambda: bool(docked.current_facts() and other.current_facts()))
    workspace.dock_view("hot_cold")

    assert workspace.views("hot_cold") == (docked,)
    assert docked.current_facts()


def test_only_cell_stays_when_its_view_floats(workspace: Workspace) -> None:
    workspace.swap_cells(*workspace.cells)
    workspace.set_layout_name("single")

    workspace.float_view("table")

    assert ids(workspace) == ["table"]


def test_chosen_floating_view_comes_back_as_a_cell(workspace: Workspace) -> None:
    workspace.float_view("table")

    workspace.choose_view(workspace.cells[0], "table")

    assert workspace.floats.window("table") is None
    assert ids(workspace) == ["table", "timeline"]


def test_floats_are_there_after_a_restart_where_they_were(
    qtbot: QtBot, session: Session
) -> None:
    store = MemoryStore()
    first = Workspace(session, Settings(store), theme("dark"))
    qtbot.addWidget(first)
    first.resize(1200, 800)
    first.show()
    first.float_view("statistics")
    window = first.floats.window("statistics")
    assert window is not None
    with qtbot.waitSignal(first.floats.places_changed):
        window.setGeometry(40, 50, 500, 300)
    first.release()

    second = Workspace(session, Settings(store), theme("dark"))
    qtbot.addWidget(second)
    second.show()

    again = second.floats.window("statistics")
    assert again is not None
    assert again.geometry() == QRect(40, 50, 500, 300)
    second.release()


def test_reset_layout_docks_everything(workspace: Workspace) -> None:
    workspace.float_view("details")
    workspace.float_view("table")
    workspace.toggle_grid()

    workspace.reset_layout()

    assert workspace.floats.hosts() == ()
    assert ids(workspace) == ["timeline", "table"]
    assert workspace.details.isVisible()


def test_floats_hide_with_their_workspace(workspace: Workspace) -> None:
    workspace.float_view("details")
    window = workspace.floats.window("details")
    assert window is not None

    workspace.hide()
    assert not window.isVisible()
    workspace.show()
    assert window.isVisible()


@pytest.mark.parametrize(
    "text", ["", "details", "details 1 2 3", "details a b c d", "details 0 0 0 9"]
)
def test_broken_place_is_no_place(text: str) -> None:
    assert parsed_place(text)[1] is None
