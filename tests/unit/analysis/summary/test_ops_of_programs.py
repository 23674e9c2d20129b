"""Ops of programs: time within nested calls counts once, ranges around work never."""

import numpy as np
import pytest

from builders import finished
from ggscope.analysis.summary.bottleneck import Cause, DeviceUse, Evidence, cause_of
from ggscope.analysis.summary.summary import summary
from ggscope.descriptions.summary import bottleneck_name, bottleneck_text
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Flows
from ggscope.model.trace import LaneKind, OpTable, Trace

_NAMES = ("a", "b", "c", "range")


def nested(seed: int) -> tuple[Trace, dict[str, int]]:
    """Return a trace of calls within calls, and how long each is the innermost."""
    rng = np.random.default_rng(seed)
    builder = TraceBuilder()
    builder.ops = OpTable("t", _NAMES, "spelled")
    for i in range(2):
        builder.add_lane(f"thread {i}", LaneKind.THREAD)
    builder.add_lane("NVTX", LaneKind.COMMAND)
    word = builder.strings.intern_many(["call"])[0]
    rows, inner = [], np.full((2, 400), -1)

    def add(lane: int, low: int, high: int, depth: int) -> None:
        op = int(rng.integers(3))
        rows.append((lane, low, high, op))
        inner[lane, low:high] = op
        at = low
        while depth and at + 2 < high:
            begin = int(rng.integers(at, high - 1))
            end = int(rng.integers(begin + 1, high + 1))
            add(lane, begin, end, depth - 1)
            at = end

    for lane in range(2):
        for low in range(0, 400, 100):
            add(lane, low, low + int(rng.integers(20, 100)), 3)
    rows.append((2, 0, 400, 3))
    lane, start, end, op = np.array(rows, np.int64).T
    builder.add_spans(
        start=start, end=end, lane=lane.astype(np.int32), op=op.astype(np.int16),
        category=np.full(len(rows), word, np.int32),
    )  # fmt: skip
    expected = {_NAMES[i]: int((inner == i).sum()) for i in range(3)}
    return finished(builder), expected


@pytest.mark.parametrize("seed", range(8))
def test_ops_of_programs_count_by_self_time(seed: int) -> None:
    trace, expected = nested(seed)

    ops = summary(trace).ops

    whole = sum(expected.values())
    shares = {row.key: row.share for row in ops.rows}
    assert {row.key: row.self_time for row in ops.rows} == {
        name: ticks for name, ticks in expected.items() if name in shares
    }
    assert shares == pytest.approx({name: expected[name] / whole for name in shares})
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


@pytest.mark.parametrize(
    ("busy", "host", "cause"),
    [
        (0.9, 0.9, Cause.DEVICE),
        (0.9, None, Cause.DEVICE),
        (0.2, 0.8, Cause.HOST),
        (0.2, 0.1, Cause.OP),
        (0.2, None, Cause.OP),
    ],
)
def test_devices_limit_a_run_by_work_or_by_waiting(busy, host, cause) -> None:
    device = DeviceUse("GPU 0", busy, host)

    assert cause_of(Evidence(device=device, op=("a", 0.9))) is cause


def test_a_device_that_waits_for_launches_is_reported() -> None:
    builder = TraceBuilder()
    builder.ops = OpTable("t", ("call", "kernel"), "spelled")
    builder.add_lane("thread", LaneKind.THREAD)
    builder.add_lane("stream 7", LaneKind.ENGINE, ("GPU 0",))
    codes = builder.strings.intern_many(["cuda_runtime", "kernel"])
    kind = np.array([0, 0, 0, 1, 1, 1])
    start = np.array([0, 90, 190, 10, 100, 200])
    builder.add_spans(
        start=start, end=start + 5, lane=kind.astype(np.int32),
        op=kind.astype(np.int16), category=codes[kind].astype(np.int32),
    )  # fmt: skip
    builder.flows = Flows(np.array([0, 1, 2]), np.array([3, 4, 5]))

    facts = summary(finished(builder))

    assert facts.evidence.device == DeviceUse(
        "GPU 0", 15 / 195, 160 / 180, ("kernel", 1.0)
    )
    assert facts.cause is Cause.HOST
    assert bottleneck_name(facts) == Cause.HOST.value
    assert "GPU 0" in bottleneck_text(facts)


def test_a_busy_device_is_named_once() -> None:
    builder = TraceBuilder()
    builder.ops = OpTable("t", ("call", "kernel"), "spelled")
    builder.add_lane("thread", LaneKind.THREAD)
    builder.add_lane("stream 7", LaneKind.ENGINE, ("GPU 0",))
    codes = builder.strings.intern_many(["cuda_runtime", "kernel"])
    kind = np.array([0, 0, 1, 1])
    start = np.array([0, 90, 10, 100])
    builder.add_spans(
        start=start, end=start + 5 + 80 * kind, lane=kind.astype(np.int32),
        op=kind.astype(np.int16), category=codes[kind].astype(np.int32),
    )  # fmt: skip

    facts = summary(finished(builder))

    assert facts.cause is Cause.DEVICE
    assert bottleneck_name(facts) == "GPU 0"
    assert bottleneck_text(facts).startswith("GPU 0 is busy")
    assert bottleneck_text(facts, under_name=True).startswith("Busy")
