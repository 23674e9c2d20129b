"""TreeTable: rows of a `TextTable` that fold."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QEvent, QModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem, QWidget

from ggscope.views.base.text_table import (
    Cell,
    CellPainter,
    Index,
    TextTable,
    TextTableModel,
)
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import qcolor, scaled

_STEP, _SIGN = 14, 18
"""Indentation of a level, and the space of the sign that folds; pixels at 100 %."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeRow:
    """A row with those within it.

    Attributes
    ----------
    payload : what it stands for.
    key : of a group, the same when it is listed again.
    children : makes the rows of a group when it is opened; None = not a group.
    """

    cells: tuple[Cell, ...]
    payload: object = None
    key: Hashable = None
    children: "Callable[[], Sequence[TreeRow]] | None" = None


@guarded
class TreeTableModel(TextTableModel):
    """Rows of groups that are opened and closed; each level is sorted by itself."""

    def __init__(self, headings: Any, parent: QWidget | None = None) -> None:
        super().__init__(headings, parent)
        self._top: tuple[TreeRow, ...] = ()
        self._shown: list[tuple[TreeRow, int]] = []
        self._open: set[Hashable] = set()
        self._made: dict[Hashable, tuple[TreeRow, ...]] = {}

    def set_tree(
        self,
        rows: Sequence[TreeRow],
        opened: set[Hashable] | None = None,
        n_left_out: int = 0,
    ) -> None:
        """Show these rows; those of `opened` open, None = those that were.

        `n_left_out` more are not shown, even when all groups are open.
        """
        self._top, self._made = tuple(rows), {}
        if opened is not None:
            self._open = set(opened)
        self.set_rows((), n_left_out=n_left_out)

    def tree_row(self, row: int) -> TreeRow | None:
        """Return what stands in a row; None where there is none."""
        return self._shown[row][0] if 0 <= row < len(self._shown) else None

    def level(self, row: int) -> int:
        """Return how deep a row lies, 0 = outermost."""
        return self._shown[row][1] if 0 <= row < len(self._shown) else 0

    def is_open(self, row: int) -> bool:
        """Return whether a group is open."""
        tree_row = self.tree_row(row)
        return tree_row is not None and tree_row.key in self._open

    def is_group(self, row: int) -> bool:
        """Return whether a row is a group."""
        tree_row = self.tree_row(row)
        return tree_row is not None and tree_row.children is not None

    @property
    def opened(self) -> set[Hashable]:
        """Keys of the groups that are open."""
        return set(self._open)

    def row_of(self, payload: object) -> int:
        """Return the row that stands for something, -1 = none that is seen."""
        payloads = (i for i, known in enumerate(self._payloads) if known == payload)
        return next(payloads, -1)

    def row_of_key(self, key: Hashable) -> int:
        """Return the row of a group, -1 = none that is seen."""
        shown = enumerate(self._shown)
        return next((i for i, (row, _) in shown if row.key == key and row.children), -1)

    @property
    def has_groups(self) -> bool:
        """Whether any outermost row is a group."""
        return any(row.children is not None for row in self._top)

    def parent_row(self, row: int) -> int:
        """Return the group that a row lies in, -1 = it is outermost."""
        depth = self.level(row)
        return next((i for i in range(row, -1, -1) if self.level(i) < depth), -1)

    def set_open(self, row: int, is_open: bool) -> None:
        """Open or close a group; selection and other rows stay."""
        tree_row = self.tree_row(row)
        if (
            tree_row is None
            or tree_row.children is None
            or is_open == self.is_open(row)
        ):
            return
        (self._open.add if is_open else self._open.discard)(tree_row.key)
        shown = list(self._flat())
        n = abs(len(shown) - len(self._shown))
        if is_open and n:
            self.beginInsertRows(QModelIndex(), row + 1, row + n)
        elif n:
            self.beginRemoveRows(QModelIndex(), row + 1, row + n)
        self._take(shown)
        if is_open and n:
            self.endInsertRows()
        elif n:
            self.endRemoveRows()
        last = self.index(row, self.columnCount() - 1)
        self.dataChanged.emit(self.index(row, 0), last)

    def open_all(self, is_open: bool) -> None:
        """Open or close all groups."""
        self._open = set(self._groups(self._top)) if is_open else set()
        self.set_tree(self._top, n_left_out=self._n_left_out)

    def _groups(self, rows: Sequence[TreeRow]) -> Iterator[Hashable]:
        for row in rows:
            if row.children is not None:
                yield row.key
                yield from self._groups(self._children(row))

    def _children(self, row: TreeRow) -> tuple[TreeRow, ...]:
        if row.children is None:
            return ()
        if row.key not in self._made:
            self._made[row.key] = tuple(row.children())
        return self._made[row.key]

    def _arrange(self) -> None:
        self._take(list(self._flat()))

    def _take(self, shown: list[tuple[TreeRow, int]]) -> None:
        self._shown = shown
        self._rows = [row.cells for row, _ in shown]
        self._payloads = [row.payload for row, _ in shown]

    def _flat(self) -> Iterator[tuple[TreeRow, int]]:
        pending = [(row, 0) for row in reversed(self._sorted(self._top))]
        while pending:
            row, level = pending.pop()
            yield row, level
            if row.children is not None and row.key in self._open:
                inside = self._sorted(self._children(row))
                pending += [(child, level + 1) for child in reversed(inside)]

    def _sorted(self, rows: Sequence[TreeRow]) -> Sequence[TreeRow]:
        ranks = self.sorted_positions([row.cells for row in rows])
        return [rows[i] for i in ranks]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a cell; to a screen reader also whether a group is open."""
        text = super().data(index, role)
        if role != Qt.ItemDataRole.AccessibleTextRole or index.column():
            return text
        if not index.isValid() or not self.is_group(index.row()):
            return text
        state = "expanded" if self.is_open(index.row()) else "collapsed"
        return f"{text}, {state}"


@guarded
class TreeTable(TextTable):
    """Shows a `TreeTableModel`: Left and Right close and open groups."""

    rows: TreeTableModel
    max_name = 250

    def __init__(
        self,
        model: TreeTableModel,
        parent: QWidget,
        name: str,
        *,
        keeps_first: bool = False,
    ) -> None:
        super().__init__(model, parent, name, keeps_first=keeps_first)
        self.setItemDelegate(_TreePainter(self))
        self.row_opened.connect(self._toggle)
        model.rowsInserted.connect(self._on_inserted)

    @property
    def chosen_ground(self) -> int:
        """Colour behind selected rows."""
        return self._grounds[2]

    def sign_rect(self, row: int) -> QRectF:
        """Return where the sign lies that opens and closes a group, in the viewport."""
        left = self.columnViewportPosition(0)
        if self.pinned_width():
            left = 0
        x = left + scaled(4) + self.rows.level(row) * scaled(_STEP)
        return QRectF(
            x, self.rowViewportPosition(row), scaled(_SIGN), self.rowHeight(row)
        )

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Open or close a group where its sign is pressed."""
        row = self.rowAt(round(event.position().y()))
        is_left = event.button() == Qt.MouseButton.LeftButton
        if is_left and self._is_on_sign(row, event):
            self._toggle(row)
            return
        super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Take the second of two quick presses on a sign for another press."""
        row = self.rowAt(round(event.position().y()))
        if self._is_on_sign(row, event):
            self.mousePressEvent(event)
            return
        super().mouseDoubleClickEvent(event)

    def _is_on_sign(self, row: int, event: QMouseEvent) -> bool:
        place = event.position()
        return self.rows.is_group(row) and self.sign_rect(row).contains(place)

    def event(self, event: QEvent) -> bool:
        """Keep Left and Right, which pan the timeline elsewhere."""
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.ShortcutOverride
            and event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right)
            and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Open and close groups, or go to the group of a row or the first within."""
        if event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            super().keyPressEvent(event)
            return
        row = self.currentIndex().row()
        match event.key():
            case Qt.Key.Key_Right if self.rows.is_group(row):
                if self.rows.is_open(row):
                    self._go_to(row + 1)
                else:
                    self.rows.set_open(row, True)
            case Qt.Key.Key_Left if self.rows.is_open(row):
                self.rows.set_open(row, False)
            case Qt.Key.Key_Left:
                self._go_to(self.rows.parent_row(row))
            case Qt.Key.Key_Right:
                pass
            case Qt.Key.Key_Asterisk:
                self.rows.open_all(True)
            case _:
                super().keyPressEvent(event)

    def _go_to(self, row: int) -> None:
        if 0 <= row < self.rows.rowCount():
            self.setCurrentIndex(self.rows.index(row, 0))

    def _on_inserted(self, *_: object) -> None:
        self.fit_columns()

    def _toggle(self, row: int) -> None:
        if self.rows.is_group(row):
            self.rows.set_open(row, not self.rows.is_open(row))


@guarded
class _TreePainter(CellPainter):
    """Draws cells, the first one indented and with the sign of its group."""

    def __init__(self, table: TreeTable) -> None:
        super().__init__(table)
        self._table = table

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: Index
    ) -> None:
        """Draw a cell."""
        model = self._table.rows
        if index.column():
            super().paint(painter, option, index)
            return
        inner = QStyleOptionViewItem(option)
        indent = self._indent(index.row())
        inner.rect = option.rect.adjusted(indent, 0, 0, 0)
        if option.state & QStyle.StateFlag.State_Selected:
            left = option.rect.adjusted(0, 0, indent - option.rect.width(), 0)
            painter.fillRect(left, qcolor(self._table.chosen_ground))
        super().paint(painter, inner, index)
        if model.is_group(index.row()):
            sign = "▾" if model.is_open(index.row()) else "▸"
            place = option.rect.adjusted(indent - scaled(_SIGN) + scaled(6), 0, 0, 0)
            painter.save()
            painter.setPen(qcolor(model.theme.dim))
            painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, sign)
            painter.restore()

    def _indent(self, row: int) -> int:
        model = self._table.rows
        return scaled(_STEP) * model.level(row) + scaled(
            _SIGN if model.has_groups else 0
        )

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Return the size of a cell with its indentation."""
        size = super().sizeHint(option, index)
        if not index.column():
            size.setWidth(size.width() + self._indent(index.row()))
        return size
