"""Goes over a ``.ggmlviz`` file once, window by window, past damage in between."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ggscope.errors import LimitExceededError
from ggscope.model.tables import I64
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_resync import RECENT, Resumption, first_nonzero, resume
from ggscope.readers.ggmlviz_walk import Found, Stop, Walk

MAX_GAPS = 1000
"""After damage at so many places the stream is given up at the next one."""

STRIDE = 64
"""Of every so many events the place is kept."""


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


class Scan:
    """One pass over a file.

    Parameters
    ----------
    start : where the first event starts.
    stop_row : number of the event behind the last one that is wanted.

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
        """Whether all events that are wanted were read before the stream's end."""
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
            found, self.position, self.stop = taker.take(walk, self.position, until)
            self._add(found)
            if self.count > context.limits.records:
                raise LimitExceededError(
                    f"the file holds more than {context.limits.records:,} events.",
                    offset=self.position,
                )
            if self.stop is not Stop.END and not self._go_on(taker, context):
                break
            yield

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

    def close(self) -> None:
        """Let go of the taker and what it holds; nothing can be read any more."""
        self._taker = None

    def holds_data_behind(self, context: ReadContext) -> bool:
        """Tell whether any byte from the end of the stream on is not zero."""
        return first_nonzero(self._walk, self.position, context) < self._walk.end

    def _look_ahead(self, n_bytes: int) -> None:
        """Move the window on where less than half a stretch is left in it."""
        window, last = self._walk.window, self._walk.whole_until()
        ahead = last - self.position
        is_inside = window.base <= self.position and ahead > 0
        if not is_inside or (ahead < n_bytes // 2 and last < self._walk.end):
            window.cover(self.position, self.position + n_bytes + self._walk.reach)

    def _add(self, found: I64) -> None:
        # A copy, because takers may use their memory again.
        self._anchors.append(found[-self.count % STRIDE :: STRIDE].copy())
        self.count += len(found)
        self._recent = np.append(self._recent, found[-RECENT:])[-RECENT:]

    def _go_on(self, taker: Taker, context: ReadContext) -> bool:
        """Leave out damage; tell whether events follow behind it."""
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
        kept = np.concatenate([*self._anchors, np.zeros(0, np.int64)])
        self._anchors = [kept[: -(-self.count // STRIDE)]]
        self.gaps.append(Gap(self.count, way.start, way.end, self.stop))
