"""Cells of a heatmap in compiled code are those of numpy; tables of counts."""

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.heat.byte_ranges import Counts, Entries
from ggscope.analysis.heat.heatmap import HeatGrid, scaled


def grid(seed: int, n_rows: int, n_pieces: int, dtype: type = np.int64) -> HeatGrid:
    """Return a grid of random rows over pieces of random sizes, from 0."""
    rng = np.random.default_rng(seed)
    edges = np.concatenate([[0], np.cumsum(rng.integers(1, 1 << 32, n_pieces))])
    table = np.zeros((n_rows + 1, n_pieces), np.int64)
    np.cumsum(rng.integers(0, 1 << 12, (n_rows, n_pieces)), axis=0, out=table[1:])
    return HeatGrid(
        edges.astype(np.int64), np.arange(n_rows + 1), table.astype(dtype)
    )  # fmt: skip


def sums(heat_grid: HeatGrid, table: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return int64[g, p + 1]: the numbers of each group before each piece."""
    of_group = np.diff(table[heat_grid.rows].astype(np.int64), axis=0)
    before = np.zeros((len(of_group), len(weights) + 1), np.int64)
    np.cumsum(of_group * weights, axis=1, out=before[:, 1:])
    return before


def bytes_before(heat_grid: HeatGrid, offsets: np.ndarray) -> np.ndarray:
    """Return int64[g, m] as the definition says it, in numpy."""
    at = np.clip(offsets, heat_grid.edges[0], heat_grid.edges[-1])
    piece = np.searchsorted(heat_grid.edges[1:-1], at, "right")
    own = np.diff(heat_grid.covers[heat_grid.rows].astype(np.int64), axis=0)[:, piece]
    width, inside = np.diff(heat_grid.edges), at - heat_grid.edges[piece]
    result = sums(heat_grid, heat_grid.covers, width)[:, piece] + own * inside
    if heat_grid.spread is not None:
        table = np.zeros(heat_grid.covers.shape, np.int64)
        table[:, heat_grid.spread[0]] = heat_grid.spread[1]
        own = np.diff(table[heat_grid.rows], axis=0)[:, piece]
        result += sums(heat_grid, table, np.ones_like(width))[:, piece]
        result += scaled(own, inside[None, :], width[piece][None, :])
    return result


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 999), st.integers(0, 5), st.integers(1, 9),
    st.sampled_from([np.int16, np.int32, np.int64]), st.data(),
)  # fmt: skip
def test_cells_of_any_grid_equal_those_of_numpy(seed, n_rows, n_pieces, dtype, data):
    heat_grid = grid(seed, n_rows, n_pieces, dtype)
    some = np.flatnonzero(np.random.default_rng(seed).integers(0, 2, n_pieces))
    if seed % 2:  # bytes that are spread over some of the pieces
        spread = some, 1_000_003 * heat_grid.covers[:, some].astype(np.int64)
        heat_grid = replace(heat_grid, spread=spread)
    last = int(heat_grid.edges[-1])
    offsets = data.draw(st.lists(st.integers(-9, last + 9), max_size=20))
    edges = np.array(sorted(offsets), np.int64)
    expected = bytes_before(heat_grid, edges)

    cells = heat_grid.cells(edges)

    assert cells.dtype == np.int64
    assert cells.shape == (n_rows, max(len(edges) - 1, 0))
    assert np.array_equal(cells, np.diff(expected, axis=1))
    mixed = np.random.default_rng(seed).permutation(len(edges))
    assert np.array_equal(heat_grid.bytes_before(edges[mixed]), expected[:, mixed])
    width = np.diff(edges)
    is_wide = width > 0
    amounts = heat_grid.densities(edges)[:, is_wide] * width[is_wide]
    assert np.allclose(amounts, cells[:, is_wide], rtol=1e-5, atol=1.01)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4000), st.integers(1, 1 << 40), st.integers(2, 400))
def test_bytes_that_are_spread_evenly_are_equally_dense(amount, size, n):
    edges = np.array([0, size], np.int64)
    none = np.zeros((2, 1), np.int64)
    spread = np.zeros(1, np.int64), np.array([[0], [amount << 20]], np.int64)
    grid = HeatGrid(edges, np.arange(2), none, spread)
    offsets = np.unique(np.linspace(0, size, n).astype(np.int64))

    densities = grid.densities(offsets)[0]

    assert np.allclose(densities * size, amount << 20, rtol=0.02)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.integers(0, 5), st.integers(1, 9), st.data())
def test_accesses_of_any_grid_equal_those_of_numpy(seed, n_rows, n_pieces, data):
    begins, stops = (grid(seed + i, n_rows, n_pieces) for i in (0, 1))
    result = HeatGrid(begins.edges, begins.rows, begins.covers, ends=stops.covers)
    last = int(result.edges[-1])
    offsets = data.draw(st.lists(st.integers(-9, last + 9), max_size=20))
    begin = np.array(offsets[: len(offsets) // 2], np.int64)
    stop = np.array(offsets[-len(begin) :] if len(begin) else [], np.int64)
    ones = np.ones(n_pieces, np.int64)
    begun = np.searchsorted(result.edges[:-1], stop, "left")
    ended = np.searchsorted(result.edges[1:], begin, "right")
    expected = (
        sums(result, result.covers, ones)[:, begun]
        - sums(result, stops.covers, ones)[:, ended]
    )
    expected[:, stop <= begin] = 0

    assert np.array_equal(result.between(begin, stop), expected)
    edges = np.array(sorted(offsets), np.int64)
    assert np.array_equal(result.cells(edges), result.between(edges[:-1], edges[1:]))


def test_cells_of_a_whole_file_add_up_to_its_bytes():
    heat_grid = grid(1, 3, 50)
    edges = np.linspace(0, int(heat_grid.edges[-1]), 777).astype(np.int64)
    edges[-1] = heat_grid.edges[-1]
    whole = sums(heat_grid, heat_grid.covers, np.diff(heat_grid.edges))[:, -1]

    assert heat_grid.cells(edges).sum(axis=1).tolist() == whole.tolist()


def test_groups_of_rows_have_the_sums_of_their_rows():
    heat_grid = grid(1, 6, 4)
    edges = np.array([0, 5, int(heat_grid.edges[-1])], np.int64)
    groups = np.array([0, 2, 2, 6])
    each = heat_grid.cells(edges)

    cells = HeatGrid(heat_grid.edges, groups, heat_grid.covers).cells(edges)

    assert cells.tolist() == [
        each[low:high].sum(axis=0).tolist() for low, high in itertools.pairwise(groups)
    ]


def counts(dense: np.ndarray, column: list[int]) -> Counts:
    none = np.zeros(0, np.int64)
    return Counts(
        len(dense), dense, np.array(column, np.int64), Entries(none, none, none)
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_table_of_counts_equals_adding_one_by_one(data):
    n_rows, n_columns, n_touches, width = (
        data.draw(st.integers(1, one)) for one in (130, 5, 9, 7)
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
