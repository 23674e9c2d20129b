"""Time that is counted twice: spans within spans, and spans side by side.

The sum of durations shows how much work there was. Where spans nest it counts the
inner ones twice, and where several lanes work at once it is more than the clock. Self
time leaves out what lies within; wall time is what passed on the clock while at least
one of the spans was open.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.statistics import scan
from ggscope.analysis.statistics.grouping import Grouping
from ggscope.analysis.statistics.scan import SpanBlocks, SpanScope
from ggscope.analysis.workers import Watcher, add_by_group, chunks
from ggscope.model.tables import I64, Array, Quality, distinct, latest_owner, quality_of
from ggscope.model.trace import Trace

MAX_SPANS = 1 << 22
"""Of more spans that the compiled scan cannot go over it is unknown how much nests or
lies side by side: it takes a sort."""
_MAX_KEY = 1 << 62
_BATCH = 1 << 16
"""Spans of small lanes that are gone over together."""


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """Self and wall time of groups 0..n-1 and, last, of all together; ticks.

    Attributes
    ----------
    own, wall : int64[n + 1]; None where there are too many spans.
    """

    own: I64 | None
    wall: I64 | None


def nesting(
    trace: Trace,
    groups: Grouping,
    scope: SpanScope,
    total: I64,
    n_used: int,
    *,
    ids: Array | None = None,
    blocks: SpanBlocks | None = None,
    limit: int | None = None,
    watcher: Watcher | None = None,
    keys: npt.NDArray[np.int32] | None = None,
) -> Nesting:
    """Return self and wall time of the spans in scope, whose times are used.

    Parameters
    ----------
    groups : in which each span belongs to one group at most.
    total : int64[n], sum of the durations of each group.
    n_used : how many spans these are.
    limit : of more than these it is unknown where they must be sorted; None =
        MAX_SPANS.
    keys : of the `Figures` of the same groups and scope.
    """
    blocks = SpanBlocks(trace) if blocks is None else blocks
    scanned = None
    if ids is None:
        scanned = scan.nested(trace, groups, scope, blocks, watcher, keys=keys)
    if scanned is not None:
        own_sums, wall = scanned
        own_sums = total if own_sums is None else own_sums
        return Nesting(np.append(own_sums, own_sums.sum()), wall)
    own = _own_times(trace, scope.worst_used, blocks)
    whole = np.append(total, total.sum())
    if own is None and _n_lanes(trace, blocks, only_ops=scope.only_ops) < 2:
        return Nesting(whole, whole)
    if n_used > (MAX_SPANS if limit is None else limit) or (
        own is not None and not len(own)
    ):
        return Nesting(whole if own is None else None, None)
    parts = list(_used(trace, groups, scope, ids, blocks))
    rows = np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in parts)])
    group = np.concatenate([np.zeros(0, np.int64), *(group for _, group in parts)])
    sums = whole
    if own is not None:
        sums = np.zeros(len(whole), np.int64)
        add_by_group(sums, group, own[rows])
        sums[-1] = sums[:-1].sum()
    start, end = trace.spans.start[rows], trace.spans.end[rows]
    wall = covered(group, start, end, len(groups))
    return Nesting(sums, np.append(wall, covered(group * 0, start, end, 1)))


def own_times(start: I64, end: I64, lane: Array) -> I64:
    """Return how long each span is the innermost one of its lane, int64[n].

    Where spans overlap without nesting, the one that began last counts; so the times
    of a lane add up to the time in which it is busy. O(n log n).
    """
    order = np.lexsort((-end, start, lane))
    low, high, where = start[order], end[order], lane[order].astype(np.int64)
    alone = _alone(low, high, where)
    own = np.zeros(len(order), np.int64)
    own[order[alone]] = (high - low)[alone]
    rest = np.flatnonzero(~alone)
    for rows, begin, stop in _side_by_side(low[rest], high[rest], where[rest]):
        edges = distinct(np.concatenate([begin, stop]))
        owner = latest_owner(
            np.searchsorted(edges, begin), np.searchsorted(edges, stop), len(edges)
        )[:-1]
        is_owned = owner >= 0
        length = np.diff(edges)[is_owned]
        sums = np.zeros(len(begin), np.int64)
        add_by_group(sums, owner[is_owned], length)
        own[order[rest[rows]]] = sums
    return own


def covered(group: I64, start: I64, end: I64, n_groups: int) -> I64:
    """Return how much time the spans of each group cover together, int64[n_groups].

    Parameters
    ----------
    group, start, end : of each span, in any order. O(n log n).
    """
    total = np.zeros(n_groups, np.int64)
    if not len(start):
        return total
    zero = int(start.min())
    extent = int(end.max()) - zero + 1
    order = np.lexsort((start, group))
    group, low, high = group[order], start[order] - zero, end[order] - zero
    if extent * n_groups < _MAX_KEY:
        # Each group has times of its own: the latest end so far stays within it.
        shift = group * extent
        reach = np.maximum.accumulate(high + shift)
        before = np.concatenate([[0], reach[:-1]]) - shift
        length = np.maximum(high - np.maximum(low, before), 0)
        add_by_group(total, group, length)
        return total
    first = np.searchsorted(group, np.arange(n_groups + 1))
    for g in range(n_groups):
        part = slice(int(first[g]), int(first[g + 1]))
        if part.start < part.stop:
            reach = np.maximum.accumulate(high[part])
            before = np.concatenate([[low[part][0]], reach[:-1]])
            length = high[part] - np.maximum(low[part], before)
            total[g] = int(np.maximum(length, 0).sum())
    return total


def _side_by_side(low: I64, high: I64, lane: I64) -> Iterator[tuple[slice, I64, I64]]:
    """Yield rows of some lanes at a time, with begins and ends of their own times.

    The times of a lane lie behind those of the lane before, so that spans of two
    lanes share none. Spans are by lane; there may be more lanes than spans in one.
    """
    first = np.flatnonzero(np.diff(lane, prepend=-1) != 0)
    if not len(first):
        return
    behind = np.append(first[1:], len(lane))
    zero = int(low.min())
    extent = int(high.max()) - zero + 1
    at = 0
    while at < len(first):
        full = int(np.searchsorted(behind, first[at] + _BATCH, "right"))
        end = min(max(full, at + 1), at + max(_MAX_KEY // extent, 1))
        rows = slice(int(first[at]), int(behind[end - 1]))
        shift = np.repeat(np.arange(end - at), behind[at:end] - first[at:end])
        shift = shift * extent - zero
        yield rows, low[rows] + shift, high[rows] + shift
        at = end


def _alone(low: I64, high: I64, lane: I64) -> npt.NDArray[np.bool_]:
    """Tell which spans, in order of lane and start, overlap no other of their lane."""
    alone = np.ones(len(low), np.bool_)
    for rows, begin, stop in _side_by_side(low, high, lane):
        meets = begin[1:] < np.maximum.accumulate(stop)[:-1]
        part = alone[rows]
        part[1:] &= ~meets
        part[:-1] &= ~meets
    return alone


def _own_times(trace: Trace, worst: Quality, blocks: SpanBlocks) -> I64 | None:
    """Return the self time of each span; None where none nest, empty where too many."""
    key = ("own", worst)
    if key not in blocks.known:
        blocks.known[key] = _find_own_times(trace, worst)
    return blocks.known[key]


def _find_own_times(trace: Trace, worst: Quality) -> I64 | None:
    s = trace.spans
    used = quality_of(s.flags) <= worst
    rows = None if used.all() else np.flatnonzero(used)
    start, end, lane = (
        column if rows is None else column[rows] for column in (s.start, s.end, s.lane)
    )
    if not _overlaps(start, end, lane):
        return None
    if len(start) > MAX_SPANS:
        return np.zeros(0, np.int64)
    self_times = np.zeros(len(s), np.int64)
    self_times[slice(None) if rows is None else rows] = own_times(start, end, lane)
    return self_times


def _overlaps(start: I64, end: I64, lane: Array) -> bool:
    """Tell whether any two spans of a lane share time."""
    is_sorted = True
    for part in chunks(max(len(start) - 1, 0)):
        here, there = slice(part.start, part.stop), slice(part.start + 1, part.stop + 1)
        same = lane[here] == lane[there]
        if (same & (end[here] > start[there]) & (start[here] <= start[there])).any():
            return True
        is_sorted &= bool((lane[here] <= lane[there]).all())
        is_sorted &= bool((start[here] <= start[there])[same].all())
    if is_sorted:
        return False
    if len(start) > MAX_SPANS:
        return True  # unknown is better than wrong
    order = np.lexsort((start, lane))
    return bool((~_alone(start[order], end[order], lane[order].astype(np.int64))).any())


def _n_lanes(trace: Trace, blocks: SpanBlocks, *, only_ops: bool) -> int:
    """Return how many lanes have a span, or an op."""
    key = ("lanes", only_ops)
    if key not in blocks.known:
        s, counts = trace.spans, np.zeros(len(trace.lanes), np.int64)
        for rows in chunks(len(s)):
            lane = s.lane[rows]
            lane = lane[s.op[rows] >= 0] if only_ops else lane
            counts += np.bincount(lane, minlength=len(counts))
        blocks.known[key] = np.flatnonzero(counts)
    lanes = blocks.known[key]
    return 0 if lanes is None else len(lanes)


def _used(
    trace: Trace,
    groups: Grouping,
    scope: SpanScope,
    ids: Array | None,
    blocks: SpanBlocks,
) -> Iterator[tuple[I64, I64]]:
    """Yield the spans whose times are used, with their groups, int64 each."""
    s, lookup = trace.spans, groups.lookup
    blocks_of_rows = (
        [np.arange(p.start, p.stop) for p in blocks.touching(scope.time)]
        if ids is None
        else [np.unique(np.asarray(ids, np.int64))]
    )
    for part in blocks_of_rows:
        used = quality_of(s.flags[part]) <= scope.worst_used
        rows = part[used & scope.of(s, part)]
        if lookup is None:
            grouped = groups.of(rows)
            rows = rows if grouped.span is None else rows[grouped.span]
            yield rows, grouped.group
        elif lookup.column is None:
            yield rows, np.zeros(len(rows), np.int64)
        else:
            at = lookup.column[rows].astype(np.int64) - lookup.low
            inside = (at >= 0) & (at < len(lookup.table))
            group = np.where(inside, lookup.table[np.where(inside, at, 0)], -1)
            yield rows[group >= 0], group[group >= 0].astype(np.int64)
