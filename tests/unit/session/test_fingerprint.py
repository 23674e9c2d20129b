"""Fingerprints of files: the same content, wherever it lies, and growth."""

import os
from pathlib import Path

import pytest

from ggscope.session.bookmarks.fingerprint import fingerprint, is_of


def write(path: Path, size: int, seed: int = 1) -> Path:
    path.write_bytes(
        bytes((seed + i * 7) % 251 for i in range(1021)) * (size // 1021 + 1)
    )
    os.truncate(path, size)
    return path


@pytest.mark.parametrize("size", [0, 1, 4096, 100_000, (1 << 20) + 1, 5_000_000])
def test_copy_under_another_name_has_the_same(tmp_path: Path, size: int) -> None:
    first = write(tmp_path / "a", size)
    (tmp_path / "b").write_bytes(first.read_bytes())

    assert fingerprint(first) == fingerprint(tmp_path / "b")
    assert is_of(tmp_path / "b", fingerprint(first))


@pytest.mark.parametrize("size", [100_000, 5_000_000])
@pytest.mark.parametrize("at", [0, -1])
def test_changed_end_or_beginning_has_another(
    tmp_path: Path, size: int, at: int
) -> None:
    path = write(tmp_path / "a", size)
    before = fingerprint(path)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)

    assert fingerprint(path) != before
    assert not is_of(path, before)


def test_file_that_grew_is_known_by_what_it_held(tmp_path: Path) -> None:
    path = write(tmp_path / "a", 50_000)
    before = fingerprint(path)
    with path.open("ab") as file:
        file.write(b"more")

    assert fingerprint(path) != before
    assert fingerprint(path).head == before.head
    assert is_of(path, before)
    os.truncate(path, 40_000)
    assert not is_of(path, before)


def test_hundred_gigabytes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"head")
    os.truncate(path, 100 << 30)  # takes no room: a hole

    assert fingerprint(path).size == 100 << 30


def test_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    for path in (tmp_path, pipe, tmp_path / "missing"):
        with pytest.raises(OSError):  # noqa: PT011 - the system's words
            fingerprint(path)
