"""Panning and zooming for some seconds, frame by frame, as ``ggscope bench`` does."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from PySide6.QtCore import QEventLoop, QObject, QTimer
from PySide6.QtWidgets import QWidget

from ggscope.analysis.layout import (
    OPS,
    TimelineLane,
    TimelineLanes,
    default_collapsed,
)
from ggscope.gui.bench_probes import BenchError, PaintWatch, run_loop
from ggscope.model.time import TimeRange

WIDEST, NARROWEST = 0.95, 1e-5
"""Shares of the trace's extent between which the walk zooms."""
_PANS, _ZOOMS = 3, 2
_STUCK_MS = 5_000


def range_at(extent: TimeRange, share: float) -> TimeRange:
    """Return the range to show when `share` (0..1) of the walk is over.

    The walk goes three times from the first tick to the last and back while it
    zooms in and out twice between 95 % and 0.001 % of `extent`, evenly in the
    logarithm. It depends on time alone, so slow machines see the same ranges,
    only fewer of them.
    """
    pan = 0.5 - 0.5 * math.cos(2 * math.pi * _PANS * share)
    zoom = 0.5 - 0.5 * math.cos(2 * math.pi * _ZOOMS * share)
    width = WIDEST * math.exp(zoom * math.log(NARROWEST / WIDEST))
    ticks = max(1, round(extent.duration * width))
    left = extent.start + round(pan * (extent.duration - ticks))
    return TimeRange(left, left + ticks)


def groups_to_close(lanes: Sequence[TimelineLane], n_lanes: int) -> frozenset[str]:
    """Return which groups stay closed so that about `n_lanes` lanes are open.

    Groups that start closed are opened one by one, "Ops" last, until there are
    enough.
    """
    closed = set(default_collapsed(lanes))
    columns = TimelineLanes.of(lanes)
    n_lanes_of = dict(
        zip(
            columns.groups,
            np.bincount(columns.group, minlength=len(columns.groups)).tolist(),
            strict=True,
        )
    )
    n_open = sum(n for group, n in n_lanes_of.items() if group not in closed)
    for group in sorted(closed, key=lambda title: (title == OPS, title)):
        if n_open >= n_lanes:
            break
        closed.discard(group)
        n_open += n_lanes_of[group]
    return frozenset(closed)


@dataclass(slots=True)
class FrameTimes:
    """What was measured.

    Attributes
    ----------
    elapsed_s : from the first step to the end of the last frame.
    n_frames : frames painted, of whatever range.
    moved_ms : time of each frame whose range had moved, from the request to the
        window's surface.
    cpu_s : processor time of all threads.
    """

    elapsed_s: float = 0.0
    n_frames: int = 0
    moved_ms: list[float] = field(default_factory=list)
    cpu_s: float = 0.0

    def figures(self) -> dict[str, float]:
        """Return the figures of the JSON line."""
        if not self.moved_ms or self.elapsed_s <= 0:
            raise BenchError("no frame showed a new range.")
        times = np.array(self.moved_ms)
        return {
            "fps": round(len(times) / self.elapsed_s, 1),
            "p99_ms": round(float(np.percentile(times, 99)), 2),
            "max_ms": round(float(times.max()), 2),
            "median_ms": round(float(np.median(times)), 2),
            "cpu_ms": round(self.cpu_s / self.n_frames * 1e3, 2),
            "frames": self.n_frames,
            "moved": len(times),
        }


@dataclass(frozen=True, slots=True)
class Course:
    """Where a view goes while it is measured.

    Attributes
    ----------
    go : shows what is due when a share (0..1) of the walk is over.
    shown : returns what is shown now; a frame that shows the same does not count.
    """

    go: Callable[[float], None]
    shown: Callable[[], object]


class Walk(QObject):
    """Goes a course, step by step, each when the last has been painted.

    Parameters
    ----------
    canvas : the widget whose paints count.
    seconds : how long to go on.
    """

    def __init__(self, course: Course, canvas: QWidget, seconds: float) -> None:
        super().__init__()
        self._course = course
        self._canvas = canvas
        self._seconds = seconds
        self._times = FrameTimes()
        self._loop = QEventLoop()
        # A timer, not a call: other events have their turn between two frames.
        self._next = QTimer(self)
        self._next.setSingleShot(True)
        self._next.timeout.connect(self._step)
        self._stuck = QTimer(self)
        self._stuck.setSingleShot(True)
        self._stuck.setInterval(_STUCK_MS)
        self._stuck.timeout.connect(self._loop.quit)
        self._started = self._asked = 0.0
        self._shown: object = None

    def run(self) -> FrameTimes:
        """Return the times of the frames.

        Raises
        ------
        BenchError
            If a frame is not painted within 5 seconds.
        """
        watch = PaintWatch(self._canvas, self._on_painted)
        # Where the range is before the first step does not count as a move.
        self._shown = self._course.shown()
        cpu = time.process_time()
        self._started = time.perf_counter()
        self._next.start(0)
        run_loop(self._loop)
        del watch
        self._times.cpu_s = time.process_time() - cpu
        self._times.elapsed_s = time.perf_counter() - self._started
        if self._times.elapsed_s < self._seconds:
            raise BenchError("the window stopped painting.")
        return self._times

    def _step(self) -> None:
        self._asked = time.perf_counter()
        share = (self._asked - self._started) / self._seconds
        if share >= 1:
            self._stuck.stop()
            self._loop.quit()
            return
        self._stuck.start()
        self._course.go(share)
        self._canvas.update()  # also where the range is at its bounds already

    def _on_painted(self) -> None:
        if not self._asked:  # painted for another reason
            return
        shown = self._course.shown()
        self._times.n_frames += 1
        if shown != self._shown:
            self._times.moved_ms.append((time.perf_counter() - self._asked) * 1e3)
        self._shown, self._asked = shown, 0.0
        self._next.start(0)


__all__ = ["Course", "FrameTimes", "Walk", "groups_to_close", "range_at"]
