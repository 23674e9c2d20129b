"""Unions of intervals against a count of every tick."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ggscope.analysis.npu.intervals import union

INTERVALS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-9, 40), st.integers(0, 9)), max_size=30
)
EDGES = st.lists(st.integers(-15, 60), min_size=2, max_size=12).map(sorted)


def ticks_of(intervals: list[tuple[int, int, int]], group: int) -> set[int]:
    """Return every tick that the intervals of a group hold."""
    return {
        tick
        for g, start, length in intervals
        if g == group
        for tick in range(start, start + length)
    }


@given(INTERVALS, EDGES)
def test_union_covers_what_a_count_of_ticks_covers(
    intervals: list[tuple[int, int, int]], edges: list[int]
) -> None:
    table = np.array(intervals, np.int64).reshape(-1, 3)

    result = union(table[:, 0], table[:, 1], table[:, 1] + table[:, 2], 3)
    at = np.array(edges, np.int64)

    for group in range(3):
        ticks = ticks_of(intervals, group)
        expected = [
            sum(low <= tick < high for tick in ticks) for low, high in pairwise(edges)
        ]
        assert result.covered(group, at[:-1], at[1:]).tolist() == expected
        assert result.totals[group] == len(ticks)


@given(INTERVALS)
def test_intervals_of_a_union_lie_apart(intervals: list[tuple[int, int, int]]) -> None:
    table = np.array(intervals, np.int64).reshape(-1, 3)

    result = union(table[:, 0], table[:, 1], table[:, 1] + table[:, 2], 3)

    for group in range(3):
        mine = slice(*result.first[group : group + 2].tolist())
        start, end = result.start[mine], result.end[mine]
        assert (start[1:] > end[:-1]).all()
