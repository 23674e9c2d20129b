"""Which readers there are, and which one a file belongs to."""

import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ggscope.errors import (
    AmbiguousFormatError,
    Cancelled,
    EmptyFileError,
    LimitExceededError,
    ReadError,
    UnknownFormatError,
)
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.readers import plugins
from ggscope.readers import plugins as guests
from ggscope.readers.api import (
    HEAD_BYTES,
    NAMES_CHOICES,
    NAMES_OPTION,
    NOT_MINE,
    RANGE_OPTION,
    Estimate,
    EstimatingReader,
    Head,
    ReadContext,
    Reader,
    ReaderInfo,
    Sniff,
)
from ggscope.readers.lookalike import describe, is_all_zero
from ggscope.readers.plugins import BUILT_IN, PLUG_IN, GuestError, Loaded
from ggscope.readers.source import Source

BUILTIN = (
    "ggscope.readers.ggmlviz.reader:GgmlvizReader",
    "ggscope.readers.tensor.reader:TensorAccessReader",
    "ggscope.readers.npu.reader:NpuJsonReader",
    "ggscope.readers.tensor.token_json.reader:TraceJsonReader",
    "ggscope.readers.gguf.reader:GgufReader",
    "ggscope.readers.maps.memory_map:MemoryMapReader",
    "ggscope.readers.maps.structure_csv:StructureCsvReader",
    "ggscope.readers.maps.registry_csv:RegistryCsvReader",
    "ggscope.readers.graph.json:GraphJsonReader",
    "ggscope.readers.graph.dot:GraphDotReader",
    "ggscope.readers.buffers.events_jsonl:BufferStatsReader",
    "ggscope.readers.buffers.timeline_json:BufferTimelineReader",
    "ggscope.readers.experts.moe_csv:MoeCsvReader",
)
SURE = 50
"""From this confidence on a reader is taken without a notice."""
CERTAIN = 90
"""From this confidence of a built-in reader on, no plug-in is asked or waited for."""

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A reader and what it thinks of a file."""

    reader: Reader
    sniff: Sniff

    @property
    def info(self) -> ReaderInfo:
        """The reader's facts."""
        return self.reader.info


@dataclass(frozen=True, slots=True)
class ReaderStatus:
    """What became of one reader, for lists that people read.

    Attributes
    ----------
    info : None where it could not be loaded.
    origin : "built-in" or "plug-in".
    status : "ok", "loading" or "failed: …"; a plug-in that failed is switched off.
    path : file, entry point or module that it comes from.
    changes : what a plug-in changed for the whole program, in words.
    """

    info: ReaderInfo | None
    origin: str
    status: str
    path: str
    changes: tuple[str, ...] = ()


def readers(*, waits: bool = True) -> list[Reader]:
    """Return all readers that could be loaded, built-in ones first.

    Parameters
    ----------
    waits : for plug-ins that are still being loaded; some seconds at worst.
    """
    return [
        item.reader
        for item in _loaded(waits)
        if item.reader is not None and not item.is_off
    ]


def statuses(*, waits: bool = True) -> tuple[ReaderStatus, ...]:
    """Return what became of every reader, those that failed too.

    Parameters
    ----------
    waits : as for `readers`.
    """
    return tuple(
        ReaderStatus(
            None if item.reader is None else item.reader.info,
            item.origin,
            "loading" if item.is_awaited else _status(item.error),
            item.path,
            item.changes,
        )
        for item in _loaded(waits)
    )


def troubles(*, waits: bool = False) -> tuple[ReadWarning, ...]:
    """Return a notice for every plug-in that is switched off by now.

    Parameters
    ----------
    waits : as for `readers`.
    """
    return tuple(
        ReadWarning(
            Severity.NOTICE,
            "plugin_off",
            f"The plug-in {_name_of(item)} is switched off: {item.error}.",
            place=item.path,
            remedy="Mend it or take it away; --safe-mode leaves out all plug-ins.",
        )
        for item in _loaded(waits)
        if item.is_off
    )


def with_troubles(trace: Trace) -> Trace:
    """Return the trace with `troubles` among its warnings; waits for all plug-ins."""
    found = (w for w in troubles(waits=True) if w not in trace.warnings)
    warnings = sorted((*trace.warnings, *found), key=lambda w: -w.severity)
    if len(warnings) == len(trace.warnings):
        return trace
    return dataclasses.replace(trace, warnings=tuple(warnings))


def are_loading() -> bool:
    """Tell whether some plug-in is not there yet."""
    return any(item.is_awaited for item in _loaded(False))


def sniff_all(source: Source) -> list[Candidate]:
    """Return every reader's judgement, most confident first.

    Plug-ins are asked only where no built-in reader is `CERTAIN`. A reader whose
    sniffing fails is not asked again and counts as 0.
    """
    head = _head(source)
    judged = _judgements(_loaded(False), head, BUILT_IN)
    if all(c.sniff.confidence < CERTAIN for c in judged):
        judged += _judgements(_loaded(True), head, PLUG_IN)
    return sorted(judged, key=lambda c: -c.sniff.confidence)


def open_trace(
    path: Path | str,
    *,
    reader_id: str | None = None,
    context: ReadContext | None = None,
    admit: Callable[[Estimate], None] | None = None,
) -> Trace:
    """Read `path` with the reader that fits it best, or with `reader_id`.

    A reader that was chosen by structure alone (confidence below `SURE`) leaves a
    notice ``low_confidence`` in the trace.

    Parameters
    ----------
    admit : is told what reading would cost, before anything is read, where the
        reader knows; what it raises comes out of here.

    Raises
    ------
    UnknownFormatError, AmbiguousFormatError
        If no reader or several equally fit.
    ReadError
        If the reader finds nothing to show, or fails.
    Cancelled
        If the context was cancelled.
    """
    with Source(path) as source:
        if reader_id is not None:
            reader = _named(reader_id, source)
            _admit(reader, source, admit)
            return _with_parts(_read(reader, source, context), reader, context)
        chosen, others = _chosen(source)
        _admit(chosen.reader, source, admit)
        trace = _with_parts(
            _read(chosen.reader, source, context), chosen.reader, context
        )
        if chosen.sniff.confidence >= SURE:
            return trace
        return _with_notice(trace, chosen, others)


def estimate(path: Path | str, *, reader_id: str | None = None) -> Estimate | None:
    """Return what reading `path` would cost; None where its reader cannot tell.

    Raises
    ------
    UnknownFormatError, AmbiguousFormatError, ReadError
        As `open_trace`, where no reader can be chosen.
    """
    with Source(path) as source:
        if reader_id is not None:
            return _estimate(_named(reader_id, source), source)
        return _estimate(_chosen(source)[0].reader, source)


def _estimate(reader: Reader, source: Source) -> Estimate | None:
    if not isinstance(reader, EstimatingReader):
        return None
    ask = functools.partial(reader.estimate, _head(source))
    guest = _guest(reader)
    try:
        found: object = ask() if guest is None else _asked(guest, ask)
    except Exception:
        # Border to readers: one that cannot count may still be able to read.
        logger.warning("reader %s: estimate failed", reader.info.id, exc_info=True)
        return None
    return found if isinstance(found, Estimate) else None


def _admit(
    reader: Reader, source: Source, admit: Callable[[Estimate], None] | None
) -> None:
    found = None if admit is None else _estimate(reader, source)
    if admit is not None and found is not None:
        admit(found)


def _head(source: Source) -> Head:
    return Head(source.path.name, source.size, source.head(HEAD_BYTES))


def _loaded(waits: bool) -> Sequence[Loaded]:
    return plugins.load_all(BUILTIN, waits)


def _status(error: str) -> str:
    return f"failed: {error}" if error else "ok"


def _name_of(item: Loaded) -> str:
    return item.path if item.reader is None else item.reader.info.id


def _guest(reader: Reader) -> Loaded | None:
    """Return the plug-in that a reader is of; None for built-in ones."""
    return next(
        (
            item
            for item in _loaded(False)
            if item.reader is reader and item.origin == PLUG_IN
        ),
        None,
    )


def _asked(guest: Loaded, ask: Callable[[], _T]) -> _T:
    """Return what a plug-in answers within its time. Raises GuestError."""
    answer, changes = guests.run(ask, seconds=guests.limit_seconds())
    guest.note_changes(changes)
    return answer


def _judgements(items: Sequence[Loaded], head: Head, origin: str) -> list[Candidate]:
    return [
        Candidate(item.reader, _judgement(item, item.reader, head))
        for item in items
        if item.origin == origin and item.reader is not None
    ]


def _judgement(item: Loaded, reader: Reader, head: Head) -> Sniff:
    if item.error:
        return NOT_MINE
    ask = functools.partial(reader.sniff, head)
    try:
        sniff = _asked(item, ask) if item.origin == PLUG_IN else ask()
    except GuestError as error:
        item.switch_off(f"sniff: {error}")
    except Exception as error:  # noqa: BLE001 - one reader must not stop the others
        item.switch_off(f"sniff raised {guests.one_line(error)}")
    else:
        if _is_judgement(sniff):
            return sniff
        item.switch_off(f"sniff returned {guests.shown(sniff)}")
    return NOT_MINE


def _is_judgement(sniff: object) -> bool:
    return (
        isinstance(sniff, Sniff)
        and isinstance(sniff.confidence, int)
        and isinstance(sniff.reason, str)
        and 0 <= sniff.confidence <= 100
    )


def _named(reader_id: str, source: Source) -> Reader:
    for waits in (False, True):
        for item in _loaded(waits):
            if item.reader is None or item.reader.info.id != reader_id:
                continue
            if item.is_off:
                raise ReadError(
                    f"the plug-in {reader_id} is switched off: {item.error}.",
                    path=source.path,
                    reader_id=reader_id,
                    hint="It is asked again when the program is started anew.",
                )
            return item.reader
    known = ", ".join(r.info.id for r in readers())
    raise UnknownFormatError(
        f"there is no reader {reader_id!r}.",
        path=source.path,
        hint=f"Known readers: {known}.",
    )


def _chosen(source: Source) -> tuple[Candidate, list[Candidate]]:
    """Return the candidate that wins, and the others that would read the file."""
    judged = sniff_all(source)
    candidates = [c for c in judged if c.sniff.confidence > 0]
    if not candidates:
        raise _unknown(source, judged)
    best = candidates[0].sniff.confidence
    tied = [c for c in candidates if c.sniff.confidence == best]
    if len(tied) > 1:
        suffix = source.path.suffix.lower()
        named = [c for c in tied if suffix and suffix in c.info.suffixes]
        if len(named) != 1:
            raise AmbiguousFormatError(
                f"{len(tied)} readers claim this file equally.",
                path=source.path,
                candidates=[c.info.id for c in tied],
            )
        tied = named
    return tied[0], [c for c in candidates if c is not tied[0]]


def _unknown(source: Source, judged: Sequence[Candidate]) -> ReadError:
    head = source.head(HEAD_BYTES)
    if is_all_zero(source, head):
        return EmptyFileError(
            f"the file is {source.size:,} bytes of zeros; nothing was written to it.",
            path=source.path,
            offset=0,
            hint="Check that the program that should write it ran to its end.",
        )
    reasons = " ".join(
        f"{c.info.id}: {c.sniff.reason.rstrip('.')}." for c in judged if c.sniff.reason
    )
    begins = head[:16].hex(" ").upper()
    return UnknownFormatError(
        f"no reader recognises this file. {describe(head)} It begins with {begins}."
        + (f" {reasons}" if reasons else ""),
        path=source.path,
        offset=0,
        hint="Name its format with --format if you know it.",
    )


def _read(reader: Reader, source: Source, context: ReadContext | None) -> Trace:
    """Return what the reader makes of the file; its failures become ReadErrors."""
    context = context or ReadContext()
    guest = _guest(reader)
    try:
        if guest is None:
            trace = reader.read(source, context)
        else:
            trace = _read_by(
                guest, functools.partial(reader.read, source, context), context
            )
    except (ReadError, Cancelled) as error:
        if isinstance(error, ReadError):
            error.path = error.path or source.path
            error.reader_id = error.reader_id or reader.info.id
        raise
    except MemoryError as error:
        raise LimitExceededError(
            "there is not enough memory to read this file.",
            path=source.path,
            reader_id=reader.info.id,
            hint="Close other programs or traces and open it again.",
        ) from error
    except Exception as error:
        # Border to readers, whose faults must not end the program.
        what = str(error) if isinstance(error, GuestError) else guests.one_line(error)
        raise ReadError(
            f"the reader {reader.info.id} failed: {what}.",
            path=source.path,
            reader_id=reader.info.id,
            hint="Please report this with the file, or with its first 64 KiB."
            if guest is None
            else f"It is a plug-in: tell who wrote {guest.path}.",
        ) from error
    return trace


def _read_by(guest: Loaded, read: Callable[[], Trace], context: ReadContext) -> Trace:
    """Return what a plug-in makes of a file, checked. It may take its time.

    It runs on a thread of its own, so that a person can give up even on one that
    never looks at `context`.
    """

    def checked() -> Trace:
        trace = read()
        _check(trace)
        return trace

    trace, changes = guests.run(
        checked,
        seconds=None,
        check=context.check_cancelled,
        passes=(ReadError, Cancelled, MemoryError),
    )
    guest.note_changes(changes)
    return trace


def _check(trace: object) -> None:
    if not isinstance(trace, Trace):
        raise TypeError(f"it returned {type(trace).__name__}, not a Trace")
    broken = trace.check()
    if broken:
        raise ValueError(f"its trace contradicts itself: {broken[0]}")


def _with_parts(trace: Trace, reader: Reader, context: ReadContext | None) -> Trace:
    """Return the trace with a note of each part option, heeded or not."""
    asked = {} if context is None else context.options
    notes = []
    for option, whole in ((RANGE_OPTION, ""), (NAMES_OPTION, NAMES_CHOICES[0])):
        value = asked.get(option, whole)
        if value == whole or any(w.code.startswith(option) for w in trace.warnings):
            continue  # nothing asked for, or the reader says it better
        if option not in trace.info.options:
            message = f"The reader {reader.info.id} does not know {option}={value}."
            severity, code = Severity.NOTICE, f"{option}_ignored"
            message += " The file was read as a whole."
        elif option == RANGE_OPTION:
            message = f"Only the records {value} were read, as asked for."
            severity, code = Severity.INFO, "range_read"
        else:
            which = "No names" if value == "none" else "Only the names of a sample"
            message = f"{which} were read, as asked for."
            severity, code = Severity.INFO, f"names_{value}"
        notes.append(ReadWarning(severity, code, message))
    if not notes:
        return trace
    warnings = sorted((*trace.warnings, *notes), key=lambda w: -w.severity)
    return dataclasses.replace(trace, warnings=tuple(warnings))


def _with_notice(trace: Trace, chosen: Candidate, others: list[Candidate]) -> Trace:
    reason = chosen.sniff.reason.rstrip(".")
    remedy = "Where it looks wrong, name the format with --format."
    if others:
        ids = ", ".join(c.info.id for c in others)
        remedy = f"Where it looks wrong, open it again with --format: {ids}."
    notice = ReadWarning(
        Severity.NOTICE,
        "low_confidence",
        f"Read as {chosen.info.title} because its structure fits"
        + (f" ({reason})" if reason else "")
        + "; nothing in the file says so.",
        remedy=remedy,
    )
    warnings = sorted((*trace.warnings, notice), key=lambda w: -w.severity)
    return dataclasses.replace(trace, warnings=tuple(warnings))
