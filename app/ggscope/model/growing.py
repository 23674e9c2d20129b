"""Columns that grow: spare capacity behind them, and views that stay as they are.

A snapshot is a view ``[0:n]`` of what is there. What was handed out is never
rewritten while anybody looks at it, so snapshots of any age stay true.
"""

import os
import sys
from itertools import cycle
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import Array, Table, schema_of


def _widening() -> int:
    """Return how many times as much room a long column gets where it needs more.

    Memory that is not written yet costs nothing, where the system promises more than
    it has; copying gigabytes would halt who reads a ring. Linux may be set to keep
    each promise (overcommit 2): there others would miss what is promised here.
    """
    if os.name != "posix":
        return 2
    try:
        mode = Path("/proc/sys/vm/overcommit_memory").read_text("ascii")
    except OSError:
        return 64
    return 2 if mode.strip() == "2" else 64


_FIRST = cycle(range(1 << 10, 1 << 11, 1 << 6))
"""Rows that a column has room for first. They differ, so that the columns of a table,
which all have the same number of rows, are not all copied in the same moment."""
_MANY, _WIDE = 1 << 20, _widening()
"""From so many rows on there is room for so many times as many."""
_UNSEEN = 2
"""References to an array that only its `Growing` has: its own, and the question's."""

_T = TypeVar("_T", bound=Table)


class Growing:
    """Rows of one column that are appended, or put anew behind some place.

    Rows that nobody looks at any more are rewritten in place. Where an earlier
    snapshot still shows them, the column goes on in another array, and comes back to
    the first one when that is free: only what differs is copied then.

    Parameters
    ----------
    dtype : of the values; `append` widens it where values need more.
    width : > 1 where a row is so many numbers.
    """

    __slots__ = ("_array", "_n", "_spare", "_valid")

    def __init__(self, dtype: npt.DTypeLike, width: int = 1) -> None:
        first = next(_FIRST)
        self._array = np.empty(first if width == 1 else (first, width), dtype)
        self._n = 0
        self._spare: Array | None = None
        # So many rows of the spare array are as in the other one.
        self._valid = 0

    def __len__(self) -> int:
        return self._n

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values so far."""
        return self._array.dtype

    def view(self) -> Array:
        """Return the rows so far, read-only."""
        view = self._array[: self._n]
        view.flags.writeable = False
        return view

    def append(self, values: Array) -> None:
        """Add rows at the end, in a wider type where these need it."""
        if not np.can_cast(values.dtype, self.dtype):
            wide = np.promote_types(values.dtype, self.dtype)
            self._move(np.empty_like(self._array, wide), self._n)
        self.put(self._n, values)

    def put(self, at: int, values: Array) -> None:
        """Put rows in the place of all from `at` on."""
        self.reserve(at, at + len(values))[:] = values

    def reserve(self, at: int, stop: int) -> Array:
        """Return rows `at` to `stop` to be written; there are none behind them."""
        if at < self._n and sys.getrefcount(self._array) > _UNSEEN:
            self._go_elsewhere(at)
        self._valid = min(self._valid, at)
        if stop > len(self._array):
            self._move(self._larger(stop), at)
        self._n = stop
        return self._array[at:stop]

    def _larger(self, stop: int) -> Array:
        n = len(self._array)
        while n < stop:
            n *= 2 if n < _MANY else _WIDE
        try:
            return np.empty((n, *self._array.shape[1:]), self.dtype)
        except MemoryError:  # the system promises no more than it has
            return np.empty((stop + stop // 4, *self._array.shape[1:]), self.dtype)

    def _go_elsewhere(self, at: int) -> None:
        """Leave the array to those who look at it; the rows before `at` come along."""
        spare, self._spare = self._spare, None
        is_free = spare is not None and sys.getrefcount(spare) <= _UNSEEN
        old, valid = self._array, min(self._valid, at) if is_free else 0
        if spare is None or not is_free or len(spare) < len(old):
            spare, valid = np.empty_like(old), 0
        spare[valid:at] = old[valid:at]
        self._array, self._spare, self._valid = spare, old, at

    def _move(self, array: Array, n: int) -> None:
        array[:n] = self._array[:n]
        self._array, self._spare, self._valid = array, None, 0


class GrowingTable(Generic[_T]):
    """Rows of a table that are appended.

    A column that comes late is "none" before; the type of a column is that of its
    first values, and wider where later ones need it.
    """

    def __init__(self, table: type[_T]) -> None:
        self._table = table
        self._columns: dict[str, Growing] = {}
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def append(self, part: _T) -> None:
        """Add the rows of `part`."""
        schema, n = schema_of(self._table), len(part)
        for name, column in schema.items():
            values = getattr(part, name)
            grown = self._columns.get(name)
            if values is None and grown is None:
                continue
            if grown is None:
                grown = self._columns[name] = Growing(values.dtype, column.width)
                grown.append(column.blank(self._n, narrow=True))
            grown.append(column.blank(n, narrow=True) if values is None else values)
        self._n += n

    def table(self) -> _T:
        """Return the rows so far, read-only."""
        if not self._columns:
            return self._table.blank()
        return self._table(**{k: c.view() for k, c in self._columns.items()})
