"""Tensors that threads touch one shortly after the other, against a plain loop."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from builders import llama_like_trace, spans_trace
from ggscope.analysis.reads import thread_touches as module
from ggscope.analysis.reads.thread_touches import has_touches, thread_touches
from ggscope.descriptions.threads import touches_text
from ggscope.model.tables import AccessKind
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from link_traces import random_links_trace
from wait_traces import left_out


def threaded(seed: int) -> Trace:
    """Return a trace with accesses whose ops lie on three threads at random."""
    rng = np.random.default_rng(seed)
    trace = random_links_trace(seed)
    threads = np.flatnonzero(trace.lanes.is_thread)
    if len(threads) < 2:
        trace = llama_like_trace(tokens=4, layers=3, threads=3)
        threads = np.flatnonzero(trace.lanes.is_thread)
    lane = trace.spans.lane.copy()
    is_op = (trace.spans.op >= 0) & trace.lanes.is_thread[lane]
    lane[is_op] = rng.choice(threads, int(is_op.sum()))
    return replace(trace, spans=replace(trace.spans, lane=lane))


def plain(
    trace: Trace, window: int, time: TimeRange | None
) -> dict[int, tuple[int, ...]]:
    """Return touches, threads, handovers, writes and closest of each tensor."""
    s, a = trace.spans, trace.accesses
    touches: dict[int, list[tuple[int, int, int, bool]]] = {}
    for span in range(len(s)):
        if s.op[span] < 0 or not trace.lanes.is_thread[s.lane[span]]:
            continue
        if time is not None and not time.start <= s.start[span] < time.end:
            continue
        mine: dict[int, bool] = {}
        pattern = int(a.pattern[span]) if len(a.pattern) else -1
        rows = range(a.first[pattern], a.first[pattern + 1]) if pattern >= 0 else ()
        for row in rows:
            tensor = int(a.patterns.tensor[row])
            is_write = a.patterns.kind[row] == AccessKind.WRITE
            mine[tensor] = mine.get(tensor, False) or bool(is_write)
        if s.tensor is not None:
            mine[int(s.tensor[span])] = True
        for tensor, is_write in mine.items():
            if tensor >= 0:
                touch = (int(s.start[span]), span, int(s.lane[span]), is_write)
                touches.setdefault(tensor, []).append(touch)
    values = {}
    for tensor, ones in touches.items():
        ones.sort()
        near = [
            (b[0] - a[0], a[3] or b[3])
            for a, b in pairwise(ones)
            if a[2] != b[2] and b[0] - a[0] <= window
        ]
        if near:
            values[tensor] = (
                len(ones), len({one[2] for one in ones}), len(near),
                sum(write for _, write in near), min(away for away, _ in near),
            )  # fmt: skip
    return values


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("window", [0, 2_000, 1 << 40])
@pytest.mark.parametrize("is_part", [True, False])
def test_handovers_are_those_of_a_plain_loop(
    seed: int, window: int, is_part: bool
) -> None:
    trace = threaded(seed)
    end = trace.extent.end
    time = TimeRange(end // 4, end // 2) if is_part else None

    result = thread_touches(trace, window, time)

    assert result is not None
    columns = (
        result.touches, result.threads, result.handovers, result.writes, result.closest
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    assert dict(zip(result.tensor.tolist(), rows, strict=True)) == plain(
        trace, window, time
    )
    assert (np.diff(result.handovers) <= 0).all()
    start, lane = trace.spans.start, trace.spans.lane
    assert (
        start[result.second] - start[result.first]
    ).tolist() == result.closest.tolist()
    assert (lane[result.second] != lane[result.first]).all()
    if window > 1 << 30 and not is_part:
        assert len(result) > 5


def test_one_thread_hands_nothing_over_and_too_much_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = llama_like_trace(tokens=2, layers=2, threads=1)
    result = thread_touches(alone, 1 << 40)
    assert result is not None
    assert len(result) == 0
    assert result.n_tensors > 0

    monkeypatch.setattr(module, "MAX_TOUCHES", 10)
    assert thread_touches(alone, 1 << 40) is None


def test_traces_without_tensors_have_no_touches() -> None:
    trace = spans_trace([0, 5], [3, 9], [0, 1], op=1)

    assert not has_touches(replace(trace, spans=replace(trace.spans, tensor=None)))


def test_touches_may_be_more_where_the_recording_leaves_something_out() -> None:
    whole = threaded(1)
    result = thread_touches(whole, 1000)
    assert result is not None
    assert not result.hidden

    for settings in ({"sample_every": 3}, {"threads": ["0"]}, {"ops": ["ADD"]}):
        part = thread_touches(left_out(whole, **settings), 1000)
        assert part is not None
        assert part.hidden
        assert touches_text(part, 1000, "ns").startswith("at least")
