"""Rows of spans: the exact column picture, and boxes where spans are wide.

All rows of a region are composed together: sixteen rows need hardly more numpy calls
than one. Tokens are pale boxes with round corners, labelled with number and duration.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.columns import Columns
from ggscope.model.tables import Array, Phase, Quality, Table, quality_of
from ggscope.model.tokens import numbers_per_phase, token_text
from ggscope.model.trace import Trace
from ggscope.model.units import format_duration
from ggscope.render.batch import (
    F32,
    U32,
    Batch,
    Clip,
    Face,
    ImageBatch,
    LineList,
    Pattern,
    RectList,
    Text,
    TextList,
)
from ggscope.render.colors import (
    IDLE_SHARE,
    category_color,
    foot_colors,
    foot_lut,
    label_color,
    lut,
    phase_color,
)
from ggscope.render.texels import (
    WHOLE,
    column_pixels,
    foot_pixels,
    footed,
    row_texels,
    stack_texels,
    stack_weights,
)
from ggscope.render.theme import Theme, contrast, mix, with_alpha
from ggscope.render.timeline.latency import (
    colored_share,
    latency_colors,
    slowness,
    token_latency_of,
)
from ggscope.render.timeline.runs import (
    NO_RUNS,
    Runs,
    empty_runs,
    filled_runs,
    marked_runs,
)
from ggscope.render.timeline.scene import (
    HIGHLIGHT_SHARE,
    TimelineGeometry,
    TimelineScene,
)
from ggscope.render.timeline.waits import (
    wait_band,
    wait_color,
    wait_pixels,
    waiting_share,
)

LABEL_SIZE = 11.5
"""Font size of the names of spans, pixels per em."""
GHOST = 0.4
"""Opacity of spans outside the filter, relative to those inside."""
WIDE_PX = 3.0
"""Spans at least this wide are drawn one by one."""
EDGE_PX = 5.0
"""Spans at least this wide have a dark right edge."""
BOX_PX = 8.0
"""Spans at least this wide become a box; below, their columns look the same."""
LABEL_PX = 30.0
MAX_LABELS = 400
HATCH_PX = 8.0
"""Gaps at least this wide are hatched, beside the tone of all idle time."""
STACK_PX = 8.0
"""Rows at least this high have stacked columns."""
ALONE_PX = 3.0
"""Narrower runs of columns are marks in an empty row: too narrow for a chart."""
_FOOT_SHARE = 1 / 3
_MIN_FOOT_PX = 3.0
_UNFINISHED_PX = 12.0
TOKEN_LABEL_PX = 22.0
_LABEL_MARGINS = 9
_ROUND_PX = 12.0
"""Narrower boxes have square corners: round ones would not be visible."""
_RADIUS = 3.0
_TOKEN_GAP_PX = 1.0
_TEXT_CONTRAST = 4.5


@dataclass(frozen=True, slots=True, eq=False)
class WideSpans(Table):
    """The wide spans of all rows: equally long arrays, row by row.

    `at_left` and `at_right` are whether a span reaches that edge of the view, beyond
    which it may continue.
    """

    ids: Array
    row: Array
    at_left: npt.NDArray[np.bool_]
    at_right: npt.NDArray[np.bool_]
    x0: npt.NDArray[np.float64]
    x1: npt.NDArray[np.float64]
    y0: npt.NDArray[np.float64]
    y1: npt.NDArray[np.float64]
    quality: Array

    def split(self, mask: npt.NDArray[np.bool_]) -> tuple["WideSpans", "WideSpans"]:
        """Return those of the mask, and the others."""
        n = np.count_nonzero(mask)
        if n == 0:
            return self.take(slice(0)), self
        if n == len(mask):
            return self, self.take(slice(0))
        return self.take(mask), self.take(~mask)


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


class RowsDraft:
    """Collects rows of one region (fixed or scrolled) and draws them.

    Attributes
    ----------
    wide : the wide spans, once they are drawn; None of no rows.
    labels : of these, once they are drawn; what is highlighted is tinted under them.
    has_tokens : whether tokens are among them.
    """

    def __init__(self, geometry: TimelineGeometry, clip: Clip) -> None:
        scene, theme = geometry.scene, geometry.scene.theme
        self._geometry = geometry
        self._scene, self._theme, self._time = scene, theme, geometry.time
        self._clip = clip
        self._trace = scene.index.trace
        self._spans = scene.index.trace.spans
        self._rows: list[RowPicture] = []
        self._neutral = neutral_color(theme)
        self.wide: WideSpans | None = None
        self.labels: list[Batch] = []
        self.has_tokens = False
        categories = scene.index.categories(scene.color_by)
        # One entry more than categories, for what has none: index -1 reads it.
        none = category_color("none", theme)
        self._lut = np.append(lut(categories, theme), np.uint32(none))
        own_foot = foot_colors(self._lut[-1:], theme)
        self._foot_lut = np.append(foot_lut(categories, theme), own_foot)
        self._by_id = categories.index
        self._phases = np.array(
            [phase_color(phase, theme) for phase in (*Phase, -1)], np.uint32
        )
        self._foot_phases = foot_colors(self._phases, theme)

    def add(self, row: RowPicture) -> None:
        """Add a row."""
        self._rows.append(row)

    def batches(self) -> list[Batch]:
        """Return everything but the labels, in drawing order."""
        if not self._rows:
            return []
        y0 = np.array([row.y0 for row in self._rows])
        y1 = np.array([row.y1 for row in self._rows])
        wide, gaps = self._wide(y0, y1), self._gaps()
        self.wide = wide
        boxed, plain = wide.split(self._rows_of(RowStyle.TOKEN)[wide.row])
        self.has_tokens = len(boxed) > 0
        fill = self._fills(plain)
        labels = self._labels(plain, self._grounds(plain, fill)) if len(plain) else []
        boxed_fill = token_colors(self._geometry, boxed.ids)
        if len(boxed):
            grounds = self._grounds(boxed, boxed_fill)
            labels += token_labels(self._geometry, self._clip, boxed, grounds)
        labels.sort(key=lambda item: -item[0])
        self.labels = TextList(text for _, text in labels[:MAX_LABELS]).batch()
        return [
            *self._ghosts(y0, y1),
            *self._waits(y0, y1),
            *self._image(y0, y1, plain, fill, boxed),
            *self._hatch(gaps, y0, y1),
            *(self._boxes(plain, fill) if len(plain) else ()),
            *self._doubts(plain),
            *token_boxes(self._geometry, self._clip, boxed, boxed_fill),
        ]

    def _rows_of(self, style: RowStyle) -> npt.NDArray[np.bool_]:
        return np.array([row.style is style for row in self._rows])

    def _image(
        self, y0: Array, y1: Array, plain: WideSpans, fill: U32, tokens: WideSpans
    ) -> list[ImageBatch]:
        """Return the picture of the rows, with wide spans drawn over them.

        Wide spans have no feet but a dark right edge; where tokens become boxes
        nothing else is drawn.
        """
        shown = [row.shown for row in self._rows]
        hues = [self._one_hue(row.style) for row in self._rows]
        numbers, foot = np.arange(len(shown)), self._foot(y0, y1)
        pictures = self._pictures(shown, hues, numbers, y0, y1, foot=foot)
        for picture in pictures:
            # Two rows of texels per row of spans: columns, and their feet.
            texels = picture.pixels
            if len(plain):
                row, column, color = self._whole_columns(plain, fill)
                texels[2 * row + 1, column] = color
            if len(tokens):
                row, column = self._under_tokens(tokens)
                texels[2 * row, column] = texels[2 * row + 1, column] = 0
            if len(plain):
                row, column, color = self._edge_columns(plain, fill)
                texels[2 * row, column] = texels[2 * row + 1, column] = color
        return [
            batch
            for picture in pictures
            for batch in self._stacked(picture, shown, hues, numbers, y0, y1, foot=foot)
        ]

    def _stacked(
        self,
        picture: ImageBatch,
        rows: Sequence[Columns],
        hues: Sequence[int],
        numbers: Array,
        y0: Array,
        y1: Array,
        *,
        foot: Array | None = None,
        strength: float = 1.0,
    ) -> list[ImageBatch]:
        """Return a picture of rows, those apart of which columns are stacks.

        Parameters are those of `_pictures`, whose result `picture` is.
        """
        weights = self._weights(rows)
        chosen = np.flatnonzero(weights.any(axis=1))
        if not len(chosen):
            return [picture]
        scale, step = self._time.scale, 1 if foot is None else 2
        own = np.asarray(hues, np.uint32)[chosen]
        at = (chosen[:, None] * step + np.arange(step)).ravel()
        stacks = [rows[i] for i in chosen.tolist()]
        pictures = [self._rows[i] for i in numbers[chosen].tolist()]
        below = 0 if foot is None else (y1 - foot)[numbers[chosen]]
        waiting = wait_color(self._theme) if self._scene.show_waits else 0
        texels = stack_texels(
            stacks,
            weights[chosen],
            picture.pixels[at],
            np.rint(np.broadcast_to(below * scale, len(chosen))).astype(np.int64),
            own,
            None if foot is None else self._foot_hues(own),
            self._lut,
            self._foot_lut,
            least=round(scale),
            strength=strength,
            around=None if foot is None else [row.idle_around for row in pictures],
            tone=idle_color(self._theme),
            waiting=0 if foot is None else waiting,
            premultiplied=self._scene.premultiplied,
        )
        # All of them as one picture, whose rows are a device pixel high.
        n_levels = np.array([row.n_levels for row in stacks])
        stop = np.cumsum(n_levels)
        first = stop - n_levels
        level = np.arange(len(texels)) - np.repeat(first, n_levels)
        tops = np.repeat(y0[numbers[chosen]], n_levels)
        stacked = replace(
            picture,
            pixels=texels,
            y0=(tops + level / scale).astype(np.float32),
            y1=(tops + (level + 1) / scale).astype(np.float32),
            premultiplied=self._scene.premultiplied,
            runs=tuple(zip(first.tolist(), stop.tolist(), strict=True)),
        )
        plain = np.ones(len(picture.pixels), np.bool_)
        plain[at] = False
        if not plain.any():
            return [stacked]
        rest = replace(
            picture,
            pixels=picture.pixels[plain],
            y0=picture.y0[plain],
            y1=picture.y1[plain],
        )
        return [rest, stacked]

    def _weights(self, rows: Sequence[Columns]) -> npt.NDArray[np.uint8]:
        """Return how far the columns of rows are stacks, see `stack_weights`."""
        weights = stack_weights(rows, round(ALONE_PX * self._time.scale))
        weights[[row.levels is None for row in rows]] = 0
        return weights

    def _foot(self, y0: Array, y1: Array) -> Array:
        """Return the top of the feet of each row, on a device pixel."""
        scale = self._time.scale
        height = np.rint((y1 - y0) * scale)
        foot = np.maximum(np.rint(height * _FOOT_SHARE), round(_MIN_FOOT_PX * scale))
        return y1 - np.minimum(foot, height) / scale

    def _whole_columns(
        self, wide: WideSpans, values: Array
    ) -> tuple[Array, Array, Array]:
        """Return (row, column, value) of every column that wide spans fill."""
        scale, x0 = self._time.scale, self._time.x0
        first = np.rint((wide.x0 - x0) * scale).astype(np.int64)
        n = np.rint((wide.x1 - x0) * scale).astype(np.int64) - first
        which = np.repeat(np.arange(len(n)), n)
        column = np.arange(len(which)) - np.repeat(np.cumsum(n) - n, n) + first[which]
        return wide.row[which], column, values[which]

    def _under_tokens(self, tokens: WideSpans) -> tuple[Array, Array]:
        """Return (row, column) of the columns whose tokens are drawn as boxes.

        That of a mere part of a token beside its box is one of them, unless it holds
        another token, which is narrow.
        """
        row, column, owner = self._whole_columns(tokens, tokens.ids)
        spans, edges = self._spans, self._time.edges
        # A column more at either side, which has no token.
        numbers = np.unique(row)
        boxed = np.full((len(numbers), self._time.n_columns + 2), -1, np.int64)
        boxed[np.searchsorted(numbers, row), column + 1] = owner
        before, after = boxed[:, :-2], boxed[:, 2:]
        expected = ((before >= 0) & (spans.end[before] > edges[:-1])) * 1
        expected += (after >= 0) & (spans.start[after] < edges[1:])
        covered = boxed[:, 1:-1] >= 0
        for i, number in enumerate(numbers.tolist()):
            count = self._rows[number].shown.count
            covered[i] |= (expected[i] > 0) & (count == expected[i])
        row, column = np.nonzero(covered)
        return numbers[row], column

    def _ghosts(self, y0: Array, y1: Array) -> list[ImageBatch]:
        """Return the rows before filtering, pale."""
        chosen = [i for i, row in enumerate(self._rows) if row.ghost]
        ghosts = [row.ghost for row in self._rows if row.ghost]
        hues, numbers = [ghost_color(self._theme)] * len(ghosts), np.array(chosen)
        return [
            batch
            for picture in self._pictures(ghosts, hues, numbers, y0, y1, strength=GHOST)
            for batch in self._stacked(
                picture, ghosts, hues, numbers, y0, y1, strength=GHOST
            )
        ]

    def _waits(self, y0: Array, y1: Array) -> list[Batch]:
        """Return the waits behind the spans, under their columns.

        Where figures keep shapes, waits that are wide are shapes there.
        """
        rows = [
            (i, row.shown)
            for i, row in enumerate(self._rows)
            if row.shown.waited_ticks is not None
        ]
        if not self._scene.show_waits or not rows:
            return []
        numbers = np.array([i for i, _ in rows])
        waiting = np.stack(
            [waiting_share(columns, self._time.edges) for _, columns in rows]
        )
        busy = np.stack([columns.busy for _, columns in rows])
        color = wait_color(self._theme)
        top, bottom = wait_band(y0, y1, self._time.scale)
        place = self._place(numbers, top, bottom)
        # In stacks they lie on top of the work.
        beside = 1 - self._weights([columns for _, columns in rows]) / WHOLE
        pixels = wait_pixels(waiting, busy, color, beside)
        batches: list[Batch] = [ImageBatch(pixels, *place)]
        runs = marked_runs(waiting >= 1.0, numbers)
        wide = runs.take(runs.stop - runs.first >= BOX_PX * self._time.scale)
        shapes = RectList()
        shapes.add(
            self._time.column_x(wide.first),
            self._time.column_x(wide.stop),
            top[wide.row],
            bottom[wide.row],
            color,
        )
        return [*batches, *shapes.batch(clip=self._clip, echo=True)]

    def _one_hue(self, style: RowStyle) -> int:
        """Return the colour of all folded columns of a row, 0 if they differ."""
        if style in (RowStyle.NEUTRAL, RowStyle.TOKEN):
            return self._neutral
        return stall_color(self._theme) if style is RowStyle.STALL else 0

    def _pictures(
        self,
        rows: Sequence[Columns],
        hues: Sequence[int],
        numbers: Array,
        y0: Array,
        y1: Array,
        *,
        foot: Array | None = None,
        strength: float = 1.0,
    ) -> list[ImageBatch]:
        """Return rows `numbers` as a picture.

        `foot` is where the feet of rows begin, None = they have none.
        """
        if not rows:
            return []
        pictures = [self._rows[number] for number in numbers]
        texels = self._texels(rows, hues, pictures, strength, foot is not None)
        area = self._place(numbers, y0, y1)
        if foot is None:
            return [ImageBatch(texels, *area)]
        x0, x1, top, bottom, clip = area
        middle = foot[numbers].astype(np.float32)
        return [footed(texels, x0, x1, top, middle, bottom, clip)]

    def _place(
        self, numbers: Array, y0: Array, y1: Array
    ) -> tuple[float, float, F32, F32, Clip]:
        top, bottom = y0[numbers].astype(np.float32), y1[numbers].astype(np.float32)
        return self._time.x0, self._time.x1, top, bottom, self._clip

    def _texels(
        self,
        columns: Sequence[Columns],
        hues: Sequence[int],
        rows: list[RowPicture],
        strength: float,
        has_feet: bool,
    ) -> U32:
        """Return the texels of rows, and of their feet, with the tone of idle time."""
        own = np.array(hues, np.uint32)
        feet = self._foot_hues(own) if has_feet else None
        texels = row_texels(
            columns,
            own,
            feet,
            self._lut,
            self._foot_lut,
            strength=strength,
            around=[row.idle_around for row in rows] if has_feet else None,
            tone=idle_color(self._theme),
        )
        step = 2 if has_feet else 1
        for i, (row_columns, row) in enumerate(zip(columns, rows, strict=True)):
            if row.style is RowStyle.TOKEN and has_feet:
                texels[step * i : step * i + step] = self._token_texels(row_columns)
            if row.style is not RowStyle.PHASE or hues[i]:
                continue
            phase = self._phase_of(row_columns.longest)
            texels[step * i] = column_pixels(
                row_columns.busy, row_columns.count, self._phases[phase], strength
            )
            if has_feet:
                feet_of = self._foot_phases[phase]
                texels[step * i + 1] = foot_pixels(row_columns.count, feet_of)
        return texels

    def _token_texels(self, columns: Columns) -> U32:
        """Return the texels of tokens too narrow for boxes: flat, by their latency.

        Each column has the colour of the token that takes most of it.
        """
        used = columns.count > 0
        texels = np.zeros(len(used), np.uint32)
        if token_share(self._geometry):
            texels[used] = token_colors(self._geometry, columns.longest[used])
        else:  # which token it is makes no difference
            texels[used] = neutral_color(self._theme)
        return texels

    def _foot_hues(self, hues: U32) -> U32:
        """Return the colours of feet for those of rows, 0 where these are 0."""
        feet: U32 = np.where(hues == 0, hues, foot_colors(hues, self._theme))
        return feet

    def _wide(self, y0: Array, y1: Array) -> WideSpans:
        """Return the spans that are at least WIDE_PX wide.

        A wide span is a run of columns that it fills alone: a span of three
        columns' width fills at least two from edge to edge. Its box covers those
        whole columns only, so the picture under it stays exact. Rows that show
        the union of several threads need no exception: what a span is hidden
        behind does not belong to its run.
        """
        n, min_px = self._time.n_columns, WIDE_PX * self._time.scale - 1
        columns = [row.shown for row in self._rows]
        runs = filled_runs(columns, np.arange(len(columns)), max(ceil(min_px), 1))
        return WideSpans(
            runs.owner,
            runs.row,
            runs.first == 0,
            runs.stop == n,
            self._time.column_x(runs.first),
            self._time.column_x(runs.stop),
            y0[runs.row],
            y1[runs.row],
            quality_of(self._spans.flags[runs.owner]),
        )

    def _fills(self, wide: WideSpans) -> U32:
        """Return the colour of each span, uint32[n]."""
        fill: U32 = self._lut[self._by_id[wide.ids]]
        neutral = self._rows_of(RowStyle.NEUTRAL)[wide.row]
        fill[neutral] = self._neutral
        fill[self._rows_of(RowStyle.STALL)[wide.row]] = stall_color(self._theme)
        phase = self._rows_of(RowStyle.PHASE)[wide.row]
        if phase.any():
            fill[phase] = self._phases[self._phase_of(wide.ids[phase])]
        return fill

    def _phase_of(self, ids: Array) -> Array:
        """Return the phase of each span; -1 = unknown, or no span."""
        if self._spans.phase is None:
            return np.full(len(ids), -1, np.int8)
        return np.where(ids < 0, -1, self._spans.phase[ids])

    def _boxes(self, wide: WideSpans, fill: U32) -> list[Batch]:
        """Return boxes, and a dark right edge that keeps neighbours apart.

        A frame all round would leave nothing of the narrow ones. Plain boxes look
        like the columns under them, so only figures made of shapes draw them.
        """
        plain, dotted, edges = RectList(), RectList(), RectList()
        estimated = wide.quality == Quality.ESTIMATED
        boxed = (wide.x1 - wide.x0 >= BOX_PX) & ~estimated
        plain.add(
            wide.x0[boxed], wide.x1[boxed], wide.y0[boxed], wide.y1[boxed], fill[boxed]
        )
        guess = wide.take(estimated)
        dotted.add(
            guess.x0,
            guess.x1,
            guess.y0,
            guess.y1,
            fill[estimated],
            pattern=int(Pattern.DOTTED),
        )
        stalls = wide.take(self._rows_of(RowStyle.STALL)[wide.row])
        dotted.add(
            stalls.x0,
            stalls.x1,
            stalls.y0,
            stalls.y1,
            self._theme.lane,
            pattern=int(Pattern.HATCH),
        )
        echo = RectList()
        is_echo = self._is_in_picture(wide)
        for ends, target in (
            (_has_edge(wide) & is_echo, echo),
            (_has_edge(wide) & ~is_echo, edges),
        ):
            x1, color = wide.x1[ends], darker(fill[ends])
            target.add(x1 - 1, x1, wide.y0[ends], wide.y1[ends], color)
        return [
            *plain.batch(clip=self._clip, echo=True),
            *dotted.batch(clip=self._clip),
            *echo.batch(clip=self._clip, echo=True),
            *edges.batch(clip=self._clip),
        ]

    def _is_in_picture(self, wide: WideSpans) -> npt.NDArray[np.bool_]:
        """Return which spans have their right edge in the picture of their row.

        That is where a pixel of the design is a whole number of columns and no pattern
        lies between the two.
        """
        if not float(self._time.scale).is_integer():
            return np.zeros(len(wide.ids), np.bool_)
        chosen = ~self._rows_of(RowStyle.STALL)[wide.row]
        chosen &= wide.quality != Quality.ESTIMATED
        return chosen

    def _edge_columns(self, wide: WideSpans, fill: U32) -> tuple[Array, Array, U32]:
        """Return (row, column, colour) of the right edges that are in the picture."""
        chosen = _has_edge(wide) & self._is_in_picture(wide)
        ends, fill = wide.take(chosen), fill[chosen]
        n = round(self._time.scale)
        stop = np.rint((ends.x1 - self._time.x0) * self._time.scale).astype(np.int64)
        column = (stop[:, None] - 1 - np.arange(n)).ravel()
        return np.repeat(ends.row, n), column, np.repeat(darker(fill), n)

    def _doubts(self, wide: WideSpans) -> list[Batch]:
        """Mark what is not measured: derived, estimated and unfinished ends."""
        quality = wide.quality
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

    def _hatch(self, gaps: Runs, y0: Array, y1: Array) -> list[Batch]:
        """Hatch the idle time between spans."""
        hatch = RectList()
        hatch.add(
            self._time.column_x(gaps.first),
            self._time.column_x(gaps.stop),
            y0[gaps.row] + 1,
            y1[gaps.row] - 1,
            self._theme.idle,
            pattern=int(Pattern.FAINT_HATCH),
        )
        return hatch.batch(clip=self._clip)

    def _gaps(self) -> Runs:
        """Return the gaps wide enough for a hatch, of rows whose idle time is shown."""
        chosen = [i for i, row in enumerate(self._rows) if row.idle_around]
        if not chosen:
            return NO_RUNS
        min_columns = max(ceil(HATCH_PX * self._time.scale), 1)
        columns = [self._rows[i].shown for i in chosen]
        runs = empty_runs(columns, np.array(chosen), min_columns)
        around = np.array([row.idle_around or (False, False) for row in self._rows])
        keep = (runs.first > 0) | around[runs.row, 0]
        keep &= (runs.stop < self._time.n_columns) | around[runs.row, 1]
        return runs.take(keep)

    def _grounds(self, wide: WideSpans, fill: U32) -> U32:
        """Return the colours under labels, tinted where spans are highlighted."""
        highlighted = self._scene.highlighted
        if highlighted is None or not len(highlighted.ids):
            return fill
        at = np.searchsorted(highlighted.ids, wide.ids)
        at = np.minimum(at, len(highlighted.ids) - 1)
        is_tinted = highlighted.ids[at] == wide.ids
        colors, place = np.unique(fill, return_inverse=True)
        selection = self._theme.selection
        tinted = [mix(color, selection, HIGHLIGHT_SHARE) for color in colors.tolist()]
        return np.where(is_tinted, np.array(tinted, np.uint32)[place], fill)

    def _labels(self, wide: WideSpans, fill: U32) -> list[tuple[float, Text]]:
        width = wide.x1 - wide.x0
        labelled = np.flatnonzero((width >= LABEL_PX) & (wide.y1 - wide.y0 >= 9.5))
        if len(labelled) > MAX_LABELS:
            widest = np.argpartition(-width[labelled], MAX_LABELS)
            labelled = np.sort(labelled[widest[:MAX_LABELS]])
        middle = ((wide.y0 + wide.y1) / 2)[labelled]
        size = np.minimum(LABEL_SIZE, wide.y1 - wide.y0 - 1.5)[labelled]
        columns = (
            wide.ids[labelled],
            wide.x0[labelled],
            width[labelled],
            middle,
            size,
            fill[labelled],
            wide.at_left[labelled],
        )
        return [
            (
                span_px,
                Text(
                    x + 5,
                    y,
                    self._trace.span_name(span),
                    label_color(ground),
                    height,
                    Face.UI,
                    width=span_px - 8,
                    clip=self._clip,
                    keeps_left=is_cut,
                ),
            )
            for span, x, span_px, y, height, ground, is_cut in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]


def stack_levels(style: RowStyle, height: float, scale: float) -> int:
    """Return how many levels the columns of a row have, 0 = they are no stacks."""
    if style in (RowStyle.PHASE, RowStyle.TOKEN) or height < STACK_PX:
        return 0  # bands follow one another and hold one thing at a time
    return round(height * scale)


def _has_edge(wide: WideSpans) -> npt.NDArray[np.bool_]:
    """Return which spans end in view and are wide enough for a dark right edge."""
    return ~wide.at_right & (wide.x1 - wide.x0 >= EDGE_PX)


def idle_color(theme: Theme) -> int:
    """Return the tone of idle time, which lets the grid shine through."""
    return with_alpha(theme.dim, IDLE_SHARE)


def neutral_color(theme: Theme) -> int:
    """Return the colour of what the run is divided by: tokens and graphs."""
    return mix(theme.lane, theme.dim, 0.33 if theme.is_dark else 0.15)


def ghost_color(theme: Theme) -> int:
    """Return the colour of what the filter left out, before it is made pale."""
    return mix(theme.dim, theme.lane, 0.45)


def stall_color(theme: Theme) -> int:
    """Return the colour of stalls."""
    return category_color("quality:3", theme)


def darker(fill: U32) -> U32:
    """Return an edge colour per fill: half as bright."""
    halved: U32 = ((fill >> np.uint32(1)) & np.uint32(0x7F7F7F)) | np.uint32(0xFF000000)
    return halved


def token_boxes(
    geometry: TimelineGeometry, clip: Clip, wide: WideSpans, fill: U32
) -> list[Batch]:
    """Return tokens as flat boxes, a pixel apart, with round corners if wide enough."""
    if not len(wide):
        return []
    scene, spans = geometry.scene, geometry.scene.index.trace.spans
    theme, visible = scene.theme, geometry.time.visible
    marked = _is_selected(scene, wide.ids)
    border = np.where(marked, np.uint32(theme.selection), np.uint32(0))
    # Boxes that go on outside the view must not show round ends in it.
    x0 = wide.x0 - np.where(spans.start[wide.ids] < visible.start, 8.0, 0.0)
    x1 = wide.x1 + np.where(spans.end[wide.ids] > visible.end, 8.0, 0.0)
    is_round = x1 - x0 >= _ROUND_PX
    batches: list[Batch] = []
    for chosen, radius in ((~is_round, 0.0), (is_round, _RADIUS)):
        rects = RectList()
        rects.add(
            x0[chosen],
            x1[chosen] - _TOKEN_GAP_PX,
            wide.y0[chosen],
            wide.y1[chosen],
            fill[chosen],
            border[chosen],
        )
        batches += rects.batch(radius=radius, clip=clip)
    return batches


def token_colors(geometry: TimelineGeometry, ids: Array) -> U32:
    """Return the colours of tokens: by latency where they are narrow, else grey."""
    index, theme = geometry.scene.index, geometry.scene.theme
    share = token_share(geometry)
    if not share:
        return np.full(len(ids), neutral_color(theme), np.uint32)
    slow = slowness(index.trace, ids, token_latency_of(index))
    return latency_colors(slow, neutral_color(theme), share, theme)


def token_share(geometry: TimelineGeometry) -> float:
    """Return how far tokens are coloured by latency, see `colored_share`."""
    return colored_share(geometry.time, token_latency_of(geometry.scene.index))


def token_labels(
    geometry: TimelineGeometry, clip: Clip, wide: WideSpans, fill: U32
) -> list[tuple[float, Text]]:
    """Return (width, text) of the tokens with room for one.

    All are called by number alone where one has no room for its phase as well; how
    long each took stands beside it wherever there is room.
    """
    scene, trace = geometry.scene, geometry.scene.index.trace
    theme, spans, text_width = scene.theme, trace.spans, scene.measurer.width
    marked = _is_selected(scene, wide.ids)
    is_readable = contrast(theme.selection, neutral_color(theme)) >= _TEXT_CONTRAST
    selected_color = theme.selection if is_readable else theme.text
    labelled = np.flatnonzero(wide.x1 - wide.x0 >= TOKEN_LABEL_PX)
    label_px = (wide.x1 - wide.x0)[labelled] - _LABEL_MARGINS
    names = [_token_names(trace, span) for span in wide.ids[labelled].tolist()]
    is_whole = ~(wide.at_left | wide.at_right)[labelled]
    form = int(
        all(
            text_width(whole, Face.UI, LABEL_SIZE) <= px
            for (_, whole), px, counts in zip(names, label_px, is_whole, strict=True)
            if counts
        )
    )
    labels = []
    for i, width, name in zip(labelled.tolist(), label_px.tolist(), names, strict=True):
        span = int(wide.ids[i])
        took = format_duration(
            int(spans.end[span] - spans.start[span]), trace.clock.unit
        )
        label, longer = name[form], [f"{name[form]} {took}"]
        if inputs := _token_inputs(trace, span):
            longer += [f"{label} · {inputs}", f"{label} {took} · {inputs}"]
        for more in longer:
            if text_width(more, Face.UI, LABEL_SIZE) <= width:
                label = more
        text = Text(
            float(wide.x0[i]) + 7,
            float(wide.y0[i] + wide.y1[i]) / 2,
            label,
            _readable(selected_color if marked[i] else theme.text, int(fill[i])),
            LABEL_SIZE,
            Face.UI,
            width=width,
            clip=clip,
            keeps_left=bool(wide.at_left[i]),
        )
        labels.append((width + _LABEL_MARGINS, text))
    return labels


def _readable(color: int, fill: int) -> int:
    """Return the colour, or black or white where it cannot be read on `fill`."""
    return color if contrast(color, fill) >= _TEXT_CONTRAST else label_color(fill)


def _token_names(trace: Trace, span: int) -> tuple[str, str]:
    """Return "#3" and "decode #3" of a token; its name twice where it has no number."""
    tokens = trace.spans.token
    number = -1 if tokens is None else int(tokens[span])
    short = f"#{number}" if number >= 0 else trace.span_name(span)
    return short, token_text(trace, span) or short


def _token_inputs(trace: Trace, span: int) -> str:
    """Return what was put into a ubatch, see `RunEvents.add_ubatch`; "" = unknown."""
    tokens, name = trace.spans.token, trace.span_name(span)
    head = f"ubatch {-1 if tokens is None else int(tokens[span])} · "
    return name.removeprefix(head) if name.startswith(head) else ""


ChosenToken = tuple[int, int]
"""Token and phase of a span; the phase is -1 where numbers say all."""


def chosen_token(scene: TimelineScene) -> ChosenToken | None:
    """Return the token of the active span, whose boxes are framed; None = of none."""
    selection, trace = scene.selection, scene.index.trace
    active, tokens, phase = selection.active, trace.spans.token, trace.spans.phase
    if selection.table != "spans" or active is None or tokens is None:
        return None
    if tokens[active] < 0:
        return None
    if phase is None or not numbers_per_phase(trace):
        return int(tokens[active]), -1
    return int(tokens[active]), int(phase[active])


def _is_selected(scene: TimelineScene, ids: Array) -> npt.NDArray[np.bool_]:
    """Return which token spans are those of the active span."""
    spans, chosen = scene.index.trace.spans, chosen_token(scene)
    if chosen is None or spans.token is None:
        return np.zeros(len(ids), np.bool_)
    token, phase = chosen
    same: npt.NDArray[np.bool_] = spans.token[ids] == token
    if spans.phase is not None and numbers_per_phase(scene.index.trace):
        same &= spans.phase[ids] == phase
    return same
