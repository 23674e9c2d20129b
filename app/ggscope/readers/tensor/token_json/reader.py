"""Reader of token traces: the ops of one token as JSON, with all their sources.

``traces/token-NNNNN.json`` is what the exporter of the tensor tracers for llama.cpp
makes of their binary records; there are three schemas, after the size of these.
Passes, durations, names and accesses are made as for binary records; only where the
entries come from differs.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ggscope.errors import CorruptError, ReadError, TruncatedError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64, Array, StringTable, narrow
from ggscope.model.trace import (
    DeclaredMetric,
    RawFileValues,
    Severity,
    Trace,
    TraceInfo,
    stated_figure,
    without_verdict,
)
from ggscope.readers.api import (
    BOM,
    HEAD_BYTES,
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.chunked import ChunkedOps, narrowest
from ggscope.readers.common.json_cursor import BLOCK_BYTES, VALUE_BYTES, JsonCursor
from ggscope.readers.common.json_text import JsonSyntaxError, JsonTooLargeError, locate
from ggscope.readers.source import Change, Source
from ggscope.readers.tensor.columns import (
    N_THREADS,
    NEVER,
    Headers,
    Tally,
    TensorFile,
    TensorOptions,
)
from ggscope.readers.tensor.layouts import RecordLayout
from ggscope.readers.tensor.names import PatternDecoder, decode_patterns
from ggscope.readers.tensor.passes import Draft, arrange, spare_rows
from ggscope.readers.tensor.repeats import (
    Joins,
    joined,
    joined_patterns,
    joined_rows,
    op_starts,
)
from ggscope.readers.tensor.routing.lists import Reading, add_choices
from ggscope.readers.tensor.routing.sizes import MAX_LISTED
from ggscope.readers.tensor.scan import FIRST_NAME
from ggscope.readers.tensor.token_json import INFO, OPS_OPTION
from ggscope.readers.tensor.token_json.entries import Pattern
from ggscope.readers.tensor.token_json.ops import (
    PrintedOps,
    as_records,
    find_ops,
    note_ops,
    schema_of,
)
from ggscope.readers.tensor.token_json.parser import NONE, TokenParser
from ggscope.readers.tensor.trace import (
    add_spans,
    make_builder,
    make_draft,
    make_info,
    note_file_change,
    note_op_doubts,
    note_order_repairs,
    note_time_gaps,
    op_counts,
)

READER_ID = "trace-json"
ENTRY_ID = "first_entry_id"
"""Fact of ``TraceInfo.producer``: entry ids count on from this number."""

_ENTRIES = "entries"
"""Name of the figure whose contradiction has a warning of its own."""
_NAME = re.compile(r"token-(\d{1,9})\.json")
_MAX_TOKENS = 1 << 31
_MAX_LAYERS = 1 << 15
_MAX_SOURCES = 0x7FFF
_LIST_OF_ENTRIES = re.compile(rb'"entries"\s*:\s*\[')
_ENTRY_KEYS = (b'"timestamp_ns"', b'"operation_type"')
_SOURCE_KEYS = (b'"sources"', b'"tensor_name"')
_EMPTY = re.compile(rb'"entries"\s*:\s*\[\s*\]')
_BYTES_PER_ENTRY = 800
_FINAL_BYTES = 48
_PEAK_BYTES = 110
_FIXED_BYTES = 32 << 20


def build(parser: TokenParser, source: Source, context: ReadContext) -> Trace:
    """Return the trace of all entries that were taken. ReadError for bad options."""
    chunked = ChunkedOps(context.check_cancelled)
    patterns = parser.book.patterns
    schema = schema_of(patterns, str(parser.facts.get("format_version") or ""))
    of_entry = parser.columns.pop("pattern")
    counts = np.bincount(of_entry, minlength=len(patterns)).astype(np.int64)
    choice = context.options.get(OPS_OPTION, "")
    is_private = schema.source is None
    ops = find_ops(patterns, counts, choice, is_private=is_private)
    layout, records = as_records(patterns, ops.of_pattern, schema)
    n = parser.n_entries
    options = TensorOptions(layout, stop=n, n_file=n)
    file = TensorFile(
        source=source, given={}, options=options, end=source.size, ops=ops.table
    )
    strings = StringTable()
    draft, of_op, joins = _draft(parser, file, of_entry, ops, strings, chunked)
    decoder = PatternDecoder(layout, strings, ops.table)
    decoded = decode_patterns(records, decoder, chunked)
    decoded = replace(decoded, claims=_claims(decoded.claims, patterns))
    n = len(draft.rows.start)
    of_row = np.empty(n + spare_rows(n), narrow(np.array([len(patterns)])).dtype)
    if joins is None:
        chunked.gather(of_entry, draft.rows.order, of_row)
    else:
        decoded = joined(decoded, joins)
        of_row = np.empty(n + spare_rows(n), narrowest(of_op))
        of_row[:n] = of_op
    access = parser.places.records(source.path, 0, noun="entry", reader_id=READER_ID)
    builder = make_builder(draft, strings, access)
    n_of_op = op_counts(draft, chunked)
    _note_all(builder, draft, ops, parser, n_of_op)
    add_spans(builder, draft, decoded, of_row[: n + len(draft.band_names)], chunked)
    lists = _lists(parser, draft) if parser.lists else None
    add_choices(builder, draft, decoded, of_row[:n], lists, n_of_op, chunked)
    context.progress(source.size, source.size)
    stated = _stated(parser, of_entry, draft)
    builder.warn_stated(f for f in stated if f.name != _ENTRIES)
    if builder.has_loss:
        stated = tuple(map(without_verdict, stated))
    return builder.snapshot(
        replace(_info(parser, draft, schema, choice), stated=stated)
    )


def _draft(
    parser: TokenParser,
    file: TensorFile,
    of_entry: Array,
    ops: PrintedOps,
    strings: StringTable,
    chunked: ChunkedOps,
) -> tuple[Draft, Array, Joins | None]:
    """Return all spans but for their names; and their patterns, if entries are joined.

    Entries that describe one source each are joined to ops.
    """
    patterns, columns = parser.book.patterns, parser.columns
    time = columns.pop("time")
    token = columns.pop("token")
    token[token == NONE] = _token_of_file(parser, file.source.path)
    claimed = [p.layer if p.layer < _MAX_LAYERS else NONE for p in patterns]
    thread = np.minimum(columns.pop("thread"), N_THREADS - 1)
    header = Headers(
        time=time,
        token=token,
        layer=np.array([*claimed, NONE], np.int16)[of_entry],
        thread=thread.astype(np.uint16),
        op=np.array([*ops.of_pattern, 0], np.uint8)[of_entry],
        phase=columns.pop("phase"),
        duration=None,
        wait=None,
        name_hash=None,
        pattern=None,
        record=columns.pop("index"),
        record_dtype=np.int32 if parser.n_elements < 1 << 31 else np.int64,
    )
    earliest = int(np.argmin(time)) if len(time) else 0
    origin = int(time[earliest]) if len(time) else 0
    marks = _pass_marks(patterns, of_entry, earliest)
    numbers = _by_first_op(parser.threads[:N_THREADS], header.thread, time)
    threads = [parser.threads[number] for number in numbers]
    rows = arrange(header, numbers, marks, chunked, origin=origin)
    n = parser.n_entries
    of_op, joins = of_entry, None
    if file.options.layout.source is None:
        starts = op_starts(rows, header.op, file.ops, chunked)
        of_record = np.empty(n, of_entry.dtype)
        chunked.gather(of_entry, rows.order, of_record)
        of_op, joins = joined_patterns(of_record, starts, len(patterns))
        rows = joined_rows(rows, starts)
    tally = Tally(n_records=n, n_ops=n, has_layers=True)
    draft = make_draft(file, tally, threads, header, rows, strings, chunked)
    return draft, of_op, joins


def _by_first_op(threads: list[int], number: Array, time: I64) -> list[int]:
    """Return the numbers of threads in the order of first ops; equal by raw id."""
    first = np.full(len(threads), NEVER, np.int64)
    np.minimum.at(first, number, time)
    order = np.lexsort((np.array(threads, np.int64), first))
    numbers: list[int] = order.tolist()
    return numbers


def _pass_marks(
    patterns: list[Pattern], of_entry: Array, first: int
) -> npt.NDArray[np.bool_] | None:
    """Return which entries may begin a pass; None where no name can show.

    It is the graph's first op where it occurs, else the op of entry `first`, the
    first one in time.
    """
    own = patterns[int(of_entry[first])].name if len(of_entry) else ""
    if not own:
        return None
    names = [p.name for p in patterns]
    usual = FIRST_NAME.decode()
    key = usual if usual in names else own
    return np.array([name == key for name in names], np.bool_)[of_entry]


def _token_of_file(parser: TokenParser, path: Path) -> int:
    """Return the token of entries that do not say it: the file's, else its name's."""
    claimed = parser.facts.get("token_id")
    if isinstance(claimed, int) and 0 <= claimed < _MAX_TOKENS:
        return claimed
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else NONE


def _claims(claims: RawFileValues, patterns: list[Pattern]) -> RawFileValues:
    """Return the claims with the number of sources that entries state."""
    n_sources = [min(p.n_sources, _MAX_SOURCES) for p in patterns]
    return replace(claims, n_sources=np.array(n_sources, np.int16))


def _lists(parser: TokenParser, draft: Draft) -> Reading:
    """Return a function that looks up the expert lists of rows."""
    of_entry = np.append(parser.columns.pop("experts"), NONE)
    table = np.zeros((len(parser.lists) + 1, MAX_LISTED), np.int32)
    count = np.zeros(len(parser.lists) + 1, np.int64)
    for i, experts in enumerate(parser.lists):
        listed = [e if 0 <= e < _MAX_LAYERS else NONE for e in experts[:MAX_LISTED]]
        table[i, : len(listed)] = listed
        count[i] = len(listed)

    def read(rows: I64) -> tuple[Array, Array]:
        number = of_entry[draft.rows.positions(rows)]
        return table[number], count[number]

    return read


def _note_all(
    builder: TraceBuilder,
    draft: Draft,
    ops: PrintedOps,
    parser: TokenParser,
    n_of_op: I64,
) -> None:
    """Add everything that is wrong with the file."""
    rows = draft.rows
    for w in parser.builder.snapshot(make_info(draft.file.source, "", "")).warnings:
        builder.warn(
            w.severity,
            w.code,
            w.message,
            w.offset,
            w.count,
            place=w.place,
            remedy=w.remedy,
        )
    note_file_change(builder, draft.file.source, parser.n_entries)
    note_order_repairs(builder, rows)
    note_time_gaps(builder, rows)
    note_op_doubts(builder, ops.table, n_of_op)
    note_ops(builder, ops)
    stated = parser.facts.get("total_entries")
    if isinstance(stated, int) and stated != parser.n_elements:
        builder.warn(
            Severity.NOTICE,
            "entry_count",
            f"entry count does not match: file says {stated:,}, found "
            f"{parser.n_elements:,}.",
        )


def _stated(
    parser: TokenParser, of_entry: Array, draft: Draft
) -> tuple[DeclaredMetric, ...]:
    """Return what the file says of itself beside what its entries hold.

    The duration is without the last op, of which no end is recorded.
    """
    start, facts = draft.spans["start"][: len(draft.rows.start)], parser.facts
    first = draft.rows.origin + int(start.min()) if len(start) else None
    last = draft.rows.origin + int(start.max(initial=0))
    patterns = parser.book.patterns
    uses = np.bincount(of_entry, minlength=len(patterns))
    has_lists = bool(patterns) and all(p.has_result for p in patterns)
    n_stated, listed = (
        int(uses @ np.array(counts, np.int64)) if has_lists else None
        for counts in (
            [p.n_sources for p in patterns],
            [len(p.accesses) for p in patterns],
        )
    )
    by = "its entries"
    figures = (
        stated_figure(
            _ENTRIES,
            facts.get("total_entries"),
            parser.n_elements,
            basis="its list of entries",
            place="metadata.total_entries",
        ),
        stated_figure(
            "duration",
            facts.get("duration_ms"),
            None if first is None else (last - first) / 1e6,
            unit="ms",
            basis="the stamps of its entries",
            place="metadata.duration_ms",
        ),
        stated_figure(
            "first time stamp",
            facts.get("timestamp_start_ns"),
            first,
            unit="ns",
            basis=by,
            place="metadata.timestamp_start_ns",
        ),
        stated_figure(
            "sources",
            n_stated,
            listed,
            basis="those listed",
            place="entries.num_sources",
        ),
    )
    return tuple(figure for figure in figures if figure is not None)


def _info(
    parser: TokenParser, draft: Draft, schema: RecordLayout, choice: str
) -> TraceInfo:
    facts = parser.facts
    version = schema.id + (" v4" if parser.has_expert_keys else "")
    producer = {
        key: str(value)
        for key, value in facts.items()
        if key in ("format_version", "token_id") and value is not None
    }
    if parser.id_shift:
        producer[ENTRY_ID] = str(parser.id_shift)
    summary = {
        key: facts[key]
        for key in ("total_entries", "duration_ms", "timestamp_start_ns")
        if isinstance(facts.get(key), int | float)
    }
    return replace(
        make_info(draft.file.source, draft.file.options.layout.title, version),
        reader_id=READER_ID,
        n_records=parser.n_elements,
        n_passes=draft.rows.n_passes,
        producer=producer,
        options={OPS_OPTION: choice} if choice else {},
        summary={"layout": schema.id, **summary},
    )


class TraceJsonReader:
    """Reads token traces.

    Parameters
    ----------
    block_bytes : size of the blocks that are decoded in one piece.
    value_bytes : largest single value that is taken.
    """

    info = INFO

    def __init__(
        self, *, block_bytes: int = BLOCK_BYTES, value_bytes: int = VALUE_BYTES
    ) -> None:
        self._block_bytes = block_bytes
        self._value_bytes = value_bytes

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the keys of its root and of its first entry."""
        data = head.data.removeprefix(BOM).lstrip()
        if not data.startswith(b"{") or not _LIST_OF_ENTRIES.search(data):
            return NOT_MINE
        has_token = b'"token_id"' in data
        if all(key in data for key in _ENTRY_KEYS):
            if any(key in data for key in _SOURCE_KEYS):
                return Sniff(80, "entries with time stamps, ops and sources")
            return Sniff(50, "entries with time stamps and ops")
        if has_token and b'"total_entries"' in data and _EMPTY.search(data):
            return Sniff(50, "a token trace without entries")
        return NOT_MINE

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by the usual size of an entry."""
        records = head.size // _BYTES_PER_ENTRY
        return Estimate(
            records=records,
            final_bytes=_FIXED_BYTES + _FINAL_BYTES * records,
            peak_bytes=_FIXED_BYTES + _PEAK_BYTES * records,
        )

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError, TruncatedError
            If the text is no JSON before its first entry, or has no entries.
        ReadError
            If an option is not understood.
        LimitExceededError
            If there are too many entries, or too many different ones.
        """
        parser = TokenParser(source, context)
        cursor = JsonCursor(
            source,
            block_bytes=self._block_bytes,
            value_bytes=self._value_bytes,
            reuses_buffer=True,
        )
        try:
            parser.take(cursor)
        except JsonSyntaxError as fault:
            _keep_before(fault, parser, source)
        except JsonTooLargeError as too_large:
            raise too_large.as_limit("Is this a token trace?", source.path) from None
        except ReadError as error:
            # Only the file itself gives a plain one: the disk, the network.
            if type(error) is not ReadError or not parser.n_entries:
                raise
            parser.note_failure(str(error), cursor.position)
        if not parser.has_entries:
            raise CorruptError(
                'not a token trace: no "entries".',
                path=source.path,
                hint=f"It begins with {source.head(HEAD_BYTES)[:40]!r}.",
            )
        return build(parser, source, context)


def _keep_before(fault: JsonSyntaxError, parser: TokenParser, source: Source) -> None:
    """Go on with the entries before a fault; raise where there are none."""
    place = locate(source, fault.offset)
    where = f"line {place.line}, column {place.column}"
    text = f"{fault.text} ({where})"
    if parser.n_entries:
        parser.note_fault(text, fault.offset, is_cut=fault.at_end)
        return
    kind = TruncatedError if fault.at_end else CorruptError
    changing = source.change() in (Change.GROWN, Change.REWRITTEN)
    raise kind(
        f"truncated JSON: {text}." if fault.at_end else f"invalid JSON: {text}.",
        path=source.path,
        offset=fault.offset,
        hint="Reload the file when it is complete." if changing else "",
    )
