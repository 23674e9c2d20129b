"""Own times of calls and what lies between them add up to the time on the clock."""

import numpy as np
import pytest

from builders import make_info
from ggscope.analysis.statistics.calls import call_times
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind, Trace

NAMES = ("decode", "compute", "sample", "set inputs")


def calls_trace(calls: list[tuple[str, int, int]], *, copies: int = 0) -> Trace:
    """Return calls as (name, begin, end), and as many copies on a lane beside."""
    builder = TraceBuilder()
    host = builder.add_lane("calls of the program", LaneKind.COMMAND, ("Host",))
    other = builder.add_lane("copies", LaneKind.COMMAND, ("Backends",))
    for name, begin, end in [*calls, *[("copy", 0, 1000)] * copies]:
        builder.add_spans(
            start=np.array([begin], np.int64),
            end=np.array([end], np.int64),
            lane=np.array([other if name == "copy" else host], np.int32),
            name=np.array([builder.strings.intern(name)], np.int32),
            op=np.array([-1], np.int16),
        )
    return builder.snapshot(make_info())


def random_calls(seed: int) -> list[tuple[str, int, int]]:
    """Return decodes with calls within and behind each."""
    rng, calls, at = np.random.default_rng(seed), [], 0
    for _ in range(int(rng.integers(1, 9))):
        begin = at + int(rng.integers(0, 20))
        inner, gap, rest, sampled = (int(n) for n in rng.integers(0, 40, 4))
        end = begin + 5 + inner + rest
        calls += [("decode", begin, end), ("compute", begin + 5, begin + 5 + inner)]
        if rng.random() < 0.5:
            calls.append(("set inputs", begin + 1, begin + 4))
        at = end + gap
        calls.append(("sample", at, at + sampled))
        at += sampled
    return calls


@pytest.mark.parametrize("seed", range(12))
def test_own_times_are_those_of_the_innermost_call_at_each_tick(seed: int) -> None:
    calls = random_calls(seed)
    begins = [begin for name, begin, _ in calls if name == "decode"]
    stop = max(end for _, _, end in calls)
    # Tick by tick: the call that began last, of those that are open.
    owner = [
        max((c for c in calls if c[1] <= tick < c[2]), key=lambda c: c[1], default=None)
        for tick in range(stop)
    ]
    expected = [
        [sum(c is not None and c[0] == name for c in owner[low:high]) for name in NAMES]
        for low, high in zip(begins, [*begins[1:], stop], strict=True)
    ]

    times = call_times(calls_trace(calls, copies=2))

    assert times is not None
    assert times.per_decode is not None
    assert times.time == stop - begins[0]
    assert times.own.sum() + times.between == times.time
    column = {name: i for i, name in enumerate(times.names)}
    for name, item in zip(NAMES, np.transpose(expected), strict=True):
        if name in column:
            assert times.per_decode[:, column[name]].tolist() == item.tolist()
    turns = np.diff([*begins, stop])
    assert times.per_decode.sum(axis=1).tolist() == turns.tolist()


def test_calls_before_the_first_decode_are_of_none() -> None:
    times = call_times(calls_trace([("sample", 0, 5), ("decode", 10, 30)]))

    assert times is not None
    assert (times.time, times.between) == (30, 5)
    assert (times.names, times.own.tolist()) == (("decode", "sample"), [20, 5])
    assert times.per_decode is not None
    assert times.per_decode.tolist() == [[20, 0, 0]]


def test_decodes_at_once_have_no_times_of_their_own() -> None:
    times = call_times(calls_trace([("decode", 0, 20), ("decode", 10, 30)]))

    assert times is not None
    assert (times.time, times.own.tolist(), times.between) == (30, [30], 0)
    assert times.per_decode is None


def test_other_commands_are_no_calls() -> None:
    assert call_times(calls_trace([], copies=3)) is None
