import numpy as np
import pytest

from ggscope.analysis.rows.rows import SpanIds, make_row


@pytest.fixture
def ids() -> SpanIds:
    return SpanIds(100, 7)


def test_span_ids_as_an_array_are_consecutive(ids):
    assert np.asarray(ids).tolist() == list(range(100, 107))
    assert np.asarray(ids).dtype == np.int32
    assert np.asarray(ids, np.int64).dtype == np.int64
    assert len(ids) == 7


def test_span_ids_cannot_be_an_array_without_a_copy(ids):
    with pytest.raises(ValueError, match="must be copied"):
        ids.__array__(copy=False)


@pytest.mark.parametrize("at", [0, 3, 6, -1, -7, np.int64(2)])
def test_span_ids_by_number_give_an_int(ids, at):
    assert ids[at] == np.asarray(ids)[at]
    assert type(ids[at]) is int


@pytest.mark.parametrize("at", [7, -8])
def test_span_ids_beyond_the_ends_raise_index_error(ids, at):
    with pytest.raises(IndexError):
        ids[at]
    with pytest.raises(IndexError):
        ids[np.array([0, at])]


@pytest.mark.parametrize(
    "at",
    [
        slice(None),
        slice(2, 5),
        slice(-3, None),
        slice(5, 2),
        slice(None, None, 3),
        slice(None, None, -2),
        slice(4, 99),
        np.array([3, 0, -1]),
        np.zeros(0, np.int64),
        np.array([[1, 2], [3, 4]]),
        np.array([True, False] * 3 + [True]),
        [6, 0],
    ],
)
def test_span_ids_are_indexed_like_an_array(ids, at):
    value = ids[at]

    assert np.array_equal(value, np.asarray(ids)[at])
    assert value.dtype == np.int32


def test_span_ids_of_a_wrong_number_of_marks_raise_index_error(ids):
    with pytest.raises(IndexError):
        ids[np.array([True, False])]


def test_span_ids_contain_numbers_of_their_range_only(ids):
    assert 100 in ids
    assert np.int32(106) in ids
    assert 107 not in ids
    assert 99 not in ids
    assert "100" not in ids


def test_values_of_consecutive_ids_are_a_view():
    start = np.arange(5)
    column = np.arange(20)
    row = make_row(start, start + 1, SpanIds(3, 5))

    values = row.values_of(column)

    assert values.base is column
    assert values.tolist() == [3, 4, 5, 6, 7]
    other = make_row(start, start + 1, np.array([9, 1, 0, 19, 3]))
    assert other.values_of(column).tolist() == [9, 1, 0, 19, 3]
