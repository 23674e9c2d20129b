"""Many rows at once, one at a time, numpy alone and brute force say the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.rows import columns as module
from ggscope.analysis.rows.columns import Columns, RowColumns, query_many
from ggscope.analysis.rows.rows import Row, SpanIds, make_row
from oracles.picture_columns import columns_by_numpy, columns_slow

NAMES = ("count", "category", "first", "covered_ticks", "longest", "busy")
steps = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 4)), max_size=40
)
edge_steps = st.lists(st.integers(0, 12), min_size=1, max_size=40)


def built(steps: list[tuple[int, int, int]], first_id: int) -> tuple[Row, list[int]]:
    gap = np.array([s[0] for s in steps], np.int64)
    length = np.array([s[1] for s in steps], np.int64)
    end = np.cumsum(gap + length)
    ids = SpanIds(first_id, len(steps))
    return make_row(end - length, end, ids), [s[2] for s in steps]


def assert_same(columns: Columns, expected: Columns) -> None:
    for name in NAMES:
        mine, theirs = getattr(columns, name), getattr(expected, name)
        assert np.array_equal(mine, theirs), name
        assert mine.dtype == theirs.dtype


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, min_size=1, max_size=4), st.integers(-9, 60), edge_steps)
def test_query_many_equals_one_at_a_time_and_brute_force(rows, origin, widths):
    edges = origin + np.cumsum([0, *widths])
    made, numbers = [], []
    for spans in rows:
        row, names = built(spans, len(numbers))
        numbers += names
        made.append(row)
    category = np.array(numbers, np.uint8)
    requested = [RowColumns(row, category, 5) for row in made]

    results = query_many(requested, edges)

    for row, columns, one in zip(made, results, requested, strict=True):
        assert_same(columns, one.query(edges))
        assert_same(columns, columns_by_numpy(row, edges, category))
        assert_same(columns, columns_slow(row, edges, category))


@settings(max_examples=100, deadline=None)
@given(steps, st.integers(-9, 60), edge_steps, st.randoms(use_true_random=False))
def test_filtered_columns_equal_those_of_the_kept_spans(steps, origin, widths, random):
    edges = origin + np.cumsum([0, *widths])
    row, numbers = built(steps, 0)
    category = np.array(numbers, np.uint8)
    mask = np.array([random.random() < 0.5 for _ in numbers], np.bool_)

    row_columns = RowColumns(row, category, 5).filtered(mask)

    assert_same(
        row_columns.query(edges), columns_slow(row.select(mask), edges, category)
    )
    assert np.asarray(row_columns.row.id).tolist() == np.flatnonzero(mask).tolist()


def long_row(
    seed: int, n: int, n_names: int, span: int = 200
) -> tuple[Row, np.ndarray]:
    """Return a row long enough for look-ups, with instants and gaps."""
    rng = np.random.default_rng(seed)
    length = rng.integers(0, span, n) * rng.integers(0, 3, n)
    end = np.cumsum(length + rng.integers(0, span // 4 + 1, n))
    weight = np.ones(n_names)
    weight[0] = 1 + seed % 3 * n_names  # with and without a leader
    category = rng.choice(n_names, n, p=weight / weight.sum())
    dtype = np.uint8 if n_names <= 256 else np.uint16
    return make_row(end - length, end, SpanIds(0, n)), category.astype(dtype)


def views(row: Row, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    last = int(row.end[-1])
    views = []
    for _ in range(6):
        low, high = sorted(rng.integers(-last // 5, last + last // 5, 2).tolist())
        px = int(rng.integers(1, 60))
        edges = np.sort(rng.integers(low, high + 2, px + 1))
        edges[px // 2] = edges[(px + 1) // 2]  # often a column without width
        views.append(np.sort(edges))
    views.append(np.array([0, last]))
    views.append(np.array([last // 2, last // 2]))
    return views


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("n", "n_names"), [(5_000, 9), (20_011, 2), (9_000, 200)])
def test_look_up_in_long_rows_equals_numpy(seed, n, n_names):
    row, category = long_row(seed, n, n_names)
    columns = RowColumns(row, category, n_names)
    mask = np.random.default_rng(seed + 9).random(n) < (0.5, 0.01, 0.99)[seed % 3]
    row_columns = columns.filtered(mask)

    for edges in views(row, seed):
        assert_same(columns.query(edges), columns_by_numpy(row, edges, category))
        assert_same(
            row_columns.query(edges), columns_by_numpy(row, edges, category, mask)
        )


@pytest.mark.parametrize("keep", [0.0, 1.0])
def test_filter_of_nothing_and_of_everything(keep):
    row, category = long_row(1, 4_000, 9)
    mask = np.full(len(row), bool(keep))
    edges = np.linspace(-50, int(row.end[-1]) + 50, 13).astype(np.int64)
    columns = RowColumns(row, category, 9)

    result = columns.filtered(mask).query(edges)

    if keep:
        assert_same(result, columns.query(edges))
    else:
        assert not result.count.any()
        assert not result.covered_ticks.any()
        assert (result.first == -1).all()
        assert (result.category == -1).all()


def test_spans_longer_than_32_bits_stay_exact():
    # Sums of 32 bits hold what a group of buckets covers: here not even one bucket.
    row, category = long_row(4, 6_000, 9, span=1 << 33)
    columns = RowColumns(row, category, 9)

    assert columns._colors.dominant.sums.group == 1
    for edges in views(row, 5):
        assert_same(columns.query(edges), columns_by_numpy(row, edges, category))


def test_ids_that_are_not_consecutive_are_given_as_they_are():
    row, category = long_row(2, 4_000, 5)
    for dtype in (np.int32, np.int64):
        ids = np.random.default_rng(3).permutation(len(row)).astype(dtype)
        other = make_row(row.start, row.end, ids)
        shuffled = RowColumns(other, category, 5)
        for edges in views(row, 6):
            assert_same(shuffled.query(edges), columns_by_numpy(other, edges, category))


def test_many_categories_in_long_runs_equal_numpy():
    row, _ = long_row(3, 60_000, 3)
    category = (np.arange(60_000) // 150).astype(np.uint16)
    columns = RowColumns(row, category, 400)
    edges = np.linspace(0, int(row.end[-1]), 21).astype(np.int64)

    assert columns._colors.dominant.elements.bounds is not None
    assert_same(columns.query(edges), columns_by_numpy(row, edges, category))
    for view in views(row, 7):  # in a few columns there are too many: they vote
        result, expected = columns.query(view), columns_by_numpy(row, view, category)
        few = expected.count <= 64 * 150
        assert np.array_equal(result.category[few], expected.category[few])
        for name in ("count", "first", "covered_ticks", "busy", "longest"):
            assert np.array_equal(getattr(result, name), getattr(expected, name)), name


def test_any_number_of_threads_gives_the_same(monkeypatch):
    made = [long_row(seed, 8_000, 9) for seed in range(11)]
    rows = [RowColumns(row, category, 9) for row, category in made]
    edges = np.linspace(0, int(rows[0].row.end[-1]), 100).astype(np.int64)
    monkeypatch.setattr(module, "_SPANS_PER_THREAD", 1)
    expected = [columns_by_numpy(row, edges, category) for row, category in made]

    for n_threads in (1, 2, 3, 8, 50):
        monkeypatch.setattr(module, "MAX_THREADS", n_threads)
        for actual, other in zip(query_many(rows, edges), expected, strict=True):
            assert_same(actual, other)


def test_rows_that_do_not_lie_in_one_piece_are_answered_alike():
    row, category = long_row(5, 3_000, 5)
    both = np.stack([row.start, row.end], axis=1)
    strided = RowColumns(make_row(both[:, 0], both[:, 1], row.id), category, 5)
    edges = views(row, 8)[0]

    assert_same(strided.query(edges), RowColumns(row, category, 5).query(edges))


def test_category_that_the_colouring_does_not_have_raises_index_error():
    row, category = long_row(6, 100, 5)
    with pytest.raises(IndexError):
        RowColumns(row, category, 4)
