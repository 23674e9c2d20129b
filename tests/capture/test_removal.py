"""What the capture tool removes is what it made: no file that came to it says what."""

import json
import os
import shutil
from pathlib import Path

import pytest

import hostile_rings
from ggscope_capture import recording
from ggscope_capture.__main__ import main
from ggscope_capture.config import resolve
from ggscope_capture.recording import Recorder
from ggscope_capture.ring import defs_path
from hostile_rings import (
    CASES,
    CASES_OF_ROOT,
    GONE_USER,
    Case,
    content_of,
    ended_ring,
    own_folder,
    write_note,
)
from ring_writer import Writer

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)
need_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The place of a ring."""
    (tmp_path / "rings").mkdir()
    return tmp_path / "rings" / "crash.ring"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "out.bin"


def recovered(path: Path, out: Path) -> int:
    """Recover 40 records; return the code."""
    code = main(["recover", str(path), "-o", str(out)])
    if code == 0:
        assert json.loads(out.with_suffix(".json").read_bytes())["records"] == 40
    return code


@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(case, marks=need_root) for case in CASES_OF_ROOT)],
)
def test_nothing_of_a_person_goes_with_a_recovered_ring(
    case: Case, path: Path, out: Path, tmp_path: Path
) -> None:
    mine = case(tmp_path / "home", path, ended_ring(path))
    before = content_of(mine)

    recovered(path, out)

    assert content_of(mine) == before


@pytest.mark.parametrize("case", [c for c in CASES if c.__name__ != "linked_parts"])
def test_ring_is_recovered_beside_what_does_not_belong_to_it(
    case: Case, path: Path, out: Path, tmp_path: Path
) -> None:
    if case is hostile_rings.second_names:
        pytest.skip("the folder is its recording, and is not written to")
    case(tmp_path / "home", path, ended_ring(path))

    assert recovered(path, out) == 0

    assert not path.exists()
    assert not defs_path(path).exists()
    assert sorted(p.name for p in out.parent.iterdir()) == ["out.bin", "out.json"]


def test_recording_goes_and_what_else_lies_in_its_folder_stays(
    path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = ended_ring(path)
    folder = hostile_rings.recording(path.with_name("run.partial"), path, identity)
    (folder / "thesis.tex").write_text("words")
    (folder / "lanes").mkdir()
    (folder / "lanes" / "more.tex").write_text("words")
    write_note(path, folder, identity)

    code = main(["recover", str(path), "-o", str(out)])

    assert code == 1  # a folder stands where the lanes are to be
    assert (folder / "thesis.tex").exists()
    shutil.rmtree(folder / "lanes")
    assert recovered(path, out) == 0
    assert content_of(folder) == {"thesis.tex": b"words"}
    assert "not removed" in capsys.readouterr().err


def test_finished_folder_without_its_marker_is_written_and_stays(
    path: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended_ring(path)
    settings = resolve({}, None, {}).settings
    recorder = Recorder.begin(path, tmp_path / "out.bin.partial", settings)
    recorder.finish()
    folder, link = recorder.folder, tmp_path / "link.partial"
    marker = (folder / "identity").read_bytes()
    (folder / "identity").unlink()
    link.symlink_to(folder)

    assert recovered(folder, out) == 0
    assert main(["recover", str(link), "-o", str(out)]) == 1
    assert "not removed" in capsys.readouterr().err
    assert (folder / "records").stat().st_size > 0
    (folder / "identity").write_bytes(marker)
    assert recovered(folder, out) == 0
    assert not folder.exists()
    assert link.is_symlink()


def test_what_took_the_place_of_a_ring_stays(path: Path, tmp_path: Path) -> None:
    """A folder for rings may be one that others move things about in."""
    ended_ring(path)
    settings = resolve({}, None, {}).settings
    recorder = Recorder.begin(path, tmp_path / "out.bin.partial", settings)
    mine = {path: b"words", defs_path(path): b"GGSDEFS1 words", tmp_path / "x": b"x"}
    for place, content in mine.items():
        place.unlink(missing_ok=True)
        place.write_bytes(content)
    hostile_rings.note(path).unlink()
    hostile_rings.note(path).symlink_to(tmp_path / "x")

    recording.remove(recorder.ring)

    assert {place: place.read_bytes() for place in mine} == mine
    assert hostile_rings.note(path).is_symlink()
    recorder.ring.close()


def test_folder_that_moved_is_emptied_where_it_is(path: Path, tmp_path: Path) -> None:
    """Its name may lead elsewhere by then."""
    ended_ring(path)
    settings = resolve({}, None, {}).settings
    recorder = Recorder.begin(path, tmp_path / "out.bin.partial", settings)
    recorder.finish()
    moved = recorder.folder.rename(tmp_path / "moved")
    mine = own_folder(recorder.folder)
    before = content_of(mine)

    recorder.remove()

    assert content_of(mine) == before
    assert moved.exists()


@need_root
def test_rings_of_others_are_not_removed(path: Path, out: Path) -> None:
    ended_ring(path)
    for place in (path, defs_path(path)):
        os.chown(place, GONE_USER, GONE_USER)

    recovered(path, out)

    assert path.exists()
    assert defs_path(path).exists()


def test_running_ring_keeps_its_recording_where_a_stranger_took_the_place_of_the_note(
    path: Path, tmp_path: Path
) -> None:
    writer = Writer(path)
    writer.graph(10)
    bait = tmp_path / "mine.json"
    bait.write_text("{}")
    hostile_rings.note(path).symlink_to(bait)
    settings = resolve({}, None, {}).settings

    recorder = Recorder.begin(path, tmp_path / "out.bin.partial", settings)
    n = recorder.poll()
    recorder.finish()
    recorder.remove()

    assert n == 40
    assert bait.read_text() == "{}"
    assert hostile_rings.note(path).is_symlink()
    assert not recorder.folder.exists()
    writer.close()
