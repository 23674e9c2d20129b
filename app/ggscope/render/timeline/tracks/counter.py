"""Lanes of counters: a curve over time."""

import numpy as np

from ggscope.analysis.rows.lanes import LaneBox
from ggscope.analysis.series import series_columns, series_range, value_at
from ggscope.descriptions.spans import time_text
from ggscope.model.tables import CounterSeries, CounterShape
from ggscope.model.trace import Trace
from ggscope.model.units import (
    format_bytes,
    format_count,
    format_exact_bytes,
    format_rate,
    format_share,
)
from ggscope.render.batch import AreaBatch, Batch, Clip, LineList
from ggscope.render.theme import with_alpha
from ggscope.render.timeline.hit_test import Hit
from ggscope.render.timeline.lanes import LanesDraft
from ggscope.render.timeline.scene import TimeScale, axis_ends
from ggscope.render.timeline.tracks.track import TooltipContext, Track
from ggscope.sanitize import Html, html

_BYTE_UNITS = ("bytes", "byte", "B")
_FILL_SHARE = 0.5
_MAX_STRETCHES = 64


class CounterTrack(Track):
    """The curve of a counter, scaled to its whole range."""

    def compose(self, draft: LanesDraft, box: LaneBox, y: float) -> None:
        """Draw the curve."""
        scene, time = draft.scene, draft.time
        series, bottom = self._series(scene.index.trace), time.snap(y + box.height)
        draft.add(counter_batches(series, time, y, bottom, scene.theme.dim, draft.clip))

    def axis_labels(self, trace: Trace) -> tuple[str, str] | None:
        """Return the ends of the axis: the range of all samples, and zero."""
        series = self._series(trace)
        low, high = series_range(series)
        return value_text(high, series.unit), value_text(low, series.unit)

    def is_always_zero(self, trace: Trace) -> bool:
        """Return whether all samples are known to be 0."""
        value = self._series(trace).value
        return len(value) > 0 and not value.any()  # NaN is true: unknown is not 0

    def tooltip(self, context: TooltipContext, hit: Hit) -> Html:
        """Return the value at the time of the hit, and when it was sampled."""
        series = self._series(context.trace)
        at = int(series.time.searchsorted(hit.tick, "right")) - 1
        if at < 0:
            return html("<b>{}</b><br>no sample yet", series.name)
        value = float(series.value[at])
        if series.shape is not CounterShape.DELTA:
            value = value_at(series, hit.tick)
        text = exact_text(value, series.unit)
        if value != value:
            return html("<b>{}</b><br>{}", series.name, text)
        when = time_text(context.trace, int(series.time[at]), absolute=context.absolute)
        return html("<b>{}</b><br>{}<br>sample at {}", series.name, text, when)

    def _series(self, trace: Trace) -> CounterSeries:
        return trace.counters[self.lane.value]


def counter_batches(
    series: CounterSeries,
    time: TimeScale,
    y: float,
    bottom: float,
    color: int,
    clip: Clip,
) -> list[Batch]:
    """Return the curve of `series` between `y` and `bottom`.

    Peaks are never lost: each column shows its highest value (its lowest, where
    that is further from zero). Columns that the series says nothing about stay
    empty. The scale is that of the whole series, so panning does not change it.
    """
    columns = series_columns(series, time.edges)
    low, high = series_range(series)
    if high <= low:
        return []
    top, foot = axis_ends(y, bottom)
    per_unit = (foot - top) / (high - low)
    base = foot + low * per_unit
    value = np.where(-columns.low > columns.high, columns.low, columns.high)
    level = (base - np.nan_to_num(value) * per_unit).astype(np.float32)
    x = time.column_x(np.arange(time.n_columns + 1)).astype(np.float32)
    fill = with_alpha(color, _FILL_SHARE)
    zero = LineList(1 / time.scale)
    foot_y = time.snap(base) - 0.5 / time.scale
    zero.add(time.x0, foot_y, time.x1, foot_y, with_alpha(color, 0.35))
    batches = zero.batch(clip)
    for begin, stop, edge in _stretches(value, color):
        batches.append(
            AreaBatch(x[begin : stop + 1], level[begin:stop], base, fill, edge, clip)
        )
    return batches


def value_text(value: float, unit: str) -> str:
    """Return a counter's value with its unit."""
    if unit in _BYTE_UNITS:
        return format_bytes(value)
    if unit == "bytes/s":
        return format_rate(value)
    if unit == "share":
        return format_share(value)
    number = format_count(int(value)) if float(value).is_integer() else f"{value:.4g}"
    return f"{number} {unit}".rstrip()


def _stretches(value: np.ndarray, color: int) -> list[tuple[int, int, int]]:
    """Return (first column, stop, colour of the upper edge) of each known stretch.

    A series of very many short stretches (single changes) becomes one piece
    without an edge: the edge would run along the foot where nothing is known.
    """
    known = np.concatenate([[False], ~np.isnan(value), [False]])
    change = np.flatnonzero(known[1:] != known[:-1])
    stretches = change.reshape(-1, 2).tolist()
    if len(stretches) > _MAX_STRETCHES:
        return [(0, len(value), 0)]
    return [(begin, stop, color) for begin, stop in stretches]


def exact_text(value: float, unit: str) -> str:
    """Return ``1.2 MiB (1,214,720 bytes)``, ``93.0 % (0.929688)``, ``12 tokens``."""
    if value != value:
        return "unknown"
    text = value_text(value, unit)
    is_whole = value.is_integer() and abs(value) >= 1024
    if unit in _BYTE_UNITS and is_whole:
        text += f" ({format_exact_bytes(int(value))})"
    if unit == "share":
        text += f" ({value:.6g})"
    return text
