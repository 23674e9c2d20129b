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

    Attributes
    ----------
    trace : the trace whose spans are shown.
    order : the rows.
    columns : the columns.
    texts : what makes the cells; may be used on a worker.
    search_pattern : what to highlight inside the cells of hits.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.trace: Trace | None = None
        self.order: RowOrder | None = None
        self.columns: tuple[Column, ...] = ()
        self.texts: CellTexts | None = None
        self._absolute = False
        self._sorting = Sorting()
        self._hits: SearchHits | None = None
        self.search_pattern: re.Pattern[str] | None = None
        self._correlation: Correlation | None = None
        self._lit: I64 = empty(np.int64)

    # -- contents ----------------------------------------------------------

    def set_rows(self, trace: Trace | None, order: RowOrder | None) -> None:
        """Show these rows of this trace."""
        self.beginResetModel()
        self.trace, self.order = trace, order
        self.columns = () if trace is None else columns_of(trace)
        self.texts = self._make_texts()
        self.endResetModel()

    def set_absolute(self, absolute: bool) -> None:
        """Show times as the file's clock has them, or from the start."""
        self._absolute = absolute
        self.texts = self._make_texts()
        self._note_change()

    def set_correlation(self, correlation: Correlation | None) -> None:
        """Say which spans are in the graph; None = not known yet."""
        self._correlation = correlation
        self.texts = self._make_texts()
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
        return self.texts is not None and self.texts.is_in_graph(self.span_at(row))

    def set_sorting(self, sorting: Sorting) -> None:
        """Say in the header by what the rows are sorted."""
        self._sorting = sorting
        if self.columns:
            last = len(self.columns) - 1
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, last)

    def set_hits(self, hits: SearchHits | None) -> None:
        """Mark what a search found."""
        self._hits = hits
        self.search_pattern = None if hits is None else search_pattern(hits.text)
        self._note_change()

    def _make_texts(self) -> CellTexts | None:
        if self.trace is None:
            return None
        return CellTexts.of(
            self.trace, absolute=self._absolute, correlation=self._correlation
        )

    def _note_change(self) -> None:
        n_rows, n_columns = self.rowCount(), self.columnCount()
        if n_rows and n_columns:
            self.dataChanged.emit(
                self.index(0, 0), self.index(n_rows - 1, n_columns - 1)
            )

    def span_at(self, row: int) -> int:
        """Return the id of the span in `row`. Raises IndexError beyond the end."""
        if self.order is None:
            raise IndexError(row)
        return self.order.at(row)

    def row_of(self, span: int) -> int | None:
        """Return the row of `span`, or None where it is not listed."""
        trace = self.trace
        if self.order is None or trace is None or not 0 <= span < len(trace.spans):
            return None
        return self.order.row_of(span)

    def is_hit(self, span: int) -> bool:
        """Tell whether the search found `span`."""
        if self._hits is None or self.trace is None or not len(self._hits.ids):
            return False
        start = self.trace.spans.start[span]
        low = int(np.searchsorted(self._hits.times, start, "left"))
        high = int(np.searchsorted(self._hits.times, start, "right"))
        return bool((self._hits.ids[low:high] == span).any())

    def accesses_at(self, row: int) -> tuple[AccessFact, ...]:
        """Return the accesses of the span in `row`."""
        assert self.trace is not None
        return access_facts(self.trace, self.span_at(row))

    def n_accesses_at(self, row: int) -> int:
        """Return the number of accesses of the span in `row`, without texts."""
        assert self.trace is not None
        accesses = self.trace.accesses
        pattern = int(accesses.pattern[self.span_at(row)])
        if pattern < 0:
            return 0
        return int(accesses.first[pattern + 1] - accesses.first[pattern])

    def text(self, row: int, column: str) -> str:
        """Return the text of a cell by its column's key."""
        assert self.texts is not None
        return self.texts.text(self.span_at(row), column)

    def row_text(self, row: int, *, is_detailed: bool = False) -> str:
        """Return a row as one sentence, for screen readers; detailed: all sources."""
        cells = [
            f"{tr('record') if c.key == 'record' else c.title} {self.text(row, c.key)}"
            for c in self.columns
            if c.key != "dot" and not (is_detailed and c.key == "sources")
        ]
        if any(c.key == "dot" for c in self.columns):
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
        return 0 if parent.isValid() or self.order is None else len(self.order)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a cell's text, tooltip, alignment, span or raw value."""
        if not index.isValid() or self.texts is None:
            return None
        column = self.columns[index.column()]
        span = self.span_at(index.row())
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return one_line(self.texts.text(span, column.key))
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(self.texts.tip(span, column.key))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = "AlignRight" if column.right else "AlignLeft"
            return Qt.AlignmentFlag[side] | Qt.AlignmentFlag.AlignVCenter
        if role == Role.SPAN:
            return span
        if role == Role.RAW:
            return self.texts.raw(span, column.key)
        return None

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> Any:
        """Return a column's title, tooltip or alignment."""
        if orientation != Qt.Orientation.Horizontal or section >= len(self.columns):
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            arrow = " ▾" if self._sorting.descending else " ▴"
            return column.title + (arrow if column.key == self._sorting.column else "")
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
