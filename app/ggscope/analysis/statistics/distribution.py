"""How the amounts of spans are distributed: bars over a linear or logarithmic axis.

One pass counts the amounts in fine buckets, 4096 to each power of two, so that any bars
whose edges are edges of these are exact, also when the axis changes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ggscope.analysis.reads.op_io import is_repeated
from ggscope.analysis.statistics.amounts import Amount, amounts
from ggscope.analysis.statistics.grouping import WITHOUT_OPS, grouping
from ggscope.analysis.statistics.membership import groups_called, member_test
from ggscope.analysis.statistics.scan import SpanBlocks, SpanScope
from ggscope.analysis.workers import Watcher, n_workers, share_out
from ggscope.model.selection import By, Filter, SpanGroup
from ggscope.model.tables import I64, Array, Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.native.library import library

MANTISSA = 12
"""Buckets are 2^-12 as wide as their values; below 4096 each value has its own."""
_N_CODES = (64 - MANTISSA) << MANTISSA
MAX_BARS = 80


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Bars, ascending.

    Attributes
    ----------
    edges : int64[n + 1]; bar k holds the amounts from edges[k] to below edges[k + 1].
    counts : int64[n], of all.
    own : int64[n], of the group; zeros without one.
    """

    edges: I64
    counts: I64
    own: I64


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """How the amounts of spans are distributed.

    Attributes
    ----------
    of : what is counted; times are of spans, the others of ops, each counted once.
    low, high : the least and the largest amount; -1 where none is known.
    n : spans, or ops, whose amount is known; n_unknown : the others.
    group : whose amounts are kept apart; None = of none.
    counts, own : int64[n_buckets], of all and of the group.
    worst_used : the worst quality whose times are used.
    """

    of: Amount
    low: int
    high: int
    n: int
    n_unknown: int
    group: SpanGroup | None
    counts: I64
    own: I64
    worst_used: Quality

    def bars(self, *, is_log: bool, limit: int = MAX_BARS) -> Bars:
        """Return at most about `limit` bars over a linear or logarithmic axis."""
        if self.n == 0:
            none = np.zeros(0, np.int64)
            return Bars(np.zeros(1, np.int64), none, none)
        edges = (_log_edges if is_log else _even_edges)(self.low, self.high, limit)
        at = _codes(edges)
        sums = (np.concatenate([[0], np.cumsum(c)]) for c in (self.counts, self.own))
        counts, own = (np.diff(total[at]) for total in sums)
        return Bars(edges, counts, own)

    def within(self, low: int, stop: int, where: Filter) -> Filter:
        """Return `where`, narrowed to the amounts from `low` to below `stop`.

        It matches what the bars between these edges count.
        """
        parts: dict[str, Any] = {f"min_{self.of}": low, f"max_{self.of}": stop - 1}
        narrowed = replace(where, **parts)
        if self.of != "duration" or self.worst_used == Quality.UNFINISHED:
            return narrowed
        used = frozenset(int(q) for q in Quality if q <= self.worst_used)
        if self.n_unknown:
            known = used if where.qualities is None else where.qualities & used
            narrowed = replace(narrowed, qualities=known)
        return narrowed


def distribution(
    trace: Trace,
    of: Amount,
    *,
    by: By = "op",
    group: SpanGroup | None = None,
    mask: Array | None = None,
    ids: Array | None = None,
    time: TimeRange | None = None,
    include_estimated: bool = False,
    blocks: SpanBlocks | None = None,
    watcher: Watcher | None = None,
) -> Distribution:
    """Return how the amounts of the spans that ``stat_table`` counts are distributed.

    Parameters
    ----------
    group : of whom to count apart; only its groupings and labels matter.
    by, mask, ids, time, include_estimated, blocks, watcher : as of ``stat_table``.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    s = trace.spans
    worst_used = Quality.UNFINISHED if include_estimated else Quality.DERIVED
    if ids is not None:
        chosen = np.zeros(len(s), np.bool_)
        chosen[np.asarray(ids, np.int64)] = True
        mask = chosen if mask is None else chosen & mask
    scope = SpanScope(mask, time, by not in WITHOUT_OPS or of != "duration")
    amount, tests = amounts(trace, of), _tests(trace, group)
    n_parts = n_workers()
    counts, own = np.zeros((2, n_parts, _N_CODES), np.int64)
    low, high = np.full(n_parts, np.iinfo(np.int64).max), np.full(n_parts, -1)
    n_all = np.zeros(n_parts, np.int64)

    def count(worker: int, rows: slice) -> None:
        row_ids = np.arange(rows.start, rows.stop)
        keep = scope.of(s, row_ids)
        if of != "duration":  # of ops, each once
            keep &= ~is_repeated(s.flags[rows])
        values = amount(rows)
        n_all[worker] += np.count_nonzero(keep)
        keep &= values >= 0
        if of == "duration":
            keep &= quality_of(s.flags[rows]) <= worst_used
        chosen = values[keep]
        if not len(chosen):
            return
        low[worker] = min(low[worker], chosen.min())
        high[worker] = max(high[worker], chosen.max())
        kernel = library().ggscope_statistics_bucket
        kernel(chosen, len(chosen), MANTISSA, counts[worker])
        if tests:
            row_ids = row_ids[keep]
            member = np.ones(len(row_ids), np.bool_)
            for is_member in tests:
                member &= is_member(row_ids)
            kernel(chosen[member], int(np.count_nonzero(member)), MANTISSA, own[worker])

    blocks = SpanBlocks(trace) if blocks is None else blocks
    share_out(count, blocks.touching(time), watcher)
    total = counts.sum(axis=0)
    n = int(total.sum())
    return Distribution(
        of, int(low.min()) if n else -1, int(high.max()), n, int(n_all.sum()) - n,
        group, total, own.sum(axis=0), worst_used,
    )  # fmt: skip


def _tests(trace: Trace, group: SpanGroup | None) -> list[Callable[[Array], Array]]:
    if group is None:
        return []
    pairs = [(group.by, group.key), *([group.also] if group.also else [])]
    tests = []
    for by, key in pairs:
        groups = grouping(trace, by)
        tests.append(member_test(groups, groups_called(groups, frozenset({key}))))
    return tests


def _codes(values: I64) -> I64:
    """Return the bucket of each value; as the kernel."""
    # Exact below 2^63: a float of 53 bits may round up to the next power of two.
    bits = np.array([int(v).bit_length() for v in values.tolist()], np.int64)
    shift = np.maximum(bits - 1 - MANTISSA, 0)
    codes: I64 = (shift << MANTISSA) + (values >> shift)
    return codes


def _even_edges(low: int, high: int, limit: int) -> I64:
    """Return edges equally far from each other, from `low` down to above `high`."""
    grain = 1 << max(high.bit_length() - 1 - MANTISSA, 0)
    step = max(-(-(high - low + 1) // limit), 1)
    step = -(-step // grain) * grain
    first = low // grain * grain
    n = (high - first) // step + 1
    return first + step * np.arange(n + 1, dtype=np.int64)


def _log_edges(low: int, high: int, limit: int) -> I64:
    """Return edges in equal proportion, nearly: powers of two in equal parts."""
    first, last = max(low, 1).bit_length() - 1, max(high, 1).bit_length() - 1
    parts = 1 << max((limit // (last - first + 1)).bit_length() - 1, 0)
    parts = min(parts, 1 << MANTISSA)
    edges = [
        ((parts + part) << octave) // parts
        for octave in range(first, last + 1)
        for part in range(parts)
    ]
    edges.append(1 << (last + 1))
    whole = sorted(set(edges))
    at_most_low = [edge for edge in whole if edge <= low]
    above_high = [edge for edge in whole if edge > high]
    log_edges = [e for e in whole if e >= (at_most_low[-1] if at_most_low else 0)]
    log_edges = [e for e in log_edges if not above_high or e <= above_high[0]]
    return np.array([0, *log_edges] if low == 0 else log_edges, np.int64)
