"""Which readers there are, and which one a file belongs to."""

import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from ggscope.readers.plugins import Loaded
from ggscope.readers.source import Source

BUILTIN = (
    "ggscope.readers.ggmlviz:GgmlvizReader",
    "ggscope.readers.tensor_access:TensorAccessReader",
    "ggscope.readers.npu_json:NpuJsonReader",
    "ggscope.readers.trace_json:TraceJsonReader",
    "ggscope.readers.gguf_model:GgufReader",
    "ggscope.readers.memory_map:MemoryMapReader",
    "ggscope.readers.structure_csv:StructureCsvReader",
    "ggscope.readers.registry_csv:RegistryCsvReader",
    "ggscope.readers.graph_json:GraphJsonReader",
    "ggscope.readers.graph_dot:GraphDotReader",
    "ggscope.readers.buffer_stats:BufferStatsReader",
    "ggscope.readers.buffer_timeline:BufferTimelineReader",
    "ggscope.readers.moe_csv:MoeCsvReader",
)
SURE = 50
"""From this confidence on a reader is taken without a notice."""

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
    status : "ok" or "failed: …".
    path : file, entry point or module that it comes from.
    """

    info: ReaderInfo | None
    origin: str
    status: str
    path: str


def readers() -> list[Reader]:
    """Return all readers that could be loaded, built-in ones first."""
    return [item.reader for item in _loaded() if item.reader is not None]


def statuses() -> tuple[ReaderStatus, ...]:
    """Return what became of every reader, those that failed too."""
    return tuple(
        ReaderStatus(
            None if item.reader is None else item.reader.info,
            item.origin,
            f"failed: {item.error}" if item.error else "ok",
            item.path,
        )
        for item in _loaded()
    )


def sniff_all(source: Source) -> list[Candidate]:
    """Return every reader's judgement, most confident first.

    A reader whose sniffing fails is not asked again and counts as 0.
    """
    head = _head(source)
    judged = [
        Candidate(item.reader, _judgement(item, head))
        for item in _loaded()
        if item.reader is not None
    ]
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
    try:
        found = reader.estimate(_head(source))
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


def _loaded() -> Sequence[Loaded]:
    return plugins.load_all(BUILTIN)


def _judgement(item: Loaded, head: Head) -> Sniff:
    if item.reader is None or item.error:
        return NOT_MINE
    try:
        sniff = item.reader.sniff(head)
        valid = isinstance(sniff, Sniff) and 0 <= sniff.confidence <= 100
    except Exception as error:  # noqa: BLE001 - border to code of third parties
        item.error = f"sniff raised {plugins.one_line(error)}"
    else:
        if valid:
            return sniff
        item.error = f"sniff returned {sniff!r:.80}"
    logger.warning("reader %s: %s", item.reader.info.id, item.error)
    return NOT_MINE


def _named(reader_id: str, source: Source) -> Reader:
    for reader in readers():
        if reader.info.id == reader_id:
            return reader
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
    try:
        trace = reader.read(source, context or ReadContext())
        if _is_foreign(reader):
            _check(trace)
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
        raise ReadError(
            f"the reader {reader.info.id} failed: {plugins.one_line(error)}.",
            path=source.path,
            reader_id=reader.info.id,
            hint="Please report this with the file, or with its first 64 KiB.",
        ) from error
    return trace


def _is_foreign(reader: Reader) -> bool:
    return any(
        item.reader is reader and item.origin == plugins.PLUG_IN for item in _loaded()
    )


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
