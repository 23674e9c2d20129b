"""What the times of ops hold besides, for every place that shows times."""

import numpy as np

from ggscope.analysis.once import once
from ggscope.analysis.reads.unrecorded import time_words
from ggscope.analysis.workers import chunks
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from ggscope.model.units import format_count


@once
def fused_ops(trace: Trace) -> dict[str, int]:
    """Return how many ops hold the node behind them, which ran within; by name."""
    spans, found = trace.spans, dict[str, int]()
    fused_or_repeated = int(SpanFlag.FUSED | SpanFlag.REPEATED)
    for piece in chunks(len(spans)):
        flags = spans.flags[piece].astype(np.uint16)  # readers of files need fewer bits
        is_fused = (flags & fused_or_repeated) == int(SpanFlag.FUSED)
        ops, counts = np.unique(spans.op[piece][is_fused], return_counts=True)
        for op, count in zip(ops.tolist(), counts.tolist(), strict=True):
            name = trace.op_name(op)
            found[name] = found.get(name, 0) + count
    return found


def fused_words(trace: Trace) -> str:
    """Return "18 ops hold the node behind them: RMS_NORM 18"; "" for none."""
    found = fused_ops(trace)
    if not found:
        return ""
    listed = ", ".join(f"{name} {format_count(n)}" for name, n in found.items())
    return (
        f"The node behind {format_count(sum(found.values()))} ops ran within them and "
        f"has no row: their times and bytes are of both ({listed})."
    )


def time_notes(trace: Trace) -> tuple[str, ...]:
    """Return what sums of times hold that their rows do not name."""
    return tuple(words for words in (time_words(trace), fused_words(trace)) if words)
