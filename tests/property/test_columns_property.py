import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.rows.columns import RowColumns, column_edges
from ggscope.analysis.rows.rows import Row, make_row
from ggscope.model.units import TimeRange
from oracles.picture_columns import columns_slow

steps = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 4)), max_size=50
)


def built(origin: int, steps: list[tuple[int, int, int]]) -> tuple[Row, np.ndarray]:
    """Return a row from (gap, length, category) and the categories by id."""
    gap = np.array([s[0] for s in steps], np.int64)
    length = np.array([s[1] for s in steps], np.int64)
    end = origin + np.cumsum(gap + length)
    category = np.array([s[2] for s in steps], np.uint8)
    return make_row(end - length, end, np.arange(len(steps))), category


@settings(max_examples=100, deadline=None)
@given(
    st.integers(-300, 300),
    steps,
    st.integers(-500, 500),
    st.integers(0, 700),
    st.integers(1, 50),
)
def test_columns_of_any_view_equal_brute_force(origin, steps, start, duration, px):
    row, category = built(origin, steps)
    edges = column_edges(TimeRange(start, start + duration), px)

    columns = RowColumns(row, category, 5).query(edges)

    slow = columns_slow(row, edges, category)
    assert np.abs(columns.busy - slow.busy).max() < 1e-6
    for name in ("count", "category", "first", "longest", "covered_ticks"):
        assert np.array_equal(getattr(columns, name), getattr(slow, name)), name
    assert ((columns.category >= 0) == (columns.count > 0)).all()


@settings(max_examples=100, deadline=None)
@given(
    st.integers(-(1 << 61), 1 << 61),
    steps,
    st.integers(0, 1 << 60),
    st.integers(1, 3_000),
)
def test_columns_add_up_to_the_covered_time_in_view(origin, steps, duration, px):
    row, category = built(origin, steps)
    visible = TimeRange(origin - 7, origin - 7 + duration)
    edges = column_edges(visible, px)

    columns = RowColumns(row, category, 5).query(edges)

    clipped = np.minimum(row.end, visible.end) - np.maximum(row.start, visible.start)
    assert int(columns.covered_ticks.sum()) == int(np.maximum(clipped, 0).sum())
    width = np.diff(edges)
    wide = width > 0
    assert np.allclose(
        (columns.busy * width)[wide], columns.covered_ticks[wide], rtol=1e-12, atol=0
    )


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1 << 40), st.integers(1, 4_000))
def test_columns_show_one_tick_wherever_it_is(at, px):
    row = make_row(np.array([at]), np.array([at + 1]), np.array([0]))
    edges = column_edges(TimeRange(0, 1 << 41), px)

    columns = RowColumns(row, np.array([1], np.uint8), 2).query(edges)

    assert int(columns.count.sum()) == 1
    assert int((columns.category == 1).sum()) == 1
    assert int(columns.covered_ticks.sum()) == 1


@settings(max_examples=50, deadline=None)
@given(
    st.integers(-(1 << 62), 1 << 61), st.integers(0, 1 << 61), st.integers(1, 10_000)
)
def test_column_edges_are_exact_floors(start, duration, px):
    edges = column_edges(TimeRange(start, start + duration), px)

    picks = sorted({0, 1, px // 3, px // 2, px - 1, px})
    assert [int(edges[k]) for k in picks] == [start + k * duration // px for k in picks]
