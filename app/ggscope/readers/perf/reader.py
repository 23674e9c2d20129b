"""Reader of what perf script prints: a lane of stacks for each thread and event."""

from functools import partial

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64, SpanFlag
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import Clock, format_duration
from ggscope.readers.api import NOT_MINE, Estimate, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace, note_open_end
from ggscope.readers.common.placed_records import Field, PlacedRecords
from ggscope.readers.common.stack_text import (
    Form,
    SampleLines,
    SampleScan,
    scan_samples,
    scan_text,
)
from ggscope.readers.common.stacks import (
    GROUP,
    add_stack_lane,
    add_stack_spans,
    spans_by_time,
    warn_of_depth,
)
from ggscope.readers.perf import INFO
from ggscope.readers.perf.samples import (
    TimedSamples,
    header_facts,
    header_periods,
    lane_order,
    threads_of,
    timed,
)
from ggscope.readers.snapshots import SnapshotScheduler
from ggscope.readers.source import Source, read_at

_HEADER_BYTES = 64 << 10
_SPAN_BYTES, _SAMPLE_BYTES = 60, 120
"""Memory of a span and, while it is read, of a sample; measured."""
_SPANS_OF_SAMPLE = 3
"""Frames that begin anew with a sample, as a rule."""


class PerfReader:
    """Reads the output of perf script."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first samples."""
        if b"\0" in head.data:
            return NOT_MINE
        lines = scan_text(head.data, Form.PERF, is_last=True)
        n = len(lines)
        if not n:
            if b"# captured on " in head.data and b"\n# perf version " in head.data:
                return Sniff(60, "the header of perf script")
            return NOT_MINE
        if lines.n_other > n:
            return NOT_MINE
        if not (lines.node >= 0).any():
            return Sniff(0, "samples of perf without call stacks: record with perf -g")
        return Sniff(82, "samples with call stacks")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first samples."""
        if not head.data:
            return None
        n_first = len(scan_text(head.data, Form.PERF, is_last=True))
        n = int((n_first + 1) * head.size / len(head.data))
        final = n * _SPANS_OF_SAMPLE * _SPAN_BYTES
        return Estimate(n, final, 2 * final + n * _SAMPLE_BYTES + (48 << 20))

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError
            If no line is a sample.
        LimitExceededError
            If there is too little memory.
        """
        header = source.read(0, min(source.size, _HEADER_BYTES))
        text = header.decode("utf-8", "replace")
        pace = SnapshotScheduler.of_blocks(is_requested=context.wants_stages)

        def on_block(scan: SampleScan, done: int) -> None:
            if len(scan) and pace.is_due(done, source.size):
                pending = frozenset({"spans"})
                pace.timed(
                    lambda: context.publish(
                        _trace(source, text, scan.lines(), pending)
                    ),
                    done,
                )

        lines = scan_samples(source, context, Form.PERF, on_block)
        if not len(lines):
            raise CorruptError(
                "no line is a sample with a time and an event.",
                offset=0,
                hint="Print them by perf script -F comm,pid,tid,cpu,time,period,event,"
                "ip,sym,dso.",
            )
        return _trace(source, text, lines)


def _trace(
    source: Source,
    header: str,
    lines: SampleLines,
    pending: frozenset[str] = frozenset(),
) -> Trace:
    """Return the trace of some samples; `pending` where more follow."""
    builder = TraceBuilder()
    origin = int(lines.time.min())
    builder.clock = Clock.of_stamps(origin)
    threads = threads_of(lines)
    lane_of = _add_lanes(builder, lines, threads.last)
    made, guessed = timed(lines, threads.place, header_periods(header))
    lane = lane_of[threads.place[made.row]]
    order = np.argsort(lane, kind="stable")
    row = made.row[order]
    spans = spans_by_time(
        lines.stacks,
        lane[order],
        made.start[order] - origin,
        made.end[order] - origin,
        lines.node[row].astype(np.int64),
        row,
    )
    marks = np.zeros(len(lines), np.uint16)
    marks[made.row] = made.flags
    add_stack_spans(builder, lines.stacks, spans, marks[spans.record])
    builder.records = PlacedRecords(
        partial(read_at, source.path), lines.offset, "sample", _sample_fields
    )
    if not pending:
        _warn(builder, lines, made, guessed)
        note_open_end(builder, source, b"\n\n")
    event, count = np.unique(lines.event, return_counts=True)
    names = [lines.stacks.text(code) or "samples" for code in event.tolist()]
    return file_trace(
        builder, INFO, source, len(lines),
        dict(zip(names, count.tolist(), strict=True)), noun="samples",
        producer=header_facts(header), pending=pending,
        read_until=int(lines.time.max()) - origin if pending else None,
    )  # fmt: skip


def _add_lanes(builder: TraceBuilder, lines: SampleLines, last: I64) -> I64:
    """Add a lane for each thread and event; return the lanes of the threads."""
    names = lines.stacks.text
    several = len(np.unique(lines.event)) > 1
    lanes = np.zeros(len(last), np.int64)
    for place in lane_order(lines, last).tolist():
        row = int(last[place])
        comm, event = names(int(lines.comm[row])), names(int(lines.event[row]))
        pid, tid, cpu = (int(c[row]) for c in (lines.pid, lines.tid, lines.cpu))
        title = f"{comm} {tid}" if tid > 0 else comm
        if tid <= 0 and cpu >= 0:
            title = f"{comm}, CPU {cpu}"
        attributes = {"event": event, "tid": str(tid)}
        if pid >= 0:
            attributes["pid"] = str(pid)
        group = f"{GROUP} · {event}" if several else GROUP
        lanes[place] = add_stack_lane(builder, title, (group,), **attributes)
    return lanes


def _warn(
    builder: TraceBuilder,
    lines: SampleLines,
    made: TimedSamples,
    guessed: dict[str, int],
) -> None:
    """Say what was guessed and left out."""
    warn_of_depth(builder, lines.n_deep, lines.first_deep)
    builder.warn(
        Severity.NOTICE,
        "other_lines",
        "lines are no samples of perf script; they are left out.",
        lines.first_other,
        lines.n_other,
    )
    bare = np.flatnonzero(lines.node < 0)
    if len(bare):
        builder.warn(
            Severity.NOTICE,
            "samples_without_stack",
            "samples have no call stack; they are gaps of their threads.",
            int(lines.offset[bare[0]]),
            len(bare),
        )
    builder.warn(
        Severity.NOTICE,
        "samples_out_of_order",
        "samples are earlier than the one before them; they were sorted.",
        count=made.n_backwards,
    )
    if guessed:
        what = ", ".join(
            f"{name} {format_duration(ns)}" for name, ns in list(guessed.items())[:6]
        )
        builder.warn(
            Severity.NOTICE,
            "period_estimated",
            "the sampling period is not recorded; the median time between the samples "
            f"of a thread is used: {what}.",
            count=len(guessed),
            remedy="Print it by perf script --header, recorded by perf record -F.",
        )
    builder.warn(
        Severity.NOTICE,
        "period_unknown",
        "how long samples last is not known; they are drawn without length.",
        count=int(np.count_nonzero(made.flags & int(SpanFlag.UNFINISHED))),
    )


def _sample_fields(data: bytes) -> tuple[int, list[Field]]:
    """Return the bytes of the sample that stands here, its line and its frames."""
    fields: list[Field] = []
    at = 0
    for line in data.split(b"\n"):
        is_frame = bool(fields)
        if not line.strip() or (is_frame and line[:1] not in (b" ", b"\t")):
            break
        text = " ".join(line.decode("utf-8", "replace").split())
        name = f"frame {len(fields) - 1}" if is_frame else "sample"
        fields.append((name, text, at, len(line)))
        at += len(line) + 1
    return at, fields
