"""Bytes and counts of accesses over the model file, exactly, at any zoom.

The base is a table of rows (tokens, passes, …) by *segments*: the file cut at every
unit and at every end of an access. An access covers whole segments, so how many of
them cover a segment says everything: the bytes before offset b in a row are the whole
segments before it, plus ``covers * (b - begin)`` of its own segment. That function is
monotone and made of integers, and a cell is its difference between two edges. So
cells of any width add up to the bytes of the accesses, to the byte.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from ggscope.analysis.completeness.coverage import trace_coverage
from ggscope.analysis.heat.byte_ranges import (
    ByteRanges,
    Counts,
    Entries,
    Mask,
    SpanCounter,
    Track,
    UnknownUse,
    joined_touches,
    loose_touches,
    maybe_units,
    span_variants,
)
from ggscope.analysis.heat.file_map import FileMap, file_map
from ggscope.analysis.heat.rows import HeatRows, RowFinder, RowKind
from ggscope.analysis.reads.op_io import counts_once
from ggscope.analysis.reads.record_limits import cut_sources
from ggscope.analysis.reads.unrecorded import unrecorded_tensors
from ggscope.analysis.workers import Watcher, add_by_group
from ggscope.model.tables import I64, Array, Table, ranges
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.native.library import library

Metric = Literal["bytes", "count"]
MAX_CELLS = 1 << 24
"""Rows are put together where rows times segments would be more: 64 MiB a table."""
MAX_ENDS = 1 << 14
"""Ends of accesses inside units that are kept exactly; more are moved outwards."""
_FINE_BITS = 16
"""Bits of fractions of bytes in which spread bytes are counted for colours."""


@dataclass(frozen=True, slots=True)
class TrackTotals:
    """What all counted accesses come to.

    Attributes
    ----------
    n_file, n_buffer, n_unplaced, n_other : accesses by `Track`, as recorded: one to
        several experts of a stack counts once.
    file_bytes, buffer_bytes, unplaced_bytes, other_bytes : their known bytes.
    passed_bytes : bytes of accesses to stacks that lie in experts not chosen: part of
        the recorded size, but not of `file_bytes`.
    n_maybe : accesses to a stack, each of all its experts that no list names.
    unknown_file_bytes : bytes of the file that may be moved besides, at most: of
        experts that no list names, of rows whose length is not known.
    n_moved : accesses whose ends were moved outwards, see `MAX_ENDS`.
    is_once : whether each op counts once; see `account.counts_once`.
    """

    n_file: int = 0
    n_buffer: int = 0
    n_unplaced: int = 0
    n_other: int = 0
    file_bytes: int = 0
    buffer_bytes: int = 0
    unplaced_bytes: int = 0
    other_bytes: int = 0
    passed_bytes: int = 0
    n_maybe: int = 0
    unknown_file_bytes: int = 0
    n_moved: int = 0
    is_once: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class BufferTrack(Table):
    """Accesses to runtime buffers, per tensor: by layer, then as tensors come.

    tensor : int32[n], row of ``Trace.tensors``; -1 for those without one.
    layer : int32[n]; count, bytes : int64[n].
    unknown : int64[n], bytes that may be accessed besides, at most.
    """

    tensor: npt.NDArray[np.int32]
    layer: npt.NDArray[np.int32]
    count: I64
    bytes: I64
    unknown: I64


@dataclass(frozen=True, eq=False)
class HeatBase:
    """The base of every picture of one heatmap. Does not change.

    Attributes
    ----------
    files : the map of the file. rows : from top to bottom.
    edges : int64[p + 1], global offsets where the segments begin, from 0 to the extent.
    touches, counts : what is touched of the file, and how often by which row.
    totals, buffers : over everything that is counted.
    maybe : int64[n_units], accesses that may be to each unit: by experts that no list
        names. A unit with some is not known to be untouched.
    unrecorded : bool[n_units], read by ops without a record, by the graphs: likewise.
    unsure : bool[n_units], may be read without a record, as the trace leaves out what
        may have read it: likewise.
    is_part : whether a filter or a range of time leaves out some of the spans.
    """

    files: FileMap
    rows: HeatRows
    edges: I64
    touches: ByteRanges
    counts: Counts
    totals: TrackTotals
    buffers: BufferTrack
    maybe: I64
    unrecorded: npt.NDArray[np.bool_]
    unsure: npt.NDArray[np.bool_]
    is_part: bool

    @property
    def is_open(self) -> npt.NDArray[np.bool_]:
        """Which units are not known to be untouched where no access is to them."""
        return np.asarray((self.maybe > 0) | self.unrecorded | self.unsure, np.bool_)

    @property
    def unknown_use(self) -> UnknownUse | None:
        """Why some units may be touched without an access to them; None = none may."""
        if self.unsure.any():
            return UnknownUse.OMITTED
        if self.maybe.any():
            return UnknownUse.EXPERTS_OPEN
        return UnknownUse.UNRECORDED if self.unrecorded.any() else None

    @property
    def n_segments(self) -> int:
        """Number of segments, 0 where there is no file."""
        return len(self.edges) - 1

    def grid(self, row_edges: I64, metric: Metric = "bytes") -> "HeatGrid":
        """Return the groups of rows between neighbouring edges; makes nothing.

        Parameters
        ----------
        row_edges : int64[g + 1], ascending, in 0..n_rows.
        """
        rows = np.ascontiguousarray(row_edges, np.int64)
        if metric == "count":
            return HeatGrid(self.edges, rows, self._starts, ends=self._ends)
        return HeatGrid(self.edges, rows, self._covers, self._spread)

    def total_grid(self, metric: Metric = "bytes") -> "HeatGrid":
        """Return one group of all rows, without tables of every row."""
        base = self if self.counts.n_rows == 1 else self._one_row
        return base.grid(np.array([0, 1], np.int64), metric)

    def row_grid(self, row: int, metric: Metric = "bytes") -> "HeatGrid":
        """Return the group of one row, without tables of every row."""
        return self._of_one(self.counts.of_row(row)).total_grid(metric)

    def unit_sums(self) -> tuple[I64, I64]:
        """Return (bytes, count) of each unit of the file map, int64[n_units]."""
        begin = self.files.offset
        stop = begin + self.files.size
        if not len(begin):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        size = self.total_grid("bytes").between(begin, stop)[0]
        return size, self.total_grid("count").between(begin, stop)[0]

    @cached_property
    def _one_row(self) -> "HeatBase":
        return self._of_one(self.counts.summed())

    def _of_one(self, counts: Counts) -> "HeatBase":
        """Return a base of one row."""
        number = np.zeros(1, np.int64)
        return replace(
            self, rows=HeatRows(self.rows.kind, number, number), counts=counts
        )

    @cached_property
    def _segments(self) -> tuple[I64, I64]:
        """First segment of each FILE touch and the one behind its last."""
        low = np.searchsorted(self.edges, self.touches.begin, "right") - 1
        high = np.searchsorted(self.edges, self.touches.stop, "left")
        return low.astype(np.int64), high.astype(np.int64)

    @cached_property
    def _is_even(self) -> Mask:
        """Whether a touch covers each byte of its segments once."""
        low, high = self._segments
        return np.asarray(
            self.touches.size == self.edges[high] - self.edges[low], np.bool_
        )

    @cached_property
    def _covers(self) -> Array:
        """How many touches cover each segment, summed up over the rows before."""
        low, high = (np.where(self._is_even, ends, -1) for ends in self._segments)
        width = self.n_segments + 1
        table = self.counts.table(low, width)
        if not bool((high[self._is_even] == low[self._is_even] + 1).all()):
            table -= self.counts.table(high, width)
            np.cumsum(table, axis=1, out=table)
        return _over_rows(table[:, :-1])

    @cached_property
    def _starts(self) -> Array:
        return _over_rows(self.counts.table(self._segments[0], self.n_segments))

    @cached_property
    def _ends(self) -> Array:
        return _over_rows(self.counts.table(self._segments[1] - 1, self.n_segments))

    @cached_property
    def _spread(self) -> tuple[I64, Array] | None:
        """Pieces with bytes whose place in them is unknown, and how many; or None.

        Bytes of each of these segments, summed up over the rows before. Few segments
        have any, and a table of all of them would be the largest thing of a heatmap.
        """
        is_odd = ~self._is_even & (self.touches.size > 0)
        if not is_odd.any():
            return None
        entries = self.counts.of_touches(is_odd)
        row, touch, n = entries.row, entries.touch, entries.n
        used, place = np.unique(touch, return_inverse=True)
        low, high = (ends[used] for ends in self._segments)
        length = high - low
        segment, of = ranges(low, length), np.repeat(np.arange(len(used)), length)
        begin, whole = self.edges[low][of], (self.edges[high] - self.edges[low])[of]
        size = self.touches.size[used][of]
        share = scaled(size, self.edges[segment + 1] - begin, whole) - scaled(
            size, self.edges[segment] - begin, whole
        )
        first = np.concatenate([[0], np.cumsum(length)])
        at = ranges(first[place], length[place])
        n_each = np.repeat(n, length[place])
        rows = np.repeat(row, length[place])
        segments, column = np.unique(segment, return_inverse=True)
        total = np.zeros(len(self.rows) * len(segments), np.int64)
        np.add.at(total, rows * len(segments) + column[at], share[at] * n_each)
        return segments, _over_rows(total.reshape(len(self.rows), len(segments)))


@dataclass(frozen=True, slots=True, eq=False)
class HeatGrid:
    """Groups of rows of a heatmap; answers for any edges along the file.

    Nothing is kept of a group: a table of all groups would be several times as large as
    that of all rows, and new memory costs more than summing up what is in view.

    Attributes
    ----------
    edges : int64[p + 1], global offsets of the segments.
    rows : int64[g + 1], rows between the groups.
    covers : int[n_rows + 1, p], accesses that cover each byte of a segment, or for
        counts those that begin in it; summed up over the rows before.
    spread : segments with bytes that are spread over them, int64[k], and how many,
        summed up likewise; None without any.
    ends : as `covers`, accesses that end in each segment, for counts.
    """

    edges: I64
    rows: I64
    covers: Array
    spread: tuple[I64, Array] | None = None
    ends: Array | None = None

    def cells(self, offsets: I64) -> I64:
        """Return int64[g, m - 1]: what lies between neighbouring offsets.

        Parameters
        ----------
        offsets : int64[m], global offsets, ascending.

        Notes
        -----
        Of bytes, neighbouring cells add up exactly. Of accesses each cell counts
        those that touch it, so one that spans two cells counts in both.
        """
        if not self.n_segments or not len(offsets):
            return np.zeros((self._n_groups, max(len(offsets) - 1, 0)), np.int64)
        if self.ends is not None:
            n_begun, ended = self._numbers(offsets[:-1], offsets[1:])
            cells = self._sums(self.covers, n_begun)
            cells -= self._sums(self.ends, ended)
            cells[:, offsets[1:] <= offsets[:-1]] = 0
            return cells
        return self._bytes(*self._places(offsets), cells=True)

    def densities(self, offsets: I64) -> npt.NDArray[np.float32]:
        """Return float32[g, m - 1]: bytes of `cells` per byte of the file in each.

        Whole bytes alone would make stripes of what is spread evenly: 17, 18, 17 … of
        cells that are alike.
        """
        if self.ends is not None:
            raise ValueError("this grid counts accesses")
        if not self.n_segments or len(offsets) < 2:
            return np.zeros((self._n_groups, max(len(offsets) - 1, 0)), np.float32)
        segment, inside = self._places(offsets)
        total = self._sums(self.covers, segment, inside, cells=True)
        bits = 0
        if self.spread is not None:
            # Fractions of spread bytes count in the same numbers, as far as they fit.
            covered = np.diff(self.edges) * self.covers[-1].astype(np.float64)
            n_tensors = int(covered.sum()) + int(self.spread[1][-1].sum(dtype=np.int64))
            bits = max(min(_FINE_BITS, 62 - n_tensors.bit_length()), 0)
            total <<= bits
            self._add_spread(total, segment, inside, cells=True, bits=bits)
        per_byte = 2.0**-bits / np.maximum(np.diff(offsets), 1)
        densities = total.astype(np.float32)
        densities *= per_byte.astype(np.float32)
        return densities

    def between(self, begin: I64, stop: I64) -> I64:
        """Return int64[g, m]: what lies in each range ``[begin, stop)``."""
        if self.ends is None:
            return self.bytes_before(stop) - self.bytes_before(begin)
        if not self.n_segments:
            return np.zeros((self._n_groups, len(begin)), np.int64)
        n_begun, ended = self._numbers(begin, stop)
        segment, back = np.unique(n_begun, return_inverse=True)
        totals = self._sums(self.covers, segment)[:, back]
        segment, back = np.unique(ended, return_inverse=True)
        totals -= self._sums(self.ends, segment)[:, back]
        totals[:, stop <= begin] = 0
        return totals

    def bytes_before(self, offsets: I64) -> I64:
        """Return int64[g, m]: bytes before each offset; monotone in the offset."""
        if self.ends is not None:
            raise ValueError("this grid counts accesses")
        if not self.n_segments:
            return np.zeros((self._n_groups, len(offsets)), np.int64)
        at, back = np.unique(offsets, return_inverse=True)
        return self._bytes(*self._places(at))[:, back]

    @property
    def _n_groups(self) -> int:
        return max(len(self.rows) - 1, 0)

    def _numbers(self, begin: I64, stop: I64) -> tuple[I64, I64]:
        """Return how many segments begin before `stop`, and end up to `begin`."""
        n_begun = np.searchsorted(self.edges[:-1], stop, "left")
        return n_begun, np.searchsorted(self.edges[1:], begin, "right")

    def _sums(
        self,
        table: Array,
        segment: I64,
        inside: I64 | None = None,
        *,
        cells: bool = False,
    ) -> I64:
        """Return sums of a table before ascending places, or of the cells between.

        `inside` says how many bytes behind the beginning of a segment; None: numbers of
        the segments are summed up, not of their bytes.
        """
        totals = np.empty((self._n_groups, len(segment) - cells), np.int64)
        library().ggscope_heat_sums(
            table, table.itemsize, table.shape[1], self.rows, self._n_groups,
            None if inside is None else self.edges,
            segment, inside, len(segment), cells,
            np.empty(table.shape[1] + 1, np.uint64), totals,
        )  # fmt: skip
        return totals

    def _bytes(self, segment: I64, inside: I64, *, cells: bool = False) -> I64:
        """Return the bytes before ascending places, or those of the cells between."""
        totals = self._sums(self.covers, segment, inside, cells=cells)
        if self.spread is not None:
            self._add_spread(totals, segment, inside, cells=cells)
        return totals

    def _add_spread(
        self, totals: I64, segment: I64, inside: I64, *, cells: bool, bits: int = 0
    ) -> None:
        """Add what is spread over segments to `totals`, with `bits` of fractions."""
        assert self.spread is not None
        segments, table = self.spread
        amount = (table[self.rows[1:]] - table[self.rows[:-1]]).astype(np.int64)
        amount <<= bits
        before = np.zeros((len(amount), len(segments) + 1), np.int64)
        np.cumsum(amount, axis=1, out=before[:, 1:])
        share, small = _parts(inside, np.diff(self.edges)[segment])
        share[~np.isin(segment, segments)] = 0
        library().ggscope_heat_spread(
            amount, before, len(segments), self._n_groups,
            np.searchsorted(segments, segment),
            share, small, len(segment), cells, totals,
        )  # fmt: skip

    @property
    def n_segments(self) -> int:
        """Number of segments, 0 where there is no file."""
        return max(len(self.edges) - 1, 0)

    def _places(self, offsets: I64) -> tuple[I64, I64]:
        """Return the segment of each offset, and how far in it the offset lies."""
        at = np.clip(offsets, self.edges[0], self.edges[-1])
        segment = np.searchsorted(self.edges, at, "right") - 1
        segment = np.minimum(segment, self.n_segments - 1).astype(np.int64)
        return segment, at - self.edges[segment]


def scaled(amount: I64, part: I64, whole: I64) -> I64:
    """Return ``amount * part / whole`` rounded down, monotone in `part`.

    Exact at ``part == 0`` and ``part == whole``; in between without the last bits of
    a `whole` of 2 GiB and more, which would not fit 64 bits.

    Parameters
    ----------
    amount : >= 0. whole : > 0. part : 0..whole.
    """
    share, small = _parts(part, whole)
    times, rest = np.divmod(amount, small)
    return np.asarray(times * share + rest * share // small, np.int64)


def _parts(part: I64, whole: I64) -> tuple[I64, I64]:
    """Return `part` and `whole` in parts of below 31 bits."""
    bits = np.frexp(whole.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(bits - 31, 0)
    small = np.maximum(whole >> shift, 1)
    return np.where(part == whole, small, np.minimum(part >> shift, small)), small


def heat_base(
    trace: Trace,
    rows: RowKind = "token",
    *,
    files: FileMap | None = None,
    mask: Mask | None = None,
    time: TimeRange | None = None,
    watcher: Watcher | None = None,
) -> HeatBase:
    """Return the base of a heatmap of a trace.

    Parameters
    ----------
    files : of this trace, made here where None.
    mask : bool[n_spans], whose accesses count; all where None. Accesses without a
        span count only where all do.
    time : what is cut into rows for kind "time"; accesses outside are left out.
    watcher : is notified of the progress; may stop it.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    files = file_map(trace) if files is None else files
    variants = span_variants(trace, files)
    finder = RowFinder(trace, rows, time)
    span_ranges = variants.touches
    on_file, first = _file_touches(span_ranges)
    edges, placed, n_moved = _segments(files, span_ranges.take(on_file, first))
    shown_rows, place = finder.rows.joined(max(MAX_CELLS // max(len(edges), 1), 1))
    counter = SpanCounter(variants, first, place, mask)
    counter.run(finder, len(trace.spans), watcher)
    counts = counter.counts(placed)
    n_touches = np.repeat(counter.n_spans, np.diff(span_ranges.first))
    sums = [_sums(span_ranges, n_touches, variants.access_table.counts)]
    buffers = [_on_buffer(span_ranges, n_touches)]
    if mask is None and len(trace.accesses.loose):
        loose, its_rows = _loose(trace, files, finder)
        ones = np.ones(len(loose), np.int64)
        sums.append(_sums(loose, ones, ones))
        buffers.append(_on_buffer(loose, ones))
        placed, counts = _with_loose(placed, counts, loose, place[its_rows])
        edges, placed, n_moved = _segments(files, placed)
    if rows == "layer":
        by_layer = place[finder.layer_rows(placed.layer)]
        counts = _by_touch(counts, by_layer)
    shown_rows, counts = _without_rest(shown_rows, counts)
    totals = _totals(np.sum(sums, axis=0), n_moved, is_once=counts_once(trace))
    track = _buffer_track(np.concatenate(buffers, axis=1))
    maybe = maybe_units(files, span_ranges, n_touches)
    unrecorded = unrecorded_tensors(trace)[files.tensor]
    unsure = cut_sources(trace)[files.tensor] | trace_coverage(trace).may_hide_reads
    is_part = mask is not None
    if rows == "time" and time is not None:
        is_part |= time.start > trace.extent.start or time.end < trace.extent.end
    return HeatBase(
        files, shown_rows, edges, placed, counts, totals, track, maybe,
        unrecorded, unsure, is_part,
    )  # fmt: skip


def _file_touches(touches: ByteRanges) -> tuple[I64, I64]:
    """Return the touches of the file, and which of them belong to each variant."""
    on_file = touches.track == Track.FILE
    before = np.concatenate([[0], np.cumsum(on_file)]).astype(np.int64)
    return np.flatnonzero(on_file), before[touches.first]


def _loose(trace: Trace, files: FileMap, finder: RowFinder) -> tuple[ByteRanges, I64]:
    """Return the accesses that belong to no span, and the row of each."""
    row = finder.of_loose()
    inside = np.flatnonzero(row >= 0)
    touches = loose_touches(trace, files)
    return touches.take(inside, np.arange(len(inside) + 1, dtype=np.int64)), row[inside]


def _with_loose(
    touches: ByteRanges, counts: Counts, more: ByteRanges, row: I64
) -> tuple[ByteRanges, Counts]:
    """Add accesses of the file that belong to no span, each as a touch of its own."""
    chosen = np.flatnonzero(more.track == Track.FILE)
    if not len(chosen):
        return touches, counts
    more = more.take(chosen, np.arange(len(chosen) + 1, dtype=np.int64))
    column_of_more = np.arange(len(more), dtype=np.int64) + len(touches)
    old = counts.sparse().entries
    entries = Entries(
        np.concatenate([old.row, row[chosen]]),
        np.concatenate([old.touch, column_of_more]),
        np.concatenate([old.n, np.ones(len(column_of_more), np.int64)]),
    )
    column = np.concatenate([counts.column, column_of_more])
    return joined_touches(touches, more), Counts(counts.n_rows, None, column, entries)


def _by_touch(counts: Counts, row: I64) -> Counts:
    """Return the counts with a row per touch instead of one per span."""
    old = counts.sparse().entries
    entries = Entries(row[old.touch], old.touch, old.n)
    return Counts(counts.n_rows, None, counts.column, entries)


def _without_rest(rows: HeatRows, counts: Counts) -> tuple[HeatRows, Counts]:
    """Leave out the row of what has no number where nothing is in it."""
    if not rows.has_rest:
        return rows, counts
    last = len(rows.first)
    if counts.dense is not None:
        is_used = bool(counts.dense[last].any())
    else:
        is_used = bool((counts.entries.row == last).any())
    if is_used:
        return rows, counts
    dense = None if counts.dense is None else counts.dense[:last]
    fewer = Counts(last, dense, counts.column, counts.entries)
    return replace(rows, has_rest=False), fewer


def _segments(files: FileMap, touches: ByteRanges) -> tuple[I64, ByteRanges, int]:
    """Return where the segments begin, touches that fit them, and how many moved."""
    units = np.concatenate([files.offset, files.offset + files.size])
    on_file = touches.track == Track.FILE
    ends = np.concatenate([touches.begin[on_file], touches.stop[on_file]])
    extent = max(files.extent, int(ends.max(initial=0)))
    fixed = np.unique(np.concatenate([[0, extent], units]).astype(np.int64))
    inner = np.setdiff1d(ends, fixed)
    if len(inner) <= MAX_ENDS:
        return np.union1d(fixed, inner), touches, 0
    chosen = inner[np.linspace(0, len(inner) - 1, MAX_ENDS).astype(np.int64)]
    edges = np.union1d(fixed, chosen)
    low = edges[np.searchsorted(edges, touches.begin, "right") - 1]
    high = edges[np.minimum(np.searchsorted(edges, touches.stop), len(edges) - 1)]
    begin, stop = (
        np.where(on_file, new, old)
        for new, old in ((low, touches.begin), (high, touches.stop))
    )
    moved = (begin != touches.begin) | (stop != touches.stop)
    fitted = replace(touches, begin=begin, stop=stop)
    return edges, fitted, int(np.count_nonzero(moved))


def _sums(touches: ByteRanges, n: I64, counts: I64) -> I64:
    """Return int64[5, n_tracks]: accesses, bytes, those not chosen, unknown ones, rows.

    `counts` is 1 for the touch that stands for an access, see `Account`.
    """
    total = np.zeros((5, len(Track)), np.int64)
    each = (counts, touches.size, touches.passed, touches.unknown)
    for i, values in enumerate((*(n * values for values in each), n)):
        add_by_group(total[i], touches.track, values)
    return total


def _totals(sums: I64, n_moved: int, *, is_once: bool) -> TrackTotals:
    """Name the sums."""
    count, size = sums[0], sums[1]
    return TrackTotals(
        n_file=int(count[Track.FILE] + count[Track.MAYBE]),
        n_buffer=int(count[Track.BUFFER]),
        n_unplaced=int(count[Track.UNPLACED]),
        n_other=int(count[Track.OTHER]),
        file_bytes=int(size[Track.FILE]),
        buffer_bytes=int(size[Track.BUFFER]),
        unplaced_bytes=int(size[Track.UNPLACED]),
        other_bytes=int(size[Track.OTHER]),
        passed_bytes=int(sums[2].sum()),
        n_maybe=int(sums[4, Track.MAYBE]),
        unknown_file_bytes=int(sums[3, [Track.FILE, Track.MAYBE]].sum()),
        n_moved=n_moved,
        is_once=is_once,
    )


def _on_buffer(touches: ByteRanges, n: I64) -> I64:
    """Return int64[5, k]: tensor, layer, number, size and unknown size of each."""
    rows = np.flatnonzero((touches.track == Track.BUFFER) & (n > 0))
    tensor, layer = touches.tensor[rows], touches.layer[rows]
    sizes = touches.size[rows], touches.unknown[rows]
    return np.stack([tensor, layer, n[rows], *sizes]).astype(np.int64)


def _buffer_track(columns: I64) -> BufferTrack:
    """Return the runtime tensors that are touched, by layer."""
    tensor, place = np.unique(columns[0], return_inverse=True)
    count, size, unknown = np.zeros((3, len(tensor)), np.int64)
    add_by_group(count, place, columns[2])
    add_by_group(size, place, columns[2] * columns[3])
    add_by_group(unknown, place, columns[2] * columns[4])
    layer = np.full(len(tensor), -1, np.int32)
    np.maximum.at(layer, place, columns[1].astype(np.int32))
    order = np.lexsort((tensor, layer))
    return BufferTrack(
        tensor[order].astype(np.int32),
        layer[order],
        count[order],
        size[order],
        unknown[order],
    )


def _over_rows(table: Array) -> Array:
    """Return sums over the rows before each row, one row more than `table`."""
    total = int(table.sum(axis=0).max(initial=0))
    dtype = next(t for t in (np.int16, np.int32, np.int64) if total <= np.iinfo(t).max)
    result = np.zeros((table.shape[0] + 1, table.shape[1]), dtype)
    # Row by row: numpy's cumsum down the columns is ten times slower.
    for row in range(len(table)):
        np.add(result[row], table[row], out=result[row + 1], casting="unsafe")
    return result
