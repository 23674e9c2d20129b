"""The viewer's own reader of the ring, against the tracer itself."""

import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from ggscope.live.program import ProgramSource
from ggscope.live.source import State
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.registry import open_trace
from ggscope_capture import record, ring, targets
from ggscope_capture.native import build
from tracing import command, contents_of, plain_sidecar, tracer_environment

FAKE = Path(__file__).parent / "fake_ggml.c"
TRACER = build.FOLDER / build.NAME
N_NODES, N_GRAPHS = 400, 300

pytestmark = pytest.mark.skipif(
    not TRACER.exists(), reason="the tracer is not built here"
)


def test_every_record_of_the_tracer_is_followed_or_reported_as_lost(tmp_path):
    library, program = tmp_path / "libggml-fake.so", tmp_path / "fake"
    for line in (["-fPIC", "-shared", "-o", library], ["-DPROGRAM", "-o", program]):
        subprocess.run(["cc", "-O2", FAKE, *line, "-ldl"], check=True)
    source = ProgramSource(tmp_path / "ring")
    environment = {
        **os.environ,
        "FAKE_GGML": str(library),
        "GGSCOPE_RING": str(source.path),
        "LD_PRELOAD": str(TRACER),
    }
    command = [str(program), str(N_NODES), str(N_GRAPHS)]
    deadline = time.monotonic() + 60

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as running:
        while source.status().state is not State.ENDED and time.monotonic() < deadline:
            source.poll()
            running.poll()  # so that it does not stay as a zombie, which looks alive

    status, trace = source.status(), source.snapshot()
    source.close()
    assert status.state is State.ENDED
    assert status.records + status.lost == N_NODES * N_GRAPHS
    assert trace.check() == []
    of_threads = trace.lanes.of_kind(LaneKind.THREAD)[trace.spans.lane]
    assert int(of_threads.sum()) == status.records
    assert not (trace.spans.name[of_threads] < 0).any()
    start, end = (column[of_threads] for column in (trace.spans.start, trace.spans.end))
    order = np.argsort(start, kind="stable")
    assert (start[order][1:] >= end[order][:-1]).all()


def test_what_is_followed_is_what_the_file_of_the_run_shows(
    npm_llama: targets.Target, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "ring"
    line = command(npm_llama, tiny_models["nano-moe"], tmp_path / "facts.json")
    settings = {"GGSCOPE_RING": str(path), "GGSCOPE_RING_SIZE": str(8 << 20)}
    environment = {**os.environ, **settings, **tracer_environment("path")}
    subprocess.run(line, env=environment, check=True, capture_output=True, timeout=100)
    with ring.Ring(path, is_owner=False) as read:
        report = contents_of(read)
        control = read.control[0].copy()
    (tmp_path / "run.bin").write_bytes(record.to_records(report))

    whole = open_trace(tmp_path / "run.bin")
    source = ProgramSource(path)
    deadline = time.monotonic() + 20
    while source.status().state is not State.ENDED and time.monotonic() < deadline:
        source.poll()
    live = source.snapshot()
    source.close()

    assert live.check() == []
    assert ops_of(live) == ops_of(whole)
    assert choices_of(live) == choices_of(whole)
    assert len(live.routing) > 0
    scores = [np.sort(trace.routing.score) for trace in (live, whole)]
    np.testing.assert_allclose(*scores, atol=1e-4)
    (model,) = live.models
    assert model.name == tiny_models["nano-moe"].name
    assert model.size == tiny_models["nano-moe"].stat().st_size
    assert int(live.tensors.n_experts.max()) > 1
    told_buffers = [
        (b["name"], b["size"], b["usage"] or 0, b["allocated"], b["freed"])
        for b in plain_sidecar(report, control)["buffers"]
        if b["size"]
    ]
    assert buffers_of(live) == told_buffers
    assert inputs_of(live) == [
        f"ubatch {u['ubatch']} · token {u['tokens'][0]} at {u['positions'][0]}"
        for u in plain_sidecar(report, control)["ubatches"]
        if len(u["tokens"]) == 1
    ]
    assert inputs_of(live)
    assert len(told_buffers) > 2


def ops_of(trace: Trace) -> list[tuple[object, ...]]:
    """Return what each op of a thread was and read, in the order of time."""
    shift = trace.clock.origin
    of_threads = trace.lanes.of_kind(LaneKind.THREAD)[trace.spans.lane]
    spans, rows = trace.spans, np.flatnonzero(of_threads)
    items = []
    for row in rows[np.argsort(spans.start[rows], kind="stable")].tolist():
        reads = trace.accesses.of_span(row)
        names = [tensor_name(trace, int(t)) for t in reads.tensor]
        items.append(
            (
                int(spans.start[row]) + shift,
                int(spans.end[row]) + shift,
                trace.op_name(int(spans.op[row])),
                trace.strings[int(spans.name[row])][:23],
                int(spans.layer[row]),
                int(spans.token[row]),
                int(spans.phase[row]),
                tuple(
                    zip(
                        names,
                        reads.space.tolist(),
                        reads.offset.tolist(),
                        reads.size.tolist(),
                        reads.layer.tolist(),
                        reads.address.tolist(),
                        strict=True,
                    )
                ),
            )
        )
    return items


def inputs_of(trace: Trace) -> list[str]:
    """Return the names of the ubatches of one token, in the order of time."""
    of_tokens = trace.lanes.of_kind(LaneKind.TOKEN)[trace.spans.lane]
    rows = np.flatnonzero(of_tokens)
    rows = rows[np.argsort(trace.spans.start[rows], kind="stable")]
    return [n for n in map(trace.span_name, rows.tolist()) if " · token " in n]


def tensor_name(trace: Trace, row: int) -> str:
    return trace.strings[int(trace.tensors.name[row])][:19] if row >= 0 else ""


def choices_of(trace: Trace) -> list[tuple[int, ...]]:
    """Return who chose what, and the op that did."""
    routing, shift = trace.routing, trace.clock.origin
    span = routing.span
    columns = (
        routing.time + shift,
        np.where(span >= 0, trace.spans.start[span] + shift, -1),
        np.where(span >= 0, trace.spans.op[span], -1),
        routing.token,
        routing.layer,
        routing.expert,
        routing.rank,
    )
    return sorted(zip(*(c.tolist() for c in columns), strict=True))


def buffers_of(trace: Trace) -> list[tuple[object, ...]]:
    """Return the buffers as the sidecar of a run lists them."""
    buffers, shift = trace.buffers, trace.clock.origin
    times = [
        [None if tick == -1 else tick + shift for tick in column.tolist()]
        for column in (buffers.allocated, buffers.freed)
    ]
    return list(
        zip(
            [trace.strings[int(name)] for name in buffers.name],
            buffers.size.tolist(),
            buffers.usage.tolist(),
            *times,
            strict=True,
        )
    )
