"""The registry of readers: detects a file's format and reads it.

The package of each built-in format has its `ReaderInfo`, which selects by a file's
first bytes the readers that are imported and asked.
"""

import dataclasses
import importlib
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ggscope.errors import (
    AmbiguousFormatError,
    Cancelled,
    EmptyFileError,
    LimitExceededError,
    ReadError,
    UnknownFormatError,
)
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.readers import (
    backend_ops,
    bench,
    bigmoe,
    buffers,
    chrome,
    cuda,
    experts,
    extents,
    folded,
    ggml_profile,
    ggml_roofline,
    ggmlviz,
    gguf,
    graph,
    hexagon,
    imatrix,
    instruments,
    logs,
    maps,
    metadata,
    msprof,
    npu,
    opencl,
    perf,
    perfetto,
    pprof,
    recording,
    rocprof,
    speedscope,
    sqlite,
    storage,
    tensor,
    tensorrt,
)
from ggscope.readers.api import (
    BOM,
    GZIP,
    HEAD_BYTES,
    NOT_MINE,
    TRACE,
    ZSTD,
    Estimate,
    EstimatingReader,
    Head,
    ReadContext,
    Reader,
    ReaderInfo,
    Sniff,
)
from ggscope.readers.partial_reading import NAMES_CHOICES, NAMES_OPTION, RANGE_OPTION
from ggscope.readers.source import CHANGES, Change, Source
from ggscope.readers.tensor import token_json

if TYPE_CHECKING:
    from ggscope.readers.plugins import Loaded

BUILTIN = {
    "ggscope.readers.ggmlviz.reader:GgmlvizReader": ggmlviz.INFO,
    "ggscope.readers.tensor.reader:TensorAccessReader": tensor.INFO,
    "ggscope.readers.npu.reader:NpuJsonReader": npu.INFO,
    "ggscope.readers.tensor.token_json.reader:TraceJsonReader": token_json.INFO,
    "ggscope.readers.gguf.reader:GgufReader": gguf.INFO,
    "ggscope.readers.maps.memory_map:MemoryMapReader": maps.MEMORY_MAP_INFO,
    "ggscope.readers.maps.csv:StructureCsvReader": maps.STRUCTURE_INFO,
    "ggscope.readers.maps.csv:RegistryCsvReader": maps.REGISTRY_INFO,
    "ggscope.readers.maps.names:NamesReader": maps.NAMES_INFO,
    "ggscope.readers.metadata.reader:MetadataReader": metadata.INFO,
    "ggscope.readers.graph.json:GraphJsonReader": graph.JSON_INFO,
    "ggscope.readers.graph.dot:GraphDotReader": graph.DOT_INFO,
    "ggscope.readers.buffers.events_jsonl:BufferStatsReader": buffers.EVENTS_INFO,
    "ggscope.readers.buffers.timeline_json:BufferTimelineReader": buffers.TIMELINE_INFO,
    "ggscope.readers.experts.moe_csv:MoeCsvReader": experts.INFO,
    "ggscope.readers.bigmoe.reader:BigMoeReader": bigmoe.INFO,
    "ggscope.readers.ggml_profile.reader:GgmlProfileReader": ggml_profile.INFO,
    "ggscope.readers.ggml_roofline.reader:GgmlRooflineReader": ggml_roofline.INFO,
    "ggscope.readers.recording.reader:SidecarReader": recording.INFO,
    "ggscope.readers.cuda.reader:CudaReader": cuda.INFO,
    "ggscope.readers.chrome.reader:ChromeReader": chrome.INFO,
    "ggscope.readers.logs.reader:LogReader": logs.INFO,
    "ggscope.readers.backend_ops.reader:BackendOpsReader": backend_ops.INFO,
    "ggscope.readers.hexagon.reader:HexagonReader": hexagon.INFO,
    "ggscope.readers.opencl.reader:OpenclReader": opencl.INFO,
    "ggscope.readers.bench.reader:BenchReader": bench.INFO,
    "ggscope.readers.imatrix.reader:ImatrixReader": imatrix.INFO,
    "ggscope.readers.storage.reader:StorageReader": storage.INFO,
    "ggscope.readers.extents.reader:ExtentsReader": extents.INFO,
    "ggscope.readers.sqlite.reader:SqliteReader": sqlite.INFO,
    "ggscope.readers.msprof.reader:MsprofReader": msprof.INFO,
    "ggscope.readers.perfetto.reader:PerfettoReader": perfetto.INFO,
    "ggscope.readers.tensorrt.reader:TensorrtReader": tensorrt.INFO,
    "ggscope.readers.rocprof.reader:RocprofReader": rocprof.INFO,
    "ggscope.readers.perf.reader:PerfReader": perf.INFO,
    "ggscope.readers.folded.reader:FoldedReader": folded.INFO,
    "ggscope.readers.speedscope.reader:SpeedscopeReader": speedscope.INFO,
    "ggscope.readers.pprof.reader:PprofReader": pprof.INFO,
    "ggscope.readers.instruments.reader:InstrumentsReader": instruments.INFO,
}
"""Classes of the built-in readers, and what is known of them before they are there."""
BUILT_IN = "built-in"
PLUG_IN = "plug-in"
SURE = 50
"""From this confidence on a reader is taken without a notice."""
MOST = 100
"""The largest confidence."""
CERTAIN = 90
"""From this confidence of a built-in reader on, no plug-in is asked or waited for."""

_JSON = (b"{", b"[")
"""What objects and lists begin with."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A reader and its judgement of a file."""

    item: "BuiltIn | Loaded"
    info: ReaderInfo
    sniff: Sniff


@dataclass(frozen=True, slots=True)
class ReaderStatus:
    """State of a reader, for lists of readers.

    Attributes
    ----------
    info : None where it could not be loaded.
    origin : "built-in" or "plug-in".
    status : "ok", "loading" or "failed: …"; a plug-in that failed is switched off.
    path : file, entry point or module that it comes from.
    changes : what a plug-in changed for the whole program, as texts.
    """

    info: ReaderInfo | None
    origin: str
    status: str
    path: str
    changes: tuple[str, ...] = ()


@dataclass(slots=True)
class BuiltIn:
    """A reader of the program itself, imported when it is first needed.

    Attributes
    ----------
    path : its class, "module:Class".
    error : why it was switched off; "" = it was not.
    """

    path: str
    info: ReaderInfo
    error: str = ""
    _reader: Reader | None = None

    @property
    def reader(self) -> Reader | None:
        """The reader; None where it could not be loaded, see `error`."""
        if self._reader is None and not self.error:
            try:
                module, _, name = self.path.partition(":")
                self._reader = getattr(importlib.import_module(module), name)()
            except Exception as error:  # noqa: BLE001 - the others still work
                self.switch_off(_failure(error))
        return self._reader

    def sniff(self, head: Head) -> Sniff:
        """Return its judgement of a file."""
        assert self.reader is not None
        return self.reader.sniff(head)

    def estimate(self, head: Head) -> Estimate | None:
        """Return the cost of reading a file with this head; None if unknown."""
        reader = self.reader
        return reader.estimate(head) if isinstance(reader, EstimatingReader) else None

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file."""
        assert self.reader is not None
        return self.reader.read(source, context)

    def switch_off(self, error: str) -> None:
        """Never ask it again, because of `error`."""
        self.error = error
        logger.warning("reader of %s is switched off: %s", self.path, error)


_BUILT_IN = tuple(BuiltIn(path, info) for path, info in BUILTIN.items())


def infos(*, waits: bool = True) -> list[ReaderInfo]:
    """Return the facts of all readers, built-in ones first, without importing these.

    Parameters
    ----------
    waits : for plug-ins that are still being loaded; some seconds at worst.
    """
    built_in = [item.info for item in _BUILT_IN if not item.error]
    return built_in + [
        item.info for item in _plugins(waits) if item.info and not item.error
    ]


def readers(*, waits: bool = True) -> list[Reader]:
    """Return all readers that could be loaded, built-in ones first.

    Parameters
    ----------
    waits : as for `infos`.
    """
    built_in = [item.reader for item in _BUILT_IN]
    from_plugins = [item.reader for item in _plugins(waits) if not item.error]
    return [reader for reader in (*built_in, *from_plugins) if reader is not None]


def role_of(reader_id: str) -> str:
    """Return the role of a reader's files; `TRACE` for an unknown reader."""
    for item in _BUILT_IN:
        if item.info.id == reader_id:
            return item.info.role
    for plugin in _plugins(False):
        if plugin.info is not None and plugin.info.id == reader_id:
            return plugin.info.role
    return TRACE


def may_be(source: Source, roles: Collection[str]) -> bool:
    """Return whether a file may have one of these roles, by its first bytes."""
    head = _head(source)
    return any(info.role in roles and info.allows(head) for info in infos())


def statuses(*, waits: bool = True) -> tuple[ReaderStatus, ...]:
    """Return the state of every reader, those that failed too.

    Parameters
    ----------
    waits : as for `infos`.
    """
    built_in = tuple(
        ReaderStatus(
            None if item.reader is None else item.info,
            BUILT_IN,
            _status(item.error),
            item.path,
        )
        for item in _BUILT_IN
    )
    return built_in + tuple(
        ReaderStatus(
            item.info,
            PLUG_IN,
            "loading" if item.is_loading else _status(item.error),
            item.path,
            item.changes,
        )
        for item in _plugins(waits)
    )


def troubles(*, waits: bool = False) -> tuple[ReadWarning, ...]:
    """Return a notice for every plug-in that is switched off by now.

    Parameters
    ----------
    waits : as for `infos`.
    """
    return tuple(
        ReadWarning(
            Severity.NOTICE,
            "plugin_off",
            f"Plug-in {item.info.id if item.info else item.path} is disabled: "
            f"{item.error}.",
            place=item.path,
            remedy="Fix or remove it; --safe-mode disables all plug-ins.",
        )
        for item in _plugins(waits)
        if item.error
    )


def with_troubles(trace: Trace) -> Trace:
    """Return the trace with `troubles` among its warnings; waits for all plug-ins."""
    new = (w for w in troubles(waits=True) if w not in trace.warnings)
    warnings = sorted((*trace.warnings, *new), key=lambda w: -w.severity)
    if len(warnings) == len(trace.warnings):
        return trace
    return dataclasses.replace(trace, warnings=tuple(warnings))


def are_loading() -> bool:
    """Return whether some plug-in is still loading."""
    return any(item.is_loading for item in _plugins(False))


def sniff_all(source: Source) -> list[Candidate]:
    """Return the judgements of readers about a file, most confident first.

    Built-in readers are asked where the first bytes allow their format; those of
    records without a signature, and plug-ins, where none of the others is `CERTAIN`;
    and all built-in ones where none takes the file, for the reasons in the error
    message. Before that readers of JSON judge the outline of a text whose first values
    are longer than the first bytes. Lines are looked for, which takes longest, where
    none is sure by magic number or keys. A reader whose sniffing fails is not asked
    again and counts as 0.
    """
    head = _head(source)
    allowed = [item for item in _BUILT_IN if item.info.has_signature(head)]
    judged = _judgements([i for i in allowed if not i.info.is_binary], head)
    if all(c.sniff.confidence < MOST for c in judged):
        others = [i for i in _BUILT_IN if i not in allowed and i.info.has_line(head)]
        judged += _judgements(others, head)
        allowed += others
    if all(c.sniff.confidence < CERTAIN for c in judged):
        judged += _judgements([i for i in allowed if i.info.is_binary], head)
        judged += _judgements(_plugins(True), head)
    if all(c.sniff.confidence == 0 for c in judged):
        judged += _judgements_by_outline(source, head)
    if all(c.sniff.confidence == 0 for c in judged):
        others = [item for item in _BUILT_IN if item not in allowed]
        judged += _judgements(others, head)
    return sorted(judged, key=lambda c: -c.sniff.confidence)


def _judgements_by_outline(source: Source, head: Head) -> list[Candidate]:
    """Return judgements by the outline of a JSON text whose first value is long."""
    is_packed = head.data.startswith((GZIP, ZSTD))
    begin = head.data.removeprefix(BOM).lstrip()
    if not is_packed and (head.size <= HEAD_BYTES or not begin.startswith(_JSON)):
        return []
    # Few files come here.
    from ggscope.readers.common.json_outline import outline

    try:
        short = Head(head.name, head.size, outline(source))
    except ReadError:
        return []
    allowed = [i for i in _BUILT_IN if i.info.keys and i.info.has_signature(short)]
    if is_packed:
        allowed = [i for i in allowed if GZIP in i.info.magic]
    return [c for c in _judgements(allowed, short) if c.sniff.confidence]


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
    admit : called with the estimate before anything is read, where the reader makes
        one; may raise to refuse the file.

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
            item = _named(reader_id, source)
            _admit(item, source, admit)
            return _read(item, source, context)
        chosen, others = _chosen(source)
        _admit(chosen.item, source, admit)
        trace = _read(chosen.item, source, context)
        if chosen.sniff.confidence >= SURE:
            return trace
        return _with_notice(trace, chosen, others)


def estimate(path: Path | str, *, reader_id: str | None = None) -> Estimate | None:
    """Return what reading `path` would cost; None where its reader makes no estimate.

    Raises
    ------
    UnknownFormatError, AmbiguousFormatError, ReadError
        As `open_trace`, where no reader can be chosen.
    """
    with Source(path) as source:
        if reader_id is not None:
            return _estimate(_named(reader_id, source), source)
        return _estimate(_chosen(source)[0].item, source)


def _estimate(item: "BuiltIn | Loaded", source: Source) -> Estimate | None:
    try:
        result: object = item.estimate(_head(source))
    except Exception:
        # Border to readers: one that cannot count may still be able to read.
        logger.warning("reader of %s: estimate failed", item.path, exc_info=True)
        return None
    return result if isinstance(result, Estimate) else None


def _admit(
    item: "BuiltIn | Loaded",
    source: Source,
    admit: Callable[[Estimate], None] | None,
) -> None:
    cost = None if admit is None else _estimate(item, source)
    if admit is not None and cost is not None:
        admit(cost)


def _head(source: Source) -> Head:
    return Head(source.path.name, source.size, source.head(HEAD_BYTES))


def _plugins(waits: bool) -> "Sequence[Loaded]":
    # Imported on demand: few files need plug-ins.
    from ggscope.readers import plugins

    return plugins.load_all({item.info.id: item.path for item in _BUILT_IN}, waits)


def _status(error: str) -> str:
    return f"failed: {error}" if error else "ok"


def _judgements(items: "Sequence[BuiltIn | Loaded]", head: Head) -> list[Candidate]:
    return [
        Candidate(item, item.info, _judgement(item, head))
        for item in items
        if item.reader is not None and item.info is not None
    ]


def _judgement(item: "BuiltIn | Loaded", head: Head) -> Sniff:
    if item.error:
        return NOT_MINE
    try:
        sniff = item.sniff(head)
    except Exception as error:  # noqa: BLE001 - border to readers
        item.switch_off(f"sniff: {_failure(error)}")
        return NOT_MINE
    if _is_judgement(sniff):
        return sniff
    from ggscope.readers.plugins import shown

    item.switch_off(f"sniff returned {shown(sniff)}")
    return NOT_MINE


def _failure(error: Exception) -> str:
    """Return the failure of a reader as one line."""
    from ggscope.readers.plugins import PluginError, one_line

    return str(error) if isinstance(error, PluginError) else one_line(error)


def _is_judgement(sniff: object) -> bool:
    return (
        isinstance(sniff, Sniff)
        and isinstance(sniff.confidence, int)
        and isinstance(sniff.reason, str)
        and 0 <= sniff.confidence <= 100
    )


def _named(reader_id: str, source: Source) -> "BuiltIn | Loaded":
    for item in _BUILT_IN:
        if item.info.id == reader_id and item.reader is not None:
            return item
    for plugin in _plugins(True):
        if plugin.info is None or plugin.info.id != reader_id:
            continue
        if plugin.error:
            raise ReadError(
                f"plug-in {reader_id} is disabled: {plugin.error}.",
                path=source.path,
                reader_id=reader_id,
                hint="Restart the program to try it again.",
            )
        return plugin
    known = ", ".join(info.id for info in infos())
    raise UnknownFormatError(
        f"unknown reader {reader_id!r}.",
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
                f"the file matches {len(tied)} formats equally.",
                path=source.path,
                candidates=[c.info.id for c in tied],
            )
        tied = named
    return tied[0], [c for c in candidates if c is not tied[0]]


def _unknown(source: Source, judged: Sequence[Candidate]) -> ReadError:
    # Only for the message to people.
    from ggscope.readers.format_hints import is_all_zero, likeness

    head = source.head(HEAD_BYTES)
    if is_all_zero(source, head):
        return EmptyFileError(
            f"the file has only zeros ({source.size:,} bytes); nothing was "
            "written to it.",
            path=source.path,
            offset=0,
            hint="Check that the program that writes it ran to completion.",
        )
    kind = likeness(head, source.path)
    if kind.command:  # what readers lack in it is of no use
        judged = ()
    reasons = " ".join(
        f"{c.info.id}: {c.sniff.reason.rstrip('.')}." for c in judged if c.sniff.reason
    )
    no_hint = "If ggscope supports its format, select it with --format."
    return UnknownFormatError(
        f"unknown file format. {kind.sentence}" + (f" {reasons}" if reasons else ""),
        path=source.path,
        offset=0,
        hint=kind.remedy if kind.is_known else no_hint,
        command=kind.command,
    )


def _read(
    item: "BuiltIn | Loaded", source: Source, context: ReadContext | None
) -> Trace:
    """Return the trace that the reader makes; its failures become ReadErrors."""
    context = context or ReadContext()
    reader_id = "" if item.info is None else item.info.id
    try:
        trace = item.read(source, context)
    except (ReadError, Cancelled) as error:
        if isinstance(error, ReadError):
            error.path = error.path or source.path
            error.reader_id = error.reader_id or reader_id
        raise
    except MemoryError as error:
        raise LimitExceededError(
            "not enough memory to read this file.",
            path=source.path,
            reader_id=reader_id,
            hint="Close other programs or traces and try again.",
        ) from error
    except Exception as error:
        # Border to readers, whose faults must not end the program.
        raise ReadError(
            f"the reader {reader_id} failed: {_failure(error)}.",
            path=source.path,
            reader_id=reader_id,
            hint="Please report this with the file or its first 64 KiB."
            if isinstance(item, BuiltIn)
            else f"Report this to the author of the plug-in {item.path}.",
        ) from error
    is_built_in = isinstance(item, BuiltIn)
    trace = _with_change(trace, source)
    return _with_parts(trace, reader_id, context, is_built_in=is_built_in)


def _with_parts(
    trace: Trace, reader_id: str, context: ReadContext, *, is_built_in: bool
) -> Trace:
    """Return the trace with a note on each option of partial reading."""
    options = context.options
    notes = []
    for option, whole in ((RANGE_OPTION, ""), (NAMES_OPTION, NAMES_CHOICES[0])):
        value = options.get(option, whole)
        if value == whole or any(w.code.startswith(option) for w in trace.warnings):
            continue  # not requested, or the reader has a better note
        if option not in trace.info.options:
            message = f"The reader {reader_id} does not support {option}={value}."
            severity, code = Severity.NOTICE, f"{option}_ignored"
            message += " The whole file was read."
        elif option == RANGE_OPTION and is_built_in:
            continue  # it left out nothing
        elif option == RANGE_OPTION:
            message = f"Only records {value} were read, as requested."
            severity, code = Severity.INFO, "range_read"
        else:
            which = "No names" if value == "none" else "Only the names of a sample"
            message = f"{which} were read, as requested."
            severity, code = Severity.INFO, f"names_{value}"
        notes.append(ReadWarning(severity, code, message))
    return _with_notes(trace, *notes)


def _with_change(trace: Trace, source: Source) -> Trace:
    """Return the trace with a note that its file changed while it was read."""
    change = source.change()
    if change is Change.NONE or any(w.code == "file_changed" for w in trace.warnings):
        return trace  # unchanged, or the reader has a better note
    is_loss = change in (Change.SHRUNK, Change.REWRITTEN)
    note = ReadWarning(
        Severity.DATA_LOSS if is_loss else Severity.NOTICE,
        "file_changed",
        f"{CHANGES[change]}.",
        remedy="Reload the file when it is complete.",
    )
    return _with_notes(trace, note)


def _with_notes(trace: Trace, *notes: ReadWarning) -> Trace:
    if not notes:
        return trace
    warnings = sorted((*trace.warnings, *notes), key=lambda w: -w.severity)
    return dataclasses.replace(trace, warnings=tuple(warnings))


def _with_notice(trace: Trace, chosen: Candidate, others: list[Candidate]) -> Trace:
    reason = chosen.sniff.reason.rstrip(".")
    remedy = "If this is wrong, select the format with --format."
    if others:
        ids = ", ".join(c.info.id for c in others)
        remedy = f"If this is wrong, select another format with --format: {ids}."
    notice = ReadWarning(
        Severity.NOTICE,
        "low_confidence",
        f"Detected as {chosen.info.title} ("
        + (f"{reason}; " if reason else "")
        + "no signature in the file).",
        remedy=remedy,
    )
    return _with_notes(trace, notice)
