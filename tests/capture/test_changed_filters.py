"""Filters that are changed while a program runs: what was wanted before stays."""

import os
from pathlib import Path

import numpy as np
import pytest

from ggscope_capture import recording
from ggscope_capture.__main__ import main
from ggscope_capture.config import Settings, resolve
from ggscope_capture.recording import Recorder
from ggscope_capture.ring_format import FrameType
from ring_writer import N_NODES, Writer, frame, text

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)
MUL_MAT, ADD = 1, 2


def settings(**flags: str) -> Settings:
    return resolve(flags, None, {}).settings


def ops_of(recorder: Recorder) -> dict[int, int]:
    """Return how many records of each op would be written."""
    recorder.finish(keeps_ring=True)
    contents = recording.load(recorder.folder, recorder.common_settings).contents
    codes, counts = np.unique(contents.records.all()["op"], return_counts=True)
    return dict(zip(codes.tolist(), counts.tolist(), strict=True))


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "ggscope-4000000001-abc", n_lanes=1)


def begun(writer: Writer, **flags: str) -> Recorder:
    folder = writer.path.with_name("out.bin.partial")
    recorder = Recorder.begin(writer.path, folder, settings(**flags))
    recorder.poll()
    return recorder


def test_records_of_before_a_filter_was_known_are_left_out(writer: Writer) -> None:
    recorder = begun(writer, ops="MUL_MAT")
    writer.graph()

    assert ops_of(recorder) == {MUL_MAT: N_NODES // 5}


def test_new_settings_leave_what_was_recorded_under_the_old_ones(
    writer: Writer,
) -> None:
    recorder = begun(writer, ops="MUL_MAT")
    writer.graph()
    recorder.poll()

    recorder.settings = settings(ops="!MUL_MAT")
    recorder.poll()

    assert writer.control["op_mask"][0].tolist() == [1 << MUL_MAT, 0, 0, 0]
    assert ops_of(recorder)[MUL_MAT] == N_NODES // 5


def test_command_from_elsewhere_outlives_a_new_op_and_reaches_the_output(
    writer: Writer,
) -> None:
    recorder = begun(writer, ops="MUL_MAT")
    assert main(["set", str(writer.path), "--ops", "ADD", "--sample", "7"]) == 0
    value = writer.control["op_mask"][0].tolist()
    with writer.path.with_name(f"{writer.path.name}.defs").open("ab") as file:
        file.write(frame(FrameType.OP, b"\x09\0\0\0" + text("GLU")))
    recorder.poll()

    assert writer.control["op_mask"][0].tolist() == value
    assert int(writer.control["sample_every"][0]) == 7
    writer.graph()
    assert ops_of(recorder)[ADD] == N_NODES // 5


def test_ring_is_found_by_the_number_of_its_launcher_too(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GGSCOPE_RINGS", str(writer.path.parent))

    for number in ("4000000001", str(os.getpid())):
        assert main(["set", number, "--sample", "3"]) == 0
    assert main(["set", "4000000002", "--sample", "3"]) == 1
    assert "no ring of yours for process 4000000002" in capsys.readouterr().err
