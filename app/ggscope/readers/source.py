"""Bounded access to one file, by ordinary reads.

Nothing is memory-mapped: a mapped file that somebody truncates kills the
process with SIGBUS, an ordinary read returns fewer bytes. Block reads reach
8–13 GB/s from the page cache, which is not the bottleneck of any reader.
"""

import errno
import os
import stat
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import TracebackType

import numpy as np

from ggscope.errors import EmptyFileError, ReadError, TruncatedError
from ggscope.model.tables import I64, U8

BLOCK_BYTES = 4 << 20
SMALL_BYTES = 1 << 20
"""Files up to this size are read whole where many places of them are looked at."""


class Change(Enum):
    """What has happened to a file since it was opened."""

    NONE = "none"
    GROWN = "grown"
    SHRUNK = "shrunk"
    REWRITTEN = "rewritten"
    """As long as before, but written to."""
    REPLACED = "replaced"
    """Another file has its name now."""
    GONE = "gone"
    """Nothing has its name any more."""


class Source:
    """One open file of known size.

    Parameters
    ----------
    path : file to read.

    Attributes
    ----------
    descriptor : of the open file, for compiled code that reads it; -1 once closed.

    Raises
    ------
    ReadError
        If the path is missing, a folder, a pipe or may not be read.
    EmptyFileError
        If the file has no bytes.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.descriptor = -1
        try:
            status = os.stat(self.path)
            if stat.S_ISDIR(status.st_mode):
                raise _refusal_of_folder(self.path) or ReadError(
                    "this is a folder, not a trace file.",
                    path=self.path,
                    hint="Open the files inside it.",
                )
            if not stat.S_ISREG(status.st_mode):
                raise ReadError(
                    "this is not a regular file (a pipe, socket or device).",
                    path=self.path,
                    hint="Save its content to a file first.",
                )
            self.descriptor = os.open(
                self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
            )
            status = os.fstat(self.descriptor)
        except (OSError, ValueError) as error:
            raise _explained(error, self.path) from error
        self.size = status.st_size
        self.modified_ns = status.st_mtime_ns
        self._identity = (status.st_dev, status.st_ino)
        if self.size == 0:
            self.close()
            raise EmptyFileError(
                "the file is empty (0 bytes).",
                path=self.path,
                offset=0,
                hint="Check that the program that writes it ran to completion.",
            )

    def __enter__(self) -> "Source":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def head(self, length: int) -> bytes:
        """Return the first `length` bytes, fewer where the file is shorter."""
        return self._read(0, min(length, self.size))

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes from `offset`.

        Raises
        ------
        TruncatedError
            If the file has become too short.
        """
        data = self._read(offset, length)
        if len(data) < length:
            raise self._truncated(offset + len(data))
        return data

    def read_into(self, offset: int, buffer: U8) -> int:
        """Fill `buffer` from `offset`; return the bytes read (short at the end)."""
        done = 0
        view = buffer.data.cast("B")
        while done < len(view):
            try:
                n = os.preadv(self.descriptor, [view[done:]], offset + done)
            except OSError as error:
                raise _explained(error, self.path, offset + done) from error
            if n == 0:
                break
            done += n
        return done

    def array(self, offset: int, length: int) -> U8:
        """Return bytes ``[offset, offset + length)`` as uint8, fewer at the end."""
        length = max(0, min(length, self.size - offset))
        buffer = np.empty(length, np.uint8)
        return buffer[: self.read_into(offset, buffer)]

    def records(self, numbers: I64, size: int) -> U8:
        """Return records of `size` bytes by their numbers, uint8[m, size].

        Those that the file does not hold whole are left out. A small file is read
        once, for a call to the system costs more than its bytes.
        """
        if self.size <= SMALL_BYTES:
            data = self.array(0, self.size)
            rows = data[: len(data) // size * size].reshape(-1, size)
            return rows[numbers[numbers < len(rows)]]
        parts = [self.array(number * size, size) for number in numbers.tolist()]
        whole = [part for part in parts if len(part) == size]
        return np.concatenate([np.empty(0, np.uint8), *whole]).reshape(-1, size)

    def blocks(
        self, offset: int, end: int, block: int = BLOCK_BYTES
    ) -> Iterator[tuple[int, U8]]:
        """Yield (offset, bytes) over ``[offset, end)``.

        The same buffer is used for every block: copy what must live on. Stops
        early where the file ends early.
        """
        buffer = np.empty(min(block, max(end - offset, 0)), np.uint8)
        while offset < end:
            want = min(len(buffer), end - offset)
            got = self.read_into(offset, buffer[:want])
            if got == 0:
                return
            yield offset, buffer[:got]
            offset += got

    def data_extents(self) -> list[tuple[int, int]]:
        """Return the parts of the file that hold data, as (start, end) pairs.

        A sparse file's holes are left out where the file system states; else
        the whole file is one part. Data may still be zeros.
        """
        extents: list[tuple[int, int]] = []
        position = 0
        try:
            while position < self.size:
                start = os.lseek(self.descriptor, position, os.SEEK_DATA)
                end = os.lseek(self.descriptor, start, os.SEEK_HOLE)
                extents.append((start, min(end, self.size)))
                position = end
        except (OSError, AttributeError) as error:
            if getattr(error, "errno", None) == errno.ENXIO:
                return extents
            return [(0, self.size)]
        return extents

    def change(self) -> Change:
        """Return what has happened to the file since it was opened."""
        try:
            status = os.stat(self.path)
        except OSError:
            return Change.GONE
        if (status.st_dev, status.st_ino) != self._identity:
            return Change.REPLACED
        if status.st_size != self.size:
            is_longer = status.st_size > self.size
            return Change.GROWN if is_longer else Change.SHRUNK
        is_same = status.st_mtime_ns == self.modified_ns
        return Change.NONE if is_same else Change.REWRITTEN

    def failure(self, number: int, offset: int) -> ReadError:
        """Return the error for system error `number` met at `offset`."""
        return _explained(OSError(number, os.strerror(number)), self.path, offset)

    def _read(self, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0:
            try:
                data = os.pread(self.descriptor, length, offset)
            except OSError as error:
                raise _explained(error, self.path, offset) from error
            if not data:
                break
            parts.append(data)
            offset += len(data)
            length -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _truncated(self, offset: int) -> TruncatedError:
        return TruncatedError(
            f"the file ends at byte {offset:,}; it was {self.size:,} bytes long when "
            "it was opened.",
            path=self.path,
            offset=offset,
            hint="Reload the file when it is complete.",
        )


def read_at(path: Path, offset: int, length: int) -> bytes:
    """Return up to `length` bytes of `path` from `offset`, opening it just for that.

    For single records asked for long after reading. Raises ReadError.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except OSError as error:
        raise _explained(error, path, offset) from error


def why_not_there(path: Path) -> ReadError | None:
    """Return why a file or folder cannot be looked at; None where it can."""
    try:
        os.stat(path)
    except (OSError, ValueError) as error:
        return _explained(error, path)
    return None


def _refusal_of_folder(path: Path) -> ReadError | None:
    """Return why a folder of another program's format cannot be opened."""
    # Only for the message to people.
    from ggscope.readers.closed_formats import refusal_of_folder

    return refusal_of_folder(path, os.listdir(path))


def _explained(
    error: OSError | ValueError, path: Path, offset: int | None = None
) -> ReadError:
    if not isinstance(error, OSError):  # NUL, which no system takes
        return ReadError("invalid file name.", path=path, hint="Check the path.")
    texts = {
        errno.ENOENT: ("the file does not exist.", "Check the path."),
        errno.EACCES: ("permission denied.", "Check its permissions."),
        errno.EPERM: ("permission denied.", "Check its permissions."),
        errno.EISDIR: (
            "this is a folder, not a trace file.",
            "Open the files inside it.",
        ),
        errno.EIO: ("the disk reports a read error.", "Copy the file elsewhere."),
        errno.ENAMETOOLONG: ("the name is too long.", "Check the path."),
        errno.ELOOP: ("too many symbolic links.", "Check the path."),
        errno.ENOTDIR: ("a part of the path is not a folder.", "Check the path."),
    }
    text, hint = texts.get(
        error.errno or 0, (f"reading failed: {error.strerror or error}.", "")
    )
    return ReadError(text, path=path, offset=offset, hint=hint)


CHANGES = {
    Change.GROWN: "the file grew during reading; later data is missing",
    Change.SHRUNK: "the file was truncated during reading",
    Change.REWRITTEN: "the file was modified during reading; the result may be "
    "inconsistent",
    Change.REPLACED: "the file was replaced during reading",
    Change.GONE: "the file was deleted during reading",
}
"""Text for each, the beginning of a sentence."""
