"""Runs of columns: filled by one span alone, or empty.

They are read from the columns of a row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.columns import Columns, table_of
from ggscope.model.tables import I64, Array, Table
from ggscope.native.library import library


@dataclass(frozen=True, slots=True, eq=False)
class Runs(Table):
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


NO_RUNS = Runs(*np.zeros((4, 0), np.int64))


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
