"""What a timeline or overview picture depends on, and where its parts lie."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filters.masks import SearchHits
from ggscope.analysis.graph.op_links import OpLinks
from ggscope.analysis.rows.columns import column_edges
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneBox, LaneLayout, TimelineLane
from ggscope.model.notes import Note
from ggscope.model.selection import ColorBy, MarkedRange, Selection
from ggscope.model.tables import I64, Array, Spans
from ggscope.model.units import TimeRange
from ggscope.render.batch import Clip
from ggscope.render.text_measurer import TextMeasurer, qt_measurer
from ggscope.render.theme import Theme

AXIS_HEIGHT = 26
NOTE_ROW_PX = 13
"""Height of a row of labels of notes below the axis."""
_MAX_NOTE_ROWS = 3
HEADER_WIDTH = 168
_AXIS_TOP_PX, _AXIS_FOOT_PX = 5.0, 4.0
_TICK_LIMIT = (1 << 62) - 1

HIGHLIGHT_SHARE = 0.3
"""How much of the selection's colour lies over a highlighted span."""
SortedSpans = tuple[I64, I64, I64, int]
"""Ids, starts and ends by start, and the longest of them."""


@dataclass(frozen=True, slots=True, eq=False)
class HighlightedSpans:
    """Spans to highlight, and which lane shows which; made once per selection.

    Attributes
    ----------
    ids : int64[n], span ids, ascending.
    looked_at : the one of them that stands out, -1 none.
    chain : int64[k], those of a chain in which each follows from the one before, in
        its order; lines join them.
    """

    ids: I64
    looked_at: int = -1
    chain: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    _of_lane: dict[str, SortedSpans] = field(default_factory=dict)
    _rows: list[tuple[TraceIndex, I64, I64, list[tuple[str, int]]]] = field(
        default_factory=list
    )

    def chain_rows(self, index: TraceIndex) -> tuple[I64, I64, list[tuple[str, int]]]:
        """Return the chain's spans, the row of each, and lane key and number of rows.

        Found once for each index, since every frame asks.
        """
        if not self._rows or self._rows[0][0] is not index:
            chain = self.chain[self.chain < len(index.trace.spans)]
            numbers: dict[tuple[str, int], int] = {}
            rows = np.array(
                [
                    numbers.setdefault(index.row_of_span(span), len(numbers))
                    for span in chain.tolist()
                ],
                np.int64,
            )
            self._rows[:] = [(index, chain, rows, list(numbers))]
        return self._rows[0][1:]

    def on(self, spans: Spans, lane: TimelineLane) -> SortedSpans:
        """Return those that lie on a lane of the timeline, in order of their start."""
        known = self._of_lane.get(lane.key)
        if known is not None:
            return known
        own = spans_on(spans, lane, self.ids[self.ids < len(spans)])
        own = own[np.argsort(spans.start[own], kind="stable")]
        start, end = spans.start[own], spans.end[own]
        longest = int((end - start).max(initial=0))
        self._of_lane[lane.key] = (own, start, end, longest)
        return own, start, end, longest


def spans_on(spans: Spans, lane: TimelineLane, ids: I64) -> I64:
    """Return those of the spans `ids` that a lane of the timeline shows."""
    if not lane.track.column:
        return ids[np.isin(spans.lane[ids], (*lane.lane_ids, *lane.overlay))]
    column: Array | None = getattr(spans, lane.track.column)
    return ids[:0] if column is None else ids[column[ids] == lane.value]


def note_rows(n_notes: int) -> int:
    """Return how many rows of labels so many notes have; the first is on the axis.

    It does not depend on the view: lanes must not jump while it moves.
    """
    return max(1, min(n_notes, _MAX_NOTE_ROWS))


def head_height(n_notes: int) -> float:
    """Return the height of the axis with the labels of so many notes, pixels."""
    return float(AXIS_HEIGHT + (note_rows(n_notes) - 1) * NOTE_ROW_PX)


@dataclass(frozen=True, slots=True)
class RulerMark:
    """The ruler: from when to when, and the lines of its readout."""

    time: TimeRange
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TimelineScene:
    """Everything that a timeline picture depends on.

    Attributes
    ----------
    width, height : of the whole picture, device-independent pixels; lane
        headers take `header_width` at the left, the axis with the notes
        `head_height` at the top.
    scale : device pixels per device-independent pixel.
    scroll_y : how far the lane area is scrolled.
    mask : bool[n_spans] of the filter, None = all; spans outside are drawn as
        ghosts. `mask_token` identifies it for caches.
    hover_span : span under the cursor, -1; with `hovers_wait` the wait behind it.
    cursor_tick : where the hair line is, None = nowhere.
    bookmarks : of the user, temporary ones too.
    absolute : whether the axis shows the file's own clock.
    flash_lane : key of a lane to frame because it was gone to, "" = none.
    is_figure : nothing of the interface is drawn: no triangles, counts or shares in
        the headers of lanes.
    highlighted : spans that belong to a selection which is no span; None = none.
    links : of the selected op; arrows are drawn for them. None = no arrows.
    ruler : what is measured, None = nothing.
    waiting : keys of lanes whose rows are still being prepared, which stands on them.
    premultiplied : whether large pictures are, see `ImageBatch`; for a screen.
    """

    index: TraceIndex
    layout: LaneLayout
    visible: TimeRange
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    scroll_y: float = 0.0
    header_width: float = HEADER_WIDTH
    color_by: ColorBy = "family"
    mask: npt.NDArray[np.bool_] | None = None
    mask_token: object = None
    selection: Selection = field(default_factory=Selection)
    marked: MarkedRange | None = None
    hits: SearchHits | None = None
    hover_span: int = -1
    hovers_wait: bool = False
    cursor_tick: int | None = None
    bookmarks: tuple[Note, ...] = ()
    absolute: bool = False
    show_stalls: bool = True
    show_waits: bool = True
    flash_lane: str = ""
    is_figure: bool = False
    highlighted: HighlightedSpans | None = None
    links: OpLinks | None = None
    ruler: RulerMark | None = None
    waiting: frozenset[str] = frozenset()
    premultiplied: bool = False
    measurer: TextMeasurer = field(default_factory=qt_measurer)


@dataclass(frozen=True, slots=True, eq=False)
class OverviewScene:
    """Everything that the overview strip depends on: the whole trace, small."""

    index: TraceIndex
    visible: TimeRange
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    color_by: ColorBy = "family"
    hits: SearchHits | None = None
    selection: Selection = field(default_factory=Selection)
    marked: MarkedRange | None = None
    bookmarks: tuple[Note, ...] = ()
    mask: npt.NDArray[np.bool_] | None = None
    mask_token: object = None
    show_waits: bool = True


class TimeScale:
    """Maps ticks to pixels; its columns are whole device pixels.

    Parameters
    ----------
    visible : ticks shown; an empty range counts as one tick long.
    left, right : device-independent pixels, moved to the next device pixel.
    scale : device pixels per device-independent pixel.

    Attributes
    ----------
    x0, x1 : device-independent pixels that the columns cover exactly.
    n_columns : number of device pixel columns, >= 1.
    """

    __slots__ = ("_edges", "duration", "n_columns", "scale", "visible", "x0", "x1")

    def __init__(
        self, visible: TimeRange, left: float, right: float, scale: float
    ) -> None:
        if visible.duration == 0:
            visible = TimeRange(visible.start, visible.start + 1)
        first = round(left * scale)
        self.visible = visible
        self.duration = visible.duration
        self.scale = scale
        self.n_columns = max(round(right * scale) - first, 1)
        self.x0 = first / scale
        self.x1 = (first + self.n_columns) / scale
        self._edges: I64 | None = None

    @property
    def edges(self) -> I64:
        """Ticks between the columns, int64[n_columns + 1]; made when asked for."""
        if self._edges is None:
            self._edges = column_edges(self.visible, self.n_columns)
        return self._edges

    @property
    def px_per_tick(self) -> float:
        """Device-independent pixels per tick."""
        return (self.x1 - self.x0) / self.duration

    def x(self, tick: int) -> float:
        """Return the position of a tick; it may lie outside."""
        return self.x0 + (tick - self.visible.start) * self.px_per_tick

    def tick(self, x: float) -> int:
        """Return the tick at `x`, clamped to what int64 arithmetic bears."""
        tick = self.visible.start + int((x - self.x0) // self.px_per_tick)
        return max(-_TICK_LIMIT, min(tick, _TICK_LIMIT))

    def xs(self, ticks: Array) -> npt.NDArray[np.float64]:
        """Return the positions of many ticks, float64[n].

        Ticks further away than the width of the view are moved to that distance
        before anything becomes a float, so the result is good for float32.
        """
        low = self.visible.start - self.duration
        high = self.visible.end + self.duration
        away = np.clip(ticks.astype(np.int64), low, high) - self.visible.start
        return np.asarray(self.x0 + away * self.px_per_tick, np.float64)

    def column_of(self, ticks: Array) -> I64:
        """Return the column in which each tick lies, 0..n_columns.

        Ticks before the view are at its left edge, those behind it at its right.
        As ``searchsorted(edges, ticks, "right") - 1``, without the search.
        """
        last, edges = self.n_columns, self.edges
        inside = np.clip(ticks, edges[0], edges[-1])
        # A float of a tick is good to one column, and its neighbours are at hand.
        guess = ((inside - edges[0]) * (last / self.duration)).astype(np.int64)
        guess = np.minimum(guess, last)
        guess -= edges[guess] > inside
        guess += edges[np.minimum(guess + 1, last)] <= inside
        return np.asarray(np.minimum(guess, last), np.int64)

    def column_x(self, column: Array) -> npt.NDArray[np.float64]:
        """Return the left edge of columns in device-independent pixels."""
        return np.asarray(self.x0 + column / self.scale, np.float64)

    def snap(self, value: float) -> float:
        """Return `value` on the next device pixel."""
        return round(value * self.scale) / self.scale


def axis_ends(y: float, bottom: float) -> tuple[float, float]:
    """Return where the axis of a lane with a curve has its top and its foot."""
    return y + _AXIS_TOP_PX, bottom - _AXIS_FOOT_PX


def time_scale(
    visible: TimeRange, width: float, header_width: float, scale: float
) -> TimeScale:
    """Return the scale of the lane area of a picture so wide."""
    return TimeScale(visible, min(header_width, width - 1), width, scale)


class TimelineGeometry:
    """Where the parts of a timeline picture lie, in device-independent pixels.

    Attributes
    ----------
    time : scale of the lane area.
    axis_y : top of the axis.
    axis_bottom : its lower end; rows of notes may follow.
    lanes_y : top of the lane area, below the axis and the notes.
    bottom : lower end of the lane area.
    fixed_height : height of the boxes that do not scroll.
    """

    __slots__ = (
        "axis_bottom",
        "axis_y",
        "body_clip",
        "bottom",
        "fixed_clip",
        "fixed_height",
        "lanes_y",
        "scene",
        "time",
    )

    def __init__(self, scene: TimelineScene) -> None:
        self.scene = scene
        self.time = time_scale(
            scene.visible, scene.width, scene.header_width, scene.scale
        )
        self.axis_y = 0.0
        self.axis_bottom = self.axis_y + AXIS_HEIGHT
        self.lanes_y = self.axis_y + head_height(len(scene.bookmarks))
        self.bottom = scene.height
        self.fixed_height = scene.layout.fixed_height
        x, width = self.time.x0, self.time.x1 - self.time.x0
        split = min(self.lanes_y + self.fixed_height, self.bottom)
        self.fixed_clip = Clip(x, self.lanes_y, width, max(split - self.lanes_y, 0))
        self.body_clip = Clip(x, split, width, max(self.bottom - split, 0))

    def box_y(self, box: LaneBox) -> float:
        """Return the top of a box in the picture, on a device pixel."""
        scroll = 0.0 if box.fixed else self.scene.scroll_y
        return self.time.snap(self.lanes_y + box.y - scroll)

    def clip_of(self, box: LaneBox) -> Clip:
        """Return the part of the lane area that `box` may draw in."""
        return self.fixed_clip if box.fixed else self.body_clip

    def visible_boxes(self) -> list[tuple[LaneBox, float]]:
        """Return (box, top in the picture) of the boxes that are to be seen."""
        layout, clip = self.scene.layout, self.body_clip
        # Boxes are moved to whole pixels: those beside the edge are asked as well.
        top = clip.y - self.lanes_y + self.scene.scroll_y - 2
        near = layout.boxes_between(top, top + clip.height + 4)
        boxes = []
        for box in (*layout.fixed, *(box for box in near if not box.fixed)):
            y, clip = self.box_y(box), self.clip_of(box)
            if y < clip.y + clip.height and y + box.height > clip.y:
                boxes.append((box, y))
        return boxes
