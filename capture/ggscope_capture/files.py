"""Atomic writing of files: complete, or not at all.

A temporary file in the same folder is written, synced and renamed. Its writer locks it:
a killed process leaves an unlocked file behind, which the next writer in that folder
removes. The viewer does the same in its own module, because the two packages are
installed separately.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from ggscope_capture.regular_file import open_regular

_TEMPORARY = re.compile(r"\.ggscope-[0-9a-f]{16}\.tmp")


MAX_NAME_BYTES = 255
"""Of a file or folder, on the file systems that there are."""


def reason_of(error: OSError) -> str:
    """Return why a file cannot be used, in plain words."""
    if error.errno == errno.ENAMETOOLONG:
        return (
            f"the name is too long: a file or folder has {MAX_NAME_BYTES} bytes at "
            "most, a path 4,095"
        )
    return error.strerror or str(error)


@contextlib.contextmanager
def replacing(target: Path, *, follows_links: bool = True) -> Iterator[Path]:
    """Give a temporary path to write to; rename it to `target` at the end.

    What was there stays as it was until the new content is complete, and for good
    where the body raises. A link stays, and the file it leads to is replaced, unless
    `follows_links` is false. Folders above it are made.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    if follows_links:
        target = Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target.parent)
    temporary, descriptor = _temporary(target.parent)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        os.close(descriptor)


def write(target: Path, content: bytes, *, follows_links: bool = True) -> None:
    """Write `content` to a file, whole or not at all; raises OSError."""
    with replacing(target, follows_links=follows_links) as temporary:
        temporary.write_bytes(content)


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files that killed processes of this user left in a folder.

    A file that a process still writes is locked, and stays.
    """
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if _TEMPORARY.fullmatch(e.name)]
    except OSError:
        return
    for name in names:
        path = folder / name
        with contextlib.suppress(OSError):
            descriptor = open_regular(path)
            try:
                is_own = os.fstat(descriptor).st_uid == os.geteuid()
                if is_own and _lock(descriptor) and _is_still(path, descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)


def _temporary(folder: Path) -> tuple[Path, int]:
    """Create a locked temporary file; return its path and descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    while True:
        path = folder / f".ggscope-{secrets.token_hex(8)}.tmp"
        descriptor = os.open(path, flags, 0o666)
        _lock(descriptor)
        if _is_still(path, descriptor):  # else taken for a killed process's
            return path, descriptor
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file until it is closed; False where that cannot be."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    """Return whether a path still names the open file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
