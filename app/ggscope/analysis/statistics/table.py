"""Statistics: totals, means and percentiles of spans by something."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ggscope.analysis.reads import weights
from ggscope.analysis.statistics import plain as stats_plain
from ggscope.analysis.statistics import scan as stats_scan
from ggscope.analysis.statistics.figures import Figures, SpanBlocks, Wanted
from ggscope.analysis.statistics.grouping import Grouping, grouping
from ggscope.analysis.statistics.nesting import Nesting, nesting
from ggscope.analysis.workers import Watcher
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
RULES: Mapping[By, str] = {
    "tensor": weights.RULE,
    "expert": (
        "The time of an op on several experts is shared out among them by the bytes "
        "that it reads of each, evenly where these are not known; it is an estimate, "
        "and the rows add up to the ops. Ops without experts are in a row of their own."
    ),
    "source": (
        "An op counts for each source that it accesses, with all of its time: the "
        "rows add up to more than the run."
    ),
}
"""What is booked where, in words, for groupings in which an op may be several times."""
TWICE = (
    "the total adds up durations, also of spans within others and of several lanes at "
    "once; self leaves out what lies within, wall is what passed on the clock."
)
"""What is said where times are counted twice."""
_WITHOUT_OPS = ("lane", "engine")
_SHARED = ("source", "expert")
"""Groupings in which a span belongs to several groups, or to each in part."""
_WORDS = [quality.word for quality in Quality]
_LONGEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class StatRow:
    """Figures of one group; times in ticks, NaN where no duration is known.

    Durations are those of whole spans. `in_range` alone is of their parts inside the
    range that was asked for; None without one.

    `count` counts all spans of the group; the times leave out *estimated* and
    *unfinished* ones unless asked for; `timed` counts those that were used.
    `share` is the part of the sum of all rows. `quality` is the worst quality
    among the spans used ("measured", "derived", "estimated", "unfinished"); where
    none was used, among all of the group. `estimated` and `unfinished` count the
    spans of those qualities, used or not.

    Where spans nest or lie side by side, `total` counts some time several times:
    `self_time` is the part of it in which no other span of the lane lies within (or
    began later), `wall` what passed on the clock while any of them was open. Both are
    None where that is not told: by source and expert, and of very many spans.

    `bytes` are known ones; `unknown_bytes` may be accessed besides, at most. Threads
    that compute an op together each tell of it: `ops` counts it once. Which part of an
    op's bytes is whose is then not known: by thread `bytes` and `unknown_bytes` are
    -1, and `ops` counts those that the thread took part in.
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
    estimated: int = 0
    unfinished: int = 0
    in_range: int | None = None
    self_time: int | None = None
    wall: int | None = None
    unknown_bytes: int = 0
    ops: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class StatTable:
    """The figures of all groups.

    Attributes
    ----------
    rows : longest total first; of many groups perhaps only the first ones.
    all : of all groups together, without percentiles; its key is "".
    n_groups : groups that have spans.
    """

    rows: tuple[StatRow, ...]
    all: StatRow
    n_groups: int

    @property
    def counts_twice(self) -> tuple[bool, bool]:
        """Whether self times, and wall times, are others than the totals."""
        return counts_twice(self.rows)


def counts_twice(rows: Iterable[StatRow]) -> tuple[bool, bool]:
    """Tell whether any self time, and any wall time, is another than its total."""
    timed = [row for row in rows if row.timed]
    return (
        any(row.self_time not in (None, row.total) for row in timed),
        any(row.wall not in (None, row.total) for row in timed),
    )


def statistics(
    trace: Trace,
    by: By = "op",
    *,
    mask: npt.NDArray[np.bool_] | None = None,
    ids: Array | None = None,
    time: TimeRange | None = None,
    include_estimated: bool = False,
) -> list[StatRow]:
    """Return one row per group, longest total first; see `stat_table`."""
    table = stat_table(
        trace,
        by,
        mask=mask,
        ids=ids,
        time=time,
        include_estimated=include_estimated,
    )
    return list(table.rows)


def stat_table(
    trace: Trace,
    by: By = "op",
    *,
    mask: npt.NDArray[np.bool_] | None = None,
    ids: Array | None = None,
    time: TimeRange | None = None,
    include_estimated: bool = False,
    blocks: SpanBlocks | None = None,
    limit: int | None = None,
    most_nested: int | None = None,
    watcher: Watcher | None = None,
) -> StatTable:
    """Return the figures by group.

    Parameters
    ----------
    mask, ids, time : restrict to these spans / spans touching this range. Durations
        stay those of whole spans; `StatRow.in_range` tells what lies inside.
    include_estimated : use the times of estimated and unfinished spans too.
    blocks : of this trace; kept by the caller they make short ranges quick.
    limit : make rows of the largest groups only.
    most_nested : tell self and wall time of at most so many spans where they must be
        sorted for it; None = four million.
    watcher : told how far it is.

    Raises
    ------
    Cancelled
        From the watcher.

    Notes
    -----
    Only ops are counted (op >= 0), except by "lane" and "engine". By "tensor" each
    op is booked on one, see ``weights.RULE``; by "expert" an op on several shares
    its time out among them; by "source" a span counts once for each that it
    accesses, so shares are of more than the run. Percentiles are exact and equal
    ``numpy.percentile`` with linear interpolation. The compiled scan looks at each
    span twice and sorts nothing; of chosen spans, and by source and expert, numpy sorts
    the durations.
    """
    groups = grouping(trace, by)
    worst_used = Quality.UNFINISHED if include_estimated else Quality.DERIVED
    wanted = Wanted(mask, time, by not in _WITHOUT_OPS, worst_used)
    if ids is None and stats_scan.can_scan(trace, groups):
        blocks = SpanBlocks(trace) if blocks is None else blocks
        found = stats_scan.figures(trace, groups, wanted, blocks, watcher)
    else:
        found = stats_plain.figures(trace, groups, wanted, ids, watcher)
    times = None
    if by not in _SHARED:
        total = np.where(_timed(found, worst_used) > 0, found.total, 0)
        n_used = int(_timed(found, worst_used).sum())
        times = nesting(
            trace,
            groups,
            wanted,
            total,
            n_used,
            ids=ids,
            blocks=blocks,
            most=most_nested,
            watcher=watcher,
        )
    return _table(found, groups, worst_used, limit, times, has_range=time is not None)


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


def _table(
    found: Figures,
    groups: Grouping,
    worst_used: Quality,
    limit: int | None,
    times: Nesting | None,
    *,
    has_range: bool,
) -> StatTable:
    n_spans, timed = found.spans.sum(axis=1), _timed(found, worst_used)
    present = np.flatnonzero(n_spans)
    if limit is not None and len(present) > limit:
        size = np.lexsort((-n_spans[present], -found.total[present]))
        present = present[size[:limit]]
    used = timed > 0
    whole = int(found.total[used].sum())
    inside = found.inside if has_range else np.full(len(found.total), -1)
    # Plain numbers first: a token each is some ten thousand rows.
    columns = (
        n_spans, timed, found.total, found.least, found.most, found.bytes,
        found.spans[:, Quality.ESTIMATED], found.spans[:, Quality.UNFINISHED],
        _worst(found.spans, worst_used), *found.percentiles, inside, found.unknown,
        found.ops,
    )  # fmt: skip
    values = zip(*(column[present].tolist() for column in columns), strict=True)
    own = None if times is None else times.own
    wall = None if times is None else times.wall

    def twice(row: StatRow, g: int) -> StatRow:
        """Return a row with the times that count nothing twice."""
        if not row.timed:
            return row
        return replace(
            row,
            self_time=None if own is None else int(own[g]),
            wall=None if wall is None else int(wall[g]),
        )

    rows = [
        _alone(twice(_row(groups.label(g), whole, *numbers), g), groups)
        for g, numbers in zip(present.tolist(), values, strict=True)
    ]
    rows.sort(key=lambda row: (-row.total, -row.count, row.key))
    spans = found.spans.sum(axis=0)
    together = _row(
        "", whole, int(spans.sum()), int(timed.sum()), whole,
        int(found.least[used].min(initial=_LONGEST)), int(found.most.max(initial=0)),
        int(found.bytes.sum()), int(spans[Quality.ESTIMATED]),
        int(spans[Quality.UNFINISHED]), int(_worst(spans[None], worst_used)[0]),
        math.nan, math.nan, math.nan, int(inside[used].sum()) if has_range else -1,
        int(found.unknown.sum()), int(found.ops.sum()),
    )  # fmt: skip
    return StatTable(tuple(rows), twice(together, -1), int(np.count_nonzero(n_spans)))


def _row(
    key: str,
    whole: int,
    count: int,
    n_timed: int,
    total: int,
    least: int,
    most: int,
    size: int,
    estimated: int,
    unfinished: int,
    worst: int,
    p50: float,
    p90: float,
    p99: float,
    inside: int,
    unknown: int,
    ops: int,
) -> StatRow:
    return StatRow(
        key=key,
        count=count,
        timed=n_timed,
        total=total,
        mean=total / n_timed if n_timed else math.nan,
        min=least if n_timed else None,
        p50=p50,
        p90=p90,
        p99=p99,
        max=most if n_timed else None,
        bytes=size,
        share=total / whole if whole else 0.0,
        quality=_WORDS[worst],
        estimated=estimated,
        unfinished=unfinished,
        in_range=inside if inside >= 0 and n_timed else None,
        unknown_bytes=unknown,
        ops=ops,
    )


def _alone(row: StatRow, groups: Grouping) -> StatRow:
    """Return the row as it may be said of one group of several that share ops."""
    if not groups.shares_ops:
        return row
    return replace(row, bytes=-1, unknown_bytes=-1, ops=row.count)


def _timed(found: Figures, worst_used: Quality) -> I64:
    """Return the number of durations used per group."""
    return np.asarray(found.spans[:, : worst_used + 1].sum(axis=1), np.int64)


def _worst(spans: I64, worst_used: Quality) -> I64:
    """Return the worst quality among the spans used, else among all, per group.

    `spans` is int64[n, 4], spans by quality.
    """
    seen = spans > 0
    seen[seen[:, : worst_used + 1].any(axis=1), worst_used + 1 :] = False
    return np.asarray(len(Quality) - 1 - np.argmax(seen[:, ::-1], axis=1), np.int64)
