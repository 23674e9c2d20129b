"""Time of the ops of layers against a sum in Python."""

import numpy as np
import pytest

from builders import empty_trace, llama_like_trace, npu_like_trace
from ggscope.analysis.layers import layer_activity
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange


def by_hand(trace: Trace, time: TimeRange | None, mask: np.ndarray | None) -> dict:
    spans, totals = trace.spans, {}
    for i in range(len(spans)):
        layer = int(spans.layer[i])
        if layer < 0:
            continue
        totals.setdefault(layer, 0)
        if spans.op[i] < 0 or (mask is not None and not mask[i]):
            continue
        begin, end = int(spans.start[i]), int(spans.end[i])
        if time is not None:
            begin, end = max(begin, time.start), min(end, time.end)
        totals[layer] += max(end - begin, 0)
    return totals


@pytest.mark.parametrize("share", [None, (0.2, 0.5), (0.0, 0.01), (0.9, 1.0)])
@pytest.mark.parametrize("is_filtered", [False, True])
def test_layers_take_the_time_of_their_ops(
    share: tuple[float, float] | None, is_filtered: bool
) -> None:
    trace = llama_like_trace(tokens=3)
    extent = trace.extent
    time = None
    if share is not None:
        begin, end = (extent.start + int(extent.duration * s) for s in share)
        time = TimeRange(begin, end)
    mask = np.arange(len(trace.spans)) % 2 == 0 if is_filtered else None

    activity = layer_activity(trace, time, mask)

    assert dict(zip(activity.layer.tolist(), activity.ticks.tolist(), strict=True)) == (
        by_hand(trace, time, mask)
    )


def test_shares_are_of_the_busiest_layer() -> None:
    activity = layer_activity(llama_like_trace())

    assert activity.shares.max() == 1.0
    assert np.allclose(activity.shares * activity.ticks.max(), activity.ticks)


@pytest.mark.parametrize("trace", [empty_trace, npu_like_trace])
def test_trace_without_layers_or_ops_has_no_busy_ones(trace) -> None:
    activity = layer_activity(trace())

    assert not len(activity) or np.isfinite(activity.shares).all()
