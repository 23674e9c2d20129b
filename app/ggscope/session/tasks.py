"""Background tasks: keyed, newest wins, cancellable, with progress.

A task is a frozen callable that runs on a pool thread and comes back as one value
on the main thread. Nothing in a task may touch a session, a widget or a pixmap.
Closing never waits: a worker that still runs finds nobody to report to.
"""

import contextlib
import itertools
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Qt, Signal

from ggscope.errors import Cancelled, TraceError

logger = logging.getLogger(__name__)

PROGRESS_SECONDS = 0.05
WORKERS = 4
_NICE = 5
"""Where both want a core, the window goes before work that nobody waits for: with two
cores it waited a third of its longest turns for one. Not more, since other programs go
before that work as well."""
NO_MEMORY = (
    "Not enough memory. Close other tabs or programs, or open only a part of the file."
)

_T = TypeVar("_T")


class TaskContext:
    """What a running task may use: progress, early values, and the way out.

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
    """How far a task is, for the status bar.

    Attributes
    ----------
    key, title : which task; the title is for people, "" = never shown.
    done, total : work in the task's own unit; total 0 = not known.
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
    """Why a task failed.

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
class _Task:
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

        The worker may hold the task for a while yet: it must not be the last to
        hold a view, which only the main thread may end.
        """
        self.cancel.set()
        self.on_result = _nobody
        self.on_error = self.on_publish = self.on_cancel = None


@dataclass(frozen=True, slots=True)
class _Outcome:
    task: _Task
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

    def progress(self, task: _Task, done: int, total: int) -> None:
        """Report how far a task is."""
        self._send("_progressed", task, done, total)

    def early(self, task: _Task) -> None:
        """Report that a task has an early value."""
        self._send("_published", task)

    def outcome(self, outcome: _Outcome) -> None:
        """Report what became of a task."""
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
    """The tasks of one session.

    One task per key runs at a time. A newer request replaces one that waits and
    cancels one that runs; results of superseded tasks are dropped.

    Tasks go in three classes: those that run at once (`is_urgent`), those that wait
    for these, and, while `hold` is on, those that wait until more of the trace is
    there (all but `even_if_held`).
    """

    task_changed = Signal(object)  # TaskState
    failed = Signal(object)  # TaskFailure without a handler of its own
    became_idle = Signal()
    urgent_done = Signal()  # nothing urgent runs any more

    _progressed = Signal(object, object, object)  # _Task, done, total
    _published = Signal(object)  # _Task
    _finished = Signal(object)  # _Outcome
    _given_up = Signal(object)  # _Task that was cancelled before it began

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pools: dict[bool, ThreadPoolExecutor] = {}  # for urgent tasks, for others
        self._numbers = itertools.count(1)
        self._running: dict[str, _Task] = {}
        self._waiting: dict[str, _Task] = {}
        self._held: dict[str, _Task] = {}
        self._states: dict[str, TaskState] = {}
        self._jobs: set[Future[None]] = set()
        self.is_closed = False
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
        key : tasks of one key supersede each other.
        title : shown in the status bar after 300 ms; "" = quiet.
        unit : "B" where progress counts bytes.
        on_error : receives the failure; without it `failed` is emitted.
        on_publish : receives early values, the newest only.
        on_cancel : called where `cancel` stopped the task, not where a newer
            request did.
        is_urgent : runs at once, and tasks that start later and are not urgent wait
            for it. The picture is urgent; statistics are not.
        even_if_held : does not wait for `hold` to end, only for urgent tasks: what
            is worth doing while only a part of the trace is known.
        """
        if self.is_closed:
            return
        task = _Task(
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
            self._waiting[key] = task
        else:
            self._held.pop(key, None)
            self._start_or_hold(task)

    def hold(self, is_holding: bool) -> None:
        """Keep ordinary tasks back from now on, or let them go."""
        self._is_holding = is_holding
        self._let_go()

    @property
    def is_holding(self) -> bool:
        """Whether ordinary tasks are kept back."""
        return self._is_holding

    def forget_held(self) -> None:
        """Drop the tasks that wait: what they were about has been replaced.

        Those that are `even_if_held` stay: they are not about what is shown.
        """
        self._held = {k: j for k, j in self._held.items() if j.even_if_held}

    def cancel(self, key: str) -> None:
        """Stop the task of `key`, and forget one that waits."""
        self._waiting.pop(key, None)
        held = self._held.pop(key, None)
        if held is not None:
            self._given_up.emit(held)
        task = self._running.get(key)
        if task is not None:
            task.cancel.set()

    def is_running(self, key: str) -> bool:
        """Return whether a task of `key` runs or waits."""
        return any(key in tasks for tasks in (self._running, self._waiting, self._held))

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self._running and not self._held

    @property
    def jobs(self) -> Collection["Future[None]"]:
        """What workers have not ended, also after `close`; it empties by itself."""
        return self._jobs

    @property
    def has_urgent(self) -> bool:
        """Whether something runs that all others wait for."""
        return any(task.is_urgent for task in self._running.values())

    def states(self) -> tuple[TaskState, ...]:
        """Return the state of every running task, oldest first."""
        return tuple(self._states.values())

    def close(self) -> None:
        """Cancel all tasks, at once and for good; their threads end soon after.

        Tasks notice within 50 ms where they ask often enough. Nothing that they
        return is delivered.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._post.close()
        for tasks in (self._running, self._waiting, self._held):
            for task in tasks.values():
                task.abandon()
            tasks.clear()
        self._states.clear()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools.clear()

    # -- main thread -------------------------------------------------------

    def _may_start(self, task: _Task) -> bool:
        if task.is_urgent:
            return True
        return not self.has_urgent and (task.even_if_held or not self._is_holding)

    def _start_or_hold(self, task: _Task) -> None:
        if self._may_start(task):
            self._start(task)
        else:
            self._held[task.key] = task

    def _let_go(self) -> None:
        """Start the tasks that waited and need not any more."""
        held, self._held = self._held, {}
        for task in held.values():
            self._start_or_hold(task)

    def _start(self, task: _Task) -> None:
        pool = self._pools.get(task.is_urgent)
        if pool is None:
            pool = self._pools[task.is_urgent] = ThreadPoolExecutor(
                WORKERS,
                thread_name_prefix="ggscope",
                initializer=None if task.is_urgent else _step_back,
            )
        task.started = time.monotonic()
        self._running[task.key] = task
        self._set_state(
            TaskState(task.key, task.title, 0, 0, task.started, True, task.unit)
        )
        try:
            job = pool.submit(_work, task, self._post)
        except RuntimeError as error:  # the system gives no more threads
            logger.warning("no thread for %s: %s", task.key, error)
            failure = TaskFailure(task.key, task.title, NO_MEMORY, error)
            self._finished.emit(_Outcome(task, failure=failure))
            return
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    def _set_state(self, state: TaskState) -> None:
        if state.is_running:
            self._states[state.key] = state
        else:
            self._states.pop(state.key, None)
        self.task_changed.emit(state)

    def _is_current(self, task: _Task) -> bool:
        return (
            not self.is_closed
            and self._running.get(task.key) is task
            and not task.cancel.is_set()
        )

    def _on_progressed(self, task: _Task, done: int, total: int) -> None:
        if self._is_current(task):
            self._set_state(
                TaskState(
                    task.key, task.title, done, total, task.started, True, task.unit
                )
            )

    def _on_published(self, task: _Task) -> None:
        with task.lock:
            early, task.early = task.early, []
        if early and self._is_current(task) and task.on_publish is not None:
            task.on_publish(early[-1])

    def _on_finished(self, outcome: _Outcome) -> None:
        task = outcome.task
        if self.is_closed or self._running.get(task.key) is not task:
            return
        was_current = self._is_current(task)
        del self._running[task.key]
        self._set_state(
            TaskState(task.key, task.title, 0, 0, task.started, False, task.unit)
        )
        following = self._waiting.pop(task.key, None)
        if following is not None:
            self._start_or_hold(following)
        try:
            if was_current and outcome.failure is None:
                task.on_result(outcome.value)
            elif was_current and outcome.failure is not None:
                self._fail(task, outcome.failure)
            elif following is None and task.on_cancel is not None:
                task.on_cancel()
        finally:  # whatever the taker raises, the tasks that waited go on
            self._after(task)

    def _on_given_up(self, task: _Task) -> None:
        is_asked_anew = self.is_closed or self.is_running(task.key)
        if task.on_cancel is not None and not is_asked_anew:
            task.on_cancel()

    def _after(self, task: _Task) -> None:
        """Let those go on that waited for a task."""
        if task.is_urgent and not self.is_closed and not self.has_urgent:
            self.urgent_done.emit()
        if self.is_closed:  # by whoever took the result
            return
        self._let_go()
        if self.is_idle:
            self.became_idle.emit()

    def _fail(self, task: _Task, failure: TaskFailure) -> None:
        if task.on_error is not None:
            task.on_error(failure)
        else:
            self.failed.emit(failure)


# -- worker's thread -----------------------------------------------------------


def _step_back() -> None:
    """Let other threads go first, and those that this one starts step back as well."""
    if sys.platform == "linux":  # elsewhere threads have no priority of this kind
        which, thread = os.PRIO_PROCESS, threading.get_native_id()
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.setpriority(which, thread, os.getpriority(which, thread) + _NICE)


def _work(task: _Task, post: _Post) -> None:
    """Run a task and report what became of it."""

    def report(done: int, total: int) -> None:
        post.progress(task, done, total)

    def publish(value: object) -> None:
        with task.lock:
            waits = bool(task.early)
            task.early = [value]
        if not waits:
            post.early(task)

    post.outcome(_run(task, TaskContext(task.cancel, report, publish)))


def _run(task: _Task, context: TaskContext) -> _Outcome:
    """Run a task; whatever happens comes back as a value."""
    report, message = "", ""
    failure: BaseException
    try:
        context.check_cancelled()
        return _Outcome(task, task.request(context))
    except Cancelled as stop:
        task.cancel.set()
        failure = stop
    except TraceError as error:
        failure, message = error, str(error)
    except MemoryError as error:
        failure, message = error, NO_MEMORY
    except Exception as error:
        logger.exception("job %s failed", task.key)
        failure, message = error, f"{type(error).__name__}: {error}"
        report = traceback.format_exc()
    _let_go_of_frames(failure)
    return _Outcome(
        task, failure=TaskFailure(task.key, task.title, message, failure, report)
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
