"""Merges spans that lie in a few sorted runs; None where they lie in many."""

import numpy as np

from ggscope.analysis.rows.rows import Row, make_row
from ggscope.model.tables import I64, Array
from ggscope.native.library import library

MAX_RUNS = 1024
"""Spans in more runs than this are sorted instead."""
_TRIM = 0.75


def time_order(start: I64) -> Array | None:
    """Return span numbers by (start, number), int32; None: sort them.

    That is where the spans lie in too many sorted runs.
    """
    start = np.ascontiguousarray(start)
    bounds = _runs(start, None, None)
    if bounds is None:
        return None
    order = np.empty(len(start), np.int32)
    library().ggscope_merge_order(start, None, None, bounds, len(bounds) - 1, order)
    return order


def flatten(start: I64, end: I64, ids: Array) -> Row | None:
    """Return ``rows.flatten(start[ids], end[ids], ids)``; None: ask that.

    Parameters
    ----------
    start, end : int64 of all spans of a trace.
    ids : int32[n] into these, those of the row. Others than int32 are left to
        numpy, and so are ids that do not exist, which it complains of.
    """
    if ids.dtype != np.int32:
        return None
    start, end, ids = map(np.ascontiguousarray, (start, end, ids))
    bounds = _runs(start, end, ids)
    if bounds is None:
        return None
    first, stop = np.empty((2, len(ids)), np.int64)
    order = np.empty(len(ids), np.int32)
    n = library().ggscope_merge_flatten(
        start, end, ids, bounds, len(bounds) - 1, first, stop, order
    )
    first, stop, order = first[:n], stop[:n], order[:n]
    if n < _TRIM * len(ids):
        first, stop, order = first.copy(), stop.copy(), order.copy()
    return make_row(first, stop, order)


def _runs(start: I64, end: I64 | None, ids: Array | None) -> I64 | None:
    """Return where each run begins and the last one ends; None for too many runs."""
    n = len(start) if ids is None else len(ids)
    if not n or len(start) >= 1 << 31:
        return None
    bounds = np.zeros(MAX_RUNS + 1, np.int64)
    k = library().ggscope_merge_runs(start, end, ids, n, len(start), bounds)
    return None if k < 0 else bounds[: k + 1]
