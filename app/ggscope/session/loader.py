"""Opening, reopening and watching the file of a session, on a worker."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from ggscope.errors import ReadError, TooLargeError
from ggscope.model.trace import Trace
from ggscope.session.kept import kept_of_failed, kept_of_stopped
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskContext, TaskFailure

if TYPE_CHECKING:
    from ggscope.readers.api import Estimate

logger = logging.getLogger(__name__)

WATCH_MS = 2000
WINDOW_BYTES = 32
"""What the panes keep of each record, beside the trace itself."""
_KEY = "load"


class LoadState(Enum):
    """How far a file has come.

    STOPPED and CANCELLED : a person ended the reading, and what had been read is
    shown, or nothing new is. TOO_LARGE : nothing was read, because it would not
    fit into memory.
    """

    IDLE = "idle"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    TOO_LARGE = "too large"


_SHOWN = (LoadState.READY, LoadState.STOPPED)


@dataclass(slots=True)
class Outlook:
    """What is known of a file before it is read; filled in on the worker.

    Attributes
    ----------
    estimate : what reading would cost, None where the reader cannot tell.
    """

    estimate: "Estimate | None" = None

    @property
    def n_records(self) -> int:
        """How many records the file holds, about; 0 = not known."""
        return 0 if self.estimate is None else self.estimate.records


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Read a file with the reader that fits, or with a named one.

    Attributes
    ----------
    limit_bytes : memory that reading may use; 0 = what the system has to give.
    is_forced : read it whether it fits into memory or not.
    outlook : where to put the estimate.
    """

    path: Path
    reader_id: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    limit_bytes: int = 0
    is_forced: bool = False
    outlook: Outlook = field(default_factory=Outlook)

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
        return open_trace(
            self.path,
            reader_id=self.reader_id,
            context=reading,
            admit=self._admit,
        )

    def _admit(self, estimate: "Estimate") -> None:
        """Refuse a file that would not fit, unless the person wants it all the same."""
        from ggscope.readers.room import judge, too_large

        self.outlook.estimate = estimate
        if self.is_forced:
            return
        fit = judge(
            estimate,
            self.options,
            limit_bytes=self.limit_bytes,
            extra_per_record=WINDOW_BYTES,
        )
        if not fit.fits:
            raise too_large(fit, self.path)


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
    limit_bytes : memory that reading may use; 0 = what the system has to give.
    """

    state_changed = Signal(object)  # LoadState
    shown = Signal()  # the first snapshot of an attempt is in the session
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
        self._is_forced = False
        self._outlook = Outlook()
        self._early: Trace | None = None
        self._next: tuple[Trace, bool] | None = None
        self._has_picture = False
        self.failure: TaskFailure | None = None
        self.limit_bytes = 0
        self._watch = QTimer(self)
        self._watch.setInterval(WATCH_MS)
        self._watch.setTimerType(Qt.TimerType.VeryCoarseTimer)
        self._watch.timeout.connect(self.check_file)
        session.reload_requested.connect(self._on_reload_requested)
        session.tasks.urgent_done.connect(self._on_urgent_done)

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

    @property
    def n_records(self) -> int:
        """How many records the file holds, about; 0 = not known."""
        return self._outlook.n_records

    def open(
        self,
        reader_id: str | None = None,
        options: Mapping[str, str] | None = None,
        *,
        is_forced: bool = False,
    ) -> None:
        """Read the session's file; a running attempt is given up.

        With `is_forced` it is read even where it will hardly fit into memory, now
        and whenever it is reloaded.
        """
        self._is_forced = is_forced
        self._open(reader_id, options)

    def _open(self, reader_id: str | None, options: Mapping[str, str] | None) -> None:
        path = self._session.path
        if path is None:
            return
        self._reader_id = reader_id
        if options is not None:
            self._options = dict(options)
        self.failure = None
        self._early = self._next = None
        self._has_picture = False
        self._outlook = Outlook()
        self._stamp = _stamp(path)
        self._set_stale(False)
        self._set_state(LoadState.LOADING)
        self._session.tasks.run(
            _KEY,
            LoadRequest(
                path,
                reader_id,
                dict(self._options),
                self.limit_bytes,
                self._is_forced,
                self._outlook,
            ),
            self._on_trace,
            title=self.tr("Reading {0}").format(path.name),
            unit="B",
            on_error=self._on_error,
            on_publish=self._on_early,
            on_cancel=self._on_cancelled,
            even_if_held=True,
        )

    def reload(
        self, options: Mapping[str, str] | None = None, *, is_forced: bool = False
    ) -> None:
        """Read the file again with the same reader; options are added.

        An option of "" is taken away. For `is_forced` see `open`; once on it stays.
        """
        self._is_forced = self._is_forced or is_forced
        merged = {**self._options, **(options or {})}
        self._open(self._reader_id, {k: v for k, v in merged.items() if v})

    def cancel(self) -> None:
        """Stop reading; what has been read is kept."""
        if self._state is not LoadState.LOADING:
            return
        self._session.tasks.cancel(_KEY)
        self._on_cancelled()  # now: the reader may take a moment to notice

    def release(self) -> None:
        """Let go of everything; the session is about to close."""
        self._watch.stop()
        self._state = LoadState.IDLE
        self._early = self._next = self.failure = None

    def check_file(self) -> None:
        """Compare the file with what was read; called every two seconds.

        Nothing is looked at while nobody is watching, so that a file on a slow
        network costs nothing in the background.
        """
        path = self._session.path
        if path is None or self._state not in _SHOWN:
            return
        if not self._is_watching():
            return
        now = _stamp(path)
        self._set_stale(now is not None and now != self._stamp)

    def _on_reload_requested(self, options: object) -> None:
        self.reload(options if isinstance(options, dict) else None)

    def _on_early(self, trace: Trace) -> None:
        self._show_soon(trace, is_whole=False)

    def _on_trace(self, trace: Trace) -> None:
        self._show_soon(trace, is_whole=True)

    def _show_soon(self, trace: Trace, *, is_whole: bool) -> None:
        """Show a snapshot, but let the picture of the last one be made first.

        A newer snapshot cancels the work on an older one. The first picture is
        always waited for; later ones only while the newer one is no more than
        another prefix: else a file that is read faster than it is drawn would show
        nothing before its end.
        """
        if self._state is not LoadState.LOADING:
            return
        is_drawing = self._early is not None and self._session.tasks.has_urgent
        if is_drawing and (trace.is_partial or not self._has_picture):
            self._next = (trace, is_whole)
            return
        self._next = None
        self._show(trace)
        # Small ones are drawn at once.
        self._has_picture = self._has_picture or not self._session.tasks.has_urgent
        if is_whole:
            self._early = None
            self._set_state(LoadState.READY)

    def _on_urgent_done(self) -> None:
        """Go on with the snapshot that came while a picture was being made."""
        self._has_picture = self._early is not None
        waiting, self._next = self._next, None
        if waiting is not None:
            self._show_soon(waiting[0], is_whole=waiting[1])

    def _show(self, trace: Trace) -> None:
        """Show the next snapshot, or the first of this attempt."""
        before, self._early = self._early, trace
        if before is None:
            change = TraceChange.REPLACED
        elif before.is_partial:
            change = TraceChange.EXTENDED
        else:
            change = TraceChange.GREW
        self._session.set_trace(trace, change)
        if before is None:
            self.shown.emit()

    def _on_error(self, failure: TaskFailure) -> None:
        self.failure = failure
        logger.info("%s: %s", self._session.path, failure.message)
        if isinstance(failure.error, TooLargeError):
            self._set_state(LoadState.TOO_LARGE)
            return
        self._keep(lambda early: kept_of_failed(early, failure.message))
        self._set_state(LoadState.FAILED)

    def _on_cancelled(self) -> None:
        if self._state is not LoadState.LOADING:
            return
        if self._next is not None and self._next[1]:  # it is all there
            self._has_picture = True
            self._show_soon(self._next[0], is_whole=True)
            return
        n_records = self.n_records
        has_some = self._keep(lambda early: kept_of_stopped(early, n_records))
        self._set_state(LoadState.STOPPED if has_some else LoadState.CANCELLED)

    def _keep(self, finish: Callable[[Trace], Trace]) -> bool:
        """Show what was read of this attempt as final; tell whether there is any."""
        if self._next is not None:
            self._show(self._next[0])
        early = self._early
        self._early = self._next = None
        if early is None:
            return False
        self._session.set_trace(finish(early), TraceChange.GREW)
        return True

    def _set_state(self, state: LoadState) -> None:
        if state in _SHOWN:
            self._watch.start()
        else:
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


__all__ = ["LoadRequest", "LoadState", "Loader", "Outlook", "read_error"]
