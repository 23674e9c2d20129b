"""Read a tensor trace from end to end, once: header columns and patterns.

The file is read in stretches of some milliseconds each, so that whoever drives the
scan can report, cancel and publish in between. Two stretches are read side by side
where there is a second processor.

A model does the same accesses for every token, so records are numbered by what
they touch, and each distinct *pattern* is decoded once. A reader of blocks keeps the
patterns that it met in a table of its own, so that two of them can work side by side.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import cache
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ggscope.errors import LimitExceededError
from ggscope.model.tables import I32, I64, U32, U64, Array, Bools, distinct
from ggscope.native.declared import (
    RecordColumns,
    RecordForm,
    RecordPatterns,
    RecordTally,
)
from ggscope.native.library import library
from ggscope.readers.api import Limits
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.partial_reading import NAMES_OPTION, RANGE_OPTION
from ggscope.readers.source import Source
from ggscope.readers.tensor.columns import (
    N_THREADS,
    NEVER,
    PER_ROW,
    SAMPLE_RECORDS,
    Headers,
    Ranges,
    Tally,
    TensorOptions,
    Threads,
    count_records,
    empty_columns,
)
from ggscope.readers.tensor.layouts import (
    FIRST_EXTENSION_OP,
    MAX_TIMESTAMP,
    RecordLayout,
)

MAX_PATTERNS = 1 << 21
"""A trace with so many of them does not repeat itself; decoding each would take
gigabytes."""
MAX_PATTERN_BYTES = 1 << 30
"""The same for the records that show them."""
_MERGED_AT_ONCE = 1 << 14
_U64 = np.uint64
# Two keys have the same hash: with other factors they have not.


OP, EMPTY, BAD_TIME, EXTENSION = range(4)
"""Kinds of records."""
_FAILED, _TABLE_FULL = 2, 3
"""Why the kernel's scan came to its end, `RecordTally.status`."""
_MOST = (1 << 31) - 1
"""Rows are numbered in 32 bits."""
BUFFER_BYTES = 256 << 10
"""What the kernel reads at once; stays in the second-level cache."""
_NUMBER_OF_EXPERTS = 856
_WAIT_WORD, _EXTRA_WORD = 96 // 8, 252 // 8
"""Of records of 256 bytes; the one lies in its lower half, the other in its upper."""
PEAK_BYTES = 44
"""What a record costs in memory at the worst moment of reading, about."""
STRETCH_BYTES = 4 << 20
"""What one reader of blocks takes at first; see `_MIN_S`."""
FIRST_NAME = b"inp_embd"
"""The first op of llama.cpp's graphs; begins a pass."""
_SEGMENTS, _SEGMENT_ROWS = 8, 1 << 14
_ALIKE = 0.6
"""Share of addresses that passes found by one of them have in common."""
_MAX_STRETCH_BYTES = 64 << 20
_MIN_S, _MAX_S = 0.006, 0.02
"""A stretch that takes less time is doubled, one that takes more is halved: a
person who cancels waits for one, and so does whoever options the interpreter."""


@cache
def name_factors(n_words: int) -> U64:
    """Return odd random factors, uint64[n_words]; the same every time.

    ``(words ^ words >> 32) @ factors`` hashes rows of words. The shift brings high
    bits down: without it, names that differ in their last letter only would differ
    in the top byte of the sum only.
    """
    return _odd(np.random.default_rng(0x6767_6D6C), n_words)


def secret_factors(n_words: int) -> U64:
    """Return factors like those of names, others in every run."""
    return _odd(np.random.default_rng(), n_words)


def _odd(rng: np.random.Generator, n: int) -> U64:
    factors = rng.integers(0, 1 << 63, n, dtype=_U64) * _U64(2) + _U64(1)
    factors.flags.writeable = False
    return factors


def hash_name(columns: U64) -> U32:
    """Return a hash of the name in each row of `columns`, uint32[m]; 0 for blank."""
    hashed = (_mixed(columns) @ name_factors(columns.shape[1])) >> _U64(32)
    is_blank = (columns[:, 0] & _U64(0xFF)) == 0
    named = hashed.astype(np.uint32) | np.uint32(1)
    return np.asarray(np.where(is_blank, np.uint32(0), named))


def _mixed(columns: U64) -> U64:
    return columns ^ (columns >> _U64(32))


def key_words(layout: RecordLayout) -> tuple[int, U64]:
    """Return the first word that distinguishes patterns, and masks from there on."""
    mask = np.where(layout.key, np.uint8(0xFF), np.uint8(0)).view(_U64)
    used = np.flatnonzero(mask)
    return int(used[0]), mask[used[0] : used[-1] + 1]


def check_count(n: int, n_words: int) -> None:
    """Raise LimitExceededError where `n` patterns of so many words are too many."""
    limit = min(MAX_PATTERNS, MAX_PATTERN_BYTES // (8 * n_words))
    if n >= limit:
        raise LimitExceededError(
            f"the records have {limit:,} or more different sets of tensors; "
            "decoding them would need too much memory.",
            hint=f"Read fewer names with the option {NAMES_OPTION}=sampled, or none "
            f"with {NAMES_OPTION}=none.",
        )


_FIRST_PATTERNS = 4096


class PatternTable:
    """The hash table that the compiled kernel numbers patterns with.

    Compares whole keys, so nothing can collide.
    """

    def __init__(self, layout: RecordLayout) -> None:
        self._n_words = layout.size // 8
        self.struct = RecordPatterns(count=0, last=-1)
        self._next = np.zeros(0, np.int32)
        self._hashes = np.zeros(0, _U64)
        self._exemplars = np.zeros((0, self._n_words), _U64)
        self._first_record = np.zeros(0, np.int64)
        self._slots = np.zeros(0, np.int32)
        self._resize(_FIRST_PATTERNS)

    def __len__(self) -> int:
        return int(self.struct.count)

    def exemplars(self) -> U64:
        """Return the first record of each pattern, uint64[n, size / 8]."""
        return self._exemplars[: len(self)]

    def first_record(self) -> I64:
        """Return the number of the first record of each pattern, int64[n]."""
        return self._first_record[: len(self)]

    def grow(self) -> None:
        """Make room for twice as many patterns; LimitExceededError at the limit."""
        check_count(len(self), self._n_words)
        self._resize(2 * self.struct.capacity)

    def _resize(self, capacity: int) -> None:
        n = len(self)
        for name in ("_next", "_hashes", "_exemplars", "_first_record"):
            old = getattr(self, name)
            grown = np.empty((capacity, *old.shape[1:]), old.dtype)
            grown[:n] = old[:n]
            setattr(self, name, grown)
        n_slots = 4 * capacity
        self._slots = np.full(n_slots, -1, np.int32)
        _fill_slots(self._slots, self._hashes[:n])
        s = self.struct
        s.capacity, s.n_slots = capacity, n_slots
        s.slots, s.next, s.hashes = self._slots, self._next, self._hashes
        s.exemplars, s.first_record = self._exemplars, self._first_record


def _fill_slots(slots: Array, hashes: U64) -> None:
    """Put patterns into an empty table by linear probing."""
    wrap = np.int64(len(slots) - 1)
    todo = np.arange(len(hashes))
    at = (hashes & _U64(wrap)).astype(np.int64)
    while len(todo):
        # The first claimant of a free slot gets it, the others move on by one.
        is_free = slots[at] < 0
        chosen, first = np.unique(at[is_free], return_index=True)
        slots[chosen] = todo[is_free][first]
        left = np.ones(len(todo), np.bool_)
        left[np.flatnonzero(is_free)[first]] = False
        todo, at = todo[left], (at[left] + 1) & wrap


def merged(
    tables: Sequence[tuple[U64, I64]], layout: RecordLayout
) -> tuple[list[I32], U64]:
    """Return the number of each table's patterns among all, and all patterns.

    Numbers follow the order of first appearance in the file, so that it does not
    matter who read which part of it.

    Parameters
    ----------
    tables : first record of each pattern, and its number in the file.
    """
    if len(tables) == 1:
        exemplars, _ = tables[0]
        return [np.arange(len(exemplars), dtype=np.int32)], exemplars
    all_keys = np.concatenate([keys for keys, _ in tables])
    by_record = np.argsort(np.concatenate([record for _, record in tables]))
    first_word, mask = key_words(layout)
    keys = all_keys[:, first_word : first_word + len(mask)]
    ids, rows = _numbered(keys, mask, by_record)
    check_count(len(rows), all_keys.shape[1])
    ends = np.cumsum([len(keys) for keys, _ in tables])[:-1]
    return np.split(ids, ends), all_keys[rows]


def _numbered(keys: U64, mask: U64, order: Array) -> tuple[I32, Array]:
    """Return a number for each key, and the row where each one is first.

    Keys are equal where they are so under the mask; numbers follow `order`.
    """
    starts = range(0, len(keys), _MERGED_AT_ONCE)
    parts = [slice(at, at + _MERGED_AT_ONCE) for at in starts]
    while True:
        factors, hashes = secret_factors(len(mask)), np.empty(len(keys), _U64)
        for rows in parts:
            hashes[rows] = _mixed(keys[rows] & mask) @ factors
        _, first, number = np.unique(
            hashes[order], return_index=True, return_inverse=True
        )
        rank = np.empty(len(first), np.int32)
        rank[np.argsort(first)] = np.arange(len(first))
        ids = np.empty(len(keys), np.int32)
        ids[order] = rank[number]
        firsts = order[np.sort(first)]
        if all(
            np.array_equal(keys[rows] & mask, keys[firsts[ids[rows]]] & mask)
            for rows in parts
        ):
            return ids, firsts


class BlockReader:
    """Reads stretches of records, straight from the file, into the rows of columns.

    Attributes
    ----------
    tally : what the last call counted.
    kind : uint8, kind of each record of the last call.
    thread_first : int64[65536], earliest time of an op of each raw thread id in the
        last call, `NEVER` for none.
    """

    def __init__(self, source: Source, options: TensorOptions) -> None:
        self._source = source
        self._size = options.layout.size
        self._table = PatternTable(options.layout)
        self._buffer = np.empty(BUFFER_BYTES // 8, np.uint64)
        self._form = _form(options)
        self.tally = Tally()
        self.kind = np.zeros(0, np.uint8)
        self.thread_first = np.full(N_THREADS, NEVER, np.int64)

    def read(self, first: int, stop: int, columns: Headers, row: int) -> int:
        """Read records ``[first, stop)`` into rows from `row` on.

        Every record gets a row, ops or not; only those of ops mean something.

        Returns
        -------
        The number of records read, fewer than asked for where the file ends.
        """
        self.thread_first.fill(NEVER)
        if len(self.kind) < stop - first:
            self.kind = np.empty(stop - first, np.uint8)
        counts = RecordTally(first_bad_time=-1, first_empty=-1)
        done = 0
        while True:
            done += library().ggscope_tensor_scan(
                self._source.descriptor, first + done, stop,
                self._buffer, self._buffer.nbytes // self._size,
                self._form, self._rows(columns, row + done, done), self._table.struct,
                self.thread_first, counts,
            )  # fmt: skip
            if counts.status != _TABLE_FULL:
                break
            self._table.grow()
        if counts.status == _FAILED:
            raise self._source.failure(counts.error, (first + done) * self._size)
        self.tally = Tally(**{f.name: getattr(counts, f.name) for f in fields(Tally)})
        self.tally.has_layers = bool(counts.has_layers)
        self.tally.has_durations = bool(counts.has_durations)
        self.tally.has_waits = bool(counts.has_waits)
        return int(done)

    def patterns(self) -> tuple[Array, I64]:
        """Return the first record of each pattern so far, and its number.

        uint64[n_patterns, size / 8] and int64[n_patterns].
        """
        return self._table.exemplars(), self._table.first_record()

    def _rows(self, columns: Headers, row: int, done: int) -> RecordColumns:
        """Return where the rows from `row` on lie."""
        rows = {
            name: column[row:]
            for name in PER_ROW
            if (column := getattr(columns, name)) is not None
        }
        return RecordColumns(kind=self.kind[done:], **rows)


def _form(options: TensorOptions) -> RecordForm:
    """Return what the kernel looks for in a record.

    The factors of the key differ from run to run: nobody can craft a file whose
    patterns all fall into one slot.
    """
    layout = options.layout
    first, used = key_words(layout)
    mask = np.zeros(layout.size // 8, np.uint64)
    mask[first : first + len(used)] = used
    name_first, name_stop = options.name_words
    return RecordForm(
        n_words=layout.size // 8,
        key_first=first,
        key_stop=first + len(used),
        name_first=name_first,
        name_stop=name_stop,
        experts_word=_NUMBER_OF_EXPERTS // 8 if layout.has_experts else 0,
        max_time=MAX_TIMESTAMP,
        first_extension=FIRST_EXTENSION_OP if layout.has_ggml_ops else 1 << 8,
        has_durations=layout.source is not None,
        wait_word=_WAIT_WORD if options.has_waits else 0,
        extra_word=_EXTRA_WORD if options.has_waits else 0,
        sample_records=SAMPLE_RECORDS,
        sample_every=options.sample_every,
        key_mask=mask,
        key_factors=secret_factors(len(mask)),
        name_factors=name_factors(name_stop - name_first),
    )


class RecordScan:
    """One pass over the records of a file.

    Parameters
    ----------
    ranges : record numbers [first, stop), ascending and apart.
    n_readers : stretches read side by side; None for what the machine has.

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
        options: TensorOptions,
        ranges: Ranges,
        limits: Limits,
        chunked: ChunkedOps,
        *,
        n_readers: int | None = None,
    ) -> None:
        self.n_all = count_records(ranges)
        if self.n_all > min(limits.records, limits.memory_bytes // PEAK_BYTES, _MOST):
            raise LimitExceededError(
                f"the file may have {self.n_all:,} records, more than the limit.",
                path=source.path,
                hint=f"Read a part of it with the option {RANGE_OPTION}=FIRST:STOP, "
                "or raise the limit.",
            )
        self.tally = Tally()
        self.n_done = 0
        self.ended_at = -1
        self._options = options
        self._chunked = chunked
        self._left = list(ranges)
        self._columns = empty_columns(options, ranges)
        self.n_rows = 0
        self._stretches: list[tuple[int, int, int]] = []
        self._threads = Threads()
        n = min(os.cpu_count() or 1, 2) if n_readers is None else n_readers
        self._readers = [BlockReader(source, options) for _ in range(n)]
        self.stretch = max(STRETCH_BYTES // options.layout.size, 1)
        self._most = max(_MAX_STRETCH_BYTES // options.layout.size, 1)
        self._pool = (
            ThreadPoolExecutor(len(self._readers) - 1, "tensor-scan")
            if len(self._readers) > 1
            else None
        )

    def __enter__(self) -> "RecordScan":
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
        """Raw thread ids in the order of their first ops."""
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

    def columns(self) -> Headers:
        """Return the rows so far, without a copy."""
        columns = self._columns.first(self.n_rows)
        if not self.tally.has_durations:
            columns.duration = None
        if not self.tally.has_waits:
            columns.wait = None
        return columns

    def take_columns(self) -> Headers:
        """Return the rows and forget them: they may be changed and given up."""
        columns = self.columns()
        self._columns = empty_columns(self._options, [])
        return columns

    def pass_marks(self, first: int) -> Bools | None:
        """Return which rows may begin a pass, by their names; None where none can.

        It is the name of row `first`, the first one in time. A trace that begins in
        the middle of a pass begins with some other name, which may occur several
        several times per pass; then the graph's first op serves, where it occurs.

        Without names it is the address and op of row `first`, where what follows it is
        alike each time: 64-byte records claim one token throughout.
        """
        low, high = self._options.name_words
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

    def _marks_by_address(self, first: int) -> Bools | None:
        """Return the rows with address and op of row `first`; None where unsound."""
        if self._columns.pattern is None:
            return None
        layout = self._options.layout
        tables = []
        for reader in self._readers:
            patterns = np.ascontiguousarray(reader.patterns()[0])
            record = patterns.view(np.uint8).reshape(-1, layout.size).view(layout.dtype)
            op = record["operation_type"].reshape(-1).astype(np.uint64)
            address = record["tensor_ptr"].reshape(-1).astype(np.uint64)
            # Row -1 stands for no pattern.
            tables.append(np.append(address * np.uint64(256) + op, np.uint64(0)))
        own = self.spread(tables, np.uint64, first, first + 1)[0]
        marks = self.spread([table == own for table in tables], np.bool_)
        begins = self._chunked.find(len(marks), lambda piece: marks[piece])
        if not own or len(begins) < 2:
            return None
        ends = np.append(begins[1:], self.n_rows)
        n_picks = min(_SEGMENTS, len(begins))
        picks = np.linspace(0, len(begins) - 1, n_picks).astype(np.int64)
        seen: list[Array] = []
        for low, high in zip(begins[picks].tolist(), ends[picks].tolist(), strict=True):
            stop = min(high, low + _SEGMENT_ROWS)
            seen.append(distinct(self.spread(tables, np.uint64, low, stop)))
        # The last one may be cut; an activation's address leads into other layers.
        for part in seen[1:-1] or seen[1:]:
            n_same = len(np.intersect1d(seen[0], part))
            if n_same < _ALIKE * max(len(seen[0]), len(part)):
                return None
        return marks

    def patterns(self) -> tuple[list[I32], U64]:
        """Return all patterns; see `merged`."""
        return merged([r.patterns() for r in self._readers], self._options.layout)

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
        values = np.empty(stop - first, dtype)
        pattern = self._columns.pattern
        assert pattern is not None
        for low, high, number in self._stretches:
            for part in self._chunked.slices(min(high, stop), max(low, first)):
                rows = slice(part.start - first, part.stop - first)
                values[rows] = tables[number][pattern[part]]
        return values

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
        if seconds < _MIN_S:
            self.stretch = min(2 * self.stretch, self._most)
        elif seconds > _MAX_S:
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
        last = self._stretches[-1] if self._stretches else (0, 0, -1)
        if last[2] == number:
            self._stretches[-1] = (last[0], stop, number)
        else:
            self._stretches.append((at, stop, number))
        self.n_rows = stop
        self.n_done += count
        self.tally.add(reader.tally)
        self._threads.add(reader.thread_first)
