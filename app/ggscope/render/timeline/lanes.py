"""Collects what lies on the lanes of a region: rows of spans, stalls, curves."""

from collections.abc import Callable, Sequence
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
from ggscope.render.timeline.scene import TimelineGeometry
from ggscope.render.timeline.tracks.track import track_of

_WAITING_PX = 8.0
_MAX_REASONS = 100

_MAX_VIEWS = 3
"""Several timelines may show a trace, each at a size of its own."""
# Not keyed by the rows: their `Columns` refer to them, so none would ever go.
_last_columns: DerivedCache[
    TraceIndex, dict[tuple[object, ...], dict[tuple[RowColumns, int], Columns]]
] = DerivedCache("columns of lanes")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A row to draw, whose columns are asked for together with those of others."""

    y0: float
    y1: float
    style: RowStyle
    shown: RowColumns
    ghost: RowColumns | None
    around: tuple[bool, bool] | None
    n_levels: int


class LanesDraft:
    """Collects the contents of the boxes of one region (fixed or scrolled)."""

    def __init__(self, geometry: TimelineGeometry, clip: Clip) -> None:
        self.scene, self.time, self.clip = geometry.scene, geometry.time, clip
        self._index, self._theme = geometry.scene.index, geometry.scene.theme
        self._rows = RowsDraft(geometry, clip)
        self._waiting: list[_Waiting] = []
        self._grounds: list[tuple[float, float, int]] = []
        self._overlay = RectList()
        self._areas: list[Callable[[], Sequence[Batch]]] = []
        self._texts = TextList()

    def add_box(self, box: LaneBox, y: float) -> None:
        """Draw what lies on `box`, whose top is at `y` of the picture."""
        lane, theme, time, clip = box.lane, self._theme, self.time, self.clip
        bottom = time.snap(y + box.height)
        if lane is None:
            self._grounds.append((y, bottom, theme.pane))
            return
        self._grounds.append((y, bottom, theme.lane))
        if lane.key in self.scene.waiting:
            middle, color = (y + bottom) / 2, theme.dim
            at = time.x0 + _WAITING_PX
            self._texts.append(Text(at, middle, "preparing …", color, 10.0, clip=clip))
            return
        track_of(lane).compose(self, box, y)

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

    def grounds(self) -> list[Batch]:
        """Return the backgrounds of the boxes; grid lines go on top of them."""
        if not self._grounds:
            return []
        y0, y1, fill = (np.array(values) for values in zip(*self._grounds, strict=True))
        rects = RectList()
        rects.add(np.full(len(y0), self.time.x0), self.time.x1, y0, y1, fill)
        return rects.batch(clip=self.clip)

    def covered(self) -> tuple[float, float] | None:
        """Return top and bottom of the backgrounds; None where they leave gaps."""
        if not self._grounds:
            return None
        tops, bottoms, fills = zip(*self._grounds, strict=True)
        if tops[1:] != bottoms[:-1] or any(fill >> 24 < 255 for fill in fills):
            return None
        top, bottom = self.clip.y, self.clip.y + self.clip.height
        return max(tops[0], top), min(bottoms[-1], bottom)

    def batches(self) -> list[Batch]:
        """Return everything else, in drawing order."""
        self._draw_rows()
        # They refer to this draft: with them the columns of each picture, some 5 MB,
        # would stay until garbage is looked for, and the next one take new memory.
        areas, self._areas = self._areas, []
        return [
            *self._rows.batches(),
            *(batch for make in areas for batch in make()),
            *self._overlay.batch(clip=self.clip),
            *self._texts.batch(),
        ]

    def spots(self) -> HitRegions:
        """Return the wide spans of the rows, once they are drawn."""
        wide = self._rows.wide
        if wide is None:
            none = np.zeros(0)
            return HitRegions("spans", none.astype(np.int64), none, none, none, none)
        width, height = wide.x1 - wide.x0, wide.y1 - wide.y0
        ids = wide.ids.astype(np.int64)
        return HitRegions("spans", ids, wide.x0, wide.y0, width, height)

    def _extent(self, box: LaneBox, row: int, y: float) -> tuple[float, float]:
        """Return top and bottom of a row's spans, one or two pixels inside."""
        inset = 1.0 if box.lane is not None and box.lane.track.is_thin else 2.0
        top = y + box.row_y[row]
        return (
            self.time.snap(top + inset),
            self.time.snap(top + box.row_height - inset),
        )

    def add_rows(
        self, lane: TimelineLane, box: LaneBox, y: float, style: RowStyle
    ) -> None:
        """Draw the rows of a lane; spans outside the filter as ghosts."""
        scene = self.scene
        full = self._index.row_columns(lane.key, scene.color_by)
        shown = full
        if scene.mask is not None and not lane.track.band:
            shown = self._index.filtered_columns(
                lane.key, scene.color_by, scene.mask, scene.mask_token
            )
        for row in range(min(len(full), len(box.row_y))):
            y0, y1 = self._extent(box, row, y)
            if y1 <= self.clip.y or y0 >= self.clip.y + self.clip.height:
                continue
            is_filtered = shown is not full
            around = (
                self._spans_around(full[row].row)
                if lane.track.is_work and not is_filtered
                else None
            )
            ghost = full[row] if is_filtered else None
            n_levels = stack_levels(style, y1 - y0, self.time.scale)
            self._waiting.append(
                _Waiting(y0, y1, style, shown[row], ghost, around, n_levels)
            )

    def _draw_rows(self) -> None:
        """Ask for the columns of all rows at once, and hand the rows on."""
        rows, waiting = self._rows, self._waiting
        columns = self._query(self._queried())
        self._waiting = []
        for row in waiting:
            rows.add(
                RowPicture(
                    row.y0,
                    row.y1,
                    row.style,
                    columns[row.shown, row.n_levels],
                    None if row.ghost is None else columns[row.ghost, row.n_levels],
                    row.around,
                )
            )

    def _queried(self) -> list[tuple[RowColumns, int]]:
        """Return the rows to draw and how many levels each has, those of ghosts too."""
        waiting = self._waiting
        queried = [(row.shown, row.n_levels) for row in waiting]
        queried += [(x.ghost, x.n_levels) for x in waiting if x.ghost is not None]
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
        new = [row for row in rows if row not in cached]
        columns = [row for row, _ in new]
        results = query_many(columns, time.edges, [n for _, n in new])
        cached.update(zip(new, results, strict=True))
        return cached

    def _spans_around(self, row: Row) -> tuple[bool, bool] | None:
        """Return whether a row has spans before and after the view."""
        if not len(row):
            return None
        visible = self.time.visible
        return (int(row.start[0]) < visible.start, int(row.end[-1]) > visible.end)

    def add_stalls(self, lane: TimelineLane, box: LaneBox, y: float) -> None:
        """Hatch the stalls of a lane over its first row, with their reason."""
        if not (self.scene.show_stalls and lane.overlay and box.row_y):
            return
        y0, y1 = self._extent(box, 0, y)
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
