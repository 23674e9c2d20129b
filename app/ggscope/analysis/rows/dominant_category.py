"""Which category covers most of each pixel column, without touching every span.

Everything here lives in *covered time*: the clock that only runs while the row
is busy. In it the spans of a row tile the axis without gaps: span i lies at
``[C[i], C[i + 1])``, where C is the time covered before it (``Row.covered_at``),
and pixel column k at ``[P[k], P[k + 1])``, where P is the time covered before the
column's edge. With c(i) the category of span i and n[k] the number of spans that
begin before edge k, category c covers before the edge::

    W[k, c] = Σ_{i < n[k], c(i) = c} length[i]  -  overhang[k] if c == c(n[k] - 1)

with ``overhang[k] = C[n[k]] - P[k]``, the part of the last span behind the edge.
A column's share is the difference of W at its two edges, in whole ticks.

Where a row has too many categories for this, neighbouring spans of one category
are merged into *elements* if that makes far fewer of them (tokens come in long
runs).
"""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.rows.rows import PREFIX_STEP, Row
from ggscope.model.tables import I64, Array
from ggscope.native.library import library

RAW_ELEMENTS = 64
"""Columns with at most so many elements are exact whatever the categories."""
MAX_EXACT = 256
"""Rows with at most so many categories are exact at every size."""

_MERGE_FACTOR = 3
_FAN_OUT = 8
MIN_SUMMED = RAW_ELEMENTS * _FAN_OUT + 1
"""Rows with fewer elements have no running sums."""
_DENSE_CELLS = 1 << 18
_MAX_GROUP = 64


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """Runs of spans of one category, or the spans themselves.

    Attributes
    ----------
    row : the row.
    category : unsigned[m], the colouring's own numbers.
    number : uint16[n_categories], from those to 0..n_names - 1 in this row.
    n_names : how many categories the row has.
    bounds : int64[m + 1], covered time before each element; None where elements
        are spans: the row knows it.
    first : int64[m], position of the first span of each element; None likewise.
    """

    row: Row
    category: Array
    number: Array
    n_names: int
    bounds: I64 | None = None
    first: I64 | None = None

    def __len__(self) -> int:
        return len(self.category)

    def names_at(self, index: I64) -> I64:
        """Return the category of elements as numbers of this row, int64[m]."""
        return self.number[self.category[index]].astype(np.int64)

    def covered_at(self, index: I64) -> I64:
        """Return the covered time before elements, int64[m]; `index` may be m."""
        if self.bounds is None:
            return self.row.covered_at(index)
        return self.bounds[index]

    def lengths(self, index: I64 | slice) -> I64:
        """Return the covered time of elements, int64[m]."""
        if self.bounds is None:
            return self.row.end[index] - self.row.start[index]
        return np.diff(self.bounds)[index]


def merge(row: Row, category: Array, number: Array, n_names: int) -> Elements:
    """Return the elements of `row` under `category` (unsigned[n], per position).

    Rows with few categories stay as they are: running sums answer those, for
    fewer bytes per span than the bounds of runs would take.
    """
    spans = Elements(row, category, number, n_names)
    if n_names <= MAX_EXACT:
        return spans
    new = np.ones(len(row), np.bool_)
    np.not_equal(category[1:], category[:-1], out=new[1:])
    if int(np.count_nonzero(new)) * _MERGE_FACTOR > len(row):
        return spans
    first = np.flatnonzero(new)
    bounds = row.covered_at(np.append(first, len(row)))
    return Elements(row, category[first], number, n_names, bounds, first)


class Dominant:
    """Finds the category that covers most of each pixel column of one row.

    Parameters
    ----------
    elements : of a row of at least one span.
    sums : running sums of these, where they are known.

    Attributes
    ----------
    elements : what is counted.
    sums : running sums, where there are any; else None.

    Notes
    -----
    With at most `MAX_EXACT` categories the answer is exact at every size, for
    at most two bytes per span. With more, it is exact for columns of up to
    `RAW_ELEMENTS` elements; wider columns ask a pyramid in which each bucket of
    8, 64, 512 … elements votes for its dominant category with the time that this
    covers: minorities within a bucket are not seen. Answers are numbers of the
    row, 0..n_names - 1.
    """

    def __init__(self, elements: Elements, sums: "RunningSums | None" = None) -> None:
        self.elements = elements
        self.sums = sums
        self._levels: list[tuple[Array, I64]] | None = None
        if sums is None and elements.n_names <= MAX_EXACT:
            self.sums = RunningSums(elements) if len(elements) >= MIN_SUMMED else None

    def query(self, begin: I64, stop: I64) -> I64:
        """Return the dominant category of columns ``[begin, stop)``, int64[m].

        Of equals the smallest number wins. In each column something is covered.
        """
        n_begin, before, first_name = self._at(begin)
        n_end, behind, last_name = self._at(stop)
        column = np.arange(len(begin))
        owner, category = [column, column], [first_name, last_name]
        weight = [before, -behind]
        level = self._level_of(n_end - n_begin)
        for k in range(int(level.max()) + 1):
            chosen = np.flatnonzero(level == k)
            size = _FAN_OUT**k
            first = -(-n_begin[chosen] // size)
            local, index = ragged(first, n_end[chosen] // size)
            owner.append(chosen[local])
            if k == 0:
                category.append(self.elements.names_at(index))
                weight.append(self.elements.lengths(index))
            else:
                names, weights = self._votes()[k - 1]
                category.append(names[index].astype(np.int64))
                weight.append(weights[index])
        return heaviest(
            np.concatenate(owner),
            np.concatenate(category),
            np.concatenate(weight),
            len(begin),
            self.elements.n_names,
        )

    def _at(self, ticks: I64) -> tuple[I64, I64, I64]:
        """Return what lies before ticks, int64[m] each.

        Elements that begin before each, what the last of them covers behind the tick,
        and its category (any where there is none).
        """
        e, row = self.elements, self.elements.row
        n = np.searchsorted(row.start, ticks, "left")
        over = np.maximum(row.end[np.maximum(n - 1, 0)] - ticks, 0)
        covered = row.covered_at(n) - np.where(n > 0, over, 0)
        n = n if e.first is None else np.searchsorted(e.first, n)
        return n, e.covered_at(n) - covered, e.names_at(np.maximum(n - 1, 0))

    def _level_of(self, n_elements: I64) -> I64:
        """Return the finest level at which a column has at most 64 buckets.

        0 where the answer is to be exact: a row of few categories without running
        sums has fewer than `MIN_SUMMED` elements, which are counted one by one.
        """
        level = np.zeros(len(n_elements), np.int64)
        is_exact = self.elements.n_names <= MAX_EXACT
        if is_exact or int(n_elements.max()) <= RAW_ELEMENTS:
            return level
        limit = RAW_ELEMENTS
        for _ in self._votes():
            level += n_elements > limit
            limit *= _FAN_OUT
        return level

    def _votes(self) -> list[tuple[Array, I64]]:
        """Return the pyramid, made when a column first has many elements."""
        levels = self._levels
        if levels is None:
            # Two threads may both get here: they compute the same arrays.
            self._levels = levels = _vote_levels(self.elements)
        return levels


class RunningSums:
    """Running sum of each category at every 32nd (64th, 128th …) span.

    A query first compares the sums at the buckets nearest to the edges. Where the
    winner leads by more than the time between the edges and their buckets, that
    is the answer; elsewhere the spans in between are added: half a bucket for
    each edge at most. That is compiled: see ``columns.c``.

    Parameters
    ----------
    elements : the spans of a row.
    keep : bool[n], the spans that count; None: all.

    Attributes
    ----------
    bucket : spans from one sum to the next, a power of two >= 32.
    group : buckets that share a base, a power of two; chosen so that what they
        cover fits 32 bits.
    fine : uint32[n_buckets + 1, n_names], time covered before each bucket since
        the begin of its group.
    base : int64[n_groups, n_names], time covered before each group.
    """

    __slots__ = ("base", "bucket", "fine", "group")

    def __init__(self, elements: Elements, keep: Array | None = None) -> None:
        self.bucket, self.group = steps_of(elements)
        total = np.zeros(elements.n_names, np.int64)
        self.fine, self.base = made_sums(
            elements, keep, self.bucket, self.group, 0, total
        )

    @classmethod
    def of(cls, bucket: int, group: int, fine: Array, base: I64) -> "RunningSums":
        """Return sums that are known; see the attributes."""
        made = cls.__new__(cls)
        made.bucket, made.group, made.fine, made.base = bucket, group, fine, base
        return made


def steps_of(elements: Elements) -> tuple[int, int]:
    """Return (spans per bucket, buckets per group) of the running sums of a row."""
    bucket = bucket_size(elements.n_names)
    return bucket, _group_size(elements.row, bucket)


def made_sums(
    elements: Elements,
    keep: Array | None,
    bucket: int,
    group: int,
    first: int,
    total: I64,
) -> tuple[Array, I64]:
    """Return (fine, base) of the spans from position `first` on, see `RunningSums`.

    A group begins at `first`; `total`, the sums before it, is written to. `keep` is
    of all spans.
    """
    row, c = elements.row, elements.n_names
    n = len(elements) - first
    fine = np.zeros((n // bucket + 1, c), np.uint32)
    base = np.zeros((n // bucket // group + 1, c), np.int64)
    category = elements.category
    keep = None if keep is None else keep[first:]
    library().ggscope_rows_sums(
        row.start[first:], row.end[first:], category[first:], category.itemsize,
        elements.number, keep, n, bucket, group, c, total, fine, base,
    )  # fmt: skip
    return fine, base


def bucket_size(n_categories: int) -> int:
    """Return spans per bucket: at most two bytes of sums per span."""
    size = 32
    while size < 2 * n_categories:
        size *= 2
    return size


def _group_size(row: Row, bucket: int) -> int:
    """Return how many buckets cover less than 2^32 ticks wherever they begin."""
    group = _MAX_GROUP
    while group > 1:
        ends = row.prefix[:: bucket * group // PREFIX_STEP]
        largest = int(np.diff(ends).max(initial=0))
        largest = max(largest, int(row.prefix[-1] - ends[-1]))
        if largest < 1 << 32:
            break
        group //= 2
    return group


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
    category: Array = elements.number[elements.category]
    weight = elements.lengths(slice(None))
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
