"""Samples in texts, perf script and folded lines; what scans them is ``stacks.c``."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ggscope.errors import LimitExceededError
from ggscope.model.tables import I32, I64, U8, Table
from ggscope.native.declared import StackRows, StackTally
from ggscope.native.library import library
from ggscope.readers.api import BOM, ReadContext
from ggscope.readers.chunked import ChunkedTable
from ggscope.readers.common.stacks import MAX_FRAMES, StackPairTable, Stacks
from ggscope.readers.common.text_arena import Texts
from ggscope.readers.source import Source

NO_TIME = np.iinfo(np.int64).min
BLOCK_BYTES = 4 << 20
_LONGEST_SAMPLE = 64 << 20
_CAPACITY = 1 << 14
_TEXT_BYTES = 4096
_LARGEST = 1 << 28
"""Different texts, frames or stacks; more are refused."""
_MEMORY_BLOCKS = 16
_ROW_BYTES = 24
"""Memory of a pair or text in its table, while that grows."""
_COLUMNS = {
    "offset": np.int64, "time": np.int64, "period": np.int64, "comm": np.int32,
    "event": np.int32, "pid": np.int32, "tid": np.int32, "cpu": np.int32,
    "node": np.int32,
}  # fmt: skip


class Form(IntEnum):
    """Kind of a text of samples."""

    PERF = 0
    FOLDED = 1


class _Status(IntEnum):
    """Why a scan ended, as in ``stacks.c``."""

    MORE = 0
    FULL_ROWS = 1
    FULL_TABLES = 2


@dataclass(frozen=True, slots=True, eq=False)
class SampleLines(Table):
    """The samples of a text, in the order of the file.

    Attributes
    ----------
    offset : int64[n], where each begins in the file.
    time : int64[n], ns; of folded lines billionths of the weight.
    period : int64[n], as written, -1 none; of folded lines the whole weight.
    comm, event : int32[n], texts of `stacks`.
    pid, tid, cpu : int32[n], -1 none.
    node : int32[n], stack, -1 none.
    n_other, n_deep, n_negative : lines that state nothing; samples with too many
        frames; weights below zero. With the place of the first one, -1 nowhere.
    """

    offset: I64
    time: I64
    period: I64
    comm: I32
    event: I32
    pid: I32
    tid: I32
    cpu: I32
    node: I32
    stacks: Stacks
    n_other: int
    first_other: int
    n_deep: int
    first_deep: int
    n_negative: int
    first_negative: int


class SampleScan:
    """Reads the samples of a text block by block."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._texts, self._frames, self._nodes = (
            Texts(1 << 12, 16 * _TEXT_BYTES),
            StackPairTable(),
            StackPairTable(),
        )
        self._table = ChunkedTable(**_COLUMNS)
        self._columns = {name: np.empty(_CAPACITY, kind) for name, kind in
                         _COLUMNS.items()}  # fmt: skip
        self._scratch = np.empty(MAX_FRAMES, np.int32)
        self._counts = {name: [0, -1] for name in ("other", "deep", "negative")}

    def __len__(self) -> int:
        return len(self._table)

    def add(self, offset: int, data: U8, *, is_last: bool) -> int:
        """Take the samples of a block at `offset`; return how many bytes were used."""
        done = 0
        while done < len(data):
            rest = data[done:]
            tally = StackTally(first_other=-1, first_deep=-1, first_negative=-1)
            rows: Any = StackRows(capacity=_CAPACITY, **self._columns)
            tables = (self._texts.table, self._frames.table, self._nodes.table, rows)
            if self._form is Form.PERF:
                library().ggscope_stacks_perf(
                    rest, len(rest), int(is_last), *tables, self._scratch, tally
                )
            else:
                library().ggscope_stacks_folded(
                    rest, len(rest), int(is_last), *tables, tally
                )
            self._take(rows, tally, offset + done)
            done += int(tally.consumed)
            if tally.status == _Status.FULL_TABLES:
                self._grow()
            elif tally.status == _Status.MORE:
                break
        return done

    def _take(self, rows: Any, tally: Any, offset: int) -> None:
        """Keep the rows of a scan."""
        n = int(rows.count)
        if n:
            columns = {name: values[:n].copy() for name, values in
                       self._columns.items()}  # fmt: skip
            columns["offset"] += offset
            self._table.append(**columns)
        for name, known in self._counts.items():
            count = int(getattr(tally, f"n_{name}"))
            if count and not known[0]:
                known[1] = offset + int(getattr(tally, f"first_{name}"))
            known[0] += count

    def _grow(self) -> None:
        """Make the tables larger that have little room left."""
        texts = self._texts.table
        for pairs in (self._frames, self._nodes):
            if pairs.table.capacity - pairs.table.count <= MAX_FRAMES:
                _check_size(2 * int(pairs.table.capacity))
                pairs.grow(2 * int(pairs.table.capacity))
        is_small = texts.capacity - texts.count <= 8
        if is_small or texts.size - texts.used <= 8 * _TEXT_BYTES:
            _check_size(2 * int(texts.capacity))
            self._texts.grow(2 * int(texts.capacity), 2 * int(texts.size))

    def lines(self) -> SampleLines:
        """Return the samples so far."""
        parent, frame = self._nodes.columns()
        name, part = self._frames.columns()
        take = self._table.column
        texts = tuple(text.decode("utf-8", "replace") for text in self._texts)
        return SampleLines(
            offset=take("offset"),
            time=take("time"),
            period=take("period"),
            comm=take("comm"),
            event=take("event"),
            pid=take("pid"),
            tid=take("tid"),
            cpu=take("cpu"),
            node=take("node"),
            stacks=Stacks(parent, frame, name, part, texts),
            n_other=self._counts["other"][0],
            first_other=self._counts["other"][1],
            n_deep=self._counts["deep"][0],
            first_deep=self._counts["deep"][1],
            n_negative=self._counts["negative"][0],
            first_negative=self._counts["negative"][1],
        )


def scan_samples(
    source: Source,
    context: ReadContext,
    form: Form,
    on_block: Callable[[SampleScan, int], None] | None = None,
) -> SampleLines:
    """Return the samples of a file.

    Memory is that of the samples and of some blocks.

    Parameters
    ----------
    on_block : called with the samples so far and the bytes that were read.

    Raises
    ------
    LimitExceededError
        If there is too little memory.
    ReadError
        If the file cannot be read.
    Cancelled
        If that was asked for.
    """
    scan = SampleScan(form)
    at = len(BOM) if source.size >= 3 and source.read(0, 3) == BOM else 0
    size, n_blocks = BLOCK_BYTES, 0
    while at < source.size:
        context.progress(at, source.size)
        block = np.empty(min(size, source.size - at), np.uint8)
        n = source.read_into(at, block)
        # Less than was asked for: the file was cut meanwhile.
        is_end = at + n >= source.size or n < len(block)
        is_last = is_end or size >= _LONGEST_SAMPLE
        used = scan.add(at, block[:n], is_last=is_last) if n else 0
        at += n if is_last else used
        if is_end:
            break
        size = BLOCK_BYTES if used else 2 * size
        n_blocks += 1
        if n_blocks % _MEMORY_BLOCKS == 0:
            _check_size(0)
        if on_block is not None:
            on_block(scan, at)
    return scan.lines()


def scan_text(data: bytes, form: Form, *, is_last: bool) -> SampleLines:
    """Return the samples of a text; `is_last`: nothing was cut off behind it."""
    scan = SampleScan(form)
    block = np.frombuffer(data.removeprefix(BOM), np.uint8)
    if len(block):
        scan.add(0, block, is_last=is_last)
    return scan.lines()


def _check_size(n: int) -> None:
    from ggscope.readers.memory import available_bytes

    if n > _LARGEST or available_bytes() <= n * _ROW_BYTES:
        raise LimitExceededError(
            "not enough memory for its stacks.",
            hint="Record a shorter run.",
        )
