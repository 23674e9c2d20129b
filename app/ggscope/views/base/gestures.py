"""Mouse, wheel and trackpad on a canvas: which method an event goes to, and how far.

The same turn of a wheel, the same two fingers and the same pinch mean the same in each
picture; what is moved by them is the view's.
"""

from dataclasses import dataclass
from typing import Protocol

from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import (
    QMouseEvent,
    QNativeGestureEvent,
    QSinglePointEvent,
    QWheelEvent,
)

from ggscope.session.session import Session

NOTCH_PX = 60.0
"""A notch of a wheel is worth so many pixels of a trackpad."""
_NOTCH = 120.0
_WHEEL_PAN = 2.0
"""A wheel pans faster than fingers do, which see what they move."""


class Pointed(Protocol):
    """A view with a canvas that is pointed at."""

    @property
    def session(self) -> Session:
        """Whose trace it shows."""

    def position_of(self, event: QEvent) -> QPointF:
        """Return where on the picture an event happened."""


@dataclass(frozen=True, slots=True)
class WheelDelta:
    """How far a wheel was turned, or two fingers moved.

    Attributes
    ----------
    x, y : pixels to the right and down, `NOTCH_PX` to a notch; one of them is 0:
        fingers keep to the axis that their motion began with, and Shift makes x of y.
    zooms : whether to zoom: with Ctrl, or without it where the user prefers so.
    has_shift : whether Shift is held.
    is_precise : whether a trackpad sent pixels.
    """

    x: float
    y: float
    zooms: bool
    has_shift: bool
    is_precise: bool

    @property
    def notches(self) -> float:
        """How many notches of a wheel it is worth, whichever axis it is about."""
        return (self.y or self.x) / NOTCH_PX

    @property
    def pan_px(self) -> float:
        """How many pixels to the right the picture is to go."""
        return self.x if self.is_precise else self.x * _WHEEL_PAN


def hold(session: Session, event: QMouseEvent) -> None:
    """Let the view of a program that is followed stand while a button is down.

    To be called when the event has been handled: what a release means is about the
    picture as it was. The right button opens a menu, which takes its release.
    """
    held = Qt.MouseButton.LeftButton | Qt.MouseButton.MiddleButton
    session.viewport.hold(bool(event.buttons() & held))


class CanvasGestures:
    """Hands each event of a canvas to the one method that is about it."""

    def __init__(self, pointed: Pointed) -> None:
        self._pointed = pointed
        self._axis: Qt.Orientation | None = None

    def handle(self, event: QEvent) -> bool:
        """Handle one event; return whether it is done with."""
        kind = event.type()
        if kind == QEvent.Type.Leave:
            self._leave()
            return False
        if not isinstance(event, QSinglePointEvent) or not self._is_ready():
            return False
        at = self._pointed.position_of(event)
        if isinstance(event, QWheelEvent):
            return self._wheel(self._turn(event), at)
        if isinstance(event, QNativeGestureEvent):
            if event.gestureType() != Qt.NativeGestureType.ZoomNativeGesture:
                return False
            return self._pinch(max(0.1, 1.0 + event.value()), at)
        if not isinstance(event, QMouseEvent):
            return False
        is_done = self._mouse(event, at)
        hold(self._pointed.session, event)
        return is_done

    def _mouse(self, event: QMouseEvent, at: QPointF) -> bool:
        kind = event.type()
        if kind == QEvent.Type.MouseButtonPress:
            return self._press(event, at)
        if kind == QEvent.Type.MouseMove:
            return self._move(event, at)
        if kind == QEvent.Type.MouseButtonRelease:
            return self._release(event, at)
        if kind == QEvent.Type.MouseButtonDblClick:
            return self._double_click(event, at)
        return False

    def _turn(self, event: QWheelEvent) -> WheelDelta:
        """Read a wheel event."""
        pixels, angle, mods = event.pixelDelta(), event.angleDelta(), event.modifiers()
        is_precise = not pixels.isNull()
        scale = 1.0 if is_precise else NOTCH_PX / _NOTCH
        step = pixels if is_precise else angle
        x, y = step.x() * scale, step.y() * scale
        axis = self._locked(event, x, y)
        has_control = bool(mods & Qt.KeyboardModifier.ControlModifier)
        zooms = has_control != self._pointed.session.viewport.wheel_zooms
        has_shift = bool(mods & Qt.KeyboardModifier.ShiftModifier)
        if has_shift:  # some systems turn the axis by themselves
            x, y = x or y, 0.0
        elif axis is Qt.Orientation.Vertical or (zooms and y):
            x = 0.0
        else:
            y = 0.0
        return WheelDelta(x, y, zooms, has_shift, is_precise)

    def _locked(self, event: QWheelEvent, x: float, y: float) -> Qt.Orientation:
        """Return the axis that the first motion of this gesture chose."""
        wide = Qt.Orientation.Horizontal
        axis = wide if abs(x) > abs(y) else Qt.Orientation.Vertical
        phase = event.phase()
        if phase == Qt.ScrollPhase.NoScrollPhase:
            self._axis = None
            return axis
        if phase == Qt.ScrollPhase.ScrollBegin or self._axis is None:
            self._axis = axis
        locked = self._axis
        if phase == Qt.ScrollPhase.ScrollEnd:
            self._axis = None
        return locked

    # -- what a view does --------------------------------------------------

    def _is_ready(self) -> bool:
        """Return whether there is a picture to point at."""
        return True

    def _leave(self) -> None:
        """Forget what was pointed at."""

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        """Begin something, at this place of the picture."""
        return False

    def _move(self, event: QMouseEvent, at: QPointF) -> bool:
        """Go on with it, or look at what lies there."""
        return False

    def _release(self, event: QMouseEvent, at: QPointF) -> bool:
        """End it."""
        return False

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        """Open what lies there."""
        return False

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        """Scroll, pan or zoom."""
        return False

    def _pinch(self, factor: float, at: QPointF) -> bool:
        """Show what lies there so many times as large."""
        return False
