"""Memory of the process: one malloc arena, and freed pages returned to the system.

Analyses make and free arrays of some ten megabytes on several threads. The C library of
Linux gives each thread a heap of its own and keeps what is free at its end for the next
one who asks, and never gives that back: after opening a run of 10 million accesses with
all panes in sight it kept 200 MB of 710. So all threads share one heap, which costs no
time that could be measured, and its free pages go back when nothing runs.

What a closed tab leaves refers to itself, and while nothing is open hardly anything
is made that would have Python look for such garbage: so it is looked for, on the main
thread only. Python's collector runs on whichever thread allocates next; if that is a
worker and the garbage holds a widget or timer, its C++ side is destroyed on the wrong
thread and the program dies. So automatic collection is off while the window lives, and
a timer collects instead; frames are not interrupted by it either.
"""

import ctypes
import gc
import sys
import threading
from collections.abc import Collection
from functools import cache
from typing import Any

from PySide6.QtCore import QObject, QTimer

from ggscope.session.tasks import Tasks

_ARENA_MAX = -8
"""``M_ARENA_MAX`` of malloc.h."""
QUIET_MS = 150
"""Rest after the last task: tasks come in groups, and each takes what is there."""
RETURNER = "ggscope-memory"
"""Name of threads that give memory back."""
PERIOD_MS = 1_000
"""So often garbage is looked for."""
CLOSED_MS = 400
"""Rest after a tab was closed: its widgets are deleted and its columns let go first."""


class MemoryReturner(QObject):
    """Timer that returns freed memory after the tasks of a session are done."""

    def __init__(self, tasks: Tasks, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tasks = tasks
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(QUIET_MS)
        self._timer.timeout.connect(self._on_quiet)
        if malloc_trim() is not None:
            tasks.became_idle.connect(self._timer.start)

    def _on_quiet(self) -> None:
        if self._tasks.is_idle:
            _give_back_aside()


class ClosedReturner(QObject):
    """Timer that collects garbage and returns memory after tabs are closed.

    Work of a tab may end later than that, where it cannot be interrupted or the machine
    is busy: what it held is given back too, once it has ended.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(CLOSED_MS)
        self._timer.timeout.connect(self._on_quiet)
        self._ending: list[Collection[object]] = []
        self._n_known = -1  # of those that were ending when memory was given back

    def start(self, jobs: Collection[object] = ()) -> None:
        """Start the timer, and once more when all `jobs` of the closed tab have ended.

        Tabs that are closed one after the other wait for the last.
        """
        self._ending.append(jobs)
        self._n_known = -1
        self._timer.start()

    def _on_quiet(self) -> None:
        self._ending = [jobs for jobs in self._ending if jobs]
        if len(self._ending) != self._n_known:
            self._n_known = len(self._ending)
            self._give_back()
        if self._ending:
            self._timer.start()

    def _give_back(self) -> None:
        from ggscope.render.text_metrics import clear_text_caches  # not at start

        # Names of the closed trace, at each width at which they were cut: 0.4 KiB each.
        clear_text_caches()
        gc.collect()  # on this thread: what goes may be a widget
        _give_back_aside()


def share_one_heap() -> None:
    """Make all threads started from now on share one malloc arena.

    Where the C library is glibc; only before the first thread of the program begins.
    """
    if malloc_trim() is not None:
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def _give_back_aside() -> None:
    """Return freed memory on a worker thread, as it takes a few milliseconds."""
    thread = threading.Thread(target=give_back, name=RETURNER)
    thread.daemon = True
    thread.start()


def give_back() -> None:
    """Return freed pages to the system, if the C library can."""
    trim = malloc_trim()
    if trim is not None:
        trim(0)


@cache
def malloc_trim() -> Any | None:  # a function of ctypes
    """Return glibc's ``malloc_trim``; None elsewhere."""
    if sys.platform != "linux":
        return None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim


class MainThreadCollector(QObject):
    """Garbage collector on the main thread, every `period_ms` until `stop`."""

    def __init__(
        self, parent: QObject | None = None, period_ms: int = PERIOD_MS
    ) -> None:
        super().__init__(parent)
        self._was_enabled = gc.isenabled()
        gc.disable()
        gc.freeze()  # what importing made so far; see gui.imports
        self._timer = QTimer(self)
        self._timer.setInterval(period_ms)
        self._timer.timeout.connect(self.collect)
        self._timer.start()

    def collect(self) -> None:
        """Collect the oldest generation whose threshold is exceeded."""
        counts, limits = gc.get_count(), gc.get_threshold()
        for generation in (2, 1, 0):
            if counts[generation] > limits[generation]:
                gc.collect(generation)
                return

    def stop(self) -> None:
        """Re-enable Python's automatic collection."""
        self._timer.stop()
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()
