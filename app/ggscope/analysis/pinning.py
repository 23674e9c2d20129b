"""Which expert slices to keep in memory for ever, so that most reads are hits."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.reuse import miss_curve
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64, Array


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


__all__ = ["Pinned", "pinned", "read_with_pinned"]
