"""Where each event of a ``.ggmlviz`` stream begins, and why the stream stops.

Events have no common size: an optional label makes each one as long as it likes,
so the start of the next is known only from the one before. Walking two million
events one by one takes seconds in Python. Here some thousand walkers start at
guessed events all over the file and advance together, a numpy call for all of
them; where a walker arrives exactly at the start of the next one, the guess is
proven. Where it does not, that part is walked again one by one.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from ggscope.errors import LimitExceededError
from ggscope.model.tables import I64, Array
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_layouts import ZERO_RUN, EventType, Layout

Bytes = npt.NDArray[np.uint8]

PADDING = 64
"""Zero bytes behind the data, so that no field of a cut event is out of bounds."""

_KNOWN_TYPES = max(EventType) + 1
_FEWEST_WALKERS = 16
_GUESS_BYTES = 128
"""A guess looks this far for an event; longer ones cost speed, not correctness."""


class Stop(Enum):
    """Why the stream ends where it does."""

    END = "end"
    """The last event ends with the file."""
    TRUNCATED = "truncated"
    ZEROS = "zeros"
    BAD_FLAG = "bad_flag"
    """``has_label`` is neither 0 nor 1."""
    BAD_LABEL = "bad_label"
    """``label_len`` is beyond the limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Boundaries:
    """The events found.

    Attributes
    ----------
    offsets : int64[n + 1], where each event starts, then where the last one ends.
    stop : what is there.
    """

    offsets: I64
    stop: Stop

    def __len__(self) -> int:
        return len(self.offsets) - 1


def unaligned(data: Bytes, width: int) -> Array:
    """Return a view of the `width` bytes from every byte on, as opaque values.

    Index it with offsets, then ``.view("<u4")`` or ``"<u8"`` what comes out: numpy
    copies opaque values of any alignment faster than it reads unaligned numbers.
    """
    return np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))


def find_events(
    data: Bytes,
    start: int,
    layout: Layout,
    context: ReadContext,
    *,
    walker_bytes: int = 1 << 14,
    n_walkers: int = 1024,
) -> Boundaries:
    """Return the start of every event from `start` to the end or the first fault.

    Parameters
    ----------
    data : the file with `PADDING` zero bytes behind it.
    walker_bytes, n_walkers : bytes for each walker, walkers at a time.

    Raises
    ------
    LimitExceededError
        If there are more events than the context allows.
    """
    walk = _Walk(data, layout, context.limits.label_bytes)
    parts: list[I64] = []
    position, stop, n_events = start, Stop.END, 0
    while position < walk.end and stop is Stop.END:
        context.check_cancelled()
        found, position, stop = _walk_block(walk, position, walker_bytes, n_walkers)
        parts.append(found)
        n_events += len(found)
        if n_events > context.limits.records:
            raise LimitExceededError(
                f"the file holds more than {context.limits.records:,} events.",
                offset=position,
            )
    parts.append(np.array([position], np.int64))
    return Boundaries(np.concatenate(parts), stop)


_Found = tuple[I64, int, Stop]
"""Starts of events, the position behind the last one, what stopped there."""


class _Walk:
    """Steps from event to event: many at once, or one by one."""

    def __init__(self, data: Bytes, layout: Layout, max_label: int) -> None:
        self.data = data
        self.end = len(data) - PADDING
        self.body = layout.body_bytes
        self.max_label = max_label
        self._words = unaligned(data, 4)

    def step(self, at: I64) -> tuple[I64, npt.NDArray[np.bool_]]:
        """Return the next positions, and which events are whole and sound."""
        body_end = at + self.body[self.data[at]]
        flag = self.data[body_end - 1]
        length = self._words[body_end].view("<u4").astype(np.int64)
        after = body_end + np.where(flag == 1, length + 4, 0)
        is_sound = (flag == 0) | ((flag == 1) & (length <= self.max_label))
        is_sound &= after <= self.end
        maybe_zero = np.flatnonzero(self._words[at].view("<u4") == 0)
        for i in maybe_zero:
            is_sound[i] &= not self.is_padding(int(at[i]))
        return after, is_sound

    def is_padding(self, at: int) -> bool:
        """Tell whether nothing but zeros follows where an event should start.

        That is a run of `ZERO_RUN`, or zeros up to the end that would make a whole
        event. A shorter rest may be a cut event that begins with a zero.
        """
        rest = min(self.end - at, ZERO_RUN)
        return rest >= self.body[0] and not self.data[at : at + rest].any()

    def slowly(self, at: int, until: int) -> _Found:
        """Walk one by one to the first event at or behind `until`.

        The only loop over events: for small files and parts where guesses fail.
        """
        found: list[int] = []
        stop: Stop | None = None
        data, body = self.data.data, self.body.tolist()
        while at < until and stop is None:
            after, stop = self._fault(data, body, at)
            if stop is None:
                found.append(at)
                at = after
        return np.array(found, np.int64), at, stop or Stop.END

    def _fault(
        self, data: memoryview, body: list[int], at: int
    ) -> tuple[int, Stop | None]:
        """Return where the event at `at` ends, and what is wrong with it."""
        after = at + body[data[at]]
        if data[at] == 0 and self.is_padding(at):
            return at, Stop.ZEROS
        if after > self.end:
            return at, Stop.TRUNCATED
        if data[after - 1] == 0:
            return after, None
        if data[after - 1] > 1:
            return at, Stop.BAD_FLAG
        if after + 4 > self.end:
            return at, Stop.TRUNCATED
        length = int.from_bytes(data[after : after + 4], "little")
        if length > self.max_label:
            return at, Stop.BAD_LABEL
        after += 4 + length
        return after, Stop.TRUNCATED if after > self.end else None


def _walk_block(walk: _Walk, start: int, walker_bytes: int, n_walkers: int) -> _Found:
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


def _guesses(walk: _Walk, bounds: I64) -> I64:
    """Return a likely start of an event at or behind each bound; the first is true.

    An event is likely where the type is known and the upper half of the timestamp
    is that of the block's first event, and the same holds for the event after it.
    """
    stamp = slice(int(bounds[0]) + 6, int(bounds[0]) + 9)
    tail = walk.data[stamp]

    def is_likely(at: I64) -> npt.NDArray[np.bool_]:
        likely = walk.data[at] < _KNOWN_TYPES
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


def _advance(walk: _Walk, starts: I64, bounds: I64) -> tuple[_Paths, I64]:
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
