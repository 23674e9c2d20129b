"""Spans in time order without a list of them: lanes are sorted, so merge on demand.

A trace holds the spans of each lane next to each other in time order. The k-th
span of all is found by looking for the tick before which k spans start, which takes
a few milliseconds for 33 million; only the rows in view are ever merged.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Trace

MAX_RUNS = 256
"""More sorted runs than this are no longer worth merging."""


class TimeRuns:
    """How a trace falls into runs of spans that ascend in time.

    Looked at when first asked for: that takes one pass over starts and lanes.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @cached_property
    def edges(self) -> I64 | None:
        """Run k holds spans ``edges[k] <= id < edges[k + 1]``, int64[n_runs + 1].

        They are of one lane and in time order. None where there are too many runs.
        """
        return _sorted_runs(self.trace).edges

    def merge(
        self,
        ids: Array | None = None,
        lanes: npt.NDArray[np.bool_] | None = None,
        time_order: Callable[[], Array] | None = None,
    ) -> "TimeMerge":
        """Return spans in time order.

        Parameters
        ----------
        ids : only these, ascending; None = all.
        lanes : bool[n_lanes], only spans of these lanes; without `ids` only.
        time_order : gives all ids by (start, id), asked for where the trace has too
            many runs; None = sorted here.
        """
        start = self.trace.spans.start
        if self.edges is not None and ids is None:
            lane = self.trace.spans.lane
            return TimeMerge(
                start,
                [
                    slice(a, b)
                    for a, b in pairwise(self.edges.tolist())
                    if lanes is None or lanes[lane[a]]
                ],
            )
        if self.edges is not None and ids is not None:
            cuts = np.searchsorted(ids, self.edges).tolist()
            return TimeMerge(start, [ids[a:b] for a, b in pairwise(cuts) if b > a])
        if ids is not None or time_order is None:
            chosen = np.arange(len(start)) if ids is None else ids
            ordered = chosen[np.argsort(start[chosen], kind="stable")]
        else:
            ordered = time_order()
        if lanes is not None and not lanes.all():
            ordered = ordered[lanes[self.trace.spans.lane[ordered]]]
        return TimeMerge(start, [ordered])


class TimeMerge:
    """Spans by (start, id), merged from runs that are in that order already.

    Parameters
    ----------
    start : int64[n_spans].
    runs : ids as slices (each its own id) or arrays, in that order each.

    Notes
    -----
    Holds nothing but the runs. `slice` takes O(runs · log n · log ticks) and the
    sort of what it returns.
    """

    def __init__(self, start: I64, runs: Sequence[slice | Array]) -> None:
        self._start = start
        self._runs = [_run(start, run) for run in runs]
        self._n = sum(map(len, self._runs))

    def __len__(self) -> int:
        return self._n

    def slice(self, low: int, high: int) -> Array:
        """Return the ids of rows low <= row < high, within bounds."""
        low, high = max(0, low), min(high, self._n)
        if low >= high:
            return np.zeros(0, np.int64)
        begin, end = self._split(low), self._split(high)
        ids = np.concatenate(
            [r.take(a, b) for r, a, b in zip(self._runs, begin, end, strict=True)]
        )
        start = self._start[ids]
        # Within a run equal starts are by id already; of two runs the one with the
        # smaller ids comes first.
        return ids[np.argsort(start, kind="stable")]

    def rank(self, tick: int, span: int) -> int:
        """Return how many spans come before `span`, which starts at `tick`."""
        return sum(run.before((tick, span)) for run in self._runs)

    def row_of(self, span: int) -> int | None:
        """Return the row of `span`, or None where it is not in here."""
        place = (int(self._start[span]), span)
        before = [run.before(place) for run in self._runs]
        for run, n in zip(self._runs, before, strict=True):
            if n < len(run) and run.id(n) == span:
                return sum(before)
        return None

    def _split(self, n: int) -> list[int]:
        """Return how many spans of each run are among the first n."""
        if n <= 0:
            return [0] * len(self._runs)
        if n >= self._n:
            return [len(run) for run in self._runs]
        # The tick of row n - 1: the least one up to which n spans start.
        begin = [0] * len(self._runs)
        end = [len(run) for run in self._runs]
        low = min(run.tick(0) for run in self._runs if len(run))
        high = max(run.tick(len(run) - 1) for run in self._runs if len(run))
        while low < high:
            middle = (low + high) // 2
            upto = [
                run.upto(middle, a, b)
                for run, a, b in zip(self._runs, begin, end, strict=True)
            ]
            if sum(upto) >= n:
                high, end = middle, upto
            else:
                low, begin = middle + 1, upto
        # `begin` start before the tick, `end` up to it. Of those at the tick the
        # first ones go to the runs with the smaller ids.
        left = n - sum(begin)
        for k, (a, b) in enumerate(zip(begin, end, strict=True)):
            begin[k] += min(left, b - a)
            left -= min(left, b - a)
        return begin


class _Run:
    """One sorted run, of ids as they are listed."""

    def __init__(self, start: I64, ids: Array) -> None:
        self._start, self._ids = start, ids

    def __len__(self) -> int:
        return len(self._ids)

    def take(self, first: int, stop: int) -> Array:
        """Return the ids at these positions."""
        return self._ids[first:stop]

    def id(self, position: int) -> int:
        """Return the id at a position."""
        return int(self._ids[position])

    def tick(self, position: int) -> int:
        """Return where the span at a position starts."""
        return int(self._start[self._ids[position]])

    def upto(self, tick: int, low: int, high: int) -> int:
        """Return how many start at `tick` or before, known to be low..high."""
        return bisect_right(range(high), tick, low, high, key=self.tick)

    def before(self, place: tuple[int, int]) -> int:
        """Return how many have a smaller (start, id)."""

        def key(i: int) -> tuple[int, int]:
            return self.tick(i), self.id(i)

        return bisect_left(range(len(self)), place, key=key)


class _Stretch(_Run):
    """A run in which every span follows on the one before: ids need no list."""

    def __init__(self, start: I64, ids: slice) -> None:
        super().__init__(start[ids], np.zeros(0, np.int32))
        self._first, self._n = int(ids.start), int(ids.stop - ids.start)

    def __len__(self) -> int:
        return self._n

    def take(self, first: int, stop: int) -> Array:
        """Return the ids at these positions."""
        begin = self._first
        dtype = np.int32 if begin + self._n < 1 << 31 else np.int64
        return np.arange(begin + first, begin + stop, dtype=dtype)

    def id(self, position: int) -> int:
        """Return the id at a position."""
        return self._first + position

    def tick(self, position: int) -> int:
        """Return where the span at a position starts."""
        return int(self._start[position])

    def upto(self, tick: int, low: int, high: int) -> int:
        """Return how many start at `tick` or before, known to be low..high."""
        return low + int(np.searchsorted(self._start[low:high], tick, "right"))


def _run(start: I64, run: slice | Array) -> _Run:
    return _Stretch(start, run) if isinstance(run, slice) else _Run(start, run)


@dataclass(frozen=True, slots=True, eq=False)
class _SortedRuns:
    edges: I64 | None


@once
def _sorted_runs(trace: Trace) -> _SortedRuns:
    return _SortedRuns(_edges(trace))


def _edges(trace: Trace) -> I64 | None:
    """Return where runs begin and end; None where there are too many."""
    start, lane = trace.spans.start, trace.spans.lane
    n = len(start)
    edges = [np.zeros(1, np.int64)]
    n_found = 0
    for rows in chunks(max(n - 1, 0)):
        here = slice(rows.start, rows.stop)
        after = slice(rows.start + 1, rows.stop + 1)
        breaks = (start[after] < start[here]) | (lane[after] != lane[here])
        edges.append(np.flatnonzero(breaks) + rows.start + 1)
        n_found += len(edges[-1])
        if n_found >= MAX_RUNS:
            return None
    return np.concatenate([*edges, [n]]) if n else np.zeros(1, np.int64)
