"""The status strip: file, shown range, op table, problems, memory, renderer, work."""

import math
import os
import time
from collections import Counter
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from ggscope.gui.widgets import GlyphButton, ProgressBar, set_property
from ggscope.model.record_kinds import record_words
from ggscope.model.trace import RUNNING, OpTable, Severity, Trace
from ggscope.model.units import format_bytes, format_count, shown_form
from ggscope.session.session import Session
from ggscope.session.tasks import TaskState
from ggscope.views.base.safe_text import ElidedLabel, ShorteningLabel, set_tip
from ggscope.views.base.view import guarded, later

SHOW_AFTER_MS = 300
MESSAGE_MS = 6000
"""How long a status message replaces the file name."""
MEMORY_MS = 2000
CALM_MS = 250
"""So often the texts follow a program that runs."""
_RANGE_SHARE = 0.34
"""So much of the strip the range may take before it is cut."""
_ROOM_FOR_ALL = 900
"""On a narrower strip there is no room for memory and renderer."""
_LEAST_FILE = 120
"""Nor where the file would get less than this."""
_ROOM_FOR_MARGIN = 1100
"""On a narrower strip the margin of the op table, and the numbers of the lesser
problems one by one, stand in tooltips only."""


@guarded
class StatusStrip(QFrame):
    """One line at the bottom of a session's tab."""

    ops_clicked = Signal()
    problems_clicked = Signal()
    related_clicked = Signal()
    renderer_clicked = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("status")
        self._session = session
        self._part = self._phase = ""
        self.file = ElidedLabel(self, mode=Qt.TextElideMode.ElideMiddle)
        self.range = ElidedLabel(self, mode=Qt.TextElideMode.ElideMiddle)
        self.range.setProperty("mono", True)
        self._ops_tip = "Choose the op table"
        self.ops = self._button(self._ops_tip, self.ops_clicked)
        self._problems_tip = "Show the Problems tab"
        self.problems = self._button(self._problems_tip, self.problems_clicked)
        self.related = self._button("", self.related_clicked)
        self.related.hide()
        self.memory = ElidedLabel(self, mode=Qt.TextElideMode.ElideMiddle)
        set_tip(self.memory, "Memory that the program uses")
        self.renderer = self._button(
            "What draws the timeline; click for settings",
            self.renderer_clicked,
        )
        self.progress = ProgressArea(session, self)
        self._left = QStackedWidget(self)
        self._left.addWidget(self.file)
        self._left.addWidget(self.progress)
        self.message = ElidedLabel(self, mode=Qt.TextElideMode.ElideMiddle)
        self._left.addWidget(self.message)
        self._message_timer = QTimer(self)
        self._message_timer.setSingleShot(True)
        self._message_timer.setInterval(MESSAGE_MS)
        self._message_timer.timeout.connect(self._show_left)
        row = self._row = QHBoxLayout(self)
        row.setContentsMargins(12, 2, 12, 2)
        row.setSpacing(12)
        row.addWidget(self._left, 5)
        row.addWidget(self.range, 3)
        row.addWidget(self.ops)
        row.addWidget(self.problems)
        row.addWidget(self.related)
        row.addStretch(1)
        row.addWidget(self.memory)
        row.addWidget(self.renderer)
        self.setMinimumHeight(26)
        session.trace_changed.connect(self._on_trace_changed)
        session.visible_range_changed.connect(self._on_range_changed)
        session.status_message.connect(self.show_message)
        session.absolute_time_changed.connect(self._show_range)
        self.progress.shown_changed.connect(self._on_progress_shown)
        self._memory_timer = QTimer(self)
        self._memory_timer.setInterval(MEMORY_MS)
        self._memory_timer.setTimerType(Qt.TimerType.VeryCoarseTimer)
        self._memory_timer.timeout.connect(self._show_memory)
        self._calm = QTimer(self, singleShot=True, interval=CALM_MS)
        self._calm.timeout.connect(self._on_trace_changed)
        self._on_trace_changed()
        self.set_renderer("")

    def set_renderer(self, text: str) -> None:
        """Name what draws the timeline."""
        self.renderer.setText(text)
        self._show_sides()

    def _show_sides(self) -> None:
        """Leave out what matters least where it would be cut."""
        has_room = self.width() >= max(self._scaled(_ROOM_FOR_ALL), self._full_width())
        self.memory.setVisible(has_room)
        self.renderer.setVisible(has_room and bool(self.renderer.text()))

    def _scaled(self, width: int) -> int:
        """Return a width at the size of the font."""
        return round(width * self.fontMetrics().height() / 15)

    def _full_width(self) -> int:
        """Return how wide the strip has to be for everything, the file cut."""
        row = self._row
        chips = [b for b in (self.ops, self.problems, self.related) if not b.isHidden()]
        parts = (*chips, self.memory, self.renderer)
        widths = [part.sizeHint().width() for part in parts]
        widths += [self._scaled(_LEAST_FILE), self.range.minimumWidth()]
        margins = row.contentsMargins()
        gaps = row.spacing() * len(widths)  # one more beside the stretch
        return sum(widths) + gaps + margins.left() + margins.right()

    def set_related(self, text: str, tip: str) -> None:
        """Offer files that lie beside this one; "" = there are none to add."""
        self.related.setText(text)
        self.related.setAccessibleName(text)
        self.related.setAccessibleDescription(tip)
        add = "Click to add them to the session"
        set_tip(self.related, f"{tip}\n{add}" if tip else "")
        self.related.setVisible(bool(text))
        self._show_sides()

    def show_message(self, text: str) -> None:
        """Show a status message for a few seconds."""
        self.message.setText(text)
        self._message_timer.start()
        self._show_left()

    def set_part(self, text: str) -> None:
        """Say which part of the file is shown; "" = all of it."""
        self._part = text
        self._show_file()

    def set_phase(self, text: str) -> None:
        """Say how it stands with what is followed, such as "live"."""
        self._phase = text
        self._show_file()

    def showEvent(self, event: object) -> None:
        """Measure memory only while somebody can read it."""
        self._memory_timer.start()
        later(self, self._show_memory, 300)
        super().showEvent(event)  # type: ignore[arg-type]  # QShowEvent

    def resizeEvent(self, event: object) -> None:
        """Fit what is told to the new width."""
        super().resizeEvent(event)  # type: ignore[arg-type]  # QResizeEvent
        trace = self._session.trace
        self._show_ops(None if trace is None else trace.ops)
        self._show_problems(trace)
        self._show_sides()
        self._fit_range()

    def hideEvent(self, event: object) -> None:
        """Stop measuring."""
        self._memory_timer.stop()
        super().hideEvent(event)  # type: ignore[arg-type]  # QHideEvent

    def _button(self, tip: str, signal: object) -> QToolButton:
        made = QToolButton(self)
        set_tip(made, tip)
        made.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        # Never cut: the file and the range give way.
        made.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        made.clicked.connect(signal)
        return made

    def _on_progress_shown(self, _: bool) -> None:
        self._show_left()

    def _show_left(self) -> None:
        """Show what was said last, else what is worked on, else the file."""
        if self._message_timer.isActive():
            self._left.setCurrentWidget(self.message)
        elif self.progress.is_shown:
            self._left.setCurrentWidget(self.progress)
        else:
            self._left.setCurrentWidget(self.file)

    def _on_trace_changed(self, _: object = None) -> None:
        if self._session.is_appending:  # each new text lays the window out anew
            if not self._calm.isActive():
                self._calm.start()
            return
        trace = self._session.trace
        self._show_file()
        self._show_ops(None if trace is None else trace.ops)
        self._show_problems(trace)
        self._show_range(None)
        self._show_sides()

    def _show_file(self) -> None:
        trace, path = self._session.trace, self._session.path
        text = path.name if path is not None else ""
        if trace is not None:
            text = _file_text(_name_of(trace, path), trace, self._phase)
        self.file.setText(f"{text} · {self._part}" if self._part else text)

    def _show_ops(self, ops: OpTable | None) -> None:
        has_table = ops is not None and ops.source != "spelled"
        self.ops.setVisible(has_table)
        if ops is not None and has_table:
            text = whole = f"ops: {ops.id}, {ops.source}"
            if ops.margin is not None:
                whole += ", margin {}".format(f"{ops.margin:.0f}")
            self.ops.setText(whole if self.width() >= _ROOM_FOR_MARGIN else text)
            self.ops.setAccessibleName(whole)
            set_tip(self.ops, f"{whole}\n{self._ops_tip}")

    def _show_problems(self, trace: Trace | None) -> None:
        """Count kinds of problems by severity; notes where nothing is worse."""
        counts = problem_counts(trace)
        worst = max(counts, default=Severity.INFO)
        whole = "no problems" if trace is not None else ""
        if counts:
            whole = ", ".join(_count_words(s, n) for s, n in counts.items())
        text = whole
        if worst > Severity.INFO:
            text, *rest = (_count_words(s, n) for s, n in counts.items())
            if rest and self.width() >= _ROOM_FOR_MARGIN:
                text = whole
            elif rest:
                text += f" +{sum(counts.values()) - counts[worst]}"
            text = f"▲ {text}"
        self.problems.setText(text)
        self.problems.setAccessibleName(whole)
        set_tip(self.problems, f"{whole}\n{self._problems_tip}")
        self.problems.setVisible(bool(text))
        level = ""
        if worst > Severity.INFO:
            level = "error" if worst >= Severity.DATA_LOSS else "caution"
        set_property(self.problems, "level", level)

    def _on_range_changed(self, _: object) -> None:
        if not self._session.is_appending:  # else with the file's name
            self._show_range()

    def _show_range(self, _: object = None) -> None:
        trace = self._session.trace
        if trace is None or not trace.extent.duration:
            self.range.setText("")
            return
        visible, absolute = self._session.visible_range, self._session.absolute_time
        form = shown_form(visible, trace.clock, absolute=absolute)
        self.range.setText(f"range {form.range_text(visible)}")
        self._fit_range()

    def _fit_range(self) -> None:
        """Keep room for the whole range, at the cost of the file, which its tab names.

        Room once taken is kept at this width, so that panning moves nothing.
        """
        most = round(self.width() * _RANGE_SHARE)
        wanted = max(self.range.sizeHint().width(), self.range.minimumWidth())
        self.range.setMinimumWidth(min(wanted, most))
        self._show_sides()

    def _show_memory(self) -> None:
        from ggscope.readers.memory import process_bytes  # not before the first window

        self.memory.setText(format_bytes(process_bytes()))
        self._show_sides()


class ProgressArea(QWidget):
    """What is being worked on, how fast, how long still, and a way to stop it.

    It appears once a task has run for 300 ms, in the place of the file's name, so
    that nothing else moves.
    """

    shown_changed = Signal(bool)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tasks = session.tasks
        self._is_shown = False
        self.text = ShorteningLabel(self)
        self.bar = ProgressBar("Progress", self)
        self.stop = GlyphButton("close", "Cancel (Esc while reading)", self, 12)
        self.stop.clicked.connect(self._on_stop)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        self.bar.setMinimumWidth(32)
        self.bar.setMaximumWidth(120)
        row.addWidget(self.bar, 1)
        row.addWidget(self.stop)
        row.addWidget(self.text, 2)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(SHOW_AFTER_MS)
        self._later.timeout.connect(self._show)
        self._tasks.task_changed.connect(self._on_task_changed)

    @property
    def is_shown(self) -> bool:
        """Whether there is work that lasts."""
        return self._is_shown

    def _state(self) -> TaskState | None:
        """Return the oldest task that has a title."""
        return next((s for s in self._tasks.states() if s.title), None)

    def _on_task_changed(self, _: TaskState) -> None:
        state = self._state()
        if state is None:
            self._later.stop()
            self._set_shown(False)
        elif self._is_shown:
            self._show()
        elif not self._later.isActive():
            self._later.start()

    def _show(self) -> None:
        state = self._state()
        if state is None:
            return
        self.text.set_texts(progress_texts(state, time.monotonic()))
        self.bar.show_share(state.done, state.total)
        self._set_shown(True)

    def _set_shown(self, is_shown: bool) -> None:
        if is_shown != self._is_shown:
            self._is_shown = is_shown
            self.shown_changed.emit(is_shown)

    def _on_stop(self) -> None:
        state = self._state()
        if state is not None:
            self._tasks.cancel(state.key)


def progress_texts(state: TaskState, now: float) -> tuple[str, ...]:
    """Return title, work done of all, rate and estimate of a task, then less of it.

    Each text is shorter than the one before; of the last only the estimate is left,
    or the title where there is none.
    """
    in_bytes = state.unit == "B"
    amount = format_bytes if in_bytes else format_count
    done = rate = estimate = ""
    if state.total > 0:
        done = f"{amount(state.done)} of {amount(state.total)}"
    if state.done > 0 and in_bytes:
        rate = f"{format_bytes(state.rate(now))}/s"
    left = state.seconds_left(now)
    if left is not None and state.done < state.total:
        estimate = f"{_whole_seconds(left)} left"
    title = state.title
    versions = (
        (title, done, rate, estimate),
        (title, done, estimate),
        (title, estimate),
        (estimate or title,),
    )
    texts = (" · ".join(filter(None, parts)) for parts in versions)
    return tuple(dict.fromkeys(texts))


def _whole_seconds(seconds: float) -> str:
    """Return ``7 s`` or ``2:03``: an estimate has no milliseconds."""
    whole = max(1, math.ceil(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60}:{whole % 60:02}"


def problem_counts(trace: Trace | None) -> dict[Severity, int]:
    """Return the number of kinds of problems by severity, the worst first.

    Notes are counted only where there is nothing worse.
    """
    if trace is None:
        return {}
    counts = Counter(warning.severity for warning in trace.warnings)
    worse = {s: n for s, n in counts.items() if s > Severity.INFO}
    return dict(sorted((worse or counts).items(), reverse=True))


def _count_words(severity: Severity, n: int) -> str:
    one, many = {
        Severity.INFO: ("note", "notes"),
        Severity.NOTICE: ("notice", "notices"),
        Severity.DATA_LOSS: ("data loss", "data losses"),
        Severity.ERROR: ("error", "errors"),
    }[severity]
    return f"{n} {one if n == 1 else many}"


def _name_of(trace: Trace, path: Path | None) -> str:
    """Return what was opened: of several files the trace, which `info` is of."""
    is_added_to = trace.parts and path is not None and not os.path.isdir(path)
    if path is None or is_added_to:
        return Path(trace.parts[0].info.name if trace.parts else trace.info.name).name
    return path.name


def _file_text(name: str, trace: Trace, phase: str) -> str:
    info = trace.info
    is_model = bool(trace.models) and not len(trace.spans)
    holds = record_words(info)
    if is_model:
        holds = f"{format_count(len(trace.tensors))} tensors"
    text = f"{name} · {info.format} · {holds}"
    reading = trace.pending - {RUNNING}
    if trace.is_running:
        text += f" · {phase}" if phase else ""
    elif reading:
        text += " · still reading " + ", ".join(sorted(reading))
    return text
