"""Several traces as one: further tokens of a run, or another run beside it.

That needs one clock: whether two files share theirs, and else how far one is moved.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ggscope.analysis.sessions import problems, remap_ids
from ggscope.analysis.sessions.remap_ids import Move
from ggscope.analysis.sessions.storage import has_own_clock, joined_storage
from ggscope.errors import QueryError
from ggscope.model.run import RecordCount
from ggscope.model.tables import (
    I64,
    LONGEST_WAIT,
    Accesses,
    Array,
    StringTable,
    stacked,
)
from ggscope.model.tensors import Tensors
from ggscope.model.trace import (
    GRAPH_RECORDS,
    LIST_RECORDS,
    JoinedFile,
    RawFileValues,
    ReadWarning,
    Trace,
    TraceInfo,
)
from ggscope.model.units import TimeRange, Unit, parse_duration

SHIFT_OPTION = "shift"
"""Option of a file in a session: what is added to its times, as the user stated."""
SAME_CLOCK_NS = 600 * 1_000_000_000
"""Files whose times lie no further apart were written in one run: the model of one is
loaded minutes before the first op, the next run comes later than that or has another
zero."""
_SAMPLE = 1000


def raw_range(trace: Trace) -> tuple[int, int]:
    """Return the first and last time of a trace in its file's own clock."""
    origin = trace.clock.origin
    return trace.extent.start + origin, trace.extent.end + origin


def has_times(trace: Trace) -> bool:
    """Return whether anything in a trace has a time."""
    return bool(
        len(trace.spans)
        or len(trace.markers)
        or len(trace.accesses.loose)
        or any(len(series) for series in trace.counters)
        or (trace.buffers.allocated != -1).any()
        or (len(trace.routing) and int(trace.routing.time.max()) >= 0)
    )


def shift_between(main: Trace, other: Trace) -> tuple[int, tuple[ReadWarning, ...]]:
    """Return what is added to the raw times of `other` to put it on `main`'s clock.

    0 where both share a clock. Else `other` begins where `main` does, and a notice
    says that nothing is known of what happened at the same time. Both must count in
    the same unit. A shift that the user states (`SHIFT_OPTION`) goes before either.

    Raises
    ------
    QueryError
        If that shift is no time.
    """
    stated = other.info.options.get(SHIFT_OPTION)
    if stated is not None and has_times(other):
        return parsed_shift(stated, main.clock.unit), ()
    if not has_times(other) or not has_times(main):
        return 0, ()
    begin, end = raw_range(main)
    first, last = raw_range(other)
    by_wall = _shift_by_wall(main, other)
    if by_wall is not None:
        return by_wall, ()
    is_own = has_own_clock(other) or has_own_clock(main)
    if not is_own and max(first - end, begin - last) <= SAME_CLOCK_NS:
        return 0, ()
    notice = problems.other_clock(other.info.name, can_be_shifted=is_own)
    return begin - first, (notice,)


def _shift_by_wall(main: Trace, other: Trace) -> int | None:
    """Return what puts requests to storage on the clock of a trace, or the reverse.

    Where both say which time of day their clocks began at, and ran at that time.
    """
    a, b = main.clock.epoch, other.clock.epoch
    has_storage = main.storage is not None or other.storage is not None
    if not has_storage or a is None or b is None or a == b:
        return None
    shift = b - a
    begin, end = raw_range(main)
    first, last = (tick + shift for tick in raw_range(other))
    return shift if max(first - end, begin - last) <= SAME_CLOCK_NS else None


def parsed_shift(text: str, unit: Unit) -> int:
    """Return a shift in ticks; QueryError where `text` is no time of this unit."""
    try:
        return parse_duration(text, unit)
    except ValueError as error:
        raise QueryError(f"invalid time shift {text!r}: {error}.") from error


def unlike_clocks(main: Trace, other: Trace) -> ReadWarning | None:
    """Return why `other` cannot be put on `main`'s clock; None if it can.

    Cycles become nanoseconds where their frequency is known, and not otherwise.
    """
    is_weight = main.clock.is_weight or other.clock.is_weight
    if not has_times(other) or not has_times(main):
        return None
    if is_weight:
        return problems.weights_apart(other.info.name)
    if main.clock.unit == other.clock.unit:
        return None
    if main.clock.unit == "ns" and other.clock.hz:
        return None
    return problems.clock_unknown(main, other)


def concatenate(traces: Sequence[Trace]) -> Trace:
    """Return all traces on one clock, with the spans of the first one first.

    Files of one clock keep their times and share lanes of the same name; others begin
    where the first one begins, on lanes of their own, with a notice. A file that
    repeats the spans of an earlier one is left out, with a notice. Tensors of the same
    name are one.

    Notes
    -----
    Copies the columns of spans once for all, unless there is one trace only.
    """
    if len(traces) == 1:
        return traces[0]
    prepared = [_prepared(trace, is_first=i == 0) for i, trace in enumerate(traces)]
    whole = _folded(prepared)
    joined = replace(
        whole,
        warnings=remap_ids.sorted_warnings(whole.warnings),
        generation=max(trace.generation for trace in traces) + 1,
    )
    joined.freeze()
    return joined


def is_same_run(a: Trace, b: Trace) -> bool:
    """Return whether nine of ten spans of `b` begin when spans of `a` do, to the tick.

    So do the records of one run that are stored twice, as binary and as JSON.
    """
    if a.clock.unit != b.clock.unit or not len(a.spans) or not len(b.spans):
        return False
    step = max(len(b.spans) // _SAMPLE, 1)
    sample = b.spans.start[::step] + (b.clock.origin - a.clock.origin)
    if int(sample.max()) < a.extent.start or int(sample.min()) > a.extent.end:
        return False
    is_shared = np.isin(sample, a.spans.start)
    return int(np.count_nonzero(is_shared)) * 10 >= len(sample) * 9


def _prepared(trace: Trace, *, is_first: bool) -> Trace:
    """Return a trace that knows which file it is, with strings of its own to add to."""
    warnings = trace.warnings
    if not is_first:
        warnings = remap_ids.placed_warnings(warnings, trace.info.name)
    return replace(
        trace,
        parts=trace.parts or (JoinedFile(trace.info, "trace"),),
        strings=StringTable(trace.strings.texts()),
        warnings=warnings,
    )


def _folded(traces: Sequence[Trace]) -> Trace:
    """Return all traces in one.

    Files of one reader are put together by halves, so that a thousand tokens are not
    copied a thousand times; others one by one, so that each begins with the first.
    """
    if len(traces) == 1:
        return traces[0]
    alike = len({(t.info.reader_id, t.clock.unit) for t in traces}) == 1
    # The shift of one file must not move its neighbours.
    alike &= not any(SHIFT_OPTION in t.info.options for t in traces)
    cut = len(traces) // 2 if alike else len(traces) - 1
    return _appended(_folded(traces[:cut]), _folded(traces[cut:]))


def _appended(whole: Trace, other: Trace) -> Trace:
    """Return `whole` with the tables of `other` behind its own."""
    name = other.info.name
    reason = unlike_clocks(whole, other)
    if is_same_run(whole, other):
        reason = problems.same_run_twice(other)
    if reason is not None:
        parts, warnings = (*whole.parts, *other.parts), (*whole.warnings, reason)
        return replace(whole, parts=parts, warnings=warnings)
    notice: tuple[ReadWarning, ...] = ()
    if other.clock.unit != whole.clock.unit and has_times(whole):
        other, notice = _in_ns(other)
    if not has_times(whole):
        whole = replace(whole, clock=other.clock)
    shift, moved = shift_between(whole, other)
    by = other.clock.origin + shift - whole.clock.origin
    parts = tuple(replace(part, shift=part.shift + shift) for part in other.parts)
    whole = replace(
        whole,
        parts=(*whole.parts, *parts),
        warnings=(*whole.warnings, *other.warnings, *notice, *moved),
    )
    is_same = shift == 0 and whole.info.reader_id == other.info.reader_id
    return _merged(
        whole, other, by, label="" if is_same else name, is_aligned=not moved
    )


def _merged(
    whole: Trace, other: Trace, by: int, *, label: str, is_aligned: bool
) -> Trace:
    strings = remap_ids.string_map(other.strings, whole.strings)
    lanes, lane_of = remap_ids.appended_lanes(
        whole.lanes, other.lanes, label=label, merges=not label
    )
    ops, op_of = remap_ids.joined_ops(whole.ops, other.ops, other.spans.op)
    tensors, tensor_of = _joined_tensors(whole.tensors, other.tensors, strings)
    places = {"strings": strings, "lanes": lane_of, "ops": op_of, "tensors": tensor_of}
    n, n_records = len(whole.spans), _n_records(whole)
    move = Move(places=places, ticks=by, first_span=n, first_record=n_records)
    buffers, buffer_of = remap_ids.joined_buffers(whole.buffers, move.of(other.buffers))
    move = replace(move, places=places | {"buffers": buffer_of})
    ops_of_graphs = np.concatenate([[-1], *(graph.op for graph in other.graphs)])
    ops, op_of = remap_ids.joined_ops(ops, other.ops, ops_of_graphs)
    move_graph = replace(move, places=places | {"ops": op_of})
    first_pattern = len(whole.accesses.first) - 1
    records = np.asarray(remap_ids.record_numbers(whole.spans), np.int64)
    spans = replace(whole.spans, record=np.where(records < 0, -1, records))
    return replace(
        whole,
        info=_joined_info(whole.info, other.info),
        extent=_widened(whole, other, by),
        lanes=lanes,
        ops=ops,
        spans=stacked(spans, move.of(other.spans)),
        markers=remap_ids.joined_markers(whole.markers, move.of(other.markers)),
        accesses=_joined_accesses(whole.accesses, other.accesses, move),
        counters=(
            *whole.counters,
            *remap_ids.moved_counters(other.counters, lane_of, by, len(whole.counters)),
        ),
        flows=stacked(whole.flows, move.of(other.flows)),
        tensors=tensors,
        buffers=buffers,
        graphs=(*whole.graphs, *map(move_graph.of, other.graphs)),
        models=(*whole.models, *other.models),
        routing=remap_ids.joined_routing(whole.routing, move.of(other.routing)),
        batch_tokens=stacked(whole.batch_tokens, other.batch_tokens),
        token_sequences=stacked(
            whole.token_sequences,
            replace(
                other.token_sequences,
                token=other.token_sequences.token + len(whole.batch_tokens),
            ),
        ),
        records=_joined_records(whole, other, n_records),
        joins=(*whole.joins, *other.joins),
        recordings=(*whole.recordings, *other.recordings),
        record_count=_joined_count(whole.record_count, other.record_count),
        claims=_joined_claims(whole, other, move, first_pattern),
        storage=joined_storage(
            whole.storage, other.storage, move, is_aligned=is_aligned
        ),
    )


def _joined_count(a: RecordCount | None, b: RecordCount | None) -> RecordCount | None:
    """Return the records of both; None where one of them does not count its own."""
    if a is None or b is None:
        return None
    return RecordCount(a.n_there + b.n_there, a.n_lost + b.n_lost)


def _joined_info(a: TraceInfo, b: TraceInfo) -> TraceInfo:
    return replace(
        a,
        paths=(*a.paths, *b.paths),
        format=a.format if a.format == b.format else f"{a.format} and {b.format}",
        byte_size=a.byte_size + b.byte_size,
        n_records=a.n_records + b.n_records,
        n_passes=a.n_passes + b.n_passes,
        summary=_joined_summary(a, b),
    )


def _joined_summary(a: TraceInfo, b: TraceInfo) -> dict[str, object]:
    """Return the figures of `a`, with how many records of both are no ops.

    Files of events alone have no such figures: events are no ops.
    """
    kinds = {LIST_RECORDS: "lists of experts", GRAPH_RECORDS: "graphs"}
    summary = {key: value for key, value in a.summary.items() if key not in kinds}
    if a.reader_id == b.reader_id and (a.records_by_kind or b.records_by_kind):
        for key, word in kinds.items():
            summary[key] = sum(info.records_by_kind.get(word, 0) for info in (a, b))
    return summary


def _n_records(trace: Trace) -> int:
    """Return a number that no record of the trace has."""
    record = trace.spans.record
    if record is None:
        return max(len(trace.spans), trace.info.n_records)
    return max(int(record.max(initial=-1)) + 1, trace.info.n_records)


def _joined_records(
    whole: Trace, other: Trace, first: int
) -> remap_ids.JoinedRecords | None:
    before = whole.records
    if isinstance(before, remap_ids.JoinedRecords):
        return remap_ids.JoinedRecords(
            (*before.first, first), (*before.parts, other.records)
        )
    if before is None and other.records is None:
        return None
    return remap_ids.JoinedRecords((0, first), (before, other.records))


def _widened(whole: Trace, other: Trace, by: int) -> TimeRange:
    if not has_times(other):
        return whole.extent
    moved = other.extent.shifted(by)
    if not has_times(whole):
        return moved
    return TimeRange(
        min(whole.extent.start, moved.start), max(whole.extent.end, moved.end)
    )


def _in_ns(trace: Trace) -> tuple[Trace, tuple[ReadWarning, ...]]:
    """Return a trace of cycles with its times in nanoseconds."""
    hz = trace.clock.hz or 1e9
    factor = 1e9 / hz

    def scaled(ticks: Array) -> Array:
        return np.rint(ticks * factor).astype(np.int64)

    spans, wait = trace.spans, trace.spans.wait
    if wait is not None:
        cut = np.minimum(scaled(wait), LONGEST_WAIT)
        wait = np.where(wait >= LONGEST_WAIT, wait, cut).astype(np.uint32)
    spans = replace(spans, start=scaled(spans.start), end=scaled(spans.end), wait=wait)
    loose = replace(trace.accesses.loose, time=scaled(trace.accesses.loose.time))
    counters = tuple(
        replace(
            series,
            time=scaled(series.time),
            window=None if series.window is None else scaled(series.window),
        )
        for series in trace.counters
    )
    extent = TimeRange(
        round(trace.extent.start * factor), round(trace.extent.end * factor) + 1
    )
    notice = problems.cycles_as_time(trace.info.name, hz)
    return replace(
        trace,
        clock=replace(
            trace.clock, unit="ns", origin=round(trace.clock.origin * factor)
        ),
        extent=extent,
        spans=spans,
        markers=replace(trace.markers, time=scaled(trace.markers.time)),
        accesses=replace(trace.accesses, loose=loose),
        counters=counters,
    ), (notice,)


def _joined_tensors(a: Tensors, b: Tensors, strings: Array) -> tuple[Tensors, Array]:
    """Return one table, and the row in it of each row of `b`.

    Rows of the same name are one where their places do not contradict each other.
    """
    b = remap_ids.full_tensors(replace(b, name=remap_ids.looked_up(strings, b.name)))
    a = remap_ids.full_tensors(a)
    row_of = {name: row for row, name in reversed(list(enumerate(a.name.tolist())))}
    place = np.array([row_of.get(name, -1) for name in b.name.tolist()], np.int64)
    known = np.flatnonzero(place >= 0)
    mine, theirs = a.offset[place[known]], b.offset[known]
    differs = (mine >= 0) & (theirs >= 0) & (mine != theirs)
    place[known[differs]] = -1
    known = known[~differs]
    offset, size = a.offset.copy(), a.size.copy()
    np.maximum.at(offset, place[known], b.offset[known])
    np.maximum.at(size, place[known], b.size[known])
    fresh = np.flatnonzero(place < 0)
    place[fresh] = len(a) + np.arange(len(fresh))
    joined = replace(a, offset=offset, size=size)
    if len(fresh):
        joined = stacked(joined, b.take(fresh))
    return joined, place.astype(np.int32)


def _joined_accesses(a: Accesses, b: Accesses, move: Move) -> Accesses:
    n_patterns, n_rows = len(a.first) - 1, len(a.patterns)
    pattern = np.where(b.pattern < 0, -1, b.pattern.astype(np.int32) + n_patterns)
    loose = replace(move.of(b.loose), what=move.of(b.loose.what))
    return Accesses(
        np.concatenate([a.pattern, pattern]),
        np.concatenate([a.first, b.first[1:] + n_rows]),
        stacked(a.patterns, move.of(b.patterns)),
        stacked(a.loose, loose),
        _joined_results(a, b),
        _joined_writers(a, b),
    )


def _joined_results(a: Accesses, b: Accesses) -> I64 | None:
    """Return the sizes of results of both; None where neither has any."""
    if a.result is None and b.result is None:
        return None
    parts = [
        np.full(len(one.first) - 1, -1, np.int64) if one.result is None else one.result
        for one in (a, b)
    ]
    return np.concatenate(parts)


def _joined_writers(a: Accesses, b: Accesses) -> Array | None:
    """Return the patterns that wrote what both access; None where neither has any."""
    if a.writer is None and b.writer is None:
        return None
    n_patterns, parts = len(a.first) - 1, list[Array]()
    for one, first in ((a, 0), (b, n_patterns)):
        if one.writer is None:
            parts.append(np.full(len(one.patterns), -1, np.int32))
        else:
            parts.append(np.where(one.writer >= 0, one.writer + first, -1))
    return np.concatenate(parts).astype(np.int32)


def _joined_claims(
    whole: Trace, other: Trace, move: Move, first_pattern: int
) -> RawFileValues | None:
    """Return the files' own words, where both keep them and mean the same by them."""
    a, b = whole.claims, other.claims
    if a is None or b is None or a.has_results != b.has_results:
        return None
    return stacked(a, move.of(b)) if len(a) == first_pattern else None
