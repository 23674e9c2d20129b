"""Statistics: totals, means and percentiles of spans by something."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import CHUNK_ROWS, add_by_group, chunks
from ggscope.analysis.filtering import touches
from ggscope.analysis.grouping import Grouping, grouping
from ggscope.model.tables import I64, Array, Quality, quality_of
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace

By = Literal[
    "op",
    "family",
    "layer",
    "tensor",
    "token",
    "thread",
    "engine",
    "phase",
    "lane",
    "source",
    "expert",
]
BY: tuple[By, ...] = get_args(By)
_PERCENTILES = (0.50, 0.90, 0.99)


@dataclass(frozen=True, slots=True)
class StatRow:
    """Figures of one group; times in ticks, NaN where no duration is known.

    `count` counts all spans of the group; the times leave out *estimated* and
    *unfinished* ones unless asked for; `timed` counts those that were used.
    `share` is the part of the sum of all rows. `quality` is the worst quality
    among the spans used ("measured", "derived", "estimated", "unfinished"); where
    none was used, among all of the group.
    """

    key: str
    count: int
    timed: int
    total: int
    mean: float
    min: int | None
    p50: float
    p90: float
    p99: float
    max: int | None
    bytes: int
    share: float
    quality: str


def statistics(
    trace: Trace,
    by: By = "op",
    *,
    mask: npt.NDArray[np.bool_] | None = None,
    ids: Array | None = None,
    time: TimeRange | None = None,
    clip: bool = False,
    include_estimated: bool = False,
) -> list[StatRow]:
    """Return one row per group, longest total first.

    Parameters
    ----------
    mask, ids, time : restrict to these spans / spans touching this range.
    clip : count only the part of each span inside `time`.

    Notes
    -----
    Only ops are counted (op >= 0), except by "lane" and "engine". By "tensor",
    "source" and "expert" a span counts once for each that it accesses, with the
    bytes of those accesses, so shares are of more than the run. Percentiles are
    exact and equal ``numpy.percentile`` with linear interpolation. Costs one sort
    of the durations and about 8 bytes per span.
    """
    groups = grouping(trace, by)
    sums = _Sums(len(groups), include_estimated)
    for rows in _selected(trace, by, mask, ids, time):
        s = trace.spans
        start, end = s.start[rows], s.end[rows]
        if clip and time is not None:
            start, end = np.maximum(start, time.start), np.minimum(end, time.end)
        part = groups.of(rows)
        where = slice(None) if part.span is None else part.span
        sums.add(
            part.group,
            np.maximum(end - start, 0)[where],
            part.bytes,
            quality_of(s.flags[rows])[where],
        )
    return sums.rows(groups)


def histogram(trace: Trace, ids: Array, bins: int = 40) -> tuple[Array, Array]:
    """Return (counts int64[bins], edges float64[bins + 1]) of span durations.

    Unfinished spans are left out. Bins are equally wide, in ticks, from the
    shortest to the longest; without spans the counts are 0 and the edges 0..1.
    """
    ids = np.asarray(ids, np.int64)
    known = quality_of(trace.spans.flags[ids]) != Quality.UNFINISHED
    ids = ids[known]
    counts, edges = np.histogram(trace.spans.end[ids] - trace.spans.start[ids], bins)
    return counts.astype(np.int64), edges.astype(np.float64)


def percentiles(
    ordered: I64, first: I64, n: I64, shares: tuple[float, ...]
) -> list[npt.NDArray[np.float64]]:
    """Return, per share, the percentile of each run ``ordered[first : first + n]``.

    `ordered` ascends within each run; runs have n >= 1. Equal to
    ``numpy.percentile(run, 100 * share)`` to the last bit.
    """
    result = []
    for share in shares:
        position = (n - 1) * share
        below = np.floor(position).astype(np.int64)
        weight = position - below
        low = ordered[first + below]
        high = ordered[first + np.minimum(below + 1, n - 1)]
        # The same two-sided form as numpy's, which keeps the result monotonic.
        step = high - low
        result.append(
            np.where(weight < 0.5, low + step * weight, high - step * (1 - weight))
        )
    return result


def _selected(
    trace: Trace,
    by: By,
    mask: npt.NDArray[np.bool_] | None,
    ids: Array | None,
    time: TimeRange | None,
) -> Iterator[Array]:
    """Yield the ids of the spans to count, int64, at most CHUNK_ROWS at a time."""
    s = trace.spans
    chosen = None if ids is None else np.unique(np.asarray(ids, np.int64))
    for rows in chunks(len(s) if chosen is None else len(chosen), CHUNK_ROWS):
        part = np.arange(rows.start, rows.stop) if chosen is None else chosen[rows]
        keep = np.ones(len(part), np.bool_)
        if by not in ("lane", "engine"):
            keep &= s.op[part] >= 0
        if mask is not None:
            keep &= mask[part]
        if time is not None:
            keep &= touches(s.start[part], s.end[part], time)
        yield part if keep.all() else part[keep]


class _Sums:
    """What is summed up chunk by chunk.

    Attributes
    ----------
    spans : int64[n_groups, 4], spans by `Quality`.
    bytes : int64[n_groups].
    """

    def __init__(self, n_groups: int, include_estimated: bool) -> None:
        self.spans = np.zeros((n_groups, len(Quality)), np.int64)
        self.bytes = np.zeros(n_groups, np.int64)
        self._worst_used = Quality.UNFINISHED if include_estimated else Quality.DERIVED
        self._durations: list[I64] = [np.zeros(0, np.int64)]
        self._groups: list[npt.NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def add(
        self, group: I64, duration: I64, size: I64, quality: npt.NDArray[np.uint8]
    ) -> None:
        """Add one span per row."""
        key = group * len(Quality) + quality
        self.spans += np.bincount(key, minlength=self.spans.size).reshape(-1, 4)
        add_by_group(self.bytes, group, size)
        used = quality <= self._worst_used
        self._durations.append(duration[used])
        self._groups.append(group[used].astype(np.int32))

    def rows(self, groups: Grouping) -> list[StatRow]:
        """Return the rows of the groups that have spans."""
        timed = self.spans[:, : self._worst_used + 1].sum(axis=1)
        first = np.concatenate([[0], np.cumsum(timed)])
        ordered = self._sorted_durations()
        present = np.flatnonzero(self.spans.sum(axis=1))
        total = np.zeros(len(timed), np.int64)
        figures = np.full((len(_PERCENTILES), len(timed)), np.nan)
        known = np.flatnonzero(timed)
        if len(known):
            begin, n = first[known], timed[known]
            total[known] = np.add.reduceat(ordered, begin)
            figures[:, known] = percentiles(ordered, begin, n, _PERCENTILES)
        whole = int(total.sum())
        rows = []
        for g in present.tolist():
            n_timed, of_group = int(timed[g]), int(total[g])
            p50, p90, p99 = figures[:, g].tolist()
            rows.append(
                StatRow(
                    key=groups.label(g),
                    count=int(self.spans[g].sum()),
                    timed=n_timed,
                    total=of_group,
                    mean=of_group / n_timed if n_timed else math.nan,
                    min=int(ordered[first[g]]) if n_timed else None,
                    p50=p50,
                    p90=p90,
                    p99=p99,
                    max=int(ordered[first[g + 1] - 1]) if n_timed else None,
                    bytes=int(self.bytes[g]),
                    share=of_group / whole if whole else 0.0,
                    quality=self._quality(g),
                )
            )
        rows.sort(key=lambda row: (-row.total, -row.count, row.key))
        return rows

    def _sorted_durations(self) -> I64:
        """Return the durations of the spans used, by group, then by size."""
        duration, group = np.concatenate(self._durations), np.concatenate(self._groups)
        width = int(duration.max(initial=0)).bit_length()
        if width + len(self.spans).bit_length() >= 63:
            return duration[np.lexsort((duration, group))]
        # One key of group and duration: sorting values is several times faster
        # than sorting their positions.
        duration |= group.astype(np.int64) << width
        duration.sort()
        duration &= (1 << width) - 1
        return duration

    def _quality(self, group: int) -> str:
        seen = np.flatnonzero(self.spans[group])
        used = seen[seen <= self._worst_used]
        return Quality(int((used if len(used) else seen)[-1])).name.lower()
