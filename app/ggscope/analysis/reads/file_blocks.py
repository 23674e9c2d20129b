"""Which units of the model file each op reads, and the sequence of all reads.

What an op touches is determined by ``heat.touches``: its tensors, the slice of the
expert that an access names, the slices that the router chose, or else a whole stack.
Here these ranges are cut at the borders of the units.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.byte_ranges import ByteRanges, Track, span_variants
from ggscope.analysis.heat.file_map import FileMap
from ggscope.analysis.reads.op_io import counts_once
from ggscope.analysis.rows.rows import merged_order
from ggscope.analysis.workers import Watcher
from ggscope.model.ggml.rules import ROW_OPS
from ggscope.model.tables import I64, Array, distinct, ranges
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class UnitReads:
    """What each of m touches reads of the file: a list of units per touch.

    Attributes
    ----------
    first : int64[m + 1], touch i reads entries ``first[i] : first[i + 1]``.
    unit : int32[k], rows of the file map.
    bytes : int64[k], of that unit; they add up to the bytes of the touch where its
        range lies inside units.
    is_lost : bool[m], weights whose place in the file is not known.
    """

    first: I64
    unit: npt.NDArray[np.int32]
    bytes: I64
    is_lost: npt.NDArray[np.bool_]


def unit_reads(places: FileMap, touches: ByteRanges) -> UnitReads:
    """Return the units that touches read; work per touch, not per access."""
    is_file = touches.track == Track.FILE
    low, high = _units_between(places, touches.begin, touches.stop)
    count = np.where(is_file, high - low, 0)
    first = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    owner = np.repeat(np.arange(len(touches)), count)
    unit = ranges(low, count)
    shares = _shares(
        places, unit, owner, first, touches.begin, touches.stop, touches.size
    )
    return UnitReads(
        first, unit.astype(np.int32), shares, touches.track == Track.UNPLACED
    )


def _units_between(places: FileMap, begin: I64, stop: I64) -> tuple[I64, I64]:
    """Return the first unit that reaches beyond `begin`, and the first from `stop`."""
    if not len(places):
        return np.zeros_like(begin), np.zeros_like(begin)
    ends = places.offset + places.size
    low = np.searchsorted(ends, begin, "right").astype(np.int64)
    high = np.searchsorted(places.offset, stop, "left").astype(np.int64)
    return low, np.maximum(high, low)


def _shares(
    places: FileMap, unit: I64, owner: I64, first: I64, begin: I64, stop: I64, size: I64
) -> I64:
    """Share the bytes of each touch out among its units, exactly."""
    if not len(unit):
        return np.zeros(0, np.int64)
    low = np.maximum(places.offset[unit], begin[owner])
    high = np.minimum(places.offset[unit] + places.size[unit], stop[owner])
    overlap = np.maximum(high - low, 0)
    upto_entry = np.concatenate([[0], np.cumsum(overlap)])
    covered = np.diff(upto_entry[first])
    of_owner = size[owner]
    before = upto_entry[:-1] - upto_entry[first[:-1]][owner]
    total = np.maximum(covered[owner], 1)
    # A running floor: differences of one monotone function add up exactly.
    up_to_end = scaled(before + overlap, of_owner, total)
    exact = up_to_end - scaled(before, of_owner, total)
    return np.where(of_owner == covered[owner], overlap, exact)


def scaled(part: I64, target: I64, total: I64) -> I64:
    """Return ``part * wanted // total`` without overflow, monotone in `part`."""
    whole, rest = np.divmod(target, total)
    share = np.floor(part.astype(np.float64) / total * rest).astype(np.int64)
    return part * whole + np.where(part == total, rest, share)


@dataclass(frozen=True, slots=True, eq=False)
class ReadSequence:
    """All reads of the model file in the order of time.

    Attributes
    ----------
    unit : int32[n], rows of the file map.
    span : int64[n], the op that reads; None unless asked for.
    size : int64[n_units], the most bytes that one read asks of each unit; the whole
        unit where no size is recorded.
    follow : int64[n_units], the unit behind each one in the file; -1 the last.
    n_lost : file accesses whose place is not known.
    n_row_reads : accesses left out because their op reads rows only.
    passed_bytes : bytes of these reads, as recorded, in experts that were not chosen.
    n_maybe : accesses left out because no list names their experts; `unknown_bytes`
        is what they read at most.
    is_once : whether each op counts once; see `account.counts_once`.
    """

    unit: npt.NDArray[np.int32]
    span: I64 | None
    size: I64
    follow: I64
    n_lost: int
    n_row_reads: int
    passed_bytes: int
    n_maybe: int = 0
    unknown_bytes: int = 0
    is_once: bool = True

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
    variants = span_variants(trace, places)
    touches = variants.touches
    reads = unit_reads(places, touches)
    bounds = reads.first[touches.first]
    length = np.diff(bounds)
    lost = np.diff(np.concatenate([[0], np.cumsum(reads.is_lost)])[touches.first])
    per_entry = variants.access_table.per_entry
    is_maybe = touches.track == Track.MAYBE
    maybe, passed = per_entry(is_maybe.astype(np.int64)), per_entry(touches.passed)
    open_ = per_entry(np.where(is_maybe, touches.unknown, 0))
    is_used = (length > 0) | (lost > 0) | (maybe > 0)
    chosen, n_row = _chosen(trace, variants.column, is_used, time, with_row_reads)
    pattern = variants.column[chosen].astype(np.int64)
    n_lost = int(lost[pattern].sum())
    n_reads = int(length[pattern].sum())
    unit = np.empty(n_reads, np.int32)
    span = np.empty(n_reads, np.int64) if with_spans else None
    done = 0
    for first in range(0, len(chosen), _BLOCK):
        part = pattern[first : first + _BLOCK]
        n = length[part]
        entries = reads.unit[ranges(bounds[part], n)]
        unit[done : done + len(entries)] = entries
        if span is not None:
            block = chosen[first : first + _BLOCK]
            span[done : done + len(entries)] = np.repeat(block, n)
        done += len(entries)
        if watcher is not None:
            watcher.progress(first + len(part), len(chosen))
    size = np.zeros(len(places), np.int64)
    np.maximum.at(size, reads.unit, reads.bytes)
    # Which rows are read is not stated: of their tensor they may be any.
    is_row = np.repeat(variants.access_table.is_rows, np.diff(reads.first))
    size[reads.unit[is_row]] = 0
    size = np.where(size > 0, size, places.size)
    follow = np.append(np.arange(1, len(places)), -1) if len(places) else size.copy()
    n_passed = int(passed[pattern].sum())
    return ReadSequence(
        unit, span, size, follow, n_lost, n_row, n_passed,
        int(maybe[pattern].sum()), int(open_[pattern].sum()), counts_once(trace),
    )  # fmt: skip


def _chosen(
    trace: Trace,
    pattern: Array,
    is_used: npt.NDArray[np.bool_],
    time: TimeRange | None,
    with_row_reads: bool,
) -> tuple[Array, int]:
    """Return spans that read the file in the order of time, and how many do not count.

    Those look up rows only.
    """
    spans = trace.spans
    is_requested = np.append(is_used, False)[pattern]
    if time is not None:
        is_requested &= (spans.start >= time.start) & (spans.start < time.end)
    n_row = 0
    row_ops = [op for op in distinct(spans.op).tolist() if trace.op_name(op) in ROW_OPS]
    if row_ops and not with_row_reads:
        is_row = np.isin(spans.op, row_ops) & is_requested
        n_row = int(np.count_nonzero(is_row))
        is_requested &= ~is_row
    order = merged_order(spans.start)
    if order is None:
        order = np.argsort(spans.start, kind="stable")
    return order[is_requested[order]], n_row
