"""Reader of ggml-hexagon's profile: ops and events on lanes of an NPU."""

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Trace
from ggscope.model.units import Clock
from ggscope.readers.api import Estimate, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import trace_info
from ggscope.readers.common.npu_profile import NpuLanes
from ggscope.readers.common.op_lines import (
    Kind,
    OpLineRecords,
    scan_op_lines,
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
        warn_of_others(builder, lines)
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
