"""What a viewer removes is what viewers made: no file that came to it says what."""

import json
import os
from pathlib import Path

import pytest

import hostile_rings
from ggscope.live import recording_store
from ggscope.live.program import ProgramSource
from ggscope.live.recording_folder import note_path
from ggscope.live.recording_store import RecordingWriter
from hostile_rings import CASES, CASES_OF_ROOT, GONE_USER, Case, content_of, own_folder
from ring_writer import Writer

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)
need_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(case, marks=need_root) for case in CASES_OF_ROOT)],
)
def test_nothing_of_a_person_goes_with_a_ring_that_was_followed(
    case: Case, tmp_path: Path
) -> None:
    path = tmp_path / "rings" / "crash.ring"
    path.parent.mkdir()
    writer = Writer(path)
    writer.graph(10)
    identity = bytes(writer.control["identity"][0]).hex()
    mine = case(tmp_path / "home", path, identity)
    before = content_of(mine)
    source = ProgramSource(path)

    source.poll()
    status = source.status()
    source.close()
    source.forget()
    path.unlink()
    RecordingWriter(
        tmp_path / "other", bytes(16)
    ).remove()  # it looks for what others left

    assert status.records == 40
    assert content_of(mine) == before
    writer.close()


def test_following_leaves_nothing_where_a_link_stands_for_the_note(
    source: ProgramSource, path: Path, tmp_path: Path
) -> None:
    writer, bait = Writer(path), tmp_path / "mine.json"
    bait.write_text("{}")
    note_path(path).symlink_to(bait)
    writer.graph(10)

    source.poll()
    folder = source.status().recording.place
    source.close()
    source.forget()

    assert folder is not None
    assert not folder.exists()
    assert bait.read_text() == "{}"
    assert note_path(path).is_symlink()
    writer.close()


def test_only_recordings_are_swept_away(tmp_path: Path) -> None:
    """Whoever may write to the folder for all could have left any other."""
    gone = tmp_path / "gone.ring"
    mine = own_folder(tmp_path / "home")
    (tmp_path / "ggscope-kept-1.partial").symlink_to(mine)
    plain = own_folder(tmp_path / "ggscope-kept-2.partial", str(gone))
    mixed = hostile_rings.recording(
        tmp_path / "ggscope-kept-3.partial", gone, "ab" * 16
    )
    (mixed / "thesis.tex").write_text("words")
    left = hostile_rings.recording(tmp_path / "ggscope-kept-4.partial", gone, "ab" * 16)
    before = content_of(mine), content_of(plain)

    recording_store.sweep_recordings(tmp_path)

    assert (content_of(mine), content_of(plain)) == before
    assert content_of(mixed) == {"thesis.tex": b"words"}
    assert not left.exists()


@need_root
def test_what_viewers_of_others_left_is_not_swept_away(tmp_path: Path) -> None:
    theirs = hostile_rings.recording(
        tmp_path / "ggscope-kept-1.partial", tmp_path / "gone.ring", "ab" * 16
    )
    for path in (theirs, *theirs.iterdir()):
        os.chown(path, GONE_USER, GONE_USER)
    before = content_of(theirs)

    recording_store.sweep_recordings(tmp_path)

    assert content_of(theirs) == before


def test_note_of_another_ring_stays(source: ProgramSource, path: Path) -> None:
    """The ring was made anew, and its new reader has said where."""
    writer = Writer(path)
    writer.graph(10)
    source.poll()
    data = json.loads(note_path(path).read_bytes()) | {"identity": "cd" * 16}
    note_path(path).write_text(json.dumps(data))

    source.close()
    source.forget()

    assert json.loads(note_path(path).read_bytes()) == data
    writer.close()
