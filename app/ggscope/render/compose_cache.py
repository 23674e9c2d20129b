"""The miss-ratio curve as a chart."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.what_if import Optimum, WhatIf
from ggscope.model.units import format_bytes
from ggscope.render.batch import DisplayList
from ggscope.render.charts import (
    Axis,
    ChartScene,
    Curve,
    Rule,
    compose_chart,
    in_bytes,
    in_percent,
)
from ggscope.render.theme import Theme

_MOST_STEPS = 4000
"""More steps than a chart has pixels; a curve is thinned to them, keeping its ends."""


@dataclass(frozen=True, slots=True, eq=False)
class CacheScene:
    """What the chart of the what-if cache depends on.

    Attributes
    ----------
    best : Belady's rule, once it is known.
    capacity : the chosen size of the cache, bytes; -1 none.
    in_bytes : amounts on the y axis, else shares of what the run asks for.
    """

    found: WhatIf
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    best: Optimum | None = None
    capacity: int = -1
    in_bytes: bool = False
    hover: tuple[float, float] | None = None
    title: str = ""


def chart_of_cache(scene: CacheScene) -> ChartScene:
    """Return the chart."""
    curve, theme = scene.found.curve, scene.theme
    widest = max(scene.found.working_set * 1.08, scene.capacity * 1.02, 1.0)
    asked = float(max(curve.bytes_asked, 1))
    unit = 1.0 if scene.in_bytes else asked
    x, y = _thinned(curve.capacity, curve.bytes_read)
    curves = [Curve(x, y / unit, theme.accent, "LRU", is_step=True, fills=True)]
    if scene.best is not None:
        best = scene.best
        curves.append(
            Curve(
                best.capacity.astype(np.float64),
                best.bytes_read.astype(np.float64) / unit,
                theme.caution,
                "Belady's optimum (no cache reads less)",
                is_dashed=True,
            )
        )
    rules = [Rule("first reads", y=curve.cold_bytes / unit, color=theme.faint)]
    if scene.capacity >= 0:
        read, _ = curve.at(scene.capacity)
        words = f"{format_bytes(scene.capacity)} · {format_bytes(read)} read"
        rules.append(Rule(words, x=float(scene.capacity), color=theme.selection))
    high = asked / unit
    return ChartScene(
        scene.width, scene.height, theme,
        Axis(0, widest, "page cache", in_bytes, is_binary=True),
        Axis(0, high * 1.02, "read from disk",
             in_bytes if scene.in_bytes else in_percent, is_binary=scene.in_bytes),
        tuple(curves), tuple(rules), scene.title, scene.scale, scene.hover,
    )  # fmt: skip


def _thinned(capacity: np.ndarray, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if len(capacity) > _MOST_STEPS:
        at = np.linspace(0, len(capacity) - 1, _MOST_STEPS).astype(np.int64)
        capacity, read = capacity[at], read[at]
    return capacity.astype(np.float64), read.astype(np.float64)


def compose_cache(scene: CacheScene) -> DisplayList:
    """Return the picture."""
    return compose_chart(chart_of_cache(scene))


__all__ = ["CacheScene", "chart_of_cache", "compose_cache"]
