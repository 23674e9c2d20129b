"""How events belong together, against plain walks over them."""

import numpy as np
import pytest

from ggscope.native.library import library
from ggscope.readers.common.nesting import Nesting


def random_spans(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    lane = rng.integers(0, 3, n).astype(np.int32)
    start = rng.integers(0, 80, n)
    end = start + rng.integers(0, 30, n)
    order = np.lexsort((-end, start, lane))
    return lane[order], start[order].astype(np.int64), end[order].astype(np.int64)


@pytest.mark.parametrize("seed", range(20))
def test_parents_are_the_spans_that_are_open(seed):
    lane, start, end = random_spans(seed)

    result = Nesting.of(lane, start, end)

    for i in range(len(lane)):
        # A stack, from the first span of the lane on.
        opened: list[int] = []
        for k in range(i + 1):
            if lane[k] != lane[i]:
                continue
            while opened and end[opened[-1]] <= start[k]:
                opened.pop()
            parent = opened[-1] if opened else -1
            opened.append(k)
        assert result.parent[i] == parent
        assert result.reaches_out[i] == (parent >= 0 and end[i] > end[parent] + 1)


@pytest.mark.parametrize("seed", range(20))
def test_spans_around_places_are_the_innermost_ones(seed):
    rng = np.random.default_rng(seed + 100)
    lane, start, end = random_spans(seed)
    nesting = Nesting.of(lane, start, end)
    on = rng.integers(0, 4, 40)
    time = rng.integers(-2, 120, 40)
    is_next = rng.random(40) < 0.4

    enclosing = nesting.enclosing(on, time, is_next)

    for where, at, follows, span in zip(
        on.tolist(), time.tolist(), is_next.tolist(), enclosing.tolist(), strict=True
    ):
        mine = np.flatnonzero(lane == where).tolist()
        top = -1
        for k in mine:
            if start[k] <= at:
                top = k
        while top >= 0 and (end[top] < at or (end[top] == at and start[top] != at)):
            top = int(nesting.parent[top])
        if follows and (top < 0 or start[top] != at):
            top = next((k for k in mine if start[k] > at), -1)
        assert span == top


@pytest.mark.parametrize("seed", range(20))
def test_ends_close_the_innermost_begin_of_their_name(seed):
    rng = np.random.default_rng(seed)
    n = 80
    track = np.sort(rng.integers(0, 3, n)).astype(np.int32)
    is_begin = (rng.random(n) < 0.55).astype(np.uint8)
    name = rng.integers(-1, 3, n).astype(np.int32)
    partner = np.empty(n, np.int32)

    n_mismatched = library().ggscope_chrome_pair(
        n, track, is_begin, name, np.empty(n, np.int32), partner
    )

    expected, mismatched = [-1] * n, 0
    opened: list[int] = []
    for i in range(n):
        if i and track[i] != track[i - 1]:
            opened = []
        if is_begin[i]:
            opened.append(i)
            continue
        if not opened:
            continue
        alike = [k for k in opened if name[i] < 0 or name[k] == name[i]]
        chosen = alike[-1] if alike else opened[-1]
        mismatched += not alike and name[chosen] >= 0
        opened.remove(chosen)
        expected[i], expected[chosen] = chosen, i
    assert partner.tolist() == expected
    assert n_mismatched == mismatched
