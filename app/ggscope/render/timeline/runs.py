"""Runs of columns: filled by one span alone, or empty.

They are read from the columns of a row. Where a shader finds these (GPU rows), runs
are found by the lengths of spans and gaps, and cover the very same columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.columns import Columns, RowColumns, table_of
from ggscope.analysis.rows.peaks import RowPeaks
from ggscope.model.tables import I64, Array
from ggscope.native.library import library
from ggscope.render.gpu_rows import GpuRowSource
from ggscope.render.timeline.scene import TimeScale

MIN_IN_VIEW = 8
"""Rows with fewer spans in view are not worth GPU memory."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuRow:
    """A row that the GPU draws.

    Attributes
    ----------
    low, high : how many spans begin before the first and the last edge.
    """

    columns: RowColumns
    low: int
    high: int
    peaks: RowPeaks


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Runs of whole columns, row by row, int64[n] each.

    Attributes
    ----------
    owner : id of the span that fills a run; -1 for gaps.
    row : number of the row.
    first, stop : columns, half-open.
    """

    owner: I64
    row: I64
    first: I64
    stop: I64

    def take(self, chosen: Array) -> "Runs":
        """Return the chosen ones (indices or bool)."""
        return Runs(*(getattr(self, name)[chosen] for name in self.__slots__))


Numbered = Sequence[tuple[int, GpuRow]]
"""Rows with their numbers in the picture, ascending."""

NO_RUNS = Runs(*np.zeros((4, 0), np.int64))


def held_row(
    holder: GpuRowSource | None,
    columns: RowColumns,
    time: TimeScale,
    by_id: Array | None,
    n_categories: int,
) -> GpuRow | None:
    """Return a row for the GPU to draw, or None if the processor has to.

    Parameters
    ----------
    by_id : category per span id, None for a row of one hue.

    Notes
    -----
    Rows with few spans in view, and views of fewer ticks than pixels, are the
    processor's: the GPU would not be faster.
    """
    row, edges = columns.row, time.edges
    if holder is None or len(row) < MIN_IN_VIEW or time.duration < time.n_columns:
        return None
    low, high = row.start.searchsorted(edges[[0, -1]]).tolist()
    if high - low < MIN_IN_VIEW:
        return None
    peaks = holder.hold(columns, by_id, n_categories)
    return None if peaks is None else GpuRow(columns, low, high, peaks)


def wide_runs(rows: Numbered, time: TimeScale, min_columns: int) -> Runs:
    """Return the spans that fill at least `least` (>= 1) whole columns alone."""
    ticks = min_columns * (time.duration // time.n_columns)
    parts: list[tuple[Array, ...]] = []
    for number, gpu_row in rows:
        row = gpu_row.columns.row
        low = max(gpu_row.low - 1, 0)
        at = gpu_row.peaks.long_spans(row, low, gpu_row.high, ticks)
        if len(at):
            start = row.start[at]
            # An instant at the very tick where a span begins shares its column.
            follows = (at > 0) & (row.start[np.maximum(at - 1, 0)] == start)
            numbers = np.full(len(at), number)
            parts.append((numbers, row.id[at], start, row.end[at], follows))
    if not parts:
        return NO_RUNS
    numbers, ids, start, end, follows = _joined_fields(parts)
    first = _first_whole(start, follows, time)
    return _long_enough(ids, numbers, first, time.column_of(end), min_columns)


def gap_runs(rows: Numbered, time: TimeScale, min_columns: int) -> Runs:
    """Return the gaps between spans that leave `least` (>= 1) whole columns empty."""
    ticks = min_columns * (time.duration // time.n_columns)
    parts: list[tuple[Array, ...]] = []
    for number, gpu_row in rows:
        row = gpu_row.columns.row
        at = gpu_row.peaks.long_gaps(row, gpu_row.low - 1, gpu_row.high, ticks)
        if len(at):
            end = row.end[at]
            # An instant at an edge touches the column behind the edge.
            instant = end == row.start[at]
            parts.append((np.full(len(at), number), instant, end, row.start[at + 1]))
    if not parts:
        return NO_RUNS
    numbers, instant, end, following = _joined_fields(parts)
    first, stop = _first_whole(end, instant, time), time.column_of(following)
    return _long_enough(np.full(len(numbers), -1), numbers, first, stop, min_columns)


def _joined_fields(parts: list[tuple[Array, ...]]) -> list[Array]:
    """Return one array per field of the parts of several rows."""
    return [np.concatenate(field) for field in zip(*parts, strict=True)]


def _first_whole(ticks: Array, shared: Array, time: TimeScale) -> I64:
    """Return the first column that begins at a tick or later, in view.

    Where a tick is `shared` with an instant, a column that begins at it does not
    count.
    """
    column, left = time.column_of(ticks), time.edges[0]
    is_inside = time.edges[column] != np.maximum(ticks, left)
    return np.asarray(column + (is_inside | (shared & (ticks >= left))), np.int64)


def _long_enough(
    owner: Array, number: Array, first: I64, stop: I64, min_columns: int
) -> Runs:
    keep = np.flatnonzero(stop - first >= min_columns)
    ids = owner[keep].astype(np.int64)
    return Runs(ids, number[keep], first[keep], stop[keep])


def joined(parts: list[Runs]) -> Runs:
    """Return all runs in the order of their rows; those of a row stay in order."""
    names = Runs.__slots__
    columns = [np.concatenate([getattr(p, name) for p in parts]) for name in names]
    runs = Runs(*columns)
    return runs.take(np.argsort(runs.row, kind="stable"))


def filled_runs(columns: Sequence[Columns], numbers: Array, min_columns: int) -> Runs:
    """Return the runs of at least `least` columns that one span fills alone."""
    return _runs_of(library().ggscope_texels_filled, columns, numbers, min_columns)


def empty_runs(columns: Sequence[Columns], numbers: Array, min_columns: int) -> Runs:
    """Return the runs of columns that hold nothing: neither spans nor waits."""
    return _runs_of(library().ggscope_texels_empty, columns, numbers, min_columns)


def _runs_of(
    find: Callable[..., int],
    columns: Sequence[Columns],
    numbers: Array,
    min_columns: int,
) -> Runs:
    table, at = table_of(columns)
    capacity = len(columns) * (len(columns[0].count) // min_columns)
    owner, row, first, stop = np.empty((4, capacity), np.int64)
    n = find(table, at, len(at), min_columns, owner, row, first, stop)
    return Runs(owner[:n], np.asarray(numbers)[row[:n]], first[:n], stop[:n])


def marked_runs(marks: npt.NDArray[np.bool_], numbers: I64) -> Runs:
    """Return the runs of marked columns, bool[rows, columns], of rows `numbers`."""
    n_rows, n = marks.shape
    idle = np.zeros((n_rows, n + 1), np.bool_)
    idle[:, 1:] = marks
    # The False column at the left of each row ends the last gap of the row
    # before, so begins and ends alternate over the whole picture.
    flat = np.append(idle.ravel(), False)
    change = np.flatnonzero(flat[1:] != flat[:-1])
    first, stop = change[::2], change[1::2]
    row = first // (n + 1)
    left = row * (n + 1)
    return Runs(np.full(len(row), -1), numbers[row], first - left, stop - left)
