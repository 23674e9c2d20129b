"""Follows a running program: a thread polls its source, a session shows snapshots.

The clock of the session says when a snapshot is due (`session.scheduler`). Polling goes
on whatever the picture does: a ring that is not emptied loses records.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal

from ggscope.errors import LiveError
from ggscope.live.metrics import Rates
from ggscope.live.open_source import follow, is_process, path_to_follow, waiting_message
from ggscope.live.processes import is_alive
from ggscope.live.source import NANO, LiveSource, RecordingLocation, SourceStatus, State
from ggscope.model.record_kinds import record_text
from ggscope.model.selection import MarkedRange
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import TimeRange, format_bytes
from ggscope.readers.memory import available_bytes, memory_limit
from ggscope.session.live_pace import LOOK_S, QUICK_S, PollPace, RateWindow
from ggscope.session.loader import WINDOW_BYTES
from ggscope.session.scheduler import (
    HIDDEN_S,
    SHOWN_S,
    STATUS_S,
    FrameClient,
    FrameClock,
)
from ggscope.session.session import Session, TraceChange

logger = logging.getLogger(__name__)

FIRST_TICKS = 2_000_000_000
"""Duration that is shown before the view begins to scroll: 2 s."""
LOG_TICKS = 300_000_000_000
"""The same of a log: requests take seconds to minutes."""
_NOBODY_S = 1.0
_AIR = 20
"""One part in so many of the view lies after the newest record."""


class FollowState(Enum):
    """State of following a program."""

    WAITING = "waiting"
    LIVE = "live"
    ENDED = "ended"
    KILLED = "killed"
    STOPPED = "detached"
    """The user detached; the program may still run."""
    NO_WRITER = "writer gone"
    FULL = "stopped: memory limit"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether no more records will come."""
        return self not in (
            FollowState.WAITING,
            FollowState.LIVE,
            FollowState.NO_WRITER,
        )


_PHASES = {
    State.WAITING: FollowState.WAITING,
    State.RUNNING: FollowState.LIVE,
    State.ENDED: FollowState.ENDED,
    State.GONE: FollowState.KILLED,
    State.NO_WRITER: FollowState.NO_WRITER,
}


@dataclass(frozen=True, slots=True)
class LiveMetrics:
    """State, source status and rates of a followed program."""

    phase: FollowState = FollowState.WAITING
    status: SourceStatus = field(default_factory=SourceStatus)
    rates: Rates = field(default_factory=Rates)


@dataclass(frozen=True, slots=True, eq=False)
class _LiveUpdate:
    metrics: LiveMetrics
    trace: Trace | None = None


class PollThread(threading.Thread):
    """Polls one source until it is over or `finish` is called.

    Parameters
    ----------
    target : see `live.open_source.path_to_follow`; looked up until it is there.
    send : receives updates, on this thread.
    clock : says when a snapshot is due.
    limit_bytes : memory limit of the trace; 0 = the memory that is available.
    """

    def __init__(
        self,
        target: str | None,
        send: Callable[[_LiveUpdate], None],
        clock: FrameClock,
        limit_bytes: int = 0,
    ) -> None:
        super().__init__(name="ggscope-live")
        self._target, self._send, self.clock = target, send, clock
        self._limit = memory_limit(limit_bytes)
        self._source: LiveSource | None = None
        self._end = threading.Event()
        self._is_abandoned = self._has_closed = False
        self._is_resting = False
        self._lock = threading.Lock()
        self._checked_at = 0.0
        self._rates, self._pace = RateWindow(), PollPace()
        self._sent = LiveMetrics()

    def finish(self) -> None:
        """Stop polling; the last update is all that was read until `resume`."""
        self._end.set()
        self.clock.wake.set()

    @property
    def is_resting(self) -> bool:
        """Whether `finish` has ended polling, and `resume` can go on."""
        return self._is_resting

    def resume(self) -> None:
        """Poll again after `finish`; what was written meanwhile is read, or lost."""
        self._end.clear()
        self._is_resting = False
        self.clock.wake.set()

    def abandon(self) -> None:
        """Stop polling, send nothing more and forget the recording."""
        with self._lock:
            self._is_abandoned = True
            has_closed = self._has_closed
        self._end.set()
        self.clock.wake.set()
        if has_closed and self._source is not None:
            self._source.forget()

    def run(self) -> None:
        """Poll, and send a failure as an update."""
        try:
            self._poll()
        except (LiveError, OSError) as error:
            self._fail(str(error))
        except MemoryError:
            self._fail("there is not enough memory to go on.")
        except Exception as error:  # the thread's last border
            logger.exception("following failed")
            self._fail(f"following failed: {type(error).__name__}: {error}")
        finally:
            if self._source is not None:
                self._source.close()
            with self._lock:
                self._has_closed, is_abandoned = True, self._is_abandoned
            if is_abandoned and self._source is not None:
                self._source.forget()

    def _poll(self) -> None:
        # A window that crashed must not leave a process that polls on.
        while threading.main_thread().is_alive():
            if self._is_abandoned:
                return
            now = time.monotonic()
            source = self._source or self._find()
            if source is None:
                if self._end.is_set():
                    self._send_last(None, FollowState.STOPPED)
                    return
                message = waiting_message(self._target)
                self._send_status(
                    now, LiveMetrics(status=SourceStatus(message=message))
                )
                self._rest(LOOK_S)
                continue
            if source.poll():
                self.clock.is_dirty, self._pace.received_at = True, now
            status = source.status()
            rates = self._rates.add(now, status)
            metrics = LiveMetrics(_PHASES[status.state], status, rates)
            if metrics.phase.is_over or self._end.is_set():
                phase = metrics.phase if metrics.phase.is_over else FollowState.STOPPED
                if (
                    metrics.phase is FollowState.NO_WRITER
                ):  # there was nothing left to stop
                    phase = FollowState.ENDED
                if phase is not FollowState.STOPPED:
                    self._send_last(source, phase)
                    return
                source.rest()
                self._is_resting = True
                self._send_last(source, phase)
                self._wait_for_more()
                continue
            if self.clock.is_due(now) and not self._show(source, metrics, now):
                return
            self._send_status(now, metrics)
            self._rest(self._pace.until_next(now, status))

    def _wait_for_more(self) -> None:
        """Wait until `resume` or `abandon`."""
        while self._is_resting and not self._is_abandoned:
            self.clock.wake.wait(_NOBODY_S)
            self.clock.wake.clear()
            if not threading.main_thread().is_alive():
                return
        self._rates.clear()
        self.clock.is_dirty = True

    def _rest(self, seconds: float) -> None:
        """Wait, but no longer than until a snapshot is due."""
        self.clock.wait(seconds)
        if not self._end.is_set():
            self.clock.wake.clear()

    def _find(self) -> LiveSource | None:
        path = path_to_follow(self._target)
        if path is not None:
            self._source = follow(path)
        return self._source

    def _show(self, source: LiveSource, metrics: LiveMetrics, now: float) -> bool:
        """Send a snapshot; return False where the memory limit is reached."""
        trace = source.snapshot()
        if now - self._checked_at >= 1:
            self._checked_at = now
            if self._is_full(trace):
                self._send_last(source, FollowState.FULL)
                return False
        self._sent = metrics
        self.clock.begin(now)
        self._send_update(_LiveUpdate(metrics, trace))
        return True

    def _is_full(self, trace: Trace) -> bool:
        if self._limit:
            return bytes_of(trace) >= self._limit
        return available_bytes() <= 0

    def _send_last(self, source: LiveSource | None, phase: FollowState) -> None:
        """Send all that was read, as a trace that grows no more."""
        status = SourceStatus() if source is None else source.status()
        trace = None
        if source is not None and (status.records or phase is not FollowState.STOPPED):
            trace = ended(source.snapshot(), phase)
        while not (self._is_abandoned or self.clock.wait_idle(QUICK_S)):
            pass
        self._send_update(_LiveUpdate(LiveMetrics(phase, status), trace))

    def _fail(self, message: str) -> None:
        status = SourceStatus() if self._source is None else self._source.status()
        self._send_update(
            _LiveUpdate(
                LiveMetrics(FollowState.FAILED, replace(status, message=message))
            )
        )

    def _send_update(self, update: _LiveUpdate) -> None:
        if not self._is_abandoned:
            self._send(update)

    def _send_status(self, now: float, metrics: LiveMetrics) -> None:
        if metrics != self._sent and self.clock.is_status_due(now):
            self._sent = metrics
            self._send_update(_LiveUpdate(metrics))


class LiveSession(QObject):
    """Shows the snapshots of a running program in a session.

    Signals
    -------
    changed : the metrics, or the mode.
    mode_changed : the phase, or whether the view follows or is paused.
    ended : no more records will come; the trace, if there is one, grows no more.
    """

    changed = Signal()
    mode_changed = Signal()
    ended = Signal()
    _received = Signal(object, object)  # PollThread, _LiveUpdate

    def __init__(
        self, session: Session, target: str | None, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self.target = session, target
        session.follower = self
        self.limit_bytes = 0
        self.metrics = LiveMetrics()
        self.follows = True
        """Whether the view scrolls with the newest record."""
        self.is_paused = False
        """Whether the picture stands while polling goes on."""
        self._thread: PollThread | None = None
        self._last_thread: PollThread | None = None
        """The thread that holds the recording, also after it has stopped."""
        self._restarts = -1
        self._width: int | None = None
        self._has_width = False
        """Whether the user has chosen the width; `_width` None = everything."""
        self._is_moving = False
        self._marked_before: MarkedRange | None = None
        self._frames = session.frames
        self._metrics_client = FrameClient(self._frames, self.changed.emit, STATUS_S)
        self._received.connect(self._on_update, Qt.ConnectionType.QueuedConnection)
        session.viewport.changed.connect(self._on_moved)
        session.viewport.held_changed.connect(self._on_held)

    @property
    def is_on(self) -> bool:
        """Whether more records may come."""
        return self._thread is not None

    @property
    def recording(self) -> RecordingLocation:
        """Where the recording lies."""
        return self.metrics.status.recording

    @property
    def n_unseen(self) -> int:
        """Number of records that were read and are not in the session's trace."""
        trace, n_read = self._session.trace, self.metrics.status.records
        return 0 if trace is None else max(n_read - trace.info.n_records, 0)

    def start(self) -> None:
        """Follow from the beginning."""
        self.release()
        self.metrics, self._restarts, self.follows = LiveMetrics(), -1, True
        self.is_paused = self._has_width = False
        self._width = None
        thread = self._thread = self._last_thread = PollThread(
            self.target,
            lambda update: self._send(thread, update),
            self._frames.new_clock(),
            self.limit_bytes,
        )
        thread.start()
        self._emit_mode()

    def finish(self) -> None:
        """Stop following and keep the trace; see `follow_again`."""
        if self._thread is not None:
            self._thread.finish()

    @property
    def can_follow_again(self) -> bool:
        """Whether it has stopped and there may be records to read.

        Not where the target is the id of a process that has ended.
        """
        if self.is_on or self._last_thread is None:
            return False
        if self._last_thread.is_resting:
            return True
        if self.target is None or not is_process(self.target):
            return True
        return is_alive(int(self.target))

    def follow_again(self) -> None:
        """Continue the trace after `finish`, else follow from the beginning."""
        if self.is_on:
            return
        thread = self._last_thread
        if thread is None or not thread.is_resting:
            self.start()
            return
        self._thread, self.follows = thread, True
        self.metrics = replace(self.metrics, phase=FollowState.LIVE)
        thread.clock.is_paused = False
        thread.resume()
        self._emit_mode()

    def release(self) -> None:
        """Stop following at once and forget the recording."""
        if self._last_thread is not None:
            self._last_thread.abandon()
        self._thread = self._last_thread = None

    def set_seen(self, is_seen: bool) -> None:
        """Take fewer snapshots while the tab is hidden."""
        self._frames.clock.interval_s = SHOWN_S if is_seen else HIDDEN_S

    def set_follows(self, follows: bool) -> None:
        """Let the view scroll with the newest record, or stand while more come."""
        if follows:
            self.jump()
        elif self.is_on and self.follows:
            self._set_follows(False)

    def set_paused(self, is_paused: bool) -> None:
        """Let the picture stand, or catch up; polling goes on."""
        if self._thread is None or is_paused == self.is_paused:
            return
        self.is_paused = self._thread.clock.is_paused = is_paused
        self._note_anchor()
        self._emit_mode()

    def jump(self) -> None:
        """Go to the newest record and follow from there."""
        if not self.is_on:
            return
        self.set_paused(False)
        trace = self._session.trace
        if trace is not None and not self.follows:
            self._note_width(trace, self._session.viewport.visible)
        self._set_follows(True)
        visible = None if trace is None else self._followed_range(trace)
        if visible is not None:
            self._move(visible)

    # -- updates -----------------------------------------------------------

    def _send(self, thread: PollThread, update: _LiveUpdate) -> None:
        try:
            self._received.emit(thread, update)
        except RuntimeError:  # the window is gone
            thread.abandon()

    def _on_update(self, thread: PollThread, update: _LiveUpdate) -> None:
        if thread is not self._thread:
            return
        followed = self.follows and not self.is_paused
        if update.metrics.phase.is_over:
            self._thread, self.is_paused, self.follows = None, False, False
        is_other_phase = self.metrics.phase is not update.metrics.phase
        recorded_at = self.recording.place
        self.metrics = update.metrics
        if update.trace is not None:
            try:
                self._show(update.trace, update.metrics.status.restarts, followed)
            finally:
                self._frames.frame_shown()
        if self._thread is None:
            self._note_anchor()
        if is_other_phase or recorded_at != self.recording.place:
            self._emit_mode()
        else:
            self._metrics_client.request()
        if self._thread is None:
            self.ended.emit()

    def _show(self, trace: Trace, restarts: int, followed: bool) -> None:
        is_new = restarts != self._restarts or self._session.trace is None
        self._restarts = restarts
        change = TraceChange.REPLACED if is_new else TraceChange.APPENDED
        visible = self._followed_range(trace)
        stands = not followed or self._session.viewport.is_held
        if stands and not is_new:
            visible = self._session.viewport.visible
        self._is_moving = True
        try:
            self._session.set_trace(trace, change, visible)
        finally:
            self._is_moving = False
        self._note_anchor()

    # -- the view ----------------------------------------------------------

    def _followed_range(self, trace: Trace) -> TimeRange | None:
        """Return the visible range while the view follows; None = everything."""
        width = self._width
        first = FIRST_TICKS if trace.log is None else LOG_TICKS
        if not self._has_width and trace.extent.duration > first:
            width = first
        if width is None:
            return None
        end = trace.extent.end + width // _AIR
        return TimeRange(end - width, end)

    def _move(self, visible: TimeRange) -> None:
        self._is_moving = True
        try:
            self._session.viewport.set_visible(visible)
        finally:
            self._is_moving = False

    def _on_moved(self, visible: TimeRange) -> None:
        """End following where the user panned away; take the width where he zoomed."""
        trace = self._session.trace
        if self._is_moving or trace is None or not self.is_on:
            return
        # Zooming rounds.
        if visible.end + visible.duration // 1000 + 1 < trace.extent.end:
            self._set_follows(False)
        else:
            self._note_width(trace, visible)

    def _on_held(self, is_held: bool) -> None:
        """Stand while a mouse button is down; keep a range that was marked in view."""
        session, trace = self._session, self._session.trace
        self._note_anchor()
        if is_held or trace is None or not (self.is_on and self.follows):
            self._marked_before = session.ranges.marked
            return
        marked = session.ranges.marked
        if marked not in (None, self._marked_before):
            self._set_follows(False)
            return
        visible = self._followed_range(trace)
        if visible is not None and not self.is_paused:
            self._move(visible)

    def _note_width(self, trace: Trace, visible: TimeRange) -> None:
        is_all = visible.start <= trace.extent.start and visible.end >= trace.extent.end
        self._has_width, self._width = True, None if is_all else visible.duration

    def _set_follows(self, follows: bool) -> None:
        if follows != self.follows:
            self.follows = follows
            self._note_anchor()
            self._emit_mode()

    def _emit_mode(self) -> None:
        self._metrics_client.run_now()
        self.mode_changed.emit()

    def _note_anchor(self) -> None:
        """Let zooming keep the newest record in its place while the view follows."""
        trace = self._session.trace
        session = self._session
        session.viewport.anchor, session.viewport.moves_by = None, 0
        if trace is None or not (self.follows and self.is_on):
            return
        session.viewport.anchor = trace.extent.end - 1
        stands = self.is_paused or session.viewport.is_held
        # A log says what time it is only when something is written.
        is_steady = trace.clock.unit == "ns" and trace.log is None
        if not stands and self._followed_range(trace) is not None:
            session.viewport.moves_by = NANO if is_steady else 0


def bytes_of(trace: Trace) -> int:
    """Return an estimate of the memory of a trace and the panes that show it."""
    arrays = (getattr(trace.spans, column.name) for column in fields(trace.spans))
    columns = sum(array.nbytes for array in arrays if array is not None)
    return int(columns) + len(trace.spans) * WINDOW_BYTES


def ended(trace: Trace, phase: FollowState) -> Trace:
    """Return the trace as one that grows no more, with a warning why it ends."""
    warnings = trace.warnings
    if phase is FollowState.FULL:
        holds, size = record_text(trace.info), format_bytes(bytes_of(trace))
        warning = ReadWarning(
            Severity.DATA_LOSS,
            "live_full",
            f"following stopped at the memory limit, after {holds} ({size}). What "
            "the program did afterwards is not in this trace.",
            remedy="Raise the limit in the settings, or trace fewer ops.",
        )
        warnings = (warning, *warnings)
    elif phase is FollowState.STOPPED:
        warning = ReadWarning(
            Severity.INFO,
            "live_stopped",
            "following was stopped; the program may still run. What it did "
            "afterwards is not in this trace.",
        )
        warnings = (*warnings, warning)
    return replace(trace, pending=frozenset(), read_until=None, warnings=warnings)


def title_of(target: str | None, status: SourceStatus | None = None) -> str:
    """Return the title of a tab that follows a program.

    Program and start time once they are known, else the file's name or process id.
    """
    if status is not None and status.program:
        return program_title(Path(status.program).name, status.began)
    if target is None:
        return Path(status.file).name if status is not None and status.file else "live"
    return f"process {target}" if is_process(target) else Path(target).name


def program_title(name: str, began: float, options: str = "") -> str:
    """Return program and start time: "llama-server -t 2 · 14:03:05".

    Parameters
    ----------
    options : those that differ from other runs of the program.
    """
    title = f"{name} {options}" if options else name
    if not began:
        return title
    return f"{title} · {time.strftime('%H:%M:%S', time.localtime(began))}"
