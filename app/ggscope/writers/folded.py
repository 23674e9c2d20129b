"""A trace as folded stacks: a line per stack with its own nanoseconds.

What flamegraph.pl, speedscope and inferno read: ``Threads;thread 0;MUL_MAT 14880``.
"""

from collections import defaultdict
from collections.abc import Iterator

from ggscope.text import one_line
from ggscope.writers.events import Events, Track

_PIECE_LINES = 4096


def chunks(events: Events) -> Iterator[bytes]:
    """Yield the file in pieces; stacks in alphabetical order."""
    lines = [f"{path} {time}\n" for path, time in sorted(stacks(events).items())]
    for begin in range(0, len(lines), _PIECE_LINES):
        yield "".join(lines[begin : begin + _PIECE_LINES]).encode()


def stacks(events: Events) -> dict[str, int]:
    """Return the time in ticks of each stack, less what lies within; none is 0."""
    found: dict[str, int] = defaultdict(int)
    heads = {
        track: f"{_frame(events.processes[track.process - 1])};{_frame(track.name)}"
        for track in events.tracks
    }
    frames: dict[str, str] = {}
    opened: dict[Track, list[tuple[int, str]]] = {}
    for track, start, length, name, op, _ in events.rows():
        stack = opened.setdefault(track, [])
        while stack and stack[-1][0] <= start:
            stack.pop()
        # Of ops people want the sum of one kind, not of one tensor.
        what = op or name
        frame = frames.setdefault(what, _frame(what))
        inside = stack[-1][1] if stack else ""
        path = f"{inside or heads[track]};{frame}"
        if inside:
            found[inside] -= length
        found[path] += length
        stack.append((start + length, path))
    return {path: time for path, time in found.items() if time > 0}


def _frame(name: str) -> str:
    """Return a name without what ends a frame or a line."""
    return one_line(name).replace(";", ",")


def losses(events: Events) -> list[str]:
    """Return what the file does not hold, in sentences."""
    return [
        *events.losses(has_times=False),
        "When each span ran and its name are left out: ops are summed up.",
    ]
