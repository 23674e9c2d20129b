"""Header columns of a tensor trace while it is read, and where its records lie.

The file is often preallocated to 2 GiB and mostly empty; holes of a sparse file are
never read. Columns of 33 million rows are put into another order, narrowed and
searched piece by piece: nobody waits long to cancel or to paint, and no temporary
array is longer than a piece.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I16, I32, I64, U8, U16, U32, U64, Array, Bools
from ggscope.model.trace import OpTable
from ggscope.readers.api import ReadContext
from ggscope.readers.partial_reading import SAMPLED_SHARE
from ggscope.readers.source import Source
from ggscope.readers.tensor.layouts import RecordLayout

SPARE_SHARE = 32
"""Columns are made longer by one part in so many: the spans of passes and phases
follow those of the records. Memory that is never touched costs nothing."""

SAMPLE_RECORDS = 4096
"""Names are sampled in blocks of so many records."""

N_THREADS = 1 << 16
NEVER = np.iinfo(np.int64).max
PER_ROW = (
    "time", "token", "layer", "thread", "op", "phase", "duration", "wait", "name_hash",
    "pattern",
)  # fmt: skip
_SUMS = (
    "n_records", "n_ops", "n_extension", "n_bad_time", "n_expert", "n_empty",
)  # fmt: skip
SCAN_BYTES = 1 << 20
"""Block size; fits the second-level cache, so that column reads are cheap."""

_PROBE_BYTES = 1 << 20
_U64 = np.uint64
Ranges = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class TensorOptions:
    """What of a file is to be read.

    Attributes
    ----------
    names : one of ``NAMES_CHOICES``.
    first, stop : numbers of the records to read.
    n_file : number of records in the file, up to the last one with data.
    has_waits : whether its records hold waits, see ``waits``.
    n_left_out : number of records outside the range.
    has_end : whether the range reaches to the last record of the file.
    sample_every : one block of `SAMPLE_RECORDS` in so many has names; 0: none has.
    name_words : the words of the name that may begin a pass, as (first, stop).
    keeps_hashes : whether every record's name must be hashed, for want of its pattern.
    """

    layout: RecordLayout
    names: str = "all"
    first: int = 0
    stop: int = 0
    n_file: int = 0
    has_waits: bool = False
    n_left_out: int = field(init=False, repr=False)
    has_end: bool = field(init=False, repr=False)
    sample_every: int = field(init=False, repr=False)
    name_words: tuple[int, int] = field(init=False, repr=False)
    keeps_hashes: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        every = {"all": 1, "sampled": SAMPLED_SHARE, "none": 0}[self.names]
        width = self.layout.dst_width
        first = 8 if self.layout.source is None else 3
        columns = (first, first + width // 8) if width else (0, 0)
        object.__setattr__(self, "n_left_out", self.n_file - (self.stop - self.first))
        object.__setattr__(self, "has_end", self.stop >= self.n_file)
        object.__setattr__(self, "sample_every", every)
        object.__setattr__(self, "name_words", columns)
        object.__setattr__(self, "keeps_hashes", every != 1 and bool(width))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TensorFile:
    """What is known of a file before its records are read.

    Attributes
    ----------
    given : the options of this reader that were given, as they were.
    end : offset behind the last non-zero byte.
    """

    source: Source
    given: Mapping[str, str]
    options: TensorOptions
    end: int
    ops: OpTable


@dataclass(slots=True, eq=False, kw_only=True)
class Headers:
    """Header columns of all op records, in file order.

    Attributes
    ----------
    time : int64[n], raw stamps.
    token : int32[n]; -1 where the claim cannot be a token number.
    layer : int16[n]; -1 none.
    thread : uint16[n], raw.
    op, phase : uint8[n], raw.
    duration : int64[n], ns from the spare bytes; None where there cannot be any.
    wait : uint32[n], as of spans; None where the records hold none.
    name_hash : uint32[n] of the destination's name, 0 where that is blank; None
        where patterns show it.
    pattern : int32[n], number in the table of whoever read the record, -1 none;
        None where names are not read.
    record : number of the record in the file; None where it is the row number
        + `first_record`.
    record_dtype : of `record`, wide enough for every number in the file.
    """

    time: I64
    token: I32
    layer: I16
    thread: U16
    op: U8
    phase: U8
    duration: I64 | None
    wait: U32 | None
    name_hash: U32 | None
    pattern: Array | None
    record: Array | None = None
    first_record: int = 0
    record_dtype: npt.DTypeLike = np.int32

    def __len__(self) -> int:
        return len(self.time)

    def first(self, n: int) -> "Headers":
        """Return the first `n` rows, without a copy."""
        return self._each(lambda column: column[:n])

    def keep(self, at: int, row: int, is_kept: Bools) -> int:
        """Move the chosen ones of the rows from `row` on to `at`; return their end."""
        rows = slice(row, row + len(is_kept))
        stop = at + int(np.count_nonzero(is_kept))
        for name in PER_ROW:
            column = getattr(self, name)
            if column is not None:
                column[at:stop] = column[rows][is_kept]
        if self.duration is not None:
            self.duration[stop : rows.stop] = 0
        return stop

    def number(self, at: int, stop: int, records: Array | int) -> None:
        """Note the file's numbers of rows `at` to `stop`.

        `records` is the number of the first of them where they follow each other.
        """
        if isinstance(records, int):
            if self.record is None and records == self.first_record + at:
                return
            records = np.arange(records, records + stop - at)
        if self.record is None:
            # Few files have gaps; the others do without this column.
            self.record = np.empty(len(self), self.record_dtype)
            self.record[:at] = np.arange(self.first_record, self.first_record + at)
        self.record[at:stop] = records

    def _each(self, change: Callable[[Array], Array]) -> "Headers":
        changed: dict[str, Any] = {
            f.name: change(column)
            for f in fields(self)
            if isinstance(column := getattr(self, f.name), np.ndarray)
        }
        return replace(self, **changed)


def empty_columns(options: TensorOptions, ranges: Sequence[tuple[int, int]]) -> Headers:
    """Return columns for the records of the ranges, with nothing in them yet."""
    capacity = sum(stop - first for first, stop in ranges)
    stop = ranges[-1][1] if ranges else 0
    n_slots = capacity + capacity // SPARE_SHARE + 256
    has_durations = options.layout.source is not None
    return Headers(
        # Its memory later holds the ends of all spans; see `arrange`.
        time=np.empty(n_slots, np.int64)[:capacity],
        token=np.empty(capacity, np.int32),
        layer=np.empty(capacity, np.int16),
        thread=np.empty(capacity, np.uint16),
        op=np.empty(capacity, np.uint8),
        phase=np.empty(capacity, np.uint8),
        duration=np.zeros(capacity, np.int64) if has_durations else None,
        wait=np.empty(capacity, np.uint32) if options.has_waits else None,
        name_hash=np.empty(capacity, np.uint32) if options.keeps_hashes else None,
        pattern=np.empty(capacity, np.int32) if options.sample_every else None,
        first_record=ranges[0][0] if ranges else 0,
        record_dtype=np.int32 if stop < 1 << 31 else np.int64,
    )


@dataclass(slots=True)
class Tally:
    """What a scan counted.

    Attributes
    ----------
    n_records : records that are not all zero.
    n_ops : those that are ops, one row of the columns each.
    n_extension, n_bad_time, n_expert : how many are extension records, have an
        impossible stamp, are ops that list experts.
    n_empty : all-zero records between others.
    first_bad_time, first_empty : number of the first such record; -1 none.
    has_layers : some op record names a layer other than 0.
    has_durations : some op record has something in its spare bytes.
    has_waits : the wait of some op record is known.
    """

    n_records: int = 0
    n_ops: int = 0
    n_extension: int = 0
    n_bad_time: int = 0
    n_expert: int = 0
    n_empty: int = 0
    first_bad_time: int = -1
    first_empty: int = -1
    has_layers: bool = False
    has_durations: bool = False
    has_waits: bool = False

    def add(self, other: "Tally") -> None:
        """Add what was counted in records behind these."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("first_bad_time", "first_empty"):
            if getattr(self, name) < 0:
                setattr(self, name, getattr(other, name))
        self.has_layers |= other.has_layers
        self.has_durations |= other.has_durations
        self.has_waits |= other.has_waits

    def note_holes(
        self, ranges: Sequence[tuple[int, int]], first: int, ended_at: int
    ) -> None:
        """Count the records between the ranges, from `first` on, as empty ones.

        `ended_at` is the first record that could not be read; -1 none.
        """
        at = first
        for low, stop in ranges:
            if 0 <= ended_at < low:
                return
            if low > at:
                self.n_empty += low - at
                if self.first_empty < 0 or at < self.first_empty:
                    self.first_empty = at
            at = stop


@dataclass(slots=True, eq=False)
class Threads:
    """Raw thread ids by the time of their first op.

    Not by their first record: a file may hold the same run block by block of each
    thread, or sorted by time.

    Attributes
    ----------
    first : int64[65536], earliest raw time stamp of an op, `NEVER` for none.
    """

    first: I64 = field(default_factory=lambda: np.full(N_THREADS, NEVER, np.int64))

    def add(self, other: I64) -> None:
        """Take over the first times of some more of the file."""
        np.minimum(self.first, other, out=self.first)

    def ids(self) -> list[int]:
        """Return the raw ids in the order of their first ops; equal times by id."""
        used = np.flatnonzero(self.first != NEVER)
        order = np.argsort(self.first[used], kind="stable")
        ids: list[int] = used[order].tolist()
        return ids


def data_bounds(source: Source, context: ReadContext) -> tuple[int, int]:
    """Return where the first non-zero byte is and where the last one ends.

    (0, 0) if there is none. Holes of a sparse file are never read.
    """
    extents = source.data_extents()
    end = _last_data(source, context, extents)
    for start, stop in extents if end else ():
        for offset in range(start, stop, _PROBE_BYTES):
            block = source.array(offset, min(_PROBE_BYTES, stop - offset))
            if block.any():
                return offset + int(np.argmax(block != 0)), end
            context.check_cancelled()
    return 0, 0


def _last_data(source: Source, context: ReadContext, extents: Ranges) -> int:
    """Return the offset behind the last non-zero byte; 0 if there is none."""
    for start, stop in reversed(extents):
        while stop > start:
            offset = max(start, stop - _PROBE_BYTES)
            block = source.array(offset, stop - offset)
            if block.any():
                return offset + len(block) - int(np.argmax(block[::-1] != 0))
            stop = offset
            context.check_cancelled()
    return 0


def n_file_records(source: Source, size: int, end: int) -> int:
    """Return how many whole records of `size` bytes begin before `end`."""
    return min(-(-end // size), source.size // size)


def record_ranges(source: Source, size: int, begin: int, end: int) -> Ranges:
    """Return [first, stop) record numbers of the stored parts of ``[begin, end)``.

    Ascending and apart from each other. A record cut off by the end of the file is
    left out, one that merely ends in zeros is not.
    """
    stop_all = n_file_records(source, size, end)
    ranges: Ranges = []
    for start, stop in source.data_extents():
        low = max(start, begin) // size
        high = min(-(-min(stop, end) // size), stop_all)
        if ranges and low <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
        elif low < high:
            ranges.append((low, high))
    return ranges


def cut_ranges(ranges: Ranges, first: int, stop: int) -> Ranges:
    """Return the parts of `ranges` within ``[first, stop)``."""
    cut = [(max(low, first), min(high, stop)) for low, high in ranges]
    return [(low, high) for low, high in cut if low < high]


def count_records(ranges: Ranges) -> int:
    """Return how many records the ranges hold."""
    return sum(stop - first for first, stop in ranges)


def spread_records(ranges: Ranges, n: int) -> list[int]:
    """Return the numbers of up to `n` records, evenly spread over the ranges."""
    total = count_records(ranges)
    if not total:
        return []
    at = np.linspace(0, total - 1, min(n, total)).astype(np.int64)
    lengths = np.array([stop - first for first, stop in ranges], np.int64)
    before = np.cumsum(lengths) - lengths
    of_range = np.searchsorted(before, at, "right") - 1
    firsts = np.array([first for first, _ in ranges], np.int64)
    numbers: list[int] = (firsts[of_range] + at - before[of_range]).tolist()
    return numbers


def word_blocks(source: Source, size: int, ranges: Ranges) -> Iterator[tuple[int, U64]]:
    """Yield (first record number, words uint64[m, size / 8]) over the ranges.

    The same memory is used for every block. Stops where the file has become
    shorter.
    """
    for first, stop in ranges:
        at = first
        for offset, block in source.blocks(first * size, stop * size, SCAN_BYTES):
            at = offset // size
            m = len(block) // size
            yield at, block[: m * size].view(_U64).reshape(m, size // 8)
            at += m
        if at < stop:
            return
