"""What begins and what ends belong together: events of one key, next to each other."""

import numpy as np

from ggscope.model.tables import I64, Array


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
