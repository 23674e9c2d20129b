"""Reader of ggml's lists of ops: a listing without times of day."""

from ggscope.errors import CorruptError
from ggscope.model.backend_ops import BackendOps
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Estimate, Head, ReadContext, Sniff
from ggscope.readers.backend_ops import INFO
from ggscope.readers.common.file_facts import trace_info
from ggscope.readers.common.op_lines import Kind, OpLines, scan_op_lines, scan_op_text
from ggscope.readers.common.op_listing import listing_of, op_events, warn_of_lines
from ggscope.readers.source import Source

_ROW_BYTES = 180
_FIRST_BYTES = 4 << 20
"""Of a long list, shown before the rest is read."""
_KINDS = (Kind.SPLIT, Kind.NODE, Kind.TIMED_OP)


class BackendOpsReader:
    """Reads what ggml's scheduler and Vulkan's logger list."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its lines; a log of requests is the log reader's."""
        if not head.data:
            return NOT_MINE
        lines = scan_op_text(head.data)
        n = len(lines.rows(*_KINDS))
        if not n:
            return NOT_MINE
        return Sniff(75 if n > 1 else 35, "lines of ggml's scheduler or Vulkan logger")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first lines."""
        if not head.data:
            return None
        lines = scan_op_text(head.data)
        rows = int((len(lines) + 1) * head.size / len(head.data))
        return Estimate(rows, rows * _ROW_BYTES, 3 * rows * _ROW_BYTES)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of no spans with the listing.

        Raises
        ------
        CorruptError
            If no line lists a split, a node or timings.
        """
        context.progress(0, source.size)
        if context.wants_stages and source.size > 4 * _FIRST_BYTES:
            first = scan_op_text(source.read(0, _FIRST_BYTES))
            if (listing := listing_of(first)) is not None:
                context.publish(_trace(source, first, listing, frozenset({"spans"})))
        lines = scan_op_lines(source, context)
        if (listing := listing_of(lines)) is None:
            raise CorruptError(
                "no line lists an op or a split.",
                offset=0,
                hint="Set GGML_SCHED_DEBUG=2 and -v, or GGML_VK_PERF_LOGGER=1.",
            )
        return _trace(source, lines, listing)


def _trace(
    source: Source,
    lines: OpLines,
    listing: BackendOps,
    pending: frozenset[str] = frozenset(),
) -> Trace:
    """Return the trace of some lines; `pending` where more follow."""
    builder = TraceBuilder()
    builder.backend_ops = listing
    if not pending:
        _warn(builder, lines)
    info = trace_info(
        INFO, source, len(listing.ops), summary={"events": op_events(lines)}
    )
    return builder.snapshot(info, pending, read_until=0 if pending else None)


def _warn(builder: TraceBuilder, lines: OpLines) -> None:
    warn_of_lines(builder, lines)
    if lines.n_other:
        builder.warn(
            Severity.INFO,
            "other_lines",
            "lines are of another program or of no known form.",
            count=lines.n_other,
        )
