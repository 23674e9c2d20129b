"""Spans of samples against a walk of each sample's frames, one by one."""

import random

import numpy as np
import pytest

from ggscope.errors import Cancelled
from ggscope.readers.common.stacks import StackBuilder, joined, spans_by_time

Span = tuple[int, int, int, tuple[int, ...], int, int]
Sample = tuple[int, int, int, list[int]]
DEEPEST = 2048


def samples_of(seed: int, n: int) -> list[Sample]:
    """Return lane, start, end and frames of samples; some touch, some have none."""
    rng = random.Random(seed)
    made: list[Sample] = []
    for lane in range(3):
        now, stack = 0, [0]
        for _ in range(n):
            stack = stack[: rng.randrange(len(stack) + 1)]
            stack = stack + [rng.randrange(3) for _ in range(rng.randrange(4))]
            now += rng.choice((0, 0, 0, 5))
            length = rng.randrange(3)
            made.append((lane, now, now + length, stack if rng.random() < 0.9 else []))
            now += length
    return made


def spans_one_by_one_slow(samples: list[Sample]) -> list[Span]:
    """Return lane, start, end, frames, samples and first sample of each span."""
    made: list[list] = []
    opened: list[tuple[int, list]] = []
    before: tuple[int, int] | None = None
    for record, (lane, start, end, frames) in enumerate(samples):
        n = 0
        if before == (lane, start):
            while n < min(len(opened), len(frames)) and opened[n][0] == frames[n]:
                n += 1
        opened = opened[:n]
        for depth in range(n, len(frames)):
            span = [lane, start, end, tuple(frames[: depth + 1]), 0, record]
            made.append(span)
            opened.append((frames[depth], span))
        for _, span in opened:
            span[2], span[4] = end, span[4] + 1
        before = lane, end
    return [tuple(span) for span in made]


def spans_of(samples: list[Sample], **options) -> list[Span]:
    builder = StackBuilder()
    frames = [builder.frame(str(i)) for i in range(3)]
    assert frames == [0, 1, 2]
    node = [builder.stack(stack) for *_, stack in samples]
    columns = [np.array([s[i] for s in samples], np.int64) for i in range(3)]
    record = np.arange(len(samples))
    made = spans_by_time(
        builder.stacks(), *columns, np.array(node, np.int64), record, **options
    )
    columns = (made.lane, made.start, made.end, made.frame, made.samples, made.record)
    return list(zip(*(c.tolist() for c in columns), strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_spans_of_samples_are_those_of_a_walk_of_their_frames(seed):
    samples = samples_of(seed, 400)

    made = spans_of(samples)

    expected = [(*s[:3], s[3][-1], *s[4:]) for s in spans_one_by_one_slow(samples)]
    assert made == expected


def test_spans_reach_over_the_samples_that_are_taken_at_once():
    n = 40_000
    samples = [(0, i, i + 1, [0, 1 + (i == n - 1)]) for i in range(n)]

    made = spans_of(samples)

    assert made == [
        (0, 0, n, 0, n, 0), (0, 0, n - 1, 1, n - 1, 0), (0, n - 1, n, 2, 1, n - 1),
    ]  # fmt: skip


def test_the_deepest_stack_has_all_its_spans():
    made = spans_of([(0, 0, 1, [0] * DEEPEST), (0, 1, 2, [0] * DEEPEST)])

    assert len(made) == DEEPEST
    assert {span[1:3] for span in made} == {(0, 2)}


def test_making_spans_ends_where_it_is_cancelled():
    n = 0

    def check() -> None:
        nonlocal n
        n += 1
        if n == 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        spans_of([(0, i, i + 1, [0]) for i in range(40_000)], check=check)


def test_parts_without_spans_are_left_out():
    empty = spans_by_time(
        StackBuilder().stacks(), *(np.zeros(0, np.int64) for _ in range(5))
    )

    assert joined([empty, empty]) is empty
