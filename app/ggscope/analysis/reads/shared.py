"""Ops that several threads compute together: each thread has a span, the op one."""

import numpy as np

from ggscope.analysis.once import once
from ggscope.analysis.reads.account import is_repeated
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64
from ggscope.model.trace import Trace

_MOST_SPANS = 1 << 23
"""Of a longer trace nobody looks for the other spans of an op: people wait for it."""


@once
def has_shared_ops(trace: Trace) -> bool:
    """Tell whether some span tells of an op that another thread's tells of too."""
    flags = trace.spans.flags
    return any(bool(is_repeated(flags[piece]).any()) for piece in chunks(len(flags)))


def spans_of_op(trace: Trace, span: int) -> I64 | None:
    """Return the spans of the op that a span tells of, itself among them, ascending.

    One per thread. None where the threads share ops and the trace is too long to look
    for them.
    """
    spans, own = trace.spans, np.array([span], np.int64)
    if int(spans.op[span]) < 0 or not has_shared_ops(trace):
        return own
    if len(spans) > _MOST_SPANS:
        return None
    is_like = (spans.name == spans.name[span]) & (spans.op == spans.op[span])
    pattern = trace.accesses.pattern
    if len(pattern):
        is_like &= pattern == pattern[span]
    ids = np.flatnonzero(is_like)
    start = spans.start[ids]
    firsts = np.sort(start[~is_repeated(spans.flags[ids])])
    if not len(firsts):
        return own
    # Threads begin an op at nearly the same time: each span is of the nearest first.
    borders = firsts[:-1] + np.diff(firsts) // 2
    of_op = np.searchsorted(borders, start, "left")
    mine = of_op == of_op[np.searchsorted(ids, span)]
    ids, away = ids[mine], np.abs(start[mine] - int(spans.start[span]))
    order = np.lexsort((away, spans.lane[ids]))
    _, nearest = np.unique(spans.lane[ids][order], return_index=True)
    return np.sort(ids[order][nearest])
