"""The matrix of layers by tokens against a pivot in plain Python."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from builders import llama_like_trace, statistics
from ggscope.analysis.statistics import token_layers as module
from ggscope.analysis.statistics.token_layers import token_layers
from ggscope.errors import Cancelled
from ggscope.model.tables import Quality, SpanFlag, quality_of
from ggscope.model.units import TimeRange
from watchers import CancelAfter


def pivot(trace, of) -> dict[tuple[int, int], int]:
    spans, counts = trace.spans, Counter()
    for i in range(len(spans)):
        if spans.op[i] >= 0:
            counts[int(spans.layer[i]), int(spans.token[i])] += of(i)
    return {key: value for key, value in counts.items() if value}


def cells(result, matrix) -> dict[tuple[int, int], int]:
    return {
        (int(result.layers[r]), int(result.tokens[c])): int(matrix[r, c])
        for r, c in zip(*np.nonzero(matrix), strict=True)
    }


def test_token_layers_equal_a_pivot():
    trace = llama_like_trace(tokens=5, layers=3)
    spans = trace.spans
    n_bytes = trace.accesses.bytes_read_written()
    good = quality_of(spans.flags) <= Quality.DERIVED

    layers = token_layers(trace)

    assert cells(layers, layers.ops) == pivot(trace, lambda i: 1)
    assert cells(layers, layers.bytes) == pivot(trace, lambda i: int(n_bytes[i]))
    assert cells(layers, layers.ticks) == pivot(
        trace, lambda i: int(spans.end[i] - spans.start[i]) if good[i] else 0
    )


def test_token_layers_agree_with_statistics():
    trace = llama_like_trace(tokens=4, layers=3)

    layers = token_layers(trace)

    by_layer = {row.key: row.count for row in statistics(trace, "layer")}
    for layer, n in zip(layers.layers.tolist(), layers.ops.sum(axis=1), strict=True):
        assert by_layer["none" if layer < 0 else str(layer)] == n


def test_token_layers_of_a_range_and_a_mask_count_these_ops_only():
    trace = llama_like_trace(tokens=4, layers=2)
    time = TimeRange(trace.extent.start, trace.extent.duration // 2)
    mask = np.arange(len(trace.spans)) % 3 == 0

    layers = token_layers(trace, time=time, mask=mask)

    start = trace.spans.start
    expected = mask & (start >= time.start) & (start < time.end)
    expected &= trace.spans.op >= 0
    assert layers.ops.sum() == np.count_nonzero(expected)


def test_token_layers_by_pass_put_every_op_into_one():
    trace = llama_like_trace(tokens=4, layers=2)

    layers = token_layers(trace, "pass")

    assert layers.ops.sum() == np.count_nonzero(trace.spans.op >= 0)
    assert len(layers.tokens) >= 4


def test_token_layers_leave_estimated_times_out_and_say_how_many():
    trace = llama_like_trace(tokens=2, layers=2)
    estimated = (trace.spans.flags & int(SpanFlag.ESTIMATED | SpanFlag.UNFINISHED)) != 0

    layers = token_layers(trace)

    assert layers.n_left_out == np.count_nonzero(estimated & (trace.spans.op >= 0))


def test_token_layers_stop_when_cancelled():
    with pytest.raises(Cancelled):
        token_layers(llama_like_trace(), watcher=CancelAfter(0))


@pytest.mark.parametrize("max_cells", [1, 17, 40, 1000])
def test_columns_of_several_tokens_hold_what_each_of_them_has(monkeypatch, max_cells):
    trace = llama_like_trace(tokens=9, layers=3)
    token = trace.spans.token.copy()
    token[::7] = -1  # some ops are of no token
    trace = replace(trace, spans=replace(trace.spans, token=token))
    each = token_layers(trace)
    monkeypatch.setattr(module, "_MAX_CELLS", max_cells)

    layers = token_layers(trace)

    assert layers.layers.tolist() == each.layers.tolist()
    held = np.searchsorted(layers.tokens[:-1], each.tokens[:-1], "right") - 1
    held = np.append(held, len(layers.tokens) - 1)
    for name in ("ops", "bytes", "ticks"):
        sums = np.zeros_like(getattr(layers, name))
        np.add.at(sums.T, held, getattr(each, name).T)
        assert np.array_equal(getattr(layers, name), sums), name
    assert layers.names[-1] == each.names[-1] == "none"
    last = each.names[-2]
    wide = {1: f"0–{last}", 1000: last}
    assert layers.names[-2] == wide.get(max_cells, layers.names[-2])
    assert len(layers.tokens) == len(set(held.tolist()))
