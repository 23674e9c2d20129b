"""Latency of tokens, each figure against a plain loop."""

from dataclasses import replace

import numpy as np
import pytest

from builders import (
    empty_trace,
    llama_like_trace,
    npu_like_trace,
    random_trace,
    token_trace,
)
from ggscope.analysis.summary.latency import Latency, token_latency, typical_latency
from ggscope.analysis.summary.summary import summary
from ggscope.model.tables import Phase, SpanFlag
from ggscope.model.trace import Trace
from latency_traces import Ubatch, generation, ubatch_trace
from oracles import run_times
from wait_traces import random_waits


def mixed_sequences(seed: int) -> Trace:
    """Return ubatches of one and of several sequences, with gaps and repetitions."""
    rng = np.random.default_rng(seed)
    ubatches, begin = [], 0
    for _ in range(60):
        n = int(rng.integers(1, 4))
        first = int(rng.integers(-1, 20))
        kind = int(rng.integers(0, 5))
        tokens = tuple((0, first + i) for i in range(n))
        if kind == 1:  # several sequences, one after the other
            tokens = tuple((i % 2, first + i) for i in range(n))
        elif kind == 2:  # a tree of drafts
            tokens = tuple((0, first) for _ in range(n))
        elif kind == 3:
            tokens = tuple((0, first + 2 * i) for i in range(n))
        elif kind == 4:
            tokens = tuple((0, first + int(rng.integers(0, 3))) for _ in range(n))
        end = begin + int(rng.integers(10, 100))
        flags = int(SpanFlag.ESTIMATED) if rng.random() < 0.2 else 0
        ubatches.append(
            Ubatch(begin, end, int(rng.integers(-1, 3)), tokens, flags=flags)
        )
        begin = end
    return ubatch_trace(ubatches)


TRACES = {
    "generation": generation(60),
    "sequences": mixed_sequences(1),
    "other sequences": mixed_sequences(2),
    "llama": llama_like_trace(),
    "npu": npu_like_trace(),
    "random": random_trace(3, 400, 3, shuffled=True),
    "waits": random_waits(4, 600, lanes=3),
    "tokens": token_trace([(0, 10, 5), (10, 40, 5), (40, 45, 5)]),
    "empty": empty_trace(),
}


@pytest.fixture(params=list(TRACES))
def trace(request) -> Trace:
    return TRACES[request.param]


def counted(trace: Trace) -> list[int]:
    """Return the numbers of the bars that count: generated tokens, else timed ones."""
    every = run_times.bars(trace)
    timed = [i for i, bar in enumerate(every) if run_times.is_timed(trace, bar[2])]
    phase = trace.spans.phase
    if token_latency(trace).bars.noun == "graph pass" or phase is None:
        return timed
    generated = [i for i in timed if phase[every[i][2]] == Phase.GENERATE]
    return generated or timed


def nearest(values: list[int], share: float) -> float:
    """Return a percentile, between neighbours by a straight line."""
    ordered, at = sorted(values), share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def durations(trace: Trace) -> list[int]:
    return [end - start for start, end, _ in run_times.bars(trace)]


def test_median_p99_and_outliers_are_those_of_a_plain_loop(trace):
    latency, rows, every = token_latency(trace), counted(trace), durations(trace)

    assert np.flatnonzero(latency.is_counted).tolist() == rows
    if not rows:
        assert (latency.median, latency.p99) == (None, None)
        assert not latency.is_outlier.any()
        return
    values = [every[i] for i in rows]
    assert latency.median == pytest.approx(nearest(values, 0.5))
    assert latency.p99 == pytest.approx(nearest(values, 0.99))
    slow = [i for i in rows if every[i] > 2 * nearest(values, 0.5)]
    assert np.flatnonzero(latency.is_outlier).tolist() == slow


def test_typical_latency_of_a_lane_is_that_of_all_bars(trace):
    latency = token_latency(trace)
    if not trace.lanes.is_token.any():
        pytest.skip("its bars are graph passes")

    typical = typical_latency(trace.spans, latency.bars.span)

    assert typical.median == (latency.median or 0)
    ratios = typical.ratios(trace.spans, latency.bars.span)
    assert (np.isfinite(ratios) == latency.is_counted).all()
    for row in np.flatnonzero(latency.is_counted).tolist():
        assert ratios[row] == pytest.approx(durations(trace)[row] / latency.median)
    assert ((ratios > 2) == latency.is_outlier).all()


def test_summary_has_the_same_median_and_outliers(trace):
    latency, tokens = token_latency(trace), summary(trace).tokens

    assert tokens.median == latency.median
    assert sorted(tokens.outliers) == np.flatnonzero(latency.is_outlier).tolist()


def test_positions_are_those_of_a_plain_loop(trace):
    assert token_latency(trace).position.tolist() == run_times.positions(trace)


def test_traces_have_what_the_plain_loops_are_for():
    """Guard: positions known and not, outliers, bars without a time."""
    latencies = [token_latency(TRACES[name]) for name in ("generation", "sequences")]

    assert latencies[0].is_outlier.any()
    assert (latencies[1].position >= 0).any()
    assert (latencies[1].position < 0).any()
    assert not latencies[1].bars.is_timed.all()


@pytest.mark.parametrize("name", ["generation", "sequences", "other sequences"])
def test_slope_is_that_of_least_squares(name):
    latency, trace = token_latency(TRACES[name]), TRACES[name]
    places, every = run_times.positions(trace), durations(trace)
    points = [
        (places[i], every[i])
        for i in counted(trace)
        if places[i] >= 0 and latency.bars.n_tokens[i] == 1
    ]

    slope, at_zero = run_times.line(points)

    assert latency.fit is not None
    assert latency.no_fit == ""
    assert latency.fit.slope == pytest.approx(float(slope))
    assert latency.fit.at_zero == pytest.approx(float(at_zero))
    assert (latency.fit.n, latency.fit.low, latency.fit.high) == (
        len(points), min(x for x, _ in points), max(x for x, _ in points),
    )  # fmt: skip
    rest = sum((y - at_zero - slope * x) ** 2 for x, y in points)
    mean = sum(x for x, _ in points) / len(points)
    spread = sum((x - mean) ** 2 for x, _ in points)
    error = (float(rest) / (len(points) - 2) / spread) ** 0.5
    assert latency.fit.error == pytest.approx(error)


def without_fit(trace: Trace) -> Latency:
    latency = token_latency(trace)
    assert latency.fit is None
    return latency


def test_no_slope_is_made_up():
    one = generation(20)
    tokens = one.batch_tokens
    unknown = replace(tokens, position=np.full(len(tokens), -1, np.int32))
    context = np.arange(len(tokens), dtype=np.int32) % 2
    traces = {
        "no positions": replace(one, batch_tokens=unknown),
        "no ubatches": token_trace([(0, 10, 5), (10, 40, 5), (40, 45, 5)]),
        "two contexts": replace(one, batch_tokens=replace(tokens, context=context)),
        "two points": generation(2),
        "one position": ubatch_trace(
            [Ubatch(i, i + 1, tokens=((0, 5),)) for i in range(9)]
        ),
    }  # fmt: skip

    reasons = {name: without_fit(trace).no_fit for name, trace in traces.items()}

    assert all(reasons.values())
    assert reasons["no positions"] == reasons["no ubatches"]
    assert len(set(reasons.values())) == 3


def test_ubatches_of_several_tokens_have_a_position_only_with_their_sequences():
    ubatches = [
        Ubatch(0, 5, Phase.PROMPT, ((0, 0), (0, 1))),
        Ubatch(5, 9, tokens=((0, 2),)),
    ]

    known = token_latency(ubatch_trace(ubatches))
    unknown = token_latency(ubatch_trace(ubatches, knows_sequences=False))

    assert known.position.tolist() == [0, 2]
    assert unknown.position.tolist() == [-1, 2]
