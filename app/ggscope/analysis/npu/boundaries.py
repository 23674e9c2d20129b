"""When tokens begin, and when the layer that engines work on changes."""

import numpy as np

from ggscope.analysis.once import once
from ggscope.model.tables import I64
from ggscope.model.trace import Trace


@once
def token_starts(trace: Trace) -> I64:
    """Return when tokens begin, int64[n] ascending."""
    is_token = trace.lanes.is_token[trace.spans.lane.astype(np.int64)]
    return np.sort(trace.spans.start[is_token])


@once
def layer_starts(trace: Trace) -> I64:
    """Return when spans of engines begin that are of another layer than the one before.

    int64[n], ascending; spans without a layer are passed over.
    """
    spans = trace.spans
    if spans.layer is None:
        return np.zeros(0, np.int64)
    is_mine = trace.lanes.is_engine[spans.lane.astype(np.int64)] & (spans.layer >= 0)
    ids = np.flatnonzero(is_mine)
    ids = ids[np.argsort(spans.start[ids], kind="stable")]
    layer = spans.layer[ids]
    starts: I64 = spans.start[ids[1:][layer[1:] != layer[:-1]]]
    return starts
