"""Picture of the roofline: a disc per kind of op over intensity and rate, both log."""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.roofline import MUL_MAT, MUL_MAT_ID, Roofline, roofline
from ggscope.descriptions.roofline import (
    BYTES_NOTE,
    F32_NOTE,
    TraceRoofs,
    left_out_lines,
    per,
    per_second,
    point_text,
    roofline_text,
    roofs_text,
    trace_roofs,
    why_no_points,
)
from ggscope.errors import NothingToDrawError
from ggscope.model.trace import Trace
from ggscope.render.batch import Batch, DisplayList, Face, RectList, Text, TextList
from ggscope.render.charts import (
    LABEL_SIZE,
    Axis,
    ChartGeometry,
    ChartScene,
    Curve,
    compose_chart,
)
from ggscope.render.colors import Entry, Sign, category_color
from ggscope.render.export import Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.options import export_command
from ggscope.render.theme import Theme, visible_on, with_alpha
from ggscope.render.theme import theme as theme_named

F64 = npt.NDArray[np.float64]
_SMALL_PX, _LARGE_PX = 3.5, 11.0
"""Radius of a point of no time, and of one that takes all of it."""
_REACH_PX = 4.0
_AIR = 1.15
"""Factor between the outermost points and the ends of the axes."""
_FILL_SHARE = 0.55
_MAX_NAMED = 6
"""Points that have their names beside them: those of most time."""
_LETTER_PX = 0.602 * LABEL_SIZE
_SHORT = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_OPS = (MUL_MAT, MUL_MAT_ID)


@dataclass(frozen=True, slots=True, eq=False)
class RooflineScene:
    """The inputs of the picture.

    Attributes
    ----------
    roofs : of the machine, or why there are none.
    selected, hover : points, -1 = none.
    """

    trace: Trace
    roofline: Roofline
    roofs: TraceRoofs
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    selected: int = -1
    hover: int = -1
    is_figure: bool = False


def points_xy(scene: RooflineScene) -> tuple[F64, F64]:
    """Return operations per byte, and operations per second (or cycle), float64[n]."""
    points, by = scene.roofline.points, per_second(scene.trace.clock)
    x = np.array([point.intensity for point in points], np.float64)
    return x, np.array([point.rate * by for point in points], np.float64)


def chart_of_roofline(scene: RooflineScene) -> ChartScene:
    """Return axes, roofs and legend; the points are drawn by `compose_roofline`."""
    x, y = points_xy(scene)
    by, roofs = per_second(scene.trace.clock), scene.roofs.roofs
    theme = scene.theme
    xs, ys = [*x.tolist()], [*y.tolist()]
    if roofs is not None:
        xs.append(roofs.ridge)
        ys.append(roofs.flops * by)
    low_x, high_x = _decades(xs)
    low_y, high_y = _decades(ys)
    curves = [
        Curve(np.zeros(0), np.zeros(0), entry.color, entry.label)
        for entry in _op_entries(scene)
    ]
    if roofs is not None:
        label = "roofs of the machine"
        edge = np.array([low_x, min(max(roofs.ridge, low_x), high_x), high_x])
        roof = np.array([roofs.attainable(float(i)) * by for i in edge])
        curves.append(Curve(edge, roof, theme.text, label, width=1.8))
    return ChartScene(
        scene.width, scene.height, theme,
        Axis(low_x, high_x, "float operations per byte", _plain_log, is_log=True),
        Axis(low_y, high_y, f"FLOP/{per(scene.trace.clock)}", _plain_log,
             is_log=True),
        tuple(curves), scale=scene.scale, is_figure=scene.is_figure,
    )  # fmt: skip


def _decades(values: list[float]) -> tuple[float, float]:
    """Return powers of ten with some air around numbers: each axis has two labels."""
    low = math.floor(math.log10(min(values) / _AIR))
    high = math.ceil(math.log10(max(values) * _AIR))
    return 10.0**low, 10.0**high


def _plain_log(value: float) -> str:
    """Return a power of ten as an axis labels it: ``100``, ``10 G``, ``0.01``."""
    for prefix, factor in _SHORT:
        if value >= factor * 0.999:
            return f"{value / factor:.4g} {prefix}"
    return f"{value:.4g}"


def op_color(op: str, theme: Theme) -> int:
    """Return the colour of the points of an op, with a contrast of 3:1 on the pane."""
    key = "moe" if op == MUL_MAT_ID else "matmul"
    return visible_on(category_color(key, theme), theme.pane)


def _op_entries(scene: RooflineScene) -> list[Entry]:
    there = {point.op for point in scene.roofline.points}
    return [Entry(op, op_color(op, scene.theme)) for op in _OPS if op in there]


def radii(roofline: Roofline) -> F64:
    """Return the radius of each point, px: its area grows with its time."""
    ticks = np.array([point.ticks for point in roofline.points], np.float64)
    share = ticks / max(float(ticks.sum()), 1.0)
    return np.asarray(_SMALL_PX + (_LARGE_PX - _SMALL_PX) * np.sqrt(share), np.float64)


def compose_roofline(scene: RooflineScene) -> DisplayList:
    """Return the picture."""
    chart = chart_of_roofline(scene)
    geometry = ChartGeometry(chart)
    marks = [*_discs(scene, geometry), *_names(scene, geometry)]
    return compose_chart(chart, marks)


def _places(scene: RooflineScene, geometry: ChartGeometry) -> tuple[F64, F64]:
    x, y = points_xy(scene)
    return geometry.px(x), geometry.py(y)


def _discs(scene: RooflineScene, geometry: ChartGeometry) -> list[Batch]:
    """Return the points, those of most time below, then what is pointed at."""
    px, py = _places(scene, geometry)
    radius, batches, theme = radii(scene.roofline), list[Batch](), scene.theme
    for i, point in enumerate(scene.roofline.points):
        color = op_color(point.op, theme)
        fill = with_alpha(color, _FILL_SHARE)
        batches += _disc(geometry, px[i], py[i], radius[i], fill, color)
    for i, color in ((scene.hover, theme.text), (scene.selected, theme.selection)):
        if 0 <= i < len(px):
            ring = radius[i] + 2.5
            batches += _disc(
                geometry, px[i], py[i], ring, with_alpha(color, 0.25), color
            )
    return batches


def _disc(
    geometry: ChartGeometry, x: float, y: float, r: float, fill: int, border: int
) -> list[Batch]:
    boxes = RectList()
    boxes.add(x - r, x + r, y - r, y + r, fill, border)
    return boxes.batch(radius=float(r), clip=geometry.clip)


def _names(scene: RooflineScene, geometry: ChartGeometry) -> list[Batch]:
    """Return the names of the points of most time, where they hide nothing."""
    px, py = _places(scene, geometry)
    radius, texts = radii(scene.roofline), TextList()
    taken = [
        (x - r, x + r, y - r, y + r) for x, y, r in zip(px, py, radius, strict=True)
    ]
    for i, point in enumerate(scene.roofline.points[:_MAX_NAMED]):
        text = point_text(point)
        width = len(text) * _LETTER_PX
        for left in (px[i] + radius[i] + 4, px[i] - radius[i] - 4 - width):
            box = (left, left + width, py[i] - 6, py[i] + 6)
            inside = box[0] >= geometry.left and box[1] <= geometry.right
            others = [*taken[:i], *taken[i + 1 :]]
            if inside and not any(_overlap(box, other) for other in others):
                taken.append(box)
                texts.append(
                    Text(float(left), float(py[i]), text, scene.theme.text,
                         LABEL_SIZE, Face.MONO)
                )  # fmt: skip
                break
    return texts.batch()


_Box = tuple[float, float, float, float]


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def point_at(scene: RooflineScene, x: float, y: float) -> int:
    """Return the point at a position, the smallest where several are; -1 = none."""
    geometry = ChartGeometry(chart_of_roofline(scene))
    px, py = _places(scene, geometry)
    radius = radii(scene.roofline)
    away = np.hypot(px - x, py - y)
    near = np.flatnonzero(away <= radius + _REACH_PX)
    if not len(near):
        return -1
    # Of discs that lie in one another the inner one, else the nearest.
    over = near[away[near] <= radius[near]]
    if len(over):
        return int(over[np.argmin(radius[over])])
    return int(near[np.argmin(away[near] - radius[near])])


# -- figure ----------------------------------------------------------------------


def draw_roofline(
    scene: RooflineScene, style: FigureStyle, name: str
) -> RenderedFigure:
    """Return the figure of a scene, as `style` says."""
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width, theme=theme_named(style.theme), scale=style.scale, hover=-1,
        selected=scene.selected if style.seen else -1, is_figure=True,
    )  # fmt: skip
    if not scene.roofline.points:
        raise NothingToDrawError(why_no_points(scene.roofline))
    entries = _op_entries(scene)
    if scene.roofs.roofs is not None:
        label = roofs_text(scene.trace, scene.roofs.roofs)
        entries.append(Entry(label, scene.theme.text, Sign.LINE))
    notes = [roofline_text(scene.trace, scene.roofline, scene.roofs), BYTES_NOTE]
    if any(point.is_f32_assumed for point in scene.roofline.points):
        notes.append(F32_NOTE)
    left_out = left_out_lines(scene.trace, scene.roofline)
    return framed(
        style, f"{name} · roofline",
        lambda height: compose_roofline(replace(scene, height=height)), width=width,
        natural_height=max(width * 0.5, 240.0),
        entries=entries,
        description=". ".join((f"Roofline of {name}", *notes)) + ".",
        left_out=[f"Left out: {line}." for line in left_out],
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineOptions:
    """Options of the figure of the roofline; it has none."""


def roofline_figure(
    trace: Trace,
    options: RooflineOptions = RooflineOptions(),
) -> Figure:
    """Return the figure of the roofline."""

    def draw(style: FigureStyle) -> RenderedFigure:
        scene = RooflineScene(
            trace, roofline(trace), trace_roofs(trace), 1200.0, 600.0,
            theme_named(style.theme), style.scale,
        )  # fmt: skip
        return draw_roofline(scene, style, trace_name(trace))

    return Figure("roofline", draw, recipe=export_command("roofline", trace, options))
