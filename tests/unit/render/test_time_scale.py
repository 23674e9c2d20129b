"""Columns of ticks."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.model.units import TimeRange
from ggscope.render.timeline.scene import TimeScale


@settings(max_examples=80, deadline=None)
@given(
    start=st.integers(-(1 << 60), 1 << 60),
    duration=st.integers(1, 1 << 61),
    px=st.integers(1, 4000),
    seed=st.integers(0, 1 << 30),
)
def test_column_of_a_tick_is_found_without_a_search(
    start: int, duration: int, px: int, seed: int
) -> None:
    time = TimeScale(TimeRange(start, start + max(duration, px)), 0, px, 1.0)
    rng = np.random.default_rng(seed)
    ticks = np.concatenate(
        [
            rng.choice(time.edges, 50) + rng.integers(-2, 3, 50),
            rng.integers(start - 10, start + time.duration + 10, 50),
        ]
    )

    columns = time.column_of(ticks)

    inside = np.clip(ticks, time.edges[0], time.edges[-1])
    expected = np.searchsorted(time.edges, inside, "right") - 1
    assert columns.tolist() == expected.tolist()
