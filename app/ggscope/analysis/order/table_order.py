"""The order of the table's rows: which spans, sorted by what. No Qt here.

Sorting 33 million spans takes seconds, putting them into some ten thousand buckets
a third of one: the user sees fifty rows at a time, and those are quickly sorted.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filters.masks import touches
from ggscope.analysis.order.time_merge import TimeMerge, TimeRuns
from ggscope.analysis.rows.index import TraceIndex, mask_of_lanes
from ggscope.analysis.rows.tracks import lanes_where
from ggscope.analysis.workers import Watcher, chunks, count_values, n_workers, share_out
from ggscope.model.selection import MarkedRange
from ggscope.model.tables import (
    I64,
    Array,
    Quality,
    Spans,
    quality_of,
    schema_of,
    taken,
)
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.native.library import library

N_CODES = 1 << 16
MAX_UNSORTED = 1 << 16
"""A larger bucket holds one value only."""
_PIECE_ROWS = 1 << 17
"""Rows whose temporaries fit the cache."""
_STEP_ROWS = 1 << 21
"""Rows that each thread places between two looks at the watcher, about 20 ms."""
_MISSING = np.iinfo(np.int64).max
_MIN_COMPILED = 1 << 18
"""Rows from which on the compiled sort gains more than its threads cost."""
_ONE = int(np.float32(1).view(np.int32))
_CODED_BITS = 10
"""Of the mantissa; with the 63 powers of two just fewer than 2^16 codes."""
U16 = npt.NDArray[np.uint16]
_LAST = np.iinfo(np.int64).max
_BLOCK_ROWS = 1 << 10
_KEPT_BLOCKS = 32


@dataclass(frozen=True, slots=True, eq=False)
class OrderEncoder:
    """Turns values into codes that ascend with them.

    Attributes
    ----------
    encode : takes int64 values; the greatest one stands for "missing" and gets the
        last code.
    is_exact : whether different values have different codes.
    """

    encode: Callable[[I64], U16]
    is_exact: bool


def partition(
    n: int,
    ids: Array | None,
    values: Callable[[slice | Array], I64],
    coder: OrderEncoder,
    watcher: Watcher | None = None,
    *,
    codes: Callable[[slice | Array], U16] | None = None,
) -> tuple[Array, I64]:
    """Return (ids, edges): bucket k is ``ids[edges[k]:edges[k + 1]]``.

    All values of a bucket are less than those of the next; within a bucket ids keep
    their order. No bucket is empty. One with more than `MAX_UNSORTED` ids holds one
    value only.

    Parameters
    ----------
    n, ids : the ids to arrange: 0..n-1 where `ids` is None, else these n.
    values : takes ids (a slice for consecutive ones), returns int64 values.
    codes : a shorter way to ``coder.encode(values(ids))``, where there is one.

    Notes
    -----
    4 bytes per id, while at work 6. Raises Cancelled from the watcher.
    """
    dtype = np.int32 if n < 1 << 31 and (ids is None or ids.itemsize <= 4) else np.int64
    of = codes or (lambda rows: coder.encode(values(rows)))
    encoded = _encoded(n, ids, of, watcher)
    placed, counts = _by_code(encoded, ids, dtype, watcher, n)
    del encoded
    edges = _edges(counts)
    if not coder.is_exact:
        edges = _refined(placed, edges, values, watcher)
    return placed, edges


def linear_coder(low: int, high: int) -> OrderEncoder:
    """Return a coder for values of low..high: equal steps, exact below 2^16."""
    shift = 0
    while (high - low) >> shift > N_CODES - 2:
        shift += 1

    def encode(values: I64) -> U16:
        codes = ((values - low) >> shift).astype(np.uint16)
        codes[values == _MISSING] = N_CODES - 1
        return codes

    return OrderEncoder(encode, is_exact=shift == 0)


def proportional_coder(is_descending: bool = False) -> OrderEncoder:
    """Return a coder for any values >= 0: steps of a thousandth.

    Descending: for values <= 0, which are negated ones.
    """

    def encode(values: I64) -> U16:
        missing = values == _MISSING
        amount = -values if is_descending else values
        # The bits of a float ascend with it; its rounding does no harm, as equal
        # values stay equal and none overtakes another.
        bits = (amount + 1).astype(np.float32).view(np.int32) - _ONE
        codes = (bits >> (23 - _CODED_BITS)).astype(np.uint16)
        top = N_CODES - 2
        if is_descending:
            codes = (top - codes).astype(np.uint16)
        codes[missing] = N_CODES - 1
        return codes

    return OrderEncoder(encode, is_exact=False)


def _encoded(
    n: int,
    ids: Array | None,
    of: Callable[[slice | Array], U16],
    watcher: Watcher | None,
) -> U16:
    codes = np.empty(n, np.uint16)

    def encode(_: int, rows: slice) -> None:
        codes[rows] = of(rows if ids is None else ids[rows])

    share_out(encode, chunks(n, _PIECE_ROWS), watcher, total=2 * n)
    return codes


def _by_code(
    codes: U16,
    ids: Array | None,
    dtype: npt.DTypeLike,
    watcher: Watcher | None,
    done: int,
) -> tuple[Array, I64]:
    """Return the ids by code, stable, and how many there are of each code."""
    n = len(codes)
    if dtype != np.int32 or n < _MIN_COMPILED:
        order = np.argsort(codes, kind="stable")
        placed = (order if ids is None else ids[order]).astype(dtype, copy=False)
        return placed, np.bincount(codes, minlength=N_CODES).astype(np.int64)
    part = max(1, -(-n // n_workers()))
    parts = chunks(n, part)
    counts = np.zeros((len(parts), N_CODES), np.int64)
    given = None if ids is None else np.ascontiguousarray(ids, np.int32)
    placed = np.empty(n, np.int32)

    def count(_: int, rows: slice) -> None:
        library().ggscope_codes_count(
            codes[rows], 2, None, 0, rows.stop - rows.start, counts[rows.start // part]
        )

    def place(_: int, rows: slice) -> None:
        library().ggscope_codes_arrange(
            codes[rows], None if given is None else given[rows], rows.start,
            rows.stop - rows.start, cursors[rows.start // part], placed, n,
        )  # fmt: skip

    share_out(count, parts, watcher, done=done, total=done + n)
    # A part's ids of a code come after those of the parts before it.
    of_code = counts.sum(axis=0)
    cursors = np.cumsum(counts, axis=0) - counts + (np.cumsum(of_code) - of_code)
    for step in range(0, part, _STEP_ROWS):
        each = [
            slice(rows.start + step, min(rows.start + step + _STEP_ROWS, rows.stop))
            for rows in parts
            if rows.start + step < rows.stop
        ]
        share_out(place, each, watcher, done=done + n)
    return placed, of_code


def _edges(counts: I64) -> I64:
    return np.concatenate([[0], np.cumsum(counts[counts > 0])])


def _refined(
    placed: Array,
    edges: I64,
    values: Callable[[slice | Array], I64],
    watcher: Watcher | None,
) -> I64:
    """Split buckets that are too large in place; return the edges of all buckets."""
    pieces: list[I64] = [edges]
    for k in np.flatnonzero(np.diff(edges) > MAX_UNSORTED).tolist():
        low, high = int(edges[k]), int(edges[k + 1])
        inside = values(placed[low:high])
        first, last = int(inside.min()), int(inside.max())
        if watcher is not None:
            watcher.progress(high, len(placed))
        if first == last:
            continue
        coder = linear_coder(first, last)
        codes = coder.encode(inside)
        del inside
        ids, counts = _by_code(codes, placed[low:high], placed.dtype, None, high - low)
        placed[low:high] = ids
        within = _edges(counts)
        if not coder.is_exact:
            within = _refined(placed[low:high], within, values, watcher)
        pieces.append(within + low)
    return np.unique(np.concatenate(pieces)) if len(pieces) > 1 else edges


@dataclass(frozen=True, slots=True)
class Sorting:
    """What the table is sorted by: a column key and a direction."""

    column: str = "time"
    descending: bool = False


class OrderKey:
    """Sort values of spans, computed for whatever rows are asked for.

    Nothing as long as the trace is kept: a value is made from the trace's own
    columns and from tables with one entry per op, lane, name or pattern.
    """

    def __init__(self, trace: Trace, sorting: Sorting) -> None:
        self.trace = trace
        self.sorting = sorting
        self._table = _lookup_table(trace, sorting.column)
        looked_up = self._looked_up()
        if looked_up is not None and int(self._table.max()) > N_CODES - 2:
            self._table = _squeezed(trace, self._table, looked_up)

    def values(self, ids: Array | slice) -> I64:
        """Return int64[len(ids)]; smaller sorts first, what is missing last.

        A slice stands for consecutive ids.
        """
        return self._ordered(self._raw(ids))

    def _ordered(self, values: I64) -> I64:
        missing = values < 0
        ordered = -values if self.sorting.descending else values
        return np.where(missing, _LAST, ordered)

    def value(self, span: int) -> int:
        """Return the sort value of one span."""
        return int(self.values(slice(span, span + 1))[0])

    def coder(self) -> OrderEncoder:
        """Return what turns values into codes of 16 bits that ascend with them."""
        is_descending = self.sorting.descending
        if self.sorting.column in ("duration", "wait"):
            return proportional_coder(is_descending)
        last = self._most()
        return linear_coder(-last, 0) if is_descending else linear_coder(0, last)

    def codes(self, coder: OrderEncoder) -> Callable[[Array | slice], U16] | None:
        """Return a function from ids to codes, where a table has them."""
        column = self._looked_up()
        if column is None:
            return None
        table = coder.encode(self._ordered(self._table))
        return lambda ids: table[column[ids]]

    def _most(self) -> int:
        spans, column = self.trace.spans, self.sorting.column
        if self._looked_up() is None:  # a column of numbers
            source = getattr(spans, column)
            if source is None:
                return len(spans) if column == "record" else 0
            return max(0, int(source.max(initial=0)))
        return max(0, int(self._table.max()))

    def _looked_up(self) -> Array | None:
        """Return the column that the values of the table belong to, if any."""
        spans, column = self.trace.spans, self.sorting.column
        if column in ("sources", "bytes"):
            return self.trace.accesses.pattern
        columns = {
            "op": spans.op,
            "lane": spans.lane,
            "destination": spans.name,
            "quality": spans.flags,
        }
        return columns.get(column)

    def _raw(self, ids: Array | slice) -> I64:
        spans, column = self.trace.spans, self.sorting.column
        if column == "duration":
            ticks = spans.end[ids] - spans.start[ids]
            # Where no end was recorded, how long it took is not known.
            is_open = quality_of(spans.flags[ids]) == Quality.UNFINISHED
            return np.where(is_open, -1, ticks)
        looked_up = self._looked_up()
        if looked_up is not None:
            return self._table[looked_up[ids]]
        source = getattr(spans, column)
        if source is not None:
            values = np.asarray(source[ids], np.int64)
            null = schema_of(Spans)[column].null
            return values if null == -1 else np.where(values == null, -1, values)
        number = np.arange(ids.start, ids.stop) if isinstance(ids, slice) else ids
        missing = np.full(len(number), -1, np.int64)
        return np.asarray(number, np.int64) if column == "record" else missing


class Arrangement(Protocol):
    """Span ids in some order."""

    def __len__(self) -> int: ...

    def slice(self, low: int, high: int) -> Array:
        """Return the ids of rows low <= row < high, which must exist."""
        ...

    def row_of(self, span: int) -> int | None:
        """Return the row of `span`, or None where it is not listed."""
        ...


class ReversedOrder:
    """Another arrangement from its end."""

    def __init__(self, forwards: Arrangement) -> None:
        self._forwards = forwards

    def __len__(self) -> int:
        return len(self._forwards)

    def slice(self, low: int, high: int) -> Array:
        """Return the ids of rows low <= row < high."""
        n = len(self)
        return self._forwards.slice(n - high, n - low)[::-1]

    def row_of(self, span: int) -> int | None:
        """Return the row of `span`, or None where it is not listed."""
        row = self._forwards.row_of(span)
        return None if row is None else len(self) - 1 - row


class Buckets:
    """Span ids by (value, start, id), in buckets that are sorted when looked at.

    Parameters
    ----------
    ids, edges : as `partition` returns them.
    merge : takes ids of one value in the order of their bucket; reports them by time.
    """

    def __init__(
        self, ids: Array, edges: I64, key: OrderKey, merge: Callable[[Array], TimeMerge]
    ) -> None:
        self._ids, self._edges = ids, edges
        self._key, self._merge = key, merge

    def __len__(self) -> int:
        return len(self._ids)

    def slice(self, low: int, high: int) -> Array:
        """Return the ids of rows low <= row < high."""
        if low >= high:
            return self._ids[:0]
        parts: list[Array] = []
        bucket = self._bucket_at(low)
        while low < high:
            begin, end = self._reach(bucket, high)
            part = self._sorted(begin, end, low - begin, min(high, end) - begin)
            parts.append(part)
            low = begin + (low - begin) + len(part)
            bucket = self._bucket_at(low) if low < high else bucket
        return np.concatenate(parts)

    def row_of(self, span: int) -> int | None:
        """Return the row of `span`, or None where it is not listed."""
        value = self._key.value(span)
        bucket = bisect_right(
            range(len(self._edges) - 1),
            value,
            key=lambda k: self._key.value(int(self._ids[self._edges[k]])),
        )
        # Values of one bucket lie below those of the next, but its first one need
        # not be its least.
        for k in (bucket - 1, bucket):
            if 0 <= k < len(self._edges) - 1:
                begin, end = int(self._edges[k]), int(self._edges[k + 1])
                row = self._row_within(begin, end, span)
                if row is not None:
                    return begin + row
        return None

    def _bucket_at(self, row: int) -> int:
        return int(np.searchsorted(self._edges, row, "right")) - 1

    def _reach(self, bucket: int, high: int) -> tuple[int, int]:
        """Return the rows of a bucket; of small ones together as far as useful."""
        begin, end = int(self._edges[bucket]), int(self._edges[bucket + 1])
        while end < high and end - begin <= MAX_UNSORTED:
            bucket += 1
            after = int(self._edges[bucket + 1])
            if after - end > MAX_UNSORTED:
                break
            end = after
        return begin, end

    def _sorted(self, begin: int, end: int, low: int, high: int) -> Array:
        """Return rows low..high of the ids begin..end once these are sorted."""
        ids = self._ids[begin:end]
        if len(ids) > 2 * MAX_UNSORTED:
            return self._merge(ids).slice(low, high)
        start = self._key.trace.spans.start[ids]
        order = np.lexsort((ids, start, self._key.values(ids)))
        return ids[order[low:high]]

    def _row_within(self, begin: int, end: int, span: int) -> int | None:
        ids = self._ids[begin:end]
        if len(ids) > 2 * MAX_UNSORTED:
            return self._merge(ids).row_of(span)
        rows = np.flatnonzero(self._sorted(begin, end, 0, end - begin) == span)
        return int(rows[0]) if len(rows) else None


class RowOrder:
    """Span ids in table order.

    Attributes
    ----------
    key : decides the order.
    lanes : bool[n_lanes], whose spans are rows at all; bands are none.
    n_rows : rows without filter and range.

    Notes
    -----
    Rows are arranged a thousand at a time, when asked for; the last ones are kept.
    For the main thread only.
    """

    def __init__(
        self,
        arrangement: Arrangement,
        key: OrderKey,
        lanes: npt.NDArray[np.bool_],
        n_rows: int,
    ) -> None:
        self.key = key
        self.lanes = lanes
        self.n_rows = n_rows
        self._arrangement = arrangement
        self._blocks: OrderedDict[int, Array] = OrderedDict()

    def __len__(self) -> int:
        return len(self._arrangement)

    def at(self, row: int) -> int:
        """Return the span in `row`. Raises IndexError beyond the end."""
        if not 0 <= row < len(self):
            raise IndexError(row)
        number = row // _BLOCK_ROWS
        block = self._blocks.get(number)
        if block is None:
            begin = number * _BLOCK_ROWS
            block = self._arrangement.slice(begin, min(begin + _BLOCK_ROWS, len(self)))
            self._blocks[number] = block
            if len(self._blocks) > _KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(number)
        return int(block[row - number * _BLOCK_ROWS])

    def slice(self, low: int, high: int) -> Array:
        """Return the spans in rows low <= row < high, as far as there are rows."""
        low, high = max(0, low), min(high, len(self))
        return self._arrangement.slice(low, max(low, high))

    def row_of(self, span: int) -> int | None:
        """Return the row that shows `span`, or None where it is filtered out."""
        return self._arrangement.row_of(span)

    def arranged(self, spans: Array) -> Array:
        """Return the given span ids in the order of the table."""
        start = self.key.trace.spans.start[spans]
        sorting = self.key.sorting
        if sorting.column == "time":
            order = np.lexsort((spans, start))
            return spans[order[::-1] if sorting.descending else order]
        return spans[np.lexsort((spans, start, self.key.values(spans)))]


@dataclass(frozen=True, slots=True, eq=False)
class OrderRequest:
    """Computes a `RowOrder`; runs on a worker for large traces.

    Attributes
    ----------
    mask : bool[n_spans] of the spans to list, None = all. Bands (tokens, phases)
        are no records of the file and left out unless there is nothing else.
    runs : of this trace, where they are known already.
    part : only spans that touch this range, on its lanes; None = all.
    """

    index: TraceIndex
    sorting: Sorting
    mask: npt.NDArray[np.bool_] | None = None
    runs: TimeRuns | None = None
    part: MarkedRange | None = None

    def __call__(self, context: Watcher | None = None) -> RowOrder:
        """Return the order. Raises Cancelled from the context."""
        trace = self.index.trace
        runs = TimeRuns(trace) if self.runs is None else self.runs
        key = OrderKey(trace, self.sorting)
        lanes = _listed_lanes(trace)
        grown = self._grown(lanes)
        if grown is not None:
            in_time: Arrangement = TimeMerge(trace.spans.start, [grown])
            n_rows = int(self.index.lane_counts()[lanes].sum())
            if self.sorting.descending:
                in_time = ReversedOrder(in_time)
            return RowOrder(in_time, key, lanes, n_rows)
        mask, n_rows = self._mask(), _n_rows(trace, lanes)
        if self.sorting.column == "time":
            rows: Arrangement = self._by_time(runs, lanes, mask, context)
            rows = ReversedOrder(rows) if self.sorting.descending else rows
            return RowOrder(rows, key, lanes, n_rows)
        ids = _listed(trace, mask, lanes, context)
        merge: Callable[[Array], TimeMerge] = runs.merge
        if runs.edges is None:
            # Too many runs to merge: put into time order beforehand.
            ids = _in_order(self.index.time_order(), ids)
            merge = lambda ids: TimeMerge(trace.spans.start, [ids])  # noqa: E731
        n = len(trace.spans) if ids is None else len(ids)
        coder = key.coder()
        placed, edges = partition(
            n, ids, key.values, coder, context, codes=key.codes(coder)
        )
        return RowOrder(Buckets(placed, edges, key, merge), key, lanes, n_rows)

    def _grown(self, lanes: npt.NDArray[np.bool_]) -> Array | None:
        """Return the ids in time order where the trace grows: at the cost of the part.

        None for other traces and sortings, and for a range of some lanes.
        """
        part = self.part
        if self.sorting.column != "time" or (part and part.lanes is not None):
            return None
        order = self.index.grown_order(lanes)
        if order is None:
            return None
        if part is not None:
            order = self._touching(order, lanes, part.time)
        if self.mask is None:
            return order
        # Spans that came since the mask was made wait for theirs.
        order = order[order < len(self.mask)]
        return order[self.mask[order]]

    def _touching(
        self, order: Array, lanes: npt.NDArray[np.bool_], time: TimeRange
    ) -> Array:
        """Return those of `order` that touch a range."""
        spans = self.index.trace.spans
        begin, stop = (
            bisect_left(
                range(len(order)), tick, key=lambda i: int(spans.start[order[i]])
            )
            for tick in (time.start, time.end)
        )
        over = self.index.grown_over(lanes, time.start)
        if over is None:  # rows of a later snapshot do not show it
            early = order[:begin]
            early = early[spans.end[early] > time.start]
        else:
            early = np.array(over, order.dtype)
            early = early[np.lexsort((early, spans.start[early]))]
        return np.concatenate([early, order[begin:stop]])

    def _mask(self) -> npt.NDArray[np.bool_] | None:
        """Return which spans pass both filter and range, None = all."""
        part, trace = self.part, self.index.trace
        if part is None:
            return self.mask
        keep = np.zeros(len(trace.spans), np.bool_)
        spans = trace.spans
        for rows in chunks(len(spans)):
            keep[rows] = touches(spans.start[rows], spans.end[rows], part.time)
        if part.lanes is not None:
            keep &= mask_of_lanes(self.index, part.lanes, part.time)
        if self.mask is not None:
            keep[: len(self.mask)] &= self.mask
            keep[len(self.mask) :] = False
        return keep

    def _by_time(
        self,
        runs: TimeRuns,
        lanes: npt.NDArray[np.bool_],
        mask: npt.NDArray[np.bool_] | None,
        context: Watcher | None,
    ) -> TimeMerge:
        ids = None
        if mask is not None:
            ids = _listed(runs.trace, mask, lanes, context)
        return runs.merge(ids, lanes, self.index.time_order)


def _in_order(order: Array, ids: Array | None) -> Array:
    """Return those of `order` that are among `ids` (None: all)."""
    if ids is None:
        return order
    listed = np.zeros(len(order), np.bool_)
    listed[ids] = True
    return order[listed[order]]


def _listed_lanes(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return whether the spans of each lane are rows of the table, bool[n_lanes]."""
    is_band = lanes_where(trace.lanes, lambda spec: bool(spec.band))
    if is_band.all() or not is_band.any():
        return np.ones(len(is_band), np.bool_)
    for rows in chunks(len(trace.spans)):
        if not is_band[trace.spans.lane[rows]].all():
            return ~is_band
    return np.ones(len(is_band), np.bool_)


def _n_rows(trace: Trace, lanes: npt.NDArray[np.bool_]) -> int:
    """Return the number of spans of the listed lanes."""
    if lanes.all():
        return len(trace.spans)
    return int(count_values(trace.spans.lane, len(lanes))[lanes].sum())


def _listed(
    trace: Trace,
    mask: npt.NDArray[np.bool_] | None,
    lanes: npt.NDArray[np.bool_],
    watcher: Watcher | None,
) -> Array | None:
    """Return the ids of the spans that are rows, ascending, or None for all."""
    if mask is None and lanes.all():
        return None
    # Spans that came since the mask was made wait for theirs.
    n = len(trace.spans) if mask is None else min(len(mask), len(trace.spans))
    dtype = np.int32 if n < 1 << 31 else np.int64
    listed: dict[int, Array] = {}

    def look(_: int, rows: slice) -> None:
        keep = lanes[trace.spans.lane[rows]]
        if mask is not None:
            keep &= mask[rows]
        listed[rows.start] = (np.flatnonzero(keep) + rows.start).astype(dtype)

    share_out(look, chunks(n), watcher)
    return np.concatenate([np.zeros(0, dtype), *(listed[k] for k in sorted(listed))])


def _lookup_table(trace: Trace, column: str) -> I64:
    """Return the value per op, lane, name or pattern; the last entry is "none"."""
    if column == "op":
        n = int(trace.spans.op.max(initial=-1)) + 1
        return _ranks([trace.op_name(i) for i in range(n)])
    if column == "quality":
        return quality_of(np.arange(1 << 16)).astype(np.int64)
    if column == "lane":
        lanes = trace.lanes
        keys = list(zip(lanes.group_titles(), lanes.sort_keys, strict=True))
        ranks = sorted(range(len(lanes)), key=keys.__getitem__)
        table = np.full(len(lanes) + 1, -1, np.int64)
        table[ranks] = np.arange(len(ranks))
        return table
    if column == "destination":
        return _ranks(trace.strings.texts())
    if column == "sources":
        names = _ranks(trace.strings.texts())
        first = trace.accesses.first
        tensors = trace.accesses.patterns.tensor
        table = np.full(len(first), -1, np.int64)
        used = np.flatnonzero(np.diff(first) > 0)
        tensor = tensors[first[used]]
        table[used] = names[taken(trace.tensors.name, tensor)]
        return _places(table)
    if column == "bytes":
        size = trace.accesses.patterns.size.astype(np.int64)
        first = trace.accesses.first
        total = np.concatenate([[0], np.cumsum(np.maximum(size, 0))])
        known = np.concatenate([[0], np.cumsum(size >= 0)])
        sums = np.where(
            known[first[1:]] > known[first[:-1]],
            total[first[1:]] - total[first[:-1]],
            -1,
        )
        return np.append(_places(sums), -1)
    return np.full(1, -1, np.int64)


def _squeezed(trace: Trace, table: I64, column: Array) -> I64:
    """Return the table with places among the values of listed spans only.

    A trace of many tokens has more strings than there are codes, most of them for
    its bands.
    """
    lanes, used = _listed_lanes(trace), np.zeros(len(table), np.bool_)

    def look(_: int, rows: slice) -> None:
        listed = lanes[trace.spans.lane[rows]]
        used[column[rows] if listed.all() else column[rows][listed]] = True

    share_out(look, chunks(len(column)))
    known = np.unique(table[used & (table >= 0)])
    return np.where(table >= 0, np.searchsorted(known, table), -1)


def _places(values: I64) -> I64:
    """Return the place of each value among the distinct ones; -1 stays."""
    distinct = np.unique(values[values >= 0])
    return np.where(values >= 0, np.searchsorted(distinct, values), -1)


def _ranks(texts: list[str]) -> I64:
    """Return the alphabetical place of each text; -1 for "" and in a last entry."""
    table = np.full(len(texts) + 1, -1, np.int64)
    order = sorted(range(len(texts)), key=lambda i: (texts[i].casefold(), texts[i]))
    table[order] = np.arange(len(order))
    for i, text in enumerate(texts):
        if not text:
            table[i] = -1
    return table
