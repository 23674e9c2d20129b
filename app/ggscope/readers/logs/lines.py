"""Lines of a log that state facts, as columns; ``logs.c`` finds them.

Sources of the lines: ``tools/server/server.cpp`` and ``server-context.cpp``,
``common/log.cpp``, ``common/common.cpp`` and ``src/llama-context.cpp`` of llama.cpp,
2023 to 2026; ``examples/server`` of ik_llama.cpp; slog and gin in ollama.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np

from ggscope.model.tables import F64, I32, I64, U8, Bools, Table
from ggscope.native.declared import LogRows, LogTally
from ggscope.native.library import library
from ggscope.readers.api import ReadContext
from ggscope.readers.common.line_table import Columns, LineForm, LineTable
from ggscope.readers.common.text_blocks import scanned
from ggscope.readers.source import Source

VALUES = 3
"""Numbers of a line that are read, as in ``logs.c``."""
NO_NUMBER = -2
_FORM = LineForm(
    {
        "line": np.int64, "offset": np.int64, "length": np.int32, "time": np.int64,
        "clock": np.uint8, "level": np.uint8, "kind": np.uint8, "slot": np.int32,
        "task": np.int64, "value": np.float64, "n_values": np.uint8,
    },
    widths={"value": VALUES},
    row_bytes=32,
    counts=("n_lines", "n_known"),
)  # fmt: skip


class Clock(IntEnum):
    """What the time of a line counts from."""

    NONE = 0
    SINCE_START = 1
    """The begin of the program."""
    WALL = 2
    """1970, UTC."""
    LOCAL = 3
    """A time of day without a zone, perhaps without a year."""


class Kind(IntEnum):
    """What a line states, as in ``logs.c``."""

    NONE = 0
    HEAD = 1
    """Timings of a task follow, in lines of their own."""
    PROMPT_EVAL = 2
    EVAL = 3
    TOTAL = 4
    LAUNCH = 5
    NEW_PROMPT = 6
    PAST = 7
    """How much of the prompt the slot had in its cache."""
    CACHED = 8
    """How much of it stays."""
    PROGRESS = 9
    RATE = 10
    RELEASE = 11
    REPROCESS = 12
    CHECKPOINT = 13
    RESTORED = 14
    ERASED = 15
    DRAFT = 16
    MEMORY = 17
    START = 18
    MODEL = 19
    LISTENING = 20
    HTTP = 21
    DEVICE = 22
    SPLITS = 23
    BUFFER = 24
    METADATA = 25
    REMARK = 26
    """A warning or an error of no other kind."""
    CANCEL = 27
    DEFER = 28
    SHIFT = 29
    CACHE_STATE = 30
    DRAFT_ROUNDS = 31
    """Sums of one kind of drafts since the start: rounds, those with a token that was
    accepted, and ms of drafting (-1 not stated)."""
    DRAFT_TOKENS = 32
    """Of the same line: tokens, accepted ones, and a number of its own for the kind."""
    WARM_UP = 33
    LOAD_TIME = 34
    OP_LIST = 35
    """A split, timings or an op that `common.op_lines` reads."""
    THROUGHPUT = 36
    """vLLM, of the interval before: prompt and generated tokens/s, running requests; a
    number that is not there is -1, here and in the next two."""
    QUEUE = 37
    """Of the same line: waiting requests, percent of the KV cache, percent of hits."""
    SPECULATION = 38
    """vLLM: tokens accepted at once, percent accepted, drafted tokens/s."""
    ENGINE = 39
    """What vLLM says of itself while it starts."""
    KV_CACHE = 40
    """Size of a KV cache that was made."""
    CLEARED = 41
    """A slot has dropped its tokens."""


class LineText(Protocol):
    """What the bytes of lines are read from."""

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LogLines(Table):
    """The lines that state facts, in the order of the file.

    Attributes
    ----------
    line : int64[n], number of the line, from 0.
    offset, length : int64[n], int32[n]; bytes of the message, or of the whole line
        where escape sequences of a terminal stand in it.
    time : int64[n] in ns; `clock` : uint8[n], what it counts from.
    level : uint8[n], a letter, 0 = none.
    kind : uint8[n], `Kind`.
    slot, task : int32[n], int64[n]; `NO_NUMBER` where the line names none.
    value : float64[n, VALUES], the first `n_values` of a row are there.
    n_lines : lines of the file.
    n_known : lines that look like those of llama.cpp or ollama.
    """

    line: I64
    offset: I64
    length: I32
    time: I64
    clock: U8
    level: U8
    kind: U8
    slot: I32
    task: I64
    value: F64
    n_values: U8
    n_lines: int
    n_known: int

    def rows(self, *kinds: Kind) -> I64:
        """Return the rows of some kinds, ascending."""
        return np.flatnonzero(self.are(*kinds)).astype(np.int64)

    def are(self, *kinds: Kind) -> Bools:
        """Return which lines are of some kinds, bool[n]."""
        chosen = np.zeros(len(self), np.bool_)
        for kind in kinds:  # a look into a table of kinds takes longer
            chosen |= self.kind == kind
        return chosen

    def text(self, source: "LineText", row: int, limit: int = 512) -> str:
        """Return the message of a line, without what a terminal makes of it."""
        length = min(int(self.length[row]), limit)
        raw = source.read(int(self.offset[row]), length)
        return raw.decode("utf-8", "replace")


def scan_parts(
    source: Source, context: ReadContext, n_rows: Callable[[], int]
) -> Iterator[LogLines]:
    """Yield the lines of a log that state facts, part by part.

    Memory is that of some blocks and of the rows of a part. A line that is longer than
    64 MiB is cut there.

    Parameters
    ----------
    n_rows : asked again and again for how many rows a part should have at least; the
        last one may have fewer.

    Raises
    ------
    ReadError
        If the file cannot be read.
    Cancelled
        If that was asked for.
    """
    part, n_lines = LineTable(_FORM), 0
    for offset, block in scanned(source, context, _scan, lines_done):
        part.add(offset, block)
        if part.n_rows >= n_rows():
            yield (lines := _lines(part, n_lines))
            part, n_lines = LineTable(_FORM), n_lines + lines.n_lines
    yield _lines(part, n_lines)


def lines_done(data: U8, is_start: bool) -> int:
    """Return how many bytes of whole lines end with a line that is not cut by CRI.

    Kubernetes writes a line of more than 16 KiB as pieces; they are scanned at once.

    Parameters
    ----------
    is_start : whether the first line is known to be no rest of another one; else 0 is
        returned where that is not clear.
    """
    n: int = library().ggscope_log_lines_done(data, len(data), int(is_start))
    return n


def scan_text(data: U8, *, line: int = 0, offset: int = 0) -> LogLines:
    """Return the lines of a text, the last one perhaps cut, that state facts.

    Parameters
    ----------
    line, offset : number of its first line, and place of its first byte in the file.
    """
    return _lines(_scan(data, is_last=True), line, offset)


def _lines(table: LineTable, line: int, offset: int = 0) -> LogLines:
    """Return the rows of a table whose first line and byte have such numbers."""
    fields = table.fields()
    fields["line"] += line
    fields["offset"] += offset
    return LogLines(**fields)


def _scan(data: U8, is_last: bool) -> LineTable:
    """Return the rows of a block of lines."""
    block, tally = LineTable(_FORM), LogTally()

    def scan(rest: U8, capacity: int, columns: Columns, _: object) -> int:
        n: int = library().ggscope_scan_log(
            rest, len(rest), int(is_last), capacity, LogRows(**columns), tally
        )
        return n

    block.scan(data, scan, tally)
    return block
