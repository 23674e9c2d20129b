"""Colours of tokens by their latency, where they are too narrow for a label.

Grey up to the median, the more of the warning colour the longer, all of it at twice the
median, where the token latency pane marks outliers in the same colour.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.summary.latency import SLOW, TypicalLatency, typical_latency
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.render.batch import U32
from ggscope.render.theme import Theme, mix
from ggscope.render.timeline.scene import TimeScale

PLAIN_PX, COLORED_PX = 44.0, 22.0
"""Tokens of the median latency are grey from so wide on; coloured where narrower."""
_STEPS = 64
_SEEN = 0.1
"""So far from grey a colour is seen to be another one."""
_TOKEN_LANE = "token"

_typical: DerivedCache[TraceIndex, TypicalLatency] = DerivedCache("latency of tokens")


def token_latency_of(index: TraceIndex) -> TypicalLatency:
    """Return what the latency of tokens of the token lane is held against."""
    known = _typical.get(index)
    if known is None:
        known = typical_latency(index.trace.spans, _token_ids(index))
        _typical[index] = known
    return known


def colored_share(time: TimeScale, typical: TypicalLatency) -> float:
    """Return how far tokens are coloured at a zoom, 0 = not at all, 1 = wholly."""
    if typical.median <= 0:
        return 0.0
    width = typical.median * time.px_per_tick
    return min(max((PLAIN_PX - width) / (PLAIN_PX - COLORED_PX), 0.0), 1.0)


def has_slow_tokens(index: TraceIndex, time: TimeScale) -> bool:
    """Return whether the colour of a token in view says that it is slow."""
    typical, spans = token_latency_of(index), index.trace.spans
    if colored_share(time, typical) <= 0:
        return False
    ids = _token_ids(index)
    visible = time.visible
    inside = (spans.start[ids] < visible.end) & (spans.end[ids] > visible.start)
    slow = slowness(index.trace, ids[inside], typical)
    return bool((slow > _SEEN).any())


def _token_ids(index: TraceIndex) -> I64:
    """Return the spans of the token lane."""
    ids: list[I64] = [np.zeros(0, np.int64)]
    if index.lanes.position(_TOKEN_LANE) >= 0:
        ids += [np.asarray(row.id, np.int64) for row in index.rows(_TOKEN_LANE)]
    return np.concatenate(ids)


def slowness(
    trace: Trace, ids: I64, typical: TypicalLatency
) -> npt.NDArray[np.float64]:
    """Return how slow tokens are: 0 up to the median, 1 from twice of it on.

    0 of those that the median is not about, such as those of the prompt.
    """
    slow = np.clip((typical.ratios(trace.spans, ids) - 1) / (SLOW - 1), 0, 1)
    return np.nan_to_num(slow, nan=0.0)


def latency_colors(
    slow: npt.NDArray[np.float64], plain: int, share: float, theme: Theme
) -> U32:
    """Return the colours of tokens, opaque; `plain` is that of those up to the median.

    `share` is how far they are coloured, see `colored_share`.
    """
    steps = _steps(plain, theme.caution, round(share * _STEPS))
    colors: U32 = steps[np.rint(slow * _STEPS).astype(np.int64)]
    return colors


@lru_cache(maxsize=4 * _STEPS)
def _steps(plain: int, slow: int, share: int) -> U32:
    """Return the colours between two, as far as `share` of `_STEPS`."""
    shares = [share * i / _STEPS**2 for i in range(_STEPS + 1)]
    return np.array([mix(plain, slow, at) for at in shares], np.uint32)
