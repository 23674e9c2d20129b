"""RulerModel: the two points in time that are measured, and what lies between."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.ruler import RulerFacts, ruler_facts
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session import time_ranges
from ggscope.session.bookmarks.bookmarks import Subject
from ggscope.session.current_trace import CurrentTrace
from ggscope.session.tasks import TaskContext, Tasks
from ggscope.session.viewport import Viewport

_KEY = "ruler"
REST_MS = 60
"""What lies between is counted once the ruler has rested so long."""


@dataclass(frozen=True, slots=True)
class Ruler:
    """Two points in time.

    Attributes
    ----------
    fixed, moving : ticks; a drag and the keys move the second.
    lane : key of the lane whose spans the keys step along, "" = none.
    """

    fixed: int
    moving: int
    lane: str = ""

    @property
    def time(self) -> TimeRange:
        """From the earlier point to the later one."""
        return TimeRange(*sorted((self.fixed, self.moving)))


class RulerModel(QObject):
    """The ruler of a session.

    Parameters
    ----------
    subject : returns what is measured where nothing else is given.

    Attributes
    ----------
    current : the ruler, None = nothing is measured.
    facts : what lies between its ends; None = not counted yet.
    is_active : whether a plain drag over the lanes measures.
    """

    changed = Signal(object)  # Ruler | None
    facts_changed = Signal(object)  # RulerFacts
    active_changed = Signal(object)  # bool
    status_message = Signal(object)  # str: for the status bar

    def __init__(
        self,
        trace: CurrentTrace,
        viewport: Viewport,
        tasks: Tasks,
        subject: Callable[[], Subject],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.current: Ruler | None = None
        self.facts: RulerFacts | None = None
        self.is_active = False
        self._trace, self._viewport, self._tasks = trace, viewport, tasks
        self._subject = subject
        self._origin = 0
        self._timer = QTimer(self, singleShot=True, interval=REST_MS)
        self._timer.timeout.connect(self._count)

    def set(self, ruler: Ruler | None) -> None:
        """Measure from one point to another."""
        if ruler == self.current:
            return
        if ruler is None:
            self.facts = None
            self._timer.stop()
            self._tasks.cancel(_KEY)
        else:
            if self._trace.trace is None:
                return
            self._origin = self._trace.trace.clock.origin
            self._timer.start()
        self.current = ruler
        self.changed.emit(ruler)

    def set_active(self, is_active: bool) -> None:
        """Let plain drags measure, or mark ranges again."""
        if is_active != self.is_active:
            self.is_active = is_active
            self.active_changed.emit(is_active)

    def clear(self) -> None:
        """Remove the ruler, and let drags mark ranges again."""
        self.set_active(False)
        self.set(None)

    def swap(self) -> None:
        """Let the keys move the other end."""
        if self.current is not None:
            old = self.current
            self.set(replace(old, fixed=old.moving, moving=old.fixed))

    def measure(self) -> None:
        """Measure the selection or the marked range; drags measure from now on.

        Where that is so already, remove the ruler.
        """
        if self.is_active:
            self.clear()
            return
        self.set_active(True)
        subject = self._subject()
        if subject.time.duration:
            self.set(Ruler(subject.time.start, subject.time.end, subject.lane))
        self.status_message.emit("Drag to measure; Esc removes the ruler.")

    def step(self, by: int) -> None:
        """Move the moving end to the next (+1) or previous (-1) edge of a span.

        Where there is no ruler yet, begin one at what is selected, marked or in view.
        """
        index = self._trace.index
        if index is None:
            return
        if self.current is None:
            subject = self._subject()
            self.set(Ruler(subject.time.start, subject.time.end, subject.lane))
        ruler = self.current
        if ruler is None:
            return
        known = index.lanes.position(ruler.lane) >= 0
        lane = ruler.lane if known else _first_lane(index)
        edge = index.next_edge(lane, ruler.moving, by) if lane else None
        if edge is None:
            self.status_message.emit("The lane has no further edge of a span.")
            return
        self.set(replace(ruler, moving=edge, lane=lane))
        visible = self._viewport.visible
        if not visible.contains(edge):
            end = TimeRange(edge, edge)
            self._viewport.set_visible(time_ranges.centred(visible, end))

    def follow(self, trace: Trace | None, *, is_other: bool) -> None:
        """Keep the ruler at its times in the next snapshot; remove it of another trace.

        Tick 0 may be another moment there.
        """
        if trace is None or is_other:
            self.clear()
        elif self.current is not None:
            by = self._origin - trace.clock.origin
            old = self.current
            self._origin = trace.clock.origin
            if by:
                self.set(replace(old, fixed=old.fixed + by, moving=old.moving + by))
            self._timer.start()

    def _count(self) -> None:
        trace = self._trace.trace
        if self.current is not None and trace is not None:
            request = partial(_counted, trace, self.current.time)
            self._tasks.run(_KEY, request, self._on_counted)

    def _on_counted(self, facts: RulerFacts) -> None:
        if self.current is not None and facts.time == self.current.time:
            self.facts = facts
            self.facts_changed.emit(facts)


def _first_lane(index: TraceIndex) -> str:
    """Return the first lane of work, else the first with spans; "" = there is none."""
    lanes = [index.lanes[i] for i in np.flatnonzero(index.lanes.has_rows).tolist()]
    of_work = (lane.key for lane in lanes if lane.track.is_work)
    return next(of_work, lanes[0].key if lanes else "")


def _counted(trace: Trace, time: TimeRange, _: TaskContext) -> RulerFacts:
    return ruler_facts(trace, time)
