"""Counting, placing and looking up codes: compiled and in numpy."""

import numpy as np
import pytest

import builders
from ggscope.analysis.rows import kernels as native
from ggscope.analysis.rows.categories import categorize
from ggscope.analysis.rows.groups import count_values, group_parts, group_spans
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import count_work, work_column

TYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64)
COLORINGS = (
    "family",
    "op",
    "layer",
    "token",
    "thread",
    "phase",
    "source",
    "quality",
)


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch) -> str:
    if request.param == "numpy":
        monkeypatch.setattr(native, "kernel", lambda: None)
    elif native.builder() is None:
        pytest.skip("the compiled kernels were not built")
    return request.param


def column(dtype: type, n: int = 3_000, n_values: int = 11) -> np.ndarray:
    rng = np.random.default_rng(n)
    low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -1
    return rng.integers(low, n_values, n).astype(dtype)


@pytest.mark.usefixtures("way")
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


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", TYPES)
def test_group_parts_places_the_spans_of_each_group_in_order(dtype):
    values = column(dtype)
    gate = column(np.int8)[::-1].copy()
    parts = [(slice(10, 900), gate[10:900]), (slice(1_000, 3_000), None)]

    found = group_parts(values, 11, parts)

    inside = np.zeros(len(values), np.bool_)
    inside[10:900] = gate[10:900] >= 0
    inside[1_000:] = True
    for group in range(11):
        expected = np.flatnonzero(inside & (values == group))
        assert np.array_equal(found.ids(group), expected)
    assert found.order.dtype == np.int32


@pytest.mark.usefixtures("way")
def test_group_spans_of_a_mixed_column_are_in_order():
    values = column(np.int16)

    found = group_spans(values, 11)

    for group in range(11):
        assert np.array_equal(found.ids(group), np.flatnonzero(values == group))


@pytest.mark.usefixtures("way")
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
    found = TraceIndex(trace)._groups(field)
    for group in range(n):
        ids = np.arange(len(values))[expected.ids(group)]
        assert np.array_equal(found.ids(group), ids)


@pytest.mark.parametrize("by", COLORINGS)
def test_coloring_in_numpy_equals_the_compiled_one(by, monkeypatch):
    for trace in (builders.llama_like_trace(), builders.nested_trace(3, 3)):
        compiled = categorize(trace, by)
        with monkeypatch.context() as patch:
            patch.setattr(native, "kernel", lambda: None)
            plain = categorize(trace, by)

        assert compiled.labels == plain.labels
        assert compiled.keys == plain.keys
        assert compiled.index.dtype == plain.index.dtype
        assert np.array_equal(compiled.index, plain.index)


def test_arrays_that_kernels_cannot_read_are_left_to_numpy():
    codes, wide = np.arange(20, dtype=np.int8), np.arange(20)
    start = np.arange(40)[::2]
    out, total = np.zeros(20, np.uint8), np.zeros(256, np.int64)
    meaning, fine = np.zeros(256, np.uint16), np.zeros((1, 1), np.uint32)

    assert native.count_codes(wide) is None
    assert native.count_codes(codes[::2]) is None
    assert not native.map_codes(wide, meaning, out)
    assert not native.place_codes(codes, None, 0, total, total, out)
    assert native.is_row(start, start) is None
    assert native.seen(wide) is None
    assert not native.fill_prefix(start, start, total)
    assert not native.fill_kept(start, start, out, fine[0], total)
    assert not native.fill_sums(
        start, start, codes, meaning, None, (32, 1), (fine, total)
    )
