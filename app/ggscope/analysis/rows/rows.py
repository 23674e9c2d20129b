"""Rows: lines of non-overlapping spans, sorted by start.

Spans that lie in a few sorted runs, as those of threads do, are merged instead.
"""

import heapq
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, distinct
from ggscope.native.library import library

PREFIX_STEP = 16
"""Covered time is kept before every so many spans: half a byte per span."""

COARSE_STEP = 16
"""Searches begin at every 16th start, kept side by side: half a byte per span."""

MAX_ROWS = 512
"""Deeper spans of a lane are drawn as one row: nobody can look at more."""


class SpanIds:
    """Consecutive span ids, as light as a slice and indexed like an array.

    Most lanes of a trace lie in one piece: four bytes per span would only count.
    Indexing with a number gives an int, with a slice or integers an array.

    Parameters
    ----------
    first : the first id.
    n : how many there are.
    dtype : of the arrays that come out, a signed integer type.
    """

    __slots__ = ("_n", "dtype", "first")

    def __init__(self, first: int, n: int, dtype: type = np.int32) -> None:
        self.first = first
        self._n = n
        self.dtype = np.dtype(dtype)

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice | Array | list[int]) -> Array: ...
    def __getitem__(self, at: int | slice | Array | list[int]) -> int | Array:
        """Return the ids at `at`. Raises IndexError beyond the ends."""
        if isinstance(at, slice):
            begin, stop, step = at.indices(self._n)
            first = self.first
            return np.arange(first + begin, first + stop, step, dtype=self.dtype)
        if isinstance(at, int | np.integer):
            return self.first + range(self._n)[int(at)]
        positions = np.asarray(at)
        if positions.dtype == np.bool_:
            if len(positions) != self._n:
                raise IndexError(f"{len(positions)} marks for {self._n} ids")
            positions = np.flatnonzero(positions)
        positions = positions.astype(np.int64)
        positions = np.where(positions < 0, positions + self._n, positions)
        if (
            positions.size
            and not 0 <= int(positions.min()) <= int(positions.max()) < self._n
        ):
            raise IndexError(f"positions beyond {self._n} ids")
        return (positions + self.first).astype(self.dtype)

    def __contains__(self, span: object) -> bool:
        is_number = isinstance(span, int | np.integer)
        return is_number and 0 <= int(span) - self.first < self._n  # type: ignore[call-overload]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        """Return all ids; they exist only from now on, so it is always a copy."""
        if copy is False:
            raise ValueError("consecutive ids are not stored: they must be copied")
        return self[:].astype(dtype or self.dtype, copy=False)

    def of(self, column: Array) -> Array:
        """Return ``column[ids]`` without a copy."""
        return column[self.first : self.first + self._n]


Ids: TypeAlias = "Array | SpanIds"


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One line of spans of which no two overlap.

    Attributes
    ----------
    start, end : int64[n], ticks, sorted by start, ``end[i] <= start[i + 1]``.
    id : span ids, any integer dtype, [n]; `SpanIds` where they are consecutive.
    prefix : int64[n // PREFIX_STEP + 1], ``prefix[i] = Σ_{k < i * PREFIX_STEP}
        (end[k] - start[k])``: covered time before every PREFIX_STEP-th span.
    coarse : int64[ceil(n / COARSE_STEP)], every COARSE_STEP-th start.
    levels : how many levels of nesting the row stands for; more than one in the
        last row of a lane that is deeper than MAX_ROWS.
    puts : of a row that grows: from which position on spans were put, each time, and
        how many times until now.
    """

    start: I64
    end: I64
    id: Ids
    prefix: I64
    coarse: I64
    levels: int = 1
    puts: tuple[list[int], int] | None = None

    def __len__(self) -> int:
        return len(self.start)

    def n_same_since(self, before: "Row | None") -> int | None:
        """Return how many of the first spans are as in `before`, this row a while ago.

        0 for another row, None where `before` is the later one.
        """
        if self.puts is None or before is None or before.puts is None:
            return 0
        (puts, now), (same, then) = self.puts, before.puts
        if puts is not same:
            return 0
        return None if now < then else min([len(before), *puts[then:now]])

    @property
    def total_covered(self) -> int:
        """Time that the whole row covers, ticks."""
        block = len(self) // PREFIX_STEP
        start, end = (at[block * PREFIX_STEP :] for at in (self.start, self.end))
        return int(self.prefix[block]) + int((end - start).sum())

    def covered_at(self, positions: I64) -> I64:
        """Return the time covered by the spans before each position, int64[m].

        `positions` are int64[m], 0..n. Exact: a prefix and at most 15 lengths.
        """
        if not len(self):
            return np.zeros(len(positions), np.int64)
        block, rest = np.divmod(positions, PREFIX_STEP)
        step = np.arange(PREFIX_STEP - 1)
        at = np.minimum((block * PREFIX_STEP)[:, None] + step, len(self) - 1)
        length = self.end[at] - self.start[at]
        inside: I64 = np.where(step < rest[:, None], length, 0).sum(axis=1)
        return self.prefix[block] + inside

    def values_of(self, column: Array) -> Array:
        """Return ``column[id]`` of a column per span id; a view where that can be."""
        ids = self.id
        return ids.of(column) if isinstance(ids, SpanIds) else column[ids]

    def select(self, mask: npt.NDArray[np.bool_]) -> "Row":
        """Return the spans whose ids are marked; `mask` is bool[n_spans]."""
        keep = self.values_of(mask)
        return make_row(self.start[keep], self.end[keep], self.id[keep])

    def at(self, tick: int) -> int | None:
        """Return the id of the span that covers `tick`, or None."""
        i = int(np.searchsorted(self.start, tick, "right")) - 1
        # Spans of zero length at `tick` cover nothing and end before a longer one.
        if i < 0 or tick >= int(self.end[i]):
            return None
        return int(self.id[i])

    def touching(self, start: int, end: int) -> tuple[int, int]:
        """Return (first, stop): the positions of the spans that touch a range.

        A span touches ``[start, end)`` if a tick of it lies inside, a span of
        zero length if its tick does.
        """
        first, stop = (
            int(i) for i in np.searchsorted(self.start, np.array([start, end]), "left")
        )
        if first > 0 and int(self.end[first - 1]) > start:
            first -= 1
        return first, max(first, stop)

    def around(self, start: int) -> tuple[int, int]:
        """Return (last position before, first behind) what starts at `start`."""
        after = int(np.searchsorted(self.start, start, "right"))
        return int(np.searchsorted(self.start, start, "left")) - 1, after

    def position(self, span: int, start: int) -> int | None:
        """Return where span `span`, which starts at `start`, lies in the row."""
        first = int(np.searchsorted(self.start, start, "left"))
        stop = int(np.searchsorted(self.start, start, "right"))
        positions = np.flatnonzero(self.id[first:stop] == span)
        return first + int(positions[0]) if len(positions) else None


def make_row(start: I64, end: I64, ids: Ids) -> Row:
    """Return a row from sorted, non-overlapping spans (not checked).

    The arrays are kept, not copied where their values lie next to each other.
    """
    start, end = np.ascontiguousarray(start), np.ascontiguousarray(end)
    n_blocks = len(start) // PREFIX_STEP
    prefix = np.zeros(n_blocks + 1, np.int64)
    library().ggscope_rows_prefix(start, end, len(start), prefix)
    prefix.flags.writeable = False
    return Row(start, end, ids, prefix, start[::COARSE_STEP].copy())


def stack(start: I64, end: I64, ids: Ids) -> tuple[Row, ...]:
    """Spread spans over as few rows as needed, outermost first.

    Nested spans get one row per depth; partial overlaps are placed greedily.
    Zero-length spans count as touching only their own tick. Input need not be
    sorted. Vectorised for the usual cases (no overlap; proper nesting). There are
    at most MAX_ROWS rows: the last one shows the union of all that is deeper.

    Notes
    -----
    Spans that already are a row are not copied. Of two spans that start
    together the longer one is the outer one; a span of zero length fits before
    any span that starts at its tick.
    """
    if not len(start):
        return ()
    if not _overlap(start, end):
        return (make_row(start, end, ids),)
    order = _outermost_first(start, end)
    if order is not None:
        start, end, ids = start[order], end[order], ids[order]
        if not _overlap(start, end):
            return (make_row(start, end, ids),)
    depth = _depths(start, end)
    by_depth = _stable_order(depth)
    clash = _clashes(start, end, depth, by_depth)
    if clash.any():
        _place_clusters_slow(start, end, depth, clash)
        by_depth = _stable_order(depth)
    n_levels = int(depth.max()) + 1
    n_plain = n_levels if n_levels <= MAX_ROWS else MAX_ROWS - 1
    bounds = np.searchsorted(depth[by_depth], np.arange(n_plain + 1))
    levels = (by_depth[a:b] for a, b in pairwise(bounds))
    rows = tuple(make_row(start[r], end[r], ids[r]) for r in levels)
    if n_levels == n_plain:
        return rows
    deep = np.sort(by_depth[bounds[-1] :])
    union = flatten(start[deep], end[deep], ids[deep])
    return (*rows, replace(union, levels=n_levels - n_plain))


def depths(start: I64, end: I64, lane: Array) -> Array:
    """Return how many spans of its lane are open where each span begins, int32[n].

    For all lanes at once, in any order; lane numbers are not negative. The deepest
    span of a lane says how many rows `stack` needs for it, less one. O(n log n), and
    O(n) where spans come lane by lane in time order and nest.
    """
    order = _lane_by_lane(start, end, lane)
    if order is not None:
        start, end, lane = start[order], end[order], lane[order]
    start, end = np.ascontiguousarray(start), np.ascontiguousarray(end)
    depth = np.empty(len(start), np.int32)
    of_lane = np.ascontiguousarray(lane, np.int32)
    if library().ggscope_rows_depths(len(start), of_lane, start, end, depth):
        if order is None:
            return depth
        result = np.empty_like(depth)
        result[order] = depth
        return result
    depth[:] = 0
    # Lanes whose spans follow each other are done with; most lanes are such.
    overlaps = (start[1:] < end[:-1]) & (lane[1:] == lane[:-1])
    if not overlaps.any():
        return depth
    nested = np.zeros(int(lane[-1]) + 1, np.bool_)
    nested[lane[1:][overlaps]] = True
    chosen = np.flatnonzero(nested[lane])
    start, end, lane = start[chosen], end[chosen], lane[chosen].astype(np.int64)
    lasting = end > start
    opened: I64 = np.cumsum(lasting) - lasting
    # Ends of other lanes must not count: a lane and a time in one key.
    first, until = int(start.min()), int(end.max())
    if (until - first + 1) * (int(lane[-1]) + 1) < 1 << 62:
        step = np.int64(until - first + 1)
        closing = lane[lasting] * step + (end[lasting] - first)
        now = lane * step + (start - first)
    else:  # times of that range are ranked first
        times = distinct(end[lasting])
        step = np.int64(len(times) + 1)
        closing = lane[lasting] * step + np.searchsorted(times, end[lasting])
        now = lane * step + np.searchsorted(times, start, "right") - 1
    # In the order of their begins the ends are nearly in order, too.
    closing.sort(kind="stable")
    # Both counts include the lanes before, whose spans have all ended.
    deep = opened - np.searchsorted(closing, now, "right")
    depth[chosen if order is None else order[chosen]] = deep
    return depth


def _lane_by_lane(start: I64, end: I64, lane: Array) -> Array | None:
    """Return the order by (lane, start, zero length first, longer first).

    None where spans are in that order.
    """
    order = None
    if bool((lane[1:] < lane[:-1]).any()):
        # numpy sorts integers of 16 bits by radix; in a lane times often ascend.
        small = int(lane.max()) < 1 << 15
        order = np.argsort(lane.astype(np.int16) if small else lane, kind="stable")
        start, end, lane = start[order], end[order], lane[order]
    same = lane[1:] == lane[:-1]
    if not (same & (start[1:] < start[:-1])).any() and _ties_stand(
        start, end, np.flatnonzero(same & (start[1:] == start[:-1]))
    ):
        return order
    inside = np.lexsort((-end, end > start, start, lane))
    return inside if order is None else order[inside]


def flatten(start: I64, end: I64, ids: Ids) -> Row:
    """Return one row that covers exactly the union of the spans.

    Of spans that overlap, the one that starts first (at equal starts: the
    longest) is in front; a later one shows the part that sticks out behind it,
    and one that is hidden altogether is left out. Made for thin lanes that
    gather the spans of several threads.
    """
    order = _outermost_first(start, end)
    if order is not None:
        start, end, ids = start[order], end[order], ids[order]
    if not len(start) or not _overlap(start, end):
        return make_row(start, end, ids)
    reach = np.maximum.accumulate(end)
    begin = start.copy()
    np.maximum(start[1:], reach[:-1], out=begin[1:])
    # A span of zero length is hidden only strictly inside another one.
    seen = end > begin
    seen |= (start == end) & (begin == start)
    return make_row(begin[seen], end[seen], ids[seen])


def _overlap(start: I64, end: I64) -> bool:
    """Return whether the spans are not a row as they stand."""
    start, end = np.ascontiguousarray(start), np.ascontiguousarray(end)
    return not library().ggscope_rows_are_sorted(start, end, len(start))


def _outermost_first(start: I64, end: I64) -> Array | None:
    """Return the order (start, zero length first, longer first); None if it is so."""
    if bool((start[1:] >= start[:-1]).all()):
        order = None
    else:
        # Spans of several threads are a few runs in order, which this sort merges.
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    if _ties_stand(start, end, np.flatnonzero(start[1:] == start[:-1])):
        return order
    by_start = np.lexsort((-end, end > start, start))
    return by_start if order is None else order[by_start]


def _ties_stand(start: I64, end: I64, ties: Array) -> bool:
    """Return whether spans at `ties` may come before the next of the same start."""
    at, here, there = start[ties], end[ties], end[ties + 1]
    return bool(((here == at) | ((there != at) & (here >= there))).all())


def _depths(start: I64, end: I64) -> Array:
    """Return how many earlier spans are still open where each one starts."""
    lasting = end > start
    opened: I64 = np.cumsum(lasting) - lasting
    closed = np.searchsorted(np.sort(end[lasting]), start, "right")
    return np.asarray(opened - closed, np.int32)


def _stable_order(depth: Array) -> Array:
    """Return the order by depth that keeps the order of equals."""
    # numpy sorts integers of 16 bits by radix, four times as fast.
    small = int(depth.max()) < 1 << 15
    return np.argsort(depth.astype(np.int16) if small else depth, kind="stable")


def _clashes(
    start: I64, end: I64, depth: Array, by_depth: Array
) -> npt.NDArray[np.bool_]:
    """Return bool[n]: spans in whose cluster some row has an overlap.

    A cluster is a run of spans that overlap each other directly or indirectly.
    """
    a, b = by_depth[:-1], by_depth[1:]
    bad = (depth[a] == depth[b]) & (end[a] > start[b])
    if not bad.any():
        return np.zeros(len(start), np.bool_)
    reach = np.maximum.accumulate(end)
    cluster = np.cumsum(np.concatenate(([False], start[1:] >= reach[:-1])))
    guilty = np.zeros(int(cluster[-1]) + 1, np.bool_)
    guilty[cluster[b[bad]]] = True
    return np.asarray(guilty[cluster], np.bool_)


def _place_clusters_slow(
    start: I64, end: I64, depth: Array, clash: npt.NDArray[np.bool_]
) -> None:
    """Write the lowest free row of each span in `clash` to `depth`.

    A loop over spans: which row is free depends on every earlier choice. Only
    spans of clusters with a partial overlap come here, which measured traces
    hardly have.
    """
    which = np.flatnonzero(clash)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    n_rows = 0
    placed: list[int] = []
    for begin, finish in zip(start[which].tolist(), end[which].tolist(), strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row = n_rows
            n_rows += 1
        heapq.heappush(busy, (finish, row))
        placed.append(row)
    depth[which] = placed


MAX_RUNS = 1024
"""Spans in more runs than this are sorted instead."""
_TRIM = 0.75


def merged_order(start: I64) -> Array | None:
    """Return span numbers by (start, number), int32; None: sort them.

    That is where the spans lie in too many sorted runs.
    """
    start = np.ascontiguousarray(start)
    bounds = _runs(start, None, None)
    if bounds is None:
        return None
    order = np.empty(len(start), np.int32)
    library().ggscope_merge_order(start, None, None, bounds, len(bounds) - 1, order)
    return order


def flatten_merged(start: I64, end: I64, ids: Array) -> Row | None:
    """Return ``rows.flatten(start[ids], end[ids], ids)``; None: ask that.

    Parameters
    ----------
    start, end : int64 of all spans of a trace.
    ids : int32[n] into these, those of the row. Others than int32 are left to
        numpy, and so are ids that do not exist, which it complains of.
    """
    if ids.dtype != np.int32:
        return None
    start, end, ids = map(np.ascontiguousarray, (start, end, ids))
    bounds = _runs(start, end, ids)
    if bounds is None:
        return None
    first, stop = np.empty((2, len(ids)), np.int64)
    order = np.empty(len(ids), np.int32)
    n = library().ggscope_merge_flatten(
        start, end, ids, bounds, len(bounds) - 1, first, stop, order
    )
    first, stop, order = first[:n], stop[:n], order[:n]
    if n < _TRIM * len(ids):
        first, stop, order = first.copy(), stop.copy(), order.copy()
    return make_row(first, stop, order)


def _runs(start: I64, end: I64 | None, ids: Array | None) -> I64 | None:
    """Return where each run begins and the last one ends; None for too many runs."""
    n = len(start) if ids is None else len(ids)
    if not n or len(start) >= 1 << 31:
        return None
    bounds = np.zeros(MAX_RUNS + 1, np.int64)
    k = library().ggscope_merge_runs(start, end, ids, n, len(start), bounds)
    return None if k < 0 else bounds[: k + 1]
