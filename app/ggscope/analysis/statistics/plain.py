"""Statistics in numpy: every duration sorted.

For chosen spans, for groups in which a span counts several times or by a share, and for
very many groups; else `scan` does it. Tests hold the two together.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filters.masks import touches
from ggscope.analysis.reads.account import is_repeated
from ggscope.analysis.rows.groups import CHUNK_ROWS, add_by_group, chunks
from ggscope.analysis.statistics.figures import (
    PERCENTILES,
    Figures,
    Wanted,
    between,
    ranks,
)
from ggscope.analysis.statistics.grouping import Grouping
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64, Array, Quality, quality_of
from ggscope.model.trace import Trace


def figures(
    trace: Trace,
    groups: Grouping,
    wanted: Wanted,
    ids: Array | None = None,
    watcher: Watcher | None = None,
) -> Figures:
    """Return the figures of the spans `ids` (all: None) that are wanted.

    Notes
    -----
    One sort of the durations and about 12 bytes per span. Raises Cancelled from the
    watcher while it gathers; the sort cannot be stopped.
    """
    sums = _Sums(len(groups), wanted.worst_used)
    s = trace.spans
    for rows in _selected(trace, wanted, ids, watcher):
        start, end = s.start[rows], s.end[rows]
        part = groups.of(rows)
        where = slice(None) if part.span is None else part.span
        duration = np.maximum(end - start, 0)[where]
        inside = np.zeros_like(duration)
        if wanted.time is not None:
            low = np.maximum(start, wanted.time.start)
            inside = np.maximum(np.minimum(end, wanted.time.end) - low, 0)[where]
        if part.share is not None:
            duration, inside = part.share.of(duration), part.share.of(inside)
        sums.add(
            part.group,
            duration,
            inside,
            part.bytes,
            quality_of(s.flags[rows])[where],
            part.unknown,
            is_repeated(s.flags[rows])[where],
        )
    return sums.figures()


def percentiles(
    ordered: I64, first: I64, n: I64, shares: tuple[float, ...]
) -> npt.NDArray[np.float64]:
    """Return the percentiles of each run ``ordered[first : first + n]``.

    `ordered` ascends within each run; runs have n >= 1. The result,
    float64[len(shares), m], equals ``numpy.percentile(run, 100 * share)`` to the
    last bit.
    """
    rank, weight = ranks(n, shares)
    return between(ordered[first + rank[:, 0]], ordered[first + rank[:, 1]], weight)


def _selected(
    trace: Trace, wanted: Wanted, ids: Array | None, watcher: Watcher | None
) -> Iterator[Array]:
    """Yield the ids of the spans to count, int64, at most CHUNK_ROWS at a time."""
    s = trace.spans
    chosen = None if ids is None else np.unique(np.asarray(ids, np.int64))
    n = len(s) if chosen is None else len(chosen)
    for rows in chunks(n, CHUNK_ROWS):
        if watcher is not None:
            watcher.progress(rows.start, n)
        part = np.arange(rows.start, rows.stop) if chosen is None else chosen[rows]
        keep = np.ones(len(part), np.bool_)
        if wanted.only_ops:
            keep &= s.op[part] >= 0
        if wanted.mask is not None:
            keep &= wanted.mask[part]
        if wanted.time is not None:
            keep &= touches(s.start[part], s.end[part], wanted.time)
        yield part if keep.all() else part[keep]


class _Sums:
    """What is summed up chunk by chunk."""

    def __init__(self, n_groups: int, worst_used: Quality) -> None:
        self._spans = np.zeros((n_groups, len(Quality)), np.int64)
        self._bytes = np.zeros(n_groups, np.int64)
        self._inside = np.zeros(n_groups, np.int64)
        self._unknown, self._ops = np.zeros((2, n_groups), np.int64)
        self._worst_used = worst_used
        self._durations: list[I64] = [np.zeros(0, np.int64)]
        self._groups: list[npt.NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def add(
        self,
        group: I64,
        duration: I64,
        inside: I64,
        size: I64,
        quality: npt.NDArray[np.uint8],
        unknown: I64,
        repeated: npt.NDArray[np.bool_],
    ) -> None:
        """Add one span per row."""
        key = group * len(Quality) + quality
        counts = np.bincount(key, minlength=self._spans.size)
        self._spans += counts.reshape(self._spans.shape)
        add_by_group(self._bytes, group, size)
        add_by_group(self._unknown, group, unknown)
        self._ops += np.bincount(group[~repeated], minlength=len(self._ops))
        used = quality <= self._worst_used
        add_by_group(self._inside, group[used], inside[used])
        self._durations.append(duration[used])
        self._groups.append(group[used].astype(np.int32))

    def figures(self) -> Figures:
        """Return the figures of all that was added."""
        timed = self._spans[:, : self._worst_used + 1].sum(axis=1)
        first = np.concatenate([[0], np.cumsum(timed)])
        ordered = self._sorted_durations()
        total, least, most = np.zeros((3, len(timed)), np.int64)
        values = np.full((len(PERCENTILES), len(timed)), np.nan)
        known = np.flatnonzero(timed)
        if len(known):
            begin = first[known]
            total[known] = np.add.reduceat(ordered, begin)
            least[known] = ordered[begin]
            most[known] = ordered[first[known + 1] - 1]
            values[:, known] = percentiles(ordered, begin, timed[known], PERCENTILES)
        return Figures(
            self._spans, self._bytes, total, least, most, values, self._inside,
            self._unknown, self._ops,
        )  # fmt: skip

    def _sorted_durations(self) -> I64:
        """Return the durations of the spans used, by group, then by size."""
        duration, group = np.concatenate(self._durations), np.concatenate(self._groups)
        width = int(duration.max(initial=0)).bit_length()
        if width + len(self._spans).bit_length() >= 63:
            return duration[np.lexsort((duration, group))]
        # One key of group and duration: sorting values is several times faster
        # than sorting their positions.
        duration |= group.astype(np.int64) << width
        duration.sort()
        duration &= (1 << width) - 1
        return duration
