"""What begins and what ends belong together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ggscope.readers.common.interval_pairing import neighbours


@given(st.lists(st.integers(0, 4), max_size=40))
def test_neighbours_are_those_found_one_by_one(keys: list[int]) -> None:
    before, behind = neighbours(np.array(keys, np.int64))

    for i, key in enumerate(keys):
        earlier = [k for k in range(i) if keys[k] == key]
        later = [k for k in range(i + 1, len(keys)) if keys[k] == key]
        assert before[i] == (earlier[-1] if earlier else -1)
        assert behind[i] == (later[0] if later else -1)
    assert before.dtype == behind.dtype == np.int64
