"""Regular files, opened safely where others may have put something else.

Beside a ring, and in a folder that came from elsewhere, a name may be that of a pipe,
a link, a device or a file of any length. Opening one here never waits, follows no
link unless asked to, and reads no more than the caller allows.
"""

import errno
import json
import os
import pwd
import stat
from pathlib import Path
from typing import Any, BinaryIO

_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_SPARSE_BYTES = 1 << 26
"""Files up to this length are read whatever of them was written."""
_SPARSE_RATIO = 16
_MAX_EXTENTS = 1 << 16


def open_regular(
    path: Path | str,
    flags: int = os.O_RDONLY,
    *,
    folder: int | None = None,
    follows_links: bool = False,
    is_own: bool = False,
) -> int:
    """Return a descriptor of a regular file; one that is made is for its owner only.

    Parameters
    ----------
    folder : descriptor of the folder that `path` is a name in; None = any path.
    follows_links : whether the file may be one that a link leads to.
    is_own : whether it has to be this user's, and without another name elsewhere.

    Raises
    ------
    OSError
        If it cannot be opened, or is no such file.
    """
    try:
        status = os.stat(path, dir_fd=folder, follow_symlinks=follows_links)
        _check(status, path, is_own=is_own)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    flags |= _FLAGS | (0 if follows_links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        _check(os.fstat(descriptor), path, is_own=is_own)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def open_for_reading(path: Path | str, *, follows_links: bool = False) -> BinaryIO:
    """Return a regular file, open; raises OSError."""
    return os.fdopen(open_regular(path, follows_links=follows_links), "rb")


def read_regular(
    path: Path | str,
    max_bytes: int | None = None,
    *,
    folder: int | None = None,
    follows_links: bool = False,
    is_own: bool = False,
) -> bytes:
    """Return the content of a regular file; see `open_regular`.

    Parameters
    ----------
    max_bytes : a longer file is refused; None = any length, but not of a file of which
        hardly anything was ever written.

    Raises
    ------
    OSError
        If it cannot be read, or is no regular file or too long.
    """
    descriptor = open_regular(
        path, folder=folder, follows_links=follows_links, is_own=is_own
    )
    try:
        return _content(descriptor, path, max_bytes)
    finally:
        os.close(descriptor)


def read_json(
    path: Path | str,
    max_bytes: int,
    *,
    folder: int | None = None,
    is_own: bool = False,
) -> dict[str, Any]:
    """Return the JSON object that a small regular file holds.

    Raises
    ------
    OSError
        As `read_regular`.
    ValueError
        If it holds anything else.
    """
    content = read_regular(path, max_bytes, folder=folder, is_own=is_own)
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if isinstance(value, dict):
        return value
    raise ValueError("not an object")


def is_own_file(path: Path) -> bool:
    """Return whether a path is that of a regular file of this user, and of no link."""
    try:
        _check(os.lstat(path), path, is_own=True)
    except OSError:
        return False
    return True


def other_owner(path: Path) -> str:
    """Return the name of another user that a file is of; "" where it is one's own."""
    try:
        uid = os.lstat(path).st_uid
    except OSError:
        return ""
    if uid == os.geteuid():
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def check_written(descriptor: int, path: Path | str, n_bytes: int) -> None:
    """Refuse to read so many bytes of an open file that hardly has any.

    A file of terabytes may take no room on the disk, and would take it in memory.

    Raises
    ------
    OSError
        If less than a sixteenth of that was ever written.
    """
    if n_bytes <= _SPARSE_BYTES:
        return
    size = os.fstat(descriptor).st_size
    if written_bytes(descriptor, size) < n_bytes // _SPARSE_RATIO:
        raise OSError(
            errno.EFBIG, f"{n_bytes} bytes long, but hardly any were written", str(path)
        )


def written_bytes(descriptor: int, size: int) -> int:
    """Return how many bytes of an open file lie on the disk, without its holes.

    All where the system does not say.
    """
    at = total = 0
    for _ in range(_MAX_EXTENTS):
        try:
            begin = os.lseek(descriptor, at, os.SEEK_DATA)
            at = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            return total if error.errno == errno.ENXIO else size
        total += at - begin
        if at >= size:
            break
    return total


def _content(descriptor: int, path: Path | str, max_bytes: int | None) -> bytes:
    size = os.fstat(descriptor).st_size
    if max_bytes is not None and size > max_bytes:
        raise OSError(errno.EFBIG, f"longer than {max_bytes} bytes", str(path))
    if max_bytes is None:
        check_written(descriptor, path, size)
    parts, at = [], 0
    while at < size and (part := os.pread(descriptor, min(size - at, 1 << 30), at)):
        parts.append(part)
        at += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _check(status: os.stat_result, path: Path | str, *, is_own: bool) -> None:
    """Raise OSError where this is no regular file, or not one's own as it has to be."""
    name = str(path)
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "a link, which is not followed", name)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder", name)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "neither a file nor a folder", name)
    if is_own and status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "the file of another user", name)
    if is_own and status.st_nlink != 1:
        raise PermissionError(errno.EPERM, "a file with several names", name)
