"""Which category covers most of each pixel column, without touching every span.

Everything here lives in *covered time*: the clock that only runs while the row
is busy. In it the spans of a row tile the axis without gaps: span i lies at
``[covered[i], covered[i + 1])`` and pixel column k at ``[P[k], P[k + 1])``, where
P is the time covered before the column's edge. With c(i) the category of span i
and n[k] the number of spans that begin before edge k, category c covers before
the edge::

    W[k, c] = Σ_{i < n[k], c(i) = c} length[i]  -  overhang[k] if c == c(n[k] - 1)

with ``overhang[k] = covered[n[k]] - P[k]``, the part of the last span behind the
edge. A column's share is the difference of W at its two edges, in whole ticks.

Neighbouring spans of one category are merged into *elements* where that makes
far fewer of them (tokens and layers come in long runs).
"""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.chunks import CHUNK_ROWS, chunks
from ggscope.analysis.rows import Row
from ggscope.model.tables import I64, Array

RAW_ELEMENTS = 64
"""Columns with at most so many elements are exact whatever the categories."""
MAX_EXACT = 64
"""Rows with at most so many categories are exact at every size."""

_MERGE_FACTOR = 3
_FAN_OUT = 8
_DENSE_CELLS = 1 << 18
# Summing this many elements per pixel costs as much as asking the running sums
# (0.2 ms at 1920 px): below it the elements are summed one by one.
_SCAN_PER_PX = 8


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """Runs of spans of one category (or the spans themselves).

    Attributes
    ----------
    category : unsigned[m], 0..n_categories - 1.
    bounds : int64[m + 1], covered time before each element.
    first : int64[m], position of the first span of each element; None where
        elements are spans.
    """

    category: Array
    bounds: I64
    first: I64 | None
    n_categories: int

    def __len__(self) -> int:
        return len(self.category)


def merge(row: Row, category: Array, n_categories: int) -> Elements:
    """Return the elements of `row` under `category` (unsigned[n], per position)."""
    new = np.ones(len(row), np.bool_)
    np.not_equal(category[1:], category[:-1], out=new[1:])
    if int(np.count_nonzero(new)) * _MERGE_FACTOR > len(row):
        return Elements(category, row.covered, None, n_categories)
    first = np.flatnonzero(new)
    bounds = row.covered[np.append(first, len(row))]
    return Elements(category[first], bounds, first, n_categories)


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Edges of pixel columns, as the elements see them.

    Attributes
    ----------
    n : int64[px + 1], elements that begin before each edge.
    overhang : int64[px + 1], what the last of them covers behind the edge.
    last : int64[px + 1], its category (any where there is none).
    """

    n: I64
    overhang: I64
    last: Array


class Dominant:
    """Tells the category that covers most of each pixel column of one row.

    Parameters
    ----------
    row : the row, at least one span.
    category : unsigned[n], per position, 0..n_categories - 1.

    Notes
    -----
    With at most `MAX_EXACT` categories the answer is exact at every size, for
    one to two bytes per span. With more, it is exact for
    columns of up to `RAW_ELEMENTS` elements; wider columns ask a pyramid in which
    each bucket of 8, 64, 512 … elements votes for its dominant category with the
    time that this covers: minorities within a bucket are not seen.
    """

    def __init__(self, row: Row, category: Array, n_categories: int) -> None:
        self.elements = merge(row, category, n_categories)
        self._sums: RunningSums | None = None
        self._levels: list[tuple[Array, I64]] = []
        if len(self.elements) <= RAW_ELEMENTS * _FAN_OUT:
            return
        if n_categories <= MAX_EXACT:
            self._sums = RunningSums(self.elements)
        else:
            self._levels = _vote_levels(self.elements)

    def query(self, n_spans: I64, covered: I64, columns: I64) -> I64:
        """Return the dominant category of `columns`, int64[px]; elsewhere anything.

        Parameters
        ----------
        n_spans, covered : what ``Row.before`` says of the px + 1 edges.
        columns : numbers of the columns to answer for, ascending.

        Notes
        -----
        Of equals the smallest number wins. Where nothing is covered the answer
        means nothing.
        """
        px = len(n_spans) - 1
        if not len(columns):
            return np.zeros(px, np.int64)
        edges = self._edges(n_spans, covered)
        n_elements = int(edges.n[-1] - edges.n[0])
        if self._sums is not None and n_elements > _SCAN_PER_PX * px:
            return self._sums.dominant(edges)
        best = np.zeros(px, np.int64)
        best[columns] = self._count_votes(edges, columns)
        return best

    def category_of(self, positions: I64) -> Array:
        """Return the category of the spans at `positions`."""
        e = self.elements
        if e.first is not None:
            positions = np.searchsorted(e.first, positions, "right") - 1
        return e.category[positions]

    def _edges(self, n_spans: I64, covered: I64) -> Edges:
        e = self.elements
        n = n_spans if e.first is None else np.searchsorted(e.first, n_spans)
        last = e.category[np.maximum(n - 1, 0)].astype(np.int64)
        return Edges(n, e.bounds[n] - covered, last)

    def _count_votes(self, edges: Edges, columns: I64) -> I64:
        """Sum elements, or buckets of them where a column has many."""
        begin, behind = columns, columns + 1
        column = np.arange(len(columns))
        owner = [column, column]
        category = [edges.last[begin], edges.last[behind]]
        weight = [edges.overhang[begin], -edges.overhang[behind]]
        n_begin, n_end = edges.n[begin], edges.n[behind]
        level = self._level_of(n_end - n_begin)
        for k in range(int(level.max()) + 1):
            chosen = np.flatnonzero(level == k)
            size = _FAN_OUT**k
            first = -(-n_begin[chosen] // size)
            local, index = ragged(first, n_end[chosen] // size)
            owner.append(chosen[local])
            if k == 0:
                category.append(self.elements.category[index].astype(np.int64))
                bounds = self.elements.bounds
                weight.append(bounds[index + 1] - bounds[index])
            else:
                names, weights = self._levels[k - 1]
                category.append(names[index].astype(np.int64))
                weight.append(weights[index])
        return heaviest(
            np.concatenate(owner),
            np.concatenate(category),
            np.concatenate(weight),
            len(columns),
            self.elements.n_categories,
        )

    def _level_of(self, n_elements: I64) -> I64:
        """Return the finest level at which a column has at most 64 buckets."""
        level = np.zeros(len(n_elements), np.int64)
        limit = RAW_ELEMENTS
        for _ in self._levels:
            level += n_elements > limit
            limit *= _FAN_OUT
        return level


class RunningSums:
    """Running sum of each category at every 32nd (64th, 128th …) element.

    A query first compares the sums at the buckets nearest to the edges. Where the
    winner leads by more than the time between the edges and their buckets, that
    is the answer; elsewhere the elements in between are added: half a bucket for
    each edge at most.
    """

    def __init__(self, elements: Elements) -> None:
        c = elements.n_categories
        # Rows that are busy for less than 2^32 ticks do with half the bytes,
        # which buys buckets of half the size for the same memory.
        small = int(elements.bounds[-1]) < 1 << 32
        self._elements = elements
        self._bucket = bucket = _bucket_size(c) * (1 if small else 2)
        n_buckets = len(elements) // bucket
        sums = np.zeros((n_buckets + 1, c), np.uint32 if small else np.int64)
        total = np.zeros(c, np.int64)
        for part in chunks(n_buckets, CHUNK_ROWS // bucket):
            a, b = part.start * bucket, part.stop * bucket
            cell = np.repeat(np.arange(part.stop - part.start) * c, bucket)
            cell += elements.category[a:b]
            length = np.diff(elements.bounds[a : b + 1])
            amount = np.bincount(cell, length, (part.stop - part.start) * c)
            running = np.cumsum(amount.astype(np.int64).reshape(-1, c), axis=0)
            running += total
            sums[part.start + 1 : part.stop + 1] = running
            total = running[-1]
        self._sums = sums

    def dominant(self, edges: Edges) -> I64:
        """Return the category with most time between each two edges, int64[px]."""
        bucket, bounds = self._bucket, self._elements.bounds
        nearest = np.minimum((edges.n + bucket // 2) // bucket, len(self._sums) - 1)
        share = np.diff(self._sums[nearest], axis=0)
        best: I64 = np.argmax(share, axis=1)
        column = np.arange(len(share))
        lead = share[column, best].astype(np.int64)
        share[column, best] = 0
        lead -= share.max(axis=1)
        covered_before = bounds[edges.n] - edges.overhang
        moved = np.abs(bounds[nearest * bucket] - covered_before)
        unsure = lead <= moved[:-1] + moved[1:]
        unsure &= covered_before[1:] > covered_before[:-1]
        columns = np.flatnonzero(unsure)
        if len(columns):
            at_edge = np.zeros(len(edges.n), np.bool_)
            at_edge[columns] = at_edge[columns + 1] = True
            before = self._before(edges, nearest, np.flatnonzero(at_edge))
            # The edge behind a column is used too, so it is the next entry.
            here = (np.cumsum(at_edge) - 1)[columns]
            best[columns] = np.argmax(before[here + 1] - before[here], axis=1)
        return best

    def _before(self, edges: Edges, nearest: I64, used: I64) -> I64:
        """Return W at the edges `used`, int64[len(used), n_categories]."""
        e, c = self._elements, self._elements.n_categories
        n, at = edges.n[used], nearest[used] * self._bucket
        owner, index = ragged(np.minimum(at, n), np.maximum(at, n))
        length = e.bounds[index + 1] - e.bounds[index]
        cell = owner * c + e.category[index]
        part = np.bincount(cell, length, len(at) * c).reshape(-1, c)
        result = (part * np.where(at > n, -1, 1)[:, None]).astype(np.int64)
        result += self._sums[nearest[used]]
        result[np.arange(len(at)), edges.last[used]] -= edges.overhang[used]
        return result


def _bucket_size(n_categories: int) -> int:
    """Return elements per bucket: about one byte of sums per element."""
    size = 32
    while size < 2 * n_categories:
        size *= 2
    return size


def ragged(first: I64, stop: I64) -> tuple[I64, I64]:
    """Return (owner, index) of the ranges ``[first[k], stop[k])``, one after another.

    Both are int64[Σ lengths]; range k contributes its numbers with owner k, and
    nothing where it is empty or turned round.
    """
    n = np.maximum(stop - first, 0)
    owner = np.repeat(np.arange(len(n)), n)
    index = np.arange(len(owner)) + np.repeat(first - (np.cumsum(n) - n), n)
    return owner, index


def heaviest(
    owner: I64, category: I64, weight: I64, n_owners: int, n_categories: int
) -> I64:
    """Return the category with the greatest sum of weights of each owner.

    Of equals the smallest number wins; 0 where an owner has no entry.
    """
    cell = owner * n_categories + category
    if n_owners * n_categories <= _DENSE_CELLS:
        # float64 sums of ticks are exact up to 2^53.
        sums = np.bincount(cell, weight, n_owners * n_categories)
        best: I64 = np.argmax(sums.reshape(n_owners, n_categories), axis=1)
        return best
    order = np.argsort(cell, kind="stable")
    cell = cell[order]
    begin = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
    total = np.add.reduceat(weight[order], begin)
    owner, category = np.divmod(cell[begin], n_categories)
    ranked = np.lexsort((category, -total, owner))
    ranked = ranked[np.concatenate(([True], np.diff(owner[ranked]) > 0))]
    result = np.zeros(n_owners, np.int64)
    result[owner[ranked]] = category[ranked]
    return result


def _vote_levels(elements: Elements) -> list[tuple[Array, I64]]:
    """Return (category, time it covers) of the buckets of each level, finest first."""
    levels: list[tuple[Array, I64]] = []
    category, weight = elements.category, np.diff(elements.bounds)
    while len(category) > RAW_ELEMENTS:
        category, weight = _fold(category, weight)
        levels.append((category, weight))
    return levels


def _fold(category: Array, weight: I64) -> tuple[Array, I64]:
    """Return the dominant category of every 8 entries, and its weight."""
    spare = -len(category) % _FAN_OUT
    no_name = np.zeros(spare, category.dtype)
    names: Array = np.append(category, no_name).reshape(-1, _FAN_OUT)
    weights = np.append(weight, np.zeros(spare, np.int64)).reshape(-1, _FAN_OUT)
    best = np.zeros(len(names), category.dtype)
    heaviest_weight = np.full(len(names), -1, np.int64)
    for k in range(_FAN_OUT):
        same = names == names[:, k : k + 1]
        total = np.where(same, weights, 0).sum(axis=1)
        better = total > heaviest_weight
        best[better] = names[better, k]
        heaviest_weight[better] = total[better]
    return best, heaviest_weight
