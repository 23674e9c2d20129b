"""What a reader is: the protocol that built-in and third-party readers obey."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ggscope.errors import Cancelled
from ggscope.model.trace import Severity, Trace
from ggscope.readers.source import Source

HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ReaderInfo:
    """Passive facts about a reader.

    Attributes
    ----------
    id : short stable name, e.g. ``ggmlviz``.
    title : what people read, e.g. "ggml-viz event stream".
    suffixes : lower case with dot; they break ties and fill the open dialog.
    doc : one sentence on what the format is and who writes it.
    options : option name -> one line of help, for ``ReadContext.options``.
    """

    id: str
    title: str
    suffixes: tuple[str, ...]
    doc: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sniff:
    """A reader's judgement of a file.

    Attributes
    ----------
    confidence : 0 not mine, 25 plausible by structure, 50 recognised keys,
        90 magic number, 100 magic and supported version.
    reason : one sentence; for 0 why not, where that helps a person.
    """

    confidence: int
    reason: str = ""


NOT_MINE = Sniff(0)


@dataclass(frozen=True, slots=True)
class Head:
    """What a reader may judge a file by.

    Attributes
    ----------
    name : file name without folders.
    size : bytes of the file.
    data : the first 64 KiB (less where the file is shorter).
    """

    name: str
    size: int
    data: bytes

    @property
    def suffix(self) -> str:
        """Lower-case extension with its dot, "" if none."""
        dot = self.name.rfind(".")
        return self.name[dot:].lower() if dot > 0 else ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps that hold before anything is allocated."""

    records: int = 2_000_000_000
    string_bytes: int = 1 << 20
    label_bytes: int = 4096
    nesting: int = 64
    memory_bytes: int = 1 << 40


class ReadContext:
    """What a reader may use while it reads.

    Parameters
    ----------
    progress : called with (bytes done, bytes in all), at most 20 times a second.
    cancel : set by the person who lost patience.
    publish : called with an early trace whose ``pending`` is not empty.
    options : reader options by name; unknown ones are ignored.
    """

    def __init__(
        self,
        *,
        progress: Callable[[int, int], None] | None = None,
        cancel: threading.Event | None = None,
        publish: Callable[[Trace], None] | None = None,
        options: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        strict: bool = False,
    ) -> None:
        self.options: Mapping[str, str] = dict(options or {})
        self.limits = limits or Limits()
        self.strict = strict
        self._progress = progress
        self._cancel = cancel
        self._publish = publish
        self._last_progress = 0.0

    def progress(self, done: int, total: int) -> None:
        """Report progress in bytes and stop here if cancelled."""
        self.check_cancelled()
        if self._progress is None:
            return
        now = time.monotonic()
        if now - self._last_progress >= 0.05 or done >= total:
            self._last_progress = now
            self._progress(done, total)

    def check_cancelled(self) -> None:
        """Raise Cancelled where the work is no longer wanted.

        Call at least every 50 ms.
        """
        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled

    def publish(self, trace: Trace) -> None:
        """Hand out an early snapshot (its ``pending`` says what is to come).

        Later snapshots must keep span ids, lanes and the clock.
        """
        self.check_cancelled()
        if self._publish is not None:
            self._publish(trace)

    @property
    def wants_stages(self) -> bool:
        """Whether anybody listens to early snapshots."""
        return self._publish is not None


@runtime_checkable
class Reader(Protocol):
    """Turns one file into a trace."""

    info: ReaderInfo

    def sniff(self, head: Head) -> Sniff:
        """Judge a file from its name, size and head.

        Must not raise and must not open files.
        """
        ...

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace that passes ``check()``.

        Raises ReadError where nothing can be shown; problems that leave
        something to show are warnings of the trace. Cancelled passes through.
        """
        ...


__all__ = [
    "HEAD_BYTES",
    "NOT_MINE",
    "Head",
    "Limits",
    "ReadContext",
    "Reader",
    "ReaderInfo",
    "Severity",
    "Sniff",
    "Source",
]
