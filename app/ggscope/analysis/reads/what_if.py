"""What-if cache: bytes that a run would read from disk with a page cache of some size.

Also which expert slices to pin in memory, so that most reads are hits.

A read asks for a whole *unit* (a tensor or an expert's slice of one). For the page
cache this is exact, though it holds pages: all pages of a unit that is always read
from its beginning to its end have the same stack distance, so they hit or miss
together.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.completeness.coverage import TraceCoverage, shown_coverage
from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.reads.expert_reads import (
    ExpertReads,
    ReadUnits,
    expert_reads,
    implies_reads,
)
from ggscope.analysis.reads.file_blocks import ReadSequence, read_sequence
from ggscope.analysis.reads.unrecorded import unrecorded_tensors
from ggscope.analysis.sessions.join import refused_models
from ggscope.analysis.workers import Watcher, chunks, share_out
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.native.library import library

_BLOCK = 1 << 18
"""Reads between two checks for cancellation."""
N_OPTIMUM = 24
"""Sizes of the cache for which Belady's rule is computed."""


@dataclass(frozen=True, slots=True, eq=False)
class MissCurve:
    """What LRU reads from disk, for every size of the cache at once.

    Attributes
    ----------
    capacity : int64[k], bytes, ascending from 0: where the result changes.
    bytes_read : int64[k], read from disk with ``capacity[i]`` up to the next.
    misses : int64[k], reads that went to disk.
    n_reads, bytes_asked : of the whole sequence.
    cold_misses, cold_bytes : first reads of each unit: no cache saves these.
    """

    capacity: I64
    bytes_read: I64
    misses: I64
    n_reads: int
    bytes_asked: int
    cold_misses: int
    cold_bytes: int

    def at(self, capacity: int) -> tuple[int, int]:
        """Return (bytes read from disk, misses) with a cache of `capacity` bytes."""
        i = int(np.searchsorted(self.capacity, max(capacity, 0), "right")) - 1
        return int(self.bytes_read[i]), int(self.misses[i])


def stack_distances(unit: Array, size: I64, watcher: Watcher | None = None) -> I64:
    """Return the LRU stack distance of each read, int64[n].

    That is the bytes of all units read since the last read of the same unit, its own
    included: the read is a hit in a cache of at least so many bytes. -1 for first
    reads, and for units outside ``range(len(size))``.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    size = np.ascontiguousarray(size, np.int64)
    unit = np.ascontiguousarray(unit, np.int32)
    n_units, distances = len(size), np.empty(len(unit), np.int64)
    places = max(4 * n_units, 1024)
    state, tree = np.zeros(2, np.int64), np.zeros(places + 1, np.int64)
    slot, owner = np.full(n_units, -1, np.int64), np.full(places, -1, np.int64)
    for rows in chunks(len(unit), _BLOCK):
        part, out = unit[rows], distances[rows]
        library().ggscope_reuse_distances(
            part, len(part), size, n_units, places, state, tree, slot, owner, out
        )
        if watcher is not None:
            watcher.progress(rows.stop, len(unit))
    return distances


def miss_curve(unit: Array, size: I64, watcher: Watcher | None = None) -> MissCurve:
    """Return what LRU misses at every capacity; see `stack_distances` for errors."""
    unit = np.asarray(unit)
    unit = unit[(unit >= 0) & (unit < len(size))]
    distance = stack_distances(unit, size, watcher)
    bytes_of = np.asarray(size, np.int64)[unit]
    is_cold = distance < 0
    requested, cold = int(bytes_of.sum()), int(bytes_of[is_cold].sum())
    steps, hits, saved = _steps(distance[~is_cold], bytes_of[~is_cold])
    zero = np.zeros(1, np.int64)
    return MissCurve(
        capacity=np.concatenate([zero, steps]),
        bytes_read=requested - np.concatenate([zero, np.cumsum(saved)]),
        misses=len(unit) - np.concatenate([zero, np.cumsum(hits)]),
        n_reads=len(unit),
        bytes_asked=requested,
        cold_misses=int(np.count_nonzero(is_cold)),
        cold_bytes=cold,
    )


def _steps(distance: I64, size: I64) -> tuple[I64, I64, I64]:
    """Return the distances that occur, how many reads each, and their bytes."""
    # Runs repeat themselves, which a stable sort makes use of: on 13 million reads it
    # takes an eighth of the time of `np.unique` with its inverse.
    order = np.argsort(distance, kind="stable")
    ordered = distance[order]
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    first = np.flatnonzero(is_new)
    hits = np.diff(np.append(first, len(ordered)))
    saved = np.add.reduceat(size[order], first) if len(first) else hits
    return ordered[first], hits.astype(np.int64), saved.astype(np.int64)


def next_reads(unit: Array, n_units: int) -> I64:
    """Return where the unit of each read is read next, int64[n]; n = never again."""
    unit = np.ascontiguousarray(unit, np.int32)
    following, last = np.empty(len(unit), np.int64), np.empty(n_units, np.int64)
    library().ggscope_reuse_next(unit, len(unit), n_units, last, following)
    return following


def optimum(
    unit: Array, size: I64, capacities: Array, watcher: Watcher | None = None
) -> tuple[I64, I64]:
    """Return what Belady's rule reads from disk with caches of these sizes.

    The rule knows the future: whatever is read again latest leaves the cache first,
    byte by byte, and what was just read may leave at once. No cache can read less.

    Returns
    -------
    bytes_read, misses : int64 of the shape of `capacities`; a miss is a read that was
        not served whole.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    size = np.ascontiguousarray(size, np.int64)
    unit = np.ascontiguousarray(unit, np.int32)
    sizes = np.asarray(capacities, np.int64)
    bytes_read, misses = np.zeros((2, len(sizes)), np.int64)
    following = next_reads(unit, len(size))

    def work(_: int, part: slice) -> None:
        for i in range(part.start, part.stop):
            n_misses = _optimum(unit, following, size, int(sizes[i]))
            bytes_read[i], misses[i] = n_misses

    share_out(work, chunks(len(sizes), 1), watcher)
    return bytes_read, misses


def _optimum(unit: Array, following: I64, size: I64, capacity: int) -> tuple[int, int]:
    leaves = 1 << max(len(size) - 1, 0).bit_length()
    tree = np.full(2 * leaves, -1, np.int64)
    resident, state = np.zeros(len(size), np.int64), np.zeros(3, np.int64)
    library().ggscope_reuse_optimum(
        unit, following, 0, len(unit), size, len(size), max(capacity, 0), leaves,
        tree, resident, state,
    )  # fmt: skip
    return int(state[1]), int(state[2])


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """What LRU with read-ahead does with one size of cache.

    Attributes
    ----------
    bytes_read : from disk, on demand and ahead.
    misses : reads that had to wait for the disk.
    bytes_ahead : of `bytes_read`, read before it was requested.
    """

    bytes_read: int
    misses: int
    bytes_ahead: int


def with_read_ahead(
    unit: Array, size: I64, follow: I64, k: int, capacity: int
) -> ReadAhead:
    """Return what LRU does that reads `k` further units after every miss.

    Parameters
    ----------
    follow : int64[n_units], the unit behind each one in the file, -1 the last.
    """
    size = np.ascontiguousarray(size, np.int64)
    unit = np.ascontiguousarray(unit, np.int32)
    follow = np.ascontiguousarray(follow, np.int64)
    k, capacity = max(k, 0), max(capacity, 0)
    n = len(size)
    before, after = np.full((2, n + 1), -1, np.int64)
    before[n] = after[n] = n
    ahead, state = np.zeros(max(k, 1), np.int64), np.zeros(4, np.int64)
    library().ggscope_reuse_ahead(
        unit, len(unit), size, n, follow, k, capacity, before, after, ahead, state
    )
    return ReadAhead(int(state[1]), int(state[2]), int(state[3]))


@dataclass(frozen=True, slots=True, eq=False)
class Pinned:
    """The fewest bytes that serve a share of the reads.

    Attributes
    ----------
    units : int64[k], the units to pin, the most rewarding first.
    size : bytes of them.
    hits, all_hits : repeated reads that they serve, and repeated reads of all
        candidates (a first read is never a hit).
    n_candidates : units that could be pinned.
    """

    units: I64
    size: int
    hits: int
    all_hits: int
    n_candidates: int

    @property
    def share(self) -> float:
        """Share of the repeated reads that are hits, 0..1."""
        return self.hits / self.all_hits if self.all_hits else 0.0


def pinned(
    unit: Array, size: I64, candidates: npt.NDArray[np.bool_], share: float
) -> Pinned:
    """Return the candidates to pin so that `share` (0..1) of their reads are hits.

    Units are taken by repeated reads per byte. That is the fewest bytes where units
    are of one size, as experts of a model are, and within one unit of it elsewhere.
    """
    reads = np.bincount(np.asarray(unit)[np.asarray(unit) >= 0], minlength=len(size))
    gain = np.where(candidates, np.maximum(reads - 1, 0), 0).astype(np.int64)
    order = np.argsort(-gain / np.maximum(size, 1), kind="stable")
    order = order[gain[order] > 0]
    total = int(gain.sum())
    cumulated = np.cumsum(gain[order])
    n = int(np.searchsorted(cumulated, share * total - 1e-9)) + 1 if total else 0
    chosen = order[:n]
    return Pinned(
        chosen.astype(np.int64),
        int(np.asarray(size)[chosen].sum()),
        int(gain[chosen].sum()),
        total,
        int(np.count_nonzero(candidates)),
    )


def read_with_pinned(
    unit: Array, size: I64, pins: Array, capacity: int, watcher: Watcher | None = None
) -> int:
    """Return the bytes read from disk with some units pinned and LRU for the rest.

    Pinned units are read once; what they take is not there for the others. Where they
    do not fit at all, the rest has no cache.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    unit = np.asarray(unit)
    is_pinned = np.zeros(len(size) + 1, np.bool_)
    is_pinned[pins] = True
    used = np.unique(unit[is_pinned[unit]])
    rest = unit[~is_pinned[unit]]
    free_bytes = max(capacity - int(np.asarray(size)[pins].sum()), 0)
    curve = miss_curve(rest, size, watcher)
    return int(np.asarray(size)[used].sum()) + curve.at(free_bytes)[0]


@dataclass(frozen=True, slots=True, eq=False)
class WhatIf:
    """The reads of a run, and what a cache of any size would make of them.

    Attributes
    ----------
    curve : LRU at every size.
    working_set : bytes of all units that are read: a cache of that size reads each
        once.
    coverage : what the trace leaves out.
    n_unrecorded, unrecorded_size : units without a read in the sequence that are read
        without a record, as the graphs show, and their bytes.
    refused : why models and maps that were given are not used.
    chosen : how the reads follow from a router's choices, where no access is
        recorded; else None.
    """

    units: ReadUnits
    sequence: ReadSequence
    curve: MissCurve
    working_set: int
    coverage: TraceCoverage
    n_unrecorded: int
    unrecorded_size: int
    refused: tuple[str, ...]
    chosen: ExpertReads | None = None

    @property
    def has_all(self) -> bool:
        """Whether no read of the run is known or likely to be without a record.

        Of reads that follow from choices: no read of an expert.
        """
        return not (self.coverage.may_hide_reads or self.n_unrecorded)


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """Belady's rule at some sizes of the cache: no cache reads less.

    Attributes
    ----------
    capacity, bytes_read, misses : int64[k], ascending by capacity.
    """

    capacity: I64
    bytes_read: I64
    misses: I64


@dataclass(frozen=True, slots=True, eq=False)
class CacheResult:
    """What one size of cache does.

    Attributes
    ----------
    capacity : bytes.
    bytes_read, misses : LRU, without read-ahead.
    best : Belady's rule at this size.
    ahead : LRU with read-ahead of `k` units; None for k = 0, and where the places of
        units in the file are unknown.
    pins : the expert slices to pin; None where no expert can be determined.
    bytes_pinned : read from disk with these pinned; None where they do not fit.
    """

    capacity: int
    bytes_read: int
    misses: int
    best: int
    k: int
    ahead: ReadAhead | None
    pins: Pinned | None
    bytes_pinned: int | None


def what_if(
    trace: Trace,
    time: TimeRange | None = None,
    *,
    with_row_reads: bool = False,
    watcher: Watcher | None = None,
) -> WhatIf:
    """Return the miss-ratio curve of a trace, or of the ops that start in a range.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    places = file_map(trace)
    refused = tuple(refused_models(trace).values())
    coverage = shown_coverage(trace, time)
    if implies_reads(trace):
        chosen = expert_reads(trace, places, time)
        curve = miss_curve(chosen.sequence.unit, chosen.sequence.size, watcher)
        return WhatIf(
            chosen.units, chosen.sequence, curve, curve.cold_bytes, coverage, 0, 0,
            refused, chosen,
        )  # fmt: skip
    sequence = read_sequence(
        trace, places, time=time, with_row_reads=with_row_reads, watcher=watcher
    )
    curve = miss_curve(sequence.unit, sequence.size, watcher)
    is_unrecorded = unrecorded_tensors(trace)[places.tensor]
    is_unrecorded[sequence.unit] = False
    return WhatIf(
        ReadUnits(places.size, places.offset, places.layer, places.expert),
        sequence,
        curve,
        curve.cold_bytes,
        coverage,
        int(np.count_nonzero(is_unrecorded)),
        int(places.size[is_unrecorded].sum()),
        refused,
    )


def best_possible(
    reads: WhatIf, n: int = N_OPTIMUM, watcher: Watcher | None = None
) -> Optimum:
    """Return Belady's rule at `n` sizes up to the working set.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    sizes = np.unique(np.linspace(0, reads.working_set, n + 1).astype(np.int64))
    read, misses = optimum(reads.sequence.unit, reads.sequence.size, sizes, watcher)
    return Optimum(sizes, read, misses)


def cache_result(
    reads: WhatIf,
    capacity: int,
    *,
    k: int = 0,
    pin_share: float = 0.9,
    watcher: Watcher | None = None,
) -> CacheResult:
    """Return what a cache of `capacity` bytes does with the run.

    Parameters
    ----------
    k : units that are read ahead after every miss.
    pin_share : share of the repeated reads of experts that pinning is to serve.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    sequence = reads.sequence
    unit, size = sequence.unit, sequence.size
    read, misses = reads.curve.at(capacity)
    best, _ = optimum(unit, size, np.array([capacity]), watcher)
    has_places = k > 0 and reads.units.is_placed
    ahead = (
        with_read_ahead(unit, size, sequence.follow, k, capacity)
        if has_places
        else None
    )
    is_expert = reads.units.expert >= 0
    pins = pinned(unit, size, is_expert, pin_share) if is_expert.any() else None
    fits = pins is not None and 0 < pins.size <= capacity
    return CacheResult(
        capacity,
        read,
        misses,
        int(best[0]),
        k,
        ahead,
        pins,
        read_with_pinned(unit, size, pins.units, capacity, watcher)
        if pins is not None and fits
        else None,
    )
