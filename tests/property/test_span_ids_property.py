import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.rows.rows import COARSE_STEP, PREFIX_STEP, SpanIds, make_row


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 1 << 40),
    st.integers(0, 40),
    st.one_of(st.slices(40), st.lists(st.integers(0, 39)), st.integers(-40, 39)),
)
def test_span_ids_equal_an_array_under_any_index(first, n, at):
    ids = SpanIds(first, n, np.int64)
    array = np.arange(first, first + n)
    if isinstance(at, list):
        at = np.array([i for i in at if i < n], np.int64)
    elif isinstance(at, int):
        at = at % n if n else slice(0)

    assert np.array_equal(ids[at], array[at])


steps = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1 << 40)), max_size=70)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_prefix_gives_the_covered_time_before_every_span(steps):
    gap = np.array([s[0] for s in steps], np.int64)
    length = np.array([s[1] for s in steps], np.int64)
    end = np.cumsum(gap + length)
    n = len(steps)

    row = make_row(end - length, end, SpanIds(0, n))

    covered = np.concatenate([[0], np.cumsum(length)])
    assert np.array_equal(row.prefix, covered[::PREFIX_STEP])
    assert np.array_equal(row.coarse, row.start[::COARSE_STEP])
    assert np.array_equal(row.covered_at(np.arange(n + 1)), covered)
    assert row.total_covered == covered[-1]


def test_prefix_of_a_long_row_is_what_its_spans_cover():
    rng = np.random.default_rng(1)
    end = np.cumsum(rng.integers(0, 99, 100_003))
    length = rng.integers(0, 2, len(end))

    row = make_row(end - length, end, SpanIds(0, len(end)))

    covered = np.concatenate([[0], np.cumsum(length)])
    assert np.array_equal(row.prefix, covered[::PREFIX_STEP])
