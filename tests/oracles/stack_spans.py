"""Plain twins of ``ggscope.readers.common.stacks``."""

from collections.abc import Iterable

Span = tuple[int, int, tuple[str, ...]]
"""Begin, end, and the frames from the root to the span's own."""


def by_time(samples: Iterable[tuple[int, int, tuple[str, ...]]]) -> list[Span]:
    """Return the spans of one thread: of samples with begin, end and stack in order."""
    done: list[Span] = []
    opened: list[tuple[int, tuple[str, ...]]] = []
    last = None
    for start, end, stack in samples:
        same = 0
        if start == last:
            while same < min(len(opened), len(stack)) and (
                opened[same][1] == stack[: same + 1]
            ):
                same += 1
        done += [(at, last or 0, frames) for at, frames in opened[same:]]
        del opened[same:]
        opened += [(start, stack[: k + 1]) for k in range(same, len(stack))]
        last = end
    done += [(at, last or 0, frames) for at, frames in opened]
    return sorted(done)


def by_weight(weights: dict[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
    """Return what each stack and what it calls weigh together."""
    whole: dict[tuple[str, ...], int] = {}
    for stack, weight in weights.items():
        for depth in range(1, len(stack) + 1):
            whole[stack[:depth]] = whole.get(stack[:depth], 0) + weight
    return {stack: weight for stack, weight in whole.items() if weight}
