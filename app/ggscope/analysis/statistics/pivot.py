"""Statistics by two things at once: layers by ops, tokens by threads.

A span counts in the row and in the column that it belongs to, as in the tables by
either: the cells of a row add up to the row of that table. Of two groupings at most one
may share spans out (experts, sources).
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ggscope.analysis.reads.op_io import is_repeated
from ggscope.analysis.statistics import scan
from ggscope.analysis.statistics.grouping import (
    WITHOUT_OPS,
    Grouping,
    grouping,
)
from ggscope.analysis.statistics.scan import SpanBlocks, SpanScope
from ggscope.analysis.workers import CHUNK_ROWS, Watcher, add_by_group, chunks
from ggscope.errors import QueryError
from ggscope.model.selection import By
from ggscope.model.tables import I64, Array, Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

PivotMeasure = Literal["total", "share", "mean", "count", "ops", "bytes"]
PIVOT_MEASURES: tuple[PivotMeasure, ...] = get_args(PivotMeasure)
SHARING: tuple[By, ...] = ("source", "expert")
"""Groupings that count a span in several groups, or in each in part."""
F64 = npt.NDArray[np.float64]
_COUNT, _TIMED, _OPS, _TOTAL, _BYTES = range(5)
_MAX_CELLS = 1 << 18
"""Of more cells, rows by columns, only those that occur are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Pivot:
    """Figures of rows by columns.

    Attributes
    ----------
    by, across : what a row is, and a column.
    rows, columns : their labels.
    count, timed, ops, total, bytes : int64[n_rows + 1, n_columns + 1], as those of
        `StatRow`; the last row is that of all rows, the last column that of all
        columns, also of those that are left out. `bytes` are -1 where threads share
        ops and it is not known what is whose.
    n_rows, n_columns : how many there are, with those left out.
    """

    by: By
    across: By
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    count: I64
    timed: I64
    ops: I64
    total: I64
    bytes: I64
    n_rows: int
    n_columns: int

    def values(self, measure: PivotMeasure) -> F64:
        """Return a measure of the cells, NaN where nothing is there or known."""
        if measure in ("count", "ops", "bytes"):
            whole = np.asarray(getattr(self, measure), np.float64)
            return np.where((self.count > 0) & (whole >= 0), whole, np.nan)
        timed, total = self.timed.astype(np.float64), self.total.astype(np.float64)
        by = np.ones_like(timed)
        if measure == "share":
            by = np.full_like(timed, total[-1, -1])
        elif measure == "mean":
            by = timed
        known = (timed > 0) & (by > 0)
        values = np.full_like(total, np.nan)
        values[known] = total[known] / by[known]
        return values

    def cut(self, n_rows: int, n_columns: int) -> "Pivot":
        """Return the first rows and columns, and the sums of all."""
        rows = [*range(min(n_rows, len(self.rows))), -1]
        columns = [*range(min(n_columns, len(self.columns))), -1]
        arrays = {
            name: getattr(self, name)[np.ix_(rows, columns)]
            for name in ("count", "timed", "ops", "total", "bytes")
        }
        return replace(
            self,
            rows=self.rows[: len(rows) - 1],
            columns=self.columns[: len(columns) - 1],
            **arrays,
        )


def pivot(
    trace: Trace,
    by: By,
    across: By,
    *,
    mask: npt.NDArray[np.bool_] | None = None,
    ids: Array | None = None,
    time: TimeRange | None = None,
    include_estimated: bool = False,
    blocks: SpanBlocks | None = None,
    max_rows: int | None = None,
    max_columns: int | None = None,
    watcher: Watcher | None = None,
) -> Pivot:
    """Return the figures by two groupings.

    Rows and columns that are numbers come in their order, others longest total first;
    of more than `max_rows` or `max_columns` those of the longest total are kept.

    Parameters
    ----------
    mask, ids, time, include_estimated, blocks, watcher : as of ``stat_table``.

    Raises
    ------
    QueryError
        If the groupings are the same, or both share spans out.
    Cancelled
        From the watcher.
    """
    if by == across:
        raise QueryError(f"rows and columns are both by {by}; choose two groupings.")
    if by in SHARING and across in SHARING:
        raise QueryError(f"{by} and {across} both count spans in several groups.")
    groups = grouping(trace, by), grouping(trace, across)
    worst_used = Quality.UNFINISHED if include_estimated else Quality.DERIVED
    only_ops = not {by, across} <= set(WITHOUT_OPS)
    scope = SpanScope(mask, time, only_ops, worst_used)
    n_cells = len(groups[0]) * len(groups[1])
    can_scan = all(
        scan.can_scan(trace, one) or scan.can_split(trace, one) for one in groups
    )
    if ids is None and n_cells <= _MAX_CELLS and can_scan:
        blocks = SpanBlocks(trace) if blocks is None else blocks
        sums = _scanned(trace, *groups, scope, blocks, watcher)
        cell = np.flatnonzero(sums[:, _COUNT])
        sums = sums[cell]
    else:
        shares = across in SHARING
        cell, sums = _crossed(
            trace, *groups, scope, ids, watcher, shares_columns=shares
        )
    if any(one.shares_ops for one in groups):
        sums[:, _BYTES] = -1
        if any(one.is_of_lanes for one in groups):
            sums[:, _OPS] = sums[:, _COUNT]
    return _table(cell, sums, by, across, *groups, max_rows, max_columns)


def _scanned(
    trace: Trace,
    rows: Grouping,
    columns: Grouping,
    scope: SpanScope,
    blocks: SpanBlocks,
    watcher: Watcher | None,
) -> I64:
    """Return the figures of all cells, int64[n_rows * n_columns, 5], compiled."""
    if columns.split is None:
        return scan.crossed(trace, rows, columns, scope, blocks, watcher)
    turned = scan.crossed(trace, columns, rows, scope, blocks, watcher)
    cells = turned.reshape(len(columns), len(rows), -1).transpose(1, 0, 2)
    return np.ascontiguousarray(cells).reshape(len(turned), -1)


def _crossed(
    trace: Trace,
    rows: Grouping,
    columns: Grouping,
    scope: SpanScope,
    ids: Array | None,
    watcher: Watcher | None,
    *,
    shares_columns: bool,
) -> tuple[I64, I64]:
    """Return (cells that occur, ascending; their figures, int64[n, 5])."""
    chosen = None if ids is None else np.unique(np.asarray(ids, np.int64))
    s = trace.spans
    n = len(s) if chosen is None else len(chosen)
    cells, parts = [np.zeros(0, np.int64)], [np.zeros((0, 5), np.int64)]
    for piece in chunks(n, CHUNK_ROWS):
        if watcher is not None:
            watcher.progress(piece.start, n)
        part = np.arange(piece.start, piece.stop) if chosen is None else chosen[piece]
        part = part[scope.of(s, part)]
        a, b = rows.of(part), columns.of(part)
        # One may have a span several times; the other has the place of each.
        one, other = (b, a) if shares_columns else (a, b)
        span = np.arange(len(part)) if one.span is None else one.span
        place = other.place(len(part))[span]
        in_place = np.flatnonzero(place >= 0)
        span, group, place = span[in_place], one.group[in_place], place[in_place]
        if shares_columns:
            group, place = place, group
        cell = group * len(columns) + place
        row = part[span]
        used = quality_of(s.flags[row]) <= scope.worst_used
        ticks = np.maximum(s.end[row] - s.start[row], 0)
        if one.share is not None:
            whole = np.maximum(s.end[part] - s.start[part], 0)
            of_all = np.arange(len(part)) if one.span is None else one.span
            ticks = one.share.of(whole[of_all])[in_place]
        figures = np.stack(
            [
                np.ones_like(ticks),
                used,
                ~is_repeated(s.flags[row]),
                np.where(used, ticks, 0),
                one.bytes[in_place],
            ],
            axis=1,
        ).astype(np.int64)
        summed = _summed(cell, figures)
        cells.append(summed[0])
        parts.append(summed[1])
    return _summed(np.concatenate(cells), np.concatenate(parts))


def _summed(cell: I64, figures: I64) -> tuple[I64, I64]:
    """Return the cells that occur, and the sums of their figures."""
    occurring, place = np.unique(cell, return_inverse=True)
    sums = np.zeros((len(occurring), figures.shape[1]), np.int64)
    for k in range(figures.shape[1]):
        column = np.zeros(len(occurring), np.int64)
        add_by_group(column, place, figures[:, k])
        sums[:, k] = column
    return occurring, sums


def _table(
    cell: I64,
    sums: I64,
    by: By,
    across: By,
    rows: Grouping,
    columns: Grouping,
    max_rows: int | None,
    max_columns: int | None,
) -> Pivot:
    row, column = cell // max(len(columns), 1), cell % max(len(columns), 1)
    row_ids, row_labels, row_place = _shown_groups(rows, row, sums, max_rows)
    column_ids, column_labels, column_place = _shown_groups(
        columns, column, sums, max_columns
    )
    shape = len(row_labels) + 1, len(column_labels) + 1
    tables = []
    for k in range(sums.shape[1]):
        table = np.zeros(shape, np.int64)
        values = sums[:, k]
        for r, c in (
            (row_place, column_place),
            (row_place, np.full(len(cell), shape[1] - 1)),
            (np.full(len(cell), shape[0] - 1), column_place),
        ):
            keep = (r >= 0) & (c >= 0)
            np.add.at(table, (r[keep], c[keep]), values[keep])
        table[-1, -1] = values.sum()
        if len(values) and values.min() < 0:
            table[:] = -1
        tables.append(table)
    count, timed, ops, total, n_bytes = tables
    return Pivot(
        by, across, row_labels, column_labels, count, timed, ops, total, n_bytes,
        len(row_ids), len(column_ids),
    )  # fmt: skip


def _shown_groups(
    groups: Grouping, group: I64, sums: I64, limit: int | None
) -> tuple[I64, tuple[str, ...], I64]:
    """Return (groups that occur, labels of those kept, place of each cell's or -1)."""
    occurring, inverse = np.unique(group, return_inverse=True)
    total, count = np.zeros((2, len(occurring)), np.int64)
    add_by_group(total, inverse, sums[:, _TOTAL])
    add_by_group(count, inverse, sums[:, _COUNT])
    order = np.lexsort((occurring, -count, -total))[:limit]
    labels = [groups.label(g) for g in occurring[order].tolist()]
    numbers = [label for label in labels if label.isdecimal()]
    if numbers and len(labels) - len(numbers) <= 1:  # and what has no number, last
        last = max(map(int, numbers)) + 1
        value = [int(label) if label.isdecimal() else last for label in labels]
        by_number = sorted(range(len(labels)), key=value.__getitem__)
        order = order[by_number]
        labels = [labels[i] for i in by_number]
    place = np.full(len(occurring), -1, np.int64)
    place[order] = np.arange(len(order))
    return occurring, tuple(labels), place[inverse]
