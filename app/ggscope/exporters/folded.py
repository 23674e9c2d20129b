"""A trace as folded stacks: a line per stack with its own nanoseconds.

What flamegraph.pl, speedscope and inferno read: ``Threads;thread 0;MUL_MAT 14880``.
A span without a recorded end is a frame around what lies in it, without time.
"""

from collections import defaultdict
from collections.abc import Iterator

from ggscope.exporters.events import Events, Track
from ggscope.model.units import format_count
from ggscope.sanitize import one_line

_PIECE_LINES = 4096


def chunks(events: Events) -> Iterator[bytes]:
    """Yield the file in pieces; stacks in alphabetical order."""
    lines = [f"{path} {time}\n" for path, time in sorted(stacks(events).items())]
    for begin in range(0, len(lines), _PIECE_LINES):
        yield "".join(lines[begin : begin + _PIECE_LINES]).encode()


def stacks(events: Events) -> dict[str, int]:
    """Return the time in ticks of each stack, less what lies within; none is 0."""
    time_of_path: dict[str, int] = defaultdict(int, {"": 0})
    heads = {
        track: f"{_frame(events.processes[track.process - 1])};{_frame(track.name)}"
        for track in events.tracks
    }
    frames: dict[str, str] = {}
    # Of the spans around, innermost last: end, stack, and from whose time one within
    # is taken.
    opened: dict[Track, list[tuple[int, str, str]]] = {}
    for slice_ in events.slices():
        stack = opened.setdefault(slice_.track, [])
        while stack and stack[-1][0] <= slice_.start:
            stack.pop()
        # Of ops people want the sum of one kind, not of one tensor.
        what = slice_.op or slice_.name
        frame = frames.setdefault(what, _frame(what))
        _, inside, payer = stack[-1] if stack else (0, heads[slice_.track], "")
        path = f"{inside};{frame}"
        if not slice_.is_unfinished:
            time_of_path[payer] -= slice_.end - slice_.start
            time_of_path[path] += slice_.end - slice_.start
            payer = path
        stack.append((slice_.end, path, payer))
    del time_of_path[""]  # what lies in nothing was taken from it
    return {path: time for path, time in time_of_path.items() if time > 0}


def _frame(name: str) -> str:
    """Return a name without what ends a frame or a line."""
    return one_line(name).replace(";", ",")


def losses(events: Events) -> list[str]:
    """Return what the file does not hold, in sentences."""
    messages = events.losses(has_times=False)
    if n := int(events.is_unfinished.sum()):
        messages.append(
            f"Spans without a recorded end: {format_count(n)}, not counted."
        )
    messages.append(
        "Start times and names of spans omitted: durations are summed by op."
    )
    return messages
