"""Which units of the model file each access reads, and the sequence of all reads.

The trace says which tensor an op accesses; the file map says where its bytes lie. An
access to a stack of experts reads the slice of the expert that it names, the slices
that its own range touches, or else all of them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.file_map import FileMap, access_base
from ggscope.analysis.merges import time_order
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64, AccessColumns, Array, Space
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace

ROW_OPS = frozenset({"GET_ROWS"})
"""Ops that read some rows of a tensor, while traces record the whole tensor."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class UnitReads:
    """What each of m accesses reads of the file: a list of units per access.

    Attributes
    ----------
    first : int64[m + 1], access i reads entries ``first[i] : first[i + 1]``.
    unit : int32[k], rows of the file map.
    bytes : int64[k], of that unit; they add up to the access's size where the access
        stays inside its tensor.
    is_lost : bool[m], file accesses whose place is not known.
    """

    first: I64
    unit: npt.NDArray[np.int32]
    bytes: I64
    is_lost: npt.NDArray[np.bool_]


def unit_reads(trace: Trace, places: FileMap, what: AccessColumns) -> UnitReads:
    """Return the units that accesses read; work per access, so hand in patterns."""
    n = len(what)
    tensor = np.asarray(what.tensor, np.int64)
    size = np.asarray(what.size, np.int64)
    is_file = np.asarray(what.space) == Space.FILE
    has_place = np.zeros(n, np.bool_)
    if len(places):
        named = is_file & (tensor >= 0)
        has_place[named] = places.first[tensor[named]] >= 0
    begin, stop = np.zeros(n, np.int64), np.zeros(n, np.int64)
    begin[has_place] = places.first[tensor[has_place]]
    stop[has_place] = places.stop[tensor[has_place]]
    whole = stop - begin
    start = np.where(what.offset >= 0, what.offset, 0) + access_base(
        trace, tensor, places.parts
    )
    # An access with a place of its own inside the tensor reads just that.
    is_part = has_place & (what.offset >= 0) & (size >= 0) & (size < whole)
    is_part &= (start >= begin) & (start + size <= stop)
    free = is_file & ~has_place & (what.offset >= 0) & (size > 0) & (len(places) > 0)
    is_part |= free
    begin = np.where(is_part, start, begin)
    stop = np.where(is_part, start + size, stop)
    low, high = _units_between(places, begin, stop)
    low, high = _of_expert(places, what.expert, low, high)
    count = np.where(has_place | free, high - low, 0)
    first = np.concatenate([[0], np.cumsum(count)])
    owner = np.repeat(np.arange(n), count)
    unit = low[owner] + np.arange(len(owner)) - first[owner]
    shares = _shares(places, unit, owner, first, begin, stop, size)
    return UnitReads(
        first, unit.astype(np.int32), shares, is_file & (count == 0) & (size != 0)
    )


def _units_between(places: FileMap, begin: I64, stop: I64) -> tuple[I64, I64]:
    """Return the first unit that reaches beyond `begin`, and the first from `stop`."""
    if not len(places):
        return np.zeros_like(begin), np.zeros_like(begin)
    ends = places.offset + places.size
    low = np.searchsorted(ends, begin, "right")
    high = np.searchsorted(places.offset, stop, "left")
    return low, np.maximum(high, low)


def _of_expert(places: FileMap, expert: Array, low: I64, high: I64) -> tuple[I64, I64]:
    """Narrow a stack to the slice of the expert that the access names."""
    if not len(places):
        return low, high
    wanted = np.asarray(expert, np.int64)
    slice_of = low + wanted
    at = np.minimum(slice_of, len(places) - 1)
    good = (wanted >= 0) & (high - low > 1) & (slice_of < high)
    good &= places.expert[at] == wanted
    return np.where(good, slice_of, low), np.where(good, slice_of + 1, high)


def _shares(
    places: FileMap,
    unit: I64,
    owner: I64,
    first: I64,
    begin: I64,
    stop: I64,
    size: I64,
) -> I64:
    """Share the bytes of each access out among its units, exactly."""
    if not len(unit):
        return np.zeros(0, np.int64)
    low = np.maximum(places.offset[unit], begin[owner])
    high = np.minimum(places.offset[unit] + places.size[unit], stop[owner])
    overlap = np.maximum(high - low, 0)
    upto_entry = np.concatenate([[0], np.cumsum(overlap)])
    covered = np.diff(upto_entry[first])
    wanted = size[owner]
    before = upto_entry[:-1] - upto_entry[first[:-1]][owner]
    total = np.maximum(covered[owner], 1)
    # A running floor: differences of one monotone function add up exactly.
    upto = _scaled(before + overlap, wanted, total)
    exact = upto - _scaled(before, wanted, total)
    return np.where((wanted < 0) | (wanted == covered[owner]), overlap, exact)


def _scaled(part: I64, wanted: I64, total: I64) -> I64:
    """Return ``part * wanted // total`` without overflow, monotone in `part`."""
    whole, rest = np.divmod(wanted, total)
    share = np.floor(part.astype(np.float64) / total * rest).astype(np.int64)
    return part * whole + np.where(part == total, rest, share)


@dataclass(frozen=True, slots=True, eq=False)
class ReadSequence:
    """All reads of the model file in the order of time.

    Attributes
    ----------
    unit : int32[n], rows of the file map.
    span : int64[n], the op that reads; None unless asked for.
    size : int64[n_units], the most bytes that one read asks of each unit.
    follow : int64[n_units], the unit behind each one in the file; -1 the last.
    n_lost : file accesses whose place is not known.
    n_row_reads : accesses left out because their op reads rows only.
    """

    unit: npt.NDArray[np.int32]
    span: I64 | None
    size: I64
    follow: I64
    n_lost: int
    n_row_reads: int

    def __len__(self) -> int:
        return len(self.unit)


def read_sequence(
    trace: Trace,
    places: FileMap,
    *,
    time: TimeRange | None = None,
    with_row_reads: bool = False,
    with_spans: bool = False,
    watcher: Watcher | None = None,
) -> ReadSequence:
    """Return what the trace reads of the model file, in the order of time.

    Parameters
    ----------
    time : only ops that start in it.
    with_row_reads : also ops that look up rows, with the sizes that are recorded:
        those of whole tensors. Left out by default, for they would count an
        embedding table of hundreds of MiB per token.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    accesses = trace.accesses
    reads = unit_reads(trace, places, accesses.patterns)
    bounds = reads.first[accesses.first]
    length = np.diff(bounds)
    counted = np.concatenate([[0], np.cumsum(reads.is_lost)])[accesses.first]
    lost = np.diff(counted)
    chosen, n_row = _chosen(trace, length, lost, time, with_row_reads)
    pattern = accesses.pattern[chosen].astype(np.int64)
    n_lost = int(lost[pattern].sum())
    n_reads = int(length[pattern].sum())
    unit = np.empty(n_reads, np.int32)
    span = np.empty(n_reads, np.int64) if with_spans else None
    done = 0
    for first in range(0, len(chosen), _BLOCK):
        part = pattern[first : first + _BLOCK]
        n = length[part]
        begin = np.repeat(bounds[part] - (np.cumsum(n) - n), n)
        entries = reads.unit[begin + np.arange(len(begin))]
        unit[done : done + len(entries)] = entries
        if span is not None:
            block = chosen[first : first + _BLOCK]
            span[done : done + len(entries)] = np.repeat(block, n)
        done += len(entries)
        if watcher is not None:
            watcher.progress(first + len(part), len(chosen))
    size = np.zeros(len(places), np.int64)
    np.maximum.at(size, reads.unit, reads.bytes)
    follow = np.append(np.arange(1, len(places)), -1) if len(places) else size.copy()
    return ReadSequence(unit, span, size, follow, n_lost, n_row)


def _chosen(
    trace: Trace,
    length: I64,
    lost: I64,
    time: TimeRange | None,
    with_row_reads: bool,
) -> tuple[Array, int]:
    """Return spans that read the file in the order of time, and how many do not count.

    Those look up rows only.
    """
    spans, pattern = trace.spans, trace.accesses.pattern
    reads = np.append((length > 0) | (lost > 0), False)
    wanted = reads[pattern]
    if time is not None:
        wanted &= (spans.start >= time.start) & (spans.start < time.end)
    n_row = 0
    row_ops = [
        op for op in np.unique(spans.op).tolist() if trace.op_name(op) in ROW_OPS
    ]
    if row_ops and not with_row_reads:
        is_row = np.isin(spans.op, row_ops) & wanted
        n_row = int(np.count_nonzero(is_row))
        wanted &= ~is_row
    order = time_order(spans.start)
    if order is None:
        order = np.argsort(spans.start, kind="stable")
    return order[wanted[order]], n_row


__all__ = ["ROW_OPS", "ReadSequence", "UnitReads", "read_sequence", "unit_reads"]
