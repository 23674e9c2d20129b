"""Waits of recordings: read where the spare bytes hold them, and nowhere else."""

import struct
from pathlib import Path

import numpy as np
import pytest

import recordings
from ggscope.analysis.completeness.expected import completeness
from ggscope.model.tables import LONGEST_WAIT, NO_WAIT
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.readers.registry import open_trace
from ggscope.session_loading import open_bundle
from recordings import N_GRAPHS, N_THREADS, NODES, T0
from tensor_files import Rec, Src, encode, llama_pass

SIZE, WAIT, NODE, GRAPH, EXTRA = 256, 96, 148, 200, 252
N_OPS = N_GRAPHS * N_THREADS * len(NODES)
BEGIN_ONLY = 1 << 29


def records(**numbers: list[int] | int) -> bytearray:
    """Return a recording's records with other spare numbers: byte place by name."""
    data = bytearray(recordings.records())
    places = {"wait": WAIT, "node": NODE, "graph": GRAPH, "extra": EXTRA}
    for name, values in numbers.items():
        for i in range(N_OPS):
            value = values if isinstance(values, int) else values[i]
            struct.pack_into("<I", data, i * SIZE + places[name], value)
    return data


def opened(folder: Path, data: bytes) -> Trace:
    path = folder / "run.bin"
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    return trace


def waits(trace: Trace) -> dict[int, int]:
    """Return the wait of each op by its record."""
    spans = trace.spans
    assert spans.wait is not None
    rows = np.flatnonzero(spans.op >= 0).tolist()
    return {trace.record_of(i): int(spans.wait[i]) for i in rows}


def test_waits_of_a_recording_are_those_of_its_bytes(tmp_path):
    numbers = [7 * i for i in range(N_OPS)]

    trace = opened(tmp_path, records(wait=numbers))

    assert waits(trace) == dict(enumerate(numbers))
    bands = trace.spans.wait[trace.spans.op < 0]
    assert len(bands)
    assert set(bands.tolist()) == {NO_WAIT}


def test_waits_are_the_same_with_the_sidecar(tmp_path):
    path = recordings.recording(tmp_path)
    numbers = [3 * i for i in range(N_OPS)]
    path.write_bytes(records(wait=numbers))

    trace = open_bundle(survey((path,)))

    assert trace.check() == []
    assert waits(trace) == dict(enumerate(numbers))


def test_extent_reaches_to_the_end_of_the_last_wait(tmp_path):
    last = N_OPS - 1
    trace = opened(tmp_path, records(wait=[0] * last + [50_000]))

    start = T0 + 10_000 * 3 + 3000 * 2 + 10 - T0
    assert trace.extent.end == start + 2000 + 50_000


def test_longest_wait_stands_for_longer_ones(tmp_path):
    last = [0] * (N_OPS - 1)

    trace = opened(tmp_path, records(wait=[*last, 0xFFFF_FFFF]))

    assert waits(trace)[N_OPS - 1] == LONGEST_WAIT


@pytest.mark.parametrize("with_sidecar", [False, True])
def test_record_without_an_end_has_no_wait(tmp_path, with_sidecar):
    extra = [BEGIN_ONLY if i == 5 else 0 for i in range(N_OPS)]
    data = records(wait=[0 if i == 5 else 90 for i in range(N_OPS)], extra=extra)
    path = recordings.recording(tmp_path)
    path.write_bytes(data)

    trace = open_bundle(survey((path,))) if with_sidecar else open_trace(path)

    result = waits(trace)
    assert {i for i, wait in result.items() if wait == NO_WAIT} == {5}


@pytest.mark.parametrize("with_sidecar", [False, True])
def test_recording_of_begins_has_no_waits(tmp_path, with_sidecar):
    path = recordings.recording(tmp_path)
    path.write_bytes(records(wait=0, extra=BEGIN_ONLY))

    trace = open_bundle(survey((path,))) if with_sidecar else open_trace(path)

    assert trace.spans.wait is None


def test_wait_of_nothing_is_a_wait(tmp_path):
    trace = opened(tmp_path, records(wait=0))

    assert set(waits(trace).values()) == {0}


RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    "numbers",
    [
        {"node": 0, "graph": 0, "wait": 0, "extra": 0},
        {"node": 0, "graph": 0, "wait": 90},
        {"wait": 5000},  # beyond the next op of the thread
        {"graph": [9 - i // 6 for i in range(N_OPS)]},
        {"node": RNG.integers(0, 1 << 32, N_OPS).tolist(), "graph": 0},
        {
            name: RNG.integers(0, 1 << 32, N_OPS).tolist()
            for name in ("wait", "node", "graph", "extra")
        },
    ],
    ids=["zeros", "one number", "too long", "backwards", "noise", "all noise"],
)
def test_spare_bytes_that_are_no_waits_are_left_alone(tmp_path, numbers):
    assert opened(tmp_path, records(**numbers)).spans.wait is None


@pytest.mark.parametrize("layout", ["256", "1024", "128", "64p"])
def test_files_of_other_writers_have_no_waits(tmp_path, layout):
    passes = [r for k in range(3) for r in llama_pass(k * 10**6, token=k)]
    if layout in ("128", "64p"):
        from tensor_files import one_source_each

        passes = one_source_each(passes)

    assert opened(tmp_path, encode(passes, layout)).spans.wait is None


@pytest.mark.parametrize("n_lost", [0, 1, 3])
def test_contexts_that_compute_at_once_are_compared_one_by_one(
    n_lost: int, tmp_path: Path
) -> None:
    """A recording without its sidecar; thread 512 is the first of another slot."""
    random = np.random.default_rng(n_lost)
    n_nodes, made = 30, []
    for slot in range(3):
        at = 10**9
        for graph in range(8):
            at += int(random.integers(1000, 90_000))
            for node in range(n_nodes):
                rec = Rec(
                    at, f"node-{node}", 29, (Src("inp_embd"),), token=3 * graph + slot,
                    layer=node // 5, thread=512 * slot, duration=500,
                )  # fmt: skip
                raw = bytearray(encode([rec], "256"))
                numbers = ((WAIT, 100), (NODE, node), (GRAPH, 3 * graph + slot))
                for place, number in numbers:
                    struct.pack_into("<I", raw, place, number)
                made.append((at, bytes(raw)))
                at += int(random.integers(700, 3000))
    gone = set(random.choice(range(len(made)), n_lost, replace=False).tolist())
    left = [raw for i, (_, raw) in sorted(enumerate(made), key=lambda e: e[1][0])
            if i not in gone]  # fmt: skip

    result = completeness(opened(tmp_path, bytearray(b"".join(left))))

    assert (result.is_known, result.n_missing) == (True, n_lost)
    assert result.n_passes == 24
