"""Reader of the tables of Ascend's profilers."""

from ggscope.errors import CorruptError
from ggscope.model.trace import Trace
from ggscope.readers.api import (
    HEAD_BYTES,
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.common.delimited import DelimitedTable, header_of
from ggscope.readers.common.table_traces import table_trace, totals_trace
from ggscope.readers.msprof import INFO
from ggscope.readers.msprof.tables import MsprofTable, form_of, kinds_of
from ggscope.readers.source import Source

_FINAL_BYTES, _PEAK_BYTES = 70, 260
"""Memory of a row, measured."""


class MsprofReader:
    """Reads kernels, tasks and totals of Ascend's profilers."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the names of its columns."""
        header = header_of(head.data)
        form = None if header is None else form_of(header)
        if form is None:
            return NOT_MINE
        return Sniff(92, f"columns of a table of msprof ({form.name.lower()})")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by the length of its rows."""
        n_lines = head.data.count(b"\n")
        if not n_lines:
            return None
        n = head.size * n_lines // len(head.data)
        return Estimate(n, n * _FINAL_BYTES, n * _PEAK_BYTES + (16 << 20))

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a table.

        Raises
        ------
        CorruptError
            If no row can be read.
        """
        context.progress(0, source.size)
        header = header_of(source.head(HEAD_BYTES))
        form = None if header is None else form_of(header)
        if header is None or form is None:
            raise CorruptError("no line names the columns of the table.", offset=0)
        table = DelimitedTable(header, kinds_of(form))
        rows = MsprofTable(form, table)
        if form.has_times:
            return table_trace(INFO, source, context, table, rows.gathered, rows.counts)
        return totals_trace(
            INFO,
            source,
            context,
            table,
            rows.totals,
            rows.counts,
            "op_summary, kernel_details and task_time have times.",
        )
