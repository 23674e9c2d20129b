"""Different values, where each comes first and stands: those of numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.model.tables import ranked


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-9, 9), max_size=40))
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_ranked_values_are_those_of_numpy(dtype, values):
    column = np.array(values, dtype)
    expected = np.unique(column, return_index=True, return_inverse=True)

    found = ranked(column)

    assert found[0].dtype == dtype
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.tolist() == theirs.tolist()


def test_ranked_values_may_be_beyond_what_a_position_holds():
    column = np.array([1 << 63, 3, 1 << 63], np.uint64)

    values, first, place = ranked(column)

    assert values.tolist() == [3, 1 << 63]
    assert first.tolist() == [1, 0]
    assert place.tolist() == [1, 0, 1]
