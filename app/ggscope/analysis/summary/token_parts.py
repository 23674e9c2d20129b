"""What the time of tokens consists of, where counters split it."""

import numpy as np

from ggscope.analysis.summary.bars import TokenBars
from ggscope.model.trace import Trace

_SPLITS = (("compute", "stall", "mgmt"),)
"""Names of counters that add up to the wall time of each token: of BigMoeOnEdge."""
_MS_PER_S = 1e3
_SLACK = 0.01
"""Parts that differ from the tokens by more are not parts of them."""


def token_parts(trace: Trace, bars: TokenBars) -> tuple[tuple[str, float], ...]:
    """Return the parts of the time of tokens as shares, the largest first; () unknown.

    A counter counts where it has one sample in ms at the begin of each token.
    """
    per_s = trace.clock.per_s
    if not per_s or not len(bars) or not bars.is_timed.all():
        return ()
    counters = {
        counter.name: counter
        for counter in trace.counters
        if counter.unit == "ms" and np.array_equal(counter.time, bars.start)
    }
    whole = float(bars.duration.sum()) / per_s * _MS_PER_S
    for names in _SPLITS:
        if not whole or not all(name in counters for name in names):
            continue
        sums = {name: float(counters[name].value.sum()) for name in names}
        if abs(sum(sums.values()) - whole) > _SLACK * whole or min(sums.values()) < 0:
            continue
        shares = [(name, ms / whole) for name, ms in sums.items()]
        return tuple(sorted(shares, key=lambda part: -part[1]))
    return ()
