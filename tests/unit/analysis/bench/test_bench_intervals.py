"""Intervals of means and differences against tables and a simulation of their level."""

import numpy as np
import pytest

from ggscope.analysis.bench.intervals import (
    Interval,
    difference_interval,
    mean_intervals,
    student_quantiles,
)

# Two-sided 95 %, from tables of Student's distribution.
TABLE = {
    1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 5: 2.57058, 9: 2.26216,
    10: 2.22814, 30: 2.04227, 120: 1.97993,
}  # fmt: skip


def test_quantiles_are_those_of_the_tables() -> None:
    result = student_quantiles(list(TABLE))

    assert result == pytest.approx(list(TABLE.values()), abs=6e-6)


def test_quantiles_between_whole_degrees_lie_between_them() -> None:
    freedom = np.arange(1.0, 40.0, 0.25)

    result = student_quantiles(freedom)

    assert (np.diff(result) < 0).all()
    assert float(student_quantiles(1e7)) == pytest.approx(1.959964, abs=1e-5)


def test_integral_of_the_density_up_to_a_quantile_is_the_level() -> None:
    for freedom in (1.0, 2.5, 7.0):
        t = float(student_quantiles(freedom))
        x = np.linspace(0, t, 200_001)
        density = (1 + x * x / freedom) ** (-(freedom + 1) / 2)
        tail = np.linspace(0, 1, 2_000_001)[:-1]
        over = tail / (1 - tail)
        whole = (1 + over * over / freedom) ** (-(freedom + 1) / 2) / (1 - tail) ** 2

        share = np.trapezoid(density, x) / np.trapezoid(whole, tail)

        assert share == pytest.approx(0.95, abs=1e-3 if freedom == 1.0 else 1e-5)


def test_interval_of_a_mean_by_hand() -> None:
    low, high = mean_intervals(
        np.array([5.0, 1.0, 2.0, 3.0, 7.0]), np.array([0, 1, 4, 5])
    )

    half = 4.302652730 * 1.0 / np.sqrt(3)
    assert np.isnan([low[0], high[0], low[2], high[2]]).all()
    assert (low[1], high[1]) == pytest.approx((2 - half, 2 + half))


def test_difference_by_welch_by_hand() -> None:
    # Variances 1 and 4 of three each: 5/3 under the root, 2.941 degrees of freedom.
    interval = difference_interval([1.0, 2.0, 3.0], [8.0, 10.0, 12.0])

    assert interval is not None
    freedom = (5 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (4 / 3) ** 2 / 2)
    half = np.sqrt(5 / 3) * float(student_quantiles(freedom))
    assert (interval.low, interval.high) == pytest.approx((8 - half, 8 + half))


def test_difference_needs_two_of_each() -> None:
    assert difference_interval([1.0], [1.0, 2.0]) is None
    assert difference_interval([2.0, 2.0], [3.0, 3.0]) == Interval(1.0, 1.0)


def test_intervals_hold_the_difference_in_95_of_100_cases() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(2_000):
        a, b = rng.normal(10, 1, 5), rng.normal(12, 2, 5)
        interval = difference_interval(a.tolist(), b.tolist())
        assert interval is not None
        hits += interval.has(2.0)

    assert 0.93 < hits / 2_000 < 0.975
