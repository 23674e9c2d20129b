"""Reader of logs: requests as spans on slot lanes, remarks as markers, rates."""

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.trace import Trace
from ggscope.readers.api import (
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.common.file_facts import trace_info
from ggscope.readers.logs import INFO
from ggscope.readers.logs.lines import Kind, LogLines, scan_lines, scan_text
from ggscope.readers.logs.trace import LogTrace
from ggscope.readers.source import Source

_FIRST_BYTES = 4 << 20
"""Of a long log, shown before the rest is read."""
_ROW_BYTES = 96


class LogReader:
    """Reads logs of llama.cpp and of programs around it."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its lines; those before the first known one do not count."""
        if not head.data:
            return NOT_MINE
        lines = scan_text(np.frombuffer(head.data, np.uint8))
        if not lines.n_known:
            return NOT_MINE
        n_rows = int(np.count_nonzero(lines.kind != Kind.REMARK))
        if n_rows and lines.n_known >= 2:
            return Sniff(80, "lines of llama.cpp's or ollama's log")
        return Sniff(30 if n_rows else 20, "lines that look like a log of llama.cpp")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first lines."""
        if not head.data:
            return None
        lines = scan_text(np.frombuffer(head.data, np.uint8))
        share = head.size / len(head.data)
        rows = int((len(lines) + 1) * share)
        final = rows * _ROW_BYTES
        return Estimate(int(lines.n_lines * share), final, 3 * final + (64 << 20))

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
                context.publish(_trace(source, lines, frozenset({"spans"})))
        lines = scan_lines(source, context)
        if not lines.n_known:
            raise CorruptError(
                "no line is one of llama.cpp's or ollama's log.",
                offset=0,
                hint="Is this the log of a server?",
            )
        return _trace(source, lines)


def _trace(
    source: Source, lines: LogLines, pending: frozenset[str] = frozenset()
) -> Trace:
    """Return the trace of some lines; `pending` where more follow."""
    log = LogTrace()
    log.add(source, lines, is_end=True)
    if not pending:
        log.note_problems()
    builder = log.builder
    builder.log = log.log()
    builder.records = log.records(source.path)
    info = trace_info(
        INFO,
        source,
        log.n_lines,
        producer=log.facts.facts,
        summary={"events": log.events()},
    )
    return builder.snapshot(info, pending, read_until=log.until if pending else None)
