"""Reader of tensor-access traces: fixed-size records without a header.

Written by the tensor tracers for llama.cpp (``tensor_trace.bin``). The file is read
once, from end to end. Of a file that takes its time, the spans so far are published
now and then; the rest of it is looked at in a few places only, to show how far it
reaches. Then come all spans, and at last their names and accesses. Records of 128
bytes may be buffer events: allocations and releases of backend buffers.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ggscope.errors import CorruptError, LimitExceededError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64, U64, Array, StringTable
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import TimeRange
from ggscope.readers.api import NOT_MINE, Estimate, Head, ReadContext, Sniff
from ggscope.readers.chunked import ChunkedOps, narrowest
from ggscope.readers.common.buffer_lives import MAX_SIZE, BufferEvents, add_buffers
from ggscope.readers.partial_reading import NAMES_OPTION, RANGE_OPTION, requested_range
from ggscope.readers.snapshots import SnapshotScheduler
from ggscope.readers.source import Source
from ggscope.readers.tensor import INFO, LAYOUT_OPTION, OPS_OPTION
from ggscope.readers.tensor.columns import (
    NEVER,
    Ranges,
    TensorFile,
    TensorOptions,
    cut_ranges,
    data_bounds,
    n_file_records,
    record_ranges,
    spread_records,
    word_blocks,
)
from ggscope.readers.tensor.layouts import (
    BUFFER_128,
    LAYOUT_64A,
    LAYOUT_64P,
    LAYOUTS,
    MAX_TIMESTAMP,
    STRONG,
    RecordLayout,
    TensorRecords,
    detect,
    detect_head,
)
from ggscope.readers.tensor.names import PatternDecoder, Patterns, decode_patterns
from ggscope.readers.tensor.passes import Draft, arrange, spare_rows
from ggscope.readers.tensor.repeats import (
    Joins,
    joined,
    joined_patterns,
    joined_rows,
    op_starts,
)
from ggscope.readers.tensor.scan import PEAK_BYTES, RecordScan
from ggscope.readers.tensor.trace import (
    FULL_TEXT,
    assemble,
    assemble_nameless,
    assemble_part,
    find_ops,
    make_draft,
    make_info,
    note_file_change,
    note_file_state,
    note_nothing_flushed,
)
from ggscope.readers.tensor.waits import has_waits

_FINAL_BYTES, _FIXED_BYTES = 35, 32 << 20
"""What a record costs in memory once it has been read, about; and any file."""

FIRST_S = 0.02
"""When the first early picture is due; it takes about as long to make."""
SHORT_S = 0.07
"""A file that is read sooner needs no early picture."""
MOST = 8
GROWTH = 2
"""A further picture shows at least so many times as much."""
_COST_SHARE = 0.2
"""What all early pictures may take of the time for reading."""
_LARGEST_SHARE = 0.4
"""No early picture of more than this share of the file: its arrays lie beside those
of the whole trace until that replaces them."""
_N_PROBES = 64
_TAIL_RECORDS = 256
_U64 = np.uint64


def add_buffer_events(builder: TraceBuilder, source: Source, ranges: Ranges) -> int:
    """Add buffers, their occupancy over time and one marker per event.

    Returns
    -------
    The number of events.
    """
    events, record, n = _events(source, ranges)
    usable = np.asarray(
        (events["timestamp_ns"] <= np.uint64(MAX_TIMESTAMP))
        & (events["event_type"] <= 1)
    )
    if not usable.all():
        builder.warn(
            Severity.DATA_LOSS,
            "bad_event",
            "skipped buffer events with an unknown type or an invalid timestamp.",
            int(record[~usable][0]) * BUFFER_128.size,
            int(np.count_nonzero(~usable)),
        )
    events, record = events[usable], record[usable]
    sizes = np.minimum(events["size_bytes"], np.uint64(MAX_SIZE)).astype(np.int64)
    add_buffers(
        builder,
        BufferEvents(
            time=events["timestamp_ns"].astype(np.int64),
            is_alloc=events["event_type"] == 0,
            id=events["buffer_id"].astype(np.uint64),
            size=sizes,
            name=_strings(builder, events["name"].tolist()),
            backend=_strings(builder, events["backend"].tolist()),
            usage=events["usage"],
            layer=events["layer_id"],
            record=record,
        ),
    )
    return n


def _events(source: Source, ranges: Ranges) -> tuple[Array, Array, int]:
    """Return the events, their record numbers, and how many there are."""
    parts: list[Array] = [np.zeros(0, BUFFER_128.dtype)]
    numbers: list[Array] = [np.zeros(0, np.int64)]
    for first, blocks in word_blocks(source, BUFFER_128.size, ranges):
        used = np.flatnonzero(blocks.any(axis=1))
        rows = np.ascontiguousarray(blocks[used])
        parts.append(rows.view(BUFFER_128.dtype).reshape(-1))
        numbers.append(first + used)
    events = np.concatenate(parts)
    return events, np.concatenate(numbers), len(events)


def _strings(builder: TraceBuilder, raw: Sequence[bytes]) -> Array:
    """Return the string ids of raw names; -1 for blank ones."""
    ids: dict[bytes, int] = {}
    for name in dict.fromkeys(raw):
        text = name.split(b"\0", 1)[0].decode("utf-8", "replace").strip()
        ids[name] = builder.strings.intern(text) if text else -1
    return np.array([ids[name] for name in raw], np.int32)


class TimestampSample:
    """Time stamps of some records of the whole file.

    Attributes
    ----------
    low, high : the earliest and the latest stamp seen; (`NEVER`, -1) for none.
    """

    def __init__(self, source: Source, size: int, ranges: Ranges) -> None:
        numbers, stamps = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        tail = max(ranges[-1][0], ranges[-1][1] - _TAIL_RECORDS) if ranges else 0
        spots = [(number, 1) for number in spread_records(ranges, _N_PROBES)]
        spots += [(tail, ranges[-1][1] - tail)] if ranges else []
        for first, count in spots:
            block = source.array(first * size, count * size)
            whole = block[: len(block) // size * size].reshape(-1, size)
            time_of = np.ascontiguousarray(whole[:, :8]).view(_U64)[:, 0]
            # An all-zero record has no stamp.
            good = (time_of > 0) & (time_of <= _U64(MAX_TIMESTAMP))
            numbers.append(first + np.flatnonzero(good))
            stamps.append(time_of[good].astype(np.int64))
        self._numbers, self._stamps = np.concatenate(numbers), np.concatenate(stamps)
        has_any = bool(len(self._stamps))
        self.low = int(self._stamps.min()) if has_any else NEVER
        self.high = int(self._stamps.max()) if has_any else -1

    def earliest_from(self, record: int) -> int | None:
        """Return the earliest stamp of the known records from `record` on."""
        later = self._stamps[self._numbers >= record]
        return int(later.min()) if len(later) else None


class _Lateness:
    """How far the stamps of the file go back behind earlier ones."""

    def __init__(self) -> None:
        self.latest = 0
        self.max_ahead = 0
        self._n = 0

    def add(self, stamps: I64, chunked: ChunkedOps) -> None:
        """Take the stamps of all rows so far, of which some are known already."""
        for chunk in chunked.slices(len(stamps), self._n):
            part = stamps[chunk]
            ahead = np.maximum(np.maximum.accumulate(part), self.latest)
            self.max_ahead = max(self.max_ahead, int((ahead - part).max()))
            self.latest = int(ahead[-1])
        self._n = len(stamps)


class EarlyTraces:
    """Publishes the spans so far while a file is being scanned."""

    def __init__(
        self,
        file: TensorFile,
        ranges: Ranges,
        chunked: ChunkedOps,
        publish: Callable[[Trace], None],
    ) -> None:
        self._file = file
        self._chunked = chunked
        self._publish = publish
        self._ranges = ranges
        self._sample: TimestampSample | None = None
        self._lateness = _Lateness()
        self.scheduler = SnapshotScheduler(
            FIRST_S,
            short_s=SHORT_S,
            most=MOST,
            growth=GROWTH,
            largest_share=_LARGEST_SHARE,
            cost_share=_COST_SHARE,
        )

    def offer(self, scan: RecordScan) -> None:
        """Publish what the scan has, if it is time for that."""
        if scan.is_done or not scan.n_rows:
            return
        if self.scheduler.is_due(scan.n_done, scan.n_all):
            self.scheduler.timed(lambda: self._publish(self._part(scan)), scan.n_done)

    def _part(self, scan: RecordScan) -> Trace:
        columns, chunked = scan.columns(), self._chunked
        if self._sample is None:
            size = self._file.options.layout.size
            self._sample = TimestampSample(self._file.source, size, self._ranges)
        sample = self._sample
        self._lateness.add(columns.time, chunked)
        earliest = int(np.argmin(columns.time))
        origin = min(int(columns.time[earliest]), sample.low)
        threads = scan.threads
        marks = scan.pass_marks(earliest)
        rows = arrange(columns, threads, marks, chunked, origin=origin)
        if self._file.options.layout.source is None:
            starts = op_starts(rows, columns.op, self._file.ops, chunked)
            rows = joined_rows(rows, starts)
        strings = StringTable()
        draft = make_draft(
            self._file, scan.tally, threads, columns, rows, strings, chunked
        )
        until = self._lateness.latest - self._lateness.max_ahead
        ahead = sample.earliest_from(scan.next_record)
        if ahead is not None:
            until = min(until, ahead)
        extent = TimeRange(0, max(sample.high - origin, 0))
        return assemble_part(draft, strings, max(until - origin, 0), extent)


class TensorAccessReader:
    """Reads tensor-access records of 64, 128, 256 and 1024 bytes."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by laying every record layout over its head."""
        if not any(head.data):
            if head.suffix in self.info.suffixes:
                return Sniff(5, "all zeros; possibly a preallocated trace")
            return NOT_MINE
        match = detect_head(head.data, head.size)
        if match is None:
            if head.suffix not in self.info.suffixes:
                return NOT_MINE
            return Sniff(0, "no record layout fits the first 64 KiB")
        confidence = 40 if match.score >= STRONG else 25
        return Sniff(confidence, f"fields match {match.layout.title} records")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file with this head would cost at most.

        A preallocated file may hold less than its size promises.
        """
        match = detect_head(head.data, head.size)
        if match is None or match.layout is BUFFER_128:
            return None
        records = head.size // match.layout.size
        return Estimate(
            records=records,
            final_bytes=_FIXED_BYTES + _FINAL_BYTES * records,
            peak_bytes=_FIXED_BYTES + PEAK_BYTES * records,
            can_range=True,
            can_sample_names=True,
        )

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace, after early snapshots of a large file if requested.

        Raises
        ------
        CorruptError
            If no layout fits.
        ReadError
            If an option is not understood.
        LimitExceededError
            If there are more records than the context allows, or than fit into
            memory.
        """
        try:
            return _read(source, context)
        except MemoryError as error:
            raise LimitExceededError(
                "not enough memory to read this trace.",
                path=source.path,
                hint=f"Read a part of it with the option {RANGE_OPTION}=FIRST:STOP, "
                f"or skip names with {NAMES_OPTION}=sampled or "
                f"{NAMES_OPTION}=none.",
            ) from error


def _read(source: Source, context: ReadContext) -> Trace:
    given, values = context.options, INFO.option_values(context.options)
    given = {name: text for name, text in given.items() if name in values and text}
    requested = LAYOUTS.get(values[LAYOUT_OPTION])
    begin, end = data_bounds(source, context)
    if not end:
        return _empty_trace(source, requested)
    layout = requested or _detected(source, begin, end)
    n_file = n_file_records(source, layout.size, end)
    first, stop = requested_range(given, n_file)
    ranges = record_ranges(source, layout.size, begin, end)
    ranges = cut_ranges(ranges, first, stop)
    if layout is BUFFER_128:
        return _buffer_trace(source, ranges, end)
    waits = has_waits(source, layout, ranges)
    names = values[NAMES_OPTION]
    options = TensorOptions(layout, names, first, stop, n_file, has_waits=waits)
    ops = find_ops(source, layout, ranges, given.get(OPS_OPTION))
    file = TensorFile(source=source, given=given, options=options, end=end, ops=ops)
    return _Reading(file, ranges, context).run()


class _Reading:
    """Reads a file's records: scan, arrange, decode."""

    def __init__(self, file: TensorFile, ranges: Ranges, context: ReadContext) -> None:
        self._file = file
        self._ranges = ranges
        self._context = context
        self._chunked = ChunkedOps(context.check_cancelled)
        self._generation = 0
        self._strings = StringTable()

    def run(self) -> Trace:
        """Return the whole trace."""
        file, context = self._file, self._context
        early = None
        if context.wants_stages:
            early = EarlyTraces(file, self._ranges, self._chunked, self._publish)
        with RecordScan(
            file.source,
            file.options,
            self._ranges,
            context.limits,
            self._chunked,
        ) as scan:
            self._scan(scan, early)
            draft, of_row, exemplars, joins = self._arranged(scan)
        if early is not None and early.scheduler.is_slow:
            self._publish(assemble_nameless(draft, self._strings, self._chunked))
        patterns = self._decoded(draft, exemplars)
        if joins is not None:
            patterns = joined(patterns, joins)
        trace = assemble(
            draft, self._strings, patterns, of_row, exemplars, self._chunked
        )
        return replace(trace, generation=self._generation + 1)

    def _publish(self, trace: Trace) -> None:
        self._generation += 1
        self._context.publish(replace(trace, generation=self._generation))

    def _scan(self, scan: RecordScan, early: EarlyTraces | None) -> None:
        size = self._file.options.layout.size
        while not scan.is_done:
            scan.step()
            self._context.progress(scan.n_done * size, scan.n_all * size)
            if early is not None:
                early.offer(scan)
        scan.tally.note_holes(self._ranges, self._file.options.first, scan.ended_at)

    def _arranged(self, scan: RecordScan) -> tuple[Draft, Array, U64, Joins | None]:
        """Return all spans but for names, their patterns, and what these stand for.

        The patterns are those of ops, joined from those of records where a record
        describes one source.
        """
        file, chunked, tally = self._file, self._chunked, scan.tally
        n = scan.n_rows
        time = scan.columns().time
        earliest = int(np.argmin(time)) if n else 0
        origin = int(time[earliest]) if n else 0
        del time
        marks = scan.pass_marks(earliest)
        ids, exemplars = scan.patterns()
        tables = [np.append(numbers, np.int32(-1)) for numbers in ids]
        pattern = np.full(n, -1, np.int8)
        if file.options.sample_every:
            # Holds -1 to n - 1.
            dtype = np.min_scalar_type(-max(len(exemplars), 1))
            pattern = scan.spread(tables, dtype)
        threads, ended_at = scan.threads, scan.ended_at
        columns = scan.take_columns()
        columns.pattern = None
        if not _claims_layers(file.options.layout, tally.has_layers):
            columns.layer[:] = -1
        rows = arrange(
            columns, threads, marks, chunked, origin=origin, may_consume=True
        )
        del marks
        of_record = np.empty(n + spare_rows(n), pattern.dtype)
        chunked.gather(pattern, rows.order, of_record)
        del pattern
        joins, of_row = None, of_record
        if file.options.layout.source is None:
            starts = op_starts(rows, columns.op, file.ops, chunked)
            of_ops, joins = joined_patterns(of_record[:n], starts, len(exemplars))
            rows = joined_rows(rows, starts)
            n = len(of_ops)
            of_row = np.empty(n + spare_rows(n), narrowest(of_ops))
            of_row[:n] = of_ops
        draft = make_draft(
            file,
            tally,
            threads,
            columns,
            rows,
            self._strings,
            chunked,
            ended_at=ended_at,
            may_consume=True,
        )
        draft = replace(draft, rows=replace(draft.rows, order=None))
        return draft, of_row[: n + len(draft.band_names)], exemplars, joins

    def _decoded(self, draft: Draft, exemplars: U64) -> Patterns:
        layout = self._file.options.layout
        if draft.is_full:
            # In the table at the same place, with and without early snapshots.
            self._strings.intern(FULL_TEXT)
        claims_layers = _claims_layers(layout, draft.tally.has_layers)
        decoder = PatternDecoder(
            layout, self._strings, self._file.ops, claims_layers=claims_layers
        )
        records = np.ascontiguousarray(exemplars).view(layout.dtype).reshape(-1)
        return decode_patterns(records, decoder, self._chunked)


def _claims_layers(layout: RecordLayout, has_layers: bool) -> bool:
    """Return whether layer numbers mean something.

    The first tracer never set the layer of its 64-byte records.
    """
    return has_layers or layout not in (LAYOUT_64P, LAYOUT_64A)


def _detected(source: Source, begin: int, end: int) -> RecordLayout:
    match = detect(source, begin, end)
    if match is None:
        raise CorruptError(
            "not a tensor-access trace: no record layout matches its content.",
            path=source.path,
            offset=begin,
            hint="Force one with the option layout="
            + ", layout=".join(LAYOUTS)
            + " if you know it.",
        )
    return match.layout


def _empty_trace(source: Source, layout: RecordLayout | None) -> Trace:
    """Return a trace without spans, for a file that is all zero.

    Raises TruncatedError where it is not even that: it was cut while it was read.
    """
    source.read(source.size - 1, 1)
    builder = TraceBuilder()
    note_nothing_flushed(builder, source.size)
    title = layout.title if layout else "tensor-access, layout unknown"
    version = layout.id if layout else ""
    return builder.snapshot(make_info(source, title, version))


def _buffer_trace(source: Source, ranges: Ranges, end: int) -> Trace:
    builder = TraceBuilder()
    n = add_buffer_events(builder, source, ranges)
    note_file_state(builder, source, BUFFER_128, end)
    note_file_change(builder, source, n)
    builder.records = TensorRecords(source.path, BUFFER_128)
    info = make_info(source, BUFFER_128.title, BUFFER_128.id)
    return builder.snapshot(replace(info, n_records=n, summary={"layout": "buffer128"}))
