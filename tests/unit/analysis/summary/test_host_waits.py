"""Calls in which the host waits for the GPU: which they are, and what they take."""

from collections.abc import Sequence

import numpy as np
import pytest

from builders import finished
from ggscope.analysis.statistics.table import stat_table
from ggscope.analysis.summary.bottleneck import Cause
from ggscope.analysis.summary.host_waits import (
    host_waits,
    host_waits_by_lane,
    is_host_wait,
)
from ggscope.analysis.summary.summary import summary
from ggscope.descriptions.summary import bottleneck_line
from ggscope.exporters.summary_json import summary_json
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import LaneKind, OpTable, Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from support import need_corpus


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("cuStreamSynchronize", True),
        ("cuCtxSynchronize", True),
        ("cuEventSynchronize", True),
        ("cudaDeviceSynchronize", True),
        ("hipDeviceSynchronize", True),
        ("cudaStreamSynchronize_v3020", True),
        ("cuMemcpyHtoD_v2", True),
        ("cuMemcpyDtoH_v2_ptds", True),
        ("cudaMemcpy", True),
        ("hipMemcpyWithStream", True),
        ("cudaMemcpyAsync", False),
        ("cuMemcpyHtoDAsync_v2", False),
        ("cuMemcpyDtoD_v2", False),
        ("cuLaunchKernel", False),
        ("cudaStreamSynchronizer", False),
        ("MUL_MAT", False),
        ("", False),
    ],
)
def test_calls_that_wait_are_known_by_name(name: str, waits: bool) -> None:
    assert is_host_wait(name) is waits


NAMES = ("cuStreamSynchronize", "cuLaunchKernel", "cuMemcpyDtoH_v2")


def calls(rows: Sequence[tuple[int, int, int, int]], flags: int = 0) -> Trace:
    """Return a trace of calls: thread, op, begin and end of each."""
    builder = TraceBuilder()
    builder.ops = OpTable("t", NAMES, "spelled")
    for thread in range(2):
        builder.add_lane(f"thread {thread}", LaneKind.THREAD)
    lane, op, start, end = np.array(rows, np.int64).T
    builder.add_spans(
        start=start, end=end, lane=lane.astype(np.int32), op=op.astype(np.int16),
        flags=np.full(len(rows), flags, np.uint16),
    )  # fmt: skip
    return finished(builder)


def test_the_share_of_waits_is_of_all_calls() -> None:
    trace = calls([(0, 0, 0, 60), (0, 1, 60, 70), (1, 2, 0, 20), (1, 1, 20, 30)])

    waits = host_waits(stat_table(trace, "op"))

    assert waits is not None
    assert waits.share == pytest.approx(80 / 100)
    assert waits.longest == (NAMES[0], pytest.approx(60 / 100))
    assert waits.n_names == 2
    assert dict(host_waits_by_lane(trace)) == {"thread 0": 60, "thread 1": 20}


@pytest.mark.parametrize("seed", range(8))
def test_waits_by_lane_equal_a_count_of_ticks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 80, 40)
    rows = list(
        zip(
            rng.integers(0, 2, 40).tolist(),
            rng.integers(0, 3, 40).tolist(),
            start.tolist(),
            (start + rng.integers(0, 30, 40)).tolist(),
            strict=True,
        )
    )
    expected: dict[str, set[int]] = {}
    for lane, op, begin, end in rows:
        if op != 1:
            expected.setdefault(f"thread {lane}", set()).update(range(begin, end))

    result = host_waits_by_lane(calls(rows))

    assert result == {name: len(ticks) for name, ticks in expected.items() if ticks}


def test_a_run_that_waits_for_the_gpu_says_so_and_what_is_not_recorded() -> None:
    trace = calls([(0, 0, 0, 60), (0, 1, 60, 70), (1, 2, 0, 20), (1, 1, 20, 30)])

    facts = summary(trace)

    assert facts.cause is Cause.HOST_WAITS
    line = bottleneck_line(facts)
    assert "80.0 %" in line
    assert "not recorded" in line
    threads = summary_json(trace, facts)["threads"]
    assert {lane["lane"]: lane["host_wait_ns"] for lane in threads} == {
        "thread 0": 60,
        "thread 1": 20,
    }


def test_launches_alone_are_no_wait() -> None:
    trace = calls([(0, 1, 0, 60), (1, 1, 5, 30)])

    facts = summary(trace)

    assert facts.evidence.host_waits is None
    assert facts.cause is Cause.OP
    assert not host_waits_by_lane(trace)
    assert summary_json(trace, facts)["threads"][0]["host_wait_ns"] is None


def test_waits_of_estimated_times_count_in_no_share() -> None:
    trace = calls([(0, 0, 0, 60), (1, 1, 5, 30)], int(SpanFlag.ESTIMATED))

    assert host_waits(stat_table(trace, "op")) is None
    assert not host_waits_by_lane(trace)


def test_a_call_log_of_the_corpus_waits_for_the_gpu() -> None:
    path = need_corpus() / "cuda" / "generic_hook_threads.jsonl"

    facts = summary(open_bundle(survey((path,))))

    assert facts.cause is Cause.HOST_WAITS
    assert facts.evidence.host_waits is not None
    assert facts.evidence.host_waits.longest[0] == "cuStreamSynchronize"
