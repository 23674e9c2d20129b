"""The order of the spans of several sorted runs, a byte each."""

from dataclasses import replace

import numpy as np
import pytest

from builders import spans_trace
from ggscope.analysis.order import turns
from ggscope.analysis.order.turns import turns_of
from ggscope.model.trace import RUNNING, Trace


def runs_trace(seed: int, n_lanes: int, n: int = 3_000) -> Trace:
    rng = np.random.default_rng(seed)
    lane = np.sort(rng.integers(0, n_lanes, n))
    start = rng.integers(0, 4_000, n) + (seed % 3 == 2) * (lane << 56)
    order = np.lexsort((start, lane))
    start = start[order]
    return spans_trace(start, start + 5, lane=lane, op=1)


@pytest.fixture(autouse=True)
def few_spans_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MIN_SPANS", 1)
    monkeypatch.setattr(turns, "MIN_SHARED", 500)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_lanes", [2, 8, 13, 40])
@pytest.mark.parametrize("n_workers", [1, 3])
def test_turns_lead_through_the_spans_in_the_order_of_time(
    monkeypatch: pytest.MonkeyPatch, seed: int, n_lanes: int, n_workers: int
) -> None:
    monkeypatch.setattr(turns, "n_workers", lambda: n_workers)
    trace = runs_trace(seed, n_lanes)

    made = turns_of(trace)

    assert made is not None
    assert np.array_equal(np.bincount(made.run), np.diff(made.edges))
    cursor, ids = made.edges[:-1].copy(), []
    for run in made.run.tolist():
        ids.append(int(cursor[run]))
        cursor[run] += 1
    assert (np.diff(trace.spans.start[ids]) >= 0).all()
    assert made.before(cursor) == len(trace.spans)


def test_order_is_made_once_per_trace() -> None:
    trace = runs_trace(1, 4)

    assert turns_of(trace) is turns_of(trace)


def test_one_run_and_many_and_unsorted_spans_have_no_turns() -> None:
    one, many = runs_trace(1, 1), runs_trace(1, 100)
    shuffled = np.random.default_rng(1).permutation(3_000)
    spans = one.spans
    unsorted = replace(
        one, spans=replace(spans, start=spans.start[shuffled], end=spans.end[shuffled])
    )

    assert turns_of(one) is None
    assert turns_of(many) is None
    assert turns_of(unsorted) is None


def test_few_spans_are_merged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = runs_trace(1, 4)
    monkeypatch.setattr(turns, "MIN_SPANS", 3_001)

    assert turns_of(trace) is None


def test_order_of_a_trace_that_grows_is_not_kept() -> None:
    trace = replace(runs_trace(1, 4), pending=frozenset({RUNNING}))

    assert turns_of(trace) is None
