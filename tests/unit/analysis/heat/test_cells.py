"""Cells of a heatmap in compiled code are those of numpy; tables of counts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.heat.heatmap import HeatGrid
from ggscope.analysis.heat.touches import Counts, Entries


def grid(seed: int, n_rows: int, n_pieces: int) -> HeatGrid:
    """Return a grid of random rows over pieces of random sizes, from 0."""
    rng = np.random.default_rng(seed)
    edges = np.concatenate([[0], np.cumsum(rng.integers(1, 1 << 32, n_pieces))])
    covers = rng.integers(0, 1 << 12, (n_rows, n_pieces))
    before = np.zeros((n_rows, n_pieces + 1), np.int64)
    np.cumsum(covers * np.diff(edges), axis=1, out=before[:, 1:])
    return HeatGrid(edges.astype(np.int64), before, covers)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.integers(0, 5), st.integers(1, 9), st.data())
def test_cells_of_any_grid_equal_those_of_numpy(seed, n_rows, n_pieces, data):
    found = grid(seed, n_rows, n_pieces)
    last = int(found.edges[-1])
    offsets = data.draw(st.lists(st.integers(-9, last + 9), max_size=20))
    edges = np.array(sorted(offsets), np.int64)

    cells = found.cells(edges)

    assert cells.dtype == np.int64
    assert cells.shape == (n_rows, max(len(edges) - 1, 0))
    assert np.array_equal(cells, np.diff(found.bytes_before(edges), axis=1))


def test_cells_of_a_whole_file_add_up_to_its_bytes():
    found = grid(1, 3, 50)
    edges = np.linspace(0, int(found.edges[-1]), 777).astype(np.int64)
    edges[-1] = found.edges[-1]

    assert found.cells(edges).sum(axis=1).tolist() == found.before[:, -1].tolist()


def test_cells_of_every_other_row_are_those_of_that_row():
    found = grid(1, 6, 4)
    edges = np.array([0, 5, int(found.edges[-1])], np.int64)
    every_other = HeatGrid(found.edges, found.before[::2], found.covers[::2])

    cells = every_other.cells(edges)

    assert np.array_equal(cells, np.diff(found.bytes_before(edges), axis=1)[::2])


def counts(dense: np.ndarray, column: list[int]) -> Counts:
    none = np.zeros(0, np.int64)
    return Counts(
        len(dense), dense, np.array(column, np.int64), Entries(none, none, none)
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_table_of_counts_equals_adding_one_by_one(data):
    n_rows, n_columns, n_touches, width = (
        data.draw(st.integers(1, most)) for most in (130, 5, 9, 7)
    )
    dense = np.random.default_rng(n_rows).integers(0, 9, (n_rows, n_columns))
    column = data.draw(
        st.lists(st.integers(0, n_columns - 1), min_size=n_touches, max_size=n_touches)
    )
    where = data.draw(
        st.lists(st.integers(-1, width - 1), min_size=n_touches, max_size=n_touches)
    )
    expected = np.zeros((n_rows, width), np.int64)
    for touch, place in enumerate(where):
        if place >= 0:
            expected[:, place] += dense[:, column[touch]]

    table = counts(dense.astype(np.int32), column).table(np.array(where), width)

    assert np.array_equal(table, expected)


def test_table_of_counts_that_do_not_fit_32_bits_has_64():
    high = (1 << 31) - 1
    dense = np.array([[high, high], [1, 2]], np.int32)

    table = counts(dense, [0, 1]).table(np.array([1, 1]), 2)

    assert table.dtype == np.int64
    assert table.tolist() == [[0, 2 * high], [0, 3]]
