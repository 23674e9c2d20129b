"""Mouse, trackpad and context menus of the timeline, one gesture at a time.

With what lies under a point of it, and what is said of the thing under the cursor.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeySequence, QMouseEvent
from PySide6.QtWidgets import QApplication, QMenu

from ggscope.analysis.rows.columns import column_edges
from ggscope.analysis.rows.index import LaneUse, TraceIndex
from ggscope.analysis.rows.lanes import LaneBox, LaneState, TimelineLane, group_key
from ggscope.analysis.rows.waits import Gap
from ggscope.analysis.series import value_at
from ggscope.descriptions.spans import (
    Fact,
    absolute_words,
    gap_text,
    span_facts,
    time_text,
    tooltip_text,
    wait_of,
    wait_text,
)
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.tables import CounterShape
from ggscope.model.tokens import numbers_per_phase, token_text
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_absolute,
    format_count,
    format_exact,
    format_exact_bytes,
    format_share,
)
from ggscope.render.timeline.compose import tells_use, unknown_range
from ggscope.render.timeline.lanes import BYTE_UNITS, WORK_KINDS, format_value
from ggscope.sanitize import Html, html, join_html, markdown_row, tsv_text
from ggscope.session.session import Session
from ggscope.views.base.gestures import CanvasGestures, WheelDelta
from ggscope.views.base.safe_text import add_action, add_menu, copy_name, copy_text

if TYPE_CHECKING:
    from ggscope.views.timeline.view import Prepared, TimelineView


_REACH_PX = 3.0
"""So far away a span is still found: most are narrower than a mouse can point."""
_WIDE_PX, _NEAR_PX = 6.0, 1.0
"""Beside a wait that is wider than the first, only spans so near are."""
_LEAST_GAP_PX = 8.0
"""Narrower gaps are not hatched: a click there is one beside everything."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What lies under a point of the timeline.

    Attributes
    ----------
    tick : time at the point.
    box : lane or group head, None on the axis and below the last lane.
    row : row number inside the lane, -1 between rows.
    span : id of the span there, -1 for none.
    in_header : whether the point is over the lane headers.
    is_wait : whether it is the wait behind `span` that lies there.
    gap : the idle time there, of lanes that work.
    """

    tick: int
    box: LaneBox | None = None
    row: int = -1
    span: int = -1
    in_header: bool = False
    on_axis: bool = False
    is_wait: bool = False
    gap: Gap | None = None


def hit_in_lane(
    index: TraceIndex,
    box: LaneBox,
    y: float,
    tick: int,
    ticks_per_px: float,
    *,
    has_waits: bool = True,
) -> Hit:
    """Return what lies at (tick, y) of a lane's box, `y` in the lane area.

    No span is found where spans are still to be read: they are covered. `has_waits` :
    whether waits are shown.
    """
    row, lane = row_at(box, y - box.y), box.lane
    unknown = unknown_range(index.trace)
    is_covered = unknown is not None and unknown.contains(tick)
    if lane is None or row < 0 or lane.counter >= 0 or is_covered:
        return Hit(tick, box, row)
    found = index.span_at(lane.key, row, tick)
    if found is not None:
        return Hit(tick, box, row, found)
    waiting = index.wait_at(lane.key, row, tick)
    reach_px = _REACH_PX
    if waiting is not None and has_waits:
        wait = wait_of(index.trace, waiting)
        reach_px = _NEAR_PX if wait > _WIDE_PX * ticks_per_px else _REACH_PX
    reach = int(reach_px * ticks_per_px) + 1
    found = index.nearest_span(lane.key, row, tick, reach)
    if found is not None:
        return Hit(tick, box, row, found)
    if waiting is not None:
        span = waiting if has_waits else -1
        return Hit(tick, box, row, span, is_wait=has_waits)
    is_work = lane.kind in WORK_KINDS and not lane.thin
    gap = index.gap_at(lane.key, row, tick) if is_work else None
    return Hit(tick, box, row, gap=gap)


def row_at(box: LaneBox, y: float) -> int:
    """Return the number of the row at `y` of a box, -1 between rows."""
    for row, top in enumerate(box.row_y):
        if top <= y < top + box.row_height:
            return row
    return -1


def tooltip_for(
    prepared: "Prepared", session: Session, hit: "Hit", ticks_per_px: float
) -> Html:
    """Return rich text for what `hit` found; "" where there is nothing to say."""
    trace = session.trace
    if trace is None:
        return Html()
    if hit.in_header and hit.box is not None:
        return _lane_text(prepared, session, hit)
    unknown = unknown_range(prepared.index.trace)
    if unknown is not None and unknown.contains(hit.tick):
        return _unknown_text(trace)
    if hit.span >= 0 and hit.is_wait:
        return wait_tip(trace, hit.span, absolute=session.absolute_time)
    if hit.gap is not None:
        return gap_tip(trace, hit.gap, absolute=session.absolute_time)
    if hit.span >= 0:
        head = _folded_text(prepared, session, hit, ticks_per_px)
        first, *lines = tooltip_text(
            trace, hit.span, absolute=session.absolute_time
        ).split("\n")
        body = join_html([html("{}", line) for line in lines], html("<br>"))
        return join_html([head, html("<b>{}</b><br>{}", first, body)])
    if hit.box is not None and hit.box.lane is not None and hit.box.lane.counter >= 0:
        return _counter_text(session, hit)
    return _marker_text(session, hit, ticks_per_px)


def _unknown_text(trace: Trace) -> Html:
    """Say why nothing is shown here."""
    if trace.is_partial:
        return html("<b>Still reading</b><br>What happened here is not known yet.")
    return html(
        "<b>Not read</b><br>Reading was stopped before this time. "
        "Reload (F5) reads the rest."
    )


def _folded_text(
    prepared: "Prepared", session: Session, hit: "Hit", ticks_per_px: float
) -> Html:
    """Say how many spans share the pixel, where there is more than one."""
    if hit.box is None or hit.box.lane is None:
        return Html()
    rows = prepared.index.row_columns(hit.box.lane.key, prepared.color_by)
    if hit.row >= len(rows):
        return Html()
    width = max(1, round(ticks_per_px))
    start = hit.tick - width // 2
    columns = rows[hit.row].query(column_edges(TimeRange(start, start + width), 1))
    count = int(columns.count[0])
    if count <= 1:
        return Html()
    told = f"busy {format_share(float(columns.busy[0]))}"
    if columns.waited_ticks is not None and session.shows_waits:
        share = int(columns.waited_ticks[0]) / width
        told += f", waiting {format_share(share)}"
    return html(
        "{} spans in this pixel, {}; the longest is:<br>", format_count(count), told
    )


def wait_tip(trace: Trace, span: int, *, absolute: bool) -> Html:
    """Return what is told of the wait behind a span."""
    first, *lines = wait_text(trace, span, absolute=absolute).split("\n")
    body = join_html([html("{}", line) for line in lines], html("<br>"))
    return html("<b>{}</b><br>{}", first, body)


def gap_tip(trace: Trace, gap: Gap, *, absolute: bool) -> Html:
    """Return what is told of idle time between two spans."""
    first, *lines = gap_text(
        trace, gap.time, gap.before, gap.after, absolute=absolute
    ).split("\n")
    body = join_html([html("{}", line) for line in lines], html("<br>"))
    return html("<b>{}</b><br>{}<br>Click to mark it.", first, body)


def _lane_text(prepared: "Prepared", session: Session, hit: "Hit") -> Html:
    box = hit.box
    if box is None:
        return Html()
    if box.lane is None:
        state = "closed" if box.collapsed else "open"
        return html(
            "<b>{}</b><br>{} {}, {}.<br>Click to open or close.",
            box.title,
            format_count(box.count),
            "lane" if box.count == 1 else "lanes",
            state,
        )
    lane = box.lane
    parts = [html("<b>{}</b>", box.title)]
    if box.title != lane.title:
        parts.append(html("{} in the file", lane.title))
    if lane.n_spans:
        parts.append(html("{} spans", format_count(lane.n_spans)))
        parts += _use_lines(prepared, session, lane)
        if prepared.index.has_derived_ends(lane.key):
            parts.append(html("derived: not every end was recorded"))
    stalled = prepared.index.stalled_share(lane.key)
    if stalled is not None:
        parts.append(html("stalled {} of the trace", format_share(stalled)))
    for lane_id in lane.lane_ids:
        model = prepared.index.trace.lanes[lane_id]
        parts += [
            html("{} {}", k, v) for k, v in model.attributes.items() if k != "over"
        ]
    parts.append(
        html("Drag to move, drag the lower edge to resize, right-click for more.")
    )
    return join_html(parts, html("<br>"))


def _use_lines(
    prepared: "Prepared", session: Session, lane: TimelineLane
) -> list[Html]:
    """Return what a lane does in the marked range, or the one in view, and in all."""
    index, marked = prepared.index, session.marked_range
    time = session.visible_range if marked is None else marked.time
    whole = LaneUse(index.busy_share(lane.key), index.wait_share(lane.key))
    lines = [html("{} of the trace", _use_words(whole))]
    if tells_use(lane) and index.trace.extent != time:
        (use,) = index.shares_in((lane.key,), time, prepared.color_by)
        what = "visible" if marked is None else "marked"
        lines.insert(0, html("{} of the {} range", _use_words(use), what))
    return lines


def _use_words(use: LaneUse) -> str:
    """Return "busy 45.0 %", with the shares of waiting and idle time if recorded."""
    words = f"busy {format_share(use.busy)}"
    if use.waiting is None:
        return words
    idle = max(1.0 - use.busy - use.waiting, 0.0)
    return f"{words}, waiting {format_share(use.waiting)}, idle {format_share(idle)}"


def _counter_text(session: Session, hit: "Hit") -> Html:
    trace = session.trace
    if trace is None or hit.box is None or hit.box.lane is None:
        return Html()
    series = trace.counters[hit.box.lane.counter]
    at = int(series.time.searchsorted(hit.tick, "right")) - 1
    if at < 0:
        return html("<b>{}</b><br>no sample yet here", series.name)
    value = float(series.value[at])
    if series.shape is not CounterShape.DELTA:
        value = value_at(series, hit.tick)
    text = _counter_value(value, series.unit)
    if value != value:
        return html("<b>{}</b><br>{}", series.name, text)
    when = time_text(trace, int(series.time[at]), absolute=session.absolute_time)
    return html("<b>{}</b><br>{}<br>sample at {}", series.name, text, when)


def _counter_value(value: float, unit: str) -> str:
    """Return ``1.2 MiB (1,214,720 bytes)``, ``93.0 % (0.929688)``, ``12 tokens``."""
    if value != value:
        return "unknown"
    text = format_value(value, unit)
    is_whole = value.is_integer() and abs(value) >= 1024
    if unit in BYTE_UNITS and is_whole:
        text += f" ({format_exact_bytes(int(value))})"
    if unit == "share":
        text += f" ({value:.6g})"
    return text


def _marker_text(session: Session, hit: "Hit", ticks_per_px: float) -> Html:
    """Describe the markers within a few pixels of the cursor."""
    trace = session.trace
    if trace is None or not len(trace.markers):
        return Html()
    near = abs(trace.markers.time - hit.tick) <= 4 * ticks_per_px
    ids = near.nonzero()[0][:8]
    lines = []
    for i in ids.tolist():
        name = trace.strings[int(trace.markers.name[i])]
        detail = trace.strings[int(trace.markers.detail[i])]
        tick = int(trace.markers.time[i])
        when = time_text(trace, tick, absolute=session.absolute_time)
        below = html("<br>{}", detail) if detail else ""
        lines.append(html("<b>{}</b> at {}{}", name, when, below))
    return join_html(lines, html("<br>"))


ZOOM_STEP = 1.25
"""Zoom factor of one wheel notch."""
LANES_MATTER_PX = 10
"""A drag that moves less than this in y marks all lanes."""
EDGE_PX = 5
SNAP_PX = 6
"""So near to it a drag that measures ends at the edge of a span."""
_MOST_PINNED = 24
"""Groups of more lanes cannot be pinned: they would fill the view."""
_MOST_HIDDEN = 50
"""Of more hidden lanes the menu lists the first; "All" shows the others too."""


class Mode(Enum):
    """What the pressed button is doing."""

    IDLE = auto()
    PRESSED = auto()
    MARK = auto()
    PAN = auto()
    ZOOM = auto()
    SCRUB = auto()
    MOVE_LANE = auto()
    RESIZE_LANE = auto()
    EDGE = auto()


class Gestures(CanvasGestures):
    """Turns mouse events into calls of the session.

    Left drag marks a range, Shift+left or middle drag pans, Ctrl+left drag zooms
    to a region, a drag on the axis scrubs, a drag of a lane header moves the
    lane, a drag of its lower edge changes its height.
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
        """Where in the picture the mouse is; None = elsewhere."""
        return self._pointer

    def _leave(self) -> None:
        self._pointer = None
        self._view.set_hover_span(-1)
        self._view.set_cursor_tick(None)

    def follow(self) -> None:
        """Look again at what lies under a pointer that rests: the picture has moved."""
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
        self._start_range = session.visible_range
        hit = self._view.hit(at.x(), at.y())
        if event.button() == Qt.MouseButton.MiddleButton:
            self._begin(Mode.PAN)
            return True
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        if hit.in_header:
            return self._press_header(at)
        if mods & Qt.KeyboardModifier.ShiftModifier:
            self._begin(Mode.PAN)
        elif (edge := self._edge_at(at.x())) is not None:
            self._fixed_tick = edge
            self._begin(Mode.EDGE)
        elif hit.on_axis:
            self._begin(Mode.SCRUB)
            self._scrub(at)
        else:
            zoom = mods & Qt.KeyboardModifier.ControlModifier
            self._pending = Mode.ZOOM if zoom else Mode.MARK
            self._mode = Mode.PRESSED
        return True

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
            heights = dict(session.lane_state.heights) if session else {}
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
        }
        self._view.set_canvas_cursor(shapes.get(mode, Qt.CursorShape.ArrowCursor))

    def _move(self, event: QMouseEvent, at: QPointF) -> bool:
        if self._mode is Mode.IDLE:
            self._hover(at)
            return True
        if self._mode is Mode.PRESSED:
            far = (at - self._start).manhattanLength()
            if far < QApplication.startDragDistance() / 2:
                return True
            self._begin(self._pending)
        self._snaps = not event.modifiers() & Qt.KeyboardModifier.ShiftModifier
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
                self._view.session.set_visible(band)
        self._hover(at)
        return mode is not Mode.IDLE

    def _click(self, at: QPointF, mods: Qt.KeyboardModifier) -> None:
        session = self._view.session
        hit = self._view.hit(at.x(), at.y())
        span = hit.span
        add = bool(mods & Qt.KeyboardModifier.ControlModifier)
        if span >= 0:
            session.select_span(span, reveal=False, add=add)
        elif not add:
            session.select(Selection())
            marked = session.marked_range
            gap = None if hit.gap is None else MarkedRange(hit.gap.time)
            is_wide = hit.gap is not None and (
                hit.gap.time.duration >= _LEAST_GAP_PX * self._view.ticks_per_px()
            )
            # What all lanes did meanwhile; a second click takes the mark away.
            session.set_marked(gap if is_wide and gap != marked else None)

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        session = self._view.session
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        hit = self._view.hit(at.x(), at.y())
        if hit.span >= 0:
            session.select_span(hit.span, reveal=False)
            session.fit_selection()
        elif hit.on_axis:
            session.fit()
        return True

    # --- what drags do -----------------------------------------------------

    def _end_tick(self, at: QPointF) -> int:
        """Return where a drag is now; one that measures, at the edge of a near span.

        Shift, once the button is down, lets it end anywhere.
        """
        tick = self._view.tick_at(at.x())
        measures = self._mode in (Mode.MARK, Mode.EDGE)
        return self._snapped(at) if measures and self._snaps else tick

    def _snapped(self, at: QPointF) -> int:
        """Return the time of the nearest edge of a span on the row there, or none's."""
        view, tick = self._view, self._view.tick_at(at.x())
        hit, prepared = view.hit(at.x(), at.y()), view.prepared()
        if prepared is None or hit.box is None or hit.box.lane is None or hit.row < 0:
            return tick
        lane = hit.box.lane
        if lane.counter >= 0 or lane.key in prepared.waiting:
            return tick
        reach = int(SNAP_PX * view.ticks_per_px())
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
        if abs(at.y() - self._start.y()) > LANES_MATTER_PX:
            lanes = self._view.lanes_between(self._start.y(), at.y()) or None
        session.set_marked(MarkedRange(self._band(at), lanes))

    def _zoom(self, at: QPointF) -> None:
        self._view.set_zoom_band(self._band(at))

    def _pan(self, at: QPointF) -> None:
        session = self._view.session
        ticks = self._start_range.duration / self._view.lane_area_width()
        shift = round((self._start.x() - at.x()) * ticks)
        session.set_visible(self._start_range.shifted(shift))
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
        if session.selection.table == "spans" and session.selection.active is not None:
            key = index.lane_of_span(session.selection.active)
        else:
            for box in prepared.layout:
                if box.lane is not None and box.lane.lane_ids and box.group != "Tokens":
                    key = box.lane.key
                    break
        if not key:
            return
        rows = index.rows(key)
        for row in range(len(rows) - 1, -1, -1):
            span = index.span_at(key, row, tick)
            if span is not None:
                session.select_span(int(span), reveal=False)
                return

    def _edge_at(self, x: float) -> int | None:
        """Return the far end of the marked range if `x` is on one of its ends."""
        session = self._view.session
        if session.marked_range is None:
            return None
        time, per_px = session.marked_range.time, self._view.ticks_per_px()
        tick = self._view.tick_at(x)
        reach = EDGE_PX * per_px
        if time.duration <= 2 * reach:
            return None
        if abs(tick - time.start) <= reach:
            return time.end
        if abs(tick - time.end) <= reach:
            return time.start
        return None

    def _drag_edge(self, at: QPointF) -> None:
        session = self._view.session
        if session.marked_range is None:
            return
        low, high = sorted((self._fixed_tick, self._end_tick(at)))
        session.set_marked(replace(session.marked_range, time=TimeRange(low, high)))

    def _on_lower_edge(self, at: QPointF) -> bool:
        hit = self._view.hit(at.x(), at.y())
        below = self._view.hit(at.x(), at.y() + EDGE_PX)
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
        heights = dict(session.lane_state.heights)
        heights[self._lane] = round(min(6.0, max(0.6, factor)), 2)
        session.set_lane_state(
            replace(session.lane_state, heights=tuple(sorted(heights.items())))
        )

    def _current_factor(self) -> float:
        heights = dict(self._view.session.lane_state.heights)
        return heights.get(self._lane, 1.0)

    def _move_lane(self, at: QPointF) -> None:
        session, prepared = self._view.session, self._view.prepared()
        hit = self._view.hit(0, at.y())
        if prepared is None or hit.box is None:
            return
        target, own = hit.box.lane, prepared.layout.box_of(self._lane)
        if target is None or own is None or target.key == self._lane:
            return
        if own.pinned != hit.box.pinned or own.group != hit.box.group:
            return
        keys = prepared.layout.keys_of_group(own.group, pinned=own.pinned)
        there = keys.index(target.key)
        keys.remove(self._lane)
        keys.insert(there, self._lane)
        state = session.lane_state
        if own.pinned:
            session.set_lane_state(replace(state, pinned=tuple(keys)))
            return
        moved = frozenset(keys)
        others = [k for k in state.order if k not in moved]
        session.set_lane_state(replace(state, order=(*others, *keys)))

    # --- hovering, wheels, trackpads ---------------------------------------

    def _hover(self, at: QPointF) -> None:
        view, self._pointer = self._view, at
        hit = view.hit(at.x(), at.y())
        view.set_hover_span(hit.span)
        view.set_cursor_tick(None if hit.in_header else hit.tick)
        shape = Qt.CursorShape.ArrowCursor
        if hit.in_header and self._on_lower_edge(at):
            shape = Qt.CursorShape.SizeVerCursor
        elif hit.in_header and hit.box is not None:
            shape = Qt.CursorShape.PointingHandCursor
        elif not hit.in_header and self._edge_at(at.x()) is not None:
            shape = Qt.CursorShape.SizeHorCursor
        view.set_canvas_cursor(shape)

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        view, session = self._view, self._view.session
        if turn.zooms and turn.y:
            session.zoom(ZOOM_STEP**-turn.notches, view.tick_at(at.x()))
        elif turn.x:
            shift = round(-turn.pan_px * view.ticks_per_px())
            session.set_visible(session.visible_range.shifted(shift))
        elif turn.y:
            view.scroll_by(-turn.y)
        return True

    def _pinch(self, factor: float, at: QPointF) -> bool:
        self._view.session.zoom(1.0 / factor, self._view.tick_at(at.x()))
        return True


def build_menu(view: "TimelineView", x: float, y: float) -> QMenu:
    """Return the menu for a position of the picture."""
    menu = QMenu(view)
    menu.setObjectName("timeline-menu")
    session = view.session
    hit = view.hit(x, y)
    if hit.span >= 0:
        _span_entries(view, menu, session, hit)
        menu.addSeparator()
    if not hit.in_header and session.trace is not None:
        _time_entries(view, menu, session, hit)
        menu.addSeparator()
    if hit.box is not None:
        _lane_entries(view, menu, session, hit)
        menu.addSeparator()
    _general_entries(view, menu, session)
    return menu


def _time_entries(
    view: "TimelineView", menu: QMenu, session: Session, hit: "Hit"
) -> None:
    """Add what can be done with a point in time; on the axis also its format."""
    trace = session.trace
    if trace is None:
        return
    here = TimeRange(hit.tick, hit.tick)
    absolute = session.absolute_time
    text = time_text(trace, hit.tick, absolute=absolute)
    exact = format_exact(hit.tick, trace.clock.unit)
    if absolute:
        exact = format_absolute(hit.tick, trace.clock)
    add_action(menu, "Bookmark here", lambda: session.add_bookmark("", here))
    add_action(menu, f"Copy time ({text})", lambda: copy_text(exact))
    if not hit.on_axis:
        return
    forms = add_menu(menu, "Time format")
    other = absolute_words(trace.clock)
    other = other[:1].upper() + other[1:]
    for words, is_absolute in (("From start", False), (other, True)):
        action = add_action(
            forms, words, partial(session.set_absolute_time, is_absolute)
        )
        action.setCheckable(True)
        action.setChecked(session.absolute_time is is_absolute)


def _span_entries(
    view: "TimelineView", menu: QMenu, session: Session, hit: "Hit"
) -> None:
    add = partial(add_action, menu)
    trace = session.trace
    if trace is None:
        return
    span = hit.span
    spans = trace.spans
    time = TimeRange(int(spans.start[span]), int(spans.end[span]))
    name = trace.span_name(span)
    op = trace.op_name(int(spans.op[span]))
    facts = span_facts(trace, span, absolute=session.absolute_time)

    def zoom() -> None:
        session.select_span(span, reveal=False)
        session.fit_selection()

    add(f"Select “{name}”", lambda: session.select_span(span))
    add("Zoom to it", zoom)
    add("Mark its time", lambda: session.set_marked(MarkedRange(time)))
    menu.addSeparator()
    if op:
        add(
            f"Show only {op}",
            lambda: session.set_filter(replace(session.filter, ops=frozenset({op}))),
        )
    if spans.layer is not None and (layer := int(spans.layer[span])) >= 0:
        add(
            f"Show only layer {layer}",
            lambda: session.set_filter(
                replace(session.filter, layers=frozenset({layer}))
            ),
        )
    if spans.token is not None and (token := int(spans.token[span])) >= 0:
        phases = session.filter.phases
        if spans.phase is not None and numbers_per_phase(trace):
            phases = frozenset({int(spans.phase[span])})
        add(
            f"Show only token {token_text(trace, span)}",
            lambda: session.set_filter(
                replace(session.filter, tokens=frozenset({token}), phases=phases)
            ),
        )
    add(f"Find “{name}”", lambda: session.search(name))
    menu.addSeparator()
    add("Copy name", lambda: copy_name(name))
    add("Copy details", lambda: copy_text(_tsv(facts)))
    add("Copy details as Markdown", lambda: copy_text(_markdown(facts)))


def _lane_entries(
    view: "TimelineView", menu: QMenu, session: Session, hit: "Hit"
) -> None:
    add = partial(add_action, menu)
    box, state = hit.box, session.lane_state
    if box is None:
        return
    if box.lane is None:
        _group_entries(view, menu, session, box)
        return
    key, title = box.lane.key, box.title

    def pin() -> None:
        pinned = tuple(k for k in state.pinned if k != key)
        if key not in state.pinned:
            pinned = (*pinned, key)
        session.set_lane_state(replace(state, pinned=pinned))

    word = "Unpin" if key in state.pinned else "Pin"
    add(f"{word} “{title}”", pin)
    add(
        f"Hide “{title}”",
        lambda: session.set_lane_state(replace(state, hidden=state.hidden | {key})),
    )
    _rename_entries(view, menu, session, key)
    for text, factor in (("Taller lane", 1.5), ("Lower lane", 1 / 1.5)):
        heights = dict(state.heights)
        heights[key] = round(min(6.0, max(0.6, heights.get(key, 1.0) * factor)), 2)
        wanted = replace(state, heights=tuple(sorted(heights.items())))
        add(text, partial(session.set_lane_state, wanted))


def _rename_entries(
    view: "TimelineView", menu: QMenu, session: Session, key: str
) -> None:
    """Add what names a lane or group, and what gives it its own title back."""
    ask = add_action(menu, "Rename…", partial(session.lane_name_requested.emit, key))
    ask.setShortcut(QKeySequence(Qt.Key.Key_F2))
    # Shown only: the command of the window has this key already.
    ask.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
    if key in dict(session.lane_state.names):
        add_action(menu, "Its own name", partial(session.rename_lane, key, ""))


def _group_entries(
    view: "TimelineView", menu: QMenu, session: Session, box: LaneBox
) -> None:
    """Add what can be done with a group: open, pin, hide, name it."""
    add, state = partial(add_action, menu), session.lane_state
    word = "Open" if box.collapsed else "Close"
    add(f"{word} “{box.title}”", lambda: view.toggle_group(box.group))
    if box.pinned:
        add(
            "Unpin all",
            lambda: session.set_lane_state(replace(state, pinned=())),
        )
        return
    keys = view.lanes_of_group(box.group)
    pinned = (*state.pinned, *keys)
    add(
        f"Pin “{box.title}”",
        lambda: session.set_lane_state(replace(state, pinned=pinned)),
        enabled=0 < len(keys) <= _MOST_PINNED,
    )
    hidden = state.hidden | frozenset(keys)
    add(
        f"Hide “{box.title}”",
        lambda: session.set_lane_state(replace(state, hidden=hidden)),
    )
    _rename_entries(view, menu, session, group_key(box.group))


def _general_entries(view: "TimelineView", menu: QMenu, session: Session) -> None:
    add = partial(add_action, menu)
    state = session.lane_state
    if state.hidden:
        hidden = menu.addMenu("Show hidden lanes")
        for key in sorted(state.hidden)[:_MOST_HIDDEN]:
            add_action(
                hidden,
                _title_of(session, key),
                partial(
                    session.set_lane_state, replace(state, hidden=state.hidden - {key})
                ),
            )
        hidden.addSeparator()
        add_action(
            hidden,
            "All",
            lambda: session.set_lane_state(replace(state, hidden=frozenset())),
        )
    if session.index is not None:
        groups = frozenset(session.index.lanes.groups)
        add(
            "Open all groups",
            lambda: session.set_lane_state(replace(state, collapsed=frozenset())),
        )
        add(
            "Close all groups",
            lambda: session.set_lane_state(replace(state, collapsed=groups)),
        )
    plain = LaneState(names=state.names)
    add("Reset lanes", lambda: session.set_lane_state(plain))
    menu.addSeparator()
    add("Fit all", session.fit)
    if session.marked_range is not None:
        marked = session.marked_range
        add("Zoom to marked range", lambda: session.set_visible(marked.time))
        add("Clear marked range", lambda: session.set_marked(None))


def _title_of(session: Session, key: str) -> str:
    names = dict(session.lane_state.names)
    if key in names:
        return names[key]
    lanes = None if session.index is None else session.index.lanes
    at = -1 if lanes is None else lanes.position(key)
    return key if lanes is None or at < 0 else lanes.titles[at]


def _tsv(facts: tuple[Fact, ...]) -> str:
    return tsv_text([(f.label, f.exact or f.value) for f in facts])


def _markdown(facts: tuple[Fact, ...]) -> str:
    rows = [markdown_row((f.label, f.exact or f.value)) for f in facts]
    return "\n".join(["| field | value |", "| --- | --- |", *rows])
