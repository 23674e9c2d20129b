"""Cells of a heatmap in compiled code; None where that cannot be."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ggscope import compiled
from ggscope.model.tables import I64

VERSION = 1
LIBRARY = Path(__file__).with_name("_heat.so")


@cache
def kernel() -> Any | None:  # a library of ctypes
    """Return the compiled function, or None where it is missing or unwanted."""
    if not compiled.is_wanted():
        return None
    library = compiled.library(LIBRARY, "ggscope_heat_version", VERSION)
    if library is None:
        return None
    p, n = ctypes.c_void_p, ctypes.c_int64
    library.ggscope_heat_cells.argtypes = [p, n, p, n, n, p, p, n, p]
    library.ggscope_heat_cells.restype = None
    return library


def cells(before: I64, covers: I64, piece: I64, inside: I64) -> I64 | None:
    """Return what lies between neighbouring edges of each row, int64[g, m - 1].

    Parameters
    ----------
    before : int64[g, p + 1], bytes before each piece.
    covers : int64[g, p], accesses that cover each byte of a piece.
    piece : int64[m], in which piece each edge lies, 0..p - 1.
    inside : int64[m], how far behind that piece's beginning.
    """
    library = kernel()
    if library is None or not (before.flags.c_contiguous and covers.flags.c_contiguous):
        return None
    piece = np.ascontiguousarray(piece, np.int64)
    inside = np.ascontiguousarray(inside, np.int64)
    found = np.empty((len(before), max(len(piece) - 1, 0)), np.int64)
    library.ggscope_heat_cells(
        before.ctypes.data, before.shape[1], covers.ctypes.data, covers.shape[1],
        len(before), piece.ctypes.data, inside.ctypes.data, len(piece),
        found.ctypes.data,
    )  # fmt: skip
    return found


__all__ = ["cells", "kernel"]
