"""Picture of the latency of tokens: a bar each, or a dot each over the context.

Where there are more bars than pixels, a column shows from the shortest to the longest
of all its bars, for each phase.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ggscope.analysis.compare.bar_parts import BarParts, bar_parts
from ggscope.analysis.summary.latency import SLOW, Latency, token_latency
from ggscope.descriptions.spans import phase_word
from ggscope.descriptions.tokens import (
    fit_text,
    latency_text,
    part_text,
    parts_text,
    plural,
    slope_text,
)
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.tables import I64, Phase
from ggscope.model.trace import Trace
from ggscope.model.units import Unit, format_duration
from ggscope.render.batch import (
    Batch,
    DisplayList,
    Face,
    Pattern,
    RectList,
    Text,
    TextList,
)
from ggscope.render.charts import (
    LABEL_SIZE,
    Axis,
    ChartGeometry,
    ChartScene,
    Curve,
    Rule,
    compose_chart,
    plain,
)
from ggscope.render.colors import Entry, Sign, category_color, phase_color
from ggscope.render.export import Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.options import export_command, option
from ggscope.render.theme import Theme, mix, visible_on, with_alpha
from ggscope.render.theme import theme as theme_named

Over = Literal["time", "context"]
Shown = Literal["all", "prompt", "generated"]
Stack = Literal["none", "family"]
Window = tuple[float, float]
I8 = npt.NDArray[np.int8]
F64 = npt.NDArray[np.float64]
MIN_WINDOW = 4.0
"""Bars, or tokens of context, that the axis shows at least."""
_UNTIMED = 3
"""Kind of bars without a measured or derived time; others have their `Phase`."""
_SPLIT = 4
"""Kind of bars that are stacked by what runs in them."""
_KINDS = (Phase.PROMPT, Phase.GENERATE, Phase.MIXED, -1, _UNTIMED)
_MAX_BAR_PX, _GAP_SHARE, _MAX_GAP_PX = 64.0, 0.2, 4.0
_MIN_GAP_FROM_PX = 4.0
_CAP_PX = 3.0
_CUT_FROM, _CUT_COUNTED_FROM = 3, 8
"""What is so many times as long as the longest counted bar leaves the axis to these;
of counted bars, what is so many times as long as their p99."""
_BREAK_TOP_PX, _BREAK_PX, _CUT_DOT_PX = 9.0, 3.0, 8.0
_LABEL_PX = 72.0
_DOT_PX, _SMALL_DOT_PX, _MANY_DOTS = 4.0, 2.0, 2_000
_REACH_PX = 6.0
_BODY_SHARE = 0.5
"""How much of a column's colour the part has that all its bars reach."""
_IDLE_SHARE = 0.25
"""How much of the colour of dim texts the part has in which no op runs."""
_NO_FLOATS = np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class TokensScene:
    """The inputs of the picture of token latency.

    Attributes
    ----------
    over : what the x axis is: the order of time, or the position in the context.
    show : bars of which phase.
    window : part of the x axis: numbers of shown bars, the first of which lies from
        -0.5 to 0.5, or positions; None = all of it.
    selected, hover : rows of ``latency.bars``, -1 = none.
    parts : by which bars in the order of time are stacked; None = plain bars.
    """

    trace: Trace
    latency: Latency
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    over: Over = "time"
    show: Shown = "all"
    window: Window | None = None
    selected: int = -1
    hover: int = -1
    is_figure: bool = False
    parts: BarParts | None = None

    @property
    def stack(self) -> BarParts | None:
        """The parts that are drawn: dots over the context have none."""
        return self.parts if self.over == "time" else None


def shown_rows(scene: TokensScene) -> I64:
    """Return the bars of the chart, rows of ``latency.bars`` in their order."""
    latency = scene.latency
    is_shown = np.ones(len(latency.bars), np.bool_)
    if scene.show != "all":
        phase = Phase.PROMPT if scene.show == "prompt" else Phase.GENERATE
        is_shown &= latency.bars.phase == phase
    if scene.over == "context":
        is_shown &= (latency.position >= 0) & latency.bars.is_timed
    return np.flatnonzero(is_shown)


def full_window(scene: TokensScene) -> Window:
    """Return the whole x axis."""
    rows = shown_rows(scene)
    if scene.over == "time" or not len(rows):
        return -0.5, max(len(rows), 1) - 0.5
    position = scene.latency.position[rows]
    low, high = float(position.min()), float(position.max())
    air = max((high - low) * 0.02, 1.0)
    return low - air, high + air


def x_values(scene: TokensScene, rows: I64) -> F64:
    """Return where shown bars lie on the x axis."""
    if scene.over == "time":
        return np.arange(len(rows), dtype=np.float64)
    return scene.latency.position[rows].astype(np.float64)


def chart_of_tokens(scene: TokensScene) -> ChartScene:
    """Return axes, lines and legend; the bars are drawn by `compose_tokens`."""
    latency, theme, unit = scene.latency, scene.theme, scene.trace.clock.unit
    low, high = scene.window or full_window(scene)
    rules = [
        Rule(f"{name} {format_duration(value, unit)}", y=value, color=color)
        for name, value, color in (
            ("median", latency.median, theme.accent),
            ("p99", latency.p99, theme.dim),
        )
        if value is not None and scene.show != "prompt"
    ]
    noun = plural(latency.bars.noun)
    label = f"{noun} in the order of time"
    if scene.over == "context":
        label = "position: tokens computed before"
    curves = [
        Curve(_NO_FLOATS, _NO_FLOATS, entry.color, entry.label)
        for entry in legend(scene)
    ]
    return ChartScene(
        scene.width, scene.height, theme,
        Axis(low, high, label, _whole),
        Axis(0, y_high(scene), "wall time", partial(_axis_time, unit=unit)),
        (*curves, *_fit_curve(scene)), tuple(rules), scale=scene.scale,
        is_figure=scene.is_figure,
    )  # fmt: skip


def y_high(scene: TokensScene) -> float:
    """Return the upper end of the axis of times, in ticks.

    A prompt may take a thousand times as long as a token: bars that do not count for
    the median are cut where they would flatten those that do. So are the few that do
    and are far beyond p99, as where no phase is known the prompt counts too.
    """
    latency, rows = scene.latency, shown_rows(scene)
    inside = _inside(scene, rows)
    if not len(inside):
        return 1.0
    duration, is_counted = latency.bars.duration[inside], latency.is_counted[inside]
    longest = float(duration.max())
    if scene.show == "prompt":
        return max(longest, 1.0) * 1.12
    rule = latency.p99 or 0.0
    if is_counted.any():
        base = max(float(duration[is_counted].max()), rule, 1.0)
        if rule and base > _CUT_COUNTED_FROM * rule:
            base = max(rule, 1.0)
        if longest > _CUT_FROM * base:
            return base * 1.4
    return max(longest, rule, 1.0) * 1.12


def _inside(scene: TokensScene, rows: I64) -> I64:
    """Return those of the shown bars that lie in the window."""
    low, high = scene.window or full_window(scene)
    x = x_values(scene, rows)
    return rows[(x >= low - 0.5) & (x <= high + 0.5)]


def _axis_time(value: float, unit: Unit) -> str:
    """Return a time as an axis labels it: ``50 ms``."""
    number, _, name = format_duration(value, unit).partition(" ")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number} {name}".rstrip() if value else "0"


def _whole(value: float) -> str:
    return plain(value) if float(value).is_integer() else ""


def _fit_curve(scene: TokensScene) -> list[Curve]:
    """Return the line of growth with the context, as far as bars were fitted."""
    fit = scene.latency.fit
    if scene.over != "context" or scene.show == "prompt" or fit is None:
        return []
    x = np.array([fit.low, fit.high], np.float64)
    label = slope_text(fit, scene.trace.clock.unit)
    color = scene.theme.text
    y = fit.at_zero + fit.slope * x
    return [Curve(x, y, color, label, is_dashed=True)]


def kinds_of(latency: Latency, rows: I64) -> I8:
    """Return the kind of bars: their phase, -1 unknown, or that of no known time."""
    bars = latency.bars
    return np.where(bars.is_timed[rows], bars.phase[rows], _UNTIMED).astype(np.int8)


def _kinds(scene: TokensScene, rows: I64) -> I8:
    """Return the kind of bars as they are drawn: those that are stacked are one."""
    kind, parts = kinds_of(scene.latency, rows), scene.stack
    return kind if parts is None else np.where(parts.is_split[rows], _SPLIT, kind)


def kind_color(kind: int, theme: Theme) -> int:
    """Return the colour of bars of a kind, with a contrast of 3:1 on the pane."""
    if kind == _UNTIMED:
        return theme.dim
    return visible_on(phase_color(kind, theme), theme.pane)


def part_colors(parts: BarParts, theme: Theme) -> list[int]:
    """Return the colour of each family, and of idle time last."""
    colors = [category_color(family, theme) for family in parts.families]
    return [*colors, mix(theme.pane, theme.dim, _IDLE_SHARE)]


def _part_entries(scene: TokensScene, rows: I64) -> list[Entry]:
    """Return the parts that any of the bars has."""
    parts = scene.stack
    if parts is None:
        return []
    colors, texts = part_colors(parts, scene.theme), part_text(parts)
    ran = np.append(parts.ticks[rows].any(axis=0), parts.idle[rows].any())
    return [Entry(texts[i], colors[i]) for i in np.flatnonzero(ran).tolist()]


def legend(scene: TokensScene) -> list[Entry]:
    """Return the kinds and parts of bars that are shown, and the mark of outliers."""
    latency, theme = scene.latency, scene.theme
    rows = shown_rows(scene)
    there = set(np.unique(_kinds(scene, rows)).tolist())
    entries = _part_entries(scene, rows)
    for kind in _KINDS:
        if int(kind) not in there:
            continue
        color = kind_color(int(kind), theme)
        if kind == _UNTIMED:
            text = "no measured time"
            entries.append(Entry(text, color, pattern=Pattern.HATCH))
        else:
            text = phase_word(scene.trace, int(kind)) if kind >= 0 else "phase unknown"
            entries.append(Entry(text, color))
    if latency.is_outlier[rows].any():
        where = "mark on top: " if scene.stack is not None else ""
        entries.append(Entry(f"{where}over {SLOW} × the median", theme.caution))
    if (latency.bars.duration[_inside(scene, rows)] > y_high(scene)).any():
        entries.append(Entry("cut off: longer than the axis", theme.text, Sign.FRAME))
    return entries


def compose_tokens(scene: TokensScene) -> DisplayList:
    """Return the picture."""
    chart = chart_of_tokens(scene)
    geometry = ChartGeometry(chart)
    rows = shown_rows(scene)
    marks = _dots if scene.over == "context" else _bars
    batches = [*marks(scene, geometry, rows), *_highlight(scene, geometry)]
    return compose_chart(chart, batches)


# -- bars ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Bars by pixel column and kind, the highest of a column first.

    Attributes
    ----------
    column, kind : int64[n], int8[n].
    low, high : int64[n], ticks of the shortest and the longest.
    rank : int64[n], 0 for the highest of its column.
    """

    column: I64
    kind: I8
    low: I64
    high: I64
    rank: I64


def columns_of(column: I64, kind: I8, duration: I64) -> Columns:
    """Return the shortest and the longest of all bars by column and kind.

    Parameters
    ----------
    column : int64[n], ascending.
    """
    parts = []
    for one in np.unique(kind):
        rows = np.flatnonzero(kind == one)
        first = _firsts(column[rows])
        parts.append((
            column[rows][first],
            np.full(len(first), one, np.int8),
            np.minimum.reduceat(duration[rows], first),
            np.maximum.reduceat(duration[rows], first),
        ))  # fmt: skip
    if not parts:
        empty = np.zeros(0, np.int64)
        return Columns(empty, empty.astype(np.int8), empty, empty, empty)
    of_column, of_kind, low, high = (
        np.concatenate(values) for values in zip(*parts, strict=True)
    )
    order = np.lexsort((-high, of_column))
    of_column = of_column[order]
    first = _firsts(of_column)
    sizes = np.diff(np.append(first, len(of_column)))
    rank = np.arange(len(of_column)) - np.repeat(first, sizes)
    return Columns(of_column, of_kind[order], low[order], high[order], rank)


def _firsts(column: I64) -> I64:
    """Return where each run of equal numbers begins; of at least one number."""
    return np.flatnonzero(np.diff(column, prepend=column[0] - 1))


def _visible(geometry: ChartGeometry, n: int) -> slice:
    """Return the numbers of the bars of which a part is shown."""
    axis = geometry.scene.x
    low, high = int(np.floor(axis.low + 0.5)), int(np.ceil(axis.high + 0.5))
    return slice(min(max(low, 0), n), min(max(high, 0), n))


def _bar_px(geometry: ChartGeometry) -> float:
    """Return the width of a bar with its gap."""
    axis = geometry.scene.x
    return (geometry.right - geometry.left) / max(axis.high - axis.low, 1e-9)


def _column_of(geometry: ChartGeometry, number: npt.ArrayLike) -> I64:
    """Return the device-pixel column of the middles of bars."""
    x = geometry.px(np.asarray(number, np.float64)) - geometry.left
    return np.floor(x * geometry.scene.scale).astype(np.int64)


def _bars(scene: TokensScene, geometry: ChartGeometry, rows: I64) -> list[Batch]:
    part = _visible(geometry, len(rows))
    rows, number = rows[part], np.arange(part.start, part.stop)
    if not len(rows):
        return []
    duration = scene.latency.bars.duration[rows]
    kind = _kinds(scene, rows)
    if _bar_px(geometry) * scene.scale < 1:
        return _column_batches(scene, geometry, rows, number)
    x0, x1 = _edges(geometry, number)
    boxes = RectList()
    fill, pattern = _fills(kind, scene.theme)
    top = np.minimum(_snapped(geometry, geometry.py(duration)),
                     geometry.bottom - 1 / scene.scale)  # fmt: skip
    is_plain = kind != _SPLIT
    boxes.add(x0[is_plain], x1[is_plain], top[is_plain], geometry.bottom,
              fill[is_plain], pattern=pattern[is_plain])  # fmt: skip
    if scene.stack is not None and not is_plain.all():
        split = ~is_plain
        shares = scene.stack.shares(rows[split])
        _add_stacks(
            boxes, scene, geometry, x0[split], x1[split], duration[split], shares
        )
    is_slow = scene.latency.is_outlier[rows]
    if is_slow.any():
        y = top[is_slow]
        left, right = _at_least(x0[is_slow], x1[is_slow])
        boxes.add(left, right, y - _CAP_PX - 1, y - 1, scene.theme.caution)
    batches = boxes.batch(clip=geometry.clip)
    is_cut = duration > geometry.scene.y.high
    batches += _breaks(scene, geometry, x0[is_cut], x1[is_cut])
    cut = x0[is_cut], x1[is_cut], duration[is_cut]
    return batches + _cut_labels(scene, geometry, *cut)


def _add_stacks(
    boxes: RectList,
    scene: TokensScene,
    geometry: ChartGeometry,
    x0: F64,
    x1: F64,
    duration: I64,
    shares: F64,
) -> None:
    """Add the parts of bars from their feet up; those cut off show all their shares."""
    if scene.stack is None:
        return
    height = geometry.bottom - np.maximum(geometry.py(duration), geometry.top)
    reach = np.cumsum(shares, axis=1)
    reach[:, -1] = 1
    edge = _snapped(geometry, geometry.bottom - height[:, None] * reach)
    edge[:, -1] = np.minimum(edge[:, -1], geometry.bottom - 1 / scene.scale)
    foot = np.full(len(duration), geometry.bottom)
    for i, color in enumerate(part_colors(scene.stack, scene.theme)):
        seen = edge[:, i] < foot
        boxes.add(x0[seen], x1[seen], edge[seen, i], foot[seen],
                  np.full(int(seen.sum()), color, np.uint32))  # fmt: skip
        foot = edge[:, i]


def _mean_shares(scene: TokensScene, column: I64, rows: I64) -> tuple[I64, F64]:
    """Return columns with bars that are stacked, and the means of these bars' shares.

    Parameters
    ----------
    column : of each of `rows`, ascending.
    """
    parts = scene.stack
    is_split = np.zeros(len(rows), np.bool_) if parts is None else parts.is_split[rows]
    if parts is None or not is_split.any():
        return np.zeros(0, np.int64), np.zeros((0, 1))
    column = column[is_split]
    first = _firsts(column)
    n = np.diff(np.append(first, len(column)))
    sums = np.add.reduceat(parts.shares(rows[is_split]), first, axis=0)
    return column[first], sums / n[:, None]


def _breaks(
    scene: TokensScene,
    geometry: ChartGeometry,
    x0: F64,
    x1: F64,
) -> list[Batch]:
    """Return a gap in each bar that is longer than the axis."""
    boxes, y = RectList(), geometry.top + _BREAK_TOP_PX
    boxes.add(x0, x1, y, y + _BREAK_PX, scene.theme.pane)
    return boxes.batch(clip=geometry.clip)


def _cut_labels(
    scene: TokensScene,
    geometry: ChartGeometry,
    x0: F64,
    x1: F64,
    duration: I64,
) -> list[Batch]:
    """Return the times of bars that are cut, where there is space beside them."""
    texts, unit = TextList(), scene.trace.clock.unit
    stops = np.append(x0, geometry.right)[1:]
    has_space = np.flatnonzero(stops - x1 >= _LABEL_PX)
    for left, value in zip(
        x1[has_space].tolist(), duration[has_space].tolist(), strict=True
    ):
        if left >= geometry.left:
            texts.append(
                Text(left + 4, geometry.top + 6, format_duration(value, unit),
                     scene.theme.text, LABEL_SIZE, Face.MONO)
            )  # fmt: skip
    return texts.batch()


def _edges(geometry: ChartGeometry, number: npt.NDArray[np.int64]) -> tuple[F64, F64]:
    """Return left and right edges of bars, on device pixels."""
    px = _bar_px(geometry)
    gap = min(px * _GAP_SHARE, _MAX_GAP_PX) if px >= _MIN_GAP_FROM_PX else 0.0
    half = min((px - gap) / 2, _MAX_BAR_PX / 2)
    middle = geometry.px(number.astype(np.float64))
    x0 = _snapped(geometry, middle - half)
    x1 = _snapped(geometry, middle + half)
    return x0, np.maximum(x1, x0 + 1 / geometry.scene.scale)


def _snapped(geometry: ChartGeometry, px: npt.ArrayLike) -> F64:
    scale = geometry.scene.scale
    return np.asarray(np.floor(np.asarray(px, np.float64) * scale + 0.5) / scale)


def _at_least(x0: F64, x1: F64) -> tuple[F64, F64]:
    """Return edges of marks that are wide enough to be seen."""
    more = np.maximum(_CAP_PX - (x1 - x0), 0) / 2
    return x0 - more, x1 + more


def _fills(
    kind: I8, theme: Theme
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
    fill = np.zeros(len(kind), np.uint32)
    for one in np.unique(kind).tolist():
        fill[kind == one] = kind_color(one, theme)
    pattern = np.where(kind == _UNTIMED, Pattern.HATCH, Pattern.SOLID)
    return fill, pattern.astype(np.uint8)


def _column_batches(
    scene: TokensScene, geometry: ChartGeometry, rows: I64, number: I64
) -> list[Batch]:
    """Return a column per pixel: pale up to the shortest bar, full to the longest."""
    latency, pixel = scene.latency, 1 / scene.scale
    duration = latency.bars.duration[rows]
    column = _column_of(geometry, number)
    columns = columns_of(column, _kinds(scene, rows), duration)
    x0 = _snapped(geometry, geometry.left + columns.column * pixel)
    high = np.minimum(_snapped(geometry, geometry.py(columns.high)),
                      geometry.bottom - pixel)  # fmt: skip
    low = np.maximum(_snapped(geometry, geometry.py(columns.low)), high + pixel)
    fill, pattern = _fills(columns.kind, scene.theme)
    dimmed = np.array(
        [mix(scene.theme.pane, int(color), _BODY_SHARE) for color in fill], np.uint32
    )
    of_column, mean_shares = _mean_shares(scene, column, rows)
    batches: list[Batch] = []
    for rank in range(int(columns.rank.max()) + 1):
        boxes, is_here = RectList(), columns.rank == rank
        at = is_here & (columns.kind != _SPLIT)
        split = is_here & (columns.kind == _SPLIT)
        shares = mean_shares[np.searchsorted(of_column, columns.column[split])]
        left = x0[split]
        _add_stacks(
            boxes, scene, geometry, left, left + pixel, columns.high[split], shares
        )
        boxes.add(x0[at], x0[at] + pixel, low[at], geometry.bottom, dimmed[at])
        boxes.add(x0[at], x0[at] + pixel, high[at], low[at], fill[at],
                  pattern=pattern[at])  # fmt: skip
        batches += boxes.batch(clip=geometry.clip)
        is_cut = is_here & (columns.high > geometry.scene.y.high)
        batches += _breaks(scene, geometry, x0[is_cut], x0[is_cut] + pixel)
    is_slow = latency.is_outlier[rows]
    if is_slow.any():
        slow = columns_of(
            column[is_slow], np.zeros(int(is_slow.sum()), np.int8), duration[is_slow]
        )
        y = _snapped(geometry, geometry.py(slow.high))
        left = _snapped(geometry, geometry.left + slow.column * pixel)
        x_low, x_high = _at_least(left, left + pixel)
        caps = RectList()
        caps.add(x_low, x_high, y - _CAP_PX - 1, y - 1, scene.theme.caution)
        batches += caps.batch(clip=geometry.clip)
    return batches


# -- dots ------------------------------------------------------------------------


def _dots(scene: TokensScene, geometry: ChartGeometry, rows: I64) -> list[Batch]:
    """Return a dot per bar, those of outliers in the colour of their mark."""
    latency, bars = scene.latency, scene.latency.bars
    size = _DOT_PX if len(rows) <= _MANY_DOTS else _SMALL_DOT_PX
    x = _snapped(geometry, geometry.px(latency.position[rows]) - size / 2)
    y = _snapped(geometry, _dot_y(geometry, bars.duration[rows]) - size / 2)
    height = np.where(bars.duration[rows] > geometry.scene.y.high, _CUT_DOT_PX, size)
    kind, is_slow = kinds_of(latency, rows), latency.is_outlier[rows]
    fill, _ = _fills(kind, scene.theme)
    fill[is_slow] = scene.theme.caution
    # Dots at the same pixel of the same colour are one.
    across, down = (np.round(side * scene.scale).astype(np.int64) for side in (x, y))
    place = ((across << 20) + down) * 16 + (kind.astype(np.int64) + 1) * 2 + is_slow
    _, once = np.unique(place, return_index=True)
    boxes = RectList()
    low = y[once] + height[once]
    boxes.add(x[once], x[once] + size, y[once], low, fill[once])
    return boxes.batch(clip=geometry.clip)


def _dot_y(geometry: ChartGeometry, duration: I64) -> F64:
    """Return the middles of dots; what is longer than the axis lies at its end."""
    return np.maximum(geometry.py(duration), geometry.top + _DOT_PX / 2)


# -- what is pointed at ------------------------------------------------------------


def _highlight(scene: TokensScene, geometry: ChartGeometry) -> list[Batch]:
    """Return frames around the selected bar and the one under the mouse."""
    theme, rows, boxes = scene.theme, shown_rows(scene), RectList()
    for row, color in ((scene.hover, theme.dim), (scene.selected, theme.selection)):
        at = np.flatnonzero(rows == row)
        if not len(at):
            continue
        if scene.over == "context":
            middle = geometry.px(scene.latency.position[rows[at]])
            x0, x1 = middle - _DOT_PX, middle + _DOT_PX
        else:
            x0, x1 = _at_least(*_edges(geometry, at))
        fill = with_alpha(color, 0.2)
        boxes.add(x0, x1, geometry.top, geometry.bottom, fill, border=color)
    return boxes.batch(clip=geometry.clip)


def bars_at(scene: TokensScene, x: float, y: float) -> I64:
    """Return the bars at a position, the longest (or of dots the nearest) first."""
    none, rows = np.zeros(0, np.int64), shown_rows(scene)
    geometry = ChartGeometry(chart_of_tokens(scene))
    value = geometry.value_at(x, y)
    if value is None or not len(rows):
        return none
    duration = scene.latency.bars.duration
    if scene.over == "context":
        dx = geometry.px(scene.latency.position[rows]) - x
        dy = _dot_y(geometry, duration[rows]) - y
        away = np.hypot(dx, dy)
        near = np.flatnonzero(away <= _REACH_PX)
        return rows[near[np.argsort(away[near], kind="stable")]]
    if _bar_px(geometry) * scene.scale >= 1:
        number = int(np.floor(value[0] + 0.5))
        return rows[number : number + 1] if 0 <= number < len(rows) else none
    part = _visible(geometry, len(rows))
    column = _column_of(geometry, np.arange(part.start, part.stop))
    here: I64 = rows[part][column == int(np.floor((x - geometry.left) * scene.scale))]
    return here[np.argsort(-duration[here], kind="stable")]


# -- figure ----------------------------------------------------------------------


def draw_tokens(scene: TokensScene, style: FigureStyle, name: str) -> RenderedFigure:
    """Return the figure of a scene, as `style` says."""
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width, theme=theme_named(style.theme), scale=style.scale, hover=-1,
        selected=scene.selected if style.seen else -1, is_figure=True,
    )  # fmt: skip
    if not len(shown_rows(scene)):
        raise NothingToDrawError(why_nothing(scene))
    noun = scene.latency.bars.noun
    what = f"latency of {plural(noun)}"
    texts = [latency_text(scene.trace, scene.latency)]
    if scene.stack is not None:
        what += " by op family"
        part_lines = parts_text(scene.stack, shown_rows(scene))
        texts.append(part_lines[0].upper() + part_lines[1:])
    if scene.over == "context":
        what += " over the context"
        texts.append(fit_text(scene.trace, scene.latency))
    fitted = [Entry(c.label, c.color, Sign.DASHES) for c in _fit_curve(scene)]
    return framed(
        style, f"{name} · {what}",
        lambda height: compose_tokens(replace(scene, height=height)), width=width,
        natural_height=max(width * 0.4, 200.0),
        entries=[*legend(scene), *fitted],
        description=". ".join((f"L{what[1:]} of {name}", *texts)) + ".",
    )  # fmt: skip


def why_nothing(scene: TokensScene) -> str:
    """Return why no bar is shown, a sentence."""
    if not len(scene.latency.bars):
        return "The trace records no tokens and no graphs."
    if scene.over == "context" and not (scene.latency.position >= 0).any():
        return "The trace does not record positions of tokens."
    noun = plural(scene.latency.bars.noun)
    where = " with a known position" if scene.over == "context" else ""
    phase = "" if scene.show == "all" else f" of the phase {_PHASES[scene.show]}"
    return f"No {noun}{phase}{where} in this trace."


_PHASES = {"prompt": "prompt", "generated": "generate"}


def _read_window(value: Any) -> Window:
    low, high = value
    if not float(low) < float(high):
        raise ValueError(value)
    return float(low), float(high)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensOptions:
    """Options of the figure of token latency.

    Attributes
    ----------
    over : "time" for bars in the order of time, "context" for dots by position.
    show : "all", or one phase: "prompt" or "generated".
    window : ends of the x axis in numbers of bars, from 0, or positions; None = all.
    stack : "family" for bars in the order of time stacked by op family.
    """

    over: Over = "time"
    show: Shown = "all"
    window: Window | None = field(default=None, metadata=option(read=_read_window))
    stack: Stack = "none"


def tokens_figure(trace: Trace, options: TokensOptions = TokensOptions()) -> Figure:
    """Return the figure of token latency."""
    for value, known in (
        (options.over, get_args(Over)), (options.show, get_args(Shown)),
        (options.stack, get_args(Stack)),
    ):  # fmt: skip
        if value not in known:
            raise ExportError(f"There is no {value!r}: {', '.join(known)}.")

    is_stacked = options.stack == "family"
    if is_stacked and options.over != "time":
        raise ExportError("Dots over the context are not stacked: choose one of both.")

    def draw(style: FigureStyle) -> RenderedFigure:
        scene = TokensScene(
            trace, token_latency(trace), 1200.0, 480.0, theme_named(style.theme),
            style.scale, options.over, options.show, options.window,
            parts=bar_parts(trace) if is_stacked else None,
        )  # fmt: skip
        return draw_tokens(scene, style, trace_name(trace))

    return Figure("tokens", draw, recipe=export_command("tokens", trace, options))
