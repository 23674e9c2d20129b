"""LazyTableModel: rows of a table that are made when they are seen."""

from collections.abc import Callable, Sequence

import numpy as np
from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, Qt

from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64
from ggscope.views.base.cells import CopyForm, TableFile
from ggscope.views.base.text_table import Cell, Heading, TextTableModel, cells_text
from ggscope.views.base.view import guarded

Index = QModelIndex | QPersistentModelIndex
_MAX_MADE = 512
_EVERY = 2_000


@guarded
class LazyTableModel(TextTableModel):
    """Rows by position, for hundreds of thousands: each is made when it is seen.

    Attributes
    ----------
    shown : int64[k], positions of the rows in their order.
    """

    def __init__(
        self, headings: Sequence[Heading], parent: QObject | None = None
    ) -> None:
        super().__init__(headings, parent)
        self.shown: I64 = np.zeros(0, np.int64)
        self._make: Callable[[int], tuple[Cell, ...]] = lambda _: ()
        self._order: Callable[[int, bool], I64] = lambda _, __: np.zeros(0, np.int64)
        self._mask: np.ndarray = np.zeros(0, np.bool_)
        self._made: dict[int, tuple[Cell, ...]] = {}

    def set_source(
        self,
        headings: Sequence[Heading],
        make: Callable[[int], tuple[Cell, ...]],
        order: Callable[[int, bool], I64],
        mask: np.ndarray,
    ) -> None:
        """Show the rows that `mask` has.

        Parameters
        ----------
        make : returns the cells of a position.
        order : returns all positions by a column (-1 = as they came), down or up.
        """
        self.set_headings(headings)
        self._make, self._order = make, order
        self.set_mask(mask)

    def set_mask(self, mask: np.ndarray) -> None:
        """Show other rows of the same source."""
        self.beginResetModel()
        self._mask = mask
        self._made.clear()
        self._sort_shown()
        self.endResetModel()

    def set_rows(
        self,
        rows: Sequence[tuple[Cell, ...]],
        totals: tuple[Cell, ...] | None = None,
        payloads: Sequence[object] | None = None,
        n_left_out: int = 0,
    ) -> None:
        """Show no rows: others come by `set_source`."""
        assert not rows
        self.set_mask(np.zeros(len(self._mask), np.bool_))

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own
        """Return the number of rows."""
        return 0 if parent.isValid() else len(self.shown)

    def row(self, row: int) -> tuple[Cell, ...]:
        """Return a row's cells."""
        position = int(self.shown[row])
        cells = self._made.get(position)
        if cells is None:
            if len(self._made) >= _MAX_MADE:
                self._made.clear()
            cells = self._made[position] = self._make(position)
        return cells

    def payload(self, row: int) -> object:
        """Return the position of a row."""
        return int(self.shown[row]) if row < len(self.shown) else None

    def rows_of(self, payloads: Sequence[object]) -> dict[object, int]:
        """Return the rows of positions, of those that are shown."""
        row = np.full(len(self._mask), -1)
        row[self.shown] = np.arange(len(self.shown))
        n = len(row)
        rows = {p: int(row[p]) for p in payloads if isinstance(p, int) and p < n}
        return {position: at for position, at in rows.items() if at >= 0}

    def row_of(self, position: int) -> int:
        """Return the row of a position; -1 where it is not shown."""
        at = np.flatnonzero(self.shown == position)
        return int(at[0]) if len(at) else -1

    def sort(
        self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder
    ) -> None:
        """Sort by a column; rows that are selected stay so, wherever they go."""
        self.sorted_by = (column, order)
        self.layoutAboutToBeChanged.emit()
        before = self.shown
        self._sort_shown()
        place = np.zeros(len(self._mask), np.int64)
        place[self.shown] = np.arange(len(self.shown))
        indexes = self.persistentIndexList()
        moved = [self.index(int(place[before[i.row()]]), i.column()) for i in indexes]
        self.changePersistentIndexList(indexes, moved)
        self.layoutChanged.emit()
        last = len(self.headings) - 1
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, last)

    def _sort_shown(self) -> None:
        column, order = self.sorted_by
        column = column if column < len(self.headings) else -1
        if not len(self._mask):
            self.shown = np.zeros(0, np.int64)
            return
        order_of_rows = self._order(column, order == Qt.SortOrder.DescendingOrder)
        self.shown = order_of_rows[self._mask[order_of_rows]]

    def file(self, name: str, rows: Sequence[int]) -> TableFile:
        """Return rows as they are now, for a file; made by who writes it."""
        positions = self.shown[np.asarray(rows, np.int64)].tolist()
        headings, make = self.headings, self._make

        def text(form: CopyForm, watcher: Watcher) -> str:
            made = []
            for i, position in enumerate(positions):
                if not i % _EVERY:
                    watcher.progress(i, len(positions))
                made.append(make(position))
            return cells_text(headings, made, form)

        return TableFile(name, text, len(positions), len(positions), "")
