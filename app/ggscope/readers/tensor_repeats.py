"""Which records tell of an op that another thread's record tells of as well.

Where every thread logs, an op that eight of them compute together is in the file
eight times. Threads wait for each other after each op, so records of one op lie
between the same two neighbours in every thread: a record whose pattern another thread
has at the same time, give or take some ops, is one of the same op.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array
from ggscope.readers.tensor_order import Work
from ggscope.readers.tensor_passes import Rows

_REACH = 4
"""So many ops around a record's time are looked at: stamps may be coarse, and a
record may be missing."""

_ENOUGH = 0.8
"""A thread shares its ops with others where it shares so many of them; else equal
patterns are chance, as of two models that run side by side."""

_SAMPLE = 4096
_MOST_LANES = 1024
Bools = npt.NDArray[np.bool_]


def repeated_rows(rows: Rows, of_row: Array, work: Work) -> list[I64]:
    """Return the rows, lane by lane, whose op a row of an earlier lane tells of.

    Parameters
    ----------
    of_row : pattern of each row, -1 none; those tell nothing and are never repeated.

    Notes
    -----
    Threads that share their ops are a crew; a thread that shares none with a crew
    founds one, at the cost of a look at some thousand of its rows per crew. More than
    `_MOST_LANES` threads, which no machine has, are not looked at.
    """
    first = rows.lane_first
    found: list[I64] = []
    crews: list[tuple[I64, Array]] = []
    if len(first) - 1 > _MOST_LANES:
        return found
    for low, high in pairwise(first.tolist()):
        work.check()
        mine = rows.start[low:high], of_row[low:high]
        for number, crew in enumerate(crews):
            is_same = _shared(*crew, *mine, work)
            if is_same is not None:
                found.append(low + np.flatnonzero(is_same))
                crews[number] = _merged(crew, mine, ~is_same)
                break
        else:
            if high > low:
                crews.append(mine)
    return found


def _merged(
    crew: tuple[I64, Array], mine: tuple[I64, Array], is_new: Bools
) -> tuple[I64, Array]:
    """Return the ops of a crew with new ones, in order of time."""
    if not is_new.any():
        return crew
    start = np.concatenate([crew[0], mine[0][is_new]])
    pattern = np.concatenate([crew[1], mine[1][is_new]])
    order = np.argsort(start, kind="stable")
    return start[order], pattern[order]


def _shared(
    start: I64, pattern: Array, own_start: I64, own_pattern: Array, work: Work
) -> Bools | None:
    """Return which own records are of ops among the others; None for (nearly) none."""
    n = len(own_start)
    if not n:
        return None
    if len(start) == n and _is_in_step(start, pattern, own_start, own_pattern, work):
        return np.asarray(own_pattern >= 0, np.bool_)
    at = np.unique(np.linspace(0, n - 1, _SAMPLE).astype(np.int64))
    sample = _near(start, pattern, own_start[at], own_pattern[at])
    known = int(np.count_nonzero(own_pattern[at] >= 0))
    if np.count_nonzero(sample) < _ENOUGH * max(known, 1):
        return None
    is_same = np.zeros(n, np.bool_)
    for piece in work.pieces(n):
        is_same[piece] = _near(start, pattern, own_start[piece], own_pattern[piece])
    return is_same


def _is_in_step(
    start: I64, pattern: Array, own_start: I64, own_pattern: Array, work: Work
) -> bool:
    """Tell whether both did the same ops, each between the neighbours of the other."""
    for p in work.pieces(len(start)):
        if not np.array_equal(pattern[p], own_pattern[p]):
            return False
        low = max(p.start, 1)
        if (own_start[low : p.stop] < start[low - 1 : p.stop - 1]).any():
            return False
        behind = start[p.start + 1 : p.stop + 1]
        if (own_start[p.start : p.start + len(behind)] > behind).any():
            return False
    return True


def _near(start: I64, pattern: Array, own_start: I64, own_pattern: Array) -> Bools:
    """Return which own records have their pattern among the others at their time."""
    found = np.zeros(len(own_start), np.bool_)
    last = len(start) - 1
    at = np.searchsorted(start, own_start, "right") - 1
    for step in range(-_REACH, _REACH + 1):
        found |= pattern[np.clip(at + step, 0, last)] == own_pattern
    return np.asarray(found & (own_pattern >= 0), np.bool_)


__all__ = ["repeated_rows"]
