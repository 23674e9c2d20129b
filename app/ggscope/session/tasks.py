"""Background jobs: keyed, newest wins, cancellable, with progress.

A job is a frozen callable that runs on a pool thread and comes back as one value
on the main thread. Nothing in a job may touch a session, a widget or a pixmap.
Closing never waits: a worker that still runs finds nobody to report to.
"""

import itertools
import logging
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Qt, Signal

from ggscope.errors import Cancelled, TraceError

logger = logging.getLogger(__name__)

PROGRESS_SECONDS = 0.05
WORKERS = 4
NO_MEMORY = (
    "There is not enough memory for this. Close other tabs or programs, "
    "or open a part of the file only."
)

_T = TypeVar("_T")


class TaskContext:
    """What a running job may use: progress, early values, and the way out.

    All methods are called on the worker's thread.
    """

    def __init__(
        self,
        cancel: threading.Event,
        report: Callable[[int, int], None],
        publish: Callable[[object], None],
    ) -> None:
        self.cancel = cancel
        self._report = report
        self._publish = publish
        self._last = 0.0

    def progress(self, done: int, total: int) -> None:
        """Report work done of work in all (any unit), and stop here if cancelled."""
        self.check_cancelled()
        now = time.monotonic()
        if now - self._last >= PROGRESS_SECONDS or done >= total:
            self._last = now
            self._report(done, total)

    def publish(self, value: object) -> None:
        """Hand out an early value; an older one that waits is replaced."""
        self.check_cancelled()
        self._publish(value)

    def check_cancelled(self) -> None:
        """Raise Cancelled where the work is no longer wanted."""
        if self.cancel.is_set():
            raise Cancelled


Request = Callable[[TaskContext], _T]


@dataclass(frozen=True, slots=True)
class TaskState:
    """How far a job is, for the status bar.

    Attributes
    ----------
    key, title : which job; the title is for people, "" = never shown.
    done, total : work in the job's own unit; total 0 = not known.
    started : ``time.monotonic()`` of the start.
    is_running : False once it has ended, in whichever way.
    unit : "B" where `done` counts bytes, else "".
    """

    key: str
    title: str
    done: int
    total: int
    started: float
    is_running: bool = True
    unit: str = ""

    def rate(self, now: float) -> float:
        """Return the work per second since the start; 0 where unknown."""
        elapsed = now - self.started
        return self.done / elapsed if elapsed > 0 else 0.0

    def seconds_left(self, now: float) -> float | None:
        """Return an estimate of the seconds left, or None where unknown."""
        rate = self.rate(now)
        if rate <= 0 or self.total <= 0:
            return None
        return max(0.0, (self.total - self.done) / rate)


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """Why a job failed.

    Attributes
    ----------
    message : for people.
    error : the exception; a TraceError is a failure with a remedy, anything else
        a fault of the program.
    report : traceback as text, "" for a TraceError.
    """

    key: str
    title: str
    message: str
    error: BaseException
    report: str = ""


@dataclass(eq=False, slots=True)
class _Job:
    number: int
    key: str
    title: str
    unit: str
    request: Callable[[TaskContext], Any]
    on_result: Callable[[Any], None]
    on_error: Callable[[TaskFailure], None] | None
    on_publish: Callable[[Any], None] | None
    on_cancel: Callable[[], None] | None
    is_urgent: bool = False
    even_if_held: bool = False
    cancel: threading.Event = field(default_factory=threading.Event)
    started: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    early: list[object] = field(default_factory=list)

    def abandon(self) -> None:
        """Stop it and let go of everybody who waits for it.

        The worker may hold the job for a while yet: it must not be the last to
        hold a view, which only the main thread may end.
        """
        self.cancel.set()
        self.on_result = _nobody
        self.on_error = self.on_publish = self.on_cancel = None


@dataclass(frozen=True, slots=True)
class _Outcome:
    job: _Job
    value: object = None
    failure: TaskFailure | None = None


class _Post:
    """The workers' way to the main thread, until it is closed for good.

    Sending holds the lock, so no worker touches a Qt object after `close`, when
    it may be deleted at any moment.
    """

    def __init__(self, tasks: "Tasks") -> None:
        self._lock = threading.Lock()
        self._tasks: Tasks | None = tasks

    def close(self) -> None:
        """Deliver nothing any more."""
        with self._lock:
            self._tasks = None

    def progress(self, job: _Job, done: int, total: int) -> None:
        """Tell how far a job is."""
        self._send("_progressed", job, done, total)

    def early(self, job: _Job) -> None:
        """Tell that a job has an early value."""
        self._send("_published", job)

    def outcome(self, outcome: _Outcome) -> None:
        """Tell what became of a job."""
        self._send("_finished", outcome)

    def _send(self, signal: str, *payload: object) -> None:
        with self._lock:
            if self._tasks is None:
                return
            try:
                getattr(self._tasks, signal).emit(*payload)
            except RuntimeError:  # the C++ side is gone: the program is ending
                self._tasks = None


class Tasks(QObject):
    """The jobs of one session.

    One job per key runs at a time. A newer request replaces one that waits and
    cancels one that runs; results of superseded jobs are dropped.

    Jobs go in three classes: those that run at once (`is_urgent`), those that wait
    for these, and, while `hold` is on, those that wait until more of the trace is
    there (all but `even_if_held`).
    """

    task_changed = Signal(object)  # TaskState
    failed = Signal(object)  # TaskFailure without a handler of its own
    became_idle = Signal()
    urgent_done = Signal()  # nothing urgent runs any more

    _progressed = Signal(object, object, object)  # _Job, done, total
    _published = Signal(object)  # _Job
    _finished = Signal(object)  # _Outcome
    _given_up = Signal(object)  # _Job that was cancelled before it began

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool: ThreadPoolExecutor | None = None
        self._numbers = itertools.count(1)
        self._running: dict[str, _Job] = {}
        self._waiting: dict[str, _Job] = {}
        self._held: dict[str, _Job] = {}
        self._states: dict[str, TaskState] = {}
        self._is_closed = False
        self._is_holding = False
        self._post = _Post(self)
        queued = Qt.ConnectionType.QueuedConnection
        self._progressed.connect(self._on_progressed, queued)
        self._published.connect(self._on_published, queued)
        self._finished.connect(self._on_finished, queued)
        self._given_up.connect(self._on_given_up, queued)

    def run(
        self,
        key: str,
        request: Request[_T],
        on_result: Callable[[_T], None],
        *,
        title: str = "",
        unit: str = "",
        on_error: Callable[[TaskFailure], None] | None = None,
        on_publish: Callable[[Any], None] | None = None,
        on_cancel: Callable[[], None] | None = None,
        is_urgent: bool = False,
        even_if_held: bool = False,
    ) -> None:
        """Run `request` on a worker, then `on_result(value)` on the main thread.

        Parameters
        ----------
        key : jobs of one key supersede each other.
        title : shown in the status bar after 300 ms; "" = quiet.
        unit : "B" where progress counts bytes.
        on_error : receives the failure; without it `failed` is emitted.
        on_publish : receives early values, the newest only.
        on_cancel : called where `cancel` stopped the job, not where a newer
            request did.
        is_urgent : runs at once, and jobs that start later and are not urgent wait
            for it. The picture is urgent; statistics are not.
        even_if_held : does not wait for `hold` to end, only for urgent jobs: what
            is worth doing while only a part of the trace is known.
        """
        if self._is_closed:
            return
        job = _Job(
            next(self._numbers),
            key,
            title,
            unit,
            request,
            on_result,
            on_error,
            on_publish,
            on_cancel,
            is_urgent,
            even_if_held,
        )
        running = self._running.get(key)
        if running is not None:
            running.cancel.set()
            self._waiting[key] = job
        else:
            self._held.pop(key, None)
            self._start_or_hold(job)

    def hold(self, is_holding: bool) -> None:
        """Keep ordinary jobs back from now on, or let them go."""
        self._is_holding = is_holding
        self._let_go()

    @property
    def is_holding(self) -> bool:
        """Whether ordinary jobs are kept back."""
        return self._is_holding

    def forget_held(self) -> None:
        """Drop the jobs that wait: what they were about has been replaced.

        Those that are `even_if_held` stay: they are not about what is shown.
        """
        self._held = {k: j for k, j in self._held.items() if j.even_if_held}

    def cancel(self, key: str) -> None:
        """Stop the job of `key`, and forget one that waits."""
        self._waiting.pop(key, None)
        held = self._held.pop(key, None)
        if held is not None:
            self._given_up.emit(held)
        job = self._running.get(key)
        if job is not None:
            job.cancel.set()

    def cancel_all(self) -> None:
        """Stop everything."""
        for key in (*self._held, *self._running):
            self.cancel(key)

    def is_running(self, key: str) -> bool:
        """Tell whether a job of `key` runs or waits."""
        return any(key in jobs for jobs in (self._running, self._waiting, self._held))

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self._running and not self._held

    @property
    def has_urgent(self) -> bool:
        """Whether something runs that all others wait for."""
        return any(job.is_urgent for job in self._running.values())

    def states(self) -> tuple[TaskState, ...]:
        """Return the state of every running job, oldest first."""
        return tuple(self._states.values())

    def close(self) -> None:
        """Cancel all jobs, at once and for good; their threads end soon after.

        Jobs notice within 50 ms where they ask often enough. Nothing that they
        return is delivered.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._post.close()
        for jobs in (self._running, self._waiting, self._held):
            for job in jobs.values():
                job.abandon()
            jobs.clear()
        self._states.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    # -- main thread -------------------------------------------------------

    def _may_start(self, job: _Job) -> bool:
        if job.is_urgent:
            return True
        return not self.has_urgent and (job.even_if_held or not self._is_holding)

    def _start_or_hold(self, job: _Job) -> None:
        if self._may_start(job):
            self._start(job)
        else:
            self._held[job.key] = job

    def _let_go(self) -> None:
        """Start the jobs that waited and need not any more."""
        held, self._held = self._held, {}
        for job in held.values():
            self._start_or_hold(job)

    def _start(self, job: _Job) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="ggscope")
        job.started = time.monotonic()
        self._running[job.key] = job
        self._set_state(
            TaskState(job.key, job.title, 0, 0, job.started, True, job.unit)
        )
        try:
            self._pool.submit(_work, job, self._post)
        except RuntimeError as error:  # the system gives no more threads
            logger.warning("no thread for %s: %s", job.key, error)
            failure = TaskFailure(job.key, job.title, NO_MEMORY, error)
            self._finished.emit(_Outcome(job, failure=failure))

    def _set_state(self, state: TaskState) -> None:
        if state.is_running:
            self._states[state.key] = state
        else:
            self._states.pop(state.key, None)
        self.task_changed.emit(state)

    def _is_current(self, job: _Job) -> bool:
        return (
            not self._is_closed
            and self._running.get(job.key) is job
            and not job.cancel.is_set()
        )

    def _on_progressed(self, job: _Job, done: int, total: int) -> None:
        if self._is_current(job):
            self._set_state(
                TaskState(job.key, job.title, done, total, job.started, True, job.unit)
            )

    def _on_published(self, job: _Job) -> None:
        with job.lock:
            early, job.early = job.early, []
        if early and self._is_current(job) and job.on_publish is not None:
            job.on_publish(early[-1])

    def _on_finished(self, outcome: _Outcome) -> None:
        job = outcome.job
        if self._is_closed or self._running.get(job.key) is not job:
            return
        was_current = self._is_current(job)
        del self._running[job.key]
        self._set_state(
            TaskState(job.key, job.title, 0, 0, job.started, False, job.unit)
        )
        following = self._waiting.pop(job.key, None)
        if following is not None:
            self._start_or_hold(following)
        try:
            if was_current and outcome.failure is None:
                job.on_result(outcome.value)
            elif was_current and outcome.failure is not None:
                self._fail(job, outcome.failure)
            elif following is None and job.on_cancel is not None:
                job.on_cancel()
        finally:  # whatever the taker raises, the jobs that waited go on
            self._after(job)

    def _on_given_up(self, job: _Job) -> None:
        is_asked_anew = self._is_closed or self.is_running(job.key)
        if job.on_cancel is not None and not is_asked_anew:
            job.on_cancel()

    def _after(self, job: _Job) -> None:
        """Let those go on that waited for a job."""
        if job.is_urgent and not self._is_closed and not self.has_urgent:
            self.urgent_done.emit()
        if self._is_closed:  # by whoever took the result
            return
        self._let_go()
        if self.is_idle:
            self.became_idle.emit()

    def _fail(self, job: _Job, failure: TaskFailure) -> None:
        if job.on_error is not None:
            job.on_error(failure)
        else:
            self.failed.emit(failure)


# -- worker's thread -----------------------------------------------------------


def _work(job: _Job, post: _Post) -> None:
    """Run a job and tell what became of it."""

    def report(done: int, total: int) -> None:
        post.progress(job, done, total)

    def publish(value: object) -> None:
        with job.lock:
            waits = bool(job.early)
            job.early = [value]
        if not waits:
            post.early(job)

    post.outcome(_run(job, TaskContext(job.cancel, report, publish)))


def _run(job: _Job, context: TaskContext) -> _Outcome:
    """Run a job; whatever happens comes back as a value."""
    report, message = "", ""
    failure: BaseException
    try:
        context.check_cancelled()
        return _Outcome(job, job.request(context))
    except Cancelled as stop:
        job.cancel.set()
        failure = stop
    except TraceError as error:
        failure, message = error, str(error)
    except MemoryError as error:
        failure, message = error, NO_MEMORY
    except Exception as error:
        logger.exception("job %s failed", job.key)
        failure, message = error, f"{type(error).__name__}: {error}"
        report = traceback.format_exc()
    _let_go_of_frames(failure)
    return _Outcome(
        job, failure=TaskFailure(job.key, job.title, message, failure, report)
    )


def _let_go_of_frames(error: BaseException) -> None:
    """Free what the frames of a kept exception hold: it may be gigabytes."""
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link.__traceback__ = None
        link = link.__cause__ or link.__context__


def _nobody(_: object) -> None:
    """Take a result that nobody waits for."""
