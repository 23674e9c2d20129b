"""Finds the events of a stretch of a ``.ggmlviz`` stream with numpy alone.

Events have no common size: an optional label makes each one as long as it likes,
so the start of the next is known only from the one before. Walking two million
events one by one takes seconds in Python. Here some thousand walkers start at
guessed events all over the stretch and advance together, a numpy call for all of
them; where a walker arrives exactly at the start of the next one, the guess is
proven. Where it does not, that part is walked again one by one.
"""

import numpy as np

from ggscope.model.tables import I64
from ggscope.readers.ggmlviz_layouts import N_TYPES
from ggscope.readers.ggmlviz_walk import Bools, Found, Stop, Walk

WALKER_BYTES = 1 << 14
N_WALKERS = 1024

_FEWEST_WALKERS = 16
_GUESS_BYTES = 128
"""A guess looks this far for an event; longer ones cost speed, not correctness."""


def walk_stretch(
    walk: Walk, start: int, end: int, *, walker_bytes: int = WALKER_BYTES
) -> Found:
    """Walk from `start` to the first event at or behind `end`, or to a fault.

    Parameters
    ----------
    walker_bytes : bytes for each walker.
    """
    bounds = np.append(np.arange(start, end, walker_bytes), end)
    if len(bounds) - 1 < _FEWEST_WALKERS:
        return walk.slowly(start, end)
    starts = _guesses(walk, bounds[:-1])
    paths, exits = _advance(walk, starts, bounds[1:])
    parts: list[I64] = []
    position, stop, first = start, Stop.END, 0
    proven = np.append(exits[:-1] == starts[1:], False)
    while first < len(starts) and stop is Stop.END:
        if starts[first] == position:
            last = first + int(np.argmin(proven[first:]))
            parts.append(paths(first, last))
            position = int(exits[last])
        else:
            last = first
        # Whatever the last walker did not reach, sound or not, is walked singly.
        found, position, stop = walk.slowly(position, int(bounds[last + 1]))
        parts.append(found)
        first = last + 1
    return np.concatenate(parts), position, stop


def _guesses(walk: Walk, bounds: I64) -> I64:
    """Return a likely start of an event at or behind each bound; the first is true.

    An event is likely where the type is known and the upper half of the timestamp
    is that of the block's first event, and the same holds for the event after it.
    """
    data, base, last = walk.window.data, walk.window.base, walk.window.end
    first = int(bounds[0]) - base
    tail = data[first + 6 : first + 9]

    def is_likely(at: I64) -> Bools:
        place = np.minimum(at, last) - base
        likely: Bools = data[place] < N_TYPES
        for i in range(3):
            likely &= data[place + 6 + i] == tail[i]
        return likely

    at = bounds[:, None] + np.arange(_GUESS_BYTES)
    rows, columns = np.nonzero(is_likely(at))
    candidates = at[rows, columns]
    inside = candidates < last
    rows, candidates = rows[inside], candidates[inside]
    after, is_sound = walk.step(candidates)
    keep = is_sound
    keep[is_sound] = is_likely(after[is_sound])
    guesses = bounds.copy()
    # Written backwards, so that the first candidate of each bound stays.
    guesses[rows[keep][::-1]] = candidates[keep][::-1]
    guesses[0] = bounds[0]
    return guesses


class _Paths:
    """The positions of all walkers at each step."""

    def __init__(self, steps: list[I64], counts: I64) -> None:
        self._steps = np.array(steps, np.int64).reshape(len(steps), len(counts))
        self._counts = counts

    def __call__(self, first: int, last: int) -> I64:
        """Return the events that walkers `first` to `last` met, in file order."""
        steps = self._steps[:, first : last + 1].T
        met = np.arange(steps.shape[1]) < self._counts[first : last + 1, None]
        return steps[met]


def _advance(walk: Walk, starts: I64, bounds: I64) -> tuple[_Paths, I64]:
    """Advance all walkers until each is behind its bound or before a fault."""
    at = starts.copy()
    counts = np.zeros(len(at), np.int64)
    active = np.flatnonzero(at < bounds)
    steps: list[I64] = []
    while len(active):
        after, is_sound = walk.step(at[active])
        moving = active[is_sound]
        steps.append(at.copy())
        counts[moving] += 1
        at[moving] = after[is_sound]
        active = moving[at[moving] < bounds[moving]]
    return _Paths(steps, counts), at
