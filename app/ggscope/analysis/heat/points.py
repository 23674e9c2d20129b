"""Accesses as points of time, layer and file offset; many accesses at one are one.

What is an access, and where it lies, is decided as for the heatmap: an op counts once
on however many threads, a chosen slice of experts is an access of its own. Where there
are more accesses than points, those to the same bytes that are next to each other in
time become one, which counts them: nothing is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.byte_ranges import Mask, Track, Variants, span_variants
from ggscope.analysis.heat.file_map import FileMap, file_map
from ggscope.analysis.workers import CHUNK_ROWS, Watcher, chunks
from ggscope.model.tables import I64, AccessKind, Array, Space, ranges
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

MAX_POINTS = 1_000_000
_MAX_PLACES = 1 << 24
"""Pairs of bytes and a part of the time that are looked at, one byte each."""


@dataclass(frozen=True, slots=True, eq=False)
class AccessPoints:
    """Points in order of their times; those of one time as they were recorded.

    Attributes
    ----------
    files : the map of the model file.
    time : int64[n], ticks, begin of the span.
    layer : int32[n], -1 none.
    offset : int64[n], global, where the bytes begin that are accessed.
    tensor : int32[n], row of ``Trace.tensors``, -1 none.
    span : int64[n], the first recorded of those whose accesses the point counts.
    count : int64[n], accesses >= 1. size : int64[n], their known bytes.
    n_open : accesses to stacks of experts that no list names: they have no point.
    n_unplaced : accesses to weights whose place in the file is not known: likewise.
    n_spanless : reads of the file that are recorded for no span, with a time of their
        own: likewise, whatever the filter.
    step : ticks within which accesses to the same bytes are one point; 0 = each access
        is a point of its own.
    extent : from the first time to the last end of a span.
    """

    files: FileMap
    time: I64
    layer: npt.NDArray[np.int32]
    offset: I64
    tensor: npt.NDArray[np.int32]
    span: I64
    count: I64
    size: I64
    n_open: int
    n_unplaced: int
    n_spanless: int
    step: float
    extent: TimeRange

    def __len__(self) -> int:
        return len(self.time)

    @property
    def n_accesses(self) -> int:
        """How many accesses the points stand for."""
        return int(self.count.sum())

    def until(self, tick: int | None) -> int:
        """Return how many points there are up to a time, all up to None."""
        return (
            len(self)
            if tick is None
            else int(np.searchsorted(self.time, tick, "right"))
        )


class _Accesses:
    """The accesses of spans to the file: which touch, by which span."""

    def __init__(self, variants: Variants, mask: Mask | None) -> None:
        self.touches = variants.touches
        self._column, self._mask = variants.column, mask
        on_file = self.touches.track == Track.FILE
        before = np.concatenate([[0], np.cumsum(on_file)])
        first = self.touches.first
        self.rows = np.flatnonzero(on_file)
        self._low = before[first[:-1]]
        self._n_each = before[first[1:]] - self._low
        self._first = first

    def parts(self, watcher: Watcher | None) -> Iterator[tuple[I64, I64]]:
        """Yield (place in `rows`, span) of the accesses of some spans at a time."""
        n = len(self._column)
        for chunk in chunks(n, CHUNK_ROWS):
            if watcher is not None:
                watcher.progress(chunk.start, n)
            spans, variant = self._used(chunk)
            is_file = self._n_each[variant] > 0
            spans, variant = spans[is_file], variant[is_file]
            length = self._n_each[variant]
            yield ranges(self._low[variant], length), np.repeat(spans, length)

    def _used(self, chunk: slice) -> tuple[I64, Array]:
        variant = self._column[chunk]
        use: Mask = variant >= 0
        if self._mask is not None:
            use &= self._mask[chunk]
        rows = np.flatnonzero(use)
        return rows + chunk.start, variant[rows]

    def counts(self, watcher: Watcher | None) -> tuple[int, int, int]:
        """Return how many accesses are to known bytes, open ones, unplaced ones."""
        n_spans = np.zeros(len(self._first) - 1, np.int64)
        for chunk in chunks(len(self._column), CHUNK_ROWS):
            if watcher is not None:
                watcher.progress(chunk.start, len(self._column))
            n_spans += np.bincount(self._used(chunk)[1], minlength=len(n_spans))
        n_touch = np.repeat(n_spans, np.diff(self._first))
        track = self.touches.track
        file, maybe, unplaced = (
            int(n_touch[track == t].sum())
            for t in (Track.FILE, Track.MAYBE, Track.UNPLACED)
        )
        return file, maybe, unplaced


def access_points(
    trace: Trace,
    mask: Mask | None = None,
    *,
    limit: int = MAX_POINTS,
    watcher: Watcher | None = None,
) -> AccessPoints:
    """Return the accesses of a trace to its model file as at most `limit` points.

    Parameters
    ----------
    mask : bool[n_spans], whose accesses count; all where None.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    files = file_map(trace)
    accesses = _Accesses(span_variants(trace, files), mask)
    n_file, n_open, n_unplaced = accesses.counts(watcher)
    step = 0.0
    if n_file <= limit:
        none = np.zeros(0, np.int64)
        parts = [(none, none), *accesses.parts(watcher)]
        place = np.concatenate([part[0] for part in parts])
        span = np.concatenate([part[1] for part in parts])
        count = np.ones(len(span), np.int64)
        size = accesses.touches.size[accesses.rows[place]]
    else:
        place, span, count, size, step = _merged(trace, accesses, limit, watcher)
    time = trace.spans.start[span]
    order = np.argsort(time, kind="stable")
    touch = accesses.rows[place[order]]
    touches = accesses.touches
    return AccessPoints(
        files, time[order], touches.layer[touch], touches.begin[touch],
        touches.tensor[touch], span[order], count[order], size[order],
        n_open, n_unplaced, _spanless_reads(trace, files), step, trace.extent,
    )  # fmt: skip


def _spanless_reads(trace: Trace, files: FileMap) -> int:
    """Return how many reads of the model file are recorded for no span."""
    what = trace.accesses.loose.what
    has_place = np.append(files.first >= 0, False)[what.tensor]
    on_file = what.space == Space.FILE
    on_file |= (what.space == Space.UNKNOWN) & has_place
    return int(np.count_nonzero(on_file & (what.kind == AccessKind.READ)))


def _merged(
    trace: Trace, accesses: _Accesses, limit: int, watcher: Watcher | None
) -> tuple[I64, I64, I64, I64, float]:
    """Return (place, span, count, size) of at most `limit` points, and their step."""
    cell = _cells(accesses, max(limit // 4, 1))
    n_cells = int(cell.max(initial=0)) + 1
    n_bins = 1 << max((_MAX_PLACES // n_cells).bit_length() - 1, 0)
    start, duration = trace.extent.start, max(trace.extent.duration, 1)

    def key(place: I64, span: I64, bins: int) -> I64:
        at = (trace.spans.start[span] - start) * (bins / duration)
        at = np.clip(at.astype(np.int64), 0, bins - 1)
        return np.asarray(cell[place] * bins + at, np.int64)

    is_used: Mask = np.zeros(n_cells * n_bins, np.bool_)
    for place, span in accesses.parts(watcher):
        is_used[key(place, span, n_bins)] = True
    while n_bins > 1 and np.count_nonzero(is_used) > limit:
        is_used = is_used[::2] | is_used[1::2]
        n_bins //= 2
    slot = np.cumsum(is_used, dtype=np.int32) - 1
    n = int(slot[-1]) + 1
    places, spans = np.zeros(n, np.int64), np.full(n, -1, np.int64)
    count, size = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for place, span in accesses.parts(watcher):
        at = slot[key(place, span, n_bins)]
        count += np.bincount(at, minlength=n)
        np.add.at(size, at, accesses.touches.size[accesses.rows[place]])
        # Of several assignments the last one counts: the first recorded.
        is_new = np.flatnonzero(spans[at] < 0)[::-1]
        spans[at[is_new]], places[at[is_new]] = span[is_new], place[is_new]
    return places, spans, count, size, duration / n_bins


def _cells(accesses: _Accesses, limit: int) -> I64:
    """Return which accesses are to the same bytes, or, of too many, to near ones.

    Never more than `limit` and one per layer; those of two layers are never one.
    """
    touches, rows = accesses.touches, accesses.rows
    layer, begin = touches.layer[rows], touches.begin[rows]
    order = np.lexsort((touches.stop[rows], begin, layer))
    ends = np.stack([layer, begin, touches.stop[rows]])[:, order]
    is_new = np.concatenate([[False], (ends[:, 1:] != ends[:, :-1]).any(axis=0)])
    number = np.cumsum(is_new)
    apart = -(-(int(number[-1]) + 1) // limit) if len(number) else 1
    group = np.stack([ends[0], number // apart])
    is_new = np.concatenate([[False], (group[:, 1:] != group[:, :-1]).any(axis=0)])
    cell = np.empty(len(rows), np.int64)
    cell[order] = np.cumsum(is_new)
    return cell
