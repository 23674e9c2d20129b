"""Counter lanes: an area under the highest value of each pixel column."""

import numpy as np

from ggscope.analysis.series import series_columns, series_range
from ggscope.model.tables import CounterSeries
from ggscope.model.units import format_bytes, format_count
from ggscope.render.batch import AreaBatch, Batch, Clip
from ggscope.render.draft import LineList
from ggscope.render.scene import TimeScale
from ggscope.render.theme import with_alpha

FILL_SHARE = 0.5
_TOP_PX = 5.0
_BOTTOM_PX = 4.0
_MAX_PIECES = 64


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
    top, foot = y + _TOP_PX, bottom - _BOTTOM_PX
    per_unit = (foot - top) / (high - low)
    base = foot + low * per_unit
    value = np.where(-columns.low > columns.high, columns.low, columns.high)
    level = (base - np.nan_to_num(value) * per_unit).astype(np.float32)
    x = time.column_x(np.arange(time.n_columns + 1)).astype(np.float32)
    fill = with_alpha(color, FILL_SHARE)
    zero = LineList(1 / time.scale)
    foot_y = time.snap(base) - 0.5 / time.scale
    zero.add(time.x0, foot_y, time.x1, foot_y, with_alpha(color, 0.35))
    batches = zero.batch(clip)
    for begin, stop, edge in _pieces(value, color):
        batches.append(
            AreaBatch(x[begin : stop + 1], level[begin:stop], base, fill, edge, clip)
        )
    return batches


BYTE_UNITS = ("bytes", "byte", "B")


def counter_note(series: CounterSeries) -> str:
    """Return the peak of a series, for its header: ``624.0 MiB``."""
    low, high = series_range(series)
    return format_value(high if high >= -low else low, series.unit)


def format_value(value: float, unit: str) -> str:
    """Return a counter's value with its unit."""
    if unit in BYTE_UNITS:
        return format_bytes(value)
    number = format_count(int(value)) if float(value).is_integer() else f"{value:.4g}"
    return f"{number} {unit}".rstrip()


def _pieces(value: np.ndarray, color: int) -> list[tuple[int, int, int]]:
    """Return (first column, stop, colour of the upper edge) of each known stretch.

    A series of very many short stretches (single changes) becomes one piece
    without an edge: the edge would run along the foot where nothing is known.
    """
    known = np.concatenate([[False], ~np.isnan(value), [False]])
    change = np.flatnonzero(known[1:] != known[:-1])
    pairs = change.reshape(-1, 2).tolist()
    if len(pairs) > _MAX_PIECES:
        return [(0, len(value), 0)]
    return [(begin, stop, color) for begin, stop in pairs]
