"""Blocks of whole lines of a file, scanned on several threads."""

import json
import os
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ggscope.model.tables import I32, I64, U8
from ggscope.native.declared import TextTable
from ggscope.readers.api import BOM, Estimate, Head, ReadContext
from ggscope.readers.source import Source

_Part = TypeVar("_Part")
BLOCK_BYTES = 4 << 20
LONGEST_LINE = 64 << 20
LinesDone = Callable[[U8, bool], int]
"""Returns how many bytes of whole lines end where nothing goes on in the lines behind
them, 0 where no such end is known; called with the lines, and whether nothing goes on
at their begin."""
_TAIL_BYTES = 1 << 16
"""Of a block, in which its last line mostly begins."""
_MAX_THREADS = 4


def scanned(
    source: Source,
    context: ReadContext,
    scan: Callable[[U8, bool], _Part],
    done: LinesDone | None = None,
) -> Iterator[tuple[int, _Part]]:
    """Yield offset and result of each block of lines, in the order of the file.

    Blocks are read and scanned on several threads. Memory is that of some blocks. A
    line that is longer than 64 MiB is cut there.

    Parameters
    ----------
    scan : called on several threads with the lines, and whether they end the file. The
        bytes are overwritten when it has returned.
    done : where a block may end, if not behind any line.

    Raises
    ------
    ReadError
        If the file cannot be read.
    Cancelled
        If that was asked for.
    """
    pending: deque[tuple[int, Future[_Part]]] = deque()
    n_threads = min(os.cpu_count() or 1, _MAX_THREADS)
    # Memory that is touched for the first time costs more than reading into it.
    buffers: deque[U8] = deque()

    def work(block: LineBlock) -> _Part:
        try:
            buffer = buffers.pop()
        except IndexError:
            buffer = np.empty(BLOCK_BYTES, np.uint8)
        try:
            return scan(*block.read(source, buffer))
        finally:
            buffers.append(buffer)

    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for block in _blocks(source, done):
                pending.append((block.begin, pool.submit(work, block)))
                if len(pending) > n_threads:
                    first, future = pending.popleft()
                    yield first, future.result()
                context.progress(block.begin, source.size)
            while pending:
                first, future = pending.popleft()
                yield first, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def line_blocks(source: Source) -> Iterator[tuple[int, U8, bool]]:
    """Yield offset, bytes and whether they end the file, cut behind line ends.

    A line that is longer than 64 MiB is cut there, and its rest left out.
    """
    for block in _blocks(source):
        yield (block.begin, *block.read(source))


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines of a file that are read at once.

    Attributes
    ----------
    begin, stop : offsets of their first byte and behind their last.
    is_last : whether they end the file, or are a line that is cut.
    """

    begin: int
    stop: int
    is_last: bool

    def read(self, source: Source, buffer: U8 | None = None) -> tuple[U8, bool]:
        """Return the bytes and whether no more follow: the file may be shorter now.

        Parameters
        ----------
        buffer : where they are put if they fit.
        """
        n_bytes = self.stop - self.begin
        if buffer is None or n_bytes > len(buffer):
            buffer = np.empty(n_bytes, np.uint8)
        n = source.read_into(self.begin, buffer[:n_bytes])
        return buffer[:n], self.is_last or n < n_bytes


def _blocks(source: Source, done: LinesDone | None = None) -> Iterator[LineBlock]:
    """Yield where blocks of lines are; reads what stands around their ends alone."""
    offset = 3 if source.size >= 3 and source.read(0, 3) == BOM else 0
    size = BLOCK_BYTES
    is_behind_cut = False
    while offset < source.size:
        n = min(size, source.size - offset)
        # Nothing at its end: the file was cut meanwhile.
        is_last = offset + n >= source.size or not _bytes(source, offset + n - 1, 1)
        stop = n if is_last else _end_of_lines(source, offset, n, done)
        if not stop and n < LONGEST_LINE:
            size *= 2
            continue
        size = BLOCK_BYTES
        begin = 0
        if is_behind_cut:
            # The rest of a line that was cut; its end counts the line.
            begin = _bytes(source, offset, n).find(b"\n") + 1 or n
        is_behind_cut = not stop or (is_behind_cut and begin == n and not is_last)
        if begin < (stop or n):
            yield LineBlock(offset + begin, offset + (stop or n), is_last or not stop)
        if is_last:
            return
        offset += stop or n


def _end_of_lines(
    source: Source, offset: int, n_bytes: int, done: LinesDone | None
) -> int:
    """Return where the last whole line of a block ends; 0 where there is none.

    Where `done` knows no end in all of the block it is that of any line.
    """
    last = 0
    for first in (max(n_bytes - _TAIL_BYTES, 0), 0):
        tail = _bytes(source, offset + first, n_bytes - first)
        stop = tail.rfind(b"\n") + 1
        if not stop:
            continue
        last = first + stop
        if done is None:
            break
        begin = tail.find(b"\n") + 1 if first else 0
        lines = np.frombuffer(tail, np.uint8)[begin:stop]
        if n_done := done(lines, not first):
            return first + begin + n_done
    return last


def _bytes(source: Source, offset: int, n_bytes: int) -> bytes:
    """Return bytes of the file, fewer where it has become shorter."""
    buffer = np.empty(n_bytes, np.uint8)
    return buffer[: source.read_into(offset, buffer)].tobytes()


def whole_lines(head: Head) -> bytes:
    """Return the lines of a head, without one that is cut where there are others."""
    data = head.data.removeprefix(BOM)
    if len(head.data) < head.size:
        data = data[: data.rfind(b"\n") + 1] or data
    return data


def lines_estimate(
    head: Head, n_lines: int, n_rows: int, row_bytes: int, reading_bytes: int
) -> Estimate:
    """Return what reading a text would cost, by the lines and rows of its head.

    Parameters
    ----------
    row_bytes, reading_bytes : memory of a row in the end, and while it is read.
    """
    share = head.size / len(head.data)
    n = int((n_rows + 1) * share)
    fixed = _MAX_THREADS * 4 * BLOCK_BYTES
    return Estimate(int(n_lines * share), row_bytes * n, reading_bytes * n + fixed)


@dataclass(frozen=True, slots=True, eq=False)
class TextSlots:
    """Room for the texts of a scan, each once."""

    table: TextTable
    slots: I32
    begins: I64
    lengths: I32

    @classmethod
    def of(cls, n: int) -> "TextSlots":
        """Return room for `n` texts, hashed with a secret of its own."""
        n_slots = 1 << (2 * n - 1).bit_length()
        begins, lengths = np.empty(n, np.int64), np.empty(n, np.int32)
        slots = np.zeros(n_slots, np.int32)
        table = TextTable(
            capacity=n,
            n_slots=n_slots,
            secret=secrets.randbits(64),
            slots=slots,
            offset=begins,
            length=lengths,
        )
        return cls(table, slots, begins, lengths)

    def clear(self) -> None:
        """Forget all texts."""
        self.slots[:] = 0
        self.table.count = 0

    def pieces(self, data: U8) -> Iterator[memoryview]:
        """Yield the bytes of each text of a block."""
        n, view = int(self.table.count), data.data
        begins, lengths = self.begins[:n].tolist(), self.lengths[:n].tolist()
        for begin, length in zip(begins, lengths, strict=True):
            yield view[begin : begin + length]

    def texts(self, data: U8, *, is_escaped: bool = True) -> list[str]:
        """Return the texts of a block as people read them.

        `is_escaped` : they may have escapes of JSON.
        """
        texts = []
        for piece in self.pieces(data):
            text = str(piece, "utf-8", "replace")
            if is_escaped and "\\" in text:
                with suppress(ValueError):
                    text = json.loads(f'"{text}"')
            texts.append(text.encode("utf-8", "replace").decode())
        return texts
