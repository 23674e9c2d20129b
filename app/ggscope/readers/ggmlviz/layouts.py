"""Byte layouts of ``.ggmlviz`` events, and which of them a file has.

Every writer puts version 1 into the header, whatever its C compiler made of the
union in the middle of an event, so the layout has to be derived from the content.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from itertools import islice, pairwise

import numpy as np

from ggscope.model.tables import I64
from ggscope.readers.api import HEAD_BYTES

MAGIC = b"GGMLVIZ1"
HEADER_BYTES = 12
PREFIX_BYTES = 13
"""Type, timestamp and thread id: what stands before the union."""

ZERO_RUN = 64
"""So many zero bytes where an event should start are padding, not an event."""
Member = tuple[tuple[str, int, int], ...]
"""Fields of one union member: (name, byte offset in the union, byte width)."""

_WIDE_MEMORY: Member = (("ptr", 0, 8), ("size", 8, 8))
_NARROW_MEMORY: Member = (("ptr", 0, 4), ("size", 4, 4))
_WIDE_GRAPH: Member = (
    ("graph_ptr", 0, 8), ("n_nodes", 8, 4), ("n_threads", 12, 4),
)  # fmt: skip
_NARROW_GRAPH: Member = (
    ("graph_ptr", 0, 4), ("n_nodes", 4, 4), ("n_threads", 8, 4),
)  # fmt: skip
_ALIGNED_OP: Member = (("tensor_ptr", 0, 8), ("op_type", 8, 4), ("op_size", 16, 8))
_PACKED_OP: Member = (("tensor_ptr", 0, 8), ("op_type", 8, 4), ("op_size", 12, 8))
_NARROW_OP: Member = (("tensor_ptr", 0, 4), ("op_type", 4, 4), ("op_size", 8, 4))
_DETECT_EVENTS = 512
_DETECT_LABEL_BYTES = 4096
MAX_TYPE = 63
"""Larger event numbers speak against a layout."""

_ENOUGH_EVENTS, _ENOUGH_POINTS = 4, 1.5
DETECT_BYTES = HEAD_BYTES
"""How much of a file `detect` looks at; labels are short in practice."""
_SAMPLED_EVENTS = 1024
_USUAL_EVENT_BYTES = 56

DAY_NS = 24 * 3600 * 10**9
"""Stamps further apart hardly belong to one run."""

MAX_TIME_NS = 1 << 61
"""Larger stamps are damage: 73 years of uptime."""


class EventType(IntEnum):
    """Event numbers as the writers with backend-buffer events assign them.

    Before those existed, 6, 7 and 8 were the barrier and thread events, but no
    writer ever emitted them.
    """

    GRAPH_BEGIN = 0
    GRAPH_END = 1
    OP_BEGIN = 2
    OP_END = 3
    TENSOR_ALLOC = 4
    TENSOR_FREE = 5
    BACKEND_BUFFER_ALLOC = 6
    BACKEND_BUFFER_FREE = 7
    BARRIER_WAIT = 8
    THREAD_BEGIN = 9
    THREAD_FREE = 10


N_TYPES = len(EventType)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLayout:
    """Where the fields of an event lie.

    Attributes
    ----------
    id : name for the reader option ``layout``.
    title : who writes it.
    prior : how likely it is before looking at the file, 0..1.
    graph, op, memory : fields of the union's members.
    union_bytes : size of the union of a graph, an op, a memory and any other event.
    """

    id: str
    title: str
    prior: float
    graph: Member
    op: Member
    memory: Member
    union_bytes: tuple[int, int, int, int]
    body_bytes: I64 = field(init=False, repr=False, compare=False)
    """int64[256]: bytes before ``label_len``, by event type."""

    def __post_init__(self) -> None:
        graph, op, memory, other = self.union_bytes
        unions = np.full(256, other, np.int64)
        unions[[0, 1]], unions[[2, 3]], unions[4:8] = graph, op, memory
        unions += PREFIX_BYTES + 1
        unions.flags.writeable = False
        object.__setattr__(self, "body_bytes", unions)

    def member(self, event_type: int) -> Member:
        """Return the union's fields in an event of this type; () if unknown."""
        members = (self.graph, self.op, self.memory, self.memory)
        return members[event_type >> 1] if event_type < 8 else ()


def _layout(
    layout_id: str,
    title: str,
    prior: float,
    members: tuple[Member, Member, Member],
    unions: int | tuple[int, int, int, int],
) -> EventLayout:
    sizes = (unions,) * 4 if isinstance(unions, int) else unions
    graph, op, memory = members
    return EventLayout(
        id=layout_id, title=title, prior=prior, graph=graph, op=op, memory=memory,
        union_bytes=sizes,
    )  # fmt: skip


def _with_backend(member: Member, offset: int, width: int = 8) -> Member:
    return (*member, ("backend_ptr", offset, width))


_C64_OP, _C64_GRAPH = _with_backend(_ALIGNED_OP, 24), _with_backend(_WIDE_GRAPH, 16)
_PACKED28_OP = _with_backend(_PACKED_OP, 20)

LAYOUTS: tuple[EventLayout, ...] = (
    _layout(
        "c64", "64-bit builds since 2025-07-01", 1.0,
        (_C64_GRAPH, _C64_OP, _WIDE_MEMORY), 32,
    ),
    _layout(
        "c64-old", "64-bit builds of 2025-06-24 to 2025-07-01", 0.97,
        (_WIDE_GRAPH, _ALIGNED_OP, _WIDE_MEMORY), 24,
    ),
    _layout(
        "packed28", "unions without padding", 0.9,
        (_C64_GRAPH, _PACKED28_OP, _WIDE_MEMORY), 28,
    ),
    _layout(
        "packed20", "unions without padding, no backend", 0.9,
        (_WIDE_GRAPH, _PACKED_OP, _WIDE_MEMORY), 20,
    ),
    _layout(
        "c32", "32-bit builds since 2025-07-01", 0.9,
        (_with_backend(_NARROW_GRAPH, 12, 4), _with_backend(_NARROW_OP, 12, 4),
         _NARROW_MEMORY), 16,
    ),
    _layout(
        "c32-old", "32-bit builds of 2025-06-24 to 2025-07-01", 0.9,
        (_NARROW_GRAPH, _NARROW_OP, _NARROW_MEMORY), 12,
    ),
    # An event with no member of its own carries no union byte here.
    _layout(
        "var", "active union member only, packed", 0.9,
        (_C64_GRAPH, _PACKED28_OP, _WIDE_MEMORY), (24, 28, 16, 0),
    ),
    _layout(
        "var-c", "active union member only, aligned", 0.9,
        (_C64_GRAPH, _C64_OP, _WIDE_MEMORY), (24, 32, 16, 0),
    ),
)  # fmt: skip

LAYOUT_BY_ID = {layout.id: layout for layout in LAYOUTS}


@dataclass(frozen=True, slots=True)
class RawEvent:
    """One event as stored: header fields, union values by name, label bytes."""

    offset: int
    size: int
    type: int
    timestamp_ns: int
    thread_id: int
    values: dict[str, int]
    label: bytes | None


def walk(
    data: bytes, offset: int, layout: EventLayout, limit: int = _DETECT_LABEL_BYTES
) -> Iterator[RawEvent]:
    """Yield events one by one from `offset`, up to the first that does not fit.

    For few events: detection, and single records on demand. Stops in front of an
    event that is cut, whose ``has_label`` is neither 0 nor 1, or whose label is
    longer than `limit`.
    """
    end = len(data)
    while offset + PREFIX_BYTES < end:
        kind, stamp, thread = struct.unpack_from("<BQI", data, offset)
        union = offset + PREFIX_BYTES
        body_end = offset + int(layout.body_bytes[kind])
        if body_end > end or data[body_end - 1] > 1:
            return
        after, label = body_end, None
        if data[body_end - 1]:
            after += 4
            length = int.from_bytes(data[body_end:after], "little")
            if after + length > end or length > limit:
                return
            label = data[after : after + length]
            after += length
        values = {
            name: int.from_bytes(data[union + at : union + at + width], "little")
            for name, at, width in layout.member(kind)
        }
        yield RawEvent(offset, after - offset, kind, stamp, thread, values, label)
        offset = after


@dataclass(frozen=True, slots=True)
class Probe:
    """What the first bytes of a file state.

    Attributes
    ----------
    event_bytes : mean size of the first events.
    begin_share : share of them that begin a graph or an op.
    """

    layout: EventLayout
    event_bytes: float
    begin_share: float

    def n_events(self, end: int) -> int:
        """Return about how many events a file of `end` bytes has."""
        return max(round((end - HEADER_BYTES) / self.event_bytes), 0)


@lru_cache(maxsize=1)
def probe(head: bytes, size: int, layout_id: str) -> Probe:
    """Return what `head` states: once for the estimate of a file and its reading.

    Parameters
    ----------
    head : the file's first bytes with its header, up to `DETECT_BYTES`.
    size : bytes of the whole file.
    layout_id : layout of the events; "" = detect it.
    """
    layout = LAYOUT_BY_ID[layout_id] if layout_id else detect(head, size)
    events = list(islice(walk(head, HEADER_BYTES, layout), _SAMPLED_EVENTS))
    if not events:
        return Probe(layout, _USUAL_EVENT_BYTES, 0.5)
    n_begins = sum(event.type in (0, 2) for event in events)
    end = events[-1].offset + events[-1].size
    return Probe(layout, (end - HEADER_BYTES) / len(events), n_begins / len(events))


def detect(head: bytes, size: int) -> EventLayout:
    """Return the layout under which the events make most sense.

    Parameters
    ----------
    head : the file's first bytes with its header, up to `DETECT_BYTES`.
    size : bytes of the whole file.

    Notes
    -----
    The layout of every known real file is taken where the best one reads fewer
    than four events (there is nothing to compare) or only implausible ones (the
    damage then lies in the file's first events).
    """
    judged = [_judge(head, size, layout) for layout in LAYOUTS]
    scores = [j.plausibility * j.reach * j.layout.prior for j in judged]
    best = judged[scores.index(max(scores))]
    sure = best.n_events >= _ENOUGH_EVENTS and best.plausibility >= _ENOUGH_POINTS
    return best.layout if sure else LAYOUTS[0]


@dataclass(frozen=True, slots=True)
class _Judgement:
    """How well a layout fits: points per event, share of the head reached."""

    layout: EventLayout
    n_events: int
    plausibility: float
    reach: float


def _judge(head: bytes, size: int, layout: EventLayout) -> _Judgement:
    events: list[RawEvent] = []
    reached, n_looked_at = HEADER_BYTES, min(size, len(head))
    for event in walk(head, HEADER_BYTES, layout):
        is_padding = event.type == 0 and not any(
            head[event.offset : event.offset + ZERO_RUN]
        )
        if is_padding or len(events) == _DETECT_EVENTS:
            reached = n_looked_at
            break
        if event.type > MAX_TYPE:
            break
        events.append(event)
        reached = event.offset + event.size
    if not events:
        return _Judgement(layout, 0, 0.0, 0.0)
    stamps = [event.timestamp_ns for event in events]
    middle = sorted(stamps)[(len(stamps) - 1) // 2]
    points = sum(_plausibility(event, middle) for event in events) / len(events)
    in_order = 1 + sum(a <= b for a, b in pairwise(stamps))
    return _Judgement(
        layout,
        len(events),
        max(points, 0.0) * in_order / len(events),
        (reached - HEADER_BYTES) / (n_looked_at - HEADER_BYTES),
    )


def _plausibility(event: RawEvent, middle: int) -> float:
    """Return how much an event looks like one; about 3 where all fits."""
    points = 1.0 if event.type < N_TYPES else 0.0
    if event.timestamp_ns == 0:
        points -= 2.0
    elif abs(event.timestamp_ns - middle) < DAY_NS:
        points += 1.0
    values = event.values
    fits = (
        values.get("op_type", 0) < 128
        and values.get("n_nodes", 0) <= 1 << 20
        and values.get("n_threads", 0) <= 1024
    )
    points += 1.0 if fits else -1.0
    if event.label is not None:
        text = event.label.decode("utf-8", "replace")
        points += 0.5 if text.isprintable() else -1.0
    return points
