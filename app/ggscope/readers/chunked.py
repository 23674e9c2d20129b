"""Long columns in chunks: operations that can be cancelled, and tables that grow."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, LOCKED_ROWS, Array, narrow
from ggscope.native.library import library

_T = TypeVar("_T")
_MAX_INT = (1 << 63) - 1
_CHUNK_ROWS = 1 << 19
"""Rows of a chunk: a millisecond or so, and little memory beside the columns."""


class ChunkedTable:
    """A table whose rows come chunk by chunk, each chunk as narrow as its values.

    Parameters
    ----------
    dtypes : dtype of each column by name.
    """

    def __init__(self, **dtypes: npt.DTypeLike) -> None:
        self._dtypes = {name: np.dtype(dtype) for name, dtype in dtypes.items()}
        self._chunks: list[Mapping[str, Array]] = []
        self._n_rows = 0

    def __len__(self) -> int:
        return self._n_rows

    @property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self._dtypes)

    @property
    def n_chunks(self) -> int:
        """Number of chunks so far."""
        return len(self._chunks)

    def append(self, **columns: Array) -> None:
        """Add rows: one array for each column, all of one length."""
        self._chunks.append(
            {name: _compact(values) for name, values in columns.items()}
        )
        self._n_rows += len(next(iter(columns.values())))

    def column(self, name: str) -> Array:
        """Return one column whole."""
        dtype = self._dtypes[name]
        parts = [chunk[name] for chunk in self._chunks]
        if not parts:
            return np.zeros(0, dtype)
        return np.concatenate(parts, dtype=dtype, casting="unsafe")

    def pop(self, name: str) -> Array:
        """Return one column whole, and remove it from the table."""
        values = self.column(name)
        del self._dtypes[name]
        self._chunks = [
            {other: chunk[other] for other in self._dtypes} for chunk in self._chunks
        ]
        return values

    def keep(self, rows: Array) -> None:
        """Remove all rows but the marked ones, bool[n]."""
        self._chunks = [{name: self.column(name)[rows] for name in self._dtypes}]
        self._n_rows = int(np.count_nonzero(rows))

    def clear(self) -> None:
        """Remove all rows."""
        self._chunks, self._n_rows = [], 0

    def drop_reversed(self, mark: int) -> I64:
        """Remove rows that end before they start; return their record numbers.

        Parameters
        ----------
        mark : first chunk to look at; tables without ends have nothing to drop.
        """
        dropped = [np.zeros(0, np.int64)]
        if "end" not in self._dtypes:
            return dropped[0]
        for i in range(mark, len(self._chunks)):
            chunk = self._chunks[i]
            bad = chunk["end"] < chunk["start"]
            if bad.any():
                dropped.append(chunk["record"][bad].astype(np.int64))
                self._chunks[i] = {name: c[~bad] for name, c in chunk.items()}
                self._n_rows -= int(np.count_nonzero(bad))
        return np.concatenate(dropped)

    def merge_since(self, mark: int) -> None:
        """Merge the chunks after the first `mark` into one, in record order."""
        later = self._chunks[mark:]
        if len(later) < 2:
            return
        joined = {name: np.concatenate([c[name] for c in later]) for name in later[0]}
        order = np.argsort(joined["record"], kind="stable")
        self._chunks[mark:] = [{name: c[order] for name, c in joined.items()}]

    n_pieces = n_chunks  # name in 0.1.0, for plug-ins until 0.3.0


def _compact(values: Array) -> Array:
    """Return 64-bit integers in the narrowest dtype, other columns unchanged."""
    if values.dtype == np.int64:
        return narrow(values)
    if values.dtype == np.uint64 and len(values) and int(values.max()) <= _MAX_INT:
        return narrow(values.view(np.int64))
    return values


class ChunkedOps:
    """Array operations chunk by chunk, which can be cancelled between two chunks.

    Parameters
    ----------
    check : called between two chunks; raises Cancelled to stop the operation.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check

    def slices(
        self, n: int, first: int = 0, *, size: int = _CHUNK_ROWS
    ) -> Iterator[slice]:
        """Yield slices that cover ``[first, n)``, with a check between two.

        `size` is the number of rows of each; fewer where a row takes long.
        """
        for at in range(first, n, size):
            if at > first:
                self.check()
            yield slice(at, min(at + size, n))

    def each(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yield the items, with a check before each: where each takes long."""
        for item in items:
            self.check()
            yield item

    def find(self, n: int, marked: Callable[[slice], Array]) -> I64:
        """Return the rows where ``marked(chunk)`` is true, ascending, int64[m]."""
        rows = [chunk.start + np.flatnonzero(marked(chunk)) for chunk in self.slices(n)]
        return np.concatenate([np.zeros(0, np.int64), *rows])

    def changes(self, column: Array) -> I64:
        """Return the rows, but for the first, that differ from the one before."""
        return 1 + self.find(
            len(column) - 1, lambda c: column[c] != column[c.start + 1 : c.stop + 1]
        )

    def counts(self, column: Array, n: int) -> I64:
        """Return how often each number below `n` occurs, int64[n]."""
        total = np.zeros(n, np.int64)
        for chunk in self.slices(len(column), size=LOCKED_ROWS):
            total += np.bincount(column[chunk], minlength=n)
        return total

    def take(self, column: Array, rows: Array) -> Array:
        """Return ``column[rows]``."""
        out = np.empty(len(rows), column.dtype)
        for chunk in self.slices(len(rows)):
            out[chunk] = column[rows[chunk]]
        return out

    def gather(self, column: Array, order: Array | None, out: Array) -> None:
        """Write ``column[order]`` to the first rows of `out`, whatever its dtype.

        All values must fit. `order` None stands for the order as it is.
        """
        n = len(column) if order is None else len(order)
        for chunk in self.slices(n):
            if order is None:
                out[chunk] = column[chunk]
            elif not _gather_native(column, order[chunk], out[chunk]):
                out[chunk] = column[order[chunk]]

    def take_narrow(self, column: Array, order: Array | None, spare: int = 0) -> Array:
        """Return ``column[order]`` in the narrowest signed dtype that holds it.

        Parameters
        ----------
        spare : rows to leave free at the end.
        """
        out = np.empty(len(column) + spare, narrowest(column))
        self.gather(column, order, out)
        return out

    of, chosen = slices, take  # names in 0.1.0, for plug-ins until 0.3.0

    def taken(self, column: Array, order: Array | None, capacity: int = 0) -> Array:
        """Return `take_narrow`: its name in 0.1.0, for plug-ins until 0.3.0."""
        return self.take_narrow(column, order, capacity)


def _gather_native(column: Array, order: Array, out: Array) -> bool:
    """Write ``column[order]`` to `out` in C; return False for other dtypes."""
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
