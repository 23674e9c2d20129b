"""Long array operations in short pieces: nobody waits long to cancel or to paint.

Columns of 33 million rows are put into another order, narrowed and searched here.
What matters is memory: no temporary array is longer than a piece.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, narrow
from ggscope.readers import tensor_kernel
from ggscope.readers.tensor_columns import N_THREADS

_PIECE_ROWS = 1 << 19


class Work:
    """Does array operations piece by piece.

    Parameters
    ----------
    check : called between pieces; raises Cancelled where they are not wanted.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check
        self._library: Any | None = tensor_kernel.kernel()

    def pieces(self, n: int, first: int = 0) -> Iterator[slice]:
        """Yield slices that cover ``[first, n)``, with a check before each."""
        for at in range(first, n, _PIECE_ROWS):
            self.check()
            yield slice(at, min(at + _PIECE_ROWS, n))

    def find(self, n: int, marked: Callable[[slice], Array]) -> I64:
        """Return where ``marked(piece)`` is true, ascending, int64[m]."""
        found = [
            piece.start + np.flatnonzero(marked(piece)) for piece in self.pieces(n)
        ]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def changes(self, column: Array) -> I64:
        """Return the rows, but for the first, that differ from the one before."""
        return 1 + self.find(
            len(column) - 1,
            lambda p: column[p] != column[p.start + 1 : p.stop + 1],
        )

    def counts(self, column: Array, n: int) -> I64:
        """Return how often each number below `n` occurs, int64[n]."""
        total = np.zeros(n, np.int64)
        for piece in self.pieces(len(column)):
            total += np.bincount(column[piece], minlength=n)
        return total

    def lane_order(
        self, thread: npt.NDArray[np.uint16], ids: list[int]
    ) -> tuple[I64, Array | None]:
        """Return the first row of each lane, and positions by lane.

        Parameters
        ----------
        ids : raw thread ids in lane order, all that occur.

        Returns
        -------
        int64[n_lanes + 1], and int32[n] (int64 where there are very many); None
        where that is the order already.
        """
        n, n_lanes = len(thread), len(ids)
        if n_lanes <= 1:
            return np.array([0, n][: n_lanes + 1], np.int64), None
        counts = self.counts(thread, N_THREADS)[ids]
        lane_first = np.concatenate([[0], np.cumsum(counts)])
        order = np.empty(n, np.int32 if n < 1 << 31 else np.int64)
        if self._library is None or order.dtype != np.int32:
            self._fill_order(thread, ids, lane_first, order)
            return lane_first, order
        lane_of = np.zeros(N_THREADS, np.uint16)
        lane_of[ids] = np.arange(n_lanes)
        following, limit = lane_first[:-1].copy(), lane_first[1:].copy()
        address = tensor_kernel.address
        for piece in self.pieces(n):
            fits = self._library.ggscope_tensor_order(
                address(thread), piece.start, piece.stop, address(lane_of),
                address(following), address(limit), address(order),
            )  # fmt: skip
            assert fits, "a thread has more records than were counted"
        return lane_first, order

    def gather(self, column: Array, order: Array | None, out: Array) -> None:
        """Write ``column[order]`` to the first rows of `out`, whatever its dtype.

        All values must fit. `order` None stands for the order as it is.
        """
        n = len(column) if order is None else len(order)
        for piece in self.pieces(n):
            if order is None:
                out[piece] = column[piece]
            elif not self._gather(column, order[piece], out[piece]):
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

    def _gather(self, column: Array, order: Array, out: Array) -> bool:
        """Let compiled code do it; return False where it cannot."""
        is_signed_or_same = column.dtype.kind == "i" or column.itemsize == out.itemsize
        return (
            self._library is not None
            and order.dtype == np.int32
            and is_signed_or_same
            and column.flags.c_contiguous
            and bool(
                self._library.ggscope_tensor_gather(
                    tensor_kernel.address(column), column.itemsize,
                    tensor_kernel.address(order), len(order),
                    tensor_kernel.address(out), out.itemsize,
                )
            )
        )  # fmt: skip

    def _fill_order(
        self, thread: Array, ids: list[int], lane_first: I64, order: Array
    ) -> None:
        """Write the order with numpy: the twin of ``ggscope_tensor_order``."""
        lane_of = np.zeros(N_THREADS, np.uint16)
        lane_of[ids] = np.arange(len(ids))
        at = lane_first[:-1].copy()
        for piece in self.pieces(len(thread)):
            lane = lane_of[thread[piece]]
            # 16-bit keys are sorted by radix, in linear time.
            by_lane = np.argsort(lane, kind="stable")
            counts = np.bincount(lane, minlength=len(ids))
            begin = np.repeat(at - (np.cumsum(counts) - counts), counts)
            order[begin + np.arange(len(lane))] = piece.start + by_lane
            at += counts


def narrowest(column: Array) -> np.dtype[Any]:
    """Return the narrowest signed dtype that holds the values of `column` and -1."""
    low = int(column.min(initial=0)) if column.dtype.kind == "i" else 0
    return narrow(np.array([min(low, -1), int(column.max(initial=0))])).dtype


def extended(column: Array, n: int, *tails: Array) -> Array:
    """Return the first `n` rows of `column` followed by `tails`, without a copy.

    `column` must have room for them behind row `n`; else it is copied after all.
    """
    total = n + sum(map(len, tails))
    if len(column) < total:
        column = np.concatenate([column[:n], np.empty(total - n, column.dtype)])
    at = n
    for tail in tails:
        column[at : at + len(tail)] = tail
        at += len(tail)
    return column[:total]


def with_room(view: Array) -> Array:
    """Return the whole memory of a view that begins where the memory does."""
    base = view.base
    return base if isinstance(base, np.ndarray) else view
