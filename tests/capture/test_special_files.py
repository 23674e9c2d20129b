"""Whatever stands in the place of a ring or its files, the tool answers at once."""

import json
import os
from pathlib import Path

import pytest

import hostile_rings
from ggscope_capture.__main__ import main
from ggscope_capture.config import resolve
from ggscope_capture.recording import Recorder
from ggscope_capture.ring import Ring, defs_path
from ggscope_capture.ring_format import RingError
from hostile_rings import FOLDER_FILES, HARMS, Harm, ended_ring, note, replaced

pytestmark = [
    pytest.mark.skipif(
        not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
    ),
    pytest.mark.timeout(60),
]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a ring."""
    (tmp_path / "rings").mkdir()
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path / "rings"))
    return tmp_path / "rings" / "ggscope-1-x"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.bin"


def commands(named: Path, out: Path) -> list[list[str]]:
    """Every command that takes a ring, or a folder."""
    to = ["-o", str(out)]
    return [
        ["rings", "--json"],
        ["save", str(named), *to],
        ["set", str(named), "--no-enabled"],
        ["recover", str(named), *to],
    ]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("place", [lambda path: path, defs_path, note])
def test_file_of_another_kind_is_answered(
    place, harm: Harm, path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended_ring(path)
    replaced(place(path), harm)

    for command in commands(path, out):
        assert main(command) in (0, 1)

    assert "Errno" not in capsys.readouterr().err


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", FOLDER_FILES)
def test_recording_with_a_file_of_another_kind_is_answered(
    name: str, harm: Harm, path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = ended_ring(path)
    folder = hostile_rings.recording(path.with_name("run.partial"), path, identity)
    hostile_rings.write_note(path, folder, identity)
    replaced(folder / name, harm)

    for command in (*commands(folder, out), *commands(path, out)):
        assert main(command) in (0, 1)

    assert "Errno" not in capsys.readouterr().err


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", FOLDER_FILES)
def test_finished_folder_with_a_file_of_another_kind_is_answered(
    name: str, harm: Harm, path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended_ring(path)
    settings = resolve({}, None, {}).settings
    recorder = Recorder.begin(path, path.with_name("run.partial"), settings)
    recorder.finish()
    replaced(recorder.folder / name, harm)

    for command in commands(recorder.folder, out):
        assert main(command) in (0, 1)

    assert "Errno" not in capsys.readouterr().err


@pytest.mark.parametrize("harm", [hostile_rings.pipe, hostile_rings.device])
def test_ring_that_is_none_is_refused_by_its_kind(harm: Harm, path: Path) -> None:
    harm(path)

    with pytest.raises(OSError, match=r"neither a file|a link"):
        Ring(path)


def test_ring_of_terabytes_that_were_never_written_is_refused(path: Path) -> None:
    ended_ring(path)
    with Ring(path) as ring:
        ring.control["lane_capacity"] = 1 << 22
        ring.control["records_offset"] = 4096 + 4 * 256
        ring.lanes["head"] = 1 << 22
    os.truncate(path, 6 << 30)

    with pytest.raises(OSError, match="hardly any"):
        Ring(path)
    os.truncate(path, 9 << 30)
    with pytest.raises(RingError, match="do not fit"):
        Ring(path)


def test_process_that_no_system_has_is_none_that_runs(
    path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended_ring(path)
    with Ring(path) as ring:
        ring.control["pid"] = ring.control["reader_pid"] = (1 << 32) - 1

    assert main(["rings", "--json"]) == 0
    (data,) = json.loads(capsys.readouterr().out)
    assert (data["state"], data["reader"]) == ("ended", None)
    assert main(["recover", str(path), "-o", str(out)]) == 0
