"""Panes: dual, grid, single; choosers; what is remembered."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton, QSplitter, QWidget
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.gui.panes.host import ViewHost
from ggscope.gui.panes.layouts import (
    LOW_TIMELINE_ROOM,
    OTHER_ROOM,
    ROOM_OF_ROWS,
    TIMELINE_ROOM,
)
from ggscope.gui.panes.workspace import Workspace
from ggscope.render.theme import Theme, theme
from ggscope.session.session import Session
from ggscope.session.settings import Layout, Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.views.base.view import View
from ggscope.views.registry import BUILTIN, ViewEntry, cell_views, entry
from pages import drawer_tabs

_TRACE = llama_like_trace(tokens=2, layers=2)
DRAWER = [
    e.id
    for e in BUILTIN
    if e.area == "bottom" and not e.of_run and not (e.of_few and not e.has_data(_TRACE))
]
"""Tabs of the trace in the fixture `session`."""


def ids(workspace: Workspace) -> list[str]:
    return [cell.entry.id for cell in workspace.cells]


def tabs(workspace: Workspace) -> list[str]:
    """Return the views whose tabs the drawer shows."""
    bar = drawer_tabs(workspace.drawer)
    bottom = [e.id for e in BUILTIN if e.area == "bottom"]
    return [i for n, i in enumerate(bottom) if bar.isTabVisible(n)]


def test_default_is_a_tall_timeline_over_the_table(workspace: Workspace) -> None:
    upper, lower = workspace.cells

    assert ids(workspace) == ["timeline", "table"]
    assert 1.7 < upper.height() / lower.height() < 2.1
    assert not workspace.drawer.is_open
    assert (
        upper.mapTo(workspace, upper.rect().topLeft()).y()
        < lower.mapTo(workspace, lower.rect().topLeft()).y()
    )
    assert workspace.details.isVisible()


def test_timeline_keeps_its_lanes_where_drawer_and_panes_are_too_many(
    workspace: Workspace,
) -> None:
    workspace.set_details_shown(False)
    workspace.show_view("statistics")
    workspace.resize(800, 440)
    upper, lower = workspace.cells
    assert upper.height() >= TIMELINE_ROOM - 4
    assert lower.isHidden()

    workspace.show_view("table")
    assert not workspace.drawer.is_open
    assert upper.height() >= TIMELINE_ROOM - 4
    assert lower.height() >= OTHER_ROOM

    workspace.drawer.set_open(True)
    assert lower.isHidden()
    workspace.show_view("heatmap")  # in the place that has given way
    assert workspace.cells[1].isVisible()
    workspace.show_view("table")

    workspace.drawer.set_open(True)
    upper, lower = workspace.cells
    assert lower.isHidden()
    workspace.resize(1200, 800)
    assert not lower.isHidden()
    assert upper.height() > lower.height() >= ROOM_OF_ROWS


@pytest.mark.parametrize("size", [(860, 440), (1200, 800), (1700, 1200)])
def test_drawer_has_one_height_whatever_is_in_front(
    workspace: Workspace, session: Session, size: tuple[int, int]
) -> None:
    workspace.resize(*size)
    drawer, bar = workspace.drawer, drawer_tabs(workspace.drawer)
    workspace.show_view("compare")  # in a low window it needs more than others
    workspace.show_view("statistics")
    height, y = drawer.height(), bar.mapTo(workspace, QPoint()).y()
    tables = [cell.isHidden() for cell in workspace.cells]

    for view_id in DRAWER:  # some have nothing to show: the trace holds no buffers
        workspace.show_view(view_id)
        assert (drawer.height(), drawer.tab) == (height, view_id)
        assert bar.mapTo(workspace, QPoint()).y() == y
        assert [cell.isHidden() for cell in workspace.cells] == tables
    session.set_trace(session.trace)
    workspace.show_view("compare")
    workspace.toggle_drawer()
    workspace.toggle_drawer()

    assert drawer.height() == height


@pytest.mark.parametrize(("size", "is_low"), [((860, 500), True), ((1200, 800), False)])
def test_drawer_is_higher_for_compare_in_a_low_window_until_it_is_closed(
    workspace: Workspace, size: tuple[int, int], is_low: bool
) -> None:
    workspace.resize(*size)
    drawer = workspace.drawer
    workspace.show_view("statistics")
    before = drawer.height()
    workspace.show_view("compare")
    raised = drawer.height()
    workspace.show_view("statistics")
    kept = drawer.height()
    workspace.toggle_drawer()
    workspace.toggle_drawer()

    assert (raised > before) == is_low
    assert kept == raised
    assert drawer.height() == before
    assert workspace.cells[0].height() >= LOW_TIMELINE_ROOM


def test_height_of_the_drawer_is_the_persons_and_is_kept(
    workspace: Workspace, session: Session, settings: Settings, qtbot: QtBot
) -> None:
    workspace.show_view("problems")
    drawer = workspace.drawer
    rows = drawer.parentWidget()
    assert isinstance(rows, QSplitter)
    before = drawer.height()

    rows.moveSplitter(rows.sizes()[0] - 60, 1)
    chosen = drawer.height()
    workspace.show_view("experts")  # at once: the choice is not stored yet
    workspace.resize(1100, 790)

    assert chosen == before + 60
    assert drawer.height() == chosen
    qtbot.waitUntil(lambda: settings.layout.bottom_height == chosen)
    again = Workspace(session, settings, theme("dark"))
    qtbot.addWidget(again)
    again.resize(1200, 800)
    again.show()
    qtbot.waitExposed(again)
    assert again.drawer.height() == chosen
    again.release()


def test_view_without_data_offers_to_add_files(
    workspace: Workspace, session: Session, qtbot: QtBot
) -> None:
    requests: list[bool] = []
    workspace.add_requested.connect(lambda: requests.append(True))

    def shown() -> list[QPushButton]:
        result = workspace.drawer.front.findChildren(QPushButton)
        return [b for b in result if b.text() == "Add to session…" and b.isVisible()]

    workspace.show_view("buffers")  # the trace has none
    qtbot.waitUntil(lambda: len(shown()) == 1)
    (button,) = shown()
    middle = workspace.drawer.front.rect().center().x()
    qtbot.waitUntil(lambda: abs(button.geometry().center().x() - middle) <= 1)

    QTest.mouseClick(button, Qt.MouseButton.LeftButton)

    assert requests == [True]
    workspace.show_view("hot_cold")  # it has accesses
    QTest.qWait(10)
    assert shown() == []


def test_grid_has_four_equal_panes(workspace: Workspace) -> None:
    workspace.toggle_grid()
    workspace.show_view("graph")
    workspace.show_view("heatmap")

    assert len(workspace.cells) == 4
    widths = {cell.width() for cell in workspace.cells}
    assert max(widths) - min(widths) <= 2


def test_views_keep_living_through_a_change_of_layout(workspace: Workspace) -> None:
    before = workspace.views("timeline")

    workspace.toggle_grid()
    workspace.toggle_grid()

    assert workspace.views("timeline") == before


def test_panes_without_data_give_way_until_they_are_asked_for(
    workspace: Workspace, settings: Settings
) -> None:
    workspace.toggle_grid()  # the trace has no graph
    assert ids(workspace) == ["table", "heatmap", "timeline"]

    workspace.show_view("graph")
    assert ids(workspace) == ["graph", "table", "heatmap", "timeline"]
    assert settings.layout.cells == Layout().cells


def test_table_stands_in_for_a_view_without_data(
    session: Session, settings: Settings, qtbot: QtBot
) -> None:
    settings.change("layout", cells=("timeline", "graph", *Layout().cells[2:]))

    workspace = Workspace(session, settings, theme("dark"))
    qtbot.addWidget(workspace)

    assert ids(workspace) == ["timeline", "table"]
    assert settings.layout.cells[:2] == ("timeline", "graph")
    workspace.choose_view(workspace.cells[0], "table")
    assert ids(workspace) == ["table", "timeline"]
    workspace.release()


@pytest.mark.parametrize("view_id", ["graph", "heatmap", "experts"])
def test_view_asked_for_never_takes_the_timeline(
    workspace: Workspace, view_id: str
) -> None:
    workspace.cells[1].setFocus()  # the table is the active pane
    workspace.show_view(view_id)
    assert "timeline" in ids(workspace)

    workspace.set_layout_name("single")
    workspace.show_view("graph")
    assert ids(workspace) == ["graph"]
    workspace.set_layout_name("dual")
    assert ids(workspace) == ["graph", "timeline"]


def test_choosing_a_view_shown_elsewhere_swaps_the_two(workspace: Workspace) -> None:
    workspace.choose_view(workspace.cells[0], "table")

    assert ids(workspace) == ["table", "timeline"]


def test_chooser_menu_changes_the_pane(workspace: Workspace, qtbot: QtBot) -> None:
    menu = workspace.cells[1].chooser.menu()
    action = next(a for a in menu.actions() if a.data() == "problems")

    action.trigger()

    assert ids(workspace) == ["timeline", "problems"]


def test_choices_survive_a_restart(
    workspace: Workspace, session: Session, settings: Settings, qtbot: QtBot
) -> None:
    workspace.choose_view(workspace.cells[1], "statistics")
    workspace.set_details_shown(False)
    workspace.drawer.set_open(False)

    again = Workspace(session, Settings(settings.store), theme("dark"))
    qtbot.addWidget(again)
    again.show()

    assert ids(again) == ["timeline", "statistics"]
    assert not again.details.isVisible()
    assert not again.drawer.is_open
    again.release()


def test_moved_splitter_is_remembered(
    workspace: Workspace, settings: Settings, qtbot: QtBot
) -> None:
    split = workspace.cells[0].parentWidget()
    with qtbot.waitSignal(settings.changed):
        handle = split.handle(1)
        QTest.mousePress(handle, Qt.MouseButton.LeftButton)
        QTest.mouseMove(handle, handle.rect().center() + _down(80))
        QTest.mouseRelease(
            handle, Qt.MouseButton.LeftButton, pos=handle.rect().center() + _down(80)
        )

    assert settings.layout.splits[0] > 550


def _down(pixels: int):
    from PySide6.QtCore import QPoint

    return QPoint(0, pixels)


def test_reset_brings_the_first_layout_back(
    workspace: Workspace, settings: Settings
) -> None:
    workspace.toggle_grid()
    workspace.choose_view(workspace.cells[0], "details")
    workspace.set_details_shown(False)

    workspace.reset_layout()

    assert settings.layout == Layout()
    assert ids(workspace) == ["timeline", "table"]
    assert workspace.details.isVisible()


@pytest.mark.parametrize(
    "cells",
    [
        ("timeline", "timeline", "timeline", "table", "statistics", "problems"),
        ("no-such-view", "table", "timeline", "table", "statistics", "problems"),
        ("overview", "table", "timeline", "table", "statistics", "problems"),
    ],
)
def test_impossible_stored_cells_are_replaced(
    session: Session, qtbot: QtBot, cells: tuple[str, ...]
) -> None:
    settings = Settings(MemoryStore())
    settings.change("layout", cells=cells)

    workspace = Workspace(session, settings, theme("dark"))
    qtbot.addWidget(workspace)

    assert ids(workspace) == ["timeline", "table"]
    workspace.release()


def test_drawer_leaves_out_what_is_a_pane(workspace: Workspace) -> None:
    workspace.choose_view(workspace.cells[1], "experts")

    assert tabs(workspace) == [i for i in DRAWER if i != "experts"]
    workspace.show_drawer("experts")
    assert workspace.drawer.tab != "experts"
    workspace.choose_view(workspace.cells[1], "table")

    assert tabs(workspace) == DRAWER


def test_tabs_leave_no_gaps_where_others_are_hidden(workspace: Workspace) -> None:
    workspace.resize(1400, 800)
    workspace.choose_view(workspace.cells[1], DRAWER[1])

    bar = drawer_tabs(workspace.drawer)
    shown = [bar.tabRect(i) for i in range(bar.count()) if bar.isTabVisible(i)]
    assert len(shown) == len(DRAWER) - 1
    assert [r.x() for r in shown[1:]] == [r.x() + r.width() for r in shown[:-1]]


def test_drawer_hides_where_its_views_are_panes(workspace: Workspace) -> None:
    workspace.toggle_grid()
    workspace.show_view("graph")
    workspace.show_view("heatmap")
    for view_id in DRAWER[4:]:
        workspace.float_view(view_id)
    assert workspace.drawer.isVisible()

    for number, view_id in enumerate(DRAWER[:4]):
        workspace.choose_view(workspace.cells[number], view_id)

    assert not workspace.drawer.isVisible()
    workspace.show_drawer(DRAWER[0])
    workspace.toggle_grid()
    assert workspace.drawer.isVisible()


def test_closed_drawer_keeps_its_tabs_and_a_click_opens_it(
    workspace: Workspace,
) -> None:
    drawer = workspace.drawer
    drawer.set_open(False)
    assert drawer.height() <= drawer.head_height()

    bar = drawer_tabs(drawer)
    QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(1).center())

    assert drawer.is_open
    assert drawer.tab == DRAWER[1]


def test_full_screen_button_fills_and_restores(workspace: Workspace) -> None:
    before = [cell.geometry() for cell in workspace.cells]
    button = workspace.cells[1].full_screen_button

    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert workspace.full_cell is workspace.cells[1]
    assert not workspace.overview.isVisible()
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)

    assert workspace.full_cell is None
    assert [cell.geometry() for cell in workspace.cells] == before


@pytest.mark.parametrize("known", cell_views(), ids=lambda known: known.id)
def test_any_view_can_be_asked_for(
    workspace: Workspace, session: Session, known: ViewEntry
) -> None:
    session.navigator.view_requested.emit(known.id)

    host = next(h for h in workspace.hosts() if h.entry.id == known.id)
    assert host.isVisible()
    assert host.error_panel is None


def test_view_asked_for_while_another_fills_the_screen_is_shown(
    workspace: Workspace, session: Session
) -> None:
    workspace.fill_with(workspace.cells[0])

    session.navigator.view_requested.emit("graph")

    assert workspace.full_cell is None
    assert ids(workspace) == ["timeline", "graph"]


def test_hiding_details_by_its_button_is_remembered(
    workspace: Workspace, settings: Settings
) -> None:
    workspace.details.hide_requested.emit()

    assert not workspace.details.isVisible()
    assert not settings.layout.shows_details


class BrokenView(View):
    """Fails on request."""

    is_broken = True

    def __init__(self, session: Session, theme: Theme, parent: QWidget) -> None:
        super().__init__(session, theme, parent)
        self.connect_until_release((session.selection.changed, self._on_selection))
        if self.is_broken:
            raise ValueError("broken in the making")

    def _on_selection(self, _: object) -> None:
        assert not self.is_broken, "what failed in its making hears nothing"

    def release(self) -> None:
        super().release()
        raise RuntimeError("broken in release")


@pytest.mark.parametrize("where", ["import", "the making"])
def test_broken_view_is_a_panel_and_retry_starts_it_anew(
    qtbot: QtBot, session: Session, where: str, qapp: object
) -> None:
    broken = [True]

    def load(_: ViewEntry) -> type[View]:
        if broken[0] and where == "import":
            raise ImportError("broken in import")
        BrokenView.is_broken = broken[0]
        return BrokenView

    host = ViewHost(entry("table"), session, theme("dark"), loader=load)
    qtbot.addWidget(host)
    host.show()

    panel = host.error_panel
    assert panel is not None
    assert f"broken in {where}" in panel.report
    session.selection.select_span(1)
    QTest.mouseClick(panel.copy_button, Qt.MouseButton.LeftButton)
    assert f"broken in {where}" in qapp.clipboard().text()
    broken[0] = False
    QTest.mouseClick(panel.retry_button, Qt.MouseButton.LeftButton)

    assert host.error_panel is None
    assert isinstance(host.view, BrokenView)
    host.release()


def test_every_builtin_view_loads() -> None:
    for known in BUILTIN:
        assert issubclass(known.load(), View)


@pytest.mark.parametrize("known", cell_views(), ids=lambda known: known.id)
def test_pane_lets_go_of_its_view_once(
    qtbot: QtBot,
    session: Session,
    known: ViewEntry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = ViewHost(known, session, theme("light"))
    qtbot.addWidget(host)
    host.show()
    assert host.view is not None

    host.release()
    host.release()  # of a tab that closes, before the view is deleted

    assert not caplog.messages


def test_every_cell_view_shows_a_trace(qtbot: QtBot, session: Session) -> None:
    for known in cell_views():
        host = ViewHost(known, session, theme("light"))
        qtbot.addWidget(host)
        host.show()
        assert host.error_panel is None, host.error_panel.report
        host.set_theme(theme("dark"))
        host.release()


def test_unknown_view_raises() -> None:
    with pytest.raises(KeyError):
        entry("nothing")


def test_low_window_shares_its_height(workspace: Workspace, qtbot: QtBot) -> None:
    workspace.set_details_shown(False)
    workspace.resize(780, 330)  # what 200 % leaves of 1600 × 1000
    upper, lower = workspace.cells
    assert upper.height() >= LOW_TIMELINE_ROOM
    assert lower.height() >= 100  # rows of the table are in sight

    workspace.show_view("statistics")

    assert lower.isHidden()
    qtbot.waitUntil(lambda: workspace.drawer.height() >= 140)
    assert upper.height() >= LOW_TIMELINE_ROOM


@pytest.mark.parametrize("view_id", ["heatmap", "graph"])
def test_low_window_keeps_other_pictures_as_the_timeline(
    workspace: Workspace, qtbot: QtBot, view_id: str
) -> None:
    workspace.set_details_shown(False)
    workspace.choose_view(workspace.cells[0], view_id)
    workspace.resize(780, 420)
    workspace.show_view("statistics")

    upper, lower = workspace.cells
    qtbot.waitUntil(lower.isHidden)
    assert upper.height() >= LOW_TIMELINE_ROOM

    workspace.resize(780, 900)
    qtbot.waitUntil(lambda: not lower.isHidden())
