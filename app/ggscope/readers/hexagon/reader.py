"""Reader of ggml-hexagon's profile: ops and events on lanes of an NPU."""

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import Clock
from ggscope.readers.api import NOT_MINE, Estimate, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import trace_info
from ggscope.readers.common.npu_profile import NpuLanes
from ggscope.readers.common.op_lines import (
    Kind,
    OpLineRecords,
    scan_op_lines,
    scan_op_text,
)
from ggscope.readers.common.op_listing import listing_of, op_events, warn_of_lines
from ggscope.readers.hexagon import INFO
from ggscope.readers.source import Source

_ROW_BYTES = 200
_KINDS = (Kind.PROFILED_OP, Kind.BATCH, Kind.EVENT)


class HexagonReader:
    """Reads ops and events that Hexagon's profile lists."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its lines; a log of requests is the log reader's."""
        if not head.data:
            return NOT_MINE
        n = len(scan_op_text(head.data).rows(*_KINDS))
        if not n:
            return NOT_MINE
        return Sniff(78 if n > 1 else 36, "lines of ggml-hexagon's profile")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first lines."""
        if not head.data:
            return None
        lines = scan_op_text(head.data)
        rows = int((len(lines) + 1) * head.size / len(head.data))
        return Estimate(rows, rows * _ROW_BYTES, 3 * rows * _ROW_BYTES)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of ops, batches and events.

        Raises
        ------
        CorruptError
            If no line tells of an op or an event.
        """
        context.progress(0, source.size)
        lines = scan_op_lines(source, context)
        n = len(lines.rows(*_KINDS))
        if not n:
            raise CorruptError(
                "no line tells of an op or an event of the NPU.",
                offset=0,
                hint="Set GGML_HEXAGON_PROFILE=1, and -v.",
            )
        builder = TraceBuilder()
        lanes = NpuLanes(builder, lines)
        builder.clock = Clock() if lanes.hz else Clock("cycle")
        builder.backend_ops = lanes.add(listing_of(lines))
        builder.records = OpLineRecords(source.path, lines)
        warn_of_lines(builder, lines)
        if lines.n_other:
            builder.warn(
                Severity.INFO,
                "other_lines",
                "lines are of another program or of no known form.",
                count=lines.n_other,
            )
        clock = {"NPU clock": f"{lanes.hz / 1e6:,.1f} MHz"} if lanes.hz else {}
        return builder.snapshot(
            trace_info(
                self.info,
                source,
                n,
                producer=clock,
                summary={"events": op_events(lines)},
            )
        )
