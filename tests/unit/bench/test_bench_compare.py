"""When ``make bench`` calls a figure a regression."""

import math

import pytest
from bench_compare import confirmed, regressions, slowness, worse_by
from bench_figures import Figure

SLOW = Figure(key="bin1.open_s", label="open", unit="s", rates=("numpy_m_s",))
FRAMES = Figure(
    key="bin1.fps", label="frames", unit="/s", more_is_better=True, rates=("blit_fps",)
)
MEMORY = Figure(key="bin1.peak_mb", label="peak", unit="MB")
RATES = {"numpy_m_s": 10.0, "blit_fps": 1000.0}


def found(figure, now, before, rates_now=RATES, rates_before=RATES):
    key = figure.key
    return regressions([figure], {key: now}, {key: before}, rates_now, rates_before)


@pytest.mark.parametrize(
    ("figure", "now", "before", "is_regression"),
    [
        (SLOW, 1.29, 1.0, False),
        (SLOW, 1.31, 1.0, True),
        (SLOW, 0.1, 1.0, False),
        (FRAMES, 78.0, 100.0, False),
        (FRAMES, 76.0, 100.0, True),
        (FRAMES, 500.0, 100.0, False),
        (MEMORY, 129.0, 100.0, False),
        (MEMORY, 131.0, 100.0, True),
    ],
)
def test_regression_begins_at_thirty_per_cent(figure, now, before, is_regression):
    assert bool(found(figure, now, before)) is is_regression


def test_slower_machine_explains_a_slower_figure():
    half = {"numpy_m_s": 5.0, "blit_fps": 500.0}

    assert not found(SLOW, 2.5, 1.0, rates_now=half)
    assert found(SLOW, 2.7, 1.0, rates_now=half)
    assert not found(FRAMES, 40.0, 100.0, rates_now=half)
    assert found(FRAMES, 38.0, 100.0, rates_now=half)


def test_faster_machine_does_not_hide_a_slower_program():
    twice = {"numpy_m_s": 20.0, "blit_fps": 2000.0}

    assert found(SLOW, 1.0, 1.0, rates_now=twice)
    assert found(FRAMES, 100.0, 100.0, rates_now=twice)


def test_slower_machine_does_not_explain_more_memory():
    half = {"numpy_m_s": 5.0, "blit_fps": 500.0}

    assert found(MEMORY, 150.0, 100.0, rates_now=half)


def test_slowness_is_the_mean_of_the_rates_that_both_have():
    now, before = {"a": 1.0, "b": 4.0, "c": 9.0}, {"a": 4.0, "b": 4.0, "d": 9.0}

    assert slowness(("a", "b", "c", "d"), now, before) == pytest.approx(2.0)
    assert slowness(("c", "d"), now, before) == 1.0
    assert slowness((), now, before) == 1.0


def test_slowness_of_a_few_per_cent_is_noise():
    assert slowness(("a",), {"a": 1.0}, {"a": 1.09}) == 1.0
    assert slowness(("a",), {"a": 1.0}, {"a": 0.93}) == 1.0
    assert slowness(("a",), {"a": 1.0}, {"a": 1.2}) == pytest.approx(1.2)


def test_difference_within_the_resolution_is_none():
    coarse = Figure(key="x.ms", label="", unit="ms", slack=25.0)

    assert worse_by(coarse, 30.0, 6.0) == 0.0
    assert worse_by(coarse, 32.0, 6.0) > 1.0


def test_figure_that_becomes_nothing_is_infinitely_worse():
    assert worse_by(FRAMES, 0.0, 60.0) == math.inf


def test_figures_of_one_side_and_uncompared_ones_are_left_out():
    loud = Figure(key="bin1.max_ms", label="", unit="ms", is_compared=False)
    now = {"bin1.max_ms": 900.0, "bin1.open_s": 9.0}

    assert not regressions([loud, SLOW], now, {"bin1.max_ms": 1.0}, RATES, RATES)


def test_regressions_come_worst_first_and_say_what_they_are():
    now = {"bin1.open_s": 2.0, "bin1.peak_mb": 300.0}
    before = {"bin1.open_s": 1.0, "bin1.peak_mb": 100.0}

    worst, other = regressions([SLOW, MEMORY], now, before, RATES, RATES)

    assert (worst.figure, other.figure) == (MEMORY, SLOW)
    assert str(other) == "bin1.open_s: 2 s, expected 1 (100% worse): open"


class Again:
    """Measures once more, with figures made up in advance."""

    def __init__(self, *tries):
        self.tries, self.asked = list(tries), []

    def __call__(self, source):
        self.asked.append(source)
        return self.tries.pop(0)


def look(now):
    before = {"bin1.open_s": 1.0, "bin1.fps": 60.0}
    return regressions([SLOW, FRAMES], now, before, RATES, RATES)


def test_regression_that_a_second_run_does_not_show_is_dropped():
    now, again = {"bin1.open_s": 2.0}, Again({"bin1.open_s": 1.1})

    assert confirmed(look, now, again) == []
    assert now["bin1.open_s"] == 1.1
    assert again.asked == ["bin1"]


def test_regression_that_two_more_runs_show_stays_with_its_best_figure():
    now = {"bin1.open_s": 2.0}
    again = Again({"bin1.open_s": 1.6}, {"bin1.open_s": 1.9})

    (stays,) = confirmed(look, now, again)

    assert stays.now == 1.6
    assert again.asked == ["bin1", "bin1"]


def test_second_run_changes_only_what_looked_worse():
    now = {"bin1.open_s": 1.0, "bin1.fps": 30.0}
    again = Again({"bin1.open_s": 5.0, "bin1.fps": 61.0})

    assert confirmed(look, now, again) == []
    assert now == {"bin1.open_s": 1.0, "bin1.fps": 61.0}


def test_good_figures_are_not_measured_again():
    again = Again()

    assert confirmed(look, {"bin1.open_s": 1.0}, again) == []
    assert again.asked == []
