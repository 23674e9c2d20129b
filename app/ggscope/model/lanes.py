"""Lanes: what spans and markers lie on."""

from collections.abc import Mapping
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
