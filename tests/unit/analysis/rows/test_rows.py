import numpy as np
import pytest

import builders
from ggscope.analysis.rows.rows import MAX_ROWS, Row, flatten, make_row, stack


def spans(*pairs: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return start.copy(), end.copy(), np.arange(len(pairs), dtype=np.int32)


def ids(rows: tuple[Row, ...]) -> list[list[int]]:
    return [row.id.tolist() for row in rows]


def test_stack_without_spans_returns_no_rows():
    assert stack(*spans()) == ()


def test_stack_sorted_spans_keeps_the_arrays():
    start, end, numbers = spans((0, 5), (5, 9), (12, 20))

    (row,) = stack(start, end, numbers)

    assert row.start is start
    assert row.end is end
    assert row.id is numbers
    assert row.covered_at(np.arange(4)).tolist() == [0, 5, 9, 17]
    assert row.prefix.dtype == np.int64


def test_stack_unsorted_spans_without_overlap_returns_one_sorted_row():
    assert ids(stack(*spans((12, 20), (0, 5), (5, 9)))) == [[1, 2, 0]]


def test_stack_nested_spans_returns_a_row_per_depth():
    rows = stack(*spans((1, 4), (0, 10), (2, 3), (5, 9), (10, 12)))

    assert ids(rows) == [[1, 4], [0, 3], [2]]


def test_stack_equal_starts_puts_the_longer_span_outside():
    assert ids(stack(*spans((0, 4), (0, 10), (0, 7)))) == [[1], [2], [0]]


def test_stack_same_span_twice_keeps_both_in_order():
    assert ids(stack(*spans((0, 4), (0, 4)))) == [[0], [1]]


def test_stack_instants_at_one_tick_share_a_row():
    assert ids(stack(*spans((5, 8), (5, 5), (5, 5), (3, 5)))) == [[3, 1, 2, 0]]


def test_stack_instant_inside_a_span_goes_one_row_down():
    assert ids(stack(*spans((0, 10), (4, 4), (4, 6)))) == [[0], [1, 2]]


def test_stack_partial_overlaps_take_the_lowest_free_row():
    rows = stack(*spans((0, 10), (5, 15), (12, 20), (16, 18), (30, 31)))

    assert ids(rows) == [[0, 2, 4], [1, 3]]


def test_stack_partial_overlap_leaves_other_clusters_nested():
    rows = stack(*spans((0, 10), (5, 15), (12, 20), (30, 40), (31, 33), (32, 33)))

    assert ids(rows) == [[0, 2, 3], [1, 4], [5]]


def test_stack_deeper_than_16_bits_sorts_by_wider_depth():
    n = (1 << 15) + 2
    start = np.arange(n, dtype=np.int64)

    made = stack(start, 2 * n - start, start.astype(np.int32))

    assert ids(made[:-1]) == [[i] for i in range(MAX_ROWS - 1)]
    assert made[-1].levels == n - (MAX_ROWS - 1)


def test_stack_builder_nested_trace_has_its_depth():
    trace = builders.nested_trace(depth=4, width=3)

    rows = stack(trace.spans.start, trace.spans.end, np.arange(len(trace.spans)))

    assert [len(row) for row in rows] == [1, 3, 9, 27]


def test_flatten_overlapping_spans_returns_their_union():
    row = flatten(*spans((5, 15), (0, 10), (2, 4), (20, 22), (21, 25)))

    assert row.id.tolist() == [1, 0, 3, 4]
    assert row.start.tolist() == [0, 10, 20, 22]
    assert row.end.tolist() == [10, 15, 22, 25]
    assert row.total_covered == 20


def test_flatten_hides_instants_only_inside_other_spans():
    row = flatten(*spans((0, 10), (4, 4), (10, 10), (8, 12), (30, 30)))

    assert row.id.tolist() == [0, 3, 4]


def test_flatten_sorted_spans_keeps_the_arrays():
    start, end, numbers = spans((0, 1), (4, 5))

    assert flatten(start, end, numbers).start is start


def test_flatten_without_spans_returns_an_empty_row():
    assert len(flatten(*spans())) == 0


def test_row_at_finds_the_span_that_covers_a_tick():
    row = make_row(*spans((0, 5), (5, 5), (5, 9), (12, 12)))

    assert [row.at(t) for t in (-1, 0, 4, 5, 8, 9, 12)] == [
        None,
        0,
        0,
        2,
        2,
        None,
        None,
    ]


def test_row_select_keeps_marked_ids_only():
    start, end, _ = spans((0, 5), (6, 8), (9, 12))
    row = make_row(start, end, np.array([7, 3, 5]))
    mask = np.zeros(8, np.bool_)
    mask[[3, 7]] = True

    chosen = row.select(mask)

    assert chosen.id.tolist() == [7, 3]
    assert chosen.covered_at(np.arange(3)).tolist() == [0, 5, 7]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 1, (0, 1)),
        (5, 6, (1, 3)),
        (4, 5, (0, 1)),
        (9, 12, (3, 3)),
        (12, 13, (3, 4)),
        (-9, 99, (0, 4)),
        (6, 6, (2, 3)),
    ],
)
def test_row_touching_returns_the_spans_of_a_range(start, end, expected):
    row = make_row(*spans((0, 5), (5, 5), (5, 9), (12, 12)))

    assert row.touching(start, end) == expected


def test_row_position_distinguish_equal_starts():
    row = make_row(*spans((0, 5), (5, 5), (5, 9)))

    assert row.position(2, 5) == 2
    assert row.position(2, 0) is None
