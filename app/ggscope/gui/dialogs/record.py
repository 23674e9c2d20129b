"""The dialog that checks a program and a model, and records a run."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QStandardPaths, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QFileDialog,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ggscope.errors import TraceError
from ggscope.gui.dialogs.fitted import Dialog
from ggscope.gui.widgets import CHANGES_NOTHING, button, label, set_property
from ggscope.live import launcher
from ggscope.live.launcher import LaunchSpec, MachineCheck, Target, TraceabilityCheck
from ggscope.sanitize import file_name, one_line
from ggscope.session.settings import MAX_THREADS, MAX_TOKENS, Settings
from ggscope.session.tasks import TaskContext, TaskFailure, Tasks
from ggscope.views.base.safe_text import ElidedLabel, Label, copy_text, set_title

MAX_HISTORY = 12
_MIDDLE = Qt.AlignmentFlag.AlignVCenter
_SIGNS = {True: ("✓", ""), None: ("!", "caution"), False: ("✗", "error")}
_NUMBER_PX = 130
_TYPING_PAUSE_MS = 250
"""Typed text is checked after so long without another key."""


@dataclass(frozen=True, slots=True)
class TargetsRequest:
    """Look for llama.cpp on this machine, on a worker."""

    def __call__(self, context: TaskContext) -> tuple[Target, ...]:
        """Return what is there; raises LiveError."""
        return launcher.targets(context.check_cancelled)


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Check a program, on a worker."""

    program: str
    output: str
    records_calls: bool

    def __call__(self, context: TaskContext) -> TraceabilityCheck:
        """Return whether it can be traced; raises LiveError."""
        return launcher.check(
            self.program,
            self.output,
            context.check_cancelled,
            records_calls=self.records_calls,
        )


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Read the header of a model, on a worker."""

    path: str

    def __call__(self, context: TaskContext) -> str:
        """Return what it is; raises ReadError."""
        context.check_cancelled()
        return launcher.model_text(self.path)


class CheckLines(QWidget):
    """Tracer, rings, environment and output, a line each, as far as they are known."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Checks")
        self.lines = [
            ElidedLabel(self, mode=Qt.TextElideMode.ElideRight) for _ in range(4)
        ]
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(2)
        for line in self.lines:
            line.setProperty("role", "dim")
            box.addWidget(line)

    def show_checks(self, checks: Sequence[MachineCheck]) -> None:
        """Show checks; the remaining lines are empty."""
        for number, line in enumerate(self.lines):
            check = checks[number] if number < len(checks) else None
            text, level = "", ""
            if check is not None:
                sign, level = _SIGNS[check.works]
                text = f"{sign} {one_line(check.text[:1].upper() + check.text[1:])}"
            line.setText(text)
            set_property(line, "level", level)


class RecordDialog(Dialog):
    """Asks what to run, and shows whether it can be traced.

    Space for results is reserved: nothing moves when they arrive.

    Parameters
    ----------
    previous : a run to repeat, perhaps with changes.

    Signals
    -------
    start_requested(LaunchSpec, TraceabilityCheck or None) : Start was pressed.
    """

    start_requested = Signal(object, object)

    def __init__(
        self, settings: Settings, parent: QWidget, previous: LaunchSpec | None = None
    ) -> None:
        super().__init__(parent)
        self._settings = settings
        self._check: TraceabilityCheck | None = None
        self._checked = ""
        self._checked_output = ""
        self._good_model = ""
        self._model_message = ("", "")
        self._tasks = Tasks(self)
        set_title(self, "Record a program")
        self.setAccessibleName(self.windowTitle())
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(780, 640)
        stored = settings.capture
        if previous is not None:
            stored = replace(
                stored,
                programs=_with_newest(previous.target.path, stored.programs),
                models=_with_newest(previous.model, stored.models),
                prompt=previous.prompt,
                tokens=previous.tokens,
                threads=previous.threads,
                more=previous.more,
            )
        self.recorded = QComboBox(self)
        self.recorded.setAccessibleName("Record")
        self.recorded.addItem("Ops of ggml", False)
        self.recorded.addItem("Calls of the CUDA driver (not yet run on a GPU)", True)
        if previous is not None and previous.records_calls:
            self.recorded.setCurrentIndex(1)
        self.program = _editable_combo("Program", stored.programs, self)
        self.model = _editable_combo("Model", stored.models, self)
        self.program_text = _multiline_label(3, self)
        self.model_text = _multiline_label(1, self)
        self.prompt = _field(stored.prompt, "Prompt", self)
        self.tokens = _number(stored.tokens, MAX_TOKENS, "Tokens", self)
        self.threads = _number(stored.threads, MAX_THREADS, "Threads", self)
        self.more = _field(stored.more, "Extra arguments", self)
        self.more.setPlaceholderText("as in a shell, e.g. --temp 0")
        self.output = _field("", "Save trace to", self)
        self.checks = CheckLines(self)
        self._own_output, self._named_after = "", "?"
        self.command = ElidedLabel(self, mode=Qt.TextElideMode.ElideMiddle)
        self.command.setProperty("mono", True)
        self.start = button("Start", self._on_start, self, primary=True)
        self.start.setDefault(True)
        self.copy = button("Copy command", self._on_copy, self)
        self.cancel = button("Cancel", self.close, self)
        self._typing_timer = QTimer(self, singleShot=True, interval=_TYPING_PAUSE_MS)
        self._typing_timer.timeout.connect(self._check_inputs)
        self._lay_out()
        self._connect()
        self._targets: tuple[Target, ...] = ()
        self._tasks.run(
            "targets",
            TargetsRequest(),
            self._on_targets,
            on_error=self._on_targets_failed,
        )
        self._check_inputs()

    def spec(self) -> LaunchSpec:
        """Return what the fields ask to run."""
        typed = self.program.currentText().strip()
        target = Target(typed)
        if self._check is not None and self._checked == typed:
            target = self._check.target
        return LaunchSpec(
            target=target,
            output=self.output.text().strip(),
            model=_path(self.model.currentText()),
            prompt=self.prompt.text(),
            tokens=self.tokens.value(),
            threads=self.threads.value(),
            more=self.more.text(),
            records_calls=self._records_calls,
        )

    @property
    def _records_calls(self) -> bool:
        return bool(self.recorded.currentData())

    def done(self, result: int) -> None:
        """Cancel running checks and close."""
        self._tasks.close()
        super().done(result)

    # -- building ----------------------------------------------------------

    def _lay_out(self) -> None:
        form = QFormLayout()
        form.setHorizontalSpacing(16)
        form.setVerticalSpacing(8)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        ask = self._ask_program, self._ask_model, self._ask_output
        lines: tuple[tuple[str, QWidget, Callable[[], object] | None], ...] = (
            ("Record", self.recorded, None),
            ("Program", self.program, ask[0]),
            ("Model", self.model, ask[1]),
            ("", self.model_text, None),
            ("Prompt", self.prompt, None),
            ("Tokens", self.tokens, None),
            ("Threads", self.threads, None),
            ("Extra arguments", self.more, None),
            ("Save trace to", self.output, ask[2]),
            ("Command", self.command, None),
            # At the end: however long it is, no field moves.
            ("Tracing", self.program_text, None),
            ("Checks", self.checks, None),
        )
        for text, widget, browse in lines:
            row = QHBoxLayout()
            row.setSpacing(8)
            row.addWidget(widget, 0 if isinstance(widget, QSpinBox) else 1)
            if isinstance(widget, QSpinBox):
                row.addStretch(1)
            if browse is not None:
                row.addWidget(button("Browse…", browse, self))
            name = label(text, self)
            is_text = widget in (self.checks, self.program_text)
            name.setAlignment(Qt.AlignmentFlag.AlignTop if is_text else _MIDDLE)
            form.addRow(name, row)
        inner = QWidget(self)
        inner.setLayout(form)
        scroll = QScrollArea(self)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(inner)
        row = QHBoxLayout()
        row.addWidget(self.copy)
        row.addStretch(1)
        row.addWidget(self.cancel)
        row.addWidget(self.start)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(12)
        text = (
            "Runs the unmodified program with the tracer attached, shows the trace "
            "live and saves it."
        )
        box.addWidget(label(text, self, "dim", wraps=True))
        box.addWidget(scroll, 1)
        box.addLayout(row)

    def _connect(self) -> None:
        for combo in (self.program, self.model):
            combo.editTextChanged.connect(self._on_typed)
        self.recorded.currentIndexChanged.connect(self._on_recorded)
        self.output.textChanged.connect(self._on_typed)
        for field in (self.prompt, self.more):
            field.textChanged.connect(self._show)
        for number in (self.tokens, self.threads):
            number.valueChanged.connect(self._show)

    # -- checks -----------------------------------------------------------

    def _on_typed(self) -> None:
        self._typing_timer.start()
        self._show()

    def _on_recorded(self) -> None:
        self._checked, self._checked_output = "", ""
        self._named_after = "?"  # the output has another suffix
        self._show()
        self._check_inputs()

    def _check_inputs(self) -> None:
        program, output = self.program.currentText().strip(), self.output.text().strip()
        if program != self._checked:
            self._checked, self._check = program, None
            self._checked_output = ""
            self.checks.show_checks(())
            self._show_text(self.program_text, "")
            if program:
                self._show_text(self.program_text, "Checking the program…")
        if program and (output or "") != self._checked_output:
            self._checked_output = output
            self._tasks.run(
                "check",
                CheckRequest(_path(program), output, self._records_calls),
                self._on_check,
                on_error=self._on_check_failed,
            )
        model = _path(self.model.currentText())
        self._model_message = ("", "")
        if model:
            self._tasks.run(
                "model",
                ModelRequest(model),
                self._on_model,
                on_error=self._on_model_failed,
            )
        self._show()

    def _on_targets(self, targets: tuple[Target, ...]) -> None:
        typed = self.program.currentText()
        known = {self.program.itemText(i) for i in range(self.program.count())}
        self.program.addItems([t.path for t in targets if t.path not in known])
        self.program.setEditText(typed)
        if not typed and targets:
            self.program.setEditText(targets[0].path)
        elif not typed:
            self._show_text(
                self.program_text,
                "No llama.cpp found. Choose a program, or download one with "
                "Help › Live demo.",
            )

    def _on_targets_failed(self, failure: TaskFailure) -> None:
        self._show_text(self.program_text, _as_sentence(failure.message), "error")

    def _on_check(self, check: TraceabilityCheck) -> None:
        self._check = check
        why = "; ".join(check.why)
        self.checks.show_checks(check.machine)
        if check.works:
            text, level = f"Can be traced: {why}.", "good"
        elif check.works is None:
            text = f"May be traceable: {why}. {check.advice}"
            level = "caution"
        else:
            text = f"Cannot be traced: {why}. {check.advice}"
            level = "error"
        if not check.target.command:
            text += " " + "Not a known llama.cpp tool: enter all its arguments."
        self._show_text(self.program_text, text, level)
        self._show()

    def _on_check_failed(self, failure: TaskFailure) -> None:
        self._show_text(self.program_text, _as_sentence(failure.message), "error")
        self._show()

    def _on_model(self, text: str) -> None:
        self._good_model = _path(self.model.currentText())
        self._model_message = (text, "")
        self._show()

    def _on_model_failed(self, failure: TaskFailure) -> None:
        text = f"{_as_sentence(failure.message)} Choose a GGUF file."
        self._model_message = (text, "error")
        self._show()

    def _show_text(self, widget: QWidget, text: str, level: str = "") -> None:
        widget.setText(text)  # type: ignore[attr-defined]  # a Label
        set_property(widget, "level", level)

    # -- file dialogs ------------------------------------------------------

    def _ask_program(self) -> None:
        self._ask(self.program, "Choose a program", "")

    def _ask_model(self) -> None:
        self._ask(self.model, "Choose a model", "Models (*.gguf)")

    def _ask(self, combo: QComboBox, title: str, filters: str) -> None:
        folder = os.path.dirname(_path(combo.currentText()))
        every = "All files (*)"
        both = f"{filters};;{every}" if filters else every
        path, _ = QFileDialog.getOpenFileName(
            self, title, folder, both, "", CHANGES_NOTHING
        )
        if path:
            combo.setEditText(path)

    def _ask_output(self) -> None:
        path, _ = QFileDialog.getSaveFileName(
            self,
            "Save trace to",
            self.output.text(),
            "Calls (*.jsonl)" if self._records_calls else "Records (*.bin)",
            "",
            CHANGES_NOTHING,
        )
        if path:
            self.output.setText(path)

    def _show(self) -> None:
        """Update command, messages and buttons from the fields."""
        program = self.program.currentText().strip()
        spec = self.spec()
        name = spec.target.name
        if self._named_after != name and self.output.text() == self._own_output:
            self._named_after = name
            suffix = ".jsonl" if spec.records_calls else ".bin"
            self._own_output = _output_for(name, self._settings, suffix)
            self.output.setText(self._own_output)
            spec = self.spec()
        if self._check is not None:  # not while it is being checked
            for name, field in (
                ("{model}", self.model),
                ("{prompt}", self.prompt),
                ("{tokens}", self.tokens),
                ("{threads}", self.threads),
            ):
                field.setEnabled(name in spec.target.command)
        try:
            text, is_whole = spec.shown(), True
        except TraceError as error:
            text, is_whole = _as_sentence(str(error)), False
        self.command.setText(text if program or not is_whole else "")
        needs_model = "{model}" in spec.target.command
        lacks_model = needs_model and (not spec.model or spec.model != self._good_model)
        if not self.model.isEnabled():
            self._show_text(self.model_text, "This program takes no model.")
        elif needs_model and not spec.model:
            self._show_text(self.model_text, "Choose a GGUF model.")
        else:
            self._show_text(self.model_text, *self._model_message)
        self.start.setEnabled(
            is_whole
            and self._check is not None
            and self._check.works is not False
            and all(check.works is not False for check in self._check.machine)
            and bool(spec.output)
            and not lacks_model
        )
        self.copy.setEnabled(is_whole and bool(program))

    def _on_copy(self) -> None:
        copy_text(self.spec().shown())

    def _on_start(self) -> None:
        if not self.start.isEnabled():
            return
        spec, stored = self.spec(), self._settings.capture
        self._settings.change(
            "capture",
            programs=_with_newest(self.program.currentText().strip(), stored.programs),
            models=_with_newest(self.model.currentText().strip(), stored.models),
            prompt=spec.prompt,
            tokens=spec.tokens,
            threads=spec.threads,
            more=spec.more,
            folder=os.path.dirname(spec.output),
        )
        self.start_requested.emit(spec, self._check)
        self.close()


def recordings_folder(settings: Settings) -> Path:
    """Return where recordings go unless the user names another place."""
    if settings.capture.folder:
        return Path(settings.capture.folder)
    place = QStandardPaths.StandardLocation.DocumentsLocation
    documents = Path(QStandardPaths.writableLocation(place))
    return (documents if os.path.isdir(documents) else Path.home()) / "ggscope"


def _output_for(name: str, settings: Settings, suffix: str) -> str:
    """Return where a program's recording goes, named after it and the time."""
    stem = name.removesuffix(".exe") or "recording"
    when = time.strftime("%Y%m%d-%H%M%S")
    return str(recordings_folder(settings) / file_name(f"{stem}-{when}", suffix))


def _path(text: str) -> str:
    """Return a typed path with the home folder in the place of ~."""
    return os.path.expanduser(text.strip())


def _with_newest(text: str, values: tuple[str, ...]) -> tuple[str, ...]:
    if not text:
        return values
    return (text, *(other for other in values if other != text))[:MAX_HISTORY]


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def _editable_combo(name: str, entries: tuple[str, ...], parent: QWidget) -> QComboBox:
    combo = QComboBox(parent)
    combo.setEditable(True)
    combo.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
    combo.setAccessibleName(name)
    combo.setMinimumContentsLength(20)
    combo.setSizeAdjustPolicy(
        QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
    )
    combo.addItems([one_line(entry) for entry in entries])
    combo.setCurrentIndex(0 if entries else -1)
    return combo


def _multiline_label(n_lines: int, parent: QWidget) -> Label:
    """Return a text that has room for so many lines."""
    made = label("", parent, "dim", wraps=True)
    made.setMinimumHeight(n_lines * made.fontMetrics().lineSpacing())
    made.setAlignment(Qt.AlignmentFlag.AlignTop)
    return made


def _field(text: str, name: str, parent: QWidget) -> QLineEdit:
    field = QLineEdit(text, parent)
    field.setAccessibleName(name)
    return field


def _number(value: int, maximum: int, name: str, parent: QWidget) -> QSpinBox:
    box = QSpinBox(parent)
    box.setRange(1, maximum)
    box.setValue(value)
    box.setMinimumWidth(_NUMBER_PX)
    box.lineEdit().setTextMargins(6, 0, 0, 0)  # a style sheet cannot
    box.setAccessibleName(name)
    return box
