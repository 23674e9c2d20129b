"""Lines about storage, as columns; what finds them is ``storage.c``."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64
from ggscope.native.declared import IoLayout, IoRows, IoTally
from ggscope.native.library import library
from ggscope.readers.api import BOM, ReadContext
from ggscope.readers.common.text_blocks import Bytes, TextSlots, scanned
from ggscope.readers.source import Source

_CAPACITY = 1 << 16
_ROW_BYTES = 40
"""A line that says something has about so many bytes at least."""
_TEXTS_PER_ROW = 2
_LETTERS = 256
_DTYPES = {
    "line": np.int64, "offset": np.int64, "time": np.int64, "clock": np.uint8,
    "form": np.uint8, "action": np.uint8, "kind": np.uint8, "phase": np.uint8,
    "handle": np.int64, "place": np.int64, "size": np.int64, "extra": np.int64,
    "pid": np.int32, "name": np.int32, "path": np.int32,
}  # fmt: skip
_TEXTS = ("name", "path")
_HEADER = re.compile(
    rb"^[ \t]*TIME\((s|ms)\)[ \t]+[^\n]*LAT\(ms\)[^\n]*$", re.MULTILINE
)
_CODES = {
    b"TIME(s)": b"s", b"TIME(ms)": b"m", b"PID": b"P", b"DISK": b"D", b"T": b"T",
    b"SECTOR": b"S", b"BYTES": b"B", b"QUE(ms)": b"Q", b"LAT(ms)": b"L",
}  # fmt: skip
_USUAL = (b"s", b"PDTSBL")
"""Columns of bcc's biosnoop before and behind COMM, where no line names them."""


class Form(IntEnum):
    """Who writes such lines, as in ``storage.c``."""

    BLKPARSE = 0
    BIOSNOOP = 1
    FATRACE = 2
    FAULT_SCRIPT = 3
    """``perf script`` of page faults."""
    FAULT_TRACE = 4
    """``perf trace -F``."""
    STRACE = 5

    @property
    def title(self) -> str:
        """The program."""
        return _TITLES[self]


_TITLES = {
    Form.BLKPARSE: "blkparse", Form.BIOSNOOP: "biosnoop", Form.FATRACE: "fatrace",
    Form.FAULT_SCRIPT: "perf script", Form.FAULT_TRACE: "perf trace",
    Form.STRACE: "strace",
}  # fmt: skip
ALL_FORMS = (1 << len(Form)) - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """What to look for.

    Attributes
    ----------
    before, behind : letters of the columns of biosnoop before and behind COMM.
    forms : a bit for each `Form`.
    """

    before: bytes = _USUAL[0]
    behind: bytes = _USUAL[1]
    forms: int = ALL_FORMS

    @property
    def has_sizes(self) -> bool:
        """Whether biosnoop tells the bytes of a request; that of bpftrace does not."""
        return b"B" in self.behind

    @property
    def is_coarse(self) -> bool:
        """Whether biosnoop counts in whole milliseconds."""
        return b"m" in self.before


def layout_of(head: bytes, forms: int = ALL_FORMS) -> Layout:
    """Return the layout that the first lines of a file tell."""
    match = _HEADER.search(head.removeprefix(BOM))
    words = match[0].split() if match else []
    if b"COMM" not in words:
        return Layout(forms=forms)
    at = words.index(b"COMM")
    codes = [_CODES.get(word, b"x") for word in words]
    return Layout(b"".join(codes[:at]), b"".join(codes[at + 1 :]), forms)


@dataclass(frozen=True, slots=True, eq=False)
class IoLines:
    """The lines of a trace that say something, in the order of the file.

    Attributes
    ----------
    line, offset : int64[n], number of the line from 0, and its first byte.
    time : int64[n], ns of its `clock` (uint8[n], `LineClock`).
    form : uint8[n], `Form`; action, phase : uint8[n], letters as in ``storage.c``.
    kind : uint8[n], `IoKind`.
    handle : int64[n], device (major << 20 | minor) or file descriptor; of biosnoop, ns
        in the queue; -1 none.
    place : int64[n], sector, offset in the file or address; -1 unknown.
    size : int64[n], bytes, -1 unknown.
    extra : int64[n], sector before a remap, ns that it took, or offset of a mapping.
    pid : int32[n]; name, path : int32[n] into `texts`; -1 none.
    actions : events of each letter, of blkparse.
    n_lines, n_events, n_other, n_broken, n_hidden : lines of the file; that are events;
        that are none; that begin like one and cannot be read; calls of io_uring, whose
        reads strace does not see.
    first_other, first_broken : numbers of lines, -1 none.
    """

    line: I64
    offset: I64
    time: I64
    clock: npt.NDArray[np.uint8]
    form: npt.NDArray[np.uint8]
    action: npt.NDArray[np.uint8]
    kind: npt.NDArray[np.uint8]
    phase: npt.NDArray[np.uint8]
    handle: I64
    place: I64
    size: I64
    extra: I64
    pid: npt.NDArray[np.int32]
    name: npt.NDArray[np.int32]
    path: npt.NDArray[np.int32]
    texts: tuple[str, ...]
    actions: I64
    forms: I64
    n_lines: int
    n_events: int
    n_other: int
    n_broken: int
    n_hidden: int
    first_other: int
    first_broken: int

    def __len__(self) -> int:
        return len(self.line)

    def take(self, rows: I64) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of some rows, by name."""
        return {name: getattr(self, name)[rows] for name in _DTYPES}


def scan_lines(source: Source, context: ReadContext, layout: Layout) -> IoLines:
    """Return the lines of a file.

    Raises
    ------
    ReadError
        If the file cannot be read.
    Cancelled
        If that was asked for.
    """
    whole = _Whole()

    def scan(data: Bytes, is_last: bool) -> "_Part":
        return _scan(data, is_last, layout)

    for offset, part in scanned(source, context, scan):
        whole.add(offset, part)
    return whole.lines()


def scan_text(data: bytes, layout: Layout) -> IoLines:
    """Return the lines of a text, whose last one may be cut."""
    data = data.removeprefix(BOM)
    whole = _Whole()
    if data:
        whole.add(0, _scan(np.frombuffer(data, np.uint8), True, layout))
    return whole.lines()


_COUNTS = ("n_lines", "n_events", "n_other", "n_broken", "n_hidden")
_FIRSTS = ("first_other", "first_broken")


@dataclass(slots=True)
class _Part:
    """The rows of a block; `line` and `offset` count from its begin."""

    columns: dict[str, npt.NDArray[Any]]
    texts: list[str]
    counts: dict[str, int]
    firsts: dict[str, int]
    actions: I64
    forms: I64


class _Whole:
    """Puts the rows of blocks one behind the other."""

    def __init__(self) -> None:
        self._parts: list[dict[str, npt.NDArray[Any]]] = []
        self._numbers: dict[str, int] = {}
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._firsts = dict.fromkeys(_FIRSTS, -1)
        self._actions = np.zeros(_LETTERS, np.int64)
        self._forms = np.zeros(len(Form), np.int64)

    def add(self, offset: int, part: _Part) -> None:
        """Add the rows of the next block, whose first byte is at `offset`."""
        n_before = self._counts["n_lines"]
        part.columns["line"] += n_before
        part.columns["offset"] += offset
        numbers = self._numbers
        table = [numbers.setdefault(text, len(numbers)) for text in part.texts]
        moved = np.array([*table, -1], np.int32)
        for name in _TEXTS:
            part.columns[name] = moved[part.columns[name]]
        for name, first in part.firsts.items():
            if first >= 0 and self._firsts[name] < 0:
                self._firsts[name] = first + n_before
        for name, count in part.counts.items():
            self._counts[name] += count
        self._actions += part.actions
        self._forms += part.forms
        self._parts.append(part.columns)

    def lines(self) -> IoLines:
        """Return all rows."""
        columns: dict[str, Any] = {
            name: np.concatenate(
                [np.empty(0, dtype), *(part.pop(name) for part in self._parts)]
            )
            for name, dtype in _DTYPES.items()
        }
        columns |= {**self._counts, **self._firsts}
        return IoLines(
            **columns,
            texts=tuple(self._numbers),
            actions=self._actions,
            forms=self._forms,
        )


def _scan(data: Bytes, is_last: bool, layout: Layout) -> _Part:
    """Return the rows of a block of lines."""
    parts: list[dict[str, npt.NDArray[Any]]] = []
    texts: list[str] = []
    capacity = min(len(data) // _ROW_BYTES + 64, _CAPACITY)
    codes = np.frombuffer(layout.before + layout.behind, np.uint8)
    asked = IoLayout(
        forms=layout.forms,
        n_before=len(layout.before),
        n_behind=len(layout.behind),
        codes=codes,
    )
    actions, forms = np.zeros(_LETTERS, np.int64), np.zeros(len(Form), np.int64)
    tally = IoTally(actions=actions, forms=forms)
    counts, firsts = dict.fromkeys(_COUNTS, 0), dict.fromkeys(_FIRSTS, -1)
    done = 0
    while done < len(data):
        columns = {name: np.empty(capacity, dtype) for name, dtype in _DTYPES.items()}
        rest = data[done:]
        slots = TextSlots.of(capacity + _TEXTS_PER_ROW)
        n = library().ggscope_scan_storage(
            rest, len(rest), int(is_last), capacity, asked, IoRows(**columns),
            slots.table, tally,
        )  # fmt: skip
        if not tally.consumed:  # a block without a line end
            tally.consumed, tally.n_lines = len(rest), 0
        rows = {name: column[:n].copy() for name, column in columns.items()}
        rows["line"] += counts["n_lines"]
        rows["offset"] += done
        for name in _TEXTS:
            rows[name][rows[name] >= 0] += len(texts)
        texts += slots.texts(rest)
        parts.append(rows)
        for name in _FIRSTS:
            first = getattr(tally, name)
            if first >= 0 and firsts[name] < 0:
                firsts[name] = first + counts["n_lines"]
        for name in _COUNTS:
            counts[name] += getattr(tally, name)
        done += tally.consumed
    joined = {
        name: np.concatenate([np.empty(0, dtype), *(rows[name] for rows in parts)])
        for name, dtype in _DTYPES.items()
    }
    return _Part(joined, texts, counts, firsts, actions, forms)
