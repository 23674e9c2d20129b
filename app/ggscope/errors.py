"""Exceptions of ggscope.

Exception
├─ TraceError                  a message for people; everything raised on purpose
│  ├─ ReadError(path, offset, reader_id, hint)
│  │  ├─ UnknownFormatError(candidates)   ├─ AmbiguousFormatError(candidates)
│  │  ├─ UnsupportedVersionError          ├─ TruncatedError
│  │  ├─ CorruptError                     ├─ EmptyFileError
│  │  └─ LimitExceededError
│  │     └─ TooLargeError(fit)
│  ├─ QueryError   ├─ UsageError   ├─ NativeError
│  └─ ExportError
│     ├─ WriteError(path)   └─ SuffixError (a UsageError too)
└─ Cancelled                   not an error; never shown
"""

from collections.abc import Sequence
from pathlib import Path

from ggscope.sanitize import one_line


class TraceError(Exception):
    """A failure with a message that the user can act on."""


class ReadError(TraceError):
    """A file could not be read as a trace.

    Parameters
    ----------
    message : what is wrong and what was kept, one or two sentences; names of the file
        in it may be made of anything, the message is one line.
    path : the file, if known.
    offset : byte offset of the fault in the file, if known.
    reader_id : id of the reader that gave up.
    hint : what the user can do, one sentence.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | None = None,
        offset: int | None = None,
        reader_id: str | None = None,
        hint: str = "",
    ) -> None:
        message = one_line(message)
        super().__init__(message)
        self.message = message
        self.path = path
        self.offset = offset
        self.reader_id = reader_id
        self.hint = hint

    @property
    def code(self) -> str:
        """Stable identifier of the kind of failure, e.g. ``truncated``."""
        name = type(self).__name__.removesuffix("Error")
        return "".join("_" + c.lower() if c.isupper() else c for c in name).strip("_")

    def __str__(self) -> str:
        where = f"{self.path.name or self.path}: " if self.path is not None else ""
        return where + self.text

    @property
    def text(self) -> str:
        """What is wrong and what to do, without the file."""
        return f"{self.message} {self.hint}".rstrip()

    @property
    def words(self) -> str:
        """Alias of `text` for plug-ins; removed after 0.2."""
        return self.text


class UnknownFormatError(ReadError):
    """No reader recognises the file.

    Parameters
    ----------
    command : for a shell, which writes what a reader recognises; "" = none is known.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | None = None,
        offset: int | None = None,
        hint: str = "",
        command: str = "",
    ) -> None:
        super().__init__(message, path=path, offset=offset, hint=hint)
        self.command = command


class AmbiguousFormatError(ReadError):
    """Several readers claim the file equally.

    Parameters
    ----------
    candidates : ids of the readers that tie, in registry order.
    """

    def __init__(
        self, message: str, *, candidates: Sequence[str], path: Path | None = None
    ) -> None:
        super().__init__(
            message,
            path=path,
            hint="Choose one with --format: " + ", ".join(candidates) + ".",
        )
        self.candidates = tuple(candidates)


class UnsupportedVersionError(ReadError):
    """The format is known, this version of it is not."""


class TruncatedError(ReadError):
    """The file ends before the data it promises."""


class CorruptError(ReadError):
    """The file contradicts its format in a way that leaves nothing to show."""


class EmptyFileError(ReadError):
    """The file holds no bytes, or nothing but zeros."""


class LimitExceededError(ReadError):
    """A count or length is beyond what the reader is allowed to take."""


class TooLargeError(LimitExceededError):
    """A file would not fit into memory; nothing of it has been read.

    Parameters
    ----------
    fit : what it needs beside what there is (`ggscope.readers.memory.Fit`).
    """

    def __init__(
        self,
        message: str,
        *,
        fit: object,
        path: Path | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.fit = fit


class SeveralRunsError(ReadError):
    """A folder has several runs, which are no session; nothing has been read.

    Parameters
    ----------
    runs : which (`ggscope.readers.discovery.RunFolder`).
    """

    def __init__(self, message: str, *, runs: object, path: Path | None = None) -> None:
        super().__init__(message, path=path)
        self.runs = runs


class LiveError(TraceError):
    """What a running program writes cannot be followed."""


class QueryError(TraceError):
    """A filter, search or query is not understood."""


class ExportError(TraceError):
    """A figure or table could not be written."""


class NothingToDrawError(ExportError):
    """A trace has nothing that a view shows: no fault where all are asked for."""


class WriteError(ExportError):
    """A file could not be written; what was there before is as it was.

    Parameters
    ----------
    path : the file, if known.
    """

    def __init__(self, message: str, *, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


class UsageError(TraceError):
    """What was typed on the command line does not fit."""


class SuffixError(ExportError, UsageError):
    """The name of a file that is to be written says no form that it can have.

    Parameters
    ----------
    what : what is to be written, such as "a figure"; `known` : its suffixes.
    """

    def __init__(self, what: str, known: Sequence[str], path: Path) -> None:
        *first, last = known
        listed = f"{', '.join(first)} or {last}" if first else last
        given = path.suffix or "a file without a suffix"
        super().__init__(f"{path}: {what} can be {listed}, not {given}.")


class NativeError(TraceError):
    """The compiled library is missing, or is not that of this version.

    Parameters
    ----------
    message : what is wrong, one sentence.
    """

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message} Install ggscope again; a source checkout builds it with "
            "`make run` or `pip install -e .`, which need a C compiler."
        )


class Cancelled(Exception):  # noqa: N818 - not an error, never shown
    """The user or a newer request stopped the work."""
