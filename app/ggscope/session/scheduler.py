"""The clock between a trace that grows and the screen.

One frame is in flight at a time. It begins with a snapshot, on the thread that polls,
and ends when the main thread and the urgent tasks are done with it; its cost decides
when the next one may begin. Whatever else follows the trace marks itself dirty and is
called once per interval, however often it was marked.
"""

import threading
import time
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer

from ggscope.session.tasks import Tasks

SHOWN_S, HIDDEN_S = 1 / 30, 0.5
"""Least time between snapshots, where the tab can be seen and where not."""
STATUS_S = 0.25
"""Between two texts about a program that runs: each causes a layout of the window."""
_REST_SHARE, _MAX_REST_S = 0.25, 0.05
"""Rest after a frame, as a share of its cost: the program that is followed wants the
processors too."""
_MIN_WAIT_S = 1 / 1000
_BACKGROUND_S, _MAX_BACKGROUND_S = 0.25, 10.0
_SPANS_PER_S = 1_000_000
"""What looks at all spans takes longer the more there are: a second per so many."""
_MAX_SHARE = 0.25
"""Share of the main thread that one client may take."""
_TIMER_S = 1 / 1000
"""Timers go off in whole milliseconds."""


class FrameClock:
    """Says when the next snapshot may be taken. Any thread may call it.

    Attributes
    ----------
    interval_s : least time between two snapshots.
    is_paused : no snapshot is due.
    is_dirty : whether the next snapshot would show something new.
    wake : ends `wait`.
    """

    def __init__(self) -> None:
        self.interval_s = SHOWN_S
        self.is_paused = self.is_dirty = False
        self.wake = threading.Event()
        self._began_s = self._cost_s = self._status_s = 0.0
        self._is_idle = threading.Event()
        self._is_idle.set()

    @property
    def due_s(self) -> float:
        """When the next frame may begin, by ``time.monotonic()``."""
        rest = min(self._cost_s * _REST_SHARE, _MAX_REST_S)
        return self._began_s + max(self.interval_s, self._cost_s + rest)

    def is_due(self, now: float) -> bool:
        """Return whether a snapshot is to be taken now."""
        return self._is_awaited() and now >= self.due_s

    def _is_awaited(self) -> bool:
        return self.is_dirty and not self.is_paused and self._is_idle.is_set()

    def is_status_due(self, now: float) -> bool:
        """Return whether so much time has passed since a frame or a status; note it."""
        if now - max(self._began_s, self._status_s) < STATUS_S:
            return False
        self._status_s = now
        return True

    def begin(self, now: float) -> None:
        """Begin a frame: a snapshot is on its way to the screen."""
        self.is_dirty, self._began_s = False, now
        self._is_idle.clear()

    def end(self) -> None:
        """End the frame, if there is one: it is on the screen."""
        if not self._is_idle.is_set():
            self._cost_s = time.monotonic() - self._began_s
            self._is_idle.set()
        if self.is_dirty:  # else the thread is woken for nothing
            self.wake.set()

    def wait(self, seconds: float) -> None:
        """Wait, but no longer than until the next frame may begin."""
        if self._is_awaited():
            seconds = min(seconds, max(self.due_s - time.monotonic(), _MIN_WAIT_S))
        self.wake.wait(seconds)

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no frame is in flight; return whether that is so."""
        return self._is_idle.wait(seconds)


class FrameScheduler(QObject):
    """Calls what follows a trace that grows, on the main thread, by one timer.

    Attributes
    ----------
    clock : pace of the snapshots of the program that is followed.
    is_appending : whether what is signalled now comes of such a snapshot.
    n_spans : spans of the trace that is shown.
    """

    def __init__(self, tasks: Tasks, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.clock = FrameClock()
        self.is_appending = False
        self.n_spans = 0
        self._tasks = tasks
        self._is_shown = False  # the snapshot of this frame has reached the session
        self._dirty: list[FrameClient] = []
        self._timer = QTimer(self, singleShot=True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._on_timeout)
        tasks.urgent_done.connect(self._start_timer)

    @property
    def background_s(self) -> float:
        """Seconds between two updates of what looks at all spans."""
        return min(max(_BACKGROUND_S, self.n_spans / _SPANS_PER_S), _MAX_BACKGROUND_S)

    def new_clock(self) -> FrameClock:
        """Return the clock of another thread that polls; frames are its from now on."""
        interval_s = self.clock.interval_s
        self.clock = FrameClock()
        self.clock.interval_s = interval_s
        self._is_shown = False
        return self.clock

    def frame_shown(self) -> None:
        """End the frame as soon as its picture is prepared and events are handled."""
        self._is_shown = True
        self._start_timer()

    def close(self) -> None:
        """Call nobody any more."""
        self._timer.stop()
        for client in self._dirty:
            client.due_s = None
        self._dirty.clear()

    def add(self, client: "FrameClient") -> None:
        """Call a client when it is due."""
        self._dirty.append(client)
        self._start_timer()

    def remove(self, client: "FrameClient") -> None:
        """Do not call a client."""
        self._dirty.remove(client)

    def _start_timer(self) -> None:
        dues = [c.due_s for c in self._callable() if c.due_s is not None]
        if self._is_shown and not self._tasks.has_urgent:
            dues.append(0.0)
        if dues:
            self._timer.start(max(0, int((min(dues) - time.monotonic()) * 1000)))

    def _callable(self) -> list["FrameClient"]:
        """Return the dirty clients; while a frame is in flight, not the background."""
        return [c for c in self._dirty if not (self._is_shown and c.is_background)]

    def _on_timeout(self) -> None:
        try:
            if self._is_shown and not self._tasks.has_urgent:
                self._is_shown = False
                self.clock.end()
                return  # the picture is painted before the others are called
            latest = time.monotonic() + _TIMER_S
            for client in self._callable():
                if client.is_due(latest):  # one before it may have cancelled it
                    client.run()
        finally:  # the others are called whatever one raises
            self._start_timer()


class FrameClient:
    """A call that is made at most once per interval while a trace grows.

    It waits longer where it takes more than its share of the main thread.

    Parameters
    ----------
    interval_s : None = as long as what looks at all spans has to wait.
    is_ready : whether the call makes sense now; it is asked again an interval later.
    """

    def __init__(
        self,
        scheduler: FrameScheduler,
        call: Callable[[], object],
        interval_s: float | None = None,
        is_ready: Callable[[], bool] | None = None,
    ) -> None:
        self._scheduler, self._call = scheduler, call
        self._interval_s, self._is_ready = interval_s, is_ready
        self._ran_s = self._cost_s = 0.0
        self.due_s: float | None = None
        """When it is to be called; None where nothing has changed."""

    @property
    def is_background(self) -> bool:
        """Whether pictures go before it."""
        return self._interval_s is None

    @property
    def is_dirty(self) -> bool:
        """Whether it waits for its call."""
        return self.due_s is not None

    def is_due(self, now: float) -> bool:
        """Return whether it is to be called by `now`."""
        return self.due_s is not None and self.due_s <= now

    def mark_dirty(self) -> None:
        """Call soon while a program that runs appends to the trace, else at once."""
        if self._scheduler.is_appending:
            self.request()
        else:
            self.run_now()

    def request(self) -> None:
        """Call when the interval since the last call is over."""
        if self.due_s is None:
            interval = self._interval_s or self._scheduler.background_s
            self.due_s = self._ran_s + max(interval, self._cost_s / _MAX_SHARE)
            self._scheduler.add(self)

    def cancel(self) -> None:
        """Forget what was requested."""
        if self.due_s is not None:
            self.due_s = None
            self._scheduler.remove(self)

    def run(self) -> None:
        """Call, or wait another interval where that makes no sense now."""
        if self._is_ready is None or self._is_ready():
            self.run_now()
        else:
            self.cancel()
            self._ran_s = time.monotonic()
            self.request()

    def run_now(self) -> None:
        """Call at once, and forget what was requested."""
        now = time.monotonic()
        due = now if self.due_s is None else self.due_s
        self.cancel()
        # An animation keeps its beat although each timer goes off a little late.
        self._ran_s = due if now - due < (self._interval_s or 0.0) else now
        try:
            self._call()
        finally:
            self._cost_s = time.monotonic() - now
