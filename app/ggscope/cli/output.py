"""What the command line prints and leaves behind: data on stdout, messages on stderr.

Whatever a trace or a file name says, no control character of it reaches a terminal:
both streams show it instead (`PlainStream`), for tracebacks, warnings and plug-ins
too. What the program writes for terminals itself, styles and the line of progress,
passes by here and nowhere else.
"""

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TextIO, cast

from ggscope.errors import (
    AmbiguousFormatError,
    QueryError,
    ReadError,
    TraceError,
    UnknownFormatError,
    UsageError,
)
from ggscope.sanitize import one_line, plain

GOOD = 0
"""Exit codes, as users' scripts know them."""
ERROR = 1
USAGE = 2
FORMAT = 3
"""Unknown or ambiguous format."""
DATA_LOSS = 4
"""Data was lost and ``--strict`` asked for an error then."""
INTERRUPTED = 130
SIGNALLED = 128
"""Plus the number of the signal that ended the program: 143 for SIGTERM."""

_CODES = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "green": "32"}
_STYLE = re.compile(rf"(\x1b\[(?:0|{'|'.join(_CODES.values())})m)")
_CLEAR_LINE = "\r\x1b[K"
_JSON_BLOCK = 1 << 20
"""Characters of a list that are printed at once."""
_own_stdout: TextIO | None = None


class PlainStream:
    """A text stream on which control characters are seen and do nothing."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream
        # Asked for each styled word.
        self.isatty = stream.isatty

    def write(self, text: str) -> int:
        """Write `text` as `plain` shows it."""
        self.raw.write(plain(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.raw, name)


def prepare() -> None:
    """Make both streams take any text, whatever their encoding, and show it.

    Streams that the caller has closed are opened on the null device: a file that is
    opened later must not get their numbers, or messages would go into it.
    """
    _fill_gaps()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = _plain_stream(sys.stdout), _plain_stream(sys.stderr)


@contextlib.contextmanager
def own_stdout(to_stderr: bool) -> Iterator[None]:
    """Keep stdout for what this module prints, while the body runs.

    Whatever else writes to it, prints of plug-ins and their threads, libraries in C
    and programs started from here, goes to stderr. Nothing happens where stdout is
    not the process's own.
    """
    global _own_stdout
    if not to_stderr or not _is_process_stdout():
        yield
        return
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    own = open(saved, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    _own_stdout = _plain_stream(own)
    try:
        yield
    finally:
        _own_stdout = None
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(saved, 1)
        try:
            own.flush()
        except OSError:  # reported already, or a pipe that nobody reads
            _forget(own)
        own.close()


def _fill_gaps() -> None:
    # Writing to what is open for reading fails like writing to what is closed.
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            handle = os.open(os.devnull, flags)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def emit(text: str) -> None:
    """Print `text`, which may have styles. Raises TraceError where it cannot be."""
    with _explained():
        _write(_out(), text.rstrip("\n") + "\n")


def emit_more(n: int) -> None:
    """Print that `n` rows more are not printed; nothing where there are none."""
    if n > 0:
        emit(f"… and {n:,} more; --limit N lists more, --json all of them")


def emit_json(value: object) -> None:
    """Print `value` as data in JSON; NaN is refused, so make it None before."""
    import json  # not for people

    # In ASCII, as scripts have always got it.
    text = json.dumps(value, indent=2, allow_nan=False)
    emit(text.replace("\x7f", "\\u007f"))


def emit_json_list(
    before: Mapping[str, object],
    name: str,
    items: Iterable[object],
    after: Callable[[], Mapping[str, object]],
) -> None:
    """Print an object with a list of any length, as `emit_json` would.

    Parameters
    ----------
    items : the list `name`; read one by one.
    after : called behind the last item, for the members behind the list.
    """
    import json  # not for people

    def text(value: object, indent: str) -> str:
        lines = json.dumps(value, indent=2, allow_nan=False)
        return lines.replace("\x7f", "\\u007f").replace("\n", "\n" + indent)

    def member(key: str, value: object) -> str:
        return f"  {text(key, '')}: {text(value, '  ')}"

    lines = "{\n" + "".join(member(*one) + ",\n" for one in before.items())
    lines += f"  {text(name, '')}: ["
    separator = end = ""
    for item in items:
        lines += f"{separator}\n    {text(item, '    ')}"
        separator, end = ",", "\n  "
        if len(lines) > _JSON_BLOCK:
            with _explained():
                _write(_out(), lines)
            lines = ""
    lines += f"{end}]" + "".join(",\n" + member(*one) for one in after().items())
    emit(lines + "\n}")


def emit_csv(text: str) -> None:
    """Print CSV: data as it is, but for a terminal, which would obey it."""
    stream = _out() if _out().isatty() else _raw(_out())
    with _explained():
        stream.write(text)


def is_terminal() -> bool:
    """Return whether what is printed goes to a terminal."""
    return _out().isatty()


def emit_bytes(pieces: Iterable[bytes]) -> None:
    """Print data as it is, for a program. Raises TraceError where it cannot be."""
    stream = _out()
    with _explained():
        stream.flush()
    for piece in pieces:
        with _explained():
            stream.buffer.write(piece)


def width() -> int:
    """Return the columns of the terminal; 80 where the output goes elsewhere.

    The variable COLUMNS goes before.
    """
    given = os.environ.get("COLUMNS", "")
    columns = int(given) if given.isdecimal() else 0
    if columns <= 0:
        try:
            columns = os.get_terminal_size(_out().fileno()).columns
        except (OSError, ValueError):
            columns = 0
    return columns or 80


def write_stderr(text: str) -> None:
    """Write to stderr; failures of that are ignored."""
    try:
        _write(sys.stderr, text)
        sys.stderr.flush()
    except (OSError, ValueError):
        _forget(sys.stderr)


def say(message: str) -> None:
    """Print a message, in one line."""
    write_stderr(f"ggscope: {one_line(message)}\n")


def complain(message: str) -> None:
    """Print a message about something that went wrong, in one line."""
    write_stderr(f"{styled('ggscope:', 'red', sys.stderr)} {one_line(message)}\n")


def rewrite_line(text: str) -> None:
    """Show `text` in the terminal's last line, in place of what was there."""
    try:
        _raw(sys.stderr).write(_CLEAR_LINE + one_line(text))
        sys.stderr.flush()
    except (OSError, ValueError):
        _forget(sys.stderr)


def flush() -> None:
    """Write out what is buffered, so that a closed pipe is noticed here.

    Raises TraceError where it cannot be written, as on a full disk.
    """
    with _explained():
        _out().flush()


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn a failure to write into one with a message; a closed pipe passes."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon()
        reason = error.strerror or str(error)
        if error.errno == errno.EBADF:
            reason = "it is closed"
        elif error.errno == errno.ENOSPC:
            reason += ". Free some space"
        raise TraceError(f"the output cannot be written: {reason}.") from error


def abandon() -> None:
    """Throw away what is still buffered for a pipe that nobody reads."""
    _forget(_out())


def _forget(stream: TextIO) -> None:
    """Lead a stream to the null device, so that its last flush does not fail."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """Return `text` in a style where the stream is a terminal that wants colours."""
    target = stream or _out()
    is_styled = (
        target.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if is_styled else text


def unstyled(text: str) -> str:
    """Return a text that `styled` had its hands in, for what is no terminal."""
    return _STYLE.sub("", text)


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)
) -> str:
    """Return rows as aligned text; columns in `left` are flush left, others right."""
    cells = [[one_line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [_aligned(row, widths, left) for row in cells]
    return "\n".join((styled(lines[0], "bold"), *lines[1:]))


class GrowingTable:
    """Rows of a table that are printed as they come, below a head.

    Columns are as wide as their widest cell so far.
    """

    def __init__(self, head: Sequence[str], *, left: Sequence[int] = (0,)) -> None:
        self._widths = [len(cell) for cell in head]
        self._left = left
        self._head: Sequence[str] | None = head

    def lines(self, rows: Sequence[Sequence[str]]) -> str:
        """Return the next rows as text, the first ones with the head before them."""
        cells = [[one_line(cell) for cell in row] for row in rows]
        widths = self._widths
        for row in cells:
            widths[:] = map(max, widths, map(len, row))
        lines = [_aligned(row, widths, self._left) for row in cells]
        if self._head is not None:
            lines.insert(0, styled(_aligned(self._head, widths, self._left), "bold"))
            self._head = None
        return "\n".join(lines)


def _aligned(row: Sequence[str], widths: Sequence[int], left: Sequence[int]) -> str:
    """Return the cells of a row in columns of some widths."""
    return "  ".join(
        cell.ljust(width) if i in left else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ).rstrip()


def _out() -> TextIO:
    return sys.stdout if _own_stdout is None else _own_stdout


def _is_process_stdout() -> bool:
    stream: object = sys.stdout
    while stream is not sys.__stdout__ and hasattr(stream, "raw"):
        stream = stream.raw
    try:
        return isinstance(stream, io.TextIOWrapper) and stream.fileno() == 1
    except (OSError, ValueError):
        return False


def _plain_stream(stream: TextIO) -> TextIO:
    return (
        stream
        if isinstance(stream, PlainStream)
        else cast("TextIO", PlainStream(stream))
    )


def _raw(stream: TextIO) -> TextIO:
    """Return the stream below those that show, or divert, what is written to them."""
    while (below := getattr(stream, "__dict__", {}).get("raw")) is not None:
        stream = below
    return stream


def _write(stream: TextIO, text: str) -> None:
    """Write a text whose styles stay; the rest is shown."""
    parts = _STYLE.split(text) if stream.isatty() else [text]
    parts[::2] = map(plain, parts[::2])
    _raw(stream).write("".join(parts))


def message_of(error: TraceError) -> str:
    """Return the message of a failure, with the whole path of the file."""
    if isinstance(error, ReadError) and error.path is not None:
        return f"{error.path}: {error.text}"
    return str(error)


def code_of(error: TraceError) -> int:
    """Return the exit code that a failure stands for."""
    if isinstance(error, UnknownFormatError | AmbiguousFormatError):
        return FORMAT
    if isinstance(error, QueryError | UsageError):
        return USAGE
    return ERROR
