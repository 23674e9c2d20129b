"""Warnings about ``.ggmlviz`` files: what is wrong, where, and what was kept."""

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml import ops as ggml
from ggscope.model.tables import I64, Array, distinct
from ggscope.model.trace import OpTable, Severity
from ggscope.readers.api import NAMES_OPTION, RANGE_OPTION, ReadContext
from ggscope.readers.ggmlviz.columns import NAMES_EVERY, EventOptions, Events
from ggscope.readers.ggmlviz.layouts import N_TYPES, EventType
from ggscope.readers.ggmlviz.pairing import IntervalFlag, Intervals
from ggscope.readers.ggmlviz.trace import MAX_OP, GgmlvizRecords
from ggscope.readers.ggmlviz.walk import MAX_GAPS, Stop, StreamScan

_FAULTS = {
    Stop.BAD_LABEL: ("bad_label_length", "a label longer than any real one"),
    Stop.BAD_FLAG: ("bad_label_flag", "a label flag that is neither 0 nor 1"),
}
_GAP_FAULTS = {
    **{stop: f"event {{row:,}} has {what}" for stop, (_, what) in _FAULTS.items()},
    Stop.TRUNCATED: "event {row:,} would reach beyond the end of the file",
    Stop.ZEROS: "zeros stand where event {row:,} should be",
}


def note_version(builder: TraceBuilder, version: int) -> None:
    """Warn that the header states an unknown version."""
    builder.warn(
        Severity.NOTICE,
        "unknown_version",
        f"the header says version {version}; the file was read like version 1, "
        "so look twice at what is shown.",
        offset=8,
    )


def note_failure(builder: TraceBuilder, failure: ReadError | None, at: int) -> None:
    """Warn if the rest of the file could not be read."""
    if failure is not None:
        builder.warn(
            Severity.DATA_LOSS,
            "read_failed",
            f"{failure.message} What lies in front of that place was kept.",
            offset=failure.offset if failure.offset is not None else at,
            remedy=failure.hint,
        )


def note_parts(
    builder: TraceBuilder, wanted: EventOptions, n_events: int, *, is_whole: bool
) -> None:
    """Say what was left out because the options ask for it.

    `is_whole`: the range holds all events that the file has.
    """
    if (wanted.first or wanted.stop is not None) and not is_whole:
        last = wanted.first + n_events - 1
        builder.warn(
            Severity.INFO,
            "range_read",
            f"only events {wanted.first:,} to {last:,} were read, as asked for; what "
            "began before them has no begin, what ended after them no end.",
            remedy=f"Leave out reader option {RANGE_OPTION} to read all.",
        )
    if wanted.names_every != NAMES_EVERY["all"]:
        every = wanted.names_every
        read = f"one block of events in {every}" if every else "no events"
        builder.warn(
            Severity.INFO,
            "names_left_out",
            f"labels were read of {read}, as asked for; the others are unnamed.",
            remedy=f"Leave out reader option {NAMES_OPTION} to read all.",
        )


def note_end(
    builder: TraceBuilder, scan: StreamScan, size: int, context: ReadContext
) -> None:
    """Warn about the fault at which the stream stops, if there is one.

    Parameters
    ----------
    size : bytes of the file.
    """
    at, n = scan.position, scan.count
    rest = size - at
    kept = f"the {n:,} events before it were kept" if n else "nothing was readable"
    if scan.stop is Stop.END:
        _note_no_events(builder, n)
    elif scan.stop is Stop.TRUNCATED:
        builder.warn(
            Severity.DATA_LOSS,
            "truncated_event",
            f"the file ends inside event {n:,} ({rest:,} bytes of it are there); "
            f"{kept}.",
            offset=at,
            remedy="The writer was probably killed; record again to have the end.",
        )
    elif scan.stop is Stop.ZEROS:
        holds_data = scan.holds_data_behind(context)
        _note_zeros(builder, at, rest, holds_data=holds_data)
    else:
        code, what = _FAULTS[scan.stop]
        builder.warn(
            Severity.DATA_LOSS if n else Severity.ERROR,
            code,
            f"event {n:,} has {what}, so that the next event cannot be found; {kept}, "
            f"the last {rest:,} bytes were not read.",
            offset=at,
            remedy="If the layout is wrong, set reader option layout.",
        )


def note_gaps(builder: TraceBuilder, found: StreamScan) -> None:
    """Warn about damaged bytes between the events that were left out."""
    if not found.gaps:
        return
    first = found.gaps[0]
    n_bytes = sum(gap.end - gap.start for gap in found.gaps)
    others = len(found.gaps) - 1
    where = f" here and at {others:,} other places" if others else ""
    kept = found.count - first.row
    text = _GAP_FAULTS[first.stop].format(row=first.row)
    if len(found.gaps) == MAX_GAPS:
        where += "; so much is damaged that the rest was not searched"
    builder.warn(
        Severity.DATA_LOSS,
        "skipped_bytes",
        f"{text}: {n_bytes:,} damaged bytes were skipped{where}; the {kept:,} events "
        "behind them were kept.",
        offset=first.start,
        count=len(found.gaps),
        remedy="If the layout is wrong, set reader option layout.",
    )


def _note_no_events(builder: TraceBuilder, n: int) -> None:
    if not n:
        builder.warn(
            Severity.NOTICE,
            "no_events",
            "the file holds a header and no events: the hooks never fired.",
            remedy="Check that the traced program calls the hooked ggml.",
        )


def _note_zeros(builder: TraceBuilder, at: int, rest: int, *, holds_data: bool) -> None:
    builder.warn(
        Severity.NOTICE,
        "zero_tail",
        f"the last {rest:,} bytes begin with padding and hold no events.",
        offset=at,
    )
    if holds_data:
        builder.warn(
            Severity.DATA_LOSS,
            "data_after_zeros",
            f"not all of the last {rest:,} bytes are zeros: there is a hole in the "
            "stream, and what lies behind it was not read.",
            offset=at,
        )


def note_damage(
    builder: TraceBuilder, events: Events, records: GgmlvizRecords, context: ReadContext
) -> None:
    """Warn about events that were read but are not sound."""
    for severity, code, rows, message in (
        (Severity.DATA_LOSS, "bad_timestamp", events.bad_times,
         "events with an impossible time stamp were put beside their neighbours."),
        (Severity.NOTICE, "bad_label_text", events.bad_labels,
         "labels that are no UTF-8 are shown with replacement characters."),
        (Severity.NOTICE, "out_of_order", events.backward,
         "events lay behind later ones; they were sorted by time."),
    ):  # fmt: skip
        if len(rows):
            at = records.offset(events.first_record + int(rows[0]))
            builder.warn(severity, code, message, at, len(rows))
    n_of_kind = context.pieces.counts(events.kind, 256)
    for kind in np.flatnonzero(n_of_kind[N_TYPES:]) + N_TYPES:
        first = int(np.argmax(events.kind == kind))
        builder.warn(
            Severity.NOTICE,
            f"unknown_type_{kind}",
            f"events of the unknown type {kind} are shown as markers.",
            records.offset(events.first_record + first),
            int(n_of_kind[kind]),
        )


def note_pairing(
    builder: TraceBuilder, events: Events, intervals: Intervals, records: GgmlvizRecords
) -> None:
    """Warn about intervals that were not simply measured."""
    begin = intervals.begin
    for severity, code, rows, message in (
        (Severity.NOTICE, "unfinished", begin[intervals.has(IntervalFlag.UNFINISHED)],
         "graphs or ops have no end; they are drawn to the end of what is around "
         "them."),
        (Severity.NOTICE, "unmatched_end", intervals.stray_ends,
         "ends of graphs or ops have no begin; they are shown as markers."),
        (Severity.INFO, "estimated_ops", begin[intervals.has(IntervalFlag.ESTIMATED)],
         "the writer logged all begins of a graph before all ends, so that its ops "
         "were not timed; they share the time of their graph in equal parts."),
    ):  # fmt: skip
        if len(rows):
            first = records.offset(events.first_record + int(rows.min()))
            builder.warn(severity, code, message, first, len(rows))


def note_ops(
    builder: TraceBuilder, events: Events, table: OpTable, context: ReadContext
) -> None:
    """Warn where op names may be wrong or missing."""
    if table.margin is not None and table.margin < ggml.UNCERTAIN_MARGIN:
        builder.warn(
            Severity.NOTICE,
            "op_table_uncertain",
            f"op table {table.id} fits hardly better than others (margin "
            f"{table.margin}); op names may be wrong.",
            remedy="Name the right one with reader option ops.",
        )
    beyond, n_ops = _beyond(events, len(table.names), context)
    if len(beyond):
        listed = ", ".join(str(code) for code in beyond[:8])
        builder.warn(
            Severity.NOTICE,
            "unknown_op",
            f"op numbers that table {table.id} does not know: {listed}.",
            count=n_ops,
        )


def _beyond(events: Events, n_known: int, context: ReadContext) -> tuple[Array, int]:
    """Return the op numbers from `n_known` on, and how many ops have one."""
    found: I64 = np.empty(0, np.int64)
    n_ops = 0
    for block in context.pieces.of(len(events)):
        number = events.number[block]
        is_beyond = (number >= n_known) & (number <= MAX_OP)
        is_beyond &= events.kind[block] == EventType.OP_BEGIN
        if is_beyond.any():
            n_ops += int(np.count_nonzero(is_beyond))
            found = distinct(np.append(found, number[is_beyond]))
    return found, n_ops
