"""The exact column picture of a row: how busy each pixel column is, and with what."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis import native
from ggscope.analysis.chunks import CHUNK_ROWS, chunks
from ggscope.analysis.pyramid import Dominant, ragged
from ggscope.analysis.rows import Row, SortedTicks
from ggscope.model.tables import I64, Array
from ggscope.model.time import TimeRange

_LENGTH_BUCKET = 16
_NATIVE_PER_PX = 96
"""Up to so many spans per column one compiled pass beats every index."""


class _Once:
    """A value that is computed when it is first asked for."""

    __slots__ = ("_make", "_value")

    def __init__(self, make: Callable[[], I64]) -> None:
        self._make = make
        self._value: I64 | None = None

    def get(self) -> I64:
        value = self._value
        if value is None:
            # Two threads may both get here: they compute the same array.
            self._value = value = self._make()
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What each pixel column of a row says.

    Attributes
    ----------
    busy : float64[px], covered time / width of the column, 0..1, exact. Where a
        column is narrower than a tick it is 1.0 if the tick is covered.
    category : int32[px], the category that covers most of it (ties: smallest
        number); -1 = idle. Where spans touch the column but all have zero length,
        that of the first of them.
    count : int64[px], spans that touch the column.
    covered_ticks : int64[px], covered time; sums up to that of the whole view.
    first : int64[px], id of the first span that touches the column, -1: the
        span itself where `count` is 1.
    """

    busy: npt.NDArray[np.float64]
    category: npt.NDArray[np.int32]
    count: I64
    covered_ticks: I64
    first: I64
    _longest: _Once

    @property
    def longest(self) -> I64:
        """int64[px], id of the span that covers most of it (ties: first), -1.

        Computed on first use: pictures of folded columns do without.
        """
        return self._longest.get()


def column_edges(visible: TimeRange, px: int) -> I64:
    """Return int64[px + 1] edges of `px` columns over `visible`, exact integers.

    ``edges[k] = start + floor(k * duration / px)`` without overflow.
    """
    whole, rest = divmod(visible.duration, px)
    k = np.arange(px + 1, dtype=np.int64)
    return visible.start + k * whole + k * rest // px


class RowColumns:
    """Answers column queries for one row under one colouring.

    Parameters
    ----------
    row : the row.
    category : small ints per *span id* (index with ``row.id``), or None for 0.
    n_categories : number of categories.

    Notes
    -----
    Cost of a query grows with the picture, not with the row: busy by prefix sums
    and binary search; category by running sums (see ``analysis.pyramid``) above
    about 8 spans per column and the raw slice below it. May be asked from several
    threads at once.
    """

    def __init__(
        self, row: Row, category: Array | None = None, n_categories: int = 1
    ) -> None:
        self._row = row
        self._starts = SortedTicks(row.start)
        self._names = np.zeros(1, np.int32)
        self._dominant: Dominant | None = None
        self._lengths: I64 | None = None
        self._by_id = category
        self._n_categories = n_categories
        if category is None or not len(row):
            return
        local = _values_of(category, row.id)
        present = _present(local, n_categories)
        if len(present) == 1:
            self._names = present
            return
        local, self._names = _compacted(local, present, n_categories)
        self._dominant = Dominant(row, local, len(self._names))

    @property
    def row(self) -> Row:
        """The row."""
        return self._row

    def query(self, edges: I64) -> Columns:
        """Return the columns between consecutive `edges` (int64[px + 1], ascending).

        Columns without width say what is at their tick.
        """
        if len(edges) < 2 or not len(self._row):
            return _idle(max(len(edges) - 1, 0))
        points = edges[1:] == edges[:-1]
        if points.any():
            return self._query_with_points(edges, points)
        return self._query_wide(edges)

    def _query_wide(self, edges: I64) -> Columns:
        row = self._row
        if edges[0] > row.end[-1] or edges[-1] <= row.start[0]:
            return _idle(len(edges) - 1)
        kernel = native.kernel()
        if kernel is not None:
            lowest, stop = row.touching(int(edges[0]), int(edges[-1]))
            if stop == lowest:
                return _idle(len(edges) - 1)
            if stop - lowest <= _NATIVE_PER_PX * len(edges):
                return self._query_native(kernel, edges, lowest, stop)
        n = self._starts.before(edges)
        covered_before = row.covered_before(edges, n)
        covered = np.diff(covered_before)
        # The last span before an edge touches the column behind it if it goes on.
        open_at_edge = row.covered[n[:-1]] > covered_before[:-1]
        first = n[:-1] - open_at_edge
        count = n[1:] - first
        touched = count > 0
        safe_first = np.minimum(first, len(row) - 1)
        return Columns(
            busy=covered / np.diff(edges),
            category=self._category(
                n, covered_before, covered, touched, safe_first, count
            ),
            count=count,
            covered_ticks=covered,
            first=np.where(touched, row.id[safe_first], -1).astype(np.int64),
            _longest=_Once(lambda: self._longest(edges, first, count)),
        )

    def _query_native(self, kernel: Any, edges: I64, lowest: int, stop: int) -> Columns:
        """Answer by one pass over the spans ``[lowest, stop)``, which are few."""
        row, part = self._row, slice(lowest, stop)
        if self._by_id is None:
            category = np.zeros(stop - lowest, np.uint16)
        else:
            category = _values_of(self._by_id, row.id[part])
        covered, count, first, name = native.columns(
            kernel,
            np.ascontiguousarray(row.start[part]),
            np.ascontiguousarray(row.end[part]),
            np.ascontiguousarray(category, np.uint16),
            np.ascontiguousarray(edges),
            max(self._n_categories, 1),
        )
        touched = count > 0
        at = np.where(touched, first + lowest, 0)
        return Columns(
            busy=covered / np.diff(edges),
            category=name,
            count=count,
            covered_ticks=covered,
            first=np.where(touched, row.id[at], -1).astype(np.int64),
            _longest=_Once(lambda: self._longest(edges, at, count)),
        )

    def _category(
        self,
        n: I64,
        covered_before: I64,
        covered: I64,
        touched: npt.NDArray[np.bool_],
        first: I64,
        count: I64,
    ) -> npt.NDArray[np.int32]:
        if self._dominant is None:
            return np.where(touched, self._names[0], np.int32(-1))
        # A span alone in its column needs no votes; nor do instants.
        shared = np.flatnonzero((count > 1) & (covered > 0))
        local = self._dominant.query(n, covered_before, shared)
        alone = touched.copy()
        alone[shared] = False
        local[alone] = self._dominant.category_of(first[alone])
        return np.where(touched, self._names[local], np.int32(-1))

    def _query_with_points(self, edges: I64, points: npt.NDArray[np.bool_]) -> Columns:
        """Answer columns with width and columns without one by one query each."""
        begin = edges[:-1]
        if int(edges[-1] - edges[0]) <= len(begin):
            # The usual case, a view of fewer ticks than pixels: ask every tick.
            units = self._query_wide(np.arange(edges[0], edges[-1] + 2))
            place = begin - edges[0]
            if int(np.diff(edges).max()) <= 1:
                return _picked(units, units, points, place, place)
        else:
            ticks = np.unique(begin[points])
            outer = np.union1d(ticks, ticks + 1)
            units = self._query_wide(outer)
            place = np.minimum(np.searchsorted(outer, begin), len(outer) - 2)
        distinct = np.unique(edges)
        wide = self._query_wide(distinct)
        in_wide = np.minimum(np.searchsorted(distinct, begin), len(distinct) - 2)
        return _picked(units, wide, points, place, in_wide)

    def _longest(self, edges: I64, first: I64, count: I64) -> I64:
        """Return the id of the span that covers most of each column."""
        row, stop, size = self._row, first + count, _LENGTH_BUCKET
        # The first and the last span may stick out: buckets hold only the others.
        folded = count > 2 * size
        head = np.where(folded, first // size + 1, 0)
        tail = np.where(folded, (stop - 1) // size, 0)
        inner = self._longest_inside(head, tail)
        # Three ranges per column: before, best of, and behind the whole buckets.
        begin = np.stack([first, inner, np.where(folded, tail * size, stop)], axis=1)
        finish = np.stack(
            [np.where(folded, head * size, stop), inner + folded, stop], axis=1
        )
        owner, index = ragged(begin.ravel(), finish.ravel())
        owner //= 3
        part = np.minimum(row.end[index], edges[owner + 1])
        part -= np.maximum(row.start[index], edges[owner])
        best = _first_greatest(owner, part)
        result = np.full(len(first), -1, np.int64)
        result[owner[best]] = row.id[index[best]]
        return result

    def _longest_inside(self, head: I64, tail: I64) -> I64:
        """Return the longest span in buckets head..tail of each column (or 0)."""
        result = np.zeros(len(head), np.int64)
        owner, bucket = ragged(head, tail)
        if not len(owner):
            return result
        if self._lengths is None:
            self._lengths = _bucket_maxima(self._row.covered)
        best = _first_greatest(owner, self._lengths[bucket])
        at = bucket[best, None] * _LENGTH_BUCKET + np.arange(_LENGTH_BUCKET)
        covered = self._row.covered
        inside = np.argmax(covered[at + 1] - covered[at], axis=1)
        result[owner[best]] = bucket[best] * _LENGTH_BUCKET + inside
        return result


def columns_slow(row: Row, edges: I64, category: Array | None = None) -> Columns:
    """Return the same by touching every span: the oracle of the tests.

    A plain loop over columns and spans, so that it can be checked by reading.
    """
    px = len(edges) - 1
    busy, names = np.zeros(px), np.full(px, -1, np.int32)
    count, covered = np.zeros(px, np.int64), np.zeros(px, np.int64)
    first, longest = np.full(px, -1, np.int64), np.full(px, -1, np.int64)
    spans = list(
        zip(row.start.tolist(), row.end.tolist(), row.id.tolist(), strict=True)
    )
    for k in range(px):
        a, width = int(edges[k]), int(edges[k + 1] - edges[k])
        b = a + max(width, 1)
        sums: dict[int, int] = {}
        most = -1
        for start, end, span in spans:
            inside = min(end, b) - max(start, a)
            if inside < 0 or (inside == 0 and not (start == end and a <= start < b)):
                continue
            name = 0 if category is None else int(category[span])
            sums[name] = sums.get(name, 0) + inside
            if first[k] < 0:
                first[k], names[k] = span, name
            if inside > most:
                most, longest[k] = inside, span
            count[k] += 1
        total = sum(sums.values())
        covered[k] = total if width else 0
        busy[k] = total / max(width, 1)
        if total:
            names[k] = min(sums, key=lambda name: (-sums[name], name))
    return Columns(busy, names, count, covered, first, _Once(lambda: longest))


def _idle(px: int) -> Columns:
    return Columns(
        busy=np.zeros(px),
        category=np.full(px, -1, np.int32),
        count=np.zeros(px, np.int64),
        covered_ticks=np.zeros(px, np.int64),
        first=np.full(px, -1, np.int64),
        _longest=_Once(lambda: np.full(px, -1, np.int64)),
    )


def _picked(
    narrow: Columns,
    wide: Columns,
    points: npt.NDArray[np.bool_],
    in_narrow: I64,
    in_wide: I64,
) -> Columns:
    """Return columns taken from `narrow` where `points`, else from `wide`."""

    def pick(a: Array, b: Array) -> Array:
        return np.where(points, a[in_narrow], b[in_wide])

    return Columns(
        busy=pick(narrow.busy, wide.busy),
        category=pick(narrow.category, wide.category),
        count=pick(narrow.count, wide.count),
        covered_ticks=np.where(points, 0, wide.covered_ticks[in_wide]),
        first=pick(narrow.first, wide.first),
        _longest=_Once(lambda: pick(narrow.longest, wide.longest)),
    )


def _values_of(column: Array, ids: Array) -> Array:
    """Return ``column[ids]``, without a copy where the ids are consecutive."""
    first, n = int(ids[0]), len(ids)
    if int(ids[-1]) - first == n - 1 and bool((np.diff(ids) == 1).all()):
        return column[first : first + n]
    return column[ids]


def _present(values: Array, n_categories: int) -> npt.NDArray[np.int32]:
    """Return the categories that occur, ascending."""
    seen = np.zeros(n_categories, np.bool_)
    for part in chunks(len(values)):
        seen |= np.bincount(values[part], minlength=n_categories) > 0
    return np.flatnonzero(seen).astype(np.int32)


def _compacted(
    values: Array, present: npt.NDArray[np.int32], n_categories: int
) -> tuple[Array, npt.NDArray[np.int32]]:
    """Return (values renumbered to what occurs, their names), where that helps."""
    if len(present) * 2 > n_categories:
        return values, np.arange(n_categories, dtype=np.int32)
    dtype = np.uint8 if len(present) <= 256 else np.uint16
    number = np.zeros(n_categories, dtype)
    number[present] = np.arange(len(present))
    return number[values], present


def _first_greatest(owner: I64, value: I64) -> I64:
    """Return the entry with the greatest value of each owner (ties: the first).

    `owner` is ascending.
    """
    if not len(owner):
        return np.zeros(0, np.int64)
    begin = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))
    group = np.repeat(np.arange(len(begin)), np.diff(np.append(begin, len(owner))))
    top = np.flatnonzero(value == np.maximum.reduceat(value, begin)[group])
    return top[np.concatenate(([True], np.diff(group[top]) > 0))]


def _bucket_maxima(covered: I64) -> I64:
    """Return the greatest length in each whole bucket of spans."""
    size = _LENGTH_BUCKET
    result = np.zeros((len(covered) - 1) // size, np.int64)
    for part in chunks(len(result), CHUNK_ROWS // size):
        lengths = np.diff(covered[part.start * size : part.stop * size + 1])
        result[part] = lengths.reshape(-1, size).max(axis=1)
    return result
