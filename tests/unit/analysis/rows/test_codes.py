"""Counting, placing and looking up codes of spans."""

import numpy as np
import pytest

import builders
from ggscope.analysis.rows.categories import looked_up
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import count_work, work_column
from ggscope.analysis.workers import count_values, group_parts, group_spans

TYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64)


def column(dtype: type, n: int = 3_000, n_values: int = 11) -> np.ndarray:
    rng = np.random.default_rng(n)
    low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -1
    return rng.integers(low, n_values, n).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_count_values_leaves_out_none_and_closed_gates(dtype):
    values = column(dtype)
    for gate_type in (np.int8, np.int16, np.int32):
        gate = column(gate_type)[::-1].copy()
        expected = [int(((values == v) & (gate >= 0)).sum()) for v in range(11)]

        assert count_values(values, 11, gate).tolist() == expected
    assert count_values(values, 11).tolist() == [
        int((values == v).sum()) for v in range(11)
    ]
    assert count_values(values, 40)[11:].tolist() == [0] * 29


@pytest.mark.parametrize("dtype", TYPES)
def test_group_parts_places_the_spans_of_each_group_in_order(dtype):
    values = column(dtype)
    gate = column(np.int8)[::-1].copy()
    parts = [(slice(10, 900), gate[10:900]), (slice(1_000, 3_000), None)]

    result = group_parts(values, 11, parts)

    inside = np.zeros(len(values), np.bool_)
    inside[10:900] = gate[10:900] >= 0
    inside[1_000:] = True
    for group in range(11):
        expected = np.flatnonzero(inside & (values == group))
        assert np.array_equal(result.ids(group), expected)
    assert result.order.dtype == np.int32


def test_group_spans_of_a_mixed_column_are_in_order():
    values = column(np.int16)

    groups = group_spans(values, 11)

    for group in range(11):
        assert np.array_equal(groups.ids(group), np.flatnonzero(values == group))


@pytest.mark.parametrize("field", ["layer", "op"])
def test_work_of_lanes_in_runs_equals_that_of_any_lanes(field):
    trace = builders.llama_like_trace()
    values = getattr(trace.spans, field)
    by_lane = group_spans(trace.spans.lane, len(trace.lanes))
    assert by_lane.order is None

    (fast,) = count_work(trace, [values], by_lane)
    (slow,) = count_work(trace, [values])

    assert fast.tolist() == slow.tolist()
    n = int(values.max()) + 1
    expected = group_spans(work_column(trace, values), n)
    groups = TraceIndex(trace)._groups(field)
    for group in range(n):
        ids = np.arange(len(values))[expected.ids(group)]
        assert np.array_equal(groups.ids(group), ids)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("out", [np.uint8, np.uint16])
def test_codes_are_looked_up_by_their_bits(dtype, out):
    codes = np.arange(-300, 300).astype(dtype)
    meaning = np.arange(1 << 16, dtype=np.uint16)[::-1] % 251
    unsigned = codes.view(f"u{codes.itemsize}")

    assert np.array_equal(looked_up(codes, meaning, out), meaning[unsigned])
    assert np.array_equal(looked_up(codes[::2], meaning, out), meaning[unsigned[::2]])
