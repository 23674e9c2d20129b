"""Cores of threads against a loop over the spans."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import builders
from ggscope.analysis.cores import CoreUse, core_use
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange


def with_cores(trace: Trace, core: np.ndarray) -> Trace:
    return replace(trace, spans=replace(trace.spans, core=core.astype(np.int16)))


def slowly(trace: Trace, time: TimeRange | None = None) -> dict[int, CoreUse]:
    """Return the same, one span after the other."""
    assert trace.spans.core is not None
    seen: dict[int, list[int]] = {}
    for span in sorted(range(len(trace.spans)), key=lambda i: trace.spans.start[i]):
        start = int(trace.spans.start[span])
        if time is not None and not time.start <= start < time.end:
            continue
        if trace.spans.core[span] >= 0:
            lane = int(trace.spans.lane[span])
            seen.setdefault(lane, []).append(int(trace.spans.core[span]))
    return {
        lane: CoreUse(
            tuple(sorted(set(cores))),
            sum(a != b for a, b in pairwise(cores)),
        )
        for lane, cores in seen.items()
    }


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("unknown", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [0, 1, 2, 500])
def test_cores_and_migrations_equal_a_loop(
    n: int, unknown: float, shuffled: bool
) -> None:
    rng = np.random.default_rng(n)
    trace = builders.random_trace(3, n, lanes=3, shuffled=shuffled)
    # No two spans of a lane begin at once: their order would be nobody's.
    start = trace.spans.start * 1000 + np.arange(n) % 1000
    core = np.where(rng.random(n) < unknown, -1, rng.integers(0, 3, n) * 5)
    trace = with_cores(replace(trace, spans=replace(trace.spans, start=start)), core)

    assert core_use(trace) == slowly(trace)
    third = int(trace.extent.end) * 1000 // 3
    time = TimeRange(third, 2 * third + 1)
    assert core_use(trace, time) == slowly(trace, time)


def test_pinned_threads_never_move() -> None:
    trace = builders.random_trace(1, 300, lanes=4)

    result = core_use(with_cores(trace, 7 - trace.spans.lane))

    assert result == {lane: CoreUse((7 - lane,), 0) for lane in range(4)}


def test_trace_without_cores_reports_none() -> None:
    assert core_use(builders.random_trace(1, 30)) == {}
