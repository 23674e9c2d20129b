"""Lanes: what spans and markers lie on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum


class LaneKind(IntEnum):
    """What a lane stands for; decides its group, order and drawing."""

    TOKEN = 0
    """Tokens or passes; one span each."""
    PHASE = 1
    """Prompt / generate (prefill / decode) bands."""
    THREAD = 2
    """Ops (and graphs around them) of one thread."""
    ENGINE = 3
    """Work of one NPU engine."""
    GRAPH = 4
    """Whole graph computations."""
    STALL = 5
    """Stalls, drawn hatched over the lane named by attribute ``over``."""
    COMMAND = 6
    """Commands from queueing to their end."""
    MEMORY = 7
    COUNTER = 8
    MARKER = 9


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a trace.

    Attributes
    ----------
    id : index in ``Trace.lanes``.
    name : what people read, e.g. "thread 0".
    group : names of the enclosing groups, outermost first.
    sort_key : order among lanes of the same group.
    attributes : e.g. ``{"raw": "24832"}`` for a truncated thread id,
        ``{"over": "3"}`` for the lane id that a stall lane belongs to.
    """

    id: int
    name: str
    kind: LaneKind
    group: tuple[str, ...] = ()
    sort_key: tuple[int, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


def lane_titles(lanes: Sequence[Lane]) -> list[str]:
    """Return a name for each lane that no other one has.

    The lane's own name where that is enough; else with its groups in front, as in
    ``Backend 1 / thread 0``, and where that is still not enough with its id.
    """
    names = [lane.name for lane in lanes]
    repeated = {name for name, n in Counter(names).items() if n > 1}
    titles = [
        " / ".join((*lane.group, lane.name)) if lane.name in repeated else lane.name
        for lane in lanes
    ]
    again = {title for title, n in Counter(titles).items() if n > 1}
    return [
        f"{title} (lane {lane.id})" if title in again else title
        for title, lane in zip(titles, lanes, strict=True)
    ]
