"""Reader of logs: requests as spans on slot lanes, remarks as markers, rates."""

from functools import partial

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import (
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.common.npu_profile import NpuLanes
from ggscope.readers.common.op_lines import Kind as OpKind
from ggscope.readers.common.op_lines import OpLines, scan_op_lines
from ggscope.readers.common.op_listing import listing_of, op_events, warn_of_lines
from ggscope.readers.common.text_blocks import lines_estimate
from ggscope.readers.logs import INFO
from ggscope.readers.logs.lines import Kind, scan_parts, scan_text
from ggscope.readers.logs.times import ClocksSeen, LogStart
from ggscope.readers.logs.trace import ClockAppeared, LogTrace
from ggscope.readers.source import Source

_FIRST_BYTES = 4 << 20
"""Of a long log, shown before the rest is read."""
_PART_ROWS = 1 << 17
"""Rows of lines that are made to a trace at once: few enough for caches, and so many
that what each part costs does not count."""
_ROW_BYTES = 96


class LogReader:
    """Reads logs of llama.cpp and of programs around it.

    Parameters
    ----------
    part_rows : so many lines that state facts are read before they are added.
    """

    info = INFO

    def __init__(self, part_rows: int = _PART_ROWS) -> None:
        self._part_rows = part_rows

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its lines; those before the first known one do not count."""
        if not head.data:
            return NOT_MINE
        lines = scan_text(np.frombuffer(head.data, np.uint8))
        if lines.n_known <= len(lines.rows(Kind.OP_LIST)):
            return NOT_MINE
        n_rows = int(np.count_nonzero(~lines.are(Kind.REMARK, Kind.OP_LIST)))
        if n_rows and lines.n_known >= 2:
            return Sniff(80, "lines of llama.cpp's or ollama's log")
        return Sniff(30 if n_rows else 20, "lines that look like a log of llama.cpp")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first lines."""
        if not head.data:
            return None
        lines = scan_text(np.frombuffer(head.data, np.uint8))
        n_lines, n_rows = lines.n_lines, len(lines)
        return lines_estimate(head, n_lines, n_rows, _ROW_BYTES, 3 * _ROW_BYTES)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of the requests, remarks and rates of a log.

        Raises
        ------
        CorruptError
            If no line is one of llama.cpp or ollama.
        """
        context.progress(0, source.size)
        if context.wants_stages and source.size > 4 * _FIRST_BYTES:
            first = np.frombuffer(source.read(0, _FIRST_BYTES), np.uint8)
            if (lines := scan_text(first)).n_known:
                log = LogTrace()
                log.add(source, lines)
                context.publish(_trace(source, log, frozenset({"spans"})))
        log, n_lists = self._log(source, context)
        if not log.n_known:
            raise CorruptError(
                "no line is one of llama.cpp's or ollama's log.",
                offset=0,
                hint="Is this the log of a server?",
            )
        listed = scan_op_lines(source, context) if n_lists else None
        return _trace(source, log, listed=listed)

    def _log(self, source: Source, context: ReadContext) -> tuple[LogTrace, int]:
        """Return the trace of all lines, and how many begin a list of ops.

        What times count from is known by the first lines, mostly. Where those behind
        them say otherwise, the file is read again with what is known by then: which
        clock, and after that when the first thing was.
        """
        start: LogStart | None = None
        for is_last in (False, False, True):
            log, clocks = LogTrace(start=start), ClocksSeen()
            n_lists, is_in_order = 0, True
            rows = partial(_rows_of_part, log, self._part_rows)
            for lines in scan_parts(source, context, rows):
                clocks.add(lines)
                n_lists += len(lines.rows(Kind.OP_LIST))
                if is_in_order:
                    try:
                        log.add(source, lines)
                    except ClockAppeared:
                        is_in_order = False
            better = log.start_by(clocks)
            # A file that is written to meanwhile may hold something else each time.
            if better is None or is_last:
                break
            start = better
        log.add(source, scan_text(np.empty(0, np.uint8)), is_end=True)
        return log, n_lists


def _rows_of_part(log: LogTrace, least: int) -> int:
    """Return how many rows to add next: those that are held are looked at again."""
    return max(least, log.n_held)


def _trace(
    source: Source,
    log: LogTrace,
    pending: frozenset[str] = frozenset(),
    listed: OpLines | None = None,
) -> Trace:
    """Return the trace of some lines; `pending` where more follow.

    Parameters
    ----------
    listed : what ggml lists of its ops between them; None where it does not.
    """
    if listed is not None:
        nodes = (listed.kind == OpKind.NODE) & (listed.time < 0)
        n_nodes = len(np.unique(listed.line[nodes]))
        log.n_known = min(log.n_known + n_nodes, log.n_lines)
    if not pending:
        log.note_problems()
    builder = log.builder
    builder.log = log.log()
    events = log.events()
    if listed is not None:
        _add_op_lists(builder, listed, log.program_start)
        events |= op_events(listed)
    builder.records = log.records(source.path)
    return file_trace(
        builder, INFO, source, log.n_lines, events, producer=log.facts.facts,
        pending=pending, read_until=log.until if pending else None,
    )  # fmt: skip


def _add_op_lists(builder: TraceBuilder, listed: OpLines, origin: int | None) -> None:
    """Add what ggml lists of its ops: which backend, and what an NPU did when.

    Parameters
    ----------
    origin : tick 0, in ns since the program's start; None where lines do not state it.
    """
    listing = listing_of(listed)
    lanes = NpuLanes(builder, listed)
    if lanes.hz:
        if origin is not None:
            lanes.align(origin)
        listing = lanes.add(listing)
    elif len(listed.rows(OpKind.PROFILED_OP)):
        builder.warn(
            Severity.NOTICE,
            "no_op_start",
            "no line states the clock of the NPU: its ops are listed and not on the "
            "timeline.",
        )
    warn_of_lines(builder, listed)
    builder.backend_ops = listing
