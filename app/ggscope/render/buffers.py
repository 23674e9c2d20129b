"""Buffers over time: stacked occupancy with its peak, and the lives of buffers."""

from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from ggscope.analysis.buffers import (
    UNKNOWN,
    Grouping,
    Lives,
    Occupancy,
    lives,
    occupancy,
)
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.tables import I64
from ggscope.model.tensors import BufferUsage
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    TimeRange,
    format_both_bytes,
    format_bytes,
    format_counted,
    shown_form,
)
from ggscope.render.axis import axis_ticks
from ggscope.render.batch import (
    Align,
    AreaBatch,
    Batch,
    Clip,
    DisplayList,
    Face,
    LineList,
    RectList,
    Text,
    TextList,
)
from ggscope.render.charts import Axis, axis_values, in_bytes
from ggscope.render.colors import Entry, category_color, label_color
from ggscope.render.export import Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.options import export_command, option, read_time
from ggscope.render.theme import Theme, mix, with_alpha
from ggscope.render.theme import theme as theme_named
from ggscope.render.timeline.scene import TimeScale

LEFT = 82.0
"""Width of the labels at the left; the time axis begins there."""
ROW_HEIGHT = 20.0
_AXIS = 26.0
_LEGEND = 22.0
_LABEL_SIZE = 10.5
_CHARACTER = 0.602 * _LABEL_SIZE
_MIN_LABEL_PX = 34.0
_FADE_STEPS = 12
_FADE_PX = 30.0
_MAX_LIVES_SHARE = 0.45
_MIN_AREA, _USUAL_AREA = 60.0, 170.0
_USUAL_ROWS = 16
_PILL_SPACE = 26.0
_MIN_WITH_PILL = 80.0
_PILL_SHARE = 0.6
"""How much of the width the words at the peak may take before they are shortened."""
_USAGE_KEYS = {"WEIGHTS": "space:0", "COMPUTE": "space:1", "ANY": "space:4"}


@dataclass(frozen=True, slots=True, eq=False)
class BuffersScene:
    """Everything the picture of buffers depends on.

    Attributes
    ----------
    visible : ticks shown, the session's.
    scroll : pixels that the lives are scrolled down.
    hover : row of ``Trace.buffers`` under the mouse, -1.
    selected : rows that are selected.
    accessed : rows that the selection accesses.
    alive : rows alive at the selected op; None = nothing is asked, all alike.
    cursor_tick : where the hair line is, None = nowhere.
    absolute : whether times are on the file's own clock.
    is_figure : whether the legend is in the frame of a figure, and only whole lives
        are drawn.
    """

    trace: Trace
    occupancy: Occupancy
    lives: Lives
    visible: TimeRange
    width: float
    height: float
    theme: Theme
    by: Grouping = "usage"
    scale: float = 1.0
    scroll: float = 0.0
    hover: int = -1
    selected: frozenset[int] = field(default_factory=frozenset)
    accessed: frozenset[int] = field(default_factory=frozenset)
    alive: frozenset[int] | None = None
    cursor_tick: int | None = None
    absolute: bool = False
    is_figure: bool = False


class BuffersGeometry:
    """Where the parts of the picture lie, in device-independent pixels.

    Attributes
    ----------
    time : the scale of time.
    axis_y : top of the time axis; the legend is above it.
    area_y, area_bottom : of the occupancy.
    lives_y, bottom : of the lives. n_rows : rows of lives that are drawn.
    """

    __slots__ = ("area_bottom", "area_y", "axis_y", "bottom", "lives_y", "n_rows",
                 "scene", "time")  # fmt: skip

    def __init__(self, scene: BuffersScene) -> None:
        self.scene = scene
        left = min(LEFT, scene.width * 0.4)
        self.time = TimeScale(scene.visible, left, scene.width, scene.scale)
        self.axis_y = _LEGEND
        self.area_y = _LEGEND + _AXIS
        self.bottom = max(scene.height, self.area_y + 2)
        lives_height = scene.lives.n_rows * ROW_HEIGHT + 8
        body_height = self.bottom - self.area_y
        if scene.is_figure:
            self.n_rows = self._rows_of_a_figure(body_height)
            lives_height = self.n_rows * ROW_HEIGHT + 6
            self.lives_y = self.time.snap(self.bottom - lives_height)
            self.area_bottom = max(self.lives_y - 4, self.area_y + 1)
            return
        self.n_rows = scene.lives.n_rows
        self.lives_y = self.time.snap(
            self.bottom
            - min(lives_height, max(body_height * _MAX_LIVES_SHARE, ROW_HEIGHT + 8))
        )
        self.area_bottom = max(self.lives_y - 4, self.area_y + 1)

    def _rows_of_a_figure(self, height: float) -> int:
        """Return how many rows of lives fit whole below an occupancy to be read."""
        left = height - max(_MIN_AREA, height * (1 - _MAX_LIVES_SHARE) * 0.5)
        return max(min(self.scene.lives.n_rows, int((left - 6) // ROW_HEIGHT)), 0)

    @property
    def max_scroll(self) -> float:
        """How far the lives can be scrolled."""
        needed = self.scene.lives.n_rows * ROW_HEIGHT + 8
        return max(needed - (self.bottom - self.lives_y), 0.0)

    @property
    def has_room_for_pill(self) -> bool:
        """Whether the occupancy is high enough for words in it."""
        return self.area_bottom - self.area_y >= _MIN_WITH_PILL

    @property
    def area_clip(self) -> Clip:
        """Where the occupancy is."""
        x, width = self.time.x0, self.time.x1 - self.time.x0
        return Clip(x, self.area_y, width, self.area_bottom - self.area_y)

    @property
    def lives_clip(self) -> Clip:
        """Where the lives are."""
        x, width = self.time.x0, self.time.x1 - self.time.x0
        return Clip(x, self.lives_y, width, self.bottom - self.lives_y)

    def tick_at(self, x: float) -> int:
        """Return the tick at a position."""
        return self.time.tick(x)

    def buffer_at(self, x: float, y: float) -> int:
        """Return the buffer whose life is at a position, -1 = none."""
        if not (self.lives_y <= y < self.bottom and self.time.x0 <= x < self.time.x1):
            return -1
        lives = self.scene.lives
        row = int((y - self.lives_y + self.scene.scroll) // ROW_HEIGHT)
        x0, x1 = self.life_xs()
        hit = np.flatnonzero((lives.row == row) & (x0 <= x) & (x < x1))
        return int(lives.buffer[hit[0]]) if len(hit) else -1

    def life_xs(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return where each life begins and ends; at least two pixels long."""
        buffers, rows = self.scene.trace.buffers, self.scene.lives.buffer
        born, freed = buffers.allocated[rows], buffers.freed[rows]
        end = np.where(freed == UNKNOWN, self.end_tick, freed)
        x0, x1 = self.time.xs(born), self.time.xs(np.maximum(end, born))
        return x0, np.maximum(x1, x0 + 2)

    @property
    def end_tick(self) -> int:
        """Where the record ends: buffers not freed by then fade out."""
        return max(self.scene.trace.extent.end, self.last_change)

    @property
    def last_change(self) -> int:
        """The last tick that the occupancy knows of."""
        time = self.scene.occupancy.time
        return int(time[-1]) if len(time) else self.scene.trace.extent.end


def group_color(title: str, position: int, by: Grouping, theme: Theme) -> int:
    """Return the colour of a group of the occupancy."""
    if by == "usage":
        return category_color(_USAGE_KEYS.get(title, "space:4"), theme)
    return category_color(f"backend:{position}", theme)


def buffer_name(trace: Trace, row: int) -> str:
    """Return what people call a buffer: its name, else its number."""
    name = int(trace.buffers.name[row])
    return (trace.strings[name] if name >= 0 else "") or f"buffer {row}"


def usage_name(trace: Trace, row: int) -> str:
    """Return WEIGHTS, COMPUTE or ANY."""
    return BufferUsage(int(trace.buffers.usage[row])).name


def compose_buffers(scene: BuffersScene) -> DisplayList:
    """Return the picture of occupancy and lives."""
    geometry = BuffersGeometry(scene)
    batches: list[Batch] = [*_time_axis(geometry)]
    batches += _occupancy(geometry)
    batches += _lives(geometry)
    batches += _axis_title(geometry) if scene.is_figure else _legend(geometry)
    batches += _peak(geometry)
    batches += _hair(geometry)
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches)
    )


def area_columns(occupancy: Occupancy, time: TimeScale) -> tuple[I64, I64]:
    """Return the level of each group in each pixel column, where it was highest.

    Returns
    -------
    level : int64[px, g], the groups at the instant with the largest total of the
        column, so that they add up to a total that occurred.
    total : int64[px].
    """
    n = time.n_columns
    first = np.searchsorted(occupancy.time, time.edges[:-1], "right") - 1
    last = np.searchsorted(occupancy.time, time.edges[1:], "left") - 1
    row = np.maximum(first, 0)
    # Few columns hold a change: only those are searched for their highest level.
    for column in np.flatnonzero(last > first).tolist():
        begin = max(int(first[column]), 0)
        span = occupancy.total[begin : int(last[column]) + 1]
        row[column] = begin + int(np.argmax(span))
    is_known = np.maximum(first, last) >= 0
    level = np.zeros((n, len(occupancy.groups)), np.int64)
    level[is_known] = occupancy.level[row[is_known]]
    return level, level.sum(axis=1, dtype=np.int64)


def _occupancy(geometry: BuffersGeometry) -> list[Batch]:
    scene, time, theme = geometry.scene, geometry.time, geometry.scene.theme
    occupancy = scene.occupancy
    if occupancy.peak is None or not occupancy.peak.bytes:
        return []
    level, _ = area_columns(occupancy, time)
    height = geometry.area_bottom - geometry.area_y
    # What the peak's words leave free.
    area_height = height - (_PILL_SPACE if geometry.has_room_for_pill else 0.0)
    axis = Axis(
        0.0,
        occupancy.peak.bytes * height / area_height,
        format_value=in_bytes,
        is_binary=True,
    )
    batches = _levels(geometry, axis)
    # What was occupied after the record's end is not known.
    n = int(np.count_nonzero(time.edges[:-1] <= geometry.end_tick))
    if not n:
        return batches
    x = time.column_x(np.arange(n + 1)).astype(np.float32)
    stacked = np.cumsum(level[:n], axis=1)
    # The highest stack first; each lower one covers all but its own part.
    for group in range(len(occupancy.groups) - 1, -1, -1):
        color = group_color(occupancy.groups[group], group, scene.by, theme)
        y = (
            geometry.area_bottom
            - axis.share(stacked[:, group].astype(np.float64)) * height
        )
        fill = mix(theme.pane, color, 0.5)
        batches.append(
            AreaBatch(
                x, y.astype(np.float32), geometry.area_bottom, fill, color,
                geometry.area_clip,
            )
        )  # fmt: skip
    return batches


def _levels(geometry: BuffersGeometry, axis: Axis) -> list[Batch]:
    """Return the lines and labels of bytes."""
    theme, height = geometry.scene.theme, geometry.area_bottom - geometry.area_y
    lines, texts = LineList(1 / geometry.time.scale), TextList()
    for value in axis_values(axis, int(height / 30)):
        y = geometry.area_bottom - float(axis.share(value)) * height
        if y < geometry.area_y + 6:
            continue
        snapped = geometry.time.snap(y)
        lines.add(geometry.time.x0, snapped, geometry.time.x1, snapped, theme.grid)
        # The lowest label stands on the line under the area, not in it.
        at = min(y, geometry.area_bottom - _LABEL_SIZE / 2)
        texts.append(
            Text(geometry.time.x0 - 8, at, axis.format_value(value), theme.dim,
                 _LABEL_SIZE, Face.MONO, Align.RIGHT)
        )  # fmt: skip
    return [*lines.batch(), *texts.batch()]


def _time_axis(geometry: BuffersGeometry) -> list[Batch]:
    scene, time, theme = geometry.scene, geometry.time, geometry.scene.theme
    axis = axis_ticks(
        scene.visible, time.x1 - time.x0, scene.trace.clock, absolute=scene.absolute
    )
    marks, grid, texts = LineList(1 / time.scale), LineList(1 / time.scale), TextList()
    foot, hidden = geometry.axis_y + _AXIS, _hair_label(geometry)
    base = axis.base or scene.trace.clock.axis_word
    if scene.is_figure and not scene.trace.clock.axis_word:
        base = f"time {base}".rstrip()
    min_x = min(8 + len(base) * _CHARACTER + 8, time.x0)
    for tick, label in axis.ticks:
        x = time.x(tick)
        if not time.x0 <= x <= time.x1:
            continue
        snapped = time.snap(x)
        marks.add(snapped, foot - 6, snapped, foot, theme.faint)
        grid.add(snapped, foot, snapped, geometry.bottom, theme.grid)
        half = len(label) * _CHARACTER / 2
        at = max(min(x, time.x1 - half - 2), min_x + half)
        if hidden is not None and hidden[0] < at + half and at - half < hidden[1]:
            continue  # half a number would stick out from under the hair line's label
        texts.append(
            Text(at, geometry.axis_y + 11, label, theme.dim, _LABEL_SIZE, Face.MONO,
                 Align.CENTER)
        )  # fmt: skip
    if base:
        texts.append(
            Text(8, geometry.axis_y + 11, base, theme.dim, _LABEL_SIZE, Face.MONO,
                 width=time.x0 - 12)
        )  # fmt: skip
    return [*grid.batch(), *marks.batch(), *texts.batch()]


def _axis_title(geometry: BuffersGeometry) -> list[Batch]:
    title = f"allocated bytes by {geometry.scene.by}"
    color = geometry.scene.theme.text
    text = Text(
        8, _LEGEND / 2 + 1, title, color, _LABEL_SIZE, width=geometry.scene.width
    )
    return TextList([text]).batch()


def _legend(geometry: BuffersGeometry) -> list[Batch]:
    scene, theme = geometry.scene, geometry.scene.theme
    swatches, texts = RectList(), TextList()
    x, y = 12.0, _LEGEND / 2 + 1
    for i, title in enumerate(scene.occupancy.groups):
        color = group_color(title, i, scene.by, theme)
        text = title if scene.by == "backend" else title.lower()
        swatches.add(x, x + 9, y - 4.5, y + 4.5, mix(theme.pane, color, 0.6), color)
        texts.append(Text(x + 15, y, text, theme.text, 11.0))
        x += 15 + len(text) * 7.0 + 16
    return [*swatches.batch(), *texts.batch()]


def _lives(geometry: BuffersGeometry) -> list[Batch]:
    scene, theme = geometry.scene, geometry.scene.theme
    lives, buffers = scene.lives, scene.trace.buffers
    if not len(lives.buffer):
        return []
    top = geometry.lives_y + 6 + lives.row * ROW_HEIGHT - scene.scroll
    x0, x1 = geometry.life_xs()
    is_seen = (x1 > geometry.time.x0) & (x0 < geometry.time.x1)
    is_seen &= (top + ROW_HEIGHT > geometry.lives_y) & (top < geometry.bottom)
    if scene.is_figure:
        is_seen &= lives.row < geometry.n_rows
    rects, outlines, texts = RectList(), RectList(), TextList()
    for i in np.flatnonzero(is_seen).tolist():
        row = int(lives.buffer[i])
        color = _life_color(scene, row)
        is_dim = scene.alive is not None and row not in scene.alive
        fill = mix(theme.pane, color, 0.22 if is_dim else 0.62)
        left, right = max(x0[i], geometry.time.x0), min(x1[i], geometry.time.x1)
        y0, y1 = float(top[i]), float(top[i]) + ROW_HEIGHT - 4
        solid = right
        if buffers.freed[row] == UNKNOWN and x1[i] <= geometry.time.x1 + 0.5:
            solid = max(right - _FADE_PX, left + (right - left) / 2)
            _fade(rects, (solid, right), (y0, y1), fill, theme)
        rects.add(left, solid, y0, y1, fill)
        edge = _edge(scene, row)
        if edge:
            outlines.add(left, right, y0 - 1, y1 + 1, 0, edge)
        _label(texts, geometry, row, (left, right), (y0 + y1) / 2, fill)
    clip = geometry.lives_clip
    line = LineList(1 / geometry.time.scale)
    line.add(0, geometry.lives_y, scene.width, geometry.lives_y, theme.line)
    return [
        *line.batch(), *_lives_head(geometry), *rects.batch(clip=clip),
        *outlines.batch(clip=clip), *texts.batch(),
    ]  # fmt: skip


def _lives_head(geometry: BuffersGeometry) -> list[Batch]:
    theme, texts = geometry.scene.theme, TextList()
    y, space = geometry.lives_y + 6 + (ROW_HEIGHT - 4) / 2, geometry.time.x0 - 16
    texts.append(Text(12, y, "Buffers", theme.text, 11.0, Face.HEADING, width=space))
    n_more = geometry.scene.lives.n_left_out
    if n_more and not geometry.scene.is_figure:
        texts.append(
            Text(12, y + 16, f"+{n_more:,} smaller", theme.dim, _LABEL_SIZE,
                 width=space)
        )  # fmt: skip
    return texts.batch()


def _life_color(scene: BuffersScene, row: int) -> int:
    group = int(scene.occupancy.group[row])
    return group_color(scene.occupancy.groups[group], group, scene.by, scene.theme)


def _edge(scene: BuffersScene, row: int) -> int:
    """Return the colour of the frame of a life, 0 = none."""
    if row in scene.selected:
        return scene.theme.selection
    if row in scene.accessed:
        return scene.theme.accent
    return scene.theme.text if row == scene.hover else 0


def _fade(
    rects: RectList,
    xs: tuple[float, float],
    ys: tuple[float, float],
    fill: int,
    theme: Theme,
) -> None:
    """Draw an end that nobody saw: from the fill to nothing, opaque for print."""
    edges = np.linspace(*xs, _FADE_STEPS + 1)
    shares = np.linspace(0.92, 0.08, _FADE_STEPS).tolist()
    colors = np.array([mix(theme.pane, fill, share) for share in shares], np.uint32)
    rects.add(edges[:-1], edges[1:], *ys, colors)


def _label(
    texts: TextList,
    geometry: BuffersGeometry,
    row: int,
    xs: tuple[float, float],
    y: float,
    fill: int,
) -> None:
    left, right = xs
    if right - left < _MIN_LABEL_PX:
        return
    scene = geometry.scene
    size = int(scene.trace.buffers.size[row])
    amount = format_bytes(size) if size >= 0 else NOT_AVAILABLE
    texts.append(
        Text(left + 6, y, f"{buffer_name(scene.trace, row)} · {amount}",
             label_color(fill), _LABEL_SIZE, width=right - left - 10,
             clip=geometry.lives_clip)
    )  # fmt: skip


def peak_text(scene: BuffersScene, limit: int = 1_000) -> str:
    """Return what the pill at the peak says, in about `limit` letters at most."""
    peak = scene.occupancy.peak
    if peak is None:
        return ""
    n = len(peak.alive)
    form = shown_form(scene.visible, scene.trace.clock, absolute=scene.absolute)
    text = f"peak {format_bytes(peak.bytes)}"
    for more in (format_counted(n, "buffer"), form.text(peak.time)):
        if len(f"{text} · {more}") > limit:
            break
        text = f"{text} · {more}"
    return text


def _peak(geometry: BuffersGeometry) -> list[Batch]:
    """Return a line at the peak and its words: on a pill in the area, or above it."""
    scene, time, theme = geometry.scene, geometry.time, geometry.scene.theme
    peak = scene.occupancy.peak
    if peak is None or not peak.bytes:
        return []
    x, space = time.x(peak.time), time.x1 - time.x0
    lines, pill, texts = LineList(dashed=True), RectList(), TextList()
    if time.x0 <= x <= time.x1:
        lines.add(x, geometry.area_y, x, geometry.area_bottom, theme.caution)
    text = peak_text(scene, int((space * _PILL_SHARE - 18) / _CHARACTER))
    if not geometry.has_room_for_pill:
        if not scene.is_figure:
            texts.append(
                Text(time.x1 - 4, _LEGEND / 2 + 1, text, theme.text, _LABEL_SIZE,
                     Face.MONO, Align.RIGHT)
            )  # fmt: skip
        return [*lines.batch(geometry.area_clip), *texts.batch()]
    width = len(text) * _CHARACTER + 18
    # Beyond the view the pill stays at the edge where the peak is.
    left = max(min(x - width / 2, time.x1 - width - 4), time.x0 + 4)
    y = geometry.area_y + 11
    pill.add(left, left + width, y - 9, y + 9, mix(theme.pane, theme.caution, 0.2),
             theme.caution)  # fmt: skip
    texts.append(
        Text(left + width / 2, y, text, theme.text, _LABEL_SIZE, Face.MONO,
             Align.CENTER, width=width)
    )  # fmt: skip
    return [*lines.batch(geometry.area_clip), *pill.batch(radius=9.0), *texts.batch()]


def _hair_label(geometry: BuffersGeometry) -> tuple[float, float, str] | None:
    """Return (left, right, words) of the label at the hair line, if there is one."""
    scene, time, tick = geometry.scene, geometry.time, geometry.scene.cursor_tick
    if tick is None or not scene.visible.start <= tick <= scene.visible.end:
        return None
    total = int(scene.occupancy.at(tick).sum())
    form = shown_form(scene.visible, scene.trace.clock, absolute=scene.absolute)
    text = f"{form.text(tick)} · {format_bytes(total)}"
    half = len(text) * _CHARACTER / 2 + 6
    at = max(min(time.snap(time.x(tick)), time.x1 - half), time.x0 + half)
    return at - half, at + half, text


def _hair(geometry: BuffersGeometry) -> list[Batch]:
    scene, time, theme = geometry.scene, geometry.time, geometry.scene.theme
    label = _hair_label(geometry)
    if label is None or scene.cursor_tick is None:
        return []
    left, right, text = label
    x = time.snap(time.x(scene.cursor_tick))
    lines, plate, texts = LineList(1 / time.scale), RectList(), TextList()
    lines.add(x, geometry.area_y, x, geometry.bottom, with_alpha(theme.text, 0.5))
    y = geometry.axis_y + 11
    plate.add(left, right, y - 9, y + 9, theme.raised, theme.line)
    texts.append(
        Text((left + right) / 2, y, text, theme.text, _LABEL_SIZE, Face.MONO,
             Align.CENTER)
    )  # fmt: skip
    return [*lines.batch(), *plate.batch(radius=4.0), *texts.batch()]


def draw_buffers(scene: BuffersScene, style: FigureStyle, name: str) -> RenderedFigure:
    """Return the figure of a scene, as `style` says; of the lives, whole rows."""
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width - 8, theme=theme_named(style.theme), scale=style.scale,
        hover=-1, cursor_tick=None, scroll=0.0, is_figure=True,
    )  # fmt: skip
    if not style.seen:
        none = frozenset[int]()
        scene = replace(scene, selected=none, accessed=none, alive=None)
    theme, peak = scene.theme, scene.occupancy.peak
    entries = []
    for i, title in enumerate(scene.occupancy.groups):
        color = mix(theme.pane, group_color(title, i, scene.by, theme), 0.6)
        entries.append(Entry(title if scene.by == "backend" else title.lower(), color))
    rows = min(scene.lives.n_rows, _USUAL_ROWS)
    left_out: list[str] = []

    def compose(height: float) -> DisplayList:
        whole = replace(scene, height=height)
        beyond = scene.lives.row >= BuffersGeometry(whole).n_rows
        if n := int(beyond.sum()) + scene.lives.n_left_out:
            left_out.append(f"Not drawn: lifetimes of {format_counted(n, 'buffer')}.")
        return compose_buffers(whole)

    n, by = len(scene.trace.buffers), scene.by
    return framed(
        style, f"{name} · buffers", compose, width=width,
        natural_height=_LEGEND + _AXIS + _USUAL_AREA + rows * ROW_HEIGHT + 10,
        entries=entries,
        description="" if peak is None else f"Buffers of {name} by {by}, {n:,} in "
        f"all; at most {format_both_bytes(peak.bytes)} in {len(peak.alive):,} of them.",
        left_out=left_out,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BuffersOptions:
    """Options of the figure of the buffers.

    Attributes
    ----------
    by : what the occupancy is divided by.
    visible : ticks; the whole trace and all buffers where None.
    absolute : whether times are on the file's own clock.
    """

    by: Grouping = field(default="usage", metadata=option(flag="by"))
    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )
    absolute: bool = False


def buffers_figure(trace: Trace, options: BuffersOptions = BuffersOptions()) -> Figure:
    """Return the figure of occupancy, its peak, and lives of buffers."""
    by, visible = options.by, options.visible
    if by not in get_args(Grouping):
        known = ", ".join(get_args(Grouping))
        raise ExportError(f"Buffers can be grouped by {known}, not {by}.")

    def draw(style: FigureStyle) -> RenderedFigure:
        usage = occupancy(trace, by)
        if usage.peak is None:
            raise NothingToDrawError(
                "No allocation of a buffer is recorded in this trace."
            )
        scene = BuffersScene(
            trace=trace,
            occupancy=usage,
            lives=lives(trace.buffers),
            visible=_whole(trace) if visible is None else visible,
            width=1400.0,
            height=560.0,
            theme=theme_named(style.theme),
            by=by,
            scale=style.scale,
            absolute=options.absolute,
        )
        return draw_buffers(scene, style, trace_name(trace))

    return Figure("buffers", draw, recipe=export_command("buffers", trace, options))


def _whole(trace: Trace) -> TimeRange:
    """Return the extent with some air, so that a sudden start can be seen."""
    extent = trace.extent
    return extent.padded(max(extent.duration // 40, 8))
