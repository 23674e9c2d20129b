"""The viewer's own reader of the ring, against the tracer itself."""

import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from ggscope.live.program import ProgramSource
from ggscope.live.source import State
from ggscope.model.lanes import LaneKind
from ggscope_capture.native import build

FAKE = Path(__file__).parent / "fake_ggml.c"
TRACER = build.FOLDER / build.NAME
N_NODES, N_GRAPHS = 400, 300

pytestmark = pytest.mark.skipif(
    not TRACER.exists(), reason="the tracer is not built here"
)


def test_every_record_of_the_tracer_is_followed_or_told_as_lost(tmp_path):
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
        while source.heard().state is not State.ENDED and time.monotonic() < deadline:
            source.poll()
            running.poll()  # so that it does not stay as a zombie, which looks alive

    heard, trace = source.heard(), source.snapshot()
    source.close()
    assert heard.state is State.ENDED
    assert heard.records + heard.lost == N_NODES * N_GRAPHS
    assert trace.check() == []
    of_threads = trace.lanes.of_kind(LaneKind.THREAD)[trace.spans.lane]
    assert int(of_threads.sum()) == heard.records
    assert not (trace.spans.name[of_threads] < 0).any()
    start, end = (column[of_threads] for column in (trace.spans.start, trace.spans.end))
    order = np.argsort(start, kind="stable")
    assert (start[order][1:] >= end[order][:-1]).all()
