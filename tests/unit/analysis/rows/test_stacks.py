"""What stacked columns are made of, against touching every span."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from ggscope.analysis.rows.columns import (
    FEW,
    FREE,
    MAX_LEVELS,
    OWN,
    WAITING,
    RowColumns,
    add_ticks,
    column_edges,
    make_waits,
    query_many,
)
from ggscope.analysis.rows.dominant_category import MAX_EXACT
from ggscope.analysis.rows.rows import Row, make_row
from ggscope.model.units import TimeRange
from oracles.stacks import are_levels, ticks_slow
from oracles.waits import waits_slow


def random_row(seed: int, n: int, **limits: int) -> Row:
    start, end = builders.random_row(seed, n, **limits)
    return make_row(start, end, np.arange(n, dtype=np.int32))


def view(row: Row, px: int, share: float = 1.0) -> np.ndarray:
    first, last = int(row.start[0]), int(row.end[-1])
    middle, half = (first + last) // 2, max(int((last - first) * share) // 2, 1)
    return column_edges(TimeRange(middle - half, middle + half), px)


def assert_stacks(
    row: Row, columns: RowColumns, category: np.ndarray, edges: np.ndarray, n: int
) -> int:
    """Hold levels and ticks to those of every span; return how many are stacked."""
    n_categories = int(category.max()) + 1
    results = query_many([columns], edges, [n])[0]
    plain = query_many([columns], edges)[0]
    ticks = np.zeros((n_categories, len(edges) - 1), np.int64)
    add_ticks([columns], edges, ticks)

    expected = ticks_slow(row, edges, category, n_categories)
    assert (ticks == expected).all()
    waited = np.zeros(len(edges) - 1, np.int64)
    if columns.waits is not None:
        waited = np.array(waits_slow(row, edges, columns.waits.wait))
    stacked = results.count > FEW
    assert results.levels is not None
    assert results.levels.shape == (len(edges) - 1, n)
    assert are_levels(results.levels, expected, waited, np.diff(edges))[stacked].all()
    # What else a column says does not depend on its levels.
    for name in ("busy", "category", "count", "covered_ticks", "first"):
        assert np.array_equal(getattr(results, name), getattr(plain, name)), name
    return int(stacked.sum())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 3_000),
    n_categories=st.integers(1, 40),
    px=st.integers(1, 90),
    share=st.floats(0.01, 1.2),
    n_levels=st.integers(1, 60),
)
def test_levels_and_ticks_are_those_of_every_span(
    seed: int, n: int, n_categories: int, px: int, share: float, n_levels: int
) -> None:
    row = random_row(seed, n)
    category = np.random.default_rng(seed).integers(0, n_categories, n).astype(np.uint8)
    columns = RowColumns(row, category, n_categories)

    assert_stacks(row, columns, category, view(row, px, share), n_levels)


@pytest.mark.parametrize("n_categories", [1, 2, 9, 200, MAX_EXACT])
@pytest.mark.parametrize("share", [1.0, 0.3, 0.001])
def test_columns_of_thousands_of_spans_are_exact(
    n_categories: int, share: float
) -> None:
    """Where they are looked up, not walked."""
    row = random_row(3, 60_000)
    category = np.random.default_rng(1).integers(0, n_categories, len(row))
    category = category.astype(np.uint16)
    columns = RowColumns(row, category, n_categories)

    assert_stacks(row, columns, category, view(row, 40, share), 18)


def test_columns_of_merged_runs_are_exact() -> None:
    row = random_row(5, 40_000)
    category = (np.arange(len(row)) // 40).astype(np.uint16)  # a thousand tokens
    columns = RowColumns(row, category, 1_000)

    assert assert_stacks(row, columns, category, view(row, 50), 30)
    assert assert_stacks(row, columns, category, view(row, 50, 0.05), 30)


@pytest.mark.parametrize("n", [400, 40_000])
def test_filter_leaves_what_it_keeps(n: int) -> None:
    row, rng = random_row(7, n), np.random.default_rng(7)
    category = rng.integers(0, 9, n).astype(np.uint8)
    mask = rng.random(n) < 0.3
    columns = RowColumns(row, category, 9).filtered(mask)
    entries = make_row(row.start[mask], row.end[mask], np.flatnonzero(mask))
    edges = view(row, 30)

    results = query_many([columns], edges, [20])[0]
    ticks = np.zeros((9, 30), np.int64)
    add_ticks([columns], edges, ticks)

    expected = ticks_slow(entries, edges, category, 9)
    assert (ticks == expected).all()
    assert results.levels is not None
    none = np.zeros(30, np.int64)
    right = are_levels(results.levels, expected, none, np.diff(edges))
    assert (results.count > FEW).any()
    assert right[results.count > FEW].all()


@pytest.mark.parametrize("n", [300, 30_000])
def test_waits_stand_on_top_of_the_work(n: int) -> None:
    row, rng = random_row(9, n), np.random.default_rng(9)
    category = rng.integers(0, 5, n).astype(np.uint8)
    gap = np.append(row.start[1:] - row.end[:-1], 0)
    waits = make_waits(row, (gap * rng.random(n)).astype(np.uint32))
    columns = RowColumns(row, category, 5).with_waits(waits)
    edges = view(row, 25)

    assert assert_stacks(row, columns, category, edges, 40)
    levels = query_many([columns], edges, [40])[0].levels
    assert levels is not None
    assert (levels == WAITING).any()


def test_very_many_categories_have_levels_of_the_one_that_covers_most() -> None:
    n = 200_000
    row = random_row(11, n)
    category = np.random.default_rng(2).integers(0, 3_000, n).astype(np.uint16)
    category[::2] = 7
    columns = RowColumns(row, category, 3_000)
    edges = view(row, 20)

    results = query_many([columns], edges, [50])[0]
    ticks = np.zeros((3_000, 20), np.int64)
    add_ticks([columns], edges, ticks)

    assert results.levels is not None
    assert set(np.unique(results.levels).tolist()) <= {OWN, FREE}
    height = (results.levels == OWN).sum(axis=1)
    assert np.abs(height - results.busy * 50).max() <= 0.5
    assert (results.category == 7).all()
    assert ticks[7].tolist() == results.covered_ticks.tolist()


def test_rows_have_each_their_number_of_levels() -> None:
    rows = [random_row(seed, 500) for seed in range(4)]
    category = np.zeros(500, np.uint8)
    columns = [RowColumns(row, category, 1) for row in rows]
    edges = view(rows[0], 20)

    results = query_many(columns, edges, [5, 0, 9, 2 * MAX_LEVELS])

    assert [one.n_levels for one in results] == [5, 0, 9, MAX_LEVELS]
    for one, n in zip(results, (5, 0, 9, MAX_LEVELS), strict=True):
        if n:
            alone = query_many([columns[results.index(one)]], edges, [n])[0]
            assert one.levels is not None
            assert alone.levels is not None
            stacked = one.count > FEW
            assert (one.levels[stacked] == alone.levels[stacked]).all()


def test_lanes_are_added_up() -> None:
    rows = [random_row(seed, 800) for seed in range(3)]
    category = np.random.default_rng(4).integers(0, 6, 800).astype(np.uint8)
    edges = view(rows[0], 15)
    ticks = np.zeros((6, 15), np.int64)

    add_ticks([RowColumns(row, category, 6) for row in rows], edges, ticks)

    assert (ticks == sum(ticks_slow(row, edges, category, 6) for row in rows)).all()
