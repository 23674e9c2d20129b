"""The trace table's model: rows of spans in some order, cells made on demand."""

import re
from enum import IntEnum
from typing import Any

import numpy as np
from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
)

from ggscope.analysis.filters.masks import SearchHits
from ggscope.analysis.order.table_order import RowOrder, Sorting
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.model.tables import I64, empty
from ggscope.model.trace import Trace
from ggscope.text import one_line, tooltip
from ggscope.views.base.cells import CellTexts, Column, columns_of
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import tr
from ggscope.words.spans import AccessFact, access_facts, access_line

Index = QModelIndex | QPersistentModelIndex


class Role(IntEnum):
    """Roles beyond Qt's own."""

    SPAN = int(Qt.ItemDataRole.UserRole)
    """The span's id."""
    RAW = SPAN + 1
    """The value as a number or plain text."""


@guarded
class TraceTableModel(QAbstractTableModel):
    """Rows of spans in a given order. Holds no row: each cell is made when asked.

    Notes
    -----
    `row_count` is limited by Qt to 2**31 - 1, the order's ids by memory.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._trace: Trace | None = None
        self._order: RowOrder | None = None
        self._columns: tuple[Column, ...] = ()
        self._texts: CellTexts | None = None
        self._absolute = False
        self._sorting = Sorting()
        self._hits: SearchHits | None = None
        self._pattern: re.Pattern[str] | None = None
        self._correlation: Correlation | None = None
        self._lit: I64 = empty(np.int64)

    # -- contents ----------------------------------------------------------

    @property
    def trace(self) -> Trace | None:
        """The trace whose spans are shown."""
        return self._trace

    @property
    def order(self) -> RowOrder | None:
        """The rows."""
        return self._order

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns."""
        return self._columns

    def set_rows(self, trace: Trace | None, order: RowOrder | None) -> None:
        """Show these rows of this trace."""
        self.beginResetModel()
        self._trace, self._order = trace, order
        self._columns = () if trace is None else columns_of(trace)
        self._texts = self._make_texts()
        self.endResetModel()

    def set_absolute(self, absolute: bool) -> None:
        """Show times as the file's clock has them, or from the start."""
        self._absolute = absolute
        self._texts = self._make_texts()
        self._note_change()

    def set_correlation(self, correlation: Correlation | None) -> None:
        """Say which spans are in the graph; None = not known yet."""
        self._correlation = correlation
        self._texts = self._make_texts()
        self._note_change()

    def set_lit(self, spans: I64) -> None:
        """Light up these spans (ids, ascending)."""
        if len(spans) or len(self._lit):
            self._lit = spans
            self._note_change()

    def is_lit(self, span: int) -> bool:
        """Tell whether `span` belongs to what is selected elsewhere."""
        at = int(np.searchsorted(self._lit, span))
        return at < len(self._lit) and int(self._lit[at]) == span

    def is_in_graph(self, row: int) -> bool:
        """Tell whether the span in `row` was found in the graph."""
        return self._texts is not None and self._texts.is_in_graph(self.span_at(row))

    def set_sorting(self, sorting: Sorting) -> None:
        """Say in the header by what the rows are sorted."""
        self._sorting = sorting
        if self._columns:
            last = len(self._columns) - 1
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, last)

    def _arrow(self) -> str:
        return " ▾" if self._sorting.descending else " ▴"

    def set_hits(self, hits: SearchHits | None) -> None:
        """Mark what a search found."""
        self._hits = hits
        self._pattern = None if hits is None else search_pattern(hits.text)
        self._note_change()

    def _make_texts(self) -> CellTexts | None:
        if self._trace is None:
            return None
        return CellTexts.of(
            self._trace, absolute=self._absolute, correlation=self._correlation
        )

    @property
    def texts(self) -> CellTexts | None:
        """What makes the cells; may be used on a worker."""
        return self._texts

    def _note_change(self) -> None:
        n_rows, n_columns = self.rowCount(), self.columnCount()
        if n_rows and n_columns:
            self.dataChanged.emit(
                self.index(0, 0), self.index(n_rows - 1, n_columns - 1)
            )

    @property
    def search_pattern(self) -> re.Pattern[str] | None:
        """What to highlight inside the cells of hits."""
        return self._pattern

    def span_at(self, row: int) -> int:
        """Return the id of the span in `row`. Raises IndexError beyond the end."""
        if self._order is None:
            raise IndexError(row)
        return self._order.at(row)

    def row_of(self, span: int) -> int | None:
        """Return the row of `span`, or None where it is not listed."""
        trace = self._trace
        if self._order is None or trace is None or not 0 <= span < len(trace.spans):
            return None
        return self._order.row_of(span)

    def is_hit(self, span: int) -> bool:
        """Tell whether the search found `span`."""
        if self._hits is None or self._trace is None or not len(self._hits.ids):
            return False
        start = self._trace.spans.start[span]
        low = int(np.searchsorted(self._hits.times, start, "left"))
        high = int(np.searchsorted(self._hits.times, start, "right"))
        return bool((self._hits.ids[low:high] == span).any())

    def accesses_at(self, row: int) -> tuple[AccessFact, ...]:
        """Return the accesses of the span in `row`."""
        assert self._trace is not None
        return access_facts(self._trace, self.span_at(row))

    def n_accesses_at(self, row: int) -> int:
        """Return the number of accesses of the span in `row`, without texts."""
        assert self._trace is not None
        accesses = self._trace.accesses
        pattern = int(accesses.pattern[self.span_at(row)])
        if pattern < 0:
            return 0
        return int(accesses.first[pattern + 1] - accesses.first[pattern])

    def text(self, row: int, column: str) -> str:
        """Return the text of a cell by its column's key."""
        assert self._texts is not None
        return self._texts.text(self.span_at(row), column)

    def row_text(self, row: int, *, is_detailed: bool = False) -> str:
        """Return a row as one sentence, for screen readers; detailed: all sources."""
        cells = [
            f"{tr('record') if c.key == 'record' else c.title} {self.text(row, c.key)}"
            for c in self._columns
            if c.key != "dot" and not (is_detailed and c.key == "sources")
        ]
        if any(c.key == "dot" for c in self._columns):
            found = self.is_in_graph(row)
            cells.append(tr("in the graph") if found else tr("not in the graph"))
        if is_detailed:
            cells += [
                f"{tr('source')} {number}: {access_line(access)}"
                for number, access in enumerate(self.accesses_at(row))
            ]
        return ", ".join(cells)

    # -- Qt ----------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own
        """Return the number of rows."""
        return 0 if parent.isValid() or self._order is None else len(self._order)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self._columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a cell's text, tooltip, alignment, span or raw value."""
        if not index.isValid() or self._texts is None:
            return None
        column = self._columns[index.column()]
        span = self.span_at(index.row())
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return one_line(self._texts.text(span, column.key))
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(self._texts.tip(span, column.key))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = "AlignRight" if column.right else "AlignLeft"
            return Qt.AlignmentFlag[side] | Qt.AlignmentFlag.AlignVCenter
        if role == Role.SPAN:
            return span
        if role == Role.RAW:
            return self._texts.raw(span, column.key)
        return None

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> Any:
        """Return a column's title, tooltip or alignment."""
        if orientation != Qt.Orientation.Horizontal or section >= len(self._columns):
            return None
        column = self._columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            arrow = "" if column.key != self._sorting.column else self._arrow()
            return column.title + arrow
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(column.tip)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return column.tip
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = "AlignRight" if column.right else "AlignLeft"
            return Qt.AlignmentFlag[side] | Qt.AlignmentFlag.AlignVCenter
        return None


def search_pattern(text: str) -> re.Pattern[str] | None:
    """Return a pattern for plain text (any case) or ``/regex/``; None if bad."""
    try:
        if len(text) > 2 and text.startswith("/") and text.endswith("/"):
            return re.compile(text[1:-1], re.IGNORECASE)
        return re.compile(re.escape(text), re.IGNORECASE) if text else None
    except re.error:
        return None
