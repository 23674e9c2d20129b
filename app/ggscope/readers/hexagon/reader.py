"""Reader of ggml-hexagon's profile: ops and events on lanes of an NPU."""

from dataclasses import replace

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Trace
from ggscope.model.units import Clock
from ggscope.readers.api import Estimate, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.common.line_records import LineRecords
from ggscope.readers.common.npu_profile import NpuLanes
from ggscope.readers.common.op_lines import (
    Kind,
    OpLines,
    scan_op_lines,
    scan_op_text,
)
from ggscope.readers.common.op_listing import (
    listing_of,
    op_events,
    ops_estimate,
    sniff_ops,
    warn_of_lines,
    warn_of_others,
)
from ggscope.readers.hexagon import INFO
from ggscope.readers.source import Source

_ROW_BYTES = 200
_FIRST_BYTES = 4 << 20
"""Of a long file, shown before the rest is read."""
_KINDS = (Kind.PROFILED_OP, Kind.BATCH, Kind.EVENT)


class HexagonReader:
    """Reads ops and events that Hexagon's profile lists."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its lines; a log of requests is the log reader's."""
        return sniff_ops(head, _KINDS, Sniff(78, "lines of ggml-hexagon's profile"), 36)

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first lines."""
        return ops_estimate(head, _ROW_BYTES)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of ops, batches and events.

        Raises
        ------
        CorruptError
            If no line is of an op or an event.
        """
        context.progress(0, source.size)
        if context.wants_stages and source.size > 4 * _FIRST_BYTES:
            first = _first_lines(source)
            if len(first.rows(*_KINDS)):
                context.publish(_trace(source, first, frozenset({"spans"})))
        lines = scan_op_lines(source, context)
        if not len(lines.rows(*_KINDS)):
            raise CorruptError(
                "no line is of an op or event of the NPU.",
                offset=0,
                hint="Set GGML_HEXAGON_PROFILE=1, and -v.",
            )
        return _trace(source, lines)


def _first_lines(source: Source) -> OpLines:
    """Return the first whole lines of a file."""
    data = source.read(0, _FIRST_BYTES)
    return scan_op_text(data[: data.rfind(b"\n") + 1])


def _trace(
    source: Source, lines: OpLines, pending: frozenset[str] = frozenset()
) -> Trace:
    """Return the trace of some lines; `pending` where more follow."""
    builder = TraceBuilder()
    lanes = NpuLanes(builder, lines)
    builder.clock = Clock() if lanes.hz else Clock("cycle")
    builder.backend_ops = lanes.add(listing_of(lines))
    # Rows of a line lie one behind the other.
    first = np.flatnonzero(np.diff(lines.line, prepend=-1))
    builder.records = LineRecords(source.path, lines.line[first], lines.offset[first])
    if not pending:
        warn_of_lines(builder, lines)
        warn_of_others(builder, lines)
    clock = {"NPU clock": f"{lanes.hz / 1e6:,.1f} MHz"} if lanes.hz else {}
    trace = file_trace(
        builder, INFO, source, len(lines.rows(*_KINDS)), op_events(lines),
        producer=clock, pending=pending,
    )  # fmt: skip
    if not pending:
        return trace
    # Lines are in the order in which ops began.
    return replace(trace, read_until=int(trace.spans.start.max(initial=0)))
