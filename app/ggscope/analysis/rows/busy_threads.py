"""How many threads run an op at a time: a step function, exact to the tick."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.columns import Columns, RowColumns
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.tracks import BUSY_THREADS, TRACKS
from ggscope.model.selection import ColorBy
from ggscope.model.tables import I64
from ggscope.model.units import TimeRange

_THREAD = next(i for i, spec in enumerate(TRACKS) if spec.id == "thread")


@dataclass(frozen=True, slots=True)
class BusyStep:
    """A stretch of time in which equally many threads are busy.

    Attributes
    ----------
    n : threads that run an op.
    time : from the change before to the change behind; the extent of the trace where
        there is none.
    """

    n: int
    time: TimeRange


def busy_lane(index: TraceIndex) -> int:
    """Return the position of the lane that counts busy threads; -1 without one."""
    return index.lanes.position(BUSY_THREADS)


def thread_lanes(index: TraceIndex) -> I64:
    """Return the positions of the lanes whose ops are counted."""
    return np.flatnonzero((index.lanes.tracks == _THREAD) & (index.lanes.n_spans > 0))


def thread_rows(index: TraceIndex, by: ColorBy) -> list[RowColumns]:
    """Return the row of ops of each thread; `by`: a colouring the lanes have."""
    rows = []
    for at in thread_lanes(index).tolist():
        key = index.lanes.keys[at]
        columns = index.row_columns(key, by)
        if columns:
            rows.append(columns[index.work_row(key)])
    return rows


def busy_threads(columns: Sequence[Columns]) -> npt.NDArray[np.float64]:
    """Return how many threads are busy in each column on average, float64[px].

    Exact: the time in which each thread runs ops, summed up, over that of the column.

    Parameters
    ----------
    columns : of the `thread_rows`, at least one.
    """
    total: npt.NDArray[np.float64] = np.sum([one.busy for one in columns], axis=0)
    return total


def busy_step(index: TraceIndex, tick: int) -> BusyStep:
    """Return how many threads are busy at a tick, and from when to when.

    O(log n) per thread.
    """
    n, begin, end = 0, index.trace.extent.start, index.trace.extent.end
    for at in thread_lanes(index).tolist():
        key = index.lanes.keys[at]
        rows = index.rows(key)
        if not rows:
            continue
        row = rows[index.work_row(key)]
        # The last span that begins before, or at, the tick; those of no length do not
        # change how many are busy.
        i = int(np.searchsorted(row.start, tick, "right")) - 1
        if i >= 0 and tick < int(row.end[i]):
            n += 1
            begin, end = max(begin, int(row.start[i])), min(end, int(row.end[i]))
            continue
        if i >= 0:
            begin = max(begin, int(row.end[i]))
        if i + 1 < len(row):
            end = min(end, int(row.start[i + 1]))
    return BusyStep(n, TimeRange(begin, max(begin, end)))
