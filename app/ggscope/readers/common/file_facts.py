"""Facts and warnings about a file that readers of every format give alike."""

from collections.abc import Mapping

from ggscope.errors import LimitExceededError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import DeclaredMetric, Severity, Trace, TraceInfo
from ggscope.readers.api import ReaderInfo
from ggscope.readers.source import CHANGES, Change, Source


def trace_info(
    reader: ReaderInfo,
    source: Source,
    n_records: int,
    *,
    version: str = "",
    producer: Mapping[str, str] | None = None,
    summary: Mapping[str, object] | None = None,
    stated: tuple[DeclaredMetric, ...] = (),
) -> TraceInfo:
    """Return the facts of a trace of one file; see `TraceInfo` for the parameters."""
    return TraceInfo(
        paths=(source.path,),
        reader_id=reader.id,
        format=reader.title,
        format_version=version,
        byte_size=source.size,
        n_records=n_records,
        producer=dict(producer or {}),
        summary=dict(summary or {}),
        stated=stated,
        modified_ns=source.modified_ns,
    )


def file_trace(
    builder: TraceBuilder,
    reader: ReaderInfo,
    source: Source,
    n_records: int,
    events: Mapping[str, object],
    *,
    noun: str = "",
    version: str = "",
    producer: Mapping[str, str] | None = None,
    pending: frozenset[str] = frozenset(),
    read_until: int | None = None,
) -> Trace:
    """Return what a builder holds as the trace of one file.

    Parameters
    ----------
    events : how many records there are of each kind.
    noun : what the records are called where a change of the file is noted: at the end,
        not while more is `pending`; "" = not here.
    version, producer : see `TraceInfo`.
    pending, read_until : see `TraceBuilder.snapshot`.
    """
    if noun and not pending:
        loaded = f"{n_records:,} {noun}"
        note_change(builder, source.change(), loaded, source.size)
    summary = {"events": dict(events)}
    info = trace_info(
        reader, source, n_records, version=version, producer=producer, summary=summary
    )
    return builder.snapshot(info, pending, read_until=read_until)


def refuse_larger(source: Source, limit: int, hint: str) -> None:
    """Raise LimitExceededError where a file has more than `limit` bytes."""
    if source.size > limit:
        raise LimitExceededError(
            f"the file is larger than the limit of {limit >> 20:,} MiB.", hint=hint
        )


def note_open_end(builder: TraceBuilder, source: Source, end: bytes = b"\n") -> None:
    """Note that a text does not end as its writer ends it.

    Parameters
    ----------
    end : what stands behind its last record.
    """
    n = min(2 * len(end), source.size)
    last = source.read(source.size - n, n)
    if not last.replace(b"\r", b"").endswith(end):
        builder.warn(
            Severity.NOTICE,
            "unfinished_line",
            "the file does not end as its writer ends it; the last lines may be cut.",
            source.size,
        )


def note_change(
    builder: TraceBuilder,
    change: Change,
    loaded: str,
    position: int,
    *,
    severity: Severity = Severity.DATA_LOSS,
) -> None:
    """Note what happened to the file while it was read, if anything.

    Parameters
    ----------
    loaded, position : what was read, such as "7 events", and up to which byte.
    """
    if change is not Change.NONE:
        builder.warn(
            severity,
            "file_changed",
            f"{CHANGES[change]}; loaded: {loaded}, up to byte {position:,}.",
            position,
            remedy="Reload the file when it is complete.",
        )
