"""Reads, reads again, adds, moves and watches the files of a session.

First what workers are asked to do with them, then what is kept of a trace whose
reading ended before its end, then the loader itself. It is the window's; the command
line opens files by `ggscope.session_loading`, too, and waits for them.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from ggscope.errors import ReadError, SeveralRunsError, TooLargeError
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import format_count
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskContext, TaskFailure

if TYPE_CHECKING:
    from ggscope.readers.api import Estimate, ReadContext
    from ggscope.readers.discovery import FileSet
    from ggscope.session_loading import Opened

logger = logging.getLogger(__name__)

WINDOW_BYTES = 32
"""What the panes keep of each record, beside the trace itself."""
WATCH_MS = 2000
_KEY = "load"
_PARTS_KEY = "parts"
_BESIDE_KEY = "beside"
_MAX_WATCHED = 64
"""Files of a session that are looked at every two seconds."""


@dataclass(slots=True)
class LoadOutcome:
    """What is known of a file before it is read; filled in on the worker.

    Attributes
    ----------
    estimate : what reading would cost, None where the reader cannot state it.
    opened : the parts that were read, once they are.
    """

    estimate: "Estimate | None" = None
    opened: "Opened | None" = None

    @property
    def n_records(self) -> int:
        """How many records the file holds, about; 0 = not known."""
        return 0 if self.estimate is None else self.estimate.records


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Read a file with the reader that fits, or with a named one; or several as one.

    Attributes
    ----------
    path : the file, or a folder, whose files are then found on the worker.
    more : further files of the same session.
    left_out : files of a folder that the user took out of the session.
    limit_bytes : memory that reading may use; 0 = what the system has to give.
    is_forced : read it whether it fits into memory or not.
    outlook : where to put the estimate.
    shifts : what is added to the times of files; see `opening.open_parts`.
    named_shifts : the same by names, of which each must be that of one file.
    is_for_one_run : whether a folder of several runs is refused, with
        `SeveralRunsError`, rather than read as one session.
    """

    path: Path
    reader_id: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    limit_bytes: int = 0
    is_forced: bool = False
    outlook: LoadOutcome = field(default_factory=LoadOutcome)
    more: tuple[Path, ...] = ()
    left_out: frozenset[Path] = frozenset()
    shifts: Mapping[Path, str] = field(default_factory=dict)
    named_shifts: tuple[tuple[str, str], ...] = ()
    is_for_one_run: bool = False

    def __call__(self, context: TaskContext) -> Trace:
        """Return the whole trace; early ones are published on the way."""
        # Readers are imported here, on the worker, not before the first window.
        from ggscope.readers.api import ReadContext

        reading = ReadContext(
            progress=context.progress,
            cancel=context.cancel,
            publish=context.publish,
            options=self.options,
        )
        from ggscope.readers.discovery import sidecar_of

        is_folder = os.path.isdir(self.path)
        if is_folder and self.is_for_one_run:
            self._refuse_runs(context)
        if self.more or self.named_shifts or is_folder or sidecar_of(self.path):
            return self._read_parts(reading)
        return self._read_alone(reading)

    def _refuse_runs(self, context: TaskContext) -> None:
        """Raise SeveralRunsError where the folder has several runs."""
        from ggscope.readers.discovery import run_folder

        folder = run_folder(self.path, context.check_cancelled)
        if folder.has_several:
            text = f"{self.path.name} has {len(folder.runs)} runs."
            raise SeveralRunsError(text, runs=folder, path=self.path)

    def _read_alone(self, reading: "ReadContext") -> Trace:
        """Return what one file holds."""
        from ggscope.readers.registry import open_trace
        from ggscope.session_loading import alone, with_troubles

        trace = open_trace(
            self.path,
            reader_id=self.reader_id,
            context=reading,
            admit=self._admit,
        )
        trace = with_troubles(trace, reading)
        self.outlook.opened = alone(trace, self.path)
        return trace

    def _read_parts(self, reading: "ReadContext") -> Trace:
        """Return what all files hold together."""
        from ggscope.readers.discovery import survey
        from ggscope.session_loading import named_shifts, open_parts

        bundle = survey((self.path, *self.more), reading.check_cancelled)
        opened = open_parts(
            bundle.without(self.left_out),
            reader_id=self.reader_id,
            context=reading,
            admit=self._admit,
            shifts={**self.shifts, **named_shifts(bundle, self.named_shifts)},
        )
        self.outlook.opened = opened
        return opened.trace

    def _admit(self, estimate: "Estimate") -> None:
        """Refuse a file that would not fit, unless the user wants it all the same."""
        from ggscope.readers.memory import MemoryGuard

        self.outlook.estimate = estimate
        if not self.is_forced:
            limit = self.limit_bytes
            MemoryGuard(self.path, self.options, limit, WINDOW_BYTES)(estimate)


@dataclass(frozen=True, slots=True)
class PartsRequest:
    """Add files to a session that has been read, or take some out; the rest stays.

    Attributes
    ----------
    opened : the session as it is.
    added : files to add.
    removed : files to take out.
    shifts : files whose times to move, and by what; "" = as their clocks show.
    """

    opened: "Opened"
    added: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    shifts: Mapping[Path, str] = field(default_factory=dict)

    @property
    def is_possible(self) -> bool:
        """Whether it changes anything, and leaves something to show."""
        if not self.removed:
            return True
        from ggscope.session_loading import can_be_without

        is_there = any(path in self.removed for path in self.opened.paths)
        return is_there and can_be_without(self.opened, self.removed)

    def __call__(self, context: TaskContext) -> "Opened":
        """Return the session as it should be."""
        from ggscope.readers.api import ReadContext
        from ggscope.readers.discovery import survey
        from ggscope.session_loading import shifted, with_more, without

        if not (self.added or self.removed):
            return shifted(self.opened, self.shifts)
        if self.removed:
            return without(self.opened, self.removed)
        reading = ReadContext(progress=context.progress, cancel=context.cancel)
        bundle = survey(self.added, reading.check_cancelled)
        return with_more(self.opened, bundle, reading)


@dataclass(frozen=True, slots=True)
class BesideRequest:
    """Look for files beside a trace, or a model, that may belong to it."""

    path: Path
    is_model: bool = False

    def __call__(self, context: TaskContext) -> "FileSet":
        """Return what lies there."""
        from ggscope.readers.discovery import beside, traces_beside

        look = traces_beside if self.is_model else beside
        return look(self.path, context.check_cancelled)


def trace_when_stopped(trace: Trace, n_records: int = 0) -> Trace:
    """Return what was read when the user stopped the reading, and a note of it.

    Nothing is pending any more; `read_until` still says how far the spans go.

    Parameters
    ----------
    n_records : of the whole file, about, where that is known; else 0.
    """
    total = max(n_records, trace.info.n_records)
    n = n_records_read(trace, total)
    if not trace.is_partial:
        missing = ", ".join(sorted(trace.pending))
        message = f"Reading was stopped after the spans; {missing} are incomplete."
    elif n < total:
        message = (
            f"Reading was stopped at {format_count(n)} of {format_count(total)} "
            "records; what follows is not shown."
        )
    else:
        message = f"Reading was stopped after {format_count(n)} records."
    return _with(
        trace,
        ReadWarning(
            Severity.NOTICE,
            "reading_stopped",
            message,
            remedy="Reload reads the rest.",
        ),
    )


def trace_when_failed(trace: Trace, message: str) -> Trace:
    """Return what was read before reading failed, and a note of it."""
    n = format_count(n_records_read(trace))
    return _with(
        trace,
        ReadWarning(
            Severity.DATA_LOSS,
            "reading_failed",
            f"Reading failed after {n} records, which are shown: {message}",
            remedy="Reload reads the file from its beginning.",
        ),
    )


def n_records_read(trace: Trace, n_records: int = 0) -> int:
    """Return how many records a snapshot was made of, about.

    Readers count in `info` what they have read so far; where they name the whole
    file there, the spans state. `n_records` : of the whole file, 0 = not known.
    """
    named = trace.info.n_records
    if named and (not trace.is_partial or named < n_records):
        return named
    record = trace.spans.record
    if record is None or not len(record):
        return len(trace.spans)
    return int(record.max()) + 1


def _with(trace: Trace, warning: ReadWarning) -> Trace:
    warnings = sorted((*trace.warnings, warning), key=lambda w: -w.severity)
    return replace(
        trace,
        pending=frozenset(),
        warnings=tuple(warnings),
        generation=trace.generation + 1,
    )


class LoadState(Enum):
    """How far a file has come.

    STOPPED and CANCELLED : the user ended the reading, and what had been read is
    shown, or nothing new is. TOO_LARGE : nothing was read, because it would not
    fit into memory. SEVERAL_RUNS : nothing was read, because a folder has several.
    """

    IDLE = "idle"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    TOO_LARGE = "too large"
    SEVERAL_RUNS = "several runs"


_SHOWN = (LoadState.READY, LoadState.STOPPED)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What distinguishes one state of a file from the next."""

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
    parts_changed = Signal(object)  # tuple of paths that came, () where one went
    shift_changed = Signal(object, str, str)  # path, its shift, and the one before
    beside_found = Signal(object)  # Bundle: files that may belong to the one opened

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
        self._part_stamps: dict[Path, _Stamp] = {}
        self._is_stale = False
        self._is_forced = False
        self._joins_runs = False
        self._outlook = LoadOutcome()
        self._more: tuple[Path, ...] = ()
        self._left_out: frozenset[Path] = frozenset()
        self._shifts: dict[Path, str] = {}
        self._named_shifts: tuple[tuple[str, str], ...] = ()
        self._changes: list[PartsRequest] = []  # the first is worked on
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

    @property
    def opened(self) -> "Opened | None":
        """The files of the session, once they are read."""
        return self._outlook.opened if self._state in _SHOWN else None

    @property
    def more(self) -> tuple[Path, ...]:
        """Files of the session beside its first one, as they were named."""
        return self._more

    def set_more(self, paths: Sequence[Path]) -> None:
        """Name further files of the session, before it is opened."""
        self._more = tuple(dict.fromkeys(paths))

    def add(self, paths: Sequence[Path]) -> None:
        """Read further files into the session; nothing else is read again."""
        if self.opened is None:
            self.set_more((*self._more, *paths))
            self._open(self._reader_id, None)
            return
        self._change_parts(PartsRequest(self.opened, tuple(paths)))

    def can_remove(self, *paths: Path) -> bool:
        """Return whether the session can do without some of its files."""
        if self.opened is None or not paths:
            return False
        return PartsRequest(self.opened, removed=paths).is_possible

    def remove(self, *paths: Path) -> None:
        """Take files out of the session; the last trace stays unless a model does."""
        if self.opened is not None:
            self._change_parts(PartsRequest(self.opened, removed=paths))

    def set_shifts(self, shifts: Mapping[Path, str]) -> None:
        """Say what is added to the times of files, before the session is opened."""
        self._shifts = dict(shifts)

    def shift(self, path: Path, by: str) -> None:
        """Move the times of one file against the others; nothing is read again.

        `by` is added to its own times, such as ``-1.5ms``; "" = what the clocks show.
        A text that is no time is reported as a problem.
        """
        if self.opened is not None and by != self.shift_of(path):
            self._change_parts(PartsRequest(self.opened, shifts={path: by}))

    def shift_of(self, path: Path) -> str:
        """Return what is added to the times of a file once all that was asked is done.

        "" = by the clocks of the files.
        """
        for request in reversed(self._changes):
            if path in request.shifts:
                return request.shifts[path]
        return "" if self.opened is None else self.opened.shift_of(path)

    def _look_beside(self) -> None:
        """Look for files that may belong to a trace or model that was opened alone."""
        path, opened = self._session.path, self.opened
        if path is None or opened is None or self._left_out:
            return
        is_alone = len(opened.mains) == 1 and not opened.sides
        trace = self._session.trace
        has_model = trace is not None and bool(trace.models)
        is_model = not opened.mains and len(opened.sides) == 1 and has_model
        if is_alone or is_model:
            self._session.tasks.run(
                _BESIDE_KEY,
                BesideRequest(path, is_model),
                self._on_beside,
                on_error=_ignored,
            )

    def _on_beside(self, bundle: "FileSet") -> None:
        trace = self._session.trace
        if trace is not None and (len(trace.spans) or trace.storage is not None):
            bundle = bundle.without(
                [m.path for m in bundle.sides if not trace.may_gain_from(m.role)]
            )
        if bundle.members and self._state in _SHOWN:
            self.beside_found.emit(bundle)

    def _change_parts(self, request: PartsRequest) -> None:
        """Change the files once the changes before it are done.

        Moves that wait are made at once: of many quick ones two are worked on.
        """
        if len(self._changes) > 1 and request.shifts and self._changes[-1].shifts:
            before = self._changes.pop()
            request = replace(request, shifts={**before.shifts, **request.shifts})
        self._session.tasks.cancel(_BESIDE_KEY)  # it would offer what is being added
        self._changes.append(request)
        if len(self._changes) == 1:
            self._make_next_change()

    def _make_next_change(self) -> None:
        """Work on the first change that was asked for and can still be made."""
        opened = self.opened
        while self._changes:
            if opened is None:  # it is being read anew
                self._changes.clear()
                return
            request = replace(self._changes[0], opened=opened)
            if request.is_possible:
                self._session.tasks.run(
                    _PARTS_KEY,
                    request,
                    partial(self._on_parts, request),
                    title=self._title_of(request),
                    unit="B",
                    on_error=self._on_parts_failed,
                    on_cancel=self._changes.clear,
                    # A new snapshot must not make it forgotten while it waits for
                    # the picture: it changes what there is, whatever is shown.
                    even_if_held=True,
                )
                return
            del self._changes[0]

    def _title_of(self, request: PartsRequest) -> str:
        if request.shifts:
            text, paths = "Moving {0}", tuple(request.shifts)
        elif request.removed:
            text, paths = "Removing {0}", request.removed
        else:
            text, paths = "Adding {0}", request.added
        return text.format(", ".join(path.name for path in paths[:3]))

    def _on_parts_failed(self, failure: TaskFailure) -> None:
        del self._changes[0]
        self._session.report(failure)
        self._make_next_change()

    def _on_parts(self, request: PartsRequest, opened: "Opened") -> None:
        # Read anew meanwhile: what was asked for is done to what is there.
        if self.opened is request.opened:
            self._show_parts(request, opened)
            del self._changes[:1]  # a receiver may have let go of all
        self._make_next_change()

    def _show_parts(self, request: PartsRequest, opened: "Opened") -> None:
        self._outlook.opened = opened
        self._more = tuple(dict.fromkeys((*self._more, *request.added)))
        self._left_out -= set(request.added)
        self._left_out |= set(request.removed)
        self._more = tuple(p for p in self._more if p not in request.removed)
        same_spans = opened.main is request.opened.main and not request.removed
        # Rows of other tables go when a part goes: what refers to them is looked up.
        change = TraceChange.GREW if same_spans else TraceChange.EXTENDED
        if request.shifts:
            self._shifts |= {path: opened.shift_of(path) for path in opened.paths}
            self._named_shifts = ()  # the newest counts when it is read again
            change = TraceChange.EXTENDED
        elif opened.main is not request.opened.main:
            change = TraceChange.REPLACED
        self._session.set_trace(opened.trace, change)
        self._note_stamps()
        self.parts_changed.emit(request.added)
        for path, by in request.shifts.items():
            self.shift_changed.emit(path, by, request.opened.shift_of(path))

    def open(
        self,
        reader_id: str | None = None,
        options: Mapping[str, str] | None = None,
        *,
        is_forced: bool = False,
        joins_runs: bool = False,
        shifts: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Read the session's file; a running attempt is given up.

        With `is_forced` it is read even where it will hardly fit into memory, now
        and whenever it is reloaded. With `joins_runs`, or where anything else is stated
        of how to read it, a folder of several runs is one session. For `shifts` see
        `LoadRequest.named_shifts`.
        """
        self._is_forced = is_forced
        self._joins_runs = joins_runs or bool(reader_id or options or shifts)
        self._named_shifts = shifts or self._named_shifts
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
        self._outlook = LoadOutcome()
        self._stamp = None if os.path.isdir(path) else _stamp(path)
        self._part_stamps = {}
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
                self._more,
                self._left_out,
                self._shifts,
                self._named_shifts,
                not (self._joins_runs or self._is_forced or self._more),
            ),
            self._on_trace,
            title=f"Reading {path.name}",
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
        self._changes.clear()
        self._outlook = LoadOutcome()

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
        now = None if os.path.isdir(path) else _stamp(path)
        is_stale = now is not None and now != self._stamp
        for part, before in self._part_stamps.items():
            now = _stamp(part)
            is_stale = is_stale or (now is not None and now != before)
        self._set_stale(is_stale)

    def _note_stamps(self) -> None:
        """Remember what the files of the session looked like when they were read."""
        trace = self._session.trace
        parts = () if trace is None else trace.parts[:_MAX_WATCHED]
        self._part_stamps = {
            part.info.paths[0]: _Stamp(part.info.byte_size, part.info.modified_ns)
            for part in parts
            if len(part.info.paths) == 1 and part.info.modified_ns
        }

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
            self._note_stamps()
            self._set_state(LoadState.READY)
            self._look_beside()

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
        if isinstance(failure.error, SeveralRunsError):
            self._set_state(LoadState.SEVERAL_RUNS)
            return
        self._keep(lambda early: trace_when_failed(early, failure.message))
        self._set_state(LoadState.FAILED)

    def _on_cancelled(self) -> None:
        if self._state is not LoadState.LOADING:
            return
        if self._next is not None and self._next[1]:  # it is all there
            self._has_picture = True
            self._show_soon(self._next[0], is_whole=True)
            return
        n_records = self.n_records
        has_some = self._keep(lambda early: trace_when_stopped(early, n_records))
        self._set_state(LoadState.STOPPED if has_some else LoadState.CANCELLED)

    def _keep(self, finish: Callable[[Trace], Trace]) -> bool:
        """Show what was read of this attempt as final; return whether there is any."""
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


def _ignored(failure: TaskFailure) -> None:
    """Let a failed look around be: nobody asked for it."""
    logger.debug("looking beside the file failed: %s", failure.message)


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
