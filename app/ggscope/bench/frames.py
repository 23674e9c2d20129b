"""Panning and zooming for some seconds, frame by frame, as ``ggscope bench`` does.

The instruments of ``ggscope bench``: waiting, paints, stalls and memory.

None of them takes the event loop away from the program: waiting runs Qt's own
loop, and what is looked at is looked at by a timer, so that workers get the
interpreter as they do when the user waits.
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, QObject, Qt, QTimer
from PySide6.QtWidgets import QWidget

from ggscope.errors import TraceError
from ggscope.model.units import TimeRange
from ggscope.views.base.view import guarded, later

if TYPE_CHECKING:
    from ggscope.analysis.rows.lanes import TimelineLane

PULSE_MS = 5
_MEMORY_EVERY = 10
_INTERRUPTED = 130
"""With this code the program's exception hook ends all loops."""
_MB = 1e6
_PAINTED = QEvent.Type(QEvent.registerEventType())


class BenchError(TraceError):
    """The measurement could not be taken."""


def wait_until(is_done: Callable[[], bool], seconds: float, what: str) -> None:
    """Run the event loop until `is_done`, which is asked every 5 ms.

    Raises
    ------
    BenchError
        After `seconds`, or where the window is closed; `what` says what was
        waited for.
    KeyboardInterrupt
        Where the user interrupts.
    """
    loop, until = QEventLoop(), time.perf_counter() + seconds

    def look() -> None:
        if is_done() or time.perf_counter() > until:
            loop.exit(0)

    timer = QTimer()
    timer.setInterval(PULSE_MS)
    timer.timeout.connect(look)
    timer.start()
    run_loop(loop)
    timer.stop()
    if not is_done():
        late = time.perf_counter() > until
        why = f"not within {seconds:.0f} s" if late else "the window was closed"
        raise BenchError(f"waited for {what}: {why}.")


def pass_time(seconds: float) -> None:
    """Let the program run for some time."""
    loop = QEventLoop()
    later(loop, loop.quit, round(seconds * 1e3))
    run_loop(loop)


def run_loop(loop: QEventLoop) -> None:
    """Run `loop` to its end; raises KeyboardInterrupt where the user interrupts."""
    if loop.exec() == _INTERRUPTED:
        raise KeyboardInterrupt


@guarded
class PaintWatch(QObject):
    """Calls `on_painted` when a paint of a widget has reached the window.

    Parameters
    ----------
    on_painted : called with no arguments, after the turn of the event loop that
        painted the widget, all other changed widgets and the window's surface.
    """

    def __init__(self, widget: QWidget, on_painted: Callable[[], None]) -> None:
        super().__init__()
        self.widget = widget
        """May be gone on the C++ side; the filter is then gone as well."""
        self._on_painted = on_painted
        self._is_posted = False
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Note that a paint is about to begin."""
        if event.type() == QEvent.Type.Paint and not self._is_posted:
            # Qt delivers this right behind the update request that it is in, once
            # the surface is flushed.
            self._is_posted = True
            priority = Qt.EventPriority.LowEventPriority.value
            QCoreApplication.postEvent(self, QEvent(_PAINTED), priority)
        return False

    def event(self, event: QEvent) -> bool:
        """Report that the paint is over."""
        if event.type() != _PAINTED:
            return super().event(event)
        self._is_posted = False
        self._on_painted()
        return True


class Pulse(QObject):
    """A timer of the main thread that notes how long it was kept waiting.

    Attributes
    ----------
    worst_ms : longest time between two turns since `restart`.
    rss_mb : highest resident memory that was seen, in MB (10**6 bytes).
    """

    def __init__(self, on_beat: Callable[[], None]) -> None:
        super().__init__()
        self._on_beat = on_beat
        self._process = psutil.Process()
        self._last = time.perf_counter()
        self._beats = 0
        self.worst_ms = 0.0
        self.rss_mb = 0.0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(PULSE_MS)
        self._timer.timeout.connect(self._beat)
        self._timer.start()

    def restart(self) -> None:
        """Forget the stalls so far."""
        self._last, self.worst_ms = time.perf_counter(), 0.0

    def stop(self) -> None:
        """Beat no more."""
        self._timer.stop()

    def _beat(self) -> None:
        now = time.perf_counter()
        self.worst_ms = max(self.worst_ms, (now - self._last) * 1e3)
        self._last = now
        self._beats += 1
        if self._beats % _MEMORY_EVERY == 0:
            self.rss_mb = max(self.rss_mb, self.resident_mb())
        self._on_beat()

    def resident_mb(self) -> float:
        """Return the memory that the process holds now, in MB."""
        return float(self._process.memory_info().rss) / _MB

    def peak_mb(self) -> float:
        """Return the most memory that the process ever held, in MB.

        On Linux the kernel's own high-water mark (``ru_maxrss`` would count what
        the parent held before it started this program), elsewhere that of
        ``getrusage`` where there is one.
        """
        if sys.platform == "linux":
            with open("/proc/self/status", encoding="ascii") as file:
                for line in file:
                    if line.startswith("VmHWM:"):
                        return int(line.split()[1]) * 1024 / _MB
        elif sys.platform == "darwin":
            import resource

            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MB
        return max(self.rss_mb, self.resident_mb())


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


def groups_to_close(lanes: Sequence["TimelineLane"], n_lanes: int) -> frozenset[str]:
    """Return which groups stay closed so that about `n_lanes` lanes are open.

    Groups that start closed are opened one by one, "Ops" last, until there are
    enough.
    """
    from ggscope.analysis.rows.lanes import TimelineLanes, default_collapsed
    from ggscope.analysis.rows.tracks import OPS

    closed = set(default_collapsed(lanes))
    columns = TimelineLanes.of(lanes)
    groups = columns.groups
    n_lanes_of = Counter(groups[i] for i in columns.group.tolist())
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
        import numpy as np

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
        self._started = self._moved_at = 0.0
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
        self._moved_at = time.perf_counter()
        share = (self._moved_at - self._started) / self._seconds
        if share >= 1:
            self._stuck.stop()
            self._loop.quit()
            return
        self._stuck.start()
        self._course.go(share)
        self._canvas.update()  # also where the range is at its bounds already

    def _on_painted(self) -> None:
        if not self._moved_at:  # painted for another reason
            return
        shown = self._course.shown()
        self._times.n_frames += 1
        if shown != self._shown:
            self._times.moved_ms.append((time.perf_counter() - self._moved_at) * 1e3)
        self._shown, self._moved_at = shown, 0.0
        self._next.start(0)
