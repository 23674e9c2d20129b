from itertools import pairwise

import numpy as np
import pytest

from ggscope.analysis.rows.columns import column_edges
from ggscope.analysis.series import series_columns, series_range, value_at
from ggscope.model.tables import CounterSeries, CounterShape
from ggscope.model.units import TimeRange

NAN = float("nan")


def series(shape: CounterShape, time, value, window=None) -> CounterSeries:
    return CounterSeries(
        0,
        "x",
        0,
        "bytes",
        shape,
        np.array(time, np.int64),
        np.array(value, np.float64),
        None if window is None else np.array(window, np.int64),
    )


def same(result, expected) -> bool:
    return bool(np.allclose(result, expected, equal_nan=True))


def test_level_holds_until_the_next_sample():
    level = series(CounterShape.LEVEL, [10, 25, 40], [1, 5, 2])

    columns = series_columns(level, np.array([0, 10, 20, 30, 40, 50]))

    assert same(columns.low, [NAN, 1, 1, 5, 2])
    assert same(columns.high, [NAN, 1, 5, 5, 2])
    assert same(columns.last, [NAN, 1, 5, 5, 2])
    assert columns.count.tolist() == [0, 1, 1, 0, 1]
    assert columns.total.tolist() == [0] * 5


def test_level_unknown_sample_is_unknown_until_the_next():
    level = series(CounterShape.LEVEL, [0, 10, 20], [1, NAN, 3])

    columns = series_columns(level, np.array([0, 10, 20, 30]))

    assert same(columns.last, [1, NAN, 3])


def test_level_random_samples_equal_brute_force():
    rng = np.random.default_rng(1)
    time = np.sort(rng.integers(0, 300, 80))
    value = rng.normal(size=80)
    level = series(CounterShape.LEVEL, time, value)
    edges = column_edges(TimeRange(-20, 330), 41)

    columns = series_columns(level, edges)

    for k, (a, b) in enumerate(pairwise(edges.tolist())):
        held = [value[time <= t][-1] for t in range(a, b) if (time <= t).any()]
        inside = value[(time >= a) & (time < b)].tolist()
        known = held + inside
        assert same(columns.low[k], min(known, default=NAN))
        assert same(columns.high[k], max(known, default=NAN))
        assert same(columns.last[k], held[-1] if held else NAN)


def test_level_columns_without_width_show_what_holds_there():
    level = series(CounterShape.LEVEL, [1, 2], [7, 8])

    columns = series_columns(level, np.array([0, 0, 1, 1, 2, 2, 3]))

    assert same(columns.last, [NAN, NAN, 7, 7, 8, 8])


def test_rate_amounts_add_up_whatever_the_columns():
    rng = np.random.default_rng(2)
    window = rng.integers(0, 30, 60)
    time = np.cumsum(window + rng.integers(0, 20, 60)) - window
    value = rng.integers(0, 9, 60).astype(float)
    rate = series(CounterShape.RATE, time, value, window)

    for px in (1, 7, 400):
        columns = series_columns(rate, column_edges(TimeRange(-10, 3_000), px))
        assert columns.total.sum() == pytest.approx(value.sum())


def test_rate_random_windows_equal_brute_force():
    rng = np.random.default_rng(3)
    window = rng.integers(1, 30, 40)
    time = np.cumsum(window + rng.integers(0, 9, 40)) - window
    value = rng.integers(0, 9, 40).astype(float)
    value[5] = NAN
    rate = series(CounterShape.RATE, time, value, window)
    edges = column_edges(TimeRange(0, int(time[-1]) + 50), 37)

    columns = series_columns(rate, edges)

    for k, (a, b) in enumerate(pairwise(edges.tolist())):
        inside = np.minimum(time + window, b) - np.maximum(time, a)
        touched = (inside > 0) & ~np.isnan(value)
        part, what = inside[touched], value[touched]
        mean = (part * what).sum() / part.sum() if part.any() else NAN
        assert same(columns.last[k], mean)
        assert same(columns.total[k], (what * part / window[touched]).sum())
        assert same(columns.low[k], what.min() if len(what) else NAN)
        assert same(columns.high[k], what.max() if len(what) else NAN)


def test_rate_column_without_width_shows_its_window():
    rate = series(CounterShape.RATE, [0, 10], [4, 6], [10, 10])

    columns = series_columns(rate, np.array([3, 3, 12, 12, 30, 30]))

    assert same(columns.last, [4, (7 * 4 + 2 * 6) / 9, 6, 6, NAN])
    assert columns.total.sum() == pytest.approx(0.7 * 4 + 6)


def test_rate_without_windows_is_a_sum():
    rate = series(CounterShape.RATE, [0, 1], [4, 6])

    assert series_columns(rate, np.array([0, 5])).total.tolist() == [10]


def test_delta_sums_what_lies_in_each_column():
    delta = series(CounterShape.DELTA, [0, 5, 5, 12, 13], [1, -2, 4, NAN, 7])

    columns = series_columns(delta, np.array([0, 5, 10, 13, 20, 30]))

    assert columns.total.tolist() == [1, 2, 0, 7, 0]
    assert same(columns.last, [1, 2, NAN, 7, NAN])
    assert same(columns.low, [1, -2, NAN, 7, NAN])
    assert columns.count.tolist() == [1, 2, 1, 1, 0]


@pytest.mark.parametrize("edges", [[], [4], [0, 5, 9]])
def test_series_without_samples_says_nothing(edges):
    empty = series(CounterShape.LEVEL, [], [])

    columns = series_columns(empty, np.array(edges, np.int64))

    assert len(columns.low) == max(len(edges) - 1, 0)
    assert np.isnan(columns.last).all()


def test_series_before_its_first_sample_says_nothing():
    delta = series(CounterShape.DELTA, [50], [1])

    columns = series_columns(delta, np.array([0, 10, 20]))

    assert np.isnan(columns.high).all()
    assert columns.total.tolist() == [0, 0]


def test_series_without_columns_is_empty():
    level = series(CounterShape.LEVEL, [0], [1])

    assert len(series_columns(level, np.array([0])).low) == 0


def test_series_range_includes_zero_and_skips_unknown():
    assert series_range(series(CounterShape.LEVEL, [0, 1, 2], [5, NAN, 9])) == (0, 9)
    assert series_range(series(CounterShape.DELTA, [0, 1], [-5, 2])) == (-5, 2)
    assert series_range(series(CounterShape.DELTA, [], [])) == (0, 0)


def test_value_at_follows_the_shape():
    time, value = [10, 20], [3, 5]
    level = series(CounterShape.LEVEL, time, value)
    rate = series(CounterShape.RATE, time, value, [4, 4])
    delta = series(CounterShape.DELTA, time, value)

    ticks = (9, 10, 13, 14, 20, 99)
    assert same([value_at(level, t) for t in ticks], [NAN, 3, 3, 3, 5, 5])
    assert same([value_at(rate, t) for t in ticks], [NAN, 3, 3, NAN, 5, NAN])
    assert same([value_at(delta, t) for t in ticks], [NAN, 3, NAN, NAN, 5, NAN])


@pytest.mark.parametrize("seed", range(5))
def test_range_is_of_all_known_values_and_zero(seed):
    rng = np.random.default_rng(seed)
    value = rng.normal(size=rng.integers(0, 30)) + rng.integers(-3, 4)
    value[rng.random(len(value)) < 0.3] = NAN
    level = series(CounterShape.LEVEL, np.arange(len(value)), value)
    known = [0.0, *(v for v in value.tolist() if v == v)]
    assert series_range(level) == (min(known), max(known))
    assert series_range(level) == (min(known), max(known))
