"""Statistics: totals, means and percentiles of spans by something.

`scan` does it in compiled code; numpy, every duration sorted, where spans are chosen,
count in several groups or by a share, or make very many groups. Tests hold the two
together.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.reads.op_io import is_repeated
from ggscope.analysis.reads.shared import op_times
from ggscope.analysis.reads.unrecorded import unrecorded_ops
from ggscope.analysis.statistics import scan
from ggscope.analysis.statistics.grouping import (
    WITHOUT_OPS,
    Grouping,
    SpanBytes,
    grouping,
)
from ggscope.analysis.statistics.latency import TokenTimes, token_times
from ggscope.analysis.statistics.nesting import (
    MAX_SPANS,
    Nesting,
    covered,
    nesting,
)
from ggscope.analysis.statistics.scan import (
    PERCENTILES,
    Figures,
    SpanBlocks,
    SpanScope,
    between,
    ranks,
)
from ggscope.analysis.workers import CHUNK_ROWS, Watcher, add_by_group, chunks
from ggscope.model.selection import By
from ggscope.model.tables import (
    I64,
    LONGEST_WAIT,
    NO_WAIT,
    Array,
    Quality,
    quality_of,
)
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

_NEVER_NEGATIVE = ("latency", "idle")
"""What is -1 where it is not known."""
_SHARED = ("source", "expert")
"""Groupings in which a span belongs to several groups, or to each in part."""
_WORDS = [quality.word for quality in Quality]
_LONGEST = np.iinfo(np.int64).max


def figures(
    trace: Trace,
    groups: Grouping,
    scope: SpanScope,
    ids: Array | None = None,
    watcher: Watcher | None = None,
) -> Figures:
    """Return the figures of the spans `ids` (all: None) that are in scope.

    Notes
    -----
    One sort of the durations and about 12 bytes per span. Raises Cancelled from the
    watcher while it gathers; the sort cannot be stopped.
    """
    sums = _Sums(len(groups), scope.worst_used)
    s, sizes, times = trace.spans, SpanBytes(trace), op_times(trace).ticks
    for rows in _selected(trace, scope, ids, watcher):
        start, end = s.start[rows], s.end[rows]
        part = groups.of(rows)
        where = slice(None) if part.span is None else part.span
        duration = np.maximum(end - start, 0)[where]
        inside = np.zeros_like(duration)
        if scope.time is not None:
            low = np.maximum(start, scope.time.start)
            inside = np.maximum(np.minimum(end, scope.time.end) - low, 0)[where]
        if part.share is not None:
            duration, inside = part.share.of(duration), part.share.of(inside)
        if s.wait is not None:
            wait = s.wait[rows][where]
            known = wait != NO_WAIT
            ticks = np.where(known, wait, 0).astype(np.int64)
            if part.share is not None:
                ticks = part.share.of(ticks)
            sums.add_waits(part.group[known], ticks[known], wait[known])
        quality, repeated = quality_of(s.flags[rows]), is_repeated(s.flags[rows])
        sums.add(
            part.group,
            duration,
            inside,
            part.bytes,
            quality[where],
            part.unknown,
            repeated[where],
        )
        ticks = np.maximum(end - start, 0) if times is None else times[rows]
        ticks = np.where(quality > scope.worst_used, -1, ticks)
        is_first = ~repeated[where]
        is_open = sizes.open_of(rows)[where]
        ticks, size = ticks[where][is_first], part.bytes[is_first]
        sums.add_ops(part.group[is_first], ticks, size, is_open[is_first])
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
    trace: Trace, scope: SpanScope, ids: Array | None, watcher: Watcher | None
) -> Iterator[Array]:
    """Yield the ids of the spans to count, int64, at most CHUNK_ROWS at a time."""
    s = trace.spans
    chosen = None if ids is None else np.unique(np.asarray(ids, np.int64))
    n = len(s) if chosen is None else len(chosen)
    for rows in chunks(n, CHUNK_ROWS):
        if watcher is not None:
            watcher.progress(rows.start, n)
        part = np.arange(rows.start, rows.stop) if chosen is None else chosen[rows]
        keep = scope.of(s, part)
        yield part if keep.all() else part[keep]


class _Sums:
    """What is summed up chunk by chunk."""

    def __init__(self, n_groups: int, worst_used: Quality) -> None:
        self._spans = np.zeros((n_groups, len(Quality)), np.int64)
        self._bytes = np.zeros(n_groups, np.int64)
        self._inside = np.zeros(n_groups, np.int64)
        self._unknown, self._ops = np.zeros((2, n_groups), np.int64)
        self._wait, self._waits, self._longest = np.zeros((3, n_groups), np.int64)
        self._open, *self._of_ops = np.zeros((4, n_groups), np.int64)
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

    def add_waits(self, group: I64, ticks: I64, wait: Array) -> None:
        """Add recorded waits, one per row; `ticks` is the group's part of each."""
        add_by_group(self._wait, group, ticks)
        add_by_group(self._waits, group, np.ones_like(ticks))
        add_by_group(self._longest, group, (wait == LONGEST_WAIT).astype(np.int64))

    def add_ops(
        self, group: I64, ticks: I64, size: I64, is_open: npt.NDArray[np.bool_]
    ) -> None:
        """Add how long ops took, -1 = not known, and whose bytes are not all known."""
        add_by_group(self._open, group, is_open.astype(np.int64))
        timed = ticks >= 0
        of_timed = (ticks[timed], size[timed], is_open[timed].astype(np.int64))
        for total, values in zip(self._of_ops, of_timed, strict=True):
            add_by_group(total, group[timed], values)

    def figures(self) -> Figures:
        """Return the figures of all that was added."""
        timed = self._spans[:, : self._worst_used + 1].sum(axis=1)
        first = np.concatenate([[0], np.cumsum(timed)])
        ordered = self._sorted_durations()
        total, lowest, highest = np.zeros((3, len(timed)), np.int64)
        values = np.full((len(PERCENTILES), len(timed)), np.nan)
        known = np.flatnonzero(timed)
        if len(known):
            begin = first[known]
            total[known] = np.add.reduceat(ordered, begin)
            lowest[known] = ordered[begin]
            highest[known] = ordered[first[known + 1] - 1]
            values[:, known] = percentiles(ordered, begin, timed[known], PERCENTILES)
        ticks, size, is_open = self._of_ops
        return Figures(
            self._spans, self._bytes, total, lowest, highest, values, self._inside,
            self._unknown, self._ops, self._wait, self._waits, self._longest,
            self._open, ticks, size, is_open,
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
    None where that is unknown: by source and expert, and of very many spans.

    `bytes` are known ones; `unknown_bytes` may be accessed besides, at most. Threads
    that compute an op together each have it: `ops` counts it once. Which part of an
    op's bytes is whose is then not known: by thread, core and NUMA node `bytes` and
    `unknown_bytes` are -1; by thread `ops` counts those that the thread took part in.

    By token `latency` is the length of the token's own span, from its begin to its end,
    and `idle` the part of it in which none of its ops ran; `latency` is None where the
    trace has no such span, or several, and `idle` also where not all ops of the token
    were counted.

    `open_ops` counts ops of which some bytes are not known. `op_ticks` is the time in
    which any op of the group was computed, each from the first thread's begin to the
    last one's end, of ops whose time is used; None where that is unknown. `op_bytes`
    and `timed_open_ops` are of these alone.

    `wait` is what the threads waited behind the spans, None where nothing is recorded;
    `waits` counts the spans whose wait is, and `longest_waits` those that waited at
    least as long as can be recorded: `wait` is at least so much then. `wait_share` is
    the part of the waits of all rows.
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
    wait: int | None = None
    waits: int = 0
    longest_waits: int = 0
    wait_share: float | None = None
    latency: int | None = None
    idle: int | None = None
    open_ops: int = 0
    op_ticks: int | None = None
    op_bytes: int = 0
    timed_open_ops: int = 0

    @property
    def known_bytes(self) -> int | None:
        """The known bytes; None where they are not counted, or of no op recorded."""
        is_silent = not self.unknown_bytes and self.open_ops >= self.ops
        return None if self.bytes < 0 or (not self.bytes and is_silent) else self.bytes

    @property
    def rate(self) -> float | None:
        """Bytes per tick of the ops that have a time; None where some are unknown."""
        return None if self.timed_open_ops else self.least_rate

    @property
    def least_rate(self) -> float | None:
        """The same of the known bytes: the rate is at least so high."""
        if self.bytes < 0 or self.op_bytes <= 0 or not self.op_ticks:
            return None
        return self.op_bytes / self.op_ticks

    @property
    def mean_wait(self) -> float:
        """Mean of the recorded waits, ticks; NaN where there is none."""
        return math.nan if self.wait is None else self.wait / self.waits

    @property
    def waiting(self) -> float | None:
        """Share of the waits of the spans and waits together; None = not known."""
        if self.wait is None or not self.timed:
            return None
        whole = self.total + self.wait
        return self.wait / whole if whole else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class StatTable:
    """The figures of all groups.

    Attributes
    ----------
    rows : longest total first, by token the longest latency; of many groups perhaps
        only the first ones.
    all : of all groups together, without percentiles; its key is "".
    n_groups : groups that have spans.
    unrecorded : ops that the graphs compute in each pass and no record has, by
        name: they have no time, and are in no share. Only by op, of a whole trace.
    """

    rows: tuple[StatRow, ...]
    all: StatRow
    n_groups: int
    unrecorded: Mapping[str, int] = field(default_factory=dict)

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
        stay those of whole spans; `StatRow.in_range` is what lies inside.
    include_estimated : use the times of estimated and unfinished spans too.
    blocks : of this trace; kept by the caller they make short ranges quick.
    limit : make rows of the largest groups only.
    most_nested : compute self and wall time of at most so many spans where they must be
        sorted for it; None = four million.
    watcher : receives the progress.

    Raises
    ------
    Cancelled
        From the watcher.

    Notes
    -----
    Only ops are counted (op >= 0), except by "lane" and "engine". By "tensor" each
    op is booked on one, see ``weights.booked_on``; by "expert" an op on several shares
    its time out among them; by "source" a span counts once for each that it
    accesses, so shares are of more than the run. Percentiles are exact and equal
    ``numpy.percentile`` with linear interpolation. The compiled scan looks at each
    span twice and sorts nothing; of chosen spans, and by source and expert, numpy sorts
    the durations.
    """
    groups = grouping(trace, by)
    worst_used = Quality.UNFINISHED if include_estimated else Quality.DERIVED
    scope = SpanScope(mask, time, by not in WITHOUT_OPS, worst_used)
    if ids is None and (scan.can_scan(trace, groups) or scan.can_split(trace, groups)):
        blocks = SpanBlocks(trace) if blocks is None else blocks
        sums = scan.figures(trace, groups, scope, blocks, watcher)
    else:
        sums = figures(trace, groups, scope, ids, watcher)
    times = None
    if by not in _SHARED:
        total = np.where(_timed(sums, worst_used) > 0, sums.total, 0)
        n_used = int(_timed(sums, worst_used).sum())
        times = nesting(
            trace,
            groups,
            scope,
            total,
            n_used,
            ids=ids,
            blocks=blocks,
            limit=most_nested,
            watcher=watcher,
            keys=sums.keys,
        )
    latencies = None
    if by == "token":
        is_whole = mask is None and ids is None
        latencies = token_times(trace, groups, time, is_whole=is_whole)
    busy = None
    if by not in _SHARED:
        busy = _time_of_ops(trace, groups, scope, ids, sums, times, most_nested)
    table = _table(
        sums,
        groups,
        worst_used,
        limit,
        times,
        latencies,
        busy,
        has_range=time is not None,
    )
    if by == "op" and mask is None and ids is None and time is None:
        return replace(table, unrecorded=unrecorded_ops(trace))
    return table


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
    sums: Figures,
    groups: Grouping,
    worst_used: Quality,
    limit: int | None,
    times: Nesting | None,
    latencies: TokenTimes | None,
    busy: I64 | None,
    *,
    has_range: bool,
) -> StatTable:
    n_spans, timed = sums.spans.sum(axis=1), _timed(sums, worst_used)
    present = np.flatnonzero(n_spans)
    if limit is not None and len(present) > limit:
        keys = [-n_spans[present], -sums.total[present]]
        keys += [] if latencies is None else [-latencies.latency[present]]
        present = present[np.lexsort(keys)[:limit]]
    used = timed > 0
    whole = int(sums.total[used].sum())
    # Plain numbers first: a token each is some ten thousand rows.
    columns: dict[str, Array] = {
        "count": n_spans,
        "timed": timed,
        "total": sums.total,
        "min": sums.minimum,
        "max": sums.maximum,
        "bytes": sums.bytes,
        "unknown_bytes": sums.unknown,
        "ops": sums.ops,
        "wait": sums.wait,
        "waits": sums.waits,
        "longest_waits": sums.longest,
        "open_ops": sums.open,
        "op_bytes": sums.op_bytes,
        "timed_open_ops": sums.op_open,
        "estimated": sums.spans[:, Quality.ESTIMATED],
        "unfinished": sums.spans[:, Quality.UNFINISHED],
        "quality": _worst(sums.spans, worst_used),
        **dict(zip(("p50", "p90", "p99"), sums.percentiles, strict=True)),
    }
    summed = (
        "count",
        "timed",
        "bytes",
        "unknown_bytes",
        "ops",
        "wait",
        "waits",
        "longest_waits",
        "open_ops",
        "op_bytes",
        "timed_open_ops",
        "estimated",
        "unfinished",
    )
    together: dict[str, Any] = {name: int(columns[name].sum()) for name in summed}
    together |= {
        "total": whole,
        "min": int(sums.minimum[used].min(initial=_LONGEST)),
        "max": int(sums.maximum.max(initial=0)),
        "quality": int(_worst(sums.spans.sum(axis=0)[None], worst_used)[0]),
        **dict.fromkeys(("p50", "p90", "p99"), math.nan),
    }
    if has_range:
        columns["in_range"] = sums.inside
        together["in_range"] = int(sums.inside[used].sum())
    if times is not None:  # of the groups, and last of all together
        for name, values in (("self_time", times.own), ("wall", times.wall)):
            if values is not None:
                columns[name], together[name] = values, int(values[-1])
    if busy is not None:
        columns["op_ticks"], together["op_ticks"] = busy[:-1], int(busy[-1])
    if latencies is not None:
        columns["latency"] = latencies.latency
        if times is not None and times.wall is not None:
            columns["idle"] = latencies.idle(n_spans == timed, times.wall[:-1])
    if groups.shares_ops:  # of one group of several it is not known what is whose
        unknown = np.full(len(n_spans), -1)
        columns |= {"bytes": unknown, "unknown_bytes": unknown}
        if groups.is_of_lanes:
            columns["ops"] = n_spans
    numbers = zip(
        *(values[present].tolist() for values in columns.values()), strict=True
    )
    rows = [
        _row(
            groups.label(g),
            whole,
            together["wait"],
            dict(zip(columns, of_group, strict=True)),
        )
        for g, of_group in zip(present.tolist(), numbers, strict=True)
    ]
    rows.sort(key=lambda row: (-(row.latency or 0), -row.total, -row.count, row.key))
    all_of_them = _row("", whole, together["wait"], together)
    return StatTable(tuple(rows), all_of_them, int(np.count_nonzero(n_spans)))


def _time_of_ops(
    trace: Trace,
    groups: Grouping,
    scope: SpanScope,
    ids: Array | None,
    sums: Figures,
    times: Nesting | None,
    limit: int | None,
) -> I64 | None:
    """Return how much time the ops of each group, and all, cover, int64[n + 1].

    Of ops whose time is used. None where that takes too long to find out.
    """
    ops = op_times(trace)
    if not ops.is_known:
        return None
    if ops.ticks is None:
        return None if times is None else times.wall
    if ops.begin is None:  # one after the other
        return np.append(sums.op_ticks, sums.op_ticks.sum())
    parts = []
    for rows in _selected(trace, scope, ids, None):
        used = quality_of(trace.spans.flags[rows]) <= scope.worst_used
        parts.append(rows[used & (ops.ticks[rows] >= 0)])
    rows = np.concatenate([np.zeros(0, np.int64), *parts])
    if len(rows) > (MAX_SPANS if limit is None else limit):
        return None
    part = groups.of(rows)
    rows = rows if part.span is None else rows[part.span]
    begin = ops.begin[rows]
    end = begin + ops.ticks[rows]
    whole = covered(part.group * 0, begin, end, 1)
    return np.append(covered(part.group, begin, end, len(groups)), whole)


def _row(key: str, whole: int, waited: int, figures: dict[str, Any]) -> StatRow:
    """Return a row of these figures, by their names; `quality` is a number there.

    `whole` and `waited` are of all rows.
    """
    figures = {**figures}
    wait = figures["wait"] = figures["wait"] if figures["waits"] else None
    timed, total = figures["timed"], figures["total"]
    figures["quality"] = _WORDS[figures["quality"]]
    if not timed:
        figures |= dict.fromkeys(("min", "max", "in_range", "self_time", "wall"))
    for name in _NEVER_NEGATIVE:
        if figures.get(name, 0) < 0:
            figures[name] = None
    return StatRow(
        key=key,
        mean=total / timed if timed else math.nan,
        share=total / whole if whole else 0.0,
        wait_share=None if wait is None else wait / waited if waited else 0.0,
        **figures,
    )


def _timed(sums: Figures, worst_used: Quality) -> I64:
    """Return the number of durations used per group."""
    return np.asarray(sums.spans[:, : worst_used + 1].sum(axis=1), np.int64)


def _worst(spans: I64, worst_used: Quality) -> I64:
    """Return the worst quality among the spans used, else among all, per group.

    `spans` is int64[n, 4], spans by quality.
    """
    seen = spans > 0
    seen[seen[:, : worst_used + 1].any(axis=1), worst_used + 1 :] = False
    return np.asarray(len(Quality) - 1 - np.argmax(seen[:, ::-1], axis=1), np.int64)
