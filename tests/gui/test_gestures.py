"""What wheels, trackpads and buttons mean is the same on every canvas."""

from dataclasses import dataclass

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import (
    QInputDevice,
    QMouseEvent,
    QNativeGestureEvent,
    QPointingDevice,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication

from ggscope.session.session import Session
from ggscope.views.base.gestures import CanvasGestures, WheelDelta
from ggscope.views.buffers.view import BuffersGestures
from ggscope.views.graph.interaction import Gestures as GraphGestures
from ggscope.views.heatmap.interaction import HeatmapGestures
from ggscope.views.timeline.mouse import Gestures as TimelineGestures

PLAIN = Qt.KeyboardModifier.NoModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
CTRL = Qt.KeyboardModifier.ControlModifier
NO_PHASE = Qt.ScrollPhase.NoScrollPhase
BEGIN, UPDATE, END = (
    Qt.ScrollPhase.ScrollBegin,
    Qt.ScrollPhase.ScrollUpdate,
    Qt.ScrollPhase.ScrollEnd,
)
AT = QPointF(30, 40)


class Pointed:
    def __init__(self, session: Session) -> None:
        self.session = session

    def position_of(self, event: QEvent) -> QPointF:
        return event.position() / 2  # drawn twice as large as designed


class Noted(CanvasGestures):
    """Writes down what comes, and where."""

    def __init__(self, pointed: Pointed) -> None:
        super().__init__(pointed)
        self.is_ready = True
        self.calls: list[tuple[object, ...]] = []

    def _is_ready(self) -> bool:
        return self.is_ready

    def _leave(self) -> None:
        self.calls.append(("leave",))

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        self.calls.append(("press", at))
        return True

    def _move(self, event: QMouseEvent, at: QPointF) -> bool:
        self.calls.append(("move", at))
        return True

    def _release(self, event: QMouseEvent, at: QPointF) -> bool:
        self.calls.append(("release", at))
        return True

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        self.calls.append(("double", at))
        return True

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        self.calls.append(("wheel", turn, at))
        return True

    def _pinch(self, factor: float, at: QPointF) -> bool:
        self.calls.append(("pinch", factor, at))
        return True


@dataclass
class Canvas:
    gestures: Noted
    session: Session

    def turn(
        self,
        angle: tuple[int, int] = (0, 0),
        pixels: tuple[int, int] = (0, 0),
        mods: Qt.KeyboardModifier = PLAIN,
        phase: Qt.ScrollPhase = NO_PHASE,
    ) -> WheelDelta:
        event = QWheelEvent(
            AT, AT, QPoint(*pixels), QPoint(*angle), Qt.MouseButton.NoButton, mods,
            phase, False,
        )  # fmt: skip
        assert self.gestures.handle(event)
        name, turn, at = self.gestures.calls[-1]
        assert (name, at) == ("wheel", AT / 2)
        assert isinstance(turn, WheelDelta)
        return turn


@pytest.fixture
def canvas(qapp: QApplication) -> Canvas:
    session = Session()
    yield Canvas(Noted(Pointed(session)), session)
    session.close()


def mouse(kind: QEvent.Type) -> QMouseEvent:
    left = Qt.MouseButton.LeftButton
    return QMouseEvent(kind, AT, AT, left, left, PLAIN)


def test_each_event_goes_to_the_one_method_that_is_about_it(canvas: Canvas) -> None:
    gestures = canvas.gestures
    for kind in (
        QEvent.Type.MouseButtonPress, QEvent.Type.MouseMove,
        QEvent.Type.MouseButtonRelease, QEvent.Type.MouseButtonDblClick,
    ):  # fmt: skip
        assert gestures.handle(mouse(kind))
    assert not gestures.handle(QEvent(QEvent.Type.Leave))
    assert not gestures.handle(QEvent(QEvent.Type.ToolTip))

    names = [text[0] for text in gestures.calls]
    assert names == ["press", "move", "release", "double", "leave"]
    assert all(text[1] == AT / 2 for text in gestures.calls[:4])


def test_without_a_picture_only_leaving_is_received(canvas: Canvas) -> None:
    canvas.gestures.is_ready = False

    assert not canvas.gestures.handle(mouse(QEvent.Type.MouseButtonPress))
    canvas.gestures.handle(QEvent(QEvent.Type.Leave))

    assert canvas.gestures.calls == [("leave",)]


def test_a_notch_is_worth_as_much_by_wheel_as_by_fingers(canvas: Canvas) -> None:
    wheel, fingers = canvas.turn((0, -120)), canvas.turn((0, -5), (0, -60))

    assert (wheel.x, wheel.y, wheel.notches) == (0, -60, -1)
    assert (fingers.x, fingers.y, fingers.notches) == (0, -60, -1)
    # Fingers see what they move; a wheel goes twice as far.
    assert canvas.turn((120, 0)).pan_px == 120
    assert canvas.turn((5, 0), (60, 0)).pan_px == 60


def test_shift_turns_the_axis_and_never_zooms_by_it(canvas: Canvas) -> None:
    turn = canvas.turn((0, 120), mods=SHIFT)
    both = canvas.turn((0, 120), mods=SHIFT | CTRL)

    assert (turn.x, turn.y, turn.has_shift, turn.zooms) == (60, 0, True, False)
    assert (both.x, both.y, both.notches, both.zooms) == (60, 0, 1, True)


@pytest.mark.parametrize("prefers_zoom", [False, True])
def test_ctrl_zooms_or_scrolls_as_the_person_prefers(
    canvas: Canvas, prefers_zoom: bool
) -> None:
    canvas.session.viewport.wheel_zooms = prefers_zoom

    assert canvas.turn((0, 120)).zooms == prefers_zoom
    assert canvas.turn((0, 120), mods=CTRL).zooms != prefers_zoom
    # A zoom is never turned into a pan by a finger that goes sideways a little more.
    zooming = canvas.turn((0, 0), (7, 5), PLAIN if prefers_zoom else CTRL)
    assert (zooming.x, zooming.y) == (0, 5)


def test_fingers_keep_to_the_axis_that_they_began_with(canvas: Canvas) -> None:
    first = canvas.turn((0, 0), (9, 2), phase=BEGIN)
    then = canvas.turn((0, 0), (1, 50), phase=UPDATE)
    last = canvas.turn((0, 0), (0, 3), phase=END)
    fresh = canvas.turn((0, 0), (1, 50), phase=UPDATE)

    assert [(t.x, t.y) for t in (first, then, last)] == [(9, 0), (1, 0), (0, 0)]
    assert (fresh.x, fresh.y) == (0, 50)


@pytest.mark.parametrize(("value", "factor"), [(0.25, 1.25), (-0.5, 0.5), (-3, 0.1)])
def test_a_pinch_is_a_factor_above_zero(
    canvas: Canvas, value: float, factor: float
) -> None:
    device = QPointingDevice(
        "pad", 1, QInputDevice.DeviceType.TouchPad,
        QPointingDevice.PointerType.Finger, QInputDevice.Capability.Position, 2, 0,
    )  # fmt: skip
    event = QNativeGestureEvent(
        Qt.NativeGestureType.ZoomNativeGesture, device, 2, AT, AT, AT, value, QPointF()
    )

    assert canvas.gestures.handle(event)
    assert canvas.gestures.calls[-1] == ("pinch", pytest.approx(factor), AT / 2)


@pytest.mark.parametrize(
    "gestures", [TimelineGestures, HeatmapGestures, GraphGestures, BuffersGestures]
)
def test_all_pictures_hear_events_the_same_way(gestures: type) -> None:
    assert issubclass(gestures, CanvasGestures)
    own = {"handle", "_turn", "_locked"} & set(vars(gestures))
    assert not own
