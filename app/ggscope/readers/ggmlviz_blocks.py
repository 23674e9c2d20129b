"""Work on long columns in blocks, so that nobody waits for it to be cancelled."""

from collections.abc import Iterator

import numpy as np

from ggscope.model.tables import I64, Array
from ggscope.readers.api import ReadContext

BLOCK_ROWS = 1 << 18
"""So many rows at once: a millisecond or so, and little memory beside the columns."""


def blocks(n: int, context: ReadContext, block: int = BLOCK_ROWS) -> Iterator[slice]:
    """Yield parts of `n` rows; stop here if cancelled."""
    for first in range(0, n, block):
        context.check_cancelled()
        yield slice(first, min(first + block, n))


def taken(column: Array, rows: Array, context: ReadContext) -> Array:
    """Return ``column[rows]``."""
    found = np.empty(len(rows), column.dtype)
    for block in blocks(len(rows), context):
        found[block] = column[rows[block]]
    return found


def counts(column: Array, n: int, context: ReadContext) -> I64:
    """Return how often each number below `n` occurs, int64[n]; none is negative."""
    found = np.zeros(n, np.int64)
    for block in blocks(len(column), context):
        found += np.bincount(column[block], minlength=n)
    return found


def joined(parts: list[Array], empty_type: type[np.generic]) -> Array:
    """Return all parts one after another, an empty array where there are none."""
    return np.concatenate(parts) if parts else np.empty(0, empty_type)
