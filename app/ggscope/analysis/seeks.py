"""How a run walks through the model file: jumps between reads, and layers on disk."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.account import account
from ggscope.analysis.file_map import FileMap
from ggscope.analysis.unit_reads import ReadSequence
from ggscope.model.tables import I64
from ggscope.model.trace import Trace

N_BINS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Seeks:
    """Distances between the end of a read and the beginning of the next one.

    Attributes
    ----------
    n : reads that have one before them.
    n_sequential : begin where the one before ended.
    n_repeated : read the unit of the one before again.
    n_forward, n_backward : the others, by direction.
    forward, backward : int64[64], counts by the power of two of the distance: entry
        k counts distances of 2**k up to 2**(k + 1) bytes.
    total : sum of all distances in bytes (repeated reads have none).
    """

    n: int
    n_sequential: int
    n_repeated: int
    n_forward: int
    n_backward: int
    forward: I64
    backward: I64
    total: int

    @property
    def share_sequential(self) -> float:
        """Share of reads that go on where the one before ended, 0..1."""
        return self.n_sequential / self.n if self.n else 0.0


def seeks(places: FileMap, sequence: ReadSequence) -> Seeks:
    """Return the jumps of a sequence of reads."""
    unit = sequence.unit
    before, after = unit[:-1], unit[1:]
    distance = places.offset[after] - (places.offset + places.size)[before]
    is_same = before == after
    is_next = (distance == 0) & ~is_same
    jumps = distance[~is_same & ~is_next]
    bits = _power(np.abs(jumps))
    ahead = jumps > 0
    return Seeks(
        n=len(distance),
        n_sequential=int(np.count_nonzero(is_next)),
        n_repeated=int(np.count_nonzero(is_same)),
        n_forward=int(np.count_nonzero(ahead)),
        n_backward=int(np.count_nonzero(~ahead)),
        forward=np.bincount(bits[ahead], minlength=N_BINS).astype(np.int64),
        backward=np.bincount(bits[~ahead], minlength=N_BINS).astype(np.int64),
        total=int(np.abs(jumps).sum()),
    )


def _power(values: I64) -> npt.NDArray[np.int64]:
    """Return floor(log2) of values >= 1, exactly."""
    power = np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1
    # Above 2**53 a float may have been rounded up to the next power of two.
    return np.asarray(power - ((np.int64(1) << power) > values), np.int64)


@dataclass(frozen=True, slots=True)
class DiskOrder:
    """The order of layers in the model file.

    Attributes
    ----------
    kind : "numeric" (0, 1, 2 …), "alphabetical" (0, 1, 10, 11 …), "mixed" (neither),
        or "unknown" (less than three layers have a place).
    layers : the layers by where their first tensor lies.
    """

    kind: str
    layers: tuple[int, ...]


def disk_order(places: FileMap) -> DiskOrder:
    """Return the order in which layers lie in the file.

    Alphabetical order makes a run that goes through the layers jump through the
    file, which a disk notices. Up to ten layers both orders are the same.
    """
    known = places.layer >= 0
    layer, offset = places.layer[known].astype(np.int64), places.offset[known]
    found, first = np.unique(layer, return_index=True)
    if len(found) < 3:
        return DiskOrder("unknown", tuple(found.tolist()))
    # Units ascend by offset, so the first one of a layer is its lowest.
    order = tuple(found[np.argsort(offset[first], kind="stable")].tolist())
    if order == tuple(sorted(order)):
        return DiskOrder("numeric", order)
    if order == tuple(sorted(order, key=str)):
        return DiskOrder("alphabetical", order)
    return DiskOrder("mixed", order)


@dataclass(frozen=True, slots=True, eq=False)
class RowReads:
    """Look-ups of single rows of one tensor (token embeddings).

    Attributes
    ----------
    row : int64[k], rows that are read, ascending.
    count : int64[k], how often.
    n_reads : all look-ups; `n_placed` of them tell which row they read.
    """

    tensor: int
    row: I64
    count: I64
    n_reads: int
    n_placed: int

    @property
    def n_repeated(self) -> int:
        """Look-ups of a row that had been read before."""
        return int(self.count.sum()) - len(self.count)


def row_reads(trace: Trace, tensor: int) -> RowReads:
    """Return which rows of a tensor are read, where accesses tell.

    An access tells it by an offset of its own inside the tensor; most writers record
    the whole tensor, and then only the number of reads is known.
    """
    found = account(trace)
    what, times = found.what, found.row_times() * found.counts
    mine = what.tensor == tensor
    base, size = int(trace.tensors.offset[tensor]), int(trace.tensors.size[tensor])
    shape = None if trace.tensors.shape is None else trace.tensors.shape[tensor]
    n_rows = 0 if shape is None else int(np.prod(shape[1:]))
    n_reads = int(times[mine].sum())
    placed = mine & (what.offset >= base) & (what.size >= 0) & (what.size < size)
    if base < 0 or size <= 0 or n_rows <= 0 or size % n_rows or not placed.any():
        none = np.zeros(0, np.int64)
        return RowReads(tensor, none, none, n_reads, 0)
    row = (what.offset[placed] - base) // (size // n_rows)
    rows, at = np.unique(row, return_inverse=True)
    count = np.zeros(len(rows), np.int64)
    np.add.at(count, at, times[placed])
    read = count > 0
    return RowReads(tensor, rows[read], count[read], n_reads, int(times[placed].sum()))


__all__ = ["DiskOrder", "RowReads", "Seeks", "disk_order", "row_reads", "seeks"]
