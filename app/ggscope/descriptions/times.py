"""What the times of ops include besides, for every place that shows times."""

import numpy as np

from ggscope.analysis.once import once
from ggscope.analysis.reads.unrecorded import has_derived_times
from ggscope.analysis.sessions.problems import unrecorded_text
from ggscope.analysis.workers import chunks
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from ggscope.model.units import format_count


def unrecorded_time_text(trace: Trace) -> str:
    """Return that derived durations include ops without a record; "" for none."""
    texts = [text for join in trace.joins if (text := unrecorded_text(join))]
    if not texts or not has_derived_times(trace):
        return ""
    return (
        f"{texts[0]}. Derived durations last until the next record, so they include "
        "these ops: durations of other ops are upper limits."
    )


@once
def fused_ops(trace: Trace) -> dict[str, int]:
    """Return how many ops include the node behind them, which was fused; by name."""
    spans, counts_of = trace.spans, dict[str, int]()
    fused_or_repeated = int(SpanFlag.FUSED | SpanFlag.REPEATED)
    for chunk in chunks(len(spans)):
        flags = spans.flags[chunk].astype(np.uint16)  # readers of files need fewer bits
        is_fused = (flags & fused_or_repeated) == int(SpanFlag.FUSED)
        ops, counts = np.unique(spans.op[chunk][is_fused], return_counts=True)
        for op, count in zip(ops.tolist(), counts.tolist(), strict=True):
            name = trace.op_name(op)
            counts_of[name] = counts_of.get(name, 0) + count
    return counts_of


def fused_text(trace: Trace) -> str:
    """Return which ops include the node behind them, which was fused; "" for none."""
    fused = fused_ops(trace)
    if not fused:
        return ""
    listed = ", ".join(f"{name} {format_count(n)}" for name, n in fused.items())
    return (
        f"{format_count(sum(fused.values()))} ops were fused with the node behind them "
        f"and include its time and bytes ({listed})."
    )


def time_notes(trace: Trace) -> tuple[str, ...]:
    """Return what sums of times include that their rows do not name."""
    return tuple(
        text for text in (unrecorded_time_text(trace), fused_text(trace)) if text
    )
