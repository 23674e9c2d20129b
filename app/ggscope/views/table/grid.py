"""VirtualTable: a table widget that costs nothing per row.

Qt's own QTableView keeps a section per row in its vertical header (hundreds of
MB and seconds for 33 million rows). This one asks only for the rows it paints,
and scrolls by row number and a pixel shift, so no total height exists that could
overflow and rows may differ in height.
"""

from PySide6.QtCore import QEvent, QPoint, QRect, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QContextMenuEvent,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QFrame,
    QHeaderView,
    QToolTip,
    QWidget,
)

from ggscope.analysis.order.table_order import Sorting
from ggscope.render.theme import Theme, css
from ggscope.views.base.cells import Column
from ggscope.views.base.safe_text import show_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import keeps_key, qcolor, scaled, ui_font
from ggscope.views.table.delegate import Cell, RowPainter, RowState, TraceTableModel

_MOVES = {
    Qt.Key.Key_Up,
    Qt.Key.Key_Down,
    Qt.Key.Key_PageUp,
    Qt.Key.Key_PageDown,
    Qt.Key.Key_Home,
    Qt.Key.Key_End,
}
_HIDDEN_AT_FIRST = frozenset({"core", "numa", "bits", "bank"})
"""They would push sources and quality out of a window of usual width."""
_OPENS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_WHEEL_ROWS = 3


@guarded
class VirtualTable(QAbstractScrollArea):
    """Shows a `TraceTableModel`; reports what the user did, decides nothing.

    Rows are named by number. The current row is where the keyboard is.

    Attributes
    ----------
    current_row : the row of the active span, -1 where it is not listed.
    first_visible_row : the topmost row that is at least partly visible.
    """

    row_chosen = Signal(int, object)  # row, Qt.KeyboardModifiers
    row_opened = Signal(int)  # double click, or Enter
    menu_requested = Signal(int, str, QPoint)  # row, column key, global place
    sort_requested = Signal(object)  # Sorting
    copy_requested = Signal(str)  # "tsv" | "markdown"
    all_requested = Signal()  # Ctrl+A
    toggle_requested = Signal()  # T
    jump_requested = Signal()  # Ctrl+G
    cancel_requested = Signal()  # Esc while `is_busy`

    def __init__(
        self, model: TraceTableModel, painter: RowPainter, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.model = model
        self.rows = painter
        self.sorting = Sorting()
        self.hidden_columns = _HIDDEN_AT_FIRST
        self.is_busy = False
        self._selected: frozenset[int] = frozenset()
        self._active = -1
        self.first_visible_row = 0
        self._shift = 0
        self._hovered = -1
        self.current_row = -1
        self._widths: dict[str, int] = {}
        self._is_fitting = False
        self._painted: tuple[object, ...] | None = None
        self._look = QTimer(self, singleShot=True, interval=0)
        self._look.timeout.connect(self._on_look)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.header = self._make_header()
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._on_scrolled)
        self.horizontalScrollBar().valueChanged.connect(self._on_side_scrolled)
        model.modelReset.connect(self._on_reset)
        model.dataChanged.connect(self._on_changed)

    def _make_header(self) -> QHeaderView:
        header = QHeaderView(Qt.Orientation.Horizontal, self)
        header.setModel(self.model)
        header.setSectionsClickable(True)
        header.setHighlightSections(False)
        header.setMinimumSectionSize(scaled(24))
        header.setTextElideMode(Qt.TextElideMode.ElideRight)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        header.sectionClicked.connect(self._on_header_clicked)
        header.sectionResized.connect(self._on_section_resized)
        return header

    # -- what it shows -----------------------------------------------------

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.rows.theme = theme
        self.rows.refresh_fonts()
        self.header.setFont(ui_font(11.5, bold=True))
        self.header.setStyleSheet(
            f"QHeaderView {{ background: {css(theme.raised)}; border: none; }}"
            f" QHeaderView::section {{ background: {css(theme.raised)};"
            f" color: {css(theme.dim)}; border: none; padding: 0px 8px; }}"
            f" QHeaderView::section:hover {{ color: {css(theme.text)}; }}"
        )
        self._place_header()
        self._painted = None
        self._refresh()

    def set_selection(self, active: int, selected: frozenset[int]) -> None:
        """Mark these span ids; `active` is the one that Details shows, -1 none."""
        self._active, self._selected = active, selected
        if active < 0:
            self.current_row = -1
        else:
            row = self.model.row_of(active)
            self.current_row = -1 if row is None else row
        self._announce()
        self._refresh()

    def set_detailed(self, is_detailed: bool) -> None:
        """Show rows in detailed or compact form; the current row stays in view."""
        self.rows.is_detailed = is_detailed
        self._announce()
        self._move_to(self.first_visible_row, 0)
        if self.current_row >= 0:
            self.show_row(self.current_row)

    def set_sorting(self, sorting: Sorting) -> None:
        """Show by what the rows are sorted."""
        self.sorting = sorting
        self.model.set_sorting(sorting)

    def visible_rows(self) -> list[tuple[int, int, int]]:
        """Return (row, y, height) of the rows in view, from the top."""
        rows: list[tuple[int, int, int]] = []
        y, row, n = -self._shift, self.first_visible_row, self.model.rowCount()
        while row < n and y < self.viewport().height():
            height = self.rows.height(row)
            rows.append((row, y, height))
            y += height
            row += 1
        return rows

    def row_at(self, y: int) -> int:
        """Return the row at `y` of the viewport, -1 below the last."""
        for row, top, height in self.visible_rows():
            if top <= y < top + height:
                return row
        return -1

    def row_box(self, row: int) -> QRect:
        """Return where a row is in the viewport; empty where it is out of view."""
        for number, top, height in self.visible_rows():
            if number == row:
                return QRect(0, top, self.viewport().width(), height)
        return QRect()

    def show_row(self, row: int) -> None:
        """Scroll as little as needed to show a row; far jumps centre it."""
        box = self.row_box(row)
        height = self.viewport().height()
        if not box.isNull() and box.top() >= 0 and box.bottom() < height:
            return
        if not box.isNull():
            past = box.top() if box.top() < 0 else box.bottom() + 1 - height
            self.scroll_pixels(past if box.height() <= height else box.top())
            return
        is_next = row == self.first_visible_row - 1 or row == self._last_visible() + 1
        if is_next and row < self.first_visible_row:
            self._move_to(row, 0)
        elif is_next:
            self.scroll_pixels(self._overhang() + self.rows.height(row))
        else:
            self._centre(row)

    def cells(self) -> list[Cell]:
        """Return where the shown columns lie, from left to right."""
        cells: list[Cell] = []
        for section, column in enumerate(self.model.columns):
            if not self.header.isSectionHidden(section):
                x = self.header.sectionViewportPosition(section)
                cells.append(Cell(column, x, self.header.sectionSize(section)))
        return cells

    def _centre(self, row: int) -> None:
        """Put a row near the middle, beginning with a whole row."""
        above, top = (self.viewport().height() - self.rows.height(row)) // 2, row
        while top > 0 and above >= self.rows.height(top - 1):
            top -= 1
            above -= self.rows.height(top)
        self._move_to(top, 0)

    # -- scrolling ---------------------------------------------------------

    def scroll_pixels(self, pixels: int) -> None:
        """Scroll by pixels; > 0 goes down."""
        top, shift = self.first_visible_row, self._shift + pixels
        while shift < 0 and top > 0:
            top -= 1
            shift += self.rows.height(top)
        n = self.model.rowCount()
        while top < n and shift >= self.rows.height(top):
            shift -= self.rows.height(top)
            top += 1
        self._move_to(top, max(shift, 0))

    def _move_to(self, top: int, shift: int) -> None:
        """Make `top` the first row, `shift` of its pixels hidden, within bounds."""
        before = self.first_visible_row, self._shift
        self.first_visible_row, self._shift = min((max(top, 0), shift), self._bottom())
        self._hovered = -1
        self._update_bars()
        if before == (self.first_visible_row, self._shift):
            self._refresh()
        else:
            self.viewport().update()

    def _bottom(self) -> tuple[int, int]:
        """Return (row, shift) at which the last row ends at the bottom."""
        left, row = self.viewport().height(), self.model.rowCount()
        while row > 0 and left > 0:
            row -= 1
            left -= self.rows.height(row)
        return (row, -left) if left < 0 else (row, 0)

    def _last_visible(self) -> int:
        shown = self.visible_rows()
        return shown[-1][0] if shown else -1

    def _overhang(self) -> int:
        """Return how far the last row in view reaches below the bottom."""
        shown = self.visible_rows()
        if not shown:
            return 0
        return max(0, shown[-1][1] + shown[-1][2] - self.viewport().height())

    def _update_bars(self) -> None:
        row, shift = self._bottom()
        last = row + (1 if shift else 0)
        bar = self.verticalScrollBar()
        at_end = (self.first_visible_row, self._shift) >= (row, shift)
        bar.blockSignals(True)
        bar.setRange(0, last)
        bar.setPageStep(max(1, len(self.visible_rows()) - 1))
        bar.setSingleStep(1)
        bar.setValue(last if at_end else self.first_visible_row)
        bar.blockSignals(False)
        side = self.horizontalScrollBar()
        side.setRange(0, max(0, self.header.length() - self.viewport().width()))
        side.setPageStep(self.viewport().width())

    def _on_scrolled(self, value: int) -> None:
        self._move_to(value, 0)

    def _on_side_scrolled(self, value: int) -> None:
        self.header.setOffset(value)
        self._refresh()

    # -- columns -----------------------------------------------------------

    def _on_reset(self) -> None:
        self._is_fitting = True
        for section, column in enumerate(self.model.columns):
            self.header.setSectionHidden(section, column.key in self.hidden_columns)
        self._is_fitting = False
        self.current_row = -1
        if self._active >= 0:
            row = self.model.row_of(self._active)
            self.current_row = -1 if row is None else row
        self._fit_columns()
        self._move_to(self.first_visible_row, self._shift)

    def _on_changed(self) -> None:
        self._refresh()

    def hide_column(self, key: str, is_hidden: bool) -> None:
        """Show or hide a column."""
        others = self.hidden_columns - {key}
        self.hidden_columns = others | {key} if is_hidden else others
        self._on_reset()

    def _fit_columns(self) -> None:
        """Share the width that fixed columns leave among the stretching ones."""
        shown = [c for c in self.model.columns if c.key not in self.hidden_columns]
        fixed = {c.key: self._widths.get(c.key, scaled(c.width)) for c in shown}
        loose = [c for c in shown if c.stretch and c.key not in self._widths]
        space = self.viewport().width() - sum(fixed.values())
        total = sum(c.stretch for c in loose)
        if space > 0 and total:
            for column in loose[:-1]:
                fixed[column.key] += space * column.stretch // total
            fixed[loose[-1].key] += self.viewport().width() - sum(fixed.values())
        self._is_fitting = True
        for section, column in enumerate(self.model.columns):
            if column.key in fixed:
                self.header.resizeSection(section, fixed[column.key])
        self._is_fitting = False
        self._update_bars()

    def _on_section_resized(self, section: int, old: int, new: int) -> None:
        if self._is_fitting or not 0 <= section < len(self.model.columns) or not new:
            return
        self._widths[self.model.columns[section].key] = new
        self._update_bars()
        self._refresh()

    def _on_header_clicked(self, section: int) -> None:
        key = self.model.columns[section].key
        if key == "dot":
            return
        flipped = key == self.sorting.column and not self.sorting.descending
        # Figures are most interesting from the top, names from the start.
        first_down = key in ("duration", "wait", "bytes") and key != self.sorting.column
        self.sort_requested.emit(Sorting(key, flipped or first_down))

    @property
    def header_height(self) -> int:
        """Pixels that the titles of the columns take."""
        return scaled(28)

    def _place_header(self) -> None:
        height = self.header_height
        # Setting what is set lays out anew, and comes back here without end where
        # the pane is lower than the header.
        if self.viewportMargins().top() != height:
            self.setViewportMargins(0, height, 0, 0)
        box = self.viewport().geometry()
        self.header.setGeometry(box.left(), box.top() - height, box.width(), height)

    def _fit_bar(self) -> None:
        """Do without the lower scroll bar where it would lie on the only row."""
        bar = self.horizontalScrollBar().sizeHint().height()
        min_height = self.header_height + self.rows.compact_height + bar
        policy = (
            Qt.ScrollBarPolicy.ScrollBarAlwaysOff
            if self.height() < min_height
            else Qt.ScrollBarPolicy.ScrollBarAsNeeded
        )
        if policy != self.horizontalScrollBarPolicy():
            self.setHorizontalScrollBarPolicy(policy)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the first row where it is."""
        self._fit_bar()
        self._place_header()
        self._fit_columns()
        self._move_to(self.first_visible_row, self._shift)

    # -- painting ----------------------------------------------------------

    def _refresh(self) -> None:
        """Paint anew where that shows something else than is there already.

        A session arrives in parts, and most of them change nothing of these rows. They
        are looked at once for all that changes in one turn.
        """
        self._look.start()

    def _on_look(self) -> None:
        if self._painted is None or self._shown() != self._painted:
            self.viewport().update()

    def _shown(self) -> tuple[object, ...] | None:
        """Return all that is to be seen, as a value; None = not worth finding out."""
        if self.rows.is_detailed or self.model.texts is None:
            return None
        cells = self.cells()
        rows = tuple(
            (y, row % 2, self.state_of(row), self.rows.looks(row, cells))
            for row, y, _ in self.visible_rows()
        )
        places = tuple((cell.x, cell.width, cell.column.right) for cell in cells)
        size = self.viewport().size().toTuple()
        return (size, places, self.model.search_pattern, rows)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the rows in view, and nothing else."""
        if event.rect() == self.viewport().rect():
            self._painted = self._shown()
        with QPainter(self.viewport()) as painter:
            theme = self.rows.theme
            painter.fillRect(event.rect(), qcolor(theme.pane))
            cells = self.cells()
            width = max(self.viewport().width(), self.header.length())
            for row, y, height in self.visible_rows():
                box = QRect(0, y, width, height)
                if box.intersects(event.rect()):
                    self.rows.paint(painter, box, row, cells, self.state_of(row))

    def state_of(self, row: int) -> RowState:
        """Return how a row is marked: selected, highlighted, hovered."""
        span = self.model.span_at(row)
        return RowState(
            is_active=span == self._active,
            is_selected=span == self._active or span in self._selected,
            is_hovered=row == self._hovered,
            is_hit=self.model.is_hit(span),
            is_highlighted=self.model.is_highlighted(span),
            has_focus=self.hasFocus(),
        )

    def _announce(self) -> None:
        """Give the current row to screen readers as text."""
        if self.current_row < 0:
            self.setAccessibleDescription("")
            return
        is_detailed = self.rows.is_detailed
        text = self.model.row_text(self.current_row, is_detailed=is_detailed)
        self.setAccessibleDescription(text)
        if self.hasFocus() and QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, text))

    # -- mouse -------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the row under the mouse."""
        row = self.row_at(event.position().toPoint().y())
        if row >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self.row_chosen.emit(row, event.modifiers())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Open the row under the mouse."""
        row = self.row_at(event.position().toPoint().y())
        if row >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self.row_opened.emit(row)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Light up the row under the mouse."""
        self._set_hovered(self.row_at(event.position().toPoint().y()))

    def leaveEvent(self, event: QEvent) -> None:
        """Forget the row under the mouse."""
        self._set_hovered(-1)

    def _set_hovered(self, row: int) -> None:
        if row != self._hovered:
            self._hovered = row
            self._refresh()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll rows; by pixels where the device gives them."""
        pixels, angle = event.pixelDelta(), event.angleDelta()
        delta = (
            pixels
            if not pixels.isNull()
            else QPoint(
                angle.x(),
                round(angle.y() / 120 * _WHEEL_ROWS * self.rows.compact_height),
            )
        )
        sideways = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if sideways or abs(delta.x()) > abs(delta.y()):
            bar = self.horizontalScrollBar()
            bar.setValue(bar.value() - (delta.x() or delta.y()))
        else:
            self.scroll_pixels(-delta.y())
        event.accept()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the menu of the row under the mouse, or of the current one."""
        if event.reason() == QContextMenuEvent.Reason.Mouse:
            place = self.viewport().mapFromGlobal(event.globalPos())
            row, key = self.row_at(place.y()), self._column_at(place.x())
        else:
            row, key = self.current_row, ""
        if row >= 0:
            self.menu_requested.emit(row, key, event.globalPos())

    def viewportEvent(self, event: QEvent) -> bool:
        """Show the exact value of the cell under the mouse."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            row, key = self.row_at(event.pos().y()), self._column_at(event.pos().x())
            section = next(
                (i for i, c in enumerate(self.model.columns) if c.key == key), -1
            )
            if row >= 0 and section >= 0:
                role = Qt.ItemDataRole.ToolTipRole
                text = self.model.data(self.model.index(row, section), role)
                show_tip(event.globalPos(), text, self.viewport())
            else:
                QToolTip.hideText()
            return True
        return super().viewportEvent(event)

    def _column_at(self, x: int) -> str:
        section = self.header.logicalIndexAt(x)
        columns: tuple[Column, ...] = self.model.columns
        return columns[section].key if 0 <= section < len(columns) else ""

    # -- keyboard ----------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Claim the keys that mean something else elsewhere in the window."""
        return keeps_key(event, self._is_mine) or super().event(event)

    def _is_mine(self, event: QKeyEvent) -> bool:
        has_alt = bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        return (
            (event.key() in _MOVES and not has_alt)
            or bool(self._copy_kind(event))
            or _is_select_all(event)
            or is_jump(event)
            or self._is_cancel(event)
        )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move the current row, copy, switch the form."""
        kind = self._copy_kind(event)
        if event.key() in _MOVES and self.model.rowCount():
            self._move_current(event)
        elif kind:
            self.copy_requested.emit(kind)
        elif _is_select_all(event):
            self.all_requested.emit()
        elif is_jump(event):
            self.jump_requested.emit()
        elif self._is_cancel(event):
            self.cancel_requested.emit()
        elif event.key() in _OPENS and self.current_row >= 0:
            self.row_opened.emit(self.current_row)
        elif event.key() == Qt.Key.Key_T and not event.modifiers():
            self.toggle_requested.emit()
        else:
            event.ignore()

    def _move_current(self, event: QKeyEvent) -> None:
        last = self.model.rowCount() - 1
        page = max(1, len(self.visible_rows()) - 2)
        start = (
            self.current_row if self.current_row >= 0 else self.first_visible_row - 1
        )
        target = {
            Qt.Key.Key_Up: start - 1,
            Qt.Key.Key_Down: start + 1,
            Qt.Key.Key_PageUp: start - page,
            Qt.Key.Key_PageDown: start + page,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }[Qt.Key(event.key())]
        row = max(0, min(last, target))
        keep = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        self.row_chosen.emit(row, keep)
        self.show_row(row)

    def _copy_kind(self, event: QKeyEvent) -> str:
        if event.matches(QKeySequence.StandardKey.Copy):
            return "tsv"
        both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
        is_markdown = event.key() == Qt.Key.Key_C and event.modifiers() == both
        return "markdown" if is_markdown else ""

    def _is_cancel(self, event: QKeyEvent) -> bool:
        return self.is_busy and event.key() == Qt.Key.Key_Escape

    def focusInEvent(self, event: QEvent) -> None:
        """Draw the focus ring."""
        self._refresh()

    def focusOutEvent(self, event: QEvent) -> None:
        """Take the focus ring away."""
        self._refresh()


def _is_select_all(event: QKeyEvent) -> bool:
    return event.matches(QKeySequence.StandardKey.SelectAll)


def is_jump(event: QKeyEvent) -> bool:
    """Return whether a key asks where to go: Ctrl+G."""
    control = Qt.KeyboardModifier.ControlModifier
    return event.key() == Qt.Key.Key_G and event.modifiers() == control
