"""Events of a trace of CUDA calls, as columns; what finds them is ``calls.c``.

Sources of the lines: ``cuda_hook.c`` and ``generic_cuda_hook.c`` (libraries before
libcuda), ggscope's own hook (``ggscope-capture cuda``), ``trace_cuda_full.bt`` and
``trace_all_cuda.bt`` (bpftrace), a script for bcc (``cuda_tracer.py``), a sidecar of
k3s, and ``strace -tt -T``.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np

from ggscope.model.tables import F64, I16, I32, I64, U8, U64, Table
from ggscope.native.declared import CallRows, CallTally
from ggscope.native.library import library
from ggscope.readers.api import ReadContext
from ggscope.readers.common.line_table import Columns, LineForm, LineTable
from ggscope.readers.common.text_blocks import scanned
from ggscope.readers.source import Source

UNKNOWN = -(1 << 63)
NO_RESULT = -(1 << 31)
_FORM = LineForm(
    {
        "line": np.int64, "offset": np.int64, "length": np.int32, "whole": np.int64,
        "nano": np.int32, "clock": np.uint8, "form": np.uint8, "phase": np.uint8,
        "flags": np.uint8, "id": np.int64, "pid": np.int64, "tid": np.int64,
        "depth": np.int16, "name": np.int32, "type": np.int32, "way": np.int32,
        "result": np.int32, "size": np.int64, "address": np.uint64, "rate": np.float64,
        "duration": np.float64,
    },
    row_bytes=32,
    texts=("name", "type", "way"),
    texts_per_row=3,
    counts=("n_lines", "n_broken", "n_repaired", "n_other"),
    firsts=("first_broken", "first_repaired", "first_other"),
    is_packed=True,
)  # fmt: skip


class Form(IntEnum):
    """Who writes such lines, as in ``calls.c``."""

    HOOK = 0
    """A library before libcuda: begin and end share an op_id."""
    PROBE = 1
    """bpftrace: begin and end are those of a thread and a name."""
    ENTRY = 2
    """A sidecar that sees calls begin only."""
    NUMBERED = 3
    """bcc: kinds of events are numbers, and no call has a name."""
    PROBE_TEXT = 4
    STRACE = 5


class Mark(IntFlag):
    """What else is known of an event."""

    REPAIRED = 1
    """Its JSON is damaged; what stands before the damage counts."""
    FAILED = 2


@dataclass(frozen=True, slots=True)
class Notes:
    """What writers say of a file beside its events.

    Attributes
    ----------
    n_dropped : events that are not in the file.
    n_begun, n_ended : first and last lines of ggscope's hook, one per process.
    n_left_out : functions whose calls it could not record.
    epoch : ns from 1970, UTC, to the zero of the file's clock; None unknown.
    """

    n_dropped: int = 0
    n_begun: int = 0
    n_ended: int = 0
    n_left_out: int = 0
    epoch: int | None = None

    def __add__(self, other: "Notes") -> "Notes":
        return Notes(
            self.n_dropped + other.n_dropped,
            self.n_begun + other.n_begun,
            self.n_ended + other.n_ended,
            self.n_left_out + other.n_left_out,
            other.epoch if self.epoch is None else self.epoch,
        )


@dataclass(frozen=True, slots=True, eq=False)
class CallLines(Table):
    """The events of a trace, in the order of the file.

    Attributes
    ----------
    line, offset, length : int64[n], int64[n], int32[n]; number of the line from 0, and
        the bytes of the event.
    whole, nano : int64[n], int32[n]; the time and its billionths; `clock` : uint8[n],
        `LineClock`.
    form : uint8[n], `Form`; `kind` : uint8[n], number of a `Form.NUMBERED` event.
    phase : uint8[n], letter: B begin, E end, X a whole call, I an instant.
    flags : uint8[n], `Mark`.
    id, pid, tid : int64[n], `UNKNOWN` where the event has none.
    depth : int16[n], how many calls are around it, as the file says; -1 unknown.
    name, type, way : int32[n] into `texts`, -1 none; `way` is the direction of a copy,
        the kernel of a launch, what an instant does, or the word for the error of a
        system call.
    result : int32[n], `NO_RESULT` where there is none.
    size : int64[n] bytes, -1 unknown; `address` : uint64[n], 0 none.
    rate, duration : float64[n], GB/s and ns as the file states them; -1 not stated.
    texts : all different texts.
    n_lines, n_broken, n_repaired, n_other : lines of the file; that begin like an event
        and state nothing; that are damaged and used; that are none.
    first_broken, first_repaired, first_other : numbers of lines, -1 none.
    notes : what the writers say beside events.
    """

    line: I64
    offset: I64
    length: I32
    whole: I64
    nano: I32
    clock: U8
    form: U8
    kind: U8
    phase: U8
    flags: U8
    id: I64
    pid: I64
    tid: I64
    depth: I16
    name: I32
    type: I32
    way: I32
    result: I32
    size: I64
    address: U64
    rate: F64
    duration: F64
    texts: tuple[str, ...]
    n_lines: int
    n_broken: int
    n_repaired: int
    n_other: int
    first_broken: int
    first_repaired: int
    first_other: int
    notes: Notes


class CallScan:
    """Scans lines that come little by little: line numbers and texts go on."""

    def __init__(self) -> None:
        self._table, self._notes = LineTable(_FORM), Notes()

    def add(self, data: U8, offset: int) -> CallLines:
        """Return the events of the next lines, with counts and texts of all so far.

        `offset` : of their first byte in the file.
        """
        block, notes = _scan(data, is_last=True)
        self._table.add(offset, block)
        self._notes += notes
        return _lines(self._table, self._notes)


def scan_lines(source: Source, context: ReadContext) -> CallLines:
    """Return the events of a file.

    Memory is that of some blocks and of the rows. A line that is longer than 64 MiB is
    cut there.

    Raises
    ------
    ReadError
        If the file cannot be read.
    Cancelled
        If that was asked for.
    """
    whole, notes = LineTable(_FORM), Notes()
    for offset, (block, more) in scanned(source, context, _scan):
        whole.add(offset, block)
        notes += more
    return _lines(whole, notes)


def scan_text(data: U8) -> CallLines:
    """Return the events of a text, whose last line may be cut."""
    return _lines(*_scan(data, is_last=True))


def _lines(table: LineTable, notes: Notes) -> CallLines:
    fields = table.fields()
    kind = fields["form"] >> 4
    fields["form"] = fields["form"] & 15
    return CallLines(**fields, kind=kind, texts=table.texts, notes=notes)


def _scan(data: U8, is_last: bool) -> tuple[LineTable, Notes]:
    """Return the rows of a block of lines, and what writers say beside them."""
    block, tally, notes = LineTable(_FORM), CallTally(), Notes()

    def scan(rest: U8, capacity: int, columns: Columns, texts: Any) -> int:
        nonlocal notes
        n: int = library().ggscope_scan_calls(
            rest, len(rest), int(is_last), capacity, CallRows(**columns), texts, tally
        )
        notes += _notes(tally)
        return n

    block.scan(data, scan, tally)
    return block, notes


def _notes(tally: CallTally) -> Notes:
    epoch = None
    if tally.epoch:
        epoch = tally.epoch - tally.epoch_whole * 10**9 - tally.epoch_nano
    return Notes(tally.n_dropped, tally.n_begun, tally.n_ended, tally.n_left_out, epoch)
