"""Merging spans of a few sorted runs in compiled code; None where that cannot be."""

from typing import Any

import numpy as np

from ggscope.analysis.rows.kernels import address
from ggscope.analysis.rows.rows import Row, make_row
from ggscope.model.tables import I64, Array
from ggscope.native.library import wanted_library

MAX_RUNS = 1024
"""Spans in more runs than this are sorted instead."""
_TRIM = 0.75


def kernel() -> Any | None:  # a library of ctypes
    """Return the compiled library, or None where it is unwanted."""
    return wanted_library()


def time_order(start: I64) -> Array | None:
    """Return span numbers by (start, number), int32; None: sort them.

    That is where the kernel is missing or the spans lie in too many sorted runs.
    """
    found = _runs(start, None, None)
    if found is None:
        return None
    merge, bounds = found
    order = np.empty(len(start), np.int32)
    merge.ggscope_merge_order(
        start.ctypes.data, None, None, bounds.ctypes.data, len(bounds) - 1,
        order.ctypes.data,
    )  # fmt: skip
    return order


def flatten(start: I64, end: I64, ids: Array) -> Row | None:
    """Return ``rows.flatten(start[ids], end[ids], ids)``; None: ask that.

    Parameters
    ----------
    start, end : int64 of all spans of a trace.
    ids : int32[n] into these, those of the row. Others than int32 are left to
        numpy, and so are ids that do not exist, which it complains of.
    """
    if ids.dtype != np.int32 or not ids.flags.c_contiguous:
        return None
    found = _runs(start, end, ids)
    if found is None:
        return None
    merge, bounds = found
    first, stop = np.empty((2, len(ids)), np.int64)
    order = np.empty(len(ids), np.int32)
    n = merge.ggscope_merge_flatten(
        start.ctypes.data, end.ctypes.data, ids.ctypes.data, bounds.ctypes.data,
        len(bounds) - 1, first.ctypes.data, stop.ctypes.data, order.ctypes.data,
    )  # fmt: skip
    first, stop, order = first[:n], stop[:n], order[:n]
    if n < _TRIM * len(ids):
        first, stop, order = first.copy(), stop.copy(), order.copy()
    return make_row(first, stop, order)


def _runs(start: I64, end: I64 | None, ids: Array | None) -> tuple[Any, I64] | None:
    """Return (kernel, where each run begins and the last one ends), or None."""
    merge = kernel()
    n = len(start) if ids is None else len(ids)
    if merge is None or not n or len(start) >= 1 << 31:
        return None
    bounds = np.zeros(MAX_RUNS + 1, np.int64)
    try:
        k = merge.ggscope_merge_runs(
            address(start, np.int64), address(end, np.int64), address(ids, np.int32),
            n, len(start), bounds.ctypes.data,
        )  # fmt: skip
    except TypeError:
        return None
    return None if k < 0 else (merge, bounds[: k + 1])
