"""What ggscope writes for other timeline viewers, back as it was."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, NO_WAIT, SpanFlag
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


def clock_of(about: Mapping[str, object]) -> Clock:
    """Return the clock of the trace that was written."""
    origin = str(about.get("origin", ""))
    is_number = origin.lstrip("-").isdecimal() and len(origin) < 20
    unit = about.get("clock")
    return Clock(
        unit if isinstance(unit, str) and unit in UNITS else "ns",
        int(origin) if is_number else 0,
        is_weight=about.get("axis") == "weight",
    )


def shift_of(about: Mapping[str, object]) -> int:
    """Return the ticks that were added to all times."""
    shift = about.get("shift")
    return shift if isinstance(shift, int) and 0 <= shift < _FARTHEST else 0


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
