import numpy as np
import pytest

import builders
from ggscope.analysis.rows.columns import RowColumns, column_edges, query_many
from ggscope.analysis.rows.rows import (
    Row,
    SpanIds,
    flatten,
    flatten_merged,
    make_row,
    merged_order,
)
from ggscope.model.units import TimeRange
from ggscope.render.texels import row_texels, stack_texels, stack_weights

PX, LEVELS = 1920, 18
"""Columns and height of a row of 22 pixels, between two of margin, at 100 %."""
COLORS = np.arange(1, 11, dtype=np.uint32) * np.uint32(0x112233) | np.uint32(0xFF000000)
N_FAMILIES = 9


def rows_of(n_spans: int, n_rows: int) -> list[tuple[Row, np.ndarray]]:
    """Return rows with one matmul to four other ops, which takes most of the time."""
    per_row = n_spans // n_rows
    result = []
    for number in range(n_rows):
        rng = np.random.default_rng(number)
        category = rng.integers(0, N_FAMILIES, per_row).astype(np.uint8)
        length = rng.integers(0, 200, per_row)
        length[category == 0] *= 15
        end = np.cumsum(length + rng.integers(0, 50, per_row))
        row = make_row(end - length, end, SpanIds(0, per_row))
        result.append((row, category))
    return result


@pytest.fixture(scope="module")
def million() -> list[RowColumns]:
    return [RowColumns(r, c, N_FAMILIES) for r, c in rows_of(1_000_000, 8)]


@pytest.fixture(scope="module")
def ten_million() -> list[RowColumns]:
    return [RowColumns(r, c, N_FAMILIES) for r, c in rows_of(10_000_000, 32)]


@pytest.fixture(scope="module")
def largest() -> list[RowColumns]:
    return [RowColumns(r, c, N_FAMILIES) for r, c in rows_of(33_554_432, 32)]


def view(rows: list[RowColumns], zoom: int) -> np.ndarray:
    last = int(rows[0].row.end[-1])
    start = 0 if zoom == 1 else last * 2 // 5
    return column_edges(TimeRange(start, start + last // zoom), PX)


def query(rows: list[RowColumns], edges: np.ndarray) -> int:
    return sum(int(one.category[0]) for one in query_many(rows, edges))


@pytest.mark.parametrize("zoom", [1, 100, 10_000])
def test_bench_query_1m_spans_8_rows_1920_px(benchmark, million, zoom):
    benchmark(query, million, view(million, zoom))


@pytest.mark.parametrize("zoom", [1, 100, 10_000])
def test_bench_query_10m_spans_32_rows_1920_px(benchmark, ten_million, zoom):
    benchmark(query, ten_million, view(ten_million, zoom))


@pytest.mark.slow
@pytest.mark.parametrize("zoom", [1, 10, 30, 100, 10_000])
def test_bench_query_33m_spans_32_rows_1920_px(benchmark, largest, zoom):
    benchmark(query, largest, view(largest, zoom))


def picture(rows: list[RowColumns], edges: np.ndarray, n_levels: int) -> int:
    """Return a texel of the picture of rows, stacked in levels; 0 = not stacked."""
    results = query_many(rows, edges, [n_levels] * len(rows))
    hues = np.zeros(len(rows), np.uint32)
    flat = row_texels(results, hues, hues, COLORS, COLORS)
    if not n_levels:
        return int(flat[0, 0])
    weights = stack_weights(results, 3)
    texels = stack_texels(
        results,
        weights,
        flat,
        np.full(len(rows), 6),
        hues,
        hues,
        COLORS,
        COLORS,
        least=1,
    )
    return int(texels[0, 0])


@pytest.mark.slow
@pytest.mark.parametrize("zoom", [1, 10, 100, 10_000])
@pytest.mark.parametrize("n_levels", [0, LEVELS])
def test_bench_picture_33m_spans_32_rows_1920_px(benchmark, largest, zoom, n_levels):
    benchmark(picture, largest, view(largest, zoom), n_levels)


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_bench_query_10m_spans_32_rows_filtered(benchmark, ten_million, share):
    mask = np.random.default_rng(0).random(10_000_000 // 32) < share
    rows = [row.filtered(mask) for row in ten_million]

    benchmark(query, rows, view(rows, 1))


def test_bench_filter_10m_spans_32_rows(benchmark, ten_million):
    mask = np.random.default_rng(0).random(10_000_000 // 32) < 0.5

    benchmark(lambda: [row.filtered(mask) for row in ten_million])


def test_bench_query_1m_spans_8_rows_even_mix(benchmark):
    """The dearest case: no family leads, so every column looks at its edges."""
    rows = []
    for number in range(8):
        start, end = builders.random_row(number, 125_000)
        category = np.random.default_rng(number).integers(0, N_FAMILIES, len(start))
        row = make_row(start, end, SpanIds(0, len(start)))
        rows.append(RowColumns(row, category.astype(np.uint8), N_FAMILIES))

    benchmark(query, rows, view(rows, 1))


def test_bench_longest_1m_spans_8_rows_1920_px(benchmark, million):
    edges = view(million, 1)

    benchmark(lambda: [row.query(edges).longest for row in million])


def test_bench_build_columns_1m_spans_8_rows(benchmark):
    rows = rows_of(1_000_000, 8)

    benchmark(lambda: [RowColumns(r, c, N_FAMILIES) for r, c in rows])


def eight_threads(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the spans of eight threads that begin their ops nearly together."""
    rng = np.random.default_rng(0)
    base = np.cumsum(rng.integers(100, 5_000, n // 8))
    late = [rng.integers(0, 2, n // 8) * rng.integers(0, 50, n // 8) for _ in range(8)]
    start = np.concatenate([base + part for part in late])
    return start, start + rng.integers(10, 90, len(start))


def test_bench_time_order_1m_spans_8_threads(benchmark):
    start, _ = eight_threads(1_000_000)

    benchmark(merged_order, start)


@pytest.mark.parametrize("way", ["compiled", "numpy"])
def test_bench_flatten_1m_spans_8_threads(benchmark, way):
    start, end = eight_threads(1_000_000)
    ids = np.arange(len(start), dtype=np.int32)
    plain = way == "numpy"

    benchmark(flatten if plain else flatten_merged, start, end, ids)
