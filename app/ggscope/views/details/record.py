"""The record of the file behind a span or marker: its fields and its bytes."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ggscope.descriptions.spans import Fact
from ggscope.model.trace import RecordView, Trace
from ggscope.model.units import format_count, format_offset
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.tasks import TaskFailure
from ggscope.views.base.fact_list import FactList
from ggscope.views.base.safe_text import Label
from ggscope.views.base.widgets import Disclosure, lay_out, set_label_color, ui_font
from ggscope.views.details.hex_view import HexView

RECORD_TASK = "details-record"


class RecordSection(Disclosure):
    """A section that shows one record, read back from the file when asked for."""

    placed = Signal(int, object)  # record, its byte offset in the file

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Record", parent)
        self.record: RecordView | None = None
        self.opened.connect(self._show)
        body = QWidget(self)
        self.note = Label(parent=body)
        self.note.setWordWrap(True)
        self.note.setFont(ui_font(12))
        self.fields = FactList(body)
        self.fields.setAccessibleName("Fields of the record")
        self.fields.hovered.connect(self._on_field_hovered)
        self.bytes = HexView(body)
        lay_out(QVBoxLayout(body), self.note, self.fields, self.bytes, spacing=8)
        self.set_content(body)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.fields.set_theme(theme)
        self.bytes.set_theme(theme)
        set_label_color(self.note, theme.dim)

    def ask(self, session: Session, trace: Trace, record: int) -> None:
        """Read a record back on a worker, for files may be slow or gone; -1 = none."""
        self.record = None
        records = trace.records if record >= 0 else None
        self.setVisible(records is not None)
        if records is None:
            session.tasks.cancel(RECORD_TASK)
            return

        def on_record(view: RecordView) -> None:
            self.record = view
            self.placed.emit(record, view.offset)
            self._show()

        def on_error(failure: TaskFailure) -> None:
            self.record = None
            self.note.setText(failure.message)
            self.note.setVisible(True)
            self.fields.set_facts(())
            self.bytes.set_data(b"")

        session.tasks.run(
            RECORD_TASK, lambda _: records.view(record), on_record, on_error=on_error
        )

    def _show(self) -> None:
        view = self.record
        if view is None or not self.is_open:
            return
        text = "{0} bytes at {1}"
        self.note.setText(
            text.format(format_count(len(view.data)), format_offset(view.offset))
        )
        self.fields.set_facts(tuple(Fact(f[0], f[1]) for f in view.fields))
        self.bytes.set_data(view.data, view.offset)

    def _on_field_hovered(self, row: object) -> None:
        view = self.record
        if view is None or not isinstance(row, int) or row >= len(view.fields):
            self.bytes.mark(0, 0)
            return
        _, _, first, length = view.fields[row]
        self.bytes.mark(first, length if first >= 0 else 0)
