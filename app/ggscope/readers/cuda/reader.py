"""Reader of traces of CUDA calls: spans by thread, instants, copies, failed calls."""

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.trace import Trace
from ggscope.readers.api import (
    BOM,
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.common.line_records import LineRecords
from ggscope.readers.common.text_blocks import lines_estimate, whole_lines
from ggscope.readers.cuda import INFO, UNIT
from ggscope.readers.cuda.lines import CallLines, Form, scan_lines, scan_text
from ggscope.readers.cuda.problems import note_problems
from ggscope.readers.cuda.trace import CallTrace
from ggscope.readers.source import Source

_FIRST_BYTES = 4 << 20
"""Of a long file, shown before the rest is read."""
_ROW_BYTES = 160
"""Memory of an event while it is read."""
WRITERS = {
    Form.HOOK: "a library before libcuda, in lines of JSON",
    Form.PROBE: "bpftrace, in lines of JSON",
    Form.ENTRY: "a sidecar that sees calls begin, in lines of JSON",
    Form.NUMBERED: "bcc, in lines of JSON",
    Form.PROBE_TEXT: "bpftrace, as text",
    Form.STRACE: "strace",
}


class CudaReader:
    """Reads calls of CUDA from lines of JSON, and from bpftrace and strace."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its lines; those before the first event do not count."""
        lines = _first_lines(head)
        if lines is None or not len(lines):
            return NOT_MINE
        form = Form(int(np.bincount(lines.form).argmax()))
        if len(lines) * 4 < lines.n_other:
            return Sniff(20, f"some lines look like those of {WRITERS[form]}")
        return Sniff(80, f"calls that were written by {WRITERS[form]}")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first lines."""
        lines = _first_lines(head)
        if lines is None:
            return None
        return lines_estimate(head, lines.n_lines, len(lines), 96, 3 * _ROW_BYTES)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of the calls and instants of a file.

        Raises
        ------
        CorruptError
            If no line is an event.
        ReadError
            If an option is invalid.
        """
        unit = INFO.option_values(context.options)[UNIT]
        context.progress(0, source.size)
        if context.wants_stages and source.size > 4 * _FIRST_BYTES:
            first = source.read(0, _FIRST_BYTES)
            first = first[: first.rfind(b"\n") + 1].removeprefix(BOM)
            if len(some := scan_text(np.frombuffer(first, np.uint8))):
                pending = frozenset({"spans"})
                context.publish(_trace(source, context, some, unit, pending))
        lines = scan_lines(source, context)
        if not len(lines):
            raise CorruptError(
                "no line is an event of a trace of CUDA calls.",
                offset=0,
                hint="Is this the output of a call hook, bpftrace or strace?",
            )
        return _trace(source, context, lines, unit)


def _first_lines(head: Head) -> CallLines | None:
    """Return the events of a head; None where there is nothing."""
    data = whole_lines(head)
    return scan_text(np.frombuffer(data, np.uint8)) if data else None


def _trace(
    source: Source,
    context: ReadContext,
    lines: CallLines,
    unit: str,
    pending: frozenset[str] = frozenset(),
) -> Trace:
    """Return the trace of some lines; `pending` where more follow."""
    calls = CallTrace(unit)
    calls.add(lines, context.check_cancelled)
    if not pending:
        note_problems(calls.builder, lines, lines.notes, calls.sums)
    forms = np.unique(lines.form).tolist()
    calls.builder.records = LineRecords(source.path, lines.line, lines.offset)
    return file_trace(
        calls.builder, INFO, source, lines.n_lines, calls.sums.events(lines),
        producer={"written by": "; ".join(WRITERS[Form(f)] for f in forms)},
        pending=pending, read_until=calls.until if pending else None,
    )  # fmt: skip
