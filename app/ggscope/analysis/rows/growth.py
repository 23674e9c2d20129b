"""Derived data of a growing trace: each part appends instead of recomputing.

New spans have larger ids than all known ones, but may start earlier. Then the part of
a lane after the last tick that no span crosses is laid out again, together with them.
The result is bit for bit that of computing the whole trace at once.

Snapshots older than the known state get None: the caller computes them like those of
any other trace.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np

from ggscope.analysis.rows.categories import Categories
from ggscope.analysis.rows.colorings import coloring
from ggscope.analysis.rows.columns import Colors, FilteredRow, RowColumns, make_waits
from ggscope.analysis.rows.dominant_category import (
    MAX_EXACT,
    MIN_SUMMED,
    Dominant,
    Elements,
    RunningSums,
    made_sums,
    steps_of,
)
from ggscope.analysis.rows.lanes import work_rows
from ggscope.analysis.rows.rows import (
    COARSE_STEP,
    MAX_ROWS,
    PREFIX_STEP,
    Row,
    flatten,
    stack,
)
from ggscope.analysis.rows.waits import WAIT_STEP, Waits
from ggscope.analysis.workers import Groups
from ggscope.model.growing import Growing
from ggscope.model.selection import ColorBy
from ggscope.model.tables import I64, Array, Phase, Spans, schema_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.native.library import library

_FEW_SPANS = 1 << 18
"""Up to so many spans the order of ops by count is computed again."""
_MAX_STEPS = 1000
"""A lane whose spans overlap in a longer chain than this is laid out as a whole."""

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True, eq=False)
class PartedGroups(Groups):
    """Groups whose ids lie apart; `first` and `order` say nothing.

    Attributes
    ----------
    parts : the ids of each group.
    """

    parts: tuple[Array, ...] = ()

    def ids(self, group: int) -> slice | Array:
        """Return the ids of a group, ascending."""
        return self.parts[group]


class Growth:
    """The derived data of one growing trace, from snapshot to snapshot.

    Thread-safe. Each part is computed on request, and extended by the spans that came
    since the last request.
    """

    def __init__(self) -> None:
        self._guard = Lock()
        self._parts: dict[Hashable, tuple[Lock, object]] = {}

    def groups(self, trace: Trace, field: str, column: Array, n: int) -> Groups | None:
        """Return the spans by `column`, n groups; of all fields but "lane" the work."""
        return self._extended(
            ("groups", field),
            _Ids,
            lambda part: part.extended_to(trace, field, column, n),
        )

    def counts(self, trace: Trace, columns: Sequence[str]) -> list[I64] | None:
        """Return how many work spans have each value of columns, int64[max + 1]."""
        counts = [
            self._extended(
                ("counts", name),
                _Counts,
                partial(_Counts.extended_to, trace=trace, name=name),
            )
            for name in columns
        ]
        complete = [count for count in counts if count is not None]
        return complete if len(complete) == len(counts) else None

    def rows(self, trace: Trace, lane: int, ids: Array) -> tuple[Row, ...] | None:
        """Return the rows of a lane of the trace, whose spans are `ids`."""
        return self._extended(
            ("rows", lane), _Stack, lambda part: part.extended_to(trace, ids)
        )

    def union(
        self, trace: Trace, field: str, value: int, ids: Array
    ) -> tuple[Row, ...] | None:
        """Return the one row of a lane by a field, whose spans are `ids`."""
        return self._extended(
            ("union", field, value), _Union, lambda part: part.extended_to(trace, ids)
        )

    def columns(
        self, key: str, rows: tuple[Row, ...], categories: Categories
    ) -> tuple[RowColumns, ...] | None:
        """Return the column queries of the rows of a lane."""
        columns = []
        for number, row in enumerate(rows):
            colored = self._extended(
                ("columns", categories.by, key, number),
                _Colors,
                partial(_Colors.extended_to, row=row, categories=categories),
            )
            if colored is None:
                return None
            columns.append(colored)
        return tuple(columns)

    def waits(
        self, key: str, rows: tuple[Row, ...], wait: Array
    ) -> tuple[Waits, ...] | None:
        """Return the waits behind the spans of the rows of a lane."""
        waits_of_rows = [
            self._extended(
                ("waits", key, number),
                _Waits,
                partial(_Waits.extended_to, row=row, wait=wait),
            )
            for number, row in enumerate(rows)
        ]
        known = [waits for waits in waits_of_rows if waits is not None]
        return tuple(known) if len(known) == len(waits_of_rows) else None

    def filtered(
        self, key: str, by: ColorBy, full: tuple[RowColumns, ...], mask: Array
    ) -> tuple[RowColumns, ...] | None:
        """Return the column queries of the spans of a lane that `mask` keeps."""
        filtered_rows = [
            self._extended(
                ("filtered", by, key, number),
                _FilteredColumns,
                partial(_FilteredColumns.extended_to, row=row, mask=mask),
            )
            for number, row in enumerate(full)
        ]
        known = [row for row in filtered_rows if row is not None]
        return tuple(known) if len(known) == len(filtered_rows) else None

    def categories(self, trace: Trace, by: ColorBy) -> Categories | None:
        """Return a colouring; ops are ordered by an earlier count."""
        if not coloring(by).grows_by_appending:
            return None
        return self._extended(
            ("categories", by), _GrowingCategories, lambda p: p.extended_to(trace, by)
        )

    def time_order(self, trace: Trace) -> Array | None:
        """Return span ids by (start, id)."""
        return self._extended(
            "order", InTimeOrder, lambda part: part.extended_to(trace)
        )

    def listed_order(self, trace: Trace, lanes: Array) -> Array | None:
        """Return the ids of the spans of marked lanes by (start, id)."""
        return self._extended(
            "listed", _LaneOrder, lambda part: part.extended_to(trace, lanes)
        )

    def phases(self, trace: Trace) -> dict[Phase, TimeRange] | None:
        """Return from when to when the spans of each phase last."""
        return self._extended("phases", _Phases, lambda part: part.extended_to(trace))

    def _extended(
        self, key: Hashable, kind: type[_T], ask: Callable[[_T], _R | None]
    ) -> _R | None:
        with self._guard:
            lock, part = self._parts.setdefault(key, (Lock(), kind()))
        with lock:
            return ask(cast(_T, part))


class _Ids:
    """Span ids by group."""

    def __init__(self) -> None:
        self._n = 0
        self._ids: list[Growing] = []

    def extended_to(
        self, trace: Trace, field: str, column: Array, n: int
    ) -> Groups | None:
        """Return the groups of the spans of `trace`."""
        first, stop = self._n, len(column)
        if stop < first:
            return None
        self._ids += [Growing(np.int32) for _ in range(n - len(self._ids))]
        if stop > first:
            values = column[first:stop]
            if field != "lane":
                values = np.where(work_rows(trace, slice(first, stop)), values, -1)
            order = np.argsort(values, kind="stable")
            bounds = np.searchsorted(values[order], np.arange(n + 1))
            order = (order + first).astype(np.int32 if stop < 1 << 31 else np.int64)
            for group in np.flatnonzero(np.diff(bounds)).tolist():
                self._ids[group].append(order[bounds[group] : bounds[group + 1]])
            self._n = stop
        count = np.array([len(ids) for ids in self._ids[:n]], np.int64)
        parts = tuple(ids.view() for ids in self._ids[:n])
        # Ids of a group are not contiguous.
        return PartedGroups(count, np.zeros(n, np.int64), np.zeros(0, np.int32), parts)


class _Counts:
    """How many work spans have each value of a column."""

    def __init__(self) -> None:
        self._n = 0
        self._count = np.zeros(0, np.int64)
        self._width = 0

    def extended_to(self, trace: Trace, name: str) -> I64 | None:
        """Return the counts, int64[max + 1] of the largest value of any span."""
        column, n = getattr(trace.spans, name), len(trace.spans)
        if n < self._n:
            return None
        if column is not None and n > self._n:
            rows = slice(self._n, n)
            values = column[rows]
            self._width = max(self._width, int(values.max()) + 1)
            values = values[work_rows(trace, rows) & (values >= 0)]
            count = np.bincount(values, minlength=self._width).astype(np.int64)
            count[: len(self._count)] += self._count
            self._count = count
        self._n = n
        return self._count


class _Lane(ABC):
    """The rows of a lane.

    Attributes
    ----------
    rows : outermost first.
    """

    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self._n = 0
        self._last_end = -(1 << 63)
        self._shown: tuple[Row, ...] = ()
        self._is_deep = False

    def extended_to(self, trace: Trace, ids: Array) -> tuple[Row, ...] | None:
        """Return the rows of the spans `ids`; the known ones are the first of these."""
        if len(ids) < self._n or self._is_deep:
            return None
        if len(ids) > self._n:
            spans, new = trace.spans, ids[self._n :]
            start = spans.start[new]
            low, cut = int(start.min()), None
            if low < self._last_end:
                cut = self._cut(spans, low)
            self._arrange(spans, new, start, cut)
            self._n = len(ids)
            self._last_end = max(self._last_end, int(spans.end[new].max()))
            self._shown = tuple(row.row() for row in self.rows if len(row))
        return None if self._is_deep else self._shown

    def _cut(self, spans: Spans, low: int) -> int:
        """Return the last tick up to `low` that no span crosses."""
        cut = low
        for _ in range(_MAX_STEPS):
            moved = min((row.crossing(spans, cut) for row in self.rows), default=cut)
            if moved == cut:
                return cut
            cut = moved
        return -(1 << 63)

    @abstractmethod
    def _arrange(self, spans: Spans, new: Array, start: I64, cut: int | None) -> None:
        """Put the spans `new` into rows; nothing before `cut` changes."""

    def _put(self, rows: tuple[Row, ...], cut: int | None) -> None:
        """Put rows in the place of all that starts at `cut` or later; None: behind."""
        self.rows += [_Row() for _ in range(len(rows) - len(self.rows))]
        for i, row in enumerate(self.rows):
            at = len(row) if cut is None else row.position(cut)
            if i < len(rows):
                row.put(at, rows[i])
            elif at < len(row):
                row.put(at, None)


class _Stack(_Lane):
    """The rows of a lane of the trace, as `stack` makes them."""

    def _arrange(self, spans: Spans, new: Array, start: I64, cut: int | None) -> None:
        if cut is not None:
            again = [row.ids_from(row.position(cut)) for row in self.rows]
            new = np.sort(np.concatenate([*again, new]))
            start = spans.start[new]
        rows = stack(start, spans.end[new], new)
        self._is_deep = len(rows) == MAX_ROWS
        self._put(rows, cut)


class _Union(_Lane):
    """The one row of a lane that gathers the spans of others, as `flatten` makes it."""

    def __init__(self) -> None:
        super().__init__()
        self._order = InTimeOrder()

    def _arrange(self, spans: Spans, new: Array, start: I64, cut: int | None) -> None:
        self._order.add(spans.start, new)
        if cut is not None:
            new = np.sort(self._order.since(spans.start, cut))
            start = spans.start[new]
        self._put((flatten(start, spans.end[new], new),), cut)


class _Row:
    """A `Row` that grows."""

    def __init__(self) -> None:
        self._start, self._end = Growing(np.int64), Growing(np.int64)
        self._id = Growing(np.int32)
        self._prefix, self._coarse = Growing(np.int64), Growing(np.int64)
        self._prefix.append(np.zeros(1, np.int64))
        self._puts: list[int] = []

    def __len__(self) -> int:
        return len(self._start)

    def position(self, tick: int) -> int:
        """Return how many spans start before `tick`."""
        return int(np.searchsorted(self._start.view(), tick, "left"))

    def ids_from(self, at: int) -> Array:
        """Return the ids of the spans from position `at` on."""
        return self._id.view()[at:]

    def crossing(self, spans: Spans, tick: int) -> int:
        """Return the start of the span that crosses `tick`; `tick` for none."""
        at = self.position(tick)
        start, end, ids = self._start.view(), self._end.view(), self._id.view()
        if at and int(end[at - 1]) > tick:
            return int(spans.start[ids[at - 1]])
        # In a union a span is shown from where it sticks out behind another one.
        if at < len(start) and int(start[at]) == tick:
            return min(int(spans.start[ids[at]]), tick)
        return tick

    def put(self, at: int, row: Row | None) -> None:
        """Put the spans of `row` in the place of all from position `at` on."""
        self._puts.append(at)
        nothing = np.zeros(0, np.int64)
        self._start.put(at, nothing if row is None else row.start)
        self._end.put(at, nothing if row is None else row.end)
        self._id.put(at, nothing if row is None else np.asarray(row.id))
        block = at // PREFIX_STEP
        start, end = self._start.view()[block * PREFIX_STEP :], self._end.view()
        end = end[block * PREFIX_STEP :]
        prefix = np.empty(len(start) // PREFIX_STEP + 1, np.int64)
        library().ggscope_rows_prefix(start, end, len(start), prefix)
        prefix += self._prefix.view()[block]
        self._prefix.put(block + 1, prefix[1:])
        block = -(-at // COARSE_STEP)
        self._coarse.put(block, self._start.view()[block * COARSE_STEP :: COARSE_STEP])

    def row(self) -> Row:
        """Return the present row."""
        return Row(
            self._start.view(),
            self._end.view(),
            self._id.view(),
            self._prefix.view(),
            self._coarse.view(),
            puts=(self._puts, len(self._puts)),
        )


class _Colors:
    """The column queries of a row under a colouring."""

    def __init__(self) -> None:
        self._row: Row | None = None
        self._result: RowColumns | None = None
        self._keys: tuple[str, ...] = ()
        self._category = Growing(np.uint8)
        self._seen = np.zeros(0, np.bool_)
        self._sums: _Sums | None = None

    def extended_to(self, row: Row, categories: Categories) -> RowColumns | None:
        """Return the queries of `row`, the same row as last time, perhaps longer."""
        if row is self._row and categories.keys is self._keys:
            return self._result
        valid = row.n_same_since(self._row)
        if valid is None:
            return None
        index, n = categories.index, len(categories.keys)
        if categories.keys is not self._keys or index.dtype != self._category.dtype:
            self._category, self._sums, valid = Growing(index.dtype), None, 0
            self._seen = np.zeros(n, np.bool_)
        new = index[row.id[valid:]]
        self._category.put(valid, new)
        self._seen[new] = True
        self._row, self._keys = row, categories.keys
        self._result = RowColumns(row, index, n, self._colors(row, valid))
        return self._result

    def _colors(self, row: Row, valid: int) -> Colors | None:
        """Return the categories of the row; None where it has too many."""
        # May list a category whose spans moved to another row: it never wins.
        names = np.flatnonzero(self._seen).astype(np.int32)
        number = np.zeros(len(self._seen), np.uint16)
        number[names] = np.arange(len(names))
        if len(names) < 2:
            return Colors(None, number, names, None)
        if len(names) > MAX_EXACT:
            return None
        category = self._category.view()
        elements = Elements(row, category, number, len(names))
        sums = None
        if len(row) >= MIN_SUMMED:
            if self._sums is None or not self._sums.fits(elements):
                self._sums, valid = _Sums(elements), 0
            sums = self._sums.extended_to(elements, valid)
        else:
            self._sums = None
        return Colors(category, number, names, Dominant(elements, sums))


class _Waits:
    """The waits behind the spans of a row, or behind those that a filter keeps."""

    def __init__(self) -> None:
        self._row: Row | None = None
        self._before = Growing(np.int64)
        self._before.append(np.zeros(1, np.int64))

    def extended_to(self, row: Row, wait: Array) -> Waits | None:
        """Return the waits of `row`, the same row as last time, perhaps longer."""
        valid = row.n_same_since(self._row)
        if valid is None:
            return None
        self._row = row
        return self.put(row, wait, valid)

    def put(
        self, row: Row, wait: Array, valid: int, keep: Array | None = None
    ) -> Waits:
        """Return the waits of `row`; its first `valid` spans are as they were."""
        # How long a wait may be depends on the span behind it, which may be new.
        known = self._before.view()[: max(valid - 1, 0) // WAIT_STEP + 1]
        waits = make_waits(row, wait, keep, known)
        self._before.put(len(known), waits.before[len(known) :])
        return Waits(wait, self._before.view())


class _FilteredColumns:
    """The spans of a row that pass a filter."""

    def __init__(self) -> None:
        self._row: Row | None = None
        self._mask: Array | None = None
        self._reset()

    def _reset(self) -> None:
        self._keep = Growing(np.bool_)
        self._prefix, self._covered = Growing(np.uint32), Growing(np.int64)
        self._prefix.append(np.zeros(1, np.uint32))
        self._covered.append(np.zeros(1, np.int64))
        self._sums: _Sums | None = None
        self._waits: _Waits | None = None

    def extended_to(self, row: RowColumns, mask: Array) -> RowColumns | None:
        """Return the queries of what `mask` keeps of `row`."""
        if not row.can_hold_back:
            return row.filtered(mask)
        spans = row.row
        valid = spans.n_same_since(self._row)
        if valid is None:
            return None
        # A growing mask stays in the same array; another array is another filter.
        before = self._mask
        if before is None or before.base is None or before.base is not mask.base:
            self._reset()
            valid = 0
        self._row, self._mask = spans, mask
        self._keep.put(valid, mask[spans.id[valid:]])
        keep = self._keep.view()
        block = valid // PREFIX_STEP
        first = block * PREFIX_STEP
        start, end = spans.start[first:], spans.end[first:]
        prefix = np.empty(len(start) // PREFIX_STEP + 1, np.uint32)
        covered = np.empty(len(prefix), np.int64)
        library().ggscope_rows_kept(
            start, end, keep[first:], len(start), prefix, covered
        )
        self._prefix.put(block + 1, (prefix + self._prefix.view()[block])[1:])
        self._covered.put(block + 1, (covered + self._covered.view()[block])[1:])
        waits = row.waits
        if waits is None:
            kept_waits, self._waits = None, None
        else:
            known = valid if self._waits is not None else 0
            self._waits = self._waits or _Waits()
            kept_waits = self._waits.put(spans, waits.wait, known, keep)
        summed, sums = row.summed, None
        if summed is None:
            self._sums = None
        else:
            if self._sums is None or not self._sums.fits(summed):
                self._sums, valid = _Sums(summed), 0
            sums = self._sums.extended_to(summed, valid, keep)
        return row.under(
            FilteredRow(
                mask, keep, self._prefix.view(), self._covered.view(), sums, kept_waits
            )
        )


class _Sums:
    """Running sums of a row that grows."""

    def __init__(self, elements: Elements) -> None:
        n_names = elements.n_names
        self._number = elements.number
        self._bucket, self._group = steps_of(elements)
        self._fine = Growing(np.uint32, n_names)
        self._base = Growing(np.int64, n_names)
        self._fine.append(np.zeros((1, n_names), np.uint32))
        self._base.append(np.zeros((1, n_names), np.int64))

    def fits(self, elements: Elements) -> bool:
        """Return whether new sums would have the same steps."""
        steps = (self._bucket, self._group)
        return steps == steps_of(elements) and np.array_equal(
            self._number, elements.number
        )

    def extended_to(
        self, elements: Elements, valid: int, keep: Array | None = None
    ) -> RunningSums:
        """Return the sums; those of the first `valid` spans are as they were."""
        bucket, group = self._bucket, self._group
        # The kernel begins with a base: at most 63 buckets are added up once more.
        known = min(valid // bucket, len(self._fine) - 1)
        first = known // group * group
        at, total = first // group, self._base.view()[first // group].copy()
        fine, base = made_sums(elements, keep, bucket, group, first * bucket, total)
        self._fine.put(known + 1, fine[known + 1 - first :])
        self._base.put(at + 1, base[1:])
        return RunningSums.of(bucket, group, self._fine.view(), self._base.view())


class _GrowingCategories:
    """A number per span under a colouring."""

    def __init__(self) -> None:
        self._n = self._n_counted = 0
        self._index = Growing(np.uint8)
        self._result: Categories | None = None

    def extended_to(self, trace: Trace, by: ColorBy) -> Categories | None:
        """Return the colouring of the spans of `trace`."""
        n = len(trace.spans)
        if n < self._n:
            return None
        if n > self._n or self._result is None:
            if not self._appended(trace, by):
                self._reset(trace, by)
            self._n = n
        earlier = self._result
        assert earlier is not None
        self._result = replace(earlier, index=self._index.view())
        return self._result

    def _appended(self, trace: Trace, by: ColorBy) -> bool:
        """Append the colours of the new spans; False if one is unknown."""
        before, n = self._result, len(trace.spans)
        # Ops are ordered by count again whenever a short trace has doubled.
        may_reorder = coloring(by).orders_by_count and n <= _FEW_SPANS
        is_reordered = may_reorder and n > 2 * self._n_counted
        if before is None or is_reordered or len(trace.accesses.loose):
            return False
        part = coloring(by).categorize(_part(trace, self._n))
        place = {key: i for i, key in enumerate(before.keys)}
        places = [place.get(key, -1) for key in part.keys]
        if min(places) < 0 or len(place) < len(before.keys):
            return False
        table = np.array(places, self._index.dtype)
        self._index.append(table[part.index])
        return True

    def _reset(self, trace: Trace, by: ColorBy) -> None:
        self._result = coloring(by).categorize(trace)
        self._index = Growing(self._result.index.dtype)
        self._index.append(self._result.index)
        self._n_counted = len(trace.spans)


class InTimeOrder:
    """Span ids by (start, id)."""

    def __init__(self) -> None:
        self._n = 0
        self._ids = Growing(np.int32)

    def __len__(self) -> int:
        return len(self._ids)

    def extended_to(self, trace: Trace) -> Array | None:
        """Return all spans of `trace` in time order."""
        n = len(trace.spans)
        if n < self._n:
            return None
        if n > self._n:
            self.add(trace.spans.start, np.arange(self._n, n, dtype=np.int32))
            self._n = n
        return self._ids.view()

    def add(self, start: I64, ids: Array) -> None:
        """Add spans, whose ids are larger than all that are known.

        `start` is that of every span of the trace.
        """
        new = ids[np.argsort(start[ids], kind="stable")]
        at = self._position(start, int(start[new[0]]), bisect_right)
        if at < len(self._ids):
            both = np.concatenate([self._ids.view()[at:], new])
            new = both[np.argsort(start[both], kind="stable")]
        self._ids.put(at, new)

    def since(self, start: I64, tick: int) -> Array:
        """Return the spans that start at `tick` or later."""
        return self._ids.view()[self._position(start, tick, bisect_left) :]

    def view(self) -> Array:
        """Return all spans."""
        return self._ids.view()

    def _position(self, start: I64, tick: int, find: Callable[..., int]) -> int:
        ids = self._ids.view()
        return find(range(len(ids)), tick, key=lambda i: int(start[ids[i]]))


class _LaneOrder:
    """Span ids of some lanes by (start, id)."""

    def __init__(self) -> None:
        self._n = 0
        self._lanes = np.zeros(0, np.bool_)
        self._order = InTimeOrder()

    def extended_to(self, trace: Trace, lanes: Array) -> Array | None:
        """Return those of `trace`; `lanes` is bool per lane."""
        n = len(trace.spans)
        if n < self._n:
            return None
        if not np.array_equal(lanes[: len(self._lanes)], self._lanes):
            self._n, self._order = 0, InTimeOrder()
        self._lanes = lanes
        if n > self._n:
            new = np.flatnonzero(lanes[trace.spans.lane[self._n :]]) + self._n
            if len(new):
                self._order.add(trace.spans.start, new.astype(np.int32))
            self._n = n
        return self._order.view()


class _Phases:
    """From when to when the spans of each phase last."""

    def __init__(self) -> None:
        self._n = 0
        self._result: dict[Phase, TimeRange] = {}

    def extended_to(self, trace: Trace) -> dict[Phase, TimeRange] | None:
        """Return the time of each phase that occurs."""
        spans, n = trace.spans, len(trace.spans)
        if n < self._n:
            return None
        for phase in Phase if spans.phase is not None else ():
            inside = np.flatnonzero(spans.phase[self._n :] == phase) + self._n  # type: ignore[index]
            if len(inside):
                low, high = spans.start[inside].min(), spans.end[inside].max()
                old = self._result.get(phase, TimeRange(int(low), int(high)))
                self._result[phase] = TimeRange(
                    min(old.start, int(low)), max(old.end, int(high))
                )
        self._n = n
        return dict(self._result)


def _part(trace: Trace, first: int) -> Trace:
    """Return the trace with the spans from `first` on alone."""
    spans: dict[str, Any] = {
        name: None if (column := getattr(trace.spans, name)) is None else column[first:]
        for name in schema_of(Spans)
    }
    accesses = replace(trace.accesses, pattern=trace.accesses.pattern[first:])
    return replace(trace, spans=Spans(**spans), accesses=accesses)
