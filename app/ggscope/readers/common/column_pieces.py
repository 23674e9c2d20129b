"""Columns that grow piece by piece."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, narrow

_MAX_INT = (1 << 63) - 1


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
