"""Counters per pixel column: lowest, highest and last value, and what adds up."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.model.tables import I64, CounterSeries, CounterShape

F64 = npt.NDArray[np.float64]
_ranges: DerivedCache[CounterSeries, tuple[float, float]] = DerivedCache(
    "counter range"
)


@dataclass(frozen=True, slots=True, eq=False)
class SeriesColumns:
    """What a counter says in each pixel column; NaN where it says nothing.

    Attributes
    ----------
    low, high : float64[px], least and greatest value in the column.
    last : float64[px], the value at the column's end (LEVEL), the mean over the
        part of the column that windows cover (RATE), the sum (DELTA).
    total : float64[px], what adds up over columns: the amount of the windows, each
        spread evenly over its time (RATE), the sum of changes (DELTA), 0 (LEVEL).
    count : int64[px], samples (LEVEL, DELTA) or begun windows (RATE) inside.

    Notes
    -----
    All values are in the series' own unit; that of a RATE is the amount per
    window. Unknown samples (NaN) are left out of everything, except that a LEVEL
    is unknown from one until the next sample.
    """

    low: F64
    high: F64
    last: F64
    total: F64
    count: I64


def series_columns(series: CounterSeries, edges: I64) -> SeriesColumns:
    """Return what `series` says between consecutive `edges` (int64[px + 1]).

    Notes
    -----
    O(px log n + samples in view). Windows of a RATE must not overlap: where they
    do, one counts as complete when the next begins.
    """
    px = max(len(edges) - 1, 0)
    if not len(series) or not px:
        nothing = np.full(px, np.nan)
        return SeriesColumns(
            nothing, nothing, nothing, np.zeros(px), np.zeros(px, np.int64)
        )
    if series.shape == CounterShape.LEVEL:
        return _level(series, edges)
    if series.shape == CounterShape.RATE and series.window is not None:
        return _rate(series, series.window, edges)
    return _delta(series, edges)


def series_range(series: CounterSeries) -> tuple[float, float]:
    """Return (low, high) of all known values and zero: the range of the y axis."""
    ends = _ranges.get(series)
    if ends is None:
        low = np.fmin.reduce(series.value, initial=0.0)
        high = np.fmax.reduce(series.value, initial=0.0)
        ends = _ranges[series] = float(low), float(high)
    return ends


def value_at(series: CounterSeries, tick: int) -> float:
    """Return the value at `tick`; NaN where the series says nothing.

    That is the level that holds, the amount of the window around `tick`, or the
    change at exactly `tick`.
    """
    i = int(np.searchsorted(series.time, tick, "right")) - 1
    if i < 0:
        return float("nan")
    begin, value = int(series.time[i]), float(series.value[i])
    if series.shape == CounterShape.LEVEL:
        return value
    if series.shape == CounterShape.RATE and series.window is not None:
        return value if tick < begin + int(series.window[i]) else float("nan")
    return value if tick == begin else float("nan")


def _level(series: CounterSeries, edges: I64) -> SeriesColumns:
    n = np.searchsorted(series.time, edges, "left")
    stop = _stops(series, edges, n)
    # The sample before a column holds until the first one in it, unless that one
    # stands exactly at the column's edge.
    at_edge = series.time[np.minimum(n[:-1], len(series) - 1)] == edges[:-1]
    first = np.where(at_edge, n[:-1], n[:-1] - 1)
    low, high = _extremes(series.value, np.maximum(first, 0), stop)
    last = np.where(stop > 0, series.value[np.maximum(stop - 1, 0)], np.nan)
    return SeriesColumns(low, high, last, np.zeros(len(low)), np.diff(n))


def _rate(series: CounterSeries, window: I64, edges: I64) -> SeriesColumns:
    time, value = series.time, series.value
    known = ~np.isnan(value)
    amount = np.where(known, value, 0.0)
    length = np.where(known, window, 0)
    n = np.searchsorted(time, edges, "left")
    before = np.maximum(n - 1, 0)
    # How much of the window open at an edge lies behind it.
    rest = np.clip(time[before] + window[before] - edges, 0, window[before])
    rest = np.where(n > 0, rest, 0)
    open_at_edge = rest[:-1] > 0
    share = rest / np.maximum(window[before], 1)
    total = np.diff(_running(amount)[n] - amount[before] * share)
    covered = np.diff(_running(length)[n] - np.where(known[before], rest, 0))
    # Σ value × time in it, so that the mean weighs windows by their part.
    weighted = np.diff(
        _running(amount * length)[n] - amount[before] * np.where(known[before], rest, 0)
    )
    mean = np.full(len(total), np.nan)
    np.divide(weighted, covered, out=mean, where=covered > 0)
    low, high = _extremes(value, n[:-1] - open_at_edge, _stops(series, edges, n))
    # A column without width shows the window that it lies in.
    mean = np.where(edges[1:] == edges[:-1], high, mean)
    return SeriesColumns(low, high, mean, total, np.diff(n))


def _delta(series: CounterSeries, edges: I64) -> SeriesColumns:
    n = np.searchsorted(series.time, edges, "left")
    total = np.diff(_running(np.where(np.isnan(series.value), 0.0, series.value))[n])
    low, high = _extremes(series.value, n[:-1], _stops(series, edges, n))
    value = np.where(np.isnan(low), np.nan, total)
    return SeriesColumns(low, high, value, total, np.diff(n))


def _stops(series: CounterSeries, edges: I64, n: I64) -> I64:
    """Return how many samples stand before the end of each column.

    A column without width ends one tick after its begin; `n` stand before each edge.
    """
    is_empty = edges[1:] <= edges[:-1]
    if not is_empty.any():
        return n[1:]
    stop = n[1:].copy()
    ends = edges[:-1][is_empty] + 1
    stop[is_empty] = np.searchsorted(series.time, ends, "left")
    return stop


def _running(values: F64) -> F64:
    """Return float64[n + 1] sums of what comes before each position."""
    return np.concatenate([np.zeros(1), np.cumsum(values)])


def _extremes(values: F64, first: I64, stop: I64) -> tuple[F64, F64]:
    """Return least and greatest known value of each range; NaN where empty."""
    low, high = np.full(len(first), np.nan), np.full(len(first), np.nan)
    # `reduceat` on pairs (first, stop): every second result is a gap. Only ranges to
    # the very end need a value behind it, so that not all are copied for each picture.
    filled, ends = stop > first, stop == len(values)
    for chosen, to_end in ((filled & ~ends, False), (filled & ends, True)):
        at = np.flatnonzero(chosen)
        if not len(at):
            continue
        begin = int(first[at].min()) if to_end else 0
        known = np.append(values[begin:], np.nan) if to_end else values
        pairs = np.stack([first[at], stop[at]], axis=1).ravel() - begin
        low[at] = np.fmin.reduceat(known, pairs)[::2]
        high[at] = np.fmax.reduceat(known, pairs)[::2]
    return low, high
