"""The tables of statistics: headings and cells, and what keys do in them."""

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QWidget

from ggscope.analysis.statistics.columns import StatColumn, StatFacts
from ggscope.analysis.statistics.pivot import Pivot, PivotMeasure
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.descriptions.pivot import MEASURES, pivot_cells, pivot_tip
from ggscope.descriptions.statistics import StatCell, unit_of
from ggscope.model.selection import By
from ggscope.model.units import UNITS, Unit
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.view import guarded

_WIDTHS = {
    "key": 160, "text": 90, "count": 56, "time": 72, "share": 60, "bytes": 72,
    "rate": 84,
}  # fmt: skip
_ALL = "all"


@guarded
class StatisticsTable(TextTable):
    """A table of groups of spans.

    Signals
    -------
    row_stepped(row, by) : Enter or Shift+Enter: to the next or previous span (±1).

    With Ctrl, Enter opens a row as a double click does.
    """

    row_stepped = Signal(int, int)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Step with Enter; everything else as in other tables."""
        has_control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if not is_enter or has_control:
            super().keyPressEvent(event)
        elif self.currentIndex().isValid():
            is_back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.row_stepped.emit(self.currentIndex().row(), -1 if is_back else 1)


@guarded
class PivotTable(StatisticsTable):
    """A table of two groupings, in which single cells are selected."""

    def __init__(self, model: TextTableModel, parent: QWidget) -> None:
        super().__init__(model, parent, "pivot", keeps_first=True)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectItems)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)

    def place(self, index: QModelIndex, table: Pivot) -> tuple[str | None, str | None]:
        """Return the row and the column of a cell; None = all of them."""
        key, column = self.rows.payload(index.row()), index.column() - 1
        across = table.columns[column] if 0 <= column < len(table.columns) else None
        return (key if isinstance(key, str) else None), across

    def index_of(
        self, key: str | None, column: str | None, table: Pivot
    ) -> QModelIndex:
        """Return the cell of a row and a column, wherever it is sorted to."""
        rows = range(self.rows.rowCount())
        row = next((r for r in rows if self.rows.payload(r) == key), -1)
        if row < 0 or (column is not None and column not in table.columns):
            return QModelIndex()
        at = 0 if column is None else table.columns.index(column) + 1
        return self.rows.index(row, at)


def headings(columns: tuple[StatColumn, ...], facts: StatFacts) -> list[Heading]:
    """Return the columns of a table of one grouping."""
    result = []
    for column in columns:
        is_text, is_key = column.unit == "text", column.key == "key"
        unit = unit_of(column, facts)
        result.append(
            Heading(
                column.title,
                column.tooltip,
                _WIDTHS["key" if is_key else column.unit],
                not is_text,
                is_text and not is_key,
                is_key,
                f"{column.title} ({unit})" if unit else "",
                largest_first=not is_text,
            )
        )
    return result


def text_cell(cell: StatCell, column: StatColumn) -> Cell:
    """Return a cell that sorts by its value, and copies as a plain number."""
    raw = None if column.unit == "text" else "" if cell.raw is None else cell.raw
    return Cell(cell.text, cell.value, raw, cell.exact)


def pivot_headings(table: Pivot, measure: PivotMeasure, unit: Unit) -> list[Heading]:
    """Return the columns of a pivot table."""
    tip = pivot_tip(table, measure)
    ticks = UNITS[unit].plural
    copied = ticks if measure in ("total", "mean") else MEASURES[measure]
    heads = [
        Heading(
            key, f"{_named(table.across, key)}\n{tip}", _WIDTHS["time"], right=True,
            copied=f"{key} ({copied})", largest_first=True,
        )
        for key in (*table.columns, _ALL)
    ]  # fmt: skip
    first = f"{GROUPINGS[table.by]} ↓ {GROUPINGS[table.across]} →"
    return [Heading(first, tip, _WIDTHS["key"]), *heads]


def pivot_rows(
    table: Pivot, measure: PivotMeasure, unit: Unit
) -> tuple[list[tuple[Cell, ...]], tuple[Cell, ...]]:
    """Return the cells, coloured by their value, and the sums of all."""
    texts = pivot_cells(table, measure, unit)
    values = [
        cell.value
        for row in texts[:-1]
        for cell in row[:-1]
        if isinstance(cell.value, float)
    ]
    hottest = max(values, default=0.0) or 1.0
    rows = []
    for key, row in zip(table.rows, texts[:-1], strict=True):
        sums = row[-1]
        cells = [
            Cell(
                cell.text, cell.value, "" if cell.raw is None else cell.raw,
                f"{_named(table.by, key)}, {_named(table.across, column)}: "
                f"{cell.exact or cell.text}",
                heat=cell.value / hottest if isinstance(cell.value, float) else 0.0,
            )
            for column, cell in zip(table.columns, row[:-1], strict=True)
        ]  # fmt: skip
        number = float(key) if key.isdecimal() else key
        rows.append((Cell(key, number), *cells, _plain(sums)))
    return rows, (Cell(_ALL), *map(_plain, texts[-1]))


def _plain(cell: StatCell) -> Cell:
    return Cell(cell.text, cell.value, "" if cell.raw is None else cell.raw, cell.exact)


def _named(by: By, key: str) -> str:
    return key if key == _ALL else f"{GROUPINGS[by]} {key}"
