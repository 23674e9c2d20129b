"""Reader of tensor-access traces: fixed-size records without a header.

Written by the tensor tracers for llama.cpp (``tensor_trace.bin``). The file is read
once, from end to end. Of a file that takes its time, the spans so far are published
now and then; then all spans, and at last their names and accesses.
"""

from dataclasses import replace

import numpy as np

from ggscope.errors import CorruptError, LimitExceededError
from ggscope.model.builder import TraceBuilder
from ggscope.model.strings import StringTable
from ggscope.model.tables import Array
from ggscope.model.trace import Trace
from ggscope.readers import tensor_notes as notes
from ggscope.readers import tensor_options
from ggscope.readers.api import (
    NAMES_OPTION,
    NOT_MINE,
    RANGE_OPTION,
    Estimate,
    Head,
    ReadContext,
    ReaderInfo,
    Sniff,
)
from ggscope.readers.records import BUFFER_128, LAYOUT_64A, LAYOUT_64P, LAYOUTS, Layout
from ggscope.readers.source import Source
from ggscope.readers.tensor_buffers import add_buffer_events
from ggscope.readers.tensor_build import (
    assemble,
    assemble_nameless,
    make_info,
    make_job,
)
from ggscope.readers.tensor_detect import STRONG, detect, detect_head
from ggscope.readers.tensor_job import File, Job
from ggscope.readers.tensor_joined import (
    Joins,
    joined,
    joined_patterns,
    joined_rows,
    op_starts,
)
from ggscope.readers.tensor_names import PatternDecoder
from ggscope.readers.tensor_ops import find_ops
from ggscope.readers.tensor_order import Work, narrowest
from ggscope.readers.tensor_passes import arrange, room_for
from ggscope.readers.tensor_patterns import HashCollisionError
from ggscope.readers.tensor_ranges import (
    Ranges,
    Words,
    cut_ranges,
    data_bounds,
    n_file_records,
    record_ranges,
)
from ggscope.readers.tensor_records import TensorRecords
from ggscope.readers.tensor_scan import Scan
from ggscope.readers.tensor_sources import Patterns, decode_patterns
from ggscope.readers.tensor_stages import Stages

_MAX_SEEDS = 8


class TensorAccessReader:
    """Reads tensor-access records of 64, 128, 256 and 1024 bytes."""

    info = ReaderInfo(
        id="tensor-access",
        title="Tensor-access records",
        suffixes=(".bin",),
        doc="Fixed-size records of every op and its sources, as the tensor tracers "
        "for llama.cpp write them; no header.",
        options=tensor_options.OPTIONS,
    )

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by laying every record layout over its head."""
        if not any(head.data):
            if head.suffix in self.info.suffixes:
                return Sniff(5, "all zero so far: a preallocated trace, perhaps")
            return NOT_MINE
        match = detect_head(head.data, head.size)
        if match is None:
            return Sniff(0, "no record layout fits the first 64 KiB")
        confidence = 40 if match.score >= STRONG else 25
        return Sniff(confidence, f"the fields of {match.layout.title} records fit")

    def estimate(self, head: Head) -> Estimate | None:
        """Return the cost of reading a file with this head; None if unknown."""
        return tensor_options.estimate(head)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace, after early snapshots of a large file if wanted.

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
                "there is too little memory to read this trace.",
                path=source.path,
                hint=f"Read a part of it with the option {RANGE_OPTION}=FIRST:STOP, "
                f"or leave names out with {NAMES_OPTION}=sampled or "
                f"{NAMES_OPTION}=none.",
            ) from error


def _read(source: Source, context: ReadContext) -> Trace:
    options = context.options
    wanted = tensor_options.wanted_layout(source, options)
    begin, end = data_bounds(source, context)
    if not end:
        return _empty_trace(source, wanted)
    layout = wanted or _detected(source, begin, end)
    n_file = n_file_records(source, layout.size, end)
    choice = tensor_options.choose(source, layout, n_file, options)
    ranges = record_ranges(source, layout.size, begin, end)
    ranges = cut_ranges(ranges, choice.first, choice.stop)
    if layout is BUFFER_128:
        return _buffer_trace(source, ranges, end)
    ops = find_ops(source, layout, ranges, options.get(tensor_options.OPS_OPTION))
    file = File(source=source, options=options, choice=choice, end=end, ops=ops)
    for seed in range(_MAX_SEEDS):
        try:
            return _Reading(file, ranges, context, seed).run()
        except HashCollisionError:
            continue
    raise AssertionError("hashes of every seed collide")


class _Reading:
    """One attempt to read a file's records: scan, arrange, decode.

    Parameters
    ----------
    seed : for the hashes of the numpy path.
    """

    def __init__(
        self, file: File, ranges: Ranges, context: ReadContext, seed: int
    ) -> None:
        self._file = file
        self._ranges = ranges
        self._context = context
        self._seed = seed
        self._work = Work(context.check_cancelled)
        self._generation = 0
        self._strings = StringTable()
        size = file.choice.wants.layout.size
        self._bytes = sum(stop - first for first, stop in ranges) * size

    def run(self) -> Trace:
        """Return the whole trace."""
        file, context = self._file, self._context
        stages = Stages(file, self._ranges, self._work, self._publish)
        with Scan(
            file.source,
            file.choice.wants,
            self._ranges,
            context.limits,
            self._work,
            seed=self._seed,
        ) as scan:
            self._scan(scan, stages)
            job, of_row, exemplars, joins = self._arranged(scan)
        context.progress(self._bytes, self._bytes)
        if context.wants_stages and stages.pace.is_slow:
            self._publish(assemble_nameless(job, self._strings, self._work))
        patterns = self._decoded(job, exemplars)
        if joins is not None:
            patterns = joined(patterns, joins)
        trace = assemble(job, self._strings, patterns, of_row, exemplars, self._work)
        context.check_cancelled()
        return replace(trace, generation=self._generation + 1)

    def _publish(self, trace: Trace) -> None:
        self._generation += 1
        self._context.publish(replace(trace, generation=self._generation))

    def _scan(self, scan: Scan, stages: Stages) -> None:
        size = self._file.choice.wants.layout.size
        while not scan.is_done:
            scan.step()
            self._context.progress(scan.n_done * size, self._bytes)
            if self._context.wants_stages:
                stages.offer(scan)
        scan.tally.note_holes(self._ranges, self._file.choice.first, scan.ended_at)

    def _arranged(self, scan: Scan) -> tuple[Job, Array, Words, Joins | None]:
        """Return all spans but for names, their patterns, and what these stand for.

        The patterns are those of ops, joined from those of records where a record
        describes one source.
        """
        file, work, tally = self._file, self._work, scan.tally
        n = scan.n_rows
        time = scan.columns().time
        earliest = int(np.argmin(time)) if n else 0
        origin = int(time[earliest]) if n else 0
        del time
        marks = scan.pass_marks(earliest)
        ids, exemplars = scan.patterns()
        tables = [np.append(numbers, np.int32(-1)) for numbers in ids]
        pattern = np.full(n, -1, np.int8)
        if file.choice.wants.sample_every:
            pattern = scan.spread(tables, narrowest(np.array([len(exemplars)])))
        threads, ended_at = scan.threads, scan.ended_at
        columns = scan.take_columns()
        columns.pattern = None
        if not _claims_layers(file.choice.wants.layout, tally.has_layers):
            columns.layer[:] = -1
        rows = arrange(columns, threads, marks, work, origin=origin, may_consume=True)
        del marks
        of_record = np.empty(n + room_for(n), pattern.dtype)
        work.gather(pattern, rows.order, of_record)
        del pattern
        joins, of_row = None, of_record
        if file.choice.wants.layout.source is None:
            starts = op_starts(rows, columns.op, file.ops, work)
            of_ops, joins = joined_patterns(of_record[:n], starts, len(exemplars))
            rows = joined_rows(rows, starts)
            of_row = np.empty(len(rows) + room_for(len(rows)), narrowest(of_ops))
            of_row[: len(rows)] = of_ops
        job = make_job(
            file, tally, threads, columns, rows, self._strings, work,
            ended_at=ended_at, may_consume=True,
        )  # fmt: skip
        job = replace(job, rows=replace(job.rows, order=None))
        return job, of_row[: len(rows) + len(job.band_names)], exemplars, joins

    def _decoded(self, job: Job, exemplars: Words) -> Patterns:
        layout = self._file.choice.wants.layout
        if notes.is_full(self._file, job.tally):
            # In the table at the same place, with and without early snapshots.
            self._strings.intern(notes.FULL_TEXT)
        claims_layers = _claims_layers(layout, job.tally.has_layers)
        decoder = PatternDecoder(
            layout, self._strings, self._file.ops, claims_layers=claims_layers
        )
        return decode_patterns(exemplars, layout, decoder, self._work)


def _claims_layers(layout: Layout, has_layers: bool) -> bool:
    """Tell whether layer numbers mean something.

    The first tracer never set the layer of its 64-byte records.
    """
    return has_layers or layout not in (LAYOUT_64P, LAYOUT_64A)


def _detected(source: Source, begin: int, end: int) -> Layout:
    match = detect(source, begin, end)
    if match is None:
        raise CorruptError(
            "this is not a tensor-access trace: no record layout fits its content.",
            path=source.path,
            offset=begin,
            hint="Force one with the option layout="
            + ", layout=".join(LAYOUTS)
            + " if you know it.",
        )
    return match.layout


def _empty_trace(source: Source, layout: Layout | None) -> Trace:
    """Return a trace without spans, for a file that is all zero."""
    builder = TraceBuilder()
    notes.nothing_flushed(builder, source.size)
    title = layout.title if layout else "tensor-access, layout unknown"
    version = layout.id if layout else ""
    return builder.snapshot(make_info(source, title, version))


def _buffer_trace(source: Source, ranges: Ranges, end: int) -> Trace:
    builder = TraceBuilder()
    n = add_buffer_events(builder, source, ranges)
    notes.file_state(builder, source, BUFFER_128, end)
    notes.file_change(builder, source, n)
    builder.records = TensorRecords(source.path, BUFFER_128)
    info = make_info(source, BUFFER_128.title, BUFFER_128.id)
    return builder.snapshot(replace(info, n_records=n, summary={"layout": "buffer128"}))
