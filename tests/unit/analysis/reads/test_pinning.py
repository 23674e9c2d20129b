"""Pinning of units against counts and a simulated cache."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.reads.what_if import miss_curve, pinned, read_with_pinned

units = st.lists(st.integers(0, 5), max_size=40)


@settings(max_examples=60, deadline=None)
@given(units, st.floats(0.05, 1.0))
def test_pinned_is_the_fewest_units_of_one_size(sequence, share):
    size = np.full(6, 7, np.int64)
    gain = [max(sequence.count(u) - 1, 0) for u in range(6)]

    result = pinned(np.array(sequence, np.int64), size, np.ones(6, np.bool_), share)

    assert result.all_hits == sum(gain)
    assert result.hits == sum(gain[u] for u in result.units)
    assert result.hits >= share * sum(gain) - 1e-6
    fewest = next(
        n
        for n in range(7)
        for some in combinations(gain, n)
        if sum(some) >= share * sum(gain) - 1e-6
    )
    assert len(result.units) == fewest
    assert result.size == 7 * fewest


def test_pinned_leaves_out_what_is_no_candidate():
    sequence = np.array([0, 0, 0, 1, 1], np.int64)

    result = pinned(sequence, np.ones(2, np.int64), np.array([False, True]), 0.9)

    assert result.units.tolist() == [1]
    assert (result.hits, result.all_hits, result.n_candidates) == (1, 1, 1)
    assert result.share == 1.0


def test_pinned_of_nothing_is_nothing():
    result = pinned(np.zeros(0, np.int64), np.ones(2, np.int64), np.ones(2, bool), 0.9)

    assert (len(result.units), result.share) == (0, 0.0)


@settings(max_examples=40, deadline=None)
@given(units, st.integers(0, 100))
def test_reads_with_nothing_pinned_are_those_of_lru(sequence, capacity):
    size = np.arange(3, 9, dtype=np.int64)
    run = np.array(sequence, np.int32)

    trace = read_with_pinned(run, size, np.zeros(0, np.int64), capacity)

    assert trace == miss_curve(run, size).at(capacity)[0]


@pytest.mark.parametrize(("capacity", "expected"), [(10, 10 + 60), (20, 10 + 10)])
def test_reads_with_a_pinned_unit_leave_the_rest_of_the_cache(capacity, expected):
    # Unit 0 is pinned (10 bytes); unit 1 is read six times with what is left.
    run = np.array([0, 1] * 6, np.int32)
    size = np.array([10, 10], np.int64)

    assert read_with_pinned(run, size, np.array([0]), capacity) == expected
