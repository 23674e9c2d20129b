"""Barrier and thread events of a ``.ggmlviz`` file: which numbers mean them, and bars.

Two numberings exist, both called version 1. The first descriptions count BARRIER_WAIT,
THREAD_BEGIN and THREAD_FREE as 6, 7 and 8. Since backend buffers took 6 and 7 they are
8, 9 and 10. No known build writes any of the three.

A thread lives from its BEGIN to its FREE. A wait has no end of its own: it is derived
as lasting until the next event of its thread.
"""

import numpy as np
import numpy.typing as npt

from ggscope.model.builder import TraceBuilder
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, Array, SpanFlag, distinct
from ggscope.model.trace import Severity
from ggscope.readers.common.bracket import neighbours
from ggscope.readers.ggmlviz import NUMBERING_OPTION
from ggscope.readers.ggmlviz.columns import is_memory
from ggscope.readers.ggmlviz.events import Events
from ggscope.readers.ggmlviz.layouts import EventType

_FIRST, _STEP = int(EventType.BACKEND_BUFFER_ALLOC), 2
WAITS, LIVES = "Stalls", "Thread lives"


def renumber(
    builder: TraceBuilder, events: Events, n_of_kind: I64, wanted: str
) -> bool:
    """Give barrier and thread events the numbers 8 to 10; tell whether they are sure.

    With "auto", 9 or 10 in the file tell the numbering; else 6 and 7 that carry neither
    a pointer nor a size are no buffers, so that 6 to 8 are meant. A file with 8 alone
    does not tell.
    """
    low, middle = n_of_kind[_FIRST : _FIRST + 2].sum(), n_of_kind[_FIRST + 2]
    high = n_of_kind[_FIRST + 3 : _FIRST + 5].sum()
    if not (low or middle or high):
        return True
    if wanted == "8-10" or (wanted == "auto" and high):
        return True
    memory = np.flatnonzero(is_memory(events.kind))
    is_old = events.kind[memory] >= _FIRST
    rows = memory[is_old]
    is_bare = not (
        events.pointer[rows].any() or events.sizes[: len(memory)][is_old].any()
    )
    if wanted == "auto" and not (low and is_bare):
        return not middle
    later = np.flatnonzero(events.kind == _FIRST + _STEP)
    events.sizes = events.sizes[: len(memory)][~is_old]
    moved = np.concatenate([rows, later])
    events.kind[moved] += np.uint8(_STEP)
    if wanted == "auto":
        builder.warn(
            Severity.NOTICE,
            "old_numbering",
            "events 6 to 8 were read as barriers and threads, as the format's first "
            "descriptions number them: those of backend buffers carry a pointer.",
            count=len(moved),
            remedy=f"If they are buffers, set option {NUMBERING_OPTION}=8-10.",
        )
    return True


def add_threads(
    builder: TraceBuilder, events: Events, rows: I64, lane: Array, origin: int
) -> npt.NDArray[np.bool_]:
    """Add bars of waits and of threads' lives; tell which of `rows` became one.

    Parameters
    ----------
    rows : barrier and thread events among others, in the order of time.
    lane : the lane of each one's thread.
    """
    kind, thread = events.kind[rows], events.thread_of[events.place[rows]]
    is_bar = np.zeros(len(rows), np.bool_)
    is_bar |= kind == EventType.BARRIER_WAIT
    _add_waits(builder, events, rows[is_bar], lane[is_bar], origin)
    of_life = np.flatnonzero(
        (kind == EventType.THREAD_BEGIN) | (kind == EventType.THREAD_FREE)
    )
    of_life = of_life[np.argsort(thread[of_life], kind="stable")]
    begins = kind[of_life] == EventType.THREAD_BEGIN
    _, behind = neighbours(thread[of_life])
    is_closed = begins & (behind >= 0) & ~begins[behind]
    at = np.flatnonzero(begins)
    is_bar[of_life[at]] = True
    is_bar[of_life[behind[is_closed]]] = True
    last = int(events.time.max()) - origin
    start = events.time[rows[of_life[at]]] - origin
    closer = of_life[behind[at]]
    end = np.where(is_closed[at], events.time[rows[closer]] - origin, last)
    lanes = {
        number: builder.add_lane(
            f"thread {number} life", LaneKind.COMMAND, (LIVES,), (number,)
        )
        for number in distinct(thread[of_life[at]]).tolist()
    }
    if len(at):
        name = builder.strings.intern("THREAD")
        builder.add_spans(
            start=start,
            end=np.maximum(end, start),
            lane=np.array([lanes[n] for n in thread[of_life[at]].tolist()], np.int32),
            name=np.full(len(at), name, np.int32),
            flags=np.where(is_closed[at], 0, int(SpanFlag.UNFINISHED)).astype(
                np.uint16
            ),
            record=events.first_record + rows[of_life[at]].astype(np.int64),
        )
    return is_bar


def _add_waits(
    builder: TraceBuilder, events: Events, rows: I64, lane: Array, origin: int
) -> None:
    if not len(rows):
        return
    thread = events.thread_of[events.place]
    in_time = np.arange(len(events)) if events.order is None else events.order
    _, behind = neighbours(thread[in_time])
    follower = np.empty(len(events), np.int64)
    follower[in_time] = np.where(behind >= 0, in_time[behind], -1)
    follower = follower[rows]
    has_next = follower >= 0
    last = int(events.time.max())
    end = np.where(has_next, events.time[follower], last) - origin
    homes, first = np.unique(lane, return_index=True)
    waits = {
        i: builder.add_lane(
            f"thread {number} waits", LaneKind.STALL, (WAITS,), (number,), over=str(i)
        )
        for i, number in zip(homes.tolist(), thread[rows[first]].tolist(), strict=True)
    }
    builder.add_spans(
        start=events.time[rows] - origin,
        end=end,
        lane=np.array([waits[i] for i in lane.tolist()], np.int32),
        name=np.full(len(rows), builder.strings.intern("BARRIER_WAIT"), np.int32),
        flags=np.where(
            has_next, int(SpanFlag.INFERRED_END), int(SpanFlag.UNFINISHED)
        ).astype(np.uint16),
        record=events.first_record + rows.astype(np.int64),
    )
