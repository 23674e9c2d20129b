"""Collects cyclic garbage on the main thread only.

Python's collector runs on whichever thread allocates next. If that is a worker and
the garbage holds a widget or timer, its C++ side is destroyed on the wrong thread
and the program dies. So automatic collection is off while the window lives, and a
timer collects instead; frames are not interrupted by it either.
"""

import gc

from PySide6.QtCore import QObject, QTimer

PERIOD_MS = 1_000


class MainThreadCollector(QObject):
    """Takes over garbage collection from creation to `stop`."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_enabled = gc.isenabled()
        gc.disable()
        self._timer = QTimer(self)
        self._timer.setInterval(PERIOD_MS)
        self._timer.timeout.connect(self.collect)
        self._timer.start()

    def collect(self) -> None:
        """Collect the oldest generation that Python would collect by now."""
        counts, limits = gc.get_count(), gc.get_threshold()
        for generation in (2, 1, 0):
            if counts[generation] > limits[generation]:
                gc.collect(generation)
                return

    def stop(self) -> None:
        """Give collection back to Python."""
        self._timer.stop()
        if self._was_enabled:
            gc.enable()
