"""Tables of columns: some rows of them, and rows behind others."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ggscope.model.tables import I64, Table


@dataclass(frozen=True, slots=True, eq=False)
class Inner(Table):
    number: I64
    n_lines: int


@dataclass(frozen=True, slots=True, eq=False)
class Outer(Table):
    inner: Inner
    pairs: I64
    noun: str


def table_of(numbers: list[int], noun: str) -> Outer:
    values = np.array(numbers, np.int64)
    pairs = np.stack([values, -values], axis=1)
    return Outer(Inner(values, len(numbers)), pairs, noun)


numbers = st.lists(st.integers(0, 9))


@given(numbers, numbers)
def test_rows_follow_others_and_the_rest_is_as_in_the_last(
    first: list[int], then: list[int]
) -> None:
    table = table_of(first, "a").followed_by(table_of(then, "b"))

    assert len(table) == len(first) + len(then)
    assert table.inner.number.tolist() == first + then
    assert table.pairs.tolist() == [[n, -n] for n in first + then]
    assert (table.inner.n_lines, table.noun) == (len(then), "b")


@given(numbers, st.integers(0, 9), st.integers(0, 9))
def test_some_rows_are_taken_of_all_columns(
    values: list[int], begin: int, stop: int
) -> None:
    table = table_of(values, "a").take(slice(begin, stop))

    assert table.inner.number.tolist() == values[begin:stop]
    assert table.pairs[:, 0].tolist() == values[begin:stop]
    assert (table.inner.n_lines, table.noun) == (len(values), "a")
