"""What a reader is: the protocol that built-in and third-party readers obey.

And what it is given to work with: its context, and long columns in pieces that can be
cancelled between two of them (`ChunkedOps`) or grow one by one (`ChunkedTable`).
"""

import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ggscope.errors import Cancelled, ReadError
from ggscope.model.tables import I64, Array, narrow
from ggscope.model.trace import Trace
from ggscope.native.library import library
from ggscope.readers.source import Source

_MAX_INT = (1 << 63) - 1
_PIECE_ROWS = 1 << 19
"""So many rows at once: a millisecond or so, and little memory beside the columns."""


class ChunkedTable:
    """A table whose rows come block by block, each block as narrow as its values.

    Parameters
    ----------
    dtypes : dtype of each column by name.
    """

    def __init__(self, **dtypes: npt.DTypeLike) -> None:
        self._dtypes = {name: np.dtype(dtype) for name, dtype in dtypes.items()}
        self._pieces: list[Mapping[str, Array]] = []
        self._n_rows = 0

    def __len__(self) -> int:
        return self._n_rows

    @property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self._dtypes)

    @property
    def n_pieces(self) -> int:
        """How many pieces there are so far."""
        return len(self._pieces)

    def append(self, **columns: Array) -> None:
        """Add rows: one array for each column, all of one length."""
        self._pieces.append(
            {name: _compact(values) for name, values in columns.items()}
        )
        self._n_rows += len(next(iter(columns.values())))

    def column(self, name: str) -> Array:
        """Return one column whole."""
        dtype = self._dtypes[name]
        parts = [piece[name] for piece in self._pieces]
        if not parts:
            return np.zeros(0, dtype)
        return np.concatenate(parts, dtype=dtype, casting="unsafe")

    def pop(self, name: str) -> Array:
        """Return one column whole, and forget it."""
        found = self.column(name)
        del self._dtypes[name]
        self._pieces = [
            {other: piece[other] for other in self._dtypes} for piece in self._pieces
        ]
        return found

    def keep(self, rows: Array) -> None:
        """Leave out all rows but the marked ones, bool[n]."""
        self._pieces = [{name: self.column(name)[rows] for name in self._dtypes}]
        self._n_rows = int(np.count_nonzero(rows))

    def clear(self) -> None:
        """Let go of all rows."""
        self._pieces, self._n_rows = [], 0

    def drop_reversed(self, mark: int) -> I64:
        """Leave out rows of later pieces that end before they start; return them.

        Parameters
        ----------
        mark : number of pieces before; tables without ends have nothing to drop.
        """
        dropped = [np.zeros(0, np.int64)]
        if "end" not in self._dtypes:
            return dropped[0]
        for i in range(mark, len(self._pieces)):
            piece = self._pieces[i]
            bad = piece["end"] < piece["start"]
            if bad.any():
                dropped.append(piece["record"][bad].astype(np.int64))
                self._pieces[i] = {name: c[~bad] for name, c in piece.items()}
                self._n_rows -= int(np.count_nonzero(bad))
        return np.concatenate(dropped)

    def merge_since(self, mark: int) -> None:
        """Bring the rows of the pieces after the first `mark` into record order."""
        later = self._pieces[mark:]
        if len(later) < 2:
            return
        joined = {name: np.concatenate([p[name] for p in later]) for name in later[0]}
        order = np.argsort(joined["record"], kind="stable")
        self._pieces[mark:] = [{name: c[order] for name, c in joined.items()}]


def _compact(values: Array) -> Array:
    """Return 64-bit integers as narrow as they are; other columns as they come."""
    if values.dtype == np.int64:
        return narrow(values)
    if values.dtype == np.uint64 and len(values) and int(values.max()) <= _MAX_INT:
        return narrow(values.view(np.int64))
    return values


class ChunkedOps:
    """Does array operations piece by piece.

    Parameters
    ----------
    check : called between pieces; raises Cancelled where they are not wanted.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check

    def of(self, n: int, first: int = 0) -> Iterator[slice]:
        """Yield slices that cover ``[first, n)``, with a check before each."""
        for at in range(first, n, _PIECE_ROWS):
            self.check()
            yield slice(at, min(at + _PIECE_ROWS, n))

    def find(self, n: int, marked: Callable[[slice], Array]) -> I64:
        """Return where ``marked(piece)`` is true, ascending, int64[m]."""
        found = [piece.start + np.flatnonzero(marked(piece)) for piece in self.of(n)]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def changes(self, column: Array) -> I64:
        """Return the rows, but for the first, that differ from the one before."""
        return 1 + self.find(
            len(column) - 1, lambda p: column[p] != column[p.start + 1 : p.stop + 1]
        )

    def counts(self, column: Array, n: int) -> I64:
        """Return how often each number below `n` occurs, int64[n]."""
        total = np.zeros(n, np.int64)
        for piece in self.of(len(column)):
            total += np.bincount(column[piece], minlength=n)
        return total

    def chosen(self, column: Array, rows: Array) -> Array:
        """Return ``column[rows]``."""
        out = np.empty(len(rows), column.dtype)
        for piece in self.of(len(rows)):
            out[piece] = column[rows[piece]]
        return out

    def gather(self, column: Array, order: Array | None, out: Array) -> None:
        """Write ``column[order]`` to the first rows of `out`, whatever its dtype.

        All values must fit. `order` None stands for the order as it is.
        """
        n = len(column) if order is None else len(order)
        for piece in self.of(n):
            if order is None:
                out[piece] = column[piece]
            elif not _gathered(column, order[piece], out[piece]):
                out[piece] = column[order[piece]]

    def taken(self, column: Array, order: Array | None, room: int = 0) -> Array:
        """Return ``column[order]`` in the narrowest signed dtype that holds it.

        Parameters
        ----------
        room : rows to leave free at the end.
        """
        out = np.empty(len(column) + room, narrowest(column))
        self.gather(column, order, out)
        return out


def _gathered(column: Array, order: Array, out: Array) -> bool:
    """Write ``column[order]`` to `out`; tell whether compiled code has these types."""
    is_signed_or_same = column.dtype.kind == "i" or column.itemsize == out.itemsize
    return (
        is_signed_or_same
        and order.dtype == np.int32
        and column.flags.c_contiguous
        and bool(
            library().ggscope_tensor_gather(
                column, column.itemsize, order, len(order), out, out.itemsize
            )
        )
    )


def narrowest(column: Array) -> np.dtype[Any]:
    """Return the narrowest signed dtype that holds the values of `column` and -1."""
    low = int(column.min(initial=0)) if column.dtype.kind == "i" else 0
    return narrow(np.array([min(low, -1), int(column.max(initial=0))])).dtype


HEAD_BYTES = 64 * 1024
BOM = b"\xef\xbb\xbf"
"""What some programs write before a text in UTF-8."""
TRACE = "trace"
RECORDING = "recording"
"""The sidecar of a trace: it belongs to one file of records, and to no other."""
METADATA = "metadata"
"""What a tracer says of a run, in words."""
ROLES = (
    TRACE, "model", "map", "registry", "buffers", "graph", "experts", RECORDING,
    METADATA,
)  # fmt: skip
"""What a file can be to a session; see `ggscope.model.trace.JoinedFile`."""

_YES, _NO = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


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


class Kind(Enum):
    """What values an option takes."""

    TEXT = "text"
    CHOICE = "choice"
    NUMBER = "number"
    FLAG = "flag"
    RANGE = "range"
    """FIRST:STOP, see `parse_range`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of a reader, as ``--option NAME=VALUE`` gives it.

    Attributes
    ----------
    doc : one line of help.
    choices : the values that there are; makes it a `Kind.CHOICE`.
    between : bounds of a number, neither of which it may be.
    default : value where nothing, or an empty text, is given.
    example : a value that fits, for the message about one that does not.
    """

    name: str
    doc: str
    kind: Kind = Kind.TEXT
    choices: tuple[str, ...] = ()
    between: tuple[float, float] = (-math.inf, math.inf)
    default: str = ""
    example: str = ""

    def checked(self, text: str) -> str:
        """Return the value that `text` means; flags become "true" or "false".

        Raises
        ------
        ReadError
            If the option has no such value.
        """
        if not text or text == self.default:
            return self.default
        if self.choices:
            if text in self.choices:
                return text
            raise self._refused(text, "It is one of " + ", ".join(self.choices) + ".")
        if self.kind is Kind.FLAG:
            if text.lower() in _YES | _NO:
                return "true" if text.lower() in _YES else "false"
            raise self._refused(text, "It is true or false.")
        if self.kind is Kind.NUMBER:
            try:
                is_good = self.between[0] < float(text) < self.between[1]
            except ValueError:
                is_good = False
            if not is_good:
                raise self._refused(text, f"It is a number, e.g. {self.example}.")
        return text

    def _refused(self, text: str, hint: str) -> ReadError:
        return ReadError(f"the option {self.name} cannot be {text!r}.", hint=hint)


@dataclass(frozen=True, slots=True)
class ReaderInfo:
    """Passive facts about a reader, which need nothing of its code.

    Attributes
    ----------
    id : short stable name, e.g. ``ggmlviz``.
    title : what people read, e.g. "ggml-viz event stream".
    suffixes : lower case with dot; they break ties and fill the open dialog.
    doc : one sentence on what the format is and who writes it.
    options : what ``ReadContext.options`` may hold; by the first protocol a mapping
        of names to lines of help.
    role : what files of it are to a session, one of `ROLES`.
    magic : what files begin with, one of these.
    keys : keys of JSON, one of which stands in the first 64 KiB, e.g. "nodes".
    line : regular expression of something in the first 64 KiB of a text, where upper
        and lower case are the same and ``^`` and ``$`` are the ends of lines.
    is_binary : files of it hold zero bytes, which no text does.
    names : what such files are called, in lower case.

    Notes
    -----
    `magic`, `keys`, `line`, `is_binary` and `names` say whose files the reader is asked
    about; without any it is asked about all, as by the first protocol.
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
        """The options, those of the first protocol as texts of any kind."""
        if isinstance(self.options, Mapping):
            return tuple(Option(name=n, doc=d) for n, d in self.options.items())
        return self.options

    def chosen(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return the value of every option the reader has, checked.

        Raises
        ------
        ReadError
            If an option has a value that does not exist.
        """
        return {o.name: o.checked(options.get(o.name, "")) for o in self.known_options}

    def allows(self, head: Head) -> bool:
        """Tell whether a file may be of this format, by its first bytes.

        A reader that they do not allow would not take the file; it need not be
        imported to ask it.
        """
        if not (self.magic or self.keys or self.line or self.is_binary or self.names):
            return True
        data = head.data
        if head.name.lower() in self.names:
            return True
        if any(data.startswith(m) or m.startswith(data) for m in self.magic):
            return True
        if self.magic and head.suffix in self.suffixes:
            return True  # the magic number may be what is damaged
        if any(f'"{key}"'.encode() in data for key in self.keys):
            return True
        is_text = b"\0" not in data
        if self.line and is_text:
            pattern = re.compile(self.line.encode(), re.MULTILINE | re.IGNORECASE)
            return pattern.search(data.removeprefix(BOM)) is not None
        return self.is_binary and not is_text


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


def asked_range(options: Mapping[str, str], n_records: int) -> tuple[int, int]:
    """Return (first, stop) of the records that the option ``range`` asks for.

    Raises
    ------
    ReadError
        If it is not understood or holds no record.
    """
    text = options.get(RANGE_OPTION, "").strip()
    if not text:
        return 0, n_records
    try:
        return parse_range(text, n_records)
    except ValueError as error:
        raise ReadError(
            f"the option {RANGE_OPTION} is not understood: {error}.",
            hint=f"Give record numbers, as in {RANGE_OPTION}=0:1000000 or "
            f"{RANGE_OPTION}=25%:50%.",
        ) from error


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
    def pieces(self) -> ChunkedOps:
        """Work on long columns, piece by piece, that stops where it is cancelled."""
        return ChunkedOps(self.check_cancelled)

    @property
    def wants_stages(self) -> bool:
        """Whether anybody listens to early snapshots."""
        return self._publish is not None


class SnapshotScheduler:
    """Decides when to publish while a file is being read.

    Parameters
    ----------
    first_s : seconds of reading before the first snapshot, and behind each.
    is_wanted : whether anybody listens.
    short_s : a file that is read sooner needs none.
    most : snapshots.
    growth : a further one shows at least so many times as much.
    largest_share : of the file, that one shows at most.
    cost_share : what all but the first may take of the time for reading.
    clock : seconds from anywhere.
    """

    def __init__(
        self,
        first_s: float,
        *,
        is_wanted: bool = True,
        short_s: float = 0.0,
        most: float = math.inf,
        growth: float = 2.0,
        largest_share: float = 1.0,
        cost_share: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_wanted = is_wanted
        self._first_s, self._short_s = first_s, short_s
        self._most, self._growth = most, growth
        self._largest_share, self._cost_share = largest_share, cost_share
        self._clock = clock
        self._began = clock()
        self._spent = self._price = 0.0
        self._last = self._count = 0

    def is_due(self, done: int, total: int) -> bool:
        """Tell whether to publish, with `done` of `total` records or bytes read."""
        if not self._is_wanted or self._count >= self._most or not 0 < done < total:
            return False
        if done < self._growth * self._last or done > self._largest_share * total:
            return False
        reading = self._clock() - self._began - self._spent
        left = reading * (total - done) / done
        if min(reading, left) < self._first_s or reading + left < self._short_s:
            return False
        cost = self._spent + self._price * done
        return not self._count or cost <= self._cost_share * (reading + left)

    def timed(self, publish: Callable[[], None], done: int) -> None:
        """Publish, and note what it took to show `done` records or bytes."""
        began = self._clock()
        publish()
        seconds = self._clock() - began
        self._spent += seconds
        self._price = seconds / done
        self._last = done
        self._count += 1

    @property
    def is_slow(self) -> bool:
        """Whether reading takes so long that what comes last is told bit by bit."""
        elapsed = self._clock() - self._began
        return self._is_wanted and (self._count > 0 or elapsed >= self._short_s)


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
