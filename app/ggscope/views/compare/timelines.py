"""Page of the comparison with both timelines, A above B, under one zoom."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import Any, ClassVar

from PySide6.QtCore import QEvent, QPointF, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from ggscope.analysis.compare.offset import (
    Anchor,
    MatchedTokens,
    matched_tokens,
    offset_between,
)
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneLayout, LaneState, default_collapsed
from ggscope.analysis.statistics.members import spans_of_group
from ggscope.descriptions.compare import offset_text
from ggscope.model.selection import ColorBy, Selection, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_count
from ggscope.render.compare.timelines import (
    TimelineSide,
    TimelinesScene,
    compose_timelines,
    side_places,
    side_scenes,
    whole_range,
)
from ggscope.render.theme import Theme
from ggscope.render.timeline.hit_test import Hit, hit_in_lane, row_at
from ggscope.render.timeline.prepare import Prepared, PrepareRequest
from ggscope.render.timeline.scene import HEADER_WIDTH, HighlightedSpans
from ggscope.render.timeline.tracks.track import TooltipContext, track_of
from ggscope.sanitize import Html, html, join_html
from ggscope.session import time_ranges
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.gestures import CanvasGestures, WheelDelta
from ggscope.views.base.safe_text import add_action
from ggscope.views.base.widgets import ControlRow, keeps_key
from ggscope.views.compare.compared import Compared

_KEY, _HIGHLIGHT_KEY = "compare-timelines", "compare-highlighted"
_ZOOM_STEP, _KEY_ZOOM, _KEY_PAN = 1.25, 1.5, 0.15
_NUDGE = 0.02
"""Share of the visible range by which a key moves B."""
_LINE_PX, _HEAD_PX = 24.0, 15.0
_LOW_PX, _LOW_FACTOR = 260.0, 0.7
"""In lower pictures rows are so much lower, and groups have no heads."""
_ANCHORS = (
    ("first span", "start"),
    ("first generated token", "phase"),
    ("a token", "token"),
    ("by hand", "offset"),
)
_A, _B = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class BothPrepared:
    """What both timelines are drawn from, and the tokens that they have in common."""

    sides: tuple[Prepared, Prepared]
    tokens: MatchedTokens


@dataclass(frozen=True, slots=True, eq=False)
class BothRequest:
    """Prepares both timelines on a worker."""

    indexes: tuple[TraceIndex, TraceIndex]
    lane_state: LaneState
    color_by: ColorBy
    theme: Theme
    views: tuple[tuple[float, float], tuple[float, float]]

    def __call__(self, context: TaskContext) -> BothPrepared:
        """Return what pictures need; Cancelled passes through."""
        a, b = (
            PrepareRequest(
                index, self.lane_state, self.color_by, None, None, self.theme, view
            )(context)
            for index, view in zip(self.indexes, self.views, strict=True)
        )
        tokens = matched_tokens(self.indexes[_A].trace, self.indexes[_B].trace)
        return BothPrepared((a, b), tokens)


def _highlighted(
    indexes: tuple[TraceIndex, TraceIndex], group: SpanGroup, context: TaskContext
) -> tuple[HighlightedSpans, HighlightedSpans]:
    """Return the spans of a group on both sides."""
    a, b = (
        HighlightedSpans(spans_of_group(index, group, context)) for index in indexes
    )
    return a, b


class TimelinesPane(PaintedView):
    """Both timelines: one zoom, one pan; B is moved against A.

    Attributes
    ----------
    visible : range of A's clock that is shown; B shows the same moved by `offset`.
    offset : ticks that B's clock is ahead.
    token : number of the matched token that both are aligned by, or were brought to.
    anchor_box : by what they are aligned.
    index_of : returns the index of a trace: that of its tab, where it is in one.
    """

    span_clicked = Signal(int, int)  # side, span

    draw_scene = staticmethod(compose_timelines)
    passing: ClassVar = {"cursor_tick": None}

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Timelines of A and B", session, theme, parent)
        self.setObjectName("compare_timelines")
        self.visible, self.offset, self.token = TimeRange(0, 16), 0, 0
        self._compared: Compared | None = None
        self._indexes: tuple[TraceIndex, TraceIndex] | None = None
        self._prepared: BothPrepared | None = None
        self._lane_state = LaneState()
        self._layouts: dict[bool, tuple[LaneLayout, ...]] = {}
        """By whether the picture is low."""
        self._highlighted: tuple[HighlightedSpans, HighlightedSpans] | None = None
        self._group: SpanGroup | None = None
        self._scroll = [0.0, 0.0]
        self._cursor: int | None = None
        self._hover = (-1, -1)
        self._selected_b = Selection()
        self._is_new = True
        self._pointed = _A
        self.index_of: Callable[[Trace], TraceIndex] = TraceIndex
        self._gestures: TimelinesGestures = TimelinesGestures(self)
        self._make_controls()
        self.theme_with(self.controls)
        self.connect_until_release(
            (session.viewport.changed, self._on_viewport),
            (session.selection.changed, self._on_selection),
            (session.display.color_by_changed, self._on_look),
            (session.display.overlays_changed, self.repaint_picture),
        )

    def _make_controls(self) -> None:
        self.controls = ControlRow(self)
        tip = "What lies at the same place in both; or drag the time axis of B"
        self.anchor_box = self.controls.add_choice(
            "align by", _ANCHORS, tip, self._on_anchor
        )
        add = self.controls.add_button
        add("‹ Token", "Previous token of both ([)", partial(self.step_token, -1))
        add("Token ›", "Next token of both (])", partial(self.step_token, 1))
        add("Show all", "Show all of both runs (F)", self.show_all)
        self.box.insertWidget(0, self.controls)

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what was selected while nobody looked."""
        super().showEvent(event)
        self._on_selection()

    def release(self) -> None:
        """Prepare nothing any more, and let go of both traces."""
        super().release()
        self.set_compared(None)

    # -- what is shown -----------------------------------------------------

    def set_compared(self, compared: Compared | None) -> None:
        """Show the first runs of both sides, as soon as the page is seen."""
        before = self._compared
        self._compared = compared
        runs = None if compared is None else (compared.runs_a[0], compared.runs_b[0])
        shown = None if before is None else (before.runs_a[0], before.runs_b[0])
        if runs == shown and self._indexes is not None:
            return
        self.cancel(_KEY)
        self.cancel(_HIGHLIGHT_KEY)
        self._indexes, self._prepared, self._highlighted = None, None, None
        self._selected_b, self._hover, self._cursor = Selection(), (-1, -1), None
        self._scroll, self._is_new, self.token = [0.0, 0.0], True, 0
        with QSignalBlocker(self.anchor_box):
            self.anchor_box.setCurrentIndex(0)
        self.invalidate()

    def compute(self, trace: Trace) -> None:
        """Prepare both timelines on a worker."""
        compared, session = self._compared, self.session
        if compared is None or session.index is None:
            self.repaint_picture()
            return
        if self._indexes is None:
            a, b = compared.runs_a[0], compared.runs_b[0]
            own = session.index if trace is a else TraceIndex(a)
            self._indexes = (own, self.index_of(b))
        space = float(self.canvas_size().height())
        views = tuple((top - space, top + 2 * space) for top in self._scroll)
        request = BothRequest(
            self._indexes, self._lane_state, session.display.color_by, self.theme,
            (views[_A], views[_B]),
        )  # fmt: skip
        self.run(_KEY, request, self._on_prepared, "Preparing both timelines")

    def _on_prepared(self, prepared: BothPrepared) -> None:
        self._prepared = prepared
        self._layouts = {}
        if self._is_new:
            self._is_new = False
            self._offer_anchors(prepared.tokens)
            self._align()
            self.show_all()
            self._scroll_to_work()
        self._on_selection()
        self._say()
        self.repaint_picture()

    def _scroll_to_work(self) -> None:
        """Begin a low picture with the first lanes of work, below those that stay."""
        height = float(self.canvas_size().height())
        if height >= _LOW_PX:
            return
        for side, layout in enumerate(self._fitted(height)):
            boxes = layout.boxes_between(layout.fixed_height, height)
            y = next((b.y for b in boxes if b.lane and b.lane.track.is_work), 0.0)
            self.scroll_lanes(side, y - layout.fixed_height)

    def _offer_anchors(self, tokens: MatchedTokens) -> None:
        """Offer alignments by tokens alone where both have some."""
        is_there = (True, tokens.first_generated >= 0, len(tokens) > 0, True)
        offered = [one for one, is_on in zip(_ANCHORS, is_there, strict=True) if is_on]
        with QSignalBlocker(self.anchor_box):
            self.anchor_box.clear()
            for text, anchor in offered:
                self.anchor_box.addItem(text, anchor)

    def _on_look(self, _: object = None) -> None:
        """Prepare the rows in another colouring."""
        if self._indexes is not None:
            self.invalidate()

    def _on_viewport(self, visible: TimeRange) -> None:
        """Follow what the window's timeline shows."""
        if self._prepared is not None and not self.isHidden():
            self.set_visible(visible)

    def highlight(self, group: SpanGroup | None) -> None:
        """Highlight the spans of a group in both; of a selected one they are anyway."""
        if group != self._group:
            self._group = group
            self._on_selection()

    def _on_selection(self, _: object = None) -> None:
        """Highlight the spans of a selected group in both."""
        group = self.session.selection.current.group or self._group
        self._highlighted = None
        self.cancel(_HIGHLIGHT_KEY)
        if group is not None and self._indexes is not None and self.isVisible():
            request = partial(
                _highlighted, self._indexes, SpanGroup(group.by, group.key)
            )
            self.run(
                _HIGHLIGHT_KEY,
                request,
                self._on_highlighted,
                "Finding spans of both runs",
            )
        self.repaint_picture()

    def _on_highlighted(
        self, highlighted: tuple[HighlightedSpans, HighlightedSpans]
    ) -> None:
        self._highlighted = highlighted
        self.repaint_picture()

    # -- alignment ---------------------------------------------------------

    @property
    def anchor(self) -> Anchor:
        """By what the timelines are aligned."""
        anchor: Anchor = self.anchor_box.currentData()
        return anchor

    @property
    def tokens(self) -> MatchedTokens | None:
        """The tokens of both runs; None before they are known."""
        return None if self._prepared is None else self._prepared.tokens

    def set_anchor(self, anchor: Anchor) -> None:
        """Align by something else."""
        self.anchor_box.setCurrentIndex(self.anchor_box.findData(anchor))

    def _on_anchor(self) -> None:
        tokens = self.tokens
        if self.anchor == "token" and tokens is not None:
            self.token = max(tokens.first_in(self.visible), 0)
        self._align()
        self.repaint_picture()

    def _align(self) -> None:
        """Move B to where the anchor puts it."""
        compared, tokens = self._compared, self.tokens
        if compared is None or tokens is None or self.anchor == "offset":
            return
        a, b = compared.runs_a[0], compared.runs_b[0]
        self.offset = offset_between(a, b, tokens, self.anchor, self.token)
        self._say()

    def move_b(self, ticks: int) -> None:
        """Move B's spans that far to the right, by hand."""
        with QSignalBlocker(self.anchor_box):
            self.anchor_box.setCurrentIndex(self.anchor_box.findData("offset"))
        self.offset -= ticks
        self._say()
        self.repaint_picture()

    def step_token(self, by: int) -> None:
        """Align by a token further on, and show it in both."""
        tokens = self.tokens
        if tokens is None or not len(tokens):
            return
        if self.anchor == "token":
            self.token = min(max(self.token + by, 0), len(tokens) - 1)
            self._align()
        else:
            self.set_anchor("token")
        row = self.token
        longest = max(
            int(tokens.end_a[row] - tokens.start_a[row]),
            int(tokens.end_b[row] - tokens.start_b[row]),
        )
        start = int(tokens.start_a[row])
        self.set_visible(time_ranges.with_air(TimeRange(start, start + longest)))

    def _say(self) -> None:
        """Write how B lies, and which token both are at."""
        compared, tokens = self._compared, self.tokens
        if compared is None or tokens is None:
            return
        text = offset_text(self.offset, self.anchor, compared.unit)
        if self.anchor == "token" and len(tokens):
            number, n = format_count(self.token + 1), format_count(len(tokens))
            text = f"{tokens.keys[self.token]} ({number} of {n}), {text}"
        n_a, n_b = len(compared.runs_a), len(compared.runs_b)
        if max(n_a, n_b) > 1:
            text += f"; A is run 1 of {format_count(n_a)}, B of {format_count(n_b)}"
        self.controls.message.setText(text)

    # -- zoom and pan ------------------------------------------------------

    def limits(self) -> TimeRange:
        """Return how far one can pan: both runs, as they lie now, and some air."""
        compared = self._compared
        if compared is None:
            return self.visible
        a, b = compared.runs_a[0].extent, compared.runs_b[0].extent
        return time_ranges.bounds(whole_range((a, b), self.offset))

    def set_visible(self, visible: TimeRange) -> None:
        """Show this range of A's clock, moved into the limits."""
        self.visible = time_ranges.clamped(visible, self.limits())
        self._gestures.follow()
        self.repaint_picture()

    def show_all(self) -> None:
        """Show all of both runs."""
        compared = self._compared
        if compared is not None:
            a, b = compared.runs_a[0].extent, compared.runs_b[0].extent
            whole = whole_range((a, b), self.offset)
            self.set_visible(time_ranges.fitted(whole))

    def zoom_time(self, factor: float, x: float | None = None) -> None:
        """Make the range `factor` times as wide around a pixel, or its middle."""
        scene = self.scene_now()
        centre = self._cursor
        if x is not None and scene is not None:
            centre = scene.time.tick(x)
        self.set_visible(
            time_ranges.zoomed(self.visible, factor, centre, self.limits())
        )

    def pan_px(self, pixels: float) -> None:
        """Move the range so that the picture goes so far to the right."""
        self.set_visible(self.visible.shifted(-round(pixels * self.ticks_per_px())))

    def ticks_per_px(self) -> float:
        """Return how much time a pixel is."""
        scene = self.scene_now()
        return 0.0 if scene is None else 1.0 / scene.time.px_per_tick

    def scroll_lanes(self, side: int, pixels: float) -> None:
        """Scroll the lanes of a side down by `pixels`."""
        scene = self.scene_now()
        if scene is None:
            return
        place = side_places(scene)[side]
        layout = (scene.a, scene.b)[side].layout
        max_scroll = max(layout.height - place.content_height, 0.0)
        self._scroll[side] = min(max(self._scroll[side] + pixels, 0.0), max_scroll)
        prepared = self._prepared
        if prepared is not None and prepared.sides[side].waiting:
            self.invalidate()
        self.repaint_picture()

    # -- picture -----------------------------------------------------------

    def scene(self, width: float, height: float, scale: float) -> TimelinesScene | None:
        """Return what the picture is composed from; None before it is prepared."""
        prepared, compared = self._prepared, self._compared
        if prepared is None or compared is None:
            return None
        chosen = self.session.selection.current
        # Ids of another trace than that of the tab say nothing here.
        is_own = prepared.sides[_A].index is self.session.index
        own = chosen if is_own and chosen.table == "spans" else Selection()
        highlighted, layouts = self._highlighted or (None, None), self._fitted(height)
        a, b = (
            TimelineSide(
                one.index, layouts[i], title, self._scroll[i], selection,
                highlighted[i],
                self._hover[1] if self._hover[0] == i else -1, one.waiting,
            )
            for i, one, title, selection in (
                (_A, prepared.sides[_A], compared.title_a, own),
                (_B, prepared.sides[_B], compared.title_b, self._selected_b),
            )
        )  # fmt: skip
        return TimelinesScene(
            a, b, self.visible, self.offset, width, height, self.theme, scale,
            header_width=float(min(HEADER_WIDTH, max(128, width // 5))),
            color_by=prepared.sides[_A].color_by, cursor_tick=self._cursor,
            shows_waits=self.session.display.shows_waits,
        )  # fmt: skip

    def _fitted(self, height: float) -> tuple[LaneLayout, ...]:
        """Return the lanes of both sides as a picture of that height has space for."""
        is_low = height < _LOW_PX
        if is_low not in self._layouts and self._prepared is not None:
            # Two timelines in one pane: heads of groups are low.
            factor, head_px = (_LOW_FACTOR, 0.0) if is_low else (1.0, _HEAD_PX)
            self._layouts[is_low] = tuple(
                one.layout.scaled(factor, head_px) for one in self._prepared.sides
            )
        return self._layouts.get(is_low, ())

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return that a picture is on its way."""
        return ("", "") if self._compared is None else ("Preparing both timelines…", "")

    def figure_options(self) -> dict[str, Any]:
        """Return the options of the figure that shows the same."""
        state = self._lane_state
        return {
            "visible": self.visible,
            "anchor": self.anchor,
            "token": self.token,
            "offset": self.offset if self.anchor == "offset" else None,
            "color_by": self.session.display.color_by,
            "waits": self.session.display.shows_waits,
            "state": None if state == LaneState() else state,
        }

    # -- what lies where -----------------------------------------------------

    def side_at(self, y: float) -> int:
        """Return which timeline lies at a height: 0 = A, 1 = B."""
        scene = self.scene_now()
        return _A if scene is None or y < side_places(scene)[_B].top else _B

    def hit(self, x: float, y: float) -> tuple[int, Hit]:
        """Return the side, and what lies at a position, in that side's own clock."""
        side, scene = self.side_at(y), self.scene_now()
        if scene is None:
            return side, Hit(0)
        place, part = side_places(scene)[side], side_scenes(scene)[side]
        tick = scene.time.tick(x) + (self.offset if side == _B else 0)
        in_header = x < scene.header_width
        if y < place.lanes:
            is_axis = y >= place.axis
            return side, Hit(tick, in_header=in_header, on_axis=is_axis)
        lane_y = y - place.lanes
        if lane_y >= part.layout.fixed_height:
            lane_y += part.scroll_y
        box = part.layout.box_at(lane_y)
        if box is None or box.lane is None or in_header:
            return side, Hit(tick, box, in_header=in_header)
        if box.lane.key in part.waiting:
            return side, Hit(tick, box, row_at(box, lane_y - box.y))
        hit = hit_in_lane(
            part.index, box, lane_y, tick, self.ticks_per_px(),
            has_waits=scene.shows_waits,
        )  # fmt: skip
        return side, hit

    def point_at(self, at: QPointF | None) -> None:
        """Put the hair lines, and outline the span under the mouse; None = left."""
        scene = self.scene_now()
        if at is None or scene is None:
            self._cursor, self._hover = None, (-1, -1)
        else:
            side, hit = self.hit(at.x(), at.y())
            self._pointed = side
            is_over = at.x() >= scene.header_width
            self._cursor = scene.time.tick(at.x()) if is_over else None
            self._hover = (side, hit.span)
        self.repaint_picture()

    def click(self, x: float, y: float) -> None:
        """Select the span there in its tab; open or close a group of lanes.

        `span_clicked` hands it to whoever knows the groups of both sides.
        """
        side, hit = self.hit(x, y)
        if hit.in_header and hit.box is not None and hit.box.lane is None:
            self.toggle_group(hit.box.group)
        elif side == _A:
            if hit.span >= 0:
                self.session.selection.select_span(hit.span, reveal=False)
                self.span_clicked.emit(_A, hit.span)
            elif not hit.in_header:
                self.session.clear_selection()
        else:
            ids = (hit.span,) if hit.span >= 0 else ()
            self._selected_b = Selection("spans", ids) if ids else Selection()
            if ids:
                self.span_clicked.emit(_B, hit.span)
            self.repaint_picture()

    def toggle_group(self, group: str) -> None:
        """Open or close a group of lanes in both."""
        if self._indexes is None:
            return
        closed = self._lane_state.collapsed
        if closed is None:
            both = (default_collapsed(index.lanes) for index in self._indexes)
            closed = frozenset().union(*both)
        self._lane_state = replace(self._lane_state, collapsed=closed ^ {group})
        self.invalidate()

    def fit_span(self, x: float, y: float) -> None:
        """Show the span there, and what the other run did meanwhile."""
        side, hit = self.hit(x, y)
        prepared = self._prepared
        if prepared is None or hit.span < 0:
            return
        spans = prepared.sides[side].index.trace.spans
        shift = self.offset if side == _B else 0
        start, end = int(spans.start[hit.span]), int(spans.end[hit.span])
        self.set_visible(time_ranges.with_air(TimeRange(start - shift, end - shift)))

    def tooltip_at(self, x: float, y: float) -> Html:
        """Return what is known of the span, lane or group at a position."""
        prepared, compared = self._prepared, self._compared
        if prepared is None or compared is None:
            return Html()
        side, hit = self.hit(x, y)
        if hit.on_axis and side == _B:
            return html("Drag to move B against A. Shift+Left and Shift+Right, too.")
        one, box = prepared.sides[side], hit.box
        if box is None or box.lane is None:
            return Html()
        shift = self.offset if side == _B else 0
        context = TooltipContext(
            trace=one.index.trace,
            index=one.index,
            color_by=one.color_by,
            ticks_per_px=self.ticks_per_px(),
            time=self.visible.shifted(shift),
            time_title="visible range",
            absolute=False,
            shows_waits=self.session.display.shows_waits,
        )
        track = track_of(box.lane)
        if hit.in_header:
            return join_html(track.header_lines(context, box.title), html("<br>"))
        return track.tooltip(context, hit)

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a position."""
        tokens, menu = self.tokens, QMenu(self)
        if tokens is None:
            return None
        side, hit = self.hit(x, y)
        if hit.span >= 0:
            add_action(menu, "Show this span", partial(self.fit_span, x, y))
        if len(tokens):
            tick = hit.tick - (self.offset if side == _B else 0)
            row = tokens.nearest(tick)
            text = f"Align by {tokens.keys[row]} of A"
            add_action(menu, text, partial(self.align_by_token, row))
        if tokens.first_generated >= 0:
            align = partial(self.set_anchor, "phase")
            add_action(menu, "Align by first generated token", align)
        add_action(menu, "Align by first span", partial(self.set_anchor, "start"))
        add_action(menu, "Show all", self.show_all)
        return menu

    def align_by_token(self, row: int) -> None:
        """Align by a matched token."""
        with QSignalBlocker(self.anchor_box):
            self.anchor_box.setCurrentIndex(self.anchor_box.findData("token"))
        self.token = row
        self._align()
        self.repaint_picture()

    # -- input -------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Take its keys before the window's shortcuts while there is a picture."""
        return keeps_key(event, self._action) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Zoom, pan, step and move B by keys."""
        action = self._action(event)
        if action is None:
            super().keyPressEvent(event)
        else:
            action()

    def _action(self, event: QKeyEvent) -> Callable[[], object] | None:
        """Return what a key does; None for a key of the window."""
        if self._prepared is None:
            return None
        key, mods = Qt.Key(event.key()), event.modifiers()
        step = round(self.visible.duration * _KEY_PAN)
        if mods == Qt.KeyboardModifier.ShiftModifier:
            nudge = max(round(self.visible.duration * _NUDGE), 1)
            return {
                Qt.Key.Key_Left: partial(self.move_b, -nudge),
                Qt.Key.Key_Right: partial(self.move_b, nudge),
            }.get(key)
        plain = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
        if mods not in plain:
            return None

        def pan(ticks: int) -> None:
            self.set_visible(self.visible.shifted(ticks))

        zoom_in, zoom_out = 1 / _KEY_ZOOM, _KEY_ZOOM
        page = float(self.canvas_size().height()) / 2
        actions: dict[Qt.Key, Callable[[], object]] = {
            Qt.Key.Key_W: partial(self.zoom_time, zoom_in),
            Qt.Key.Key_S: partial(self.zoom_time, zoom_out),
            Qt.Key.Key_A: partial(pan, -step),
            Qt.Key.Key_D: partial(pan, step),
            Qt.Key.Key_Left: partial(pan, -step),
            Qt.Key.Key_Right: partial(pan, step),
            Qt.Key.Key_Up: partial(self.scroll_lanes, self._pointed, -_LINE_PX),
            Qt.Key.Key_Down: partial(self.scroll_lanes, self._pointed, _LINE_PX),
            Qt.Key.Key_PageUp: partial(self.scroll_lanes, self._pointed, -page),
            Qt.Key.Key_PageDown: partial(self.scroll_lanes, self._pointed, page),
            Qt.Key.Key_BracketLeft: partial(self.step_token, -1),
            Qt.Key.Key_BracketRight: partial(self.step_token, 1),
            Qt.Key.Key_F: self.show_all,
        }
        return actions.get(key)


class _Mode(Enum):
    """What the pressed mouse button does."""

    IDLE = auto()
    PRESSED = auto()
    PAN = auto()
    MOVE_B = auto()


class TimelinesGestures(CanvasGestures):
    """Left drag pans, a drag of B's axis or Shift+left drag in B moves B."""

    def __init__(self, view: TimelinesPane) -> None:
        super().__init__(view)
        self._view = view
        self._mode, self._pending = _Mode.IDLE, _Mode.PAN
        self._start, self._last = QPointF(), QPointF()
        self._side = _A
        self._pointer: QPointF | None = None

    def follow(self) -> None:
        """Update what lies under a resting mouse after the picture has moved."""
        if self._pointer is not None and self._mode is _Mode.IDLE:
            self._view.point_at(self._pointer)

    def _is_ready(self) -> bool:
        return self._view.scene_now() is not None

    def _leave(self) -> None:
        self._pointer = None
        self._view.point_at(None)

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        buttons = (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton)
        if event.button() not in buttons:
            return False
        side, hit = self._view.hit(at.x(), at.y())
        has_shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        moves = side == _B and (hit.on_axis or has_shift) and not hit.in_header
        self._pending = _Mode.MOVE_B if moves else _Mode.PAN
        self._mode, self._side = _Mode.PRESSED, side
        self._start = self._last = at
        return True

    def _move(self, event: QMouseEvent, at: QPointF) -> bool:
        self._pointer = at
        view = self._view
        if self._mode is _Mode.IDLE:
            view.point_at(at)
            side, hit = view.hit(at.x(), at.y())
            is_handle = side == _B and hit.on_axis and not hit.in_header
            shape = Qt.CursorShape
            view.set_canvas_cursor(
                shape.SizeHorCursor if is_handle else shape.ArrowCursor
            )
            return True
        if self._mode is _Mode.PRESSED:
            distance = (at - self._start).manhattanLength()
            if distance < QApplication.startDragDistance() / 2:
                return True
            self._mode = self._pending
        dx, dy = at.x() - self._last.x(), at.y() - self._last.y()
        if self._mode is _Mode.MOVE_B:
            view.move_b(round(dx * view.ticks_per_px()))
        else:
            view.pan_px(dx)
            if dy:
                view.scroll_lanes(self._side, -dy)
        self._last = at
        return True

    def _release(self, event: QMouseEvent, at: QPointF) -> bool:
        mode, self._mode = self._mode, _Mode.IDLE
        if mode is _Mode.PRESSED and event.button() == Qt.MouseButton.LeftButton:
            self._view.click(at.x(), at.y())
        return mode is not _Mode.IDLE

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        _, hit = self._view.hit(at.x(), at.y())
        if hit.on_axis:
            self._view.show_all()
        else:
            self._view.fit_span(at.x(), at.y())
        return True

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        if turn.zooms:
            self._view.zoom_time(_ZOOM_STEP**-turn.notches, at.x())
        elif turn.x:
            self._view.pan_px(turn.pan_px)
        elif turn.y:
            self._view.scroll_lanes(self._view.side_at(at.y()), -turn.y)
        return True

    def _pinch(self, factor: float, at: QPointF) -> bool:
        self._view.zoom_time(1 / factor, at.x())
        return True
