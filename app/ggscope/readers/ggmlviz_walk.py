"""Steps from one event of a ``.ggmlviz`` stream to the next."""

from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array
from ggscope.readers.ggmlviz_layouts import ZERO_RUN, Layout

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

PADDING = 64
"""Zero bytes behind the data, so that no field of a cut event is out of bounds."""


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


def unaligned(data: Bytes, width: int) -> Array:
    """Return a view of the `width` bytes from every byte on, as opaque values.

    Index it with offsets, then ``.view("<u4")`` or ``"<u8"`` what comes out: numpy
    copies opaque values of any alignment faster than it reads unaligned numbers.
    """
    return np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))


Found: TypeAlias = tuple[I64, int, Stop]
"""Starts of events, the position behind the last one, what stopped there."""


class Walk:
    """Steps from event to event: many at once, or one by one."""

    def __init__(self, data: Bytes, layout: Layout, max_label: int) -> None:
        self.data = data
        self.end = len(data) - PADDING
        self.body = layout.body_bytes
        self.max_label = max_label
        self._words = unaligned(data, 4)
        self._stamps = unaligned(data, 8)

    def step(self, at: I64) -> tuple[I64, Bools]:
        """Return the next positions, and which events are whole and sound."""
        after, is_sound = self.bounds(at)
        is_sound &= ~self.are_padding(at)
        return after, is_sound

    def are_padding(self, at: I64) -> Bools:
        """Tell of each position what `is_padding` tells of one."""
        found = np.zeros(len(at), np.bool_)
        maybe = np.flatnonzero(self._words[at].view("<u4") == 0)
        # Few are left: a zero as type and in all of the time stamp.
        for i in maybe[self.stamps(at[maybe]) == 0].tolist():
            found[i] = self.is_padding(int(at[i]))
        return found

    def bounds(self, at: I64) -> tuple[I64, Bools]:
        """Return what `step` does, but for padding, which passes for events."""
        body_end = at + self.body[self.data[at]]
        flag = self.data[body_end - 1]
        length = self._words[body_end].view("<u4").astype(np.int64)
        after = body_end + np.where(flag == 1, length + 4, 0)
        is_sound = (flag == 0) | ((flag == 1) & (length <= self.max_label))
        is_sound &= after <= self.end
        return after, is_sound

    def stamps(self, at: I64) -> I64:
        """Return the time stamps, negative ones for those beyond int64."""
        return self._stamps[at + 1].view("<i8")

    def is_padding(self, at: int) -> bool:
        """Tell whether nothing but zeros follows where an event should start.

        That is a run of `ZERO_RUN`, or zeros up to the end that would make a whole
        event. A shorter rest may be a cut event that begins with a zero.
        """
        rest = min(self.end - at, ZERO_RUN)
        return rest >= self.body[0] and not self.data[at : at + rest].any()

    def slowly(self, at: int, until: int) -> Found:
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
