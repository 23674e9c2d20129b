"""What runs while each token is computed: parts that add up to its wall time."""

from dataclasses import dataclass
from math import lcm

import numpy as np
import numpy.typing as npt

from ggscope.analysis.compare.time_parts import TIMED, op_ranges, time_of
from ggscope.analysis.statistics.grouping import grouping
from ggscope.analysis.statistics.scan import SpanScope, shared
from ggscope.analysis.statistics.windows import Windows
from ggscope.analysis.summary.bars import TokenBars, token_bars
from ggscope.analysis.summary.partial import hidden_graphs, hidden_ops
from ggscope.analysis.workers import Watcher, chunks, share_out
from ggscope.model.tables import I64, Quality
from ggscope.model.trace import Trace

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class BarParts:
    """The wall time of each bar by the families of ops that run in it.

    A tick in which ops of several families run is shared equally among these. All
    ticks are multiplied by `divisor`, so that the shares are whole numbers.

    Attributes
    ----------
    families : in the order of legends, only those that run.
    ticks : int64[n_bars, n_families].
    idle : int64[n_bars], while no op of a known time runs.
    is_split : bool[n_bars], timed bars in which such an op runs; the others have no
        parts. Of split bars, `ticks` and `idle` add up to the wall time.
    has_untimed : whether ops run whose time is not known: they may be in `idle`.
    has_derived : whether ends of ops are derived, which may hide idle time.
    hides_ops : whether `idle` may hold ops that are not recorded.
    """

    families: tuple[str, ...]
    ticks: I64
    idle: I64
    divisor: int
    is_split: Bools
    has_untimed: bool
    has_derived: bool
    hides_ops: bool

    def shares(self, rows: I64) -> npt.NDArray[np.float64]:
        """Return shares of the wall time of split bars by family, and idle last."""
        parts = np.column_stack([self.ticks[rows], self.idle[rows]])
        whole = parts.sum(axis=1, keepdims=True)
        return np.asarray(parts / whole, np.float64)


def bar_parts(trace: Trace, watcher: Watcher | None = None) -> BarParts:
    """Return the parts of the bars of a trace; O(spans log lanes), else log spans.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    bars = token_bars(trace)
    shares = _scanned(trace, bars, watcher)
    if shares is None:
        shares = _sorted(trace, bars, watcher)
    ticks, total = shares.ticks, shares.ticks.sum(axis=1)
    is_split = total > 0
    idle = np.where(is_split, bars.duration * shares.divisor - total, 0)
    return BarParts(
        shares.families, ticks, idle, shares.divisor, is_split, shares.has_untimed,
        shares.has_derived, bool(hidden_ops(trace) or hidden_graphs(trace)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Shares:
    """What `BarParts` says about the ops that run."""

    families: tuple[str, ...]
    ticks: I64
    divisor: int
    has_untimed: bool
    has_derived: bool


def _scanned(trace: Trace, bars: TokenBars, watcher: Watcher | None) -> _Shares | None:
    """Return the shares, by compiled code that goes over the ops in order of time.

    None where it cannot.
    """
    is_timed, groups = bars.is_timed, grouping(trace, "family")
    time = time_of(bars, is_timed)
    lookup = groups.lookup
    if lookup is None or not time.total or (lookup.table < 0).any():
        return None
    begin, end = time.elapsed(bars.start), time.elapsed(bars.end)
    edges = np.unique(np.concatenate([begin[is_timed], end[is_timed]]))
    scanned = shared(trace, groups, SpanScope(), time, edges, watcher)
    if scanned is None:
        return None
    by_number, qualities = scanned
    seen: Bools = np.asarray(by_number.any(axis=0), np.bool_)
    families = np.flatnonzero(seen.any(axis=1))
    numbers = np.flatnonzero(seen.any(axis=0))
    divisor = lcm(*range(1, int(numbers.max(initial=0)) + 2))
    rates = divisor // np.arange(1, len(groups) + 1)
    parts = (by_number[:, families] * rates).sum(axis=2)
    sums = np.zeros((len(edges), len(families)), np.int64)
    np.cumsum(parts, axis=0, out=sums[1:])
    ticks = sums[np.searchsorted(edges, end)] - sums[np.searchsorted(edges, begin)]
    ticks[~is_timed] = 0
    return _Shares(
        tuple(groups.label(g) for g in families.tolist()), ticks, divisor,
        bool(qualities - TIMED), Quality.DERIVED in qualities,
    )  # fmt: skip


def _sorted(trace: Trace, bars: TokenBars, watcher: Watcher | None) -> _Shares:
    """Return the shares of any trace, by sorting where ops begin and end."""
    is_timed = bars.is_timed
    time = time_of(bars, is_timed)
    ranges = op_ranges(trace, None, time, "family", watcher)
    groups = np.unique(ranges.group[ranges.group >= 0]).tolist()
    n = len(groups)
    runs: dict[int, Windows] = {}

    def join(_: int, rows: slice) -> None:
        for i in range(rows.start, rows.stop):
            runs[i] = ranges.joined(groups[i])

    share_out(join, chunks(n, 1), watcher)
    edge, running = _edges([runs[i] for i in range(n)])
    masks = np.arange(1 << n)
    is_in = (masks[:, None] >> np.arange(n)) & 1 == 1
    at_once = is_in.sum(axis=1)
    divisor = lcm(*range(1, int(at_once[running].max(initial=1)) + 1))
    rates = np.where(is_in, divisor // np.maximum(at_once, 1)[:, None], 0)
    ticks = np.zeros((len(bars), n), np.int64)
    begin, end = time.elapsed(bars.start), time.elapsed(bars.end)
    length = np.diff(edge)

    def add(_: int, rows: slice) -> None:
        for i in range(rows.start, rows.stop):
            rate = rates[:, i][running]
            sums = np.zeros(len(edge), np.int64)
            np.cumsum(length * rate[:-1], out=sums[1:])
            low, high = (_until(edge, rate, sums, tick) for tick in (begin, end))
            ticks[:, i] = high - low

    share_out(add, chunks(n, 1), watcher)
    ticks[~is_timed] = 0
    return _Shares(
        tuple(ranges.label(g) for g in groups), ticks, divisor, ranges.has_untimed,
        ranges.has_derived,
    )  # fmt: skip


def _edges(runs: list[Windows]) -> tuple[I64, I64]:
    """Return where ranges begin or end, and which run from there on, a bit for each."""
    empty = np.zeros(0, np.int64)
    edge = np.concatenate([empty, *(side for run in runs
                                    for side in (run.start, run.end))])  # fmt: skip
    change = np.concatenate([empty, *(
        np.full(len(run.start), sign << i, np.int64)
        for i, run in enumerate(runs) for sign in (1, -1)
    )])  # fmt: skip
    order = np.argsort(edge, kind="stable")
    return edge[order], np.cumsum(change[order])


def _until(edge: I64, rate: I64, sums: I64, tick: I64) -> I64:
    """Return what has run before each tick."""
    if not len(edge):
        return np.zeros(len(tick), np.int64)
    at = np.searchsorted(edge, tick, "right") - 1
    i = np.maximum(at, 0)
    return np.where(at >= 0, sums[i] + (tick - edge[i]) * rate[i], 0)
