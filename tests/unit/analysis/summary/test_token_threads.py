"""Times of threads within tokens, and how even ops are, against plain loops."""

import numpy as np
import pytest

from builders import llama_like_trace, npu_like_trace, spans_trace
from ggscope.analysis.summary.barriers import shared_ops
from ggscope.analysis.summary.op_imbalance import op_imbalance
from ggscope.analysis.summary.threads import lane_times, thread_times
from ggscope.analysis.summary.token_threads import NO_TIMES, token_threads
from ggscope.descriptions.threads import imbalance_reason
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from wait_traces import gaps_behind, plain_ops, threads_trace, with_waits


def waiting_trace(tokens: int = 6) -> Trace:
    """Return tokens of a run whose threads wait for half of each gap."""
    trace = llama_like_trace(tokens=tokens, layers=3)
    return with_waits(trace, gaps_behind(trace) // 2)


@pytest.mark.parametrize(
    ("trace", "time"),
    [
        (waiting_trace(), None),
        (waiting_trace(), TimeRange(0, waiting_trace().extent.end // 2)),
        (npu_like_trace(), None),
    ],
)
def test_times_within_tokens_are_those_of_each_range(
    trace: Trace, time: TimeRange | None
) -> None:
    threads = token_threads(trace, time)

    for row in range(len(threads)):
        token = threads.bars.time(row)
        assert time is None or (time.start <= token.start and token.end <= time.end)
        times = {lane.name: lane for lane in lane_times(trace, token)}
        assert threads.busy is not None
        for column, name in enumerate(threads.lanes):
            lane = times[name]
            assert threads.busy[row, column] == (lane.busy or 0)
            if threads.wait is not None:
                assert threads.wait[row, column] == (lane.wait or 0)
            if threads.idle is not None:
                assert threads.idle[row, column] == lane.idle
    assert len(threads) > 0
    assert threads.busy is not None
    assert threads.busy.any()


def test_ops_that_overlap_count_once_and_those_without_an_end_not() -> None:
    start, end = [0, 0, 10, 50, 70], [100, 40, 60, 55, 90]
    flags = np.array([0, 0, 0, 0, int(SpanFlag.UNFINISHED)])
    trace = spans_trace(start, end, 0, op=[-1, 1, 1, 1, 1], flags=flags)

    threads = token_threads(trace)

    assert threads.bars.noun == "graph pass"
    assert threads.busy is not None
    assert threads.busy.tolist() == [[60]]
    assert threads.idle is not None
    assert threads.idle.tolist() == [[40]]
    assert threads.wait is None


@pytest.mark.parametrize("flag", [SpanFlag.UNFINISHED, SpanFlag.ESTIMATED])
def test_work_without_a_known_time_is_unknown_and_not_zero(flag: SpanFlag) -> None:
    start, end = [0, 0, 10, 50], [100, 40, 60, 55]
    flags = np.array([0, *[int(flag)] * 3])
    trace = spans_trace(start, end, [0, 0, 0, 1], op=[-1, 1, 1, 1], flags=flags)
    one_known = spans_trace(
        start, end, [0, 0, 0, 1], op=[-1, 1, 1, 1], flags=flags * [1, 0, 0, 1]
    )

    for threads in (token_threads(trace), token_threads(one_known)):
        assert len(threads) == 1
        assert threads.busy is threads.wait is threads.idle is None
        assert threads.hidden_work == threads.hidden_idle == NO_TIMES
    times = thread_times(trace)
    assert all(lane.busy is None for lane in times.lanes)
    assert NO_TIMES in imbalance_reason(times).lower()


def test_only_the_slowest_tokens_are_listed_in_the_order_of_time() -> None:
    trace = waiting_trace(12)
    everything = token_threads(trace)

    threads = token_threads(trace, limit=4)

    order = np.argsort(-everything.bars.duration, kind="stable")[:4]
    assert threads.bars.span.tolist() == everything.bars.span[np.sort(order)].tolist()


def test_times_far_from_zero_do_not_overflow() -> None:
    near, shift = waiting_trace(), 1 << 61
    s = near.spans
    far = spans_trace(
        s.start + shift, s.end + shift, s.lane, op=s.op, wait=s.wait, flags=s.flags
    )
    plain = spans_trace(s.start, s.end, s.lane, op=s.op, wait=s.wait, flags=s.flags)

    threads, expected = token_threads(far), token_threads(plain)

    assert threads.busy is not None
    assert expected.busy is not None
    assert threads.busy.tolist() == expected.busy.tolist()
    assert threads.wait is not None
    assert expected.wait is not None
    assert threads.wait.tolist() == expected.wait.tolist()


@pytest.mark.parametrize("in_step", [True, False])
def test_imbalance_of_ops_is_that_of_a_plain_loop(in_step: bool) -> None:
    trace = threads_trace(3, 80, 3, in_step=in_step)
    ops = shared_ops(trace)
    assert ops is not None

    values = {one.name: one for one in op_imbalance(trace, ops)}

    expected: dict[str, list[tuple[int, ...]]] = {}
    for span, row in plain_ops(trace).items():
        expected.setdefault(trace.op_name(int(trace.spans.op[span])), []).append(row)
    assert set(values) == set(expected)
    for name, rows in expected.items():
        one = values[name]
        ratios = [one / (work / n) for n, _, _, _, _, one, work, *_ in rows]
        mean = sum(row[6] / row[0] for row in rows)
        total = sum(row[5] for row in rows)
        assert (one.n, one.longest_time) == (len(rows), total)
        assert one.mean == pytest.approx(mean)
        assert one.ratio == pytest.approx(total / mean)
        assert one.worst_ratio == pytest.approx(max(ratios))
        worst = {
            row[4] for row, r in zip(rows, ratios, strict=True) if r == max(ratios)
        }
        assert one.worst in worst
    lost = [one.lost for one in op_imbalance(trace, ops)]
    assert lost == sorted(lost, reverse=True)


def test_imbalance_of_ops_needs_measured_times() -> None:
    even = threads_trace(1, 20, 2, in_step=True)
    derived = spans_trace(
        [0, 10, 0, 10], [10, 20, 10, 20], [0, 0, 1, 1], op=[1, 2, 1, 2], name=-1,
        flags=np.array([0, 0, 1, 1]) * int(SpanFlag.REPEATED)
        | int(SpanFlag.INFERRED_END),
    )  # fmt: skip

    assert thread_times(even).by_op
    assert thread_times(derived).by_op is None
