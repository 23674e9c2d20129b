"""What a recording lacks is counted by graph, and how it was made stands beside it."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggscope_capture import recording
from ggscope_capture.__main__ import main
from ggscope_capture.config import Settings, resolve
from ggscope_capture.recording import Recorder
from ggscope_capture.ring import RECORD
from ggscope_capture.ring_format import FrameType
from ring_writer import N_NODES, Writer

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)


def settings(**flags: str) -> Settings:
    return resolve(flags, None, {}).settings


def begun(writer: Writer, **flags: str) -> Recorder:
    folder = writer.path.with_name("out.bin.partial")
    recorder = Recorder.begin(writer.path, folder, settings(**flags))
    recorder.poll()
    return recorder


def sidecar_keys(recorder: Recorder) -> dict[str, Any]:
    """Return what the sidecar would say of how the recording was made."""
    recorder.finish(keeps_ring=True)
    return dict(recording.load(recorder.folder, recorder.common_settings).sidecar_keys)


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "ggscope-4000000001-abc", n_lanes=2)


def test_whole_recording_lacks_nothing(writer: Writer) -> None:
    recorder = begun(writer)
    writer.graph()
    writer.end()

    report = sidecar_keys(recorder)

    assert report["account"] == {
        "computed": 2 * N_NODES, "expected": 2 * N_NODES, "recorded": 2 * N_NODES,
        "left_out": 0, "missing": 0, "not_seen": 0, "beyond_limit": 0,
        "unplaced": 0, "unknown_graphs": 0, "interrupted": [],
        "short": {"graph": [], "expected": [], "recorded": []},
    }  # fmt: skip
    assert report["changes"] == []


def test_lost_records_are_counted_by_graph(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ggscope-4000000001-abc", n_lanes=2, capacity=128)
    recorder = begun(writer)
    for _ in range(4):
        writer.graph()

    report = sidecar_keys(recorder)["account"]

    assert writer.dropped == 2 * (4 * N_NODES - 128)
    assert report["missing"] == writer.dropped
    assert report["expected"] - report["recorded"] == writer.dropped
    assert report["short"] == {
        "graph": [1, 2, 3], "expected": [2 * N_NODES] * 3,
        "recorded": [2 * (128 - N_NODES), 0, 0],
    }  # fmt: skip


def test_what_filters_leave_out_is_not_missing(writer: Writer) -> None:
    recorder = begun(writer, ops="MUL_MAT", layers="0-1")
    writer.graph()

    report = sidecar_keys(recorder)

    assert report["settings"]["ops"] == ["MUL_MAT"]
    assert report["settings"]["layers"] == [0, 1]
    # Ten nodes in each layer, of which every fifth is MUL_MAT.
    assert (report["account"]["recorded"], report["account"]["missing"]) == (8, 0)
    assert report["account"]["left_out"] == 2 * N_NODES - 8


def test_records_beyond_the_limit_are_counted(writer: Writer) -> None:
    recorder = begun(writer, max_records="150")
    writer.graph()

    report = sidecar_keys(recorder)

    assert report["settings"]["max_records"] == 150
    assert (report["account"]["recorded"], report["account"]["beyond_limit"]) == (
        150,
        50,
    )


def test_graph_without_end_is_interrupted_and_not_lost(writer: Writer) -> None:
    recorder = begun(writer)
    writer.graph()
    head = np.zeros(1, "<u4")
    head[0] = 1
    body = head.tobytes() + b"\0" * 4 + b"\xff" * 4 + b"\0\0\2\0" + b"\0" * 40
    writer.event(FrameType.GRAPH_BEGIN, body, 1 << 40)
    rows = np.zeros(3, RECORD)
    rows["graph"], rows["t0"] = 1, (1 << 40) + np.arange(3)
    writer.put(0, rows)

    report = sidecar_keys(recorder)["account"]

    assert report["interrupted"] == [1]
    assert (report["missing"], report["recorded"]) == (0, 2 * N_NODES + 3)


def test_changes_while_it_runs_are_reported_with_their_times(writer: Writer) -> None:
    recorder = begun(writer)
    before = int(writer.control["t0_mono"][0])

    assert main(["set", str(writer.path), "--ops", "ADD", "--sample", "7"]) == 0
    recorder.poll()
    recorder.settings = settings(threads="1")
    recorder.poll()

    report = sidecar_keys(recorder)
    first, second = report["changes"]
    assert report["settings"]["ops"] == []
    assert before < first["time"] <= second["time"]
    assert first["sample_every"] == 7
    assert first["ops"] == ["!MUL_MAT", "!ROPE", "!SOFT_MAX", "!RMS_NORM"]
    assert (second["threads"], second["sample_every"]) == ([1], 1)


def test_reader_that_goes_on_keeps_the_settings_of_the_first_one(
    writer: Writer,
) -> None:
    first = begun(writer, ops="MUL_MAT")
    writer.graph()
    first.poll()
    writer.control["reader_pid"] = 0  # it was killed

    report = sidecar_keys(begun(writer))

    assert report["settings"]["ops"] == ["MUL_MAT"]
    assert [change["ops"] for change in report["changes"]] == [[]]
    assert report["account"]["recorded"] == 2 * N_NODES


@pytest.mark.parametrize(("is_over", "state"), [(True, "exited"), (False, "running")])
def test_ring_shows_how_its_program_ended(
    is_over: bool, state: str, writer: Writer
) -> None:
    recorder = begun(writer)
    if is_over:
        writer.end()
        writer.control["start_time"] = 1  # no process with this number is it

    report = sidecar_keys(recorder)["end"]

    assert report == {
        "state": state, "exit_code": None, "signal": None, "launcher": False,
    }  # fmt: skip


def test_program_without_a_last_word_is_gone(writer: Writer) -> None:
    recorder = begun(writer)
    writer.control["start_time"] = 1

    assert sidecar_keys(recorder)["end"]["state"] == "gone"


def test_recording_of_a_reader_that_notes_nothing_shows_what_the_ring_does(
    writer: Writer,
) -> None:
    recorder = begun(writer, ops="!ADD")
    writer.graph()
    recorder.finish(keeps_ring=True)
    (recorder.folder / "facts").write_text('{"lost": 0, "lost_events": 0}')

    sidecar_keys = recording.load(recorder.folder, settings()).sidecar_keys

    assert sidecar_keys["settings"]["ops"] == ["!ADD"]
    assert sidecar_keys["changes"] is None
    assert sidecar_keys["end"] is None
