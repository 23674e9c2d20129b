"""Calls of ``tensor_scan.c``: its structures, and what it does to arrays.

All of it is optional; see `ggscope.native.library`. Every call releases the interpreter
lock, and the callers keep each one short.
"""

from typing import Any

from ggscope.model.tables import Array
from ggscope.native.library import wanted_library

DONE, FILE_ENDS, FAILED, TABLE_FULL = range(4)
"""Why a scan came to its end, `RecordTally.status`."""


def kernel() -> Any | None:  # a library of foreign functions
    """Return the compiled library, or None where it is unwanted."""
    return wanted_library()


def address(array: Array | None) -> int | None:
    """Return where a contiguous array lies; None for none."""
    return None if array is None else int(array.ctypes.data)
