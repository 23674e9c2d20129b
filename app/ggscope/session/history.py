"""Back and forward over (visible range, selection, filter, lanes)."""

from dataclasses import dataclass, field

from PySide6.QtCore import QObject, QTimer, Signal

from ggscope.analysis.rows.lanes import LaneState
from ggscope.model.selection import Filter, Selection
from ggscope.model.units import TimeRange

QUIET_MS = 300
CAPACITY = 500


@dataclass(frozen=True, slots=True)
class ViewPoint:
    """Where the user looked, and how the lanes lay."""

    visible: TimeRange
    selection: Selection
    filter: Filter
    lanes: LaneState = field(default_factory=LaneState)


class History(QObject):
    """Remembers view points once nothing has moved for 300 ms.

    `note` is called on every change; a drag of a thousand steps leaves one entry.
    """

    changed = Signal()  # can_go_back or can_go_forward differs now

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: list[ViewPoint] = []
        self._position = -1
        self._latest: ViewPoint | None = None
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(QUIET_MS)
        self._quiet.timeout.connect(self.record)
        self._ways = (False, False)

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
        self._emit_changed()

    def record(self) -> None:
        """Record the latest view point now; what lay ahead is forgotten."""
        self._quiet.stop()
        if not self._is_dirty or self._latest is None:
            return
        del self._entries[self._position + 1 :]
        self._entries.append(self._latest)
        del self._entries[: max(0, len(self._entries) - CAPACITY)]
        self._position = len(self._entries) - 1
        self._emit_changed()

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
        self._emit_changed()

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
        self._emit_changed()

    def _emit_changed(self) -> None:
        """Signal where one can go, if that differs: views move with each frame."""
        ways = (self.can_go_back, self.can_go_forward)
        if ways != self._ways:
            self._ways = ways
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
        self._emit_changed()
        return self._latest
