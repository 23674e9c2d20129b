"""The dialog that lists the files of a session: match, time shift, add and remove."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.sessions.concatenate import SHIFT_OPTION, parsed_shift
from ggscope.descriptions.files import join_counts_text, joins_of
from ggscope.errors import QueryError
from ggscope.gui.dialogs.fitted import Dialog
from ggscope.gui.widgets import button, label
from ggscope.model.trace import JoinedFile, Trace
from ggscope.model.units import Unit, format_bytes, format_exact_bytes
from ggscope.sanitize import one_line
from ggscope.views.base.safe_text import Label, set_tip, set_title

if TYPE_CHECKING:
    from ggscope.gui.document import Document

_FILE, _ROLE, _SIZE, _SHIFT, _FIT = range(5)
_DRAG_PX = 1000
"""Width over which a drag moves by all that is shown, where no timeline is."""


class _ShiftHandle(Label):
    """A label that is dragged sideways; reports how far the mouse is from its press.

    Signals
    -------
    pressed : a drag may begin. dragged(px) : distance to the right of the press.
    """

    pressed = Signal()
    dragged = Signal(int)

    def __init__(self, text: str, parent: QWidget) -> None:
        super().__init__(text, parent)
        self._from: int | None = None
        self.setCursor(Qt.CursorShape.SizeHorCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._from = round(event.globalPosition().x())
            self.pressed.emit()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._from is not None:
            self.dragged.emit(round(event.globalPosition().x()) - self._from)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._from = None


class SessionFilesDialog(Dialog):
    """Shows the files of one tab; follows what is added and removed.

    Parameters
    ----------
    add : asks for files and adds them.
    """

    def __init__(
        self, document: "Document", add: Callable[[], object], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._document = document
        set_title(self, "Files of this session")
        self.setAccessibleName(self.windowTitle())
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(860, 340)
        self._role_titles = {
            "trace": "trace",
            "model": "model file",
            "map": "tensor map",
            "registry": "tensor registry",
            "buffers": "buffers",
            "graph": "graph",
            "experts": "expert routing",
            "recording": "sidecar",
            "metadata": "metadata",
        }
        self.table = self._make_table()
        self.add_button = button("Add…", add, self)
        set_tip(self.add_button, "Add files to this session")
        self.shift_field = QLineEdit(self)
        self.shift_field.setPlaceholderText("such as -1.5ms")
        self.shift_field.setAccessibleName("Time shift of the selected file")
        self.shift_field.setMaximumWidth(150)
        self.shift_field.returnPressed.connect(self._on_shift_entered)
        self.shift_handle = _ShiftHandle("↔ Shift", self)
        self.shift_handle.setProperty("role", "dim")
        self.shift_handle.pressed.connect(self._on_grabbed)
        self.shift_handle.dragged.connect(self._on_dragged)
        self._grabbed: int | None = None
        self._drag_scale = (0, 1)  # visible ticks, pixels
        self.earlier_button = button("−", partial(self._nudge, -1), self)
        self.later_button = button("+", partial(self._nudge, 1), self)
        self.file_clocks_button = button("Use file clocks", self._on_file_clocks, self)
        for part, tip in (
            (
                self.shift_handle,
                ("Drag sideways to shift its times at the scale of the timeline"),
            ),
            (self.shift_field, "Added to its times; Enter applies it"),
            (self.earlier_button, "Earlier by 1 % of the visible range"),
            (self.later_button, "Later by 1 % of the visible range"),
            (
                self.file_clocks_button,
                "Align its times by the clocks of the files",
            ),
        ):
            set_tip(part, tip)
            part.setAccessibleDescription(tip)
        self.remove_button = button("Remove", self._on_remove, self)
        set_tip(self.remove_button, "Remove the selected files from the session")
        close = button("Close", self.close, self, primary=True)
        row = QHBoxLayout()
        for part in (self.add_button, self.remove_button):
            row.addWidget(part)
        row.addStretch(1)
        row.addWidget(self.shift_handle)
        for part in (
            self.earlier_button,
            self.shift_field,
            self.later_button,
            self.file_clocks_button,
        ):
            row.addWidget(part)
        row.addStretch(1)
        row.addWidget(close)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(12)
        text = (
            "Files are matched by tensor name, address and offset. Time shift: offset "
            "relative to the first file."
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
        table.setHorizontalHeaderLabels(["File", "Role", "Size", "Shift", "Match"])
        table.setAccessibleName("Files of this session")
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
        rows: tuple[JoinedFile, ...] = ()
        if trace is not None:  # of a file that was read alone: the file itself
            rows = trace.parts or (JoinedFile(trace.info, "trace"),)
        self.table.setRowCount(len(rows))
        for number, part in enumerate(rows):
            self._fill(number, part, trace)
        self._refresh_buttons()

    def _fill(self, number: int, part: JoinedFile, trace: Trace | None) -> None:
        path = part.info.paths[0] if part.info.paths else Path()
        fits = [] if trace is None else joins_of(trace.joins, part.info.name)
        fit_text = "; ".join(join_counts_text(j) for j in fits if j.kind != "names")
        unit = "ns" if trace is None else trace.clock.unit
        texts = {
            _FILE: (part.info.name, str(path)),
            _ROLE: (self._role_titles.get(part.role, part.role), part.info.format),
            _SIZE: (
                format_bytes(part.info.byte_size),
                format_exact_bytes(part.info.byte_size),
            ),
            _SHIFT: (f"{part.shift:,} {unit}" if part.shift else "", ""),
            _FIT: (fit_text, fit_text),
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
        self.remove_button.setEnabled(
            self._document.loader.can_remove(*self._selected())
        )
        part = self._shiftable()
        for widget in (
            self.shift_handle,
            self.shift_field,
            self.earlier_button,
            self.later_button,
        ):
            widget.setEnabled(part is not None)
        self.file_clocks_button.setEnabled(
            part is not None and SHIFT_OPTION in part.info.options
        )
        unit = "ns" if part is None else self._unit()
        text = "" if part is None else f"{part.shift:,} {unit}"
        self.shift_field.setText(text)

    def _unit(self) -> Unit:
        trace = self._document.session.trace
        return "ns" if trace is None else trace.clock.unit

    def _shiftable(self) -> JoinedFile | None:
        """Return the one selected file, if its times can be moved."""
        trace, chosen = self._document.session.trace, self._selected()
        if trace is None or len(chosen) != 1:
            return None
        for part in trace.parts[1:]:
            if part.info.paths[:1] == (chosen[0],):
                return part if part.role in ("trace", "buffers", "experts") else None
        return None

    def _on_shift_entered(self) -> None:
        part = self._shiftable()
        if part is None:
            return
        try:
            ticks = parsed_shift(self.shift_field.text(), self._unit())
        except QueryError as error:
            self._document.session.status_message.emit(str(error))
            self.shift_field.selectAll()
        else:
            self._document.loader.shift(part.info.paths[0], str(ticks))

    def _nudge(self, by: int) -> None:
        part, shift = self._shiftable(), self._pending_shift()
        if part is not None and shift is not None:
            step = max(self._document.session.viewport.visible.duration // 100, 1)
            self._document.loader.shift(part.info.paths[0], str(shift + by * step))

    def _pending_shift(self) -> int | None:
        """Return the shift after all pending changes; None = not known."""
        part = self._shiftable()
        if part is None:
            return None
        requested = self._document.loader.shift_of(part.info.paths[0])
        if requested == part.info.options.get(SHIFT_OPTION, ""):
            return part.shift
        # "": on its way to where the clocks show, which is not known yet.
        return parsed_shift(requested, self._unit()) if requested else None

    def _on_grabbed(self) -> None:
        self._grabbed = self._pending_shift()
        widths = [v.width() for v in self._document.workspace.views("timeline")]
        # Kept for the whole drag: moving a file may change what is visible.
        duration = self._document.session.viewport.visible.duration
        self._drag_scale = duration, max(widths, default=_DRAG_PX) or 1

    def _on_dragged(self, px: int) -> None:
        part = self._shiftable()
        if part is None or self._grabbed is None:
            return
        duration, width = self._drag_scale
        ticks = duration * px // width
        self.shift_field.setText(f"{self._grabbed + ticks:,} {self._unit()}")
        self._document.loader.shift(part.info.paths[0], str(self._grabbed + ticks))

    def _on_file_clocks(self) -> None:
        part = self._shiftable()
        if part is not None:
            self._document.loader.shift(part.info.paths[0], "")

    def _on_remove(self) -> None:
        self._document.parts.remove(self._selected())
