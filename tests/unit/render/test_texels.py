"""Texels and runs of many rows at once: those of each row by numpy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.rows.columns import (
    Columns,
    RowColumns,
    make_waits,
    query_many,
    table_of,
)
from ggscope.analysis.rows.rows import make_row
from ggscope.model.tables import Array
from ggscope.render.texels import column_pixels, foot_pixels, row_texels
from ggscope.render.timeline.runs import empty_runs, filled_runs

COLORS = np.array([0xFF102030, 0xFF405060, 0xFF708090, 0xFFA0B0C0], np.uint32)
FEET = np.array([0xFF112233, 0xFF445566, 0xFF778899, 0xFFAABBCC], np.uint32)
TONE = 0x14123456


def some_columns(seed: int, n_rows: int, px: int, *, at_once: bool) -> list[Columns]:
    """Return columns of rows; of every third one with waits, of the fourth empty."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.integers(0, 3_000, px + 1))
    rows = []
    for i in range(n_rows):
        n = 0 if i % 4 == 3 else int(rng.integers(1, 60))
        length = rng.integers(0, 80, n)
        start = np.cumsum(rng.integers(0, 90, n) + np.append(0, length)[:n])
        category = rng.integers(0, 3, max(n, 1)).astype(np.uint8)
        columns = RowColumns(make_row(start, start + length, np.arange(n)), category, 3)
        if n and i % 3 == 0:
            gap = np.append(start[1:], start[-1] + length[-1]) - start - length
            columns = columns.with_waits(make_waits(columns.row, gap.astype(np.uint32)))
        rows.append(columns)
    if at_once:
        return query_many(rows, edges)
    return [row.query(edges) for row in rows]


def is_empty(columns: Columns) -> Array:
    empty = columns.count == 0
    return (
        empty if columns.waited_ticks is None else empty & (columns.waited_ticks == 0)
    )


def expected_texels(
    columns: Columns,
    hue: int,
    foot: int,
    ends: tuple[bool, bool] | None,
    strength: float,
) -> tuple[Array, Array]:
    """Return body and foot of a row, one rule after the other."""
    rgb = (
        np.full(len(columns.count), hue, np.uint32) if hue else COLORS[columns.category]
    )
    feet = np.full(len(rgb), foot, np.uint32) if foot else FEET[columns.category]
    body = column_pixels(columns.busy, columns.count, rgb, strength)
    body[columns.count == 0] = 0
    feet = foot_pixels(columns.count, feet)
    if ends is not None:
        empty = is_empty(columns)
        used = np.flatnonzero(~empty)
        place = np.arange(len(empty))
        first, last = (used[0], used[-1]) if len(used) else (len(empty), -1)
        inner = (ends[0] | (place > first)) & (ends[1] | (place < last))
        body[empty & inner] = feet[empty & inner] = TONE
    return body, feet


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(1, 6),
    px=st.integers(1, 60),
    at_once=st.booleans(),
    strength=st.sampled_from([1.0, 0.4]),
    data=st.data(),
)
def test_texels_of_rows_are_those_of_each_row(
    seed: int, n_rows: int, px: int, at_once: bool, strength: float, data: st.DataObject
) -> None:
    columns = some_columns(seed, n_rows, px, at_once=at_once)
    hues = [data.draw(st.sampled_from([0, 0xFF00FF00])) for _ in columns]
    feet = [data.draw(st.sampled_from([0, 0xFF0000FF])) for _ in columns]
    ends = st.none() | st.tuples(st.booleans(), st.booleans())
    around = [data.draw(ends) for _ in columns]

    result = row_texels(
        columns, np.array(hues, np.uint32), np.array(feet, np.uint32), COLORS, FEET,
        strength=strength, around=around, tone=TONE,
    )  # fmt: skip
    bodies = row_texels(
        columns, np.array(hues, np.uint32), None, COLORS, FEET, strength=strength,
        around=around, tone=TONE,
    )  # fmt: skip

    for i, one in enumerate(columns):
        body, foot = expected_texels(one, hues[i], feet[i], around[i], strength)
        assert result[2 * i].tolist() == body.tolist()
        assert result[2 * i + 1].tolist() == foot.tolist()
        assert bodies[i].tolist() == body.tolist()


def runs_of(marks: list[object], min_length: int) -> list[tuple[object, int, int]]:
    """Return (mark, first, stop) of what follows each other; None ends a run."""
    runs, first = [], 0
    for k in range(1, len(marks) + 1):
        if k == len(marks) or marks[k] != marks[first]:
            if marks[first] is not None and k - first >= min_length:
                runs.append((marks[first], first, k))
            first = k
    return runs


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(1, 6),
    px=st.integers(1, 60),
    min_length=st.integers(1, 70),
    at_once=st.booleans(),
)
def test_runs_are_those_of_brute_force(
    seed: int, n_rows: int, px: int, min_length: int, at_once: bool
) -> None:
    columns = some_columns(seed, n_rows, px, at_once=at_once)
    numbers = 5 + 3 * np.arange(n_rows)
    full, gaps = [], []
    for number, one in zip(numbers.tolist(), columns, strict=True):
        alone = (one.count == 1) & (one.busy == 1.0)
        owner = [
            int(i) if yes else None for i, yes in zip(one.first, alone, strict=True)
        ]
        empty = [-1 if yes else None for yes in is_empty(one).tolist()]
        full += [(mark, number, a, b) for mark, a, b in runs_of(owner, min_length)]
        gaps += [(mark, number, a, b) for mark, a, b in runs_of(empty, min_length)]

    for find, expected in ((filled_runs, full), (empty_runs, gaps)):
        result = find(columns, numbers, min_length)
        fields = result.owner, result.row, result.first, result.stop
        assert list(zip(*(field.tolist() for field in fields), strict=True)) == expected


def test_rows_asked_for_at_once_are_not_copied() -> None:
    columns = some_columns(1, 3, 20, at_once=True)[:3]
    table, at = table_of(columns[1:])
    assert table is columns[0].table
    assert at.tolist() == [1, 2]


def test_category_beyond_the_colors_has_that_of_none() -> None:
    [columns] = some_columns(1, 1, 20, at_once=True)
    few = COLORS[-1:]
    texels = row_texels([columns], np.zeros(1, np.uint32), None, few, few)
    used = columns.count > 0
    assert used.any()
    assert (texels[0][used] & 0xFFFFFF == int(few[0]) & 0xFFFFFF).all()
