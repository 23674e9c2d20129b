"""What a picture of reads over time shows, by pixel columns and rows; exact."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.load.facts import (
    amounts_by_cell,
    amounts_by_column,
    depth_by_column,
    positions,
)
from ggscope.analysis.load.rows import LoadRows
from ggscope.model.tables import I64
from ggscope.model.units import TimeRange


@dataclass(frozen=True, slots=True, eq=False)
class LoadCells:
    """Reads by column of time and row of the file.

    Attributes
    ----------
    edges : int64[columns + 1], ticks; rungs : int64[rows + 1], bytes in the file.
    grid : int64[rows, columns], bytes that were read there, or reads without sizes.
    amounts : int64[columns], the same of all places.
    mean, maximum : float64 and int64[columns], how many were in flight.
    faults : int64[columns], page faults; None where none are recorded.
    """

    edges: I64
    rungs: I64
    grid: I64
    amounts: I64
    mean: npt.NDArray[np.float64]
    maximum: I64
    faults: I64 | None = None

    @property
    def time(self) -> TimeRange:
        """The range that the columns cover."""
        return TimeRange(int(self.edges[0]), int(self.edges[-1]))


def offsets_of(rows: LoadRows) -> tuple[int, int]:
    """Return the bytes of a file, or places of a device, that reads lie between.

    Of one file of a known size it is all of that.
    """
    where = positions(rows)
    known = where >= 0
    if not known.any():
        return 0, 1
    low = int(where[known].min())
    high = int((where + np.maximum(rows.size, 1))[known].max())
    files = np.unique(rows.file[known & (rows.offset >= 0)])
    if len(files) == 1 and files[0] >= 0 and rows.files[int(files[0])].size > 0:
        low, high = 0, max(high, rows.files[int(files[0])].size)
    return low, max(high, low + 1)


def load_cells(
    rows: LoadRows,
    time: TimeRange,
    offsets: tuple[int, int],
    shape: tuple[int, int],
    faults: LoadRows | None = None,
) -> LoadCells:
    """Return the cells of a picture.

    Parameters
    ----------
    offsets : first and last byte of the picture, half-open.
    shape : columns and rows in pixels, each at least 1.
    """
    edges = _edges(time.start, max(time.end, time.start + 1), shape[0])
    rungs = _edges(*offsets, shape[1])
    mean, peak = depth_by_column(rows, edges)
    return LoadCells(
        edges,
        rungs,
        amounts_by_cell(rows, edges, rungs),
        amounts_by_column(rows, edges),
        mean,
        peak,
        None if faults is None else amounts_by_column(faults, edges),
    )


def _edges(low: int, high: int, n: int) -> I64:
    """Return whole numbers that part a range in at most `n` parts, the widest alike."""
    n = max(min(n, high - low), 1)
    steps = np.arange(n + 1, dtype=np.int64)
    part, rest = divmod(high - low, n)
    return low + steps * part + steps * rest // n
