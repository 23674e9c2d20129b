"""Reader of what rocprofv3 writes as JSON and CSV."""

from ggscope.errors import CorruptError, ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import format_counted
from ggscope.readers.api import (
    HEAD_BYTES,
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.common.delimited import DelimitedTable, Header, header_of
from ggscope.readers.common.objects import object_fields
from ggscope.readers.common.packed_text import (
    estimated_text_bytes,
    remedy_of_packing,
    text_of,
    unpacked_head,
    warn_of_packing,
)
from ggscope.readers.common.placed_records import PlacedRecords
from ggscope.readers.common.table_traces import (
    gathered_trace,
    table_trace,
    totals_trace,
)
from ggscope.readers.rocprof import INFO
from ggscope.readers.rocprof.records import ROOT, JsonRecords
from ggscope.readers.rocprof.tables import KINDS, CsvRecords, Form, form_of
from ggscope.readers.source import Source

_RECORD_BYTES = 480
"""Of a record in JSON, about; rows of CSV have half of that."""
_FINAL_BYTES, _PEAK_BYTES = 70, 260
"""Memory of a record, measured."""


class RocprofReader:
    """Reads JSON and CSV of rocprofv3."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its outer key, or by the names of its columns."""
        data = unpacked_head(head.data)
        if not data:
            return NOT_MINE
        if _is_json(data):
            return Sniff(95, f"an object with {ROOT}")
        header = header_of(data)
        form = None if header is None else form_of(header)
        if form is None:
            return NOT_MINE
        return Sniff(92, f"columns of a table of rocprofv3 ({form.name.lower()})")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its size."""
        data = unpacked_head(head.data)
        if not data:
            return None
        size = estimated_text_bytes(head)
        n = size // (_RECORD_BYTES if _is_json(data) else _RECORD_BYTES // 2)
        return Estimate(n, n * _FINAL_BYTES, n * _PEAK_BYTES + (64 << 20))

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError
            If nothing in it can be shown.
        ReadError
            If its rows have no times.
        LimitExceededError
            If there is too little memory.
        """
        context.progress(0, source.size)
        data = unpacked_head(source.head(HEAD_BYTES)) or b""
        if _is_json(data):
            return _read_json(source, context)
        header = header_of(data)
        form = None if header is None else form_of(header)
        if header is None or form is None:
            raise CorruptError("no line names the columns of the table.", offset=0)
        return _read_csv(source, context, header, form)


def _is_json(data: bytes) -> bool:
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text.startswith(b"{") and f'"{ROOT}"'.encode() in text


def _read_json(source: Source, context: ReadContext) -> Trace:
    text = text_of(source)

    def made(records: JsonRecords, *, is_last: bool) -> Trace | None:
        gathered, offset = records.gathered()
        builder = gathered.builder
        builder.records = PlacedRecords(
            text.opener(), offset, "record", object_fields()
        )
        if is_last:
            _warn_of_json(builder, records, len(offset))
        return gathered_trace(
            gathered, INFO, source, len(offset), records.counts(), records.producer(),
            is_last=is_last,
        )  # fmt: skip

    def publish(records: JsonRecords) -> None:
        some = made(records, is_last=False)
        if some is not None:
            context.publish(some)

    records = JsonRecords(
        text, context, source.size, publish if context.wants_stages else None
    )
    records.read()
    trace = made(records, is_last=True)
    if trace is None:
        raise CorruptError(
            "the file holds no record with a time."
            + (f" Reading ended early: {records.ended}." if records.ended else ""),
            hint=remedy_of_packing(records.ended)
            if records.ended
            else "Was anything traced? Record again with --sys-trace.",
        )
    return trace


def _read_csv(
    source: Source, context: ReadContext, header: Header, form: Form
) -> Trace:
    table = DelimitedTable(header, KINDS)
    records = CsvRecords(form, table)
    if form is Form.TOTALS:
        return totals_trace(
            INFO, source, context, table, records.totals, records.counts,
            "rocprofv3 --kernel-trace writes a table with times beside it.",
        )  # fmt: skip
    if not records.has_times:
        raise ReadError(
            "the counters of this table have no times: they cannot be drawn.",
            hint="Record again with --output-format json, or a later rocprofv3.",
        )
    return table_trace(INFO, source, context, table, records.gathered, records.counts)


def _warn_of_json(builder: TraceBuilder, records: JsonRecords, n_records: int) -> None:
    n = format_counted(n_records, "record")
    if records.ended:
        warn_of_packing(builder, records.ended, n)
    elif records.is_cut:
        builder.warn(
            Severity.DATA_LOSS,
            "truncated_json",
            f"the file ends inside its JSON; what stands before that is shown: {n}. "
            "Names and lists that come later are missing.",
            remedy="Copy or record the file again.",
        )
    faults = records.faults
    if faults.broken or faults.other:
        builder.warn(
            Severity.DATA_LOSS,
            "broken_event",
            "records are no JSON; they are left out.",
            faults.first_broken if faults.first_broken >= 0 else None,
            faults.broken + faults.other,
        )
    if records.hidden:
        names = ", ".join(dict.fromkeys(records.hidden))
        builder.warn(
            Severity.NOTICE,
            "records_without_times",
            f"records of {names} have no begin and end; they are not shown.",
        )
