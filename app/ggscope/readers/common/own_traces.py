"""What ggscope writes for other timeline viewers, back as it was."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import F64, I64, NO_WAIT, U32, CounterShape, SpanFlag
from ggscope.model.trace import LaneKind
from ggscope.model.units import UNITS, Clock
from ggscope.readers.common.nesting import Intervals

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
QUALITIES = {
    "derived": SpanFlag.INFERRED_END,
    "estimated": SpanFlag.ESTIMATED,
    "unfinished": SpanFlag.UNFINISHED,
}
_FARTHEST = 1 << 62
_MAX_LANES = 1 << 20


@dataclass(frozen=True, slots=True)
class OwnLane:
    """What a file says of a lane; `over` is the first track of another one."""

    kind: LaneKind
    group: tuple[str, ...]
    over: int | None = None


@dataclass(frozen=True, slots=True)
class OwnCounter:
    """What a file says of a counter."""

    name: str
    unit: str
    shape: CounterShape
    window: int | None
    group: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OwnLists:
    """What a file says that events have no place for.

    Attributes
    ----------
    lanes : by the number of their first track.
    first_track : of further tracks of a lane, the first one.
    counters : by process and name of their events.
    without_op : categories whose spans have no op.
    """

    lanes: Mapping[int, OwnLane]
    first_track: Mapping[int, int]
    counters: Mapping[tuple[str, str], OwnCounter]
    without_op: frozenset[str]

    @classmethod
    def of(cls, about: Mapping[str, object]) -> "OwnLists":
        """Return what stands there; what is broken is left out."""
        lanes = _dict(about.get("lanes"))
        groups = [tuple(map(_text, _list(g))) for g in _list(lanes.get("groups"))]
        return cls(
            _lanes(lanes, groups),
            dict(_pairs(lanes.get("further"))),
            _counters(about.get("counters"), groups),
            frozenset(map(_text, _list(about.get("categories without op")))),
        )


def clock_of(about: Mapping[str, object]) -> Clock:
    """Return the clock of the trace that was written."""
    unit = about.get("clock")
    return Clock(
        unit if isinstance(unit, str) and unit in UNITS else "ns",
        _number(about.get("origin", "")) or 0,
        _frequency(about.get("hz")),
        _number(about.get("epoch", "")),
        is_weight=about.get("axis") == "weight",
    )


def shift_of(about: Mapping[str, object]) -> int:
    """Return the ticks that were added to all times."""
    shift = about.get("shift")
    return shift if isinstance(shift, int) and 0 <= shift < _FARTHEST else 0


def add_own_counter(
    builder: TraceBuilder,
    facts: OwnCounter,
    time: I64,
    value: F64,
) -> None:
    """Add a counter as it was."""
    window = facts.window
    builder.add_counter(
        facts.name,
        facts.unit,
        facts.shape,
        time,
        value,
        lane=builder.add_lane(facts.name, LaneKind.COUNTER, facts.group)
        if facts.group
        else None,
        window=None if window is None else np.full(len(time), window, np.int64),
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


def waits_of(
    lane: I64, spans: Intervals, wait_lane: I64, waits: Intervals
) -> U32 | None:
    """Return how long each span waited behind its end; None without recorded waits."""
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


def waits_by_number(span_row: I64, number: I64, waits: Intervals) -> U32 | None:
    """Return how long each span waited behind its end, by the numbers of spans.

    Parameters
    ----------
    span_row : the event of each span; spans are numbered as these follow each other.
    number : of the span that each wait lies behind.
    """
    known = (number >= 0) & (number < len(span_row))
    if not known.any():
        return None
    result = np.full(len(span_row), NO_WAIT, np.uint32)
    lasts = np.minimum(waits.end - waits.start, NO_WAIT - 1)
    result[np.argsort(span_row)[number[known]]] = lasts[known].astype(np.uint32)
    return result


def _frequency(value: object) -> float | None:
    """Return ticks per second, a number or its digits; None where it is none."""
    if not isinstance(value, str | float):
        return None
    try:
        hz = float(value)
    except ValueError:
        return None
    return hz if 0 < hz < _FARTHEST else None


def _number(text: object) -> int | None:
    """Return a number that is written as a text; None where it is none."""
    digits = str(text).removeprefix("-")
    return int(str(text)) if digits.isdecimal() and len(digits) < 20 else None


def _text(value: object) -> str:
    """Return a value as a text, without halves of surrogate pairs, as events have."""
    return str(value).encode("utf-8", "replace").decode()


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _pairs(value: object) -> Iterator[tuple[int, int]]:
    """Yield pairs of numbers."""
    for pair in _list(value):
        numbers = [number for number in _list(pair) if isinstance(number, int)]
        if len(numbers) == 2:
            yield numbers[0], numbers[1]


def _lanes(
    about: dict[str, object], groups: Sequence[tuple[str, ...]]
) -> dict[int, OwnLane]:
    """Return kind and group of each lane, by the number of its first track.

    Tracks that are no further ones are the lanes, in order; the processes of tracks
    stand beside them, so groups are by process.
    """
    further = {number for number, _ in _pairs(about.get("further"))}
    over = dict(_pairs(about.get("over")))
    lanes: dict[int, OwnLane] = {}
    number = 1
    for run in _list(about.get("runs")):
        parts = _list(run)
        if len(parts) != 3 or not isinstance(parts[0], str):
            return {}
        kind = LaneKind.__members__.get(parts[0].upper())
        process, n = parts[1], parts[2]
        is_sound = isinstance(process, int) and 0 < process <= len(groups)
        if kind is None or not is_sound or not isinstance(n, int):
            return {}
        assert isinstance(process, int)
        if not 0 < n <= _MAX_LANES - len(lanes):
            return {}
        for _ in range(n):
            while number in further:
                number += 1
            lanes[number] = OwnLane(kind, groups[process - 1], over.get(number))
            number += 1
    return lanes


def _counters(
    about: object, groups: Sequence[tuple[str, ...]]
) -> dict[tuple[str, str], OwnCounter]:
    counters = {}
    for facts in map(_dict, _list(about)):
        event, name, unit = (facts.get(key) for key in ("event", "name", "unit"))
        shape = CounterShape.__members__.get(str(facts.get("shape", "level")).upper())
        window, process = facts.get("window"), facts.get("process")
        if not isinstance(window, int) or not 0 <= window < _FARTHEST:
            window = None
        is_whole = all(isinstance(text, str) for text in (event, name, unit))
        if not is_whole or shape is None or not isinstance(process, int):
            continue
        group = groups[process - 1] if 0 < process <= len(groups) else ()
        counters[str(process), _text(event)] = OwnCounter(
            _text(name), _text(unit), shape, window, group
        )
    return counters
