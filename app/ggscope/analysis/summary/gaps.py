"""Idle gaps of lanes, the longest first: from when to when, and between what."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.summary.partial import hidden_graphs, hidden_ops
from ggscope.analysis.workers import Watcher, chunks, count_values
from ggscope.model.tables import (
    I64,
    NO_WAIT,
    Array,
    Quality,
    SpanFlag,
    Spans,
    Table,
    narrow,
    quality_of,
)
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

Bools = npt.NDArray[np.bool_]
PART_ROWS = 1 << 16
"""Spans at a time: what is made of them fits the cache."""
_INEXACT = int(
    SpanFlag.INFERRED_START
    | SpanFlag.INFERRED_END
    | SpanFlag.ESTIMATED
    | SpanFlag.UNFINISHED
)


@dataclass(frozen=True, slots=True, eq=False)
class Gaps(Table):
    """Idle gaps, the longest first; equally long columns.

    Attributes
    ----------
    lane : int64[n], lane ids.
    start, end : int64[n], ticks; waits at barriers are no part of a gap.
    before, after : int64[n], the spans around each gap.
    n_all, total : number and ticks of all gaps, of which these are the longest.
    n_spans, n_derived, n_open : spans of these lanes that touch the range, those whose
        begin or end is derived, so that no idle time is seen there, and those whose
        times are estimated or whose end is missing, which border no gap.
    hidden : why gaps may not be idle time, as the recording leaves something out; "".
    """

    lane: I64
    start: I64
    end: I64
    before: I64
    after: I64
    n_all: int
    total: int
    n_spans: int = 0
    n_derived: int = 0
    n_open: int = 0
    hidden: str = ""


def gaps(
    trace: Trace,
    time: TimeRange | None = None,
    *,
    lanes: Bools | None = None,
    limit: int | None = 1000,
    watcher: Watcher | None = None,
) -> Gaps:
    """Return the gaps between the spans of threads, engines and commands.

    Parameters
    ----------
    time : gaps are cut at its ends, and those outside left out.
    lanes : bool[n_lanes], only these; None = all that compute.
    limit : only so many, the longest; None = all.

    Notes
    -----
    A lane is idle where none of its spans runs and no wait behind one is recorded; a
    thread that computes ops, where none of these runs.
    Spans whose end is not known are left out: what follows them is no gap that is
    known. O(n) where spans are lane by lane in the order of time, as of most traces;
    else they are sorted first.
    """
    longest = _Longest(limit)
    sweep = _Sweep(trace, time, longest)
    n = len(trace.spans)
    for done, ids in _in_order(trace, _chosen(trace, lanes)):
        if watcher is not None:
            watcher.progress(done, n)
        sweep.add(ids)
    lane, start, end, before, after = longest.columns()
    n_by_quality = sweep.n_by_quality
    return Gaps(
        lane,
        start,
        end,
        before,
        after,
        sweep.n_all,
        sweep.total,
        int(n_by_quality.sum()),
        int(n_by_quality[Quality.DERIVED]),
        int(n_by_quality[Quality.DERIVED + 1 :].sum()),
        hidden_graphs(trace) or hidden_ops(trace),
    )


class _Longest:
    """The longest gaps so far: columns of lane, start, end, span before and after."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._parts: list[tuple[I64, ...]] = []
        self._n = 0
        self._last: tuple[int, int] | None = None
        """Length and start of the shortest one, once there are as many as asked for."""

    def may_be(self, length: I64, start: I64) -> Bools | None:
        """Return which gaps of a lane may be among them; None = all.

        Lanes come in their order: of gaps that are as long and begin at once, those of
        earlier lanes come first.
        """
        if self._last is None:
            return None
        shortest, latest = self._last
        is_longer = length >= shortest
        if is_longer.any():
            is_longer &= (length > shortest) | (start < latest)
        return is_longer

    def add(self, *columns: I64) -> None:
        """Add gaps: lane, start, end, span before, span after."""
        if not len(columns[0]):
            return
        self._parts.append(columns)
        self._n += len(columns[0])
        if self._limit is not None and self._n >= max(2 * self._limit, PART_ROWS):
            self._shorten()

    def columns(self) -> tuple[I64, ...]:
        """Return the columns, the longest gap first, then the earliest."""
        self._shorten()
        none = np.zeros(0, np.int64)
        return self._parts[0] if self._parts else (none, none, none, none, none)

    def _shorten(self) -> None:
        if not self._parts:
            return
        columns = [np.concatenate(parts) for parts in zip(*self._parts, strict=True)]
        lane, start, end = columns[:3]
        length, limit = end - start, self._limit
        if limit is not None and 0 < limit < len(length):
            # Only those as long as the last one that counts have to be sorted.
            shortest = np.partition(length, len(length) - limit)[len(length) - limit]
            keep = np.flatnonzero(length >= shortest)
            columns = [column[keep] for column in columns]
            lane, start, length = columns[0], columns[1], length[keep]
        rows = np.lexsort((lane, start, -length))[:limit]
        self._parts = [tuple(column[rows] for column in columns)]
        self._n = len(rows)
        if limit is not None and self._n == limit and limit:
            self._last = int(length[rows[-1]]), int(start[rows[-1]])


class _Sweep:
    """Finds the gaps of spans that come lane by lane in the order of time.

    Attributes
    ----------
    n_all, total : number and ticks of the gaps so far.
    n_by_quality : int64[4], spans in the range, by `Quality`.
    """

    def __init__(self, trace: Trace, time: TimeRange | None, longest: _Longest) -> None:
        self._spans, self._time, self._longest = trace.spans, time, longest
        self._furthest: tuple[int, int, int, bool] | None = None
        """Lane, id and end of the span that reaches furthest, and if that is unknown"""
        self.n_all = self.total = 0
        self.n_by_quality = np.zeros(len(Quality), np.int64)

    def add(self, ids: slice | I64) -> None:
        """Go on with these spans."""
        spans, time = self._spans, self._time
        start = spans.start[ids]
        n = len(start)
        if not n:
            return
        if isinstance(ids, slice):
            ids = np.arange(ids.start, ids.start + n)
        # The first of these arrays' entries is the span that reached furthest before.
        lane = np.empty(n + 1, spans.lane.dtype)
        end = np.empty(n + 1, np.int64)
        span = np.empty(n + 1, np.int64)
        lane[1:], end[1:], span[1:] = spans.lane[ids], spans.end[ids], ids
        if spans.wait is not None:
            wait = spans.wait[ids]
            end[1:] += np.where(wait == NO_WAIT, 0, wait).astype(np.int64)
        is_open = self._count(start, end[1:], spans.flags[ids])
        is_new = lane[1:] != lane[:-1]
        if self._furthest is None:
            lane[0], span[0], end[0], was_open = lane[1], ids[0], end[1], False
            is_new[0] = True
        else:
            lane[0], span[0], end[0], was_open = self._furthest
            is_new[0] = lane[0] != lane[1]
        last, reached = _furthest(end, is_new)
        low, high = reached[:-1], start
        if time is not None:
            low, high = np.maximum(low, time.start), np.minimum(high, time.end)
        length = high - low
        is_gap = length > 0
        is_gap &= ~is_new
        if is_open is not None or was_open:
            opens = np.zeros(n + 1, np.bool_)
            opens[0] = was_open
            if is_open is not None:
                opens[1:] = is_open
            is_gap &= ~opens[last[:-1]] & ~opens[1:]
            was_open = bool(opens[last[-1]])
        self._furthest = int(lane[-1]), int(span[last[-1]]), int(reached[-1]), was_open
        self._add_gaps(is_gap, lane, low, high, span, last)

    def _count(self, start: I64, end: I64, flags: Array) -> Bools | None:
        """Count spans by quality; return which have no known time, None = none."""
        quality = quality_of(flags) if (flags & _INEXACT).any() else None
        inside = None
        if self._time is not None:
            inside = (start < self._time.end) & (end > self._time.start)
        if quality is None:
            n = len(flags) if inside is None else int(np.count_nonzero(inside))
            self.n_by_quality[Quality.MEASURED] += n
            return None
        seen = quality if inside is None else quality[inside]
        self.n_by_quality += np.bincount(seen, minlength=len(Quality))
        return np.asarray(quality > Quality.DERIVED, np.bool_)

    def _add_gaps(
        self, is_gap: Bools, lane: Array, low: I64, high: I64, span: I64, last: I64
    ) -> None:
        length = high - low
        self.n_all += int(np.count_nonzero(is_gap))
        self.total += int(length[is_gap].sum())
        if (may_be := self._longest.may_be(length, low)) is not None:
            is_gap &= may_be
        at = np.flatnonzero(is_gap)
        self._longest.add(
            lane[at + 1].astype(np.int64), low[at], high[at],
            span[last[at]], span[at + 1],
        )  # fmt: skip


def _chosen(trace: Trace, lanes: Bools | None) -> Callable[[slice], Bools | None]:
    """Return a function that says which spans of a slice count; None = all of them.

    Of lanes that compute ops, those that are no ops lie around these.
    """
    spans, all_lanes = trace.spans, trace.lanes
    chosen = lanes
    if chosen is None:
        chosen = all_lanes.is_thread | all_lanes.is_engine | all_lanes.is_command
    computes = np.zeros(len(all_lanes), np.bool_)
    if len(spans) and int(spans.op.min()) < 0:
        has_ops = count_values(spans.lane, len(all_lanes), spans.op) > 0
        computes = all_lanes.is_thread & has_ops
        if spans.category is not None:  # annotations lie around kernels
            computes |= all_lanes.is_engine & has_ops
    is_whole, has_others = bool(chosen.all()), bool(computes.any())

    def which(rows: slice) -> Bools | None:
        if is_whole and not has_others:
            return None
        lane = spans.lane[rows]
        is_chosen = chosen[lane]
        if has_others:
            is_chosen &= (spans.op[rows] >= 0) | ~computes[lane]
        return None if is_chosen.all() else is_chosen

    return which


def _in_order(
    trace: Trace, chosen: Callable[[slice], Bools | None]
) -> Iterator[tuple[int, slice | I64]]:
    """Yield the chosen spans in parts, lane by lane in the order of time.

    Each with the number of spans before it.
    """
    spans = trace.spans

    def parts() -> Iterator[tuple[int, slice | I64]]:
        for rows in chunks(len(spans), PART_ROWS):
            mask = chosen(rows)
            ids = rows if mask is None else np.flatnonzero(mask) + rows.start
            yield rows.start, ids

    if _is_in_order(spans):
        yield from parts()
        return
    every = np.arange(len(spans))
    ids = np.concatenate([every[part] for _, part in parts()])
    ids = _by_lane_and_start(trace, ids)
    for rows in chunks(len(ids), PART_ROWS):
        yield rows.start, ids[rows]


def _is_in_order(spans: Spans) -> bool:
    """Return whether all spans are lane by lane in the order of time."""
    for rows in chunks(len(spans), PART_ROWS):
        both = slice(rows.start, rows.stop + 1)
        lane, start = spans.lane[both], spans.start[both]
        is_back = start[1:] < start[:-1]
        if is_back.any() and (is_back & (lane[1:] == lane[:-1])).any():
            return False
        if (lane[1:] < lane[:-1]).any():
            return False
    return True


def _by_lane_and_start(trace: Trace, ids: I64) -> I64:
    """Return spans lane by lane in the order of time; most traces have them so."""
    lane, start = trace.spans.lane[ids], trace.spans.start[ids]
    if (lane[1:] < lane[:-1]).any():
        order = np.argsort(narrow(lane), kind="stable")
        ids, lane, start = ids[order], lane[order], start[order]
    if ((lane[1:] == lane[:-1]) & (start[1:] < start[:-1])).any():
        return ids[np.lexsort((start, lane))]
    return ids


def _furthest(end: I64, is_new: npt.NDArray[np.bool_]) -> tuple[I64, I64]:
    """Return which span up to each reaches furthest in its lane, and how far.

    `is_new` is of all but the first: whether its lane is another one.
    Of several that reach as far, the last: an op without an end may begin where another
    one ends.
    """
    if not len(end):
        return np.zeros(0, np.int64), end
    if ((end[1:] >= end[:-1]) | is_new).all():  # no span lies in another one
        return np.arange(len(end)), end
    is_new = np.concatenate([[True], is_new])
    # Lanes are distinguished by adding a step that is larger than all times.
    low = int(end.min())
    step = int(end.max()) - low + 1
    lane = np.cumsum(is_new) - 1
    if step * (int(lane[-1]) + 1) < 1 << 62:
        ends = end - low + lane * step
        reached = np.maximum.accumulate(ends)
        place = np.where(ends == reached, np.arange(len(end)), 0)
        return np.maximum.accumulate(place), reached - lane * step + low
    reached, last = end.copy(), np.arange(len(end))
    edges = np.append(np.flatnonzero(is_new), len(end))
    for begin, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = np.maximum.accumulate(end[begin:stop])
        is_furthest = end[begin:stop] == part
        place = np.where(is_furthest, np.arange(begin, stop), begin)
        last[begin:stop], reached[begin:stop] = np.maximum.accumulate(place), part
    return last, reached
