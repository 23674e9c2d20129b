"""The dialog that runs a program under the capture tool, after a look at both."""

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

MAX_KEPT = 12
_MIDDLE = Qt.AlignmentFlag.AlignVCenter
_SIGNS = {True: ("✓", ""), None: ("!", "caution"), False: ("✗", "error")}
_NUMBER_PX = 130
_SETTLE_MS = 250
"""What is typed is looked at after so long without another letter."""


@dataclass(frozen=True, slots=True)
class TargetsRequest:
    """Look for llama.cpp on this machine, on a worker."""

    def __call__(self, context: TaskContext) -> tuple[Target, ...]:
        """Return what is there; raises LiveError."""
        return launcher.targets(context.check_cancelled)


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Look at a program, on a worker."""

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
    """Look at the head of a model, on a worker."""

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
        """Show these; lines that there are none for stay empty."""
        for number, line in enumerate(self.lines):
            check = checks[number] if number < len(checks) else None
            text, level = "", ""
            if check is not None:
                sign, level = _SIGNS[check.works]
                text = f"{sign} {one_line(check.text[:1].upper() + check.text[1:])}"
            line.setText(text)
            set_property(line, "level", level)


class RecordDialog(Dialog):
    """Asks what is to be run, and tells beforehand whether that can be traced.

    What is found out has its room from the beginning: nothing moves when it comes.

    Parameters
    ----------
    again : what ran before and is to be run again, perhaps otherwise.

    Signals
    -------
    wanted(LaunchSpec, TraceabilityCheck or None) : Start was pressed.
    """

    start_requested = Signal(object, object)

    def __init__(
        self, settings: Settings, parent: QWidget, again: LaunchSpec | None = None
    ) -> None:
        super().__init__(parent)
        self._settings = settings
        self._check: TraceabilityCheck | None = None
        self._checked = ""
        self._checked_output = ""
        self._good_model = ""
        self._of_model = ("", "")
        self._tasks = Tasks(self)
        set_title(self, "Record a program")
        self.setAccessibleName(self.windowTitle())
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(780, 640)
        stored = settings.capture
        if again is not None:
            stored = replace(
                stored,
                programs=_newest(again.target.path, stored.programs),
                models=_newest(again.model, stored.models),
                prompt=again.prompt,
                tokens=again.tokens,
                threads=again.threads,
                more=again.more,
            )
        self.recorded = QComboBox(self)
        self.recorded.setAccessibleName("Record")
        self.recorded.addItem("Ops of ggml", False)
        self.recorded.addItem("Calls of the CUDA driver (not yet run on a GPU)", True)
        if again is not None and again.records_calls:
            self.recorded.setCurrentIndex(1)
        self.program = _line_of("Program", stored.programs, self)
        self.model = _line_of("Model", stored.models, self)
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
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settle.timeout.connect(self._look_at_both)
        self._lay_out()
        self._connect()
        self._targets: tuple[Target, ...] = ()
        self._tasks.run(
            "targets", TargetsRequest(), self._on_targets, on_error=self._on_no_targets
        )
        self._look_at_both()

    def spec(self) -> LaunchSpec:
        """Return what is to be run, as it stands."""
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
        """Leave nothing behind that works for nobody."""
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

    # -- what is found out -------------------------------------------------

    def _on_typed(self) -> None:
        self._settle.start()
        self._show()

    def _on_recorded(self) -> None:
        self._checked, self._checked_output = "", ""
        self._named_after = "?"  # the output has another suffix
        self._show()
        self._look_at_both()

    def _look_at_both(self) -> None:
        program, output = self.program.currentText().strip(), self.output.text().strip()
        if program != self._checked:
            self._checked, self._check = program, None
            self._checked_output = ""
            self.checks.show_checks(())
            self._say(self.program_text, "")
            if program:
                self._say(self.program_text, "Checking the program…")
        if program and (output or "") != self._checked_output:
            self._checked_output = output
            self._tasks.run(
                "check",
                CheckRequest(_path(program), output, self._records_calls),
                self._on_check,
                on_error=self._on_no_check,
            )
        model = _path(self.model.currentText())
        self._of_model = ("", "")
        if model:
            self._tasks.run(
                "model",
                ModelRequest(model),
                self._on_model,
                on_error=self._on_no_model,
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
            self._say(
                self.program_text,
                "No llama.cpp found. Choose a program, or download one with "
                "Help › Live demo.",
            )

    def _on_no_targets(self, failure: TaskFailure) -> None:
        self._say(self.program_text, _sentence(failure.message), "error")

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
        self._say(self.program_text, text, level)
        self._show()

    def _on_no_check(self, failure: TaskFailure) -> None:
        self._say(self.program_text, _sentence(failure.message), "error")
        self._show()

    def _on_model(self, words: str) -> None:
        self._good_model = _path(self.model.currentText())
        self._of_model = (words, "")
        self._show()

    def _on_no_model(self, failure: TaskFailure) -> None:
        text = f"{_sentence(failure.message)} Choose a GGUF file."
        self._of_model = (text, "error")
        self._show()

    def _say(self, where: QWidget, text: str, level: str = "") -> None:
        where.setText(text)  # type: ignore[attr-defined]  # a Label
        set_property(where, "level", level)

    # -- what is asked -----------------------------------------------------

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
        """Show what follows from the fields."""
        program = self.program.currentText().strip()
        spec = self.spec()
        name = spec.target.name
        if self._named_after != name and self.output.text() == self._own_output:
            self._named_after = name
            suffix = ".jsonl" if spec.records_calls else ".bin"
            self._own_output = _output_for(name, self._settings, suffix)
            self.output.setText(self._own_output)
            spec = self.spec()
        if self._check is not None:  # until then as it was
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
            text, is_whole = _sentence(str(error)), False
        self.command.setText(text if program or not is_whole else "")
        needs_model = "{model}" in spec.target.command
        lacks_model = needs_model and (not spec.model or spec.model != self._good_model)
        if not self.model.isEnabled():
            self._say(self.model_text, "This program takes no model.")
        elif needs_model and not spec.model:
            self._say(self.model_text, "Choose a GGUF model.")
        else:
            self._say(self.model_text, *self._of_model)
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
            programs=_newest(self.program.currentText().strip(), stored.programs),
            models=_newest(self.model.currentText().strip(), stored.models),
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


def _newest(text: str, values: tuple[str, ...]) -> tuple[str, ...]:
    if not text:
        return values
    return (text, *(other for other in values if other != text))[:MAX_KEPT]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}." if words else ""


def _line_of(name: str, entries: tuple[str, ...], parent: QWidget) -> QComboBox:
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


def _number(value: int, most: int, name: str, parent: QWidget) -> QSpinBox:
    box = QSpinBox(parent)
    box.setRange(1, most)
    box.setValue(value)
    box.setMinimumWidth(_NUMBER_PX)
    box.lineEdit().setTextMargins(6, 0, 0, 0)  # a style sheet cannot
    box.setAccessibleName(name)
    return box
