"""In which order of time the spans of several sorted runs follow: whose turn it is.

A byte per span says of which run the next span is. To merge the runs takes longer than
to go over them in a known order, which statistics do of any range and grouping.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.order.time_merge import TimeRuns
from ggscope.analysis.workers import n_workers, share_out
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.native.library import library

MIN_SPANS = 1 << 16
"""Fewer spans are merged anew each time."""
MIN_SHARED = 1 << 19
"""Fewer spans are for one worker."""
MAX_SHARED_RUNS = 64
"""Of more runs the time is not shared out: each costs a search for each worker."""


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """The order of the spans of a trace by start.

    Attributes
    ----------
    edges : int64[n_runs + 1], see `TimeRuns.edges`.
    run : uint8[n_spans], the run of each span in this order; of equal starts any is
        first.
    """

    edges: I64
    run: npt.NDArray[np.uint8]

    def before(self, rows: I64) -> int:
        """Return how many spans lie before ``rows[k]`` of each run, int64[n_runs].

        A tick must separate them: all of them start before it, and no others.
        """
        return int((rows - self.edges[:-1]).sum())


def turns_of(trace: Trace) -> Turns | None:
    """Return the order of the spans, made once per trace: a byte for each.

    None where they do not lie in a few sorted runs, are so few that it is not worth
    it, or the trace still grows.
    """
    if trace.is_partial or trace.is_running or len(trace.spans) < MIN_SPANS:
        return None
    edges = TimeRuns(trace).edges
    if edges is None or not 2 < len(edges) <= MAX_SHARED_RUNS + 1:
        return None
    return _turns(trace)


def time_cuts(start: I64, first: I64, stop: I64) -> I64:
    """Return at which rows of each run a worker's time begins, int64[n + 1, n_runs].

    Parameters
    ----------
    start : of all spans.
    first, stop : rows ``first[k] : stop[k]`` of each run are to be shared out.

    Notes
    -----
    Times are those that share the longest run out evenly.
    """
    if (stop - first).sum() < MIN_SHARED or len(first) > MAX_SHARED_RUNS:
        return np.stack([first, stop])
    n_parts, longest = n_workers(), int(np.argmax(stop - first))
    share = np.arange(1, n_parts) * int(stop[longest] - first[longest]) // n_parts
    times = start[first[longest] + share]
    inner = [
        low + np.searchsorted(start[low:high], times)
        for low, high in zip(first.tolist(), stop.tolist(), strict=True)
    ]
    return np.concatenate([first[None], np.stack(inner, axis=1), stop[None]])


@once
def _turns(trace: Trace) -> Turns:
    edges = TimeRuns(trace).edges
    assert edges is not None
    start = np.ascontiguousarray(trace.spans.start)
    turns = Turns(edges, np.empty(len(start), np.uint8))
    cuts = time_cuts(start, edges[:-1], edges[1:])

    def merge(_: int, part: slice) -> None:
        cursor, stop = cuts[part.start].copy(), cuts[part.start + 1]
        place = turns.before(cursor)
        n = int((stop - cursor).sum())
        library().ggscope_statistics_turns(
            start, stop, cursor, np.zeros(len(cursor), np.int64), len(cursor), n,
            turns.run[place : place + n],
        )  # fmt: skip

    share_out(merge, [slice(k, k + 1) for k in range(len(cuts) - 1)])
    return turns
