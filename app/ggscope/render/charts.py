"""Charts as display lists: curves, steps and areas over two axes, and ranked bars.

One composer for the charts of all panes, so that what is on the screen is what a
figure shows, and every axis labels its numbers in the same way.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ggscope.model.units import format_bytes, format_count
from ggscope.render.batch import (
    Align,
    AreaBatch,
    Batch,
    Clip,
    DisplayList,
    Face,
    LineBatch,
    RectBatch,
    Text,
    TextBatch,
)
from ggscope.render.colors import Entry, Sign
from ggscope.render.theme import Theme, mix, with_alpha

F64 = npt.NDArray[np.float64]
LABEL_SIZE = 10.5
_CHARACTER = 0.602 * LABEL_SIZE
_LEFT, _RIGHT, _BOTTOM, _TOP = 64.0, 14.0, 34.0, 10.0
_TITLE, _LEGEND = 26.0, 20.0
_PILL_STEP, _FAR = 18.0, 10_000
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
BAR_HEIGHT = 20.0


def plain(value: float) -> str:
    """Return a number as an axis labels it: whole where it is, else 4 digits."""
    whole = round(value)
    if abs(value - whole) < 1e-9 * max(abs(value), 1):
        return format_count(whole)
    return f"{value:.4g}"


def in_bytes(value: float) -> str:
    """Return an amount of bytes as an axis labels it: 1.25 GiB, 2 GiB."""
    whole = round(value)
    number, _, unit = format_bytes(whole).partition(" ")
    power = _UNITS.index(unit) if unit in _UNITS else 0
    exact = f"{whole / 1024**power:.2f}".rstrip("0").rstrip(".")
    return f"{exact} {unit}" if power else f"{number} {unit}"


def in_percent(value: float) -> str:
    """Return a share (0..1) as an axis labels it."""
    return f"{value * 100:.4g} %"


@dataclass(frozen=True, slots=True)
class Axis:
    """Range and labels of an axis.

    Attributes
    ----------
    label : what it measures, with its unit.
    format_value : returns the label of a number.
    is_log : logarithmic; `low` must be above 0.
    is_binary : steps are powers of two times 1, 2 or 4: bytes.
    """

    low: float
    high: float
    label: str = ""
    format_value: Callable[[float], str] = plain
    is_log: bool = False
    is_binary: bool = False

    def share(self, values: npt.ArrayLike) -> F64:
        """Return the place of numbers along the axis, 0..1 inside it."""
        numbers = np.asarray(values, np.float64)
        if self.is_log:
            low = max(self.low, 1e-300)
            width = math.log(max(self.high, low) / low) or 1.0
            return np.asarray(np.log(np.maximum(numbers, low) / low) / width)
        return np.asarray((numbers - self.low) / ((self.high - self.low) or 1.0))

    def value(self, share: float) -> float:
        """Return the number at a place, the inverse of `share`."""
        if self.is_log:
            low = max(self.low, 1e-300)
            return float(low * (max(self.high, low) / low) ** share)
        return self.low + share * (self.high - self.low)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A line through points, ascending in x.

    Attributes
    ----------
    x, y : float64[n]; with `is_step` y[i] holds from x[i] to x[i + 1].
    color : 0xAARRGGBB.
    label : of the legend, "" = none.
    fills : also fill the area down to the lower end of the axis.
    """

    x: F64
    y: F64
    color: int
    label: str = ""
    is_step: bool = False
    fills: bool = False
    is_dashed: bool = False
    width: float = 1.6


@dataclass(frozen=True, slots=True)
class Rule:
    """A straight line across the chart with a word: a peak, a target.

    Attributes
    ----------
    x, y : exactly one of them is given.
    label : shown on a pill at the line's end.
    """

    label: str
    x: float | None = None
    y: float | None = None
    color: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ChartScene:
    """Everything a chart depends on. Sizes are device-independent pixels."""

    width: float
    height: float
    theme: Theme
    x: Axis
    y: Axis
    curves: tuple[Curve, ...] = ()
    rules: tuple[Rule, ...] = ()
    title: str = ""
    scale: float = 1.0
    hover: tuple[float, float] | None = None
    """Where a cross hair is, in numbers of the axes."""
    is_figure: bool = False
    """Whether the curves are named in the legend of a figure, not in the chart."""


class ChartGeometry:
    """Where the parts of a chart lie.

    Attributes
    ----------
    left, right, top, bottom : of the plot area.
    """

    __slots__ = ("bottom", "left", "right", "scene", "top")

    def __init__(self, scene: ChartScene) -> None:
        self.scene = scene
        names = () if scene.is_figure else (c.label for c in scene.curves)
        has_legend = bool(scene.y.label) or any(names)
        self.left = min(_LEFT, scene.width * 0.3)
        self.right = max(scene.width - _RIGHT, self.left + 1)
        self.top = (
            _TOP + (_TITLE if scene.title else 0) + (_LEGEND if has_legend else 0)
        )
        self.bottom = max(scene.height - _BOTTOM, self.top + 1)

    def px(self, x: npt.ArrayLike) -> F64:
        """Return the positions of numbers of the x axis, not clipped."""
        share = np.clip(self.scene.x.share(x), -10, 11)
        return np.asarray(self.left + share * (self.right - self.left))

    def py(self, y: npt.ArrayLike) -> F64:
        """Return the positions of numbers of the y axis, not clipped."""
        share = np.clip(self.scene.y.share(y), -10, 11)
        return np.asarray(self.bottom - share * (self.bottom - self.top))

    def value_at(self, x: float, y: float) -> tuple[float, float] | None:
        """Return the numbers at a position; None outside the plot area."""
        if not (self.left <= x <= self.right and self.top <= y <= self.bottom):
            return None
        along = (x - self.left) / (self.right - self.left)
        up = (self.bottom - y) / (self.bottom - self.top)
        return self.scene.x.value(along), self.scene.y.value(up)

    @property
    def clip(self) -> Clip:
        """The plot area."""
        return Clip(self.left, self.top, self.right - self.left, self.bottom - self.top)


def axis_values(axis: Axis, max_n: int) -> list[float]:
    """Return at most about `most` round numbers on an axis, ascending."""
    max_n = max(max_n, 2)
    if axis.is_log:
        return _log_values(axis, max_n)
    width = axis.high - axis.low
    # Below that, steps of the axis are no different numbers.
    min_width = max(abs(axis.low), abs(axis.high)) * 1e-12
    if not width > min_width or not math.isfinite(width):
        return [axis.low]
    step = _round_step(width / max_n, axis.is_binary)
    first = math.ceil(axis.low / step - 1e-9)
    last = math.floor(axis.high / step + 1e-9)
    return [i * step for i in range(first, min(last, first + 4 * max_n) + 1)]


def _round_step(min_step: float, is_binary: bool) -> float:
    if is_binary and min_step >= 1:
        return float(2 ** math.ceil(math.log2(min_step) - 1e-9))
    power = 10.0 ** math.floor(math.log10(min_step))
    return next((m * power for m in (1, 2, 5) if m * power >= min_step), 10 * power)


def _log_values(axis: Axis, max_n: int) -> list[float]:
    base = 2.0 if axis.is_binary else 10.0
    low = math.ceil(math.log(max(axis.low, 1e-300) * 0.999, base))
    high = math.floor(math.log(max(axis.high, axis.low, 1e-300) * 1.001, base))
    every = max(1, math.ceil((high - low + 1) / max_n))
    return [base**k for k in range(low, high + 1, every)] or [axis.low]


def compose_chart(scene: ChartScene, marks: Sequence[Batch] = ()) -> DisplayList:
    """Return the picture of a chart, with `marks` over its grid and under its rules."""
    geometry = ChartGeometry(scene)
    batches: list[Batch] = [*_grid(geometry), *marks]
    for curve in scene.curves:
        batches += _curve(geometry, curve)
    batches += _rules(geometry)
    batches += _hair(geometry)
    batches.append(TextBatch(tuple(_heads(geometry))))
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches)
    )


def _grid(geometry: ChartGeometry) -> list[Batch]:
    scene, theme = geometry.scene, geometry.scene.theme
    n_x = int((geometry.right - geometry.left) / 84)
    n_y = int((geometry.bottom - geometry.top) / 34)
    xs, ys = axis_values(scene.x, n_x), axis_values(scene.y, n_y)
    at_x, at_y = geometry.px(np.array(xs)), geometry.py(np.array(ys))
    texts = [
        _x_label(geometry, float(x), scene.x.format_value(v))
        for v, x in zip(xs, at_x, strict=True)
    ]
    texts += [
        Text(geometry.left - 6, float(y), scene.y.format_value(v), theme.dim,
             LABEL_SIZE, Face.MONO, Align.RIGHT, width=geometry.left - 8)
        for v, y in zip(ys, at_y, strict=True)
    ]  # fmt: skip
    middle = (geometry.left + geometry.right) / 2
    texts.append(
        Text(middle, geometry.bottom + 25, scene.x.label, theme.dim, LABEL_SIZE,
             align=Align.CENTER, width=geometry.right - geometry.left)
    )  # fmt: skip
    lines = _lines(
        [(x, geometry.top, x, geometry.bottom) for x in at_x.tolist()]
        + [(geometry.left, y, geometry.right, y) for y in at_y.tolist()],
        theme.grid,
        geometry.clip,
    )
    frame = _lines(
        [
            (geometry.left, geometry.bottom, geometry.right, geometry.bottom),
            (geometry.left, geometry.top, geometry.left, geometry.bottom),
        ],
        theme.line,
    )
    return [lines, frame, TextBatch(tuple(texts))]


def _x_label(geometry: ChartGeometry, x: float, label: str) -> Text:
    """Return a label below the axis, moved so far that the picture holds it."""
    half = len(label) * _CHARACTER / 2 + 2
    x = max(min(x, geometry.scene.width - half), half)
    return Text(x, geometry.bottom + 10, label, geometry.scene.theme.dim, LABEL_SIZE,
                Face.MONO, Align.CENTER)  # fmt: skip


def _lines(
    points: Sequence[tuple[float, float, float, float]],
    color: int,
    clip: Clip | None = None,
    *,
    width: float = 1.0,
    is_dashed: bool = False,
) -> LineBatch:
    table = np.array(points, np.float32).reshape(-1, 4)
    x0, y0, x1, y1 = (np.ascontiguousarray(table[:, i]) for i in range(4))
    hues = np.full(len(table), color, np.uint32)
    return LineBatch(x0, y0, x1, y1, hues, width, is_dashed, clip)


def _curve(geometry: ChartGeometry, curve: Curve) -> list[Batch]:
    if not len(curve.x):
        return []
    x, y = geometry.px(curve.x), geometry.py(curve.y)
    if curve.is_step:  # the last value holds to the end of the axis
        x = np.append(x, max(float(x[-1]), geometry.right))
    elif len(x) < 2:
        return []
    batches: list[Batch] = []
    if curve.fills:
        edges, heights = (x, y) if curve.is_step else _columns(geometry, x, y)
        batches.append(
            AreaBatch(
                edges.astype(np.float32), heights.astype(np.float32), geometry.bottom,
                with_alpha(curve.color, 0.22), clip=geometry.clip,
            )
        )  # fmt: skip
    if curve.is_step:
        x, y = np.repeat(x, 2)[1:-1], np.repeat(y, 2)
    points = np.column_stack([x[:-1], y[:-1], x[1:], y[1:]])
    batches.append(
        _lines(
            points.tolist(),
            curve.color,
            geometry.clip,
            width=curve.width,
            is_dashed=curve.is_dashed,
        )
    )
    return batches


def _columns(geometry: ChartGeometry, x: F64, y: F64) -> tuple[F64, F64]:
    """Return a sloping curve as steps of one pixel: edges and heights."""
    first, last = max(float(x[0]), geometry.left), min(float(x[-1]), geometry.right)
    n = max(math.ceil((last - first) * geometry.scene.scale), 1)
    edges = np.linspace(first, max(last, first), n + 1)
    return edges, np.interp((edges[:-1] + edges[1:]) / 2, x, y)


def _rules(geometry: ChartGeometry) -> list[Batch]:
    batches, pills = list[Batch](), list[Batch]()
    theme, taken = geometry.scene.theme, list[_Place]()
    for rule in geometry.scene.rules:
        color, width = rule.color or theme.caution, len(rule.label) * _CHARACTER + 12
        if rule.x is not None:
            x = float(geometry.px(rule.x))
            if not geometry.left - 0.5 <= x <= geometry.right + 0.5:
                continue
            points = [(x, geometry.top, x, geometry.bottom)]
            places = _places_beside(geometry, width, x)
        elif rule.y is not None:
            y = float(geometry.py(rule.y))
            if not geometry.top - 0.5 <= y <= geometry.bottom + 0.5:
                continue
            points = [(geometry.left, y, geometry.right, y)]
            places = _places_along(geometry, width, y)
        else:
            continue
        batches.append(_lines(points, color, is_dashed=True))
        if rule.label:
            position = _clearest(geometry, width, places, taken)
            taken.append((*position, width))
            pills += _pill(geometry, rule.label, position, width, color)
    return batches + pills  # no line crosses the label of another


_Place = tuple[float, float, float]
"""Left, middle and width of a label."""


def _pill(
    geometry: ChartGeometry,
    label: str,
    at: tuple[float, float],
    width: float,
    color: int,
) -> list[Batch]:
    theme, (left, middle) = geometry.scene.theme, at
    ground = mix(theme.pane, color, 0.18)
    box = _box(
        left, left + width, middle - 8, middle + 8, ground, border=color, radius=6.0
    )
    text = Text(left + width / 2, middle, label, theme.text, LABEL_SIZE, Face.MONO,
                Align.CENTER)  # fmt: skip
    return [box, TextBatch((text,))]


def _places_along(
    geometry: ChartGeometry, width: float, y: float
) -> list[tuple[float, float]]:
    """Return (left, middle) of labels of a level rule: on it, then beside it."""
    max_left = max(geometry.right - width, geometry.left)
    lefts = dict.fromkeys((max_left, geometry.left, (geometry.left + max_left) / 2))
    return [
        (left, min(max(y + away, geometry.top + 9), geometry.bottom - 9))
        for away in (0.0, -_PILL_STEP, _PILL_STEP)
        for left in lefts
    ]


def _places_beside(
    geometry: ChartGeometry, width: float, x: float
) -> list[tuple[float, float]]:
    """Return (left, middle) of labels of an upright rule: from its top down."""
    max_left = max(geometry.right - width, geometry.left)
    lefts = [
        min(max(x + away, geometry.left), max_left) for away in (-width / 2, 4, -width)
    ]
    top, bottom = geometry.top + 9, max(geometry.bottom - 9, geometry.top + 9)
    n = max(int((bottom - top) / _PILL_STEP), 1)
    middles = [top + (bottom - top) * i / n for i in range(n + 1)]
    return [(left, middle) for middle in middles for left in lefts]


def _clearest(
    geometry: ChartGeometry,
    width: float,
    places: list[tuple[float, float]],
    taken: list[_Place],
) -> tuple[float, float]:
    """Return the first of the places where a label hides least of curves and labels."""
    curves = [
        (geometry.px(curve.x), geometry.py(curve.y), curve.is_step)
        for curve in geometry.scene.curves
        if len(curve.x) >= (1 if curve.is_step else 2)
    ]
    best, min_hidden = places[0], math.inf
    for left, middle in places:
        xs = np.linspace(left, left + width, max(int(width / 3), 2))
        n_hidden = sum(_n_hidden(*curve, xs, middle) for curve in curves)
        n_hidden += sum(
            _FAR
            * (left < end + 2 and begin < left + width + 2 and abs(y - middle) < 18)
            for begin, y, end in ((a, y, a + wide) for a, y, wide in taken)
        )
        if n_hidden < min_hidden:
            best, min_hidden = (left, middle), n_hidden
    return best


def _n_hidden(px: F64, py: F64, is_step: bool, xs: F64, middle: float) -> int:
    """Return at how many of `xs` a label on a curve would hide it, and which steps."""
    if not is_step:
        is_there = (xs >= px[0]) & (xs <= px[-1])
        return int((is_there & (abs(np.interp(xs, px, py) - middle) < 9)).sum())
    number = np.searchsorted(px, xs, "right") - 1
    n = int(((number >= 0) & (abs(py[np.maximum(number, 0)] - middle) < 9)).sum())
    at = np.flatnonzero((px >= xs[0]) & (px <= xs[-1]))
    at = at[(at > 0) & (at < len(py))]
    low, high = np.minimum(py[at - 1], py[at]), np.maximum(py[at - 1], py[at])
    return n + int(((low < middle + 9) & (high > middle - 9)).sum())


def _box(
    x0: float,
    x1: float,
    y0: float,
    y1: float,
    fill: int,
    *,
    border: int | None = None,
    radius: float = 0.0,
) -> RectBatch:
    edges = np.array([[x0], [x1], [y0], [y1]], np.float32)
    lines = None if border is None else np.array([border], np.uint32)
    x, y = edges[:2], edges[2:]
    hue = np.array([fill], np.uint32)
    return RectBatch(x[0], x[1], y[0], y[1], hue, lines, radius=radius)


def _hair(geometry: ChartGeometry) -> list[Batch]:
    hover = geometry.scene.hover
    if hover is None:
        return []
    x, y = float(geometry.px(hover[0])), float(geometry.py(hover[1]))
    lines = [
        (x, geometry.top, x, geometry.bottom),
        (geometry.left, y, geometry.right, y),
    ]
    return [_lines(lines, with_alpha(geometry.scene.theme.text, 0.35), geometry.clip)]


def _heads(geometry: ChartGeometry) -> list[Text]:
    scene, theme = geometry.scene, geometry.scene.theme
    texts: list[Text] = []
    y = _TOP
    if scene.title:
        texts.append(
            Text(geometry.left, y + 8, scene.title, theme.text, 13.0, Face.HEADING,
                 width=geometry.right - geometry.left)
        )  # fmt: skip
        y += _TITLE
    x, end = geometry.left, geometry.right
    if scene.is_figure:
        texts.append(Text(8, y + 4, scene.y.label, theme.text, LABEL_SIZE, width=end))
        return texts
    label_px = len(scene.y.label) * _CHARACTER + 12
    if scene.y.label and label_px < (end - x) / 2:
        texts.append(
            Text(end, y + 4, scene.y.label, theme.dim, LABEL_SIZE, align=Align.RIGHT)
        )
        end -= label_px
    for curve in scene.curves:
        label_max = end - x - 16
        if curve.label and label_max > 3 * _CHARACTER:
            wide = min(len(curve.label) * _CHARACTER + 6, label_max)
            texts.append(Text(x, y + 4, "▬", curve.color | 0xFF000000, LABEL_SIZE))
            texts.append(
                Text(x + 16, y + 4, curve.label, theme.text, LABEL_SIZE, width=wide)
            )
            x += 16 + wide + 12
    return texts


# -- ranked bars -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of a ranking.

    Attributes
    ----------
    label : at the left, a name.
    value : its length; `text` says it at the right.
    color : 0xAARRGGBB.
    is_highlighted : selected.
    """

    label: str
    value: float
    text: str
    color: int
    is_highlighted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class BarScene:
    """A ranking, largest first; bars below the lower edge are left out."""

    width: float
    height: float
    theme: Theme
    bars: tuple[Bar, ...] = field(default_factory=tuple)
    title: str = ""
    scale: float = 1.0
    scroll: int = 0
    """How many bars are scrolled away."""
    hover: int = -1
    value_title: str = ""
    """What the bars measure: the axis title of a figure."""


def bars_top(scene: BarScene) -> float:
    """Return the top of the first bar."""
    return _TITLE if scene.title else 20.0 if scene.value_title else 4.0


def curve_entries(scene: ChartScene) -> list[Entry]:
    """Return the legend of the curves that have a name."""
    return [
        Entry(c.label, c.color, Sign.DASHES if c.is_dashed else Sign.LINE)
        for c in scene.curves
        if c.label
    ]


def bar_at(scene: BarScene, y: float) -> int:
    """Return the number of the bar at a height; -1 for none."""
    top = bars_top(scene)
    i = int((y - top) // BAR_HEIGHT) + scene.scroll
    return i if y >= top and 0 <= i < len(scene.bars) else -1


def compose_bars(scene: BarScene) -> DisplayList:
    """Return the picture of a ranking."""
    theme, top = scene.theme, bars_top(scene)
    n = max(int((scene.height - top) / BAR_HEIGHT), 0)
    shown = scene.bars[scene.scroll : scene.scroll + n]
    widest = max((b.value for b in scene.bars), default=0.0) or 1.0
    label_px = min(max((len(b.label) for b in shown), default=0) * _CHARACTER + 14,
                   scene.width * 0.45)  # fmt: skip
    value_px = max((len(b.text) for b in shown), default=0) * _CHARACTER + 14
    bar_max = max(scene.width - label_px - value_px - 16, 10.0)
    y0 = top + np.arange(len(shown), dtype=np.float32) * np.float32(BAR_HEIGHT)
    length = np.array([max(b.value, 0) / widest * bar_max for b in shown], np.float32)
    start = np.full(len(shown), label_px, np.float32)
    fill = np.array([b.color for b in shown], np.uint32)
    batches: list[Batch] = []
    for i, bar in enumerate(shown):
        if bar.is_highlighted or i + scene.scroll == scene.hover:
            ground = mix(
                theme.pane, theme.selection if bar.is_highlighted else theme.text, 0.12
            )
            low = float(y0[i])
            batches.append(_box(0, scene.width, low, low + BAR_HEIGHT, ground))
    ends = np.maximum(start + length, start + (length > 0))
    batches.append(RectBatch(start, ends, y0 + 4, y0 + BAR_HEIGHT - 4, fill))
    texts = [] if not scene.title else [
        Text(12, 13, scene.title, theme.dim, 10.5, Face.HEADING)
    ]  # fmt: skip
    if scene.value_title:
        texts.append(
            Text(label_px, top - 10, scene.value_title, theme.text, LABEL_SIZE,
                 width=scene.width - label_px)
        )  # fmt: skip
    for i, bar in enumerate(shown):
        middle = float(y0[i]) + BAR_HEIGHT / 2
        texts.append(
            Text(label_px - 8, middle, bar.label, theme.text, LABEL_SIZE, Face.MONO,
                 Align.RIGHT, width=label_px - 12)
        )  # fmt: skip
        at = float(ends[i]) + 6
        texts.append(
            Text(at, middle, bar.text, theme.dim, LABEL_SIZE, Face.MONO,
                 width=scene.width - at if scene.value_title else 0.0)
        )  # fmt: skip
    batches.append(TextBatch(tuple(texts)))
    return DisplayList(
        scene.width, scene.height, scene.scale, theme.pane, tuple(batches)
    )
