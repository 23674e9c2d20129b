"""Columns that grow piece by piece, and when an early snapshot of them is due."""

import math
import time
from collections.abc import Callable, Mapping

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


class Pace:
    """Decides when to publish while a file is being read.

    Parameters
    ----------
    first_s : seconds of reading before the first snapshot, and behind each.
    is_wanted : whether anybody listens.
    short_s : a file that is read sooner needs none.
    most : snapshots.
    growth : a further one shows at least so many times as much.
    largest_share : of the file, that one shows at most.
    cost_share : what all but the first may take of the time for reading.
    clock : seconds from anywhere.
    """

    def __init__(
        self,
        first_s: float,
        *,
        is_wanted: bool = True,
        short_s: float = 0.0,
        most: float = math.inf,
        growth: float = 2.0,
        largest_share: float = 1.0,
        cost_share: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_wanted = is_wanted
        self._first_s, self._short_s = first_s, short_s
        self._most, self._growth = most, growth
        self._largest_share, self._cost_share = largest_share, cost_share
        self._clock = clock
        self._began = clock()
        self._spent = self._price = 0.0
        self._last = self._count = 0

    def is_due(self, done: int, total: int) -> bool:
        """Tell whether to publish, with `done` of `total` records or bytes read."""
        if not self._is_wanted or self._count >= self._most or not 0 < done < total:
            return False
        if done < self._growth * self._last or done > self._largest_share * total:
            return False
        reading = self._clock() - self._began - self._spent
        left = reading * (total - done) / done
        if min(reading, left) < self._first_s or reading + left < self._short_s:
            return False
        cost = self._spent + self._price * done
        return not self._count or cost <= self._cost_share * (reading + left)

    def timed(self, publish: Callable[[], None], done: int) -> None:
        """Publish, and note what it took to show `done` records or bytes."""
        began = self._clock()
        publish()
        seconds = self._clock() - began
        self._spent += seconds
        self._price = seconds / done
        self._last = done
        self._count += 1

    @property
    def is_slow(self) -> bool:
        """Whether reading takes so long that what comes last is told bit by bit."""
        elapsed = self._clock() - self._began
        return self._is_wanted and (self._count > 0 or elapsed >= self._short_s)
