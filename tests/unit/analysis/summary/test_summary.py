"""The summary of runs, each figure against a plain loop."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest

from builders import (
    empty_trace,
    llama_like_trace,
    npu_like_trace,
    random_trace,
    spans_trace,
    token_trace,
)
from ggscope.analysis.summary import gaps as gaps_module
from ggscope.analysis.summary.barriers import CoreSharing, barriers, shared_ops
from ggscope.analysis.summary.bars import GRAPH_PASS, bar_text, token_bars
from ggscope.analysis.summary.bottleneck import (
    Cause,
    Evidence,
    SlowBars,
    cause_of,
)
from ggscope.analysis.summary.gaps import gaps
from ggscope.analysis.summary.summary import UNKNOWN_FIELDS, summary
from ggscope.analysis.summary.threads import thread_times
from ggscope.analysis.summary.weight_traffic import weight_traffic
from ggscope.descriptions.summary import bottleneck_name
from ggscope.model.tables import (
    NO_WAIT,
    AccessKind,
    Phase,
    Quality,
    SpanFlag,
    freeze,
)
from ggscope.model.trace import LaneKind, ReadWarning, Severity, Trace
from ggscope.model.units import TimeRange
from oracles import run_times
from wait_traces import barrier_trace, random_waits

TRACES = {
    "llama": llama_like_trace(),
    "llama of 3 threads": llama_like_trace(6, 3, 3),
    "npu": npu_like_trace(),
    "random": random_trace(3, 400, 3, shuffled=True),
    "waits": random_waits(4, 600, lanes=3),
    "shuffled waits": random_waits(5, 500, lanes=2, shuffled=True),
    "empty": empty_trace(),
}


@pytest.fixture(params=list(TRACES))
def trace(request) -> Trace:
    return TRACES[request.param]


def test_bars_are_the_spans_of_tokens_or_graphs(trace):
    bars = token_bars(trace)

    rows = zip(bars.start.tolist(), bars.end.tolist(), bars.span.tolist(), strict=True)
    assert sorted(rows) == run_times.bars(trace)
    assert (np.diff(bars.start) >= 0).all()


def test_graphs_are_bars_where_there_are_no_tokens():
    trace = spans_trace([0, 2, 20], [10, 5, 30], op=[-1, 1, -1])

    bars = token_bars(trace)

    assert (bars.noun, bars.span.tolist()) == (GRAPH_PASS, [0, 2])
    assert bar_text(trace, bars, 1) == "graph pass 1"


def test_busy_time_and_waits_are_those_of_a_plain_loop(trace):
    result = thread_times(trace)

    if result.kind is not LaneKind.THREAD:
        assert not run_times.busy_and_wait(trace)
        return
    expected = run_times.busy_and_wait(trace)
    by_name = {lane.name: lane for lane in result.lanes}
    assert len(by_name) == len(expected)
    for lane, (busy, wait) in expected.items():
        times = by_name[trace.lanes[lane].name]
        assert (times.busy, times.wait) == (busy, wait)
        assert times.idle == max(result.duration - busy - (wait or 0), 0)


def test_imbalance_is_the_busiest_over_the_mean():
    trace = spans_trace([0, 0, 0], [30, 10, 20], [0, 1, 2], op=1)

    assert thread_times(trace).imbalance == pytest.approx(0.5)
    assert thread_times(spans_trace([0], [30], op=1)).imbalance is None


def test_imbalance_of_derived_times_is_unknown():
    trace = spans_trace(
        [0, 0], [30, 10], [0, 1], op=1, flags=int(SpanFlag.INFERRED_END)
    )

    result = summary(trace)

    assert result.threads.imbalance is None
    assert "imbalance" in result.unknown


def test_times_of_a_range_are_those_of_its_parts():
    trace = spans_trace([0, 40, 80], [20, 60, 100], op=1)

    times = thread_times(trace, TimeRange(30, 90))

    assert times.duration == 60
    assert times.lanes[0].busy == 20 + 10


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["llama", "waits", "shuffled waits"])
def test_busy_time_and_waits_of_a_range_are_those_of_a_plain_loop(name, seed):
    trace = TRACES[name]
    rng = np.random.default_rng(seed)
    low, high = sorted(rng.integers(trace.extent.start, trace.extent.end, 2).tolist())

    times = thread_times(trace, TimeRange(low, high + 1))

    s = trace.spans
    assert len(times.lanes) == len(run_times.busy_and_wait(trace))
    for lane in times.lanes:
        number = list(trace.lanes.names).index(lane.name)
        ids = [i for i in range(len(s)) if s.lane[i] == number and s.op[i] >= 0]
        runs = [(max(int(s.start[i]), low), min(int(s.end[i]), high + 1)) for i in ids]
        assert (lane.busy or 0) == run_times.union([r for r in runs if r[0] < r[1]])
        if s.wait is None:
            continue
        waits = [(int(s.end[i]), int(s.end[i]) + int(s.wait[i])) for i in ids
                 if s.wait[i] != NO_WAIT]  # fmt: skip
        cut = [min(b, high + 1) - max(a, low) for a, b in waits]
        assert (lane.wait or 0) == sum(part for part in cut if part > 0)


def test_a_thread_that_does_nothing_in_a_range_is_idle():
    trace = spans_trace([0, 0, 60], [100, 20, 80], [0, 1, 1], op=1)

    result = thread_times(trace, TimeRange(30, 50))

    times = [(lane.busy, lane.wait, lane.idle) for lane in result.lanes]
    assert times == [(20, None, 0), (0, None, 20)]
    assert result.imbalance == pytest.approx(1)


def test_an_estimated_op_in_a_range_is_no_idle_time():
    trace = spans_trace([0, 50], [20, 80], op=1, flags=[0, int(SpanFlag.ESTIMATED)])

    (lane,) = thread_times(trace, TimeRange(40, 90)).lanes

    assert (lane.busy, lane.idle) == (None, None)


def test_gaps_are_those_of_a_plain_loop(trace):
    result = gaps(trace, limit=None)

    rows = zip(
        result.lane.tolist(), result.start.tolist(), result.end.tolist(), strict=True
    )
    expected = run_times.gaps(trace)
    assert sorted(rows) == sorted(expected)
    length = (result.end - result.start).tolist()
    assert length == sorted(length, reverse=True)
    assert (result.n_all, result.total) == (len(expected), sum(length))


@pytest.mark.parametrize("seed", range(4))
def test_gaps_of_a_range_are_cut_by_it(trace, seed):
    rng = np.random.default_rng(seed)
    low, high = sorted(rng.integers(0, max(trace.extent.end, 1) + 1, 2).tolist())
    time = TimeRange(low, high + 1)

    result = gaps(trace, time, limit=None)

    rows = zip(
        result.lane.tolist(), result.start.tolist(), result.end.tolist(), strict=True
    )
    assert sorted(rows) == sorted(run_times.clipped_gaps(trace, time))
    assert sum(result.end - result.start) == result.total
    assert len(result) == result.n_all


@pytest.mark.parametrize("limit", [0, 6, 10_000])
@pytest.mark.parametrize("rows", [1, 50])
@pytest.mark.parametrize("is_cut", [False, True])
def test_the_longest_of_many_parts_are_the_longest_of_all(
    trace, limit, rows, is_cut, monkeypatch
):
    monkeypatch.setattr(gaps_module, "PART_ROWS", rows)
    extent = trace.extent
    time = TimeRange(extent.start + extent.duration // 3, extent.end)
    expected = run_times.clipped_gaps(trace, time if is_cut else extent)
    expected.sort(key=lambda gap: (gap[1] - gap[2], gap[1], gap[0]))

    result = gaps(trace, time if is_cut else None, limit=limit)

    columns = result.lane.tolist(), result.start.tolist(), result.end.tolist()
    assert list(zip(*columns, strict=True)) == expected[:limit]
    assert result.n_all == len(expected)
    assert result.total == sum(end - start for _, start, end in expected)
    s = trace.spans
    for spans in (result.before, result.after):
        assert s.lane[spans].tolist() == result.lane.tolist()
    assert (s.end[result.before] <= result.start).all()
    assert (s.start[result.after] >= result.end).all()


@pytest.mark.parametrize("lanes", [1, 3])
def test_of_equally_long_gaps_the_earliest_are_listed(lanes, monkeypatch):
    monkeypatch.setattr(gaps_module, "PART_ROWS", 8)
    n = 100
    start = np.concatenate([np.arange(n) * 10 + lane for lane in range(lanes)])
    trace = spans_trace(start, start + 5, np.repeat(np.arange(lanes), n), op=1)
    expected = run_times.gaps(trace)
    expected.sort(key=lambda gap: (gap[1] - gap[2], gap[1], gap[0]))

    result = gaps(trace, limit=20)

    columns = result.lane.tolist(), result.start.tolist(), result.end.tolist()
    assert list(zip(*columns, strict=True)) == expected[:20]
    assert result.n_all == lanes * (n - 1)


@pytest.mark.parametrize("seed", range(4))
def test_gaps_and_both_ends_are_all_the_idle_time(seed):
    trace = random_waits(seed, 300, lanes=3)
    flags = np.zeros_like(trace.spans.flags)
    trace = replace(trace, spans=replace(trace.spans, flags=flags))
    s, result = trace.spans, gaps(trace, limit=None)

    times = thread_times(trace)
    for number, lane in enumerate(times.lanes):
        on = (s.lane == number) & (s.op >= 0)
        wait = np.where(s.wait[on] == NO_WAIT, 0, s.wait[on])
        before = int(s.start[on].min()) - trace.extent.start
        behind = trace.extent.end - int((s.end[on] + wait).max())
        between = (result.end - result.start)[result.lane == number]
        assert lane.idle == before + int(between.sum()) + behind


def test_idle_time_within_a_graph_is_a_gap():
    trace = spans_trace([0, 0, 60], [100, 40, 100], op=[-1, 1, 2])

    result = gaps(trace)

    assert list(zip(result.start, result.end, strict=True)) == [(40, 60)]
    assert (result.before.tolist(), result.after.tolist()) == ([1], [2])
    assert thread_times(trace).lanes[0].idle == 20


def test_spans_that_hide_gaps_are_counted():
    derived, open_end = int(SpanFlag.INFERRED_END), int(SpanFlag.UNFINISHED)
    trace = spans_trace(
        [0, 10, 50, 90], [10, 50, 80, 99], op=1, flags=[derived, derived, 0, open_end]
    )

    result, part = gaps(trace), gaps(trace, TimeRange(20, 60))

    assert (result.n_spans, result.n_derived, result.n_open) == (4, 2, 1)
    assert (part.n_spans, part.n_derived, part.n_open) == (2, 1, 0)


def in_step(seed: int, n: int, threads: int) -> tuple[Trace, list[list[int]]]:
    """Return a trace whose threads compute the same ops, and the spans of each op."""
    rng = np.random.default_rng(seed)
    shape = (threads, n)
    start = np.arange(n) * 100 + rng.integers(0, 10, shape)
    end = np.arange(n) * 100 + 20 + rng.integers(0, 10, shape)
    wait = rng.integers(0, 30, shape).astype(np.uint32)
    wait[rng.random(shape) < 0.1] = NO_WAIT
    repeated = np.full(shape, int(SpanFlag.REPEATED))
    repeated[0] = 0
    trace = spans_trace(
        start.ravel(),
        end.ravel(),
        np.repeat(np.arange(threads), n),
        op=np.tile(np.arange(n) % 5 + 1, threads),
        name=-1,
        flags=repeated.ravel(),
        wait=wait.ravel(),
    )
    return trace, [[lane * n + i for lane in range(threads)] for i in range(n)]


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize("time", [None, TimeRange(300, 1777), TimeRange(5000, 6000)])
def test_who_comes_last_is_that_of_a_plain_loop(threads, time):
    trace, ops = in_step(threads, 40, threads)

    times = thread_times(trace, time)

    n, last = run_times.last_at_barriers(ops, trace, time)
    assert times.n_barriers == n
    for lane, title in enumerate(trace.lanes.names):
        one = times.waited_for(title)
        assert one is not None
        assert (one.n_last, one.waited) == last.get(lane, (0, 0))
        by_op: dict[str, int] = {}
        for lane_of_op, op, waited in run_times.waited_by_op(ops, trace, time):
            if lane_of_op == lane:
                by_op[op] = by_op.get(op, 0) + waited
        if not sum(by_op.values()):
            assert one.op is None
            continue
        assert one.op is not None
        longest = max(by_op.values())
        assert by_op[one.op[0]] == longest
        assert one.op[1] == pytest.approx(longest / one.waited)


def test_barriers_are_unknown_without_waits_and_none_with_one_thread():
    without = thread_times(spans_trace([0, 0], [30, 10], [0, 1], op=1))
    alone = thread_times(spans_trace([0], [30], op=1, wait=np.array([4], np.uint32)))

    assert without.n_barriers is None
    assert without.waited_for("thread 0") is None
    assert alone.n_barriers == 0
    assert alone.waited_for("thread 0") is not None


def test_the_longest_gaps_know_what_is_around_them():
    trace = spans_trace([0, 30, 50, 100], [20, 40, 90, 110], op=1)

    result = gaps(trace, limit=2)

    assert result.before.tolist() == [0, 1]
    assert result.after.tolist() == [1, 2]
    assert result.n_all == 3
    assert gaps(trace, TimeRange(25, 95)).total == 5 + 10 + 5


@pytest.mark.parametrize(("begin", "end"), [(50, 60), (20, 20), (20, 30)])
def test_a_span_without_an_end_borders_no_gap(begin, end):
    trace = spans_trace(
        [0, begin, 90], [20, end, 99], op=1, flags=[0, int(SpanFlag.UNFINISHED), 0]
    )

    assert not len(gaps(trace))
    assert not run_times.gaps(trace)


@pytest.mark.parametrize("shift", [0, 1 << 61])
def test_gaps_are_found_however_large_times_are(shift):
    trace = spans_trace(
        [0, 20 + shift, 50 + shift, 5, 40 + shift],
        [20, 30 + shift, 55 + shift, 10, 47 + shift],
        [0, 0, 0, 1, 1],
        op=1,
        flags=[0, int(SpanFlag.UNFINISHED), 0, 0, 0],
    )

    result = gaps(trace)

    rows = zip(
        result.lane.tolist(), result.start.tolist(), result.end.tolist(), strict=True
    )
    assert sorted(rows) == sorted(run_times.gaps(trace)) == [(1, 10, 40 + shift)]
    assert (result.before.tolist(), result.after.tolist()) == ([3], [4])


def test_the_last_at_barriers_is_waited_for():
    # Three ops of two threads: thread 1 is late twice, thread 0 once.
    repeated = int(SpanFlag.REPEATED)
    trace = spans_trace(
        [0, 100, 200, 0, 100, 200],
        [50, 150, 290, 90, 180, 230],
        [0, 0, 0, 1, 1, 1],
        op=[1, 2, 3, 1, 2, 3],
        name=-1,
        flags=[0, 0, 0, repeated, repeated, repeated],
        wait=np.array([40, 30, 1, 2, 3, 60], np.uint32),
    )

    ops = shared_ops(trace)
    assert ops is not None
    n, last = barriers(trace, None, ops)

    assert n == 3
    assert [(one.name, one.n_last, one.waited) for one in last] == [
        ("thread 1", 2, 70),
        ("thread 0", 1, 60),
    ]


def test_tokens_are_counted_by_phase_and_timed_by_their_own_spans():
    trace = llama_like_trace(tokens=5)

    tokens = summary(trace).tokens
    bars = run_times.bars(trace)

    generated = [end - start for start, end, i in bars if trace.spans.phase[i] == 1]
    assert tokens.generated == len(generated) == 4
    assert tokens.prompt is None
    assert tokens.median == float(np.median(generated))
    covered = run_times.union([(a, b) for a, b, i in bars if trace.spans.phase[i] == 1])
    assert tokens.generated_per_tick == pytest.approx(4 / covered)
    assert tokens.first_token == bars[0][1] - bars[0][0]
    assert tokens.slowest is not None
    assert tokens.bars.duration[tokens.slowest] == max(generated)


def test_the_slowest_token_is_that_of_the_longest_span_not_of_the_most_work():
    trace = token_trace([(0, 100, 90), (100, 200, 95), (200, 900, 10), (900, 1000, 99)])

    tokens = summary(trace).tokens

    assert tokens.slowest is not None
    assert tokens.bars.key[tokens.slowest] == 2
    assert tokens.outliers == (2,)


def test_time_between_tokens_is_a_share_of_the_whole():
    trace = token_trace([(0, 100, 50), (300, 400, 50)])

    result = summary(trace)

    assert result.tokens.between == 0.5
    assert result.cause is Cause.BETWEEN_TOKENS


def test_weights_are_counted_once_per_op():
    trace = llama_like_trace(tokens=3)
    bars = token_bars(trace)

    traffic = weight_traffic(trace, bars)

    a, s = trace.accesses, trace.spans
    expected = 0
    seen = set()
    for i in range(len(s)):
        if s.phase[i] != Phase.GENERATE or s.op[i] < 0:
            continue
        if s.flags[i] & int(SpanFlag.REPEATED):
            continue
        pattern = int(a.pattern[i])
        if pattern < 0:
            continue
        seen.add(i)
        for row in range(int(a.first[pattern]), int(a.first[pattern + 1])):
            is_read = a.patterns.kind[row] == AccessKind.READ
            tensor = int(a.patterns.tensor[row])
            if is_read and tensor >= 0 and trace.tensors.offset[tensor] >= 0:
                expected += int(a.patterns.size[row])
    assert traffic is not None
    assert (traffic.bytes, traffic.n_tokens) == (expected, 2)
    assert traffic.bytes > 0
    assert traffic.per_token == expected / 2


def test_all_that_is_none_has_a_reason(trace):
    result = summary(trace)

    values = {
        "tokens.prompt": result.tokens.prompt,
        "tokens.generated": result.tokens.generated,
        "tokens.prompt_per_s": result.tokens.prompt_per_tick,
        "tokens.generated_per_s": result.tokens.generated_per_tick,
        "tokens.first_token_ms": result.tokens.first_token,
        "tokens.median_ms": result.tokens.median,
        "tokens.slowest": result.tokens.slowest,
        "ops": result.ops.all.timed or None,
        "threads": result.threads.lanes or None,
        "imbalance": result.threads.imbalance,
        "weights.bytes_per_token": result.weights and result.weights.per_token,
        "weights.gib_per_s": result.weights and result.weights.rate,
        "weights.peak_gib_per_s": result.peak,
        "never_touched_bytes": result.never_touched,
        "bottleneck": result.cause,
    }
    assert set(values) == set(UNKNOWN_FIELDS)
    assert {name for name, value in values.items() if value is None} == set(
        result.unknown
    )
    assert all(result.unknown.values())


def test_ops_have_the_times_of_the_statistics():
    trace = llama_like_trace()
    s = trace.spans

    ops = summary(trace).ops

    for row in ops.rows:
        ids = [i for i in range(len(s)) if trace.op_name(int(s.op[i])) == row.key]
        assert row.total == sum(int(s.end[i] - s.start[i]) for i in ids)
    assert math.isclose(sum(row.share for row in ops.rows), 1)


def on_cores(share: float, waiting: float) -> Evidence:
    """Return what is known of two threads that share a core for a part of the time."""
    sharing = CoreSharing(share, 2 - share)
    return Evidence(waiting=waiting, n_threads=2, n_cores=2, sharing=sharing)


@pytest.mark.parametrize(
    ("evidence", "cause"),
    [
        (Evidence(), None),
        (Evidence(between=0.6, waiting=0.9), Cause.BETWEEN_TOKENS),
        (Evidence(waiting=0.4, n_threads=4, n_cores=2), Cause.SHARED_CORES),
        (Evidence(waiting=0.4, n_threads=4, n_cores=4), Cause.WAITING),
        (on_cores(0.5, waiting=0.4), Cause.SHARED_CORES),
        (on_cores(0.1, waiting=0.4), Cause.WAITING),
        (on_cores(0.5, waiting=0.1), None),
        (Evidence(waiting=0.4, n_threads=4), Cause.WAITING),
        (Evidence(waiting=0.4, slow=SlowBars(1, 30, 0.5)), Cause.SLOW_TOKENS),
        (Evidence(waiting=0.4, slow=SlowBars(1, 30, 0.2)), Cause.WAITING),
        (Evidence(waiting=0.4, slow=SlowBars(9, 30, 0.5)), Cause.WAITING),
        (
            Evidence(waiting=0.4, n_threads=2, n_cores=1, slow=SlowBars(1, 30, 0.5)),
            Cause.SHARED_CORES,
        ),
        (Evidence(waiting=0.1, idle=0.7), Cause.IDLE_THREADS),
        (Evidence(of_peak=0.8, op=("MUL_MAT", 0.9)), Cause.BANDWIDTH),
        (Evidence(engine=("TE 0", 0.8), op=("A", 0.9)), Cause.ENGINE),
        (Evidence(engine=("TE 0", 0.2), op=("A", 0.9)), Cause.SPREAD),
        (Evidence(op=("MUL_MAT", 0.9)), Cause.OP),
        (Evidence(op=("MUL_MAT", 0.2)), Cause.SPREAD),
        (Evidence(passes=SlowBars(1, 30, 0.5)), Cause.SLOW_PASSES),
        (Evidence(passes=SlowBars(1, 30, 0.5), op=("A", 0.9)), Cause.OP),
        (Evidence(passes=SlowBars(9, 30, 0.5)), None),
    ],
)
def test_the_first_cause_with_evidence_is_named(evidence, cause):
    assert cause_of(evidence) is cause


def test_slow_tokens_are_those_beyond_twice_the_median(trace):
    slow = summary(trace).evidence.slow

    bars = token_bars(trace)
    timed = [i for i in range(len(bars)) if bars.quality[i] <= Quality.DERIVED]
    durations = sorted(
        int(bars.end[i] - bars.start[i])
        for i in timed
        if bars.phase[i] == Phase.GENERATE
    )
    if bars.noun == GRAPH_PASS or not sum(durations):
        assert slow is None
        return
    assert slow is not None
    median = statistics.median(durations)
    long = [duration for duration in durations if duration > 2 * median]
    assert (slow.n, slow.of) == (len(long), len(durations))
    excess = sum(duration - median for duration in long)
    assert slow.excess == pytest.approx(excess / sum(durations))


def losing(trace: Trace, code: str) -> Trace:
    """Return a trace with a problem that says what its recording leaves out."""
    lost = ReadWarning(Severity.DATA_LOSS, code, "records are missing")
    return replace(trace, warnings=(*trace.warnings, lost))


def test_time_without_a_record_is_not_idle_where_records_are_lost():
    whole = token_trace([(0, 100, 50), (300, 400, 50)])
    trace = losing(whole, "capture_lost")

    result, idle = summary(trace), gaps(trace)

    assert summary(whole).cause is Cause.BETWEEN_TOKENS
    assert result.cause is not Cause.BETWEEN_TOKENS
    assert (result.tokens.between, result.evidence.idle) == (None, None)
    assert [lane.idle for lane in result.threads.lanes] == [None]
    assert {"threads.idle", "tokens.generated"} <= set(result.unknown)
    assert idle.hidden
    assert not gaps(whole).hidden


def test_tokens_of_a_cut_file_are_not_all_but_gaps_within_it_are_known():
    trace = losing(llama_like_trace(tokens=5), "truncated_record")

    result = summary(trace)

    assert (result.tokens.prompt, result.tokens.generated) == (None, None)
    assert result.tokens.generated_per_tick is not None
    assert result.tokens.between is not None
    assert all(lane.idle is not None for lane in result.threads.lanes)


def test_a_late_thread_is_named():
    repeated = int(SpanFlag.REPEATED)
    n = 50
    begin = np.arange(n) * 100
    trace = spans_trace(
        np.concatenate([begin, begin]),
        np.concatenate([begin + 20, begin + 90]),
        np.repeat([0, 1], n),
        op=1,
        name=-1,
        flags=np.repeat([0, repeated], n),
        wait=np.repeat(np.array([70, 0], np.uint32), n),
    )

    result = summary(trace)

    assert result.cause is Cause.WAITING
    assert result.evidence.waited_for == ("thread 1", 1.0)
    assert result.evidence.waited_op == (trace.op_name(1), 1.0)


def test_prompts_that_are_not_recorded_are_unknown_and_not_zero():
    """A table of generated tokens alone: what is generated follows a prompt."""
    trace = token_trace([(0, 10, 5), (10, 25, 5)])
    phase = np.full(len(trace.spans), Phase.GENERATE, np.int8)
    trace = replace(trace, spans=replace(trace.spans, phase=phase))

    result = summary(trace)

    assert (result.tokens.prompt, result.tokens.generated) == (None, 2)
    assert "tokens.prompt" in result.unknown


def delayed(trace: Trace, which: np.ndarray, ticks: int) -> Trace:
    """Return a trace in which some spans end later."""
    spans = replace(trace.spans, end=trace.spans.end + which * ticks)
    freeze(spans)
    return replace(trace, spans=spans)


@pytest.mark.parametrize("op", ["RMS_NORM", "ROPE", "ADD"])
def test_a_planted_delay_in_one_op_is_named(op):
    trace = llama_like_trace(tokens=8)
    is_op = np.array([n >= 0 and trace.op_name(n) == op for n in trace.spans.op])
    assert is_op.any()
    assert summary(trace).evidence.op[0] != op

    result = summary(delayed(trace, is_op, 100_000_000))

    assert result.evidence.op[0] == op
    assert bottleneck_name(result) == op


@pytest.mark.parametrize("token", [2, 5])
def test_a_planted_delay_in_one_token_is_named(token):
    trace = llama_like_trace(tokens=30)
    bars = token_bars(trace)
    which = np.zeros(len(trace.spans), np.bool_)
    which[bars.span[token]] = True
    assert summary(trace).cause is not Cause.SLOW_TOKENS

    result = summary(delayed(trace, which, int(bars.duration.sum())))

    assert result.cause is Cause.SLOW_TOKENS
    assert result.tokens.slowest == token
    assert result.tokens.outliers == (token,)


@pytest.mark.parametrize("late", [0, 2])
def test_a_planted_delay_in_one_thread_is_named(late):
    """The others wait for it, and the op that is late is named, too."""
    start = np.tile(np.arange(240, dtype=np.int64) * 2_000, (3, 1))
    even = barrier_trace(start, start + 500)
    end = start + 500
    end[late] += 1_000

    result = summary(barrier_trace(start, end))

    assert summary(even).cause is not Cause.WAITING
    assert result.cause is Cause.WAITING
    assert result.evidence.waited_for == (f"thread {late}", 1.0)
    assert result.evidence.waited_op is not None
    assert result.evidence.waited_op[0] == "MUL_MAT"
