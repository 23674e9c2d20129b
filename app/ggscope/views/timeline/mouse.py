"""Mouse and trackpad gestures of the timeline."""

from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication

from ggscope.model.selection import Gap, MarkedRange
from ggscope.model.units import TimeRange
from ggscope.render.timeline.hit_test import Hit
from ggscope.session.ruler import Ruler
from ggscope.views.base.gestures import CanvasGestures, WheelDelta

if TYPE_CHECKING:
    from ggscope.views.timeline.view import TimelineView

_ZOOM_STEP = 1.25
"""Zoom factor of one wheel notch."""
_LANES_MATTER_PX = 10
"""A drag that moves less than this in y marks all lanes."""
_EDGE_PX = 5
_SNAP_PX = 6
"""How close to the edge of a span a drag of the marked range snaps to it."""
_MIN_GAP_PX = 8.0
"""Narrower gaps are not hatched: a click there counts as one on the background."""


class Mode(Enum):
    """The gesture that the pressed mouse button makes."""

    IDLE = auto()
    PRESSED = auto()
    MARK = auto()
    PAN = auto()
    ZOOM = auto()
    SCRUB = auto()
    MOVE_LANE = auto()
    RESIZE_LANE = auto()
    EDGE = auto()
    MEASURE = auto()


class Gestures(CanvasGestures):
    """Mouse and trackpad gestures of the timeline, as calls of the session.

    Left drag marks a range, Shift+left or middle drag pans, Ctrl+left drag zooms
    to a region, Ctrl+Shift+left drag measures, a drag on the axis scrubs, a drag of a
    lane header moves the lane, a drag of its lower edge changes its height. A click on
    the label of a bookmark goes there, a double click edits it.
    """

    def __init__(self, view: "TimelineView") -> None:
        super().__init__(view)
        self._view = view
        self._mode = Mode.IDLE
        self._start = QPointF()
        self._last = QPointF()
        self._start_tick = 0
        self._start_range = TimeRange(0, 1)
        self._fixed_tick = 0
        self._lane = ""
        self._start_factor = 1.0
        self._pending = Mode.MARK
        self._pointer: QPointF | None = None
        self._snaps = True

    @property
    def mode(self) -> Mode:
        """The gesture under way."""
        return self._mode

    @property
    def pointer(self) -> QPointF | None:
        """Position of the mouse in the picture; None = outside."""
        return self._pointer

    def _leave(self) -> None:
        self._pointer = None
        self._view.set_hover_span(-1)
        self._view.set_cursor_tick(None)

    def follow(self) -> None:
        """Update the hover of a resting pointer after the picture has moved."""
        if self._pointer is not None and self._mode is Mode.IDLE:
            self._hover(self._pointer)

    # --- buttons -----------------------------------------------------------

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        session = self._view.session
        if event.button() == Qt.MouseButton.RightButton:
            return False
        self._view.setFocus(Qt.FocusReason.MouseFocusReason)
        mods = event.modifiers()
        self._start = self._last = at
        self._start_tick = self._view.tick_at(at.x())
        self._start_range = session.viewport.visible
        hit = self._view.hit(at.x(), at.y())
        if event.button() == Qt.MouseButton.MiddleButton:
            self._begin(Mode.PAN)
            return True
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        if hit.in_header:
            return self._press_header(at)
        if self._measures(mods, hit):
            self._begin_ruler(at)
        elif mods & Qt.KeyboardModifier.ShiftModifier:
            self._begin(Mode.PAN)
        elif (edge := self._edge_at(at.x())) is not None:
            self._fixed_tick = edge
            self._begin(Mode.EDGE)
        elif bookmarks := self._view.bookmarks_at(at):
            session.bookmarks.show(bookmarks[0])
        elif hit.on_axis:
            self._begin(Mode.SCRUB)
            self._scrub(at)
        else:
            zoom = mods & Qt.KeyboardModifier.ControlModifier
            self._pending = Mode.ZOOM if zoom else Mode.MARK
            self._mode = Mode.PRESSED
        return True

    def _measures(self, mods: Qt.KeyboardModifier, hit: Hit) -> bool:
        """Return whether a press over the lanes begins to measure.

        With Ctrl and Shift, or on an end of the ruler; where drags measure, any other.
        """
        both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
        held = mods & both
        if held == both or self._ruler_end_at(self._start.x()) is not None:
            return True
        return self._view.session.ruler.is_active and not held and not hit.on_axis

    def _begin_ruler(self, at: QPointF) -> None:
        """Begin to measure at a point, or to move an end of the ruler."""
        far_end = self._ruler_end_at(at.x())
        if far_end is None:
            self._fixed_tick = self._snapped(at)
            self._mode, self._pending = Mode.PRESSED, Mode.MEASURE
        else:
            self._fixed_tick = far_end
            self._begin(Mode.MEASURE)

    def _press_header(self, at: QPointF) -> bool:
        hit = self._view.hit(at.x(), at.y())
        if hit.box is None:
            return True
        if hit.box.lane is None:
            self._view.toggle_group(hit.box.group)
            return True
        self._lane = hit.box.lane.key
        if self._on_lower_edge(at):
            session = self._view.session
            heights = dict(session.lanes.state.heights) if session else {}
            self._start_factor = heights.get(self._lane, 1.0)
            self._begin(Mode.RESIZE_LANE)
        else:
            self._pending = Mode.MOVE_LANE
            self._mode = Mode.PRESSED
        return True

    def _begin(self, mode: Mode) -> None:
        self._mode = mode
        shapes = {
            Mode.PAN: Qt.CursorShape.ClosedHandCursor,
            Mode.ZOOM: Qt.CursorShape.CrossCursor,
            Mode.MOVE_LANE: Qt.CursorShape.ClosedHandCursor,
            Mode.RESIZE_LANE: Qt.CursorShape.SizeVerCursor,
            Mode.EDGE: Qt.CursorShape.SizeHorCursor,
            Mode.MEASURE: Qt.CursorShape.CrossCursor,
        }
        self._view.set_canvas_cursor(shapes.get(mode, Qt.CursorShape.ArrowCursor))

    def _move(self, event: QMouseEvent, at: QPointF) -> bool:
        if self._mode is Mode.IDLE:
            self._hover(at)
            return True
        if self._mode is Mode.PRESSED:
            distance = (at - self._start).manhattanLength()
            if distance < QApplication.startDragDistance() / 2:
                return True
            self._begin(self._pending)
        free = Qt.KeyboardModifier.ShiftModifier
        if self._mode is Mode.MEASURE:  # for which Shift is held
            free = Qt.KeyboardModifier.AltModifier
        self._snaps = not event.modifiers() & free
        if self._mode is not Mode.MOVE_LANE:
            self._view.set_cursor_tick(self._end_tick(at))
        actions = {
            Mode.MARK: self._mark,
            Mode.PAN: self._pan,
            Mode.ZOOM: self._zoom,
            Mode.SCRUB: self._scrub,
            Mode.MOVE_LANE: self._move_lane,
            Mode.RESIZE_LANE: self._resize_lane,
            Mode.EDGE: self._drag_edge,
            Mode.MEASURE: self._measure,
        }
        actions[self._mode](at)
        self._last = at
        return True

    def _release(self, event: QMouseEvent, at: QPointF) -> bool:
        mode, self._mode = self._mode, Mode.IDLE
        if mode is Mode.PRESSED and self._pending is not Mode.MOVE_LANE:
            self._click(at, event.modifiers())
        elif mode is Mode.ZOOM:
            self._view.set_zoom_band(None)
            band = self._band(at)
            if band.duration > 0:
                self._view.session.viewport.set_visible(band)
        self._hover(at)
        return mode is not Mode.IDLE

    def _click(self, at: QPointF, mods: Qt.KeyboardModifier) -> None:
        session = self._view.session
        hit = self._view.hit(at.x(), at.y())
        span = hit.span
        add = bool(mods & Qt.KeyboardModifier.ControlModifier)
        if span >= 0 and hit.is_wait and not add:
            session.selection.select_wait(span, reveal=False)
        elif span >= 0:
            session.selection.select_span(span, reveal=False, add=add)
        elif not add:
            self._click_beside(hit.gap)

    def _click_beside(self, gap: Gap | None) -> None:
        """Select idle time and mark it; a second click, or one elsewhere, clears both.

        The mark shows what all lanes did meanwhile.
        """
        session, view = self._view.session, self._view
        if gap is not None:
            is_marked = session.ranges.marked == MarkedRange(gap.time)
            is_wide = gap.time.duration >= _MIN_GAP_PX * view.ticks_per_px()
            if is_wide and not is_marked:
                session.selection.select_gap(gap, reveal=False)
                session.ranges.set_marked(MarkedRange(gap.time))
                return
        session.clear_selection()

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        session = self._view.session
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        hit = self._view.hit(at.x(), at.y())
        if bookmarks := self._view.bookmarks_at(at):
            session.bookmarks.edit_requested.emit(bookmarks[0])
        elif hit.span >= 0 and hit.is_wait:
            session.selection.select_wait(hit.span, reveal=False)
            session.navigator.fit_selection()
        elif hit.span >= 0:
            session.selection.select_span(hit.span, reveal=False)
            session.navigator.fit_selection()
        elif hit.on_axis:
            session.viewport.fit()
        return True

    # --- what drags do -----------------------------------------------------

    def _end_tick(self, at: QPointF) -> int:
        """Return the time where a drag is; snapped to a span's edge where it marks.

        Shift, once the button is down, turns snapping off; of the ruler, Alt does.
        """
        tick = self._view.tick_at(at.x())
        marks = self._mode in (Mode.MARK, Mode.EDGE, Mode.MEASURE)
        return self._snapped(at) if marks and self._snaps else tick

    def _snapped(self, at: QPointF) -> int:
        """Return the time of a span's edge near a point, else the time of the point."""
        view, tick = self._view, self._view.tick_at(at.x())
        hit, prepared = view.hit(at.x(), at.y()), view.prepared()
        if prepared is None or hit.box is None or hit.box.lane is None or hit.row < 0:
            return tick
        lane = hit.box.lane
        if not lane.track.has_rows or lane.key in prepared.waiting:
            return tick
        reach = int(_SNAP_PX * view.ticks_per_px())
        edge = prepared.index.nearest_edge(lane.key, hit.row, tick, reach)
        return tick if edge is None else edge

    def _band(self, at: QPointF) -> TimeRange:
        session = self._view.session
        start = self._start_tick
        if self._mode is Mode.MARK and self._snaps:
            start = self._snapped(self._start)
        low, high = sorted((start, self._end_tick(at)))
        if session.trace is not None:
            extent = session.trace.extent
            low = min(max(low, extent.start), extent.end)
            high = min(max(high, extent.start), extent.end)
        return TimeRange(low, high)

    def _mark(self, at: QPointF) -> None:
        session = self._view.session
        lanes = None
        if abs(at.y() - self._start.y()) > _LANES_MATTER_PX:
            lanes = self._view.lanes_between(self._start.y(), at.y()) or None
        session.ranges.set_marked(MarkedRange(self._band(at), lanes))

    def _measure(self, at: QPointF) -> None:
        hit = self._view.hit(at.x(), at.y())
        lane = "" if hit.box is None or hit.box.lane is None else hit.box.lane.key
        end = self._end_tick(at)
        self._view.session.ruler.set(Ruler(self._fixed_tick, end, lane))

    def _ruler_end_at(self, x: float) -> int | None:
        """Return the far end of the ruler if `x` is on one of its ends."""
        ruler = self._view.session.ruler.current
        return None if ruler is None else self._far_end(ruler.time, x)

    def _zoom(self, at: QPointF) -> None:
        self._view.set_zoom_band(self._band(at))

    def _pan(self, at: QPointF) -> None:
        session = self._view.session
        ticks = self._start_range.duration / self._view.lane_area_width()
        shift = round((self._start.x() - at.x()) * ticks)
        session.viewport.set_visible(self._start_range.shifted(shift))
        self._view.scroll_by(self._last.y() - at.y())

    def _scrub(self, at: QPointF) -> None:
        """Select the op that runs at the cursor, on the selected lane or the first."""
        session, prepared = self._view.session, self._view.prepared()
        if prepared is None:
            return
        tick = self._view.tick_at(at.x())
        self._view.set_cursor_tick(tick)
        index = prepared.index
        key = ""
        if (
            session.selection.current.table == "spans"
            and session.selection.current.active is not None
        ):
            key = index.lane_of_span(session.selection.current.active)
        else:
            for box in prepared.layout:
                if (lane := box.lane) and lane.lane_ids and not lane.track.band:
                    key = lane.key
                    break
        if not key:
            return
        rows = index.rows(key)
        for row in range(len(rows) - 1, -1, -1):
            span = index.span_at(key, row, tick)
            if span is not None:
                session.selection.select_span(int(span), reveal=False)
                return

    def _edge_at(self, x: float) -> int | None:
        """Return the far end of the marked range if `x` is on one of its ends."""
        marked = self._view.session.ranges.marked
        return None if marked is None else self._far_end(marked.time, x)

    def _far_end(self, time: TimeRange, x: float) -> int | None:
        """Return the other end of a range if `x` is on one of its ends."""
        tick = self._view.tick_at(x)
        reach = _EDGE_PX * self._view.ticks_per_px()
        if time.duration <= 2 * reach:
            return None
        if abs(tick - time.start) <= reach:
            return time.end
        if abs(tick - time.end) <= reach:
            return time.start
        return None

    def _drag_edge(self, at: QPointF) -> None:
        session = self._view.session
        if session.ranges.marked is None:
            return
        low, high = sorted((self._fixed_tick, self._end_tick(at)))
        session.ranges.set_marked(
            replace(session.ranges.marked, time=TimeRange(low, high))
        )

    def _on_lower_edge(self, at: QPointF) -> bool:
        hit = self._view.hit(at.x(), at.y())
        below = self._view.hit(at.x(), at.y() + _EDGE_PX)
        return (
            hit.in_header
            and hit.box is not None
            and hit.box.lane is not None
            and below.box is not hit.box
        )

    def _resize_lane(self, at: QPointF) -> None:
        session, prepared = self._view.session, self._view.prepared()
        if prepared is None:
            return
        box = prepared.layout.box_of(self._lane)
        if box is None:
            return
        base = max(12.0, box.height / self._current_factor())
        factor = self._start_factor + (at.y() - self._start.y()) / base
        heights = dict(session.lanes.state.heights)
        heights[self._lane] = round(min(6.0, max(0.6, factor)), 2)
        session.lanes.set_state(
            replace(session.lanes.state, heights=tuple(sorted(heights.items())))
        )

    def _current_factor(self) -> float:
        heights = dict(self._view.session.lanes.state.heights)
        return heights.get(self._lane, 1.0)

    def _move_lane(self, at: QPointF) -> None:
        session, prepared = self._view.session, self._view.prepared()
        hit = self._view.hit(0, at.y())
        if prepared is None or hit.box is None:
            return
        target, dragged = hit.box.lane, prepared.layout.box_of(self._lane)
        if target is None or dragged is None or target.key == self._lane:
            return
        if dragged.pinned != hit.box.pinned or dragged.group != hit.box.group:
            return
        keys = prepared.layout.keys_of_group(dragged.group, pinned=dragged.pinned)
        position = keys.index(target.key)
        keys.remove(self._lane)
        keys.insert(position, self._lane)
        state = session.lanes.state
        if dragged.pinned:
            session.lanes.set_state(replace(state, pinned=tuple(keys)))
            return
        moved = frozenset(keys)
        others = [k for k in state.order if k not in moved]
        session.lanes.set_state(replace(state, order=(*others, *keys)))

    # --- hovering, wheels, trackpads ---------------------------------------

    def _hover(self, at: QPointF) -> None:
        view, self._pointer = self._view, at
        hit = view.hit(at.x(), at.y())
        view.set_hover_span(hit.span, hit.is_wait)
        view.set_cursor_tick(None if hit.in_header else hit.tick)
        shape = Qt.CursorShape.ArrowCursor
        if hit.in_header and self._on_lower_edge(at):
            shape = Qt.CursorShape.SizeVerCursor
        elif (hit.in_header and hit.box is not None) or view.bookmarks_at(at):
            shape = Qt.CursorShape.PointingHandCursor
        elif not hit.in_header and (
            self._edge_at(at.x()) is not None or self._ruler_end_at(at.x()) is not None
        ):
            shape = Qt.CursorShape.SizeHorCursor
        elif view.session.ruler.is_active and not hit.in_header and not hit.on_axis:
            shape = Qt.CursorShape.CrossCursor
        view.set_canvas_cursor(shape)

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        view, session = self._view, self._view.session
        if turn.zooms and turn.y:
            session.viewport.zoom(_ZOOM_STEP**-turn.notches, view.tick_at(at.x()))
        elif turn.x:
            shift = round(-turn.pan_px * view.ticks_per_px())
            session.viewport.set_visible(session.viewport.visible.shifted(shift))
        elif turn.y:
            view.scroll_by(-turn.y)
        return True

    def _pinch(self, factor: float, at: QPointF) -> bool:
        self._view.session.viewport.zoom(1.0 / factor, self._view.tick_at(at.x()))
        return True
