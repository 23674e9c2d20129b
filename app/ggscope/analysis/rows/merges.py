"""Merging spans of a few sorted runs in compiled code; None where that cannot be."""

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ggscope.analysis.rows.kernels import address
from ggscope.analysis.rows.rows import Row, make_row
from ggscope.model.tables import I64, Array
from ggscope.native import library as compiled

VERSION = 2
LIBRARY = compiled.FOLDER / "_merge.so"
MAX_RUNS = 1024
"""Spans in more runs than this are sorted instead."""
_TRIM = 0.75


@cache
def kernel() -> Any | None:  # a library of ctypes
    """Return the compiled merge, or None where it is missing or unwanted."""
    if not compiled.is_wanted():
        return None
    library = compiled.library(LIBRARY, "ggscope_merge_version", VERSION)
    if library is None:
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    spans, out = [pointer] * 3, [pointer] * 3
    library.ggscope_runs.argtypes = [*spans, number, number, pointer]
    library.ggscope_runs.restype = number
    library.ggscope_merge.argtypes = [*spans, pointer, number, pointer]
    library.ggscope_merge.restype = None
    library.ggscope_flatten.argtypes = [*spans, pointer, number, *out]
    library.ggscope_flatten.restype = number
    return library


def time_order(start: I64) -> Array | None:
    """Return span numbers by (start, number), int32; None: sort them.

    That is where the kernel is missing or the spans lie in too many sorted runs.
    """
    found = _runs(start, None, None)
    if found is None:
        return None
    library, bounds = found
    order = np.empty(len(start), np.int32)
    library.ggscope_merge(
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
    library, bounds = found
    first, stop = np.empty((2, len(ids)), np.int64)
    order = np.empty(len(ids), np.int32)
    n = library.ggscope_flatten(
        start.ctypes.data, end.ctypes.data, ids.ctypes.data, bounds.ctypes.data,
        len(bounds) - 1, first.ctypes.data, stop.ctypes.data, order.ctypes.data,
    )  # fmt: skip
    first, stop, order = first[:n], stop[:n], order[:n]
    if n < _TRIM * len(ids):
        first, stop, order = first.copy(), stop.copy(), order.copy()
    return make_row(first, stop, order)


def _runs(start: I64, end: I64 | None, ids: Array | None) -> tuple[Any, I64] | None:
    """Return (kernel, where each run begins and the last one ends), or None."""
    library = kernel()
    n = len(start) if ids is None else len(ids)
    if library is None or not n or len(start) >= 1 << 31:
        return None
    bounds = np.zeros(MAX_RUNS + 1, np.int64)
    try:
        k = library.ggscope_runs(
            address(start, np.int64), address(end, np.int64), address(ids, np.int32),
            n, len(start), bounds.ctypes.data,
        )  # fmt: skip
    except TypeError:
        return None
    return None if k < 0 else (library, bounds[: k + 1])
