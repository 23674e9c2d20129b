"""Begin and end events become intervals.

Graphs pair per thread and graph pointer, ops per thread, open graph and tensor
pointer, both like brackets: pointers are reused, and ``sched_graph_compute`` wraps
``backend_graph_compute``, where both list the same nodes.

The hooks of ggml-viz log the begins of all nodes of a graph, run the graph, and log
all ends. Such times are no op's own: the ops of such a graph share its measured
time in equal slices, in the order of their begins. (The only weight at hand, the
size of the result, says little: a copy writes as much as a multiplication.)

All functions take events ordered by thread, then time, then place in the file.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_events import Events, encode
from ggscope.readers.ggmlviz_layouts import EventType

_Bools = npt.NDArray[np.bool_]

_CHECK_EVERY = 8192
"""Events nested one by one between two looks at whether anybody still waits."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """One row for each GRAPH_BEGIN and OP_BEGIN, in the order of the events.

    Attributes
    ----------
    begin : row of the begin event.
    start, end : int64, ns of the file's clock, ``start <= end``.
    is_graph, is_unfinished, is_estimated : bool.
    stray_ends : rows of end events that nothing began.
    """

    begin: I64
    start: I64
    end: I64
    is_graph: _Bools
    is_unfinished: _Bools
    is_estimated: _Bools
    stray_ends: I64


def pair_events(events: Events, trace_end: int, context: ReadContext) -> Intervals:
    """Return the intervals; what has no end lasts as long as the graph around it.

    Parameters
    ----------
    trace_end : ns; the end of what no graph with an end surrounds.
    """
    graphs = _pair_graphs(events, context)
    ops = _pair_ops(events, graphs, context)
    time = np.append(events.time, trace_end)

    graph_begin = np.flatnonzero(graphs.is_begin)
    graph_start = time[graphs.rows]
    graph_end = time[np.append(graphs.rows, -1)[graphs.closer]]

    op_begin = np.flatnonzero(ops.is_begin)
    owner, partner = ops.owner[op_begin], ops.partner[op_begin]
    start = time[ops.rows[op_begin]]
    end = np.where(
        partner >= 0,
        time[ops.rows[partner]],
        np.append(graph_end, trace_end)[owner],
    )
    context.check_cancelled()
    slices = _slices(ops, graph_start, graph_end)
    context.check_cancelled()
    start[slices.op], end[slices.op] = slices.start, slices.end

    n_graphs, n_ops = len(graph_begin), len(op_begin)
    rows = np.concatenate([graphs.rows[graph_begin], ops.rows[op_begin]])
    order = np.argsort(rows)
    context.check_cancelled()
    is_estimated = np.zeros(n_graphs + n_ops, np.bool_)
    is_estimated[n_graphs + slices.op] = True
    return Intervals(
        begin=rows[order],
        start=np.concatenate([graph_start[graph_begin], start])[order],
        end=np.concatenate([graph_end[graph_begin], end])[order],
        is_graph=order < n_graphs,
        is_unfinished=np.concatenate([graphs.partner[graph_begin], partner])[order] < 0,
        is_estimated=is_estimated[order],
        stray_ends=np.sort(np.concatenate([graphs.strays(), ops.strays()])),
    )


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


@dataclass(frozen=True, slots=True, eq=False)
class _Graphs:
    """Graph events; all columns but `rows` count within this table.

    Attributes
    ----------
    rows : the events.
    closer : for begins: the event that ended this graph, or the graph around it.
    innermost : the graph that is open after each event.
    """

    rows: I64
    is_begin: _Bools
    partner: I64
    closer: I64
    innermost: I64

    def strays(self) -> I64:
        """Return the rows of ends without begin."""
        return self.rows[~self.is_begin & (self.partner < 0)]


@dataclass(frozen=True, slots=True, eq=False)
class _Ops:
    """Op events; `partner` counts within this table, `owner` within the graphs."""

    rows: I64
    is_begin: _Bools
    partner: I64
    owner: I64

    def strays(self) -> I64:
        """Return the rows of ends without begin."""
        return self.rows[~self.is_begin & (self.partner < 0)]


def _pair_graphs(events: Events, context: ReadContext) -> _Graphs:
    rows = np.flatnonzero(events.kind <= EventType.GRAPH_END)
    thread = events.thread[rows]
    is_begin = events.kind[rows] == EventType.GRAPH_BEGIN
    partner, _ = match(_joint(thread, events.pointer[rows]), is_begin)
    context.check_cancelled()
    bracket, level = match(thread, is_begin)
    context.check_cancelled()
    innermost = _open_after(is_begin, bracket, level)
    closer = partner.copy()
    crossing = np.isin(thread, thread[partner != bracket])
    if crossing.any():
        slow = np.flatnonzero(crossing)
        _nest_slow(slow, thread, is_begin, closer, innermost, context)
    return _Graphs(rows, is_begin, partner, closer, innermost)


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


def _pair_ops(events: Events, graphs: _Graphs, context: ReadContext) -> _Ops:
    """Pair ops per thread, innermost open graph and tensor."""
    is_op = (events.kind == EventType.OP_BEGIN) | (events.kind == EventType.OP_END)
    rows = np.flatnonzero(is_op)
    is_begin = events.kind[rows] == EventType.OP_BEGIN
    thread = events.thread[rows]
    before = np.searchsorted(graphs.rows, rows) - 1
    graph_thread = np.append(events.thread[graphs.rows], np.int32(-1))
    owner = np.append(graphs.innermost, -1)[before]
    owner[graph_thread[before] != thread] = -1
    place = np.where(owner >= 0, owner, len(graphs.rows) + thread)
    context.check_cancelled()
    partner, _ = match(_joint(place, events.pointer[rows]), is_begin)
    return _Ops(rows, is_begin, partner, owner)


@dataclass(frozen=True, slots=True, eq=False)
class _Slices:
    """Estimated times; `op` counts op begins."""

    op: I64
    start: I64
    end: I64


def _slices(ops: _Ops, graph_start: I64, graph_end: I64) -> _Slices:
    """Share out graphs in which all ops began before any ended."""
    n_graphs = len(graph_start)
    inside = ops.owner >= 0
    begins = np.flatnonzero(inside & ops.is_begin)
    ends = np.flatnonzero(inside & ~ops.is_begin)
    count = np.bincount(ops.owner[begins], minlength=n_graphs)
    last_begin = np.full(n_graphs, -1, np.int64)
    last_begin[ops.owner[begins]] = begins
    first_end = np.full(n_graphs, -1, np.int64)
    first_end[ops.owner[ends][::-1]] = ends[::-1]
    is_shared = (count >= 2) & (first_end > last_begin)

    begins = begins[is_shared[ops.owner[begins]]]
    by_graph = begins[np.argsort(ops.owner[begins], kind="stable")]
    owner = ops.owner[by_graph]
    count = np.where(is_shared, count, 0)
    slot = np.arange(len(owner)) - (np.cumsum(count) - count)[owner]
    has_end = ops.partner[by_graph] >= 0
    by_graph, owner, slot = by_graph[has_end], owner[has_end], slot[has_end]

    # start + duration * slot / count, without overflow.
    share, rest = np.divmod(graph_end[owner] - graph_start[owner], count[owner])
    start = graph_start[owner] + share * slot + rest * slot // count[owner]
    after = slot + 1
    end = graph_start[owner] + share * after + rest * after // count[owner]
    op_number = np.cumsum(ops.is_begin) - 1
    return _Slices(op_number[by_graph], start, end)
