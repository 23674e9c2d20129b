"""The dialog that lists the files of a session, how they fit, and lets one go."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QHBoxLayout,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.join_words import fit_words, joins_of
from ggscope.analysis.joining_tables import part_name
from ggscope.gui.widgets import button, label
from ggscope.model.trace import Part, Trace
from ggscope.model.units import format_bytes, format_exact_bytes
from ggscope.text import one_line
from ggscope.views.plain import set_tip, set_title

if TYPE_CHECKING:
    from ggscope.gui.document import Document

_FILE, _ROLE, _SIZE, _SHIFT, _FIT = range(5)


class PartsDialog(QDialog):
    """Shows the parts of one tab; follows what is added and taken out.

    Parameters
    ----------
    add : asks for files and adds them.
    """

    def __init__(
        self, document: "Document", add: Callable[[], object], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._document = document
        set_title(self, self.tr("Files of this session"))
        self.setAccessibleName(self.windowTitle())
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(860, 340)
        self._words = {
            "trace": self.tr("trace"),
            "model": self.tr("model file"),
            "map": self.tr("tensor map"),
            "registry": self.tr("tensor registry"),
            "buffers": self.tr("buffers"),
            "graph": self.tr("graph"),
            "experts": self.tr("choices of experts"),
        }
        self.table = self._make_table()
        self.add_button = button(self.tr("Add…"), add, self)
        set_tip(self.add_button, self.tr("Read further files into this session"))
        self.remove_button = button(self.tr("Remove"), self._on_remove, self)
        set_tip(self.remove_button, self.tr("Take the selected files out of it"))
        close = button(self.tr("Close"), self.close, self, primary=True)
        row = QHBoxLayout()
        for part in (self.add_button, self.remove_button):
            row.addWidget(part)
        row.addStretch(1)
        row.addWidget(close)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(12)
        text = self.tr(
            "What each file tells is joined by names, addresses and offsets. A shift "
            "is what its times were moved by."
        )
        box.addWidget(label(text, self, "dim", wraps=True))
        box.addWidget(self.table, 1)
        box.addLayout(row)
        self.table.itemSelectionChanged.connect(self._refresh_buttons)
        document.loader.parts_changed.connect(self._refresh)
        document.loader.state_changed.connect(self._refresh)
        document.destroyed.connect(self.close)
        self._refresh()

    def _make_table(self) -> QTableWidget:
        table = QTableWidget(0, 5, self)
        table.setHorizontalHeaderLabels(
            [
                self.tr("File"),
                self.tr("Part"),
                self.tr("Size"),
                self.tr("Shift"),
                self.tr("How it fits"),
            ]
        )
        table.setAccessibleName(self.tr("Files of this session"))
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.verticalHeader().hide()
        table.setTabKeyNavigation(False)
        head = table.horizontalHeader()
        head.setStretchLastSection(True)
        head.setDefaultAlignment(
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        )
        for column in (_FILE, _ROLE, _SIZE, _SHIFT):
            head.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        return table

    def _refresh(self, _: object = None) -> None:
        trace = self._document.session.trace
        rows = [] if trace is None else _rows(trace)
        self.table.setRowCount(len(rows))
        for number, part in enumerate(rows):
            self._fill(number, part, trace)
        self._refresh_buttons()

    def _fill(self, number: int, part: Part, trace: Trace | None) -> None:
        path = part.info.paths[0] if part.info.paths else Path()
        fits = [] if trace is None else joins_of(trace.joins, part_name(part.info))
        words = "; ".join(fit_words(j) for j in fits if j.kind != "names")
        unit = "ns" if trace is None else trace.clock.unit
        texts = {
            _FILE: (part_name(part.info), str(path)),
            _ROLE: (self._words.get(part.role, part.role), part.info.format),
            _SIZE: (
                format_bytes(part.info.byte_size),
                format_exact_bytes(part.info.byte_size),
            ),
            _SHIFT: (f"{part.shift:,} {unit}" if part.shift else "", ""),
            _FIT: (words, words),
        }
        for column, (text, tip) in texts.items():
            cell = QTableWidgetItem(one_line(text))
            set_tip(cell, tip)
            if column in (_SIZE, _SHIFT):
                cell.setTextAlignment(
                    Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
                )
            cell.setData(Qt.ItemDataRole.UserRole, path)
            self.table.setItem(number, column, cell)

    def _selected(self) -> list[Path]:
        rows = sorted({index.row() for index in self.table.selectedIndexes()})
        cells = [self.table.item(row, _FILE) for row in rows]
        return [c.data(Qt.ItemDataRole.UserRole) for c in cells if c is not None]

    def _refresh_buttons(self) -> None:
        chosen, n_parts = self._selected(), self.table.rowCount()
        self.remove_button.setEnabled(0 < len(chosen) < n_parts)

    def _on_remove(self) -> None:
        self._document.parts.remove(self._selected())


def _rows(trace: Trace) -> tuple[Part, ...]:
    """Return the parts; of a file that was read alone the file itself."""
    return trace.parts or (Part(trace.info, "trace"),)


__all__ = ["PartsDialog"]
