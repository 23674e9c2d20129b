"""TextTable: a small sortable table of texts that copies as TSV or Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Any, Literal

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRect,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from ggscope.analysis.workers import Watcher
from ggscope.render.theme import Theme, css, mix, theme
from ggscope.sanitize import Value, one_line, tooltip
from ggscope.views.base.cells import CopyForm, TableFile, rows_text
from ggscope.views.base.copying import Copyable
from ggscope.views.base.safe_text import copy_text, show_tip
from ggscope.views.base.view import View, guarded
from ggscope.views.base.widgets import mono_font, pop_up, qcolor, scaled, ui_font

Index = QModelIndex | QPersistentModelIndex
Shape = Literal["square", "circle", "triangle", "diamond"]
_MIN_WORDS = 0.4
"""Share of a table that a stretching column of sentences gets at least."""
_UP, _DOWN = " ▴", " ▾"
_MAX_HEAT = 0.6
"""How much of the accent the hottest cell has: its text must stay legible."""
_MEASURED_ROWS, _MEASURED = 64, 3
"""Rows in sight, and others, that are looked at for the width of a column, and how many
of their texts are measured."""
_MAX_NAME = 180
"""A stretching column of names is not squeezed below what they need, or this."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell.

    Attributes
    ----------
    text : as people read it.
    sort : what it is sorted by; None sorts last in both directions.
    raw : plain form for spreadsheets, a number where it is one; None = `text`.
    tip : every digit.
    color : sign before the text, 0 = none; `shape` is its form.
    caution : whether the text is drawn in the caution colour.
    is_dim : whether it is greyed: it matters less than other rows.
    bar : length of the bar under the text, a share of the cell; 0 = none.
    heat : how strongly the cell is coloured, 0..1; None = not, and it is no part of a
        heat map.
    """

    text: str
    sort: float | str | None = None
    raw: Value = None
    tip: str = ""
    color: int = 0
    shape: Shape = "square"
    caution: bool = False
    is_dim: bool = False
    bar: float = 0.0
    heat: float | None = None


@dataclass(frozen=True, slots=True)
class Heading:
    """A column.

    Attributes
    ----------
    title, tip : what the header says.
    width : pixels at normal font size; `stretch` takes what the others leave, but
        no less, or a share of the table for words: then the table scrolls.
    right, is_text : right-aligned; text rather than figures or names.
    copied : title above plain figures in a spreadsheet, with their unit.
    largest_first : whether the first click sorts the largest to the top.
    """

    title: str
    tip: str = ""
    width: int = 80
    right: bool = False
    is_text: bool = False
    stretch: bool = False
    copied: str = ""
    largest_first: bool = False


@guarded
class TextTableModel(QAbstractTableModel):
    """Rows of `Cell`, sorted in Python: for hundreds of rows, not millions."""

    def __init__(
        self, headings: Sequence[Heading], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.headings = tuple(headings)
        self._rows: list[tuple[Cell, ...]] = []
        self._totals: tuple[Cell, ...] | None = None
        self._payloads: list[object] = []
        self._n_left_out = 0
        self.sorted_by = (-1, Qt.SortOrder.AscendingOrder)
        """The column, -1 = in the order in which rows came, and which way."""
        self.came_by = -1
        """The column by which rows come, the largest first; -1 = by none."""
        self.theme = theme("dark")
        self._is_stale = False
        self._fonts: dict[tuple[bool, bool], QFont] = {}

    def set_stale(self, is_stale: bool) -> None:
        """Grey the texts while newer ones are on their way, or colour them again."""
        if is_stale != self._is_stale:
            self._is_stale = is_stale
            if self.rowCount():
                last = self.index(self.rowCount() - 1, self.columnCount() - 1)
                self.dataChanged.emit(self.index(0, 0), last)

    @property
    def is_stale(self) -> bool:
        """Whether the texts are greyed."""
        return self._is_stale

    def set_headings(self, headings: Sequence[Heading]) -> None:
        """Change the columns; rows follow with `set_rows` where their number changes.

        The rows stay sorted by the column of the same title, if there still is one.
        """
        column, order = self.sorted_by
        if 0 <= column < len(self.headings):
            title = self.headings[column].title
            titles = [heading.title for heading in headings]
            column = titles.index(title) if title in titles else -1
        self.sorted_by = (column, order)
        if len(headings) != len(self.headings):
            self.beginResetModel()
            self.headings = tuple(headings)
            self._rows, self._totals, self._payloads = [], None, []
            self.endResetModel()
            return
        self.headings = tuple(headings)
        last = len(self.headings) - 1
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, last)

    def set_rows(
        self,
        rows: Sequence[tuple[Cell, ...]],
        totals: tuple[Cell, ...] | None = None,
        payloads: Sequence[object] | None = None,
        n_left_out: int = 0,
    ) -> None:
        """Show these rows in the current order; `totals` stays at the end.

        `payloads` are what rows stand for, one each; `n_left_out` more are not shown.
        """
        self._n_left_out = n_left_out
        self.beginResetModel()
        self._fonts.clear()
        self._rows, self._totals = list(rows), totals
        self._payloads = list(rows if payloads is None else payloads)
        self._arrange()
        self.endResetModel()

    def update_rows(
        self,
        rows: Sequence[tuple[Cell, ...]],
        payloads: Sequence[object],
    ) -> None:
        """Show these rows in the order given; selection and editor stay if as many."""
        if len(rows) != len(self._rows) or not rows:
            self.set_rows(rows, payloads=payloads)
            return
        self._rows, self._payloads = list(rows), list(payloads)
        last = self.index(self.rowCount() - 1, self.columnCount() - 1)
        self.dataChanged.emit(self.index(0, 0), last)

    def row(self, row: int) -> tuple[Cell, ...]:
        """Return a row's cells; the last one may be the totals."""
        if row == len(self._rows) and self._totals is not None:
            return self._totals
        return self._rows[row]

    def payload(self, row: int) -> object:
        """Return what a row stands for; None for the totals."""
        return self._payloads[row] if row < len(self._payloads) else None

    def rows_of(self, payloads: Sequence[object]) -> dict[object, int]:
        """Return the rows of what rows stand for, of those that are shown."""
        rows = {payload: row for row, payload in enumerate(self._payloads)}
        return {payload: rows[payload] for payload in payloads if payload in rows}

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own
        """Return the number of rows, totals included."""
        if parent.isValid():
            return 0
        return len(self._rows) + (self._totals is not None)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self.headings)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a cell's text, tooltip, alignment, font, colour or square."""
        if not index.isValid():
            return None
        cell = self.row(index.row())[index.column()]
        heading = self.headings[index.column()]
        is_total = self._totals is not None and index.row() == len(self._rows)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return one_line(cell.text)
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(cell.tip or cell.text)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(heading)
        if role == Qt.ItemDataRole.FontRole:
            return self._font(heading.is_text, is_total)
        if role == Qt.ItemDataRole.ForegroundRole:
            if self._is_stale:
                return qcolor(self.theme.faint)
            if cell.is_dim:
                return qcolor(self.theme.dim)
            return qcolor(self.theme.caution if cell.caution else self.theme.text)
        if role == Qt.ItemDataRole.BackgroundRole and is_total:
            return qcolor(self.theme.raised)
        if role == Qt.ItemDataRole.DecorationRole and cell.color:
            return sign_pixmap(cell.color, cell.shape)
        return None

    def _font(self, is_text_face: bool, is_bold: bool) -> QFont:
        """Return a font; Qt asks for one per cell and picture."""
        key = (is_text_face, is_bold)
        if key not in self._fonts:
            make = ui_font if is_text_face else mono_font
            self._fonts[key] = make(12, bold=is_bold)
        return self._fonts[key]

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> Any:
        """Return a column's title, tooltip or alignment."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        heading = self.headings[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return one_line(heading.title) + self._arrow(section)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return one_line(heading.title)
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(heading.tip or heading.title)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(heading)
        if role == Qt.ItemDataRole.InitialSortOrderRole:
            is_down = heading.largest_first
            return Qt.SortOrder.DescendingOrder if is_down else None
        return None

    def _arrow(self, section: int) -> str:
        """Return the sign of the column that the rows are sorted by.

        Beside the title: the style's own lies over a title that is right-aligned.
        """
        column, order = self.sorted_by
        if column < 0:
            column, order = self.came_by, Qt.SortOrder.DescendingOrder
        if section != column:
            return ""
        return _DOWN if order == Qt.SortOrder.DescendingOrder else _UP

    def sort(
        self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder
    ) -> None:
        """Sort by a column; -1 keeps the order in which rows came.

        Rows that are selected stay so, wherever they go.
        """
        self.sorted_by = (column, order)
        self.layoutAboutToBeChanged.emit()
        before = self._rows
        self._arrange()
        place = {id(row): i for i, row in enumerate(self._rows)}
        indexes = self.persistentIndexList()
        moved = [
            self.index(place[id(before[index.row()])], index.column())
            if index.row() < len(before)  # else the totals
            else index
            for index in indexes
        ]
        self.changePersistentIndexList(indexes, moved)
        self.layoutChanged.emit()
        last = len(self.headings) - 1
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, last)

    def _arrange(self) -> None:
        positions = self.sorted_positions(self._rows)
        self._rows = [self._rows[i] for i in positions]
        self._payloads = [self._payloads[i] for i in positions]

    def sorted_positions(self, rows: Sequence[tuple[Cell, ...]]) -> Sequence[int]:
        """Return the positions of rows in the current order."""
        column, order = self.sorted_by
        if not 0 <= column < len(self.headings):
            return range(len(rows))
        keys = [row[column].sort for row in rows]
        known = [i for i, key in enumerate(keys) if key is not None]
        rest = [i for i, key in enumerate(keys) if key is None]
        is_down = order == Qt.SortOrder.DescendingOrder
        known.sort(key=lambda i: _sort_key(keys[i]), reverse=is_down)
        return known + rest

    def text(self, rows: Sequence[int], form: CopyForm) -> str:
        """Return rows as text: of Markdown as shown, else plain figures."""
        return cells_text(self.headings, [self.row(r) for r in rows], form)

    def file(self, name: str, rows: Sequence[int]) -> TableFile:
        """Return rows as they are now, for a file."""
        lines, headings = [self.row(r) for r in rows], self.headings

        def text(form: CopyForm, _: Watcher) -> str:
            return cells_text(headings, lines, form)

        n = len(lines)
        is_all = n == self.rowCount() and self._n_left_out > 0
        n_all = n + self._n_left_out if is_all else n
        return TableFile(name, text, n, n_all, "Only the listed rows can be saved.")


@guarded
class TextTable(Copyable, QTableView):
    """Shows a `TextTableModel`; Ctrl+C copies TSV, Ctrl+Shift+C Markdown.

    Parameters
    ----------
    parent : its view, or something in it.
    name : of the files that its rows are saved to.
    keeps_first : whether the first column stays in sight when the others are scrolled.

    Attributes
    ----------
    what : what its rows are of, named where they are saved; "" = nothing more.

    Signals
    -------
    row_opened(row) : double click, or Enter.
    menu_requested(menu, row) : the menu of a row is about to open, -1 = of none; what
        is added to it stands before the commands that copy and save.
    """

    row_opened = Signal(int)
    menu_requested = Signal(QMenu, int)
    max_name = _MAX_NAME

    def __init__(
        self,
        model: TextTableModel,
        parent: QWidget,
        name: str,
        *,
        keeps_first: bool = False,
    ) -> None:
        super().__init__(parent)
        self._name = name
        self._keeps_first = keeps_first
        self._grounds = (0, 0, 0)
        if keeps_first:
            self.setHorizontalHeader(_KeptHeader(self))
        self.what = ""
        self._min_widths: dict[int, int] = {}
        self.elide_mode = Qt.TextElideMode.ElideMiddle
        self.rows = model
        self.setItemDelegate(CellPainter(self))
        self.setModel(model)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setAlternatingRowColors(True)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setIconSize(QSize(scaled(9), scaled(9)))
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setDefaultSectionSize(scaled(24))
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(True)
        header.setFixedHeight(scaled(28))
        header.setFont(ui_font(11.5, bold=True))
        header.setSortIndicator(-1, Qt.SortOrder.DescendingOrder)
        self._widths: dict[str, int] = {}
        self._set_widths()
        header.setResizeContentsPrecision(
            _MEASURED_ROWS
        )  # of a double click on an edge
        self.setSortingEnabled(True)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._on_menu)
        self.doubleClicked.connect(self._on_opened)
        model.modelAboutToBeReset.connect(self._keep_widths)
        model.modelReset.connect(self._on_reset)

    def keep_selection_from_header(self) -> None:
        """Let the header not mark columns, for tables of many rows.

        It would look at every row of a selection for each column that it draws.
        """
        unselected = QItemSelectionModel(self.rows, self)
        self.horizontalHeader().setSelectionModel(unselected)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.rows.theme = theme
        self._grounds = (
            theme.pane,
            mix(theme.pane, theme.raised, 0.35),
            mix(theme.pane, theme.accent, 0.22),
        )
        stripe, chosen = map(css, self._grounds[1:])
        self.setStyleSheet(
            f"QTableView {{ background: {css(theme.pane)}; color: {css(theme.text)};"
            f" alternate-background-color: {stripe}; border: none;"
            f" selection-background-color: {chosen};"
            f" selection-color: {css(theme.text)}; }}"
            # Qt adds 3 px to the text of an item; with these it stands below its title.
            " QTableView::item { padding: 0px 5px; border: none; }"
            f" QTableView::item:selected {{ background: {chosen}; }}"
            f" QHeaderView {{ background: {css(theme.raised)}; border: none; }}"
            f" QHeaderView::section {{ background: {css(theme.raised)};"
            f" color: {css(theme.dim)}; border: none; padding: 0px 8px; }}"
            f" QHeaderView::section:hover {{ color: {css(theme.text)}; }}"
            # The title has an arrow of its own.
            " QHeaderView::up-arrow, QHeaderView::down-arrow"
            " { image: none; width: 0px; height: 0px; }"
        )
        self.viewport().update()

    def fit_columns(self) -> None:
        """Widen columns to their texts; none gets narrower, so nothing jumps."""
        header = self.horizontalHeader()
        for section, heading in enumerate(self.rows.headings):
            if header.isSectionHidden(section):
                continue  # has no width that it could keep
            width = min(self._text_width(section) + scaled(8), scaled(240))
            width = max(width, self._title_width(heading))
            if heading.stretch and not heading.is_text:
                min_width = max(
                    self._min_widths.get(section, scaled(heading.width)), width
                )
                self._min_widths[section] = min(min_width, scaled(self.max_name))
            elif not heading.stretch and width > header.sectionSize(section):
                header.resizeSection(section, width)
        self._stretch()

    def _text_width(self, section: int) -> int:
        """Return the width of the longest texts of a column, of some of its rows.

        Of those in sight and of some all over the table. Asking the delegate for each
        of them would take 30 times as long.
        """
        n = self.rows.rowCount()
        top = max(self.rowAt(0), 0)
        some = {*range(top, min(top + _MEASURED_ROWS, n))}
        some.update(range(0, n, max(n // _MEASURED_ROWS, 1)))
        cells = {row: self.rows.row(row)[section] for row in some}
        longest = nlargest(_MEASURED, cells, key=lambda row: len(cells[row].text))
        chosen = [*longest, n - 1] if n else []  # the last one may be in bold
        chosen += [row for row in some if cells[row].color][:1]
        hints = (self.sizeHintForIndex(self.rows.index(i, section)) for i in chosen)
        return max((hint.width() for hint in hints), default=0)

    def _keep_widths(self) -> None:
        """Note how wide the columns are, by their titles: others may come now."""
        header = self.horizontalHeader()
        for section, heading in enumerate(self.rows.headings):
            if not header.isSectionHidden(section):
                self._widths[heading.title] = header.sectionSize(section)

    def _set_widths(self) -> None:
        """Give columns the widths that they had, new ones those of their headings."""
        header = self.horizontalHeader()
        for section, heading in enumerate(self.rows.headings):
            width = self._widths.get(heading.title, scaled(heading.width))
            if not header.isSectionHidden(section):
                header.resizeSection(section, width)

    def _title_width(self, heading: Heading) -> int:
        """Return the width of a title with the arrow of a sorted column."""
        font = self.horizontalHeader().font()
        font.setBold(True)  # as headers draw them
        metrics = QFontMetrics(font)
        return metrics.horizontalAdvance(one_line(heading.title) + _DOWN) + scaled(18)

    def natural_width(self) -> int:
        """Return the width in which no column is cut, as far as they were fitted."""
        header = self.horizontalHeader()
        widths = [
            self._min_widths.get(i, header.sectionSize(i))
            for i in range(len(self.rows.headings))
            if not self.isColumnHidden(i)
        ]
        return sum(widths) + self.verticalScrollBar().sizeHint().width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give what is left to the columns that stretch."""
        super().resizeEvent(event)
        self._stretch()

    def _stretch(self) -> None:
        header, width = self.horizontalHeader(), self.viewport().width()
        stretched = [i for i, h in enumerate(self.rows.headings) if h.stretch]
        others = sum(
            header.sectionSize(i)
            for i in range(len(self.rows.headings))
            if i not in stretched
        )
        for section in stretched:
            heading = self.rows.headings[section]
            name = self._min_widths.get(section, scaled(heading.width))
            min_width = width * _MIN_WORDS if heading.is_text else name
            share = (width - others) // len(stretched)
            header.resizeSection(section, max(share, round(min_width)))

    # -- the first column, where it stays ----------------------------------

    def pinned_width(self) -> int:
        """Return the width of the column that stays over the others; 0 = none does."""
        is_moved = self._keeps_first and self.horizontalHeader().offset() > 0
        return self.columnWidth(0) if is_moved else 0

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        """Scroll, and draw the column that stays anew."""
        super().scrollContentsBy(dx, dy)
        if self._keeps_first and dx:
            self.viewport().update()
            self.horizontalHeader().viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the cells, then the column that stays over them."""
        super().paintEvent(event)
        width = self.pinned_width()
        if not width:
            return
        option = QStyleOptionViewItem()
        self.initViewItemOption(option)
        base = option.state & ~QStyle.StateFlag.State_HasFocus
        chosen = self.selectionModel()
        first, last = self.rowAt(0), self.rowAt(self.viewport().height() - 1)
        last = self.rows.rowCount() - 1 if last < 0 else last
        with QPainter(self.viewport()) as painter:
            for row in range(max(first, 0), last + 1):
                index = self.rows.index(row, 0)
                top, height = self.rowViewportPosition(row), self.rowHeight(row)
                option.rect = QRect(0, top, width, height)
                option.state = base
                is_chosen = chosen.isSelected(index)
                if is_chosen:
                    option.state = base | QStyle.StateFlag.State_Selected
                ground = self._grounds[2 if is_chosen else row % 2]
                painter.fillRect(option.rect, qcolor(ground))
                self.itemDelegate().paint(painter, option, index)
            painter.setPen(qcolor(self.rows.theme.line))
            painter.drawLine(width - 1, 0, width - 1, self.viewport().height())

    def viewportEvent(self, event: QEvent) -> bool:
        """Show the tooltip of the column that stays where it is pointed at."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            row = self.rowAt(event.pos().y())
            if row >= 0 and event.pos().x() < self.pinned_width():
                role = Qt.ItemDataRole.ToolTipRole
                tip = self.rows.data(self.rows.index(row, 0), role)
                show_tip(event.globalPos(), tip, self.viewport())
                return True
        return super().viewportEvent(event)

    def initViewItemOption(self, option: QStyleOptionViewItem) -> None:
        """Cut texts in the middle, for names differ at both ends, or as is set."""
        super().initViewItemOption(option)
        option.textElideMode = self.elide_mode

    def selected_rows(self) -> list[int]:
        """Return the selected rows, ascending."""
        # By ranges: Qt looks at every cell of rows that it lists.
        chosen = self.selectionModel().selection()
        parts = (chosen.at(i) for i in range(chosen.count()))
        return sorted(
            {row for part in parts for row in range(part.top(), part.bottom() + 1)}
        )

    def chosen_rows(self) -> list[int]:
        """Return the selected rows, or all where none is."""
        return self.selected_rows() or list(range(self.rows.rowCount()))

    def copy_rows(self, form: CopyForm) -> None:
        """Copy the selected rows (or all)."""
        copy_text(self.rows.text(self.chosen_rows(), form))

    def table_file(self) -> TableFile:
        """Return all rows for a file, and the selected ones where there are several."""
        n, chosen = self.rows.rowCount(), self.selected_rows()
        table = replace(self.rows.file(self._name, range(n)), what=self.what)
        if not 2 <= len(chosen) < n:
            return table
        return replace(table, selected=self.rows.file(self._name, chosen))

    def fill_menu(self, menu: QMenu) -> None:
        """Add the commands that copy and save to `menu`."""
        menu.addAction("Copy as TSV", self.copy_tsv)
        menu.addAction("Copy as Markdown", self.copy_markdown)
        menu.addAction("Save as…", self.save)

    def save(self) -> None:
        """Ask for a file and write the rows to it."""
        widget: QWidget | None = self
        while widget is not None and not isinstance(widget, View):
            widget = widget.parentWidget()
        if widget is not None:
            widget.table_requested.emit(self.table_file())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copy; everything else is Qt's."""
        both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
        if event.key() == Qt.Key.Key_C and event.modifiers() == both:
            self.copy_markdown()
        elif event.matches(QKeySequence.StandardKey.Copy):
            self.copy_tsv()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._on_opened(self.currentIndex())
        else:
            super().keyPressEvent(event)

    def _on_menu(self, place: QPoint) -> None:
        menu = QMenu(self)
        self.menu_requested.emit(menu, self.rowAt(place.y()))
        if not menu.isEmpty():
            menu.addSeparator()
        self.fill_menu(menu)
        pop_up(menu, self.viewport().mapToGlobal(place))

    def _on_reset(self) -> None:
        """Let the header know where the columns are now, and which one is sorted."""
        header = self.horizontalHeader()
        self._set_widths()
        with QSignalBlocker(header):  # the rows are sorted so already
            header.setSortIndicator(*self.rows.sorted_by)
        header.viewport().update()

    def _on_opened(self, index: QModelIndex) -> None:
        if index.isValid():
            self.row_opened.emit(index.row())


@guarded
class CellPainter(QStyledItemDelegate):
    """Draws cells, with the bar under a share and the colour of a heat map."""

    def __init__(self, table: TextTable) -> None:
        super().__init__(table)
        self._model = table.rows

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: Index
    ) -> None:
        """Draw a cell."""
        cell, colors = self._model.row(index.row())[index.column()], self._model.theme
        box = QRect(option.rect)
        if cell.heat is None:
            super().paint(painter, option, index)
        else:
            is_chosen = bool(option.state & QStyle.StateFlag.State_Selected)
            option.state &= ~QStyle.StateFlag.State_Selected
            ground = mix(colors.pane, colors.accent, _MAX_HEAT * cell.heat)
            painter.fillRect(box, qcolor(ground))
            super().paint(painter, option, index)
            if is_chosen:
                painter.setPen(qcolor(colors.selection))
                for inset in (0, 1):
                    painter.drawRect(box.adjusted(inset, inset, -1 - inset, -1 - inset))
        if cell.bar > 0:
            margin, height = scaled(6), scaled(2)
            space = box.width() - 2 * margin
            length = max(round(space * min(cell.bar, 1.0)), 1)
            painter.fillRect(
                box.left() + margin, box.bottom() - height, length, height,
                qcolor(colors.accent),
            )  # fmt: skip


@guarded
class _KeptHeader(QHeaderView):
    """The header of a table whose first column stays in sight."""

    def __init__(self, table: TextTable) -> None:
        super().__init__(Qt.Orientation.Horizontal, table)
        self._table = table

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the titles, then that of the column that stays over them."""
        super().paintEvent(event)
        width = self._table.pinned_width()
        if width:
            with QPainter(self.viewport()) as painter:
                self.paintSection(painter, QRect(0, 0, width, self.height()), 0)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Sort by the column that stays where its title is clicked."""
        width = self._table.pinned_width()
        if width and event.position().x() < width:
            is_same = self.sortIndicatorSection() == 0
            order = Qt.SortOrder.AscendingOrder
            if is_same and self.sortIndicatorOrder() == order:
                order = Qt.SortOrder.DescendingOrder
            self.setSortIndicator(0, order)
            return
        super().mouseReleaseEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Leave the columns below the one that stays alone."""
        if event.position().x() >= self._table.pinned_width():
            super().mousePressEvent(event)


def cells_text(
    headings: Sequence[Heading], rows: Sequence[Sequence[Cell]], form: CopyForm
) -> str:
    """Return cells as text: of Markdown as shown, else plain figures."""
    is_shown = form == "markdown"
    titles = [h.title if is_shown else h.copied or h.title for h in headings]
    cells = [[c.text if is_shown or c.raw is None else c.raw for c in r] for r in rows]
    return rows_text(form, titles, cells, [h.right for h in headings])


def _alignment(heading: Heading) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if heading.right else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


def _sort_key(value: float | str | None) -> tuple[int, float, str]:
    if isinstance(value, str):
        return (1, 0.0, value.casefold())
    return (0, float(value or 0), "")


def sign_pixmap(color: int, shape: Shape) -> QPixmap:
    """Return a small sign for a cell or menu; its form means the same as its colour."""
    size, ratio = scaled(10), 3
    picture = QPixmap(size * ratio, size * ratio)
    picture.setDevicePixelRatio(ratio)
    picture.fill(QColor(0, 0, 0, 0))
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(qcolor(color))
    half = size / 2
    if shape == "circle":
        painter.drawEllipse(QPointF(half, half), half - 1, half - 1)
    elif shape == "triangle":
        corners = (QPointF(half, 0), QPointF(size, size - 1), QPointF(0, size - 1))
        painter.drawPolygon(corners)
    elif shape == "diamond":
        painter.drawPolygon(
            (
                QPointF(half, 0),
                QPointF(size, half),
                QPointF(half, size),
                QPointF(0, half),
            )
        )
    else:
        painter.drawRoundedRect(0, 0, size, size, 2, 2)
    painter.end()
    return picture
