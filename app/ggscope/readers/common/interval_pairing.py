"""What begins and what ends belong together: like brackets, or next to each other."""

import numpy as np

from ggscope.model.tables import I64, Array, Bools


def neighbours(key: Array) -> tuple[I64, I64]:
    """Return the event before and the one behind each with the same key.

    Parameters
    ----------
    key : of each event (its id, pointer, thread …), in order of time.

    Returns
    -------
    Two int64[n], -1 where there is none.
    """
    order = np.argsort(key, kind="stable")
    first, second = order[:-1], order[1:]
    same = key[first] == key[second]
    before = np.full(len(key), -1, np.int64)
    behind = np.full(len(key), -1, np.int64)
    before[second] = np.where(same, first, -1)
    behind[first] = np.where(same, second, -1)
    return before, behind


def match(key: Array, is_begin: Bools) -> tuple[I64, I64]:
    """Pair begins and ends of equal keys like brackets.

    Parameters
    ----------
    key, is_begin : one entry per event, in time order.

    Returns
    -------
    The partner of each event, -1 for none; and the level of each bracket: 1 for
    outermost ones, 0 for an end that nothing began.
    """
    order = np.argsort(key, kind="stable")
    key, begins = key[order], is_begin[order]
    is_first = np.ones(len(key), np.bool_)
    is_first[1:] = key[1:] != key[:-1]
    group = np.cumsum(is_first)
    level = _depths(begins, is_first, group) + begins
    if level.max(initial=0) > 1:
        by_level = np.lexsort((level, group))
        order, begins = order[by_level], begins[by_level]
        group, level = group[by_level], level[by_level]
    # Within a level begins and ends alternate, so partners are neighbours.
    opens = begins[:-1] & ~begins[1:]
    opens &= (group[:-1] == group[1:]) & (level[:-1] == level[1:])
    i = np.flatnonzero(opens)
    partner = np.full(len(key), -1, np.int64)
    partner[order[i]], partner[order[i + 1]] = order[i + 1], order[i]
    levels = np.empty(len(key), np.int64)
    levels[order] = level
    return partner, levels


def _depths(is_begin: Bools, is_first: Bools, group: Array) -> I64:
    """Return how many brackets of an event's group are open before it."""
    n = len(is_begin)
    step = np.where(is_begin, 1, -1)
    after = np.cumsum(step)
    after -= (after - step)[is_first][group - 1]
    # The lowest sum so far: each time it sinks below 0, an end closed nothing.
    # Taken over all groups at once, each group far below the one before.
    far = group * (2 * n + 2)
    lowest = np.minimum.accumulate(after - far) + far
    after -= np.minimum(lowest, 0)
    before = np.zeros(n, np.int64)
    before[1:] = after[:-1]
    before[is_first] = 0
    return before
