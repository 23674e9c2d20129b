"""Follows a program that runs: a thread listens, the session shows what it status.

The thread makes a snapshot at most thirty times a second, no sooner than the one before
is on the screen and the processor has had a rest, and fewer where nobody looks. Reading
goes on whatever the picture does: a ring that is not emptied loses records.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal

from ggscope.errors import LiveError
from ggscope.live.metrics import Rates
from ggscope.live.open_source import follow, is_process, waiting_words, wanted_path
from ggscope.live.options import OPTIONS
from ggscope.live.processes import is_alive
from ggscope.live.source import NANO, LiveSource, RecordingLocation, SourceStatus, State
from ggscope.model.record_kinds import record_words
from ggscope.model.selection import MarkedRange
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import TimeRange, format_bytes
from ggscope.readers.memory import asked_limit, available_bytes
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
"""So much is shown before the view begins to move: 2 s."""
_QUICK_S, _MANY_S, _SLOW_S, _LOOK_S = 1 / 60, 1 / 30, 1 / 10, 0.25
"""Between polls: while there is news, and where there is much and room for it; after
half a second without; and before there is anything to poll."""
_MUCH, _FULL = 4096, 0.25
"""Records in a poll that are much: each poll has its own costs, whatever it brings. And
the share of a ring's room that it may fill in such a time."""
_QUIET_S, _NOBODY_S = 0.5, 1.0
_RATE_S = 1.0
_AIR = 20
"""One part in so many of the view lies behind now."""


class FollowState(Enum):
    """How it stands with a program that is followed."""

    WAITING = "waiting"
    LIVE = "live"
    ENDED = "ended"
    KILLED = "killed"
    STOPPED = "detached"
    """A person has ended following; the program may go on."""
    NO_WRITER = "writer gone"
    FULL = "stopped: memory limit"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
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
    """What the window shows of a program that is followed."""

    phase: FollowState = FollowState.WAITING
    status: SourceStatus = field(default_factory=SourceStatus)
    rates: Rates = field(default_factory=Rates)


@dataclass(frozen=True, slots=True, eq=False)
class _LiveUpdate:
    metrics: LiveMetrics
    trace: Trace | None = None


class PollThread(threading.Thread):
    """Polls one source until it is over, or until it is told to stop.

    Parameters
    ----------
    wanted : see `live.open_source.wanted_path`; looked for until it is there.
    send : takes news; called on this thread.
    clock : says when a snapshot is due.
    limit_bytes : memory that the trace may take; 0 = what the system has to give.
    """

    def __init__(
        self,
        wanted: str | None,
        send: Callable[[_LiveUpdate], None],
        clock: FrameClock,
        limit_bytes: int = 0,
    ) -> None:
        super().__init__(name="ggscope-live")
        self._wanted, self._send, self.clock = wanted, send, clock
        self._limit = asked_limit(limit_bytes)
        self._source: LiveSource | None = None
        self._end = threading.Event()
        self._is_abandoned = self._has_closed = False
        self._is_resting = False
        self._lock = threading.Lock()
        self._news_at = self._checked_at = 0.0
        self._n_known = 0
        self._past: deque[tuple[float, int, int, tuple[int, bool]]] = deque()
        self._told = LiveMetrics()

    def finish(self) -> None:
        """Stop polling; the last update is all that was read until `resume`."""
        self._end.set()
        self.clock.wake.set()

    @property
    def is_resting(self) -> bool:
        """Whether it has been finished, and can go on with what it had status."""
        return self._is_resting

    def resume(self) -> None:
        """Go on where `finish` ended; what came meanwhile is read, or was lost."""
        self._end.clear()
        self._is_resting = False
        self.clock.wake.set()

    def abandon(self) -> None:
        """Stop listening; nobody wants to know any more, nor what was kept."""
        with self._lock:
            self._is_abandoned = True
            has_closed = self._has_closed
        self._end.set()
        self.clock.wake.set()
        if has_closed and self._source is not None:
            self._source.forget()

    def run(self) -> None:
        """Listen."""
        try:
            self._listen()
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

    def _listen(self) -> None:
        # A window that went without a word must not leave a program that listens on.
        while threading.main_thread().is_alive():
            if self._is_abandoned:
                return
            now = time.monotonic()
            source = self._source or self._find()
            if source is None:
                if self._end.is_set():
                    self._last(None, FollowState.STOPPED)
                    return
                message = waiting_words(self._wanted)
                self._tell(now, LiveMetrics(status=SourceStatus(message=message)))
                self._rest(_LOOK_S)
                continue
            if source.poll():
                self.clock.is_dirty, self._news_at = True, now
            metrics = self._metrics(now, source.status())
            if metrics.phase.is_over or self._end.is_set():
                phase = metrics.phase if metrics.phase.is_over else FollowState.STOPPED
                if (
                    metrics.phase is FollowState.NO_WRITER
                ):  # there was nothing left to stop
                    phase = FollowState.ENDED
                if phase is not FollowState.STOPPED:
                    self._last(source, phase)
                    return
                source.rest()
                self._is_resting = True
                self._last(source, phase)
                self._wait_for_more()
                continue
            if self.clock.is_due(now) and not self._show(source, metrics, now):
                return
            self._tell(now, metrics)
            self._rest(self._until_next(now, metrics))

    def _wait_for_more(self) -> None:
        """Rest until it is to go on, or nobody wants to know any more."""
        while self._is_resting and not self._is_abandoned:
            self.clock.wake.wait(_NOBODY_S)
            self.clock.wake.clear()
            if not threading.main_thread().is_alive():
                return
        self._past.clear()
        self.clock.is_dirty = True

    def _until_next(self, now: float, metrics: LiveMetrics) -> float:
        """Return the seconds until the next poll, where nothing is to be shown."""
        if metrics.phase is FollowState.WAITING:
            return _LOOK_S
        if OPTIONS.poll_s:  # a ring loses records where it is not emptied
            return min(OPTIONS.poll_s, _SLOW_S if metrics.status.lost >= 0 else 60.0)
        if now - self._news_at >= _QUIET_S:
            return _SLOW_S
        n_new = metrics.status.records - self._n_known
        self._n_known = metrics.status.records
        return _MANY_S if n_new >= _MUCH and metrics.status.fill < _FULL else _QUICK_S

    def _rest(self, seconds: float) -> None:
        """Wait, but no longer than until what is known can be shown."""
        self.clock.wait(seconds)
        if not self._end.is_set():
            self.clock.wake.clear()

    def _find(self) -> LiveSource | None:
        path = wanted_path(self._wanted)
        if path is not None:
            self._source = follow(path)
        return self._source

    def _show(self, source: LiveSource, metrics: LiveMetrics, now: float) -> bool:
        """Send a snapshot; False where that was the last for which there is room."""
        trace = source.snapshot()
        if now - self._checked_at >= 1:
            self._checked_at = now
            if self._is_full(trace):
                self._last(source, FollowState.FULL)
                return False
        self._told = metrics
        self.clock.begin(now)
        self._give(_LiveUpdate(metrics, trace))
        return True

    def _is_full(self, trace: Trace) -> bool:
        if self._limit:
            return bytes_of(trace) >= self._limit
        return available_bytes() <= 0

    def _last(self, source: LiveSource | None, phase: FollowState) -> None:
        """Send all that was read; the trace is an ordinary one then."""
        status = SourceStatus() if source is None else source.status()
        trace = None
        if source is not None and (status.records or phase is not FollowState.STOPPED):
            trace = ended(source.snapshot(), phase)
        while not (self._is_abandoned or self.clock.wait_idle(_QUICK_S)):
            pass
        self._give(_LiveUpdate(LiveMetrics(phase, status), trace))

    def _fail(self, message: str) -> None:
        status = SourceStatus() if self._source is None else self._source.status()
        self._give(
            _LiveUpdate(
                LiveMetrics(FollowState.FAILED, replace(status, message=message))
            )
        )

    def _give(self, news: _LiveUpdate) -> None:
        if not self._is_abandoned:
            self._send(news)

    def _tell(self, now: float, metrics: LiveMetrics) -> None:
        if metrics != self._told and self.clock.is_status_due(now):
            self._told = metrics
            self._give(_LiveUpdate(metrics))

    def _metrics(self, now: float, status: SourceStatus) -> LiveMetrics:
        """Return the metrics of the last second."""
        past = self._past
        if past and (past[-1][1] > status.records or past[-1][2] > status.tokens):
            past.clear()  # another program
        if past and status.backlog > past[0][1]:
            past.clear()  # what was there before has no rate
        lag_now = status.lag_ns, status.is_least_lag
        past.append((now, status.records, status.tokens, lag_now))
        while len(past) > 2 and now - past[1][0] >= _RATE_S:
            past.popleft()
        then, records, tokens, _ = past[0]
        took = now - then
        lag = max(lag for _, _, _, lag in past)
        phase = _PHASES[status.state]
        if took < _RATE_S / 2:
            return LiveMetrics(phase, status, Rates(-1.0, -1.0, *lag))
        tokens_per_s = -1.0
        if status.tokens >= 0:
            tokens_per_s = (status.tokens - max(tokens, 0)) / took
        records_per_s = (status.records - records) / took
        return LiveMetrics(phase, status, Rates(records_per_s, tokens_per_s, *lag))


class LiveSession(QObject):
    """Shows in a session what a program does while it runs.

    Signals
    -------
    changed : the figures, or what `mode_changed` tells.
    mode_changed : the phase, or whether the view follows or is paused.
    ended : nothing more will come; the trace, if there is one, is an ordinary one.
    """

    changed = Signal()
    mode_changed = Signal()
    ended = Signal()
    _came = Signal(object, object)  # Listener, _News

    def __init__(
        self, session: Session, wanted: str | None, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self.wanted = session, wanted
        session.follower = self
        self.limit_bytes = 0
        self.metrics = LiveMetrics()
        self.follows = True
        """Whether the view moves with now."""
        self.is_paused = False
        """Whether the picture stands still while reading goes on."""
        self._listener: PollThread | None = None
        self._keeping: PollThread | None = None
        """Has what was recorded, also when it listens no longer."""
        self._restarts = -1
        self._width: int | None = None
        self._has_width = False
        """Whether a person has chosen how much is shown; `_width` None = everything."""
        self._is_own = False
        self._marked_before: MarkedRange | None = None
        self._frames = session.frames
        self._metrics_client = FrameClient(self._frames, self.changed.emit, STATUS_S)
        self._came.connect(self._on_news, Qt.ConnectionType.QueuedConnection)
        session.visible_range_changed.connect(self._on_moved)
        session.held_changed.connect(self._on_held)

    @property
    def is_on(self) -> bool:
        """Whether there may be more."""
        return self._listener is not None

    @property
    def kept(self) -> RecordingLocation:
        """Where all that was read can be saved from."""
        return self.metrics.status.kept

    @property
    def n_unseen(self) -> int:
        """How many records were read that the session's trace has not."""
        trace, n_read = self._session.trace, self.metrics.status.records
        return 0 if trace is None else max(n_read - trace.info.n_records, 0)

    def start(self) -> None:
        """Listen from the beginning."""
        self.release()
        self.metrics, self._restarts, self.follows = LiveMetrics(), -1, True
        self.is_paused = self._has_width = False
        self._width = None
        listener = self._listener = self._keeping = PollThread(
            self.wanted,
            lambda news: self._send(listener, news),
            self._frames.new_clock(),
            self.limit_bytes,
        )
        listener.start()
        self._tell_mode()

    def finish(self) -> None:
        """Stop following and keep what was read; see `follow_again`."""
        if self._listener is not None:
            self._listener.finish()

    @property
    def can_follow_again(self) -> bool:
        """Whether it listens no more, and there may be something to hear.

        The number of a process that has ended stands for nothing any more.
        """
        if self.is_on or self._keeping is None:
            return False
        if self._keeping.is_resting:
            return True
        if self.wanted is None or not is_process(self.wanted):
            return True
        return is_alive(int(self.wanted))

    def follow_again(self) -> None:
        """Go on after `finish` with what was read, else follow from the beginning."""
        if self.is_on:
            return
        listener = self._keeping
        if listener is None or not listener.is_resting:
            self.start()
            return
        self._listener, self.follows = listener, True
        self.metrics = replace(self.metrics, phase=FollowState.LIVE)
        listener.clock.is_paused = False
        listener.resume()
        self._tell_mode()

    def release(self) -> None:
        """Stop listening at once; what comes now is of no use."""
        if self._keeping is not None:
            self._keeping.abandon()
        self._listener = self._keeping = None

    def set_seen(self, is_seen: bool) -> None:
        """Make fewer snapshots while nobody looks."""
        self._frames.clock.interval_s = SHOWN_S if is_seen else HIDDEN_S

    def set_follows(self, follows: bool) -> None:
        """Let the view move with now, or stand while the trace grows."""
        if follows:
            self.jump()
        elif self.is_on and self.follows:
            self._set_follows(False)

    def set_paused(self, is_paused: bool) -> None:
        """Let the whole picture stand still, or catch up; reading goes on."""
        if self._listener is None or is_paused == self.is_paused:
            return
        self.is_paused = self._listener.clock.is_paused = is_paused
        self._note_anchor()
        self._tell_mode()

    def jump(self) -> None:
        """Go to now and follow from there."""
        if not self.is_on:
            return
        self.set_paused(False)
        trace = self._session.trace
        if trace is not None and not self.follows:
            self._note_width(trace, self._session.visible_range)
        self._set_follows(True)
        wanted = None if trace is None else self._range_of(trace)
        if wanted is not None:
            self._move(wanted)

    # -- what comes --------------------------------------------------------

    def _send(self, listener: PollThread, news: _LiveUpdate) -> None:
        try:
            self._came.emit(listener, news)
        except RuntimeError:  # the window is gone
            listener.abandon()

    def _on_news(self, listener: PollThread, news: _LiveUpdate) -> None:
        if listener is not self._listener:
            return
        followed = self.follows and not self.is_paused
        if news.metrics.phase.is_over:
            self._listener, self.is_paused, self.follows = None, False, False
        is_other_phase = self.metrics.phase is not news.metrics.phase
        had_kept = self.kept.place
        self.metrics = news.metrics
        if news.trace is not None:
            try:
                self._show(news.trace, news.metrics.status.restarts, followed)
            finally:
                self._frames.frame_shown()
        if self._listener is None:
            self._note_anchor()
        if is_other_phase or had_kept != self.kept.place:
            self._tell_mode()
        else:
            self._metrics_client.request()
        if self._listener is None:
            self.ended.emit()

    def _show(self, trace: Trace, restarts: int, followed: bool) -> None:
        is_new = restarts != self._restarts or self._session.trace is None
        self._restarts = restarts
        change = TraceChange.REPLACED if is_new else TraceChange.APPENDED
        wanted = self._range_of(trace)
        stands = not followed or self._session.is_held
        if stands and not is_new:
            wanted = self._session.visible_range
        self._is_own = True
        try:
            self._session.set_trace(trace, change, wanted)
        finally:
            self._is_own = False
        self._note_anchor()

    # -- the view ----------------------------------------------------------

    def _range_of(self, trace: Trace) -> TimeRange | None:
        """Return what is to be seen while the view follows; None = everything."""
        width = self._width
        if not self._has_width and trace.extent.duration > FIRST_TICKS:
            width = FIRST_TICKS
        if width is None:
            return None
        end = trace.extent.end + width // _AIR
        return TimeRange(end - width, end)

    def _move(self, wanted: TimeRange) -> None:
        self._is_own = True
        try:
            self._session.set_visible(wanted)
        finally:
            self._is_own = False

    def _on_moved(self, visible: TimeRange) -> None:
        """Take what a person did: panning away ends following, zooming does not."""
        trace = self._session.trace
        if self._is_own or trace is None or not self.is_on:
            return
        # Zooming rounds.
        if visible.end + visible.duration // 1000 + 1 < trace.extent.end:
            self._set_follows(False)
        else:
            self._note_width(trace, visible)

    def _on_held(self, is_held: bool) -> None:
        """Stand while a mouse button is down; a range that it marked stays in view."""
        session, trace = self._session, self._session.trace
        self._note_anchor()
        if is_held or trace is None or not (self.is_on and self.follows):
            self._marked_before = session.marked_range
            return
        marked = session.marked_range
        if marked not in (None, self._marked_before):
            self._set_follows(False)
            return
        wanted = self._range_of(trace)
        if wanted is not None and not self.is_paused:
            self._move(wanted)

    def _note_width(self, trace: Trace, visible: TimeRange) -> None:
        is_all = visible.start <= trace.extent.start and visible.end >= trace.extent.end
        self._has_width, self._width = True, None if is_all else visible.duration

    def _set_follows(self, follows: bool) -> None:
        if follows != self.follows:
            self.follows = follows
            self._note_anchor()
            self._tell_mode()

    def _tell_mode(self) -> None:
        self._metrics_client.run_now()
        self.mode_changed.emit()

    def _note_anchor(self) -> None:
        """Let zooming keep now where it is while the view follows."""
        trace = self._session.trace
        session = self._session
        session.anchor, session.moves_by = None, 0
        if trace is None or not (self.follows and self.is_on):
            return
        session.anchor = trace.extent.end - 1
        stands = self.is_paused or session.is_held
        if not stands and self._range_of(trace) is not None:
            session.moves_by = NANO if trace.clock.unit == "ns" else 0


def bytes_of(trace: Trace) -> int:
    """Return the memory that a trace and the panes that show it take, about."""
    arrays = (getattr(trace.spans, column.name) for column in fields(trace.spans))
    columns = sum(array.nbytes for array in arrays if array is not None)
    return int(columns) + len(trace.spans) * WINDOW_BYTES


def ended(trace: Trace, phase: FollowState) -> Trace:
    """Return the trace as an ordinary one, which says why it ends where it ends."""
    warnings = trace.warnings
    if phase is FollowState.FULL:
        holds, size = record_words(trace.info), format_bytes(bytes_of(trace))
        told = ReadWarning(
            Severity.DATA_LOSS,
            "live_full",
            f"following stopped at the memory limit, after {holds} ({size}). What "
            "the program did afterwards is not in this trace.",
            remedy="Raise the limit in the settings, or trace fewer ops.",
        )
        warnings = (told, *warnings)
    elif phase is FollowState.STOPPED:
        told = ReadWarning(
            Severity.INFO,
            "live_stopped",
            "following was stopped while the program may have gone on. What it did "
            "afterwards is not in this trace.",
        )
        warnings = (*warnings, told)
    return replace(trace, pending=frozenset(), read_until=None, warnings=warnings)


def title_of(wanted: str | None, status: SourceStatus | None = None) -> str:
    """Return what a tab that follows is called.

    The program and when it began, once it has told; else the file's name, or the
    number of the process.
    """
    if status is not None and status.program:
        return program_title(Path(status.program).name, status.began)
    if wanted is None:
        return Path(status.file).name if status is not None and status.file else "live"
    return f"process {wanted}" if is_process(wanted) else Path(wanted).name


def program_title(name: str, began: float, options: str = "") -> str:
    """Return "llama-server -t 2 · 14:03:05": a program and when it began.

    Parameters
    ----------
    options : those that tell it from other runs of the program.
    """
    named = f"{name} {options}" if options else name
    if not began:
        return named
    return f"{named} · {time.strftime('%H:%M:%S', time.localtime(began))}"
