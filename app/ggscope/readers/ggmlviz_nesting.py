"""Which graph of a ``.ggmlviz`` stream lies in which, and where each of them ends."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, narrow
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_codes import encode
from ggscope.readers.ggmlviz_events import Events
from ggscope.readers.ggmlviz_layouts import EventType

_Bools = npt.NDArray[np.bool_]

_CHECK_EVERY = 8192
"""Events nested one by one between two looks at whether anybody still waits."""


@dataclass(frozen=True, slots=True, eq=False)
class Graphs:
    """Graph events in the order of time; all columns but `rows` count within this.

    Attributes
    ----------
    rows : the events.
    start : int64, ns of each event.
    end : int64, ns: of a begin, when this graph or the one around it ended.
    closer : of begins: the event that did; -1 for none.
    partner : of begins and ends, their own counterpart; -1 for none.
    innermost : the graph that is open after each event; -1 for none.
    """

    rows: Array
    is_begin: _Bools
    start: I64
    end: I64
    partner: I64
    closer: I64
    innermost: I64

    def __len__(self) -> int:
        return len(self.rows)

    def strays(self) -> Array:
        """Return the rows of ends without begin."""
        return self.rows[~self.is_begin & (self.partner < 0)]


def pair_graphs(events: Events, trace_end: int, context: ReadContext) -> Graphs:
    """Return the graph events, paired and nested."""
    rows = events.rows_of(EventType.GRAPH_BEGIN, EventType.GRAPH_END, context)
    thread = events.thread_of[events.place[rows]]
    by_thread = np.argsort(narrow(thread), kind="stable")
    is_begin = events.kind[rows] == EventType.GRAPH_BEGIN
    found = _nested(
        thread[by_thread], events.pointer[rows[by_thread]], is_begin[by_thread], context
    )
    # Back to the order of time.
    place = np.append(by_thread, -1)
    columns = np.empty((len(found), len(rows)), np.int64)
    for column, values in zip(columns, found, strict=True):
        column[by_thread] = place[values]
    partner, closer, innermost = columns
    start = events.time[rows]
    return Graphs(
        rows=rows, is_begin=is_begin, start=start,
        end=np.append(start, trace_end)[closer],
        partner=partner, closer=closer, innermost=innermost,
    )  # fmt: skip


def _nested(
    thread: Array, pointer: Array, is_begin: _Bools, context: ReadContext
) -> tuple[I64, I64, I64]:
    """Return partner, closer and innermost of events by thread, then time."""
    partner, _ = match(_joint(thread, pointer), is_begin)
    context.check_cancelled()
    bracket, level = match(thread, is_begin)
    context.check_cancelled()
    innermost = _open_after(is_begin, bracket, level)
    closer = partner.copy()
    crossing = np.isin(thread, thread[partner != bracket])
    if crossing.any():
        slow = np.flatnonzero(crossing)
        _nest_slow(slow, thread, is_begin, closer, innermost, context)
    return partner, closer, innermost


def match(key: Array, is_begin: _Bools) -> tuple[I64, I64]:
    """Pair begins and ends of equal keys like brackets.

    Parameters
    ----------
    key, is_begin : one entry per event, in time order.

    Returns
    -------
    The partner of each event, -1 for none; and the level of each bracket: 1 for
    outermost ones, 0 for an end that nothing began.
    """
    order = np.argsort(key, kind="stable")
    key, begins = key[order], is_begin[order]
    is_first = np.ones(len(key), np.bool_)
    is_first[1:] = key[1:] != key[:-1]
    group = np.cumsum(is_first)
    level = _depths(begins, is_first, group) + begins
    if level.max(initial=0) > 1:
        by_level = np.lexsort((level, group))
        order, begins = order[by_level], begins[by_level]
        group, level = group[by_level], level[by_level]
    # Within a level begins and ends alternate, so partners are neighbours.
    opens = begins[:-1] & ~begins[1:]
    opens &= (group[:-1] == group[1:]) & (level[:-1] == level[1:])
    i = np.flatnonzero(opens)
    partner = np.full(len(key), -1, np.int64)
    partner[order[i]], partner[order[i + 1]] = order[i + 1], order[i]
    levels = np.empty(len(key), np.int64)
    levels[order] = level
    return partner, levels


def _depths(is_begin: _Bools, is_first: _Bools, group: Array) -> I64:
    """Return how many brackets of an event's group are open before it."""
    n = len(is_begin)
    step = np.where(is_begin, 1, -1)
    after = np.cumsum(step)
    after -= (after - step)[is_first][group - 1]
    # The lowest sum so far: each time it sinks below 0, an end closed nothing.
    # Taken over all groups at once, each group far below the one before.
    far = group * (2 * n + 2)
    lowest = np.minimum.accumulate(after - far) + far
    after -= np.minimum(lowest, 0)
    before = np.zeros(n, np.int64)
    before[1:] = after[:-1]
    before[is_first] = 0
    return before


def _joint(major: Array, pointer: Array) -> I64:
    """Return a number for each pair of numbers."""
    codes, distinct, _ = encode(pointer)
    return major.astype(np.int64) * len(distinct) + codes


def _open_after(is_begin: _Bools, bracket: I64, level: I64) -> I64:
    """Return the bracket that is open after each event of properly nested ones."""
    begins = np.flatnonzero(is_begin)
    n = len(level) + 1
    place = level[begins] * n + begins
    order = np.argsort(place)
    # The bracket around is the last one before that opened one level further out.
    found = np.searchsorted(place[order], place - n) - 1
    outer = np.full(len(level), -1, np.int64)
    outer[begins] = np.where(found >= 0, begins[order][found], -1)
    innermost = np.where(is_begin, np.arange(len(level)), -1)
    ends = np.flatnonzero(~is_begin & (bracket >= 0))
    innermost[ends] = outer[bracket[ends]]
    return innermost


def _nest_slow(
    rows: I64,
    thread: Array,
    is_begin: _Bools,
    closer: I64,
    innermost: I64,
    context: ReadContext,
) -> None:
    """Set `closer` and `innermost` of threads whose graphs cross or lack an end.

    One by one, because what is open then depends on the whole past; graph events
    are a small part of a trace, and such threads are rare.
    """
    stack: list[int] = []
    # The nearest graph around each graph that has an end of its own.
    anchor: dict[int, int] = {}
    ended: dict[int, int] = {}
    current = -1
    for n_done, i in enumerate(rows.tolist()):
        if n_done % _CHECK_EVERY == 0:
            context.check_cancelled()
        if thread[i] != current:
            current = int(thread[i])
            stack.clear()
        if is_begin[i]:
            outer = stack[-1] if stack else -1
            has_end = outer < 0 or closer[outer] >= 0
            anchor[i] = outer if has_end else anchor[outer]
            stack.append(i)
        elif closer[i] >= 0:
            ended[int(closer[i])] = i
            while stack and _is_over(stack[-1], closer, anchor, ended):
                top = stack.pop()
                closer[top] = ended.get(top, ended.get(anchor[top], -1))
        innermost[i] = stack[-1] if stack else -1


def _is_over(
    graph: int, closer: I64, anchor: dict[int, int], ended: dict[int, int]
) -> bool:
    """Tell whether a graph has ended, or has no end and the one around it has."""
    return graph in ended or (closer[graph] < 0 and anchor[graph] in ended)
