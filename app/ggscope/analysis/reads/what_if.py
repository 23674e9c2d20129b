"""What-if cache: how much a run would read from disk with so much page cache.

And which expert slices to keep in memory for ever, so that most reads are hits.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.file_map import FileMap, file_map
from ggscope.analysis.reads.reuse import (
    MissCurve,
    ReadAhead,
    miss_curve,
    optimum,
    with_read_ahead,
)
from ggscope.analysis.reads.units import ReadSequence, read_sequence
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64, Array
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace

N_OPTIMUM = 24
"""Sizes of the cache for which Belady's rule is tried out."""


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
    upto = np.cumsum(gain[order])
    n = int(np.searchsorted(upto, share * total - 1e-9)) + 1 if total else 0
    chosen = order[:n]
    return Pinned(
        chosen.astype(np.int64),
        int(np.asarray(size)[chosen].sum()),
        int(gain[chosen].sum()),
        total,
        int(np.count_nonzero(candidates)),
    )


def read_with_pinned(
    unit: Array,
    size: I64,
    pins: Array,
    capacity: int,
    watcher: Watcher | None = None,
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
    room = max(capacity - int(np.asarray(size)[pins].sum()), 0)
    curve = miss_curve(rest, size, watcher)
    return int(np.asarray(size)[used].sum()) + curve.at(room)[0]


@dataclass(frozen=True, slots=True, eq=False)
class WhatIf:
    """The reads of a run, and what a cache of any size would make of them.

    Attributes
    ----------
    curve : LRU at every size.
    working_set : bytes of all units that are read: a cache of that size reads each
        once.
    """

    places: FileMap
    sequence: ReadSequence
    curve: MissCurve
    working_set: int


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
class Answer:
    """What one size of cache does.

    Attributes
    ----------
    capacity : bytes.
    bytes_read, misses : LRU, without read-ahead.
    best : Belady's rule at this size.
    ahead : LRU with read-ahead of `k` units; None for k = 0.
    pins : the expert slices to pin; None where no expert can be told.
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
    sequence = read_sequence(
        trace, places, time=time, with_row_reads=with_row_reads, watcher=watcher
    )
    curve = miss_curve(sequence.unit, sequence.size, watcher)
    return WhatIf(places, sequence, curve, curve.cold_bytes)


def best_possible(
    found: WhatIf, n: int = N_OPTIMUM, watcher: Watcher | None = None
) -> Optimum:
    """Return Belady's rule at `n` sizes up to the working set.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    sizes = np.unique(np.linspace(0, found.working_set, n + 1).astype(np.int64))
    read, misses = optimum(found.sequence.unit, found.sequence.size, sizes, watcher)
    return Optimum(sizes, read, misses)


def answer(
    found: WhatIf,
    capacity: int,
    *,
    k: int = 0,
    pin_share: float = 0.9,
    watcher: Watcher | None = None,
) -> Answer:
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
    sequence = found.sequence
    unit, size = sequence.unit, sequence.size
    read, misses = found.curve.at(capacity)
    best, _ = optimum(unit, size, np.array([capacity]), watcher)
    ahead = with_read_ahead(unit, size, sequence.follow, k, capacity) if k else None
    is_expert = found.places.expert >= 0
    pins = pinned(unit, size, is_expert, pin_share) if is_expert.any() else None
    fits = pins is not None and 0 < pins.size <= capacity
    return Answer(
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
