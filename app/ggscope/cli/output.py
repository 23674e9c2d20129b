"""What the command line prints: data on stdout, messages on stderr."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

from ggscope.errors import TraceError

_CODES = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "green": "32"}


def prepare() -> None:
    """Make both streams take any text, whatever their encoding."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def emit(text: str) -> None:
    """Print `text` as data. Raises TraceError where it cannot be written."""
    with _explained():
        sys.stdout.write(text.rstrip("\n") + "\n")


def emit_json(value: object) -> None:
    """Print `value` as data in JSON; NaN is refused, so make it None before."""
    emit(json.dumps(value, indent=2, allow_nan=False))


def say(message: str) -> None:
    """Print a message."""
    sys.stderr.write(f"ggscope: {message}\n")


def complain(message: str) -> None:
    """Print a message about something that went wrong."""
    sys.stderr.write(f"{styled('ggscope:', 'red', sys.stderr)} {message}\n")


def flush() -> None:
    """Write out what is buffered, so that a closed pipe is noticed here.

    Raises TraceError where it cannot be written, as on a full disk.
    """
    with _explained():
        sys.stdout.flush()


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
        raise TraceError(
            f"the output cannot be written: {reason}. Is the disk full?"
        ) from error


def abandon() -> None:
    """Throw away what is still buffered for a pipe that nobody reads."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """Return `text` in a style where the stream is a terminal that wants colours."""
    target = stream or sys.stdout
    wanted = (
        target.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if wanted else text


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)
) -> str:
    """Return rows as aligned text; columns in `left` are flush left, others right."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = []
    for number, row in enumerate(cells):
        padded = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(padded).rstrip()
        lines.append(styled(line, "bold") if number == 0 else line)
    return "\n".join(lines)
