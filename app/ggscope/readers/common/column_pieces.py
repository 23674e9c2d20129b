"""Columns that grow piece by piece, and work on long ones in pieces."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, narrow
from ggscope.native.library import library

_MAX_INT = (1 << 63) - 1
_PIECE_ROWS = 1 << 19
"""So many rows at once: a millisecond or so, and little memory beside the columns."""


class ColumnPieces:
    """A table whose rows come block by block, each block as narrow as its values.

    Parameters
    ----------
    dtypes : dtype of each column by name.
    """

    def __init__(self, **dtypes: npt.DTypeLike) -> None:
        self._dtypes = {name: np.dtype(dtype) for name, dtype in dtypes.items()}
        self._pieces: list[Mapping[str, Array]] = []
        self._n_rows = 0

    def __len__(self) -> int:
        return self._n_rows

    @property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self._dtypes)

    @property
    def n_pieces(self) -> int:
        """How many pieces there are so far."""
        return len(self._pieces)

    def append(self, **columns: Array) -> None:
        """Add rows: one array for each column, all of one length."""
        self._pieces.append(
            {name: _compact(values) for name, values in columns.items()}
        )
        self._n_rows += len(next(iter(columns.values())))

    def column(self, name: str) -> Array:
        """Return one column whole."""
        dtype = self._dtypes[name]
        parts = [piece[name] for piece in self._pieces]
        if not parts:
            return np.zeros(0, dtype)
        return np.concatenate(parts, dtype=dtype, casting="unsafe")

    def pop(self, name: str) -> Array:
        """Return one column whole, and forget it."""
        found = self.column(name)
        del self._dtypes[name]
        self._pieces = [
            {other: piece[other] for other in self._dtypes} for piece in self._pieces
        ]
        return found

    def keep(self, rows: Array) -> None:
        """Leave out all rows but the marked ones, bool[n]."""
        self._pieces = [{name: self.column(name)[rows] for name in self._dtypes}]
        self._n_rows = int(np.count_nonzero(rows))

    def clear(self) -> None:
        """Let go of all rows."""
        self._pieces, self._n_rows = [], 0

    def drop_reversed(self, mark: int) -> I64:
        """Leave out rows of later pieces that end before they start; return them.

        Parameters
        ----------
        mark : number of pieces before; tables without ends have nothing to drop.
        """
        dropped = [np.zeros(0, np.int64)]
        if "end" not in self._dtypes:
            return dropped[0]
        for i in range(mark, len(self._pieces)):
            piece = self._pieces[i]
            bad = piece["end"] < piece["start"]
            if bad.any():
                dropped.append(piece["record"][bad].astype(np.int64))
                self._pieces[i] = {name: c[~bad] for name, c in piece.items()}
                self._n_rows -= int(np.count_nonzero(bad))
        return np.concatenate(dropped)

    def merge_since(self, mark: int) -> None:
        """Bring the rows of the pieces after the first `mark` into record order."""
        later = self._pieces[mark:]
        if len(later) < 2:
            return
        joined = {name: np.concatenate([p[name] for p in later]) for name in later[0]}
        order = np.argsort(joined["record"], kind="stable")
        self._pieces[mark:] = [{name: c[order] for name, c in joined.items()}]


def _compact(values: Array) -> Array:
    """Return 64-bit integers as narrow as they are; other columns as they come."""
    if values.dtype == np.int64:
        return narrow(values)
    if values.dtype == np.uint64 and len(values) and int(values.max()) <= _MAX_INT:
        return narrow(values.view(np.int64))
    return values


class Pieces:
    """Does array operations piece by piece.

    Parameters
    ----------
    check : called between pieces; raises Cancelled where they are not wanted.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check

    def of(self, n: int, first: int = 0) -> Iterator[slice]:
        """Yield slices that cover ``[first, n)``, with a check before each."""
        for at in range(first, n, _PIECE_ROWS):
            self.check()
            yield slice(at, min(at + _PIECE_ROWS, n))

    def find(self, n: int, marked: Callable[[slice], Array]) -> I64:
        """Return where ``marked(piece)`` is true, ascending, int64[m]."""
        found = [piece.start + np.flatnonzero(marked(piece)) for piece in self.of(n)]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def changes(self, column: Array) -> I64:
        """Return the rows, but for the first, that differ from the one before."""
        return 1 + self.find(
            len(column) - 1, lambda p: column[p] != column[p.start + 1 : p.stop + 1]
        )

    def counts(self, column: Array, n: int) -> I64:
        """Return how often each number below `n` occurs, int64[n]."""
        total = np.zeros(n, np.int64)
        for piece in self.of(len(column)):
            total += np.bincount(column[piece], minlength=n)
        return total

    def chosen(self, column: Array, rows: Array) -> Array:
        """Return ``column[rows]``."""
        out = np.empty(len(rows), column.dtype)
        for piece in self.of(len(rows)):
            out[piece] = column[rows[piece]]
        return out

    def gather(self, column: Array, order: Array | None, out: Array) -> None:
        """Write ``column[order]`` to the first rows of `out`, whatever its dtype.

        All values must fit. `order` None stands for the order as it is.
        """
        n = len(column) if order is None else len(order)
        for piece in self.of(n):
            if order is None:
                out[piece] = column[piece]
            elif not _gathered(column, order[piece], out[piece]):
                out[piece] = column[order[piece]]

    def taken(self, column: Array, order: Array | None, room: int = 0) -> Array:
        """Return ``column[order]`` in the narrowest signed dtype that holds it.

        Parameters
        ----------
        room : rows to leave free at the end.
        """
        out = np.empty(len(column) + room, narrowest(column))
        self.gather(column, order, out)
        return out


def _gathered(column: Array, order: Array, out: Array) -> bool:
    """Write ``column[order]`` to `out`; tell whether compiled code has these types."""
    is_signed_or_same = column.dtype.kind == "i" or column.itemsize == out.itemsize
    return (
        is_signed_or_same
        and order.dtype == np.int32
        and column.flags.c_contiguous
        and bool(
            library().ggscope_tensor_gather(
                column, column.itemsize, order, len(order), out, out.itemsize
            )
        )
    )


def narrowest(column: Array) -> np.dtype[Any]:
    """Return the narrowest signed dtype that holds the values of `column` and -1."""
    low = int(column.min(initial=0)) if column.dtype.kind == "i" else 0
    return narrow(np.array([min(low, -1), int(column.max(initial=0))])).dtype
