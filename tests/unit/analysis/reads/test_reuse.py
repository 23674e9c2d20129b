"""Miss-ratio curves against simulations that keep an actual cache."""

from collections import OrderedDict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.reads import what_if
from ggscope.errors import Cancelled
from oracles import reuse as plainly
from watchers import CancelAfter

sequences = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, n - 1), max_size=60),
        st.lists(st.integers(0, 50), min_size=n, max_size=n),
    )
)


def lru(units: list[int], sizes: list[int], capacity: int) -> tuple[int, int]:
    """Return (bytes read, misses) of a cache that is really kept."""
    cache: OrderedDict[int, int] = OrderedDict()
    read = misses = 0
    for u in units:
        if u in cache:
            cache.move_to_end(u)
            continue
        misses += 1
        read += sizes[u]
        cache[u] = sizes[u]
        while sum(cache.values()) > capacity:
            cache.popitem(last=False)
    return read, misses


def lru_of_pages(units: list[int], sizes: list[int], capacity: int) -> int:
    """Return the pages read by a cache of pages; every unit is read in order."""
    cache: OrderedDict[tuple[int, int], None] = OrderedDict()
    read = 0
    for u in units:
        for page in range(sizes[u]):
            if (u, page) in cache:
                cache.move_to_end((u, page))
                continue
            read += 1
            cache[u, page] = None
            if len(cache) > capacity:
                cache.popitem(last=False)
    return read


@settings(max_examples=60, deadline=None)
@given(sequences, st.integers(0, 300))
def test_miss_curve_equals_a_simulated_lru_cache(case, capacity):
    units, sizes = case

    curve = what_if.miss_curve(np.array(units, np.int32), np.array(sizes, np.int64))

    assert curve.at(capacity) == lru(units, sizes, capacity)
    assert curve.n_reads == len(units)
    assert curve.bytes_asked == sum(sizes[u] for u in units)
    assert curve.cold_misses == len(set(units))
    assert curve.cold_bytes == sum(sizes[u] for u in set(units))


@settings(max_examples=40, deadline=None)
@given(sequences, st.integers(0, 300))
def test_miss_curve_of_units_equals_a_cache_of_their_pages(case, capacity):
    units, sizes = case
    curve = what_if.miss_curve(np.array(units, np.int32), np.array(sizes, np.int64))

    assert curve.at(capacity)[0] == lru_of_pages(units, sizes, capacity)


@settings(max_examples=60, deadline=None)
@given(sequences)
def test_stack_distances_equal_the_plain_twin(case):
    units, sizes = np.array(case[0], np.int32), np.array(case[1], np.int64)

    stack_distances = what_if.stack_distances(units, sizes)

    assert stack_distances.tolist() == plainly.distances(units, sizes).tolist()


def test_stack_distances_of_a_long_sequence_equal_the_plain_twin():
    rng = np.random.default_rng(5)
    size = rng.integers(1, 1 << 40, 40)
    units = rng.integers(-1, 41, 9_000).astype(np.int32)  # places are used up often

    stack_distances = what_if.stack_distances(units, size)

    assert stack_distances.tolist() == plainly.distances(units, size).tolist()
    assert (stack_distances[(units < 0) | (units > 39)] == -1).all()


def test_miss_curve_sums_bytes_beyond_float64_exactly():
    size = np.array([(1 << 52) + 1, (1 << 52) + 3], np.int64)
    units = np.array([0, 1, 0, 1, 0, 1], np.int32)

    curve = what_if.miss_curve(units, size)

    assert curve.bytes_asked == 3 * int(size.sum())
    assert curve.at(int(size.sum())) == (int(size.sum()), 2)
    assert curve.at(int(size.sum()) - 1) == (curve.bytes_asked, 6)


def test_miss_curve_without_reads_is_zero_everywhere():
    curve = what_if.miss_curve(np.zeros(0, np.int32), np.array([3], np.int64))

    assert curve.at(0) == (0, 0)
    assert curve.at(1 << 60) == (0, 0)


def test_miss_curve_never_rises_with_the_cache():
    rng = np.random.default_rng(2)
    units = rng.integers(0, 20, 500).astype(np.int32)

    curve = what_if.miss_curve(units, rng.integers(1, 100, 20))

    assert (np.diff(curve.bytes_read) <= 0).all()
    assert (np.diff(curve.misses) <= 0).all()
    assert curve.bytes_read[-1] == curve.cold_bytes


def test_stack_distances_stop_when_cancelled(monkeypatch):
    monkeypatch.setattr(what_if, "_BLOCK", 10)
    units = np.zeros(100, np.int32)

    with pytest.raises(Cancelled):
        what_if.stack_distances(units, np.ones(1, np.int64), CancelAfter(3))


def fewest_pages(units: list[int], sizes: list[int], capacity: int) -> int:
    """Return the fewest pages that any cache of pages can read, by trying all."""
    states: dict[frozenset[tuple[int, int]], int] = {frozenset(): 0}
    for u in units:
        requested = frozenset((u, page) for page in range(sizes[u]))
        best: dict[frozenset[tuple[int, int]], int] = {}
        for held, read in states.items():
            cost = read + len(requested - held)
            pages = sorted(held | requested)
            for n in range(min(capacity, len(pages)) + 1):
                for combination in combinations(pages, n):
                    key = frozenset(combination)
                    if cost < best.get(key, 1 << 30):
                        best[key] = cost
        states = best
    return min(states.values())


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    st.lists(st.integers(1, 2), min_size=3, max_size=3),
    st.integers(0, 4),
)
def test_optimum_reads_as_little_as_any_cache_can(units, sizes, capacity):
    result, _ = what_if.optimum(
        np.array(units, np.int32), np.array(sizes, np.int64), np.array([capacity])
    )

    assert result[0] == fewest_pages(units, sizes, capacity)


@settings(max_examples=60, deadline=None)
@given(sequences, st.lists(st.integers(0, 300), min_size=1, max_size=4))
def test_optimum_equals_the_plain_twin_and_is_no_more_than_lru(case, capacities):
    units, sizes = np.array(case[0], np.int32), np.array(case[1], np.int64)

    result, misses = what_if.optimum(units, sizes, np.array(capacities))

    curve = what_if.miss_curve(units, sizes)
    for i, capacity in enumerate(capacities):
        plain = plainly.optimum(units, sizes, capacity)
        assert (result[i], misses[i]) == plain
        assert curve.cold_bytes <= result[i] <= curve.at(capacity)[0]


@settings(max_examples=60, deadline=None)
@given(sequences, st.integers(0, 5), st.integers(0, 300), st.booleans())
def test_read_ahead_equals_the_plain_twin(case, k, capacity, is_ring):
    units, sizes = np.array(case[0], np.int32), np.array(case[1], np.int64)
    n = len(sizes)
    follow = np.append(np.arange(1, n), 0 if is_ring else -1)

    read_ahead = what_if.with_read_ahead(units, sizes, follow, k, capacity)

    plain = plainly.with_read_ahead(units, sizes, follow, k, capacity)
    assert (read_ahead.bytes_read, read_ahead.misses, read_ahead.bytes_ahead) == plain
    if k == 0:
        curve = what_if.miss_curve(units, sizes)
        assert (read_ahead.bytes_read, read_ahead.misses) == curve.at(capacity)


def test_read_ahead_of_a_sequence_on_disk_waits_less_often():
    units = np.tile(np.arange(12, dtype=np.int32), 3)
    size = np.full(12, 10, np.int64)
    follow = np.append(np.arange(1, 12), -1)

    read_ahead = what_if.with_read_ahead(units, size, follow, 3, 60)

    assert read_ahead.misses == 9  # every fourth of 36
    assert read_ahead.bytes_read == what_if.miss_curve(units, size).at(60)[0] == 360


@settings(max_examples=40, deadline=None)
@given(sequences)
def test_next_reads_equal_the_plain_twin(case):
    units = np.array(case[0], np.int32)

    next_reads = what_if.next_reads(units, len(case[1]))

    assert next_reads.tolist() == plainly.next_reads(units, len(case[1])).tolist()
