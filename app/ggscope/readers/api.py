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


@dataclass(frozen=True, slots=True)
class Estimate:
    """What reading a file would cost, told from its head and size.

    Attributes
    ----------
    records : about how many records it holds, in the file's own terms.
    final_bytes : memory of the trace when it has been read.
    peak_bytes : memory at the worst moment of reading.
    can_range : whether the reader knows the option ``range``.
    can_sample_names : whether the reader knows the option ``names``.
    """

    records: int
    final_bytes: int
    peak_bytes: int
    can_range: bool = False
    can_sample_names: bool = False


RANGE_OPTION = "range"
"""Reader option "FIRST:STOP", record numbers: read only these."""
NAMES_OPTION = "names"
"""Reader option "all" (default), "sampled" or "none": whose names are read."""
NAMES_CHOICES = ("all", "sampled", "none")
SAMPLED_SHARE = 16
"""With ``names=sampled`` one block of records in so many has names."""


def parse_range(text: str, n_records: int) -> tuple[int, int]:
    """Return (first, stop) of option ``range``, cut to ``[0, n_records]``.

    Either side may be left out; "5%" stands for that share of the records.
    Underscores and thousands commas are ignored.

    Raises
    ------
    ValueError
        If the text is not a range or holds no record.
    """
    first_text, colon, stop_text = text.replace(",", "").replace("_", "").partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a range FIRST:STOP")

    def number(part: str, missing: int) -> int:
        part = part.strip()
        if not part:
            return missing
        if part.endswith("%"):
            share = float(part[:-1])
            if not 0 <= share <= 100:
                raise ValueError(f"{part} is not between 0 % and 100 %")
            return round(n_records * share / 100)
        if not part.isascii() or not part.isdigit():
            raise ValueError(f"{part!r} is not a record number")
        return min(int(part), n_records)

    first, stop = number(first_text, 0), number(stop_text, n_records)
    if first >= stop:
        raise ValueError(f"the range {text!r} holds none of {n_records:,} records")
    return first, stop


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

        While "spans" are pending, a snapshot holds the spans up to its
        ``read_until``; later ones may number them anew (``spans.record`` tells
        which is which), but keep the clock's origin where they can. Once "spans"
        are not pending any more, later snapshots must keep span ids, lanes and the
        clock.
        """
        self.check_cancelled()
        if self._publish is not None:
            self._publish(trace)

    @property
    def wants_stages(self) -> bool:
        """Whether anybody listens to early snapshots."""
        return self._publish is not None


@runtime_checkable
class EstimatingReader(Protocol):
    """A reader that can tell beforehand what a file would cost."""

    def estimate(self, head: Head) -> Estimate | None:
        """Return the cost of reading a file with this head; None if unknown.

        Must not raise and must not open files; quick.
        """
        ...


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
    "NAMES_CHOICES",
    "NAMES_OPTION",
    "NOT_MINE",
    "RANGE_OPTION",
    "SAMPLED_SHARE",
    "Estimate",
    "EstimatingReader",
    "Head",
    "Limits",
    "ReadContext",
    "Reader",
    "ReaderInfo",
    "Severity",
    "Sniff",
    "Source",
    "parse_range",
]
