"""Warnings about ``.ggmlviz`` files: what is wrong, where, and what was kept."""

import numpy as np

from ggscope.model import ggml
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64
from ggscope.model.trace import OpTable, Severity
from ggscope.readers.ggmlviz_build import MAX_OP
from ggscope.readers.ggmlviz_events import Events, Stream
from ggscope.readers.ggmlviz_layouts import N_TYPES, EventType
from ggscope.readers.ggmlviz_pairing import Intervals
from ggscope.readers.ggmlviz_scan import MAX_GAPS, Boundaries
from ggscope.readers.ggmlviz_walk import Bytes, Stop

_FAULTS = {
    Stop.BAD_LABEL: ("bad_label_length", "a label longer than any real one"),
    Stop.BAD_FLAG: ("bad_label_flag", "a label flag that is neither 0 nor 1"),
}
_GAP_FAULTS = {
    **{stop: f"event {{row:,}} has {what}" for stop, (_, what) in _FAULTS.items()},
    Stop.TRUNCATED: "event {row:,} would reach beyond the end of the file",
    Stop.ZEROS: "zeros stand where event {row:,} should be",
}


def note_version(builder: TraceBuilder, version: int, known: int) -> None:
    """Warn that the header states an unknown version."""
    builder.warn(
        Severity.NOTICE,
        "unknown_version",
        f"the header says version {version}; the file was read like version {known}, "
        "so look twice at what is shown.",
        offset=8,
    )


def note_changed(builder: TraceBuilder) -> None:
    """Warn that the file was written to while it was read."""
    builder.warn(
        Severity.DATA_LOSS,
        "file_changed",
        "the file was written to while it was read; what came later is missing.",
        remedy="Open it again when it is complete.",
    )


def note_end(builder: TraceBuilder, found: Boundaries, data: Bytes, size: int) -> None:
    """Warn about the fault at which the stream stops, if there is one.

    Parameters
    ----------
    size : bytes of the file.
    """
    at, n = int(found.offsets[-1]), len(found)
    rest = size - at
    kept = f"the {n:,} events before it were kept" if n else "nothing was readable"
    if found.stop is Stop.END:
        _note_no_events(builder, n)
    elif found.stop is Stop.TRUNCATED:
        builder.warn(
            Severity.DATA_LOSS,
            "truncated_event",
            f"the file ends inside event {n:,} ({rest:,} bytes of it are there); "
            f"{kept}.",
            offset=at,
            remedy="The writer was probably killed; record again to have the end.",
        )
    elif found.stop is Stop.ZEROS:
        _note_zeros(builder, at, rest, holds_data=bool(data[at:].any()))
    else:
        code, what = _FAULTS[found.stop]
        builder.warn(
            Severity.DATA_LOSS if n else Severity.ERROR,
            code,
            f"event {n:,} has {what}, so that the next event cannot be found; {kept}, "
            f"the last {rest:,} bytes were not read.",
            offset=at,
            remedy="If the layout is wrong, set reader option layout.",
        )


def note_gaps(builder: TraceBuilder, found: Boundaries) -> None:
    """Warn about damaged bytes between the events that were left out."""
    if not found.gaps:
        return
    first = found.gaps[0]
    n_bytes = sum(gap.end - gap.start for gap in found.gaps)
    others = len(found.gaps) - 1
    where = f" here and at {others:,} other places" if others else ""
    kept = len(found) - first.row
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


def note_damage(builder: TraceBuilder, events: Events, stream: Stream) -> None:
    """Warn about events that were read but are not sound."""
    offsets = stream.offsets
    for severity, code, rows, message in (
        (Severity.DATA_LOSS, "bad_timestamp", stream.bad_times,
         "events with an impossible time stamp were put beside their neighbours."),
        (Severity.NOTICE, "bad_label_text", stream.bad_labels,
         "labels that are no UTF-8 are shown with replacement characters."),
        (Severity.NOTICE, "out_of_order",
         np.flatnonzero(np.diff(events.time) < 0) + 1,
         "events lay behind later ones; they were sorted by time."),
    ):  # fmt: skip
        if len(rows):
            builder.warn(severity, code, message, int(offsets[rows[0]]), len(rows))
    counts = np.bincount(events.kind, minlength=256)
    for kind in np.flatnonzero(counts[N_TYPES:]) + N_TYPES:
        builder.warn(
            Severity.NOTICE,
            f"unknown_type_{kind}",
            f"events of the unknown type {kind} are shown as markers.",
            int(offsets[np.argmax(events.kind == kind)]),
            int(counts[kind]),
        )


def note_pairing(
    builder: TraceBuilder, events: Events, intervals: Intervals, offsets: I64
) -> None:
    """Warn about intervals that were not simply measured."""
    for severity, code, rows, message in (
        (Severity.NOTICE, "unfinished", intervals.begin[intervals.is_unfinished],
         "graphs or ops have no end; they are drawn to the end of what is around "
         "them."),
        (Severity.NOTICE, "unmatched_end", intervals.stray_ends,
         "ends of graphs or ops have no begin; they are shown as markers."),
        (Severity.INFO, "estimated_ops", intervals.begin[intervals.is_estimated],
         "the writer logged all begins of a graph before all ends, so that its ops "
         "were not timed; they share the time of their graph in equal parts."),
    ):  # fmt: skip
        if len(rows):
            first = int(offsets[events.record[rows].min()])
            builder.warn(severity, code, message, first, len(rows))


def note_ops(builder: TraceBuilder, events: Events, table: OpTable) -> None:
    """Warn where op names may be wrong or missing."""
    if table.margin is not None and table.margin < ggml.UNCERTAIN_MARGIN:
        builder.warn(
            Severity.NOTICE,
            "op_table_uncertain",
            f"op table {table.id} fits hardly better than others (margin "
            f"{table.margin}); op names may be wrong.",
            remedy="Name the right one with reader option ops.",
        )
    is_op = (events.kind == EventType.OP_BEGIN) & (events.number <= MAX_OP)
    counts = np.bincount(events.number[is_op])
    beyond = np.flatnonzero(counts[len(table.names) :]) + len(table.names)
    if len(beyond):
        listed = ", ".join(str(code) for code in beyond[:8])
        builder.warn(
            Severity.NOTICE,
            "unknown_op",
            f"op numbers that table {table.id} does not know: {listed}.",
            count=int(counts[beyond].sum()),
        )
