"""How much of the run each engine of an accelerator is busy."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.statistics.nesting import MAX_SPANS, covered
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, Quality, quality_of
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class EngineTimes:
    """Times of engines, in ticks.

    Attributes
    ----------
    lane : int64[n], their lanes.
    count : int64[n], spans with a time.
    busy : int64[n], time in which at least one of them ran.
    extent : of the trace; what of it is not busy is idle.
    """

    lane: I64
    count: I64
    busy: I64
    extent: int

    @property
    def idle(self) -> I64:
        """Time in which no span of the engine ran."""
        return self.extent - self.busy


def engine_times(trace: Trace, limit: int = MAX_SPANS) -> EngineTimes | None:
    """Return the times of all engines that a trace has; O(n log n) of their spans.

    Where spans have categories, those without an op are left out: they lie around the
    work, as annotations do. None where engines have more than `limit` spans.
    """
    spans, is_engine = trace.spans, trace.lanes.is_engine
    lanes = np.flatnonzero(is_engine)
    parts = [np.zeros(0, np.int64)]
    if len(lanes):
        for rows in chunks(len(spans)):
            known = quality_of(spans.flags[rows]) <= Quality.DERIVED
            here = is_engine[spans.lane[rows]] & known
            if spans.category is not None:
                here &= spans.op[rows] >= 0
            parts.append(np.flatnonzero(here) + rows.start)
    if sum(len(part) for part in parts) > limit:
        return None
    ids = np.concatenate(parts)
    group = np.searchsorted(lanes, spans.lane[ids])
    busy = covered(group, spans.start[ids], spans.end[ids], len(lanes))
    count = np.bincount(group, minlength=len(lanes)).astype(np.int64)
    return EngineTimes(lanes, count, busy, trace.extent.duration)
