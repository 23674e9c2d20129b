"""Traces of what was gathered from tables: rows with times, or totals without."""

from collections.abc import Callable, Mapping

from ggscope.errors import CorruptError
from ggscope.model.backend_ops import BackendOps
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import Clock
from ggscope.readers.api import ReadContext, ReaderInfo
from ggscope.readers.common.delimited import DelimitedTable, row_fields
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.common.gathered import Gathered
from ggscope.readers.common.packed_text import text_of
from ggscope.readers.common.placed_records import PlacedRecords
from ggscope.readers.source import Source

_SPANS = frozenset({"spans"})


def gathered_trace(
    gathered: Gathered,
    reader: ReaderInfo,
    source: Source,
    n_records: int,
    counts: Mapping[str, int],
    producer: Mapping[str, str],
    *,
    is_last: bool,
) -> Trace | None:
    """Return the trace of gathered events; None where none has a time.

    Parameters
    ----------
    counts : records by kind.
    is_last : whether all of the file was read; else more spans follow.
    """
    origin = gathered.origin
    if origin is None:
        return None
    gathered.add_to_builder(origin)
    builder = gathered.builder
    builder.clock = Clock.of_stamps(origin)
    if is_last:
        gathered.warn_of_times()
    return file_trace(
        builder, reader, source, n_records, counts, noun="records",
        producer=producer, pending=frozenset() if is_last else _SPANS,
    )  # fmt: skip


def table_trace(
    reader: ReaderInfo,
    source: Source,
    context: ReadContext,
    table: DelimitedTable,
    gather: Callable[[], Gathered],
    counts: Callable[[], dict[str, int]],
) -> Trace:
    """Read a table whose rows have times and return its trace.

    Parameters
    ----------
    gather : returns the events of the rows so far; their records are the rows.
    counts : returns how many rows of each kind there are so far.

    Raises
    ------
    CorruptError
        If no row has times.
    """
    text = text_of(source)

    def made(*, is_last: bool) -> Trace | None:
        gathered = gather()
        gathered.builder.records = PlacedRecords(
            text.opener(), table.offsets(), "row", row_fields(table.header)
        )
        if is_last:
            table.warn(gathered.builder)
        return gathered_trace(
            gathered, reader, source, len(table), counts(), {}, is_last=is_last
        )

    def publish() -> None:
        some = made(is_last=False)
        if some is not None:
            context.publish(some)

    table.read(text, context, source.size, publish if context.wants_stages else None)
    trace = made(is_last=True)
    if trace is None:
        raise CorruptError(
            "the table has no row with times.", hint="Was anything traced?"
        )
    return trace


def totals_trace(
    reader: ReaderInfo,
    source: Source,
    context: ReadContext,
    table: DelimitedTable,
    listing: Callable[[], BackendOps],
    counts: Callable[[], dict[str, int]],
    times: str,
) -> Trace:
    """Read a table of totals and return a trace of no spans with them.

    Parameters
    ----------
    times : what has the times that the table lacks, as a sentence.

    Raises
    ------
    CorruptError
        If there is no row.
    """
    table.read(text_of(source), context, source.size)
    if not len(table):
        raise CorruptError("the table has no row that can be read.")
    builder = TraceBuilder()
    builder.backend_ops = listing()
    builder.warn(
        Severity.NOTICE,
        "no_times",
        "the table has totals and no times: there is no timeline.",
        remedy=times,
    )
    table.warn(builder)
    return file_trace(builder, reader, source, len(table), counts(), noun="rows")
