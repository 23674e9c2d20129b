"""Begin and end events become intervals.

Graphs pair per thread and graph pointer, ops per thread, open graph and tensor
pointer, both like brackets: pointers are reused, and ``sched_graph_compute`` wraps
``backend_graph_compute``, where both list the same nodes.

The hooks of ggml-viz log the begins of all nodes of a graph, run the graph, and log
all ends. Such times are no op's own: the ops of such a graph share its measured
time in equal slices, in the order of their begins. (The only weight at hand, the
size of the result, says little: a copy writes as much as a multiplication.)

Graphs are few and are paired by `ggmlviz_nesting`. Ops are many: compiled code pairs
them where there is any, with the same result as `ggmlviz_ops`.

Which graph of a ``.ggmlviz`` stream lies in which, and where each of them ends.

Begins and ends of ops become pairs, and pairs get their times, with numpy.

The twin of the compiled pairing in ``ggmlviz_walk.c``.

Calls of ``ggmlviz_walk.c`` that pair ops: the compiled twin of `ggmlviz_ops`.
"""

import ctypes
from dataclasses import dataclass, replace
from enum import IntFlag
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, narrow
from ggscope.native.declared import Pairing
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz.columns import (
    address,
    encode,
    free_slots,
    kernel,
    new_secret,
)
from ggscope.readers.ggmlviz.events import Events, blocks, taken
from ggscope.readers.ggmlviz.layouts import EventType

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


HAS_END, IS_MIXED = 1, 2
"""Of a graph: an op has ended in it; one has begun after that."""


class IntervalFlag(IntFlag):
    """What is known of an interval."""

    GRAPH = 1
    UNFINISHED = 2
    ESTIMATED = 4


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Begins of graphs and ops in the order of time, and what belongs to them.

    Attributes
    ----------
    begin : row of the event.
    owner : int32, row in `Graphs`: the graph open around an op, or the graph
        itself; -1 outside graphs.
    partner : of ops: row of the end; -1 without one.
    strays : rows of op ends without begin.
    n_ops : int32, begins of ops in each graph.
    seen : uint8 of each graph, `HAS_END` and `IS_MIXED`.
    """

    begin: Array
    owner: npt.NDArray[np.int32]
    partner: Array
    strays: Array
    n_ops: npt.NDArray[np.int32]
    seen: npt.NDArray[np.uint8]


def pair_ops(events: Events, graphs: Graphs, context: ReadContext) -> Pairs:
    """Pair ops per thread, innermost open graph and tensor."""
    rows = events.rows_of(EventType.GRAPH_BEGIN, EventType.OP_END, context)
    kind, thread = events.kind[rows], events.thread_of[events.place[rows]]
    is_op = kind >= EventType.OP_BEGIN
    graph = np.cumsum(~is_op) - 1
    context.check_cancelled()
    owner = _owners(is_op, graph, thread, graphs)
    owner[~is_op] = graph[~is_op]
    context.check_cancelled()
    ops = np.flatnonzero(is_op)
    place = np.where(owner[ops] >= 0, owner[ops], len(graphs) + thread[ops])
    pointer, distinct, _ = encode(events.pointer[rows[ops]])
    is_begin = kind[ops] == EventType.OP_BEGIN
    partner, _ = match(place.astype(np.int64) * len(distinct) + pointer, is_begin)
    context.check_cancelled()
    ends = np.full(len(rows), -1, np.int64)
    ends[ops] = np.append(rows[ops], -1)[partner]
    begins = np.flatnonzero((kind & 1) == 0)
    n_ops, seen = _tallied(owner[ops], is_begin, len(graphs))
    small = np.int32 if len(events) < 1 << 31 else np.int64
    return Pairs(
        begin=rows[begins].astype(small), owner=owner[begins].astype(np.int32),
        partner=ends[begins].astype(small),
        strays=rows[ops[~is_begin & (partner < 0)]].astype(small),
        n_ops=n_ops, seen=seen,
    )  # fmt: skip


def _owners(
    is_op: npt.NDArray[np.bool_], graph: I64, thread: Array, graphs: Graphs
) -> I64:
    """Return the graph that is open around each op; all in the order of time.

    Parameters
    ----------
    graph : of each event, how many graph events precede it, less one; of graph
        events their own row.
    """
    by_thread = np.argsort(narrow(thread), kind="stable")
    last = np.where(is_op[by_thread], -1, np.arange(len(thread)))
    last = np.maximum.accumulate(last)
    is_own = (last >= 0) & (thread[by_thread][last] == thread[by_thread])
    found = np.append(graphs.innermost, -1)[graph[by_thread][last]]
    owner = np.empty(len(thread), np.int64)
    owner[by_thread] = np.where(is_own, found, -1)
    return owner


def _tallied(
    owner: I64, is_begin: npt.NDArray[np.bool_], n_graphs: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return `n_ops` and `seen` of all graphs."""
    begins = np.flatnonzero(is_begin & (owner >= 0))
    ends = np.flatnonzero(~is_begin & (owner >= 0))
    last_begin = np.full(n_graphs, -1, np.int64)
    last_begin[owner[begins]] = begins
    first_end = np.full(n_graphs, -1, np.int64)
    first_end[owner[ends][::-1]] = ends[::-1]
    has_end = first_end >= 0
    seen = np.where(has_end, np.uint8(HAS_END), np.uint8(0))
    seen[has_end & (last_begin > first_end)] |= np.uint8(IS_MIXED)
    return np.bincount(owner[begins], minlength=n_graphs).astype(np.int32), seen


def finish(
    events: Events, graphs: Graphs, pairs: Pairs, trace_end: int, context: ReadContext
) -> tuple[I64, I64, npt.NDArray[np.uint8]]:
    """Return start, end and flags of each pair."""
    time = events.time
    is_graph = events.kind[pairs.begin] == EventType.GRAPH_BEGIN
    owner, partner = pairs.owner, pairs.partner
    start = time[pairs.begin]
    around = np.append(graphs.end, trace_end)[owner]
    end = np.where(partner >= 0, time[partner], around)
    has_end = np.where(is_graph, np.append(graphs.partner, -1)[owner], partner) >= 0
    flags = np.where(has_end, np.uint8(0), np.uint8(IntervalFlag.UNFINISHED))
    flags[is_graph] |= np.uint8(IntervalFlag.GRAPH)
    context.check_cancelled()
    is_shared = (pairs.n_ops >= 2) & (pairs.seen == HAS_END)
    ops = np.flatnonzero(~is_graph & (owner >= 0) & np.append(is_shared, False)[owner])
    # The slices of a graph go by the begins of its ops, with and without an end.
    ops = ops[np.argsort(owner[ops], kind="stable")]
    n_ops = np.where(is_shared, pairs.n_ops, 0).astype(np.int64)
    slot = np.arange(len(ops)) - (np.cumsum(n_ops) - n_ops)[owner[ops]]
    has_end = partner[ops] >= 0
    ops, slot = ops[has_end], slot[has_end]
    base, n = graphs.start[owner[ops]], n_ops[owner[ops]]
    share, rest = np.divmod(graphs.end[owner[ops]] - base, n)
    start[ops] = base + share * slot + rest * slot // n
    slot += 1
    end[ops] = base + share * slot + rest * slot // n
    flags[ops] = np.uint8(IntervalFlag.ESTIMATED)
    return start, end, flags


MAX_ROWS = (1 << 31) - 1
"""The compiled pairing counts events in 32 bits."""

_FEWEST_KEYS = 1 << 12


def pair_compiled(
    library: Any, events: Events, graphs: Graphs, trace_end: int, context: ReadContext
) -> tuple[Pairs, I64, I64, npt.NDArray[np.uint8]]:
    """Return what `pair_ops` and `finish` return, and release the pointers.

    Parameters
    ----------
    events : fewer than `MAX_ROWS`.
    """
    n_begins, n_ends = _counts(events, context)
    pairs = Pairs(
        begin=np.empty(n_begins, np.int32),
        owner=np.empty(n_begins, np.int32),
        partner=np.empty(n_begins, np.int32),
        strays=np.empty(n_ends, np.int32),
        n_ops=np.zeros(len(graphs), np.int32),
        seen=np.zeros(len(graphs), np.uint8),
    )
    job = _Job(library, events, graphs, pairs)
    job.pair(context)
    events.release("pointer")
    times = job.finish(trace_end, context)
    pairs.strays.resize(job.n_strays, refcheck=False)
    return pairs, *times


def _counts(events: Events, context: ReadContext) -> tuple[int, int]:
    """Return how many begins of anything, and ends of ops, there are."""
    n_begins = n_ends = 0
    for block in blocks(len(events), context):
        kind = events.kind[block]
        n_begins += int(np.count_nonzero((kind & ~np.uint8(EventType.OP_BEGIN)) == 0))
        n_ends += int(np.count_nonzero(kind == EventType.OP_END))
    return n_begins, n_ends


class _Job:
    """One run of the compiled pairing; holds every array that it points to."""

    def __init__(
        self, library: Any, events: Events, graphs: Graphs, pairs: Pairs
    ) -> None:
        self._library, self._events = library, events
        self._graphs, self._pairs = graphs, pairs
        self._secret = new_secret()
        self._link = np.empty(len(pairs.begin), np.int32)
        self._has_end = (graphs.partner >= 0).astype(np.uint8)
        self._current = np.full(events.n_threads, -1, np.int64)
        self._slots = free_slots(_FEWEST_KEYS)
        self._struct = Pairing(
            **{name: address(getattr(events, name)) for name in (
                "kind", "time", "place", "pointer", "order", "thread_of")},
            secret=address(self._secret),
            innermost=address(graphs.innermost), last=address(graphs.closer),
            graph_end=address(graphs.end), has_end=address(self._has_end),
            n_ops=address(pairs.n_ops), seen=address(pairs.seen),
            current=address(self._current),
            begin=address(pairs.begin), owner=address(pairs.owner),
            partner=address(pairs.partner), link=address(self._link),
            strays=address(pairs.strays),
            mask=len(self._slots) - 1, slots=address(self._slots),
        )  # fmt: skip

    @property
    def n_strays(self) -> int:
        """Ends of ops without begin."""
        return int(self._struct.n_strays)

    def pair(self, context: ReadContext) -> None:
        """Pair all events."""
        struct = ctypes.byref(self._struct)
        for block in blocks(len(self._events), context):
            at = block.start
            while at < block.stop:
                at = self._library.ggscope_ggmlviz_pair(struct, at, block.stop)
                if at < block.stop:
                    self._move_keys()

    def finish(
        self, trace_end: int, context: ReadContext
    ) -> tuple[I64, I64, npt.NDArray[np.uint8]]:
        """Return start, end and flags of the pairs."""
        n = len(self._pairs.begin)
        start, end = np.empty(n, np.int64), np.empty(n, np.int64)
        flags = np.empty(n, np.uint8)
        slot: Array = np.zeros(len(self._graphs), np.int32)
        for block in blocks(n, context):
            self._library.ggscope_ggmlviz_finish(
                ctypes.byref(self._struct), address(self._graphs.start), trace_end,
                address(slot), block.start, block.stop,
                address(start), address(end), address(flags),
            )  # fmt: skip
        return start, end, flags

    def _move_keys(self) -> None:
        """Make room for as many keys as there are now that still matter."""
        struct = ctypes.byref(self._struct)
        live = int(self._library.ggscope_ggmlviz_live(struct))
        slots = free_slots(max(2 * live, _FEWEST_KEYS))
        self._library.ggscope_ggmlviz_move(struct, address(slots), len(slots) - 1)
        self._slots = slots


@dataclass(slots=True, eq=False)
class Intervals:
    """One row for each GRAPH_BEGIN and OP_BEGIN, in the order of time, then file.

    Attributes
    ----------
    begin : row of the begin event.
    start, end : int64, ns of the file's clock, ``start <= end``.
    flags : uint8, `IntervalFlag`.
    stray_ends : rows of end events that nothing began.
    open_from : ns of the first graph that is open at the end and whose ops may still
        share its time: later events change what is known from there on; None where
        there is none.
    """

    begin: Array
    start: I64
    end: I64
    flags: npt.NDArray[np.uint8]
    stray_ends: Array
    open_from: int | None = None

    def has(self, flag: IntervalFlag) -> npt.NDArray[np.bool_]:
        """Tell which intervals have a flag."""
        found: npt.NDArray[np.bool_] = (self.flags & np.uint8(flag)) != 0
        return found

    def arrange(self, order: Array, context: ReadContext) -> None:
        """Bring the rows into another order, with memory for one more column."""
        for name in ("begin", "start", "end", "flags"):
            setattr(self, name, taken(getattr(self, name), order, context))

    @property
    def n_graphs(self) -> int:
        """Number of graphs."""
        return int(np.count_nonzero(self.has(IntervalFlag.GRAPH)))

    def with_strays(self, rows: Array) -> "Intervals":
        """Return the same intervals with other stray ends."""
        return replace(self, stray_ends=rows)

    def take(self, rows: Array) -> "Intervals":
        """Return the given rows, and all stray ends."""
        return Intervals(
            self.begin[rows], self.start[rows], self.end[rows], self.flags[rows],
            self.stray_ends,
        )  # fmt: skip


def pair_events(events: Events, trace_end: int, context: ReadContext) -> Intervals:
    """Return the intervals; what has no end lasts as long as the graph around it.

    Releases the pointers of the events, which nothing else needs.

    Parameters
    ----------
    trace_end : ns; the end of what no graph with an end surrounds.
    """
    graphs = pair_graphs(events, trace_end, context)
    library = kernel()
    if library is not None and len(events) < MAX_ROWS:
        pairs, start, end, flags = pair_compiled(
            library, events, graphs, trace_end, context
        )
    else:
        pairs = pair_ops(events, graphs, context)
        events.release("pointer")
        start, end, flags = finish(events, graphs, pairs, trace_end, context)
    strays = np.concatenate([graphs.strays(), pairs.strays])
    is_open = graphs.is_begin & (graphs.closer < 0) & ((pairs.seen & IS_MIXED) == 0)
    opened = graphs.start[is_open]
    open_from = int(opened.min()) if len(opened) else None
    return Intervals(pairs.begin, start, end, flags, strays, open_from)
