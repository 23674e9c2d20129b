"""Arithmetic on ranges of time: zoom, pan, fit, clamp. Exact integers.

Back and forward over (visible range, selection, filter, lanes).

Where each token lies in time, for stepping from one to the next.
"""

from dataclasses import dataclass, field

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from ggscope.analysis.rows.lanes import LaneState
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

MIN_TICKS = 16
_AIR = 10


def bounds(extent: TimeRange) -> TimeRange:
    """Return how far one can pan: the extent and 5 % on either side."""
    return extent.padded(max(extent.duration // 20, MIN_TICKS))


def fitted(extent: TimeRange) -> TimeRange:
    """Return the range that shows the whole extent, at least 16 ticks."""
    return _widened(extent)


def clamped(wanted: TimeRange, limits: TimeRange) -> TimeRange:
    """Return `wanted`, at least 16 ticks wide, moved into `limits`.

    Wider than the limits becomes the limits.
    """
    wanted = _widened(wanted)
    width = min(wanted.duration, limits.duration)
    start = max(limits.start, min(wanted.start, limits.end - width))
    return TimeRange(start, start + width)


def zoomed(
    visible: TimeRange, factor: float, centre: int | None, limits: TimeRange
) -> TimeRange:
    """Return a range `factor` times as wide around `centre` (None: the middle)."""
    if centre is None or not visible.contains(centre):
        centre = visible.start + visible.duration // 2
    width = round(visible.duration * factor)
    width = max(MIN_TICKS, min(width, limits.duration))
    if width == visible.duration:
        return visible
    left = (centre - visible.start) * width // max(visible.duration, 1)
    return TimeRange(centre - left, centre - left + width)


def centred(visible: TimeRange, target: TimeRange) -> TimeRange:
    """Return a range as wide as `visible` with `target` in its middle."""
    middle = target.start + target.duration // 2
    start = middle - visible.duration // 2
    return TimeRange(start, start + visible.duration)


def with_air(target: TimeRange) -> TimeRange:
    """Return `target` and a tenth of its length on either side."""
    return _widened(target.padded(target.duration // _AIR))


def shows(visible: TimeRange, target: TimeRange) -> bool:
    """Tell whether `target`, or as much of it as fits, can be seen."""
    if target.duration >= visible.duration:
        common = visible.intersect(target)
        return common is not None and common.duration * 2 >= visible.duration
    return visible.start <= target.start and target.end <= visible.end


def of_selection(trace: Trace, selection: Selection) -> TimeRange | None:
    """Return the time from the first to the last selected thing.

    None where nothing is selected that lies in time; rows that do not exist are
    left out.
    """
    if selection.table == "spans":
        start, end = trace.spans.start, trace.spans.end
    elif selection.table == "markers":
        start = end = trace.markers.time
    elif selection.table == "buffers":
        # From its allocation to its end; one that is never freed lasts to the end.
        start = np.maximum(trace.buffers.allocated, trace.extent.start)
        freed = trace.buffers.freed
        end = np.where(freed == -1, trace.extent.end, freed)
        end = np.maximum(end, start)
    else:
        return None
    ids = np.asarray(selection.ids, np.int64)
    ids = ids[(ids >= 0) & (ids < len(start))]
    if not len(ids):
        return None
    return TimeRange(int(start[ids].min()), int(end[ids].max()))


def _widened(wanted: TimeRange) -> TimeRange:
    missing = MIN_TICKS - wanted.duration
    if missing <= 0:
        return wanted
    start = wanted.start - missing // 2
    return TimeRange(start, start + MIN_TICKS)


QUIET_MS = 300
CAPACITY = 500


@dataclass(frozen=True, slots=True)
class ViewPoint:
    """Where a person looked, and how the lanes lay."""

    visible: TimeRange
    selection: Selection
    filter: Filter
    lanes: LaneState = field(default_factory=LaneState)


class History(QObject):
    """Remembers view points once nothing has moved for 300 ms.

    `note` is called on every change; a drag of a thousand steps leaves one entry.
    """

    changed = Signal()  # can_go_back or can_go_forward may differ now

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: list[ViewPoint] = []
        self._position = -1
        self._latest: ViewPoint | None = None
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(QUIET_MS)
        self._quiet.timeout.connect(self.record)

    @property
    def can_go_back(self) -> bool:
        """Whether there is an earlier view point."""
        return self._position > 0 or (self._is_dirty and self._position >= 0)

    @property
    def can_go_forward(self) -> bool:
        """Whether there is a later one."""
        return not self._is_dirty and self._position < len(self._entries) - 1

    def note(self, point: ViewPoint) -> None:
        """Take notice of a new view point; it is recorded after 300 ms of quiet."""
        self._latest = point
        if self._is_dirty:
            self._quiet.start()
        else:
            self._quiet.stop()
        self.changed.emit()

    def record(self) -> None:
        """Record the latest view point now; what lay ahead is forgotten."""
        self._quiet.stop()
        if not self._is_dirty or self._latest is None:
            return
        del self._entries[self._position + 1 :]
        self._entries.append(self._latest)
        del self._entries[: max(0, len(self._entries) - CAPACITY)]
        self._position = len(self._entries) - 1
        self.changed.emit()

    def settle(self) -> None:
        """Take the latest view point for the present one, without a new entry.

        For what no person did: a view that shows everything follows a trace that
        is still being read.
        """
        self._quiet.stop()
        if self._latest is None:
            return
        if self._position < 0:
            self._entries, self._position = [self._latest], 0
        else:
            self._entries[self._position] = self._latest
        self.changed.emit()

    def back(self) -> ViewPoint | None:
        """Step back; return the view point to show, or None at the beginning."""
        self.record()
        return self._step(-1)

    def forward(self) -> ViewPoint | None:
        """Step forward; return the view point to show, or None at the end."""
        self.record()
        return self._step(1)

    def clear(self) -> None:
        """Forget everything."""
        self._quiet.stop()
        self._entries.clear()
        self._position = -1
        self._latest = None
        self.changed.emit()

    @property
    def _is_dirty(self) -> bool:
        """Whether the latest view point differs from the recorded one."""
        if self._latest is None:
            return False
        return self._position < 0 or self._entries[self._position] != self._latest

    def _step(self, by: int) -> ViewPoint | None:
        position = self._position + by
        if not 0 <= position < len(self._entries):
            return None
        self._position = position
        # The caller applies this very point; noting it again changes nothing.
        self._latest = self._entries[position]
        self.changed.emit()
        return self._latest


@dataclass(frozen=True, slots=True, eq=False)
class TokenTimes:
    """Tokens (or passes) in order of their start.

    Attributes
    ----------
    start, end : int64[n], ticks.
    span : int64[n], id of the token's own span; -1 where it has none.
    number : int64[n], as the file numbers them, perhaps anew in each phase; -1 where
        it does not.
    """

    start: I64
    end: I64
    span: I64
    number: I64

    def __len__(self) -> int:
        return len(self.start)

    def range_of(self, position: int) -> TimeRange:
        """Return the time of the token at `position`."""
        return TimeRange(int(self.start[position]), int(self.end[position]))

    def step(self, tick: int, by: int) -> int | None:
        """Return the position of the token `by` (+1/-1) away from `tick`.

        A tick before the first token has that one as its next.
        """
        here = int(np.searchsorted(self.start, tick, "right")) - 1
        position = here + by
        return position if 0 <= position < len(self) else None


NO_TOKENS = TokenTimes(*(np.zeros(0, np.int64),) * 4)


def token_times(trace: Trace) -> TokenTimes:
    """Return the tokens of a trace, from its token lanes or else its token column.

    Notes
    -----
    O(n) in the spans; call it once per trace and only when somebody steps.
    """
    spans = trace.spans
    lanes = np.flatnonzero(trace.lanes.is_token)
    if len(lanes):
        ids = np.flatnonzero(np.isin(spans.lane, lanes)).astype(np.int64)
        if len(ids):
            ids = ids[np.argsort(spans.start[ids], kind="stable")]
            number = np.full(len(ids), -1, np.int64)
            if spans.token is not None:
                number = spans.token[ids].astype(np.int64)
            return TokenTimes(spans.start[ids], spans.end[ids], ids, number)
    return _from_column(trace)


def _from_column(trace: Trace) -> TokenTimes:
    spans = trace.spans
    if spans.token is None or not len(spans):
        return NO_TOKENS
    known = np.flatnonzero(spans.token >= 0)
    if not len(known):
        return NO_TOKENS
    names, which = np.unique(spans.token[known], return_inverse=True)
    start = np.full(len(names), np.iinfo(np.int64).max, np.int64)
    end = np.full(len(names), np.iinfo(np.int64).min, np.int64)
    np.minimum.at(start, which, spans.start[known])
    np.maximum.at(end, which, spans.end[known])
    order = np.argsort(start, kind="stable")
    alone = np.full(len(names), -1, np.int64)
    return TokenTimes(start[order], end[order], alone, names[order].astype(np.int64))
