"""The exact column picture of a row: how busy each pixel column is, and with what."""

import os
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.dominant_category import (
    MAX_EXACT,
    Dominant,
    Elements,
    RunningSums,
    merge,
)
from ggscope.analysis.rows.rows import COARSE_STEP, PREFIX_STEP, Ids, Row, SpanIds
from ggscope.analysis.rows.waits import WAIT_STEP, Waits
from ggscope.analysis.workers import CHUNK_ROWS, chunks
from ggscope.model.tables import I64, Array
from ggscope.model.units import TimeRange
from ggscope.native.declared import ColumnTable
from ggscope.native.declared import Row as KernelRow
from ggscope.native.library import library

FEW = 2
"""Columns of more spans than this have levels."""
MAX_LEVELS = 4096
OWN, WAITING, FREE = 0xFFFD, 0xFFFE, 0xFFFF
"""Levels that are no category: that of the column, waiting, and neither."""
U16 = npt.NDArray[np.uint16]
_NO_LEVELS = np.zeros(0, np.uint16)
LENGTH_BUCKET = 16
MAX_THREADS = min(os.cpu_count() or 1, 8)
_SPANS_PER_THREAD = 200_000
"""With fewer spans in all rows a thread costs more to start than it saves."""


class Once:
    """A value that is computed when it is first asked for."""

    __slots__ = ("_make", "_value")

    def __init__(self, make: Callable[[], I64]) -> None:
        self._make = make
        self._value: I64 | None = None

    def get(self) -> I64:
        """Return the value, made where nobody has asked before."""
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
    waited_ticks : int64[px], time in which the thread waited behind a span, exact; of
        a column narrower than a tick 1 if the tick is waited for. None where no
        waits are recorded.
    levels : uint16[px, n], what a column of more than `FEW` spans is made of, stacked
        from the bottom up in as many levels as were asked for: categories in the order
        of their numbers, then `WAITING`, then `FREE`. The end of each lies at the
        level next to its true share. Of rows of more than `MAX_EXACT` categories
        columns of many spans have `OWN` for all of them. None = not asked for.
    table, at : where they stand beside those of other rows that were asked for at
        once; None of rows without spans.
    """

    busy: npt.NDArray[np.float64]
    category: npt.NDArray[np.int32]
    count: I64
    covered_ticks: I64
    first: I64
    _longest: Once
    waited_ticks: I64 | None = None
    levels: U16 | None = None
    table: ColumnTable | None = None
    at: int = 0

    @property
    def n_levels(self) -> int:
        """How many levels its columns have, 0 = they were not asked for."""
        return 0 if self.levels is None else self.levels.shape[1]

    @property
    def longest(self) -> I64:
        """int64[px], id of the span that covers most of it (ties: first), -1.

        Computed on first use: pictures of folded columns do without.
        """
        return self._longest.get()


def table_of(rows: Sequence[Columns]) -> tuple[ColumnTable, I64]:
    """Return the columns of rows (at least one) side by side, and the place of each.

    Those that were asked for at once stand so already, and nothing is copied.
    """
    table = rows[0].table
    if table is not None and all(row.table is table for row in rows):
        return table, np.array([row.at for row in rows], np.int64)
    has_waits = any(row.waited_ticks is not None for row in rows)
    waited = [
        np.zeros(len(row.count), np.int64) if row.waited_ticks is None
        else row.waited_ticks for row in rows
    ]  # fmt: skip
    levels = [row.levels for row in rows if row.levels is not None]
    table = ColumnTable(
        busy=np.stack([row.busy for row in rows]),
        category=np.stack([row.category for row in rows]),
        count=np.stack([row.count for row in rows]),
        first=np.stack([row.first for row in rows]),
        waited=np.stack(waited) if has_waits else None,
        levels=np.concatenate([_NO_LEVELS, *levels], axis=None),
        level_at=np.cumsum([0, *(row.n_levels for row in rows)]),
        px=len(rows[0].count),
    )
    return table, np.arange(len(rows))


def column_edges(visible: TimeRange, px: int) -> I64:
    """Return int64[px + 1] edges of `px` columns over `visible`, exact integers.

    ``edges[k] = start + floor(k * duration / px)`` without overflow.
    """
    whole, rest = divmod(visible.duration, px)
    k = np.arange(px + 1, dtype=np.int64)
    return visible.start + k * whole + k * rest // px


@dataclass(frozen=True, slots=True, eq=False)
class Colors:
    """The categories of a row.

    Attributes
    ----------
    category : uint8/uint16[n] per position, the colouring's own numbers; None
        where all spans are of one category.
    number : uint16[n_categories], from those to 0..len(names) - 1.
    names : int32[n_names], the categories that occur, ascending.
    dominant : distinguishes them; None where all spans are of one.
    """

    category: Array | None
    number: Array
    names: npt.NDArray[np.int32]
    dominant: Dominant | None


@dataclass(frozen=True, slots=True, eq=False)
class FilteredRow:
    """What a filter keeps of a row.

    Attributes
    ----------
    mask : bool per span id.
    keep : bool[n], per position.
    kept, covered : uint32/int64[n // PREFIX_STEP + 1], kept spans before every
        PREFIX_STEP-th span, and the time that they cover.
    sums : running sums of what is kept; None where the row has none.
    waits : those behind what is kept; None where the row has none.
    """

    mask: npt.NDArray[np.bool_]
    keep: npt.NDArray[np.bool_]
    kept: npt.NDArray[np.uint32]
    covered: I64
    sums: RunningSums | None
    waits: Waits | None = None


class RowColumns:
    """Answers column queries for one row under one colouring.

    Parameters
    ----------
    row : the row.
    category : unsigned ints of one or two bytes per *span id* (index with
        ``row.id``), or None for 0.
    n_categories : number of categories.
    colors : the categories of the row where they are known.
    waits : those behind its spans; None where none are recorded.

    Notes
    -----
    Cost of a query grows with the picture, not with the row: busy by prefix sums
    and binary search; category by running sums (see ``rows.pyramid``). Rows
    with few spans per column are walked instead. May be asked from several
    threads at once.
    """

    def __init__(
        self,
        row: Row,
        category: Array | None = None,
        n_categories: int = 1,
        colors: Colors | None = None,
        waits: Waits | None = None,
    ) -> None:
        self._row = row
        self._by_id = category
        self._n_categories = n_categories
        self._colors = colors or _colors_of(row, category, n_categories)
        self._waits = waits
        # The first step of every search; small enough for a cache.
        self._top = row.coarse[::COARSE_STEP].copy()
        self._filter: FilteredRow | None = None
        self._selected: RowColumns | None = None
        self._lengths: I64 | None = None
        self._pointers: KernelRow | None = None

    @property
    def row(self) -> Row:
        """The row; under a filter that of the spans that are kept."""
        return self._row if self._filter is None else self._plain()._row

    def filtered(self, mask: npt.NDArray[np.bool_]) -> "RowColumns":
        """Return the same for the spans in `mask`, bool per span id.

        Copies no span: it holds sums of what is kept beside the spans of this
        row, a byte or two for each. Queries cost the same as without a filter.
        """
        row, waits = self._row, self._waits
        if not self.can_hold_back:
            chosen = row.select(mask)
            kept_waits = None if waits is None else make_waits(chosen, waits.wait)
            return RowColumns(chosen, self._by_id, self._n_categories, waits=kept_waits)
        keep = row.values_of(mask)
        prefix = np.zeros(len(row) // PREFIX_STEP + 1, np.uint32)
        covered = np.zeros(len(prefix), np.int64)
        library().ggscope_rows_kept(row.start, row.end, keep, len(row), prefix, covered)
        summed = self.summed
        sums = None if summed is None else RunningSums(summed, keep)
        kept_waits = None if waits is None else make_waits(row, waits.wait, keep)
        return self.under(FilteredRow(mask, keep, prefix, covered, sums, kept_waits))

    @property
    def can_hold_back(self) -> bool:
        """Whether a filter's sums can stand beside the spans of this row."""
        return len(self._row) > 0 and len(self._colors.names) <= MAX_EXACT

    @property
    def summed(self) -> Elements | None:
        """The spans whose running sums a filter needs; None where it needs none."""
        dominant = self._colors.dominant
        has_sums = dominant is not None and dominant.sums is not None
        return dominant.elements if dominant is not None and has_sums else None

    def with_waits(self, waits: Waits | None) -> "RowColumns":
        """Return the same with the waits behind the spans of the row."""
        if waits is self._waits:
            return self
        result = copy(self)
        result._waits, result._pointers = waits, None
        return result

    def under(self, filtered: FilteredRow) -> "RowColumns":
        """Return the same for the spans that a filter keeps."""
        result = copy(self)
        result._filter = filtered
        result._pointers = result._lengths = None
        return result

    def query(self, edges: I64) -> Columns:
        """Return the columns between consecutive `edges` (int64[px + 1], ascending).

        Columns without width say what is at their tick.
        """
        return query_many([self], edges)[0]

    def pointers(self) -> KernelRow:
        """Return where the kernel finds everything."""
        if self._pointers is None:
            self._pointers = self._make_pointers()
        return self._pointers

    @property
    def waits(self) -> Waits | None:
        """The waits behind the spans, under a filter behind those that are kept."""
        return self._waits if self._filter is None else self._filter.waits

    @property
    def n_names(self) -> int:
        """How many categories the row has."""
        return len(self._colors.names)

    @property
    def n_spans(self) -> int:
        """The number of spans, with those that a filter leaves out."""
        return len(self._row)

    def _plain(self) -> "RowColumns":
        """Return the kept spans as a row of their own (a copy of them)."""
        if self._selected is None and self._filter is not None:
            row = self._row.select(self._filter.mask)
            self._selected = RowColumns(row, self._by_id, self._n_categories)
        return self if self._selected is None else self._selected

    def _make_pointers(self) -> KernelRow:
        row, colors, filtered = self._row, self._colors, self._filter
        ids = row.id
        sums = None if colors.dominant is None else colors.dominant.sums
        sums = sums if filtered is None else filtered.sums
        runs = None if colors.dominant is None else colors.dominant.elements
        merged = runs if runs is not None and runs.bounds is not None else None
        first_id, listed = _listed(ids)
        waits = self.waits
        return KernelRow(
            start=row.start,
            end=row.end,
            top=self._top,
            coarse=row.coarse,
            prefix=row.prefix,
            ids=listed,
            category=colors.category,
            number=colors.number,
            names=colors.names,
            fine=None if sums is None else sums.fine,
            base=None if sums is None else sums.base,
            keep=None if filtered is None else filtered.keep,
            kept=None if filtered is None else filtered.kept,
            kept_covered=None if filtered is None else filtered.covered,
            bounds=None if merged is None else merged.bounds,
            element_category=None if merged is None else merged.category,
            wait=None if waits is None else waits.wait,
            waited=None if waits is None else waits.before,
            n_waits=0 if waits is None else len(waits.wait),
            n=len(row),
            first_id=first_id,
            n_names=len(colors.names),
            n_elements=0 if merged is None else len(merged),
            id_bytes=0 if listed is None else listed.itemsize,
            category_bytes=0 if colors.category is None else colors.category.itemsize,
            bucket_bits=0 if sums is None else sums.bucket.bit_length() - 1,
            group_bits=0 if sums is None else sums.group.bit_length() - 1,
        )

    def named(self, edges: I64, columns: Columns) -> None:
        """Write the categories that the kernel leaves open: those of several spans."""
        plain = self._plain()
        dominant, names = plain._colors.dominant, plain._colors.names
        shared = np.flatnonzero((columns.count > 1) & (columns.busy > 0))
        if dominant is not None and len(shared):
            begin, stop = _ends(edges)
            local = dominant.query(begin[shared], stop[shared])
            columns.category[shared] = names[local]

    def longest(self, edges: I64, count: I64, first: I64) -> I64:
        """Return the id of the span that covers most of each column, int64[px].

        `count` and `first` are those of `Columns`.
        """
        most = int(count.max(initial=0))
        if most < 2:
            return first
        plain = self._plain()
        row, lengths = plain._row, None
        if most > 2 * LENGTH_BUCKET:
            if plain._lengths is None:
                plain._lengths = _bucket_maxima(row)
            lengths = plain._lengths
        position = np.empty(len(count), np.int64)
        library().ggscope_rows_longest(
            row.start, row.end, len(row), edges, len(count), count, lengths, position
        )
        several = position >= 0
        result = first.copy()
        result[several] = row.id[position[several]]
        return result


def make_waits(
    row: Row,
    wait: npt.NDArray[np.uint32],
    keep: npt.NDArray[np.bool_] | None = None,
    before: I64 | None = None,
) -> Waits:
    """Return the waits behind the spans of a row.

    Parameters
    ----------
    wait : uint32[n_spans], by span id.
    keep : bool[n], per position; waits behind others do not count. None = all do.
    before : the sums that are known already, from the first on, int64[>= 1].
    """
    sums = np.zeros(len(row) // WAIT_STEP + 1, np.int64)
    n_known = 1
    if before is not None:
        n_known = min(len(before), len(sums))
        sums[:n_known] = before[:n_known]
    first_id, listed = _listed(row.id)
    kernel_row = KernelRow(
        start=row.start, end=row.end, ids=listed, keep=keep, wait=wait,
        n_waits=len(wait), n=len(row), first_id=first_id,
        id_bytes=0 if listed is None else listed.itemsize,
    )  # fmt: skip
    library().ggscope_columns_waits(kernel_row, n_known - 1, sums)
    sums.flags.writeable = False
    return Waits(wait, sums)


def _listed(ids: Ids) -> tuple[int, Array | None]:
    """Return the first id, and all of them where they do not follow each other."""
    if isinstance(ids, SpanIds):
        return ids.first, None
    return 0, np.ascontiguousarray(ids)


def query_many(
    rows: Sequence[RowColumns], edges: I64, n_levels: Sequence[int] = ()
) -> list[Columns]:
    """Return the columns of several rows, each as ``row.query(edges)`` would.

    `n_levels` is how many levels the columns of each row have, at most `MAX_LEVELS`;
    0 = none.

    The rows are shared among a few threads outside the interpreter; pictures of
    many rows cost a fraction of asking one after another. Their arrays are rows
    of common ones.
    """
    px = max(len(edges) - 1, 0)
    has_spans = [px > 0 and row.n_spans > 0 for row in rows]
    queried = list(compress(rows, has_spans))
    levels = list(compress(n_levels, has_spans))
    results = iter(
        _kernel_results(queried, np.ascontiguousarray(edges, np.int64), levels)
    )
    return [next(results) if has else _idle(px) for has in has_spans]


def totals(rows: Sequence[RowColumns], low: int, high: int) -> list[tuple[int, int]]:
    """Return (covered, waited) ticks of each row between `low` and `high`.

    As the one column of ``row.query`` would, without its other results; waited is
    -1 where a row has no waits.
    """
    edges = np.array([low, high], np.int64)
    queried = [row for row in rows if row.n_spans]
    if not queried:
        return [(0, -1)] * len(rows)
    covered, waited = _kernel(queried, edges)[3:5]
    results = iter(
        (int(covered[at, 0]), -1 if waited is None or row.waits is None
         else int(waited[at, 0]))
        for at, row in enumerate(queried)
    )  # fmt: skip
    return [next(results) if row.n_spans else (0, -1) for row in rows]


def add_ticks(rows: Sequence[RowColumns], edges: I64, ticks: I64) -> list[Columns]:
    """Return the columns of rows, and add what each category covers of them.

    Parameters
    ----------
    ticks : int64[n_categories, px], added to. Exact, but for columns of many spans in
        rows of more than `MAX_EXACT` categories: all of those counts as the one that
        covers most.
    """
    px = len(edges) - 1
    queried = [row for row in rows if row.n_spans]
    if not queried or px < 1:
        return [_idle(max(px, 0)) for _ in rows]
    results = iter(
        _kernel_results(queried, np.ascontiguousarray(edges, np.int64), (), ticks)
    )
    return [next(results) if row.n_spans else _idle(px) for row in rows]


def _kernel(
    rows: Sequence[RowColumns],
    edges: I64,
    n_levels: Sequence[int] = (),
    ticks: I64 | None = None,
) -> tuple[Any, ...]:
    """Return what the kernel finds: arrays [rows, columns], and what it answered.

    Behind them the levels of all rows, and where those of each begin.
    """
    n, px = len(rows), len(edges) - 1
    n_names = max(row.n_names for row in rows)
    n_spans = sum(row.n_spans for row in rows)
    limit = MAX_THREADS if px > 1 else 1  # one column is found sooner than threads
    n_threads = max(min(limit, n, n_spans // _SPANS_PER_THREAD), 1)
    count, covered, first = np.empty((3, n, px), np.int64)
    has_waits = any(row.waits is not None for row in rows)
    waited = np.zeros((n, px), np.int64) if has_waits else None
    busy, category = np.empty((n, px)), np.empty((n, px), np.int32)
    is_done = np.zeros(n, np.int32)
    level_at = np.zeros(n + 1, np.int64)
    if n_levels:
        np.cumsum(np.minimum(n_levels, MAX_LEVELS), out=level_at[1:])
    levels = np.empty(int(level_at[-1]) * px, np.uint16)
    scratch = np.zeros((n_threads, 3 * px + n_names), np.int64)
    library().ggscope_columns(
        (KernelRow * n)(*(row.pointers() for row in rows)), n, edges, px,
        busy, category, count, covered, first, waited, level_at, levels, ticks,
        is_done, scratch, scratch.shape[1], n_threads,
    )  # fmt: skip
    return busy, category, count, covered, waited, first, is_done, levels, level_at


def _kernel_results(
    rows: Sequence[RowColumns],
    edges: I64,
    n_levels: Sequence[int] = (),
    ticks: I64 | None = None,
) -> Iterator[Columns]:
    """Yield the columns of rows that have spans, where there are columns."""
    if not rows or len(edges) < 2:
        return
    results = _kernel(rows, edges, n_levels, ticks)
    busy, category, count, covered, waited, first, is_done, levels, level_at = results
    px = len(edges) - 1
    table = ColumnTable(
        busy=busy, category=category, count=count, first=first, waited=waited,
        levels=levels, level_at=level_at, px=px,
    )  # fmt: skip
    bounds = level_at.tolist()
    for at, (row, shares, codes, counts, ticks_of, ids) in enumerate(
        zip(rows, busy, category, count, covered, first, strict=True)
    ):
        columns = Columns(
            shares, codes, counts, ticks_of, ids,
            Once(partial(row.longest, edges, counts, ids)),
            None if waited is None or row.waits is None else waited[at],
            levels[bounds[at] * px : bounds[at + 1] * px].reshape(px, -1)
            if n_levels and n_levels[at] else None,
            table, at,
        )  # fmt: skip
        if not is_done[at]:
            row.named(edges, columns)
            if ticks is not None:
                several = np.flatnonzero((count[at] > 1) & (covered[at] > 0))
                ticks[category[at, several], several] += covered[at, several]
        yield columns


def _ends(edges: I64) -> tuple[I64, I64]:
    """Return where columns begin and end; one without width lasts its tick."""
    return edges[:-1], np.maximum(edges[1:], edges[:-1] + 1)


def _idle(px: int) -> Columns:
    return Columns(
        busy=np.zeros(px),
        category=np.full(px, -1, np.int32),
        count=np.zeros(px, np.int64),
        covered_ticks=np.zeros(px, np.int64),
        first=np.full(px, -1, np.int64),
        _longest=Once(lambda: np.full(px, -1, np.int64)),
    )


def _colors_of(row: Row, category: Array | None, n_categories: int) -> Colors:
    """Return the categories of a row; `category` is per span id."""
    if category is None or not len(row):
        return Colors(None, np.zeros(1, np.uint16), np.zeros(1, np.int32), None)
    values = row.values_of(category)
    present = _present(values, n_categories)
    number = np.zeros(n_categories, np.uint16)
    number[present] = np.arange(len(present))
    if len(present) == 1:
        return Colors(None, number, present, None)
    dominant = Dominant(merge(row, values, number, len(present)))
    return Colors(values, number, present, dominant)


def _present(values: Array, n_categories: int) -> npt.NDArray[np.int32]:
    """Return the categories that occur, ascending. Raises IndexError beyond n."""
    seen = np.zeros(1 << (8 * values.itemsize), np.bool_)
    library().ggscope_codes_seen(values, values.itemsize, len(values), seen)
    present = np.flatnonzero(seen).astype(np.int32)
    if int(present[-1]) >= n_categories:
        raise IndexError(f"category {int(present[-1])} of {n_categories}")
    return present


def _bucket_maxima(row: Row) -> I64:
    """Return the greatest length in each whole bucket of spans."""
    size = LENGTH_BUCKET
    result = np.zeros(len(row) // size, np.int64)
    for part in chunks(len(result), CHUNK_ROWS // size):
        spans = slice(part.start * size, part.stop * size)
        lengths = row.end[spans] - row.start[spans]
        result[part] = lengths.reshape(-1, size).max(axis=1)
    return result
