"""What ggscope wrote as Chrome trace events, back as it was."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, NO_WAIT, Array, SpanFlag
from ggscope.model.trace import LaneKind
from ggscope.model.units import Clock
from ggscope.readers.chrome.events import OF_OPS, Events, is_own
from ggscope.readers.chrome.pairs import Intervals

WAIT = "wait"
"""Name and category of events that are the waits behind ops."""
NAMELESS = "–"
ACTIVITIES = "activities"
"""How the titles of groups end that hold what runs beside threads."""
_KINDS = {
    "Graphs": LaneKind.GRAPH,
    "Engines": LaneKind.ENGINE,
    "Commands": LaneKind.COMMAND,
    "Host": LaneKind.COMMAND,
    "Stalls": LaneKind.STALL,
    "Memory": LaneKind.MEMORY,
    "Sequences": LaneKind.SEQUENCE,
    "Activities": LaneKind.COMMAND,
    "Tokens": LaneKind.TOKEN,
    "Threads": LaneKind.THREAD,
}
"""Kind of the lanes of a process, by its title."""
_GROUPS = frozenset({"Host", "Activities"})
"""Titles that are groups of the trace, not names of kinds."""
_QUALITIES = {
    "derived": SpanFlag.INFERRED_END,
    "estimated": SpanFlag.ESTIMATED,
    "unfinished": SpanFlag.UNFINISHED,
}
_FARTHEST = 1 << 62


@dataclass(frozen=True, slots=True)
class OwnFile:
    """What a file of ggscope says of itself.

    Attributes
    ----------
    shift : ticks that were added to all times.
    clock : of the trace that was written.
    format : of the file that the trace was read from.
    has_categories : whether the category of an event is a category, and not its op.
    """

    shift: int
    clock: Clock
    format: str
    has_categories: bool


def own_file(facts: Mapping[str, object]) -> OwnFile | None:
    """Return what a file says of itself; None where others wrote it."""
    about = facts.get("otherData")
    if not is_own(dict(facts)) or not isinstance(about, dict):
        return None
    shift, origin = about.get("shift"), str(about.get("origin", ""))
    if not isinstance(shift, int) or not 0 <= shift < _FARTHEST:
        shift = 0
    is_number = origin.lstrip("-").isdecimal() and len(origin) < 20
    clock = Clock(
        "cycle" if about.get("clock") == "cycle" else "ns",
        int(origin) if is_number else 0,
    )
    return OwnFile(
        shift, clock, str(about.get("format", ""))[:200], about.get("cat") == "category"
    )


def lane_of(process: str, name: str) -> tuple[LaneKind, tuple[str, ...]]:
    """Return kind and groups of a lane by the title of its process and its name."""
    kind = _KINDS.get(process)
    if kind is None:
        is_beside = process.endswith(ACTIVITIES)
        groups = (process,) if is_beside else tuple(process.split(" / "))
        return LaneKind.COMMAND if is_beside else LaneKind.THREAD, groups
    if kind is LaneKind.TOKEN and "phase" in name.lower():
        kind = LaneKind.PHASE
    return kind, (process,) if process in _GROUPS else ()


def is_wait(events: Events, row: I64) -> npt.NDArray[np.bool_]:
    """Return which events are the waits behind ops."""
    texts = events.texts
    if WAIT not in texts:
        return np.zeros(len(row), np.bool_)
    code = texts.index(WAIT)
    result: npt.NDArray[np.bool_] = (events.name[row] == code) & (
        events.category[row] == code
    )
    return result


def instants_without_end(events: Events) -> Intervals:
    """Return spans without a recorded end that could not stay open on their track."""
    row = events.of("i")
    is_open = quality_flags(events, row) == int(SpanFlag.UNFINISHED)
    row = row[is_open]
    start = events.time[row].astype(np.int64)
    flags = np.full(len(row), int(SpanFlag.UNFINISHED), np.uint16)
    return Intervals(row, start, start, row, flags)


def waits_of(
    lane: I64, spans: Intervals, wait_lane: I64, waits: Intervals
) -> npt.NDArray[np.uint32] | None:
    """Return how long each span waited behind its end; None where no wait is told."""
    if not len(waits) or not len(spans):
        return None
    low = min(int(spans.end.min()), int(waits.start.min()))
    step = max(int(spans.end.max()), int(waits.start.max())) - low + 1
    if (int(max(lane.max(), wait_lane.max())) + 1) * step >= _FARTHEST:
        return None
    key = lane * step + (spans.end - low)
    order = np.argsort(key, kind="stable")
    of_wait = wait_lane * step + (waits.start - low)
    at = np.searchsorted(key[order], of_wait, side="right") - 1
    span = order[np.maximum(at, 0)]
    is_behind = (at >= 0) & (key[span] == of_wait)
    result = np.full(len(spans), NO_WAIT, np.uint32)
    lasts = np.minimum(waits.end - waits.start, NO_WAIT - 1)
    result[span[is_behind]] = lasts[is_behind].astype(np.uint32)
    return result


def columns_of_ops(events: Events, row: I64) -> dict[str, Array]:
    """Return layer, token, core and NUMA node of spans, where the file has them."""
    found = events.of_ops
    if not found:
        return {}
    at = np.minimum(np.searchsorted(found["row"], row), len(found["row"]) - 1)
    has_any = found["row"][at] == row
    columns = {name: np.where(has_any, found[name][at], -1) for name in OF_OPS}
    low = {name: values for name, values in columns.items() if (values >= 0).any()}
    return {
        name: np.where(values < 1 << 15, values, -1) if name != "token" else values
        for name, values in low.items()
    }


def quality_flags(events: Events, row: I64) -> npt.NDArray[np.uint16]:
    """Return the flags of what the file calls derived, estimated or unfinished."""
    result = np.zeros(len(row), np.uint16)
    if not len(events.argument_row):
        return result
    at = np.minimum(
        np.searchsorted(events.argument_row, row), len(events.argument_row) - 1
    )
    text = np.where(events.argument_row[at] == row, events.text[at], -1)
    for word, flag in _QUALITIES.items():
        if word in events.texts:
            result[text == events.texts.index(word)] |= np.uint16(flag)
    return result
