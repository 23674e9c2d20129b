"""Buffers: what lay in memory when, its peak, who used it; a picture and a table."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from PySide6.QtCore import (
    QCoreApplication,
    QItemSelectionModel,
    QPoint,
    QPointF,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QKeyEvent,
    QMouseEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QHBoxLayout, QMenu, QVBoxLayout, QWidget

from ggscope.analysis.buffers import (
    BufferUse,
    Grouping,
    Lives,
    Occupancy,
    alive_at,
    buffer_use,
    lives,
    occupancy,
)
from ggscope.descriptions.spans import column_time_form, exact_time_text
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    TimeRange,
    format_bytes,
    format_count,
    format_exact_bytes,
)
from ggscope.render.buffers import (
    ROW_HEIGHT,
    BuffersGeometry,
    BuffersOptions,
    BuffersScene,
    buffer_name,
    compose_buffers,
    draw_buffers,
    usage_name,
)
from ggscope.render.export import NOT_MARKED, ExportCommand
from ggscope.render.options import export_command
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.gestures import CanvasGestures, WheelDelta
from ggscope.views.base.safe_text import ElidedLabel, add_action, copy_text, set_tip
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    combo_box,
    lay_out,
    pop_up,
    set_label_color,
    ui_font,
)
from ggscope.views.buffers import texts as buffers_texts

MAX_ROWS = 2000
"""The largest ones are listed, with a note that there are more."""
ZOOM_STEP = 1.25
"""Zoom factor of one wheel notch, as on the timeline."""
DRAG_PX = 4.0
"""A press that moves less is a click."""
_KEY = "buffers"
_MAX_TABLE = 0.65
"""The table takes what it needs of the width, but no more than this share."""
_MAYBE_UNKNOWN = (1, 6)
"""Columns that are left out where no buffer says anything: backend, layer."""


@guarded
class BuffersTable(QWidget):
    """Buffers, the largest first; sorts by any column, copies, selects."""

    chosen = Signal(object)  # tuple of rows of Trace.buffers
    opened = Signal(object)  # row

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = TextTableModel(self._headings("ns"), self)
        self.table = TextTable(self.model, self, "buffers")
        self.table.setAccessibleName("Buffers")
        self.table.selectionModel().selectionChanged.connect(self._on_chosen)
        self.table.row_opened.connect(self._on_opened)
        self._is_quiet = False
        lay_out(QVBoxLayout(self), self.table)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.table.set_theme(theme)

    def _headings(self, unit: str) -> tuple[Heading, ...]:
        """Return the columns; plain figures are copied with the `unit` of times."""
        return (
            Heading("buffer", "Name", 110, stretch=True),
            Heading("backend", "Backend", 76),
            Heading("usage", "Purpose of the buffer", 78, is_text=True),
            Heading("size", "Size", 76, right=True,
                    copied="size (bytes)", largest_first=True),
            Heading("allocated", "Allocation time", 78, right=True,
                    copied=f"allocated ({unit})"),
            Heading("freed", "Release time", 74, right=True,
                    copied=f"freed ({unit})"),
            Heading("layer", "Layer", 56, right=True),
            Heading("accesses", "Accesses of ops", 88, right=True,
                    largest_first=True),
        )  # fmt: skip

    def show_buffers(
        self, trace: Trace | None, use: BufferUse | None, *, absolute: bool
    ) -> None:
        """List the buffers of a trace."""
        self._is_quiet = True
        rows: list[int] = []
        if trace is not None:
            order = np.argsort(-trace.buffers.size, kind="stable")
            rows = order[:MAX_ROWS].tolist()
        cells = [_cells(trace, row, use, absolute) for row in rows if trace is not None]
        n_all = 0 if trace is None else len(trace.buffers)
        if trace is not None:
            self.model.set_headings(self._headings(trace.clock.column_unit(absolute)))
        self.model.set_rows(cells, payloads=rows, n_left_out=n_all - len(rows))
        for column in _MAYBE_UNKNOWN:
            is_known = any(line[column].sort not in (None, -1) for line in cells)
            self.table.setColumnHidden(column, bool(cells) and not is_known)
        self.table.fit_columns()
        self._is_quiet = False

    def show_selected(self, rows: frozenset[int]) -> None:
        """Mark the lines of these buffers, and bring the first into view."""
        if frozenset(self.rows()) == rows:
            return
        self._is_quiet = True
        selection = self.table.selectionModel()
        selection.clearSelection()
        flags = (
            QItemSelectionModel.SelectionFlag.Select
            | QItemSelectionModel.SelectionFlag.Rows
        )
        first = None
        for line in range(self.model.rowCount()):
            if self.model.payload(line) in rows:
                index = self.model.index(line, 0)
                selection.select(index, flags)
                first = index if first is None else first
        if first is not None:
            self.table.scrollTo(first)
        self._is_quiet = False

    def rows(self) -> tuple[int, ...]:
        """Return the buffers whose lines are marked."""
        lines = sorted({i.row() for i in self.table.selectionModel().selectedRows()})
        payloads = (self.model.payload(line) for line in lines)
        return tuple(row for row in payloads if isinstance(row, int))

    def _on_chosen(self) -> None:
        if not self._is_quiet:
            self.chosen.emit(self.rows())

    def _on_opened(self, line: int) -> None:
        self.opened.emit(self.model.payload(line))


def _cells(
    trace: Trace, row: int, use: BufferUse | None, absolute: bool
) -> tuple[Cell, ...]:
    buffers = trace.buffers
    size, backend = int(buffers.size[row]), int(buffers.backend[row])
    layer = -1 if buffers.layer is None else int(buffers.layer[row])
    n = 0 if use is None else int(use.count[row])
    never = QCoreApplication.translate("BuffersTable", "never")
    is_alive = int(buffers.allocated[row]) != -1 and int(buffers.freed[row]) == -1
    return (
        Cell(buffer_name(trace, row), buffer_name(trace, row)),
        Cell(trace.strings[backend] if backend >= 0 else NOT_AVAILABLE, backend),
        Cell(usage_name(trace, row), usage_name(trace, row)),
        Cell(NOT_AVAILABLE, None, "")
        if size < 0
        else Cell(format_bytes(size), size, size, format_exact_bytes(size)),
        _time(trace, int(buffers.allocated[row]), absolute),
        Cell(never, None, "", caution=True)
        if is_alive
        else _time(trace, int(buffers.freed[row]), absolute),
        Cell(NOT_AVAILABLE, None, "") if layer < 0 else Cell(str(layer), layer),
        Cell(NOT_AVAILABLE, None, "")
        if use is None or not use.knows(row)
        else Cell(format_count(n), n, n),
    )


def _time(trace: Trace, tick: int, absolute: bool) -> Cell:
    if tick == -1:
        return Cell(NOT_AVAILABLE, None, "")
    exact = exact_time_text(trace, tick)
    text = column_time_form(trace, absolute=absolute).text(tick)
    return Cell(text, tick, tick + trace.clock.shift(absolute), exact)


class BuffersGestures(CanvasGestures):
    """Turns mouse events into calls of the view and its session."""

    def __init__(self, view: "BuffersView") -> None:
        super().__init__(view)
        self._view = view
        self._pressed: QPointF | None = None
        self._pressed_range = TimeRange(0, 1)
        self._is_panning = False
        self._pointer: QPointF | None = None

    def follow(self) -> None:
        """Look again at what lies under a pointer that rests: the picture has moved."""
        if self._pointer is not None and self._pressed is None and self._is_ready():
            self._hover(self._pointer)

    @property
    def _place(self) -> BuffersGeometry:
        place = self._view.geometry_now()
        assert place is not None  # events come only where there is one
        return place

    def _is_ready(self) -> bool:
        return self._view.geometry_now() is not None

    def _leave(self) -> None:
        self._pointer = None
        self._view.point_at(-1)
        self._view.session.viewport.cursor_tick = None

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() not in (
            Qt.MouseButton.LeftButton,
            Qt.MouseButton.MiddleButton,
        ):
            return False
        self._pressed, self._is_panning = at, False
        self._pressed_range = self._view.session.viewport.visible
        return True

    def _move(self, _: QMouseEvent, at: QPointF) -> bool:
        self._hover(at)
        if self._pressed is None:
            return True
        dx = self._pressed.x() - at.x()
        if self._is_panning or abs(dx) >= DRAG_PX:
            self._is_panning = True
            shift = round(dx / self._place.time.px_per_tick)
            self._view.session.viewport.set_visible(self._pressed_range.shifted(shift))
        return True

    def _hover(self, at: QPointF) -> None:
        self._pointer, place = at, self._place
        is_inside = at.x() >= place.time.x0
        self._view.session.viewport.cursor_tick = (
            place.tick_at(at.x()) if is_inside else None
        )
        if self._pressed is None:
            self._view.point_at(place.buffer_at(at.x(), at.y()))

    def _release(self, event: QMouseEvent, at: QPointF) -> bool:
        pressed, self._pressed = self._pressed, None
        if pressed is None or self._is_panning:
            self._is_panning = False
            return pressed is not None
        session, row = self._view.session, self._place.buffer_at(at.x(), at.y())
        if row >= 0:
            adds = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
            self._view.select_buffer(row, add=adds)
        elif session.selection.current.table == "buffers":
            session.selection.select(Selection())
        return True

    def _double_click(self, _: QMouseEvent, at: QPointF) -> bool:
        row = self._place.buffer_at(at.x(), at.y())
        if row >= 0:
            self._view.show_life(row)
        elif at.y() < self._place.area_y:
            self._view.session.viewport.fit()
        return True

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        session = self._view.session
        if turn.zooms and turn.y:
            session.viewport.zoom(ZOOM_STEP**-turn.notches, self._place.tick_at(at.x()))
        elif turn.x:
            shift = round(-turn.pan_px / self._place.time.px_per_tick)
            session.viewport.set_visible(session.viewport.visible.shifted(shift))
        elif turn.y:
            self._view.scroll_to(self._view.scroll_y - turn.y)
        return True

    def _pinch(self, factor: float, at: QPointF) -> bool:
        self._view.session.viewport.zoom(1.0 / factor, self._place.tick_at(at.x()))
        return True


@dataclass(frozen=True, slots=True, eq=False)
class BuffersResult:
    """What the picture and the table are made from."""

    trace: Trace
    by: Grouping
    occupancy: Occupancy
    lives: Lives
    use: BufferUse


def buffers_result(
    trace: Trace, by: Grouping, use: BufferUse | None, context: TaskContext
) -> BuffersResult:
    """Return the numbers; `use` as an earlier result has it, where there is one."""
    usage, packed = occupancy(trace, by), lives(trace.buffers)
    context.check_cancelled()
    return BuffersResult(trace, by, usage, packed, use or buffer_use(trace))


class BuffersView(PaintedView):
    """Stacked occupancy over the timeline's time, lives below, a table beside.

    The wheel scrolls lives, Ctrl+wheel zooms time, a drag pans; a click selects a
    buffer, Up and Down go through them by size.

    Attributes
    ----------
    result : what is shown; None before it is computed.
    scroll_y : how far the lives are scrolled, in pixels.
    """

    draw_scene = staticmethod(compose_buffers)
    no_trace_text = ("No trace is open.", "")
    draw_figure = staticmethod(draw_buffers)
    passing: ClassVar = {"hover": -1, "cursor_tick": None}

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Buffers", session, theme, parent)
        self.setObjectName("buffers")
        self.result: BuffersResult | None = None
        self._hover = -1
        self.scroll_y = 0.0
        self._gestures: BuffersGestures = BuffersGestures(self)
        self.table = BuffersTable(self)
        self.table.chosen.connect(self._on_table_chosen)
        self.table.opened.connect(self._on_table_opened)
        self.table.table.menu_requested.connect(self._on_table_menu)
        self._make_head()
        self.splitter = self.split_with(self.table)
        self._is_split_by_hand = False
        self.splitter.splitterMoved.connect(self._on_split)
        self.box.addWidget(self._head)
        self.box.addWidget(self.splitter, 1)
        self.set_theme(theme)
        self.connect_until_release(
            (session.selection.changed, self._on_selection),
            (session.linking.linked_changed, self.repaint_picture),
            (session.viewport.changed, self._on_moved),
            (session.viewport.cursor_changed, self.repaint_picture),
            (session.display.absolute_time_changed, self._on_clock),
        )

    def _make_head(self) -> None:
        self._head = QWidget(self)
        self.about, self.note = ElidedLabel(self._head), ElidedLabel(self._head)
        ways = (("by usage", "usage"), ("by backend", "backend"))
        self.by = combo_box(self._head, "Stack by", ways)
        self.by.currentIndexChanged.connect(self.invalidate)
        for label in (self.about, self.note):
            label.setFont(ui_font(12))
        parts = (self.about, self.note, self.by)
        row = QHBoxLayout(self._head)
        lay_out(row, *parts, margins=(12, 4, 8, 2), spacing=12)
        row.setStretch(0, 3)
        row.setStretch(1, 2)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.table.set_theme(theme)
        set_label_color(self.about, theme.dim)
        set_label_color(self.note, theme.caution)

    # -- computing -----------------------------------------------------------------

    def compute(self, trace: Trace) -> None:
        """Compute the occupancy anew, on a worker."""
        if self.result is not None and self.result.trace is not trace:
            self.forget()
        if not len(trace.buffers):
            self.forget()
            return
        use = None if self.result is None else self.result.use
        by: Grouping = self.by.currentData()
        request = partial(buffers_result, trace, by, use)
        self.run(_KEY, request, self._show, "Buffers")

    def forget(self) -> None:
        """Show no buffers."""
        self.result, self._hover, self.scroll_y = None, -1, 0.0
        self.about.clear()
        self.note.clear()
        self.table.show_buffers(None, None, absolute=False)
        self.table.setVisible(False)
        self.repaint_picture()

    def _show(self, result: BuffersResult) -> None:
        self.result = result
        trace = result.trace
        self.about.setText(buffers_texts.about_text(trace, result.occupancy))
        self.note.setText(buffers_texts.gap_head(trace))
        set_tip(self.note, buffers_texts.gap_text(trace))
        self._on_clock()
        self.table.setVisible(True)
        self._split_width()
        self._on_selection()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the new width out."""
        super().resizeEvent(event)
        self._split_width()

    def _on_split(self, *_: int) -> None:
        self._is_split_by_hand = True

    def _split_width(self) -> None:
        """Give the table what it needs, unless the user has drawn the line."""
        width = self.splitter.width() - self.splitter.handleWidth()
        if self._is_split_by_hand or not self.table.isVisibleTo(self):
            return
        table = min(self.table.table.natural_width(), round(_MAX_TABLE * width))
        self.splitter.setSizes([width - table, table])

    def _on_moved(self, _: object) -> None:
        self._gestures.follow()
        self.repaint_picture()

    def _on_clock(self, _: object = None) -> None:
        if self.result is not None:
            self.table.show_buffers(
                self.result.trace,
                self.result.use,
                absolute=self.session.display.absolute_time,
            )
            self.table.show_selected(frozenset(self._selected()))
            self._split_width()  # times from another zero have other widths
        self.repaint_picture()

    # -- selection -----------------------------------------------------------------

    def _selected(self) -> tuple[int, ...]:
        session, result = self.session, self.result
        if session.selection.current.table != "buffers" or result is None:
            return ()
        n = len(result.trace.buffers)
        return tuple(row for row in session.selection.current.ids if 0 <= row < n)

    def _on_selection(self, _: object = None) -> None:
        self.table.show_selected(frozenset(self._selected()))
        self.repaint_picture()

    def _on_table_chosen(self, rows: object) -> None:
        if isinstance(rows, tuple) and rows:
            self.session.selection.select(Selection("buffers", rows))

    def _on_table_opened(self, row: object) -> None:
        if isinstance(row, int):
            self.show_life(row)

    def show_life(self, row: int) -> None:
        """Select a buffer and show its whole life."""
        session, result = self.session, self.result
        if result is None:
            return
        session.selection.select(Selection("buffers", (row,)))
        buffers = result.trace.buffers
        born, freed = int(buffers.allocated[row]), int(buffers.freed[row])
        if born != -1:
            end = result.trace.extent.end if freed == -1 else freed
            life = TimeRange(born, max(end, born))
            session.viewport.set_visible(life.padded(max(life.duration // 10, 8)))

    def filter_to(self, row: int) -> None:
        """Show only spans that access a buffer."""
        session, result = self.session, self.result
        if result is not None:
            address = int(result.trace.buffers.address[row])
            session.queries.set_filter(
                replace(session.queries.filter, buffers=frozenset({address}))
            )

    # -- picture -------------------------------------------------------------------

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no picture."""
        result = self.result
        if trace.is_unread:
            return "Counting…", ""
        if result is not None:
            if (result.trace.buffers.allocated != -1).any():
                return "No sizes recorded", ""
            return (
                "No allocations recorded",
                (
                    "These buffers are known from accesses only. Add a file of buffer "
                    "events for sizes and times: File › Add to session."
                ),
            )
        if len(trace.buffers):
            return "Counting…", ""
        return (
            "No buffers in this trace",
            (
                "Neither buffer allocations nor buffer accesses are recorded. Add a "
                "file of buffer events: File › Add to session."
            ),
        )

    def scene(self, width: float, height: float, scale: float) -> BuffersScene | None:
        """Return everything that the picture depends on."""
        session, result = self.session, self.result
        if result is None or result.occupancy.peak is None:
            return None
        selection = session.selection.current
        is_op = selection.table == "spans" and bool(selection)
        return BuffersScene(
            trace=result.trace,
            occupancy=result.occupancy,
            lives=result.lives,
            visible=session.viewport.visible,
            width=width,
            height=height,
            theme=self.theme,
            by=result.by,
            scale=scale,
            scroll=self.scroll_y,
            hover=self._hover,
            selected=frozenset(self._selected()),
            accessed=frozenset(session.linking.linked.buffers.tolist()),
            alive=self._alive_at_op() if is_op else None,
            cursor_tick=session.viewport.cursor_tick,
            absolute=session.display.absolute_time,
        )

    def recipe(self, trace: Trace, scene: BuffersScene) -> ExportCommand:
        """Return the command line that makes the figure of a scene."""
        is_marked = bool(scene.selected or scene.accessed) or scene.alive is not None
        options = BuffersOptions(
            by=scene.by, visible=scene.visible, absolute=scene.absolute
        )
        lacks = (NOT_MARKED,) if is_marked else ()
        return export_command("buffers", trace, options, lacks)

    def _alive_at_op(self) -> frozenset[int] | None:
        session, result = self.session, self.result
        if result is None:
            return None
        span = session.selection.current.active
        spans = result.trace.spans
        if span is None or not 0 <= span < len(spans):
            return None
        rows = alive_at(result.trace.buffers, int(spans.start[span]))
        return frozenset(rows.tolist())

    def geometry_now(self) -> BuffersGeometry | None:
        """Return where things are on the canvas; None without a picture."""
        scene = self.scene_now()
        return None if scene is None else BuffersGeometry(scene)

    def tooltip_at(self, x: float, y: float) -> str:
        """Return what is known of the buffer, or the occupancy, at a position."""
        place, result = self.geometry_now(), self.result
        if place is None or result is None:
            return ""
        row, absolute = place.buffer_at(x, y), self.session.display.absolute_time
        if row >= 0:
            return buffers_texts.buffer_text(
                result.trace, row, result.use, absolute=absolute
            )
        if not place.area_y <= y < place.area_bottom or x < place.time.x0:
            return ""
        trace, tick = result.trace, place.tick_at(x)
        peak = result.occupancy.peak
        if peak is not None and abs(x - place.time.x(peak.time)) < DRAG_PX:
            return buffers_texts.peak_tip(trace, result.occupancy, absolute=absolute)
        return buffers_texts.level_text(
            trace, result.occupancy, tick, absolute=absolute
        )

    # -- mouse ---------------------------------------------------------------------

    def select_buffer(self, row: int, *, add: bool = False) -> None:
        """Select a buffer; `add` adds it, or takes it out where it is selected."""
        chosen = self._selected() if add else ()
        others = tuple(other for other in chosen if other != row)
        ids = others if row in chosen else (row, *others)
        self.session.selection.select(Selection("buffers", ids) if ids else Selection())

    def point_at(self, row: int) -> None:
        """Outline the life of a buffer as the one under the mouse; -1 = none."""
        if row != self._hover:
            self._hover = row
            self.repaint_picture()

    def scroll_to(self, y: float) -> None:
        """Scroll the lives, as far as there are any."""
        place = self.geometry_now()
        if place is not None:
            self.scroll_y = min(max(y, 0.0), place.max_scroll)
            self.repaint_picture()

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of the buffer at a position."""
        place = self.geometry_now()
        row = -1 if place is None else place.buffer_at(x, y)
        return None if row < 0 else self.menu_of(row)

    def menu_of(self, row: int) -> QMenu:
        """Return the menu of a buffer."""
        menu = QMenu(self)
        self._fill_menu(menu, row)
        return menu

    def _on_table_menu(self, menu: QMenu, line: int) -> None:
        """Offer in the table what the picture offers."""
        row = self.table.model.payload(line) if line >= 0 else None
        if isinstance(row, int):
            self._fill_menu(menu, row)

    def _fill_menu(self, menu: QMenu, row: int) -> None:
        result = self.result
        if result is None:
            return
        name = buffer_name(result.trace, row)
        text = f"Select “{name}”"
        add_action(menu, text, partial(self.select_buffer, row))
        menu.addAction("Zoom to its lifetime", partial(self.show_life, row))
        menu.addAction(
            "Show only this buffer", partial(self.filter_to, row)
        ).setEnabled(int(result.trace.buffers.address[row]) != 0)
        last = int(result.use.last_span[row])
        menu.addAction(
            "Go to its last access",
            partial(self.session.selection.select_span, last),
        ).setEnabled(last >= 0)
        menu.addSeparator()
        menu.addAction("Copy details", partial(self._copy, row))

    def _copy(self, row: int) -> None:
        if self.result is not None:
            copy_text(
                buffers_texts.buffer_text(
                    self.result.trace,
                    row,
                    self.result.use,
                    absolute=self.session.display.absolute_time,
                )
            )

    # -- keys ----------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go through the buffers by Up and Down; the rest are commands."""
        step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()), 0)
        selected = self._selected()
        if step and not event.modifiers() and self.result is not None:
            self._step(step)
        elif event.key() == Qt.Key.Key_Menu and selected:
            menu = self.menu_of(selected[0])
            pop_up(menu, self.canvas.mapToGlobal(QPoint(40, 40)))
        else:
            super().keyPressEvent(event)

    def _step(self, by: int) -> None:
        """Select the next smaller (+1) or larger (-1) buffer with a life."""
        assert self.result is not None
        packed = self.result.lives
        order = packed.buffer.tolist()
        if not order:
            return
        selected = self._selected()
        at = order.index(selected[0]) + by if selected and selected[0] in order else 0
        at = min(max(at, 0), len(order) - 1)
        self.select_buffer(order[at])
        top = float(packed.row[at]) * ROW_HEIGHT
        place = self.geometry_now()
        if place is not None:
            space = place.bottom - place.lives_y - ROW_HEIGHT - 8
            self.scroll_to(min(max(self.scroll_y, top - space), top))
        self.setAccessibleDescription(
            buffers_texts.buffer_text(
                self.result.trace,
                order[at],
                self.result.use,
                absolute=self.session.display.absolute_time,
            )
        )
