"""Which op launched what runs on a device: the innermost one around the call."""

import numpy as np

from ggscope.model.tables import I64, Array, distinct, narrow, places_among, ranked
from ggscope.readers.common.nesting import Nesting


def ops_around(nesting: Nesting, call: I64, op: Array, category: Array) -> I64:
    """Return the op that made each call: the innermost span around it, -1 none.

    Calls within calls are looked through, by their categories.

    Parameters
    ----------
    call : spans of `nesting`.
    op : int[n], of each span, below 0 where it is no op.
    category : int[n], of each span.
    """
    is_op = (op >= 0) & ~np.isin(category, distinct(category[call]))
    above = nesting.parent.astype(np.int64)
    while True:
        passed = np.flatnonzero((above >= 0) & ~is_op[np.maximum(above, 0)])
        if not len(passed):
            return above[call]
        # What stands above that one: twice as far with each round.
        above[passed] = above[above[passed]]


def ranges_around(
    thread: I64, time: I64, range_thread: I64, start: I64, end: I64
) -> I64:
    """Return the innermost range of a thread at each time, -1 none.

    Ranges may overlap: of those that are open the one that began last.
    """
    rows = np.flatnonzero(end > start)  # nothing runs within others
    if not len(rows):
        return np.full(len(thread), -1, np.int64)
    different, _, lane = ranked(range_thread[rows])
    order = np.lexsort((-end[rows], start[rows], lane))
    rows, lane = rows[order], lane[order]
    nesting = Nesting.of(lane.astype(np.int32), start[rows], end[rows])
    at = places_among(different, thread)
    is_there = at >= 0
    ranges = nesting.enclosing(at[is_there], time[is_there])
    result = np.full(len(thread), -1, np.int64)
    result[is_there] = np.where(ranges >= 0, rows[ranges], -1)
    return result


def column_of(n: int, target: I64, text: Array) -> Array | None:
    """Return a text for each of n spans, -1 but for targets; None without any."""
    if not (text >= 0).any():
        return None
    text = narrow(text)
    column = np.full(n, -1, text.dtype)
    column[target] = text
    return column
