"""Spans in the order of lanes and starts, whatever order they come in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggscope.readers.common.nesting import by_lane_and_start

SPANS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), max_size=12
)


def columns(spans: list[tuple[int, int, int]]) -> tuple[np.ndarray, ...]:
    lane, start, length = np.array(spans, np.int64).reshape(-1, 3).T
    return lane, start, start + length


@given(SPANS)
def test_lanes_then_starts_then_longer_ones(spans):
    lane, start, end = columns(spans)

    order = by_lane_and_start(lane, start, end)

    expected = np.lexsort((np.arange(len(lane)), -end, start, lane))
    assert order.tolist() == expected.tolist()


@pytest.mark.parametrize("by", [(0, 1), (1, 0), (1,), (0,)])
def test_columns_that_are_sorted_in_part(by):
    rng = np.random.default_rng(7)
    spans = [tuple(rng.integers(0, 20, 3).tolist()) for _ in range(200)]
    spans.sort(key=lambda span: tuple(span[i] for i in by))
    lane, start, end = columns(spans)

    order = by_lane_and_start(lane, start, end)

    expected = np.lexsort((np.arange(len(lane)), -end, start, lane))
    assert order.tolist() == expected.tolist()
