"""Durations of the spans of an op, a name or a row of statistics."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.reads.op_io import is_repeated
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.statistics.members import spans_of_group
from ggscope.analysis.statistics.table import histogram
from ggscope.analysis.workers import Watcher
from ggscope.model.selection import SpanGroup
from ggscope.model.tables import Array, Quality, quality_of
from ggscope.model.trace import Trace

BINS = 40


@dataclass(frozen=True, slots=True, eq=False)
class DurationStats:
    """Durations of spans, ticks.

    Attributes
    ----------
    n : number of spans; the duration of `timed` of them is known.
    n_ops : number of ops, each counted once however many threads compute it.
    counts, edges : histogram, int64[bins] and float64[bins + 1].
    low, high : shortest and longest.
    total : sum of the durations.
    """

    n: int
    timed: int
    counts: Array
    edges: Array
    p50: float
    p99: float
    low: int
    high: int
    n_ops: int
    total: int = 0


def op_durations(
    trace: Trace, span: int, watcher: Watcher | None = None
) -> DurationStats:
    """Return the durations of all spans like `span`. Raises Cancelled."""
    return span_durations(trace, spans_like(trace, span), watcher)


def group_durations(
    index: TraceIndex, group: SpanGroup, watcher: Watcher | None = None
) -> DurationStats:
    """Return the durations of a row of statistics. Raises Cancelled."""
    return span_durations(index.trace, spans_of_group(index, group, watcher), watcher)


def span_durations(
    trace: Trace, ids: Array, watcher: Watcher | None = None
) -> DurationStats:
    """Return the durations of the spans `ids`. Raises Cancelled between its steps."""
    if watcher is not None:
        watcher.progress(0, 2)
    n_ops = int(np.count_nonzero(~is_repeated(trace.spans.flags[ids])))
    quality = quality_of(trace.spans.flags[ids])
    timed = ids[quality <= Quality.DERIVED]
    if not len(timed):
        none = np.zeros(0, np.int64)
        return DurationStats(len(ids), 0, none, none, np.nan, np.nan, 0, 0, n_ops)
    ticks = trace.spans.end[timed] - trace.spans.start[timed]
    if watcher is not None:
        watcher.progress(1, 2)
    p50, p99 = map(float, np.percentile(ticks, [50, 99]))
    counts, edges = histogram(trace, timed, BINS)
    low, high = int(ticks.min()), int(ticks.max())
    return DurationStats(
        len(ids), len(timed), counts, edges, p50, p99, low, high, n_ops,
        int(ticks.sum()),
    )  # fmt: skip


def spans_like(trace: Trace, span: int) -> Array:
    """Return the ids of all spans of the same op; without an op, of the same name."""
    spans = trace.spans
    if int(spans.op[span]) >= 0:
        return np.flatnonzero(spans.op == spans.op[span])
    is_same = (spans.name == spans.name[span]) & (spans.lane == spans.lane[span])
    return np.flatnonzero(is_same & (spans.op < 0))
