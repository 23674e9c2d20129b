"""Work on long columns in pieces, so that temporaries stay small.

Indexing with a narrow column makes numpy widen the whole index to 64 bits: 264 MB
for 33 million spans. A million rows at a time fit the cache and cost nothing extra.
"""

from collections.abc import Iterator

import numpy as np

from ggscope.analysis import native
from ggscope.model.tables import I64, Array

CHUNK_ROWS = 1 << 20


def chunks(n: int, size: int = CHUNK_ROWS) -> Iterator[slice]:
    """Yield slices of at most `size` rows that cover ``range(n)`` in order."""
    for begin in range(0, n, size):
        yield slice(begin, min(begin + size, n))


def count_values(column: Array, n_values: int, gate: Array | None = None) -> I64:
    """Return how often each of 0..n_values-1 occurs, int64[n_values].

    Negative values ("none") are left out, and so are those where `gate` (of the
    same length) is negative.
    """
    total = np.zeros(n_values, np.int64)
    counts = native.count_codes(column, gate)
    if counts is not None:
        if np.issubdtype(column.dtype, np.signedinteger):
            counts = counts[: len(counts) // 2]
        total[: len(counts)] = counts[:n_values]
        return total
    for rows in chunks(len(column)):
        part = column[rows]
        known = part >= 0 if gate is None else (part >= 0) & (gate[rows] >= 0)
        total += np.bincount(part[known], minlength=n_values)[:n_values]
    return total


def add_by_group(total: I64, group: Array, values: I64) -> None:
    """Add each value to ``total[group]`` exactly, in place.

    Parameters
    ----------
    total : int64[n_groups], written to.
    group : numbers in [0, n_groups), [n].
    values : int64[n], >= 0.

    Notes
    -----
    ``bincount`` sums in float64, which is exact below 2**53 only: the values are
    added in two halves of 32 bits, at most `CHUNK_ROWS` at a time.
    """
    for rows in chunks(len(values)):
        part, where = values[rows], group[rows]
        low = np.bincount(where, part & 0xFFFF_FFFF, len(total))
        high = np.bincount(where, part >> 32, len(total))
        total += low.astype(np.int64) + (high.astype(np.int64) << 32)
