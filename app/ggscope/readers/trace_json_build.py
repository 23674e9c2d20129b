"""From the entries of a token trace to the tables of a trace.

Passes, durations, names and accesses are made as for binary records; only where the
entries come from differs.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ggscope.model.builder import TraceBuilder
from ggscope.model.claims import Claims, Stated, stated_figure, without_verdict
from ggscope.model.strings import StringTable
from ggscope.model.tables import I64, Array, narrow
from ggscope.model.trace import Severity, Trace, TraceInfo
from ggscope.readers import tensor_notes as notes
from ggscope.readers.api import ReadContext
from ggscope.readers.records import Layout
from ggscope.readers.source import Source
from ggscope.readers.tensor_build import add_spans, make_builder, make_info, make_job
from ggscope.readers.tensor_columns import N_THREADS, Columns, Tally, Wants
from ggscope.readers.tensor_job import File, Job
from ggscope.readers.tensor_joined import (
    Joins,
    joined,
    joined_patterns,
    joined_rows,
    op_starts,
)
from ggscope.readers.tensor_names import PatternDecoder
from ggscope.readers.tensor_options import Choice
from ggscope.readers.tensor_order import Work, narrowest
from ggscope.readers.tensor_passes import arrange, room_for
from ggscope.readers.tensor_routing import MAX_LISTED, Reading, add_choices
from ggscope.readers.tensor_scan import FIRST_NAME
from ggscope.readers.tensor_sources import decode_records
from ggscope.readers.trace_json_entries import Pattern
from ggscope.readers.trace_json_intake import NONE, Intake
from ggscope.readers.trace_json_ops import PrintedOps, find_ops, note_ops
from ggscope.readers.trace_json_patterns import as_records, schema_of

READER_ID = "trace-json"
OPS_OPTION = "ops"
ENTRY_ID = "first_entry_id"
"""Fact of ``TraceInfo.producer``: entry ids count on from this number."""

_ENTRIES = "entries"
"""Name of the figure whose contradiction has a warning of its own."""
_NAME = re.compile(r"token-(\d{1,9})\.json")
_MOST_TOKENS = 1 << 31
_MOST_LAYERS = 1 << 15
_MOST_SOURCES = 0x7FFF


def build(intake: Intake, source: Source, context: ReadContext) -> Trace:
    """Return the trace of all entries that were taken. ReadError for bad options."""
    work = Work(context.check_cancelled)
    patterns = intake.book.patterns
    schema = schema_of(patterns, str(intake.facts.get("format_version") or ""))
    of_entry = intake.columns.joined("pattern", np.int32)
    counts = np.bincount(of_entry, minlength=len(patterns)).astype(np.int64)
    wanted = context.options.get(OPS_OPTION, "")
    is_private = schema.source is None
    ops = find_ops(patterns, counts, wanted, is_private=is_private)
    layout, records = as_records(patterns, ops.of_pattern, schema)
    n = intake.n_entries
    choice = Choice(Wants(layout), 0, n, n)
    file = File(
        source=source, options={}, choice=choice, end=source.size, ops=ops.table
    )
    strings = StringTable()
    job, of_op, joins = _job(intake, file, of_entry, ops, strings, work)
    decoder = PatternDecoder(layout, strings, ops.table)
    decoded = decode_records(records, decoder, work)
    decoded = replace(decoded, claims=_claims(decoded.claims, patterns))
    n = len(job.rows)
    of_row = np.empty(n + room_for(n), narrow(np.array([len(patterns)])).dtype)
    if joins is None:
        work.gather(of_entry, job.rows.order, of_row)
    else:
        decoded = joined(decoded, joins)
        of_row = np.empty(n + room_for(n), narrowest(of_op))
        of_row[:n] = of_op
    access = intake.places.records(source.path, 0, noun="entry", reader_id=READER_ID)
    builder = make_builder(job, strings, access)
    _note_all(builder, job, ops, intake, work)
    add_spans(builder, job, decoded, of_row[: n + len(job.band_names)], work)
    lists = _lists(intake, job) if intake.lists else None
    add_choices(builder, job, decoded, of_row[:n], lists, work)
    context.progress(source.size, source.size)
    stated = _stated(intake, of_entry, job)
    builder.warn_stated(f for f in stated if f.name != _ENTRIES)
    if builder.has_loss:
        stated = tuple(map(without_verdict, stated))
    return builder.snapshot(replace(_info(intake, job, schema, wanted), stated=stated))


def _job(
    intake: Intake,
    file: File,
    of_entry: Array,
    ops: PrintedOps,
    strings: StringTable,
    work: Work,
) -> tuple[Job, Array, Joins | None]:
    """Return all spans but for their names; and their patterns, if entries are joined.

    Entries that describe one source each are joined to ops.
    """
    patterns, columns = intake.book.patterns, intake.columns
    time = columns.joined("time", np.int64)
    token = columns.joined("token", np.int32)
    token[token == NONE] = _token_of_file(intake, file.source.path)
    claimed = [p.layer if p.layer < _MOST_LAYERS else NONE for p in patterns]
    thread = np.minimum(columns.joined("thread", np.int32), N_THREADS - 1)
    header = Columns(
        time=time,
        token=token,
        layer=np.array([*claimed, NONE], np.int16)[of_entry],
        thread=thread.astype(np.uint16),
        op=np.array([*ops.of_pattern, 0], np.uint8)[of_entry],
        phase=columns.joined("phase", np.uint8),
        duration=None,
        name_hash=None,
        pattern=None,
        record=columns.joined("index", np.int64),
        record_dtype=np.int32 if intake.n_elements < 1 << 31 else np.int64,
    )
    earliest = int(np.argmin(time)) if len(time) else 0
    origin = int(time[earliest]) if len(time) else 0
    marks = _pass_marks(patterns, of_entry, earliest)
    threads = intake.threads[:N_THREADS]
    numbers = list(range(len(threads)))
    rows = arrange(header, numbers, marks, work, origin=origin)
    n = intake.n_entries
    of_op, joins = of_entry, None
    if file.choice.wants.layout.source is None:
        starts = op_starts(rows, header.op, file.ops, work)
        of_record = np.empty(n, of_entry.dtype)
        work.gather(of_entry, rows.order, of_record)
        of_op, joins = joined_patterns(of_record, starts, len(patterns))
        rows = joined_rows(rows, starts)
    tally = Tally(n_records=n, n_ops=n, has_layers=True)
    job = make_job(file, tally, threads, header, rows, strings, work)
    return job, of_op, joins


def _pass_marks(
    patterns: list[Pattern], of_entry: Array, first: int
) -> npt.NDArray[np.bool_] | None:
    """Return which entries may begin a pass; None where no name can tell.

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


def _token_of_file(intake: Intake, path: Path) -> int:
    """Return the token of entries that do not say it: the file's, else its name's."""
    claimed = intake.facts.get("token_id")
    if isinstance(claimed, int) and 0 <= claimed < _MOST_TOKENS:
        return claimed
    found = _NAME.fullmatch(path.name)
    return int(found[1]) if found else NONE


def _claims(claims: Claims, patterns: list[Pattern]) -> Claims:
    """Return the claims with the number of sources that entries tell."""
    told = [min(p.n_sources, _MOST_SOURCES) for p in patterns]
    return replace(claims, n_sources=np.array(told, np.int16))


def _lists(intake: Intake, job: Job) -> Reading:
    """Return a function that looks up the expert lists of rows."""
    of_entry = np.append(intake.columns.joined("experts", np.int32), NONE)
    table = np.zeros((len(intake.lists) + 1, MAX_LISTED), np.int32)
    count = np.zeros(len(intake.lists) + 1, np.int64)
    for i, experts in enumerate(intake.lists):
        kept = [e if 0 <= e < _MOST_LAYERS else NONE for e in experts[:MAX_LISTED]]
        table[i, : len(kept)] = kept
        count[i] = len(kept)

    def read(rows: I64) -> tuple[Array, Array]:
        number = of_entry[job.rows.positions(rows)]
        return table[number], count[number]

    return read


def _note_all(
    builder: TraceBuilder, job: Job, ops: PrintedOps, intake: Intake, work: Work
) -> None:
    """Add everything that is wrong with the file."""
    rows = job.rows
    for w in intake.builder.snapshot(_no_info(job)).warnings:
        builder.warn(
            w.severity, w.code, w.message, w.offset, w.count,
            place=w.place, remedy=w.remedy,
        )  # fmt: skip
    notes.file_change(builder, job.file.source, intake.n_entries)
    notes.order_repairs(builder, rows)
    notes.time_gaps(builder, rows)
    notes.op_doubts(builder, ops.table, work.counts(job.spans["op"][: len(rows)], 256))
    note_ops(builder, ops)
    stated = intake.facts.get("total_entries")
    if isinstance(stated, int) and stated != intake.n_elements:
        builder.warn(
            Severity.NOTICE,
            "entry_count",
            f"the file says that it holds {stated:,} entries; there are "
            f"{intake.n_elements:,}.",
        )


def _stated(intake: Intake, of_entry: Array, job: Job) -> tuple[Stated, ...]:
    """Return what the file says of itself beside what its entries hold.

    The duration is without the last op, of which no end is recorded.
    """
    start, facts = job.spans["start"][: len(job.rows)], intake.facts
    first = job.rows.origin + int(start.min()) if len(start) else None
    last = job.rows.origin + int(start.max(initial=0))
    patterns = intake.book.patterns
    uses = np.bincount(of_entry, minlength=len(patterns))
    has_lists = bool(patterns) and all(p.has_result for p in patterns)
    told, listed = (
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
            intake.n_elements,
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
            "sources", told, listed, basis="those listed", place="entries.num_sources"
        ),
    )
    return tuple(figure for figure in figures if figure is not None)


def _no_info(job: Job) -> TraceInfo:
    return make_info(job.file.source, "", "")


def _info(intake: Intake, job: Job, schema: Layout, wanted: str) -> TraceInfo:
    facts = intake.facts
    version = schema.id + (" v4" if intake.has_expert_keys else "")
    producer = {
        key: str(value)
        for key, value in facts.items()
        if key in ("format_version", "token_id") and value is not None
    }
    if intake.id_shift:
        producer[ENTRY_ID] = str(intake.id_shift)
    summary = {
        key: facts[key]
        for key in ("total_entries", "duration_ms", "timestamp_start_ns")
        if isinstance(facts.get(key), int | float)
    }
    return replace(
        make_info(job.file.source, job.file.choice.wants.layout.title, version),
        reader_id=READER_ID,
        n_records=intake.n_elements,
        n_passes=job.rows.n_passes,
        producer=producer,
        options={OPS_OPTION: wanted} if wanted else {},
        summary={"layout": schema.id, **summary},
    )
