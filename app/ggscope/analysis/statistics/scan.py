"""What statistics add up per group, and the compiled scan that does it.

``statistics.c`` sorts nothing and keeps nothing per span.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from threading import Event

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filters.masks import touches
from ggscope.analysis.order.time_merge import TimeRuns
from ggscope.analysis.order.turns import MAX_SHARED_RUNS, Turns, time_cuts, turns_of
from ggscope.analysis.reads.op_io import is_repeated
from ggscope.analysis.reads.shared import op_times
from ggscope.analysis.statistics.grouping import Grouping, Lookup
from ggscope.analysis.statistics.windows import Windows
from ggscope.analysis.workers import Watcher, chunks, n_workers, share_out
from ggscope.model.tables import I64, Array, Quality, Spans, distinct, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.native.declared import Figures as FigureSums
from ggscope.native.declared import Moment, Order, Selection
from ggscope.native.library import library

PERCENTILES = (0.50, 0.90, 0.99)
BLOCK_ROWS = 1 << 16
_MAX_COUNTERS = 1 << 23
"""Of each worker's histogram, 4 bytes each; groups beyond 131,072 are for numpy."""
_MIN_COUNTERS, _COUNTERS_PER_SPAN = 1 << 16, 8
_MAX_MANTISSA = 8
_CALL_ROWS = 1 << 19
"""Spans of one call, about 3 ms: how soon a cancel takes effect."""
_SORT_ROWS = 1 << 18
_MAX_OPEN = 1 << 22
"""Spans that are open at once in one lane; 24 bytes each where there are so many."""
_NOT_IN_ORDER = 2
"""What the kernel says where self times do not follow from the order of spans."""
_LONGEST = np.iinfo(np.int64).max
_N_CELL = 5
_BYTES, _TOTAL, _INSIDE, _MIN, _MAX, _UNKNOWN, _OPS = range(7)
_OPEN, _OP_TICKS, _OP_BYTES, _OP_OPEN, _N_SUMS = range(10, 15)
"""Places of the figures of a group."""
_TOTAL_PLAIN, _MIN_PLAIN, _MAX_PLAIN, _N_PLAIN = 1, 2, 3, 8
"""The same among those of most spans."""
MAX_SHARING = 64
"""Groups that may share time at once."""
_MAX_SHARES = 1 << 23
"""Sums of groups by stretch of time, 8 bytes each for each worker."""
MAX_KEYS = 1 << 25
"""Of more spans no keys are kept: later passes look up the group of each again."""


@dataclass(frozen=True, slots=True, eq=False)
class SpanScope:
    """Which spans to count, and how.

    Attributes
    ----------
    mask : bool[n_spans] of the spans to count, None = all.
    time : count only spans that touch it.
    only_ops : leave out spans that are no op.
    worst_used : the worst quality whose durations are used.
    """

    mask: npt.NDArray[np.bool_] | None = None
    time: TimeRange | None = None
    only_ops: bool = True
    worst_used: Quality = Quality.DERIVED

    def of(self, spans: Spans, rows: Array) -> npt.NDArray[np.bool_]:
        """Return which of the spans `rows` are to be counted."""
        keep = np.ones(len(rows), np.bool_)
        if self.only_ops:
            keep &= spans.op[rows] >= 0
        if self.mask is not None:
            keep &= self.mask[rows]
        if self.time is not None:
            keep &= touches(spans.start[rows], spans.end[rows], self.time)
        return keep


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """Figures of groups 0..n-1; times in ticks, of the durations used.

    Attributes
    ----------
    spans : int64[n, 4], spans by `Quality`.
    bytes : int64[n], known bytes that they access, each op's once.
    total, minimum, maximum : int64[n], of whole spans; meaningless where no duration is
        used.
    inside : int64[n], the parts inside the range; 0 without one.
    percentiles : float64[3, n], those of `PERCENTILES`; NaN likewise.
    unknown : int64[n], bytes that may be accessed besides, at most.
    ops : int64[n], spans of ops, each op once however many threads do.
    wait : int64[n], what the threads waited behind the spans, as far as recorded.
    waits, longest : int64[n], spans whose wait is recorded; those that waited at least
        as long as can be.
    open : int64[n], ops of which some bytes are not known.
    op_ticks : int64[n], how long the ops took whose time is known, each on all of its
        threads together; op_bytes, op_open : bytes, and `open`, of these alone.
    keys : int32[n_spans], of the compiled scan: what `nested` asks for of the same
        groups and scope; None of very many spans.
    """

    spans: I64
    bytes: I64
    total: I64
    minimum: I64
    maximum: I64
    percentiles: npt.NDArray[np.float64]
    inside: I64
    unknown: I64
    ops: I64
    wait: I64
    waits: I64
    longest: I64
    open: I64
    op_ticks: I64
    op_bytes: I64
    op_open: I64
    keys: npt.NDArray[np.int32] | None = None


class SpanBlocks:
    """First start and last end of every 65,536 spans of a trace.

    Says which parts of the columns may hold spans of a range, so that a short one
    does not cost a look at every span. Spans lie lane by lane in time order, mostly;
    where they do not, the blocks are merely less of a help. A quarter byte per
    thousand spans; computed when first asked for.

    Attributes
    ----------
    known : what else was found out about the trace once, see ``nesting``.
    nests : by quality, and whether ops alone count: whether any span begins within
        one that counts, of those of a lane whose quality is no worse; only where the
        compiled scan has looked.
    """

    def __init__(self, trace: Trace) -> None:
        self.known: dict[tuple[str, int], I64 | None] = {}
        self.nests: dict[tuple[Quality, bool], bool] = {}
        self._trace = trace
        self._bounds: tuple[I64, I64] | None = None

    def touching(self, time: TimeRange | None) -> list[slice]:
        """Return the blocks that may hold spans which touch `time`, ascending."""
        n, extent = len(self._trace.spans), self._trace.extent
        blocks = chunks(n, BLOCK_ROWS)
        if time is None or (time.start <= extent.start and extent.end < time.end):
            return blocks
        if self._bounds is None:
            self._bounds = self._make_bounds()
        first, last = self._bounds
        near = (first < time.end) & (last >= time.start)
        return [blocks[k] for k in np.flatnonzero(near).tolist()]

    def _make_bounds(self) -> tuple[I64, I64]:
        s = self._trace.spans
        edges = np.arange(0, len(s), BLOCK_ROWS)
        if not len(edges):
            return edges, edges
        return np.minimum.reduceat(s.start, edges), np.maximum.reduceat(s.end, edges)


def ranks(n: I64, shares: tuple[float, ...]) -> tuple[I64, npt.NDArray[np.float64]]:
    """Return between which entries of n sorted ones each percentile lies.

    Parameters
    ----------
    n : int64[m], >= 1.

    Returns
    -------
    (rank int64[len(shares), 2, m], weight float64[len(shares), m]) : the ranks of the
    entries below and above, and how far towards the one above.
    """
    position = (n - 1) * np.array(shares)[:, None]
    below = np.floor(position).astype(np.int64)
    return np.stack([below, np.minimum(below + 1, n - 1)], axis=1), position - below


def between(
    low: I64, high: I64, weight: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the values that lie `weight` of the way from `low` to `high`.

    The same two-sided form as ``numpy.percentile``, to the last bit, which keeps
    the result monotonic.
    """
    step = high - low
    return np.where(weight < 0.5, low + step * weight, high - step * (1 - weight))


def can_scan(trace: Trace, groups: Grouping) -> bool:
    """Tell whether the compiled scan is made for these groups."""
    return (
        groups.lookup is not None
        and 0 < len(groups) * 64 <= _MAX_COUNTERS
        and trace.spans.flags.dtype.kind in "iu"
    )


def can_split(trace: Trace, groups: Grouping) -> bool:
    """Tell whether `figures` is made for these groups, which share spans out."""
    return (
        groups.split is not None
        and 0 < len(groups) * 64 <= _MAX_COUNTERS
        and trace.spans.flags.dtype.kind in "iu"
        and len(groups.split.sizes.column) in (0, len(trace.spans))
    )


def figures(
    trace: Trace,
    groups: Grouping,
    scope: SpanScope,
    blocks: SpanBlocks,
    watcher: Watcher | None = None,
) -> Figures:
    """Return the figures of the spans in scope, see `can_scan`, `can_split`.

    Equal to ``table.figures`` to the last bit. Two passes on several threads; 4 bytes
    per span, of at most 33 million, 32 MB per thread at most, and a few bytes for every
    hundredth span. Raises Cancelled from the watcher.
    """
    return _Scan(trace, groups, scope, blocks, watcher).run()


def crossed(
    trace: Trace,
    rows: Grouping,
    columns: Grouping,
    scope: SpanScope,
    blocks: SpanBlocks,
    watcher: Watcher | None = None,
) -> I64:
    """Return the figures of the cells of a table, int64[n_rows * n_columns, 5].

    Count, spans whose time is used, ops, their time, known bytes; of groupings that
    `can_scan` accepts, rows also of those that `can_split` does. Raises Cancelled from
    the watcher.
    """
    return _Scan(trace, rows, scope, blocks, watcher).crossed(columns)


def nested(
    trace: Trace,
    groups: Grouping,
    scope: SpanScope,
    blocks: SpanBlocks,
    watcher: Watcher | None = None,
    *,
    keys: npt.NDArray[np.int32] | None = None,
) -> tuple[I64 | None, I64] | None:
    """Return self and wall time of each group, and of all together as the last.

    Parameters
    ----------
    keys : from the `Figures` of the same groups and scope; quicker with them.

    Notes
    -----
    Self times are int64[n]; None where they are the totals: no span begins within one
    that counts. Wall times are int64[n + 1]. None as a whole where the trace does not
    fall into runs of spans in order of time, one per lane, or where `can_scan` says no.
    O(n log lanes). Raises Cancelled from the watcher.
    """
    if not can_scan(trace, groups):
        return None
    edges = TimeRuns(trace).edges
    if edges is None:
        return None
    lanes = trace.spans.lane[edges[:-1]] if len(edges) > 1 else trace.spans.lane[:0]
    if len(distinct(lanes)) < len(lanes):
        return None
    scan = _Scan(trace, groups, scope, blocks, watcher, keys=keys)
    return scan.nested(edges, blocks)


def covered(
    trace: Trace,
    groups: Grouping,
    scope: SpanScope,
    windows: Windows,
    watcher: Watcher | None = None,
) -> tuple[I64, set[Quality]] | None:
    """Return how much of some time the spans of each group cover.

    Parameters
    ----------
    windows : the only time that counts; at least one.

    Returns
    -------
    (wall, qualities) : int64[n + 1], that of all groups together last; and of which
    qualities spans cover any of it, used or not. None where the trace does not fall
    into runs of spans in order of time, or where `can_scan` says no. Raises Cancelled
    from the watcher.
    """
    edges = TimeRuns(trace).edges if can_scan(trace, groups) else None
    if edges is None:
        return None
    scan = _Scan(trace, groups, scope, SpanBlocks(trace), watcher, windows)
    return scan.covered(edges)


def shared(
    trace: Trace,
    groups: Grouping,
    scope: SpanScope,
    windows: Windows,
    stretches: I64,
    watcher: Watcher | None = None,
) -> tuple[I64, set[Quality]] | None:
    """Return how long spans of each group run, by how many groups run at once.

    Parameters
    ----------
    windows : the only time that counts; at least one.
    stretches : int64[n + 1], ascending, ticks of this time from its begin to its end;
        stretch k lasts from ``stretches[k]`` to ``stretches[k + 1]``.

    Returns
    -------
    (ticks, qualities) : int64[n, n_groups, n_groups], by stretch, group, and how many
        groups run besides; and the qualities as of `covered`. None where the trace does
        not fall into runs of spans in order of time, where there are very many
        stretches, and where `can_scan` says no. Raises Cancelled from the watcher.
    """
    n = len(groups)
    if n > MAX_SHARING or (len(stretches) - 1) * n * n > _MAX_SHARES:
        return None
    edges = TimeRuns(trace).edges if can_scan(trace, groups) else None
    if edges is None:
        return None
    scan = _Scan(trace, groups, scope, SpanBlocks(trace), watcher, windows)
    return scan.shared(edges, windows, stretches), scan.qualities()


def _runs(edges: I64) -> list[slice]:
    return [slice(low, high) for low, high in pairwise(edges.tolist())]


class _Scan:
    """One computation: the arrays that the kernel reads and writes."""

    def __init__(
        self,
        trace: Trace,
        groups: Grouping,
        scope: SpanScope,
        blocks: SpanBlocks,
        watcher: Watcher | None,
        windows: Windows | None = None,
        *,
        keys: npt.NDArray[np.int32] | None = None,
    ) -> None:
        lookup = groups.lookup
        if groups.split is not None:
            lookup = Lookup(None, 0, np.zeros(1, np.int32), groups.split.sizes)
        assert lookup is not None
        self._trace, self._groups, self._watcher = trace, groups, watcher
        self._scope, self._n = scope, len(groups)
        self._mantissa = _mantissa(self._n, len(trace.spans))
        self._n_codes = 64 << self._mantissa
        self._blocks = _joined(blocks.touching(scope.time))
        self._total = 2 * sum(rows.stop - rows.start for rows in self._blocks)
        self._lookup = lookup
        self._selection = self._make_selection(lookup, windows)
        self._selection.key = keys

    def _make_selection(self, lookup: Lookup, windows: Windows | None) -> Selection:
        trace, s, scope = self._trace, self._trace.spans, self._scope
        time, pattern = scope.time, lookup.sizes.column
        has_pattern = len(pattern) == len(s) and pattern.dtype.kind == "i"
        op = s.op if scope.only_ops and s.op is not lookup.column else None
        split: dict[str, Array] = {}
        if (parts := self._groups.split) is not None:
            names = ("first", "group", "bytes", "unknown", "before", "after", "whole")
            share = parts.share
            columns = (
                parts.first, parts.group, parts.known, parts.unknown, share.before,
                share.after, share.whole,
            )  # fmt: skip
            split = {
                f"split_{name}": np.ascontiguousarray(column, np.int64)
                for name, column in zip(names, columns, strict=True)
            }
        parts_of_time: dict[str, Array | int | None] = {}
        if windows is not None:
            parts_of_time = {
                "window_start": _whole(windows.start),
                "window_end": _whole(windows.end),
                "window_before": _whole(windows.before),
                "n_windows": len(windows.start),
            }
        sizes = lookup.sizes
        return Selection(
            start=_whole(s.start), end=_whole(s.end), flags=_whole(s.flags),
            column=_whole(lookup.column), op=_whole(op), mask=_whole(scope.mask),
            table=lookup.table, pattern=_whole(pattern) if has_pattern else None,
            bytes=sizes.per_entry, unknown=sizes.unknown_per_entry,
            is_open=sizes.is_open.astype(np.uint8), op_ticks=op_times(trace).ticks,
            wait=_whole(s.wait),
            n_patterns=len(sizes.per_entry),
            low=lookup.low, n_table=len(lookup.table), n_groups=self._n,
            time_start=0 if time is None else time.start,
            time_end=0 if time is None else time.end, has_time=time is not None,
            column_width=0 if lookup.column is None else lookup.column.itemsize,
            op_width=0 if op is None else op.itemsize,
            flags_width=s.flags.itemsize, pattern_width=pattern.itemsize,
            worst_used=int(scope.worst_used), mantissa=self._mantissa, **split,
            **parts_of_time,
        )  # fmt: skip

    def run(self) -> Figures:
        """Return the figures."""
        n_spans = len(self._trace.spans)
        keys = None
        if self._groups.split is None and self._total <= 2 * MAX_KEYS:
            # Those of other blocks stay untouched pages of zeros.
            keys = self._selection.key = np.zeros(n_spans, np.int32)
        spans, sums, histogram = self._count()
        size, total, inside, lowest, highest, unknown, ops, wait, waits, longest = sums[
            :10
        ]
        n_open, ticks, op_bytes, op_open = sums[10:]
        for group, loose_bytes, is_opened, is_timed in self._loose():
            np.add.at(size, group, loose_bytes)
            np.add.at(n_open, group, is_opened)
            np.add.at(op_bytes, group, loose_bytes * is_timed)
            np.add.at(op_open, group, is_opened * is_timed)
        timed = spans[:, : self._scope.worst_used + 1].sum(axis=1)
        values = np.full((len(PERCENTILES), self._n), np.nan)
        known = np.flatnonzero(timed)
        if len(known):
            values[:, known] = self._percentiles(histogram, timed, known)
        unused = timed == 0
        lowest[unused] = highest[unused] = 0
        return Figures(
            spans, size, total, lowest, highest, values, inside, unknown, ops, wait,
            waits, longest, n_open, ticks, op_bytes, op_open, keys,
        )  # fmt: skip

    def crossed(self, columns: Grouping) -> I64:
        """Return figures of cells; see the function of this name."""
        trace, n_columns = self._trace, len(columns)
        everything = SpanScope(only_ops=False)
        across = _Scan(trace, columns, everything, SpanBlocks(trace), None)._selection
        sums = np.zeros((n_workers(), self._n * n_columns, _N_CELL), np.int64)

        def add(worker: int, rows: slice) -> None:
            library().ggscope_statistics_cross(
                self._selection, across, rows.start, rows.stop, sums[worker]
            )

        share_out(add, self._blocks, self._watcher)
        cells: I64 = sums.sum(axis=0)
        loose = self._lookup.sizes.loose
        ids = loose.span[keep := self._scope.of(trace.spans, loose.span)]
        row, column = (g.of(ids).place(len(ids)) for g in (self._groups, columns))
        is_in = (row >= 0) & (column >= 0)
        cell = row[is_in] * n_columns + column[is_in]
        np.add.at(cells[:, _N_CELL - 1], cell, loose.size[keep][is_in])
        return cells

    def nested(self, edges: I64, blocks: SpanBlocks) -> tuple[I64 | None, I64] | None:
        """Return self and wall times; see the function of this name."""
        # Of all spans, whichever are in scope.
        key = self._scope.worst_used, self._scope.only_ops
        if key not in blocks.nests:
            blocks.nests[key] = self._meets(edges)
        if not blocks.nests[key]:
            return None, self._wall(edges, is_flat=True)
        own, is_in_order = self._own(edges)
        return (own, self._wall(edges, is_flat=False)) if is_in_order else None

    def covered(self, edges: I64) -> tuple[I64, set[Quality]]:
        """Return covered time and qualities; see the function of this name."""
        return self._wall(edges, is_flat=False), self.qualities()

    def qualities(self) -> set[Quality]:
        """Return of which qualities spans cover any of the time."""
        seen: list[int] = []

        def look(_: int, rows: slice) -> None:
            kernel = library().ggscope_statistics_qualities
            seen.append(kernel(self._selection, rows.start, rows.stop))

        self._last(look, self._blocks)
        return {one for one in Quality if any(bits >> one & 1 for bits in seen)}

    def _meets(self, edges: I64) -> bool:
        """Tell whether any span begins within one of its lane that counts."""
        meets = [False]
        op = _whole(self._trace.spans.op) if self._scope.only_ops else None
        width = 0 if op is None else op.itemsize

        def search(_: int, run: slice) -> None:
            if not any(meets):
                kernel = library().ggscope_statistics_meets
                one = kernel(self._selection, op, width, run.start, run.stop)
                meets.append(bool(one))

        self._last(search, _runs(edges))
        return any(meets)

    def _own(self, edges: I64) -> tuple[I64, bool]:
        """Return self times, and whether they follow from the order of the spans."""
        n_parts = n_workers()
        max_open = int(min(np.diff(edges).max(initial=0), _MAX_OPEN))
        own = np.zeros((n_parts, self._n), np.int64)
        open_spans = [np.empty((max_open, 3), np.int64) for _ in range(n_parts)]
        states = [0]

        def walk(worker: int, run: slice) -> None:
            if max(states) < _NOT_IN_ORDER:
                kernel = library().ggscope_statistics_own
                stack, sums = open_spans[worker], own[worker]
                states.append(
                    kernel(self._selection, run.start, run.stop, stack, max_open, sums)
                )

        self._last(walk, _runs(edges))
        return own.sum(axis=0), max(states) < _NOT_IN_ORDER

    def _wall(self, edges: I64, *, is_flat: bool) -> I64:
        """Return how much time the spans of each group cover, and of all together.

        `is_flat` : no two of a lane share time.
        """
        turns, first, stop = self._in_turn(edges, *self._touched(edges))
        cuts = time_cuts(self._trace.spans.start, first, stop)
        reach = self._reaches(cuts, is_flat=is_flat)
        wall = np.zeros((len(cuts) - 1, self._n + 1), np.int64)

        def cover(at: int, order: Order, n: int) -> int:
            kernel = library().ggscope_statistics_cover
            return int(kernel(self._selection, order, n, reach[at], wall[at]))

        self._in_order(cuts, turns, cover)
        total: I64 = wall.sum(axis=0)
        return total

    def shared(self, edges: I64, windows: Windows, stretches: I64) -> I64:
        """Return how long groups run in stretches; see the function of this name."""
        turns, first, stop = self._in_turn(edges, *self._touched(edges))
        start = self._trace.spans.start
        cuts = time_cuts(start, first, stop)
        reach = self._reaches(cuts, is_flat=False)
        n, n_stretches = self._n, len(stretches) - 1
        # Each part begins with the first of its spans; all time before has passed.
        begins = [
            min((int(start[row]) for row, end in zip(cut, stop, strict=True)
                 if row < end), default=self._trace.extent.end)
            for cut in cuts[1:-1].tolist()
        ]  # fmt: skip
        inner = windows.elapsed(np.array(begins, np.int64)).tolist()
        until = [*inner, int(stretches[-1])]
        moments = [Moment(now=now, due=now) for now in (int(stretches[0]), *inner)]
        ticks = np.zeros((len(moments), n_stretches, n, n), np.int64)

        def share(at: int, order: Order, n_spans: int) -> int:
            done = library().ggscope_statistics_share(
                self._selection, order, n_spans, stretches, n_stretches, moments[at],
                reach[at], ticks[at],
            )  # fmt: skip
            return int(done)

        self._in_order(cuts, turns, share)
        for at, moment in enumerate(moments):
            library().ggscope_statistics_pass(
                moment, until[at], stretches, n_stretches, reach[at], n, ticks[at]
            )
        total: I64 = ticks.sum(axis=0)
        return total

    def _reaches(self, cuts: I64, *, is_flat: bool) -> I64:
        """Return how far the spans before each part reach, int64[n_parts, n + 1].

        Each worker takes a part of the time: that is what it needs to know of the
        spans before. The last of a part is of all groups.
        """
        reach = np.full((len(cuts), self._n + 1), np.iinfo(np.int64).min)

        def look_ahead(_: int, part: slice) -> None:
            at = part.start
            for low, high in zip(cuts[at].tolist(), cuts[at + 1].tolist(), strict=True):
                library().ggscope_statistics_reach(
                    self._selection, low, high, is_flat, reach[at + 1]
                )

        self._last(look_ahead, [slice(k, k + 1) for k in range(len(cuts) - 2)])
        np.maximum.accumulate(reach, axis=0, out=reach)
        return reach

    def _in_order(
        self, cuts: I64, turns: Turns | None, step: Callable[[int, Order, int], int]
    ) -> None:
        """Call ``step(part, order, n)`` for the next n spans until all were gone over.

        The parts that cuts make are shared out.
        """
        is_over = Event()

        def go(worker: int, part: slice) -> None:
            cursor, stop = cuts[part.start].copy(), cuts[part.start + 1]
            n_runs = len(cursor)
            order = Order(
                stop=stop, cursor=cursor, heap=np.zeros(n_runs, np.int64), n_runs=n_runs
            )
            while left := int((stop - cursor).sum()):
                n = min(left, _CALL_ROWS)
                if turns is not None:
                    place = turns.before(cursor)
                    order.turns = turns.run[place : place + n]
                if is_over.is_set() or not step(part.start, order, n):
                    break
                if worker == 0 and self._watcher is not None:
                    try:
                        self._watcher.progress(2 * self._total, 2 * self._total)
                    except BaseException:
                        is_over.set()
                        raise

        self._last(go, [slice(k, k + 1) for k in range(len(cuts) - 1)])

    def _in_turn(
        self, edges: I64, first: I64, stop: I64
    ) -> tuple[Turns | None, I64, I64]:
        """Return the known order of the spans, and the rows where it begins and ends.

        It goes by time alone, so some rows may come before those in scope: it is not
        taken where they are more than these.
        """
        turns = turns_of(self._trace)
        has_some = stop > first
        if turns is None or not has_some.any():
            return None, first, stop
        start = self._trace.spans.start
        earliest, latest = start[first[has_some]].min(), start[stop[has_some] - 1].max()
        runs = list(pairwise(edges.tolist()))
        low = [a + np.searchsorted(start[a:b], earliest, "left") for a, b in runs]
        high = [a + np.searchsorted(start[a:b], latest, "right") for a, b in runs]
        if sum(high) - sum(low) > 2 * (stop - first).sum():
            return None, first, stop
        return turns, np.array(low), np.array(high)

    def _touched(self, edges: I64) -> tuple[I64, I64]:
        """Return the first row, and that behind the last, of each run that may count.

        What lies in between and does not touch the range is passed over by the kernel.
        """
        low, high = edges[:-1].copy(), edges[1:].copy()
        time, s = self._scope.time, self._trace.spans
        if time is None or len(low) > MAX_SHARED_RUNS:
            return low, high
        for run, (first, stop) in enumerate(pairwise(edges.tolist())):
            high[run] = first + np.searchsorted(s.start[first:stop], time.end)
            low[run] = high[run]
            for at in range(first, int(high[run]), BLOCK_ROWS):
                rows = slice(at, min(at + BLOCK_ROWS, int(high[run])))
                if s.end[rows].max() > time.start or (
                    s.start[rows.stop - 1] >= time.start
                ):
                    low[run] = at
                    break
        return low, high

    def _last(self, work: Callable[[int, slice], None], pieces: list[slice]) -> None:
        """Share out work for which the watcher reports nearly all done."""
        whole = 2 * self._total
        share_out(work, pieces, self._watcher, done=whole, total=whole)

    def _count(self) -> tuple[I64, I64, npt.NDArray[np.uint32]]:
        """Return what the first pass finds, all workers together.

        Spans by group and quality, int64[14, n] in the order of the kernel's figures,
        and the histogram.
        """
        n_parts = n_workers()
        spans = np.zeros((n_parts, self._n, len(Quality)), np.int64)
        sums = np.zeros((n_parts, _N_SUMS, self._n), np.int64)
        sums[:, _MIN] = _LONGEST
        # Counters cost memory only where they are used: untouched pages of zeros
        # are not there.
        counters = [
            np.zeros((self._n, self._n_codes), np.uint32) for _ in range(n_parts)
        ]
        plain = np.zeros((n_parts, self._n, 2, _N_PLAIN), np.int64)
        plain[..., _MIN_PLAIN] = _LONGEST
        parts = [
            FigureSums(spans[k], *sums[k], plain[k], counters[k])
            for k in range(n_parts)
        ]

        def count(worker: int, rows: slice) -> None:
            library().ggscope_statistics_count(
                self._selection, rows.start, rows.stop, parts[worker]
            )

        share_out(count, self._blocks, self._watcher, total=self._total)
        by_quality, together = spans.sum(axis=0), sums.sum(axis=0)
        together[_MIN] = sums[:, _MIN].min(axis=0)
        together[_MAX] = sums[:, _MAX].max(axis=0)
        self._add_plain(plain, by_quality, together)
        used = slice(0, int(together[_MAX].max(initial=0)).bit_length() + 1)
        octaves = [one.reshape(self._n, 64, -1)[:, used] for one in counters]
        for other in octaves[1:]:
            octaves[0] += other
        return by_quality, together, counters[0]

    def _add_plain(self, plain: I64, spans: I64, sums: I64) -> None:
        """Add what the first pass has of most spans, int64[n_parts, n, 2, 8]."""
        added = plain.sum(axis=(0, 2))
        n, total, _, _, outside, size, is_open, ticks = added.T
        of_ops = plain[:, :, 0].sum(axis=0)
        spans[:, Quality.MEASURED] += n
        if self._scope.time is not None:
            sums[_INSIDE] += total - outside
        if self._selection.op_ticks is None:
            ticks = of_ops[:, _TOTAL_PLAIN]
        for figure, values in (
            (_BYTES, size), (_TOTAL, total), (_OPS, of_ops[:, 0]), (_OPEN, is_open),
            (_OP_TICKS, ticks), (_OP_BYTES, size), (_OP_OPEN, is_open),
        ):  # fmt: skip
            sums[figure] += values
        lowest = plain[..., _MIN_PLAIN].min(axis=(0, 2))
        highest = plain[..., _MAX_PLAIN].max(axis=(0, 2))
        np.minimum(sums[_MIN], lowest, out=sums[_MIN])
        np.maximum(sums[_MAX], highest, out=sums[_MAX])

    def _loose(self) -> list[tuple[I64, I64, I64, I64]]:
        """Return accesses that name their span: groups, bytes, 0 or 1 for more.

        The last two say whether an op is open for them, and whether its time is known.
        """
        loose, s = self._lookup.sizes.loose, self._trace.spans
        if not len(loose.span):
            return []
        keep = self._scope.of(s, loose.span)
        ids = loose.span[keep]
        part = self._groups.of(ids)
        where = slice(None) if part.span is None else part.span
        is_opened = self._lookup.sizes.opened_by_loose(ids)
        ticks = op_times(self._trace).ticks
        is_timed = quality_of(s.flags[ids]) <= self._scope.worst_used
        is_timed &= ~is_repeated(s.flags[ids])
        is_timed &= True if ticks is None else ticks[ids] >= 0
        size, timed = loose.size[keep][where], is_timed[where].astype(np.int64)
        return [(part.group, size, is_opened[where], timed)]

    def _percentiles(
        self, histogram: npt.NDArray[np.uint32], timed: I64, known: I64
    ) -> npt.NDArray[np.float64]:
        """Return the percentiles of the groups `known`, float64[3, len(known)]."""
        rank, weight = ranks(timed[known], PERCENTILES)
        scope = np.full((self._n, 2 * len(PERCENTILES)), -1, np.int64)
        scope[known] = rank.reshape(-1, len(known)).T
        # Ranks ascend for the kernel's walk; p50's upper one may pass p90's lower.
        order = np.argsort(scope, axis=1, kind="stable")
        ascending = np.take_along_axis(scope, order, axis=1)
        bucket, before = np.empty_like(ascending), np.empty_like(ascending)
        library().ggscope_statistics_find(
            histogram, self._n, self._mantissa, ascending.shape[1], ascending, bucket,
            before,
        )  # fmt: skip
        buckets, place = np.unique(bucket[known], return_inverse=True)
        first, durations = self._collected(histogram, buckets)
        at = first[place.reshape(len(known), -1)] + (ascending - before)[known]
        value = np.empty((len(known), at.shape[1]), np.int64)
        np.put_along_axis(value, order[known], durations[at], axis=1)
        pairs = value.T.reshape(rank.shape)
        return between(pairs[:, 0], pairs[:, 1], weight)

    def _collected(
        self, histogram: npt.NDArray[np.uint32], bucket: I64
    ) -> tuple[I64, I64]:
        """Return (first, durations): bucket k holds durations[first[k]:first[k + 1]].

        The durations ascend within each bucket.
        """
        counters = histogram.reshape(-1)
        first = np.concatenate([[0], np.cumsum(counters[bucket], dtype=np.int64)])
        slots = np.zeros(len(counters), np.uint32)
        slots[bucket] = np.arange(1, len(bucket) + 1)
        durations = np.zeros(int(first[-1]), np.int64)
        cursor = first[:-1].copy()
        limit = first[1:].copy()

        def collect(_: int, rows: slice) -> None:
            library().ggscope_statistics_collect(
                self._selection, rows.start, rows.stop, slots, len(bucket), cursor,
                limit, durations,
            )  # fmt: skip

        def sort(_: int, runs: slice) -> None:
            library().ggscope_statistics_sort(
                durations, first[runs.start :], runs.stop - runs.start
            )

        half = self._total // 2
        share_out(collect, self._blocks, self._watcher, done=half, total=self._total)
        share_out(sort, _even(first), self._watcher, done=self._total)
        return first, durations


def _whole(column: Array | None) -> Array | None:
    """Return a column with its values next to each other."""
    return None if column is None else np.ascontiguousarray(column)


def _mantissa(n_groups: int, n_spans: int) -> int:
    """Return how fine a histogram may be, in bits per power of two.

    Of few spans many counters take longer than the values of coarse buckets to sort.
    """
    n_counters = min(_MAX_COUNTERS, max(_MIN_COUNTERS, _COUNTERS_PER_SPAN * n_spans))
    return max(
        bits
        for bits in range(_MAX_MANTISSA + 1)
        if bits == 0 or n_groups * 64 << bits <= n_counters
    )


def _joined(blocks: list[slice]) -> list[slice]:
    """Return the same rows in pieces of at most `_CALL_ROWS`, neighbours together."""
    joined: list[slice] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.stop == block.start
            and block.stop - last.start <= _CALL_ROWS
        ):
            joined[-1] = slice(last.start, block.stop)
        else:
            joined.append(block)
    return joined


def _even(first: I64) -> list[slice]:
    """Return runs of buckets with about `_SORT_ROWS` durations each."""
    n = len(first) - 1
    marks = np.arange(_SORT_ROWS, int(first[-1]), _SORT_ROWS)
    edges = np.unique(np.concatenate([[0], np.searchsorted(first, marks), [n]]))
    return [slice(a, b) for a, b in pairwise(np.minimum(edges, n).tolist()) if b > a]
