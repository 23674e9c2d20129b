"""The folder of a recording, and the note beside the ring that names it.

Both are untrusted: a note that was downloaded with a ring can name any folder. A folder
is accepted as the recording of a ring only if it belongs to this user, has the name of
a recording, no link leads to it, and its marker file holds the identity of that very
ring. The files of a recording are removed one by one; no tree is ever removed.
"""

import contextlib
import errno
import hashlib
import json
import mmap
import os
import re
import secrets
import stat
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ggscope_capture import files
from ggscope_capture.regular_file import (
    check_written,
    open_regular,
    read_json,
    read_regular,
)

NOTE_SUFFIX = ".recording"
FOLDER_SUFFIX = ".partial"
MARKER = "identity"
"""The file in a folder that holds the identity of its ring."""
_FILES = ("records", "events", "facts", "control", "lanes", "definitions", "ring")
_HELD = ("records", "events", "definitions")
"""Files that a viewer may hold open after another process removed the recording."""
_OPEN_FILE = re.compile(r"/proc/[0-9]+/fd/[0-9]+")
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_TWIN_BYTES, _CUT_BYTES = 8, 160
_MAX_NOTE_BYTES = 1 << 14
_MAX_MARKER_BYTES = 64
_MAX_PATH_BYTES = 1 << 13


@dataclass(frozen=True, slots=True)
class Note:
    """What the note beside a ring says: the folder, and the identity of the ring."""

    folder: Path
    identity: str


class RecordingFolder:
    """An open folder of a recording; its files are opened by their names in it.

    Attributes
    ----------
    path : absolute; no link leads to it when it was made by `make`.
    """

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        """Open a folder; raises OSError where it is none, or a link.

        `is_new` : whether this process has just made it.
        """
        self.path = path
        self._is_new = is_new
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags)
        except OSError:
            if os.path.islink(path):
                reason = "a link, which is not followed"
                raise NotADirectoryError(errno.ENOTDIR, reason, str(path)) from None
            raise
        self._close = weakref.finalize(self, os.close, self._descriptor)
        if is_new and (not self._is_own() or os.listdir(self._descriptor)):
            raise FileExistsError(
                errno.EEXIST, "replaced by another process", str(path)
            )

    @classmethod
    def make(cls, path: Path) -> "RecordingFolder":
        """Make a folder of this name, or a like one where there is something.

        Raises
        ------
        OSError
            If it cannot be made.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        first = path = path.parent.resolve() / path.name
        while True:
            try:
                path.mkdir()
            except FileExistsError:
                if not path.is_dir():
                    raise
                stem = first.name.removesuffix(FOLDER_SUFFIX)
                path = first.with_name(f"{stem}.{secrets.token_hex(2)}{FOLDER_SUFFIX}")
            else:
                return cls(path, is_new=True)

    def close(self) -> None:
        """Close the folder; it may be called again."""
        self._close()

    def identity(self) -> str:
        """Return the identity of the ring that this program wrote here; "" = none."""
        with contextlib.suppress(OSError, UnicodeError):
            content = read_regular(
                MARKER, _MAX_MARKER_BYTES, folder=self._descriptor, is_own=True
            )
            text = content.decode("ascii")
            return text if _IDENTITY.fullmatch(text) else ""
        return ""

    def is_of(self, identity: str) -> bool:
        """Return whether this is the recording folder of a ring."""
        return (
            bool(identity)
            and self.path.name.endswith(FOLDER_SUFFIX)
            and os.path.realpath(self.path) == str(self.path)
            and self._is_own()
            and self.identity() == identity
        )

    def has(self, name: str) -> bool:
        """Return whether a file exists."""
        try:
            os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def open(self, name: str, flags: int) -> int:
        """Return a descriptor of a file in the folder.

        One that is written to must be this user's and have no other name.

        Raises
        ------
        OSError
            If it cannot be opened.
        """
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
        return open_regular(name, flags, folder=self._descriptor, is_own=writes)

    def read(self, name: str, max_bytes: int | None = None) -> bytes:
        """Return the content of a file; see `regular_file.read_regular`.

        What a viewer holds open of a removed recording is named by a link into
        ``/proc``; no other link is followed.
        """
        if name in _HELD:
            with contextlib.suppress(OSError):
                target = os.readlink(name, dir_fd=self._descriptor)
                if _OPEN_FILE.fullmatch(target):
                    return read_regular(target, max_bytes, follows_links=True)
        return read_regular(name, max_bytes, folder=self._descriptor)

    def map(self, name: str) -> bytes | mmap.mmap:
        """Return what a file holds now, mapped; nothing where it is missing or empty.

        Raises
        ------
        OSError
            As `read`.
        """
        try:
            descriptor = self._open_for_reading(name)
        except FileNotFoundError:
            return b""
        try:
            size = os.fstat(descriptor).st_size
            check_written(descriptor, name, size)
            if size == 0:
                return b""
            return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)

    def _open_for_reading(self, name: str) -> int:
        if name in _HELD:
            with contextlib.suppress(OSError):
                target = os.readlink(name, dir_fd=self._descriptor)
                if _OPEN_FILE.fullmatch(target):
                    return open_regular(target, follows_links=True)
        return open_regular(name, folder=self._descriptor)

    def read_json(self, name: str, max_bytes: int) -> dict[str, Any]:
        """Return the JSON object in a file; raises OSError or ValueError."""
        return read_json(name, max_bytes, folder=self._descriptor)

    def ring(self) -> Path | None:
        """Return the path of the ring that it names, or None."""
        with contextlib.suppress(OSError, ValueError):
            path = Path(os.fsdecode(self.read("ring", _MAX_PATH_BYTES)))
            return path if path.is_absolute() else None
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the recording anew, whole or not at all; raises OSError."""
        temporary = f"{name}.tmp"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self._descriptor)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = open_regular(temporary, flags, folder=self._descriptor)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(
            temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor
        )

    def append(self, name: str, parts: list[bytes]) -> None:
        """Write to the end of a file, which is made where it is missing."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(self.open(name, flags), "ab") as file:
            file.writelines(parts)

    def cut(self, name: str, n_bytes: int) -> None:
        """Truncate a file, if it exists; raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            descriptor = self.open(name, os.O_WRONLY)
            try:
                os.ftruncate(descriptor, n_bytes)
            finally:
                os.close(descriptor)

    def remove(self, identity: str) -> bool:
        """Remove the recording of a ring; return whether the folder is gone.

        A folder that this process has not made, and that is not the recording of that
        ring, stays as it is. Else the files of a recording go, one by one, and the
        folder if it holds nothing more.
        """
        if not self._is_new and not self.is_of(identity):
            return False
        for name in (*_FILES, MARKER):  # last what says whose they are
            for each in (f"{name}.tmp", name):
                with contextlib.suppress(OSError):
                    status = self._status(each)
                    mode = status.st_mode
                    is_file = stat.S_ISREG(mode) or stat.S_ISLNK(mode)
                    if is_file and status.st_uid == os.geteuid():
                        os.unlink(each, dir_fd=self._descriptor)
        with contextlib.suppress(OSError):
            if os.path.samestat(os.lstat(self.path), os.fstat(self._descriptor)):
                self.path.rmdir()
                return True
        return False

    def _is_own(self) -> bool:
        return os.fstat(self._descriptor).st_uid == os.geteuid()

    def _status(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)


def partial_of(target: Path) -> Path:
    """Return the recording folder of an output, beside it.

    A name that would be too long is cut, and distinguished from others by its hash.
    """
    name = f"{target.name}{FOLDER_SUFFIX}"
    if len(os.fsencode(name)) > files.MAX_NAME_BYTES - _TWIN_BYTES:
        digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
        first = os.fsencode(target.name)[:_CUT_BYTES].decode("utf-8", "ignore")
        name = f"{first}.{digest}{FOLDER_SUFFIX}"
    return target.with_name(name)


def read_note(path: Path | str, folder: int | None = None) -> Note | None:
    """Read a note; None if it is not a note of this user.

    `folder` : descriptor of the one that `path` is a name in.
    """
    try:
        content = read_json(path, _MAX_NOTE_BYTES, folder=folder, is_own=True)
    except (OSError, ValueError):
        return None
    place, identity = content.get("folder"), content.get("identity")
    if not isinstance(place, str) or not isinstance(identity, str):
        return None
    is_path = os.path.isabs(place) and "\0" not in place
    if not is_path or not _IDENTITY.fullmatch(identity):
        return None
    return Note(Path(place), identity)


def write_note(ring: Path, folder: Path, identity: str) -> bool:
    """Write the note beside a ring; return whether it was written.

    A foreign file in its place is left unchanged.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    place = _note_path(ring)
    if os.path.lexists(place) and read_note(place) is None:
        return False
    note = {"folder": str(folder), "pid": os.getpid(), "identity": identity}
    files.write(place, json.dumps(note).encode(), follows_links=False)
    return True


def folder_of(ring: Path, identity: str = "") -> RecordingFolder | None:
    """Open the recording folder of a ring; None = it has none.

    Parameters
    ----------
    identity : of the ring, in hexadecimal digits; "" = as the note says.
    """
    note = read_note(_note_path(ring))
    if note is None or identity not in ("", note.identity):
        return None
    try:
        folder = RecordingFolder(note.folder)
    except OSError:
        return None
    if folder.is_of(note.identity):
        return folder
    folder.close()
    return None


def _note_path(ring: Path) -> Path:
    return ring.with_name(ring.name + NOTE_SUFFIX)
