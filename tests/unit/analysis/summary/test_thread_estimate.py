"""What one thread more or fewer would do, against plain loops and planted costs."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from statistics import median

import numpy as np
import numpy.typing as npt
import pytest

from ggscope.analysis.reads.shared import op_owners
from ggscope.analysis.summary.barriers import CoreSharing
from ggscope.analysis.summary.summary import summary
from ggscope.analysis.summary.thread_estimate import (
    NoEstimate,
    Reason,
    ThreadEstimate,
)
from ggscope.analysis.summary.threads import thread_times
from ggscope.exporters.summary_json import summary_json
from ggscope.model.tables import Phase, SpanFlag
from ggscope.model.trace import Trace
from wait_traces import BARRIER_OPS, barrier_trace, left_out

I64 = npt.NDArray[np.int64]
N_OPS, N_PASSES = BARRIER_OPS, 20


def planted(
    seed: int, n_threads: int, *, late: int = 0, delays: float = 0.0
) -> tuple[I64, I64]:
    """Return begins and ends of ops that a machine of known costs computes.

    An op computes for some ticks that threads share, reads for others that no thread
    makes shorter, and for a part only its first thread computes.

    Parameters
    ----------
    late : ticks by which the last thread begins later than the first.
    delays : share of ops one of whose threads is held up.
    """
    rng = np.random.default_rng(seed)
    computing = rng.integers(100_000, 900_000, N_OPS)
    reading = rng.integers(10_000, 400_000, N_OPS)
    alone = np.where(rng.random(N_OPS) < 0.3, rng.integers(0, 200_000, N_OPS), 0)
    ticks = np.tile(np.maximum(computing // n_threads, reading), (n_threads, N_PASSES))
    ticks[0] += np.tile(alone, N_PASSES)
    held = np.random.default_rng(seed + 1).random(ticks.shape[1]) < delays
    ticks[-1, held] += 300_000
    begin = np.linspace(0, late, n_threads).astype(np.int64)[:, None]
    length = (begin + ticks).max(axis=0) + 500
    first = np.cumsum(length) - length
    start = first + begin
    return start, start + ticks


def elapsed(times: tuple[I64, I64]) -> int:
    start, end = times
    return int((end.max(axis=0) - start.min(axis=0)).sum())


def estimate_of(trace: Trace) -> ThreadEstimate:
    estimate = thread_times(trace).estimate
    assert isinstance(estimate, ThreadEstimate), estimate
    return estimate


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_threads", [2, 3, 4, 7])
@pytest.mark.parametrize(("late", "delays"), [(0, 0.0), (9_000, 0.0), (9_000, 0.1)])
def test_truth_of_planted_costs_lies_within_the_limits(
    seed: int, n_threads: int, late: int, delays: float
) -> None:
    now = planted(seed, n_threads, late=late, delays=delays)

    estimate = estimate_of(barrier_trace(*now))

    assert estimate.elapsed == elapsed(now)
    for one, n in ((estimate.fewer, n_threads - 1), (estimate.more, n_threads + 1)):
        assert one.n_threads == n
        spread = late * (n - 1) // (n_threads - 1)
        for other_delays in {0.0, delays}:
            if other_delays and n == 1:  # its one thread is the one that is held up
                continue
            truth = elapsed(planted(seed, n, late=spread, delays=other_delays))
            ratio = truth / estimate.elapsed
            assert one.low - 1e-4 <= ratio <= one.high + 1e-4


def test_limits_are_tight_where_one_cause_sets_the_pace() -> None:
    """Even shares of computing: two threads instead of three take half as much more."""
    shape = (3, N_OPS * N_PASSES)
    start = np.tile(np.arange(shape[1]) * 1000, (3, 1))

    even = estimate_of(barrier_trace(start, start + 600))
    alone = np.zeros(shape, np.int64)
    alone[0] = 600
    single = estimate_of(barrier_trace(start, start + alone))

    assert (even.fewer.low, even.fewer.high) == pytest.approx((1, 1.5))
    assert (even.more.low, even.more.high) == pytest.approx((0.75, 1))
    assert (single.fewer.low, single.fewer.high) == pytest.approx((1, 1))
    assert (single.more.low, single.more.high) == pytest.approx((1, 1))


def plain_estimate(trace: Trace, n: int) -> tuple[Fraction, ...]:
    """Return the limits for one thread fewer and more by loops over spans."""
    s, owner = trace.spans, op_owners(trace)
    assert owner is not None
    ops: dict[int, list[int]] = defaultdict(list)
    for i in range(len(s)):
        if owner[i] >= 0:
            ops[int(owner[i])].append(i)
    whole = [ids for ids in ops.values() if len(ids) == n]
    generated = [ids for ids in whole if s.phase[min(ids)] == Phase.GENERATE]
    taken = generated or whole
    ticks, alike = [], defaultdict(list)
    work = longest = 0
    for ids in taken:
        each = [int(s.end[i]) - int(s.start[i]) for i in ids]
        whole_op = max(int(s.end[i]) for i in ids) - min(int(s.start[i]) for i in ids)
        ticks.append((int(s.name[ids[0]]), whole_op))
        alike[int(s.name[ids[0]])].append(whole_op)
        work, longest = work + sum(each), longest + max(each)
    now = sum(t for _, t in ticks)
    limit = {k: Fraction(median(v)) if len(v) >= 5 else None for k, v in alike.items()}
    usual = sum(
        Fraction(t) if (max_ticks := limit[k]) is None else min(t, max_ticks)
        for k, t in ticks
    )
    late, delays = now - longest, now - usual

    def shared(m: int) -> Fraction:
        e = (Fraction(longest, work) - Fraction(1, n)) / (1 - Fraction(1, n))
        return work * (e + (1 - e) / m)

    low = (max(longest - delays, 0), max(late + shared(n + 1) - delays, 0))
    high = (late + shared(n - 1), now + Fraction(late, n))
    return tuple(Fraction(x) / now for x in (low[0], high[0], low[1], high[1]))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("n_threads", [2, 3, 5])
def test_limits_are_those_of_plain_loops(seed: int, n_threads: int) -> None:
    rng = np.random.default_rng(seed)
    n = N_OPS * N_PASSES + int(rng.integers(0, N_OPS))
    start = np.arange(n) * 1000 + rng.integers(0, 50, (n_threads, n))
    end = start + rng.integers(300, 700, (n_threads, n))
    phase = rng.choice([int(Phase.PROMPT), int(Phase.GENERATE)], n)
    trace = barrier_trace(start, end, phase=phase)

    e = estimate_of(trace)

    limits = (e.fewer.low, e.fewer.high, e.more.low, e.more.high)
    assert limits == pytest.approx([float(x) for x in plain_estimate(trace, n_threads)])


def without_cores(trace: Trace) -> Trace:
    return replace(trace, spans=replace(trace.spans, core=None))


def without_waits(trace: Trace) -> Trace:
    return replace(trace, spans=replace(trace.spans, wait=None))


def on_one_core(trace: Trace) -> Trace:
    core = np.zeros(len(trace.spans), np.int16)
    return replace(trace, spans=replace(trace.spans, core=core))


def taking_turns(trace: Trace) -> Trace:
    """Return it with both threads on one core at a time, now on this, now on that."""
    core = (np.arange(len(trace.spans)) // N_OPS % 2).astype(np.int16)
    return replace(trace, spans=replace(trace.spans, core=core))


def without_threads(trace: Trace) -> Trace:
    return left_out(trace, threads=["0", "1"])


def with_derived_ends(trace: Trace) -> Trace:
    flags = trace.spans.flags | int(SpanFlag.INFERRED_END)
    return replace(trace, spans=replace(trace.spans, flags=flags))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_cores, Reason.NO_CORES),
        (without_waits, Reason.NO_WAITS),
        (on_one_core, Reason.SHARED_CORES),
        (without_threads, Reason.THREADS_LEFT_OUT),
        (with_derived_ends, Reason.DERIVED_TIMES),
    ],
)
def test_without_evidence_there_is_no_estimate(
    change: Callable[[Trace], Trace], reason: Reason
) -> None:
    trace = barrier_trace(*planted(1, 2))
    assert isinstance(thread_times(trace).estimate, ThreadEstimate)

    changed = change(trace)

    assert thread_times(changed).estimate == NoEstimate(reason)
    data = summary_json(changed, summary(changed))
    assert data["thread_estimate"] is None
    assert data["unknown"]["thread_estimate"]


def test_threads_that_move_together_share_a_core() -> None:
    trace = taking_turns(barrier_trace(*planted(1, 2)))

    times = thread_times(trace)

    assert times.n_cores == 2
    assert times.sharing == CoreSharing(1.0, 1.0)
    assert times.estimate == NoEstimate(Reason.SHARED_CORES, 1.0)


@pytest.mark.parametrize(("every", "has_estimate"), [(50, True), (3, False)])
def test_few_ops_on_one_core_leave_an_estimate(every: int, has_estimate: bool) -> None:
    trace = barrier_trace(*planted(1, 2))
    core = trace.spans.lane.astype(np.int16)
    core[: len(core) // 2 : every] = 1
    trace = replace(trace, spans=replace(trace.spans, core=core))

    times = thread_times(trace)

    assert times.sharing is not None
    assert (times.sharing.share < 0.1) is has_estimate
    assert isinstance(times.estimate, ThreadEstimate) is has_estimate


def test_too_few_ops_alike_are_no_evidence() -> None:
    start, end = planted(3, 2)
    n = 2 * N_OPS

    estimate = thread_times(barrier_trace(start[:, :n], end[:, :n])).estimate

    assert estimate == NoEstimate(Reason.FEW_ALIKE)


def test_delays_widen_the_limits_until_they_are_no_evidence() -> None:
    smooth = estimate_of(barrier_trace(*planted(3, 2)))
    some = estimate_of(barrier_trace(*planted(3, 2, delays=0.1)))
    start, end = planted(3, 2)
    ticks = end - start
    ticks[-1, ::5] += 30_000_000
    start = np.tile(np.cumsum(ticks.max(axis=0)) - ticks.max(axis=0), (2, 1))

    result = thread_times(barrier_trace(start, start + ticks)).estimate

    assert smooth.beyond < 0.01 < some.beyond
    assert some.fewer.low < smooth.fewer.low
    assert isinstance(result, NoEstimate)
    assert result.reason is Reason.DELAYS
    assert result.share > 0.5


def test_json_of_a_summary_has_the_estimate() -> None:
    trace = barrier_trace(*planted(5, 4))
    e = estimate_of(trace)

    data = summary_json(trace, summary(trace))

    estimate = data["thread_estimate"]
    assert (estimate["threads"], estimate["ops"]) == (4, e.n_ops)
    assert estimate["one_fewer"] == {
        "threads": 3, "time_low": e.fewer.low, "time_high": e.fewer.high,
    }  # fmt: skip
    assert estimate["one_more"]["threads"] == 5
    assert "thread_estimate" not in data["unknown"]
