"""Put the parts of a tensor trace together: part of it, without names, or complete."""

from collections import Counter
from dataclasses import replace

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.ops import TRACER_PRIVATE, OpSample, infer, table
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    Array,
    FlatAccesses,
    Phase,
    SpanFlag,
    StringTable,
    distinct,
    narrow,
)
from ggscope.model.time import Clock, TimeRange
from ggscope.model.trace import OpTable, RecordAccess, Trace, TraceInfo
from ggscope.readers.common.column_pieces import Pieces
from ggscope.readers.source import Source
from ggscope.readers.tensor import INFO, problems
from ggscope.readers.tensor.columns import (
    Headers,
    Ranges,
    Tally,
    TensorFile,
    Words,
    extended,
    with_room,
)
from ggscope.readers.tensor.layouts import (
    FIRST_EXTENSION_OP,
    LAYOUT_256,
    RecordLayout,
    TensorRecords,
)
from ggscope.readers.tensor.names import Patterns
from ggscope.readers.tensor.passes import (
    Bands,
    Draft,
    Records,
    pass_bands,
    phase_bands,
    room_for,
)
from ggscope.readers.tensor.repeats import repeated_rows
from ggscope.readers.tensor.routing import (
    HAS_SINGLE,
    add_choices,
    add_extensions,
    add_single,
    lists_in_file,
)

TOKENS, PHASES, FIRST_THREAD = 0, 1, 2
"""Lane ids; the threads follow in order of appearance."""

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
    pieces: Pieces,
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
    n, order = len(rows), rows.order
    phase = np.empty(n + room_for(n), np.uint8)
    pieces.gather(columns.phase, order, phase)
    passes = pass_bands(rows, columns.token, columns.phase)
    phases = phase_bands(rows, phase[:n], passes, pieces)
    spans = _time_columns(rows, passes, phases)
    n_bands = len(passes.start) + len(phases.start)
    for piece in pieces.of(n):
        phase[piece] = _phase_codes(phase[piece])
    codes = [_phase_codes(band.phase) for band in (passes, phases)]
    spans["phase"] = extended(phase, n, *codes).view(np.int8)
    none = np.full(n_bands, -1, np.int8)

    def column(name: str, *tails: Array) -> Array:
        found = pieces.taken(getattr(columns, name), order, n_bands)
        if may_consume:
            setattr(columns, name, getattr(columns, name)[:0].copy())
        return extended(found, n, *tails)

    spans["op"] = column("op", none)
    spans["token"] = column("token", passes.token, none[len(passes.start) :])
    spans["layer"] = column("layer", none)
    spans["lane"] = _lane_column(rows, passes, phases)
    spans["record"] = _record_column(rows, columns, pieces, none)
    return Draft(
        file=file,
        tally=tally,
        threads=threads,
        rows=rows,
        passes=passes,
        phases=phases,
        spans=spans,
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


def assemble_nameless(draft: Draft, strings: StringTable, pieces: Pieces) -> Trace:
    """Return the trace of all spans, whose names and accesses are still to come."""
    builder = _builder(draft, strings)
    _add_nameless(builder, draft)
    problems.add_all(builder, draft, pieces)
    return builder.snapshot(_info(draft), NAMES_PENDING)


def assemble(
    draft: Draft,
    strings: StringTable,
    patterns: Patterns,
    of_row: Array,
    exemplars: Words,
    pieces: Pieces,
) -> Trace:
    """Return the whole trace.

    Parameters
    ----------
    of_row : pattern of each span, -1 none; with room for passes and phases.
    exemplars : the first record of each pattern.
    """
    builder = _builder(draft, strings)
    problems.add_all(builder, draft, pieces)
    add_spans(builder, draft, patterns, of_row, pieces)
    rows, source = of_row[: len(draft.rows)], draft.file.source
    layout = draft.file.options.layout
    if layout in HAS_SINGLE:
        add_single(builder, draft, exemplars, pieces)
    elif draft.tally.n_extension and layout is LAYOUT_256:
        add_extensions(builder, draft, pieces)
    else:
        has_lists = draft.tally.n_expert > 0
        read = (
            lists_in_file(source, draft.spans["record"], pieces) if has_lists else None
        )
        add_choices(builder, draft, patterns, rows, read, pieces)
    return builder.snapshot(_info(draft))


def add_spans(
    builder: TraceBuilder,
    draft: Draft,
    patterns: Patterns,
    of_row: Array,
    pieces: Pieces,
) -> None:
    """Add all spans with their names and accesses, the tensors and the buffers.

    Parameters
    ----------
    of_row : as in `assemble`.
    """
    n = len(draft.rows)
    none = np.full(len(draft.band_names), -1, np.int8)
    of_span = extended(of_row, n, none)
    of_row = of_span[:n]
    spans = draft.spans | {
        "layer": _layers(draft, patterns, of_row, pieces),
        "tensor": extended(_looked_up(patterns.tensor, of_row, none, pieces), n, none),
    }
    n_cut = 0
    if patterns.is_cut.any():
        spans["flags"], n_cut = _flags_of_cut_names(draft, patterns, of_row, pieces)
    repeated = repeated_rows(draft.rows, of_row, pieces)
    if repeated:
        flags = spans["flags"] if patterns.is_cut.any() else spans["flags"].copy()
        for rows in repeated:
            flags[rows] |= np.uint8(SpanFlag.REPEATED)
        spans["flags"] = flags
        problems.note_count(builder, "shared_ops", sum(map(len, repeated)))
    largest = int(draft.band_names.max(initial=-1))
    of_bands = narrow(np.array([largest])).dtype
    dtype = np.promote_types(patterns.name.dtype, of_bands)
    name = _looked_up(patterns.name.astype(dtype), of_row, none, pieces)
    problems.note_count(builder, "truncated_names", n_cut)
    problems.duplicates(builder, draft.rows, of_row, draft.spans["token"][:n], pieces)
    builder.add_spans(name=extended(name, n, draft.band_names), **spans)
    builder.accesses = Accesses(
        of_span, patterns.first, patterns.columns, FlatAccesses.blank()
    )
    builder.tensors, builder.buffers = patterns.tensors, patterns.buffers
    builder.claims = patterns.claims


def _time_columns(rows: Records, passes: Bands, phases: Bands) -> dict[str, Array]:
    """Return the columns start, end and flags of all spans."""
    n = len(rows)
    n_bands = len(passes.start) + len(phases.start)
    derived = np.full(n_bands, SpanFlag.INFERRED_END, np.uint8)
    return {
        "start": extended(with_room(rows.start), n, passes.start, phases.start),
        "end": extended(with_room(rows.end), n, passes.end, phases.end),
        "flags": extended(with_room(rows.flags), n, derived),
    }


def _lane_column(rows: Records, passes: Bands, phases: Bands) -> Array:
    n_lanes = len(rows.lane_first) - 1
    n, n_passes = len(rows), len(passes.start)
    dtype = narrow(np.array([FIRST_THREAD + n_lanes])).dtype
    lane = np.empty(n + n_passes + len(phases.start), dtype)
    for number in range(n_lanes):
        lane[rows.lane_first[number] : rows.lane_first[number + 1]] = (
            FIRST_THREAD + number
        )
    lane[n : n + n_passes] = TOKENS
    lane[n + n_passes :] = PHASES
    return lane


def _record_column(
    rows: Records, columns: Headers, pieces: Pieces, none: Array
) -> Array:
    """Return the record of each span; the memory of the order serves for it."""
    n = len(rows)
    record = np.empty(n + len(none), columns.record_dtype)
    if columns.record is not None:
        pieces.gather(columns.record, rows.order, record)
    for piece in pieces.of(n) if columns.record is None else ():
        position = np.arange(piece.start, piece.stop)
        record[piece] = columns.first_record + (
            position if rows.order is None else rows.order[piece]
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
    words = strings.intern_many(_PHASE_NAMES)
    return np.concatenate([of_passes, words[np.minimum(phases.phase, len(words) - 1)]])


def _phase_codes(raw: Array) -> Array:
    """Return phases with 0xFF, the int8 -1, for what is none."""
    return np.where(raw <= Phase.GENERATE, raw, 0xFF).astype(np.uint8)


def make_builder(
    draft: Draft, strings: StringTable, records: RecordAccess
) -> TraceBuilder:
    """Return a builder with the lanes of all spans and none of these."""
    builder = TraceBuilder()
    builder.strings = strings
    builder.clock = Clock("ns", draft.rows.origin)
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
    known = {option.name for option in INFO.known_options}
    layout = options.layout
    return replace(
        make_info(
            draft.file.source,
            layout.title,
            layout.id + (" v4" if tally.n_expert else ""),
        ),
        n_records=tally.n_records,
        n_passes=draft.rows.n_passes,
        options={k: v for k, v in draft.file.given.items() if k in known and v},
        summary={
            "layout": layout.id,
            "extension_records": tally.n_extension,
            "empty_records": tally.n_empty,
            "expert_records": tally.n_expert,
            **options.summary(),
        },
    )


def _add_nameless(builder: TraceBuilder, draft: Draft) -> None:
    n, n_all = len(draft.rows), len(draft.spans["start"])
    largest = int(draft.band_names.max(initial=-1))
    name = np.full(n_all, -1, narrow(np.array([largest])).dtype)
    name[n:] = draft.band_names
    builder.add_spans(name=name, **draft.spans)
    builder.accesses = Accesses(
        np.full(n_all, -1, np.int8),
        np.zeros(1, np.int64),
        AccessColumns.blank(),
        FlatAccesses.blank(),
    )


def _looked_up(table: Array, of_row: Array, room: Array, pieces: Pieces) -> Array:
    """Return ``table[of_row]`` with room for as many more rows as `room` has."""
    found = np.empty(len(of_row) + len(room), table.dtype)
    for piece in pieces.of(len(of_row)):
        found[piece] = table[of_row[piece]]
    return found


def _layers(draft: Draft, patterns: Patterns, of_row: Array, pieces: Pieces) -> Array:
    """Return the layer of every span; without a pattern it is what the record says."""
    claimed, n = draft.spans["layer"], len(of_row)
    if draft.file.options.sample_every == 1:
        none = np.full(len(claimed) - n, -1, np.int8)
        return extended(_looked_up(patterns.layer, of_row, none, pieces), n, none)
    dtype = np.promote_types(claimed.dtype, patterns.layer.dtype)
    layer = claimed.astype(dtype)
    for piece in pieces.of(n):
        known = of_row[piece] >= 0
        layer[piece][known] = patterns.layer[of_row[piece][known]]
    return layer


def _flags_of_cut_names(
    draft: Draft, patterns: Patterns, of_row: Array, pieces: Pieces
) -> tuple[Array, int]:
    """Return the flags with names marked that may go on, and how many these are."""
    flags, count = draft.spans["flags"].copy(), 0
    for piece in pieces.of(len(of_row)):
        is_cut = patterns.is_cut[of_row[piece]]
        flags[piece][is_cut] |= np.uint8(SpanFlag.TRUNCATED_NAME)
        count += int(np.count_nonzero(is_cut))
    return flags, count


def find_ops(
    source: Source, layout: RecordLayout, ranges: Ranges, wanted: str | None
) -> OpTable:
    """Return the op table: `wanted` by its id, else declared or inferred.

    Raises
    ------
    ReadError
        If there is no table `wanted`.
    """
    if wanted:
        try:
            return replace(table(wanted), source="override")
        except KeyError:
            raise ReadError(
                f"there is no op table {wanted!r}.",
                path=source.path,
                hint="Ids look like ggml-2025-11-25-95.",
            ) from None
    if not layout.has_ggml_ops:
        return TRACER_PRIVATE
    return infer(_samples(_sample(source, layout, ranges)))


def _sample(source: Source, layout: RecordLayout, ranges: Ranges) -> Array:
    """Return up to 3072 records: the first ones, and others evenly spread.

    The first ones hold a whole pass, so every op occurs; the spread ones make sure
    of what comes later.
    """
    size = layout.size
    parts = [np.zeros(0, np.uint8)]
    total = sum(stop - first for first, stop in ranges)
    left, before = _NEAR, 0
    spread = distinct(np.linspace(0, max(total - 1, 0), _FAR).astype(np.int64))
    for first, stop in ranges:
        near = min(left, stop - first)
        parts.append(source.array(first * size, near * size))
        left -= near
        here = spread[(spread >= before + near) & (spread < before + stop - first)]
        parts += [
            source.array((first + at - before) * size, size) for at in here.tolist()
        ]
        before += stop - first
    whole = [part for part in parts if len(part) % size == 0]
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
    found = Counter((op, dst, n, tuple(names[:n])) for op, dst, n, names in rows)
    return [
        OpSample(op, _text(dst), tuple(map(_text, names)), n, times)
        for (op, dst, n, names), times in found.items()
    ]


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
