"""A trace as folded stacks: a line per stack with its own nanoseconds.

What flamegraph.pl, speedscope and inferno read: ``Threads;thread 0;MUL_MAT 14880``.
A span without a recorded end is a frame around what lies in it, without time.
"""

from collections.abc import Iterator

import numpy as np

from ggscope.exporters.event_rows import NAMELESS, Texts
from ggscope.exporters.events import I32, Events
from ggscope.model.tables import I64, Quality, distinct, quality_of
from ggscope.model.units import format_count, plain_number
from ggscope.native.declared import ExportStacks
from ggscope.native.library import library
from ggscope.sanitize import one_line

_PIECE_LINES = 4096
_N_STACKS = 1 << 12
"""Stacks that there is room for at first."""


def chunks(events: Events) -> Iterator[bytes]:
    """Yield the file in pieces; stacks in alphabetical order."""
    unit = events.trace.clock.unit
    lines = [
        f"{path} {plain_number(time, unit)}\n"
        for path, time in sorted(stacks(events).items())
    ]
    for begin in range(0, len(lines), _PIECE_LINES):
        yield "".join(lines[begin : begin + _PIECE_LINES]).encode()


def stacks(events: Events) -> dict[str, int]:
    """Return the time in ticks of each stack, less what lies within; none is 0.

    What its lane is called stands first, but for a lane of stacks alone, which stay as
    they were read.
    """
    s, ids = events.trace.spans, events.spans
    frames: dict[str, int] = {}
    head = np.array(
        [
            frames.setdefault(
                ";".join(
                    map(frame_name, (events.processes[track.process - 1], track.name))
                ),
                len(frames),
            )
            for track in events.tracks
        ],
        np.int32,
    )
    frame, is_timed = _frames(events, frames), ~events.is_unfinished
    parent = events.nesting().parent
    n = len(ids)
    columns = (
        events.track, s.start[ids], s.end[ids], parent, frame, is_timed, head,
    )  # fmt: skip
    scratch = np.empty(n, np.int32), np.empty(n, np.int32)
    capacity = _N_STACKS
    while True:
        under, last = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
        time = np.empty(capacity, np.int64)
        buffers = ExportStacks(
            capacity=capacity,
            n_slots=2 * capacity,
            slots=np.zeros(2 * capacity, np.int32),
            under=under,
            frame=last,
            time=time,
        )
        done = library().ggscope_export_stacks(n, *columns, buffers, *scratch)
        if done == n:
            break
        capacity *= 4
    frame_texts, count = list(frames), int(buffers.count)
    paths: list[str] = []
    columns_of_paths = under[:count].tolist(), last[:count].tolist()
    for outer, number in zip(*columns_of_paths, strict=True):
        text = frame_texts[number]
        paths.append(text if outer < 0 else f"{paths[outer]};{text}")
    n_head = len(frame_texts[0]) + 1 if _are_stacks_alone(events) else 0
    times = zip(paths, time[:count].tolist(), strict=True)
    return {path[n_head:]: ticks for path, ticks in times if ticks > 0}


def _are_stacks_alone(events: Events) -> bool:
    """Return whether there is one lane, of the stacks of a profile."""
    lanes = events.trace.lanes
    is_profile = len(events.spans) > 0 and bool(lanes.is_stacks.all())
    return is_profile and len(events.tracks) == 1


def _frames(events: Events, frames: dict[str, int]) -> I32:
    """Return the number of each span's frame; add those that are new to `frames`.

    Of ops people want the sum of one kind, not of one tensor.
    """
    s, ids, texts = events.trace.spans, events.spans, Texts(events.trace)
    number: I64 = texts.names(s.name[ids], s.op[ids])
    op = texts.ops(s.op[ids])
    # Frames have a name of their own where they are too many to be ops.
    is_named = events.trace.lanes.is_stacks[s.lane[ids]] & (s.name[ids] >= 0)
    number = np.where((op >= 0) & ~is_named, op, number)
    used = distinct(number)
    of_text = [
        frames.setdefault(frame_name(texts[i]), len(frames)) for i in used.tolist()
    ]
    place = np.searchsorted(used, number)
    return np.array(of_text, np.int32)[place] if len(of_text) else place.astype("i4")


def frame_name(name: str) -> str:
    """Return a name without what ends a frame or a line."""
    return one_line(name).replace(";", ",") or NAMELESS


def n_spans(events: Events) -> int:
    """Return of how many spans the file has the time: those with a recorded end."""
    return int(np.count_nonzero(~events.is_unfinished))


def losses(events: Events) -> list[str]:
    """Return what the file does not hold, in sentences."""
    messages = events.losses(has_times=False, has_only_spans=True)
    if n := int(events.is_unfinished.sum()):
        messages.append(
            f"Spans without a recorded end: {format_count(n)}, not counted."
        )
    quality = quality_of(events.trace.spans.flags[events.spans])
    is_unsure = (quality == Quality.DERIVED) | (quality == Quality.ESTIMATED)
    if n := int(np.count_nonzero(is_unsure)):
        messages.append(
            f"Derived or estimated durations: {format_count(n)}, not marked as such."
        )
    if events.trace.clock.unit != "ns":
        unit = events.trace.clock.unit_name
        messages.append(f"The numbers are {unit}, not nanoseconds.")
    messages.append(
        "Start times and names of spans omitted: durations are summed by op."
    )
    return messages
