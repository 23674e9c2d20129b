"""Processes of this machine: whether one runs, what it has mapped, who writes a file.

Linux has it below ``/proc``, of one's own processes; elsewhere less is known. A
process may end at any moment: what cannot be read is not there.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_MAX_BYTES = 1 << 24
"""So much of a process's list of mappings, or of its environment, is read."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process, distinguished from others that have its number later.

    Attributes
    ----------
    began : when it began, as the kernel counts; None where unknown.
    """

    pid: int
    name: str
    began: int | None

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})"

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return is_running(self.pid, self.began)


@dataclass(frozen=True, slots=True)
class MappedFile:
    """A file that a process has mapped; `is_written`: so that writing changes it."""

    path: str
    inode: int
    is_written: bool


def is_running(pid: int, began: int | None) -> bool:
    """Return whether a process is there, and no other one with its number."""
    return is_alive(pid) and (began is None or start_time(pid) in (None, began))


def is_alive(pid: int) -> bool:
    """Return whether there is such a process."""
    if not 0 < pid < 1 << 31:
        return False
    if os.name == "nt":  # there the signal would end it
        import psutil

        return bool(psutil.pid_exists(pid))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    return True


def start_time(pid: int) -> int | None:
    """Return when a process began, as the kernel counts; None where unknown.

    -1 for a zombie: it has ended, and its parent has not waited for it yet.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text("utf-8", "replace")
        fields = text.rpartition(")")[2].split()
        return -1 if fields[0] in {"Z", "X"} else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def process(pid: int) -> Process:
    """Return a process by its number; the name is that of its program's file."""
    try:
        name = (PROC / str(pid) / "exe").readlink().name
    except OSError:
        name = ""
    return Process(pid, name or "a program", start_time(pid))


def own_pids() -> Iterator[int]:
    """Yield the numbers of the user's processes, without this one.

    Yields none where there is no ``/proc``.
    """
    try:
        names = os.listdir(PROC)
    except OSError:
        return
    for name in names:
        if name.isdecimal() and int(name) != os.getpid():
            try:
                if (PROC / name).stat().st_uid == os.getuid():
                    yield int(name)
            except OSError:
                continue


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    import psutil  # takes a while

    try:
        return [each.pid for each in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def mapped_files(pid: int) -> tuple[MappedFile, ...]:
    """Return the files that a process has mapped, each once."""
    files: dict[tuple[str, int], bool] = {}
    for line in _read(pid, "maps").splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith(b"/"):
            key = os.fsdecode(fields[5]), int(fields[4])
            is_written = fields[1][1:2] == b"w" and fields[1][3:4] == b"s"
            files[key] = files.get(key, False) or is_written
    return tuple(MappedFile(*key, is_written) for key, is_written in files.items())


def environment(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; {} = not known."""
    pairs = (os.fsdecode(item) for item in _read(pid, "environ").split(b"\0"))
    return {
        name: value for name, sign, value in (p.partition("=") for p in pairs) if sign
    }


def working_folder(pid: int) -> Path | None:
    """Return the folder that a process is in; None = not known."""
    try:
        return (PROC / str(pid) / "cwd").readlink()
    except OSError:
        return None


def writers_of(path: Path) -> tuple[Process, ...]:
    """Return the processes that have a file open, or mapped, for writing."""
    try:
        status = path.stat()
        full = str(path.resolve())
    except OSError:
        return ()
    return tuple(
        process(pid) for pid in own_pids() if is_open_for_writing(pid, full, status)
    )


def written_files(pid: int) -> tuple[str, ...]:
    """Return the files that a process has open for writing."""
    folder, files = PROC / str(pid), []
    try:
        numbers = os.listdir(folder / "fd")
    except OSError:
        return ()
    for number in numbers:
        try:
            path = os.readlink(folder / "fd" / number)
        except OSError:
            continue
        if path.startswith("/") and _opened_to_write(folder, number):
            files.append(path)
    return tuple(files)


def is_open_for_writing(pid: int, full: str, status: os.stat_result) -> bool:
    """Return whether a process has a file open, or mapped, for writing.

    Parameters
    ----------
    full : its path without links.
    """
    # Not every file system has the same device number in the list of mappings.
    if any(
        file.is_written and file.inode == status.st_ino and file.path == full
        for file in mapped_files(pid)
    ):
        return True
    folder = PROC / str(pid)
    try:
        numbers = os.listdir(folder / "fd")
    except OSError:
        return False
    return any(_is_written(folder, number, status) for number in numbers)


def _is_written(folder: Path, number: str, status: os.stat_result) -> bool:
    try:
        other = os.stat(folder / "fd" / number)
    except OSError:
        return False
    if (other.st_dev, other.st_ino) != (status.st_dev, status.st_ino):
        return False
    return _opened_to_write(folder, number)


def _opened_to_write(folder: Path, number: str) -> bool:
    try:
        text = (folder / "fdinfo" / number).read_text("ascii", "replace")
    except OSError:
        return False
    flags = next((w for w in text.splitlines() if w.startswith("flags:")), "flags: 0")
    return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY


def _read(pid: int, name: str) -> bytes:
    """Return what a file of a process holds; nothing where it cannot be read."""
    try:
        with (PROC / str(pid) / name).open("rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""
