"""Where each event of a ``.ggmlviz`` stream begins, and why the stream stops.

Events have no common size: an optional label makes each one as long as it likes,
so the start of the next is known only from the one before. Walking two million
events one by one takes seconds in Python. Here some thousand walkers start at
guessed events all over the file and advance together, a numpy call for all of
them; where a walker arrives exactly at the start of the next one, the guess is
proven. Where it does not, that part is walked again one by one.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.errors import LimitExceededError
from ggscope.model.tables import I64
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_layouts import N_TYPES, Layout
from ggscope.readers.ggmlviz_resync import RECENT, Resumption, resume
from ggscope.readers.ggmlviz_walk import Bytes, Found, Stop, Walk

MAX_GAPS = 1000
"""After damage at so many places the stream is given up at the next one."""

_FEWEST_WALKERS = 16
_WALKERS_AT_DAMAGE = 4
_GUESS_BYTES = 128
"""A guess looks this far for an event; longer ones cost speed, not correctness."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Damaged bytes between events that were left out.

    Attributes
    ----------
    row : the event behind them.
    start, end : where they are.
    stop : the fault at which they were noticed.
    """

    row: int
    start: int
    end: int
    stop: Stop


@dataclass(frozen=True, slots=True, eq=False)
class Boundaries:
    """The events found.

    Attributes
    ----------
    offsets : int64[n + 1], where each event starts, then where the last one ends.
    stop : what is there.
    gaps : what lies between events, in file order.
    """

    offsets: I64
    stop: Stop
    gaps: tuple[Gap, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def sizes(self) -> I64:
        """Return the bytes of each event, int64[n]."""
        sizes: I64 = np.diff(self.offsets)
        for gap in self.gaps:
            if gap.row:
                sizes[gap.row - 1] -= gap.end - gap.start
        return sizes


def find_events(
    data: Bytes,
    start: int,
    layout: Layout,
    context: ReadContext,
    *,
    walker_bytes: int = 1 << 14,
    n_walkers: int = 1024,
) -> Boundaries:
    """Return the start of every event from `start` on, past damage in between.

    Parameters
    ----------
    data : the file with `PADDING` zero bytes behind it.
    walker_bytes, n_walkers : bytes for each walker, walkers at a time.

    Raises
    ------
    LimitExceededError
        If there are more events than the context allows.
    """
    walk = Walk(data, layout, context.limits.label_bytes)
    events = _Collected()
    position, stop, n_now = start, Stop.END, n_walkers
    while position < walk.end:
        context.check_cancelled()
        found, position, stop = _walk_block(walk, position, walker_bytes, n_now)
        n_now = min(2 * n_now, n_walkers)
        events.add(found)
        if events.count > context.limits.records:
            raise LimitExceededError(
                f"the file holds more than {context.limits.records:,} events.",
                offset=position,
            )
        if stop is Stop.END:
            continue
        way = None
        if len(events.gaps) < MAX_GAPS:
            way = resume(walk, events.recent, events.n_loose, position, stop, context)
        if way is None:
            break
        events.leave_out(way, stop)
        # Where there is damage, more of it is likely: walkers beyond it are wasted.
        position, stop, n_now = way.end, Stop.END, min(_WALKERS_AT_DAMAGE, n_walkers)
    return Boundaries(events.offsets(position), stop, tuple(events.gaps))


class _Collected:
    """Starts of events, and the gaps between them.

    Attributes
    ----------
    count : events so far.
    recent : starts of the last `RECENT` of them.
    """

    def __init__(self) -> None:
        self.count = 0
        self.recent: I64 = np.zeros(0, np.int64)
        self.gaps: list[Gap] = []
        self._parts: list[I64] = []

    @property
    def n_loose(self) -> int:
        """How many of the recent events lie behind the last gap."""
        behind = self.count - (self.gaps[-1].row if self.gaps else 0)
        return min(behind, len(self.recent))

    def add(self, found: I64) -> None:
        self._parts.append(found)
        self.count += len(found)
        self.recent = np.append(self.recent, found[-RECENT:])[-RECENT:]

    def leave_out(self, way: Resumption, stop: Stop) -> None:
        """Take back the last events that were damage, and note the gap."""
        rest = way.n_dropped
        while rest:
            part = self._parts.pop()
            if len(part) > rest:
                self._parts.append(part[:-rest])
            rest -= min(rest, len(part))
        self.count -= way.n_dropped
        self.recent = self.recent[: len(self.recent) - way.n_dropped]
        self.gaps.append(Gap(self.count, way.start, way.end, stop))

    def offsets(self, end: int) -> I64:
        """Return the starts of all events, then `end`."""
        return np.concatenate([*self._parts, np.array([end], np.int64)])


def _walk_block(walk: Walk, start: int, walker_bytes: int, n_walkers: int) -> Found:
    """Walk the next ``walker_bytes * n_walkers`` bytes."""
    end = min(walk.end, start + walker_bytes * n_walkers)
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
    stamp = slice(int(bounds[0]) + 6, int(bounds[0]) + 9)
    tail = walk.data[stamp]

    def is_likely(at: I64) -> npt.NDArray[np.bool_]:
        likely = walk.data[at] < N_TYPES
        for i in range(3):
            likely &= walk.data[at + 6 + i] == tail[i]
        return likely

    at = bounds[:, None] + np.arange(_GUESS_BYTES)
    rows, columns = np.nonzero(is_likely(np.minimum(at, walk.end)))
    candidates = at[rows, columns]
    inside = candidates < walk.end
    rows, candidates = rows[inside], candidates[inside]
    after, is_sound = walk.step(candidates)
    keep = is_sound
    keep[is_sound] = is_likely(np.minimum(after[is_sound], walk.end))
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
