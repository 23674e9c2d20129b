"""The panes of one session: overview, cells, drawer and details, and their layout."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QApplication,
    QSizePolicy,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ggscope.gui.panes.drawer import Drawer
from ggscope.gui.panes.floats import FLOATABLE, Floats
from ggscope.gui.panes.host import DropMark, PaneFiller, ViewHost
from ggscope.gui.panes.layouts import (
    BETTER,
    DRAWER_ROOM,
    GRID,
    HIGH_DRAWER_ROOM,
    LOW_TIMELINE_ROOM,
    OTHER_ROOM,
    PICTURES,
    TIMELINE,
    TIMELINE_ROOM,
    fields_of,
    permille,
    place_to_give,
    placed_cells,
    shared_heights,
    with_known_cells,
    with_view,
)
from ggscope.gui.panes.summary_bar import SummaryBar
from ggscope.gui.widgets import GUTTER, GripSplitter
from ggscope.render.figures import has_spans
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.settings import Layout, LayoutName, Settings
from ggscope.views.base.view import View, guarded, later
from ggscope.views.registry import BUILTIN, entry

CONSOLE = "console"
OVERVIEW_HEIGHT = 56
LOW_PX, LOW_OVERVIEW = 700, 36
"""Below the first height of the window, the overview is as low as the second, and the
drawer higher for views that need it."""
DRAWER_SHARE, RUN_SHARE = 0.34, 0.22
"""Height of the open drawer as a share of the window's, where nobody chose another;
the second where the console of a program has a tab there."""
NARROW_PX = 1100
"""A workspace narrower than this has no room to spare for details at its side."""
_MAX_OF_DRAWER = 0.62
_MAX_OF_DETAILS = 0.32
_SAVE_MS = 400
_SUMMARY = "summary"
_FALLBACK_TAB = _SUMMARY
"""Tab of the drawer that comes forward where the one in front is left out."""


class CellDrag(QObject):
    """Follows the heads of panes, and marks where a dragged one would go.

    Parameters
    ----------
    cells : returns the panes that there are now.

    Attributes
    ----------
    mark : lies over the pane that the dragged one would change places with.
    """

    dropped = Signal(object, object)  # ViewHost dragged, ViewHost under it

    def __init__(self, cells: Callable[[], Sequence[ViewHost]], over: QWidget) -> None:
        super().__init__(over)
        self._cells = cells
        self.mark = DropMark(over)

    def follow(self, host: ViewHost) -> None:
        """Let this pane be dragged."""
        host.head.drag_moved.connect(self._on_moved)
        host.head.drag_dropped.connect(self._on_dropped)
        host.head.drag_ended.connect(self.mark.hide)

    def _on_moved(self, at: QPoint) -> None:
        target, own = self._cell_at(at), self._dragged()
        self.mark.show_over(None if target is own else target)

    def _on_dropped(self, at: QPoint) -> None:
        target, own = self._cell_at(at), self._dragged()
        if target is not None and own is not None:
            self.dropped.emit(own, target)

    def _dragged(self) -> ViewHost | None:
        head = self.sender()
        return next((cell for cell in self._cells() if cell.head is head), None)

    def _cell_at(self, at: QPoint) -> ViewHost | None:
        for cell in self._cells():
            if cell.isVisible() and cell.rect().contains(cell.mapFromGlobal(at)):
                return cell
        return None


@guarded
class Workspace(QWidget):
    """What the user looks at once a trace is open.

    The layout is the same for all sessions: it is read from the settings, and
    every change goes back there.
    """

    cells_changed = Signal()
    details_changed = Signal(bool)  # whether they are shown
    full_screen_changed = Signal(bool)
    renderer_changed = Signal(str)
    renderer_failed = Signal(str)
    export_requested = Signal(object)  # Figure, TableFile or OutputFile
    add_requested = Signal()  # files for a view that has nothing to show

    def __init__(
        self,
        session: Session,
        settings: Settings,
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._settings = settings
        self._theme = theme
        self._layout = with_known_cells(settings.layout)
        self._hosts: dict[str, ViewHost] = {}
        self._cells: list[ViewHost] = []
        self._splits: list[QSplitter] = []
        self._root: QSplitter | None = None
        self._placed: dict[int, str] = {}
        self._leaves_out_tabs = False
        self._opened_by_hand: set[str] = set()
        self._active: ViewHost | None = None
        self._used: ViewHost | None = None
        self._full: ViewHost | None = None
        self._moved: set[QSplitter] = set()
        self._is_built = False
        self._is_drawer_raised = False
        self._shows_console = session.run is not None
        """Whether the drawer shows the program's output, which no setting remembers."""
        self.filler = PaneFiller(self._hosts_to_fill, self)
        self._save = QTimer(self, singleShot=True, interval=_SAVE_MS)
        self._save.timeout.connect(self._store_sizes)
        self.floats = Floats(self._new_float, self)
        self.floats.set_title(session.path.name if session.path else "")
        self.floats.docked.connect(self.dock_view)
        self.floats.places_changed.connect(self._on_float_places)
        self._build_frame()
        self._drag = CellDrag(self._cells_now, self)
        self._drag.dropped.connect(self.swap_cells)
        self._build_cells()
        self._apply_docks()
        self._is_built = True
        session.trace_changed.connect(self._on_trace_changed)
        session.navigator.view_requested.connect(self.show_view)
        settings.changed.connect(self._on_settings_changed)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._on_focus_changed)

    # -- what is where -----------------------------------------------------

    @property
    def drop_mark(self) -> QWidget:
        """What marks the pane that a dragged one would change places with."""
        return self._drag.mark

    @property
    def layout_name(self) -> LayoutName:
        """Which arrangement of cells is shown."""
        return self._layout.name

    @property
    def cells(self) -> tuple[ViewHost, ...]:
        """The panes of the centre, in reading order."""
        return tuple(self._cells)

    @property
    def active_cell(self) -> ViewHost | None:
        """The pane that had the focus last, else the first in sight."""
        if self._active in self._cells and self._active.isVisibleTo(self):
            return self._active
        seen = (cell for cell in self._cells if cell.isVisibleTo(self))
        return next(seen, self._cells[0] if self._cells else None)

    @property
    def used_host(self) -> ViewHost | None:
        """The pane that was used last, the drawer's and the details too."""
        if self._full is not None:
            return self._full
        docked = (*self._cells, self.details, self.drawer.front)
        if self._used in docked and self._used.isVisibleTo(self):
            return self._used
        return self.active_cell

    @property
    def shows_details(self) -> bool:
        """Whether Details is shown in a window as wide as this one."""
        if self._is_narrow():
            return self._layout.shows_details_narrow
        return self._layout.shows_details

    @property
    def shows_summary(self) -> bool:
        """Whether a pane shows the summary, or would but for a selection.

        Details shows a program that runs instead.
        """
        docked = [host.entry.id for host in self._cells]
        if self.shows_details:
            docked.append("details")
        if self.drawer.is_open:
            docked.append(self.drawer.tab)
        if self._full is not None:
            docked = [self._full.entry.id]
        follower = self._session.follower
        follows = follower is not None and follower.is_on
        shown = {*docked, *self._layout.floating}
        return _SUMMARY in shown or ("details" in shown and not follows)

    def hosts(self) -> tuple[ViewHost, ...]:
        """Return all panes, the overview first."""
        docks = (self.details, *self.drawer.hosts())
        return (self.overview, *self._cells, *docks, *self.floats.hosts())

    def views(self, view_id: str | None = None) -> tuple[View, ...]:
        """Return the views that there are, all or those of one kind.

        Panes in sight that still wait for their turn are filled now.
        """
        for host in self.hosts():
            if host.is_waiting and host.isVisible() and view_id == host.entry.id:
                host.stop_waiting()
        return tuple(
            host.view
            for host in self.hosts()
            if host.view is not None and view_id in (None, host.entry.id)
        )

    # -- changing the layout -----------------------------------------------

    def set_layout_name(self, name: LayoutName) -> None:
        """Show one, two or four panes."""
        self._change(name=name)

    def toggle_grid(self) -> None:
        """Change between the 2×2 grid and the dual view."""
        self._change(name="dual" if self._layout.name == "grid" else "grid")

    def reset_layout(self) -> None:
        """Go back to the layout of the first start."""
        self._settings.change("layout", **fields_of(Layout()))
        self.take_layout()

    def take_layout(self) -> None:
        """Show the layout of the settings: another tab may have changed it."""
        new = with_known_cells(self._settings.layout)
        if new == self._layout:
            return
        self._layout = new
        self.leave_full_screen()
        self._build_cells()
        self._apply_docks()
        self.cells_changed.emit()

    def choose_view(self, host: ViewHost, view_id: str) -> None:
        """Show another view in a pane; a view shown elsewhere changes places."""
        if host not in self._cells or host.entry.id == view_id:
            return
        self._put(view_id, self._place_of(host))

    def swap_cells(self, one: ViewHost, other: ViewHost) -> None:
        """Let two panes change places."""
        if one is other or not {one, other} <= set(self._cells):
            return
        self._put(other.entry.id, self._place_of(one))

    def _put(self, view_id: str, place: int) -> None:
        """Show a view in a place, even one that has nothing to show."""
        self._opened_by_hand.add(view_id)
        self.dock_view(view_id)
        if not self._change(
            cells=with_view(self._layout, self._placed, place, view_id)
        ):
            self._refresh_cells()  # it had given way

    def _place_of(self, host: ViewHost) -> int:
        return next(p for p, i in self._placed.items() if i == host.entry.id)

    def float_view(self, view_id: str) -> None:
        """Put a view into a window of its own, or bring that to the front."""
        window = self.floats.window(view_id)
        if window is not None:
            window.raise_()
            window.activateWindow()
        elif view_id in FLOATABLE:
            self._change(floating=(*self._layout.floating, view_id))
            if self.active_cell is not None:  # not whatever comes next in the row
                self.active_cell.setFocus()

    def dock_view(self, view_id: str) -> None:
        """Bring a floating view back to its place."""
        floating = tuple(i for i in self._layout.floating if i != view_id)
        if floating != self._layout.floating:
            self._change(floating=floating)
            self.drawer.show_tab(view_id, opens=False)

    def toggle_float(self, view_id: str) -> None:
        """Float a view that is docked, dock one that floats."""
        if view_id in self._layout.floating:
            self.dock_view(view_id)
        else:
            self.float_view(view_id)

    def set_details_shown(self, is_shown: bool) -> None:
        """Show or hide the details at the right, in windows as wide as this one."""
        if self._is_narrow():
            self._change(shows_details_narrow=is_shown)
        else:
            self._change(shows_details=is_shown)

    def toggle_details(self) -> None:
        """Show the details where they are hidden, and the other way round."""
        if self._full is self.details:
            self.leave_full_screen()
        self.set_details_shown(not self.shows_details)

    def toggle_drawer(self) -> None:
        """Open the drawer where it is closed, and the other way round."""
        self.drawer.toggle()

    def show_drawer(self, view_id: str) -> None:
        """Open the drawer with this tab in front, or go to the pane that has it."""
        if view_id in self._layout.floating:
            self.float_view(view_id)
            return
        for host in self._cells:
            if host.entry.id == view_id:
                self._focus_cell(host)
                return
        if self._needs_data(view_id):
            self._opened_by_hand.add(view_id)
            self._apply_tabs()
        if self._drawer_is_needed():
            self.drawer.show_tab(view_id)

    def show_view(self, view_id: str) -> None:
        """Bring a view to where it can be seen, and give it the focus.

        One that is neither in a pane nor in the drawer takes the place of the pane
        that is not the active one. An unknown id is ignored.
        """
        if view_id not in {known.id for known in BUILTIN}:
            return
        if view_id == "details":
            if self._full is not self.details:
                self.leave_full_screen()
            self.set_details_shown(True)
            self.details.setFocus()
            return
        shown = {host.entry.id: host for host in self._cells}
        if view_id in shown or view_id in self._layout.floating:
            if self._full is not None and self._full is not shown.get(view_id):
                self.leave_full_screen()
            self.show_drawer(view_id)
        elif entry(view_id).area == "bottom":
            if self._full is not self.drawer.front:
                self.leave_full_screen()
            self.show_drawer(view_id)
            self.drawer.front.setFocus()
        else:
            self.leave_full_screen()
            self._opened_by_hand.add(view_id)
            self._refresh_cells()  # it may have a place that it had left to others
            if view_id not in self._hosts:
                active = self.active_cell
                place = place_to_give(self._placed, active.entry.id if active else None)
                self._put(view_id, place)
            self._focus_cell(self._hosts[view_id])

    def _focus_cell(self, host: ViewHost) -> None:
        """Go to a pane; one that has given way to the drawer takes its place back."""
        if not host.isVisibleTo(self):
            self.drawer.set_open(False)
        host.setFocus()

    # -- full screen -------------------------------------------------------

    @property
    def full_cell(self) -> ViewHost | None:
        """The pane that fills the workspace, or None."""
        return self._full

    def fill_with(self, host: ViewHost | None) -> None:
        """Let one pane fill the workspace; None = the one that was used last."""
        host = host or self.used_host
        if host is None or self._full is host:
            return
        self.leave_full_screen()
        self._sizes = [(s, s.saveState()) for s in self._splits]
        self._full = host
        parts = (self._left, self._centre, self.drawer, self.details)
        for part in (self.overview, *parts, *self._splits, *self._cells):
            part.setVisible(part is host or part.isAncestorOf(host))
        self.summary_bar.refresh()
        self._say_full(host, True)
        host.setFocus()
        self.full_screen_changed.emit(True)

    def _say_full(self, host: ViewHost, is_full: bool) -> None:
        host.set_is_full(is_full)
        if self.drawer.isAncestorOf(host):
            self.drawer.set_is_full(is_full)

    def leave_full_screen(self) -> bool:
        """Show all panes again, as they were. Returns whether one filled."""
        host, self._full = self._full, None
        if host is None:
            return False
        self._say_full(host, False)
        for part in (self._left, self._centre, *self._splits, *self._cells):
            part.show()
        self._show_overview()
        self.drawer.setVisible(self._drawer_is_needed())
        self._show_details()
        for split, state in self._sizes:
            split.restoreState(state)
        self._fit_docks()
        host.setFocus()
        self.summary_bar.refresh()
        self.full_screen_changed.emit(False)
        return True

    # -- theme, end --------------------------------------------------------

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme` in all views."""
        self._theme = theme
        self.summary_bar.set_theme(theme)
        for host in self.hosts():
            host.set_theme(theme)

    def rebuild_views(self) -> None:
        """Make all views anew: the size of fonts has changed."""
        self._fit_overview()
        for host in self.hosts():
            host.rebuild()

    def release(self) -> None:
        """Let go of all views; the tab is about to go."""
        self._save.stop()
        self.filler.stop()
        self.floats.release()
        self.summary_bar.release()
        for host in self.hosts():
            host.release()

    def showEvent(self, event: QShowEvent) -> None:
        """Show what floats."""
        super().showEvent(event)
        self.floats.set_visible(True)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the docks their share of the new size."""
        super().resizeEvent(event)
        self._fit_overview()
        self._show_details()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Share the centre anew when its size changes, as by the drawer's edge.

        Docks get their share once the layout has given their splitters a new size.
        """
        if event.type() == QEvent.Type.Resize:
            if watched is self._centre:
                self._share_centre()
            else:
                self._fit_docks()
        return super().eventFilter(watched, event)

    def hideEvent(self, event: QHideEvent) -> None:
        """Hide what floats: another tab is in front."""
        super().hideEvent(event)
        if not self.isVisible() and not self.window().isMinimized():
            self.floats.set_visible(False)

    # -- building ----------------------------------------------------------

    def _build_frame(self) -> None:
        self.overview = ViewHost(
            entry("overview"),
            self._session,
            self._theme,
            self,
            is_cell=False,
            has_head=False,
        )
        self.overview.view_ready.connect(self._on_view_ready)
        self._fit_overview()
        self.summary_bar = SummaryBar(
            self._session, self._theme, lambda: not self.shows_summary, self
        )
        self.summary_bar.clicked.connect(self._on_summary_bar)
        self._centre = QWidget(self)
        self._centre.installEventFilter(self)
        self._centre.setSizePolicy(
            QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding
        )
        self._centre_box = QVBoxLayout(self._centre)
        self._centre_box.setContentsMargins(0, 0, 0, 0)
        self.drawer = Drawer(self._session, self._theme, self, waits=True)
        self.drawer.toggled.connect(self._on_drawer_toggled)
        self.drawer.tab_changed.connect(self._on_drawer_tab)
        self.drawer.float_requested.connect(self.float_view)
        self.drawer.full_screen_requested.connect(self._on_drawer_full)
        self.details = ViewHost(
            entry("details"),
            self._session,
            self._theme,
            self,
            is_cell=False,
            can_float=True,
            waits=True,
        )
        self.details.float_requested.connect(self.float_view)
        for host in (*self.drawer.hosts(), self.details):
            host.view_ready.connect(self._on_view_ready)
            host.add_requested.connect(self.add_requested)
        self.details.setMinimumWidth(200)
        self.details.hide_requested.connect(self.toggle_details)
        self.details.full_screen_requested.connect(self._on_full_screen_requested)
        self._rows = GripSplitter(Qt.Orientation.Vertical, self)
        self._rows.addWidget(self._centre)
        self._rows.addWidget(self.drawer)
        self._rows.setStretchFactor(0, 1)
        self._rows.setStretchFactor(1, 0)
        self._left = QWidget(self)
        column = QVBoxLayout(self._left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GUTTER)
        column.addWidget(self.overview)
        column.addWidget(self._rows, 1)
        self._columns = GripSplitter(Qt.Orientation.Horizontal, self)
        self._columns.addWidget(self._left)
        self._columns.addWidget(self.details)
        self._columns.setStretchFactor(0, 1)
        self._columns.setStretchFactor(1, 0)
        for split in (self._rows, self._columns):
            split.splitterMoved.connect(self._on_split_moved)
            split.installEventFilter(self)
        box = QVBoxLayout(self)
        box.setContentsMargins(GUTTER, GUTTER, GUTTER, GUTTER)
        box.addWidget(self._columns)

    def _build_cells(self) -> None:
        """Arrange the panes of the centre; those already there are moved."""
        focus = QApplication.focusWidget()
        had_focus = focus is not None and self._centre.isAncestorOf(focus)
        self._placed = placed_cells(self._layout, self._has_data)
        view_ids = tuple(self._placed.values())
        hosts = {vid: self._hosts.get(vid) or self._new_host(vid) for vid in view_ids}
        old_root = self._root
        self._cells = [hosts[vid] for vid in view_ids]
        self._splits = []
        self._root = self._arranged(self._cells)
        self._centre_box.addWidget(self._root)
        for view_id, host in self._hosts.items():
            if view_id not in hosts:
                host.release()
                host.hide()
                host.deleteLater()
        self._hosts = hosts
        if old_root is not None:
            self._centre_box.removeWidget(old_root)
            old_root.hide()
            old_root.deleteLater()
        for host in self._cells:
            host.show()
        self._root.show()  # a layout would do so only in the next turn of the loop
        self._apply_tabs()
        self.drawer.setVisible(self._drawer_is_needed())
        self._fit_docks()
        used = self.used_host
        if had_focus and used is not None:  # moving a pane takes it from there
            used.setFocus()

    def _has_data(self, view_id: str) -> bool:
        """Return whether a view has anything to show, or was asked for all the same."""
        if view_id in self._opened_by_hand:
            return True
        trace, better = self._session.trace, BETTER.get(view_id)
        if better is not None and trace is not None and entry(better).has_data(trace):
            return False
        return not self._is_empty(view_id)

    def _is_empty(self, view_id: str) -> bool:
        """Return whether it is known that a view has nothing to show."""
        trace = self._session.trace
        if self._is_of_no_run(view_id):
            return True
        if trace is None or trace.pending:
            return False
        return not entry(view_id).has_data(trace)

    def _is_of_no_run(self, view_id: str) -> bool:
        """Return whether a view is about a program, and this tab has started none."""
        return entry(view_id).of_run and self._session.run is None

    def _refresh_cells(self) -> None:
        """Let panes without data give way, and those that have some come back."""
        if placed_cells(self._layout, self._has_data) != self._placed:
            self.leave_full_screen()
            self._build_cells()
            self.cells_changed.emit()
        self._apply_tabs()
        self._show_overview()

    def _show_overview(self) -> None:
        """Show the overview, but of what has no spans: it would be an empty strip."""
        if self._full is None:
            self.overview.setVisible(not self._is_empty("overview"))

    def _arranged(self, cells: list[ViewHost]) -> QSplitter:
        root = self._splitter(Qt.Orientation.Vertical)
        if self._layout.name != "grid":
            for host in cells:
                root.addWidget(host)
            return root
        rows: dict[int, QSplitter] = {}
        for place, host in zip(self._placed, cells, strict=True):
            number = (place - GRID) // 2
            if number not in rows:
                rows[number] = self._splitter(Qt.Orientation.Horizontal)
                root.addWidget(rows[number])
            rows[number].addWidget(host)
        return root

    def _splitter(self, orientation: Qt.Orientation) -> QSplitter:
        made = GripSplitter(orientation, self._centre)
        made.splitterMoved.connect(self._on_split_moved)
        self._splits.append(made)
        return made

    def _new_host(self, view_id: str) -> ViewHost:
        host = ViewHost(
            entry(view_id),
            self._session,
            self._theme,
            self._centre,
            can_float=view_id in FLOATABLE,
            waits=self.filler.waits(view_id),
        )
        host.float_requested.connect(self.float_view)
        self._drag.follow(host)
        host.chosen.connect(self._on_chosen)
        host.full_screen_requested.connect(self._on_full_screen_requested)
        host.view_ready.connect(self._on_view_ready)
        host.view_ready.connect(self.cells_changed)
        host.add_requested.connect(self.add_requested)
        return host

    def _fit_overview(self) -> None:
        """Give the overview the height that its texts need."""
        high = round(
            (LOW_OVERVIEW if self._is_low() else OVERVIEW_HEIGHT) * self._zoom()
        )
        self.overview.setMinimumSize(160, high)
        self.overview.setMaximumHeight(high)

    def _zoom(self) -> float:
        return self._settings.appearance.font_scale / 100

    def _fit_docks(self) -> None:
        """Give drawer and details what they need, and the panes all the rest."""
        if self._full is not None:
            return
        available = self._rows.height() - self._rows.handleWidth()
        high = self._drawer_height(available) if self.drawer.is_open else 0
        high = max(high, self.drawer.minimumHeight())
        self._rows.setSizes([max(0, available - high), high])
        self._share_centre()
        available = self._columns.width() - self._columns.handleWidth()
        wide = min(self._layout.right_width, round(available * _MAX_OF_DETAILS))
        wide = max(wide, self.details.minimumWidth())
        self._columns.setSizes([max(0, available - wide), wide])

    def _drawer_height(self, available: int) -> int:
        """Return the height of the drawer; it and the panes share `available` pixels.

        The user's, else a share of the window's, whatever is in front: its tabs stay
        where they are. Less only where there is no room for lanes; in a low window
        more once a view that needs it was in front, until the drawer is closed.
        """
        chosen, zoom = self._layout.bottom_height, self._zoom()
        share = DRAWER_SHARE if self._session.run is None else RUN_SHARE
        share = round(share * self.window().height())
        height = chosen or max(share, round(DRAWER_ROOM * zoom))
        if TIMELINE in self._hosts:
            lanes = max(available - round(DRAWER_ROOM * zoom), LOW_TIMELINE_ROOM * zoom)
            height = min(height, available - round(min(lanes, TIMELINE_ROOM * zoom)))
        height = min(height, round(available * _MAX_OF_DRAWER))
        if self._is_drawer_raised and self._is_low() and not chosen:
            space = available - round(LOW_TIMELINE_ROOM * zoom) - GUTTER
            height = max(height, min(round(HIGH_DRAWER_ROOM * zoom), space))
        return height

    def _raise_drawer(self) -> None:
        """Make the drawer higher for a view that needs it; tabs do not jump back."""
        is_high = entry(self.drawer.tab).needs_height or self._is_drawer_raised
        is_raised = self.drawer.is_open and is_high
        if is_raised != self._is_drawer_raised:
            self._is_drawer_raised = is_raised
            self._fit_docks()

    def _share_centre(self) -> None:
        """Share the height of the centre among its rows, and the width of each."""
        if self._full is not None or not self._splits:
            return
        dual, columns, rows = self._layout.splits
        root, *pairs = self._splits
        for pair in pairs:
            pair.setSizes([columns * 10, (1000 - columns) * 10])
        parts = list(pairs or self._cells)
        total = self._centre.height() - root.handleWidth()
        if len(parts) < 2 or total <= 0:
            return
        host = self._hosts.get(TIMELINE)
        if host is None and total < (TIMELINE_ROOM + OTHER_ROOM) * self._zoom():
            # There is no place for both: another picture is kept as the timeline is.
            host = next(filter(None, map(self._hosts.get, PICTURES)), None)
        holds = [
            host is not None and (p is host or p.isAncestorOf(host)) for p in parts
        ]
        heights = shared_heights(
            total,
            rows if pairs else dual,
            holds.index(True) if True in holds else None,
            self._zoom(),
            may_fold=self.drawer.is_open and not self.drawer.isHidden(),
            is_chosen=self._layout.splits != Layout().splits,
        )
        before = [part.isHidden() for part in parts]
        for part, height in zip(parts, heights, strict=True):
            part.setVisible(height > 0)
        root.setSizes(list(heights))
        if before != [part.isHidden() for part in parts]:
            # What is hidden still asks for its least height until the next turn.
            later(self, self._fit_docks)

    def _is_low(self) -> bool:
        return self.window().height() < LOW_PX * self._zoom()

    def _is_narrow(self) -> bool:
        return self.width() < NARROW_PX * self._zoom()

    def _apply_docks(self) -> None:
        layout, tab = self._layout, self._layout.bottom_tab
        self._apply_floats()
        self.drawer.show_tab(CONSOLE if self._shows_console else tab, opens=False)
        self.drawer.set_open(layout.shows_drawer or self._shows_console)
        self._fit_docks()

    def _new_float(self, view_id: str) -> ViewHost:
        host = ViewHost(
            entry(view_id), self._session, self._theme, is_cell=False, has_head=False
        )
        host.view_ready.connect(self._on_view_ready)
        host.add_requested.connect(self.add_requested)
        return host

    def _apply_floats(self) -> None:
        layout = self._layout
        floating = [i for i in layout.floating if not self._is_of_no_run(i)]
        self.floats.show_only(floating, layout.float_places)
        self._apply_tabs()
        self._show_details()
        if self._full is None:
            self.drawer.setVisible(self._drawer_is_needed())

    def _apply_tabs(self) -> None:
        """Leave out of the drawer what is in a pane or a window of its own."""
        # Another tab comes to the front where that one is left out: nobody chose it.
        elsewhere, front = self._shown_elsewhere(), self.drawer.tab
        self._leaves_out_tabs = True
        self.drawer.set_elsewhere(elsewhere)
        if front in elsewhere and _FALLBACK_TAB not in elsewhere:
            self.drawer.show_tab(_FALLBACK_TAB, opens=False)
        self._leaves_out_tabs = False

    def _show_details(self) -> None:
        if self._full is None:
            is_docked = "details" not in self._layout.floating
            is_shown = self.shows_details and is_docked
            if is_shown is self.details.isHidden():
                self.details.setVisible(is_shown)
                self._fit_docks()
                self.details_changed.emit(is_shown)
        self.summary_bar.refresh()

    # -- reactions ---------------------------------------------------------

    def _hosts_to_fill(self) -> tuple[ViewHost, ...]:
        """Return the panes in the order in which people look at them."""
        if not self._is_built:
            return ()
        return (*self._cells, self.details, *self.drawer.hosts())

    def _on_trace_changed(self, _: object) -> None:
        """Fill the other panes, after the first picture where there will be one."""
        if self._session.is_appending:  # they are filled
            return
        self._refresh_cells()
        if not any(h.entry.id == "timeline" and h.isVisible() for h in self._cells):
            self.filler.start()

    def _on_view_ready(self, view: View) -> None:
        view.first_painted.connect(self.filler.start)
        view.renderer_changed.connect(self.renderer_changed)
        view.renderer_failed.connect(self.renderer_failed)
        view.figure_requested.connect(self.export_requested)
        view.table_requested.connect(self.export_requested)
        view.file_requested.connect(self.export_requested)
        view.set_zoom(self._zoom())
        view.use_settings(self._settings)
        view.set_drawing(self._settings.drawing)
        view.set_calm(self._settings.appearance.reduced_motion)

    def _on_settings_changed(self, topic: str) -> None:
        if topic == "appearance":
            for view in self.views():
                view.set_calm(self._settings.appearance.reduced_motion)
        if topic == "drawing":
            for view in self.views():
                view.set_drawing(self._settings.drawing)

    def _on_chosen(self, view_id: str) -> None:
        host = self.sender()
        if isinstance(host, ViewHost):
            self.choose_view(host, view_id)

    def _on_focus_changed(self, _: QWidget | None, now: QWidget | None) -> None:
        """Remember which of its panes is used; those of other tabs, which may go, not.

        To remember one would keep all of its tab's trace after that is closed.
        """
        while now is not None and now is not self:
            if isinstance(now, ViewHost) and now is not self.overview:
                if now in self.hosts():
                    self._used = now
                    self._active = now if now in self._cells else self._active
                return
            now = now.parentWidget()

    def _on_float_places(self, places: tuple[str, ...]) -> None:
        self._layout = replace(self._layout, float_places=places)
        self._settings.change("layout", float_places=places)

    def _on_full_screen_requested(self) -> None:
        host = self.sender()
        if not self.leave_full_screen() and isinstance(host, ViewHost):
            self.fill_with(host)

    def _on_drawer_full(self) -> None:
        if not self.leave_full_screen():
            self.fill_with(self.drawer.front)

    def _on_drawer_toggled(self, is_open: bool) -> None:
        if not is_open and self._full is self.drawer.front:
            self.leave_full_screen()
        if self.drawer.tab == CONSOLE:
            self._shows_console = is_open
        else:
            self._change(shows_drawer=is_open)
        self._raise_drawer()
        self._fit_docks()
        self.summary_bar.refresh()

    def _on_drawer_tab(self, view_id: str) -> None:
        """Remember the tab for all sessions; the console's is of this one alone."""
        if self._full in self.drawer.hosts():
            self._full = self.drawer.front
        was_console = self._shows_console
        self._shows_console = view_id == CONSOLE and self.drawer.is_open
        if view_id != CONSOLE and not self._leaves_out_tabs:
            opened = {"shows_drawer": True} if was_console else {}
            self._change(bottom_tab=view_id, **opened)
        self._raise_drawer()
        self.summary_bar.refresh()

    def _on_summary_bar(self) -> None:
        self.show_view(_SUMMARY)

    def _on_split_moved(self) -> None:
        moved = self.sender()
        if isinstance(moved, QSplitter):
            self._moved.add(moved)
        if moved is self._rows and self.drawer.is_open:  # before anything fits it anew
            height = max(80, self.drawer.height())
            self._layout = replace(self._layout, bottom_height=height)
        if moved in self._splits[1:] and isinstance(moved, QSplitter):
            for row in self._splits[1:]:  # the columns of the grid stay in line
                if row is not moved:
                    row.setSizes(moved.sizes())
        self._save.start()

    def _store_sizes(self) -> None:
        """Remember the sizes that the user has chosen, and no others."""
        moved, self._moved = self._moved, set()
        if self._full is not None or not self.isVisible():
            return
        changes: dict[str, object] = {}
        if not moved.isdisjoint(self._splits):
            dual, columns, rows = self._layout.splits
            if self._layout.name == "dual":
                dual = permille(self._splits[0], dual)
            elif self._layout.name == "grid":
                rows = permille(self._splits[0], rows)
                for row in self._splits[1:]:  # both have the same, or one pane gave way
                    columns = permille(row, columns)
            changes["splits"] = (dual, columns, rows)
        if self._columns in moved and self.details.isVisible():
            changes["right_width"] = max(180, self.details.width())
        if self._rows in moved and self.drawer.is_open:
            changes["bottom_height"] = max(80, self.drawer.height())
        self._layout = replace(self._layout, **changes)  # type: ignore[arg-type]
        self._settings.change("layout", **changes)

    def _change(self, **values: object) -> bool:
        """Change the layout, show it, and remember it. Returns whether it changed."""
        old = self._layout
        self._layout = replace(old, **values)  # type: ignore[arg-type]  # checked names
        if self._layout == old:
            return False
        if {"name", "cells", "floating"} & values.keys():
            self.leave_full_screen()
            self._build_cells()
            self.cells_changed.emit()
        if "floating" in values:
            self._apply_floats()
        self._show_details()
        self._settings.change("layout", **values)
        return True

    # -- helpers -----------------------------------------------------------

    def _drawer_is_needed(self) -> bool:
        """Return whether the drawer has a view that is not a pane of its own."""
        ids = {host.entry.id for host in self.drawer.hosts()}
        return not ids <= self._shown_elsewhere()

    def _shown_elsewhere(self) -> set[str]:
        shown = {host.entry.id for host in self._cells} | set(self._layout.floating)
        return shown | {known.id for known in BUILTIN if self._has_no_tab(known.id)}

    def _has_no_tab(self, view_id: str) -> bool:
        """Return whether a view is not for this tab, or for traces of another kind."""
        if self._needs_data(view_id) and view_id not in self._opened_by_hand:
            return self._is_empty(view_id)
        return self._is_of_no_run(view_id)

    def _needs_data(self, view_id: str) -> bool:
        """Return whether a view has a tab only with data, or where it was asked for."""
        known, trace = entry(view_id), self._session.trace
        if known.of_few or known.stays or known.of_run:
            return known.of_few
        is_known = trace is not None and not trace.pending
        return is_known and trace is not None and not has_spans(trace)

    def _cells_now(self) -> tuple[ViewHost, ...]:
        return self.cells
