"""What accesses touch: ranges of the model file, runtime tensors, or neither.

What is read, and how much, is decided by ``reads.op_io``; here its rows get their
place, and one pass over all spans counts how often each row of a heatmap does each.
"""

from dataclasses import dataclass, replace
from enum import Enum, IntEnum, auto

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.file_map import FAR, FileMap, access_base
from ggscope.analysis.heat.rows import RowFinder
from ggscope.analysis.reads.op_io import (
    AccessTable,
    Direction,
    loose_bytes,
    op_accesses,
)
from ggscope.analysis.workers import (
    CHUNK_ROWS,
    Watcher,
    add_by_group,
    chunks,
    count_values,
)
from ggscope.model.tables import (
    I64,
    AccessColumns,
    Array,
    Space,
    ranges,
    ranked,
    stacked,
)
from ggscope.model.trace import Trace

_ROWS_AT_ONCE = 64
_AT_ONCE = 1 << 16
_DENSE_KEYS = 1 << 24
"""So many pairs of row and variant are counted in a table, more by sorting."""


class Track(IntEnum):
    """Where an access goes."""

    FILE = 0
    """A known range of the model file."""
    BUFFER = 1
    """A runtime buffer."""
    UNPLACED = 2
    """A weight whose place in the file is not known."""
    OTHER = 3
    """Memory of a device, or nobody says which."""
    MAYBE = 4
    """A range of the model file that may be read: experts that no list names."""
    NOTHING = 5
    """No access: views, and experts that were not chosen."""


class UnknownUse(Enum):
    """Why it is unknown whether a unit without an access was touched."""

    OMITTED = auto()
    """The trace leaves out ops that may have touched it."""
    EXPERTS_OPEN = auto()
    """Not every chosen expert is named."""
    UNRECORDED = auto()
    """Ops of the graph that read it have no record."""


@dataclass(frozen=True, slots=True, eq=False)
class ByteRanges:
    """What the variants touch: rows ``first[v] : first[v + 1]`` of variant v.

    Attributes
    ----------
    first : int64[n_variants + 1], ascending from 0.
    track : uint8[n], `Track`.
    begin, stop : int64[n], global range of FILE and MAYBE touches, ``begin < stop``;
        else 0.
    size : int64[n], known bytes, 0 where unknown. Less than the range where the place
        inside it is not known: then it is spread over the range.
        Each chosen slice of a stack is a touch, and counts as an access.
    unknown : int64[n], bytes that may be moved besides, at most.
    passed : int64[n], bytes of the access that lie in experts that were not chosen.
    tensor : int32[n], row of ``Trace.tensors``, -1 none.
    layer : int32[n], of the access or else of its tensor, -1 none.
    """

    first: I64
    track: npt.NDArray[np.uint8]
    begin: I64
    stop: I64
    size: I64
    unknown: I64
    passed: I64
    tensor: npt.NDArray[np.int32]
    layer: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.track)

    def take(self, rows: Array, first: I64) -> "ByteRanges":
        """Return the given rows, as the variants that `first` cuts them into."""
        return ByteRanges(
            first, self.track[rows], self.begin[rows], self.stop[rows],
            self.size[rows], self.unknown[rows], self.passed[rows],
            self.tensor[rows], self.layer[rows],
        )  # fmt: skip


def loose_touches(trace: Trace, files: FileMap) -> ByteRanges:
    """Return what each access touches that belongs to no span; see `ByteRanges`."""
    what = trace.accesses.loose.what
    first = np.arange(len(what) + 1, dtype=np.int64)
    known, passed = loose_bytes(trace)
    none = np.zeros(len(what), np.int64)
    placed = _placed(trace, files, what, known, none, passed, first)
    return _narrowed_to_experts(files, what, placed)


def _placed(
    trace: Trace,
    files: FileMap,
    what: AccessColumns,
    known: I64,
    unknown: I64,
    passed: I64,
    first: I64,
) -> ByteRanges:
    """Return what each access touches, one row per access.

    Notes
    -----
    An access with an offset of its own touches ``[offset, offset + size)``. Without
    one it touches its tensor; a known expert of a stack, the slice.
    """
    tensor = what.tensor.astype(np.int64)
    at = np.maximum(tensor, 0)
    n_tensors = len(trace.tensors)
    has_tensor = (tensor >= 0) & (n_tensors > 0)
    places = files.first if n_tensors else np.full(1, -1, np.int64)
    begin = np.where(has_tensor, places[at], -1)
    stop = np.where(has_tensor, (files.stop if n_tensors else places)[at], -1)
    offset, size = what.offset.astype(np.int64), what.size.astype(np.int64)
    has_offset = (
        (what.space == Space.FILE) & (offset >= 0) & (offset < FAR) & (size < FAR)
    )
    start = access_base(trace, tensor, files.parts) + offset
    begin = np.where(has_offset, start, begin)
    # Nobody knows how far an access without a size reaches: at most its tensor.
    reach = np.where(size > 0, start + size, np.maximum(stop, start + 1))
    stop = np.where(has_offset, reach, stop)
    space = what.space
    maybe = (space == Space.FILE) | ((space == Space.UNKNOWN) & (begin >= 0))
    placed = maybe & (begin >= 0) & (stop > begin)
    track = np.full(len(what), Track.OTHER, np.uint8)
    track[space == Space.BUFFER] = Track.BUFFER
    track[space == Space.FILE] = Track.UNPLACED
    track[placed] = Track.FILE
    layer = np.asarray(what.layer, np.int32)
    if n_tensors:
        of_tensor = np.asarray(trace.tensors.layer, np.int32)[at]
        layer = np.where((layer < 0) & has_tensor, of_tensor, layer)
    return ByteRanges(
        first.astype(np.int64),
        track,
        np.where(placed, begin, 0),
        np.where(placed, stop, 0),
        np.clip(known, 0, FAR),
        np.clip(unknown, 0, FAR),
        passed,
        what.tensor.astype(np.int32),
        layer.astype(np.int32),
    )


def _narrowed_to_experts(
    files: FileMap, what: AccessColumns, placed: ByteRanges
) -> ByteRanges:
    """Narrow accesses that name their expert from the stack to its slice."""
    expert = np.asarray(what.expert, np.int64)
    rows = np.flatnonzero((expert >= 0) & (placed.track == Track.FILE))
    if not len(rows) or not len(files):
        return placed
    unit = np.searchsorted(files.offset, placed.begin[rows]) + expert[rows]
    unit = np.minimum(unit, len(files) - 1)
    ends = files.offset[unit] + files.size[unit]
    fits = (files.expert[unit] == expert[rows]) & (ends <= placed.stop[rows])
    fits &= files.offset[unit] >= placed.begin[rows]
    rows, unit, ends = rows[fits], unit[fits], ends[fits]
    begin, stop, size, passed = (
        column.copy()
        for column in (placed.begin, placed.stop, placed.size, placed.passed)
    )
    begin[rows], stop[rows] = files.offset[unit], ends
    cut = np.minimum(size[rows], files.size[unit])
    passed[rows] += size[rows] - cut
    size[rows] = cut
    return replace(placed, begin=begin, stop=stop, size=size, passed=passed)


@dataclass(frozen=True, slots=True, eq=False)
class Variants:
    """What the entries of the `AccessTable` touch, and which entry each span is.

    Attributes
    ----------
    column : int[n_spans], `AccessTable.counted_entries`: -1 touches nothing, or is
        counted with another span.
    touches : one row per row of that table.
    """

    column: Array
    touches: ByteRanges
    access_table: AccessTable


def span_variants(trace: Trace, files: FileMap) -> Variants:
    """Return what every span touches, with the chosen experts where known."""
    table = op_accesses(trace)
    placed = _placed(
        trace, files, table.what, table.known, table.unknown, table.passed, table.first
    )
    touches = _narrowed_to_experts(files, table.what, placed)
    track = touches.track.copy()
    on_file = track == Track.FILE
    # What is written is not read; which experts are open is not read for sure.
    track[on_file & (table.direction == Direction.WRITE)] = Track.OTHER
    track[on_file & table.is_stack & (table.known == 0)] = Track.MAYBE
    track[~table.is_access] = Track.NOTHING
    return Variants(table.counted_entries(), replace(touches, track=track), table)


def maybe_units(files: FileMap, touches: ByteRanges, n: I64) -> I64:
    """Return how many accesses may be to each unit, int64[n_units]; `n` per touch.

    Each is an access to a stack by experts that no list names.
    """
    change = np.zeros(len(files) + 1, np.int64)
    rows = np.flatnonzero((touches.track == Track.MAYBE) & (n > 0))
    low = np.searchsorted(files.offset + files.size, touches.begin[rows], "right")
    high = np.searchsorted(files.offset, touches.stop[rows], "left")
    np.add.at(change, low, n[rows])
    np.subtract.at(change, np.maximum(high, low), n[rows])
    return np.cumsum(change)[:-1]


def joined_touches(a: ByteRanges, b: ByteRanges) -> ByteRanges:
    """Return the variants of `a`, then those of `b`."""
    first = np.concatenate([a.first, b.first[1:] + a.first[-1]])
    return replace(stacked(a, b), first=first)


Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """How often each row touches what: a sparse matrix.

    row, touch : int64[k]; n : int64[k] > 0.
    """

    row: I64
    touch: I64
    n: I64


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each row makes each touch: as a table, or sparse where that is small.

    Attributes
    ----------
    dense : int32[n_rows, n_columns], or None; column : int64[n_touches], in it.
    entries : used where there is no table.
    """

    n_rows: int
    dense: Array | None
    column: I64
    entries: Entries

    def table(self, where: I64, width: int) -> Array:
        """Return int[n_rows, width]: the counts added at a place per touch.

        int32 where all counts together fit, which halves the memory, else int64.

        Parameters
        ----------
        where : int64[n_touches], in 0..width - 1; -1 leaves a touch out.
        """
        if self.dense is None:
            total = np.zeros(self.n_rows * width, np.int64)
            place = where[self.entries.touch]
            keep = place >= 0
            at = self.entries.row[keep] * width + place[keep]
            np.add.at(total, at, self.entries.n[keep])
            return total.reshape(self.n_rows, width)
        touches = np.flatnonzero(where >= 0)
        touches = touches[np.argsort(where[touches], kind="stable")]
        if not len(touches):
            return np.zeros((self.n_rows, width), np.int64)
        n_all = int(self.dense.sum(axis=0, dtype=np.int64)[self.column[touches]].sum())
        dtype = np.int32 if n_all < 1 << 31 else np.int64
        totals = np.empty((self.n_rows, width), dtype)
        places, first = np.unique(where[touches], return_index=True)
        is_single = len(places) == len(touches)
        n = self.dense.shape[1] if is_single else len(places)
        # Which column goes to each place; the last one is of zeros.
        source = np.full(width, n, np.int64)
        source[places] = self.column[touches] if is_single else np.arange(n)
        padded = np.zeros((_ROWS_AT_ONCE, n + 1), dtype)
        # A few rows at a time, so that what is gathered stays in the cache.
        for begin in range(0, self.n_rows, _ROWS_AT_ONCE):
            part = self.dense[begin : begin + _ROWS_AT_ONCE]
            if not is_single:
                part = np.take(part, self.column[touches], axis=1)
                part = np.add.reduceat(part, first, axis=1, dtype=dtype)
            to = totals[begin : begin + len(part)]
            padded[: len(part), :n] = part
            np.take(padded[: len(part)], source, axis=1, out=to, mode="clip")
        return totals

    def of_touches(self, keep: Mask) -> Entries:
        """Return the counts of some touches; `keep` is bool[n_touches]."""
        if self.dense is None:
            chosen = keep[self.entries.touch]
            e = self.entries
            return Entries(e.row[chosen], e.touch[chosen], e.n[chosen])
        touches = np.flatnonzero(keep)
        part = np.take(self.dense, self.column[touches], axis=1)
        row, place = np.nonzero(part)
        n = part[row, place].astype(np.int64)
        return Entries(row.astype(np.int64), touches[place], n)

    def of_row(self, row: int) -> "Counts":
        """Return those of one row."""
        old = self.entries
        dense = None if self.dense is None else self.dense[row : row + 1]
        keep = np.flatnonzero(old.row == row)
        none = np.zeros(len(keep), np.int64)
        entries = Entries(none, old.touch[keep], old.n[keep])
        return Counts(1, dense, self.column, entries)

    def summed(self) -> "Counts":
        """Return one row for all rows."""
        n = np.zeros(len(self.column), np.int64)
        if self.dense is None:
            add_by_group(n, self.entries.touch, self.entries.n)
        else:
            n += self.dense.sum(axis=0, dtype=np.int64)[self.column]
        touch = np.flatnonzero(n)
        entries = Entries(np.zeros(len(touch), np.int64), touch, n[touch])
        return Counts(1, None, self.column, entries)

    def sparse(self) -> "Counts":
        """Return the same without a table."""
        every = np.ones(len(self.column), np.bool_)
        return Counts(self.n_rows, None, self.column, self.of_touches(every))


class SpanCounter:
    """Counts spans by variant, and by row and variant for those on the file.

    Parameters
    ----------
    first : int64[n_variants + 1], which touches of the file each variant makes.
    place : row of the picture for each row of the finder.
    mask : bool[n_spans], whose spans count; all where None.

    Attributes
    ----------
    n_spans : int64[n_variants], filled by `run`.
    """

    def __init__(
        self, variants: Variants, first: I64, place: I64, mask: Mask | None
    ) -> None:
        self._column, self._place, self._mask = variants.column, place, mask
        lengths = np.diff(first)
        self._used = np.flatnonzero(lengths)
        self._n_used = max(len(self._used), 1)
        number = np.full(len(lengths) + 1, -1, np.int32)  # the last one is for -1
        number[self._used] = np.arange(len(self._used))
        self._number = number
        self._n_rows = int(place.max(initial=-1)) + 1
        n_keys = self._n_rows * self._n_used
        # No pair can occur more often than there are spans: int32 is enough.
        self._dense = np.zeros(n_keys, np.int32) if n_keys <= _DENSE_KEYS else None
        self._found: list[tuple[I64, I64]] = []
        self.n_spans = np.zeros(len(lengths), np.int64)

    def run(self, finder: RowFinder, n: int, watcher: Watcher | None = None) -> None:
        """Count all `n` spans. Raises Cancelled from the watcher."""
        for chunk in chunks(n, CHUNK_ROWS):
            if watcher is not None:
                watcher.progress(chunk.start, n)
            variant, row = self._column[chunk], finder.of_spans(chunk)
            use = row >= 0
            if self._mask is not None:
                use &= self._mask[chunk]
            if not use.all():
                variant, row = variant[use], row[use]
            self.n_spans += count_values(variant, len(self.n_spans))
            number = self._number[variant]
            on_file = number >= 0
            key = self._place[row[on_file]]
            key *= self._n_used
            key += number[on_file]
            self._add(key)

    def _add(self, key: I64) -> None:
        if self._dense is not None:
            # Of the same type: a plain 1 is added twenty times slower. A few at a
            # time, as the interpreter lock is held meanwhile.
            for chunk in chunks(len(key), _AT_ONCE):
                np.add.at(self._dense, key[chunk], np.int32(1))
        elif len(key):
            self._found.append(np.unique(key, return_counts=True))

    def counts(self, touches: ByteRanges) -> Counts:
        """Return how often each row makes each of the `touches` of the file."""
        lengths = np.diff(touches.first)[self._used]
        column = np.repeat(np.arange(len(self._used), dtype=np.int64), lengths)
        none = np.zeros(0, np.int64)
        nothing = Entries(none, none, none)
        if not len(self._used):
            return Counts(self._n_rows, None, column, nothing)
        if self._dense is not None:
            table = self._dense.reshape(self._n_rows, self._n_used)
            return Counts(self._n_rows, table, column, nothing)
        key, n = self._sorted()
        row, number = np.divmod(key, self._n_used)
        variant = self._used[number]
        lengths = np.diff(touches.first)[variant]
        touch = ranges(touches.first[variant], lengths)
        entries = Entries(np.repeat(row, lengths), touch, np.repeat(n, lengths))
        return Counts(self._n_rows, None, column, entries)

    def _sorted(self) -> tuple[I64, I64]:
        """Return the pairs that occur and how often, from all chunks."""
        if not self._found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        keys, counts = zip(*self._found, strict=True)
        key, _, place = ranked(np.concatenate(keys))
        n = np.zeros(len(key), np.int64)
        add_by_group(n, place, np.concatenate(counts).astype(np.int64))
        return key, n
