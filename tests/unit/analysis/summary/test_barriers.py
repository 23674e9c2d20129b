"""Ops that threads compute together, against plain loops; and the cause of a wait."""

from dataclasses import replace

import numpy as np
import pytest

from builders import spans_trace
from ggscope.analysis.links import linked
from ggscope.analysis.reads.shared import lanes_in_step, op_owners
from ggscope.analysis.summary.barriers import (
    SharedOps,
    barrier_of,
    barriers,
    shared_ops,
)
from ggscope.analysis.summary.pauses import pause_context
from ggscope.analysis.summary.threads import thread_times
from ggscope.analysis.summary.token_threads import token_threads
from ggscope.descriptions.selected import COUNTING
from ggscope.descriptions.threads import barriers_reason, imbalance_reason
from ggscope.descriptions.waits import (
    gap_doubt,
    gap_facts,
    gap_text,
    wait_facts,
    wait_text,
)
from ggscope.model.selection import Gap, Selection
from ggscope.model.tables import SpanFlag
from ggscope.model.units import NOT_AVAILABLE, TimeRange, format_duration
from wait_traces import left_out, plain_ops, random_waits, recorded_wait, threads_trace

REPEATED = int(SpanFlag.REPEATED)


def rows_of(ops: SharedOps) -> dict[int, tuple[int, ...]]:
    columns = (
        ops.n_threads, ops.begin, ops.last, ops.end, ops.longest, ops.longest_time,
        ops.work, ops.waited, ops.n_cores,
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return dict(zip(ops.span.tolist(), rows, strict=True))


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("in_step", [True, False])
def test_shared_ops_are_those_of_a_plain_loop(threads: int, in_step: bool) -> None:
    trace = threads_trace(threads, 60, threads, in_step=in_step)
    core = np.random.default_rng(threads).integers(-1, 9, len(trace.spans))
    on_cores = replace(trace, spans=replace(trace.spans, core=core.astype(np.int16)))

    for each in (trace, on_cores):
        ops = shared_ops(each)

        assert ops is not None
        assert bool(lanes_in_step(each)) is in_step
        assert rows_of(ops) == plain_ops(each)
        assert len(ops) > 30
        sharing, shared, known, cores = ops.sharing(), 0, 0, 0
        for n, begin, _, end, *_, n_cores in plain_ops(each).values():
            known += (end - begin) * (n_cores > 0)
            shared += (end - begin) * (0 < n_cores < n)
            cores += (end - begin) * n_cores
        if each is trace:
            assert sharing is None
        else:
            assert sharing is not None
            assert sharing.share == pytest.approx(shared / known)
            assert sharing.at_once == pytest.approx(cores / known)


def test_ops_of_one_thread_are_not_shared() -> None:
    ops = shared_ops(spans_trace([0, 20], [10, 30], op=1))

    assert ops is not None
    assert len(ops) == 0


@pytest.mark.parametrize("in_step", [True, False])
def test_the_last_at_a_barrier_is_that_of_the_shared_ops(in_step: bool) -> None:
    trace = threads_trace(7, 40, 3, in_step=in_step)
    ops, owner, known = shared_ops(trace), op_owners(trace), 0
    assert ops is not None
    assert owner is not None
    rows = {int(op): i for i, op in enumerate(ops.span)}

    for span in range(len(trace.spans)):
        barrier = barrier_of(trace, span)
        if barrier is None:
            continue
        row = rows[int(owner[span])]
        known += 1
        assert barrier.last == ops.last[row]
        assert len(barrier.spans) == ops.n_threads[row]
        ends = trace.spans.end[barrier.spans]
        assert (np.diff(ends) >= 0).all()
    assert known > 30


def test_a_wait_has_a_cause_where_the_other_threads_are_known() -> None:
    late = spans_trace(
        [0, 100, 0, 100], [50, 150, 90, 180], [0, 0, 1, 1], op=[1, 2, 1, 2], name=-1,
        flags=[0, 0, REPEATED, REPEATED], wait=np.array([40, 30, 2, 0], np.uint32),
    )  # fmt: skip
    alone = spans_trace([0], [50], op=1, wait=np.array([4], np.uint32))

    assert "thread 1" in wait_text(late, 0)
    assert format_duration(40, "ns") in wait_text(late, 0).split("waited for")[1]
    assert "came last" in wait_text(late, 2)
    # Thread 0 waits from 50 to 90 for thread 1; behind op 2 from 150 to 180.
    assert "more after" not in wait_text(late, 0)
    slow = replace(late, spans=replace(late.spans, wait=late.spans.wait + 5))
    assert f"{format_duration(5, 'ns')} more after" in wait_text(slow, 0)
    facts = {f.label: f for f in wait_facts(slow, 0, None, absolute=False).facts}
    assert facts["after the last"].value == format_duration(5, "ns")
    assert facts["waited for"].value.startswith("thread 1")
    assert facts["after"].value == facts["meanwhile"].value == COUNTING
    assert barrier_of(alone, 0) is None
    assert len(wait_text(alone, 0).split("\n")) == 3
    assert linked(late, Selection("waits", (0,))).spans.tolist() == [0, 2]


@pytest.mark.parametrize("seed", range(3))
def test_what_runs_after_a_pause_is_that_of_a_plain_loop(seed: int) -> None:
    trace = random_waits(seed, 120, lanes=3, shuffled=seed > 0)
    s = trace.spans
    is_op = s.op >= 0

    for span in range(0, 120, 7):
        tick = int(s.end[span]) + max(int(recorded_wait(trace)[span]), 0)
        context = pause_context(trace, span, TimeRange(int(s.end[span]), tick))
        behind = [
            (int(s.start[i]), i)
            for i in range(120)
            if s.lane[i] == s.lane[span] and s.start[i] >= tick and i != span
            if not is_op[span] or is_op[i]
        ]
        assert context.after == (min(behind)[1] if behind else -1)
        assert len(context.others) == 2


def test_who_came_last_is_unknown_where_threads_are_left_out() -> None:
    trace = threads_trace(2, 20, 3, in_step=True)
    part = left_out(trace, threads=["0", "1", "2"])
    ops = shared_ops(part)
    assert ops is not None

    times = thread_times(part)

    assert barrier_of(trace, 0) is not None
    assert barrier_of(part, 0) is None
    assert barriers(part, None, ops) == (None, ())
    assert times.by_op is None
    assert "threads filtered" in barriers_reason(times)
    assert "threads filtered" in imbalance_reason(times)
    waits = wait_facts(part, 0, None, absolute=False).facts
    assert {f.label: f.value for f in waits}["waited for"] == NOT_AVAILABLE


@pytest.mark.parametrize(
    ("settings", "knows_work"),
    [({"sample_every": 3}, True), ({"ops": ["MUL_MAT"]}, False)],
)
def test_partial_recordings_leave_open_what_they_hide(
    settings: dict[str, object], knows_work: bool
) -> None:
    whole = threads_trace(4, 20, 2, in_step=True)
    part = left_out(whole, **settings)
    gap = Gap(TimeRange(30, 90), 0, 1)

    threads = token_threads(part)

    assert threads.idle is None
    assert threads.hidden_idle
    assert (threads.busy is not None) is knows_work
    assert (threads.wait is not None) is knows_work
    assert bool(threads.hidden_work) is not knows_work
    assert gap_doubt(part, gap)
    assert gap_text(part, gap).startswith("Nothing recorded")
    assert not gap_doubt(whole, gap)
    assert gap_text(whole, gap).startswith("Idle")
    notes = gap_facts(part, gap, None, absolute=False).facts
    assert [fact.caution for fact in notes if fact.label == "note"] == [True]


def test_a_gap_beside_a_span_without_an_end_may_be_no_idle_time() -> None:
    flags = [int(SpanFlag.UNFINISHED), 0]
    trace = spans_trace([0, 50], [10, 60], op=1, flags=flags)

    assert gap_doubt(trace, Gap(TimeRange(10, 50), 0, 1))
