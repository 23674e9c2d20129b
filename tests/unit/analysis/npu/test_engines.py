"""Working, stalled and idle time of engines against a count of every tick."""

import json
from pathlib import Path

import numpy as np
import pytest

from ggscope.analysis.npu.engines import (
    concurrency,
    engines_of,
    moved_bytes,
    stall_reasons,
)
from ggscope.model.trace import Trace
from npu_files import access, document, engine, read_text, stall


def trace_of(folder: Path, *events: object, **values: object) -> Trace:
    """Return the trace of some events."""
    return read_text(folder, json.dumps(document(*events, **values)))


def random_events(seed: int, n: int = 60) -> list[dict[str, object]]:
    """Return engine events and stalls of a few engines."""
    chance = np.random.default_rng(seed)
    events = []
    for _ in range(n):
        start, length = int(chance.integers(0, 200)), int(chance.integers(0, 30))
        kind, number = str(chance.choice(["DMA", "TE"])), int(chance.integers(0, 2))
        reason = str(chance.choice(["queue_full", "throttle"]))
        if chance.random() < 0.6:
            events.append(engine(start, start + length, engine=kind, engine_id=number))
        else:
            master = kind if chance.random() < 0.8 else "BUS"
            events.append(
                stall(start, start + length, master=master, master_id=number,
                      reason=reason)
            )  # fmt: skip
    return events


def ticks(events: list[dict[str, object]], name: str, *, stalls: bool) -> set[int]:
    """Return the ticks that events of one engine hold."""
    kind, number = name.split(" ")
    field, number_field = ("master", "master_id") if stalls else ("engine", "engine_id")
    return {
        tick
        for e in events
        if e.get(field) == kind and e.get(number_field) == int(number)
        for tick in range(int(str(e["start_cycle"])), int(str(e["end_cycle"])))
    }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_columns", [1, 7, 64, 1000])
def test_columns_are_those_of_a_count_of_ticks(
    tmp_path: Path, seed: int, n_columns: int
) -> None:
    events = random_events(seed)
    trace = trace_of(tmp_path, *events)
    engines = engines_of(trace)
    edges = np.linspace(0, trace.extent.end, n_columns + 1).astype(np.int64)

    working, stalled, idle = engines.ticks(edges[:-1], edges[1:])

    for row, name in enumerate(engines.names):
        busy, held = ticks(events, name, stalls=False), ticks(events, name, stalls=True)
        for column, (low, high) in enumerate(
            zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ):
            here = set(range(low, high))
            assert working[row, column] == len((busy - held) & here)
            assert stalled[row, column] == len(held & here)
            assert idle[row, column] == len(here - busy - held)


def test_master_without_spans_has_only_stalls(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, engine(0, 10), stall(2, 5, master="BUS"))

    engines = engines_of(trace)

    assert engines.names == ("TE 0", "BUS 0")
    assert engines.lane.tolist()[1] == -1
    assert engines.stalled.totals.tolist() == [0, 3]
    assert engines.count.tolist() == [1, 0]


@pytest.mark.parametrize("seed", range(4))
def test_concurrency_is_that_of_a_count_of_ticks(tmp_path: Path, seed: int) -> None:
    events = random_events(seed)
    trace = trace_of(tmp_path, *events)

    for item in concurrency(trace):
        spans = [
            range(int(str(e["start_cycle"])), int(str(e["end_cycle"])))
            for e in events
            if e.get("engine") == item.kind
        ]
        open_at = [sum(tick in span for span in spans) for tick in range(240)]
        assert item.maximum == max(open_at)
        assert item.time is not None
        assert open_at.index(max(open_at)) == item.time.start
        held = open_at[item.time.start : item.time.end]
        assert set(held) == {item.maximum}


def test_spans_without_length_never_run_at_once(tmp_path: Path) -> None:
    concurrencies = concurrency(trace_of(tmp_path, engine(5, 5), engine(5, 5)))

    assert [(c.kind, c.maximum, c.time) for c in concurrencies] == [("TE", 0, None)]


def test_moved_bytes_are_of_spans_and_of_accesses(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        engine(0, 5, engine="DMA", details={"bytes": 100}),
        engine(5, 9, engine="DMA", details={"bytes": 11}),
        engine(5, 9, engine="TE"),
        access(1, source_engine="DMA", bytes=64),
        access(2, source_engine="DMA", bytes=32, direction="write"),
        access(3, source_engine="DMA", bytes=None),
    )

    moved = moved_bytes(trace)

    assert engines_of(trace).names == ("DMA 0", "TE 0")
    assert moved.stated.tolist() == [111, -1]
    assert moved.read.tolist() == [64, -1]
    assert moved.written.tolist() == [32, -1]
    assert moved.n_unknown.tolist() == [1, 0]


def test_reasons_count_each_tick_once_and_name_their_spans(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        engine(0, 50),
        stall(0, 10),
        stall(5, 15),
        stall(30, 33, reason="throttle"),
        stall(0, 9, master="DMA"),
    )

    reasons = stall_reasons(trace)

    names = engines_of(trace).names
    assert [(names[r.engine], r.reason, r.ticks, len(r.spans)) for r in reasons] == [
        ("TE 0", "queue_full", 15, 2),
        ("DMA 0", "queue_full", 9, 1),
        ("TE 0", "throttle", 3, 1),
    ]
    assert {trace.strings[trace.spans.name[i]] for i in reasons[2].spans} == {
        "throttle"
    }


def test_trace_without_engines_has_none(tmp_path: Path) -> None:
    trace = trace_of(tmp_path)

    assert len(engines_of(trace)) == 0
    assert engines_of(trace).ticks(np.array([0]), np.array([1]))[0].shape == (0, 1)
    assert (concurrency(trace), stall_reasons(trace)) == ((), ())
