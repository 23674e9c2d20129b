"""The compiled kernels, where the installation could build them.

They are optional: without a compiler everything runs in numpy, slower and with
the same results. Tests hold the two together. Calls release the interpreter lock.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array
from ggscope.native.declared import Row
from ggscope.native.library import library, wanted_library

_THREADS = min(os.cpu_count() or 1, 8)
_SPANS_PER_THREAD = 200_000
"""With fewer spans in all rows a thread costs more to start than it saves."""


@dataclass(frozen=True, slots=True)
class RowPointers:
    """A row under one colouring and filter as ``columns.c`` sees it (its `Row`).

    Addresses are 0 where there is nothing. Whoever makes one keeps the arrays.
    """

    start: int
    end: int
    top: int
    coarse: int
    prefix: int
    ids: int = 0
    category: int = 0
    number: int = 0
    names: int = 0
    fine: int = 0
    base: int = 0
    keep: int = 0
    kept: int = 0
    kept_covered: int = 0
    bounds: int = 0
    element_category: int = 0
    n: int = 0
    first_id: int = 0
    n_names: int = 1
    n_elements: int = 0
    id_bytes: int = 0
    category_bytes: int = 0
    bucket_bits: int = 0
    group_bits: int = 0

    def packed(self) -> bytes:
        """Return the bytes of the C structure."""
        return _ROW.pack(*astuple(self))


_ROW = struct.Struct("@16P4q4i")


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """What the kernel says of several rows: arrays [n_rows, px]; see `Columns`.

    `answered` is int32[n_rows], 0 where a row has too many categories.
    """

    busy: npt.NDArray[np.float64]
    category: npt.NDArray[np.int32]
    count: I64
    covered: I64
    first: I64
    answered: npt.NDArray[np.int32]


def kernel() -> Any | None:  # a function of ctypes
    """Return the column kernel, or None where it is unwanted."""
    return getattr(wanted_library(), "ggscope_columns", None)


def builder() -> Any | None:
    """Return the library of ``rows.c``; None where there is no column kernel.

    The two go together, so that leaving one out leaves out both.
    """
    return None if kernel() is None else library()


def address(array: Array | None, *dtypes: type) -> int:
    """Return where the values of an array lie, 0 for None.

    Raises TypeError where they are not next to each other or of another type.
    """
    if array is None:
        return 0
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise TypeError("the values are not next to each other")
    if array.dtype not in dtypes or not array.dtype.isnative:
        raise TypeError(f"values of type {array.dtype}")
    return array.ctypes.data


def columns(
    function: Any,
    rows: Sequence[bytes],
    edges: I64,
    most_names: int,
    n_spans: int,
) -> Pictures:
    """Return the columns of several rows between `edges`.

    Parameters
    ----------
    rows : their `RowPointers.packed`; rows without spans must not be among them.
    edges : int64[px + 1], ascending, contiguous, px >= 1.
    most_names : greatest number of categories of a row.
    n_spans : of all rows; decides how many threads are worth starting.
    """
    n, px = len(rows), len(edges) - 1
    numbers = np.empty((3, n, px), np.int64)
    busy, category = np.empty((n, px)), np.empty((n, px), np.int32)
    answered = np.zeros(n, np.int32)
    n_threads = max(min(_THREADS, n, n_spans // _SPANS_PER_THREAD), 1)
    scratch = np.zeros((n_threads, most_names + 2 * px), np.int64)
    function(
        (Row * n).from_buffer_copy(b"".join(rows)), n, edges.ctypes.data, px,
        busy.ctypes.data,
        category.ctypes.data, numbers[0].ctypes.data, numbers[1].ctypes.data,
        numbers[2].ctypes.data, answered.ctypes.data, scratch.ctypes.data,
        scratch.shape[1], n_threads,
    )  # fmt: skip
    return Pictures(busy, category, numbers[0], numbers[1], numbers[2], answered)


def is_row(start: Array, end: Array) -> bool | None:
    """Tell whether spans are sorted and do not overlap; None: ask numpy."""
    found = builder()
    if found is None:
        return None
    try:
        at = address(start, np.int64), address(end, np.int64)
    except TypeError:
        return None
    return bool(found.ggscope_rows_are_sorted(*at, len(start)))


def fill_prefix(start: I64, end: I64, prefix: I64) -> bool:
    """Write what is covered before every 16th span; False: ask numpy."""
    found = builder()
    if found is None:
        return False
    try:
        at = address(start, np.int64), address(end, np.int64)
    except TypeError:
        return False
    found.ggscope_rows_prefix(*at, len(start), prefix.ctypes.data)
    return True


def fill_kept(
    start: I64, end: I64, keep: Array, kept: npt.NDArray[np.uint32], covered: I64
) -> bool:
    """Write how many spans a filter keeps before every 16th one, and their time."""
    found = builder()
    if found is None:
        return False
    try:
        at = [address(start, np.int64), address(end, np.int64), address(keep, np.bool_)]
    except TypeError:
        return False
    found.ggscope_rows_kept(*at, len(start), kept.ctypes.data, covered.ctypes.data)
    return True


def seen(codes: Array) -> npt.NDArray[np.bool_] | None:
    """Tell which codes of one or two bytes occur, bool[256 or 65536]; None: no."""
    found = builder()
    if found is None:
        return None
    try:
        at = address(codes, np.uint8, np.uint16)
    except TypeError:
        return None
    result = np.zeros(1 << (8 * codes.itemsize), np.bool_)
    found.ggscope_codes_seen(at, codes.itemsize, len(codes), result.ctypes.data)
    return result


def fill_sums(
    start: I64,
    end: I64,
    category: Array,
    number: Array,
    keep: Array | None,
    steps: tuple[int, int],
    sums: tuple[npt.NDArray[np.uint32], I64],
) -> bool:
    """Write the running sums of ``pyramid.RunningSums``; False: ask numpy.

    `steps` are its bucket and group, `sums` its fine sums and their bases.
    """
    found = builder()
    if found is None:
        return False
    fine, base = sums
    total = np.zeros(fine.shape[1], np.int64)
    try:
        found.ggscope_rows_sums(
            address(start, np.int64), address(end, np.int64),
            address(category, np.uint8, np.uint16), category.itemsize,
            address(number, np.uint16), address(keep, np.bool_), len(start),
            *steps, fine.shape[1], total.ctypes.data,
            fine.ctypes.data, base.ctypes.data,
        )  # fmt: skip
    except TypeError:
        return False
    return True


_CODES = (np.int8, np.uint8, np.int16, np.uint16)
_GATES = (np.int8, np.int16, np.int32)


def count_codes(codes: Array, gate: Array | None = None) -> I64 | None:
    """Return how often each code of one or two bytes occurs; None: ask numpy.

    int64[256 or 65536] by the unsigned number that the code's bits make. Where
    `gate` (signed, of the same length) is negative, codes are left out.
    """
    found = builder()
    if found is None:
        return None
    try:
        at = address(codes, *_CODES), address(gate, *_GATES)
    except TypeError:
        return None
    counts = np.zeros(1 << (8 * codes.itemsize), np.int64)
    found.ggscope_codes_count(
        at[0], codes.itemsize, at[1], 0 if gate is None else gate.itemsize,
        len(codes), counts.ctypes.data,
    )  # fmt: skip
    return counts


def place_codes(
    codes: Array, gate: Array | None, first: int, cursor: I64, limit: I64, placed: Array
) -> bool:
    """Write span numbers ``first + i`` to where the cursors of their codes stand.

    Parameters
    ----------
    codes, gate : see `count_codes`.
    cursor, limit : int64[256 or 65536], places in `placed`; cursors move on.
    placed : int32, written to.

    Returns
    -------
    Whether that was done; else nothing has changed: ask numpy.
    """
    found = builder()
    if found is None:
        return False
    try:
        at = address(codes, *_CODES), address(gate, *_GATES), address(placed, np.int32)
    except TypeError:
        return False
    found.ggscope_codes_place(
        at[0], codes.itemsize, at[1], 0 if gate is None else gate.itemsize,
        len(codes), first, cursor.ctypes.data, limit.ctypes.data, at[2],
    )  # fmt: skip
    return True


def map_codes(codes: Array, meaning: Array, out: Array) -> bool:
    """Write ``meaning[code]`` of every code of one or two bytes; False: ask numpy.

    `meaning` is uint16[256 or 65536] by the unsigned number of a code's bits,
    `out` uint8 or uint16 of the length of `codes`.
    """
    found = builder()
    if found is None:
        return False
    try:
        at = address(codes, *_CODES), address(out, np.uint8, np.uint16)
        table = address(meaning, np.uint16)
    except TypeError:
        return False
    found.ggscope_codes_map(
        at[0], codes.itemsize, len(codes), table, at[1], out.itemsize
    )
    return True
