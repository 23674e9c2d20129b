"""The reader protocol, for built-in readers and plug-ins.

A `Reader` has facts (`ReaderInfo` with its `Option`), judges a `Head` (`Sniff`) and
reads a file with what its `ReadContext` offers.
"""

import importlib
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ggscope.errors import Cancelled, ReadError

if TYPE_CHECKING:
    from ggscope.model.trace import Trace
    from ggscope.readers.chunked import ChunkedOps
    from ggscope.readers.source import Source

HEAD_BYTES = 64 * 1024
BOM = b"\xef\xbb\xbf"
"""Byte order mark before a text in UTF-8."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
"""What packed files begin with."""
TRACE = "trace"
RECORDING = "recording"
"""Role of a sidecar, which belongs to one trace file."""
METADATA = "metadata"
"""Role of the metadata that a tracer writes about a run."""
LOG = "log"
"""Role of the log of a program."""
IMPORTANCE = "importance"
"""Role of an importance matrix."""
BENCH = "bench"
"""Role of results of a benchmark."""
OPS = "ops"
"""Role of a list of ops by backend."""
EXTENTS = "extents"
"""Role of a map of where a file lies on a disk."""
ROLES = (
    TRACE, "model", "map", "registry", "buffers", "graph", "experts", RECORDING,
    METADATA, LOG, BENCH, IMPORTANCE, OPS,
    EXTENTS,
)  # fmt: skip
"""Roles of a file in a session; see `ggscope.model.trace.JoinedFile`."""
ALONE = frozenset({LOG, BENCH})
"""Roles of files that join no session: they are opened by themselves."""

_YES, _NO = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file, by which readers judge it.

    Attributes
    ----------
    name : file name without folders.
    size : bytes of the file.
    data : the first 64 KiB (less where the file is shorter); of JSON that no reader
        takes by these, for the built-in readers, the outline of its begin.
    """

    name: str
    size: int
    data: bytes

    @property
    def suffix(self) -> str:
        """Lower-case extension with its dot, "" if none."""
        dot = self.name.rfind(".")
        return self.name[dot:].lower() if dot > 0 else ""


class Kind(Enum):
    """Type of the values of an option."""

    TEXT = "text"
    CHOICE = "choice"
    NUMBER = "number"
    FLAG = "flag"
    RANGE = "range"
    """FIRST:STOP, see `partial_reading.parse_range`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of a reader, as ``--option NAME=VALUE`` gives it.

    Attributes
    ----------
    doc : one line of help.
    choices : the allowed values; makes it a `Kind.CHOICE`.
    between : bounds of a number, both exclusive.
    default : value where nothing, or an empty text, is given.
    example : a valid value, for the message about an invalid one.
    """

    name: str
    doc: str
    kind: Kind = Kind.TEXT
    choices: tuple[str, ...] = ()
    between: tuple[float, float] = (-math.inf, math.inf)
    default: str = ""
    example: str = ""

    def checked(self, text: str) -> str:
        """Return the value of `text`; flags become "true" or "false".

        Raises
        ------
        ReadError
            If the value is invalid.
        """
        if not text or text == self.default:
            return self.default
        if self.choices:
            if text in self.choices:
                return text
            raise self._invalid(text, f"Use one of {', '.join(self.choices)}.")
        if self.kind is Kind.FLAG:
            if text.lower() in _YES | _NO:
                return "true" if text.lower() in _YES else "false"
            raise self._invalid(text, "Use true or false.")
        if self.kind is Kind.NUMBER:
            try:
                is_valid = self.between[0] < float(text) < self.between[1]
            except ValueError:
                is_valid = False
            if not is_valid:
                raise self._invalid(text, f"Use a number, e.g. {self.example}.")
        return text

    def _invalid(self, text: str, hint: str) -> ReadError:
        return ReadError(f"invalid value {text!r} for option {self.name}.", hint=hint)


@dataclass(frozen=True, slots=True)
class ReaderInfo:
    """Facts about a reader that are known before its code is imported.

    Attributes
    ----------
    id : short stable name, e.g. ``ggmlviz``.
    title : name for people, e.g. "ggml-viz event stream".
    suffixes : lower case with dot; break ties and fill the open dialog.
    doc : one sentence: what the format is and which program writes it.
    options : the known ``ReadContext.options``; in the first protocol a mapping of
        names to lines of help.
    role : role of its files in a session, one of `ROLES`.
    magic : files begin with one of these.
    keys : JSON keys, one of which is in the first 64 KiB, e.g. "nodes".
    line : regular expression that matches in the first 64 KiB of a text; ignores
        case, and ``^`` and ``$`` match at line ends.
    is_binary : its files hold zero bytes, which no text does.
    names : names of such files, in lower case.

    Notes
    -----
    `magic`, `keys`, `line`, `is_binary` and `names` select the files that the reader
    is asked about; without any it is asked about all, as in the first protocol.
    """

    id: str
    title: str
    suffixes: tuple[str, ...]
    doc: str
    options: tuple[Option, ...] | Mapping[str, str] = ()
    _: KW_ONLY
    role: str = TRACE
    magic: tuple[bytes, ...] = ()
    keys: tuple[str, ...] = ()
    line: str = ""
    is_binary: bool = False
    names: tuple[str, ...] = ()

    @property
    def known_options(self) -> tuple[Option, ...]:
        """The options; those of the first protocol as `Kind.TEXT`."""
        if isinstance(self.options, Mapping):
            return tuple(Option(name=n, doc=d) for n, d in self.options.items())
        return self.options

    def option_values(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return the checked value of each of the reader's options.

        Raises
        ------
        ReadError
            If a value is invalid.
        """
        return {o.name: o.checked(options.get(o.name, "")) for o in self.known_options}

    chosen = option_values  # name in 0.1.0, for plug-ins until 0.3.0

    def allows(self, head: Head) -> bool:
        """Return whether a file may have this format, by its name and first bytes.

        Where it is False the reader need not be imported: it would reject the file.
        """
        return self.has_signature(head) or self.has_line(head)

    def has_signature(self, head: Head) -> bool:
        """Return what `allows` does, but for `line`, which takes longest."""
        if not (self.magic or self.keys or self.line or self.is_binary or self.names):
            return True
        data = head.data
        if head.name.lower() in self.names:
            return True
        if any(data.startswith(m) or m.startswith(data) for m in self.magic):
            return True
        if self.magic and not self.keys and head.suffix in self.suffixes:
            return True  # the magic number may be damaged
        if any(f'"{key}"'.encode() in data for key in self.keys):
            return True
        return self.is_binary and b"\0" in data

    def has_line(self, head: Head) -> bool:
        """Return whether a file is a text with a line of this format."""
        if not self.line or b"\0" in head.data:
            return False
        pattern = re.compile(self.line.encode(), re.MULTILINE | re.IGNORECASE)
        return pattern.search(head.data.removeprefix(BOM)) is not None


@dataclass(frozen=True, slots=True)
class Sniff:
    """A reader's verdict on a file.

    Attributes
    ----------
    confidence : 0 another format, 25 plausible structure, 50 recognised keys,
        90 magic number, 100 magic and supported version.
    reason : one sentence; for 0 why not, where that helps people.
    """

    confidence: int
    reason: str = ""


NOT_MINE = Sniff(0)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits checked before anything is allocated."""

    records: int = 2_000_000_000
    string_bytes: int = 1 << 20
    label_bytes: int = 4096
    nesting: int = 64
    memory_bytes: int = 1 << 40


@dataclass(frozen=True, slots=True)
class Estimate:
    """Cost of reading a file, estimated from its head and size.

    Attributes
    ----------
    records : approximate number of records, as the format counts them.
    final_bytes : memory of the trace after reading.
    peak_bytes : peak memory while reading.
    can_range : whether the reader has the option ``range``.
    can_sample_names : whether the reader has the option ``names``.
    """

    records: int
    final_bytes: int
    peak_bytes: int
    can_range: bool = False
    can_sample_names: bool = False


class ReadContext:
    """Options, limits, progress and cancellation of one read.

    Parameters
    ----------
    progress : called with (bytes done, total bytes), at most 20 times a second.
    cancel : set to cancel the read.
    publish : called with an early trace whose ``pending`` is not empty.
    options : reader options by name; unknown ones are ignored.
    """

    def __init__(
        self,
        *,
        progress: Callable[[int, int], None] | None = None,
        cancel: threading.Event | None = None,
        publish: "Callable[[Trace], None] | None" = None,
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
        """Report progress in bytes; raise Cancelled if cancelled."""
        self.check_cancelled()
        if self._progress is None:
            return
        now = time.monotonic()
        if now - self._last_progress >= 0.05 or done >= total:
            self._last_progress = now
            self._progress(done, total)

    def check_cancelled(self) -> None:
        """Raise Cancelled if the read was cancelled.

        Call at least every 50 ms.
        """
        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled

    def publish(self, trace: "Trace") -> None:
        """Publish an early snapshot; its ``pending`` lists what is still missing.

        While "spans" are pending, a snapshot holds the spans up to its
        ``read_until``; later ones may number them anew (``spans.record`` says
        which is which), but keep the clock's origin where they can. Once "spans"
        are not pending any more, later snapshots must keep span ids, lanes and the
        clock.
        """
        self.check_cancelled()
        if self._publish is not None:
            self._publish(trace)

    @property
    def chunked(self) -> "ChunkedOps":
        """Operations on long columns, which stop where the read is cancelled.

        Made anew each time: kept, the two would hold each other.
        """
        # Readers of small files need no numpy.
        from ggscope.readers.chunked import ChunkedOps

        return ChunkedOps(self.check_cancelled)

    @property
    def pieces(self) -> "ChunkedOps":
        """Return `chunked`: its name in 0.1.0, for plug-ins until 0.3.0."""
        return self.chunked

    @property
    def wants_stages(self) -> bool:
        """Whether early snapshots are used."""
        return self._publish is not None


@runtime_checkable
class EstimatingReader(Protocol):
    """A reader that can estimate the cost of a file before reading it."""

    def estimate(self, head: Head) -> Estimate | None:
        """Return the cost of reading a file with this head; None if unknown.

        Must be quick, must not raise and must not open files.
        """
        ...


@runtime_checkable
class Reader(Protocol):
    """Reads one file into a trace."""

    info: ReaderInfo

    def sniff(self, head: Head) -> Sniff:
        """Judge a file from its name, size and head.

        Must not raise and must not open files.
        """
        ...

    def read(self, source: "Source", context: ReadContext) -> "Trace":
        """Return a trace that passes ``check()``.

        Raises ReadError if nothing can be shown; other problems are warnings of the
        trace. Cancelled passes through.
        """
        ...


_CHUNKED = "ggscope.readers.chunked"
_SNAPSHOTS = "ggscope.readers.snapshots"
_PARTIAL = "ggscope.readers.partial_reading"
_MOVED = {
    "ChunkedOps": (_CHUNKED, "ChunkedOps"),
    "ChunkedTable": (_CHUNKED, "ChunkedTable"),
    "ColumnPieces": (_CHUNKED, "ChunkedTable"),
    "NAMES_CHOICES": (_PARTIAL, "NAMES_CHOICES"),
    "NAMES_OPTION": (_PARTIAL, "NAMES_OPTION"),
    "Pace": (_SNAPSHOTS, "SnapshotScheduler"),
    "Pieces": (_CHUNKED, "ChunkedOps"),
    "RANGE_OPTION": (_PARTIAL, "RANGE_OPTION"),
    "SAMPLED_SHARE": (_PARTIAL, "SAMPLED_SHARE"),
    "SnapshotScheduler": (_SNAPSHOTS, "SnapshotScheduler"),
    "asked_range": (_PARTIAL, "requested_range"),
    "narrowest": (_CHUNKED, "narrowest"),
    "parse_range": (_PARTIAL, "parse_range"),
}
"""Module and name of what plug-ins for 0.1.0 import from here, until 0.3.0."""


def __getattr__(name: str) -> object:
    # Imported on demand: starting the program needs neither numpy nor the C library.
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _MOVED[name]
    return getattr(importlib.import_module(module), attribute)
