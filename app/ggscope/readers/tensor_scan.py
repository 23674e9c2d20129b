"""Read a tensor trace from end to end, once: header columns and patterns.

The file is read in stretches of some milliseconds each, so that whoever drives the
scan can report, cancel and publish in between. Two stretches are read side by side
where there is a second processor.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ggscope.errors import LimitExceededError
from ggscope.model.tables import Array
from ggscope.readers import tensor_kernel
from ggscope.readers.api import RANGE_OPTION, Limits
from ggscope.readers.source import Source
from ggscope.readers.tensor_blocks import (
    OP,
    BlockReader,
    CompiledBlocks,
    NumpyBlocks,
)
from ggscope.readers.tensor_columns import (
    Columns,
    Tally,
    Threads,
    Wants,
    empty_columns,
)
from ggscope.readers.tensor_order import Work
from ggscope.readers.tensor_patterns import hash_name, merged
from ggscope.readers.tensor_ranges import Ranges, Words, count_records

PEAK_BYTES = 44
"""What a record costs in memory at the worst moment of reading, about."""

STRETCH_BYTES = 4 << 20
"""What one reader of blocks takes at first; see `_LEAST_S`."""

FIRST_NAME = b"inp_embd"
"""The first op of llama.cpp's graphs; begins a pass."""

_SEGMENTS, _SEGMENT_ROWS = 8, 1 << 14
_ALIKE = 0.6
"""Share of addresses that passes found by one of them have in common."""
_MOST_STRETCH_BYTES = 64 << 20
_LEAST_S, _MOST_S = 0.006, 0.02
"""A stretch that takes less time is doubled, one that takes more is halved: a
person who cancels waits for one, and so does whoever wants the interpreter."""


class Scan:
    """One pass over the records of a file.

    Parameters
    ----------
    ranges : record numbers [first, stop), ascending and apart.
    n_readers : stretches read side by side; None for what the machine has.
    seed : for the hashes of the numpy path; see `PatternNumbers`.

    Attributes
    ----------
    tally : what was counted so far.
    n_done, n_all : records passed, and in all.
    n_rows : ops among those passed.
    ended_at : number of the first record that the file no longer had; -1 none.
    stretch : records that each reader of blocks takes at a time.

    Raises
    ------
    LimitExceededError
        If there are more records than `limits` allow.
    """

    def __init__(
        self,
        source: Source,
        wants: Wants,
        ranges: Ranges,
        limits: Limits,
        work: Work,
        *,
        n_readers: int | None = None,
        seed: int = 0,
    ) -> None:
        self.n_all = count_records(ranges)
        if self.n_all > min(limits.records, limits.memory_bytes // PEAK_BYTES):
            raise LimitExceededError(
                f"the file may hold {self.n_all:,} records, more than the limit "
                "allows.",
                path=source.path,
                hint=f"Read a part of it with the option {RANGE_OPTION}=FIRST:STOP, "
                "or raise the limit.",
            )
        self.tally = Tally()
        self.n_done = 0
        self.ended_at = -1
        self._wants = wants
        self._work = work
        self._left = list(ranges)
        self._columns = empty_columns(wants, ranges)
        self.n_rows = 0
        self._pieces: list[tuple[int, int, int]] = []
        self._threads = Threads()
        self._readers = _block_readers(source, wants, n_readers, seed)
        self.stretch = max(STRETCH_BYTES // wants.layout.size, 1)
        self._most = max(_MOST_STRETCH_BYTES // wants.layout.size, 1)
        self._pool = (
            ThreadPoolExecutor(len(self._readers) - 1, "tensor-scan")
            if len(self._readers) > 1
            else None
        )

    def __enter__(self) -> "Scan":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    @property
    def is_done(self) -> bool:
        """Whether every record has been read, or the file has come to its end."""
        return not self._left

    @property
    def next_record(self) -> int:
        """Number of the first record that has not been read."""
        return self._left[0][0]

    @property
    def threads(self) -> list[int]:
        """Raw thread ids in order of first appearance."""
        return self._threads.ids()

    def step(self) -> None:
        """Read the next stretch of records."""
        first, stop = self._left[0]
        parts = [
            (low, min(low + self.stretch, stop))
            for low in range(first, stop, self.stretch)[: len(self._readers)]
        ]
        began = time.monotonic()
        counts = self._read(parts)
        self.adapt(time.monotonic() - began)
        base = self.n_rows - first
        for number, ((low, high), count) in enumerate(zip(parts, counts, strict=True)):
            self._accept(number, low, base + low, count)
            if count < high - low:
                self.ended_at = low + count
                self._left.clear()
                return
        reached = parts[-1][1]
        if reached < stop:
            self._left[0] = (reached, stop)
        else:
            del self._left[0]

    def columns(self) -> Columns:
        """Return the rows so far, without a copy."""
        found = self._columns.first(self.n_rows)
        if not self.tally.has_durations:
            found.duration = None
        return found

    def take_columns(self) -> Columns:
        """Return the rows and forget them: they may be changed and given up."""
        found = self.columns()
        self._columns = empty_columns(self._wants, [])
        return found

    def pass_marks(self, first: int) -> npt.NDArray[np.bool_] | None:
        """Return which rows may begin a pass, by their names; None where none can.

        It is the name of row `first`, the first one in time. A trace that begins in
        the middle of a pass begins with some other name, which may occur several
        several times per pass; then the graph's first op serves, where it occurs.

        Without names it is the address and op of row `first`, where what follows it is
        alike each time: 64-byte records claim one token throughout.
        """
        low, high = self._wants.name_words
        if not self.n_rows:
            return None
        if low == high:
            return self._marks_by_address(first)
        padded = FIRST_NAME.ljust(8 * (high - low), b"\0")
        usual = int(hash_name(np.frombuffer(padded, np.uint64)[None])[0])
        column = self._columns.name_hash
        if column is not None:
            column = column[: self.n_rows]
            own = int(column[first])
            key = usual if bool((column == usual).any()) else own
            return None if not own else np.asarray(column == key)
        tables = [
            # Row -1 stands for no pattern.
            np.append(hash_name(reader.patterns()[0][:, low:high]), np.uint32(0))
            for reader in self._readers
        ]
        own = int(self.spread(tables, np.uint32, first, first + 1)[0])
        key = usual if any(bool((table == usual).any()) for table in tables) else own
        if not own:
            return None
        return self.spread([table == key for table in tables], np.bool_)

    def _marks_by_address(self, first: int) -> npt.NDArray[np.bool_] | None:
        """Return the rows with address and op of row `first`; None where unsound."""
        if self._columns.pattern is None:
            return None
        layout = self._wants.layout
        tables = []
        for reader in self._readers:
            words = np.ascontiguousarray(reader.patterns()[0])
            record = words.view(np.uint8).reshape(-1, layout.size).view(layout.dtype)
            op = record["operation_type"].reshape(-1).astype(np.uint64)
            address = record["tensor_ptr"].reshape(-1).astype(np.uint64)
            # Row -1 stands for no pattern.
            tables.append(np.append(address * np.uint64(256) + op, np.uint64(0)))
        own = self.spread(tables, np.uint64, first, first + 1)[0]
        marks = self.spread([table == own for table in tables], np.bool_)
        begins = self._work.find(len(marks), lambda piece: marks[piece])
        if not own or len(begins) < 2:
            return None
        ends = np.append(begins[1:], self.n_rows)
        picks = np.unique(np.linspace(0, len(begins) - 1, _SEGMENTS).astype(np.int64))
        seen: list[Array] = []
        for low, high in zip(begins[picks].tolist(), ends[picks].tolist(), strict=True):
            stop = min(high, low + _SEGMENT_ROWS)
            seen.append(np.unique(self.spread(tables, np.uint64, low, stop)))
        # The last one may be cut; an activation's address leads into other layers.
        for part in seen[1:-1] or seen[1:]:
            n_same = len(np.intersect1d(seen[0], part))
            if n_same < _ALIKE * max(len(seen[0]), len(part)):
                return None
        return marks

    def patterns(self) -> tuple[list[npt.NDArray[np.int32]], Words]:
        """Return all patterns; see `merged`."""
        return merged([r.patterns() for r in self._readers], self._wants.layout)

    def spread(
        self,
        tables: Sequence[Array],
        dtype: npt.DTypeLike,
        first: int = 0,
        stop: int | None = None,
    ) -> Array:
        """Return one value per row of ``[first, stop)``: that of its pattern.

        Parameters
        ----------
        tables : for each reader of blocks, a value for each of its patterns, and at
            last one for rows without a pattern.
        """
        stop = self.n_rows if stop is None else stop
        found = np.empty(stop - first, dtype)
        pattern = self._columns.pattern
        assert pattern is not None
        for low, high, number in self._pieces:
            for part in self._work.pieces(min(high, stop), max(low, first)):
                rows = slice(part.start - first, part.stop - first)
                found[rows] = tables[number][pattern[part]]
        return found

    def _read(self, parts: Ranges) -> list[int]:
        """Read the parts side by side; return the number of records of each."""

        def read(number: int) -> int:
            low, high = parts[number]
            row = self.n_rows + low - parts[0][0]
            return self._readers[number].read(low, high, self._columns, row)

        if self._pool is None:
            return [read(0)]
        others = [self._pool.submit(read, number) for number in range(1, len(parts))]
        return [read(0), *(other.result() for other in others)]

    def adapt(self, seconds: float) -> None:
        """Choose the next stretch by what the last one took."""
        if seconds < _LEAST_S:
            self.stretch = min(2 * self.stretch, self._most)
        elif seconds > _MOST_S:
            self.stretch = max(self.stretch // 2, 1)

    def _accept(self, number: int, first: int, row: int, count: int) -> None:
        """Take over what one reader has read: records from `first` on, at `row`."""
        reader, at = self._readers[number], self.n_rows
        is_op = reader.kind[:count] == OP
        stop = at + reader.tally.n_ops
        if stop == row + count:
            self._columns.number(at, stop, first)
        else:
            self._columns.keep(at, row, is_op)
            self._columns.number(at, stop, first + np.flatnonzero(is_op))
        last = self._pieces[-1] if self._pieces else (0, 0, -1)
        if last[2] == number:
            self._pieces[-1] = (last[0], stop, number)
        else:
            self._pieces.append((at, stop, number))
        self.n_rows = stop
        self.n_done += count
        self.tally.add(reader.tally)
        self._threads.add(reader.thread_first)


def _block_readers(
    source: Source, wants: Wants, n_readers: int | None, seed: int
) -> list[BlockReader]:
    library = tensor_kernel.kernel()
    if library is None:
        return [NumpyBlocks(source, wants, seed)]
    n = min(os.cpu_count() or 1, 2) if n_readers is None else n_readers
    return [CompiledBlocks(source, wants, library) for _ in range(n)]
