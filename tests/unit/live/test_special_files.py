"""Whatever stands in the place of a ring or its files, a viewer goes on at once."""

import os
import struct
from pathlib import Path

import pytest

import hostile_rings
from ggscope.errors import LiveError
from ggscope.live.open_source import follow, path_to_follow, rings
from ggscope.live.recording_folder import note_path
from ggscope.live.recording_store import save_recording
from ggscope.live.ring import Ring, defs_of
from ggscope_capture.ring_format import FrameType
from hostile_rings import FOLDER_FILES, HARMS, Harm, replaced
from ring_writer import Writer, frame, text

pytestmark = [
    pytest.mark.skipif(
        not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
    ),
    pytest.mark.timeout(60),
]


def followed(path: Path) -> tuple[int, str]:
    """Follow what is at a path, and let go; return how many records came, and why not.

    A trace that grows is copied, too.
    """
    why = ""
    try:
        source = follow(path)
    except LiveError as error:
        return 0, str(error)
    try:
        source.poll()
        source.snapshot()
        recording = source.status().recording
        if recording.n_bytes >= 0:
            save_recording(
                recording, path.with_name("copy"), lambda *_: None, lambda: None
            )
    except LiveError as error:
        why = str(error)
    finally:
        source.close()
        source.forget()
    return source.status().records, why


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("place", [lambda path: path, defs_of, note_path])
def test_file_of_another_kind_ends_nothing(
    place, harm: Harm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    path = tmp_path / "ggscope-4000000001-abc"
    writer = Writer(path)
    writer.graph(10)
    replaced(place(path), harm)

    is_ring = place(path) != path
    assert (path in rings()) == is_ring
    assert (path_to_follow("4000000001") == path) == is_ring
    n, why = followed(path)
    assert n == 40 * is_ring
    assert "Errno" not in why
    writer.close()


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", FOLDER_FILES)
def test_recording_with_a_file_of_another_kind_ends_nothing(
    name: str, harm: Harm, path: Path, tmp_path: Path
) -> None:
    writer = Writer(path)
    writer.graph(10)
    identity = bytes(writer.control["identity"][0]).hex()
    folder = hostile_rings.recording(tmp_path / "run.partial", path, identity)
    hostile_rings.write_note(path, folder, identity)
    replaced(folder / name, harm)

    assert followed(path) == (40, "")
    writer.control["reader_pid"] = os.getppid()  # as if another process owned it
    assert followed(path) == (40, "")
    writer.close()


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", ["grows.ggmlviz", "grows.bin"])
def test_growing_file_of_another_kind_ends_nothing(
    name: str, harm: Harm, tmp_path: Path
) -> None:
    harm(tmp_path / name)

    n, why = followed(tmp_path / name)

    assert n == 0
    assert "Errno" not in why


def test_growing_file_may_be_named_by_a_link(tmp_path: Path) -> None:
    """A person names it, unlike a ring, which is looked for."""
    samples = Path(__file__).parents[3] / "resources" / "samples"
    (tmp_path / "run.ggmlviz").symlink_to(samples / "llama.ggmlviz")

    n, why = followed(tmp_path / "run.ggmlviz")

    assert n > 0
    assert why == ""
    assert (tmp_path / "copy").stat().st_size > 0


@pytest.mark.parametrize("harm", HARMS)
def test_model_of_another_kind_ends_nothing(
    harm: Harm, path: Path, tmp_path: Path
) -> None:
    """Its path is the program's word."""
    writer, model = Writer(path), tmp_path / "model.gguf"
    harm(model)
    with defs_of(path).open("ab") as file:
        head = struct.pack("<IIQQ", 0, 1, 4096, 1 << 20)
        file.write(frame(FrameType.MODEL, head + text(str(model))))
    writer.graph(10)

    assert followed(path) == (40, "")
    writer.close()


def test_ring_of_terabytes_that_were_never_written_is_refused(path: Path) -> None:
    writer = Writer(path)
    writer.control["lane_capacity"] = 1 << 22
    writer.lanes["head"] = 1 << 22
    writer.close()
    os.truncate(path, 6 << 30)

    with pytest.raises(OSError, match="hardly any"):
        Ring(path)
    os.truncate(path, 9 << 30)
    with pytest.raises(LiveError, match="is damaged"):
        Ring(path)
