"""Different values, where each comes first and stands: those of numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.model.tables import first_places, looked_up, places_among, ranked


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-9, 9), max_size=40))
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
def test_ranked_values_are_those_of_numpy(dtype, values):
    limits = np.iinfo(dtype)
    # At both ends of what the type holds, and around 0.
    base = limits.max - 9 if values[:1] == [9] else max(limits.min, -9)
    column = np.array([base + (value % 10) for value in values], dtype)
    expected = np.unique(column, return_index=True, return_inverse=True)

    result = ranked(column)

    assert result[0].dtype == dtype
    for mine, theirs in zip(result, expected, strict=True):
        assert mine.tolist() == theirs.tolist()


def test_ranked_values_may_be_beyond_what_a_position_holds():
    column = np.array([1 << 63, 3, 1 << 63], np.uint64)

    values, first, place = ranked(column)

    assert values.tolist() == [3, 1 << 63]
    assert first.tolist() == [1, 0]
    assert place.tolist() == [1, 0, 1]


@given(st.lists(st.integers(0, 40), max_size=60))
def test_first_places_are_those_of_unique(codes: list[int]) -> None:
    values = np.array(codes, np.int64)
    expected = np.unique(values, return_index=True)

    for kind in (np.int64, np.int32):
        result = first_places(values.astype(kind))
        assert result[0].tolist() == expected[0].tolist()
        assert result[1].tolist() == expected[1].tolist()


@given(
    st.lists(st.integers(-9, 9)).map(sorted),
    st.lists(st.integers(-12, 12)),
)
def test_values_are_looked_up_by_ascending_keys(
    keys: list[int], sought: list[int]
) -> None:
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    columns = np.array(keys, np.int64), np.array(sought, np.int64)
    values = np.array([3 * key + 100 for key in keys], np.int16)
    assert places_among(*columns).tolist() == [first.get(key, -1) for key in sought]
    assert looked_up(columns[0], values, columns[1], -7).tolist() == [
        3 * key + 100 if key in first else -7 for key in sought
    ]
