"""Reader of tensor-access traces: fixed-size records without a header.

Written by the tensor tracers for llama.cpp (``tensor_trace.bin``). The file is often
preallocated to 2 GiB and mostly empty. It is read twice: for the header columns,
which are enough for a first picture, then for names and accesses.
"""

from dataclasses import replace

import numpy as np

from ggscope.errors import CorruptError, ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.strings import StringTable
from ggscope.model.trace import Trace
from ggscope.readers import tensor_notes as notes
from ggscope.readers.api import NOT_MINE, Head, ReadContext, ReaderInfo, Sniff
from ggscope.readers.records import BUFFER_128, LAYOUT_64A, LAYOUT_64P, LAYOUTS, Layout
from ggscope.readers.source import Source
from ggscope.readers.tensor_buffers import add_buffer_events
from ggscope.readers.tensor_build import (
    Job,
    assemble,
    header_columns,
    make_info,
    time_columns,
)
from ggscope.readers.tensor_detect import STRONG, detect, detect_head
from ggscope.readers.tensor_names import PatternDecoder
from ggscope.readers.tensor_ops import find_ops
from ggscope.readers.tensor_passes import arrange, pass_bands, phase_bands
from ggscope.readers.tensor_records import TensorRecords
from ggscope.readers.tensor_scan import (
    Columns,
    data_bounds,
    hash_name,
    name_words,
    record_ranges,
    scan,
)
from ggscope.readers.tensor_sources import read_patterns

FIRST_NAME = b"inp_embd"
"""The first op of llama.cpp's graphs; begins a pass."""


class TensorAccessReader:
    """Reads tensor-access records of 64, 128, 256 and 1024 bytes."""

    info = ReaderInfo(
        id="tensor-access",
        title="Tensor-access records",
        suffixes=(".bin",),
        doc="Fixed-size records of every op and its sources, as the tensor tracers "
        "for llama.cpp write them; no header.",
        options={
            "layout": "record layout: " + ", ".join(LAYOUTS),
            "ops": "id of the op table, e.g. ggml-2025-11-25-95",
        },
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

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace, after an early snapshot of times and ops if wanted.

        Raises
        ------
        CorruptError
            If no layout fits.
        ReadError
            If an option names an unknown layout or op table.
        LimitExceededError
            If there are more records than the context allows.
        """
        wanted = _wanted_layout(source, context)
        begin, end = data_bounds(source, context)
        if not end:
            return _empty_trace(source, wanted)
        layout = wanted or _detected(source, begin, end)
        ranges = record_ranges(source, layout.size, begin, end)
        if layout is BUFFER_128:
            return _buffer_trace(source, ranges, end)
        job = _begin(source, context, layout, ranges, end)
        strings = StringTable()
        generation = 0
        if context.wants_stages:
            early = assemble(job, strings, None)
            generation = early.generation
            context.publish(early)
        patterns = read_patterns(
            source,
            layout,
            ranges,
            job.record,
            lambda: PatternDecoder(
                layout, strings, job.ops, claims_layers=job.claims_layers
            ),
            lambda done: context.progress(source.size + done, 2 * source.size),
        )
        trace = assemble(job, strings, patterns)
        context.progress(2 * source.size, 2 * source.size)
        return replace(trace, generation=generation + 1)


def _wanted_layout(source: Source, context: ReadContext) -> Layout | None:
    name = context.options.get("layout", "")
    if name and name not in LAYOUTS:
        raise ReadError(
            f"there is no record layout {name!r}.",
            path=source.path,
            hint="Known layouts: " + ", ".join(LAYOUTS) + ".",
        )
    return LAYOUTS[name] if name else None


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


def _begin(
    source: Source,
    context: ReadContext,
    layout: Layout,
    ranges: list[tuple[int, int]],
    end: int,
) -> Job:
    """Read the header columns and arrange them."""
    ops = find_ops(source, layout, ranges, context.options.get("ops"))
    columns, tally = scan(
        source, layout, ranges, context, lambda n: context.progress(n, 2 * source.size)
    )
    # The first tracer never set the layer of its 64-byte records.
    claims_layers = tally.has_layers or layout not in (LAYOUT_64P, LAYOUT_64A)
    if not claims_layers:
        columns.layer[:] = -1
    rows = arrange(columns, tally.threads, _key_hash(layout, columns, source))
    columns.drop_arranged()
    context.check_cancelled()
    phase = rows.take(columns.phase)
    passes = pass_bands(rows, rows.take(columns.token), phase)
    phases = phase_bands(rows, phase, passes)
    spans = time_columns(rows, passes, phases)
    # One copy of the times is enough.
    n = len(rows)
    rows = replace(
        rows, start=spans["start"][:n], end=spans["end"][:n], flags=spans["flags"][:n]
    )
    return Job(
        source=source,
        options=context.options,
        layout=layout,
        end=end,
        ops=ops,
        tally=tally,
        record=columns.record,
        rows=rows,
        passes=passes,
        phases=phases,
        spans=spans | header_columns(rows, columns, passes, phases),
        claims_layers=claims_layers,
    )


def _key_hash(layout: Layout, columns: Columns, source: Source) -> int | None:
    """Return the hash of the name that begins a pass; None where no name can.

    It is the name of the first record in time. A trace that begins in the middle of
    a pass begins with some other name, which may occur several times per pass; then
    the graph's first op serves, where it occurs.
    """
    where = name_words(layout)
    if where is None or columns.name_hash is None or not len(columns):
        return None
    first = int(np.argmin(columns.time))
    width = layout.dst_width
    at = int(columns.record[first]) * layout.size + where.start * 8
    name = source.read(at, width)
    if name.startswith(b"\0"):
        return None
    padded = np.frombuffer(FIRST_NAME.ljust(width, b"\0"), np.uint64)
    usual = int(hash_name(padded[None])[0])
    own = int(columns.name_hash[first])
    if own != usual and bool((columns.name_hash == np.uint32(usual)).any()):
        return usual
    return own


def _empty_trace(source: Source, layout: Layout | None) -> Trace:
    """Return a trace without spans, for a file that is all zero."""
    builder = TraceBuilder()
    notes.nothing_flushed(builder, source.size)
    title = layout.title if layout else "tensor-access, layout unknown"
    version = layout.id if layout else ""
    return builder.snapshot(make_info(source, title, version))


def _buffer_trace(source: Source, ranges: list[tuple[int, int]], end: int) -> Trace:
    builder = TraceBuilder()
    n = add_buffer_events(builder, source, ranges)
    notes.file_state(builder, source, BUFFER_128, end)
    builder.records = TensorRecords(source.path, BUFFER_128)
    info = make_info(source, BUFFER_128.title, BUFFER_128.id)
    return builder.snapshot(replace(info, n_records=n, summary={"layout": "buffer128"}))
