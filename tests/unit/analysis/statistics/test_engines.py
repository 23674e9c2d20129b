"""Engines are busy while any of their spans runs, and idle for the rest."""

import numpy as np
import pytest

from builders import make_info, spans_trace
from ggscope.analysis.statistics.engines import engine_times
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind, OpTable
from ggscope.readers.registry import open_trace
from hostile import SAMPLES


@pytest.mark.parametrize("seed", range(6))
def test_busy_and_idle_are_those_of_a_count_of_ticks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    builder, covered = TraceBuilder(), np.zeros((3, 200), bool)
    lanes = [
        builder.add_lane("TE 0", LaneKind.ENGINE),
        builder.add_lane("thread 0", LaneKind.THREAD),
        builder.add_lane("DMA 0", LaneKind.ENGINE),
    ]
    lane, begin = rng.integers(0, 3, 40), rng.integers(0, 150, 40)
    end = begin + rng.integers(0, 50, 40)
    for where, low, high in zip(lane, begin, end, strict=True):
        covered[where, low:high] = True
    builder.add_spans(
        start=begin, end=end, lane=np.array(lanes, np.int32)[lane],
        name=np.full(40, -1, np.int32), op=np.full(40, -1, np.int16),
    )  # fmt: skip
    trace = builder.snapshot(make_info())

    times = engine_times(trace)

    assert times is not None
    engines = [0, 2]
    assert times.lane.tolist() == [lanes[i] for i in engines]
    assert times.busy.tolist() == covered[engines].sum(axis=1).tolist()
    assert times.count.tolist() == [int((lane == i).sum()) for i in engines]
    assert (times.busy + times.idle).tolist() == [trace.extent.duration] * 2


def test_engines_of_a_simulator_are_all_there() -> None:
    trace = open_trace(SAMPLES / "npu-prefill-decode.json")

    times = engine_times(trace)

    assert times is not None
    assert {trace.lanes.names[i] for i in times.lane} == {
        "DMA 0", "TE 0", "TE 1", "VE 0", "VE 1",
    }  # fmt: skip


def test_trace_without_engines_has_none() -> None:
    times = engine_times(spans_trace([0], [1]))

    assert times is not None
    assert len(times.lane) == 0


def test_engines_of_more_spans_than_are_sorted_are_not_known() -> None:
    trace = open_trace(SAMPLES / "npu-prefill-decode.json")

    assert engine_times(trace, limit=576) is not None
    assert engine_times(trace, limit=575) is None


def test_annotations_on_a_stream_do_not_make_it_busy() -> None:
    builder = TraceBuilder()
    builder.ops = OpTable("t", ("gemm",), "spelled")
    lane = builder.add_lane("stream 7", LaneKind.ENGINE)
    category = builder.strings.intern_many(["kernel", "gpu_user_annotation"])
    builder.add_spans(
        start=np.array([0, 10]), end=np.array([100, 30]),
        lane=np.full(2, lane, np.int32), name=np.full(2, -1, np.int32),
        op=np.array([-1, 0], np.int16), category=category[[1, 0]].astype(np.int32),
    )  # fmt: skip

    times = engine_times(builder.snapshot(make_info()))

    assert times is not None
    assert times.busy.tolist() == [20]
    assert times.count.tolist() == [1]
