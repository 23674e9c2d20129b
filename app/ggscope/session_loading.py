"""Read the files of a bundle, one after the other, and join them. Without Qt.

The window and the command line both come here. A file alone is read as it always
was; several are read in the order of the bundle, traces first, and joined in
`analysis.sessions.join`.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ggscope.analysis.sessions import remap_ids
from ggscope.analysis.sessions.concatenate import (
    SHIFT_OPTION,
    concatenate,
    parsed_shift,
)
from ggscope.analysis.sessions.join import SideFile, join, role_of
from ggscope.errors import QueryError, ReadError, TooLargeError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import OTHER_FILES, ReadWarning, Severity, Trace
from ggscope.model.units import TimeRange
from ggscope.readers import registry
from ggscope.readers.api import RECORDING, TRACE, Estimate, ReadContext
from ggscope.readers.discovery import (
    FileSet,
    SessionFile,
    Skipped,
    is_left_out,
    sidecar_path,
    survey,
    with_main,
)
from ggscope.readers.partial_reading import NAMES_CHOICES, NAMES_OPTION, RANGE_OPTION

Admit = Callable[[Estimate], None]
_OF_TRACES = (RANGE_OPTION, NAMES_OPTION, "ops")
"""Reader options that speak of traces; side files are not asked to heed them."""
_MAX_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class LoadedFile:
    """A file of the session, as it was read alone."""

    member: SessionFile
    trace: Trace

    @property
    def path(self) -> Path:
        """The file."""
        return self.member.path


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A session of several files.

    Attributes
    ----------
    trace : everything joined.
    main : the traces on one clock, without the sides; shares their columns.
    mains, sides : the files that could be read.
    notes : what the session as a whole has to say: files that could not be read …
    folder : the folder that was opened; None = files were named, added or taken out.
    """

    trace: Trace
    main: Trace
    mains: tuple[LoadedFile, ...]
    sides: tuple[LoadedFile, ...]
    notes: tuple[ReadWarning, ...] = ()
    folder: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that take part, traces first."""
        return tuple(piece.path for piece in (*self.mains, *self.sides))

    def shift_of(self, path: Path) -> str:
        """Return the stated shift of the times of a file; "" = none."""
        for piece in (*self.mains, *self.sides):
            if piece.path == path:
                return piece.trace.info.options.get(SHIFT_OPTION, "")
        return ""


def named_bundle(
    path: Path,
    beside: Sequence[Path],
    *,
    reader_id: str | None = None,
    context: ReadContext | None = None,
    admit: Admit | None = None,
) -> FileSet:
    """Return the bundle of a file or folder that was asked for, and files beside it.

    Raises
    ------
    ReadError
        If `path` is a file that cannot be read: what others hold is no answer about
        it.
    TooLargeError
        If it was not admitted.
    """
    bundle = survey((path, *beside))
    if not is_left_out(bundle, path):
        return bundle
    # Says what is wrong with it; where its reader is named it opens.
    trace = registry.open_trace(path, reader_id=reader_id, context=context, admit=admit)
    return with_main(bundle, path, trace.info.reader_id)


def open_bundle(
    bundle: FileSet,
    *,
    reader_id: str | None = None,
    context: ReadContext | None = None,
    admit: Admit | None = None,
    shifts: Mapping[Path, str] | None = None,
    required: Path | None = None,
) -> Trace:
    """Return the files of a bundle as one trace; see `open_parts`."""
    return open_parts(
        bundle,
        reader_id=reader_id,
        context=context,
        admit=admit,
        shifts=shifts,
        required=required,
    ).trace


def open_parts(
    bundle: FileSet,
    *,
    reader_id: str | None = None,
    context: ReadContext | None = None,
    admit: Admit | None = None,
    shifts: Mapping[Path, str] | None = None,
    required: Path | None = None,
) -> Opened:
    """Read the files of a bundle and join them.

    Early snapshots are those of the trace; where there are several, those of the
    first one with spans still to come. The whole trace is published before the side
    files are joined to it, so that nobody waits for them. A file that cannot be read
    is a warning ``part_unreadable``, as long as there is another one.

    Parameters
    ----------
    reader_id : for the traces; side files are read by who recognised them.
    admit : gets what reading the traces would cost; see `registry.open_trace`.
    shifts : what is added to the times of some files, such as ``-1.5ms``, in place of
        what their clocks show.
    required : a file without which the others are no answer; None = each is optional.

    Raises
    ------
    QueryError
        If a shift is no time.
    ReadError
        If none of the files can be read, the required one cannot, or the bundle is
        empty.
    TooLargeError
        If a trace was not admitted.
    Cancelled
        If the context was cancelled.
    """
    context = context or ReadContext()
    if not bundle.members:
        raise _nothing_found(bundle)
    work = _Work(context, sum(m.size for m in bundle.members))
    notes = list(notes_of(bundle))
    errors: list[ReadError] = []

    def read(members: Sequence[SessionFile], how: _How) -> list[LoadedFile]:
        pieces: list[LoadedFile] = []
        for i, member in enumerate(members):
            try:
                pieces.append(work.read(member, how, is_first=i == 0))
            except TooLargeError:
                raise
            except ReadError as error:
                if member.path == required:
                    raise
                errors.append(error)
                notes.append(_unreadable(member, error))
        return pieces

    if context.options.get(NAMES_OPTION, NAMES_CHOICES[0]) != NAMES_CHOICES[0]:
        # A sidecar names all nodes: who asked for fewer names gets the records alone.
        side_files = tuple(m for m in bundle.sides if m.role != RECORDING)
        bundle = replace(bundle, sides=side_files)
    # Where spans change once the sidecar is there, they are called incomplete before.
    has_sidecar = any(m.role == RECORDING for m in bundle.sides)
    is_alone = len(bundle.mains) == 1 and not has_sidecar
    mains = read(bundle.mains, _How(reader_id, admit, True, is_alone))
    mains = [_moved(piece, shifts or {}) for piece in mains]
    sides = [p for p in mains if p.member.role != TRACE]
    mains = [p for p in mains if p.member.role == TRACE]
    sidecars = [m for m in bundle.sides if m.role == RECORDING]
    others = [m for m in bundle.sides if m.role != RECORDING]
    sides += read(sidecars, _How())
    empty = _rightly_empty(bundle, sides)
    for fault in (s for s in bundle.skipped if s.is_fault and s.path == required):
        if fault.path.name not in empty:
            registry.open_trace(fault.path, reader_id=reader_id)  # says what is wrong
            raise _named_fault(fault)
    notes = [note for note in notes if note.place not in empty]
    main = _main_of(mains, sides)
    if main is not None and (bundle.sides or not is_alone):
        pending = main.pending | ({OTHER_FILES} if others else set())
        context.publish(replace(main, pending=pending))
    sides += [_moved(piece, shifts or {}) for piece in read(others, _How())]
    if main is None and not sides:
        raise errors[0]
    if main is None:
        main = _without_trace(sides)
    opened = _joined(main, tuple(mains), tuple(sides), tuple(notes), bundle.folder)
    return replace(opened, trace=with_troubles(opened.trace, context))


def named_shifts(bundle: FileSet, stated: Sequence[tuple[str, str]]) -> dict[Path, str]:
    """Return what is added to the times of which file, named by the end of its path.

    Raises
    ------
    QueryError
        If a name is that of no file or of several, there is no other file against
        which one could be moved, or a shift is a time of no clock.
    """
    shifts: dict[Path, str] = {}
    paths = [member.path for member in bundle.members]
    for name, by in stated:
        parts = Path(name).parts
        own = [path for path in paths if path.parts[-len(parts) :] == parts]
        if len(own) != 1:
            names = ", ".join(p.name for p in paths[:8])
            how = "several files are" if own else "no file is"
            raise QueryError(f"{how} called {name}; this session has {names}.")
        if len(paths) == 1:
            raise QueryError(f"{name} is alone; times are moved against other files'.")
        try:
            parsed_shift(by, "cycle")
        except QueryError:
            parsed_shift(by, "ns")
        shifts[own[0]] = by
    return shifts


def with_more(opened: Opened, bundle: FileSet, context: ReadContext) -> Opened:
    """Return a session with further files; what it has is not read again.

    Raises
    ------
    ReadError
        If none of the new files can be read.
    """
    known = set(opened.paths)
    members = [m for m in bundle.members if m.path not in known]
    if not members:
        raise ReadError(
            "these files are already in the session, or have an unknown format.",
            hint=_reasons(bundle),
        )
    more = open_parts(
        replace(
            bundle,
            mains=tuple(m for m in members if m.role == TRACE),
            sides=tuple(m for m in members if m.role != TRACE),
        ),
        context=_SourceFile(context, 0, 1, 1, may_publish=False),
    )
    mains, sides = (*opened.mains, *more.mains), (*opened.sides, *more.sides)
    is_new = bool(more.mains or _sidecars(more.sides))
    main = _main_of(mains, sides) if is_new else opened.main
    return _joined(
        main or opened.main,
        mains,
        sides,
        (*opened.notes, *more.notes),
    )


def can_be_without(opened: Opened, paths: Collection[Path]) -> bool:
    """Return whether what is left without some files is worth a session.

    Where there is a trace that is a trace, or a model; else any file.
    """
    is_left = any(piece.path not in paths for piece in opened.mains)
    sides = [piece for piece in opened.sides if piece.path not in paths]
    if opened.mains:
        return is_left or any(piece.member.role == "model" for piece in sides)
    return bool(sides)


def without(opened: Opened, paths: Collection[Path]) -> Opened:
    """Return a session without some of its files; nothing is read again.

    Raises
    ------
    ValueError
        If it cannot do without them; see `can_be_without`.
    """
    if not can_be_without(opened, paths):
        raise ValueError("a session needs a trace, or a model")
    mains = tuple(p for p in opened.mains if p.path not in paths)
    sides = tuple(p for p in opened.sides if p.path not in paths)
    main = opened.main
    has_fewer = len(_sidecars(sides)) < len(_sidecars(opened.sides))
    if not mains:
        main = _without_trace(sides)
    elif len(mains) < len(opened.mains) or has_fewer:
        main = _main_of(mains, sides) or main
    return _joined(main, mains, sides, opened.notes)


def shifted(opened: Opened, shifts: Mapping[Path, str]) -> Opened:
    """Return a session with the times of some files moved; nothing is read again.

    Parameters
    ----------
    shifts : as in `open_parts`; "" = as their clocks show.

    Raises
    ------
    QueryError
        If a shift is no time.
    """
    mains = tuple(_moved(piece, shifts) for piece in opened.mains)
    sides = tuple(_moved(piece, shifts) for piece in opened.sides)
    is_same = all(a is b for a, b in zip(mains, opened.mains, strict=True))
    main = opened.main if is_same else _main_of(mains, sides) or opened.main
    return _joined(main, mains, sides, opened.notes, opened.folder)


def _moved(piece: LoadedFile, shifts: Mapping[Path, str]) -> LoadedFile:
    """Return a file with the stated shift of its clock; itself where nothing is new."""
    shift = shifts.get(piece.path)
    info = piece.trace.info
    if shift is None or shift == info.options.get(SHIFT_OPTION, ""):
        return piece
    options = {k: v for k, v in info.options.items() if k != SHIFT_OPTION}
    if shift:
        options[SHIFT_OPTION] = shift
    moved = replace(piece.trace, info=replace(info, options=options))
    return replace(piece, trace=moved)


def alone(trace: Trace, path: Path) -> Opened:
    """Return a session of one trace that has been read already."""
    claimed = TRACE if len(trace.spans) else registry.role_of(trace.info.reader_id)
    role = role_of(trace, claimed)
    piece = LoadedFile(
        SessionFile(path, role, trace.info.reader_id, trace.info.byte_size), trace
    )
    if role == TRACE:
        return Opened(trace, trace, (piece,), ())
    return Opened(trace, _without_trace((piece,)), (), (piece,))


def with_troubles(trace: Trace, context: ReadContext) -> Trace:
    """Return the trace with a notice of every plug-in that is switched off.

    Only where people look at early snapshots: what is here is shown to them before
    plug-ins that are still being loaded are waited for. Others wait for nothing.
    """
    if not context.wants_stages:
        return trace
    if registry.are_loading():
        context.publish(replace(trace, pending=trace.pending | {OTHER_FILES}))
    return registry.with_troubles(trace)


def _joined(
    main: Trace,
    mains: tuple[LoadedFile, ...],
    sides: tuple[LoadedFile, ...],
    notes: tuple[ReadWarning, ...],
    folder: Path | None = None,
) -> Opened:
    if sides or notes or len(mains) > 1:
        others = [
            p
            for p in sides
            if p.member.role != RECORDING or not (mains or p.trace is main)
        ]
        trace = join(main, [SideFile(p.trace, p.member.role) for p in others])
        if not mains and trace.parts and main.run is None:
            trace = replace(trace, parts=trace.parts[1:])
        warnings = sorted((*trace.warnings, *notes), key=lambda w: -w.severity)
        trace = replace(trace, warnings=tuple(warnings))
    else:
        trace = main
    trace = replace(trace, info=replace(trace.info, folder=folder))
    return Opened(trace, main, mains, sides, notes, folder)


class _SourceFile(ReadContext):
    """The context of one file of several: progress counts over all of them."""

    def __init__(
        self,
        whole: ReadContext,
        begin: int,
        size: int,
        total: int,
        *,
        may_publish: bool,
        as_part: bool = False,
        drops: Sequence[str] = (),
    ) -> None:
        options = {k: v for k, v in whole.options.items() if k not in drops}
        super().__init__(options=options, limits=whole.limits, strict=whole.strict)
        self._whole = whole
        self._begin, self._size, self._total = begin, size, total
        self._may_publish = may_publish
        self._as_part = as_part

    def progress(self, done: int, total: int) -> None:
        """Report progress in bytes of all files."""
        share = min(done / total, 1.0) if total > 0 else 0.0
        self._whole.progress(self._begin + int(self._size * share), self._total)

    def check_cancelled(self) -> None:
        """Raise Cancelled where the whole is no longer needed."""
        self._whole.check_cancelled()

    def publish(self, trace: Trace) -> None:
        """Hand out an early snapshot, where this file's are worth showing.

        Of the first of several traces it says that spans are to come, for the next
        snapshot will have more of them.
        """
        self.check_cancelled()
        if not self._may_publish:
            return
        if self._as_part:
            until = trace.read_until
            trace = replace(
                trace,
                pending=trace.pending | {"spans"},
                read_until=trace.extent.end if until is None else until,
            )
        self._whole.publish(trace)

    @property
    def wants_stages(self) -> bool:
        """Whether anybody listens to early snapshots of this file."""
        return self._may_publish and self._whole.wants_stages


@dataclass(frozen=True, slots=True)
class _How:
    """How files are to be read; see `open_parts`."""

    reader_id: str | None = None
    admit: Admit | None = None
    may_publish: bool = False
    is_alone: bool = True


class _Work:
    """Reads files one after the other, and knows how far it is."""

    def __init__(self, context: ReadContext, total: int) -> None:
        self._context = context
        self._total = max(total, 1)
        self._done = 0

    def read(self, member: SessionFile, how: _How, *, is_first: bool) -> LoadedFile:
        """Return what a file holds. Raises ReadError."""
        is_side = member.role != TRACE
        part = _SourceFile(
            self._context,
            self._done,
            member.size,
            self._total,
            may_publish=how.may_publish and is_first,
            as_part=not how.is_alone,
            drops=_OF_TRACES if is_side else (),
        )
        try:
            trace = registry.open_trace(
                member.path,
                reader_id=member.reader_id if is_side else how.reader_id,
                context=part,
                admit=how.admit,
            )
        finally:
            self._done += member.size
        return LoadedFile(replace(member, role=role_of(trace, member.role)), trace)


def _main_of(mains: Sequence[LoadedFile], sides: Sequence[LoadedFile]) -> Trace | None:
    """Return the traces on one clock, each with its sidecar; None without any."""
    traces = [piece.trace for piece in mains]
    if not traces:
        return None
    for side in _sidecars(sides):
        own = [i for i, m in enumerate(mains) if sidecar_path(m.path) == side.path]
        _take_sidecar(traces, own or range(len(traces)), side.trace)
    # Times of requests to storage are moved against those of other traces.
    return concatenate(sorted(traces, key=lambda trace: trace.storage is not None))


def _sidecars(sides: Sequence[LoadedFile]) -> list[LoadedFile]:
    return [piece for piece in sides if piece.member.role == RECORDING]


def _take_sidecar(traces: list[Trace], places: Sequence[int], side: Trace) -> None:
    """Join a sidecar to the first of some traces that it belongs to, or say why not."""
    from ggscope.analysis.sessions import event_stream
    from ggscope.analysis.sessions.problems import sidecar_refused
    from ggscope.analysis.sessions.recording import refusal, with_recording
    from ggscope.readers.tensor.layouts import LAYOUT_256, TensorRecords

    why = ""
    for i in places:
        trace, spare = traces[i], None
        if trace.info.reader_id == event_stream.READER_ID and not trace.parts:
            reason = event_stream.refusal_of_stream(trace, side)
            if not reason:
                traces[i] = event_stream.with_stream(trace, side)
                return
            why = why or reason
            continue
        if isinstance(trace.records, TensorRecords) and not trace.parts:
            is_ours = trace.records.layout is LAYOUT_256
            spare = trace.records.spare() if is_ours else None
        reason = refusal(trace, side, spare)
        if not reason:
            assert spare is not None
            traces[i] = with_recording(trace, side, spare)
            return
        why = why or reason
    first = traces[places[0]]
    warnings = remap_ids.sorted_warnings(
        (*first.warnings, sidecar_refused(side.info.name, why))
    )
    traces[places[0]] = replace(first, warnings=warnings)


def _without_trace(sides: Sequence[LoadedFile]) -> Trace:
    """Return what side files are joined to where there is no trace.

    The sidecar of a recording has graphs and calls of its own.
    """
    recordings = _sidecars(sides)
    return recordings[0].trace if recordings else _empty(sides[0].trace)


def _empty(like: Trace) -> Trace:
    """Return a trace without anything, to which sides can be joined."""
    builder = TraceBuilder()
    info = replace(like.info, n_records=0, n_passes=0)
    return builder.snapshot(info, extent=TimeRange(0, 0))


def _unreadable(member: SessionFile, error: ReadError) -> ReadWarning:
    remedy = error.hint or "Remove it from the session, or export it again."
    return ReadWarning(
        Severity.ERROR,
        "part_unreadable",
        f"cannot read {member.path.name}: {error.message}",
        offset=error.offset,
        place=member.path.name,
        remedy=remedy,
    )


def _rightly_empty(bundle: FileSet, sides: Sequence[LoadedFile]) -> set[str]:
    """Return the names of files without records, whose sidecars list none."""
    empty = {p.path for p in sides if p.trace.run and not p.trace.run.n_records}
    return {
        skipped.path.name
        for skipped in bundle.skipped
        if skipped.is_fault and sidecar_path(skipped.path) in empty
    }


def notes_of(bundle: FileSet) -> tuple[ReadWarning, ...]:
    """Return what became of the files that take no part."""
    notes = [_not_opened(skipped) for skipped in bundle.skipped if skipped.is_fault]
    others = [skipped for skipped in bundle.skipped if not skipped.is_fault]
    if others:
        # Several files are often passed over for one reason.
        reasons: dict[str, list[str]] = {}
        for skipped in others[:_MAX_NAMED]:
            reasons.setdefault(skipped.reason, []).append(skipped.path.name)
        reasons_text = " ".join(f"{', '.join(n)}: {why}" for why, n in reasons.items())
        more = "" if len(others) <= _MAX_NAMED else " And more."
        notes.append(
            ReadWarning(
                Severity.INFO,
                "files_passed_over",
                f"Ignored files: {reasons_text}{more}",
                len(others),
                place=others[0].path.name,
            )
        )
    if bundle.n_left:
        notes.append(
            ReadWarning(
                Severity.NOTICE,
                "files_left",
                "The folder has too many files; the rest was not checked.",
                bundle.n_left,
                remedy="Select files, or open the folder of one experiment.",
            )
        )
    return tuple(notes)


def _not_opened(skipped: Skipped) -> ReadWarning:
    return ReadWarning(
        Severity.ERROR,
        "part_unreadable",
        f"cannot read {skipped.path.name}: {skipped.reason}",
        place=skipped.path.name,
        remedy="Check the path and its permissions, or leave the file out.",
    )


def _nothing_found(bundle: FileSet) -> ReadError:
    only = bundle.skipped[0] if len(bundle.skipped) == 1 else None
    if only is not None and only.is_fault:
        return _named_fault(only)
    if only is not None and os.path.isdir(only.path):  # of a format of folders
        registry.open_trace(only.path)  # says which
    return ReadError("no supported files in it.", hint=_reasons(bundle))


def _named_fault(skipped: Skipped) -> ReadError:
    """Return why a file that was named could not be read."""
    reason = skipped.reason[:1].lower() + skipped.reason[1:]
    return ReadError(reason, path=skipped.path, hint="Check the path.")


def _reasons(bundle: FileSet) -> str:
    return " ".join(f"{s.path.name}: {s.reason}" for s in bundle.skipped[:_MAX_NAMED])
