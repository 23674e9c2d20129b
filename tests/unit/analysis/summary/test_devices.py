"""Times of devices against a walk over every tick."""

import json
from typing import Any

import numpy as np
import pytest

from builders import finished
from ggscope.analysis.summary.devices import (
    device_times,
    launching_call,
    launching_calls,
)
from ggscope.cli import main
from ggscope.descriptions.spans import span_facts
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Flows
from ggscope.model.trace import LaneKind, OpTable, Trace

_WORDS = ("cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset")
_OP, _CALL, _KERNEL, _COPY, _FILL = range(5)


def random_trace(seed: int, n: int = 60) -> tuple[Trace, list[dict[str, Any]]]:
    """Return a trace of launches on two streams, and each launch as it was made."""
    rng = np.random.default_rng(seed)
    builder = TraceBuilder()
    builder.ops = OpTable("t", ("op", "call", "kernel", "copy", "fill"), "spelled")
    builder.add_lane("main", LaneKind.THREAD, ("host",))
    for i in range(2):
        builder.add_lane(f"stream {i}", LaneKind.ENGINE, ("GPU 0",))
    codes = builder.strings.intern_many(_WORDS)
    rows: list[tuple[int, int, int, int]] = []  # lane, start, end, category
    made: list[dict[str, Any]] = []
    now, free = 0, [0, 0]
    for _ in range(n):
        now += int(rng.integers(0, 30))
        last = int(rng.integers(1, 6))
        rows.append((0, now - 1, now + last + 1, _OP))
        rows.append((0, now, now + last, _CALL))
        stream = int(rng.integers(2))
        start = max(free[stream], now + int(rng.integers(0, 12)))
        end = start + int(rng.integers(0, 40))
        what = int(rng.choice([_KERNEL, _KERNEL, _COPY, _FILL]))
        has_call = bool(rng.random() < 0.8)
        made.append(
            {"stream": stream, "start": start, "end": end, "what": what,
             "call": now if has_call else None, "row": len(rows)}
        )  # fmt: skip
        rows.append((1 + stream, start, end, what))
        free[stream], now = end, now + last + 2
    lane, start, end, category = np.array(rows, np.int64).T
    builder.add_spans(
        start=start, end=end, lane=lane.astype(np.int32), op=category.astype(np.int16),
        category=codes[category].astype(np.int32),
    )  # fmt: skip
    target = np.array([m["row"] for m in made if m["call"] is not None], np.int64)
    builder.flows = Flows(target - 1, target)
    return finished(builder), made


def ticks_of(made: list[dict[str, Any]], *kinds: int) -> set[int]:
    return {
        tick for m in made if m["what"] in kinds for tick in range(m["start"], m["end"])
    }


@pytest.mark.parametrize("seed", range(12))
def test_every_tick_of_streams_is_busy_or_idle_for_one_reason(seed):
    trace, made = random_trace(seed)

    (device,) = device_times(trace)

    kernels, copies = ticks_of(made, _KERNEL), ticks_of(made, _COPY)
    assert device.kernels == len(kernels)
    assert device.copies == len(copies)
    assert device.overlap == len(kernels & copies)
    assert device.busy == len(ticks_of(made, _KERNEL, _COPY, _FILL))
    assert device.n_kernels == sum(m["what"] == _KERNEL for m in made)
    for stream in device.streams:
        mine = [m for m in made if f"stream {m['stream']}" == stream.name]
        mine.sort(key=lambda m: (m["start"], m["end"]))
        result = dict.fromkeys(("host", "launch", "other", "unknown"), 0)
        reached = mine[0]["end"]
        for m in mine[1:]:
            for tick in range(reached, m["start"]):
                if m["call"] is None:
                    result["other"] += 1
                    result["unknown"] += 1
                elif m["call"] < reached:
                    result["other"] += 1
                else:
                    result["host" if tick < m["call"] else "launch"] += 1
            reached = max(reached, m["end"])
        assert result == {word: getattr(stream, word) for word in result}
        assert stream.idle == stream.host + stream.launch + stream.other
        assert stream.busy == len(
            {t for m in mine for t in range(m["start"], m["end"])}
        )
    delays = [
        m["start"] - m["call"]
        for m in made
        if m["what"] == _KERNEL and m["call"] is not None
    ]
    assert device.launch_delay == np.median(delays)


@pytest.mark.parametrize("seed", range(4))
def test_kernels_lead_to_the_call_that_launched_them(seed):
    trace, made = random_trace(seed)
    ids = np.array([m["row"] for m in made])

    calls = launching_calls(trace, ids)

    for m, call in zip(made, calls.tolist(), strict=True):
        assert call == (m["row"] - 1 if m["call"] is not None else -1)
        assert launching_call(trace, m["row"]) == call
        if call >= 0:
            facts = {fact.label: fact.value for fact in span_facts(trace, m["row"])}
            assert facts["launched by"] == "call"


def test_traces_without_devices_have_none(tmp_path, capsys):
    import chrome_files

    path = tmp_path / "x.json"
    path.write_bytes(chrome_files.sample())

    assert main(["summary", str(path), "--json"]) == 0

    printed = json.loads(capsys.readouterr().out)
    printed = printed[0] if isinstance(printed, list) else printed
    assert "devices" in printed
