"""The compiled kernels, where the installation could build them.

They are optional: without a compiler everything runs in numpy, slower and with
the same results. A test holds the two together.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope import compiled

VERSION = 1
LIBRARY = Path(__file__).with_name("_columns.so")


@cache
def kernel() -> Any | None:  # a foreign function of ctypes
    """Return the column kernel, or None where it is missing or unwanted."""
    if not compiled.is_wanted():
        return None
    library = compiled.library(LIBRARY, "ggscope_columns_version", VERSION)
    if library is None:
        return None
    function = library.ggscope_columns
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    function.argtypes = [
        pointer, pointer, number, pointer, pointer, number,
        pointer, pointer, pointer, pointer, pointer,
    ]  # fmt: skip
    function.restype = None
    return function


def columns(
    function: Any,
    start: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    category: npt.NDArray[np.uint16],
    edges: npt.NDArray[np.int64],
    n_categories: int,
) -> tuple[
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.int32],
]:
    """Return (covered, count, first, name) of the columns between `edges`.

    Parameters
    ----------
    start, end, category : of the spans that touch the view, contiguous.
    edges : int64[px + 1], strictly ascending.

    Notes
    -----
    See ``columns.c``. The call releases the interpreter lock.
    """
    px = len(edges) - 1
    numbers = np.empty((3, px), np.int64)
    name = np.empty(px, np.int32)
    sums = np.zeros(n_categories, np.int64)
    at, step = numbers.ctypes.data, numbers.strides[0]
    function(
        start.ctypes.data, end.ctypes.data, len(start), category.ctypes.data,
        edges.ctypes.data, px, sums.ctypes.data, at, at + step, at + 2 * step,
        name.ctypes.data,
    )  # fmt: skip
    return numbers[0], numbers[1], numbers[2], name
