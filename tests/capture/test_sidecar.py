"""A recording that is opened again shows what the live view showed at its end."""

import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from ggscope.live.program import ProgramSource
from ggscope.live.source import State
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from ggscope_capture import recording, ring, targets
from ggscope_capture.config import resolve
from ggscope_capture.native import build
from recordings import facts_of
from tracing import command, contents_of, tracer_environment

pytestmark = pytest.mark.skipif(
    not (build.FOLDER / build.NAME).exists(), reason="the tracer is not built here"
)


@pytest.fixture(scope="module")
def run(
    pypi_llama: targets.Target,
    tiny_models: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Trace, Path]:
    """The live trace of a run at its end, and the file of its recording."""
    folder = tmp_path_factory.mktemp("recorded")
    path = folder / "ring"
    line = command(
        pypi_llama, tiny_models["nano-moe"], folder / "facts.json", threads=2
    )
    places = {"GGSCOPE_RING": str(path), "GGSCOPE_RING_SIZE": str(8 << 20)}
    environment = {**os.environ, **places, **tracer_environment("preload")}
    subprocess.run(line, env=environment, check=True, capture_output=True, timeout=100)
    with ring.Ring(path, is_owner=False) as read:
        report = contents_of(read)
        whole = recording.Recording(report, read.control[0].copy(), 0, 0, 0)
    source = ProgramSource(path)
    deadline = time.monotonic() + 20
    while source.status().state is not State.ENDED and time.monotonic() < deadline:
        source.poll()
    live = source.snapshot()
    source.close()
    recording.write(
        whole,
        records=folder / "run.bin",
        ggmlviz=None,
        settings=resolve({}, None, {}).settings,
    )
    return live, folder / "run.bin"


def reopened(path: Path) -> Trace:
    return open_bundle(survey((path,)))


def spans_of(trace: Trace) -> list[tuple[object, ...]]:
    """Return every span with what it reads, in the order of time."""
    spans, strings, shift = trace.spans, trace.strings, trace.clock.origin
    items = []
    for row in range(len(spans)):
        lane = trace.lanes[int(spans.lane[row])]
        reads = trace.accesses.of_span(row)
        names = trace.tensors.name[reads.tensor].tolist()
        buffers = trace.buffers.name[reads.buffer].tolist()
        items.append(
            (
                int(spans.start[row]) + shift,
                int(spans.end[row]) + shift,
                (lane.name, lane.kind, lane.group, dict(lane.attributes)),
                strings[int(spans.name[row])],
                trace.op_name(int(spans.op[row])),
                *(
                    int(column[row])
                    for column in (spans.layer, spans.token, spans.phase)
                ),
                int(spans.core[row]),
                int(spans.numa[row]),
                tuple(
                    zip(
                        [strings[i] for i in names],
                        reads.space.tolist(),
                        reads.offset.tolist(),
                        reads.size.tolist(),
                        [strings[i] if i >= 0 else "" for i in buffers],
                        reads.layer.tolist(),
                        reads.expert.tolist(),
                        reads.address.tolist(),
                        strict=True,
                    )
                ),
            )
        )
    return sorted(items, key=repr)


def tables_of(trace: Trace) -> dict[str, object]:
    """Return models, tensors, buffers and choices in words of their own."""
    strings, shift = trace.strings, trace.clock.origin
    tensors, buffers, routing = trace.tensors.full(), trace.buffers, trace.routing
    span = routing.span

    def ticks(column: np.ndarray) -> list[int]:
        return [tick if tick == -1 else tick + shift for tick in column.tolist()]

    def listed(table: object, *names: str) -> list[tuple[object, ...]]:
        columns = [getattr(table, name).tolist() for name in names]
        return [tuple(map(str, row)) for row in zip(*columns, strict=True)]

    return {
        "models": [(m.name, m.size, m.data_offset) for m in trace.models],
        "tensors": sorted(
            zip(
                [strings[i] for i in tensors.name.tolist()],
                listed(
                    tensors, "offset", "size", "layer", "expert", "file", "type",
                    "shape", "n_experts", "place", "size_source",
                ),
                strict=True,
            )
        ),
        "buffers": sorted(
            zip(
                [strings[i] for i in buffers.name.tolist()],
                listed(buffers, "usage", "size", "address"),
                ticks(buffers.allocated),
                ticks(buffers.freed),
                strict=True,
            )
        ),
        "tokens": sorted(
            listed(
                trace.batch_tokens, "ubatch", "row", "id", "position", "phase",
                "is_output", "context", "decode",
            )
        ),
        "choices": sorted(
            zip(
                ticks(routing.time),
                np.where(span >= 0, trace.spans.start[span] + shift, -1).tolist(),
                listed(routing, "token", "layer", "expert", "rank", "is_used"),
                strict=True,
            )
        ),
    }  # fmt: skip


def test_recording_shows_what_the_live_view_showed_at_its_end(
    run: tuple[Trace, Path],
) -> None:
    live, path = run

    result = reopened(path)

    assert result.check() == []
    kinds = {lane.kind for lane in result.lanes}
    assert kinds >= {LaneKind.THREAD, LaneKind.GRAPH, LaneKind.TOKEN, LaneKind.COMMAND}
    assert spans_of(result) == spans_of(live)
    mine, theirs = tables_of(result), tables_of(live)
    for table, rows in theirs.items():
        assert rows, table
        assert mine[table] == rows, table
    scores = [
        np.sort(trace.routing.score[np.isfinite(trace.routing.score)])
        for trace in (result, live)
    ]
    assert len(scores[0]) > 0
    np.testing.assert_allclose(*scores, atol=1e-4)
    # That the file holds extension records, and that threads share ops.
    of_records = {"extension_records", "shared_ops"}
    codes = {warning.code for warning in result.warnings} - of_records
    assert codes == {warning.code for warning in live.warnings}
    assert [part.role for part in result.parts] == ["trace", "recording"]
    (fit,) = result.joins
    assert fit.n_found == fit.n_all == facts_of(path)["records"]
