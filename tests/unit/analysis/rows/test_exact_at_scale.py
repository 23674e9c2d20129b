"""Ten million spans: every column equals a plain sum over all of them, in ticks.

The sums here share nothing with the code under test: every span is cut at the
columns' edges and its parts are added up by ``bincount``.
"""

import numpy as np
import pytest

from ggscope.analysis.rows.columns import Columns, RowColumns, column_edges, query_many
from ggscope.analysis.rows.rows import Row, SpanIds, make_row
from ggscope.model.units import TimeRange

N_SPANS, N_ROWS = 10_000_000, 8
PER_ROW = N_SPANS // N_ROWS
MANY, FEW = 64, 9
PX = 1_917

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    made = []
    for number in range(N_ROWS):
        rng = np.random.default_rng(number)
        # Mostly short spans, some instants, some a thousand times as long.
        length = rng.integers(0, 200, PER_ROW)
        length[rng.integers(0, PER_ROW, 500)] *= 1_000
        end = np.cumsum(length + rng.integers(0, 3, PER_ROW) * 20)
        made.append(make_row(end - length, end, SpanIds(number * PER_ROW, PER_ROW)))
    return made


@pytest.fixture(scope="module")
def numbers() -> np.ndarray:
    return np.random.default_rng(99).integers(0, MANY, N_SPANS).astype(np.uint8)


def brute_force(
    row: Row, edges: np.ndarray, category: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (int64[px, n] covered ticks by category, int64[px] spans touched)."""
    px = len(edges) - 1
    seen = (row.end > edges[0]) & (row.start < edges[-1])
    seen |= (row.start == row.end) & (row.start >= edges[0]) & (row.start < edges[-1])
    start, end, name = row.start[seen], row.end[seen], category[seen]
    start, end = np.maximum(start, edges[0]), np.minimum(end, edges[-1])
    low = np.searchsorted(edges, start, "right") - 1
    high = np.searchsorted(edges, np.maximum(end - 1, start), "right") - 1
    width = high - low + 1
    owner = np.repeat(np.arange(len(start)), width)
    column = (
        low[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(width) - width, width)
    )
    part = np.minimum(end[owner], edges[column + 1])
    part -= np.maximum(start[owner], edges[column])
    # Fewer than 2^53 ticks in all, so the float sums of bincount are exact.
    sums = np.bincount(column * n + name[owner], part, px * n).astype(np.int64)
    return sums.reshape(px, n), np.bincount(column, minlength=px)


def check(columns: Columns, row: Row, edges: np.ndarray, names: np.ndarray, n: int):
    sums, count = brute_force(row, edges, names, n)
    covered = sums.sum(axis=1)
    assert np.array_equal(columns.covered_ticks, covered)
    assert np.array_equal(columns.count, count)
    clipped = np.minimum(row.end, edges[-1]) - np.maximum(row.start, edges[0])
    assert int(columns.covered_ticks.sum()) == int(np.maximum(clipped, 0).sum())
    assert np.array_equal(columns.busy, covered / np.diff(edges))
    busy = covered > 0
    assert np.array_equal(columns.category[busy], np.argmax(sums, axis=1)[busy])
    assert ((columns.category >= 0) == (count > 0)).all()


def views(row: Row) -> list[np.ndarray]:
    """Return the whole row, a hundredth and a ten-thousandth of it, odd widths."""
    last = int(row.end[-1])
    return [
        column_edges(TimeRange(0, last + 1), PX),
        column_edges(TimeRange(last * 2 // 5, last * 2 // 5 + last // 100), PX),
        column_edges(TimeRange(last * 3 // 5, last * 3 // 5 + last // 10_000), 331),
        column_edges(TimeRange(-last // 7, last + last // 3), 61),
    ]


@pytest.mark.parametrize("n", [FEW, MANY])
def test_every_column_of_10m_spans_equals_a_plain_sum(rows, numbers, n):
    category = numbers % np.uint8(n)
    requested = [RowColumns(row, category, n) for row in rows]

    for edges in views(rows[0]):
        results = query_many(requested, edges)
        for k in range(N_ROWS):
            names = category[k * PER_ROW : (k + 1) * PER_ROW]
            check(results[k], rows[k], edges, names, n)


def test_every_column_of_10m_filtered_spans_equals_a_plain_sum(rows, numbers):
    mask = numbers < MANY // 2
    category = numbers % np.uint8(FEW)
    row = rows[3]
    names = category[3 * PER_ROW : 4 * PER_ROW]
    keep = mask[3 * PER_ROW : 4 * PER_ROW]
    entries = make_row(row.start[keep], row.end[keep], np.flatnonzero(keep))

    row_columns = RowColumns(row, category, FEW).filtered(mask)

    for edges in views(row)[:3]:
        check(row_columns.query(edges), entries, edges, names[keep], FEW)


def test_one_ns_in_ten_seconds_is_visible_among_10m_spans(rows):
    # A single category B span of one tick, far from any other span.
    row = rows[0]
    gap = 10_000_000_000
    at = int(row.end[-1]) + gap // 2
    start = np.append(row.start, [at])
    end = np.append(row.end, [at + 1])
    category = np.zeros(len(start), np.uint8)
    category[-1] = 1
    whole = make_row(start, end, SpanIds(0, len(start)))
    edges = column_edges(TimeRange(int(row.end[-1]), int(row.end[-1]) + gap), PX)

    columns = RowColumns(whole, category, 2).query(edges)

    (column,) = np.flatnonzero(columns.category == 1)
    assert int(columns.covered_ticks[column]) == 1
    assert int(columns.first[column]) == PER_ROW
    assert 0 < columns.busy[column] < 1e-6
