"""Collects what lies on the lanes of a region: rows of spans, stalls, curves."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.rows.columns import Columns, RowColumns, query_many
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneBox, TimelineLane
from ggscope.analysis.rows.rows import Row
from ggscope.model.tables import Array
from ggscope.render.batch import (
    Align,
    Batch,
    Clip,
    Face,
    HitRegions,
    Pattern,
    RectList,
    Text,
    TextList,
)
from ggscope.render.theme import with_alpha
from ggscope.render.timeline.rows import (
    LABEL_PX,
    RowPicture,
    RowsDraft,
    RowStyle,
    stack_levels,
    stall_color,
)
from ggscope.render.timeline.scene import TimelineGeometry, TimelineScene, TimeScale
from ggscope.render.timeline.tracks.track import Track, track_of

_WAITING_PX = 8.0
_MAX_REASONS = 100

_MAX_VIEWS = 3
"""Several timelines may show a trace, each at a size of its own."""
# Not keyed by the rows: their `Columns` refer to them, so none would ever go.
_last_columns: DerivedCache[
    TraceIndex, dict[tuple[object, ...], dict[tuple[RowColumns, int], Columns]]
] = DerivedCache("columns of lanes")


@dataclass(frozen=True, slots=True, eq=False)
class _PlacedRow:
    """A row to draw, whose columns are asked for together with those of others.

    Attributes
    ----------
    ends : first start and last end of its spans, None where idle time is not shown.
    """

    y0: float
    y1: float
    style: RowStyle
    shown: RowColumns
    ghost: RowColumns | None
    ends: tuple[int, int] | None
    n_levels: int


@dataclass(frozen=True, slots=True, eq=False)
class LanePlaces:
    """What lies where on the lanes of a region, whatever time is in view.

    Attributes
    ----------
    grounds : background of the boxes.
    covered : top and bottom of these; None where they leave gaps.
    rows : of the tracks that draw nothing else.
    others : the other tracks, with their boxes and the tops of these.
    texts : what stands on lanes that are not ready.
    """

    grounds: tuple[Batch, ...]
    covered: tuple[float, float] | None
    rows: tuple[_PlacedRow, ...]
    others: tuple[tuple[Track, LaneBox, float], ...]
    texts: tuple[Text, ...]


def place_lanes(
    geometry: TimelineGeometry, clip: Clip, boxes: Sequence[tuple[LaneBox, float]]
) -> LanePlaces:
    """Return what lies where on `boxes`, each with its top in the picture."""
    scene, time, theme = geometry.scene, geometry.time, geometry.scene.theme
    grounds: list[tuple[float, float, int]] = []
    rows: list[_PlacedRow] = []
    others: list[tuple[Track, LaneBox, float]] = []
    texts: list[Text] = []
    for box, y in boxes:
        lane, bottom = box.lane, time.snap(y + box.height)
        grounds.append((y, bottom, theme.pane if lane is None else theme.lane))
        if lane is None:
            continue
        if lane.key in scene.waiting:
            middle, at = (y + bottom) / 2, time.x0 + _WAITING_PX
            texts.append(Text(at, middle, "preparing …", theme.dim, 10.0, clip=clip))
            continue
        track = track_of(lane)
        if track.style is not None and track.has_plain_rows:
            rows += _placed_rows(scene, time, clip, lane, box, y, track.style)
        else:
            others.append((track, box, y))
    return LanePlaces(
        tuple(_ground_batches(grounds, time, clip)),
        _covered(grounds, clip),
        tuple(rows),
        tuple(others),
        tuple(texts),
    )


def _placed_rows(
    scene: TimelineScene,
    time: TimeScale,
    clip: Clip,
    lane: TimelineLane,
    box: LaneBox,
    y: float,
    style: RowStyle,
) -> Iterator[_PlacedRow]:
    """Yield the rows of a lane in view; spans outside the filter are ghosts."""
    full = scene.index.row_columns(lane.key, scene.color_by)
    shown = full
    if scene.mask is not None and not lane.track.band:
        shown = scene.index.filtered_columns(
            lane.key, scene.color_by, scene.mask, scene.mask_token
        )
    is_filtered = shown is not full
    for number in range(min(len(full), len(box.row_y))):
        y0, y1 = row_extent(time, box, number, y)
        if y1 <= clip.y or y0 >= clip.y + clip.height:
            continue
        row, ends = full[number].row, None
        if lane.track.is_work and not is_filtered and len(row):
            ends = (int(row.start[0]), int(row.end[-1]))
        ghost = full[number] if is_filtered else None
        n_levels = stack_levels(style, y1 - y0, time.scale)
        yield _PlacedRow(y0, y1, style, shown[number], ghost, ends, n_levels)


def row_extent(
    time: TimeScale, box: LaneBox, row: int, y: float
) -> tuple[float, float]:
    """Return top and bottom of a row's spans, one or two pixels inside."""
    inset = 1.0 if box.lane is not None and box.lane.track.is_thin else 2.0
    top = y + box.row_y[row]
    return time.snap(top + inset), time.snap(top + box.row_height - inset)


def _ground_batches(
    grounds: list[tuple[float, float, int]], time: TimeScale, clip: Clip
) -> list[Batch]:
    """Return the backgrounds of the boxes; grid lines go on top of them."""
    if not grounds:
        return []
    y0, y1, fill = (np.array(values) for values in zip(*grounds, strict=True))
    rects = RectList()
    rects.add(np.full(len(y0), time.x0), time.x1, y0, y1, fill)
    return list(rects.batch(clip=clip))


def _covered(
    grounds: list[tuple[float, float, int]], clip: Clip
) -> tuple[float, float] | None:
    if not grounds:
        return None
    tops, bottoms, fills = zip(*grounds, strict=True)
    if tops[1:] != bottoms[:-1] or any(fill >> 24 < 255 for fill in fills):
        return None
    return max(tops[0], clip.y), min(bottoms[-1], clip.y + clip.height)


class LanesDraft:
    """Collects the contents of the boxes of one region (fixed or scrolled)."""

    def __init__(
        self, geometry: TimelineGeometry, clip: Clip, places: LanePlaces
    ) -> None:
        self.scene, self.time, self.clip = geometry.scene, geometry.time, clip
        self._index, self._theme = geometry.scene.index, geometry.scene.theme
        self._placed = list(places.rows)
        self._rows = RowsDraft(geometry, clip)
        self._overlay = RectList()
        self._areas: list[Callable[[], Sequence[Batch]]] = []
        self._texts = TextList(places.texts)
        self.labels: list[Batch] = []
        for track, box, y in places.others:
            track.compose(self, box, y)

    def add(self, batches: Sequence[Batch]) -> None:
        """Add what a lane draws that has no rows."""
        self._areas.append(lambda: batches)

    def add_columns(
        self,
        rows: Sequence[RowColumns],
        draw: Callable[[Sequence[Columns]], Sequence[Batch]],
    ) -> None:
        """Add what a lane draws of the columns of some rows, mostly of other lanes.

        `draw` is called once these are drawn: what was asked for them serves for both.
        """
        self._areas.append(lambda: draw(self._columns_of(rows)))

    def _columns_of(self, rows: Sequence[RowColumns]) -> list[Columns]:
        """Return the columns of the view of some rows, with levels or without."""
        known = {row: columns for (row, _), columns in self._query([]).items()}
        results = self._query([(row, 0) for row in rows if row not in known])
        return [known[row] if row in known else results[row, 0] for row in rows]

    def batches(self) -> list[Batch]:
        """Return everything else but the labels of spans, in drawing order.

        These are `labels` then: what is highlighted is tinted under them.
        """
        self._draw_rows()
        # They refer to this draft: with them the columns of each picture, some 5 MB,
        # would stay until garbage is looked for, and the next one take new memory.
        areas, self._areas = self._areas, []
        batches = [
            *self._rows.batches(),
            *(batch for make in areas for batch in make()),
            *self._overlay.batch(clip=self.clip),
        ]
        self.labels = [*self._rows.labels, *self._texts.batch()]
        return batches

    @property
    def has_tokens(self) -> bool:
        """Whether tokens are boxes, once they are drawn; that selected is framed."""
        return self._rows.has_tokens

    def spots(self) -> HitRegions:
        """Return the wide spans of the rows, once they are drawn."""
        wide = self._rows.wide
        if wide is None:
            none = np.zeros(0)
            return HitRegions("spans", none.astype(np.int64), none, none, none, none)
        width, height = wide.x1 - wide.x0, wide.y1 - wide.y0
        ids = wide.ids.astype(np.int64)
        return HitRegions("spans", ids, wide.x0, wide.y0, width, height)

    def add_rows(
        self, lane: TimelineLane, box: LaneBox, y: float, style: RowStyle
    ) -> None:
        """Draw the rows of a lane; spans outside the filter as ghosts."""
        self._placed += _placed_rows(
            self.scene, self.time, self.clip, lane, box, y, style
        )

    def _draw_rows(self) -> None:
        """Ask for the columns of all rows at once, and hand the rows on."""
        visible, add = self.time.visible, self._rows.add
        columns = self._query(self._queried())
        for row in self._placed:
            shown, ghost, around = columns[row.shown, row.n_levels], None, None
            if row.ghost is not None:
                ghost = columns[row.ghost, row.n_levels]
            if row.ends is not None:
                around = row.ends[0] < visible.start, row.ends[1] > visible.end
            add(RowPicture(row.y0, row.y1, row.style, shown, ghost, around))

    def _queried(self) -> list[tuple[RowColumns, int]]:
        """Return the rows to draw and how many levels each has, those of ghosts too."""
        rows = self._placed
        queried = [(row.shown, row.n_levels) for row in rows]
        queried += [(x.ghost, x.n_levels) for x in rows if x.ghost is not None]
        return queried

    def query_with(self, other: "LanesDraft") -> None:
        """Ask for the columns of two regions at once, before either is drawn."""
        self._query(self._queried() + other._queried())

    def _query(
        self, rows: list[tuple[RowColumns, int]]
    ) -> dict[tuple[RowColumns, int], Columns]:
        """Return the columns of the view, by row and number of levels.

        Those of the last picture if unchanged: moving the mouse repaints without
        moving the view.
        """
        scene, time = self.scene, self.time
        view = (time.visible, time.n_columns, scene.color_by, scene.mask_token)
        views = _last_columns.setdefault(self._index, {})
        cached = views.setdefault(view, {})
        for old_view in list(views)[:-_MAX_VIEWS]:  # figures: drawn on other threads
            views.pop(old_view, None)
        new = [row for row in rows if row not in cached] if cached else rows
        if new:
            columns, levels = zip(*new, strict=True)
            results = query_many(columns, time.edges, levels)
            cached.update(zip(new, results, strict=True))
        return cached

    def add_stalls(self, lane: TimelineLane, box: LaneBox, y: float) -> None:
        """Hatch the stalls of a lane over its first row, with their reason."""
        if not (self.scene.show_stalls and lane.overlay and box.row_y):
            return
        y0, y1 = row_extent(self.time, box, 0, y)
        color = stall_color(self._theme)
        for row in self._index.overlay_rows(lane.key):
            ids, x0, x1 = self._merged(row)
            self._overlay.add(x0, x1, y0, y1, color, pattern=int(Pattern.HATCH))
            self._overlay.add(x0, x1, y1 - 2, y1, color)
            labelled = np.flatnonzero(x1 - x0 >= 2 * LABEL_PX)[:_MAX_REASONS]
            for i in labelled.tolist():
                middle, width = float(x0[i] + x1[i]) / 2, float(x1[i] - x0[i])
                reason = self._index.trace.span_name(int(ids[i]))
                plate = min(len(reason) * 6.0 + 8, width) / 2
                self._overlay.add(
                    middle - plate,
                    middle + plate,
                    y0 + 2,
                    y1 - 2,
                    with_alpha(self._theme.lane, 0.85),
                )
                self._texts.append(
                    Text(
                        middle,
                        (y0 + y1) / 2,
                        reason,
                        self._theme.text,
                        10.0,
                        Face.UI,
                        Align.CENTER,
                        width=width - 4,
                        clip=self.clip,
                    )
                )

    def _merged(self, row: Row) -> tuple[Array, Array, Array]:
        """Return (ids, x0, x1) of a row's spans in view, merged per column.

        Spans that begin in the same column are drawn as one, so the result never
        holds more than one entry per column.
        """
        visible, time = self.time.visible, self.time
        low = int(np.searchsorted(row.end, visible.start, "right"))
        high = int(np.searchsorted(row.start, visible.end, "left"))
        start, end = row.start[low:high], row.end[low:high]
        column = np.searchsorted(time.edges, start, "right")
        first = np.flatnonzero(np.diff(column, prepend=-1))
        last = np.append(first[1:], len(start))[: len(first)] - 1
        x0 = np.maximum(time.xs(start[first]), time.x0)
        x1 = np.minimum(time.xs(end[last]), time.x1)
        return row.id[low:high][first], x0, np.maximum(x1, x0 + 1)
