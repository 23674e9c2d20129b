"""What pixel columns are made of, by touching every span."""

import numpy as np

from ggscope.analysis.rows.columns import FREE, WAITING
from ggscope.analysis.rows.rows import Row
from ggscope.model.tables import I64, Array


def ticks_slow(row: Row, edges: I64, category: Array, n_categories: int) -> I64:
    """Return what each category covers of columns, int64[n_categories, px].

    `category` is per span id. A column without width stands for the tick at its edge.
    """
    out = np.zeros((n_categories, len(edges) - 1), np.int64)
    names = np.asarray(category)[np.asarray(row.id)].astype(np.int64)
    for k, (a, width) in enumerate(zip(edges[:-1], np.diff(edges), strict=True)):
        b = a + max(int(width), 1)
        near = slice(
            int(np.searchsorted(row.end, a)), int(np.searchsorted(row.start, b))
        )
        inside = np.minimum(row.end[near], b) - np.maximum(row.start[near], a)
        np.add.at(out[:, k], names[near], np.maximum(inside, 0))
    return out


def are_levels(array: Array, ticks: I64, waited: I64, width: I64) -> Array:
    """Tell which levels, uint16[px, n], are right: see ``Columns.levels``, bool[px, n].

    Where a part ends just between two levels either is right.
    """
    n = array.shape[1]
    up = levels_slow(ticks, waited, width, n)
    down = levels_slow(ticks, waited, width, n, half_goes_up=False)
    right: Array = (array == up) | (array == down)
    return right


def levels_slow(
    ticks: I64, waited: I64, width: I64, n: int, *, half_goes_up: bool = True
) -> Array:
    """Return the levels of stacks, by exact arithmetic of whole numbers."""
    out = np.full((len(width), n), FREE, np.uint16)
    for k, size in enumerate(np.maximum(width, 1).tolist()):
        at = total = 0
        parts = [*enumerate(ticks[:, k].tolist()), (WAITING, int(waited[k]))]
        for code, part in parts:
            total += part
            half = size if half_goes_up else size - 1
            stop = min((2 * total * n + half) // (2 * size), n)
            out[k, at:stop] = code
            at = max(stop, at)
    return out
