"""Lines about storage, as columns; what finds them is ``storage.c``."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ggscope.model.tables import I32, I64, U8, Array
from ggscope.native.declared import IoLayout, IoRows, IoTally
from ggscope.native.library import library
from ggscope.readers.api import BOM, ReadContext
from ggscope.readers.common.line_table import Columns, LineForm, LineTable
from ggscope.readers.common.text_blocks import scanned
from ggscope.readers.source import Source

_LETTERS = 256
_FORM = LineForm(
    {
        "line": np.int64, "offset": np.int64, "time": np.int64, "clock": np.uint8,
        "form": np.uint8, "action": np.uint8, "kind": np.uint8, "phase": np.uint8,
        "handle": np.int64, "place": np.int64, "size": np.int64, "extra": np.int64,
        "pid": np.int32, "name": np.int32, "path": np.int32,
    },
    row_bytes=40,
    texts=("name", "path"),
    texts_per_row=2,
    counts=("n_lines", "n_events", "n_other", "n_broken", "n_hidden"),
    firsts=("first_other", "first_broken"),
)  # fmt: skip
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
        """Whether biosnoop states the bytes of a request; that of bpftrace does not."""
        return b"B" in self.behind

    @property
    def is_coarse(self) -> bool:
        """Whether biosnoop counts in whole milliseconds."""
        return b"m" in self.before


def layout_of(head: bytes, forms: int = ALL_FORMS) -> Layout:
    """Return the layout that the first lines of a file state."""
    match = _HEADER.search(head.removeprefix(BOM))
    fields = match[0].split() if match else []
    if b"COMM" not in fields:
        return Layout(forms=forms)
    at = fields.index(b"COMM")
    codes = [_CODES.get(word, b"x") for word in fields]
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
    clock: U8
    form: U8
    action: U8
    kind: U8
    phase: U8
    handle: I64
    place: I64
    size: I64
    extra: I64
    pid: I32
    name: I32
    path: I32
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

    def take(self, rows: I64) -> dict[str, Array]:
        """Return the columns of some rows, by name."""
        return {name: getattr(self, name)[rows] for name in _FORM.dtypes}


def scan_lines(source: Source, context: ReadContext, layout: Layout) -> IoLines:
    """Return the lines of a file.

    Raises
    ------
    ReadError
        If the file cannot be read.
    Cancelled
        If that was asked for.
    """
    whole, counts = LineTable(_FORM), _Counts()

    def scan(data: U8, is_last: bool) -> tuple[LineTable, _Counts]:
        return _scan(data, is_last, layout)

    for offset, (block, more) in scanned(source, context, scan):
        whole.add(offset, block)
        counts.add(more)
    return _lines(whole, counts)


def scan_text(data: bytes, layout: Layout) -> IoLines:
    """Return the lines of a text, whose last one may be cut."""
    text = np.frombuffer(data.removeprefix(BOM), np.uint8)
    return _lines(*_scan(text, True, layout))


class _Counts:
    """How many lines there are of each letter of blkparse, and of each `Form`."""

    def __init__(self) -> None:
        self.actions = np.zeros(_LETTERS, np.int64)
        self.forms = np.zeros(len(Form), np.int64)

    def add(self, more: "_Counts") -> None:
        """Add those of another block."""
        self.actions += more.actions
        self.forms += more.forms


def _lines(table: LineTable, counts: _Counts) -> IoLines:
    return IoLines(
        **table.fields(),
        texts=table.texts,
        actions=counts.actions,
        forms=counts.forms,
    )


def _scan(data: U8, is_last: bool, layout: Layout) -> tuple[LineTable, _Counts]:
    """Return the rows of a block of lines, and how many there are of each kind."""
    block, counts = LineTable(_FORM), _Counts()
    kernel_layout = IoLayout(
        forms=layout.forms,
        n_before=len(layout.before),
        n_behind=len(layout.behind),
        codes=np.frombuffer(layout.before + layout.behind, np.uint8),
    )
    tally = IoTally(actions=counts.actions, forms=counts.forms)

    def scan(rest: U8, capacity: int, columns: Columns, texts: Any) -> int:
        n: int = library().ggscope_scan_storage(
            rest, len(rest), int(is_last), capacity, kernel_layout,
            IoRows(**columns), texts, tally,
        )  # fmt: skip
        return n

    block.scan(data, scan, tally)
    return block, counts
