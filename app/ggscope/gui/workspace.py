"""The panes of one session: overview, cells, drawer and details, and their layout."""

from dataclasses import replace

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QSizePolicy, QSplitter, QVBoxLayout, QWidget

from ggscope.gui.cell_drag import CellDrag
from ggscope.gui.drawer import Drawer
from ggscope.gui.floats import FLOATABLE, Floats
from ggscope.gui.layouts import (
    fields_of,
    permille,
    shown_cells,
    with_known_cells,
    with_view,
)
from ggscope.gui.pane_filler import PaneFiller
from ggscope.gui.view_host import ViewHost
from ggscope.gui.widgets import GUTTER, GripSplitter
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.settings import Layout, LayoutName, Settings
from ggscope.views.base import View
from ggscope.views.guard import guarded
from ggscope.views.painted import PaintedView
from ggscope.views.registry import BUILTIN, entry

OVERVIEW_HEIGHT = 56
_SAVE_MS = 400


@guarded
class Workspace(QWidget):
    """What a person looks at once a trace is open.

    The layout is the same for all sessions: it is read from the settings, and
    every change goes back there.
    """

    cells_changed = Signal()
    full_screen_changed = Signal(bool)

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
        self._active: ViewHost | None = None
        self._full: ViewHost | None = None
        self._is_built = False
        self.filler = PaneFiller(self._hosts_to_fill, self)
        self._save = QTimer(self)
        self._save.setSingleShot(True)
        self._save.setInterval(_SAVE_MS)
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
        session.view_requested.connect(self.show_view)
        settings.changed.connect(self._on_settings_changed)

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
        """The pane that had the focus last, else the first."""
        if self._active in self._cells:
            return self._active
        return self._cells[0] if self._cells else None

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
        self.dock_view(view_id)
        self._change(cells=with_view(self._layout, host.entry.id, view_id))

    def swap_cells(self, one: ViewHost, other: ViewHost) -> None:
        """Let two panes change places."""
        if one is other or not {one, other} <= set(self._cells):
            return
        self._change(cells=with_view(self._layout, one.entry.id, other.entry.id))

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
        kept = tuple(i for i in self._layout.floating if i != view_id)
        if kept != self._layout.floating:
            self._change(floating=kept)
            self.drawer.show_tab(view_id, opens=False)

    def toggle_float(self, view_id: str) -> None:
        """Float a view that is docked, dock one that floats."""
        if view_id in self._layout.floating:
            self.dock_view(view_id)
        else:
            self.float_view(view_id)

    def set_details_shown(self, is_shown: bool) -> None:
        """Show or hide the details at the right."""
        self._change(shows_details=is_shown)

    def toggle_details(self) -> None:
        """Show the details where they are hidden, and the other way round."""
        self.set_details_shown(not self._layout.shows_details)

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
                host.setFocus()
                return
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
            self.set_details_shown(True)
            self.details.setFocus()
            return
        shown = {host.entry.id: host for host in self._cells}
        if view_id in shown or view_id in self._layout.floating:
            if self._full is not None and self._full is not shown.get(view_id):
                self.leave_full_screen()
            self.show_drawer(view_id)
        elif entry(view_id).area == "bottom":
            self.leave_full_screen()
            self.drawer.show_tab(view_id)
            self._drawer_host(view_id).setFocus()
        else:
            self.leave_full_screen()
            others = [h for h in self._cells if h is not self.active_cell]
            self.choose_view((others or self._cells)[-1], view_id)
            self._hosts[view_id].setFocus()

    def _drawer_host(self, view_id: str) -> ViewHost:
        return next(h for h in self.drawer.hosts() if h.entry.id == view_id)

    # -- full screen -------------------------------------------------------

    @property
    def full_cell(self) -> ViewHost | None:
        """The pane that fills the workspace, or None."""
        return self._full

    def fill_with(self, host: ViewHost | None) -> None:
        """Let one pane fill the workspace; None = the active one."""
        host = host or self.active_cell
        if host is None or self._full is host:
            return
        self.leave_full_screen()
        self._sizes = [(s, s.saveState()) for s in self._all_splitters()]
        self._full = host
        for other in (self.overview, self.drawer, self.details, *self._cells):
            other.setVisible(other is host)
        for split in self._splits:
            split.setVisible(split.isAncestorOf(host))
        host.set_is_full(True)
        host.setFocus()
        self.full_screen_changed.emit(True)

    def leave_full_screen(self) -> bool:
        """Show all panes again, as they were. Returns whether one filled."""
        host, self._full = self._full, None
        if host is None:
            return False
        host.set_is_full(False)
        for split in self._splits:
            split.show()
        for other in (self.overview, *self._cells):
            other.show()
        self.drawer.setVisible(self._drawer_is_needed())
        self._show_details()
        for split, state in self._sizes:
            split.restoreState(state)
        host.setFocus()
        self.full_screen_changed.emit(False)
        return True

    # -- theme, end --------------------------------------------------------

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme` in all views."""
        self._theme = theme
        for host in self.hosts():
            host.set_theme(theme)

    def rebuild_views(self) -> None:
        """Make all views anew: the size of fonts has changed."""
        self._fit_overview()
        for host in self.hosts():
            host.rebuild()

    def release(self) -> None:
        """Detach all views from the session."""
        self._save.stop()
        self.filler.stop()
        self.floats.release()
        for host in self.hosts():
            host.release()

    def showEvent(self, event: QShowEvent) -> None:
        """Show what floats."""
        super().showEvent(event)
        self.floats.set_visible(True)

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
        self._centre = QWidget(self)
        self._centre.setSizePolicy(
            QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding
        )
        self._centre_box = QVBoxLayout(self._centre)
        self._centre_box.setContentsMargins(0, 0, 0, 0)
        self.drawer = Drawer(self._session, self._theme, self, waits=True)
        self.drawer.toggled.connect(self._on_drawer_toggled)
        self.drawer.tab_changed.connect(self._on_drawer_tab)
        self.drawer.float_requested.connect(self.float_view)
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
        self.details.setMinimumWidth(200)
        self.details.more_requested.connect(self.toggle_details)
        self._rows = GripSplitter(Qt.Orientation.Vertical, self)
        self._rows.addWidget(self._centre)
        self._rows.addWidget(self.drawer)
        self._rows.setStretchFactor(0, 1)
        self._rows.setStretchFactor(1, 0)
        left = QWidget(self)
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GUTTER)
        column.addWidget(self.overview)
        column.addWidget(self._rows, 1)
        self._columns = GripSplitter(Qt.Orientation.Horizontal, self)
        self._columns.addWidget(left)
        self._columns.addWidget(self.details)
        self._columns.setStretchFactor(0, 1)
        self._columns.setStretchFactor(1, 0)
        for split in (self._rows, self._columns):
            split.splitterMoved.connect(self._on_split_moved)
        box = QVBoxLayout(self)
        box.setContentsMargins(GUTTER, GUTTER, GUTTER, GUTTER)
        box.addWidget(self._columns)

    def _build_cells(self) -> None:
        """Arrange the panes of the centre; those already there are moved."""
        wanted = shown_cells(self._layout)
        hosts = {vid: self._hosts.get(vid) or self._new_host(vid) for vid in wanted}
        old_root = self._root
        self._cells = [hosts[vid] for vid in wanted]
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
        self._apply_splits()

    def _arranged(self, cells: list[ViewHost]) -> QSplitter:
        root = self._splitter(Qt.Orientation.Vertical)
        if self._layout.name != "grid":
            for host in cells:
                root.addWidget(host)
            return root
        for pair in filter(None, (cells[:2], cells[2:])):
            row = self._splitter(Qt.Orientation.Horizontal)
            for host in pair:
                row.addWidget(host)
            root.addWidget(row)
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
        host.focused.connect(self._on_focused)
        host.full_screen_requested.connect(self._on_full_screen_requested)
        host.view_ready.connect(self._on_view_ready)
        host.view_ready.connect(self.cells_changed)
        return host

    def _fit_overview(self) -> None:
        """Give the overview the height that its texts need."""
        high = round(OVERVIEW_HEIGHT * self._zoom())
        self.overview.setMinimumSize(160, high)
        self.overview.setMaximumHeight(high)

    def _zoom(self) -> float:
        return self._settings.appearance.font_scale / 100

    def _apply_splits(self) -> None:
        dual, columns, rows = self._layout.splits
        if self._layout.name == "dual":
            self._splits[0].setSizes([dual * 10, (1000 - dual) * 10])
        elif self._layout.name == "grid":
            self._splits[0].setSizes([rows * 10, (1000 - rows) * 10])
            for row in self._splits[1:]:
                row.setSizes([columns * 10, (1000 - columns) * 10])

    def _apply_docks(self) -> None:
        layout = self._layout
        self._apply_floats()
        width = max(self.width(), 800)
        self._columns.setSizes([width - layout.right_width, layout.right_width])
        self.drawer.show_tab(layout.bottom_tab, opens=False)
        self.drawer.set_open(layout.shows_drawer)
        height = max(self.height() - OVERVIEW_HEIGHT, 400)
        self._rows.setSizes([height - layout.bottom_height, layout.bottom_height])

    def _new_float(self, view_id: str) -> ViewHost:
        return ViewHost(
            entry(view_id),
            self._session,
            self._theme,
            is_cell=False,
            has_head=False,
        )

    def _apply_floats(self) -> None:
        layout = self._layout
        self.floats.show_only(layout.floating, layout.float_places)
        self._apply_tabs()
        self._show_details()
        if self._full is None:
            self.drawer.setVisible(self._drawer_is_needed())

    def _apply_tabs(self) -> None:
        """Leave out of the drawer what is in a pane or a window of its own."""
        self.drawer.set_elsewhere(self._shown_elsewhere())

    def _show_details(self) -> None:
        layout = self._layout
        if self._full is None:
            is_docked = "details" not in layout.floating
            self.details.setVisible(layout.shows_details and is_docked)

    # -- reactions ---------------------------------------------------------

    def _hosts_to_fill(self) -> tuple[ViewHost, ...]:
        """Return the panes in the order in which people look at them."""
        if not self._is_built:
            return ()
        return (*self._cells, self.details, *self.drawer.hosts())

    def _on_trace_changed(self, _: object) -> None:
        """Fill the other panes, after the first picture where there will be one."""
        if not any(h.entry.id == "timeline" and h.isVisible() for h in self._cells):
            self.filler.start()

    def _on_view_ready(self, view: View) -> None:
        painted = getattr(view, "first_painted", None)
        if painted is not None:
            painted.connect(self.filler.start)
        # Views of plug-ins need not be ours.
        set_zoom = getattr(view, "set_zoom", None)
        if set_zoom is not None:
            set_zoom(self._zoom())
        if isinstance(view, PaintedView):
            view.choose_renderer(self._settings.drawing.renderer)

    def _on_settings_changed(self, topic: str) -> None:
        if topic == "drawing":
            for view in self.views():
                if isinstance(view, PaintedView):
                    view.choose_renderer(self._settings.drawing.renderer)

    def _on_chosen(self, view_id: str) -> None:
        host = self.sender()
        if isinstance(host, ViewHost):
            self.choose_view(host, view_id)

    def _on_focused(self) -> None:
        host = self.sender()
        if isinstance(host, ViewHost):
            self._active = host

    def _on_float_places(self, places: tuple[str, ...]) -> None:
        self._layout = replace(self._layout, float_places=places)
        self._settings.change("layout", float_places=places)

    def _on_full_screen_requested(self) -> None:
        host = self.sender()
        if not self.leave_full_screen() and isinstance(host, ViewHost):
            self.fill_with(host)

    def _on_drawer_toggled(self, is_open: bool) -> None:
        self._change(shows_drawer=is_open)
        if is_open:
            height = self._rows.height() - GUTTER
            size = self._layout.bottom_height
            self._rows.setSizes([max(80, height - size), size])

    def _on_drawer_tab(self, view_id: str) -> None:
        self._change(bottom_tab=view_id)

    def _on_split_moved(self) -> None:
        moved = self.sender()
        if moved in self._splits[1:] and isinstance(moved, QSplitter):
            for row in self._splits[1:]:  # the columns of the grid stay in line
                if row is not moved:
                    row.setSizes(moved.sizes())
        self._save.start()

    def _store_sizes(self) -> None:
        if self._full is not None or not self.isVisible():
            return
        dual, columns, rows = self._layout.splits
        if self._layout.name == "dual":
            dual = permille(self._splits[0], dual)
        elif self._layout.name == "grid":
            rows = permille(self._splits[0], rows)
            columns = permille(self._splits[1], columns)
        changes: dict[str, object] = {"splits": (dual, columns, rows)}
        if self.details.isVisible():
            changes["right_width"] = max(180, self.details.width())
        if self.drawer.is_open:
            changes["bottom_height"] = max(80, self.drawer.height())
        self._layout = replace(self._layout, **changes)  # type: ignore[arg-type]
        self._settings.change("layout", **changes)

    def _change(self, **values: object) -> None:
        """Change the layout, show it, and remember it."""
        old = self._layout
        self._layout = replace(old, **values)  # type: ignore[arg-type]  # checked names
        if self._layout == old:
            return
        if {"name", "cells", "floating"} & values.keys():
            self.leave_full_screen()
            self._build_cells()
            self.cells_changed.emit()
        if "floating" in values:
            self._apply_floats()
        if "shows_details" in values:
            self._show_details()
        self._settings.change("layout", **values)

    # -- helpers -----------------------------------------------------------

    def _drawer_is_needed(self) -> bool:
        """Tell whether the drawer has a view that is not a pane of its own."""
        ids = {host.entry.id for host in self.drawer.hosts()}
        return not ids <= self._shown_elsewhere()

    def _shown_elsewhere(self) -> set[str]:
        return {host.entry.id for host in self._cells} | set(self._layout.floating)

    def _cells_now(self) -> tuple[ViewHost, ...]:
        return self.cells

    def _all_splitters(self) -> list[QSplitter]:
        return [*self._splits, self._rows, self._columns]


__all__ = ["Workspace"]
