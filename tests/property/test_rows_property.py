from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.rows.rows import Row, flatten, stack

pairs = st.lists(
    st.tuples(st.integers(-60, 60), st.integers(0, 25)), min_size=0, max_size=60
)


def arrays(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start = np.array([s for s, _ in spans], np.int64)
    length = np.array([n for _, n in spans], np.int64)
    return start, start + length, np.arange(len(spans), dtype=np.int32) * 3 + 1


def nested(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans that nest properly: the parts of a number in base 4."""
    return [(s // (4**k) * (4**k), 4**k) for s, k in ((s, n % 4) for s, n in spans)]


def check(rows: tuple[Row, ...], start, end, ids) -> None:
    assert sorted(i for row in rows for i in row.id.tolist()) == sorted(ids.tolist())
    for row in rows:
        assert (row.end[:-1] <= row.start[1:]).all()
        at = (row.id - 1) // 3
        assert np.array_equal(row.start, start[at])
        assert np.array_equal(row.end, end[at])
        covered = row.covered_at(np.arange(len(row) + 1))
        assert covered[0] == 0
        assert np.array_equal(np.diff(covered), row.end - row.start)


@settings(max_examples=100, deadline=None)
@given(pairs)
def test_stack_any_spans_never_overlap_and_all_are_present(spans):
    start, end, ids = arrays(spans)

    rows = stack(start, end, ids)

    check(rows, start, end, ids)
    deepest = max(
        (int(((start <= t) & (end > t)).sum()) for t in start.tolist()), default=0
    )
    assert len(rows) <= max(deepest + 1, 1)


@settings(max_examples=100, deadline=None)
@given(pairs)
def test_stack_nested_spans_lie_below_what_encloses_them(spans):
    start, end, ids = arrays(nested(spans))

    rows = stack(start, end, ids)

    check(rows, start, end, ids)
    for upper, lower in pairwise(rows):
        for s, e in zip(lower.start.tolist(), lower.end.tolist(), strict=True):
            assert ((upper.start <= s) & (upper.end >= e)).any()


@settings(max_examples=100, deadline=None)
@given(pairs)
def test_flatten_any_spans_covers_their_union(spans):
    start, end, ids = arrays(spans)

    row = flatten(start, end, ids)

    ticks = np.arange(-70, 100)
    inside = ((start[:, None] <= ticks) & (ticks < end[:, None])).any(axis=0)
    shown = np.array([row.at(t) is not None for t in ticks.tolist()])
    assert (row.end[:-1] <= row.start[1:]).all()
    assert np.array_equal(shown, inside)
    assert row.total_covered == int(inside.sum())
