"""Log lines on stderr: their level, and what stands before the message."""

import logging
import sys
import threading
from datetime import datetime

from ggscope.sanitize import one_line

_LEVELS = {"WARN": logging.WARNING, "FATAL": logging.CRITICAL}


class LogLine(logging.Formatter):
    """Formatter that keeps each message on one line.

    ``[time ][prefix: ][[thread] ]LEVEL logger: message``
    """

    def __init__(
        self, *, has_time: bool = False, has_thread: bool = False, prefix: str = ""
    ) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._has_time, self._has_thread = has_time, has_thread
        self._prefix = prefix

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's
        """Return the line of a record."""
        parts = [f"{self._prefix}:"] if self._prefix else []
        if self._has_time:
            time = datetime.fromtimestamp(record.created)
            parts.insert(0, time.isoformat(" ", "milliseconds"))
        if self._has_thread:
            parts.append(f"[{_native_id(record)}]")
        return one_line(" ".join([*parts, super().formatMessage(record)]))


def _native_id(record: logging.LogRecord) -> int | None:
    """Return the system's number of the thread that logs, else Python's."""
    own = threading.current_thread()
    return own.native_id if own.ident == record.thread else record.thread


def set_up(level: str, line: LogLine) -> None:
    """Set log level and line format; may be called again.

    Nothing happens where another program has set up its logging.

    Parameters
    ----------
    level : a name of Python or of ggml-viz, in any case.
    """
    root = logging.getLogger()
    ours = [h for h in root.handlers if isinstance(h.formatter, LogLine)]
    if not ours:
        if root.handlers:
            return
        ours = [logging.StreamHandler(sys.stderr)]
        root.addHandler(ours[0])
    for handler in ours:
        handler.setFormatter(line)
    name = level.upper()
    root.setLevel(_LEVELS.get(name, name))
