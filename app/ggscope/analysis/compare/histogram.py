"""Durations of a group's spans on both sides, in the same bins."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.compare.alignment import Alignment
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.statistics.members import spans_of_group
from ggscope.analysis.workers import Watcher
from ggscope.model.selection import By, SpanGroup
from ggscope.model.tables import I64, Quality, quality_of
from ggscope.model.trace import Trace

F64 = npt.NDArray[np.float64]
BINS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Durations:
    """Durations of spans of one side.

    Attributes
    ----------
    counts : float64[bins], spans per run: whole numbers of one run.
    n : spans of all runs, of which `timed` have a known time.
    median : ticks, over all runs; None without a known time.
    """

    counts: F64
    n: int
    timed: int
    median: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Durations of both sides in the same bins.

    Attributes
    ----------
    key : of the group.
    edges : float64[bins + 1], ticks; of a logarithmic axis in equal ratios, where a
        duration below 1 tick counts as 1. The last bin holds its upper edge.
    """

    key: str
    is_log: bool
    edges: F64
    a: Durations
    b: Durations


def duration_histogram(
    traces: Sequence[Trace],
    alignment: Alignment,
    n_a: int,
    by: By,
    keys: Sequence[str],
    *,
    is_log: bool = False,
    bins: int = BINS,
    watcher: Watcher | None = None,
) -> Histogram:
    """Return the durations of a group's spans in what is compared.

    Parameters
    ----------
    traces, alignment, n_a : of all runs, those of A first.
    keys : what each run calls the group.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    durations, counts = [], []
    for trace, run, key in zip(traces, alignment.runs, keys, strict=True):
        ids = spans_of_group(TraceIndex(trace), SpanGroup(by, key), watcher)
        if run.mask is not None:
            ids = ids[run.mask[ids]]
        timed = ids[quality_of(trace.spans.flags[ids]) <= Quality.DERIVED]
        counts.append(len(ids))
        durations.append(trace.spans.end[timed] - trace.spans.start[timed])
    edges = bin_edges(np.concatenate(durations), bins, is_log=is_log)
    sides = []
    for part in (slice(n_a), slice(n_a, None)):
        ticks = durations[part]
        whole = np.concatenate(ticks)
        per_bin = count_in_bins(whole, edges) / len(ticks)
        median = float(np.median(whole)) if len(whole) else None
        sides.append(Durations(per_bin, sum(counts[part]), len(whole), median))
    return Histogram(keys[0], is_log, edges, sides[0], sides[1])


def bin_edges(ticks: I64, bins: int, *, is_log: bool) -> F64:
    """Return the edges of bins from the shortest to the longest, float64[bins + 1]."""
    low, high = (float(ticks.min()), float(ticks.max())) if len(ticks) else (0.0, 1.0)
    if is_log:
        low = max(low, 1.0)
        high = max(high, low * 1.01)
        edges = np.geomspace(low, high, bins + 1)
        edges[0], edges[-1] = low, high
        return edges
    return np.linspace(low, high if high > low else low + 1, bins + 1)


def count_in_bins(ticks: I64, edges: F64) -> F64:
    """Return how many durations lie in each bin, float64[bins]; none is left out."""
    at = np.searchsorted(edges, ticks, "right") - 1
    at = np.clip(at, 0, len(edges) - 2)
    return np.bincount(at, minlength=len(edges) - 1).astype(np.float64)
