"""Replay: a time that goes through the trace by itself; views show what was so far."""

import time

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from ggscope.model.tables import I64
from ggscope.model.units import TimeRange
from ggscope.session.current_trace import CurrentTrace
from ggscope.session.viewport import Viewport

_FRAME_MS = 33
_WHOLE_S = 20.0
"""So long the whole trace takes, whatever its length."""
_STEPS = 100
"""Steps of a trace without tokens."""


class ReplayModel(QObject):
    """Where replay of a session is; off until somebody plays or steps.

    Attributes
    ----------
    tick : replay has come to this time; None = off.

    Signals
    -------
    changed(int | None) : replay moved, paused or ended.
    """

    changed = Signal(object)

    def __init__(
        self, current: CurrentTrace, viewport: Viewport, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.tick: int | None = None
        self._current, self._viewport = current, viewport
        self._timer = QTimer(self, interval=_FRAME_MS)
        self._timer.timeout.connect(self._on_frame)
        self._last = 0.0

    @property
    def is_playing(self) -> bool:
        """Whether it goes on by itself."""
        return self._timer.isActive()

    @property
    def share(self) -> float | None:
        """How much of the trace is over, 0..1; None = off."""
        extent = self._extent
        if self.tick is None or extent is None:
            return None
        return (self.tick - extent.start) / max(extent.duration, 1)

    def toggle(self) -> None:
        """Play from where it is, from the start after the end; or pause."""
        extent = self._extent
        if extent is None:
            return
        if self.is_playing:
            self._timer.stop()
            self._set(self.tick)
            return
        self._last = time.monotonic()
        self._timer.start()
        is_over = self.tick is None or self.tick >= extent.end
        self._set(extent.start if is_over else self.tick)

    def step(self, by: int, steps: I64 | None = None) -> None:
        """Pause, and go to the next (1) or previous (-1) step; off is the end.

        Parameters
        ----------
        steps : ascending ticks; None = begins of tokens, or else hundredths.
        """
        extent = self._extent
        if extent is None:
            return
        self._timer.stop()
        if steps is None:
            steps = self._own_steps(extent)
        now = extent.end if self.tick is None else self.tick
        before = int(np.searchsorted(steps, now, "left"))
        at = int(np.searchsorted(steps, now, "right")) if by > 0 else before - 1
        self._set(extent.end if at >= len(steps) else int(steps[max(at, 0)]))

    def go_to(self, share: float) -> None:
        """Go to a share of the trace, 0..1."""
        extent = self._extent
        if extent is not None:
            self._set(extent.start + round(extent.duration * share))

    def end(self) -> bool:
        """Show everything again; return whether replay was on."""
        was = self.tick is not None
        self._timer.stop()
        if was:
            self._set(None)
        return was

    @property
    def _extent(self) -> TimeRange | None:
        trace = self._current.trace
        return None if trace is None or not len(trace.spans) else trace.extent

    def _own_steps(self, extent: TimeRange) -> I64:
        starts = np.unique(self._current.tokens.start)
        if len(starts) > 1:
            return starts.astype(np.int64)
        shares = np.arange(_STEPS, dtype=np.int64)
        return np.unique(extent.start + extent.duration * shares // _STEPS)

    def _on_frame(self) -> None:
        extent, now = self._extent, time.monotonic()
        if extent is None or self.tick is None:
            self._timer.stop()
            return
        step = max(round(extent.duration * (now - self._last) / _WHOLE_S), 1)
        self._last = now
        tick = min(self.tick + step, extent.end)
        if tick >= extent.end:
            self._timer.stop()
        self._set(tick)

    def _set(self, tick: int | None) -> None:
        self.tick = tick
        self._viewport.cursor_tick = tick
        self.changed.emit(tick)
