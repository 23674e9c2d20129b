"""Reader of ``.ggmlviz``: the event stream that ggml-viz's hooks write.

A `Reading` reads a file once, as its options ask; for long files it publishes
intermediate snapshots. Defects of the file become warnings with position and effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ggscope.errors import (
    CorruptError,
    LimitExceededError,
    ReadError,
    TruncatedError,
    UnsupportedVersionError,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml import ops as ggml
from ggscope.model.tables import I64, Array, distinct
from ggscope.model.trace import (
    DeclaredMetric,
    OpTable,
    Severity,
    Trace,
    TraceInfo,
    stated_figure,
    without_verdict,
)
from ggscope.model.units import Clock, TimeRange
from ggscope.readers.api import NOT_MINE, Estimate, Head, ReadContext, Sniff
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.common.file_facts import note_change
from ggscope.readers.ggmlviz import (
    AUTO,
    INFO,
    LAYOUT_OPTION,
    NUMBERING_OPTION,
    OPS_OPTION,
)
from ggscope.readers.ggmlviz.columns import (
    EVENT_BYTES,
    NAMES_EVERY,
    TOO_LARGE_HINT,
    EventCollector,
    EventOptions,
    Events,
    gather,
)
from ggscope.readers.ggmlviz.layouts import (
    DAY_NS,
    DETECT_BYTES,
    HEADER_BYTES,
    MAGIC,
    N_TYPES,
    ZERO_RUN,
    EventLayout,
    EventType,
    probe,
)
from ggscope.readers.ggmlviz.pairing import (
    IntervalFlag,
    Intervals,
    add_memory,
    pair_events,
)
from ggscope.readers.ggmlviz.trace import (
    MAX_OP,
    GgmlvizRecords,
    add_intervals,
    choose_ops,
    renumber,
    type_name,
)
from ggscope.readers.ggmlviz.walk import (
    MAX_GAPS,
    Stop,
    StreamScan,
    Walk,
    Window,
    first_in,
)
from ggscope.readers.partial_reading import (
    NAMES_CHOICES,
    NAMES_OPTION,
    RANGE_OPTION,
    requested_range,
)
from ggscope.readers.snapshots import SnapshotScheduler
from ggscope.readers.source import Source

_FAULTS = {
    Stop.BAD_LABEL: ("bad_label_length", "an implausibly long label"),
    Stop.BAD_FLAG: ("bad_label_flag", "a label flag that is neither 0 nor 1"),
}
_GAP_FAULTS = {
    **{stop: f"event {{row:,}} has {what}" for stop, (_, what) in _FAULTS.items()},
    Stop.TRUNCATED: "event {row:,} would extend beyond the end of the file",
    Stop.ZEROS: "zeros in place of event {row:,}",
}


def note_version(builder: TraceBuilder, version: int) -> None:
    """Warn that the header states an unknown version."""
    builder.warn(
        Severity.NOTICE,
        "unknown_version",
        f"unknown format version {version}; read as version 1, so the result "
        "may be wrong",
        offset=8,
    )


def note_failure(builder: TraceBuilder, failure: ReadError | None, at: int) -> None:
    """Warn if the rest of the file could not be read."""
    if failure is not None:
        builder.warn(
            Severity.DATA_LOSS,
            "read_failed",
            f"{failure.message} Everything before that was loaded.",
            offset=failure.offset if failure.offset is not None else at,
            remedy=failure.hint,
        )


def note_parts(
    builder: TraceBuilder, requested: EventOptions, n_events: int, *, is_whole: bool
) -> None:
    """Warn that the options exclude part of the file.

    `is_whole`: the range holds all events that the file has.
    """
    if (requested.first or requested.stop is not None) and not is_whole:
        last = requested.first + n_events - 1
        builder.warn(
            Severity.INFO,
            "range_read",
            f"only events {requested.first:,} to {last:,} were read, as "
            "requested; ops that cross these bounds have no begin or no end.",
            remedy=f"Remove reader option {RANGE_OPTION} to read all.",
        )
    if requested.names_every != NAMES_EVERY["all"]:
        every = requested.names_every
        read = f"one block of events in {every}" if every else "no events"
        builder.warn(
            Severity.INFO,
            "names_left_out",
            f"labels were read of {read}, as requested; other ops are unnamed.",
            remedy=f"Remove reader option {NAMES_OPTION} to read all.",
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
    loaded = f"the {n:,} events before it were loaded" if n else "nothing was readable"
    if scan.stop is Stop.END:
        _note_no_events(builder, n)
    elif scan.stop is Stop.TRUNCATED:
        builder.warn(
            Severity.DATA_LOSS,
            "truncated_event",
            f"the file ends inside event {n:,} (after {rest:,} bytes of it); {loaded}.",
            offset=at,
            remedy=(
                "The traced program was probably killed; record again to get the end."
            ),
        )
    elif scan.stop is Stop.ZEROS:
        holds_data = scan.holds_data_behind(context)
        _note_zeros(builder, at, rest, holds_data=holds_data)
    else:
        code, what = _FAULTS[scan.stop]
        builder.warn(
            Severity.DATA_LOSS if n else Severity.ERROR,
            code,
            f"event {n:,} has {what}, so the next event cannot be found; "
            f"{loaded}, the last {rest:,} bytes were not read.",
            offset=at,
            remedy="If the layout is wrong, set reader option layout.",
        )


def note_gaps(builder: TraceBuilder, scan: StreamScan) -> None:
    """Warn about damaged bytes between the events that were left out."""
    if not scan.gaps:
        return
    first = scan.gaps[0]
    n_bytes = sum(gap.end - gap.start for gap in scan.gaps)
    others = len(scan.gaps) - 1
    where = f" here and at {others:,} other places" if others else ""
    n_after = scan.count - first.row
    text = _GAP_FAULTS[first.stop].format(row=first.row)
    if len(scan.gaps) == MAX_GAPS:
        where += "; too much is damaged, the rest was not searched"
    builder.warn(
        Severity.DATA_LOSS,
        "skipped_bytes",
        f"{text}: {n_bytes:,} damaged bytes were skipped{where}; the {n_after:,} "
        "events after them were loaded.",
        offset=first.start,
        count=len(scan.gaps),
        remedy="If the layout is wrong, set reader option layout.",
    )


def _note_no_events(builder: TraceBuilder, n: int) -> None:
    if not n:
        builder.warn(
            Severity.NOTICE,
            "no_events",
            "the file has a header but no events: the hooks never fired.",
            remedy="Check that the traced program calls the hooked ggml.",
        )


def _note_zeros(builder: TraceBuilder, at: int, rest: int, *, holds_data: bool) -> None:
    builder.warn(
        Severity.NOTICE,
        "zero_tail",
        f"the last {rest:,} bytes begin with padding and contain no events.",
        offset=at,
    )
    if holds_data:
        builder.warn(
            Severity.DATA_LOSS,
            "data_after_zeros",
            f"the stream has a gap: the last {rest:,} bytes begin with zeros, "
            "and events after them were not read.",
            offset=at,
        )


def note_damage(
    builder: TraceBuilder, events: Events, records: GgmlvizRecords, n_of_kind: I64
) -> None:
    """Warn about events that were read but are not sound.

    Parameters
    ----------
    n_of_kind : int64[256], number of events of each type.
    """
    for severity, code, rows, message in (
        (Severity.DATA_LOSS, "bad_timestamp", events.bad_times,
         "events with an invalid timestamp were placed next to their neighbours."),
        (Severity.NOTICE, "bad_label_text", events.bad_labels,
         "labels are not valid UTF-8; shown with replacement characters."),
        (Severity.NOTICE, "out_of_order", events.backward,
         "events were out of order; sorted by time."),
    ):  # fmt: skip
        if len(rows):
            at = records.offset(events.first_record + int(rows[0]))
            builder.warn(severity, code, message, at, len(rows))
    for kind in np.flatnonzero(n_of_kind[N_TYPES:]) + N_TYPES:
        first = int(np.argmax(events.kind == kind))
        builder.warn(
            Severity.NOTICE,
            f"unknown_type_{kind}",
            f"unknown event type {kind}; shown as markers.",
            records.offset(events.first_record + first),
            int(n_of_kind[kind]),
        )


def note_pairing(
    builder: TraceBuilder, events: Events, intervals: Intervals, records: GgmlvizRecords
) -> None:
    """Warn about intervals that were not simply measured."""
    begin, flags = intervals.begin, intervals.flags
    for severity, code, rows, message in (
        (Severity.NOTICE, "unfinished", begin[(flags & IntervalFlag.UNFINISHED) != 0],
         "graphs or ops have no end event; drawn to the end of the enclosing span."),
        (Severity.NOTICE, "unmatched_end", intervals.stray_ends,
         "end events without a begin; shown as markers."),
        (Severity.INFO, "estimated_ops", begin[(flags & IntervalFlag.ESTIMATED) != 0],
         "ops were not timed (all begins of a graph precede all ends); each "
         "gets an equal share of its graph's time."),
    ):  # fmt: skip
        if len(rows):
            first = records.offset(events.first_record + int(rows.min()))
            builder.warn(severity, code, message, first, len(rows))


def note_ops(
    builder: TraceBuilder, events: Events, table: OpTable, chunked: ChunkedOps
) -> None:
    """Warn where op names may be wrong or missing."""
    if table.margin is not None and table.margin < ggml.UNCERTAIN_MARGIN:
        builder.warn(
            Severity.NOTICE,
            "op_table_uncertain",
            f"ambiguous op table {table.id} (margin {table.margin}); op names "
            "may be wrong.",
            remedy="Select the table with reader option ops.",
        )
    beyond, n_ops = _beyond(events, len(table.names), chunked)
    if len(beyond):
        listed = ", ".join(str(code) for code in beyond[:8])
        builder.warn(
            Severity.NOTICE,
            "unknown_op",
            f"op numbers missing from table {table.id}: {listed}.",
            count=n_ops,
        )


def _beyond(events: Events, n_known: int, chunked: ChunkedOps) -> tuple[Array, int]:
    """Return the op numbers from `n_known` on, and how many ops have one."""
    numbers: I64 = np.empty(0, np.int64)
    n_ops = 0
    for block in chunked.slices(events.n):
        number = events.number[block]
        is_beyond = (number >= n_known) & (number <= MAX_OP)
        is_beyond &= events.kind[block] == EventType.OP_BEGIN
        if is_beyond.any():
            n_ops += int(np.count_nonzero(is_beyond))
            numbers = distinct(np.append(numbers, number[is_beyond]))
    return numbers, n_ops


_ENDLESS = 1 << 62
_HOLE_BYTES = 8192
"""So much of a sparse file's empty end is read: enough to see that it is zeros."""
_SPAN_BYTES = 40
_BESIDE_BYTES = 28
"""What a span takes in the trace; and at worst beside the events while it is made."""
PENDING = frozenset({"spans", "names", "accesses"})
FIRST_S = 0.1
MOST = 4
"""A snapshot holds at most one in so many of the events: it costs as much as finishing
them does, and is thrown away."""
_TAIL_BYTES = 1 << 16
_SPARE_ROWS = 64
_MAX_ROWS_AT_FIRST = 1 << 26
"""Columns are allocated for at most so many events before they are read."""
VERSION = 1


@dataclass(frozen=True, slots=True)
class GgmlvizOptions:
    """What to read, and as what.

    Attributes
    ----------
    end : bytes of the file to read; of the empty end of a sparse file, a few.
    n_events : about how many events that is.
    ops : op table, or "auto".
    shown : those that shape the trace, as `TraceInfo` holds them.
    numbering : which numbers barriers and threads have; see `readers.ggmlviz.trace`.
    """

    layout: EventLayout
    events: EventOptions
    end: int
    n_events: int
    ops: str
    shown: dict[str, str]
    numbering: str = "auto"


def choose(source: Source, context: ReadContext) -> GgmlvizOptions:
    """Return what the options ask for.

    Raises
    ------
    ReadError
        If one of them has a value that does not exist.
    """
    chosen = INFO.option_values(context.options)
    head = source.head(DETECT_BYTES)
    layout_id = chosen[LAYOUT_OPTION]
    seen = probe(head, source.size, "" if layout_id == AUTO else layout_id)
    written = max((end for _, end in source.data_extents()), default=0)
    end = min(source.size, max(written, HEADER_BYTES) + _HOLE_BYTES)
    n_events = seen.n_events(end)
    shown = {"layout": seen.layout.id}
    names = chosen[NAMES_OPTION]
    if names != NAMES_CHOICES[0]:
        shown[NAMES_OPTION] = names
    first, stop = _range(context.options, n_events)
    if first or stop is not None:
        shown[RANGE_OPTION] = f"{first}:{'' if stop is None else stop}"
        last = n_events if stop is None else min(stop, n_events)
        n_events = max(last - first, 0)
    requested = EventOptions(
        first=first,
        stop=stop,
        names_every=NAMES_EVERY[names],
        memory_bytes=context.limits.memory_bytes,
    )
    numbering = chosen[NUMBERING_OPTION]
    if numbering != AUTO:
        shown[NUMBERING_OPTION] = numbering
    return GgmlvizOptions(
        seen.layout, requested, end, n_events, chosen[OPS_OPTION], shown, numbering
    )


def estimate(head: Head) -> Estimate | None:
    """Return what reading a whole file would cost; None where that is unknown."""
    if not head.data.startswith(MAGIC):
        return None
    seen = probe(head.data, head.size, "")
    n_events = seen.n_events(head.size)
    spans = int(n_events * seen.begin_share)
    peak = n_events * EVENT_BYTES + spans * _BESIDE_BYTES
    return Estimate(
        records=n_events,
        final_bytes=spans * _SPAN_BYTES,
        peak_bytes=peak + (16 << 20),
        can_range=True,
        can_sample_names=True,
    )


def _range(options: Mapping[str, str], n_events: int) -> tuple[int, int | None]:
    """Return the first event and the one behind the last; None = to the end.

    How many events there are is known only at the end of reading: numbers are
    taken as they are, and shares are those of about so many.
    """
    text = options.get(RANGE_OPTION, "").strip()
    if not text:
        return 0, None
    if "%" not in text:
        n_events = _ENDLESS
    first, stop = requested_range(options, n_events)
    is_open = stop == _ENDLESS or (stop == n_events and text.endswith(":"))
    return first, None if is_open else stop


def known_part(events: Events, intervals: Intervals) -> tuple[Intervals, int]:
    """Return the intervals that later events cannot change, and up to which ns.

    What is still open ends there for now. Ops may begin before their own begin event
    where they share the time of a graph, so nothing is known of open graphs.
    """
    time = events.time
    until = int(time.max())
    if len(events.backward):
        # Events to come may be as late as those so far.
        until -= int((np.maximum.accumulate(time) - time).max())
    if intervals.open_from is not None:
        until = min(until, intervals.open_from)
    part = intervals.take(np.flatnonzero(time[intervals.begin] < until))
    is_open = (part.flags & IntervalFlag.UNFINISHED) != 0
    part.end[is_open] = np.minimum(part.end[is_open], until)
    ends = part.stray_ends
    return part.with_strays(ends[time[ends] < until]), until


def last_time(
    source: Source, walk: Walk, events: Events, origin: int
) -> TimeRange | None:
    """Return the time of the whole file, from its end; None if it is unclear.

    Only a run of sound events that leads to the very end, with times that belong to
    those read so far, is believed.
    """
    window = Window(source, walk.end, _TAIL_BYTES)
    begin = max(walk.end - _TAIL_BYTES, 0)
    window.cover(begin, walk.end)
    tail = Walk(window, walk.layout, walk.max_label)
    middle = int(np.median(events.time[:ZERO_RUN]))
    first = first_in(tail, begin, window.end, middle)
    if first is None:
        return None
    starts, end, _ = tail.slowly(first, window.end)
    stamps: I64 = tail.stamps(starts)
    is_near = (abs(stamps - np.int64(middle)) <= DAY_NS) & (stamps > 0)
    if end < walk.end - tail.reach or not is_near.all():
        return None
    return TimeRange(0, max(int(stamps.max()) - origin, 0))


class Reading:
    """One pass over one file.

    Parameters
    ----------
    version : what the header states.
    collector : where events go; None for the fastest one there is.
    """

    def __init__(
        self,
        source: Source,
        context: ReadContext,
        options: GgmlvizOptions,
        version: int,
        collector: EventCollector | None = None,
    ) -> None:
        self._source, self._context = source, context
        self._chunked = ChunkedOps(context.check_cancelled)
        self._options, self._version = options, version
        requested, layout = options.events, options.layout
        n_rows = min(options.n_events * 51 // 50 + _SPARE_ROWS, _MAX_ROWS_AT_FIRST)
        self._collector: EventCollector | None = collector or EventCollector(
            requested, n_rows, layout
        )
        max_label = context.limits.label_bytes
        window_bytes = max(self._collector.window_bytes, 4 * max_label) + (1 << 16)
        window = Window(source, options.end, window_bytes)
        self._walk = Walk(window, layout, max_label)
        self._scan = StreamScan(
            self._walk, self._collector, HEADER_BYTES, stop_row=requested.stop
        )
        self._shown_until = -1
        self._snapshots = None
        if context.wants_stages:
            self._snapshots = SnapshotScheduler(FIRST_S, largest_share=1 / MOST)

    def run(self, *, is_known: bool) -> Trace:
        """Return the whole trace.

        Parameters
        ----------
        is_known : whether the version is one that is known.
        """
        builder = TraceBuilder()
        if not is_known:
            note_version(builder, self._version)
        self._read(builder)
        return self._finished(builder)

    def _read(self, builder: TraceBuilder) -> None:
        """Read all events; warn about unreadable parts."""
        collector, size = self._collector, self._source.size
        assert collector is not None
        for _ in self._scan.stretches(self._context):
            self._context.progress(self._scan.position // 2, size)
            if self._snapshots is None:
                continue
            n_events = self._options.n_events
            n = min(collector.columns.n, n_events // MOST)
            if self._snapshots.is_due(n, n_events):
                self._snapshots.timed(partial(self._publish, collector, n), n)
        self._note_reading(builder, collector.columns.n)
        self._context.progress(size // 2, size)

    def _finished(self, builder: TraceBuilder) -> Trace:
        """Return the trace of all events."""
        context, chunked, size = self._context, self._chunked, self._source.size
        records = self._records()
        events = self._all_events(builder)
        n, n_of_kind = events.n, chunked.counts(events.kind, 256)
        note_damage(builder, events, records, n_of_kind)
        is_sure = renumber(builder, events, n_of_kind, self._options.numbering)
        n_of_kind = chunked.counts(events.kind, 256)
        summary: dict[str, object] = {
            "events": {
                type_name(kind, is_sure=is_sure): int(n_of_kind[kind])
                for kind in np.flatnonzero(n_of_kind).tolist()
            },
            "threads": len(events.thread_ids),
        }
        stated = self._stated(events, int(n_of_kind[EventType.OP_BEGIN]))
        builder.ops = self._ops(builder, events)
        context.progress(size * 5 // 8, size)
        if n:
            origin, end = int(events.time.min()), int(events.time.max())
            builder.clock = Clock.of_stamps(origin)
            summary.update(add_memory(builder, events, origin, chunked))
            intervals = pair_events(events, end, chunked)
            context.progress(size * 3 // 4, size)
            n_graphs = np.count_nonzero(intervals.flags & IntervalFlag.GRAPH)
            summary["graphs"] = int(n_graphs)
            note_pairing(builder, events, intervals, records)
            add_intervals(
                builder, events, intervals, origin, chunked, is_numbering_sure=is_sure
            )
        builder.records = records
        note_change(
            builder, self._source.change(), f"{n:,} events", self._scan.position
        )
        info = self._info(builder.ops, n, summary)
        if builder.has_loss:
            stated = tuple(map(without_verdict, stated))
        builder.warn_stated(stated)
        trace = builder.snapshot(replace(info, stated=stated))
        context.progress(size, size)
        return trace

    def _stated(self, events: Events, n_ops: int) -> tuple[DeclaredMetric, ...]:
        """Return how many nodes graphs say they have, beside the ops that began.

        A full buffer drops ops, and some writers log none: fewer contradict nothing.
        Where each thread logs every op, the begins of one thread are compared.
        """
        requested, n_nodes, n_graphs = self._options.events, 0, 0
        for block in self._chunked.slices(events.n):
            is_graph = events.kind[block] == EventType.GRAPH_BEGIN
            n_nodes += int(events.number[block][is_graph].sum(dtype=np.int64))
            n_graphs += int(np.count_nonzero(is_graph))
        if not n_graphs or requested.first or requested.stop is not None:
            return ()
        basis = "ops that began"
        if n_ops > n_nodes and (stated := self._most_of_a_thread(events)) < n_ops:
            basis, n_ops = "ops that began on one thread", stated
        figure = stated_figure(
            "nodes of graphs",
            n_nodes,
            n_ops or None,
            basis=basis,
            place="GRAPH_BEGIN",
            at_least=True,
        )
        return () if figure is None else (figure,)

    def _most_of_a_thread(self, events: Events) -> int:
        """Return how many ops began on the thread that logged most of them."""
        per_thread = np.zeros(max(len(events.thread_ids), 1), np.int64)
        for block in self._chunked.slices(events.n):
            place = events.place[block][events.kind[block] == EventType.OP_BEGIN]
            counts = np.bincount(events.thread_of[place], minlength=len(per_thread))
            per_thread += counts
        return int(per_thread.max())

    def _all_events(self, builder: TraceBuilder) -> Events:
        """Return the events, and let go of the collector."""
        assert self._collector is not None
        events = gather(
            self._collector,
            builder.strings,
            self._chunked,
            first_record=self._options.events.first,
        )
        self._collector = None
        return events

    def _publish(self, collector: EventCollector, n: int) -> None:
        """Publish a snapshot of the first `n` events, without those that may change."""
        chunked, requested = self._chunked, self._options.events
        builder = TraceBuilder()
        events = gather(
            collector, builder.strings, chunked, n=n, first_record=requested.first
        )
        origin, end = int(events.time.min()), int(events.time.max())
        builder.clock = Clock.of_stamps(origin)
        intervals = pair_events(events, end, chunked)
        part, until = known_part(events, intervals)
        if until <= max(origin, self._shown_until):
            return
        self._shown_until = until
        builder.ops = self._ops(builder, events)
        extent = None
        if requested.stop is None:
            extent = last_time(self._source, self._walk, events, origin)
        builder.records = self._records()
        add_intervals(builder, events, part, origin, chunked)
        trace = builder.snapshot(
            self._info(builder.ops, n, {}),
            PENDING,
            read_until=until - origin,
            extent=extent,
        )
        self._context.publish(trace)

    def _ops(self, builder: TraceBuilder, events: Events) -> OpTable | None:
        """Return the op table, after warnings about it; None where there are no ops."""
        table_id = self._options.ops
        try:
            table = choose_ops(builder, events, table_id, self._chunked)
        except KeyError:
            raise ReadError(
                f"unknown op table {table_id!r}.",
                hint=ggml.ERAS_HINT,
            ) from None
        if table is not None:
            note_ops(builder, events, table, self._chunked)
        return table

    def _note_reading(self, builder: TraceBuilder, n: int) -> None:
        """Warn about what could not be read, and what was left out."""
        scan, requested = self._scan, self._options.events
        note_gaps(builder, scan)
        if not scan.is_cut_short:
            note_end(builder, scan, self._source.size, self._context)
        note_failure(builder, self._walk.window.failure, scan.position)
        if requested.first and not n:
            raise ReadError(
                f"the range begins at event {requested.first:,}, but the file has "
                f"{scan.count:,} events.",
                hint="Use a range within these.",
            )
        is_whole = not requested.first and scan.position >= self._walk.end
        note_parts(builder, requested, n, is_whole=is_whole)

    def _records(self) -> GgmlvizRecords:
        path, layout = self._source.path, self._options.layout
        return GgmlvizRecords(path, layout, self._scan.anchors())

    def _info(
        self, ops: OpTable | None, n: int, summary: dict[str, object]
    ) -> TraceInfo:
        source, options = self._source, dict(self._options.shown)
        if ops is not None:
            options["ops"] = ops.id
        parts: dict[str, object] = {
            name: options[name]
            for name in (RANGE_OPTION, NAMES_OPTION)
            if name in options
        }
        return TraceInfo(
            paths=(source.path,),
            reader_id="ggmlviz",
            format="ggmlviz",
            format_version=str(self._version),
            byte_size=source.size,
            n_records=n,
            options=options,
            summary={**summary, **parts},
            modified_ns=source.modified_ns,
        )


class GgmlvizReader:
    """Reads graph, op and memory events."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge by the magic number, else by the suffix."""
        data = head.data[:HEADER_BYTES]
        if data.startswith(MAGIC):
            if len(data) < HEADER_BYTES:
                return Sniff(90, "magic number, truncated header")
            version = int.from_bytes(data[len(MAGIC) :], "little")
            return Sniff(
                100 if version == VERSION else 90, f"magic number, version {version}"
            )
        if _is_other_version(data):
            return Sniff(90, f"magic number {_shown(data)}, not {_shown(MAGIC)}")
        if data and head.size < HEADER_BYTES and MAGIC.startswith(data):
            # One to three letters could begin anything.
            return Sniff(90 if len(data) > 3 else 25, "the beginning of the header")
        if head.suffix in self.info.suffixes:
            return Sniff(10, "matches by name only: the magic number is missing")
        return NOT_MINE

    def estimate(self, head: Head) -> Estimate | None:
        """Return the cost of reading a file with this head; None if unknown."""
        return estimate(head)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace; a file with a header and no events gives an empty one.

        Raises
        ------
        CorruptError, UnsupportedVersionError, TruncatedError
            If the header is not that of a ``.ggmlviz`` file.
        LimitExceededError
            If the events take more memory than there is or the context allows.
        ReadError
            If an option has a value that does not exist.
        """
        version = _version(source)
        try:
            reading = Reading(source, context, choose(source, context), version)
            return reading.run(is_known=version == VERSION)
        except MemoryError:
            raise LimitExceededError(
                "not enough memory for the events of this file.",
                hint=TOO_LARGE_HINT,
            ) from None


def _is_other_version(data: bytes) -> bool:
    """Return whether the magic number differs in its last character only."""
    return len(data) >= len(MAGIC) and data[: len(MAGIC) - 1] == MAGIC[:-1]


def _shown(data: bytes) -> str:
    """Return the first bytes as text and, where they are none, in hex."""
    start = data[: len(MAGIC)]
    text = start.decode("latin-1")
    if text.isascii() and text.isprintable():
        return f'"{text}"'
    return start.hex(" ")


def _version(source: Source) -> int:
    """Check the header; return the version that it states."""
    data = source.head(HEADER_BYTES)
    if data.startswith(MAGIC) and len(data) == HEADER_BYTES:
        return int.from_bytes(data[len(MAGIC) :], "little")
    if data.startswith(MAGIC) or MAGIC.startswith(data):
        raise TruncatedError(
            f"truncated header: {len(data)} of {HEADER_BYTES} bytes.",
            offset=len(data),
            hint="The traced program ended before its first event.",
        )
    if _is_other_version(data):
        raise UnsupportedVersionError(
            f"unsupported magic number {_shown(data)} (supported: {_shown(MAGIC)}).",
            offset=0,
            hint="A newer ggscope may read it.",
        )
    raise CorruptError(
        f"not a .ggmlviz file: the magic number is {_shown(data)}, not "
        f"{_shown(MAGIC)}.",
        offset=0,
        hint="Check that the file was not converted or truncated at its start.",
    )
