"""Reader of traces of CUDA calls: spans by thread, instants, copies, failed calls."""

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import Clock as TraceClock
from ggscope.readers.api import (
    BOM,
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.common.file_facts import trace_info
from ggscope.readers.common.line_records import LineRecords
from ggscope.readers.common.line_table import warn_broken, warn_stray
from ggscope.readers.common.text_blocks import lines_estimate, whole_lines
from ggscope.readers.cuda import INFO, UNIT
from ggscope.readers.cuda.lines import CallLines, Form, Notes, scan_lines, scan_text
from ggscope.readers.cuda.pairs import Pairs, pairs_of
from ggscope.readers.cuda.times import Times, times_of
from ggscope.readers.cuda.trace import CallTrace
from ggscope.readers.source import Source

_FIRST_BYTES = 4 << 20
"""Of a long file, shown before the rest is read."""
_ROW_BYTES = 160
"""Memory of an event while it is read."""
_WRITERS = {
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
            return Sniff(20, f"some lines look like those of {_WRITERS[form]}")
        return Sniff(80, f"calls that were written by {_WRITERS[form]}")

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
    pairs = pairs_of(lines)
    context.check_cancelled()
    times = times_of(lines, unit, (pairs.begin, pairs.end))
    context.check_cancelled()
    builder = TraceBuilder()
    builder.clock = TraceClock(origin=times.origin, epoch=times.epoch)
    made = CallTrace(builder, lines, pairs, times)
    made.add_calls()
    context.check_cancelled()
    made.add_instants()
    made.add_errors()
    made.add_counters()
    if not pending:
        _warn(builder, lines, pairs, times)
    builder.records = LineRecords(source.path, lines.line, lines.offset)
    forms = np.unique(lines.form).tolist()
    info = trace_info(
        INFO,
        source,
        lines.n_lines,
        producer={"written by": "; ".join(_WRITERS[Form(f)] for f in forms)},
        summary={"events": events_of(lines, pairs, times)},
    )
    until = int(times.tick.max()) if pending else None
    return builder.snapshot(info, pending, read_until=until)


def events_of(lines: CallLines, pairs: Pairs, times: Times) -> dict[str, object]:
    """Return how many calls there are, and how much does not belong to one."""
    return {
        "calls": len(pairs.begin) + len(pairs.whole),
        "unmatched": len(pairs.open) + len(pairs.orphan),
        "broken_lines": lines.n_broken + int(np.count_nonzero(~times.is_placed)),
    }


def _warn(builder: TraceBuilder, lines: CallLines, pairs: Pairs, times: Times) -> None:
    """Say what was repaired, guessed and lost."""
    warn_broken(builder, lines)
    _warn_by_notes(builder, lines.notes)
    if lines.n_repaired:
        builder.warn(
            Severity.NOTICE,
            "repaired_line",
            "lines are no sound JSON; what stands before the damage was taken.",
            count=lines.n_repaired,
            place=f"line {lines.first_repaired + 1:,}",
        )
    warn_stray(builder, lines, "banners, summaries")
    if len(pairs.open):
        builder.warn(
            Severity.NOTICE,
            "calls_without_end",
            "calls have no end in the file: they are drawn up to the next event of "
            "their thread, and how long they took is unknown.",
            count=len(pairs.open),
            place=f"line {int(lines.line[pairs.open[0]]) + 1:,}",
        )
    if len(pairs.orphan):
        builder.warn(
            Severity.NOTICE,
            "ends_without_call",
            "ends of calls have no begin in the file; they are markers.",
            count=len(pairs.orphan),
            place=f"line {int(lines.line[pairs.orphan[0]]) + 1:,}",
        )
    if times.n_back:
        builder.warn(
            Severity.NOTICE,
            "clock_back",
            "events are earlier than those before them in the file: threads write in "
            "no strict order, or a clock was set back.",
            count=times.n_back,
        )
    n_lost = int(np.count_nonzero(~times.is_placed))
    if n_lost:
        builder.warn(
            Severity.DATA_LOSS,
            "bad_event_time",
            "events have no time, or one beyond all bounds; they are left out.",
            count=n_lost,
        )
    if times.is_guessed:
        other = "ms" if times.unit == "s" else "s"
        builder.warn(
            Severity.NOTICE,
            "unit_guessed",
            f"the file does not state the unit of its times; {times.unit} is what such "
            "programs write.",
            remedy=f"Read it with --option unit={other} where it is {other}.",
        )


def _warn_by_notes(builder: TraceBuilder, notes: Notes) -> None:
    """Say what the writers of the file say to lack."""
    if notes.n_dropped:
        builder.warn(
            Severity.DATA_LOSS,
            "dropped_events",
            "events are not in the file: they came faster than they could be written, "
            "or the disk was full.",
            count=notes.n_dropped,
        )
    if notes.n_left_out:
        builder.warn(
            Severity.DATA_LOSS,
            "functions_left_out",
            "functions of the driver were looked up beyond those that can be recorded.",
            count=notes.n_left_out,
        )
    if notes.n_begun > notes.n_ended:
        builder.warn(
            Severity.NOTICE,
            "calls_cut_short",
            "the recording has no last line: the process was killed, or still runs; "
            "calls of its last moments may be missing.",
        )
