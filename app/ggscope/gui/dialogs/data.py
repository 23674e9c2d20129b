"""Asks which spans leave the program, and in which form."""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope import assets
from ggscope.analysis.filters.text import format_filter
from ggscope.atomic_write import write_file
from ggscope.errors import ExportError
from ggscope.exporters import forms
from ggscope.exporters.events import Events
from ggscope.exporters.forms import FORMS
from ggscope.gui.dialogs.fitted import Dialog
from ggscope.gui.widgets import button, label, set_property
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_count
from ggscope.sanitize import one_line
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.cells import CopyForm, TableFile
from ggscope.views.base.output_file import OutputFile
from ggscope.views.base.safe_text import set_tip, set_title

_WIDTH = 520
_POLL_S = 0.1


def saved_text(path: Path, what: str = "") -> str:
    """Return "Saved x.csv: 153 rows."; `what` : "" = nothing but the name."""
    name = one_line(path.name)
    return f"Saved {name}: {what}." if what else f"Saved {name}."


@dataclass(frozen=True, slots=True, eq=False)
class DataRequest:
    """Write spans of a trace, on a worker.

    Attributes
    ----------
    keep, time : which spans; None = all.
    """

    trace: Trace
    form: str
    path: Path
    keep: npt.NDArray[np.bool_] | None
    time: TimeRange | None

    def __call__(self, context: TaskContext) -> str:
        """Return what was written, in sentences; raises ExportError."""
        context.check_cancelled()
        events = Events(self.trace, self.keep, self.time)

        def with_progress() -> Iterator[bytes]:
            n_bytes = 0
            pieces = forms.chunks(events, self.form)
            for chunk in forms.packed(pieces, self.form, self.path):
                yield chunk
                n_bytes += len(chunk)
                context.progress(n_bytes, 0)
                context.check_cancelled()

        write_file(self.path, with_progress())
        n, n_all = forms.n_spans(events, self.form), len(self.trace.spans)
        of = f" of {format_count(n_all)}" if n < n_all else ""
        sentence = saved_text(self.path, f"{format_count(n)}{of} spans")
        return " ".join((sentence, *forms.losses(events, self.form)))


TABLE_FORMS: Mapping[str, tuple[str, CopyForm]] = {
    ".csv": ("CSV table", "csv"),
    ".tsv": ("TSV table", "tsv"),
    ".md": ("Markdown table", "markdown"),
    ".json": ("JSON table", "json"),
}
"""What rows of a pane are saved as, and what people call it, by suffix."""


@dataclass(frozen=True, slots=True, eq=False)
class TableRequest:
    """Write rows of a table in the form that the suffix names, on a worker."""

    table: TableFile
    path: Path

    def __call__(self, context: TaskContext) -> str:
        """Return what was written, in a sentence; raises ExportError."""
        table = self.table
        _, form = TABLE_FORMS[self.path.suffix.lower()]
        write_file(self.path, table.text(form, context).encode())
        if table.n < table.n_all:
            rows = f"{format_count(table.n)} of {format_count(table.n_all)} rows"
            return f"{saved_text(self.path, rows)} {table.rest}"
        rows = "1 row" if table.n == 1 else "{0} rows"
        return saved_text(self.path, rows.format(format_count(table.n)))


@dataclass(frozen=True, slots=True, eq=False)
class FileRequest:
    """Write a file for another program, on a worker."""

    file: OutputFile
    path: Path

    def __call__(self, context: TaskContext) -> str:
        """Return what was written, in a sentence; raises ExportError."""

        def with_checks() -> Iterator[bytes]:
            for line in self.file.lines():
                context.check_cancelled()
                yield line

        write_file(self.path, with_checks())
        return saved_text(self.path, self.file.what)


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """Write the report of files by ``ggscope report``, in a process of its own.

    It reads the files again: what the page says is what the command says.

    Attributes
    ----------
    paths : the first one with the others beside it.
    reader_id, options : how the first one was read.
    """

    paths: tuple[Path, ...]
    target: Path
    reader_id: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, context: TaskContext) -> str:
        """Return what was written; raises ExportError, and ends it when cancelled."""
        first, *beside = map(str, self.paths)
        command = [*assets.program(), "report", "--force", "-o", str(self.target)]
        if self.reader_id is not None:
            command += ["--format", self.reader_id]
        for key, value in self.options.items():
            command += ["--option", f"{key}={value}"]
        for other in beside:
            command += ["--with", other]
        child = subprocess.Popen(
            [*command, "--", first],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        try:
            while True:
                try:
                    _, errors = child.communicate(timeout=_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    context.check_cancelled()
        finally:
            if child.poll() is None:
                child.terminate()
                child.communicate()
        if child.returncode:
            last = errors.strip().rpartition("\n")[2].removeprefix("ggscope: ")
            raise ExportError(
                last or f"ggscope report failed with exit code {child.returncode}."
            )
        return saved_text(self.target)


class DataDialog(Dialog):
    """Asks for the form and the part; says how many spans that are.

    Signals
    -------
    save_requested(str, bool, bool) : form, this range only, filter only.
    """

    save_requested = Signal(str, bool, bool)

    def __init__(self, session: Session, parent: QWidget) -> None:
        super().__init__(parent)
        self._session = session
        set_title(self, "Export data")
        self.setAccessibleName(self.windowTitle())
        self.setMinimumWidth(_WIDTH)
        self.form = QComboBox(self)
        for name, form in FORMS.items():
            self.form.addItem(f"{form.title} ({form.suffix})", name)
        self.form.setAccessibleName("Format")
        self.part = QComboBox(self)
        self.part.addItem("marked or visible range", True)
        self.part.addItem("all", False)
        self.part.setAccessibleName("Range")
        set_tip(
            self.part,
            "The marked range, otherwise the visible one; spans are not cut",
        )
        self.filtered = QCheckBox("only spans that &match the filter", self)
        self.message = label("", self, "dim", wraps=True)
        self.problem = label("", self, "dim", wraps=True)
        self.save = button("Save…", self._on_save, self, primary=True)
        self.save.setDefault(True)
        self.close_button = button("Close", self.close, self)
        fields = QFormLayout()
        fields.addRow("&Format", self.form)
        fields.addRow("&Range", self.part)
        fields.addRow(self.filtered)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.save)
        buttons.addWidget(self.close_button)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(12)
        box.addLayout(fields)
        box.addWidget(self.message)
        box.addWidget(self.problem)
        box.addLayout(buttons)
        self.part.currentIndexChanged.connect(self.refresh)
        self.filtered.toggled.connect(self.refresh)
        for signal in (
            session.trace_changed,
            session.viewport.changed,
            session.ranges.marked_changed,
            session.queries.mask_changed,
        ):
            signal.connect(self.refresh)
        self.filtered.setChecked(session.queries.mask is not None)
        self.refresh()

    def time(self) -> TimeRange | None:
        """Return the range to export; None = all."""
        if not self.part.currentData():
            return None
        marked = self._session.ranges.marked
        return self._session.viewport.visible if marked is None else marked.time

    def keep(self) -> npt.NDArray[np.bool_] | None:
        """Return which spans the filter leaves; None = all."""
        return self._session.queries.mask if self.filtered.isChecked() else None

    def refresh(self, _: object = None) -> None:
        """Say how many spans would be written."""
        session, trace = self._session, self._session.trace
        if trace is None:
            self.close()
            return
        has_filter = session.queries.mask is not None
        self.filtered.setEnabled(has_filter)
        set_tip(
            self.filtered, format_filter(session.queries.filter) if has_filter else ""
        )
        time, keep, s = self.time(), self.keep(), trace.spans
        n = len(s)
        if time is not None:
            inside = (s.end >= time.start) & (s.start < time.end)
            n = int(np.count_nonzero(inside if keep is None else inside & keep))
        elif keep is not None:
            n = int(np.count_nonzero(keep))
        self.message.setText(f"{format_count(n)} of {format_count(len(s))} spans")
        self.say("")

    def say(self, text: str, level: str = "") -> None:
        """Report what became of the file."""
        self.problem.setText(text)
        self.problem.setVisible(bool(text))
        set_property(self.problem, "level", level)

    def _on_save(self) -> None:
        form: str = self.form.currentData()
        self.save_requested.emit(
            form, bool(self.part.currentData()), self.filtered.isChecked()
        )
