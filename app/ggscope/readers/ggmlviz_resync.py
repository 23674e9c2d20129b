"""Where a ``.ggmlviz`` stream goes on behind damage.

The stream has no marks to find events by. What gives an event away is its time
stamp: two days' worth of nanoseconds are one in 100,000 of all 64-bit numbers, so a
few events in a row whose stamps belong together are no accident.
"""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_layouts import DAY_NS, MAX_TIME_NS, MAX_TYPE, N_TYPES
from ggscope.readers.ggmlviz_walk import Bools, Stop, Walk

ENOUGH = 8
"""So many plausible events in a row are taken for the stream, or fewer at its end."""

RECENT = 64
"""So many events in front of the damage tell which time stamps to expect."""

REACH_BYTES = 64 << 20
"""Damage longer than this, zeros apart, is not searched to its end."""

_FEWEST_STAMPS = 4
_FEWEST_AT_END = 3
"""Events that must follow to the end of the file if nothing tells their time."""

_FIRST_BLOCK, _LAST_BLOCK = 1 << 12, 1 << 18


@dataclass(frozen=True, slots=True)
class Resumption:
    """How to go on.

    Attributes
    ----------
    n_dropped : events in front of the fault that were damage already.
    start, end : the bytes to leave out; an event starts at `end`.
    """

    n_dropped: int
    start: int
    end: int


def resume(
    walk: Walk, recent: I64, n_loose: int, at: int, stop: Stop, context: ReadContext
) -> Resumption | None:
    """Return where sound events go on; None where none are found.

    Parameters
    ----------
    recent : int64[<= RECENT], starts of the events in front of the fault.
    n_loose : how many of them lie behind the damage before this one, if any.
    at, stop : the fault and where it is.

    Notes
    -----
    A damaged length sends the walk into the middle of other events, which look
    like events with absurd time stamps until one has a fault. So the search begins
    behind the last event whose stamp fits; and if sound events are found inside
    that one's label, its length was the damage, and it is left out as well.
    """
    # The search may have moved the window from where the events are.
    walk.window.cover(int(recent[0]) if len(recent) else at, at + walk.reach)
    search = _Search(walk, _middle(walk, recent), context)
    start, n_dropped = at, 0
    fitting = np.flatnonzero(search.fits(recent)[len(recent) - n_loose :])
    if search.middle is not None and len(fitting):
        loose = np.append(recent[len(recent) - n_loose :], at)
        last = int(fitting[-1])
        event, start = int(loose[last]), int(loose[last + 1])
        n_dropped = n_loose - last - 1
        body_end = event + int(walk.body[walk.window.data[event - walk.window.base]])
        inside = search.first(body_end, start)
        if inside is not None:
            return Resumption(n_dropped + 1, event, inside)
    begin = start
    if stop is Stop.ZEROS and not n_dropped:
        # The first bytes of an event may be zeros, too: its type and stamp.
        begin = max(start, first_nonzero(walk, start, context) - 8)
    found = search.first(begin, min(walk.end, begin + REACH_BYTES))
    return None if found is None else Resumption(n_dropped, start, found)


def first_in(walk: Walk, begin: int, end: int, middle: int) -> int | None:
    """Return where the first run of sound events in ``[begin, end)`` starts.

    Parameters
    ----------
    middle : ns that their time stamps are near to.
    """
    return _Search(walk, middle, ReadContext()).first(begin, end)


class _Search:
    """Looks for the first plausible run of events."""

    def __init__(self, walk: Walk, middle: int | None, context: ReadContext) -> None:
        self.middle = middle
        self._walk = walk
        self._context = context

    def first(self, begin: int, end: int) -> int | None:
        """Return the first start of a run in ``[begin, end)``; None without one."""
        block = _FIRST_BLOCK
        while begin < end:
            self._context.check_cancelled()
            until = min(begin + block, end)
            window = self._walk.window
            window.cover(begin, until + (ENOUGH + 1) * self._walk.reach)
            until = min(until, window.end)
            if begin >= until:
                break
            kinds = window.data[begin - window.base : until - window.base]
            at = begin + np.flatnonzero(kinds < N_TYPES)
            runs = self._runs(at[self.fits(at)])
            if len(runs):
                return int(runs.min())
            begin, block = until, min(block * 2, _LAST_BLOCK)
        return None

    def fits(self, at: I64, near: I64 | None = None) -> Bools:
        """Tell which events have a stamp as expected, else one near to `near`."""
        stamp = self._walk.stamps(at)
        is_possible = (stamp > 0) & (stamp <= MAX_TIME_NS)
        if self.middle is not None:
            return is_possible & (abs(stamp - np.int64(self.middle)) <= DAY_NS)
        return (
            is_possible if near is None else is_possible & (abs(stamp - near) <= DAY_NS)
        )

    def _runs(self, at: I64) -> I64:
        """Return those of the candidates from which enough events follow."""
        walk = self._walk
        fewest_at_end = 1 if self.middle is not None else _FEWEST_AT_END
        first, near = at, walk.stamps(at)
        finished = [first[:0]]
        for n_events in range(1, ENOUGH + 1):
            after, is_sound = walk.bounds(at)
            ok = is_sound & (walk.kinds(at) <= MAX_TYPE) & self.fits(at, near)
            at, first, near = after[ok], first[ok], near[ok]
            if n_events < fewest_at_end:
                continue
            is_last = (at == walk.end) | walk.are_padding(at)
            finished.append(first[is_last])
            at, first, near = at[~is_last], first[~is_last], near[~is_last]
        return np.concatenate([*finished, first])


def _middle(walk: Walk, recent: I64) -> int | None:
    """Return the median stamp; None for too few possible ones to tell."""
    stamps = np.sort(walk.stamps(recent))
    stamps = stamps[(stamps > 0) & (stamps <= MAX_TIME_NS)]
    return int(stamps[len(stamps) // 2]) if len(stamps) >= _FEWEST_STAMPS else None


def first_nonzero(walk: Walk, at: int, context: ReadContext) -> int:
    """Return where the first byte other than 0 is from `at` on, or the file's end."""
    while at < walk.end:
        context.check_cancelled()
        window = walk.window
        window.cover(at, at + _LAST_BLOCK)
        block = window.data[at - window.base : window.end - window.base][:_LAST_BLOCK]
        if not len(block):
            break
        nonzero = int(np.argmax(block != 0))
        if block[nonzero]:
            return at + nonzero
        at += len(block)
    return walk.end
