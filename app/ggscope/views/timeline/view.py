"""The timeline: lanes of spans over time, exact at every zoom.

What its picture is drawn from is prepared ahead of it: for a large trace on a worker,
and of very many lanes for those alone that are in view.
"""

import time
from dataclasses import replace

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, Qt, QTimer
from PySide6.QtGui import QContextMenuEvent, QHelpEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QMenu, QScrollBar, QToolTip, QWidget

from ggscope.analysis.filters.text import format_filter
from ggscope.analysis.graph.op_links import OpLinks
from ggscope.analysis.rows.lanes import (
    FEW_LANES,
    PINNED,
    default_collapsed,
    group_key,
)
from ggscope.model.notes import Note
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.units import TimeRange
from ggscope.render.batch import DisplayList
from ggscope.render.export import Figure
from ggscope.render.figure_style import FigureStyle, css_px
from ggscope.render.theme import Theme
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.hit_test import Hit, hit_in_lane, row_at
from ggscope.render.timeline.notes import label_at
from ggscope.render.timeline.prepare import Prepared, PrepareRequest
from ggscope.render.timeline.scene import (
    HEADER_WIDTH,
    HighlightedSpans,
    RulerMark,
    TimelineScene,
    TimeScale,
    head_height,
    time_scale,
)
from ggscope.session.session import Session, TraceChange
from ggscope.views.base.canvas import PaintedView, RasterCanvas
from ggscope.views.base.safe_text import bookmark_tip, show_tip
from ggscope.views.base.view import later
from ggscope.views.timeline.legend import Legend
from ggscope.views.timeline.mouse import Gestures, Mode
from ggscope.views.timeline.smooth_scroll import Glide

SYNC_SPANS = 50_000
"""Traces up to this size are prepared at once; larger ones on a worker."""
PROBE_MS = 1_500
"""The driver is asked for its renderer when the first pictures are out."""
FLASH_MS = 900
"""How long a lane that was gone to is framed."""
REST_S = 1.0
"""A mouse that rested for so long points at nothing any more: what is under it may
move on."""
_KEY = "timeline"


class TimelineView(PaintedView):
    """Lanes of spans under a time axis, with keyboard and mouse of Perfetto."""

    draw_scene = staticmethod(compose_timeline)
    uses_gl = True
    updates_live = True
    probe_ms = PROBE_MS

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Timeline", session, theme, parent)
        self.setObjectName("timeline")
        self._prepared: Prepared | None = None
        self._is_behind = False
        """Whether span ids of the session are not those of what is drawn."""
        self._drawn_selection = Selection()
        self._drawn_links: OpLinks | None = None
        self._scroll_y = 0.0
        self._hover_span = -1
        self._hovers_wait = False
        self.highlighted: HighlightedSpans | None = None
        self._cursor_tick: int | None = None
        self._zoom_band: TimeRange | None = None
        self._mask_number = 0
        self._has_painted = False
        self._requested_lane = ""
        self._flash_lane = ""
        self._flash_timer = QTimer(self)
        self._flash_timer.setSingleShot(True)
        self._flash_timer.setInterval(FLASH_MS)
        self._flash_timer.timeout.connect(self._on_flash_over)
        self._gestures: Gestures = Gestures(self)
        self.glide: Glide | None = None  # made for the first trace that grows
        self._is_calm = False
        self._touched_at = -REST_S
        self.legend = Legend(session, theme, self)
        self.legend.hide()
        self.theme_with(self.legend)
        self.scroll_bar = QScrollBar(Qt.Orientation.Vertical, self)
        self.scroll_bar.setAccessibleName("Scroll lanes")
        self.scroll_bar.valueChanged.connect(self._on_scrolled)
        self.box.setDirection(QBoxLayout.Direction.LeftToRight)
        self.box.addWidget(self.scroll_bar)
        self.connect_until_release(
            (session.viewport.changed, self._on_moved),
            (session.selection.changed, self.repaint_picture),
            (session.linking.linked_changed, self._on_linked_changed),
            (session.linking.op_links_changed, self._on_op_links),
            (session.linking.linked_position_changed, self._on_linked_changed),
            (session.ranges.marked_changed, self.repaint_picture),
            (session.queries.mask_changed, self._on_mask_changed),
            (session.queries.search_changed, self.repaint_picture),
            (session.display.color_by_changed, self.refresh),
            (session.lanes.changed, self.refresh),
            (session.replay.changed, self.set_cursor_tick),
            (session.bookmarks.changed, self._on_bookmarks_changed),
            (session.ruler.changed, self.repaint_picture),
            (session.ruler.facts_changed, self.repaint_picture),
            (session.ruler.active_changed, self._on_measuring),
            (session.display.absolute_time_changed, self.repaint_picture),
            (session.navigator.reveal_requested, self._on_reveal),
            (session.lanes.reveal_requested, self._on_reveal_lane),
            (session.display.overlays_changed, self.repaint_picture),
            (session.critical_path.changed, self._on_linked_changed),
        )
        self._on_linked_changed(None)
        self._refresh_stale()

    # --- the session -------------------------------------------------------

    def release(self) -> None:
        """Prepare nothing any more; the session may outlive this view."""
        super().release()
        self.legend.release()
        self._stand()
        self._prepared = None

    def invalidate(self, change: object = None) -> None:
        """Prepare anew, seen or not: a tab that is turned to has its picture."""
        if change is TraceChange.REPLACED:
            self._scroll_y = 0.0
            self._prepared = None
        # The picture of the last snapshot stays until the next is prepared.
        self._is_behind = change is TraceChange.EXTENDED or self._is_behind
        self._hover_span = -1
        self.refresh()

    def _on_mask_changed(self, _: object) -> None:
        self._mask_number += 1
        self.refresh()

    def _on_moved(self, _: object = None) -> None:
        """Show another time, and what lies under the pointer now."""
        if self.session.is_appending and self.is_computing(_KEY):
            return  # soon, with the spans that are there then
        self._prepare_in_view()
        self._gestures.follow()
        self._canvas.update()

    def _on_linked_changed(self, _: object) -> None:
        """Light up the spans that belong to a selection which is no span.

        Of a span those of the critical path, while that is shown.
        """
        session = self.session
        path = session.critical_path.path
        self.highlighted = None
        if path is not None:
            self.highlighted = HighlightedSpans(np.sort(path.path), chain=path.path)
        elif session.linking.linked.selection.table != "spans":
            looked_at = session.linking.current_span
            self.highlighted = HighlightedSpans(
                session.linking.linked.spans, -1 if looked_at is None else looked_at
            )
        self._canvas.update()

    def _on_op_links(self, links: OpLinks) -> None:
        """Draw the arrows of the selected op, or take away earlier ones."""
        drawn = self._drawn_links
        if links.has_ends or (drawn is not None and drawn.has_ends):
            self._canvas.update()

    def _on_reveal(self, span: int) -> None:
        """Scroll the lane of `span` into view."""
        prepared = self._prepared
        if prepared is None or self._is_behind:
            return
        key, row = prepared.index.row_of_span(span)
        box = prepared.layout.box_of(key)
        if box is None:
            self._on_reveal_lane(key)  # it is hidden, or its group is closed
            return
        if box.fixed:
            return
        top = box.y + (box.row_y[row] if row < len(box.row_y) else 0.0)
        space = self.lane_area_height() - self.fixed_height()
        offset = top - self.fixed_height()
        if not self._scroll_y <= offset <= self._scroll_y + space - box.row_height:
            self.scroll_to(offset - space / 2)

    def _on_reveal_lane(self, key: str) -> None:
        """Show a lane, also one that is hidden or in a closed group, and flash it."""
        session = self.session
        if session.index is None:
            return
        try:
            lane = session.index.lane(key)
        except KeyError:
            return
        self._requested_lane = key
        state, closed = session.lanes.state, session.lanes.state.collapsed
        if closed is None:
            closed = default_collapsed(session.index.lanes)
        group = PINNED if key in state.pinned else lane.group
        if key in state.hidden or group in closed:
            # The lane may need rows that are computed first; see _on_prepared.
            session.lanes.set_state(
                replace(state, hidden=state.hidden - {key}, collapsed=closed - {group})
            )
        self._go_to_requested_lane()

    def _go_to_requested_lane(self) -> None:
        prepared, key = self._prepared, self._requested_lane
        box = None if prepared is None or not key else prepared.layout.box_of(key)
        if box is None:
            return
        self._requested_lane, self._flash_lane = "", key
        self._flash_timer.start()
        if not box.fixed:
            fixed = self.fixed_height()
            space = self.lane_area_height() - fixed
            offset = box.y - fixed
            if not self._scroll_y <= offset <= self._scroll_y + space - box.height:
                self.scroll_to(offset - max(0.0, (space - box.height) / 2))
        self._canvas.update()

    def _on_flash_over(self) -> None:
        self._flash_lane = ""
        self._canvas.update()

    # --- preparing ---------------------------------------------------------

    def refresh(self, _: object = None) -> None:
        """Compute what the next picture needs, on a worker where it is large."""
        session = self.session
        if session.trace is None or session.index is None:
            self._prepared = None
            self._canvas.update()
            return
        request = PrepareRequest(
            session.index,
            session.lanes.state,
            session.display.color_by,
            session.queries.mask,
            self._mask_number,
            self.theme,
            self._near_view(),
        )
        trace = session.trace
        if len(trace.spans) <= SYNC_SPANS and len(trace.lanes) <= FEW_LANES:
            self.cancel(_KEY)
            self._on_prepared(request())
        else:
            title = "Preparing lanes"
            self.run(_KEY, request, self._on_prepared, title, is_urgent=True)

    def _near_view(self) -> tuple[float, float]:
        """Return what is in view and a window's height around it, as lane area."""
        height = self.lane_area_height()
        return self._scroll_y - height, self._scroll_y + 2 * height

    def _prepare_in_view(self) -> None:
        """Prepare lanes of many spans that were not in view before, and now are."""
        prepared = self._prepared
        if prepared is None or not prepared.waiting:
            return
        top, bottom = self._scroll_y, self._scroll_y + self.lane_area_height()
        seen = {
            b.lane.key for b in prepared.layout.boxes_between(top, bottom) if b.lane
        }
        if seen & prepared.waiting and not self.is_computing(_KEY):
            self.refresh()

    def _on_prepared(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._is_behind = False
        self._update_bar()
        self._go_to_requested_lane()
        self._on_moved()

    # --- the picture -------------------------------------------------------

    def scene(self, width: float, height: float, scale: float) -> TimelineScene | None:
        """Return what the picture is composed from, or None without a trace."""
        session, prepared = self.session, self._prepared
        if prepared is None:
            return None
        marked = session.ranges.marked
        if self._zoom_band is not None:
            marked = MarkedRange(self._zoom_band)
        if not self._is_behind:
            self._drawn_selection = session.selection.current
        self._drawn_links = self._shown_links()
        return TimelineScene(
            index=prepared.index,
            layout=prepared.layout,
            visible=session.viewport.visible,
            width=width,
            height=height,
            theme=self.theme,
            scale=scale,
            scroll_y=self._scroll_y,
            header_width=self.header_width(),
            color_by=prepared.color_by,
            mask=prepared.mask,
            mask_token=prepared.mask_token,
            selection=self._drawn_selection,
            marked=marked,
            hits=None if self._is_behind else session.queries.hits,
            hover_span=self._hover_span,
            hovers_wait=self._hovers_wait,
            cursor_tick=self._cursor_tick,
            bookmarks=self._bookmarks(),
            absolute=session.display.absolute_time,
            show_stalls=session.display.shows_stalls,
            show_waits=session.display.shows_waits,
            flash_lane=self._flash_lane,
            highlighted=None if self._is_behind else self.highlighted,
            links=self._drawn_links,
            ruler=self._ruler(),
            waiting=prepared.waiting,
            premultiplied=isinstance(self._canvas, RasterCanvas),
        )

    def _shown_links(self) -> OpLinks | None:
        """Return the links of the selected op that are drawn; None = no arrows."""
        session, linked = self.session, self.session.linking.linked
        is_current = (
            linked.selection == session.selection.current and not self._is_behind
        )
        return linked.op_links if is_current and session.display.shows_arrows else None

    def _ruler(self) -> RulerMark | None:
        session, ruler = self.session, self.session.ruler
        if ruler.current is None or session.trace is None:
            return None
        from ggscope.descriptions.ruler import ruler_lines  # only where one measures

        time = ruler.current.time
        return RulerMark(time, ruler_lines(session.trace, time, ruler.facts))

    def _bookmarks(self) -> tuple[Note, ...]:
        return tuple(mark.as_note() for mark in self.session.bookmarks.items)

    def _on_measuring(self, _: object) -> None:
        """Show by the shape of the mouse that drags measure."""
        self._gestures.follow()

    def _on_bookmarks_changed(self, _: object) -> None:
        """Draw them, and give the lanes the room that their labels leave."""
        self._update_bar()
        self.repaint_picture()

    def compose(self, width: float, height: float, scale: float) -> DisplayList | None:
        """Return the picture, or None where there is none yet."""
        scene = self.scene(width, height, scale)
        return None if scene is None else self.compose_scene(scene)

    def compose_scene(self, scene: TimelineScene) -> DisplayList:
        """Return the picture of a scene, and report when the first one is out."""
        if not self._has_painted:
            self._has_painted = True
            later(self, self._on_first_painted)
        return type(self).draw_scene(scene)

    def moving(self) -> Glide | None:
        """Return what moves the picture on by itself; None while it stands.

        It stands while somebody points at something in it, or reads about that.
        """
        rate = self.session.viewport.moves_by
        if not rate or self._is_calm:
            self._stand()
            return None
        is_pointing = (
            time.monotonic() - self._touched_at < REST_S
            or self._gestures.mode is not Mode.IDLE
            or (QToolTip.isVisible() and self._canvas.underMouse())
        )
        if is_pointing:
            self._stand()
            return None
        if self.glide is None:
            self.glide = Glide(self, self.session.frames, self._on_frame)
        self.glide.rate = rate
        return self.glide

    def _stand(self) -> None:
        """Let the picture move on by itself no more."""
        if self.glide is not None:
            self.glide.stop()

    def _on_frame(self) -> None:
        glide = self.moving()
        if glide is None:
            self._canvas.update()
        elif glide.is_due() and isinstance(self._canvas, RasterCanvas):
            self._canvas.move_on()

    def figure(self) -> Figure | None:
        """Return the lanes as they are open, moved and filtered, and all of them."""
        width, height = css_px(max(self.width(), 640)), css_px(max(self.height(), 360))
        style = FigureStyle(
            width=width, height=height, theme=self.theme.name, seen=True
        )
        return session_figure(self.session, style)

    def _on_first_painted(self) -> None:
        self.first_painted.emit()

    def header_width(self) -> float:
        """Return the width of the lane headers: less in narrow windows."""
        return float(min(HEADER_WIDTH, max(128, self.canvas_size().width() // 5)))

    def set_zoom(self, zoom: float) -> None:
        """Draw everything, texts and lanes, `zoom` times as large."""
        super().set_zoom(zoom)
        self._update_bar()

    def set_calm(self, is_calm: bool) -> None:
        """Move only with what is new, not between that as well."""
        self._is_calm = is_calm

    def head_widget(self) -> QWidget | None:
        """Return the legend, for the head of the pane."""
        return self.legend

    # --- which surface draws -----------------------------------------------

    def canvas_failed(self, message: str) -> None:
        """Fall back to the raster canvas and say so."""
        super().canvas_failed(message)
        self.renderer_failed.emit(f"OpenGL failed ({message}); using CPU rendering.")

    def canvas_ready(self) -> None:
        """Tell what draws, now that the canvas knows."""
        self.renderer_changed.emit(self.renderer_text())

    # --- places ------------------------------------------------------------

    def lane_area_width(self) -> float:
        """Return the width of the part that shows time."""
        return max(1.0, self._canvas.width() / self._zoom - self.header_width())

    def lane_area_height(self) -> float:
        """Return the height of the part that shows lanes."""
        return max(1.0, self._canvas.height() / self._zoom - self.head_height())

    def head_height(self) -> float:
        """Return the height of the axis with the labels of bookmarks."""
        return head_height(len(self.session.bookmarks.items))

    def fixed_height(self) -> float:
        """Return the height of the lanes that do not scroll."""
        if self._prepared is None:
            return 0.0
        return self._prepared.layout.fixed_height

    def tick_at(self, x: float) -> int:
        """Return the time at position `x` of the picture."""
        time = self._time_scale()
        return 0 if time is None else time.tick(x)

    def _time_scale(self) -> TimeScale | None:
        """Return where time lies on the canvas; None without a picture."""
        session = self.session
        if self._prepared is None:
            return None
        zoom = self._zoom
        scale = self._canvas.devicePixelRatioF() * zoom
        width = self._canvas.width() / zoom
        return time_scale(session.viewport.visible, width, self.header_width(), scale)

    def ticks_per_px(self) -> float:
        """Return how much time one pixel stands for."""
        return self.session.viewport.visible.duration / self.lane_area_width()

    def hit(self, x: float, y: float) -> Hit:
        """Return what lies at position (x, y) of the picture."""
        tick = self.tick_at(x)
        in_header = x < self.header_width()
        prepared, head_px = self._prepared, self.head_height()
        if prepared is None or y < head_px:
            return Hit(tick, in_header=in_header, on_axis=y < head_px)
        lane_y = y - head_px
        if lane_y >= self.fixed_height():
            lane_y += self._scroll_y
        box = prepared.layout.box_at(lane_y)
        if box is None or box.lane is None or in_header:
            return Hit(tick, box, in_header=in_header)
        # Its ids are not those of the session any more, or its rows not made yet.
        if self._is_behind or box.lane.key in prepared.waiting:
            return Hit(tick, box, row_at(box, lane_y - box.y))
        return hit_in_lane(
            prepared.index,
            box,
            lane_y,
            tick,
            self.ticks_per_px(),
            has_waits=self.session.display.shows_waits,
        )

    def lanes_between(self, y0: float, y1: float) -> frozenset[str]:
        """Return the keys of the lanes between two heights of the picture."""
        prepared = self._prepared
        if prepared is None:
            return frozenset()
        head_px = self.head_height()
        low, high = sorted((y0 - head_px, y1 - head_px))
        layout, shift = prepared.layout, self._scroll_y
        near = layout.boxes_between(low + shift - 1, high + shift + 1)
        return frozenset(
            box.lane.key
            for box in (*layout.fixed, *(box for box in near if not box.fixed))
            if box.lane is not None
            and box.y - (0 if box.fixed else shift) < high
            and box.y + box.height - (0 if box.fixed else shift) > low
        )

    # --- scrolling ---------------------------------------------------------

    def scroll_by(self, pixels: float) -> None:
        """Scroll the lanes down by `pixels`."""
        self.scroll_to(self._scroll_y + pixels)

    def scroll_to(self, pixels: float) -> None:
        """Scroll so that lane area position `pixels` is at the top."""
        self.scroll_bar.setValue(round(pixels))

    def _on_scrolled(self, value: int) -> None:
        self._scroll_y = float(value)
        self._on_moved()

    def _update_bar(self) -> None:
        total = 0.0 if self._prepared is None else self._prepared.layout.height
        space = self.lane_area_height()
        self.scroll_bar.setRange(0, max(0, round(total - space)))
        self.scroll_bar.setPageStep(max(1, round(space)))
        self.scroll_bar.setSingleStep(24)
        self.scroll_bar.setVisible(self.scroll_bar.maximum() > 0)
        self._scroll_y = float(self.scroll_bar.value())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the scroll bar in step with the size."""
        super().resizeEvent(event)
        self._update_bar()

    # --- input -------------------------------------------------------------

    def canvas_event(self, event: QEvent) -> bool:
        """Handle an input event of the canvas."""
        if event.type() is not QEvent.Type.Leave:
            self._touched_at = time.monotonic()
        if self._prepared is None:
            return False
        if isinstance(event, QHelpEvent):
            self._show_tooltip(event)
            return True
        if isinstance(event, QContextMenuEvent):
            return super().canvas_event(event)
        return self._gestures.handle(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Scroll lanes by the arrow and page keys; the rest are commands."""
        steps = {
            Qt.Key.Key_Up: -24.0,
            Qt.Key.Key_Down: 24.0,
            Qt.Key.Key_PageUp: -self.lane_area_height() * 0.9,
            Qt.Key.Key_PageDown: self.lane_area_height() * 0.9,
        }
        step = steps.get(Qt.Key(event.key()))
        if step is not None and not event.modifiers():
            self.scroll_by(step)
        elif event.key() == Qt.Key.Key_Menu:
            self.show_keyboard_menu()
        else:
            super().keyPressEvent(event)

    def set_cursor_tick(self, tick: int | None) -> None:
        """Put the hair line at `tick`; the session learns it for zooming."""
        if tick == self._cursor_tick:
            return
        self._cursor_tick = tick
        self.session.viewport.cursor_tick = tick
        self._canvas.update()

    def set_hover_span(self, span: int, is_wait: bool = False) -> None:
        """Outline `span`, or the wait behind it, as under the cursor (-1: none)."""
        if (span, is_wait) != (self._hover_span, self._hovers_wait):
            self._hover_span, self._hovers_wait = span, is_wait
            self._canvas.update()

    def set_zoom_band(self, band: TimeRange | None) -> None:
        """Show the region that a zoom drag has covered so far."""
        self._zoom_band = band
        self._canvas.update()

    def toggle_group(self, group: str) -> None:
        """Open or close a lane group."""
        prepared, session = self._prepared, self.session
        if prepared is None:
            return
        state = session.lanes.state
        closed = state.collapsed
        if closed is None:
            closed = default_collapsed(prepared.index.lanes)
        session.lanes.set_state(replace(state, collapsed=closed ^ {group}))

    def lanes_of_group(self, group: str) -> list[str]:
        """Return the keys of the lanes of a group that are neither hidden nor pinned.

        Also of one that is closed.
        """
        if self._prepared is None:
            return []
        lanes, state = self._prepared.index.lanes, self.session.lanes.state
        if group not in lanes.groups:
            return []
        members = np.flatnonzero(lanes.group == lanes.groups.index(group))
        left_out = {*state.hidden, *state.pinned}
        keys = (lanes.keys[at] for at in members.tolist())
        return [key for key in keys if key not in left_out]

    def lane_in_use(self) -> str:
        """Return the lane or group under the pointer, else the selected span's.

        Its key, of a group its `group_key`; "" = none.
        """
        prepared, session = self._prepared, self.session
        if prepared is None:
            return ""
        place = self._gestures.pointer
        box = None if place is None else self.hit(place.x(), place.y()).box
        if box is not None:
            return group_key(box.group) if box.lane is None else box.lane.key
        active = session.selection.current.active
        if session.selection.current.table == "spans" and active is not None:
            return prepared.index.lane_of_span(active)
        return ""

    def menu_at(self, x: float, y: float) -> QMenu:
        """Return the menu of what lies at a position."""
        # Imported on demand: the first picture does without.
        from ggscope.views.timeline.context_menu import build_menu

        return build_menu(self, x, y)

    def _show_tooltip(self, event: QHelpEvent) -> None:
        from ggscope.views.timeline.tooltips import tooltip_for  # as above

        prepared, session = self._prepared, self.session
        if prepared is None:
            return
        at, place = event.pos(), self.position_of(event)
        hit = self.hit(place.x(), place.y())
        text = bookmark_tip(session, self.bookmarks_at(place))
        text = text or tooltip_for(prepared, session, hit, self.ticks_per_px())
        near = QRect(at.x() - 2, at.y() - 2, 5, 5)
        show_tip(event.globalPos(), text, self._canvas, near)

    def bookmarks_at(self, place: QPointF) -> tuple[int, ...]:
        """Return the bookmarks whose label is at a point of the picture."""
        time = self._time_scale()
        if time is None or place.y() > self.head_height():
            return ()
        return label_at(self._bookmarks(), time, place.x(), place.y())

    def pointed_bookmarks(self) -> tuple[int, ...]:
        """Return the bookmarks whose label is under the mouse."""
        place = self._gestures.pointer
        return () if place is None else self.bookmarks_at(place)

    def prepared(self) -> Prepared | None:
        """Return what the present picture is drawn from."""
        return self._prepared


def session_figure(session: Session, style: FigureStyle) -> Figure | None:
    """Return the timeline of a session as a figure; None without a trace."""
    if session.index is None:
        return None
    # as above
    from ggscope.render.timeline.figure import TimelineOptions, timeline_figure

    options = TimelineOptions(
        visible=session.viewport.visible,
        color_by=session.display.color_by,
        mask=session.queries.mask,
        where=format_filter(session.queries.filter),
        state=session.lanes.state,
        selection=session.selection.current,
        marked=session.ranges.marked,
        notes=tuple(mark.as_note() for mark in session.bookmarks.items),
        stalls=session.display.shows_stalls,
        waits=session.display.shows_waits,
        arrows=session.display.shows_arrows,
        critical_path=session.display.shows_critical_path,
        absolute=session.display.absolute_time,
    )
    return timeline_figure(session.index, options, style)
