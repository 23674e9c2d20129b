"""Goes over a ``.ggmlviz`` stream once, window by window, past damage in between.

Places are byte offsets in the file. What is asked about them has to lie in the
window; whoever walks moves it there.

The stream has no marks to find events by. What gives an event away behind damage is
its time stamp: two days' worth of nanoseconds are one in 100,000 of all 64-bit
numbers, so a few events in a row whose stamps belong together are no accident.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

import numpy as np

from ggscope.errors import LimitExceededError, ReadError
from ggscope.model.tables import I64, U8, Array, Bools
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz.layouts import (
    DAY_NS,
    MAX_TIME_NS,
    MAX_TYPE,
    N_TYPES,
    ZERO_RUN,
    EventLayout,
)

PADDING = 64
"""Zero bytes behind the data, so that no field of a cut event is out of bounds."""
ENOUGH = 8
"""So many plausible events in a row are taken for the stream, or fewer at its end."""

RECENT = 64
"""So many events in front of the damage show which time stamps to expect."""

REACH_BYTES = 64 << 20
"""Damage longer than this, zeros apart, is not searched to its end."""

_FEWEST_STAMPS = 4
_FEWEST_AT_END = 3
"""Events that must follow to the end of the file if nothing gives their time."""

_FIRST_BLOCK, _LAST_BLOCK = 1 << 12, 1 << 18
MAX_GAPS = 1000
"""After damage at so many places the stream is given up at the next one."""

STRIDE = 64
"""Of every so many events the place is kept."""


class Readable(Protocol):
    """What a window looks at; `ggscope.readers.source.Source` is one."""

    def read_into(self, offset: int, buffer: U8) -> int:
        """Fill `buffer` from `offset`; return the bytes read (short at the end)."""
        ...


def unaligned(data: U8, width: int) -> Array:
    """Return a view of the `width` bytes from every byte on, as opaque values.

    Index it with offsets, then ``.view("<u4")`` or ``"<u8"`` what comes out: numpy
    copies opaque values of any alignment faster than it reads unaligned numbers.
    """
    return np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))


class Window:
    """A stretch of a file.

    Parameters
    ----------
    source : the file.
    file_end : bytes of it that count.
    capacity : bytes that the window holds.

    Attributes
    ----------
    data : uint8, the bytes, then at least `PADDING` zeros. Each move fills it anew.
    words, stamps : `unaligned` views of `data`, 4 and 8 bytes wide.
    base : where in the file ``data[0]`` lies.
    end : where in the file the bytes end.
    file_end : where the file ends: less than it should where it was cut meanwhile.
    failure : why bytes in front of that could not be read, if so.
    """

    def __init__(self, source: Readable, file_end: int, capacity: int) -> None:
        self._source = source
        self.file_end = file_end
        self.failure: ReadError | None = None
        self.base = self.end = 0
        self._allocate(min(capacity, file_end))

    def cover(self, first: int, last: int) -> None:
        """Hold at least the bytes from `first` to `last`, or to the file's end."""
        last = min(last, self.file_end)
        if self.base <= first and last <= self.end:
            return
        if last - first > self.capacity:
            self.base = self.end = first
            self._allocate(last - first)
        if self.base <= first < self.end:
            rest = self.data[first - self.base : self.end - self.base]
            # The parts may overlap; numpy sees to it.
            self.data[: len(rest)] = rest
            self.base = first
        else:
            self.base = self.end = first
        self._fill()

    @property
    def capacity(self) -> int:
        """U8 that the window can hold."""
        return len(self.data) - PADDING

    def _allocate(self, capacity: int) -> None:
        self.data: U8 = np.empty(capacity + PADDING, np.uint8)
        self.words = unaligned(self.data, 4)
        self.stamps = unaligned(self.data, 8)

    def _fill(self) -> None:
        done = self.end - self.base
        want = max(min(self.capacity, self.file_end - self.base) - done, 0)
        try:
            got = self._source.read_into(self.end, self.data[done : done + want])
        except ReadError as error:
            self.failure, got = error, 0
        if got < want:
            self.file_end = self.end + got
        done += got
        self.end = self.base + done
        self.data[done : done + PADDING] = 0


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


Found: TypeAlias = tuple[I64, int, Stop]
"""Starts of events, the place behind the last one, what stopped there."""


class Walk:
    """Steps from event to event: many at once, or one by one.

    Attributes
    ----------
    reach : no event looks further than so many bytes from its start.
    """

    def __init__(self, window: Window, layout: EventLayout, max_label: int) -> None:
        self.window = window
        self.layout = layout
        self.body = layout.body_bytes
        self.max_label = max_label
        self.reach = int(self.body.max()) + 4 + max_label + ZERO_RUN

    @property
    def end(self) -> int:
        """Where the file ends."""
        return self.window.file_end

    def whole_until(self) -> int:
        """Return where in the window events may start that it holds to their end."""
        window = self.window
        return window.end if window.end == self.end else window.end - self.reach

    def are_padding(self, at: I64) -> Bools:
        """Return of each place what `is_padding` says of one."""
        is_padding = np.zeros(len(at), np.bool_)
        values = self.window.words[at - self.window.base].view("<u4")
        maybe = np.flatnonzero(values == 0)
        # Few are left: a zero as type and in all of the time stamp.
        for i in maybe[self.stamps(at[maybe]) == 0].tolist():
            is_padding[i] = self.is_padding(int(at[i]))
        return is_padding

    def bounds(self, at: I64) -> tuple[I64, Bools]:
        """Return the next places, and which events are sound, padding among them."""
        data, base = self.window.data, self.window.base
        place = at - base
        body_end = place + self.body[data[place]]
        flag = data[body_end - 1]
        length = self.window.words[body_end].view("<u4").astype(np.int64)
        after = body_end + np.where(flag == 1, length + 4, 0) + base
        is_sound = (flag == 0) | ((flag == 1) & (length <= self.max_label))
        is_sound &= after <= self.end
        return after, is_sound

    def kinds(self, at: I64) -> U8:
        """Return the types of the events at these places."""
        return self.window.data[at - self.window.base]

    def stamps(self, at: I64) -> I64:
        """Return the time stamps, negative ones for those beyond int64."""
        return self.window.stamps[at - self.window.base + 1].view("<i8")

    def is_padding(self, at: int) -> bool:
        """Return whether nothing but zeros follows where an event should start.

        That is a run of `ZERO_RUN`, or zeros up to the end that would make a whole
        event. A shorter rest may be a cut event that begins with a zero.
        """
        window = self.window
        rest = min(window.end - at, ZERO_RUN)
        first = at - window.base
        return rest >= self.body[0] and not window.data[first : first + rest].any()

    def slowly(self, at: int, until: int) -> Found:
        """Walk one by one to the first event at or behind `until`.

        The only loop over events in Python: for a small part of a file.
        """
        starts: list[int] = []
        stop: Stop | None = None
        base = self.window.base
        data, body = self.window.data.data, self.body.tolist()
        while at < until and stop is None:
            after, stop = self._fault(data, body, at - base)
            if stop is None:
                starts.append(at)
                at = after + base
        return np.array(starts, np.int64), at, stop or Stop.END

    def _fault(
        self, data: memoryview, body: list[int], at: int
    ) -> tuple[int, Stop | None]:
        """Return where the event at `at` of the window ends, and what is wrong."""
        end = self.window.end - self.window.base
        after = at + body[data[at]]
        if data[at] == 0 and self.is_padding(at + self.window.base):
            return at, Stop.ZEROS
        if after > end:
            return at, Stop.TRUNCATED
        if data[after - 1] == 0:
            return after, None
        if data[after - 1] > 1:
            return at, Stop.BAD_FLAG
        if after + 4 > end:
            return at, Stop.TRUNCATED
        length = int.from_bytes(data[after : after + 4], "little")
        if length > self.max_label:
            return at, Stop.BAD_LABEL
        after += 4 + length
        return after, Stop.TRUNCATED if after > end else None


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
    place = search.first(begin, min(walk.end, begin + REACH_BYTES))
    return None if place is None else Resumption(n_dropped, start, place)


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
        """Return which events have a stamp as expected, else one near to `near`."""
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
    """Return the median stamp; None for too few possible ones to know."""
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
class Anchors:
    """Where some of the events start: enough to walk to any other from there.

    Attributes
    ----------
    rows : int64[m], ascending: every `STRIDE`-th event and those behind gaps.
    offsets : int64[m + 1], where they start in the file, then where the last event
        ends.
    n : number of events.
    """

    rows: I64
    offsets: I64
    n: int


class Taker(Protocol):
    """Finds the events of a stretch and keeps what they hold."""

    window_bytes: int
    """How much of the file it likes to see at once."""

    def take(self, walk: Walk, at: int, until: int) -> Found:
        """Take events from `at` on to the first at or behind `until`, or a fault.

        May come back earlier, with `Stop.END`, where there is no more room.
        """
        ...

    def drop(self, n: int) -> None:
        """Forget the last `n` events."""
        ...


class StreamScan:
    """One pass over a file.

    Parameters
    ----------
    start : where the first event starts.
    stop_row : number of the event behind the last one to read.

    Attributes
    ----------
    count : events so far, damage left out.
    position : where the next one starts.
    stop : why the stream ends there.
    gaps : what lies between events, in file order.
    """

    def __init__(
        self, walk: Walk, taker: Taker, start: int, *, stop_row: int | None = None
    ) -> None:
        self.count = 0
        self.position = start
        self.stop = Stop.END
        self.gaps: list[Gap] = []
        self._walk = walk
        self._taker: Taker | None = taker
        self._stop_row = stop_row
        self._recent: I64 = np.zeros(0, np.int64)
        self._anchors: list[I64] = []

    @property
    def is_cut_short(self) -> bool:
        """Whether all requested events were read before the stream's end."""
        return self._stop_row is not None and self.count >= self._stop_row

    def stretches(self, context: ReadContext) -> Iterator[None]:
        """Read stretch by stretch: each step takes some milliseconds.

        Raises
        ------
        LimitExceededError
            If there are more events than the context allows.
        """
        walk, taker = self._walk, self._taker
        while taker is not None and self.position < walk.end and not self.is_cut_short:
            context.check_cancelled()
            self._look_ahead(taker.window_bytes)
            until = min(walk.whole_until(), self.position + taker.window_bytes)
            starts, self.position, self.stop = taker.take(walk, self.position, until)
            self._add(starts)
            if self.count > context.limits.records:
                raise LimitExceededError(
                    f"the file has more than {context.limits.records:,} events.",
                    offset=self.position,
                )
            if self.stop is not Stop.END and not self._go_on(taker, context):
                break
            yield
        self._taker = None  # nor what it holds: nothing can be read any more

    def anchors(self) -> Anchors:
        """Return the places that were kept."""
        rows = np.arange(0, self.count, STRIDE)
        starts = np.concatenate([*self._anchors, np.zeros(0, np.int64)])
        behind = {gap.row: gap.end for gap in self.gaps if gap.row < self.count}
        extra = np.array([row for row in behind if row % STRIDE], np.int64)
        extra_starts = np.array([behind[row] for row in extra.tolist()], np.int64)
        order = np.argsort(np.concatenate([rows, extra]), kind="stable")
        offsets = np.concatenate([starts, extra_starts])[order]
        return Anchors(
            np.concatenate([rows, extra])[order],
            np.append(offsets, self.position),
            self.count,
        )

    def holds_data_behind(self, context: ReadContext) -> bool:
        """Return whether any byte from the end of the stream on is not zero."""
        return first_nonzero(self._walk, self.position, context) < self._walk.end

    def _look_ahead(self, n_bytes: int) -> None:
        """Move the window on where less than half a stretch is left in it."""
        window, last = self._walk.window, self._walk.whole_until()
        ahead = last - self.position
        is_inside = window.base <= self.position and ahead > 0
        if not is_inside or (ahead < n_bytes // 2 and last < self._walk.end):
            window.cover(self.position, self.position + n_bytes + self._walk.reach)

    def _add(self, starts: I64) -> None:
        # A copy, because takers may use their memory again.
        self._anchors.append(starts[-self.count % STRIDE :: STRIDE].copy())
        self.count += len(starts)
        self._recent = np.append(self._recent, starts[-RECENT:])[-RECENT:]

    def _go_on(self, taker: Taker, context: ReadContext) -> bool:
        """Leave out damage; return whether events follow behind it."""
        if len(self.gaps) == MAX_GAPS:
            return False
        last_gap = self.gaps[-1].row if self.gaps else 0
        n_loose = min(self.count - last_gap, len(self._recent))
        way = resume(
            self._walk, self._recent, n_loose, self.position, self.stop, context
        )
        if way is None:
            return False
        taker.drop(way.n_dropped)
        self._leave_out(way)
        self.position, self.stop = way.end, Stop.END
        return True

    def _leave_out(self, way: Resumption) -> None:
        """Take back the last events that were damage, and note the gap."""
        self.count -= way.n_dropped
        self._recent = self._recent[: len(self._recent) - way.n_dropped]
        anchors = np.concatenate([*self._anchors, np.zeros(0, np.int64)])
        self._anchors = [anchors[: -(-self.count // STRIDE)]]
        self.gaps.append(Gap(self.count, way.start, way.end, self.stop))
