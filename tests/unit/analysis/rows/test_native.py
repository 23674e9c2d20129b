"""The compiled column pass, numpy and a plain loop say the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from ggscope.analysis.rows import rows
from ggscope.analysis.rows.columns import RowColumns, column_edges
from ggscope.analysis.rows.dominant_category import RunningSums, merge
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.rows import SpanIds, make_row
from ggscope.model.units import TimeRange
from oracles.picture_columns import columns_by_numpy, columns_slow

COLUMNS = ("busy", "count", "covered_ticks", "first", "longest", "category")


def assert_equal(a: object, b: object) -> None:
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n_categories", [1, 3, 200])
def test_kernel_equals_numpy_on_random_rows(seed: int, n_categories: int) -> None:
    rng = np.random.default_rng(seed)
    start, end = builders.random_row(seed, 3_000, max_gap=seed * 7)
    category = rng.integers(0, n_categories, 3_000).astype(np.uint8)
    row = make_row(start, end, rng.permutation(3_000))
    columns = RowColumns(row, category, n_categories)
    last = int(end[-1])
    for _ in range(4):
        low, high = sorted(rng.integers(-last // 8, last + last // 8, 2).tolist())
        edges = column_edges(TimeRange(low, high + 1), int(rng.integers(1, 100)))

        assert_equal(columns.query(edges), columns_by_numpy(row, edges, category))


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=30),
    st.integers(-5, 60),
    st.integers(1, 80),
    st.integers(1, 40),
)
@settings(max_examples=100, deadline=None)
def test_kernel_equals_brute_force(
    steps: list[tuple[int, int]], low: int, width: int, px: int
) -> None:
    gaps, lengths = np.array(steps, np.int64).T
    end = np.cumsum(gaps + lengths)
    category = (np.arange(len(steps)) * 7 % 5).astype(np.uint8)
    row = make_row(end - lengths, end, np.arange(len(steps)))
    edges = column_edges(TimeRange(low, low + width), px)

    columns = RowColumns(row, category, 5).query(edges)

    assert_equal(columns, columns_slow(row, edges, category))


@pytest.mark.parametrize("n", [2_047, 32 * 64, 32 * 128, 5_000])
@pytest.mark.parametrize("span", [200, 1 << 34])
@pytest.mark.parametrize("is_filtered", [False, True])
def test_running_sums_are_those_of_every_span(
    n: int, span: int, is_filtered: bool
) -> None:
    rng = np.random.default_rng(n)
    start, end = builders.random_row(n, n, max_length=span)
    row = make_row(start, end, SpanIds(0, n))
    category = rng.integers(0, 9, n).astype(np.uint8)
    elements = merge(row, category, np.arange(9, dtype=np.uint16), 9)
    keep = rng.random(n) < 0.5 if is_filtered else None

    result = RunningSums(elements, keep)

    at = np.arange(len(result.fine))
    length = (end - start) * (1 if keep is None else keep)
    for name in range(9):
        covered = np.cumsum(np.where(category == name, length, 0))
        before = np.concatenate([[0], covered])[at * result.bucket]
        sums = result.base[at // result.group, name] + result.fine[at, name]
        np.testing.assert_array_equal(sums, before)


def test_rows_of_an_index_are_the_same_merged_and_sorted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = builders.llama_like_trace()
    merged = TraceIndex(trace)
    keys = [lane.key for lane in merged.lanes if lane.track.has_rows]
    values = {key: merged.rows(key) for key in keys}
    order = merged.time_order()

    monkeypatch.setattr(rows, "_runs", lambda *_: None)
    plain = TraceIndex(trace)

    assert plain.lanes == merged.lanes
    np.testing.assert_array_equal(plain.time_order(), order)
    for key in keys:
        for mine, theirs in zip(values[key], plain.rows(key), strict=True):
            for name in ("start", "end", "id", "prefix", "coarse"):
                np.testing.assert_array_equal(
                    np.asarray(getattr(mine, name)), np.asarray(getattr(theirs, name))
                )
