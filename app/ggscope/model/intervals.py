"""Intervals that overlap: which of them counts where; `model.time` needs no numpy."""

import numpy as np

from ggscope.model.tables import I64


def latest_owner(first: I64, last: I64, n: int) -> I64:
    """Return for each of `n` pieces the highest i with ``first[i] <= piece < last[i]``.

    A range is two overlapping ranges whose lengths are a power of two; each level
    takes the higher number and hands it down to its halves.
    """
    length = last - first
    some = np.flatnonzero(length > 0)
    level = np.zeros(len(length), np.int64)
    level[some] = np.log2(length[some]).astype(np.int64)
    owner = np.full(n, -1, np.int64)
    for k in range(int(level.max(initial=0)), -1, -1):
        here = some[level[some] == k]
        np.maximum.at(owner, first[here], here)
        np.maximum.at(owner, last[here] - (1 << k), here)
        if k:
            half = 1 << (k - 1)
            lower = owner.copy()
            np.maximum(lower[half:], owner[: n - half], out=lower[half:])
            owner = lower
    return owner
