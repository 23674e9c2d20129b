"""The table of buffers: size, life and accesses, a line each."""

import numpy as np
from PySide6.QtCore import QCoreApplication, QItemSelectionModel, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ggscope.analysis.buffers import BufferUse
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_exact_bytes,
)
from ggscope.render.buffers import buffer_name, usage_name
from ggscope.render.theme import Theme
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import lay_out
from ggscope.views.buffers.words import time_text
from ggscope.words.spans import exact_time_text

MAX_ROWS = 2000
"""The largest ones are listed; that there are more is said."""


@guarded
class BuffersTable(QWidget):
    """Buffers, the largest first; sorts by any column, copies, selects."""

    chosen = Signal(object)  # tuple of rows of Trace.buffers
    opened = Signal(object)  # row

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        tr = self.tr
        self.model = TextTableModel(
            (
                Heading(tr("buffer"), tr("Name"), 110, stretch=True),
                Heading(tr("backend"), tr("Backend"), 76),
                Heading(tr("usage"), tr("What it is for"), 78, words=True),
                Heading(tr("size"), tr("Size"), 76, right=True,
                        copied="size (bytes)"),
                Heading(tr("allocated"), tr("When it was allocated"), 78, right=True,
                        copied="allocated (ticks)"),
                Heading(tr("freed"), tr("When it was freed"), 74, right=True,
                        copied="freed (ticks)"),
                Heading(tr("layer"), tr("Layer"), 56, right=True),
                Heading(tr("accesses"), tr("Accesses of ops"), 88, right=True),
            ),
            self,
        )  # fmt: skip
        self.table = TextTable(self.model, self)
        self.table.setAccessibleName(tr("Buffers"))
        self.table.selectionModel().selectionChanged.connect(self._on_chosen)
        self.table.row_opened.connect(self._on_opened)
        self._is_quiet = False
        lay_out(QVBoxLayout(self), self.table)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.table.set_theme(theme)

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
        self.model.set_rows(cells, payloads=rows)
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
        found = (self.model.payload(line) for line in lines)
        return tuple(row for row in found if isinstance(row, int))

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
        if use is None or not use.is_known
        else Cell(format_count(n), n, n),
    )


def _time(trace: Trace, tick: int, absolute: bool) -> Cell:
    if tick == -1:
        return Cell(NOT_AVAILABLE, None, "")
    exact = exact_time_text(trace, tick)
    text = time_text(trace, tick, absolute=absolute)
    return Cell(text, tick, tick + trace.clock.shift(absolute), exact)
