"""Files are whole or not there, and what a killed process left goes."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ggscope import atomic_write
from ggscope_capture import files

STALE = ".ggscope-0123456789abcdef.tmp"
NOBODY = 65_534
WRITES = """
import sys
from pathlib import Path
from ggscope_capture import files
with files.replacing(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half")
    print(temporary, flush=True)
    sys.stdin.readline()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def started(target: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that has written half of a file; return it and that file."""
    arguments = [sys.executable, "-c", WRITES, str(target)]
    pipe = subprocess.PIPE
    child = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True)
    assert child.stdout is not None
    return child, Path(child.stdout.readline().strip())


@pytest.mark.parametrize("write", [files.write, atomic_write.write_file])
def test_file_of_a_killed_process_goes_with_the_next_writing_of_either(
    write, tmp_path: Path
) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"whole")
    child, temporary = started(target)
    assert temporary.read_bytes() == b"half"

    write(tmp_path / "other", b"meanwhile")
    was_there = temporary.exists()
    with child:
        child.send_signal(signal.SIGKILL)
    left = names(tmp_path)
    write(tmp_path / "other", b"after it")

    assert was_there
    assert left == sorted([temporary.name, "other", "out.bin"])
    assert names(tmp_path) == ["other", "out.bin"]
    assert target.read_bytes() == b"whole"


@pytest.mark.parametrize("write", [files.write, atomic_write.write_file])
def test_living_process_comes_to_its_end(write, tmp_path: Path) -> None:
    child, temporary = started(tmp_path / "out.bin")
    write(tmp_path / "other", b"meanwhile")

    with child:
        child.communicate("\n")

    assert child.returncode == 0
    assert (tmp_path / "out.bin").read_bytes() == b"half"
    assert not temporary.exists()


def test_file_that_has_its_name_already_loses_the_temporary_one(
    tmp_path: Path,
) -> None:
    """The viewer gives a new file its name by a link, and may be killed then."""
    (tmp_path / "out.bin").write_bytes(b"whole")
    (tmp_path / STALE).hardlink_to(tmp_path / "out.bin")

    files.write(tmp_path / "other", b"after it")

    assert names(tmp_path) == ["other", "out.bin"]


def test_what_is_no_temporary_file_of_this_user_stays(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(b"words")
    link, folder, pipe = (tmp_path / f".ggscope-{c * 16}.tmp" for c in "abc")
    link.symlink_to(mine)
    folder.mkdir()
    os.mkfifo(pipe)
    (tmp_path / ".ggscope-notes.tmp").write_bytes(b"words")
    before = names(tmp_path)

    files.write(tmp_path / "other", b"new")

    assert names(tmp_path) == sorted([*before, "other"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_files_of_other_users_stay(tmp_path: Path) -> None:
    (tmp_path / STALE).write_bytes(b"half")
    os.chown(tmp_path / STALE, NOBODY, NOBODY)

    files.write(tmp_path / "other", b"new")

    assert names(tmp_path) == [STALE, "other"]


def test_lock_of_a_written_file_is_given_back(tmp_path: Path) -> None:
    files.write(tmp_path / "out.bin", b"new")

    with (tmp_path / "out.bin").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert (tmp_path / "out.bin").stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now
