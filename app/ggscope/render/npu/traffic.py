"""Bytes per token, stacked by what is moved: weights, KV cache, activations."""

import numpy as np
import numpy.typing as npt

from ggscope.analysis.npu.traffic import PARTS
from ggscope.descriptions.npu import PART_WORDS
from ggscope.model.tables import I64
from ggscope.render.batch import DisplayList, RectList
from ggscope.render.charts import (
    Axis,
    ChartGeometry,
    ChartScene,
    Curve,
    compose_chart,
    in_bytes,
)
from ggscope.render.colors import Entry, category_color
from ggscope.render.npu.scene import NpuScene

F64 = npt.NDArray[np.float64]
_COLOR_KEYS = {
    "weight": "space:0", "kv": "space:1", "activation": "space:2", "other": "space:3",
}  # fmt: skip
_AIR = 1.08
_GAP_PX, _WIDE_PX = 1.0, 4.0
_NONE = np.zeros(0)


def traffic_entries(scene: NpuScene) -> list[Entry]:
    """Return the legend: parts that have bytes, from the bottom up."""
    return [
        Entry(PART_WORDS[PARTS[part]], _color(scene, part))
        for part in scene.facts.traffic.parts
    ]


def compose_traffic(scene: NpuScene) -> DisplayList:
    """Return a stack of bytes for each token.

    Where several tokens share a pixel the one that moves most stands for them.
    """
    chart, traffic = _chart(scene), scene.facts.traffic
    geometry = ChartGeometry(chart)
    shown = _shown(scene, geometry)
    left, right = _edges(geometry, shown, len(traffic))
    bars = RectList()
    bottom = np.zeros(len(shown))
    for part in traffic.parts:
        top = bottom + traffic.moved[part, shown]
        bars.add(
            left, right, geometry.py(top), geometry.py(bottom), _color(scene, part)
        )
        bottom = top
    batches = bars.batch(clip=geometry.clip)
    for number, color in (
        (scene.hover, scene.theme.text), (scene.selected, scene.theme.selection),
    ):  # fmt: skip
        if not 0 <= number < len(traffic):
            continue
        frame = RectList()
        x0, x1 = _edges(geometry, np.array([number]), len(traffic))
        top = geometry.py(float(traffic.totals[number]))
        frame.add(x0 - 1, x1 + 1, top - 1, geometry.bottom, 0, color)
        batches += frame.batch(clip=geometry.clip)
    return compose_chart(chart, batches)


def traffic_at(scene: NpuScene, x: float, y: float) -> int:
    """Return the token whose bar is at a position; -1 = none."""
    geometry = ChartGeometry(_chart(scene))
    at = geometry.value_at(x, y)
    if at is None:
        return -1
    shown = _shown(scene, geometry)
    left, right = _edges(geometry, shown, len(scene.facts.traffic))
    hit = np.flatnonzero((left - _GAP_PX <= x) & (x <= right + _GAP_PX))
    return int(shown[hit[0]]) if len(hit) else -1


def _color(scene: NpuScene, part: int) -> int:
    return category_color(_COLOR_KEYS.get(PARTS[part], "none"), scene.theme)


def _chart(scene: NpuScene) -> ChartScene:
    traffic = scene.facts.traffic
    names, n = traffic.names, max(len(traffic), 1)

    def token_label(value: float) -> str:
        number = round(value)
        is_token = abs(value - number) < 1e-6 and 0 <= number < len(names)
        return names[number] if is_token else ""

    highest = float(traffic.totals.max(initial=1))
    legend = tuple(
        Curve(_NONE, _NONE, e.color, e.label) for e in traffic_entries(scene)
    )
    return ChartScene(
        scene.width, scene.height, scene.theme,
        Axis(-0.5, n - 0.5, "token", token_label),
        Axis(0.0, highest * _AIR, "bytes moved", in_bytes, is_binary=True),
        legend, scale=scene.scale, is_figure=scene.is_figure,
    )  # fmt: skip


def _shown(scene: NpuScene, geometry: ChartGeometry) -> I64:
    """Return the tokens that have a bar: of each pixel the one that moves most."""
    totals = scene.facts.traffic.totals
    n = len(totals)
    px = max(int((geometry.right - geometry.left) * scene.scale), 1)
    if n <= px:
        return np.arange(n, dtype=np.int64)
    pixel = np.arange(n) * px // n
    order = np.lexsort((np.arange(n), -totals, pixel))
    first = np.flatnonzero(np.diff(pixel[order], prepend=-1))
    return order[first].astype(np.int64)


def _edges(geometry: ChartGeometry, shown: I64, n: int) -> tuple[F64, F64]:
    """Return the left and right edges of bars, at least a pixel wide."""
    width = (geometry.right - geometry.left) / max(n, 1)
    gap = _GAP_PX if width >= _WIDE_PX else 0.0
    middle = geometry.px(shown)
    half = max((width - gap) / 2, 0.5 / geometry.scene.scale)
    return middle - half, middle + half
