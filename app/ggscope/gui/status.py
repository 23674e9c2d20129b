"""Status bar: file, visible range, op table, problems, memory, renderer, progress."""

import math
import os
import time
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
from ggscope.model.record_kinds import record_text
from ggscope.model.trace import (
    RUNNING,
    OpTable,
    Severity,
    Trace,
    problem_count_text,
    problem_counts,
)
from ggscope.model.units import format_bytes, format_count, shown_form
from ggscope.session.scheduler import STATUS_S, FrameClient
from ggscope.session.session import Session
from ggscope.session.tasks import TaskState
from ggscope.views.base.safe_text import ElidedLabel, ShorteningLabel, set_tip
from ggscope.views.base.view import guarded, later

SHOW_AFTER_MS = 300
MESSAGE_MS = 6000
"""How long a status message replaces the file name."""
RANGE_S = 1 / 15
"""Between two texts of the range while it moves: each causes a layout of the bar."""
MEMORY_MS = 2000
"""Update interval of the texts while a program is followed."""
_RANGE_SHARE = 0.34
"""Largest share of the bar's width for the range."""
_MIN_WIDTH_PX = 900
"""A narrower bar hides memory and renderer, at the usual font size."""
_MIN_FILE_PX = 120
"""So does one that leaves less than this for the file."""
_ALL_COUNTS_PX = 1100
"""A narrower bar counts the less severe problems together."""
_OP_TABLE_SOURCES = {
    "declared": "from file",
    "inferred": "detected",
    "override": "chosen",
    "format": "fixed by format",
}


@guarded
class StatusStrip(QFrame):
    """The status bar of a tab."""

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
        set_tip(self.memory, "Memory used by ggscope")
        self.renderer = self._button(
            "Renderer of the timeline; click to change it",
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
        self._range_updates = FrameClient(session.frames, self._show_range, RANGE_S)
        session.viewport.changed.connect(self._on_range_changed)
        session.status_message.connect(self.show_message)
        session.display.absolute_time_changed.connect(self._show_range)
        self.progress.shown_changed.connect(self._on_progress_shown)
        self._memory_timer = QTimer(self)
        self._memory_timer.setInterval(MEMORY_MS)
        self._memory_timer.setTimerType(Qt.TimerType.VeryCoarseTimer)
        self._memory_timer.timeout.connect(self._show_memory)
        self._updates = FrameClient(session.frames, self._show_trace, STATUS_S)
        self._show_trace()
        self.set_renderer("")

    def set_renderer(self, text: str) -> None:
        """Show the renderer of the timeline, as `PaintedView.renderer_text` has it."""
        self.renderer.setText("CPU rendering" if text == "raster" else text)
        self._show_sides()

    def _show_sides(self) -> None:
        """Show memory and renderer where nothing has to be cut for them."""
        min_width = max(self._scaled(_MIN_WIDTH_PX), self._full_width())
        fits = self.width() >= min_width
        self.memory.setVisible(fits)
        self.renderer.setVisible(fits and bool(self.renderer.text()))

    def _scaled(self, width: int) -> int:
        """Return `width` scaled to the size of the font."""
        return round(width * self.fontMetrics().height() / 15)

    def _full_width(self) -> int:
        """Return the width that shows everything, with the file cut."""
        row = self._row
        chips = [b for b in (self.ops, self.problems, self.related) if not b.isHidden()]
        parts = (*chips, self.memory, self.renderer)
        widths = [part.sizeHint().width() for part in parts]
        widths += [self._scaled(_MIN_FILE_PX), self.range.minimumWidth()]
        margins = row.contentsMargins()
        gaps = row.spacing() * len(widths)  # one more beside the stretch
        return sum(widths) + gaps + margins.left() + margins.right()

    def set_related(self, text: str, tip: str) -> None:
        """Offer related files of the folder; "" = there are none."""
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
        """Show which part of the file is loaded; "" = all of it."""
        self._part = text
        self._show_file()

    def set_phase(self, text: str) -> None:
        """Show the state of a followed program, such as "live"."""
        self._phase = text
        self._show_file()

    def showEvent(self, event: object) -> None:
        """Measure memory only while somebody can read it."""
        self._memory_timer.start()
        later(self, self._show_memory, 300)
        super().showEvent(event)  # type: ignore[arg-type]  # QShowEvent

    def resizeEvent(self, event: object) -> None:
        """Shorten the texts to the new width."""
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
        # Never cut: file and range shrink instead.
        made.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        made.clicked.connect(signal)
        return made

    def _on_progress_shown(self, _: bool) -> None:
        self._show_left()

    def _show_left(self) -> None:
        """Show the latest status message, else the progress, else the file."""
        if self._message_timer.isActive():
            self._left.setCurrentWidget(self.message)
        elif self.progress.is_shown:
            self._left.setCurrentWidget(self.progress)
        else:
            self._left.setCurrentWidget(self.file)

    def _on_trace_changed(self, _: object) -> None:
        self._updates.mark_dirty()

    def _show_trace(self) -> None:
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
            source = _OP_TABLE_SOURCES.get(ops.source, ops.source)
            text = f"ops: {ops.id} ({source})"
            description = text
            if ops.margin is not None:
                description = f"ops: {ops.id} ({source}, margin {ops.margin:.0f})"
            self.ops.setText(text)
            self.ops.setAccessibleName(description)
            set_tip(self.ops, f"{description}\n{self._ops_tip}")

    def _show_problems(self, trace: Trace | None) -> None:
        """Show the number of problems by severity; notes only without worse ones."""
        counts = problem_counts(trace)
        worst = max(counts, default=Severity.INFO)
        description = ""
        if trace is not None:
            description = "no problems yet" if trace.is_unread else "no problems"
        if counts:
            description = problem_count_text(counts)
        text = description
        if worst > Severity.INFO:
            text, *others = (s.counted(n) for s, n in counts.items())
            if others and self.width() >= _ALL_COUNTS_PX:
                text = description
            elif others:
                text += f" +{sum(counts.values()) - counts[worst]}"
            text = f"▲ {text}"
        self.problems.setText(text)
        self.problems.setAccessibleName(description)
        set_tip(self.problems, f"{description}\n{self._problems_tip}")
        self.problems.setVisible(bool(text))
        level = ""
        if worst > Severity.INFO:
            level = "error" if worst >= Severity.DATA_LOSS else "caution"
        set_property(self.problems, "level", level)

    def _on_range_changed(self, _: object) -> None:
        if not self._session.is_appending:  # else updated with the file
            self._range_updates.request()

    def _show_range(self, _: object = None) -> None:
        trace = self._session.trace
        if trace is None or not trace.extent.duration:
            self.range.setText("")
            return
        visible, absolute = (
            self._session.viewport.visible,
            self._session.display.absolute_time,
        )
        form = shown_form(visible, trace.clock, absolute=absolute)
        self.range.setText(f"range {form.range_text(visible)}")
        self._fit_range()

    def _fit_range(self) -> None:
        """Reserve the width of the whole range; the file, which its tab names, shrinks.

        The width never shrinks again, so that panning moves nothing.
        """
        max_width = round(self.width() * _RANGE_SHARE)
        width = max(self.range.sizeHint().width(), self.range.minimumWidth())
        self.range.setMinimumWidth(min(width, max_width))
        self._show_sides()

    def _show_memory(self) -> None:
        from ggscope.readers.memory import process_bytes  # not before the first window

        self.memory.setText(format_bytes(process_bytes()))
        self._show_sides()


class ProgressArea(QWidget):
    """Progress of a task: title, amount, rate, time left, and a cancel button.

    Replaces the file name once a task has run for 300 ms, so that nothing moves.
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
        """Whether a task has run long enough to be shown."""
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
    """Return title, amount, rate and time left of a task, in ever shorter versions.

    The last is the time left alone, or the title where that is unknown.
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
        estimate = f"{_duration_text(left)} left"
    title = state.title
    versions = (
        (title, done, rate, estimate),
        (title, done, estimate),
        (title, estimate),
        (estimate or title,),
    )
    texts = (" · ".join(filter(None, parts)) for parts in versions)
    return tuple(dict.fromkeys(texts))


def _duration_text(seconds: float) -> str:
    """Return ``7 s`` or ``2:03``, rounded up."""
    rounded = max(1, math.ceil(seconds))
    return f"{rounded} s" if rounded < 60 else f"{rounded // 60}:{rounded % 60:02}"


def _name_of(trace: Trace, path: Path | None) -> str:
    """Return what was opened: of several files the trace, which `info` is of."""
    is_added_to = trace.parts and path is not None and not os.path.isdir(path)
    if path is None or is_added_to:
        return Path(trace.parts[0].info.name if trace.parts else trace.info.name).name
    return path.name


def _file_text(name: str, trace: Trace, phase: str) -> str:
    info = trace.info
    is_model = bool(trace.models) and not len(trace.spans)
    holds = record_text(info)
    if is_model:
        holds = f"{format_count(len(trace.tensors))} tensors"
    text = f"{name} · {info.format} · {holds}"
    reading = trace.pending - {RUNNING}
    if trace.is_running:
        text += f" · {phase}" if phase else ""
    elif reading:
        text += " · still reading " + ", ".join(sorted(reading))
    return text
