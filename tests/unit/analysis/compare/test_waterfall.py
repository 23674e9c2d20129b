"""Steps from A's time per token to B's, histograms, held against plain loops."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import OPS, llama_like_trace, npu_like_trace, slowed, spans_trace
from ggscope.analysis import workers
from ggscope.analysis.compare import time_parts
from ggscope.analysis.compare.alignment import align
from ggscope.analysis.compare.histogram import (
    bin_edges,
    count_in_bins,
    duration_histogram,
)
from ggscope.analysis.compare.waterfall import (
    IDLE,
    IDLE_OR_WAIT,
    MAX_STEPS,
    NO_OP,
    OVERLAP,
    STEPS_BY,
    TOKENS_OF,
    WAIT,
    WORK,
    StepsBy,
    Waterfall,
    waterfall,
)
from ggscope.analysis.statistics import scan
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.ops import family_of
from ggscope.model.tables import NO_WAIT, Phase, SpanFlag
from ggscope.model.trace import LaneKind, Trace

Op = tuple[int, int, int, int, int]
"""Thread, begin, length, op number, wait (-1 = none)."""


def steps(a: list[Trace], b: list[Trace], by: StepsBy = "family") -> Waterfall:
    traces = [*a, *b]
    return waterfall(traces, align(traces), len(a), by)


def run_trace(tokens: list[tuple[int, int]], ops: list[Op]) -> Trace:
    """Return generated tokens and ops of threads; ops may lie anywhere."""
    builder = TraceBuilder()
    builder.ops = OPS
    lane = builder.add_lane("tokens", LaneKind.TOKEN)
    threads = [builder.add_lane(f"thread {i}", LaneKind.THREAD) for i in range(3)]
    begin, end = np.array(tokens, np.int64).T
    n = np.arange(len(tokens), dtype=np.int32)
    builder.add_spans(
        start=begin, end=end, lane=np.full(len(n), lane, np.int32), token=n,
        op=np.full(len(n), -1, np.int16),
        phase=np.full(len(n), Phase.GENERATE, np.int8),
    )  # fmt: skip
    for thread, first, length, op, wait in ops:
        builder.add_spans(
            start=np.array([first]), end=np.array([first + length]),
            lane=np.array([threads[thread]], np.int32), op=np.array([op], np.int16),
            wait=np.array([NO_WAIT if wait < 0 else wait], np.uint32),
            phase=np.full(1, Phase.GENERATE, np.int8),
        )  # fmt: skip
    return builder.snapshot(llama_like_trace().info)


def ticks_of(tokens: list[tuple[int, int]]) -> set[int]:
    return {tick for begin, end in tokens for tick in range(begin, end)}


def slow_families(tokens: list[tuple[int, int]], ops: list[Op]) -> dict[str, int]:
    """Return the ticks of each family while a token lasts, tick by tick."""
    time, of = ticks_of(tokens), dict[str, set[int]]()
    for _, first, length, op, _ in ops:
        family = family_of(OPS.name(op))
        of.setdefault(family, set()).update(time & set(range(first, first + length)))
    ran = set().union(*of.values()) if of else set()
    sums = {family: len(ticks) for family, ticks in of.items() if ticks}
    overlap = len(ran) - sum(sums.values())
    return sums | {OVERLAP: overlap, NO_OP: len(time) - len(ran)}


def slow_threads(tokens: list[tuple[int, int]], ops: list[Op]) -> dict[str, int]:
    time = ticks_of(tokens)
    work = wait = idle = 0
    for thread in sorted({op[0] for op in ops}):
        own = [op for op in ops if op[0] == thread]
        busy: set[int] = set()
        waits: set[int] = set()
        for _, first, length, _, waited in own:
            busy |= time & set(range(first, first + length))
            end = first + length
            waits |= time & set(range(end, end + max(waited, 0)))
        work += len(busy)
        wait += len(waits - busy)
        idle += len(time - busy - waits)
    if all(op[4] < 0 for op in ops):
        return {WORK: work, IDLE_OR_WAIT: wait + idle}
    return {WORK: work, WAIT: wait, IDLE: idle}


TOKENS = st.lists(
    st.tuples(st.integers(0, 120), st.integers(1, 30)), min_size=1, max_size=5
).map(lambda pairs: sorted((begin, begin + length) for begin, length in pairs))
RUN_OPS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 150), st.integers(0, 25),
        st.sampled_from([1, 2, 3, 29]), st.integers(-1, 10),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("by", ["family", "op"])
def test_steps_that_workers_share_out_equal_those_of_sorted_ranges(
    monkeypatch, n_workers, n_threads, by
):
    rng = np.random.default_rng(n_threads)

    def run() -> Trace:
        edges = np.sort(rng.choice(9_000, 200, replace=False)).tolist()
        tokens = list(zip(edges[::2], edges[1::2], strict=True))
        ops = sorted(
            (thread, begin, length, op, -1)
            for thread in range(n_threads)
            for begin, length, op in zip(
                rng.integers(0, 9_500, 500).tolist(),
                rng.integers(0, 40, 500).tolist(),
                rng.choice([1, 2, 3, 29], 500).tolist(), strict=True,
            )
        )  # fmt: skip
        return run_trace(tokens, ops)

    a, b = run(), run()
    monkeypatch.setattr(scan, "n_workers", lambda: n_workers)
    monkeypatch.setattr(workers, "n_workers", lambda: n_workers)
    monkeypatch.setattr(scan, "BLOCK_ROWS", 16)
    monkeypatch.setattr(scan, "_CALL_ROWS", 32)
    compiled = steps([a], [b], by)
    monkeypatch.setattr(time_parts, "covered", lambda *_: None)

    ranges = steps([a], [b], by)

    assert (compiled.total, compiled.steps) == (ranges.total, ranges.steps)
    assert (compiled.has_untimed, compiled.hides_idle) == (
        ranges.has_untimed, ranges.hides_idle,
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(TOKENS, RUN_OPS, RUN_OPS)
def test_steps_equal_a_count_tick_by_tick_and_add_up(tokens, ops_a, ops_b):
    traces = [run_trace(tokens, ops) for ops in (ops_a, ops_b)]
    n = len(tokens)

    result = steps(traces[:1], traces[1:])

    for side, ops in (("a", ops_a), ("b", ops_b)):
        slow = slow_families(tokens, ops)
        mine = {step.key: getattr(step, side)[0] * n for step in result.steps}
        for key in mine.keys() | {key for key, ticks in slow.items() if ticks}:
            assert mine[key] == slow.get(key, 0), key
    assert result.total is not None
    assert sum(step.change for step in result.steps) == result.total.change
    assert result.total.mean_a == Fraction(len(ticks_of(tokens)), n)


@settings(max_examples=30, deadline=None)
@given(TOKENS, RUN_OPS, RUN_OPS)
def test_parts_of_threads_equal_a_count_tick_by_tick(tokens, ops_a, ops_b):
    sides = (ops_a, ops_b)
    slow = [slow_threads(tokens, ops) for ops in sides]
    if any(IDLE_OR_WAIT in one for one in slow):
        slow = [
            {WORK: one[WORK], IDLE_OR_WAIT: sum(one.values()) - one[WORK]}
            for one in slow
        ]
    n_threads = [len({op[0] for op in ops}) for ops in sides]

    result = steps(*([run_trace(tokens, ops)] for ops in sides), "part")

    assert result.total is not None
    for i, side in enumerate("ab"):
        mine = {step.key: getattr(step, side)[0] for step in result.steps}
        for key, ticks in slow[i].items():
            value = Fraction(ticks, n_threads[i] * len(tokens))
            assert mine.get(key, 0) == value, key
    assert sum(step.change for step in result.steps) == result.total.change


@pytest.mark.parametrize("by", STEPS_BY)
@pytest.mark.parametrize("make", [llama_like_trace, npu_like_trace])
def test_a_run_against_itself_has_no_step(make: Callable[[], Trace], by):
    trace = make()

    result = steps([trace], [trace], by)

    assert result.reason or result.steps
    assert all(step.change == 0 for step in result.steps)


@pytest.mark.parametrize("by", STEPS_BY)
@pytest.mark.parametrize("tokens", TOKENS_OF)
def test_twice_the_times_double_each_step(by, tokens):
    trace = llama_like_trace()
    traces = [trace, slowed(trace, 2)]

    result = waterfall(traces, align(traces), 1, by, tokens)

    assert result.total is not None
    assert all(step.b[0] == 2 * step.a[0] for step in (*result.steps, result.total))


def test_the_mean_of_several_runs_adds_up():
    one = llama_like_trace()
    many = [slowed(one, n) for n in (1, 2, 4)]

    result = steps([one], many)

    assert result.total is not None
    assert result.total.mean_b == result.total.mean_a * Fraction(7, 3)
    assert sum(step.change for step in result.steps) == result.total.change


def test_steps_whose_runs_overlap_are_noise():
    one = llama_like_trace()
    a, b = ([slowed(one, n) for n in side] for side in ((2, 4), (3, 5)))

    assert all(step.is_noise for step in steps(a, b).steps)
    assert not any(step.is_noise for step in steps([a[0], b[0]], [b[1], b[1]]).steps)
    assert {step.is_noise for step in steps(a[:1], b).steps} == {None}


def test_many_steps_are_joined_into_one():
    n = MAX_STEPS + 10
    begin = np.arange(n) * 10
    a = spans_trace(begin, begin + 2, op=np.arange(n))
    b = spans_trace(begin, begin + 2 + np.arange(n) % 7, op=np.arange(n))

    result = steps([a], [b], "op")

    assert len(result.steps) == MAX_STEPS
    assert result.steps[-1].n_joined > 1
    assert result.total is not None
    assert sum(step.change for step in result.steps) == result.total.change
    assert result.noun == "run"


def test_ops_without_a_known_time_are_reported_to_hide_in_no_op():
    a = spans_trace([0, 100], [10, 150], op=[1, 2])
    b = spans_trace([0, 100], [10, 150], op=[1, 2], flags=[0, int(SpanFlag.ESTIMATED)])

    assert not steps([a], [a]).has_untimed
    assert steps([a], [b]).has_untimed


def test_prompt_tokens_that_a_side_lacks_are_a_reason():
    tokens = [(0, 10)]
    trace = run_trace(tokens, [(0, 0, 5, 1, -1)])
    traces = [trace, trace]

    result = waterfall(traces, align(traces), 1, "family", "prompt")

    assert result.total is None
    assert result.reason


# -- histograms --------------------------------------------------------------------


@pytest.mark.parametrize("is_log", [False, True])
@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=50))
def test_bins_hold_each_duration_once(is_log, ticks):
    durations = np.array(ticks, np.int64)
    edges = bin_edges(durations, 20, is_log=is_log)

    counts = count_in_bins(durations, edges)

    slow = [0] * 20
    for value in ticks:
        bins = [i for i in range(20) if value >= edges[i]]
        slow[bins[-1] if bins else 0] += 1
    assert counts.tolist() == slow
    assert all(low < high for low, high in pairwise(edges.tolist()))


def test_both_sides_share_their_bins():
    a, trace = llama_like_trace(), slowed(llama_like_trace(), 2)
    traces = [a, trace, trace]
    key = a.op_name(1)
    own = [
        int(a.spans.end[i] - a.spans.start[i])
        for i in range(len(a.spans))
        if a.spans.op[i] == 1
    ]

    histogram = duration_histogram(traces, align(traces), 1, "op", [key] * 3)

    assert (histogram.a.n, histogram.b.n) == (len(own), 2 * len(own))
    assert histogram.a.counts.sum() == histogram.b.counts.sum() == len(own)
    assert (histogram.edges[0], histogram.edges[-1]) == (min(own), 2 * max(own))
    assert histogram.a.median == float(np.median(own))


def test_only_compared_tokens_count():
    a, b = llama_like_trace(tokens=4), llama_like_trace(tokens=2)
    key = a.op_name(1)

    histogram = duration_histogram([a, b], align([a, b]), 1, "op", [key, key])

    assert histogram.a.n == histogram.b.n


def test_spans_without_a_known_time_are_not_binned():
    a = spans_trace([0, 100], [10, 150], op=[1, 1])
    spans = replace(a.spans, flags=np.array([0, int(SpanFlag.UNFINISHED)], np.uint16))
    b = replace(a, spans=spans)

    histogram = duration_histogram([a, b], align([a, b]), 1, "op", [a.op_name(1)] * 2)

    assert (histogram.b.n, histogram.b.timed) == (2, 1)
    assert histogram.b.counts.sum() == 1
