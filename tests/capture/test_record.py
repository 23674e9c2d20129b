"""What is made of a ring: files that the viewer's own readers read."""

import json
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

from ggscope.cli import main
from ggscope_capture import ggmlviz, record, targets
from ggscope_capture.ring_contents import RingContents, joined
from ggscope_capture.ring_format import Frame, FrameType, RingError
from tracing import Traced, command, info, plain_sidecar, run, tracer_environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the tracer was written for Linux only so far"
)


@pytest.fixture(scope="module")
def moe(
    npm_llama: targets.Target,
    tiny_models: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Traced:
    """A run of a model with experts."""
    folder = tmp_path_factory.mktemp("moe")
    line = command(npm_llama, tiny_models["nano-moe"], folder / "facts.json")
    return run(line, folder, tracer_environment("path"))


def test_records_are_read_with_all_that_was_measured(
    moe: Traced, tmp_path: Path
) -> None:
    path = tmp_path / "run.bin"
    report = moe.contents()
    path.write_bytes(record.to_records(report))
    n = len(report.records)

    read = info(path)

    assert n == 57 * len(moe.facts["steps"][0])
    assert read["counts"]["tokens"] == len(moe.facts["steps"][0])
    assert read["reader"] == "tensor-access"
    rows = np.fromfile(path, record.TRACE)
    ops = rows[rows["op"] < 0xF0]
    assert len(ops) == n
    assert np.array_equal(np.sort(ops["time"]), ops["time"])
    assert np.array_equal(ops["sources"]["more"][:, 0], report.records.all()["wait_ns"])
    assert np.array_equal(ops["sources"]["more"][:, 3], report.records.all()["extra"])
    assert len(rows) - n == len(moe.of(FrameType.EXPERTS)) * 2


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_records_are_the_same_in_pieces_of_any_size(moe: Traced, size: int) -> None:
    """The choices of experts lie between the ops, wherever a piece ends."""
    report = moe.contents()

    pieces = record.record_pieces(report, has_names=True, size=size)

    assert b"".join(pieces) == record.to_records(report)


def test_records_name_the_weights_by_their_place_in_the_file(
    moe: Traced, tiny_models: dict[str, Path]
) -> None:
    rows = np.frombuffer(record.to_records(moe.contents()), record.TRACE)
    tensors = gguf.GGUFReader(tiny_models["nano-moe"]).tensors
    expected = {
        (number, int(t.data_offset), int(t.n_bytes)) for number, t in enumerate(tensors)
    }

    sources = rows[rows["op"] < 0xF0]["sources"].ravel()
    used = sources[(sources["size"] > 0) & (sources["memory"] == 0)]

    # Those of norms, too, whose multiplication runs within the op before it.
    read = set(
        zip(*(used[f].tolist() for f in ("index", "place", "size")), strict=True)
    )
    assert read == expected


def test_event_stream_keeps_order_times_and_names(moe: Traced, tmp_path: Path) -> None:
    path = tmp_path / "run.ggmlviz"
    report = moe.contents()
    path.write_bytes(ggmlviz.to_ggmlviz(report))

    read = info(path)

    steps = len(moe.facts["steps"][0])
    assert read["reader"] == "ggmlviz"
    assert read["counts"]["spans"] == len(report.records) + steps
    assert main(["check", str(path)]) == 0


def test_sidecar_shows_what_records_cannot(moe: Traced) -> None:
    facts = json.loads(json.dumps(plain_sidecar(moe.contents(), moe.control)))

    steps = moe.facts["steps"][0]
    assert facts["records"] == len(moe.contents().records)
    assert [ubatch["tokens"] for ubatch in facts["ubatches"]] == steps
    assert facts["mode"] == "threads"
    assert facts["models"][0]["path"].endswith("nano-moe.gguf")
    assert facts["models"][0]["tensors"] == 23
    kinds = {host["kind"] for host in facts["host"]}
    assert {"compute", "alloc", "input"} <= kinds
    freed = [b for b in facts["buffers"] if b["allocated"] and b["freed"]]
    assert any(buffer["usage"] == 2 for buffer in freed)
    assert all(buffer["allocated"] <= buffer["freed"] for buffer in freed)
    assert len(facts["graph_list"]) == len(steps)
    assert all(graph["status"] == 0 for graph in facts["graph_list"])


def test_damaged_frames_are_refused_with_a_reason(moe: Traced) -> None:
    (build, *_) = moe.of(FrameType.BUILD)
    cut = Frame(build.type, build.time, build.body[: len(build.body) // 2])

    with pytest.raises(RingError, match="cut"):
        RingContents.of([cut], [], joined([]), moe.lanes)


def test_records_of_graphs_that_nobody_named_are_kept(moe: Traced) -> None:
    report = RingContents.of([], [], joined(moe.records), moe.lanes)

    rows = np.frombuffer(record.to_records(report), record.TRACE)

    assert len(rows) == len(report.records)
    assert set(rows["layer"].tolist()) == {65535}
