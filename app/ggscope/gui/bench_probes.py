"""The instruments of ``ggscope bench``: waiting, paints, stalls and memory.

None of them takes the event loop away from the program: waiting runs Qt's own
loop, and what is looked at is looked at by a timer, so that workers get the
interpreter as they do when a person waits.
"""

import sys
import time
from collections.abc import Callable

import psutil
from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, QObject, Qt, QTimer
from PySide6.QtWidgets import QWidget

from ggscope.errors import TraceError
from ggscope.views.guard import guarded

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
        Where the person interrupts.
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
    QTimer.singleShot(round(seconds * 1e3), loop.quit)
    run_loop(loop)


def run_loop(loop: QEventLoop) -> None:
    """Run `loop` to its end; raises KeyboardInterrupt where the person interrupts."""
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
        """Tell that the paint is over."""
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


__all__ = ["BenchError", "PaintWatch", "Pulse", "pass_time", "run_loop", "wait_until"]
