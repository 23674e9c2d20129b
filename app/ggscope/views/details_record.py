"""The record of the file behind a span or marker: its fields and bytes."""

from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ggscope.analysis.facts import Fact
from ggscope.errors import ReadError
from ggscope.model.trace import RecordView, Trace
from ggscope.model.units import format_count, format_offset
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext, TaskFailure
from ggscope.views.fact_list import FactList
from ggscope.views.hex_view import HexView
from ggscope.views.plain import Label
from ggscope.views.widgets import Disclosure, set_label_color, tr, words_font

RECORD_TASK = "details-record"


@dataclass(frozen=True, slots=True, eq=False)
class RecordRequest:
    """Reads one record back from the file; runs on a worker."""

    trace: Trace
    record: int

    def __call__(self, context: TaskContext | None = None) -> RecordView:
        """Return the record. Raises ReadError where the file does not have it."""
        if self.trace.records is None or self.record < 0:
            raise ReadError("This format gives no single records back.")
        return self.trace.records.view(self.record)


class RecordSection(Disclosure):
    """A section that shows one record, read back from the file when asked for."""

    placed = Signal(int, object)  # record, its byte offset in the file

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Record"), parent)
        self.record: RecordView | None = None
        self.opened.connect(self._show)
        body = QWidget(self)
        self.note = Label(parent=body)
        self.note.setWordWrap(True)
        self.note.setFont(words_font(12))
        self.fields = FactList(body)
        self.fields.setAccessibleName(self.tr("Fields of the record"))
        self.fields.hovered.connect(self._on_field_hovered)
        self.bytes = HexView(body)
        layout = QVBoxLayout(body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        for widget in (self.note, self.fields, self.bytes):
            layout.addWidget(widget)
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
        has_records = trace.records is not None and record >= 0
        self.setVisible(has_records)
        if not has_records:
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
            RECORD_TASK, RecordRequest(trace, record), on_record, on_error=on_error
        )

    def _show(self) -> None:
        view = self.record
        if view is None or not self.is_open:
            return
        words = self.tr("{0} bytes at {1}")
        self.note.setText(
            words.format(format_count(len(view.data)), format_offset(view.offset))
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


__all__ = ["RECORD_TASK", "RecordRequest", "RecordSection"]
