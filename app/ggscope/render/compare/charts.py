"""Charts of two sides: steps from A to B, changes by group, durations."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ggscope.analysis.compare.compare import Bound, CompareRow
from ggscope.analysis.compare.histogram import Histogram
from ggscope.analysis.compare.waterfall import Step, Waterfall
from ggscope.descriptions.compare import (
    change_text,
    relative_text,
    side_text,
    step_share_text,
    ticks_text,
)
from ggscope.model.units import Unit, format_count, format_duration
from ggscope.render.batch import DisplayList
from ggscope.render.charts import Axis, ChartScene, Curve, Rule, compose_chart, plain
from ggscope.render.colors import Entry
from ggscope.render.compare.rows_chart import RowBar, RowsScene, compose_rows
from ggscope.render.theme import Theme, visible_on

_NEAR_ZERO = 2.0
"""An axis of steps begins at 0 unless all of them lie so many widths above it."""


def side_color(theme: Theme, *, is_b: bool) -> int:
    """Return the colour of a side."""
    return visible_on(theme.caution if is_b else theme.accent, theme.pane)


def change_color(change: float, theme: Theme) -> int:
    """Return the colour of what takes longer in B, or less long."""
    return visible_on(theme.error if change > 0 else theme.accent, theme.pane)


def change_entries(theme: Theme, *, has_noise: bool) -> list[Entry]:
    """Return the legend of changes."""
    entries = [
        Entry("longer in B", change_color(1, theme)),
        Entry("shorter in B", change_color(-1, theme)),
    ]
    if has_noise:
        entries.append(Entry("pale: within the range of the runs", theme.faint))
    return entries


def axis_time(value: float, unit: Unit) -> str:
    """Return a time as an axis labels it, with its sign: ``−50 ms``."""
    if not value:
        return "0"
    number, _, name = format_duration(abs(value), unit).partition(" ")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    sign = "−" if value < 0 else ""
    return f"{sign}{number} {name}".rstrip()


# -- steps -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class WaterfallScene:
    """The inputs of a waterfall; ``waterfall.total`` is there."""

    waterfall: Waterfall
    unit: Unit
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    scroll: int = 0
    hover: int = -1
    is_figure: bool = False


def waterfall_rows(scene: WaterfallScene) -> RowsScene:
    """Return A, the steps and B as rows; a step begins where the last one ends."""
    waterfall, theme, unit = scene.waterfall, scene.theme, scene.unit
    total = waterfall.total
    assert total is not None
    rows = [_total_row("A", total.a, float(total.mean_a), scene)]
    at = total.mean_a
    ends = [float(at)]
    for step in waterfall.steps:
        after = at + step.change
        text = ticks_text(step.change, unit, signed=True)
        if share := step_share_text(step):
            text += f"  {share}"
        rows.append(
            RowBar(
                step.key, float(at), float(after), text,
                change_color(float(step.change), theme),
                _spread_of(step, float(at)), is_dim=bool(step.is_noise),
            )
        )  # fmt: skip
        at = after
        ends.append(float(at))
    rows.append(_total_row("B", total.b, float(total.mean_b), scene))
    low, high = min(ends), max(ends)
    width = max(high - low, high * 1e-9, 1e-9)
    is_cut = low != high and low > _NEAR_ZERO * width
    first = low - width * 0.15 if is_cut else min(0.0, low)
    noun = "whole run" if waterfall.noun == "run" else f"time per {waterfall.noun}"
    label = f"{noun}; the axis does not begin at 0" if is_cut else noun
    axis = Axis(first, high + width * 0.04, label, partial(axis_time, unit=unit))
    rows = [_from(row, first) if row.is_total else row for row in rows]
    return RowsScene(
        scene.width, scene.height, theme, tuple(rows), axis, scene.scale,
        connects=True, scroll=scene.scroll, hover=scene.hover,
        is_figure=scene.is_figure,
    )  # fmt: skip


def _from(row: RowBar, low: float) -> RowBar:
    return RowBar(
        row.label, low, row.high, row.text, row.color, row.spread, is_total=True
    )


def _total_row(
    name: str, runs: Sequence[object], mean: float, scene: WaterfallScene
) -> RowBar:
    values = [float(value) for value in runs]  # type: ignore[arg-type]  # fractions
    spread = (min(values), max(values)) if len(values) > 1 else None
    color = side_color(scene.theme, is_b=name == "B")
    text = ticks_text(mean, scene.unit)
    return RowBar(name, 0.0, mean, text, color, spread, is_total=True)


def _spread_of(step: Step, at: float) -> tuple[float, float] | None:
    """Return where the step ends at least and at most, by the ranges of the runs."""
    if len(step.a) < 2 and len(step.b) < 2:
        return None
    low = float(min(step.b) - max(step.a))
    high = float(max(step.b) - min(step.a))
    return at + low, at + high


def compose_waterfall(scene: WaterfallScene) -> DisplayList:
    """Return the picture of a waterfall."""
    return compose_rows(waterfall_rows(scene))


# -- changes ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ChangesScene:
    """The inputs of a chart of changes by group, largest first.

    Attributes
    ----------
    bound : what they mean, see `Comparison.bound`.
    """

    rows: tuple[CompareRow, ...]
    label: str
    unit: Unit
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    scroll: int = 0
    hover: int = -1
    is_figure: bool = False
    bound: Bound = ""


def compose_changes(scene: ChangesScene) -> DisplayList:
    """Return the picture of changes."""
    unit, rows = scene.unit, list[RowBar]()
    for row in scene.rows:
        change = float(row.change or 0)
        a, b = (side_text(row, side, unit) for side in (row.a, row.b))
        bound = scene.bound
        text = change_text(row.change, unit, bound)
        if not row.only_in:
            text += f"  {relative_text(row.relative, bound)}"
        text += f"  {a} → {b}"
        rows.append(
            RowBar(
                row.key, 0.0, change, text, change_color(change, scene.theme),
                _spread_of_row(row), is_dim=bool(row.is_noise) and bool(change),
            )
        )  # fmt: skip
    ends = [0.0, *(row.high for row in rows)]
    ends += [end for row in rows if row.spread is not None for end in row.spread]
    low, high = min(ends), max(ends)
    width = max(high - low, 1e-9)
    axis = Axis(
        low - width * 0.03, high + width * 0.03, scene.label,
        partial(axis_time, unit=unit),
    )  # fmt: skip
    return compose_rows(
        RowsScene(
            scene.width, scene.height, scene.theme, tuple(rows), axis, scene.scale,
            scroll=scene.scroll, hover=scene.hover, is_figure=scene.is_figure,
        )
    )  # fmt: skip


def _spread_of_row(row: CompareRow) -> tuple[float, float] | None:
    """Return the least and the largest change that the runs allow; None of one run."""
    a, b = row.a.spread, row.b.spread
    if a is None and b is None:
        return None
    x, y = row.a.value or 0, row.b.value or 0
    low_a, high_a = a or (x, x)
    low_b, high_b = b or (y, y)
    return float(low_b - high_a), float(high_b - low_a)


# -- durations -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class HistogramScene:
    """The inputs of the durations of both sides in one chart."""

    histogram: Histogram
    unit: Unit
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    is_figure: bool = False
    hover: tuple[float, float] | None = None


def histogram_chart(scene: HistogramScene) -> ChartScene:
    """Return the chart of both histograms, with their medians."""
    histogram, theme, unit = scene.histogram, scene.theme, scene.unit
    curves, rules = [], []
    for name, side in (("A", histogram.a), ("B", histogram.b)):
        color = side_color(theme, is_b=name == "B")
        y = np.append(side.counts, 0.0)
        label = f"{name}: {format_count(side.timed)} spans"
        curves.append(Curve(histogram.edges, y, color, label, is_step=True, fills=True))
        if side.median is not None:
            median = f"{name} median {format_duration(side.median, unit)}"
            rules.append(Rule(median, x=side.median, color=color))
    highest = max(float(histogram.a.counts.max()), float(histogram.b.counts.max()), 1.0)
    x = Axis(
        float(histogram.edges[0]), float(histogram.edges[-1]), "duration",
        partial(axis_time, unit=unit), is_log=histogram.is_log,
    )  # fmt: skip
    return ChartScene(
        scene.width, scene.height, theme, x, Axis(0, highest * 1.1, "spans", plain),
        tuple(curves), tuple(rules), scale=scene.scale, hover=scene.hover,
        is_figure=scene.is_figure,
    )  # fmt: skip


def compose_histogram(scene: HistogramScene) -> DisplayList:
    """Return the picture of both histograms."""
    return compose_chart(histogram_chart(scene))
