"""The folder that a recording is kept in, and the note beside the ring that names it.

Both may have been put in place by somebody else: a note that was downloaded with a
ring can name any folder. A folder is taken for a recording of a ring only where it is
this user's, has the name of a recording, no link leads to it, and a file in it that
this program wrote holds the identity of that very ring. What is removed are the files
of a recording, one by one; no tree is ever removed. The capture tool has the same rule.
"""

import contextlib
import errno
import json
import os
import re
import stat
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

from ggscope.atomic_write import write_file
from ggscope.errors import WriteError
from ggscope.live.regular_file import open_regular, read_json, read_regular

NOTE_SUFFIX = ".recording"
FOLDER_SUFFIX = ".partial"
MARKER = "identity"
"""The file in a folder that holds the identity of its ring."""
_FILES = ("records", "events", "facts", "control", "lanes", "definitions", "ring")
_IDENTITY = re.compile(r"[0-9a-f]{32}")
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
                problem = "a link, which is not followed"
                raise NotADirectoryError(errno.ENOTDIR, problem, str(path)) from None
            raise
        self._close = weakref.finalize(self, os.close, self._descriptor)
        if is_new and (not self._is_own() or os.listdir(self._descriptor)):
            raise FileExistsError(errno.EEXIST, "it was just replaced", str(path))

    @classmethod
    def make(cls, base: Path, prefix: str, identity: str) -> "RecordingFolder":
        """Make a folder with a new name in `base`, marked as that of a ring.

        Raises
        ------
        OSError
            If it cannot be made.
        """
        made = Path(tempfile.mkdtemp(FOLDER_SUFFIX, prefix, base))
        folder = cls(made.resolve(), is_new=True)
        try:
            folder.write(MARKER, identity.encode())
        except OSError:
            folder.remove(identity)
            folder.close()
            raise
        return folder

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
        """Return whether this program made the folder for the ring of an identity."""
        return (
            bool(identity)
            and self.path.name.endswith(FOLDER_SUFFIX)
            and os.path.realpath(self.path) == str(self.path)
            and self._is_own()
            and self.identity() == identity
        )

    def has(self, name: str) -> bool:
        """Return whether there is something of this name."""
        try:
            self._status(name)
        except FileNotFoundError:
            return False
        return True

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
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
        """Return the content of a file; see `regular_file.read_regular`."""
        return read_regular(name, max_bytes, folder=self._descriptor)

    def ring(self) -> Path | None:
        """Return the path of the ring that it says it is of; None = it says none."""
        with contextlib.suppress(OSError, ValueError):
            path = Path(os.fsdecode(self.read("ring", _MAX_PATH_BYTES)))
            return path if path.is_absolute() else None
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the recording anew, whole or not at all; raises OSError."""
        temporary = f"{name}.tmp"
        self.drop(temporary)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(self.open(temporary, flags), "wb") as file:
            file.write(content)
        os.replace(
            temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor
        )

    def link(self, name: str, target: Path) -> None:
        """Give a file that a process holds open a name here; raises OSError."""
        os.symlink(target, name, dir_fd=self._descriptor)

    def drop(self, name: str) -> None:
        """Remove a file, or a link, of this user from the folder; raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            status = self._status(name)
            is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
            if is_file and status.st_uid == os.geteuid():
                os.unlink(name, dir_fd=self._descriptor)

    def holds_what_is_gone(self) -> bool:
        """Return whether its records were those of a process that is no more."""
        try:
            target = os.readlink("records", dir_fd=self._descriptor)
        except OSError:
            return False
        return not os.path.exists(target)

    def remove(self, identity: str) -> bool:
        """Remove the recording of a ring; return whether the folder is gone.

        A folder that this process has not made, and that is not the recording of that
        ring, stays as it is. Else the files of a recording go, one by one, and the
        folder if it holds nothing more.
        """
        if not self._is_new and not self.is_of(identity):
            return False
        for name in (*_FILES, MARKER):  # last what says whose they are
            with contextlib.suppress(OSError):
                self.drop(f"{name}.tmp")
                self.drop(name)
        with contextlib.suppress(OSError):
            if os.path.samestat(os.lstat(self.path), os.fstat(self._descriptor)):
                self.path.rmdir()
                return True
        return False

    def _is_own(self) -> bool:
        return os.fstat(self._descriptor).st_uid == os.geteuid()

    def _status(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)


def read_note(path: Path | str, folder: int | None = None) -> Note | None:
    """Return what a note says; None where it is none of this user's.

    `folder` : descriptor of the one that `path` is a name in.
    """
    try:
        note = read_json(path, _MAX_NOTE_BYTES, folder=folder, is_own=True)
    except (OSError, ValueError):
        return None
    place, identity = note.get("folder"), note.get("identity")
    if not isinstance(place, str) or not isinstance(identity, str):
        return None
    is_path = os.path.isabs(place) and "\0" not in place
    if not is_path or not _IDENTITY.fullmatch(identity):
        return None
    return Note(Path(place), identity)


def write_note(ring: Path, folder: Path, identity: str) -> bool:
    """Write the note beside a ring; return whether that went.

    What stands in its place and is no note of this user's stays.
    """
    place = note_path(ring)
    if os.path.lexists(place) and read_note(place) is None:
        return False
    note = {"folder": str(folder), "pid": os.getpid(), "identity": identity}
    try:
        write_file(place, json.dumps(note).encode(), follows_links=False)
    except WriteError:
        return False
    return True


def remove_note(ring: Path, identity: str) -> None:
    """Remove this user's note beside a ring where it is of that ring."""
    place = note_path(ring)
    flags = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
    with contextlib.suppress(OSError):
        folder = os.open(place.parent, flags)
        try:
            note = read_note(place.name, folder)
            if note is not None and note.identity == identity:
                os.unlink(place.name, dir_fd=folder)
        finally:
            os.close(folder)


def folder_of(ring: Path, identity: str) -> RecordingFolder | None:
    """Return the folder that a ring is or was emptied into, open; None = none is known.

    `identity` : of the ring, in hexadecimal digits.
    """
    note = read_note(note_path(ring))
    if note is None or note.identity != identity:
        return None
    try:
        folder = RecordingFolder(note.folder)
    except OSError:
        return None
    if folder.is_of(identity):
        return folder
    folder.close()
    return None


def note_path(ring: Path) -> Path:
    """Return the place of the note beside a ring."""
    return ring.with_name(ring.name + NOTE_SUFFIX)
