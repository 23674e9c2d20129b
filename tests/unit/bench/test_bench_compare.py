"""When ``make bench`` calls a figure a regression."""

import json
import math
import sys

import pytest
from bench_compare import confirmed, regressions, worse_by
from bench_figures import Figure

import bench

SLOW = Figure(key="bin1.open_s", label="open", unit="s")
FRAMES = Figure(key="bin1.fps", label="frames", unit="/s", more_is_better=True)
MEMORY = Figure(key="bin1.peak_mb", label="peak", unit="MB")


def regressions_of(figure, now, before):
    key = figure.key
    return regressions([figure], {key: now}, {key: before})


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
    assert bool(regressions_of(figure, now, before)) is is_regression


def test_difference_within_the_resolution_is_none():
    coarse = Figure(key="x.ms", label="", unit="ms", slack=25.0)

    assert worse_by(coarse, 30.0, 6.0) == 0.0
    assert worse_by(coarse, 32.0, 6.0) > 1.0


def test_figure_that_becomes_nothing_is_infinitely_worse():
    assert worse_by(FRAMES, 0.0, 60.0) == math.inf


def test_figures_of_one_side_and_uncompared_ones_are_left_out():
    loud = Figure(key="bin1.max_ms", label="", unit="ms", is_compared=False)
    now = {"bin1.max_ms": 900.0, "bin1.open_s": 9.0}

    assert not regressions([loud, SLOW], now, {"bin1.max_ms": 1.0})


def test_regressions_come_worst_first_and_say_what_they_are():
    now = {"bin1.open_s": 2.0, "bin1.peak_mb": 300.0}
    before = {"bin1.open_s": 1.0, "bin1.peak_mb": 100.0}

    worst, other = regressions([SLOW, MEMORY], now, before)

    assert (worst.figure, other.figure) == (MEMORY, SLOW)
    assert str(other) == (
        "bin1.open_s: 2 s, 1 in the baseline (100% worse, measured once): open"
    )


class Again:
    """Measures once more, with figures made up in advance."""

    def __init__(self, *tries):
        self.tries, self.calls = list(tries), []

    def __call__(self, source):
        self.calls.append(source)
        return self.tries.pop(0)


QUICK = {"bin1": 1.0, "moe10": 100.0}
"""Seconds of the first measurements: a quarter of all leaves time for the first."""


def look(now):
    before = {"bin1.open_s": 1.0, "bin1.fps": 60.0}
    return regressions([SLOW, FRAMES], now, before)


def test_regression_that_a_second_run_does_not_show_is_dropped():
    now, again = {"bin1.open_s": 2.0}, Again({"bin1.open_s": 1.1})

    assert confirmed(look, now, again, QUICK) == []
    assert now["bin1.open_s"] == 1.1
    assert again.calls == ["bin1"]


def test_regression_that_two_more_runs_show_stays_with_its_best_figure():
    now = {"bin1.open_s": 2.0}
    again = Again({"bin1.open_s": 1.6}, {"bin1.open_s": 1.9})

    (stays,) = confirmed(look, now, again, QUICK)

    assert stays.now == 1.6
    assert stays.is_confirmed
    assert again.calls == ["bin1", "bin1"]


def test_second_run_changes_only_what_looked_worse():
    now = {"bin1.open_s": 1.0, "bin1.fps": 30.0}
    again = Again({"bin1.open_s": 5.0, "bin1.fps": 61.0})

    assert confirmed(look, now, again, QUICK) == []
    assert now == {"bin1.open_s": 1.0, "bin1.fps": 61.0}


def test_good_figures_are_not_measured_again():
    again = Again()

    assert confirmed(look, {"bin1.open_s": 1.0}, again, QUICK) == []
    assert again.calls == []


def test_what_takes_too_long_again_stays_unconfirmed():
    now, again = {"bin1.open_s": 2.0}, Again()

    (stays,) = confirmed(look, now, again, {"bin1": 60.0, "moe10": 100.0})

    assert again.calls == []
    assert not stays.is_confirmed
    assert "measured once" in str(stays)


def test_measuring_again_takes_a_quarter_of_the_time_at_most():
    now = {"bin1.open_s": 2.0}
    again = Again({"bin1.open_s": 2.0}, {"bin1.open_s": 2.0})

    confirmed(look, now, again, {"bin1": 30.0, "moe10": 100.0})

    assert again.calls == ["bin1"]


class Measured:
    """Stands in for the measurements: one figure, which is `now`."""

    now = 1.0

    def __init__(self, *_):
        self.sources, self.seconds, self.about = {"start": None}, {"start": 1.0}, {}

    def measure(self, source):
        return {f"{source}.window_s": self.now}

    def rates(self):
        return {}

    def column_names(self, values):
        return []


@pytest.fixture
def measure(monkeypatch, tmp_path, capsys):
    """Return a function: what `make bench` answers and says where the figure is `now`.

    It may be run on another machine than the one before.
    """

    def run(now, *, cores=2):
        facts = bench_machine() | {"cores": cores}
        monkeypatch.setattr(bench, "machine", lambda: facts)
        monkeypatch.setattr(Measured, "now", now)
        return bench.main(), capsys.readouterr().err

    bench_machine = bench.machine
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    monkeypatch.setattr(bench, "Bench", Measured)
    monkeypatch.setattr(bench, "_print", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", ["bench.py", "--only", "start"])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return run


def test_first_run_stores_what_later_ones_are_compared_with(measure, tmp_path):
    code, message = measure(1.0)
    assert code == 0
    assert "baseline of this machine" in message
    (stored,) = (tmp_path / "state").rglob("bench-baseline-*.json")
    assert json.loads(stored.read_text("utf-8"))["figures"] == {"start.window_s": 1.0}

    assert measure(1.1)[0] == 0
    code, message = measure(9.0)
    assert code == 1
    assert "worse than the baseline" in message


def test_figures_of_another_machine_are_not_compared_with(
    measure, tmp_path, monkeypatch
):
    measure(1.0, cores=64)
    assert measure(9.0, cores=2)[0] == 0
    assert len(list((tmp_path / "state").rglob("*.json"))) == 2

    (first, second) = (tmp_path / "state").rglob("*.json")
    other = next(
        x for x in (first, second) if json.loads(x.read_text())["machine"]["cores"] > 2
    )
    arguments = ["bench.py", "--only", "start", "--baseline", str(other)]
    monkeypatch.setattr(sys, "argv", arguments)
    code, message = measure(9.0, cores=2)
    assert code == 0
    assert "of another machine" in message
