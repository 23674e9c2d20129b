"""The overview strip: the whole trace, its phases and hits, and what is shown."""

from enum import Enum, auto

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ggscope.analysis.rows.lanes import FEW_LANES
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, shown_form
from ggscope.render.batch import DisplayList
from ggscope.render.theme import Theme
from ggscope.render.timeline.compose import unknown_range, unknown_text
from ggscope.render.timeline.overview import compose_overview
from ggscope.render.timeline.scene import OverviewScene
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.gestures import hold
from ggscope.views.base.safe_text import bookmark_tip, show_tip
from ggscope.views.base.view import later

HEIGHT = 58
EDGE_PX = 6
_NEAR_PX = 4
"""So near to the cursor a bookmark has a tooltip."""
SYNC_SPANS = 50_000
_KEY = "overview"


class _Drag(Enum):
    NONE = auto()
    MOVE = auto()
    START = auto()
    END = auto()
    NEW = auto()


class OverviewView(PaintedView):
    """The whole trace in a strip; drag the frame to pan, its ends to zoom.

    A drag outside the frame shows a new range, a click centres, a double click
    shows everything, the wheel zooms.
    """

    draw_scene = staticmethod(compose_overview)

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Overview of the whole trace", session, theme, parent)
        self.setObjectName("overview")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._drag = _Drag.NONE
        self._drag_tick = 0
        self._drag_x = 0.0
        self._drag_range = TimeRange(0, 1)
        self._ready = False
        self._n_masks = 0
        self._last: DisplayList | None = None
        self.connect_until_release(
            (session.viewport.changed, self.repaint_picture),
            (session.selection.changed, self.repaint_picture),
            (session.ranges.marked_changed, self.repaint_picture),
            (session.queries.search_changed, self.repaint_picture),
            (session.bookmarks.changed, self.repaint_picture),
            (session.display.color_by_changed, self.invalidate),
            (session.display.overlays_changed, self.invalidate),
            (session.queries.mask_changed, self._on_mask_changed),
        )

    def sizeHint(self) -> QSize:
        """Return the strip's height; any width."""
        return QSize(600, round(HEIGHT * self._zoom))

    def minimumSizeHint(self) -> QSize:
        """Return the strip's height."""
        return QSize(120, round(HEIGHT * self._zoom))

    def set_zoom(self, zoom: float) -> None:
        """Draw everything `zoom` times as large."""
        super().set_zoom(zoom)
        self.updateGeometry()

    def _on_mask_changed(self, _: object) -> None:
        self._n_masks += 1
        self.invalidate()

    def forget(self) -> None:
        """Draw an empty strip."""
        self._ready = True
        self.repaint_picture()

    def compute(self, trace: Trace) -> None:
        """Compute the strip once on a worker where the trace is large."""
        is_narrow = len(trace.lanes) <= FEW_LANES
        self._ready = is_narrow and len(trace.spans) <= SYNC_SPANS
        if self._ready:
            self.repaint_picture()
        else:  # the timeline asks first: what the user looks at has priority
            later(self, self._prepare_large)

    def _prepare_large(self) -> None:
        scene = self.scene_now()
        if scene is None:
            return

        def request(context: TaskContext) -> None:
            context.check_cancelled()
            compose_overview(scene)

        title = "Preparing overview"
        self.run(_KEY, request, self._on_ready, title, even_if_held=True)

    def _on_ready(self, _: object) -> None:
        self._ready = True
        self.repaint_picture()

    def scene(self, width: float, height: float, scale: float) -> OverviewScene | None:
        """Return what the strip is composed from, or None without a trace."""
        session = self.session
        if session.index is None:
            return None
        return OverviewScene(
            index=session.index,
            visible=session.viewport.visible,
            width=width,
            height=height,
            theme=self.theme,
            scale=scale,
            color_by=session.display.color_by,
            hits=session.queries.hits,
            selection=session.selection.current,
            marked=session.ranges.marked,
            bookmarks=tuple(b.as_note() for b in session.bookmarks.items),
            mask=session.queries.mask,
            mask_token=None if session.queries.mask is None else self._n_masks,
            show_waits=session.display.shows_waits,
        )

    def compose(self, width: float, height: float, scale: float) -> DisplayList | None:
        """Return the strip; the last one until the new one is there."""
        if self._ready:
            self._last = super().compose(width, height, scale)
            return self._last
        last, size = self._last, (width, height, scale)
        if last is None or size != (last.width, last.height, last.scale):
            return None
        return last

    # --- input -------------------------------------------------------------

    def _extent(self) -> TimeRange:
        if self.session.trace is None:
            return TimeRange(0, 1)
        return self.session.trace.extent

    def _tick(self, x: float) -> int:
        extent = self._extent()
        share = min(1.0, max(0.0, x / max(1, self._canvas.width())))
        return extent.start + round(share * extent.duration)

    def _x(self, tick: int) -> float:
        extent = self._extent()
        share = (tick - extent.start) / max(1, extent.duration)
        return share * self._canvas.width()

    def canvas_event(self, event: QEvent) -> bool:
        """Handle an input event of the canvas."""
        session = self.session
        if session.trace is None:
            return False
        if isinstance(event, QWheelEvent):
            notches = (event.angleDelta().y() or event.angleDelta().x()) / 120
            session.viewport.zoom(1.25**-notches, self._tick(event.position().x()))
            return True
        if event.type() == QEvent.Type.ToolTip:
            at = event.pos()  # type: ignore[attr-defined]  # QHelpEvent
            tick = self._tick(at.x())
            clock, absolute = session.trace.clock, session.display.absolute_time
            text = shown_form(self._extent(), clock, absolute=absolute).text(tick)
            unknown = unknown_range(session.trace)
            if unknown is not None and unknown.contains(tick):
                text += f" · {unknown_text(session.trace)}"
            near = tuple(
                position
                for position, mark in enumerate(session.bookmarks.items)
                if abs(self._x(mark.time.start) - at.x()) <= _NEAR_PX
            )
            show_tip(
                event.globalPos(),  # type: ignore[attr-defined]  # QHelpEvent
                bookmark_tip(session, near) or text,
                self._canvas,
            )
            return True
        if not isinstance(event, QMouseEvent):
            return False
        kind, x = event.type(), event.position().x()
        if kind == QEvent.Type.MouseButtonDblClick:
            session.viewport.fit()
        elif kind == QEvent.Type.MouseButtonPress:
            if event.button() != Qt.MouseButton.LeftButton:
                return False
            self._press(session, x)
        elif kind == QEvent.Type.MouseMove:
            if self._drag is _Drag.NONE:
                self._show_cursor(session, x)
            else:
                self._move(session, x)
        elif kind == QEvent.Type.MouseButtonRelease:
            self._finish(session, x)
        hold(session, event)
        return True

    def _part_at(self, session: Session, x: float) -> _Drag:
        left, right = (
            self._x(session.viewport.visible.start),
            self._x(session.viewport.visible.end),
        )
        narrow = right - left < 3 * EDGE_PX
        if not narrow and abs(x - left) <= EDGE_PX:
            return _Drag.START
        if not narrow and abs(x - right) <= EDGE_PX:
            return _Drag.END
        all_shown = left <= 1 and right >= self._canvas.width() - 1
        if left - 2 <= x <= right + 2 and not all_shown:
            return _Drag.MOVE
        return _Drag.NEW

    def _press(self, session: Session, x: float) -> None:
        self._drag = self._part_at(session, x)
        self._drag_x, self._drag_tick = x, self._tick(x)
        self._drag_range = session.viewport.visible

    def _move(self, session: Session, x: float) -> None:
        tick, old = self._tick(x), self._drag_range
        if self._drag is _Drag.MOVE:
            session.viewport.set_visible(old.shifted(tick - self._drag_tick))
        elif self._drag is _Drag.START:
            session.viewport.set_visible(TimeRange(min(tick, old.end - 1), old.end))
        elif self._drag is _Drag.END:
            session.viewport.set_visible(TimeRange(old.start, max(tick, old.start + 1)))
        elif abs(x - self._drag_x) >= 4:
            low, high = sorted((self._drag_tick, tick))
            session.viewport.set_visible(TimeRange(low, high))

    def _finish(self, session: Session, x: float) -> None:
        if self._drag is _Drag.NEW and abs(x - self._drag_x) < 4:
            visible = session.viewport.visible
            session.viewport.set_visible(
                visible.shifted(self._tick(x) - visible.start - visible.duration // 2)
            )
        self._drag = _Drag.NONE

    def _show_cursor(self, session: Session, x: float) -> None:
        shapes = {
            _Drag.START: Qt.CursorShape.SizeHorCursor,
            _Drag.END: Qt.CursorShape.SizeHorCursor,
            _Drag.MOVE: Qt.CursorShape.OpenHandCursor,
        }
        shape = shapes.get(self._part_at(session, x), Qt.CursorShape.CrossCursor)
        self._canvas.setCursor(shape)
