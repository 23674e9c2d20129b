"""The order of the table's rows: which spans, sorted by what. No Qt here."""

import bisect
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.index import TraceIndex
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, Array, narrow, quality_of
from ggscope.model.trace import Trace
from ggscope.session.tasks import TaskContext

_LAST = np.iinfo(np.int64).max
_BANDS = (LaneKind.TOKEN, LaneKind.PHASE)


@dataclass(frozen=True, slots=True)
class Sorting:
    """What the table is sorted by: a column key and a direction."""

    column: str = "time"
    descending: bool = False


class OrderKey:
    """Sort values of spans, computed for whatever rows are asked for.

    Nothing as long as the trace is kept: a value is made from the trace's own
    columns and from tables with one entry per op, lane, name or pattern, so the
    place of one span among 33 million takes 25 look-ups and no memory.
    """

    def __init__(self, trace: Trace, sorting: Sorting) -> None:
        self.trace = trace
        self.sorting = sorting
        self._table = _lookup_table(trace, sorting.column)

    def values(self, ids: Array) -> I64:
        """Return int64[len(ids)]; smaller sorts first, what is missing last."""
        values = self._raw(ids)
        missing = values < 0
        ordered = -values if self.sorting.descending else values
        return np.where(missing, _LAST, ordered)

    def place(self, span: int) -> tuple[int, ...]:
        """Return what the place of `span` is decided by, ties included."""
        start = int(self.trace.spans.start[span])
        if self.sorting.column == "time":
            return (-start, -span) if self.sorting.descending else (start, span)
        value = int(self.values(np.array([span], np.int64))[0])
        return (value, start, span)

    def _raw(self, ids: Array) -> I64:
        spans, column = self.trace.spans, self.sorting.column
        if column == "duration":
            return spans.end[ids] - spans.start[ids]
        if column == "record":
            source = spans.record
            return np.asarray(ids if source is None else source[ids], np.int64)
        if column == "quality":
            return quality_of(spans.flags[ids]).astype(np.int64)
        if column in ("layer", "token", "phase"):
            source = getattr(spans, column)
            return (
                np.full(len(ids), -1, np.int64)
                if source is None
                else source[ids].astype(np.int64)
            )
        if column in ("sources", "bytes"):
            return self._table[self.trace.accesses.pattern[ids]]
        number = {"op": spans.op, "lane": spans.lane, "destination": spans.name}
        return self._table[number[column][ids]]


@dataclass(frozen=True, slots=True, eq=False)
class RowOrder:
    """Span ids in table order.

    Attributes
    ----------
    ids : any integer dtype, [n rows].
    key : decides the order.
    """

    ids: Array
    key: OrderKey

    def __len__(self) -> int:
        return len(self.ids)

    def row_of(self, span: int) -> int | None:
        """Return the row that shows `span`, or None where it is filtered out."""
        wanted = self.key.place(span)
        row = bisect.bisect_left(
            range(len(self.ids)), wanted, key=lambda i: self.key.place(int(self.ids[i]))
        )
        return row if row < len(self.ids) and int(self.ids[row]) == span else None

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
    """

    index: TraceIndex
    sorting: Sorting
    mask: npt.NDArray[np.bool_] | None = None

    def __call__(self, context: TaskContext | None = None) -> RowOrder:
        """Return the order. Raises Cancelled between its steps."""
        trace = self.index.trace
        ids = self.index.time_order()
        keep = _listed(trace, self.mask)
        if keep is not None:
            ids = ids[keep[ids]]
        _check(context)
        key = OrderKey(trace, self.sorting)
        if self.sorting.column != "time":
            _check(context)
            values = narrow(key.values(ids))
            _check(context)
            ids = ids[np.argsort(values, kind="stable")]
        elif self.sorting.descending:
            ids = ids[::-1]
        return RowOrder(ids, key)


def _listed(
    trace: Trace, mask: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.bool_] | None:
    """Return which spans are rows of the table, or None for all of them."""
    is_band = np.array([lane.kind in _BANDS for lane in trace.lanes], bool)
    if mask is not None and len(mask) < len(trace.spans):
        # The trace grew since the mask was made: the new spans wait for theirs.
        mask = np.append(mask, np.zeros(len(trace.spans) - len(mask), bool))
    if not is_band.any() or is_band.all():
        return mask
    rest = ~is_band[trace.spans.lane]
    if not rest.any():
        return mask
    return rest if mask is None else rest & mask


def _check(context: TaskContext | None) -> None:
    if context is not None:
        context.check_cancelled()


def _lookup_table(trace: Trace, column: str) -> I64:
    """Return the value per op, lane, name or pattern; the last entry is "none"."""
    if column == "op":
        n = int(trace.spans.op.max(initial=-1)) + 1
        return _ranks([trace.op_name(i) for i in range(n)])
    if column == "lane":
        ranks = sorted(trace.lanes, key=lambda lane: (lane.group, lane.sort_key))
        table = np.full(len(trace.lanes) + 1, -1, np.int64)
        table[[lane.id for lane in ranks]] = np.arange(len(ranks))
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
        string = np.where(tensor >= 0, _taken(trace.tensors.name, tensor), -1)
        table[used] = names[string]
        return table
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
        return np.append(sums, -1)
    return np.full(1, -1, np.int64)


def _taken(values: Array, rows: Array) -> I64:
    """Return ``values[rows]``, also where there are no values and rows are -1."""
    if not len(values):
        return np.full(len(rows), -1, np.int64)
    return values[rows].astype(np.int64)


def _ranks(texts: list[str]) -> I64:
    """Return the alphabetical place of each text; -1 for "" and in a last entry."""
    table = np.full(len(texts) + 1, -1, np.int64)
    order = sorted(range(len(texts)), key=lambda i: (texts[i].casefold(), texts[i]))
    table[order] = np.arange(len(order))
    for i, text in enumerate(texts):
        if not text:
            table[i] = -1
    return table
