"""Opening, reopening and watching the file of a session, on a worker."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from ggscope.errors import ReadError
from ggscope.model.trace import Trace
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskContext, TaskFailure

logger = logging.getLogger(__name__)

WATCH_MS = 2000
_KEY = "load"


class LoadState(Enum):
    """How far a file has come."""

    IDLE = "idle"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Read a file with the reader that fits, or with a named one."""

    path: Path
    reader_id: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, context: TaskContext) -> Trace:
        """Return the whole trace; early ones are published on the way."""
        # Readers are imported here, on the worker, not before the first window.
        from ggscope.readers.api import ReadContext
        from ggscope.readers.registry import open_trace

        reading = ReadContext(
            progress=context.progress,
            cancel=context.cancel,
            publish=context.publish,
            options=self.options,
        )
        return open_trace(self.path, reader_id=self.reader_id, context=reading)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What tells one state of a file from the next."""

    size: int
    modified_ns: int


class Loader(QObject):
    """Reads the file of one session and watches it.

    Parameters
    ----------
    is_watching : asked before the file on disk is looked at.

    Attributes
    ----------
    failure : why the last attempt failed, or None.
    """

    state_changed = Signal(object)  # LoadState
    file_changed = Signal(object)  # True: it differs from what is shown; False: not

    def __init__(
        self, session: Session, is_watching: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__(session)
        self._is_watching = is_watching
        self._session = session
        self._state = LoadState.IDLE
        self._reader_id: str | None = None
        self._options: dict[str, str] = {}
        self._stamp: _Stamp | None = None
        self._is_stale = False
        self._had_early = False
        self.failure: TaskFailure | None = None
        self._watch = QTimer(self)
        self._watch.setInterval(WATCH_MS)
        self._watch.setTimerType(Qt.TimerType.VeryCoarseTimer)
        self._watch.timeout.connect(self.check_file)
        session.reload_requested.connect(self._on_reload_requested)

    @property
    def state(self) -> LoadState:
        """How far the file has come."""
        return self._state

    @property
    def options(self) -> Mapping[str, str]:
        """Reader options of the last attempt."""
        return dict(self._options)

    @property
    def reader_id(self) -> str | None:
        """Reader that was asked for, None = the one that fits."""
        return self._reader_id

    @property
    def is_stale(self) -> bool:
        """Whether the file on disk differs from what is shown."""
        return self._is_stale

    def open(
        self, reader_id: str | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        """Read the session's file; a running attempt is given up."""
        path = self._session.path
        if path is None:
            return
        self._reader_id = reader_id
        if options is not None:
            self._options = dict(options)
        self.failure = None
        self._had_early = False
        self._stamp = _stamp(path)
        self._set_stale(False)
        self._set_state(LoadState.LOADING)
        self._session.tasks.run(
            _KEY,
            LoadRequest(path, reader_id, dict(self._options)),
            self._on_trace,
            title=self.tr("Reading {0}").format(path.name),
            unit="B",
            on_error=self._on_error,
            on_publish=self._on_early,
            on_cancel=self._on_cancelled,
        )

    def reload(self, options: Mapping[str, str] | None = None) -> None:
        """Read the file again with the same reader; options are added."""
        merged = {**self._options, **(options or {})}
        self.open(self._reader_id, {k: v for k, v in merged.items() if v})

    def cancel(self) -> None:
        """Give up reading."""
        self._session.tasks.cancel(_KEY)

    def check_file(self) -> None:
        """Compare the file with what was read; called every two seconds.

        Nothing is looked at while nobody is watching, so that a file on a slow
        network costs nothing in the background.
        """
        path = self._session.path
        if path is None or self._state is not LoadState.READY:
            return
        if not self._is_watching():
            return
        now = _stamp(path)
        self._set_stale(now is not None and now != self._stamp)

    def _on_reload_requested(self, options: object) -> None:
        self.reload(options if isinstance(options, dict) else None)

    def _on_early(self, trace: Trace) -> None:
        change = TraceChange.GREW if self._had_early else TraceChange.REPLACED
        self._had_early = True
        self._session.set_trace(trace, change)

    def _on_trace(self, trace: Trace) -> None:
        change = TraceChange.GREW if self._had_early else TraceChange.REPLACED
        self._session.set_trace(trace, change)
        self._set_state(LoadState.READY)
        self._watch.start()

    def _on_error(self, failure: TaskFailure) -> None:
        self.failure = failure
        logger.info("%s: %s", self._session.path, failure.message)
        self._set_state(LoadState.FAILED)

    def _on_cancelled(self) -> None:
        self._set_state(LoadState.CANCELLED)

    def _set_state(self, state: LoadState) -> None:
        if state is not LoadState.READY:
            self._watch.stop()
        self._state = state
        self.state_changed.emit(state)

    def _set_stale(self, is_stale: bool) -> None:
        if is_stale != self._is_stale:
            self._is_stale = is_stale
            self.file_changed.emit(is_stale)


def read_error(failure: TaskFailure | None) -> ReadError | None:
    """Return the reader's error behind a failure, or None for another fault."""
    if failure is not None and isinstance(failure.error, ReadError):
        return failure.error
    return None


def _stamp(path: Path) -> _Stamp | None:
    """Return the file's size and time, None where it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return _Stamp(status.st_size, status.st_mtime_ns)


__all__ = ["LoadRequest", "LoadState", "Loader", "read_error"]
