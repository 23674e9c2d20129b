"""The dialog that lists running programs and follows one of them."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ggscope.gui.dialogs.fitted import Dialog
from ggscope.gui.widgets import CHANGES_NOTHING, button, label, set_property
from ggscope.live.options import OPTIONS
from ggscope.live.running import ProgramList, RunningProgram, Tracing
from ggscope.sanitize import one_line
from ggscope.session.tasks import TaskContext, TaskFailure, Tasks
from ggscope.views.base.safe_text import ElidedLabel, copy_text, set_tip, set_title
from ggscope.views.base.view import guarded

REFRESH_MS = 1500
_PROGRAM, _PROCESS, _STARTED, _TRACING, _COMMAND = range(5)
_LEVELS = {Tracing.TRACED: "good", Tracing.STREAM: "good", Tracing.PREPARED: "good"}


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Look for running programs, on a worker."""

    programs: ProgramList

    def __call__(self, context: TaskContext) -> tuple[RunningProgram, ...]:
        """Return what runs."""
        return self.programs.look(context.check_cancelled)


@guarded
class ProgramTable(QTableWidget):
    """Running programs, a row each; Enter or a double click takes one."""

    chosen = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(0, 5, parent)
        titles = ("Program", "Process", "Started", "Tracing", "Command")
        self.setHorizontalHeaderLabels(list(titles))
        self.setAccessibleName("Running programs")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setObjectName("plain")
        self.setShowGrid(False)
        self.verticalHeader().hide()
        head = self.horizontalHeader()
        head.setStretchLastSection(True)
        head.setDefaultAlignment(
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        )
        for column in (_PROGRAM, _PROCESS, _STARTED, _TRACING):
            head.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self.cellDoubleClicked.connect(self._on_double_click)
        self.programs: tuple[RunningProgram, ...] = ()

    @property
    def current(self) -> RunningProgram | None:
        """The program whose row is selected."""
        row = self.currentRow()
        return self.programs[row] if 0 <= row < len(self.programs) else None

    def show_programs(self, programs: Sequence[RunningProgram]) -> None:
        """List these; the selection stays with its process."""
        before = self.current
        self.programs = tuple(programs)
        self.blockSignals(True)
        self.setRowCount(len(programs))
        for row, program in enumerate(programs):
            self._fill(row, program)
        keys = [(p.pid, p.target) for p in programs]
        key = None if before is None else (before.pid, before.target)
        pids = [p.pid for p in programs]
        row = 0 if programs else -1
        if key in keys:
            row = keys.index(key)
        elif before is not None and before.pid in pids:
            row = pids.index(before.pid)
        self.setCurrentCell(row, _PROGRAM)
        self.blockSignals(False)
        self.itemSelectionChanged.emit()

    def _fill(self, row: int, program: RunningProgram) -> None:
        command = program.command_line
        name = Path(program.command[0]).name if program.command else ""
        short = shlex.join([name, *program.command[1:]]) if name else ""
        texts = {
            _PROGRAM: (program.name, ""),
            _PROCESS: (str(program.pid), ""),
            _STARTED: (started(program.began), _when(program.began)),
            _TRACING: (program.tracing.value, program.why),
            _COMMAND: (short, command),
        }
        for column, (text, tip) in texts.items():
            item = self.item(row, column)
            if item is None:
                item = QTableWidgetItem()
                self.setItem(row, column, item)
            if item.text() != one_line(text):
                item.setText(one_line(text))
                set_tip(item, tip)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Take the selected program by Enter."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.chosen.emit()
        else:
            super().keyPressEvent(event)

    def _on_double_click(self, _row: int, _column: int) -> None:
        self.chosen.emit()


@guarded
class FollowDialog(Dialog):
    """Lists running programs and shows of each whether it can be followed.

    The list refreshes itself.

    Signals
    -------
    follow_requested(target) : a program is to be followed; see
        `live.open_source.path_to_follow`. "" = whatever is traced next.
    record_requested : a program is to be started under the tracer.
    """

    follow_requested = Signal(str)
    record_requested = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._tasks = Tasks(self)
        self._programs = ProgramList()
        set_title(self, "Follow a running program")
        self.setAccessibleName(self.windowTitle())
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(860, 460)
        self.table = ProgramTable(self)
        self.message = label("Looking for running programs…", self, wraps=True)
        # Three lines, so that nothing moves when another row is selected.
        self.message.setMinimumHeight(3 * self.message.fontMetrics().lineSpacing())
        self.message.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.command = ElidedLabel(self, mode=Qt.TextElideMode.ElideMiddle)
        self.command.setProperty("mono", True)
        self.follow = button("Follow", self._on_follow, self, primary=True)
        self.follow.setDefault(True)
        self.copy = button("Copy command", self._on_copy, self)
        self.record = button("Record a program…", self._on_record, self)
        self.file = button("Follow a file…", self._on_file, self)
        self.next = button(
            "Wait for next program",
            self._on_next,
            self,
            tip="Follow the next program that is traced",
        )
        self.cancel = button("Cancel", self.close, self)
        for part in (self.command, self.copy):  # nothing moves when it comes
            policy = part.sizePolicy()
            policy.setRetainSizeWhenHidden(True)
            part.setSizePolicy(policy)
        self._lay_out()
        self.table.itemSelectionChanged.connect(self._show)
        self.table.chosen.connect(self._on_follow)
        self._timer = QTimer(self, interval=REFRESH_MS)
        self._timer.timeout.connect(self._look)
        self._timer.start()
        self._has_looked = False
        self._show()
        self._look()
        self.table.setFocus()

    def done(self, result: int) -> None:
        """Leave nothing behind that works for nobody."""
        self._timer.stop()
        self._tasks.close()
        super().done(result)

    def _lay_out(self) -> None:
        text = (
            "Your programs that use ggml. Those started with ggscope-capture can be "
            "followed."
        )
        more = QHBoxLayout()
        more.setSpacing(8)
        more.addWidget(self.command, 1)
        more.addWidget(self.copy)
        row = QHBoxLayout()
        row.setSpacing(8)
        for part in (self.record, self.file, self.next):
            row.addWidget(part)
        row.addStretch(1)
        row.addWidget(self.cancel)
        row.addWidget(self.follow)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(10)
        box.addWidget(label(text, self, "dim", wraps=True))
        box.addWidget(self.table, 1)
        box.addWidget(self.message)
        box.addLayout(more)
        box.addLayout(row)

    # -- what runs ---------------------------------------------------------

    def _look(self) -> None:
        if not self._tasks.is_idle:  # the look before takes long on this machine
            return
        self._tasks.run(
            "programs", ListRequest(self._programs), self._on_list, on_error=self._fail
        )

    def _on_list(self, programs: tuple[RunningProgram, ...]) -> None:
        self._has_looked = True
        self.table.show_programs(programs)

    def _fail(self, failure: TaskFailure) -> None:
        self.message.setText(one_line(failure.message))
        set_property(self.message, "level", "error")

    # -- what is selected --------------------------------------------------

    def _show(self) -> None:
        """Say what can be done with the selected program."""
        program = self.table.current
        text, command = self._advice(program)
        self.message.setText(text)
        level = "" if program is None else _LEVELS.get(program.tracing, "caution")
        set_property(self.message, "level", level)
        self.command.setText(command)
        self.command.setVisible(bool(command))
        self.copy.setVisible(bool(command))
        self.follow.setEnabled(program is not None and bool(program.target))

    def _advice(self, program: RunningProgram | None) -> tuple[str, str]:
        """Return what to do with a program, and the command that does it."""
        if program is None:
            if not self._has_looked:
                return "Looking for running programs…", ""
            return (
                "No running program uses ggml. Start one with Record a program…, or "
                "wait for the next one that is traced."
            ), ""
        why = f"{program.why[:1].upper()}{program.why[1:]}." if program.why else ""
        match program.tracing:
            case Tracing.TRACED:
                return "Traced; can be followed.", ""
            case Tracing.PREPARED:
                more = "Can be followed; ops appear as soon as the model runs."
                return f"{why} {more}", ""
            case Tracing.STREAM:
                text = "Writes {0}, which can be followed."
                return text.format(one_line(program.target)), ""
            case Tracing.ENDED:
                return why, ""
        text = why or "Started without the tracer."
        text += " " + "Attaching to a running program is not possible. Restart it with:"
        return text, program.restart_command

    def _on_follow(self) -> None:
        program = self.table.current
        if program is not None and program.target:
            self._take(program.target)

    def _take(self, target: str) -> None:
        self.follow_requested.emit(target)
        self.close()

    def _on_next(self) -> None:
        self._take("")

    def _on_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(
            self,
            "Follow a growing file",
            OPTIONS.output,
            "Traces, rings and logs (*.ggmlviz *.bin *.log *.txt *.jsonl ggscope-*);;"
            "All files (*)",
            "",
            CHANGES_NOTHING,
        )
        if path:
            self._take(path)

    def _on_record(self) -> None:
        self.record_requested.emit()
        self.close()

    def _on_copy(self) -> None:
        copy_text(self.command.full_text)


def started(began: float | None) -> str:
    """Return how long ago a program began: "12 s ago", "3 min ago", "2 days ago"."""
    if began is None:
        return ""
    seconds = max(int(time.time() - began), 0)
    for size, unit in ((86_400, "day"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            n = seconds // size
            return f"{n} {unit}{'s' if unit == 'day' and n > 1 else ''} ago"
    return f"{seconds} s ago"


def _when(began: float | None) -> str:
    if began is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began))
