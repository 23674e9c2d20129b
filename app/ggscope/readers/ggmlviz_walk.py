"""Steps from one event of a ``.ggmlviz`` stream to the next.

Places are byte offsets in the file. What is asked about them has to lie in the
window; whoever walks moves it there.
"""

from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64
from ggscope.readers.ggmlviz_layouts import ZERO_RUN, Layout
from ggscope.readers.ggmlviz_window import Bytes, Window

Bools = npt.NDArray[np.bool_]


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

    def __init__(self, window: Window, layout: Layout, max_label: int) -> None:
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

    def step(self, at: I64) -> tuple[I64, Bools]:
        """Return the next places, and which events are whole and sound."""
        after, is_sound = self.bounds(at)
        is_sound &= ~self.are_padding(at)
        return after, is_sound

    def are_padding(self, at: I64) -> Bools:
        """Tell of each place what `is_padding` tells of one."""
        found = np.zeros(len(at), np.bool_)
        words = self.window.words[at - self.window.base].view("<u4")
        maybe = np.flatnonzero(words == 0)
        # Few are left: a zero as type and in all of the time stamp.
        for i in maybe[self.stamps(at[maybe]) == 0].tolist():
            found[i] = self.is_padding(int(at[i]))
        return found

    def bounds(self, at: I64) -> tuple[I64, Bools]:
        """Return what `step` does, but for padding, which passes for events."""
        data, base = self.window.data, self.window.base
        place = at - base
        body_end = place + self.body[data[place]]
        flag = data[body_end - 1]
        length = self.window.words[body_end].view("<u4").astype(np.int64)
        after = body_end + np.where(flag == 1, length + 4, 0) + base
        is_sound = (flag == 0) | ((flag == 1) & (length <= self.max_label))
        is_sound &= after <= self.end
        return after, is_sound

    def kinds(self, at: I64) -> Bytes:
        """Return the types of the events at these places."""
        return self.window.data[at - self.window.base]

    def stamps(self, at: I64) -> I64:
        """Return the time stamps, negative ones for those beyond int64."""
        return self.window.stamps[at - self.window.base + 1].view("<i8")

    def is_padding(self, at: int) -> bool:
        """Tell whether nothing but zeros follows where an event should start.

        That is a run of `ZERO_RUN`, or zeros up to the end that would make a whole
        event. A shorter rest may be a cut event that begins with a zero.
        """
        window = self.window
        rest = min(window.end - at, ZERO_RUN)
        first = at - window.base
        return rest >= self.body[0] and not window.data[first : first + rest].any()

    def slowly(self, at: int, until: int) -> Found:
        """Walk one by one to the first event at or behind `until`.

        The only loop over events: for small files and parts where guesses fail.
        """
        found: list[int] = []
        stop: Stop | None = None
        base = self.window.base
        data, body = self.window.data.data, self.body.tolist()
        while at < until and stop is None:
            after, stop = self._fault(data, body, at - base)
            if stop is None:
                found.append(at)
                at = after + base
        return np.array(found, np.int64), at, stop or Stop.END

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
