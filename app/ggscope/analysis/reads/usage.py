"""What the trace did with one tensor, buffer, node or expert: exact sums."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.links import (
    Bools,
    Touch,
    buffer_touch,
    expert_touch,
    marked,
    routed_keys,
    tensor_touch,
)
from ggscope.analysis.reads.op_io import (
    AccessTable,
    Direction,
    loose_bytes,
    loose_unsized,
    op_accesses,
)
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.workers import Watcher, chunks, count_values
from ggscope.model.graph import locate_node
from ggscope.model.selection import Selection
from ggscope.model.tables import I64, AccessKind, Quality, distinct, empty, quality_of
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

_QUALITIES = len(Quality)


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """Figures of one selected tensor, buffer, node or expert.

    Attributes
    ----------
    n_accesses : how often it is accessed; each access of each op counts, however many
        threads record it.
    bytes_read, bytes_written : known bytes of these.
    unknown_read, unknown_written : upper bound of bytes that may be moved as well.
    unsized_reads, unsized_writes : accesses of unknown size.
    n_spans : spans that access it or, for a node, are it.
    time : first to last tick of these spans; None without any.
    n_tokens : distinct tokens of these spans; -1 where the trace has no tokens.
    ticks, n_by_quality : int64[4], summed duration and number of the spans that are
        this node (or write this tensor), by `Quality`.
    """

    n_spans: int
    time: TimeRange | None
    n_tokens: int
    ticks: I64
    n_by_quality: I64
    n_accesses: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    unknown_read: int = 0
    unknown_written: int = 0
    unsized_reads: int = 0
    unsized_writes: int = 0


def usage_of(
    trace: Trace,
    selection: Selection,
    correlation: Correlation | None = None,
    watcher: Watcher | None = None,
) -> Usage:
    """Return the figures of the active row of a selection that is no span.

    Accesses are summed per entry of the `AccessTable` and multiplied by how often it
    occurs: the sums over all ops, exactly.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    row = selection.active
    assert row is not None
    ids = np.array([row], np.int64)
    if selection.table == "nodes":
        return _of_node(trace, row, correlation, watcher)
    if selection.table == "tensors":
        own = marked(len(trace.tensors), ids)
        return _of_accesses(trace, tensor_touch(trace, ids), own, None, watcher)
    if selection.table == "buffers":
        return _of_accesses(trace, buffer_touch(trace, ids), None, None, watcher)
    routed = trace.routing.span[routed_keys(trace) == row].astype(np.int64)
    return _of_accesses(trace, expert_touch(trace, ids), None, routed, watcher)


def _of_accesses(
    trace: Trace,
    touch: Touch,
    own: Bools | None,
    routed: I64 | None,
    watcher: Watcher | None,
) -> Usage:
    spans, table, loose = trace.spans, op_accesses(trace), trace.accesses.loose
    hits, loose_hits = touch(table.what) & table.is_access, touch(loose.what)
    times = table.row_times()[hits]
    # Of a stack of experts each of them is one; of a tensor the access counts once.
    ones = np.ones(len(times), np.int64)
    counts = table.counts[hits] if routed is None else ones
    of_loose = loose_bytes(trace)[0][loose_hits]
    is_loose_write = loose.what.kind[loose_hits] == AccessKind.WRITE
    sums = _sums(table, times, hits)
    sums["n_accesses"] = int((times * counts).sum()) + len(of_loose)
    sums["bytes_read"] += int(of_loose[~is_loose_write].sum())
    sums["bytes_written"] += int(of_loose[is_loose_write].sum())
    is_unsized = loose_unsized(trace)[loose_hits]
    sums["unsized_reads"] += int((is_unsized & ~is_loose_write).sum())
    sums["unsized_writes"] += int((is_unsized & is_loose_write).sum())
    entry_hit = np.append(table.per_entry(hits.astype(np.int64)) > 0, False)
    extra = loose.span[loose_hits].astype(np.int64)
    if routed is not None:
        extra = np.concatenate([extra, routed])
    extra = np.unique(extra[extra >= 0])
    column = spans.tensor if own is not None else None
    seen = _Seen(trace)
    for rows in chunks(len(spans)):
        mask = entry_hit[table.entries(rows)]
        is_own = mask[:0]
        if column is not None and own is not None:
            is_own = own[column[rows]]
            mask = mask | is_own
        begin, end = np.searchsorted(extra, (rows.start, rows.stop))
        mask[extra[begin:end] - rows.start] = True
        seen.add(np.flatnonzero(mask) + rows.start)
        seen.add_time(np.flatnonzero(is_own) + rows.start)
        if watcher is not None:
            watcher.progress(rows.stop, len(spans))
    return seen.usage(sums)


def _sums(table: AccessTable, times: I64, rows: Bools | slice) -> dict[str, int]:
    """Return the bytes that some accesses move, by the names of `Usage`."""

    def total(direction: Direction, values: I64) -> int:
        mine = table.direction[rows] == direction
        return int((times * values[rows])[mine].sum())

    return {
        "bytes_read": total(Direction.READ, table.known),
        "bytes_written": total(Direction.WRITE, table.known),
        "unknown_read": total(Direction.READ, table.unknown),
        "unknown_written": total(Direction.WRITE, table.unknown),
        "unsized_reads": total(Direction.READ, table.unsized),
        "unsized_writes": total(Direction.WRITE, table.unsized),
    }


def _of_node(
    trace: Trace, node: int, correlation: Correlation | None, watcher: Watcher | None
) -> Usage:
    seen = _Seen(trace)
    number, row = locate_node(trace.graphs, node)
    graph = trace.graphs[number]
    tensor = graph.tensor[row : row + 1].astype(np.int64)
    ids = empty(np.int64) if correlation is None else correlation.spans_of(node)
    may_be_matched = correlation is None and int(graph.op[row]) >= 0
    if not len(ids) and len(tensor) and tensor[0] >= 0 and not may_be_matched:
        # A weight or an input: no op computes it, but ops read it.
        own = marked(len(trace.tensors), tensor)
        return _of_accesses(trace, tensor_touch(trace, tensor), own, None, watcher)
    if correlation is None:
        return seen.usage({})
    seen.add(ids)
    seen.add_time(ids)
    table = op_accesses(trace)
    entry_times = count_values(table.counted_entries(ids), len(table))
    times = np.repeat(entry_times, np.diff(table.first))
    sums = _sums(table, times, slice(None))
    return seen.usage(sums | {"n_accesses": int((times * table.counts).sum())})


class _Seen:
    """Gathers time, tokens and durations of spans."""

    def __init__(self, trace: Trace) -> None:
        self._spans = trace.spans
        self._token = tokens_of(trace).key
        self._n = 0
        self._begin: int | None = None
        self._end = 0
        self._tokens = np.zeros(0, np.int64)
        self._ticks = np.zeros(_QUALITIES, np.int64)
        self._by_quality = np.zeros(_QUALITIES, np.int64)

    def add(self, ids: I64) -> None:
        """Take note of spans that have to do with it."""
        if not len(ids):
            return
        self._n += len(ids)
        begin, end = self._spans.start[ids], self._spans.end[ids]
        first = int(begin.min())
        self._begin = first if self._begin is None else min(self._begin, first)
        self._end = max(self._end, int(end.max()))
        if self._token is not None:
            token = distinct(self._token[ids]).astype(np.int64)
            self._tokens = np.union1d(self._tokens, token[token >= 0])

    def add_time(self, ids: I64) -> None:
        """Add up how long spans took that are the thing itself."""
        lasted = self._spans.end[ids] - self._spans.start[ids]
        quality = quality_of(self._spans.flags[ids])
        for kind in range(_QUALITIES):
            some = quality == kind
            self._ticks[kind] += int(lasted[some].sum())
            self._by_quality[kind] += int(some.sum())

    def usage(self, sums: dict[str, int]) -> Usage:
        """Return what was gathered, with these sums."""
        time = None if self._begin is None else TimeRange(self._begin, self._end)
        return Usage(
            n_spans=self._n,
            time=time,
            n_tokens=-1 if self._spans.token is None else len(self._tokens),
            ticks=self._ticks,
            n_by_quality=self._by_quality,
            **sums,
        )
