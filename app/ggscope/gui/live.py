"""The strip of a followed program: its metrics; and the page that waits for it."""

import time
from dataclasses import dataclass

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from ggscope.gui.widgets import button, label, set_property
from ggscope.live.diagnosis import Step, diagnose
from ggscope.live.metrics import Shown, shown_in
from ggscope.live.open_source import is_process
from ggscope.model.record_kinds import record_unit
from ggscope.model.units import format_count
from ggscope.sanitize import one_line
from ggscope.session.live import FollowState, LiveMetrics, LiveSession
from ggscope.session.run import Run
from ggscope.session.tasks import TaskContext, Tasks
from ggscope.views.base.safe_text import ElidedLabel, copy_text, set_tip
from ggscope.views.base.view import guarded

SILENCE_S = 5.0
"""After so long without a record the page says what stands in the way."""
_REFRESH_MS = 1500
_METRICS_TIP = (
    "Tokens, prompt and generated (of a file: generated), and ops of the last second, "
    "graphs too where they are recorded as wholes (of a file: its records); how full "
    "the fullest lane of the ring was, or how much of a file made beforehand is used; "
    "the greatest delay from writing to reading (≥ where stamps are of no clock of "
    "this machine); records that were lost. N/A = not known."
)
_JSON_LINES = ".jsonl"
_RUN = "ggscope-capture run -- llama-completion -m model.gguf -p Hello"
_PAGE_WIDTH = 720
_SIGNS = {True: ("✓", "good"), None: ("–", ""), False: ("✗", "error")}
_TOP = Qt.AlignmentFlag.AlignTop


class LiveStrip(QFrame):
    """State and metrics of the program, and the buttons that control following.

    Parameters
    ----------
    run : the program, where the window has started it.
    """

    save_requested = Signal()

    def __init__(
        self,
        follower: LiveSession,
        run: Run | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("live")
        self.setAccessibleName("Live view")
        self._follower, self._run = follower, run
        self.state = label("", self)
        self.state.setProperty("role", "liveState")
        self.figures = ElidedLabel(self, mode=Qt.TextElideMode.ElideRight)
        self.figures.setProperty("mono", True)
        self.follow = button(
            "Follow",
            lambda: follower.set_follows(not follower.follows),
            self,
            tip="Follow the program with the view, or stop following (L)",
        )
        self.pause = button(
            "Pause",
            lambda: follower.set_paused(not follower.is_paused),
            self,
            tip="Freeze the picture; reading goes on (Shift+L)",
        )
        self.now = button(
            "Jump to live",
            follower.jump,
            self,
            tip="Go to now and follow (End)",
        )
        self.detach = button(
            "Detach",
            follower.finish,
            self,
            tip="Stop reading and keep what is here; the program keeps running",
        )
        self.again = button(
            "Follow again",
            follower.follow_again,
            self,
            tip="Resume reading; keeps what was read of the same run",
        )
        self.save = button(
            "Save recording…",
            self.save_requested.emit,
            self,
            tip="Save what was recorded so far; the program keeps running (Ctrl+S)",
        )
        self.stop = button(
            "Stop program",
            self._on_stop,
            self,
            tip="End the program (SIGTERM, then SIGKILL after 5 s)",
        )
        # As wide as the wider of the two: no button moves under the mouse.
        self._reading = QStackedWidget(self)
        self._reading.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        for part in (self.detach, self.again):
            self._reading.addWidget(part)
        for switch in (self.follow, self.pause):
            switch.setCheckable(True)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 2, 12, 2)
        row.setSpacing(8)
        row.addWidget(self.state)
        row.addWidget(self.figures, 1)
        first = (self.follow, self.pause, self.now, self._reading)
        for widget in (*first, self.save, self.stop):
            row.addWidget(widget)
        self.stop.setVisible(run is not None)
        follower.changed.connect(self._show)
        if run is not None:
            run.changed.connect(self._show)
        self._show()

    def _buttons(self) -> tuple[QPushButton, ...]:
        return (self.follow, self.pause, self.now, self.detach)

    def _on_stop(self) -> None:
        if self._run is not None:
            self._run.stop()

    def _show(self) -> None:
        follower, metrics, run = self._follower, self._follower.metrics, self._run
        phase = metrics.phase.value
        if follower.is_paused and metrics.phase is FollowState.LIVE:
            phase = "paused"
        self.state.setText(f"● {phase}")
        set_property(self.state, "level", _level(follower))
        text = metrics_text(metrics)
        if run is not None and metrics.phase is FollowState.WAITING:
            text = f"{one_line(run.name)} has computed nothing yet"
        if follower.is_paused and (n := follower.n_unseen) > 0:
            what = record_unit(metrics.status.by_kind)
            text += f" · {format_count(n)} new {what} (paused)"
        self.figures.setText(text)
        self.figures.setAccessibleName(text)
        set_tip(self.figures, "\n".join((_METRICS_TIP, *metrics.status.run_texts())))
        for part in self._buttons():
            part.setEnabled(follower.is_on)
        can_again = follower.can_follow_again
        self._reading.setCurrentWidget(self.again if can_again else self.detach)
        is_whole = run is not None and run.has_recording
        self.save.setEnabled(is_whole or follower.recording.place is not None)
        is_stoppable = run is not None and run.is_running and not run.is_stopped
        self.stop.setEnabled(is_stoppable)
        self.follow.setChecked(follower.follows and follower.is_on)
        self.pause.setChecked(follower.is_paused)


def _level(follower: LiveSession) -> str:
    phase = follower.metrics.phase
    if phase in (FollowState.KILLED, FollowState.FULL, FollowState.FAILED):
        return "error"
    if phase is FollowState.NO_WRITER:
        return "error"
    if phase is FollowState.LIVE:
        return "caution" if follower.is_paused else "good"
    return ""


def metrics_text(metrics: LiveMetrics) -> str:
    """Return the metrics in one line; "N/A" stands for what is not known."""
    status, message = metrics.status, one_line(metrics.status.message)
    if metrics.phase is FollowState.WAITING:
        return message
    phrases = {
        metric.key: metric.phrase(status, metrics.rates)
        for metric in shown_in(Shown.LINE)
    }
    if metrics.phase.is_over:
        return _joined(phrases["records"], phrases["lost"], message)
    if status.lost > 0:  # a loss is seen in narrow windows too
        return _joined(phrases.pop("lost"), *phrases.values(), message)
    return _joined(*phrases.values(), message)


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class DiagnosisRequest:
    """Look for what keeps records from coming, on a worker."""

    target: str | None
    tool: int | None

    def __call__(self, context: TaskContext) -> tuple[Step, ...]:
        """Return the steps to a first record."""
        return diagnose(self.target, self.tool, context.check_cancelled)


@guarded
class WaitingPage(QWidget):
    """What is waited for, what is in the way, and the command that would make it.

    Parameters
    ----------
    run : the program, where the window has started it.
    output : shows what that prints.
    """

    close_requested = Signal()

    def __init__(
        self,
        follower: LiveSession,
        tasks: Tasks,
        run: Run | None = None,
        output: QWidget | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._follower, self._run, self._tasks = follower, run, tasks
        self._since = time.monotonic()
        self._key = f"diagnosis-{id(self):x}"
        self.head = label("", self, "large", wraps=True)
        self.message = label("", self, wraps=True)
        self.message.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
        )
        command = command_for(follower.target)
        hint = "This command in a terminal makes it:"
        if is_process(follower.target or ""):
            hint = (
                "A program is traced from its start on: File › Follow a running "
                "program has the command that starts this one with the tracer."
            )
        elif not command:
            hint = (
                "It appears here as soon as the traced program makes it. Programs "
                "that ggscope-capture starts make rings of their own: File › Follow a "
                "running program lists these."
            )
        if run is not None:
            hint = "Ops appear here as soon as the model runs."
            if run.records_calls:
                hint = "Its calls of CUDA appear here as soon as it makes some."
        self.hint = label(hint, self, "dim", wraps=True)
        self.command = ElidedLabel(self, mode=Qt.TextElideMode.ElideMiddle)
        self.command.setProperty("mono", True)
        self.command.setText(command)
        self.steps_head = label("No records yet. Checks:", self, "dim")
        self.steps = QWidget(self)
        self._step_rows = QGridLayout(self.steps)
        self._step_rows.setContentsMargins(0, 0, 0, 0)
        self._step_rows.setHorizontalSpacing(12)
        self._step_rows.setVerticalSpacing(4)
        self._step_rows.setColumnStretch(2, 1)
        self._shown_steps: tuple[Step, ...] = ()
        self.copy = button(
            "Copy command", lambda: copy_text(command), self, primary=True
        )
        self.again = button("Follow again", follower.follow_again, self)
        self.close_button = button("Close tab", self.close_requested.emit, self)
        self.copy.setVisible(bool(command))
        # Not a button that ends anything: Enter and Space come without a look.
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        if output is not None:
            self.setFocusProxy(output)
        elif command:
            self.setFocusProxy(self.copy)
        self._lay_out(output)
        self._timer = QTimer(self, interval=_REFRESH_MS)
        self._timer.timeout.connect(self._look)
        follower.changed.connect(self._show)
        self._show()

    def _lay_out(self, output: QWidget | None) -> None:
        row = QHBoxLayout()
        row.setSpacing(8)
        for part in (self.copy, self.again, self.close_button):
            row.addWidget(part)
        row.addStretch(1)
        inner = QVBoxLayout()
        inner.setContentsMargins(0, 24, 0, 16)
        inner.setSpacing(10)
        if output is None:
            inner.addStretch(2)
        for text in (self.head, self.message, self.hint, self.command):
            inner.addWidget(text)
        inner.addWidget(self.steps_head)
        inner.addWidget(self.steps)
        inner.addLayout(row)
        if output is None:
            inner.addStretch(3)
        middle = QWidget(self)
        middle.setMaximumWidth(_PAGE_WIDTH)
        middle.setLayout(inner)
        wide = QHBoxLayout()
        wide.setContentsMargins(12, 0, 12, 0)
        wide.addStretch(1)
        wide.addWidget(middle, 8)
        wide.addStretch(1)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addLayout(wide)
        if output is not None:
            box.addWidget(output, 1)

    def _show(self) -> None:
        metrics, run = self._follower.metrics, self._run
        heads = {
            FollowState.WAITING: "Waiting for a program",
            FollowState.LIVE: "The program has computed nothing yet",
            FollowState.FAILED: "This cannot be followed",
            # Whether something is recorded after it is not known.
            FollowState.STOPPED: "Detached before anything came",
        }
        if is_log_name(self._follower.target or ""):
            heads[FollowState.WAITING] = "Waiting for the log"
        elif (self._follower.target or "").endswith(_JSON_LINES):
            heads[FollowState.WAITING] = "Waiting for the file"
        self.head.setText(heads.get(metrics.phase, "Nothing was recorded"))
        text = sentence(metrics.status.message)
        is_over, is_waiting = (
            metrics.phase.is_over,
            metrics.phase is FollowState.WAITING,
        )
        if run is not None and run.is_running:
            waits = f"Waiting for {run.name} to compute"
            self.head.setText(f"Recording {run.name}" if run.records_calls else waits)
            text = ""
        elif run is not None:
            text = f"{run.name}: {run.state()}."
        self.message.setText(text)
        self.message.setVisible(bool(text))
        if run is not None:
            self.hint.setVisible(not is_over)
        else:  # what makes the ring is of use where it is not there
            has_command = bool(self.command.full_text)
            self.hint.setVisible(is_waiting or (is_over and has_command))
        self.command.setVisible(bool(self.command.full_text))
        self.again.setVisible(
            is_over and self._follower.can_follow_again and run is None
        )
        is_silent = not is_over and bool(self._shown_steps)
        self.steps_head.setVisible(is_silent)
        self.steps.setVisible(is_silent)

    # -- what is in the way ------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Look for what is in the way as long as somebody sees it."""
        super().showEvent(event)
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        """Look no more."""
        super().hideEvent(event)
        self._timer.stop()

    def _look(self) -> None:
        """Look for what is in the way, once nothing has come for some seconds."""
        follower = self._follower
        if not follower.is_on or follower.metrics.status.records:
            self._since = time.monotonic()
            self._show_steps(())
            return
        if self._run is not None and self._run.records_calls:
            return
        is_soon = time.monotonic() - self._since < SILENCE_S
        if is_soon or self._tasks.is_running(self._key):  # a look takes its time
            return
        tool = None if self._run is None else self._run.pid
        self._tasks.run(
            self._key,
            DiagnosisRequest(follower.target, tool),
            self._show_steps,
            on_error=lambda _failure: None,  # what it says would not help
            even_if_held=True,
        )

    def _show_steps(self, steps: tuple[Step, ...]) -> None:
        if steps == self._shown_steps:
            return
        self._shown_steps = steps
        while (item := self._step_rows.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.deleteLater()
        for row, step in enumerate(steps):
            sign, level = _SIGNS[step.is_good]
            cells = (sign, step.name, step.text)
            for column, text in enumerate(cells):
                role = "" if column else "liveState"
                made = label(text, self.steps, role, wraps=column == 2)
                set_property(made, "level", level if column == 0 else "")
                self._step_rows.addWidget(made, row, column, _TOP)
        self._show()


def sentence(message: str) -> str:
    """Return the message of a source as a sentence."""
    if not message:
        return ""
    return f"{message[:1].upper()}{message[1:].rstrip('.')}."


def command_for(target: str | None) -> str:
    """Return the command that makes what is waited for; "" = none can be named."""
    if target is None:
        return _RUN
    if target.endswith(".ggmlviz"):
        return _RUN.replace(" -- ", f" --ggmlviz '{one_line(target)}' -- ")
    if target.endswith(".bin"):
        return _RUN.replace(" -- ", f" -o '{one_line(target)}' -- ")
    if target.endswith(_JSON_LINES):
        return f"ggscope-capture cuda -o '{one_line(target)}' -- PROGRAM"
    if is_log_name(target):
        return f"llama-server -m model.gguf --log-file '{one_line(target)}'"
    return ""


def is_log_name(name: str) -> bool:
    """Return whether a path is that of a log by its name."""
    return name.endswith((".log", ".txt"))
