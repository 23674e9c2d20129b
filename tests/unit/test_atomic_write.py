"""The one writer: whole or not at all, whatever is in the way and whoever kills it."""

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ggscope import atomic_write
from ggscope.atomic_write import check_target, locked, recover, write_file, write_files
from ggscope.errors import WriteError
from support import small_files

NOBODY = 65_534
STALE = ".ggscope-0123456789abcdef"


@pytest.fixture
def as_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in `tmp_path` as somebody whom permissions hold; root is not held."""
    monkeypatch.chdir(tmp_path)
    if os.geteuid() != 0:
        yield
        return
    os.chown(tmp_path, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, 0)
    yield
    os.setresuid(0, 0, 0)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_new_file_has_what_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "a.png", b"new")
    finally:
        os.umask(before)

    assert (tmp_path / "a.png").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "a.png").stat().st_mode) == 0o640
    assert names(tmp_path) == ["a.png"]


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_replaced_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "a.png"
    target.write_bytes(b"old")
    target.chmod(mode)

    write_file(target, [b"n", b"ew"])

    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write for others")
def test_replaced_file_keeps_its_owner(tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    target.write_bytes(b"old")
    os.chown(target, NOBODY, NOBODY)

    write_file(target, b"new")

    assert target.stat().st_uid == target.stat().st_gid == NOBODY


def test_present_file_is_refused_unless_it_may_be_replaced(tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    target.write_bytes(b"old")

    for refuse in (
        check_target,
        lambda t, overwrite: write_file(t, b"x", overwrite=False),
    ):
        with pytest.raises(WriteError, match=r"exists already.*--force"):
            refuse(target, overwrite=False)

    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["a.png"]


def test_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "a.png"

    def pieces() -> Iterator[bytes]:
        target.write_bytes(b"somebody's")
        yield b"mine"

    with pytest.raises(WriteError, match="exists already"):
        write_file(target, pieces(), overwrite=False)

    assert target.read_bytes() == b"somebody's"
    assert names(tmp_path) == ["a.png"]


@pytest.mark.parametrize(
    "name",
    ["x" * 251 + ".png", "ü" * 125 + ".png", "日" * 83],
    ids=["ascii", "umlauts", "kanji"],
)
def test_name_as_long_as_the_system_allows_is_written(
    tmp_path: Path, name: str
) -> None:
    write_file(tmp_path / name, b"new")
    write_file(tmp_path / name, b"newer")

    assert (tmp_path / name).read_bytes() == b"newer"


def test_longer_name_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="the name is too long") as caught:
        write_file(tmp_path / ("x" * 252 + ".png"), b"new")

    assert "Choose a shorter name" in str(caught.value)
    assert names(tmp_path) == []


def test_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "b.png", tmp_path / "a.png"
    target.write_bytes(b"old")
    link.symlink_to("far/b.png")

    with pytest.raises(WriteError, match=r"is a link.*--force"):
        write_file(link, b"new", overwrite=False)
    assert target.read_bytes() == b"old"
    write_file(link, b"new")

    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_link_that_leads_nowhere_is_a_present_one(tmp_path: Path) -> None:
    link = tmp_path / "a.png"
    link.symlink_to("b.png")

    with pytest.raises(WriteError, match="is a link"):
        write_file(link, b"new", overwrite=False)
    assert names(tmp_path) == ["a.png"]
    write_file(link, b"new")

    assert link.is_symlink()
    assert (tmp_path / "b.png").read_bytes() == b"new"


def test_links_that_form_a_loop_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").symlink_to("b.png")
    (tmp_path / "b.png").symlink_to("a.png")

    with pytest.raises(WriteError, match="form a loop"):
        write_file(tmp_path / "a.png", b"new")


def test_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "a.png"
    os.mkfifo(pipe)
    with pytest.raises(WriteError, match=r"is a pipe.*--force"):
        write_file(pipe, b"x", overwrite=False)
    with pytest.raises(WriteError, match="no program reads this pipe"):
        write_file(pipe, b"x")

    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(_drained(reader, 300_000)))
    thread.start()
    write_file(pipe, b"x" * 300_000)
    thread.join()
    os.close(reader)

    assert got == [b"x" * 300_000]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert names(tmp_path) == ["a.png"]


def _drained(reader: int, n_bytes: int) -> bytes:
    """Read so many bytes; before a writer is there, a pipe looks ended."""
    got = b""
    while len(got) < n_bytes:
        part = os.read(reader, 1 << 16)
        got += part
        if not part:
            time.sleep(0.001)
    return got


@pytest.mark.parametrize("name", ["/dev/null", "/dev/full"])
def test_device_is_never_replaced(tmp_path: Path, name: str) -> None:
    if not Path(name).is_char_device():
        pytest.skip(f"this system has no {name}")
    link = tmp_path / "a.png"
    link.symlink_to(name)
    before = os.stat(name)

    if name == "/dev/full":
        with pytest.raises(WriteError, match="the disk is full"):
            write_file(link, b"new")
    else:
        write_file(link, b"new")

    assert os.path.samestat(os.stat(name), before)


def test_folder_and_socket_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    server = socket.socket(socket.AF_UNIX)
    folder = os.open(tmp_path, os.O_RDONLY)  # its path may be too long for a socket
    server.bind(f"/proc/self/fd/{folder}/s.png" if sys.platform == "linux" else "s.png")

    with pytest.raises(WriteError, match="it is a folder"):
        write_file(tmp_path / "folder.png", b"new", overwrite=False)
    with pytest.raises(WriteError, match="neither a file nor a pipe"):
        write_file(tmp_path / "s.png", b"new")

    server.close()
    os.close(folder)
    assert names(tmp_path) == ["folder.png", "s.png"]


def test_output_of_the_command_itself_is_refused(tmp_path: Path) -> None:
    code = (
        "from ggscope.atomic_write import write_file\n"
        "try: write_file('out.png', b'x')\n"
        "except Exception as error: print(error, flush=True)"
    )
    with (tmp_path / "out.png").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True,
                       cwd=tmp_path)  # fmt: skip

    text = (tmp_path / "out.png").read_text()
    assert "where the output of this command goes" in text


@pytest.mark.parametrize("is_there", [False, True])
def test_full_disk_keeps_what_was_there(tmp_path: Path, is_there: bool) -> None:
    target = tmp_path / "a.png"
    if is_there:
        target.write_bytes(b"old")

    failing = pytest.raises(WriteError, match=r"cannot be written.*size limit")
    with small_files(4_000), failing as caught:
        write_file(target, [b"x" * 3_000] * 2)

    assert ("What was there is unchanged" in str(caught.value)) == is_there
    assert names(tmp_path) == (["a.png"] if is_there else [])
    assert not is_there or target.read_bytes() == b"old"


def test_failing_content_leaves_no_trace(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a.png", pieces())
    with pytest.raises(KeyboardInterrupt):
        write_files(tmp_path / "set", [("a", pieces())])

    assert names(tmp_path) == []


def test_missing_folder_is_reported(tmp_path: Path) -> None:
    for write in (write_file, lambda t, _: check_target(t, overwrite=False)):
        with pytest.raises(WriteError, match=r"no such folder.*No such file"):
            write(tmp_path / "no" / "a.png", b"new")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteError, match="not a folder"):
        write_file(tmp_path / "file" / "a.png", b"new")


def test_folder_and_file_that_may_not_be_written_are_reported(
    tmp_path: Path, as_nobody: None
) -> None:
    Path("locked").mkdir()
    Path("locked/old.png").write_bytes(b"old")
    Path("locked").chmod(0o555)
    Path("mine.png").write_bytes(b"old")
    Path("mine.png").chmod(0o444)

    for name in ("locked/new.png", "locked/old.png", "mine.png"):
        with pytest.raises(WriteError, match="you may not write there"):
            write_file(name, b"new")
    with pytest.raises(WriteError, match="you may not write there"):
        check_target("locked/new.png", overwrite=False)
    with pytest.raises(WriteError, match="you may not write there"):
        write_files("locked/set", [("a", [b"x"])])

    assert Path("locked/old.png").read_bytes() == Path("mine.png").read_bytes()
    Path("locked").chmod(0o755)
    assert names(Path("locked")) == ["old.png"]


def test_set_makes_its_folders(tmp_path: Path) -> None:
    write_files(tmp_path / "a" / "b", [("1", [b"x", b"y"]), ("2", [])])

    assert (tmp_path / "a" / "b" / "1").read_bytes() == b"xy"
    assert names(tmp_path / "a" / "b") == ["1", "2"]
    assert names(tmp_path / "a") == ["b"]


def test_set_replaces_all_or_nothing(tmp_path: Path) -> None:
    for name in "12":
        (tmp_path / name).write_bytes(b"old")
    (tmp_path / "1").chmod(0o600)

    with small_files(4_000), pytest.raises(WriteError, match="2 cannot be written"):
        write_files(tmp_path, [("1", [b"new"]), ("2", [b"x" * 9_000])])
    with pytest.raises(WriteError, match="exists already"):
        write_files(tmp_path, [("0", [b"new"]), ("2", [b"new"])], overwrite=False)
    values = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_files(tmp_path, [(name, [b"new"]) for name in "123"])

    assert values == {"1": b"old", "2": b"old"}
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"new"}
    assert names(tmp_path) == ["1", "2", "3"]
    assert stat.S_IMODE((tmp_path / "1").stat().st_mode) == 0o600


def test_set_that_fails_leaves_not_even_a_folder(tmp_path: Path) -> None:
    with small_files(4_000), pytest.raises(WriteError):
        write_files(tmp_path / "a" / "b", [("1", [b"x" * 9_000])])

    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_link_or_pipe_cannot_be_one_file_of_a_set(tmp_path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / "2")
    else:
        (tmp_path / "2").symlink_to("3")

    with pytest.raises(WriteError, match="cannot be one file of several"):
        write_files(tmp_path, [("1", [b"x"]), ("2", [b"x"])])

    assert names(tmp_path) == ["2"]


def test_leavings_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    (tmp_path / f"{STALE}.tmp").write_bytes(b"half")
    staging = tmp_path / ".ggscope-fedcba9876543210.tmp"
    staging.mkdir()
    (staging / "token-00000.json").write_bytes(b"half")
    others = [".ggscope-notes.tmp", ".ggscope-0123456789abcdef.tmp.txt", "a.part"]
    for name in others:
        (tmp_path / name).write_bytes(b"somebody's")
    alive: list[str] = []

    def pieces() -> Iterator[bytes]:
        before = set(names(tmp_path))
        write_file(tmp_path / "b.png", b"in between")
        alive.extend(n for n in before if n.startswith(".ggscope-") and n[9:10] != "n")
        yield b"new"

    write_file(tmp_path / "a.png", pieces())

    assert len(alive) == 2  # its own, and what is no name of ours
    assert names(tmp_path) == sorted([*others, "a.png", "b.png"])


def test_link_named_like_a_temporary_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / f"{STALE}.tmp").symlink_to("kept")

    write_file(tmp_path / "a.png", b"new")

    assert names(tmp_path) == [f"{STALE}.tmp", "a.png", "kept"]


def test_folder_of_a_dead_writer_goes_without_what_others_put_there(
    tmp_path: Path,
) -> None:
    """An archive that was unpacked here may hold a folder of such a name."""
    staging, mine = tmp_path / f"{STALE}.tmp", tmp_path / "mine"
    for folder in (staging / "below", mine):
        folder.mkdir(parents=True)
        (folder / "1.tex").write_bytes(b"words")
    (staging / "half").write_bytes(b"half")
    (staging / "link").symlink_to(mine)

    write_file(tmp_path / "a.png", b"new")

    assert names(staging) == ["below", "link"]
    assert names(staging / "below") == ["1.tex"]
    assert names(mine) == ["1.tex"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write for others")
def test_leavings_of_other_users_stay(tmp_path: Path) -> None:
    staging, half = (
        tmp_path / f"{STALE}.tmp",
        tmp_path / ".ggscope-fedcba9876543210.tmp",
    )
    staging.mkdir()
    for path in (staging / "1", half):
        path.write_bytes(b"theirs")
    for path in (staging, half):
        os.chown(path, NOBODY, NOBODY)

    write_file(tmp_path / "a.png", b"new")

    assert names(tmp_path) == sorted([staging.name, half.name, "a.png"])
    assert names(staging) == ["1"]


def test_complete_set_of_the_dead_never_replaces_unasked(tmp_path: Path) -> None:
    complete = tmp_path / f"{STALE}.set"
    complete.mkdir()
    for name in ("1", "2", "3"):
        (complete / name).write_bytes(b"set")
    for name, age in (("1", -10), ("2", 10)):
        (tmp_path / name).write_bytes(b"there")
        time = (tmp_path / name).stat().st_mtime + age
        os.utime(tmp_path / name, (time, time))

    write_file(tmp_path / "a.png", b"new")
    untouched = names(complete)
    recover(tmp_path, finishes=True)
    unasked = {n: (tmp_path / n).read_bytes() for n in "123"}
    recover(tmp_path, finishes=True, overwrite=True)

    assert untouched == ["1", "2", "3"]
    assert unasked == {"1": b"there", "2": b"there", "3": b"set"}
    assert (tmp_path / "1").read_bytes() == b"set"
    assert (tmp_path / "2").read_bytes() == b"there"  # changed after the set
    assert not complete.exists()


def test_lock_keeps_others_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_write, "LOCK_TIMEOUT_S", 0.01)

    with (
        locked(tmp_path),
        pytest.raises(WriteError, match="another ggscope"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        write_file(tmp_path / "a", b"x")

    assert names(tmp_path) == ["a"]


SWEEP = """
import errno, os, shutil, signal, sys
from pathlib import Path
from ggscope.atomic_write import recover, write_file, write_files

os.fsync = lambda handle: None  # what a killed process wrote, the system still has
what, home = sys.argv[1], Path(sys.argv[2])
STEPS = ("open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir",
         "os.chmod", "fcntl.flock", "os.scandir")

def prepare(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if what == "replaced":
        (folder / "a").write_bytes(b"old" * 999)
    if what == "old set":
        (folder / "out").mkdir()
        for name in "123":
            (folder / "out" / name).write_bytes(b"old")
    if what == "set beside":
        (folder / "out").mkdir()

def write(folder):
    if what in ("new", "replaced"):
        write_file(folder / "a", b"new" * 999, overwrite=what == "replaced")
    else:
        files = [(name, [b"new"]) for name in "123"]
        write_files(folder / "out", files, overwrite=what == "old set")

def state(folder):
    return {str(p.relative_to(folder)): p.read_bytes()
            for p in folder.rglob("*") if p.is_file()}

def killed_at(number, folder):
    '''Run `write` in a process that is killed at its step of this number.'''
    pid = os.fork()
    if pid == 0:
        count = 0
        def hook(event, arguments):
            nonlocal count
            if event in STEPS:
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        write(folder)
        os._exit(0)
    return os.waitpid(pid, 0)[1] != 0

folder = home / "work"
prepare(folder)
before = state(folder)
write(folder)
after = state(folder)
number, seen = 1, set()
while True:
    prepare(folder)
    if not killed_at(number, folder):
        break
    shown = {k: v for k, v in state(folder).items() if ".ggscope-" not in k}
    assert what in ("old set", "set beside") or shown in (before, after), shown
    # The next run finds out: nothing of ours is left, and the set is whole again.
    write_file(folder / "later", b"x")
    recover(folder / "out", finishes=True, overwrite=what == "old set")
    (folder / "later").unlink()
    found = state(folder)
    assert found in (before, after), (number, found)
    seen.add(found == after)
    number += 1
assert seen == {False, True}, seen
print(number - 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "what", ["new", "replaced", "new set", "old set", "set beside"]
)
def test_kill_at_any_step_leaves_old_or_new(tmp_path: Path, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, what, str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 5


def test_content_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, bool]] = []
    real = os.fsync

    def sync(handle: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        seen.append((is_folder, (tmp_path / "a.png").exists()))
        real(handle)

    monkeypatch.setattr(os, "fsync", sync)

    write_file(tmp_path / "a.png", b"new")

    assert seen == [(False, False), (True, True)]


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM,
     errno.EIO, errno.ENXIO, errno.EPIPE],
    ids=errno.errorcode.get,
)  # fmt: skip
def test_reason_of_the_system_is_given_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(WriteError) as caught:
        write_file(tmp_path / "a.png", b"new")

    # In brackets, behind the reason in plain words.
    assert f"({os.strerror(number)})" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
