"""Reader of ggml's lists of ops: a listing without times of day."""

from ggscope.errors import CorruptError
from ggscope.model.backend_ops import BackendOps
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Trace
from ggscope.readers.api import Estimate, Head, ReadContext, Sniff
from ggscope.readers.backend_ops import INFO
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.common.op_lines import Kind, OpLines, scan_op_lines, scan_op_text
from ggscope.readers.common.op_listing import (
    listing_of,
    op_events,
    ops_estimate,
    sniff_ops,
    warn_of_lines,
    warn_of_others,
)
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
        many = Sniff(75, "lines of ggml's scheduler or Vulkan logger")
        return sniff_ops(head, _KINDS, many, 35)

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first lines."""
        return ops_estimate(head, _ROW_BYTES)

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
        warn_of_lines(builder, lines)
        warn_of_others(builder, lines)
    return file_trace(
        builder, INFO, source, len(listing.ops), op_events(lines),
        pending=pending, read_until=0 if pending else None,
    )  # fmt: skip
