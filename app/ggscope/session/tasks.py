"""Background tasks: keyed, newest wins, cancellable, with progress.

A task is a frozen callable that runs on a pool thread and comes back as one value
on the main thread. Nothing in a task may touch a session, a widget or a pixmap.
Closing never waits: a worker that still runs finds nobody to report to.
"""

import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
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
        """Raise Cancelled where the result is no longer needed."""
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
    key: str
    request: Callable[[TaskContext], Any]
    on_result: Callable[[Any], None]
    title: str
    unit: str
    on_error: Callable[[TaskFailure], None] | None
    on_publish: Callable[[Any], None] | None
    on_cancel: Callable[[], None] | None
    is_urgent: bool
    even_if_held: bool
    cancel: threading.Event = field(default_factory=threading.Event)
    started: float = 0.0
    done: int = 0
    total: int = 0
    early: deque[object] = field(default_factory=lambda: deque(maxlen=1))
    value: object = None
    failure: TaskFailure | None = None

    def state(self, *, is_running: bool = True) -> TaskState:
        """Return how far it is; nothing is done any more once it has ended."""
        done, total = (self.done, self.total) if is_running else (0, 0)
        return TaskState(
            self.key, self.title, done, total, self.started, is_running, self.unit
        )

    def fail(self, error: BaseException, message: str, report: str = "") -> None:
        """Set why it failed, and free what the frames hold: it may be gigabytes."""
        self.failure = TaskFailure(self.key, self.title, message, error, report)
        link: BaseException | None = error
        while link is not None:
            traceback.clear_frames(link.__traceback__)
            link.__traceback__ = None
            link = link.__cause__ or link.__context__

    def abandon(self) -> None:
        """Stop it and let go of everybody who waits for it.

        The worker may hold the task for a while yet: it must not be the last to
        hold a view, which only the main thread may end.
        """
        self.cancel.set()
        self.on_result = _nobody
        self.on_error = self.on_publish = self.on_cancel = None


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

    def send(self, method: str, *values: object) -> None:
        """Call a method of the tasks on the main thread."""
        with self._lock:
            if self._tasks is None:
                return
            try:
                self._tasks.posted.emit(method, values)
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

    posted = Signal(str, object)  # method to call on the main thread, its arguments

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pools: dict[bool, ThreadPoolExecutor] = {}  # for urgent tasks, for others
        self._running: dict[str, _Task] = {}
        self._waiting: dict[str, _Task] = {}  # for one of their key, or for their class
        self._jobs: set[Future[None]] = set()
        self.is_closed = False
        self.is_holding = False
        self._post = _Post(self)
        self.posted.connect(self._on_posted, Qt.ConnectionType.QueuedConnection)

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
            key,
            request,
            on_result,
            title,
            unit,
            on_error,
            on_publish,
            on_cancel,
            is_urgent,
            even_if_held,
        )
        if key in self._running:
            self._running[key].cancel.set()
        self._waiting.pop(key, None)
        self._waiting[key] = task
        self._start_if_due(task)

    def hold(self, is_holding: bool) -> None:
        """Keep ordinary tasks back from now on, or let them go."""
        self.is_holding = is_holding
        self._start_waiting()

    def forget_held(self) -> None:
        """Drop the tasks that wait: what they were about has been replaced.

        Those that are `even_if_held` stay: they are not about what is shown.
        """
        self._waiting = {
            key: task
            for key, task in self._waiting.items()
            if task.even_if_held or key in self._running
        }

    def cancel(self, key: str) -> None:
        """Stop the task of `key`, and forget one that waits."""
        waiting = self._waiting.pop(key, None)
        if key in self._running:
            self._running[key].cancel.set()
        elif waiting is not None:
            self.posted.emit("_on_given_up", (waiting,))

    def is_running(self, key: str) -> bool:
        """Return whether a task of `key` runs or waits."""
        return key in self._running or key in self._waiting

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not self._running and not self._waiting

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
        return tuple(task.state() for task in self._running.values())

    def close(self) -> None:
        """Cancel all tasks, at once and for good; their threads end soon after.

        Tasks notice within 50 ms where they ask often enough. Nothing that they
        return is delivered.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._post.close()
        for tasks in (self._running, self._waiting):
            for task in tasks.values():
                task.abandon()
            tasks.clear()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools.clear()

    # -- main thread -------------------------------------------------------

    def _on_posted(self, method: str, values: tuple[Any, ...]) -> None:
        getattr(self, method)(*values)

    def _is_due(self, task: _Task) -> bool:
        if task.key in self._running or self._waiting.get(task.key) is not task:
            return False
        if task.is_urgent:
            return True
        return not self.has_urgent and (task.even_if_held or not self.is_holding)

    def _start_if_due(self, task: _Task) -> None:
        if self._is_due(task):
            del self._waiting[task.key]
            self._start(task)

    def _start_waiting(self) -> None:
        """Start the tasks that waited and need not any more."""
        for task in list(self._waiting.values()):
            self._start_if_due(task)

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
        self.task_changed.emit(task.state())
        try:
            job = pool.submit(_work, task, self._post)
        except RuntimeError as error:  # the system gives no more threads
            logger.warning("no thread for %s: %s", task.key, error)
            task.fail(error, NO_MEMORY)
            self.posted.emit("_on_finished", (task,))
            return
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    def _is_current(self, task: _Task) -> bool:
        return self._running.get(task.key) is task and not task.cancel.is_set()

    def _on_progressed(self, task: _Task, done: int, total: int) -> None:
        if self._is_current(task):
            task.done, task.total = done, total
            self.task_changed.emit(task.state())

    def _on_published(self, task: _Task) -> None:
        if task.early:  # else taken already
            value = task.early.pop()
            if self._is_current(task) and task.on_publish is not None:
                task.on_publish(value)

    def _on_finished(self, task: _Task) -> None:
        if self._running.get(task.key) is not task:
            return
        is_current = self._is_current(task)
        del self._running[task.key]
        self.task_changed.emit(task.state(is_running=False))
        following = self._waiting.get(task.key)
        if following is not None:
            self._start_if_due(following)
        try:
            if is_current and task.failure is None:
                task.on_result(task.value)
            elif is_current and task.failure is not None:
                (task.on_error or self.failed.emit)(task.failure)
            elif following is None and task.on_cancel is not None:
                task.on_cancel()
        finally:  # whatever the taker raises, the tasks that waited go on
            task.value = None
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
        self._start_waiting()
        if self.is_idle:
            self.became_idle.emit()


# -- worker's thread -----------------------------------------------------------


def _step_back() -> None:
    """Let other threads go first, and those that this one starts step back as well."""
    if sys.platform == "linux":  # elsewhere threads have no priority of this kind
        which, thread = os.PRIO_PROCESS, threading.get_native_id()
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.setpriority(which, thread, os.getpriority(which, thread) + _NICE)


def _work(task: _Task, post: _Post) -> None:
    """Run a task; whatever happens is sent to the main thread."""

    def publish(value: object) -> None:
        task.early.append(value)
        post.send("_on_published", task)

    context = TaskContext(
        task.cancel, partial(post.send, "_on_progressed", task), publish
    )
    try:
        context.check_cancelled()
        task.value = task.request(context)
    except Cancelled:
        task.cancel.set()
    except TraceError as error:
        task.fail(error, str(error))
    except MemoryError as error:
        task.fail(error, NO_MEMORY)
    except Exception as error:
        logger.exception("job %s failed", task.key)
        message = f"{type(error).__name__}: {error}"
        task.fail(error, message, traceback.format_exc())
    post.send("_on_finished", task)


def _nobody(_: object) -> None:
    """Take a result that nobody waits for."""
