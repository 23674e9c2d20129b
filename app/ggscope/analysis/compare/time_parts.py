"""How the time of tokens is spent: in parts that add up to it exactly."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.compare.alignment import AlignedRun
from ggscope.analysis.statistics.grouping import grouping
from ggscope.analysis.statistics.scan import SpanScope, covered
from ggscope.analysis.statistics.windows import Windows, joined
from ggscope.analysis.summary.bars import TokenBars
from ggscope.analysis.summary.partial import hidden_graphs, hidden_ops
from ggscope.analysis.workers import Watcher, chunks, share_out
from ggscope.model.selection import By
from ggscope.model.tables import I64, NO_WAIT, Quality, quality_of
from ggscope.model.trace import LaneKind, Trace

Bools = npt.NDArray[np.bool_]


def token_time(trace: Trace, run: AlignedRun, chosen: Bools) -> Windows:
    """Return the time of the chosen bars of a run; of a run without any, all of it."""
    bars = run.bars
    if not len(bars):
        extent = trace.extent
        start, end = np.array([extent.start]), np.array([extent.end])
        return Windows(start, end, np.zeros(1, np.int64))
    return time_of(bars, chosen)


def time_of(bars: TokenBars, chosen: Bools) -> Windows:
    """Return the time in which any of the chosen bars lasts."""
    order = np.argsort(bars.start[chosen], kind="stable")
    return joined(bars.start[chosen][order], bars.end[chosen][order])


@dataclass(frozen=True, slots=True)
class ThreadParts:
    """What the time of tokens is for all threads (or engines) together, in ticks.

    Attributes
    ----------
    n_lanes : threads with spans; work, wait and idle add up to `elapsed` times these.
    wait : None where no waits are recorded: then `idle` holds them.
    tells_idle : whether ends are measured and nothing is left out between records.
    """

    n_lanes: int
    elapsed: int
    work: int
    wait: int | None
    idle: int
    tells_idle: bool


def thread_parts(
    trace: Trace, run: AlignedRun, chosen: Bools, watcher: Watcher | None = None
) -> ThreadParts | None:
    """Return work, waits and idle time of threads while the chosen bars last.

    None without threads and engines, and where a span has no known time: it may be
    work. A wait counts as far as no span of its thread runs.
    """
    spans, time = trace.spans, token_time(trace, run, chosen)
    for kind in (LaneKind.THREAD, LaneKind.ENGINE):
        is_kind = trace.lanes.of_kind(kind)
        if is_kind.any():
            break
    else:
        return None
    only_ops = kind is LaneKind.THREAD
    work = np.zeros(len(trace.lanes), np.int64)
    both, is_used = work.copy(), np.zeros(len(trace.lanes), np.bool_)
    is_measured, has_waits, is_known = True, False, True
    ids = _ids_by_lane(trace, is_kind, only_ops=only_ops)

    def measure(_: int, rows: slice) -> None:
        nonlocal is_measured, has_waits, is_known
        for lane, own in ids[rows]:
            is_used[lane] = True
            if run.mask is not None:
                own = own[run.mask[own]]
            quality = quality_of(spans.flags[own])
            if (quality > Quality.DERIVED).any():
                is_known = False
            is_measured = is_measured and not (quality > Quality.MEASURED).any()
            start, end = spans.start[own], spans.end[own]
            work[lane] = both[lane] = _union(time, start, end)
            if spans.wait is None:
                continue
            wait = spans.wait[own]
            is_waiting = wait != NO_WAIT
            if is_waiting.any():
                has_waits = True
                longer = end + np.where(is_waiting, wait, 0).astype(np.int64)
                both[lane] = _union(time, start, longer)

    share_out(measure, chunks(len(ids), 1), watcher)
    n = int(np.count_nonzero(is_used))
    if not n or not is_known:
        return None
    total, busy = time.total, int(work.sum())
    waits = int(both.sum()) - busy
    hides = bool(hidden_ops(trace))
    return ThreadParts(
        n, total, busy, waits if has_waits else None,
        n * total - busy - waits, is_measured and not hides,
    )  # fmt: skip


def _ids_by_lane(
    trace: Trace, is_kind: Bools, *, only_ops: bool
) -> list[tuple[int, I64]]:
    """Return the spans of each lane of a kind that has some."""
    lane, op = trace.spans.lane, trace.spans.op
    parts = []
    for number in np.flatnonzero(is_kind).tolist():
        ids = np.flatnonzero(lane == number)
        if only_ops:
            ids = ids[op[ids] >= 0]
        if len(ids):
            parts.append((number, ids))
    return parts


def _union(time: Windows, start: I64, end: I64) -> int:
    """Return how much of a time any span covers."""
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    # Spans are many more than ranges of the time: these are looked up among those.
    busy = joined(start, end)
    return int((busy.elapsed(time.end) - busy.elapsed(time.start)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class OpRanges:
    """Ops of a known time that run while tokens are computed.

    Attributes
    ----------
    low, high : int64[n], in ticks of the tokens' time, ascending by `low`.
    group : int64[n], -1 for ops in no group.
    label : returns the key of a group.
    has_untimed : whether ops run whose time is not known.
    has_derived : whether some ends are derived.
    """

    low: I64
    high: I64
    group: I64
    label: Callable[[int], str]
    has_untimed: bool
    has_derived: bool

    def joined(self, group: int) -> Windows:
        """Return when any op of a group runs, as disjoint ranges."""
        own = self.group == group
        return joined(self.low[own], self.high[own])


def op_ranges(
    trace: Trace,
    mask: Bools | None,
    time: Windows,
    by: By,
    watcher: Watcher | None = None,
) -> OpRanges:
    """Return the ops that run in a time.

    Parameters
    ----------
    mask : spans that count, bool[n_spans]; None = all.
    by : a grouping in which a span belongs to one group at most.
    """
    spans, groups = trace.spans, grouping(trace, by)
    pieces: dict[int, tuple[I64, I64, I64]] = {}
    seen: set[int] = set()

    def look(_: int, rows: slice) -> None:
        ids = np.flatnonzero(spans.op[rows] >= 0) + rows.start
        if mask is not None:
            ids = ids[mask[ids]]
        start, end = time.elapsed(spans.start[ids]), time.elapsed(spans.end[ids])
        quality = quality_of(spans.flags[ids])
        is_in = end > start
        seen.update(np.flatnonzero(np.bincount(quality[is_in])).tolist())
        is_in &= quality <= Quality.DERIVED
        group = np.full(int(is_in.sum()), -1, np.int64)
        part = groups.of(ids[is_in])
        group[slice(None) if part.span is None else part.span] = part.group
        pieces[rows.start] = start[is_in], end[is_in], group

    share_out(look, chunks(len(spans)), watcher)
    empty = np.zeros(0, np.int64)
    columns = zip(
        (empty, empty, empty), *(pieces[at] for at in sorted(pieces)), strict=True
    )
    low, high, group = (np.concatenate(parts) for parts in columns)
    if (low[1:] < low[:-1]).any():
        order = np.argsort(low, kind="stable")
        low, high, group = low[order], high[order], group[order]
    return OpRanges(
        low, high, group, groups.label,
        bool(seen - TIMED), Quality.DERIVED in seen,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class GroupParts:
    """How long ops of each group run while tokens are computed, in ticks.

    The parts of the groups, `none` and minus `overlap` add up to `elapsed`.

    Attributes
    ----------
    groups : by key, only those above 0.
    overlap : what is counted in several groups, as ops of them run at once.
    none : while no op of a known time runs.
    has_untimed : whether ops run whose time is not known: they may be in `none`.
    hides_idle : whether `none` may hold ops that are not recorded, or lacks idle time
        that derived ends hide.
    """

    elapsed: int
    groups: dict[str, int]
    overlap: int
    none: int
    has_untimed: bool
    hides_idle: bool


def group_parts(
    trace: Trace,
    run: AlignedRun,
    chosen: Bools,
    by: By,
    watcher: Watcher | None = None,
) -> GroupParts:
    """Return the parts of the chosen bars' time by the ops that run in it.

    Parameters
    ----------
    by : a grouping in which a span belongs to one group at most.
    """
    time = token_time(trace, run, chosen)
    covers = _covers(trace, run.mask, time, by, watcher)
    ticks: dict[str, int] = {}
    for label, own in covers.groups:
        ticks[label] = ticks.get(label, 0) + own
    hides = bool(hidden_ops(trace) or hidden_graphs(trace))
    return GroupParts(
        time.total, ticks, sum(ticks.values()) - covers.all, time.total - covers.all,
        covers.has_untimed, hides or covers.has_derived,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Covers:
    """How much of a time ops of a known time cover, in ticks.

    Attributes
    ----------
    groups : label and ticks of each group that covers any.
    all : what ops of any group cover.
    has_untimed, has_derived : as of `OpRanges`.
    """

    groups: list[tuple[str, int]]
    all: int
    has_untimed: bool
    has_derived: bool


def _covers(
    trace: Trace,
    mask: Bools | None,
    time: Windows,
    by: By,
    watcher: Watcher | None,
) -> _Covers:
    """Return what ops of each group cover: in compiled code, else by their ranges."""
    groups = grouping(trace, by)
    lookup, scanned = groups.lookup, None
    # Ops in no group are passed over by the scan: they run all the same.
    is_whole = lookup is not None and bool((lookup.table >= 0).all())
    if is_whole and len(time.start):
        scanned = covered(trace, groups, SpanScope(mask), time, watcher)
    if scanned is not None:
        wall, qualities = scanned
        sums = wall.tolist()
        return _Covers(
            [(groups.label(g), own) for g, own in enumerate(sums[:-1]) if own],
            sums[-1], bool(qualities - TIMED), Quality.DERIVED in qualities,
        )  # fmt: skip
    ranges = op_ranges(trace, mask, time, by, watcher)
    low, high, group = ranges.low, ranges.high, ranges.group
    present = np.unique(group[group >= 0]).tolist()
    totals = dict.fromkeys(present, 0)

    def add(_: int, rows: slice) -> None:
        for g in present[rows]:
            totals[g] = ranges.joined(g).total

    share_out(add, chunks(len(present), 1), watcher)
    labelled = [(ranges.label(g), own) for g, own in totals.items()]
    if (loose := group < 0).any():
        labelled.append((NO_GROUP, joined(low[loose], high[loose]).total))
    return _Covers(
        labelled, joined(low, high).total, ranges.has_untimed, ranges.has_derived
    )


TIMED = {Quality.MEASURED, Quality.DERIVED}
"""Qualities of ops whose time is known."""
NO_GROUP = "other"
"""Key of ops that are in no group."""
