"""What is wrong with a tensor trace, as warnings for people."""

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.ops import UNCERTAIN_MARGIN
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, Array
from ggscope.model.trace import OpTable, Severity
from ggscope.readers.common.column_pieces import Pieces
from ggscope.readers.source import Change, Source
from ggscope.readers.tensor.columns import Tally, TensorFile, TensorOptions
from ggscope.readers.tensor.layouts import RecordLayout
from ggscope.readers.tensor.passes import Draft, Records

BUFFER_BYTES = 1 << 31
"""Size to which the tracer preallocates its file."""

FULL_TEXT = "trace ends early: buffer full"

_BATCH = 512
_CHANGES = {
    Change.GROWN: (
        "the file was written to while it was read; what came later is missing",
        "Open it again when it is complete.",
    ),
    Change.REWRITTEN: (
        "the file was written to while it was read",
        "Open it again when it is complete.",
    ),
    Change.SHRUNK: (
        "the file became shorter while it was read",
        "Open it again when it is complete.",
    ),
    Change.REPLACED: (
        "another file has taken this one's name while it was read; single records "
        "cannot be looked at",
        "Open it again to see the new one.",
    ),
    Change.GONE: (
        "the file was deleted or renamed while it was read; single records cannot "
        "be looked at",
        "",
    ),
}

_COUNTED = {
    "extension_records": (
        Severity.INFO,
        "extension records hold expert ids and scores; they are not drawn.",
    ),
    "per_thread_blocks": (
        Severity.INFO,
        "records lie in blocks per thread, not in time order; they were sorted.",
    ),
    "out_of_order": (
        Severity.NOTICE,
        "records lay behind later ones of their own thread; they were sorted.",
    ),
    "truncated_names": (
        Severity.INFO,
        "names fill their field and may go on; they are shown as they are.",
    ),
    "shared_ops": (
        Severity.INFO,
        "records tell of an op that a record of another thread tells of too, for the "
        "threads compute it together. Its reads count once; which part of them is "
        "whose is not recorded.",
    ),
    "duplicate_records": (
        Severity.INFO,
        "records repeat the one before them; all are shown.",
    ),
}
"""What is said by how often it occurs."""


def add_all(builder: TraceBuilder, draft: Draft, pieces: Pieces) -> None:
    """Add everything about the file that needs no names."""
    file, rows, tally = draft.file, draft.rows, draft.tally
    layout, source = file.options.layout, file.source
    file_state(builder, source, layout, file.end)
    file_change(builder, source, tally.n_records)
    if draft.ended_at >= 0:
        early_end(builder, source, layout, draft.ended_at, tally.n_records)
    left_out(builder, file.options)
    record_losses(builder, layout, tally)
    order_repairs(builder, rows)
    time_gaps(builder, rows)
    op_doubts(builder, file.ops, pieces.counts(draft.spans["op"][: len(rows)], 256))
    if not file.options.has_end or draft.ended_at >= 0:
        return
    clean_end(builder, layout, tally, file.end, source.size)
    if is_full(file, tally):
        buffer_full(builder, rows)


def nothing_flushed(builder: TraceBuilder, size: int) -> None:
    """Note a file of zeros."""
    builder.warn(
        Severity.NOTICE,
        "nothing_flushed",
        f"all {size:,} bytes are zero: the trace was started, but nothing was "
        "written to it.",
        0,
        remedy="Let the traced program end normally, so that it flushes its records.",
    )


def file_state(
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
            remedy="The file is a cut copy, or was read while it was written.",
        )


def file_change(builder: TraceBuilder, source: Source, n_records: int) -> None:
    """Note what happened to the file while it was read."""
    change = source.change()
    if change is Change.NONE:
        return
    kept = f"the {n_records:,} records read so far are shown"
    text, remedy = _CHANGES[change]
    builder.warn(Severity.NOTICE, "file_changed", f"{text}; {kept}.", remedy=remedy)


def early_end(
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
        f"the file ended at record {record:,} while it was read; it had "
        f"{source.size // layout.size:,} when it was opened. The {n_kept:,} records "
        "before are kept.",
        record * layout.size,
        place=f"record {record}",
        remedy="Open it again when it is complete.",
    )


def left_out(builder: TraceBuilder, options: TensorOptions) -> None:
    """Note what the options ``range`` and ``names`` left out."""
    if options.n_left_out:
        builder.warn(
            Severity.INFO,
            "range",
            f"records left out by the range: {options.n_left_out:,} of "
            f"{options.n_file:,}; read are {options.first:,} to {options.stop - 1:,}.",
            count=options.n_left_out,
        )
    every = options.sample_every
    if every != 1:
        text = "names and accesses are not read."
        if every:
            text = f"names sampled: 1 of {every} blocks of records; accesses likewise."
        builder.warn(Severity.INFO, "names_left_out", text)


def record_losses(builder: TraceBuilder, layout: RecordLayout, tally: Tally) -> None:
    """Note empty, damaged and extension records."""
    c = tally
    if c.n_empty:
        builder.warn(
            Severity.DATA_LOSS,
            "hole",
            f"{c.n_empty:,} records between others are empty: a batch was lost.",
            c.first_empty * layout.size,
            c.n_empty,
            place=f"record {c.first_empty}",
            remedy="Several threads flushed at once; record again if they matter.",
        )
    if c.n_bad_time:
        builder.warn(
            Severity.DATA_LOSS,
            "bad_timestamp",
            "records with an impossible time stamp were left out.",
            c.first_bad_time * layout.size,
            c.n_bad_time,
            place=f"record {c.first_bad_time}",
            remedy="If there are many, the record layout may be the wrong one.",
        )
    note_count(builder, "extension_records", c.n_extension)


def clean_end(
    builder: TraceBuilder, layout: RecordLayout, tally: Tally, end: int, size: int
) -> None:
    """Note an end that looks as if a last batch never came."""
    has_tail = size - end >= _BATCH * layout.size // 2
    if tally.n_records and has_tail and -(-end // layout.size) % _BATCH == 0:
        builder.warn(
            Severity.NOTICE,
            "unclean_end",
            f"the records end with a whole batch of {_BATCH}, as if the program had "
            f"been killed; up to {_BATCH - 1} later ones per thread may be missing.",
            end,
        )


def order_repairs(builder: TraceBuilder, rows: Records) -> None:
    """Note records that were put into order."""
    note_count(builder, "per_thread_blocks", rows.n_backwards)
    note_count(builder, "out_of_order", rows.n_moved)


def note_count(builder: TraceBuilder, code: str, count: int) -> None:
    """Note something that is said by how often it occurs; nothing for never."""
    if count:
        severity, text = _COUNTED[code]
        builder.warn(severity, code, text, count=count)


def time_gaps(builder: TraceBuilder, rows: Records) -> None:
    """Note pauses within a pass, which are no time of the op before them."""
    if rows.n_pauses:
        builder.warn(
            Severity.NOTICE,
            "time_gap",
            f"after some records nothing follows for more than {rows.pause / 1e6:,.0f} "
            "ms within a pass: a pause, and no time of their ops. How long these took "
            "is not known.",
            count=rows.n_pauses,
        )


def op_doubts(builder: TraceBuilder, ops: OpTable, counts: I64) -> None:
    """Note an op table that is hardly better than another, and unknown ops.

    Parameters
    ----------
    counts : int64[256], records of each op number.
    """
    if ops.margin is not None and ops.margin < UNCERTAIN_MARGIN and counts.any():
        builder.warn(
            Severity.NOTICE,
            "op_table_uncertain",
            f"op table {ops.id} fits hardly better than others (margin {ops.margin}); "
            "op names may be wrong.",
            remedy="Choose the table with the option ops=<id> if you know it.",
        )
    known = np.zeros(256, np.bool_)
    known[: len(ops.names)] = [bool(name) for name in ops.names]
    unknown = np.flatnonzero((counts > 0) & ~known)
    if len(unknown):
        listed = ", ".join(ops.name(code) for code in unknown[:8].tolist())
        builder.warn(
            Severity.NOTICE,
            "unknown_op",
            f"op numbers that table {ops.id} does not know: {listed}.",
            count=int(counts[unknown].sum()),
            remedy="Choose a newer table with the option ops=<id>.",
        )


def is_full(file: TensorFile, tally: Tally) -> bool:
    """Tell whether the recording stopped because its buffer was full."""
    size, layout = file.source.size, file.options.layout
    is_whole = size == BUFFER_BYTES and file.end > size - layout.size
    return is_whole or tally.n_records == BUFFER_BYTES // 64


def buffer_full(builder: TraceBuilder, rows: Records) -> None:
    """Note that the trace ends early, and mark where."""
    builder.warn(
        Severity.NOTICE,
        "buffer_full",
        "the preallocated file is full to its last record; what came later was not "
        "recorded.",
        remedy="Record fewer tokens, or give the tracer a larger file.",
    )
    lane = builder.add_lane("notes", LaneKind.MARKER, ("Tokens",))
    last = int(rows.end.max()) if len(rows) else 0
    builder.add_markers(
        time=np.array([last], np.int64),
        lane=lane,
        name=builder.strings.intern(FULL_TEXT),
    )


def duplicates(
    builder: TraceBuilder, rows: Records, pattern: Array, token: Array, pieces: Pieces
) -> None:
    """Note records that equal their predecessor in everything."""

    def repeats(piece: slice) -> Array:
        after = slice(piece.start + 1, piece.stop + 1)
        same = rows.start[after] == rows.start[piece]
        same &= (pattern[after] == pattern[piece]) & (pattern[piece] >= 0)
        return np.asarray(same & (token[after] == token[piece]))

    found = 1 + pieces.find(len(rows) - 1, repeats)
    # np.isin imports a tenth of numpy.
    count = int(np.count_nonzero(~np.isin(found, rows.lane_first))) if len(found) else 0
    note_count(builder, "duplicate_records", count)
