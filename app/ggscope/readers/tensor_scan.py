"""First pass over a tensor trace: where the data lies, and the header columns.

A record's first 24 bytes are three 64-bit words that hold everything but names and
sources: one cache line per record is enough for the first picture.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from ggscope.errors import LimitExceededError
from ggscope.model.tables import I64, Array, empty
from ggscope.readers.api import ReadContext
from ggscope.readers.records import FIRST_EXTENSION_OP, MAX_TIMESTAMP, NO_LAYER, Layout
from ggscope.readers.source import Source

SCAN_BYTES = 1 << 20
"""Block size; fits the second-level cache, so that column reads are cheap."""

BYTES_PER_RECORD = 64
"""What a record costs in memory while it is read."""

_PROBE_BYTES = 1 << 20
_NUMBER_OF_EXPERTS = 856
_U64 = np.uint64

Words = npt.NDArray[np.uint64]
Progress = Callable[[int], None]


@dataclass(slots=True, eq=False, kw_only=True)
class Columns:
    """Header columns of all op records, in file order.

    Attributes
    ----------
    time : int64[n], raw stamps.
    token : int32[n]; -1 where the claim cannot be a token number.
    layer : int16[n]; -1 none.
    thread : uint16[n], raw.
    op, phase : uint8[n], raw.
    name_hash : uint32[n] of the destination's name; None without names.
    duration : int64[n], ns from the spare bytes; None where these are all zero.
    record : number of the record in the file.
    """

    time: I64
    token: npt.NDArray[np.int32]
    layer: npt.NDArray[np.int16]
    thread: npt.NDArray[np.uint16]
    op: npt.NDArray[np.uint8]
    phase: npt.NDArray[np.uint8]
    name_hash: npt.NDArray[np.uint32] | None
    duration: I64 | None
    record: Array

    def __len__(self) -> int:
        return len(self.record)

    def drop_arranged(self) -> None:
        """Give back what is of no use once the records are in order."""
        self.time, self.thread = empty(np.int64), empty(np.uint16)
        self.name_hash = self.duration = None


@dataclass(slots=True)
class Tally:
    """What the first pass counted.

    Attributes
    ----------
    threads : raw thread ids in order of first appearance.
    n_records : records that are not all zero.
    n_extension, n_bad_time, n_expert : how many of them are extension records,
        have an impossible stamp, list experts.
    n_empty : all-zero records between others.
    first_bad_time, first_empty : number of the first such record; -1 none.
    has_layers : some op record names a layer other than 0.
    """

    threads: list[int] = field(default_factory=list)
    n_records: int = 0
    n_extension: int = 0
    n_bad_time: int = 0
    n_expert: int = 0
    n_empty: int = 0
    first_bad_time: int = -1
    first_empty: int = -1
    has_layers: bool = False


def data_bounds(source: Source, context: ReadContext) -> tuple[int, int]:
    """Return where the first non-zero byte is and where the last one ends.

    (0, 0) if there is none. Holes of a sparse file are never read.
    """
    extents = source.data_extents()
    end = _last_data(source, context, extents)
    for start, stop in extents if end else ():
        for offset in range(start, stop, _PROBE_BYTES):
            context.check_cancelled()
            block = source.array(offset, min(_PROBE_BYTES, stop - offset))
            if block.any():
                return offset + int(np.argmax(block != 0)), end
    return 0, 0


def _last_data(
    source: Source, context: ReadContext, extents: list[tuple[int, int]]
) -> int:
    """Return the offset behind the last non-zero byte; 0 if there is none."""
    for start, stop in reversed(extents):
        while stop > start:
            context.check_cancelled()
            offset = max(start, stop - _PROBE_BYTES)
            block = source.array(offset, stop - offset)
            if block.any():
                return offset + len(block) - int(np.argmax(block[::-1] != 0))
            stop = offset
    return 0


def record_ranges(
    source: Source, size: int, begin: int, end: int
) -> list[tuple[int, int]]:
    """Return [first, stop) record numbers of the stored parts of ``[begin, end)``.

    Ascending and apart from each other. A record cut off by the end of the file is
    left out, one that merely ends in zeros is not.
    """
    stop_all = min(-(-end // size), source.size // size)
    ranges: list[tuple[int, int]] = []
    for start, stop in source.data_extents():
        low = max(start, begin) // size
        high = min(-(-min(stop, end) // size), stop_all)
        if ranges and low <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
        elif low < high:
            ranges.append((low, high))
    return ranges


def word_blocks(
    source: Source, size: int, ranges: list[tuple[int, int]]
) -> Iterator[tuple[int, Words]]:
    """Yield (first record number, words uint64[m, size / 8]) over the ranges.

    The same memory is used for every block. Raises TruncatedError where the file
    has become shorter.
    """
    for first, stop in ranges:
        at = first
        for offset, block in source.blocks(first * size, stop * size, SCAN_BYTES):
            at = offset // size
            m = len(block) // size
            yield at, block[: m * size].view(_U64).reshape(m, size // 8)
            at += m
        if at < stop:
            source.read(at * size, size)


def scan(
    source: Source,
    layout: Layout,
    ranges: list[tuple[int, int]],
    context: ReadContext,
    progress: Progress,
) -> tuple[Columns, Tally]:
    """Return the header columns of all op records in the ranges, and counts.

    Raises
    ------
    LimitExceededError
        If there are more records than the context allows.
    """
    capacity = sum(stop - first for first, stop in ranges)
    limits = context.limits
    if capacity > min(limits.records, limits.memory_bytes // BYTES_PER_RECORD):
        raise LimitExceededError(
            f"the file may hold {capacity:,} records, more than the limit allows.",
            hint="Raise the limit or cut the file.",
        )
    filler = _Filler(layout, capacity, ranges[-1][1] if ranges else 0)
    done = 0
    for at, words in word_blocks(source, layout.size, ranges):
        filler.add(at, words)
        done += words.nbytes
        progress(done)
    filler.note_file_holes(ranges)
    return filler.columns(), filler.tally


def name_words(layout: Layout) -> slice | None:
    """Return which words of a record hold the name that marks a pass."""
    if not layout.dst_width:
        return None
    start = 8 if layout.source is None else 3
    return slice(start, start + layout.dst_width // 8)


def hash_name(words: Words) -> npt.NDArray[np.uint32]:
    """Return a hash of each row of `words`, uint32[m]."""
    factors = hash_factors(words.shape[1], 1)[:, 0]
    mixed = words ^ (words >> _U64(32))
    return np.asarray(((mixed @ factors) >> _U64(32)).astype(np.uint32))


@cache
def hash_factors(n_words: int, n_hashes: int, seed: int = 0) -> Words:
    """Return odd random factors, uint64[n_words, n_hashes]; the same every time.

    ``(words ^ words >> 32) @ factors`` hashes rows of words. The shift brings high
    bits down: without it, names that differ in their last letter only would differ
    in the top byte of the sum only.
    """
    rng = np.random.default_rng(0x6767_6D6C + seed)
    high = rng.integers(0, 1 << 63, (n_words, n_hashes), dtype=_U64)
    return high * _U64(2) + _U64(1)


class _Filler:
    """Writes blocks of records into columns that were made in one piece."""

    def __init__(self, layout: Layout, capacity: int, n_file_records: int) -> None:
        self._layout = layout
        self._names = name_words(layout)
        self._n = 0
        index = np.int32 if n_file_records < 1 << 31 else np.int64
        self._c = Columns(
            time=np.empty(capacity, np.int64),
            token=np.empty(capacity, np.int32),
            layer=np.empty(capacity, np.int16),
            thread=np.empty(capacity, np.uint16),
            op=np.empty(capacity, np.uint8),
            phase=np.empty(capacity, np.uint8),
            name_hash=None if self._names is None else np.empty(capacity, np.uint32),
            duration=None,
            record=np.empty(capacity, index),
        )
        self.tally = Tally()
        self._is_known = np.zeros(1 << 16, np.bool_)

    def add(self, first: int, words: Words) -> None:
        """Take the records of a block that starts with record number `first`."""
        head = np.ascontiguousarray(words[:, :3])
        time, op = head[:, 0], (head[:, 2] & _U64(0xFF)).astype(np.uint8)
        keep = self._kept(first, words, head, op)
        record = np.arange(first, first + len(words))
        if not keep.all():
            words, head, op = words[keep], head[keep], op[keep]
            time, record = head[:, 0], record[keep]
        c, at = self._c, slice(self._n, self._n + len(time))
        c.time[at] = time.view(np.int64)
        c.record[at] = record
        c.op[at] = op
        token = (head[:, 1] & _U64(0xFFFF_FFFF)).astype(np.uint32)
        c.token[at] = np.where(token < 1 << 31, token, 0xFFFF_FFFF).view(np.int32)
        layer = ((head[:, 1] >> _U64(32)) & _U64(0xFFFF)).astype(np.uint16)
        c.layer[at] = np.where(layer < 1 << 15, layer, NO_LAYER).view(np.int16)
        self.tally.has_layers |= bool(layer.any())
        thread = (head[:, 1] >> _U64(48)).astype(np.uint16)
        c.thread[at] = thread
        self._note_threads(thread)
        c.phase[at] = (head[:, 2] >> _U64(8)) & _U64(0xFF)
        if c.name_hash is not None and self._names is not None:
            c.name_hash[at] = hash_name(words[:, self._names])
        if self._layout.source is not None:
            self._add_durations(at, head[:, 2] >> _U64(24))
        if self._layout.has_experts:
            experts = (words[:, _NUMBER_OF_EXPERTS // 8] & _U64(0xFF)) != 0
            self.tally.n_expert += int(np.count_nonzero(experts))
        self._n = at.stop

    def _kept(
        self, first: int, words: Words, head: Words, op: Array
    ) -> npt.NDArray[np.bool_]:
        """Return which records are ops, and count the others."""
        t = self.tally
        is_empty = np.asarray((head[:, 0] | head[:, 1] | head[:, 2]) == 0)
        if is_empty.any():
            is_empty[is_empty] = ~words[is_empty].any(axis=1)
            self._note_empty(first, is_empty)
        bad = head[:, 0] > _U64(MAX_TIMESTAMP)
        extension = np.zeros(len(op), np.bool_)
        if self._layout.has_ggml_ops:
            extension = op >= FIRST_EXTENSION_OP
        if bad.any():
            if t.first_bad_time < 0:
                t.first_bad_time = first + int(np.argmax(bad))
            t.n_bad_time += int(np.count_nonzero(bad))
        t.n_extension += int(np.count_nonzero(extension & ~bad))
        t.n_records += len(op) - int(np.count_nonzero(is_empty))
        return np.asarray(~(is_empty | bad | extension))

    def _note_empty(self, first: int, is_empty: npt.NDArray[np.bool_]) -> None:
        count = int(np.count_nonzero(is_empty))
        if count and self.tally.first_empty < 0:
            self.tally.first_empty = first + int(np.argmax(is_empty))
        self.tally.n_empty += count

    def _note_threads(self, thread: npt.NDArray[np.uint16]) -> None:
        fresh = thread[~self._is_known[thread]]
        if len(fresh):
            ids, first = np.unique(fresh, return_index=True)
            self.tally.threads += ids[np.argsort(first)].tolist()
            self._is_known[ids] = True

    def _add_durations(self, at: slice, duration: Words) -> None:
        if self._c.duration is None:
            if not duration.any():
                return
            self._c.duration = np.zeros(len(self._c.time), np.int64)
        self._c.duration[at] = duration.view(np.int64)

    def note_file_holes(self, ranges: list[tuple[int, int]]) -> None:
        """Count the records in holes of the file as empty ones."""
        t, at = self.tally, 0
        for first, stop in ranges:
            if first > at:
                t.n_empty += first - at
                if t.first_empty < 0 or at < t.first_empty:
                    t.first_empty = at
            at = stop

    def columns(self) -> Columns:
        """Return the columns, cut to the records found."""
        c, n = self._c, self._n
        c.time, c.token, c.layer = c.time[:n], c.token[:n], c.layer[:n]
        c.thread, c.op, c.phase = c.thread[:n], c.op[:n], c.phase[:n]
        c.record = c.record[:n]
        c.name_hash = None if c.name_hash is None else c.name_hash[:n]
        c.duration = None if c.duration is None else c.duration[:n]
        return c
