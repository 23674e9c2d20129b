import numpy as np
import pytest

import builders
from ggscope.analysis.rows import columns, dominant_category
from ggscope.analysis.rows.columns import (
    Columns,
    RowColumns,
    column_edges,
    query_many,
)
from ggscope.analysis.rows.dominant_category import heaviest, ragged
from ggscope.analysis.rows.rows import Row, SpanIds, make_row
from ggscope.model.units import TimeRange
from oracles.picture_columns import columns_slow


def row_of(*pairs: tuple[int, int]) -> Row:
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return make_row(start.copy(), end.copy(), np.arange(len(pairs), dtype=np.int32))


def random_row(seed: int, n: int, **limits: int) -> Row:
    start, end = builders.random_row(seed, n, **limits)
    return make_row(start, end, np.arange(n, dtype=np.int32))


def assert_equal(columns: Columns, expected: Columns) -> None:
    assert np.array_equal(columns.covered_ticks, expected.covered_ticks)
    assert np.abs(columns.busy - expected.busy).max(initial=0) < 1e-9
    for name in ("count", "category", "first", "longest"):
        assert np.array_equal(getattr(columns, name), getattr(expected, name)), name


def test_column_edges_of_a_huge_range_do_not_overflow():
    visible = TimeRange(-(1 << 61), (1 << 61) - 7)

    edges = column_edges(visible, 3840)

    exact = [visible.start + k * visible.duration // 3840 for k in range(3841)]
    assert edges.dtype == np.int64
    assert edges.tolist() == exact


def test_column_edges_of_fewer_ticks_than_pixels_repeat():
    assert column_edges(TimeRange(5, 7), 4).tolist() == [5, 5, 6, 6, 7]


def test_query_dtypes_are_those_of_the_contract():
    columns = RowColumns(row_of((0, 4))).query(np.array([0, 2, 8]))

    assert columns.busy.dtype == np.float64
    assert columns.category.dtype == np.int32
    assert {a.dtype for a in (columns.count, columns.longest, columns.first)} == {
        np.dtype(np.int64)
    }
    assert columns.covered_ticks.tolist() == [2, 2]


def test_query_span_over_several_columns_counts_in_each():
    columns = RowColumns(row_of((5, 35))).query(np.array([0, 10, 20, 30, 40, 50]))

    assert columns.busy.tolist() == [0.5, 1.0, 1.0, 0.5, 0.0]
    assert columns.count.tolist() == [1, 1, 1, 1, 0]
    assert columns.longest.tolist() == [0, 0, 0, 0, -1]


def test_query_one_ns_in_ten_seconds_is_visible():
    row = row_of((4_999_999_999, 5_000_000_000))
    category = np.array([3], np.uint8)
    edges = column_edges(TimeRange(0, 10_000_000_000), 1920)

    columns = RowColumns(row, category, 4).query(edges)

    assert columns.count.sum() == 1
    assert columns.covered_ticks.sum() == 1
    (at,) = np.flatnonzero(columns.category == 3)
    assert 0 < columns.busy[at] < 1e-6
    assert columns.longest[at] == 0


def test_query_instants_show_their_category_without_being_busy():
    row = row_of((5, 5), (5, 5), (25, 25))
    category = np.array([2, 1, 1], np.uint8)

    columns = RowColumns(row, category, 3).query(np.array([0, 10, 20, 30]))

    assert columns.count.tolist() == [2, 0, 1]
    assert columns.busy.tolist() == [0, 0, 0]
    assert columns.category.tolist() == [2, -1, 1]
    assert columns.longest.tolist() == [0, -1, 2]


def test_query_columns_of_less_than_a_tick_sample_their_tick():
    row = row_of((0, 1), (2, 3))
    edges = column_edges(TimeRange(0, 3), 6)

    columns = RowColumns(row).query(edges)

    assert columns.busy.tolist() == [1, 1, 0, 0, 1, 1]
    assert columns.count.tolist() == [1, 1, 0, 0, 1, 1]
    assert int(columns.covered_ticks.sum()) == 2
    assert_equal(columns, columns_slow(row, edges))


def test_query_mixed_wide_and_empty_columns_equals_brute_force():
    row = random_row(3, 40, max_gap=3, max_length=4)
    edges = np.array([-5, -5, 3, 3, 3, 60, 61, 400, 400])

    assert_equal(RowColumns(row).query(edges), columns_slow(row, edges))


def test_query_few_dense_columns_with_a_wide_one_equals_brute_force():
    row = random_row(4, 40, max_gap=1, max_length=2)
    edges = np.array([0, 0, 0, 2, 3, 3, 3, 5])

    assert_equal(RowColumns(row).query(edges), columns_slow(row, edges))


@pytest.mark.parametrize("edges", [[], [5], [0, 5, 9]])
def test_query_empty_row_says_idle(edges):
    columns = RowColumns(row_of(), np.zeros(0, np.uint8), 4).query(
        np.array(edges, np.int64)
    )

    assert len(columns.busy) == max(len(edges) - 1, 0)
    assert (columns.category == -1).all()
    assert (columns.longest == -1).all()


def test_query_without_columns_is_empty():
    assert len(RowColumns(row_of((0, 1))).query(np.array([3])).busy) == 0


def test_query_ties_take_the_smallest_category_and_first_span():
    row = row_of((0, 5), (5, 10))

    columns = RowColumns(row, np.array([4, 2], np.uint8), 5).query(np.array([0, 10]))

    assert columns.category.tolist() == [2]
    assert columns.longest.tolist() == [0]


def test_row_is_kept():
    row = row_of((0, 5))

    assert RowColumns(row).row is row


def test_query_ids_that_are_not_consecutive_read_their_own_category():
    start, end = builders.random_row(1, 50)
    ids = np.random.default_rng(1).permutation(200)[:50]
    row = make_row(start, end, ids)
    category = np.arange(200, dtype=np.uint8) % 7
    edges = column_edges(TimeRange(0, int(end[-1])), 9)

    columns = RowColumns(row, category, 7).query(edges)

    assert_equal(columns, columns_slow(row, edges, category))


def test_query_rare_categories_of_a_large_colouring_are_renumbered():
    row = random_row(2, 900)
    category = np.where(np.arange(900) % 3, 65_000, 12).astype(np.uint16)
    edges = column_edges(TimeRange(0, int(row.end[-1])), 11)

    columns = RowColumns(row, category, 65_535).query(edges)

    assert set(columns.category.tolist()) <= {12, 65_000}
    assert_equal(columns, columns_slow(row, edges, category))


VIEWS = ((0.0, 1.0), (0.2, 0.7), (-0.5, 0.4), (0.1, 0.13), (0.9, 1.4), (2.0, 3.0))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("n", "n_categories", "px", "ordered"),
    [
        (6_000, 9, 7, False),
        (6_000, 16, 30, False),
        (6_000, 40, 12, False),
        (6_000, 64, 5, True),
        (3_000, 2, 300, False),
    ],
)
def test_query_exact_pyramid_equals_brute_force(n, n_categories, px, ordered, view):
    row = random_row(n_categories, n)
    category = np.random.default_rng(n).integers(0, n_categories, n).astype(np.uint8)
    if ordered:
        category.sort()
    last = int(row.end[-1])
    edges = column_edges(TimeRange(int(view[0] * last), int(view[1] * last)), px)

    columns = RowColumns(row, category, n_categories).query(edges)

    assert_equal(columns, columns_slow(row, edges, category))


def dominant_by_ticks(row: Row, edges: np.ndarray, category: np.ndarray) -> np.ndarray:
    """Return the dominant category by summing every span, vectorised."""
    n = int(category.max()) + 1
    sums = np.zeros((n, len(edges) - 1), np.int64)
    for name in range(n):
        mine = category == name
        a, b = edges[:-1, None], edges[1:, None]
        start, end = row.start[mine], row.end[mine]
        for k in range(len(edges) - 1):
            i, j = np.searchsorted(end, a[k, 0]), np.searchsorted(start, b[k, 0])
            part = np.minimum(end[i:j], b[k]) - np.maximum(start[i:j], a[k])
            sums[name, k] = part.sum()
    return np.where(sums.any(axis=0), np.argmax(sums, axis=0), -1)


@pytest.mark.parametrize("px", [1, 40, 1920])
@pytest.mark.parametrize("max_length", [200, 400_000])
def test_query_200k_spans_hue_equals_brute_force(px, max_length):
    # The longer spans are busy for more than 2^32 ticks: 64-bit sums.
    row = random_row(9, 200_000, max_length=max_length)
    category = np.random.default_rng(5).integers(0, 9, len(row)).astype(np.uint8)
    edges = column_edges(TimeRange(0, int(row.end[-1])), px)

    columns = RowColumns(row, category, 9).query(edges)

    assert np.array_equal(columns.category, dominant_by_ticks(row, edges, category))
    assert int(columns.covered_ticks.sum()) == row.total_covered


@pytest.mark.parametrize("n", [65, 130, 300, 512, 513])
@pytest.mark.parametrize("px", [1, 2, 4])
def test_query_short_rows_under_few_columns_is_exact(n, px):
    # Eight in a row: one category wins each block, another one wins them all.
    row = random_row(n, n)
    category = np.where(np.arange(n) % 8 < 3, 200, np.arange(n) * 37 % 200)
    category = category.astype(np.uint8)
    for seed in range(4):
        if seed:
            rng = np.random.default_rng(seed)
            category = (rng.random(n) ** 2 * 220).astype(np.uint8)
        edges = column_edges(TimeRange(0, int(row.end[-1])), px)

        columns = RowColumns(row, category, 256).query(edges)

        expected = columns_slow(row, edges, category)
        assert np.array_equal(columns.category, expected.category)


def test_query_many_categories_up_to_64_elements_is_exact():
    row = random_row(6, 6_000)
    category = np.random.default_rng(6).integers(0, 300, len(row)).astype(np.uint16)
    edges = column_edges(TimeRange(0, int(row.end[-1])), 110)

    columns = RowColumns(row, category, 300).query(edges)

    assert (
        int(columns.count.max())
        > dominant_category.RAW_ELEMENTS
        > int(columns.count.min())
    )
    few = columns.count <= dominant_category.RAW_ELEMENTS
    expected = columns_slow(row, edges, category)
    assert np.array_equal(columns.category[few], expected.category[few])


def test_query_many_categories_finds_a_clear_majority_by_votes():
    n = 40_000
    row = random_row(7, n)
    rng = np.random.default_rng(7)
    noise = rng.integers(0, 200, n)
    block = 200 + np.arange(n) // 2_000
    category = np.where(rng.random(n) < 0.7, block, noise).astype(np.uint16)
    edges = row.start[::2_000]

    columns = RowColumns(row, category, 220).query(edges)

    assert columns.category.tolist() == list(range(200, 219))


def test_query_runs_of_many_categories_is_exact():
    row = random_row(8, 20_000)
    category = (np.arange(20_000) // 400).astype(np.uint16)
    edges = column_edges(TimeRange(-100, int(row.end[-1]) + 100), 33)

    columns = RowColumns(row, np.append(category, np.uint16(99)), 100).query(edges)

    assert np.array_equal(columns.category, dominant_by_ticks(row, edges, category))


def test_longest_of_long_columns_is_the_clipped_longest():
    row = random_row(10, 3_000)
    edges = column_edges(TimeRange(50, int(row.end[-1]) - 50), 6)

    result = RowColumns(row).query(edges)

    assert int(result.count.min()) > 2 * columns.LENGTH_BUCKET
    assert np.array_equal(result.longest, columns_slow(row, edges).longest)


def test_longest_does_not_take_a_span_that_mostly_lies_outside():
    lengths = np.full(200, 10)
    lengths[0] = 1_000
    lengths[120] = 15
    end = np.cumsum(lengths)
    row = make_row(end - lengths, end, np.arange(200))
    edges = np.array([995, 2_500])

    assert RowColumns(row).query(edges).longest.tolist() == [120]


def test_longest_of_another_view_uses_the_same_buckets():
    row = random_row(10, 3_000)
    columns = RowColumns(row)
    whole = np.array([0, int(row.end[-1])])
    half = np.array([0, int(row.end[-1]) // 2])

    for edges in (whole, half):
        expected = columns_slow(row, edges).longest
        assert np.array_equal(columns.query(edges).longest, expected)


def test_query_instant_between_merged_runs_shows_its_category():
    row = row_of((0, 5), (5, 9), (20, 20), (21, 29), (30, 40), (41, 45))
    category = np.array([1, 1, 0, 0, 0, 0], np.uint8)
    edges = np.array([0, 10, 20, 21, 50])

    columns = RowColumns(row, category, 2).query(edges)

    assert columns.category.tolist() == [1, -1, 0, 0]


def test_longest_is_computed_once():
    columns = RowColumns(random_row(1, 30)).query(np.array([0, 1_000]))

    assert columns.longest is columns.longest


def test_heaviest_of_a_wide_table_equals_the_dense_one(monkeypatch):
    rng = np.random.default_rng(0)
    owner, category = rng.integers(0, 20, 500), rng.integers(0, 30, 500)
    owner[owner == 7] = 8
    weight = rng.integers(0, 4, 500)
    dense = heaviest(owner, category, weight, 20, 30)

    monkeypatch.setattr(dominant_category, "_DENSE_CELLS", 1)

    assert np.array_equal(heaviest(owner, category, weight, 20, 30), dense)


def test_ragged_skips_empty_and_turned_ranges():
    owner, index = ragged(np.array([3, 5, 9]), np.array([5, 5, 8]))

    assert owner.tolist() == [0, 0]
    assert index.tolist() == [3, 4]


def test_bucket_size_grows_with_the_categories():
    assert [dominant_category.bucket_size(c) for c in (2, 16, 17, 64)] == [
        32,
        32,
        64,
        128,
    ]


@pytest.mark.parametrize("n_rows", [2, 6])
def test_rows_of_different_numbers_of_categories_do_not_disturb_each_other(n_rows):
    rows = []
    for i in range(n_rows):
        start, end = builders.random_row(i, 4_000 if i % 2 == 0 else 40, max_gap=0)
        n = 2 if i % 2 == 0 else 9
        by_id = (np.arange(len(start)) % n).astype(np.uint8)
        row = make_row(start, end, SpanIds(0, len(start)))
        rows.append(RowColumns(row, by_id, n))
    edges = column_edges(TimeRange(0, 400_000), 8)

    together = query_many(rows, edges)

    for row, actual in zip(rows, together, strict=True):
        alone = row.query(edges)
        assert actual.category.tolist() == alone.category.tolist()
        assert actual.busy.tolist() == alone.busy.tolist()
