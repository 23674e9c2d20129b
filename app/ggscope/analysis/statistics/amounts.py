"""What a span amounts to: its time, the bytes that it accesses, and their rate.

Histograms and the filters ``dur``, ``traffic`` and ``rate`` share them, so that a
range of one is exactly what the other finds.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from ggscope.analysis.reads.op_io import op_accesses
from ggscope.analysis.reads.shared import op_owners, op_times
from ggscope.analysis.statistics.grouping import SpanBytes
from ggscope.model.tables import I64, Quality, quality_of
from ggscope.model.trace import Trace

Amount = Literal["duration", "traffic", "rate"]
AMOUNTS: tuple[Amount, ...] = get_args(Amount)
Amounts = Callable[[slice], I64]
"""Returns the amounts of the spans of some rows, int64; -1 where not known."""
PER_RATE = 10**9
"""Rates are bytes in so many ticks: bytes per second where ticks are nanoseconds."""


def amounts(trace: Trace, of: Amount) -> Amounts:
    """Return what gives the amounts of spans."""
    return {"duration": durations, "traffic": traffic, "rate": rates}[of](trace)


def durations(trace: Trace) -> Amounts:
    """Return the lengths of spans, ticks; never unknown."""
    s = trace.spans
    return lambda rows: np.maximum(s.end[rows] - s.start[rows], 0)


def traffic(trace: Trace) -> Amounts:
    """Return the known bytes that the op of each span moves, as statistics count them.

    Not known where not even a part of them is.
    """
    entries, sizes = op_accesses(trace), SpanBytes(trace)

    def of(rows: slice) -> I64:
        ids = np.arange(rows.start, rows.stop)
        result: I64 = sizes.per_entry[entries.entries(rows)]
        place, row = sizes.loose.of(ids)
        result[place] += sizes.loose.size[row]
        result[(result == 0) & sizes.open_of(ids)] = -1
        return result

    return of


def rates(trace: Trace) -> Amounts:
    """Return known bytes per `PER_RATE` ticks of the op of each span, rounded down.

    An op takes from its first thread's begin to its last one's end. Not known where
    the bytes are not, or the time is neither measured nor derived, or none.
    """
    s, times = trace.spans, op_times(trace)
    owner = None if times.ticks is None else op_owners(trace)
    if not times.is_known or (times.ticks is not None and owner is None):
        return lambda rows: np.full(rows.stop - rows.start, -1, np.int64)
    n_bytes_of = traffic(trace)

    def of(rows: slice) -> I64:
        ticks = s.end[rows] - s.start[rows]
        if times.ticks is not None and owner is not None:
            of_op = np.where(owner[rows] >= 0, times.ticks[owner[rows]], -1)
            ticks = np.where(s.op[rows] >= 0, of_op, ticks)
        n_bytes = n_bytes_of(rows)
        known = (n_bytes >= 0) & (ticks > 0)
        known &= quality_of(s.flags[rows]) <= Quality.DERIVED
        result = np.full(len(ticks), -1, np.int64)
        result[known] = n_bytes[known] / ticks[known] * PER_RATE
        return result

    return of
