"""NPU charts: stall reasons, longest first; time and bytes of a span by bit width."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ggscope.analysis.npu.quantisation import OpBits
from ggscope.model.units import format_duration, format_share
from ggscope.render.batch import Batch, DisplayList, LineList, RectList
from ggscope.render.charts import (
    Axis,
    Bar,
    BarScene,
    ChartGeometry,
    ChartScene,
    Curve,
    bar_at,
    compose_bars,
    compose_chart,
    in_bytes,
    plain,
)
from ggscope.render.colors import Entry, Sign, category_color
from ggscope.render.grid import placed
from ggscope.render.npu.over_time import engine_color
from ggscope.render.npu.scene import NpuScene
from ggscope.render.theme import visible_on, with_alpha

F64 = npt.NDArray[np.float64]
_RADIUS = 5.5
_HIT_PX = 9.0
_HEADROOM = 1.15
_SPACING_PX, _MAX_SPREAD_PX = 9.0, 54.0
"""Pixels between the points of two ops of the same bits, and of all of them."""
BAR_LABEL = "{} · {}"


# -- stalls ----------------------------------------------------------------------


def stall_bars(scene: NpuScene) -> BarScene:
    """Return the ranking of stalls: a bar per engine and reason."""
    engines, theme = scene.facts.engines, scene.theme
    whole = max(engines.extent.duration, 1)
    unit = scene.trace.clock.unit
    bars = tuple(
        Bar(
            BAR_LABEL.format(engines.names[s.engine], s.reason or "no reason"),
            float(s.ticks),
            f"{format_duration(s.ticks, unit)} · {format_share(s.ticks / whole)} · "
            f"{len(s.spans):,}×",
            engine_color(engines.kinds[s.engine], theme),
            is_highlighted=i == scene.selected,
        )
        for i, s in enumerate(scene.facts.stalls)
    )
    title = "" if scene.is_figure else "Time stalled, by engine and reason"
    return BarScene(
        scene.width, scene.height, theme, bars, title, scene.scale,
        int(scene.scroll), scene.hover,
    )  # fmt: skip


def compose_stalls(scene: NpuScene) -> DisplayList:
    """Return the ranking of stalls."""
    return compose_bars(stall_bars(scene))


def stall_at(scene: NpuScene, y: float) -> int:
    """Return the stall at a height; -1 = none."""
    return bar_at(stall_bars(scene), y)


# -- bits ----------------------------------------------------------------------


def _ops(scene: NpuScene) -> list[str]:
    """Return the ops of both runs, in the order of their names."""
    return sorted({x.op for x in (*scene.facts.bits, *scene.others)})


def op_color(scene: NpuScene, op: str) -> int:
    """Return the colour of the points of an op, of each another one."""
    color = category_color(f"row:{_ops(scene).index(op)}", scene.theme)
    return visible_on(color, scene.theme.pane)


def bits_entries(scene: NpuScene) -> list[Entry]:
    """Return the legend: ops in the order of their names."""
    entries = [Entry(op, op_color(scene, op)) for op in _ops(scene)]
    if scene.others:
        entries.append(
            Entry(f"rings: {scene.other_title}", scene.theme.text, Sign.FRAME)
        )
    return entries


def _time_of(point: OpBits) -> float | None:
    return point.mean_ticks


def _bytes_of(point: OpBits) -> float | None:
    return point.mean_moved


def compose_bits(scene: NpuScene) -> DisplayList:
    """Return two charts over bits: mean time of a span, and mean bytes."""
    parts = [
        (_bits_chart(scene, chart, value), x, 0.0) for chart, value, x in _charts(scene)
    ]
    return placed(scene.width, scene.height, scene.scale, scene.theme.pane, parts)


Value = Callable[[OpBits], float | None]


def _charts(scene: NpuScene) -> list[tuple[ChartScene, Value, float]]:
    """Return each chart, what its points are the value of, and where it begins."""
    charts: list[tuple[ChartScene, Value, float]] = []
    unit = scene.trace.clock.unit_name
    kinds: list[tuple[Value, str, Callable[[float], str]]] = [
        (_time_of, f"mean time of a span, {unit}", plain),
        (_bytes_of, "mean bytes that a span moves", in_bytes),
    ]
    points = (*scene.facts.bits, *scene.others)
    kinds = [kind for kind in kinds if _values(points, kind[0])]
    width = scene.width / max(len(kinds), 1)
    bits = [x.bits for x in points]
    x = Axis(
        min(bits, default=1) / 1.5 or 0.5, max(bits, default=16) * 1.5, "bits",
        is_log=True, is_binary=True,
    )  # fmt: skip
    x = replace(x, low=max(x.low, 0.5))
    entries = bits_entries(scene)
    for i, (value, label, chart_label) in enumerate(kinds):
        values = _values(points, value)
        y = Axis(
            0.0,
            max(values) * _HEADROOM,
            label,
            chart_label,
            is_binary=value is _bytes_of,
        )
        legend = [Curve(np.zeros(0), np.zeros(0), e.color, e.label) for e in entries]
        chart = ChartScene(
            width, scene.height, scene.theme, x, y, tuple(legend) if not i else (),
            scale=scene.scale, is_figure=scene.is_figure,
        )  # fmt: skip
        charts.append((chart, value, i * width))
    return charts


def _values(points: Sequence[OpBits], value: Value) -> list[float]:
    """Return the values of points that have one above 0."""
    known = (value(point) for point in points)
    return [number for number in known if number is not None and number > 0]


def _bits_chart(scene: NpuScene, chart: ChartScene, value: Value) -> DisplayList:
    geometry = ChartGeometry(chart)
    marks: list[Batch] = []
    for of, is_other in ((scene.facts.bits, False), (scene.others, True)):
        marks += _op_lines(scene, geometry, of, value)
        for i, point in enumerate(of):
            is_highlighted = not is_other and i in (scene.hover, scene.selected)
            marks += _point_marks(
                scene,
                geometry,
                point,
                value,
                is_highlighted=is_highlighted,
                is_other=is_other,
            )
    return compose_chart(chart, marks)


def _place(
    scene: NpuScene, geometry: ChartGeometry, point: OpBits, value: Value
) -> tuple[float, float] | None:
    """Return where a point lies: beside those of other ops; None where it has none."""
    number = value(point)
    if number is None or point.bits <= 0:
        return None
    ops = _ops(scene)
    step = min(_SPACING_PX, _MAX_SPREAD_PX / max(len(ops) - 1, 1))
    beside = (ops.index(point.op) - (len(ops) - 1) / 2) * step
    return float(geometry.px(point.bits)) + beside, float(geometry.py(number))


def _op_lines(
    scene: NpuScene, geometry: ChartGeometry, points: Sequence[OpBits], value: Value
) -> list[Batch]:
    """Return lines between the points of one op."""
    lines = LineList(1.2)
    for a, b in pairwise(points):
        ends = _place(scene, geometry, a, value), _place(scene, geometry, b, value)
        if a.op == b.op and ends[0] is not None and ends[1] is not None:
            lines.add(*ends[0], *ends[1], with_alpha(op_color(scene, a.op), 0.7))
    return lines.batch(geometry.clip)


def _point_marks(
    scene: NpuScene,
    geometry: ChartGeometry,
    point: OpBits,
    value: Value,
    *,
    is_highlighted: bool,
    is_other: bool,
) -> list[Batch]:
    """Return the disc of a point; of the run that is compared a ring."""
    place = _place(scene, geometry, point, value)
    if place is None:
        return []
    color, (x, y), r = op_color(scene, point.op), place, _RADIUS
    fill = with_alpha(color, 0.0 if is_other else 0.75)
    discs = RectList()
    discs.add(x - r, x + r, y - r, y + r, fill or scene.theme.pane, color)
    batches = discs.batch(radius=r, clip=geometry.clip)
    if is_highlighted:
        ring = RectList()
        r += 3
        ring.add(x - r, x + r, y - r, y + r, 0, scene.theme.selection)
        batches += ring.batch(radius=r, clip=geometry.clip)
    return batches


def bits_at(scene: NpuScene, x: float, y: float) -> int:
    """Return the point of this run at a position; -1 = none."""
    best, nearest = -1, _HIT_PX
    for chart, value, left in _charts(scene):
        geometry = ChartGeometry(chart)
        for i, point in enumerate(scene.facts.bits):
            place = _place(scene, geometry, point, value)
            if place is None:
                continue
            distance = float(np.hypot(place[0] + left - x, place[1] - y))
            if distance < nearest:
                best, nearest = i, distance
    return best
