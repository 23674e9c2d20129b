"""Contexts that compute at once, and event streams beside their sidecar.

What the tracer really writes is read back: by a made-up program with two contexts, and
by real models in one process.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ggscope.analysis.completeness.expected import COUNTED, completeness
from ggscope.analysis.reads.op_io import choosing
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from ggscope_capture import targets

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the tracer was written for Linux only so far"
)
TOKENS = 60
"""So many that the contexts do compute at once."""


def opened(path: Path) -> Trace:
    trace = open_bundle(survey([path]))
    assert trace.check() == []
    return trace


def recorded(
    target: targets.Target, model: Path, out: Path, *more: str, contexts: int = 3
) -> None:
    """Record so many contexts of one model that compute at the same time."""
    line = target.command(model, "once upon a time", tokens=TOKENS, threads=1)
    capture = [sys.executable, "-m", "ggscope_capture", "run", "--require"]
    calm = os.environ | {"OMP_WAIT_POLICY": "passive"}
    subprocess.run(
        [*capture, "-o", str(out), *more, "--", *line, "--contexts", str(contexts)],
        check=True, capture_output=True, timeout=100, env=calm,
    )  # fmt: skip


@pytest.mark.parametrize("states", [True, False], ids=["stated", "compared"])
@pytest.mark.parametrize("model", ["nano", "nano-moe"])
def test_contexts_that_compute_at_once_lack_nothing(
    model: str,
    states: bool,
    npm_llama: targets.Target,
    tiny_models: dict[str, Path],
    tmp_path: Path,
) -> None:
    """As the tracer counts, and, where an older tool did not, as passes compare."""
    out = tmp_path / "out.bin"
    recorded(npm_llama, tiny_models[model], out)
    facts = json.loads(out.with_suffix(".json").read_bytes())
    if not states:
        for key in ("account", "settings", "end"):
            del facts[key]
        out.with_suffix(".json").write_text(json.dumps(facts))

    trace = opened(out)
    result = completeness(trace)

    assert (result.rests_on == (COUNTED,)) is states
    assert (result.is_known, result.n_missing) == (True, 0)
    assert result.n_there == facts["records"]


def test_every_op_knows_its_experts_where_contexts_compute_at_once(
    npm_llama: targets.Target, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    recorded(npm_llama, tiny_models["nano-moe"], out, contexts=4)

    trace = opened(out)
    result = choosing(trace)
    (op,) = [n for n, name in enumerate(trace.ops.names) if name == "MUL_MAT_ID"]

    assert len(result.spans) == int((trace.spans.op == op).sum()) > 0
    assert (result.choice >= 0).all()
    # A choice belongs to a multiplication of its own ubatch and layer.
    routing, spans = trace.routing, trace.spans
    assert (routing.span >= 0).all()
    assert np.array_equal(spans.token[routing.span], routing.token)
    assert np.array_equal(spans.layer[routing.span], routing.layer)


def test_event_stream_takes_the_sidecar_of_its_run(
    npm_llama: targets.Target, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    stream = tmp_path / "out.ggmlviz"
    more = ("--ggmlviz", str(stream))
    recorded(npm_llama, tiny_models["nano-moe"], out, *more, contexts=2)
    records, out_of = opened(out), tmp_path / "moved"
    out_of.mkdir()
    for path in (stream, out.with_suffix(".json")):
        shutil.move(path, out_of / path.name)

    trace = opened(out_of / "out.ggmlviz")

    assert "sidecar_refused" not in {w.code for w in trace.warnings}
    result = completeness(trace)
    assert (result.rests_on, result.n_missing) == ((COUNTED,), 0)
    assert tokens_of(trace) == tokens_of(records)
    assert len(trace.batch_tokens) == len(records.batch_tokens)
    for kind in (LaneKind.TOKEN, LaneKind.COMMAND):
        assert n_spans(trace, kind) == n_spans(records, kind) > 0
    assert n_spans(trace, LaneKind.GRAPH) == 0  # its own are on the threads


def tokens_of(trace: Trace) -> list[tuple[int, str, int]]:
    """Return when each op began, its name and its ubatch, in the order of time."""
    spans, is_op = trace.spans, trace.spans.op >= 0
    assert spans.token is not None
    return sorted(
        (
            int(spans.start[i]) + trace.clock.origin,
            trace.span_name(i),
            int(spans.token[i]),
        )
        for i in np.flatnonzero(is_op).tolist()
    )


def n_spans(trace: Trace, kind: LaneKind) -> int:
    return int(trace.lanes.of_kind(kind)[trace.spans.lane].sum())


def test_sidecar_of_another_run_is_refused_by_an_event_stream(
    npm_llama: targets.Target, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    one, other = tmp_path / "one.bin", tmp_path / "other.bin"
    stream = tmp_path / "one.ggmlviz"
    recorded(npm_llama, tiny_models["nano"], one, "--ggmlviz", str(stream), contexts=1)
    recorded(npm_llama, tiny_models["nano"], other, contexts=1)
    shutil.copy(other.with_suffix(".json"), one.with_suffix(".json"))
    one.unlink()

    trace = opened(stream)

    (warning,) = [w for w in trace.warnings if w.code == "sidecar_refused"]
    assert "graphs begin" in warning.message
    assert trace.recordings == ()
