"""Put the parts of a tensor trace together: part of it, without names, or complete.

And say what is wrong with it, as warnings for people.
"""

from collections import Counter
from dataclasses import replace

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.ops import (
    ERAS_HINT,
    TRACER_PRIVATE,
    UNCERTAIN_MARGIN,
    OpSample,
    find_table,
    infer,
)
from ggscope.model.tables import (
    I64,
    NO_WAIT,
    U64,
    AccessColumns,
    Accesses,
    Array,
    FlatAccesses,
    Phase,
    Space,
    SpanFlag,
    StringTable,
    narrow,
)
from ggscope.model.trace import (
    LaneKind,
    OpTable,
    RecordAccess,
    Severity,
    Trace,
    TraceInfo,
)
from ggscope.model.units import Clock, TimeRange
from ggscope.readers.chunked import ChunkedOps, narrowest
from ggscope.readers.source import Change, Source
from ggscope.readers.tensor.columns import (
    Headers,
    Ranges,
    Tally,
    TensorFile,
    TensorOptions,
)
from ggscope.readers.tensor.layouts import (
    FIRST_EXTENSION_OP,
    LAYOUT_256,
    RecordLayout,
    TensorRecords,
    declared_ops,
)
from ggscope.readers.tensor.names import Patterns
from ggscope.readers.tensor.passes import (
    Bands,
    Draft,
    Records,
    pass_bands,
    phase_bands,
    spare_rows,
)
from ggscope.readers.tensor.repeats import repeated_rows
from ggscope.readers.tensor.routing.extensions import add_extensions
from ggscope.readers.tensor.routing.lists import add_choices, lists_in_file
from ggscope.readers.tensor.routing.single import HAS_SINGLE, add_single

TOKENS, PHASES, FIRST_THREAD = 0, 1, 2
"""Lane ids; the threads follow in the order of their first ops."""

ALL_PENDING = frozenset(("spans", "names", "accesses"))
NAMES_PENDING = frozenset(("names", "accesses"))

_PHASE_NAMES = ("prompt", "generate", "unknown")
_NEAR, _FAR = 2048, 1024


def make_draft(
    file: TensorFile,
    tally: Tally,
    threads: list[int],
    columns: Headers,
    rows: Records,
    strings: StringTable,
    chunked: ChunkedOps,
    *,
    ended_at: int = -1,
    may_consume: bool = False,
) -> Draft:
    """Return the columns of all spans: first the records, then passes, then phases.

    Parameters
    ----------
    columns : as read; given up one by one where `may_consume`, but for ``pattern``.
    strings : takes the names of passes and phases.
    """
    n, order = len(rows.start), rows.order
    phase = np.empty(n + spare_rows(n), np.uint8)
    chunked.gather(columns.phase, order, phase)
    passes = pass_bands(rows, columns.token, columns.phase)
    phases = phase_bands(rows, phase[:n], passes, chunked)
    spans = _time_columns(rows, passes, phases)
    n_bands = len(passes.start) + len(phases.start)
    for chunk in chunked.slices(n):
        phase[chunk] = _phase_codes(phase[chunk])
    codes = [_phase_codes(band.phase) for band in (passes, phases)]
    spans["phase"] = extended(phase, n, *codes).view(np.int8)
    none = np.full(n_bands, -1, np.int8)

    def column(name: str, *tails: Array) -> Array:
        values = chunked.take_narrow(getattr(columns, name), order, n_bands)
        if may_consume:
            setattr(columns, name, getattr(columns, name)[:0].copy())
        return extended(values, n, *tails)

    spans["op"] = column("op", none)
    spans["token"] = column("token", passes.token, none[len(passes.start) :])
    spans["layer"] = column("layer", none)
    if columns.wait is not None:
        spans["wait"] = _wait_column(rows, columns, chunked, n_bands)
        if may_consume:
            columns.wait = None
    spans["lane"] = _lane_column(rows, passes, phases)
    spans["record"] = _record_column(rows, columns, chunked, none)
    return Draft(
        file=file,
        tally=tally,
        threads=threads,
        rows=rows,
        passes=passes,
        phases=phases,
        spans=spans,
        is_full=is_full(file, tally),
        band_names=_band_names(strings, passes, phases),
        ended_at=ended_at,
    )


def make_info(source: Source, title: str, version: str) -> TraceInfo:
    """Return the info of a trace without records."""
    return TraceInfo(
        paths=(source.path,),
        reader_id="tensor-access",
        format=title,
        format_version=version,
        byte_size=source.size,
        modified_ns=source.modified_ns,
    )


def assemble_part(
    draft: Draft, strings: StringTable, read_until: int, extent: TimeRange
) -> Trace:
    """Return the trace of the spans so far."""
    builder = _builder(draft, strings)
    _add_nameless(builder, draft)
    return builder.snapshot(
        _info(draft), ALL_PENDING, read_until=read_until, extent=extent
    )


def assemble_nameless(draft: Draft, strings: StringTable, chunked: ChunkedOps) -> Trace:
    """Return the trace of all spans, whose names and accesses are still to come."""
    builder = _builder(draft, strings)
    _add_nameless(builder, draft)
    add_problems(builder, draft, op_counts(draft, chunked))
    return builder.snapshot(_info(draft), NAMES_PENDING)


def op_counts(draft: Draft, chunked: ChunkedOps) -> I64:
    """Return how many records of each op there are, int64[256]."""
    return chunked.counts(draft.spans["op"][: len(draft.rows.start)], 256)


def assemble(
    draft: Draft,
    strings: StringTable,
    patterns: Patterns,
    of_row: Array,
    exemplars: U64,
    chunked: ChunkedOps,
) -> Trace:
    """Return the whole trace.

    Parameters
    ----------
    of_row : pattern of each span, -1 none; with room for passes and phases.
    exemplars : the first record of each pattern.
    """
    builder = _builder(draft, strings)
    n_of_op = op_counts(draft, chunked)
    add_problems(builder, draft, n_of_op)
    add_spans(builder, draft, patterns, of_row, chunked)
    rows, source = of_row[: len(draft.rows.start)], draft.file.source
    layout = draft.file.options.layout
    if layout in HAS_SINGLE:
        add_single(builder, draft, exemplars, chunked)
    elif draft.tally.n_extension and layout is LAYOUT_256:
        add_extensions(builder, draft, chunked)
    else:
        has_lists = draft.tally.n_expert > 0
        read = (
            lists_in_file(source, draft.spans["record"], chunked) if has_lists else None
        )
        add_choices(builder, draft, patterns, rows, read, n_of_op, chunked)
    return builder.snapshot(_info(draft))


def add_spans(
    builder: TraceBuilder,
    draft: Draft,
    patterns: Patterns,
    of_row: Array,
    chunked: ChunkedOps,
) -> None:
    """Add all spans with their names and accesses, the tensors and the buffers.

    Parameters
    ----------
    of_row : as in `assemble`.
    """
    n = len(draft.rows.start)
    none = np.full(len(draft.band_names), -1, np.int8)
    of_span = extended(of_row, n, none)
    of_row = of_span[:n]
    spans = draft.spans | {
        "layer": _layers(draft, patterns, of_row, chunked),
        "tensor": extended(_looked_up(patterns.tensor, of_row, none, chunked), n, none),
    }
    n_cut = 0
    if patterns.is_cut.any():
        spans["flags"], n_cut = _flags_of_cut_names(draft, patterns, of_row, chunked)
    repeated, n_apart = repeated_rows(draft.rows, of_row, chunked)
    note_count(builder, "threads_not_compared", n_apart)
    if repeated:
        flags = spans["flags"] if patterns.is_cut.any() else spans["flags"].copy()
        for rows in repeated:
            flags[rows] |= np.uint8(SpanFlag.REPEATED)
        spans["flags"] = flags
        note_count(builder, "shared_ops", sum(map(len, repeated)))
    dtype = np.promote_types(patterns.name.dtype, narrowest(draft.band_names))
    name = _looked_up(patterns.name.astype(dtype), of_row, none, chunked)
    note_count(builder, "truncated_names", n_cut)
    note_count(builder, "places_not_set", _n_without_place(patterns))
    note_duplicates(builder, draft.rows, of_row, draft.spans["token"][:n], chunked)
    builder.add_spans(name=extended(name, n, draft.band_names), **spans)
    builder.accesses = Accesses(
        of_span, patterns.first, patterns.columns, FlatAccesses.blank()
    )
    builder.tensors, builder.buffers = patterns.tensors, patterns.buffers
    builder.claims = patterns.claims


def _n_without_place(patterns: Patterns) -> int:
    """Return how many tensors of the model file have no place: it was left at 0."""
    what = patterns.columns
    is_none = (what.space == Space.FILE) & (what.offset < 0)
    return len(np.unique(what.tensor[is_none & patterns.claims.source_is_zero]))


def _time_columns(rows: Records, passes: Bands, phases: Bands) -> dict[str, Array]:
    """Return the columns start, end and flags of all spans."""
    n = len(rows.start)
    n_bands = len(passes.start) + len(phases.start)
    derived = np.full(n_bands, SpanFlag.INFERRED_END, np.uint8)
    return {
        "start": extended(with_spare_rows(rows.start), n, passes.start, phases.start),
        "end": extended(with_spare_rows(rows.end), n, passes.end, phases.end),
        "flags": extended(with_spare_rows(rows.flags), n, derived),
    }


def extended(column: Array, n: int, *tails: Array) -> Array:
    """Return the first `n` rows of `column` followed by `tails`, without a copy.

    `column` must have room for them behind row `n`; else it is copied after all.
    """
    total = n + sum(map(len, tails))
    if len(column) < total:
        column = np.concatenate([column[:n], np.empty(total - n, column.dtype)])
    at = n
    for tail in tails:
        column[at : at + len(tail)] = tail
        at += len(tail)
    return column[:total]


def with_spare_rows(view: Array) -> Array:
    """Return the whole memory of a view that begins where the memory does."""
    base = view.base
    return base if isinstance(base, np.ndarray) else view


def _lane_column(rows: Records, passes: Bands, phases: Bands) -> Array:
    n_lanes = len(rows.lane_first) - 1
    n, n_passes = len(rows.start), len(passes.start)
    dtype = narrow(np.array([FIRST_THREAD + n_lanes])).dtype
    lane = np.empty(n + n_passes + len(phases.start), dtype)
    for number in range(n_lanes):
        lane[rows.lane_first[number] : rows.lane_first[number + 1]] = (
            FIRST_THREAD + number
        )
    lane[n : n + n_passes] = TOKENS
    lane[n + n_passes :] = PHASES
    return lane


def _wait_column(rows: Records, columns: Headers, chunked: ChunkedOps, n: int) -> Array:
    """Return the wait of each span; the `n` bands behind the records have none."""
    assert columns.wait is not None
    wait = np.empty(len(rows.start) + n, np.uint32)
    chunked.gather(columns.wait, rows.order, wait)
    return extended(wait, len(rows.start), np.full(n, NO_WAIT, np.uint32))


def _record_column(
    rows: Records, columns: Headers, chunked: ChunkedOps, none: Array
) -> Array:
    """Return the record of each span; the memory of the order serves for it."""
    n = len(rows.start)
    record = np.empty(n + len(none), columns.record_dtype)
    if columns.record is not None:
        chunked.gather(columns.record, rows.order, record)
    for chunk in chunked.slices(n) if columns.record is None else ():
        position = np.arange(chunk.start, chunk.stop)
        record[chunk] = columns.first_record + (
            position if rows.order is None else rows.order[chunk]
        )
    return extended(record, n, none)


def _band_names(strings: StringTable, passes: Bands, phases: Bands) -> Array:
    """Return the string ids of passes and phases.

    A pass is named after its token, unless the file gives several passes the same.
    """
    tokens = passes.token.tolist()
    if len(set(tokens)) == len(tokens) and -1 not in tokens:
        of_passes = strings.intern_many([f"#{token}" for token in tokens])
    else:
        of_passes = strings.intern_many([f"pass {k + 1}" for k in range(len(tokens))])
    names = strings.intern_many(_PHASE_NAMES)
    return np.concatenate([of_passes, names[np.minimum(phases.phase, len(names) - 1)]])


def _phase_codes(raw: Array) -> Array:
    """Return phases with 0xFF, the int8 -1, for what is none."""
    return np.where(raw <= Phase.GENERATE, raw, 0xFF).astype(np.uint8)


def make_builder(
    draft: Draft, strings: StringTable, records: RecordAccess
) -> TraceBuilder:
    """Return a builder with the lanes of all spans and none of these."""
    builder = TraceBuilder()
    builder.strings = strings
    builder.clock = Clock.of_stamps(draft.rows.origin)
    builder.ops = draft.file.ops
    builder.records = records
    builder.add_lane("tokens", LaneKind.TOKEN, ("Tokens",))
    builder.add_lane("phase", LaneKind.PHASE, ("Tokens",))
    for number, raw in enumerate(draft.threads):
        builder.add_lane(
            f"thread {number}", LaneKind.THREAD, ("Threads",), (number,), raw=str(raw)
        )
    return builder


def _builder(draft: Draft, strings: StringTable) -> TraceBuilder:
    file = draft.file
    layout = file.options.layout
    records = TensorRecords(file.source.path, layout, file.ops)
    return make_builder(draft, strings, records)


def _info(draft: Draft) -> TraceInfo:
    tally, options = draft.tally, draft.file.options
    layout = options.layout
    left_out: dict[str, object] = {}
    if options.n_left_out:
        left_out["records_left_out"] = options.n_left_out
    if options.names != "all":
        left_out["names"] = options.names
    return replace(
        make_info(
            draft.file.source,
            layout.title,
            layout.id + (" v4" if tally.n_expert else ""),
        ),
        n_records=tally.n_records,
        n_passes=draft.rows.n_passes,
        options=dict(draft.file.given),
        summary={
            "layout": layout.id,
            "extension_records": tally.n_extension,
            "empty_records": tally.n_empty,
            "expert_records": tally.n_expert,
            **left_out,
        },
    )


def _add_nameless(builder: TraceBuilder, draft: Draft) -> None:
    n, n_all = len(draft.rows.start), len(draft.spans["start"])
    name = np.full(n_all, -1, narrowest(draft.band_names))
    name[n:] = draft.band_names
    builder.add_spans(name=name, **draft.spans)
    builder.accesses = Accesses(
        np.full(n_all, -1, np.int8),
        np.zeros(1, np.int64),
        AccessColumns.blank(),
        FlatAccesses.blank(),
    )


def _looked_up(
    table: Array, of_row: Array, capacity: Array, chunked: ChunkedOps
) -> Array:
    """Return ``table[of_row]`` with room for as many more rows as `capacity` has."""
    values = np.empty(len(of_row) + len(capacity), table.dtype)
    for chunk in chunked.slices(len(of_row)):
        values[chunk] = table[of_row[chunk]]
    return values


def _layers(
    draft: Draft, patterns: Patterns, of_row: Array, chunked: ChunkedOps
) -> Array:
    """Return the layer of every span; without a pattern it is what the record says."""
    claimed, n = draft.spans["layer"], len(of_row)
    if draft.file.options.sample_every == 1:
        none = np.full(len(claimed) - n, -1, np.int8)
        return extended(_looked_up(patterns.layer, of_row, none, chunked), n, none)
    dtype = np.promote_types(claimed.dtype, patterns.layer.dtype)
    layer = claimed.astype(dtype)
    for chunk in chunked.slices(n):
        known = of_row[chunk] >= 0
        layer[chunk][known] = patterns.layer[of_row[chunk][known]]
    return layer


def _flags_of_cut_names(
    draft: Draft, patterns: Patterns, of_row: Array, chunked: ChunkedOps
) -> tuple[Array, int]:
    """Return the flags with names marked that may go on, and how many these are."""
    flags, count = draft.spans["flags"].copy(), 0
    for chunk in chunked.slices(len(of_row)):
        is_cut = patterns.is_cut[of_row[chunk]]
        flags[chunk][is_cut] |= np.uint8(SpanFlag.TRUNCATED_NAME)
        count += int(np.count_nonzero(is_cut))
    return flags, count


def find_ops(
    source: Source, layout: RecordLayout, ranges: Ranges, choice: str | None
) -> OpTable:
    """Return the op table: `choice` by its id or date, else declared or inferred.

    Raises
    ------
    ReadError
        If there is no table `choice`.
    """
    if choice:
        try:
            return replace(find_table(choice), source="override")
        except KeyError:
            raise ReadError(
                f"unknown op table {choice!r}.", path=source.path, hint=ERAS_HINT
            ) from None
    if not layout.has_ggml_ops:
        return TRACER_PRIVATE
    declared = declared_ops(source.array(0, layout.size).tobytes(), layout)
    if declared is not None:
        return declared
    return infer(_samples(_sample(source, layout, ranges)))


def _sample(source: Source, layout: RecordLayout, ranges: Ranges) -> Array:
    """Return up to 3072 records: the first ones, and others evenly spread.

    The first ones hold a whole pass, so every op occurs; the spread ones make sure
    of what comes later.
    """
    size = layout.size
    parts = [np.zeros(0, np.uint8)]
    far = [np.zeros(0, np.int64)]
    total = sum(stop - first for first, stop in ranges)
    left, before = _NEAR, 0
    spread = np.linspace(0, total - 1, min(_FAR, total)).astype(np.int64)
    for first, stop in ranges:
        near = min(left, stop - first)
        parts.append(source.array(first * size, near * size))
        left -= near
        here = spread[(spread >= before + near) & (spread < before + stop - first)]
        far.append(first + here - before)
        before += stop - first
    whole = [part for part in parts if len(part) % size == 0]
    whole.append(source.records(np.concatenate(far), size).reshape(-1))
    return np.concatenate(whole).view(layout.dtype)


def _samples(records: Array) -> list[OpSample]:
    op = records["operation_type"]
    is_empty = (op == 0) & (records["timestamp_ns"] == 0)
    records = records[(op < FIRST_EXTENSION_OP) & ~is_empty]
    count = np.minimum(records["num_sources"], 4).tolist()
    rows = zip(
        records["operation_type"].tolist(),
        records["dst_name"].tolist(),
        count,
        records["sources"]["name"].tolist(),
        strict=True,
    )
    samples = Counter((op, dst, n, tuple(names[:n])) for op, dst, n, names in rows)
    return [
        OpSample(op, _text(dst), tuple(map(_text, names)), n, times)
        for (op, dst, n, names), times in samples.items()
    ]


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


BUFFER_BYTES = 1 << 31
"""Size to which the tracer preallocates its file."""

FULL_TEXT = "trace ends early: buffer full"

_BATCH, _BATCH_OF_ACCESSES = 512, 1024
_CHANGES = {
    Change.GROWN: (
        "the file was modified during reading; later records are missing",
        "Reload the file when it is complete.",
    ),
    Change.REWRITTEN: (
        "the file was modified during reading",
        "Reload the file when it is complete.",
    ),
    Change.SHRUNK: (
        "the file was truncated during reading",
        "Reload the file when it is complete.",
    ),
    Change.REPLACED: (
        "the file was replaced during reading; single records cannot be inspected",
        "Reload to see the new file.",
    ),
    Change.GONE: (
        "the file was deleted or renamed during reading; single records "
        "cannot be inspected",
        "",
    ),
}

_COUNTED = {
    "extension_records": (
        Severity.INFO,
        "expert-routing records are used for the Experts view only.",
    ),
    "per_thread_blocks": (
        Severity.INFO,
        "records are in blocks per thread, not in time order; sorted by time.",
    ),
    "out_of_order": (
        Severity.NOTICE,
        "records of a thread were out of order; sorted by time.",
    ),
    "truncated_names": (
        Severity.INFO,
        "names fill their field and may be truncated; shown as they are.",
    ),
    "places_not_set": (
        Severity.NOTICE,
        "the tracer did not record file offsets (all are 0). Tensors are "
        "matched by name, where names are not truncated.",
    ),
    "shared_ops": (
        Severity.INFO,
        "ops were computed by several threads; their reads are counted once. "
        "Each thread's share is not recorded.",
    ),
    "threads_not_compared": (
        Severity.NOTICE,
        "too many threads to compare: an op that several of these compute "
        "together counts once for each.",
    ),
    "duplicate_records": (
        Severity.INFO,
        "duplicates of the record before them; all are shown.",
    ),
}
"""Problems that are counted: severity and text by code."""


def add_problems(builder: TraceBuilder, draft: Draft, n_of_op: I64) -> None:
    """Add everything about the file that needs no names.

    Parameters
    ----------
    n_of_op : int64[256], records of each op.
    """
    file, rows, tally = draft.file, draft.rows, draft.tally
    layout, source = file.options.layout, file.source
    note_file_state(builder, source, layout, file.end)
    note_file_change(builder, source, tally.n_records)
    if draft.ended_at >= 0:
        note_early_end(builder, source, layout, draft.ended_at, tally.n_records)
    note_left_out(builder, file.options)
    note_record_losses(builder, layout, tally)
    note_order_repairs(builder, rows)
    note_time_gaps(builder, rows)
    note_op_doubts(builder, file.ops, n_of_op)
    if not file.options.has_end or draft.ended_at >= 0:
        return
    note_clean_end(builder, layout, tally, file.end, source.size)
    if draft.is_full:
        note_buffer_full(builder, rows)


def note_nothing_flushed(builder: TraceBuilder, size: int) -> None:
    """Note a file of zeros."""
    builder.warn(
        Severity.NOTICE,
        "nothing_flushed",
        f"the file has only zeros ({size:,} bytes): the trace was started, but "
        "nothing was written.",
        0,
        remedy="Let the traced program exit normally, so that it flushes its records.",
    )


def note_file_state(
    builder: TraceBuilder, source: Source, layout: RecordLayout, end: int
) -> None:
    """Note a record that the end of the file cuts."""
    whole = source.size // layout.size
    if end > whole * layout.size:
        builder.warn(
            Severity.DATA_LOSS,
            "truncated_record",
            f"the file ends inside record {whole:,}: "
            f"{source.size % layout.size} of its {layout.size} bytes are there.",
            whole * layout.size,
            place=f"record {whole}",
            remedy="The file is an incomplete copy, or was still being written.",
        )


def note_file_change(builder: TraceBuilder, source: Source, n_records: int) -> None:
    """Note what happened to the file while it was read."""
    change = source.change()
    if change is Change.NONE:
        return
    shown = f"the {n_records:,} records before it are shown"
    text, remedy = _CHANGES[change]
    builder.warn(Severity.NOTICE, "file_changed", f"{text}; {shown}.", remedy=remedy)


def note_early_end(
    builder: TraceBuilder,
    source: Source,
    layout: RecordLayout,
    record: int,
    n_kept: int,
) -> None:
    """Note that the file ended before its size when it was opened."""
    builder.warn(
        Severity.DATA_LOSS,
        "file_shrank",
        f"the file was truncated to {record:,} records during reading; it had "
        f"{source.size // layout.size:,} when opened. The {n_kept:,} records "
        "before that were loaded.",
        record * layout.size,
        place=f"record {record}",
        remedy="Reload the file when it is complete.",
    )


def note_left_out(builder: TraceBuilder, options: TensorOptions) -> None:
    """Note what the options ``range`` and ``names`` left out."""
    builder.warn(
        Severity.INFO,
        "range",
        f"records left out by the range: {options.n_left_out:,} of "
        f"{options.n_file:,}; read are {options.first:,} to {options.stop - 1:,}.",
        count=options.n_left_out,
    )
    every = options.sample_every
    if every != 1:
        text = "names and accesses were not read, as requested."
        if every:
            text = f"names sampled: 1 of {every} blocks of records; accesses likewise."
        builder.warn(Severity.INFO, "names_left_out", text)


def note_record_losses(
    builder: TraceBuilder, layout: RecordLayout, tally: Tally
) -> None:
    """Note empty, damaged and extension records."""
    c = tally
    builder.warn(
        Severity.DATA_LOSS,
        "hole",
        f"{c.n_empty:,} empty records between others: a batch was lost.",
        c.first_empty * layout.size,
        c.n_empty,
        place=f"record {c.first_empty}",
        remedy="Several threads flushed at once; record again if you need them.",
    )
    builder.warn(
        Severity.DATA_LOSS,
        "bad_timestamp",
        "skipped records with an invalid timestamp.",
        c.first_bad_time * layout.size,
        c.n_bad_time,
        place=f"record {c.first_bad_time}",
        remedy="If there are many, the record layout may be wrong.",
    )
    note_count(builder, "extension_records", c.n_extension)


def note_clean_end(
    builder: TraceBuilder, layout: RecordLayout, tally: Tally, end: int, size: int
) -> None:
    """Note an end that looks as if a last batch never came."""
    batch = _BATCH if layout.has_ggml_ops else _BATCH_OF_ACCESSES
    has_tail = size - end >= batch * layout.size // 2
    if tally.n_records and has_tail and -(-end // layout.size) % batch == 0:
        builder.warn(
            Severity.NOTICE,
            "unclean_end",
            f"the records end with a whole batch of {batch:,}, as if the program had "
            f"been killed; up to {batch - 1:,} later ones per thread may be missing.",
            end,
        )


def note_order_repairs(builder: TraceBuilder, rows: Records) -> None:
    """Note records that were put into order."""
    note_count(builder, "per_thread_blocks", rows.n_backwards)
    note_count(builder, "out_of_order", rows.n_moved)


def note_count(builder: TraceBuilder, code: str, count: int) -> None:
    """Note a problem of `_COUNTED` with how often it occurs; nothing for 0."""
    if count:
        severity, text = _COUNTED[code]
        builder.warn(severity, code, text, count=count)


def note_time_gaps(builder: TraceBuilder, rows: Records) -> None:
    """Note pauses within a pass, which are no time of the op before them."""
    if rows.n_pauses:
        builder.warn(
            Severity.NOTICE,
            "time_gap",
            f"pauses of more than {rows.pause / 1e6:,.0f} ms within a pass are "
            "not counted as op time; the duration of the ops before them is "
            "unknown.",
            count=rows.n_pauses,
        )


def note_op_doubts(builder: TraceBuilder, ops: OpTable, counts: I64) -> None:
    """Note an op table that is hardly better than another, and unknown ops.

    Parameters
    ----------
    counts : int64[256], records of each op number.
    """
    if ops.margin is not None and ops.margin < UNCERTAIN_MARGIN and counts.any():
        builder.warn(
            Severity.NOTICE,
            "op_table_uncertain",
            f"ambiguous op table {ops.id} (margin {ops.margin}); op names may "
            "be wrong.",
            remedy="Select the table with the option ops=<id> if you know it.",
        )
    known = np.zeros(256, np.bool_)
    known[: len(ops.names)] = [bool(name) for name in ops.names]
    unknown = np.flatnonzero((counts > 0) & ~known)
    if len(unknown):
        listed = ", ".join(ops.name(code) for code in unknown[:8].tolist())
        builder.warn(
            Severity.NOTICE,
            "unknown_op",
            f"op numbers missing from table {ops.id}: {listed}.",
            count=int(counts[unknown].sum()),
            remedy="Select the table of a newer ggml with the option ops=<id>. If "
            "only few records have such numbers, they are damaged.",
        )


def is_full(file: TensorFile, tally: Tally) -> bool:
    """Return whether the recording stopped because its buffer was full."""
    size, layout = file.source.size, file.options.layout
    is_whole = size == BUFFER_BYTES and file.end > size - layout.size
    return is_whole or tally.n_records == BUFFER_BYTES // 64


def note_buffer_full(builder: TraceBuilder, rows: Records) -> None:
    """Note that the trace ends early, and mark where."""
    builder.warn(
        Severity.NOTICE,
        "buffer_full",
        "the preallocated file is full; later records were not written.",
        remedy="Record fewer tokens, or use a larger trace file.",
    )
    lane = builder.add_lane("notes", LaneKind.MARKER, ("Tokens",))
    last = int(rows.end.max()) if len(rows.start) else 0
    builder.add_markers(
        time=np.array([last], np.int64),
        lane=lane,
        name=builder.strings.intern(FULL_TEXT),
    )


def note_duplicates(
    builder: TraceBuilder,
    rows: Records,
    pattern: Array,
    token: Array,
    chunked: ChunkedOps,
) -> None:
    """Note records that equal their predecessor in everything."""

    def repeats(chunk: slice) -> Array:
        after = slice(chunk.start + 1, chunk.stop + 1)
        same = rows.start[after] == rows.start[chunk]
        same &= (pattern[after] == pattern[chunk]) & (pattern[chunk] >= 0)
        return np.asarray(same & (token[after] == token[chunk]))

    repeated = 1 + chunked.find(len(rows.start) - 1, repeats)
    # np.isin imports a tenth of numpy.
    count = (
        int(np.count_nonzero(~np.isin(repeated, rows.lane_first)))
        if len(repeated)
        else 0
    )
    note_count(builder, "duplicate_records", count)
