"""Rows of spans: the exact column picture, and boxes where spans are wide.

All rows of a region are worked on together: sixteen rows cost hardly more numpy
calls than one.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.columns import Columns
from ggscope.model.tables import Array, Quality, quality_of
from ggscope.model.units import format_duration
from ggscope.render.batch import U32, Batch, Clip, Face, ImageBatch, Pattern, Text
from ggscope.render.draft import LineList, RectList, TextList
from ggscope.render.palette import category_color, label_color, lut, phase_color
from ggscope.render.scene import TimelineGeometry
from ggscope.render.theme import Theme, mix, with_alpha

FLOOR = 0.16
"""Opacity of a column that holds a span but is hardly covered at all."""
GHOST = 0.4
"""Opacity of what the filter left out, beside what it kept."""
WIDE_PX = 3.0
"""Spans at least this wide are looked at one by one."""
EDGE_PX = 5.0
"""Spans at least this wide are told apart by a dark right edge."""
BOX_PX = 8.0
"""Spans at least this wide become a box; below, their columns look the same."""
LABEL_PX = 30.0
_ROUND_PX = 16.0
"""Narrower token boxes have square corners: nobody sees round ones."""
TOKEN_LABEL_PX = 22.0
MAX_LABELS = 400
_IDLE_PX = 8.0
_UNFINISHED_PX = 12.0
_LABEL_SIZE = 11.5


class RowStyle(Enum):
    """What gives the spans of a row their colour and shape."""

    CATEGORY = 0
    NEUTRAL = 1
    PHASE = 2
    TOKEN = 3
    STALL = 4


@dataclass(frozen=True, slots=True, eq=False)
class RowPicture:
    """One row to draw.

    Attributes
    ----------
    y0, y1 : where it goes.
    shown : its columns; `ghost` those before filtering, None without a filter.
    idle_around : whether spans lie before and after the view; gaps between
        spans are hatched then. None hatches nothing.
    """

    y0: float
    y1: float
    style: RowStyle
    shown: Columns
    ghost: Columns | None = None
    idle_around: tuple[bool, bool] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Wide:
    """The wide spans of all rows: equally long arrays, row by row.

    `at_left` and `at_right` tell whether a span reaches that edge of the view,
    where it may go on.
    """

    ids: Array
    row: Array
    at_left: npt.NDArray[np.bool_]
    at_right: npt.NDArray[np.bool_]
    x0: npt.NDArray[np.float64]
    x1: npt.NDArray[np.float64]
    y0: npt.NDArray[np.float64]
    y1: npt.NDArray[np.float64]

    def take(self, chosen: Array) -> "_Wide":
        """Return the chosen ones (indices or bool)."""
        return _Wide(*(getattr(self, name)[chosen] for name in self.__slots__))


def column_pixels(busy: Array, count: Array, rgb: U32, strength: float = 1.0) -> U32:
    """Return texels 0xAARRGGBB of the shape given: hue from `rgb`, opacity from busy.

    The opacity is ``FLOOR + (1 - FLOOR) * busy`` (times `strength`) where the
    column holds a span and 0 where it holds none, so the busy share can be read
    back from the picture to within 1/255.
    """
    alpha = np.where(count > 0, FLOOR + (1 - FLOOR) * busy, 0.0)
    opacity = np.rint(alpha * (255 * strength)).astype(np.uint32)
    return (rgb & np.uint32(0xFFFFFF)) | (opacity << np.uint32(24))


class RowsDraft:
    """Collects rows of one region (pinned or scrolled) and draws them."""

    def __init__(self, geometry: TimelineGeometry, clip: Clip) -> None:
        scene, theme = geometry.scene, geometry.scene.theme
        self._scene, self._theme, self._time = scene, theme, geometry.time
        self._clip = clip
        self._trace = scene.index.trace
        self._spans = scene.index.trace.spans
        self._rows: list[RowPicture] = []
        self._neutral = mix(theme.dim, theme.lane, 0.45)
        categories = scene.index.categories(scene.color_by)
        # One entry more than categories: index -1 reads the neutral colour.
        self._lut = np.append(lut(categories, theme), np.uint32(self._neutral))
        self._by_id = categories.index
        self._phases = np.array(
            [phase_color(phase, theme) for phase in (0, 1, -1)], np.uint32
        )

    def add(self, row: RowPicture) -> None:
        """Add a row."""
        self._rows.append(row)

    def batches(self) -> list[Batch]:
        """Return everything, in drawing order; labels last."""
        if not self._rows:
            return []
        y0 = np.array([row.y0 for row in self._rows])
        y1 = np.array([row.y1 for row in self._rows])
        wide = self._wide(y0, y1)
        tokens = self._rows_of(RowStyle.TOKEN)[wide.row]
        plain, boxed = wide.take(~tokens), wide.take(tokens)
        fill = self._fills(plain)
        labels = [*self._labels(plain, fill), *self._token_labels(boxed)]
        labels.sort(key=lambda item: -item[0])
        texts = TextList(text for _, text in labels[:MAX_LABELS])
        return [
            *self._idle(y0, y1),
            *self._ghosts(y0, y1),
            *self._image(y0, y1),
            *self._boxes(plain, fill),
            *self._doubts(plain),
            *self._token_boxes(boxed),
            *texts.batch(),
        ]

    def _rows_of(self, style: RowStyle) -> npt.NDArray[np.bool_]:
        return np.array([row.style is style for row in self._rows])

    def _image(self, y0: Array, y1: Array) -> list[Batch]:
        rows = self._rows
        busy = np.stack([row.shown.busy for row in rows])
        count = np.stack([row.shown.count for row in rows])
        rgb = self._lut[np.stack([row.shown.category for row in rows])]
        for i, row in enumerate(rows):
            if row.style is RowStyle.NEUTRAL:
                rgb[i] = self._neutral
            elif row.style is RowStyle.TOKEN:
                # Close to the frames of the boxes, whose edges end in mid-column.
                rgb[i] = mix(self._theme.line, self._theme.dim, 0.3)
            elif row.style is RowStyle.PHASE:
                rgb[i] = self._phase_fills(row.shown.longest)
            elif row.style is RowStyle.STALL:
                rgb[i] = stall_color(self._theme)
        return self._picture(column_pixels(busy, count, rgb), y0, y1)

    def _ghosts(self, y0: Array, y1: Array) -> list[Batch]:
        """Return the rows before filtering, pale."""
        pale = [(i, row.ghost) for i, row in enumerate(self._rows) if row.ghost]
        if not pale:
            return []
        busy = np.stack([ghost.busy for _, ghost in pale])
        count = np.stack([ghost.count for _, ghost in pale])
        rgb = np.full(busy.shape, self._neutral, np.uint32)
        chosen = [i for i, _ in pale]
        pixels = column_pixels(busy, count, rgb, GHOST)
        return self._picture(pixels, y0[chosen], y1[chosen])

    def _picture(self, pixels: U32, y0: Array, y1: Array) -> list[Batch]:
        return [
            ImageBatch(
                pixels,
                self._time.x0,
                self._time.x1,
                y0.astype(np.float32),
                y1.astype(np.float32),
                self._clip,
            )
        ]

    def _wide(self, y0: Array, y1: Array) -> _Wide:
        """Return the spans that are at least WIDE_PX wide.

        A wide span is a run of columns that it fills alone: a span of three
        columns' width fills at least two from edge to edge. Its box covers those
        whole columns only, so the picture under it stays exact. Rows that show
        the union of several threads need no exception: what a span is hidden
        behind does not belong to its run.
        """
        n = self._time.n_columns
        count = np.concatenate([row.shown.count for row in self._rows])
        busy = np.concatenate([row.shown.busy for row in self._rows])
        place = np.flatnonzero((count == 1) & (busy == 1.0))
        owner = np.concatenate([row.shown.first for row in self._rows])[place]
        row = place // n
        fresh = np.ones(len(place), np.bool_)
        fresh[1:] = (
            (owner[1:] != owner[:-1])
            | (place[1:] != place[:-1] + 1)
            | (row[1:] != row[:-1])
        )
        head = np.flatnonzero(fresh)
        length = np.diff(head, append=len(place))
        head = head[length >= WIDE_PX * self._time.scale - 1]
        first = place[head] % n
        stop = first + length[length >= WIDE_PX * self._time.scale - 1]
        row = row[head]
        return _Wide(
            owner[head],
            row,
            first == 0,
            stop == n,
            self._time.column_x(first),
            self._time.column_x(stop),
            y0[row],
            y1[row],
        )

    def _fills(self, wide: _Wide) -> U32:
        """Return the colour of each span, uint32[n]."""
        fill: U32 = self._lut[self._by_id[wide.ids]]
        neutral = self._rows_of(RowStyle.NEUTRAL)[wide.row]
        fill[neutral] = self._neutral
        fill[self._rows_of(RowStyle.STALL)[wide.row]] = stall_color(self._theme)
        phase = self._rows_of(RowStyle.PHASE)[wide.row]
        if phase.any():
            fill[phase] = self._phase_fills(wide.ids[phase])
        return fill

    def _phase_fills(self, ids: Array) -> U32:
        if self._spans.phase is None:
            return np.full(len(ids), self._phases[2], np.uint32)
        known = np.where(ids < 0, -1, self._spans.phase[ids])
        fills: U32 = self._phases[known]
        return fills

    def _boxes(self, wide: _Wide, fill: U32) -> list[Batch]:
        """Return boxes, and a dark right edge that keeps neighbours apart.

        A frame all round would leave nothing of the narrow ones.
        """
        rects = RectList()
        quality = quality_of(self._spans.flags[wide.ids])
        estimated = quality == Quality.ESTIMATED
        boxed = (wide.x1 - wide.x0 >= BOX_PX) | estimated
        pattern = np.where(estimated, Pattern.DOTTED, Pattern.SOLID)[boxed]
        rects.add(
            wide.x0[boxed],
            wide.x1[boxed],
            wide.y0[boxed],
            wide.y1[boxed],
            fill[boxed],
            pattern=pattern.astype(np.uint32),
        )
        stalls = wide.take(self._rows_of(RowStyle.STALL)[wide.row])
        rects.add(
            stalls.x0,
            stalls.x1,
            stalls.y0,
            stalls.y1,
            self._theme.lane,
            pattern=int(Pattern.HATCH),
        )
        ends = ~wide.at_right & (wide.x1 - wide.x0 >= EDGE_PX)
        x1 = wide.x1[ends]
        rects.add(x1 - 1, x1, wide.y0[ends], wide.y1[ends], darker(fill[ends]))
        return rects.batch(clip=self._clip)

    def _doubts(self, wide: _Wide) -> list[Batch]:
        """Mark what is not measured: derived, estimated and unfinished ends."""
        quality = quality_of(self._spans.flags[wide.ids])
        if not quality.any():
            return []
        theme = self._theme
        edges, marks = LineList(dashed=True), RectList()
        derived = wide.take(
            (quality == Quality.DERIVED)
            & ~wide.at_right
            & (wide.x1 - wide.x0 >= BOX_PX)
        )
        edge = derived.x1 - 0.5
        edges.add(edge, derived.y0, edge, derived.y1, theme.lane)
        guess = wide.take(quality == Quality.ESTIMATED)
        marks.add(
            guess.x0,
            np.minimum(guess.x0 + 7, guess.x1),
            guess.y0,
            guess.y0 + 2,
            theme.caution,
        )
        open_end = wide.take(quality == Quality.UNFINISHED)
        begin = np.maximum(open_end.x1 - _UNFINISHED_PX, open_end.x0)
        marks.add(
            begin,
            open_end.x1,
            open_end.y0,
            open_end.y1,
            with_alpha(theme.lane, 0.75),
            pattern=int(Pattern.HATCH),
        )
        return [*edges.batch(self._clip), *marks.batch(clip=self._clip)]

    def _idle(self, y0: Array, y1: Array) -> list[Batch]:
        """Hatch the gaps between spans that are wide enough to matter."""
        rects, n = RectList(), self._time.n_columns
        chosen = [i for i, row in enumerate(self._rows) if row.idle_around]
        if not chosen:
            return []
        count = np.stack([self._rows[i].shown.count for i in chosen])
        idle = np.zeros((len(chosen), n + 1), np.bool_)
        idle[:, 1:] = count == 0
        # The False column at the left of each row ends the last gap of the row
        # before, so begins and ends alternate over the whole picture.
        flat = np.append(idle.ravel(), False)
        change = np.flatnonzero(flat[1:] != flat[:-1])
        begin, stop = change[::2], change[1::2]
        row = begin // (n + 1)
        begin, stop = begin - row * (n + 1), stop - row * (n + 1)
        around = np.array([self._rows[i].idle_around for i in chosen])
        keep = stop - begin >= _IDLE_PX * self._time.scale
        keep &= (begin > 0) | around[row, 0]
        keep &= (stop < n) | around[row, 1]
        at = np.array(chosen)[row[keep]]
        rects.add(
            self._time.column_x(begin[keep]),
            self._time.column_x(stop[keep]),
            y0[at] + 1,
            y1[at] - 1,
            self._theme.idle,
            pattern=int(Pattern.FAINT_HATCH),
        )
        return rects.batch(clip=self._clip)

    def _labels(self, wide: _Wide, fill: U32) -> list[tuple[float, Text]]:
        width = wide.x1 - wide.x0
        roomy = np.flatnonzero((width >= LABEL_PX) & (wide.y1 - wide.y0 >= 9.5))
        if len(roomy) > MAX_LABELS:
            widest = np.argpartition(-width[roomy], MAX_LABELS)
            roomy = np.sort(roomy[widest[:MAX_LABELS]])
        middle = ((wide.y0 + wide.y1) / 2)[roomy]
        size = np.minimum(_LABEL_SIZE, wide.y1 - wide.y0 - 1.5)[roomy]
        columns = (
            wide.ids[roomy],
            wide.x0[roomy],
            width[roomy],
            middle,
            size,
            fill[roomy],
        )
        return [
            (
                room,
                Text(
                    x + 5,
                    y,
                    self._trace.span_name(span),
                    label_color(ground),
                    height,
                    Face.WORDS,
                    width=room - 8,
                    clip=self._clip,
                ),
            )
            for span, x, room, y, height, ground in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]

    def _token_boxes(self, wide: _Wide) -> list[Batch]:
        """Return tokens as quiet boxes with round corners."""
        theme, rects = self._theme, RectList()
        marked = self._is_selected_token(wide.ids)
        border = np.where(marked, np.uint32(theme.selection), np.uint32(theme.line))
        # Boxes that go on outside the view must not show round ends in it.
        visible, spans = self._time.visible, self._spans
        x0 = wide.x0 - np.where(spans.start[wide.ids] < visible.start, 8.0, 0.0)
        x1 = wide.x1 + np.where(spans.end[wide.ids] > visible.end, 8.0, 0.0)
        narrow = RectList()
        for target, chosen in (
            (rects, x1 - x0 >= _ROUND_PX),
            (narrow, x1 - x0 < _ROUND_PX),
        ):
            target.add(
                x0[chosen],
                x1[chosen] - 1,
                wide.y0[chosen],
                wide.y1[chosen],
                theme.raised,
                border[chosen],
            )
        return [
            *narrow.batch(clip=self._clip),
            *rects.batch(radius=4.0, clip=self._clip),
        ]

    def _token_labels(self, wide: _Wide) -> list[tuple[float, Text]]:
        trace, theme, tokens = self._trace, self._theme, self._spans.token
        marked = self._is_selected_token(wide.ids)
        labels = []
        for i in np.flatnonzero(wide.x1 - wide.x0 >= TOKEN_LABEL_PX).tolist():
            span, width = int(wide.ids[i]), float(wide.x1[i] - wide.x0[i])
            number = -1 if tokens is None else int(tokens[span])
            words = f"#{number}" if number >= 0 else trace.span_name(span)
            length = int(self._spans.end[span] - self._spans.start[span])
            full = f"{words} {format_duration(length, trace.clock.unit)}"
            if len(full) * 6.6 + 10 <= width:
                words = full
            labels.append(
                (
                    width,
                    Text(
                        float(wide.x0[i]) + 7,
                        float(wide.y0[i] + wide.y1[i]) / 2,
                        words,
                        theme.selection if marked[i] else theme.text,
                        _LABEL_SIZE,
                        Face.WORDS,
                        width=width - 9,
                        clip=self._clip,
                    ),
                )
            )
        return labels

    def _is_selected_token(self, ids: Array) -> npt.NDArray[np.bool_]:
        """Tell which token spans are those of the active span."""
        selection, tokens = self._scene.selection, self._spans.token
        active = selection.active
        if selection.table != "spans" or active is None or tokens is None:
            return np.zeros(len(ids), np.bool_)
        same: npt.NDArray[np.bool_] = tokens[ids] == tokens[active]
        return same & (tokens[ids] >= 0)


def stall_color(theme: Theme) -> int:
    """Return the colour of stalls."""
    return category_color("quality:3", theme)


def darker(fill: U32) -> U32:
    """Return an edge colour per fill: half as bright."""
    halved: U32 = ((fill >> np.uint32(1)) & np.uint32(0x7F7F7F)) | np.uint32(0xFF000000)
    return halved
