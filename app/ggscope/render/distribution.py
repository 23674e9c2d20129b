"""Picture of a histogram: how times, bytes or rates are distributed."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.statistics.distribution import Bars, Distribution
from ggscope.descriptions.distribution import AMOUNT_NAMES, amount_text, noun_of
from ggscope.model.trace import Trace
from ggscope.render.batch import DisplayList, RectBatch
from ggscope.render.charts import F64, Axis, ChartGeometry, ChartScene, compose_chart
from ggscope.render.theme import Theme, mix, with_alpha

_MIN_LOG = 0.5
"""Where 0 stands on a logarithmic axis: below 1, the next amount that there is."""
_GAP_FROM_PX = 4.0
_MIN_BAR_PX = 1.5
_TITLED_PX = 140.0
"""A lower picture gives the room of the title of the counts to the bars."""


@dataclass(frozen=True, slots=True)
class DistributionScene:
    """The inputs of the picture.

    Attributes
    ----------
    is_log : whether the axis of the amounts is logarithmic.
    marked : bars from the first to below the second; None = none.
    cursor, hover : bars, -1 = none.
    """

    trace: Trace
    distribution: Distribution
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    is_log: bool = True
    marked: tuple[int, int] | None = None
    cursor: int = -1
    hover: int = -1

    @property
    def bars(self) -> Bars:
        """The bars."""
        return self.distribution.bars(is_log=self.is_log)


def distribution_chart(scene: DistributionScene, bars: Bars) -> ChartScene:
    """Return the axes of the picture."""
    of, trace = scene.distribution.of, scene.trace
    low, high = float(bars.edges[0]), float(bars.edges[-1])
    if scene.is_log:
        low = max(low, _MIN_LOG)
    x = Axis(
        low, high, f"{AMOUNT_NAMES[of]} per {noun_of(scene.distribution, 1)}",
        lambda value: amount_text(trace, of, value), scene.is_log, of != "duration",
    )  # fmt: skip
    highest = float(bars.counts.max(initial=1)) * 1.04
    noun = noun_of(scene.distribution) if scene.height >= _TITLED_PX else ""
    return ChartScene(
        scene.width, scene.height, scene.theme, x, Axis(0, highest, noun),
        scale=scene.scale,
    )  # fmt: skip


def edges_px(scene: DistributionScene, bars: Bars, geometry: ChartGeometry) -> F64:
    """Return where the edges of the bars are."""
    lowest = _MIN_LOG if scene.is_log else 0
    return geometry.px(np.maximum(bars.edges, lowest))


def bar_near(scene: DistributionScene, x: float) -> int:
    """Return the bar at, or nearest to, a position; -1 where there are none."""
    bars = scene.bars
    if not len(bars.counts):
        return -1
    geometry = ChartGeometry(distribution_chart(scene, bars))
    at = int(np.searchsorted(edges_px(scene, bars, geometry), x, "right")) - 1
    return min(max(at, 0), len(bars.counts) - 1)


def compose_distribution(scene: DistributionScene) -> DisplayList:
    """Return the picture."""
    bars, theme = scene.bars, scene.theme
    chart = distribution_chart(scene, bars)
    geometry = ChartGeometry(chart)
    edges = edges_px(scene, bars, geometry)
    has_group = scene.distribution.group is not None
    color = mix(theme.pane, theme.accent, 0.4) if has_group else theme.accent
    marks = [_highlighted(scene, edges, geometry)]
    marks.append(_columns(edges, bars.counts, geometry, color))
    if has_group:
        marks.append(_columns(edges, bars.own, geometry, theme.accent))
    return compose_chart(chart, [mark for mark in marks if len(mark.x0)])


def _highlighted(
    scene: DistributionScene, edges: F64, geometry: ChartGeometry
) -> RectBatch:
    """Return the grounds of what is marked, pointed at and stood on."""
    theme, rows = scene.theme, list[tuple[int, int, int]]()
    n = len(edges) - 1
    if scene.marked is not None:
        rows.append((*scene.marked, with_alpha(theme.selection, 0.28)))
    for bar, color in ((scene.hover, theme.text), (scene.cursor, theme.selection)):
        if 0 <= bar < n:
            rows.append((bar, bar + 1, with_alpha(color, 0.16)))
    first = np.array([min(a, n) for a, _, _ in rows], np.int64)
    last = np.array([min(b, n) for _, b, _ in rows], np.int64)
    fill = np.array([color for _, _, color in rows], np.uint32)
    top = np.full(len(rows), geometry.top, np.float32)
    bottom = np.full(len(rows), geometry.bottom, np.float32)
    x0, x1 = edges[first].astype(np.float32), edges[last].astype(np.float32)
    return RectBatch(x0, x1, top, bottom, fill, clip=geometry.clip)


def _columns(
    edges: F64, counts: np.ndarray, geometry: ChartGeometry, color: int
) -> RectBatch:
    known = np.flatnonzero(counts > 0)
    x0, x1 = edges[known], edges[known + 1]
    gap = np.where(x1 - x0 >= _GAP_FROM_PX, 1.0, 0.0)
    top = np.minimum(geometry.py(counts[known]), geometry.bottom - _MIN_BAR_PX)
    return RectBatch(
        x0.astype(np.float32),
        np.maximum(x1 - gap, x0 + 1).astype(np.float32),
        top.astype(np.float32),
        np.full(len(known), geometry.bottom, np.float32),
        np.full(len(known), color | 0xFF000000, np.uint32),
        clip=geometry.clip,
    )
