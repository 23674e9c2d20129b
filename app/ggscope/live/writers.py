"""Who writes a file that is followed, and whether it still does.

A file does not say. Processes are looked at on a thread of its own: a poll never
waits.
"""

import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path

from ggscope.live.processes import Process, writers_of
from ggscope.live.source import NANO

_ALIVE_NS = NANO // 4
_LOOK_NS = (2 * NANO, 10 * NANO)
"""Between looks at all processes: in the first minute, and after it."""
_FIRST_NS = 60 * NANO
_CLOSING_S = 1.0


class Writing(Enum):
    """What is known of the process that writes a file."""

    UNKNOWN = "unknown"
    OPEN = "open"
    """It runs, and has the file open for writing."""
    CLOSED = "closed"
    """It runs, and has the file open no more."""
    GONE = "gone"
    """It runs no more."""


class WriterWatch:
    """Watches the writers of one file.

    Attributes
    ----------
    state : as of the last poll; UNKNOWN until a writer has been found.
    writer : the last one that was found; None = none has been.
    """

    def __init__(
        self, path: Path, find: Callable[[Path], tuple[Process, ...]] = writers_of
    ) -> None:
        self.path = path
        self.state = Writing.UNKNOWN
        self.writer: Process | None = None
        self._find = find
        self._began = self._looked = self._checked_at = 0
        self._look: _Look | None = None

    def poll(self, now: int, *, is_requested: bool = True) -> None:
        """Take the result of the last check, and begin the next one when it is due.

        Parameters
        ----------
        now : CLOCK_MONOTONIC, in ns.
        is_requested : whether a new check may begin.
        """
        self._began = self._began or now
        self._take()
        if self.state is Writing.OPEN and now - self._checked_at >= _ALIVE_NS:
            self._checked_at = now
            assert self.writer is not None
            if not self.writer.is_running:
                self.state = Writing.GONE
        pause = _LOOK_NS[now - self._began > _FIRST_NS]
        is_due = not self._looked or now - self._looked >= pause
        if is_requested and is_due and self._look is None:
            self._looked = now
            self._look = _Look(self.path, self._find)
            self._look.start()

    def close(self) -> None:
        """Wait for a look that has begun."""
        if self._look is not None:
            self._look.join(_CLOSING_S)

    def forget(self) -> None:
        """Begin anew: the file is another one."""
        self.state, self.writer, self._look = Writing.UNKNOWN, None, None
        self._looked = self._began = 0

    def _take(self) -> None:
        if self._look is None or self._look.is_alive():
            return
        processes, self._look = self._look.processes, None
        if processes:
            self.writer = processes[-1] if self.writer not in processes else self.writer
            self.state = Writing.OPEN
        elif self.writer is not None and self.writer.is_running:
            self.state = Writing.CLOSED
        elif self.writer is not None:
            self.state = Writing.GONE


class _Look(threading.Thread):
    """One look at all processes."""

    def __init__(self, path: Path, find: Callable[[Path], tuple[Process, ...]]) -> None:
        super().__init__(name="ggscope-writers", daemon=True)
        self._path, self._find = path, find
        self.processes: tuple[Process, ...] = ()

    def run(self) -> None:
        """Look."""
        self.processes = self._find(self._path)
