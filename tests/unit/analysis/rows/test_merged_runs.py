"""Merging sorted runs in compiled code gives what sorting gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.rows import rows

spans = st.lists(st.tuples(st.integers(-9, 30), st.integers(0, 9)), max_size=60)


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([s for s, _ in pairs], np.int64)
    return start, start + np.array([n for _, n in pairs], np.int64)


def by_sorting(start: np.ndarray) -> list[int]:
    return np.argsort(start, kind="stable").tolist()


def same_row(row: rows.Row, expected: rows.Row) -> None:
    assert np.array_equal(row.start, expected.start)
    assert np.array_equal(row.end, expected.end)
    assert np.array_equal(row.id, expected.id)
    assert np.array_equal(row.prefix, expected.prefix)


@settings(max_examples=100, deadline=None)
@given(spans)
def test_time_order_of_any_spans_equals_a_stable_sort(pairs):
    start, _ = arrays(pairs)

    result = rows.merged_order(start)

    if not pairs:
        assert result is None
        return
    assert result.dtype == np.int32
    assert result.tolist() == by_sorting(start)


@settings(max_examples=100, deadline=None)
@given(spans, st.randoms(use_true_random=False))
def test_flatten_of_any_spans_equals_that_of_numpy(pairs, random):
    start, end = arrays(pairs)
    ids = np.array([i for i in range(len(pairs)) if random.random() < 0.7], np.int32)
    random.shuffle(ids)

    row = rows.flatten_merged(start, end, ids)

    if len(ids):
        same_row(row, rows.flatten(start[ids], end[ids], ids))
    else:
        assert row is None


@pytest.mark.parametrize("n_runs", [1, 2, 3, 7, 8, 64, rows.MAX_RUNS])
def test_merge_of_interleaved_runs_equals_sorting(n_runs):
    rng = np.random.default_rng(n_runs)
    runs = [np.sort(rng.integers(0, 500, 40)) for _ in range(n_runs)]
    start = np.concatenate(runs)
    end = start + rng.integers(0, 30, len(start))
    ids = np.arange(len(start), dtype=np.int32)

    assert rows.merged_order(start).tolist() == by_sorting(start)
    row = rows.flatten_merged(start, end, ids)
    if row is not None:  # ties by end make more runs than MAX_RUNS
        same_row(row, rows.flatten(start, end, ids))


def test_spans_in_more_runs_than_a_trace_has_threads_are_left_to_numpy():
    start = np.arange(rows.MAX_RUNS + 1)[::-1].copy()

    assert rows.merged_order(start) is None
    ids = np.arange(len(start), dtype=np.int32)
    assert rows.flatten_merged(start, start + 1, ids) is None


@pytest.mark.parametrize("bad", [-1, 5, 1 << 30])
def test_ids_that_do_not_exist_are_not_followed(bad):
    start = np.arange(5)

    assert rows.flatten_merged(start, start + 1, np.array([0, bad], np.int32)) is None


def test_arrays_that_do_not_lie_in_one_piece_are_merged_too():
    start = np.arange(20)[::-1][::2]
    ids = np.arange(20, dtype=np.int32)[::2]

    assert rows.merged_order(start).tolist() == by_sorting(start)
    row = rows.flatten_merged(np.arange(19), np.arange(19) + 1, ids)
    assert row.id.tolist() == ids.tolist()


def test_wide_ids_are_left_to_numpy():
    assert rows.flatten_merged(np.arange(9), np.arange(9) + 1, np.arange(3)) is None


def test_spans_at_the_ends_of_time_keep_their_order():
    first, last = np.iinfo(np.int64).min + 1, np.iinfo(np.int64).max
    start = np.array([first, 0, last, first, last, 0])

    assert rows.merged_order(start).tolist() == by_sorting(start)
