"""Begin and end events become intervals; allocations and frees the lives of memory.

Graphs pair per thread and graph pointer, ops per thread, open graph and tensor
pointer, both like brackets: pointers are reused, and ``sched_graph_compute`` wraps
``backend_graph_compute``, where both list the same nodes.

The hooks of ggml-viz log the begins of all nodes of a graph, run the graph, and log
all ends. Such times are no op's own: the ops of such a graph share its measured
time in equal slices, in the order of their begins. (The only weight at hand, the
size of the result, says little: a copy writes as much as a multiplication.)

Graphs are few: numpy finds which lies in which, and where each of them ends. Ops are
many: ``ggmlviz.c`` pairs them and gives them their times.
"""

from dataclasses import dataclass, replace
from enum import IntFlag

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I32, I64, U8, Array, Bools, CounterShape
from ggscope.model.tensors import Buffers
from ggscope.model.trace import Severity
from ggscope.native.declared import Pairing
from ggscope.native.library import library
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.common.interval_pairing import match, neighbours
from ggscope.readers.ggmlviz.columns import (
    Events,
    encode,
    free_slots,
    is_memory,
    new_secret,
)
from ggscope.readers.ggmlviz.layouts import EventType

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
    is_begin: Bools
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


def pair_graphs(events: Events, trace_end: int, chunked: ChunkedOps) -> Graphs:
    """Return the graph events, paired and nested."""
    rows = events.rows_of(EventType.GRAPH_BEGIN, EventType.GRAPH_END, chunked)
    thread = events.thread_of[events.place[rows]]
    by_thread = np.argsort(thread, kind="stable")
    is_begin = events.kind[rows] == EventType.GRAPH_BEGIN
    pairs = _nested(
        thread[by_thread], events.pointer[rows[by_thread]], is_begin[by_thread], chunked
    )
    # Back to the order of time.
    place = np.append(by_thread, -1)
    columns = np.empty((len(pairs), len(rows)), np.int64)
    for column, values in zip(columns, pairs, strict=True):
        column[by_thread] = place[values]
    partner, closer, innermost = columns
    start = events.time[rows]
    return Graphs(
        rows=rows, is_begin=is_begin, start=start,
        end=np.append(start, trace_end)[closer],
        partner=partner, closer=closer, innermost=innermost,
    )  # fmt: skip


def _nested(
    thread: Array, pointer: Array, is_begin: Bools, chunked: ChunkedOps
) -> tuple[I64, I64, I64]:
    """Return partner, closer and innermost of events by thread, then time."""
    codes, distinct, _ = encode(pointer)
    partner, _ = match(thread.astype(np.int64) * len(distinct) + codes, is_begin)
    bracket, level = match(thread, is_begin)
    chunked.check()
    innermost = _open_after(is_begin, bracket, level)
    closer = partner.copy()
    crossing = np.isin(thread, thread[partner != bracket])
    if crossing.any():
        slow = np.flatnonzero(crossing)
        _nest_slow(slow, thread, is_begin, closer, innermost, chunked)
    return partner, closer, innermost


def _open_after(is_begin: Bools, bracket: I64, level: I64) -> I64:
    """Return the bracket that is open after each event of properly nested ones."""
    begins = np.flatnonzero(is_begin)
    n = len(level) + 1
    place = level[begins] * n + begins
    order = np.argsort(place)
    # The bracket around is the last one before that opened one level further out.
    before = np.searchsorted(place[order], place - n) - 1
    outer = np.full(len(level), -1, np.int64)
    outer[begins] = np.where(before >= 0, begins[order][before], -1)
    innermost = np.where(is_begin, np.arange(len(level)), -1)
    ends = np.flatnonzero(~is_begin & (bracket >= 0))
    innermost[ends] = outer[bracket[ends]]
    return innermost


def _nest_slow(
    rows: I64,
    thread: Array,
    is_begin: Bools,
    closer: I64,
    innermost: I64,
    chunked: ChunkedOps,
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
            chunked.check()
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
    """Return whether a graph has ended, or has no end and the one around it has."""
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
    owner: I32
    partner: Array
    strays: Array
    n_ops: I32
    seen: U8


_FEWEST_KEYS = 1 << 13


def pair_ops(
    events: Events, graphs: Graphs, trace_end: int, chunked: ChunkedOps
) -> tuple[Pairs, I64, I64, U8]:
    """Return the pairs, and start, end and flags of each; release the pointers.

    Ops pair per thread, innermost open graph and tensor.
    """
    n_begins, n_ends = _counts(events, chunked)
    pairs = Pairs(
        begin=np.empty(n_begins, np.int32),
        owner=np.empty(n_begins, np.int32),
        partner=np.empty(n_begins, np.int32),
        strays=np.empty(n_ends, np.int32),
        n_ops=np.zeros(len(graphs), np.int32),
        seen=np.zeros(len(graphs), np.uint8),
    )
    pairing = _CompiledPairing(events, graphs, pairs)
    pairing.pair(chunked)
    pairing.release_pointers()
    events.release("pointer")
    times = pairing.finish(trace_end, chunked)
    pairs.strays.resize(pairing.n_strays, refcheck=False)
    return pairs, *times


def _counts(events: Events, chunked: ChunkedOps) -> tuple[int, int]:
    """Return how many begins of anything, and ends of ops, there are."""
    n_begins = n_ends = 0
    for block in chunked.slices(events.n):
        kind = events.kind[block]
        n_begins += int(np.count_nonzero((kind & ~np.uint8(EventType.OP_BEGIN)) == 0))
        n_ends += int(np.count_nonzero(kind == EventType.OP_END))
    return n_begins, n_ends


class _CompiledPairing:
    """One run of the compiled pairing."""

    def __init__(self, events: Events, graphs: Graphs, pairs: Pairs) -> None:
        self._events = events
        self._graphs, self._pairs = graphs, pairs
        slots = free_slots(_FEWEST_KEYS)
        self._struct = Pairing(
            kind=events.kind, time=events.time, place=events.place,
            pointer=events.pointer, order=events.order, thread_of=events.thread_of,
            secret=new_secret(),
            innermost=graphs.innermost, last=graphs.closer, graph_end=graphs.end,
            has_end=graphs.partner >= 0, n_ops=pairs.n_ops, seen=pairs.seen,
            current=np.full(len(events.thread_ids), -1, np.int64),
            begin=pairs.begin, owner=pairs.owner, partner=pairs.partner,
            link=np.empty(len(pairs.begin), np.int32), strays=pairs.strays,
            mask=len(slots) - 1, slots=slots,
        )  # fmt: skip

    @property
    def n_strays(self) -> int:
        """Ends of ops without begin."""
        return int(self._struct.n_strays)

    def pair(self, chunked: ChunkedOps) -> None:
        """Pair all events."""
        for block in chunked.slices(self._events.n):
            at = block.start
            while at < block.stop:
                at = library().ggscope_ggmlviz_pair(self._struct, at, block.stop)
                if at < block.stop:
                    self._move_keys()

    def release_pointers(self) -> None:
        """Forget the pointers, which only `pair` needs."""
        self._struct.pointer = None

    def finish(self, trace_end: int, chunked: ChunkedOps) -> tuple[I64, I64, U8]:
        """Return start, end and flags of the pairs."""
        n = len(self._pairs.begin)
        start, end = np.empty(n, np.int64), np.empty(n, np.int64)
        flags = np.empty(n, np.uint8)
        slot: Array = np.zeros(len(self._graphs), np.int32)
        for block in chunked.slices(n):
            library().ggscope_ggmlviz_finish(
                self._struct, self._graphs.start, trace_end, slot,
                block.start, block.stop, start, end, flags,
            )  # fmt: skip
        return start, end, flags

    def _move_keys(self) -> None:
        """Make room for as many keys as there are now that still matter."""
        live = int(library().ggscope_ggmlviz_live(self._struct))
        slots = free_slots(max(2 * live, _FEWEST_KEYS))
        library().ggscope_ggmlviz_move(self._struct, slots, len(slots) - 1)
        self._struct.slots = slots


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
    flags: U8
    stray_ends: Array
    open_from: int | None = None

    def arrange(self, order: Array, chunked: ChunkedOps) -> None:
        """Bring the rows into another order, with memory for one more column."""
        for name in ("begin", "start", "end", "flags"):
            setattr(self, name, chunked.take(getattr(self, name), order))

    def with_strays(self, rows: Array) -> "Intervals":
        """Return the same intervals with other stray ends."""
        return replace(self, stray_ends=rows)

    def take(self, rows: Array) -> "Intervals":
        """Return the given rows, and all stray ends."""
        return Intervals(
            self.begin[rows], self.start[rows], self.end[rows], self.flags[rows],
            self.stray_ends,
        )  # fmt: skip


def pair_events(events: Events, trace_end: int, chunked: ChunkedOps) -> Intervals:
    """Return the intervals; what has no end lasts as long as the graph around it.

    Releases the pointers of the events, which nothing else needs.

    Parameters
    ----------
    trace_end : ns; the end of what no graph with an end surrounds.
    """
    graphs = pair_graphs(events, trace_end, chunked)
    pairs, start, end, flags = pair_ops(events, graphs, trace_end, chunked)
    strays = np.concatenate([graphs.strays(), pairs.strays])
    is_open = graphs.is_begin & (graphs.closer < 0) & ((pairs.seen & IS_MIXED) == 0)
    opened = graphs.start[is_open]
    open_from = int(opened.min()) if len(opened) else None
    return Intervals(pairs.begin, start, end, flags, strays, open_from)


MAX_SIZE = 1 << 47
"""Larger sizes are damage: no process has such an address space."""
MEMORY = "memory"
"""Key of the summary with what `add_memory` lists of each kind of memory."""

LISTED = 1000
_NAMED = 8
"""So many pointers stand in the text of a problem."""


@dataclass(frozen=True, slots=True, eq=False)
class Allocations:
    """What one kind of allocation (tensors or backend buffers) did over time.

    Attributes
    ----------
    time : int64[n], ns of each event.
    live : float64[n], bytes alive after each event.
    allocs : rows of the allocating events.
    ended : row of the event that freed or replaced each of them; -1 while alive.
    strays : rows of frees of what was never allocated.
    doubles : rows of frees of what was already freed.
    reused : rows of allocations whose pointer was allocated before; most often by
        something else, which had been freed.
    oversized : rows whose size is beyond `MAX_SIZE` and counts as 0.
    """

    time: I64
    size: I64
    live: Array
    allocs: I64
    ended: I64
    strays: I64
    doubles: I64
    reused: I64
    oversized: I64

    @property
    def peak_bytes(self) -> int:
        """The most bytes ever alive."""
        return int(self.live.max(initial=0))

    @property
    def leaks(self) -> I64:
        """Rows of what was never freed."""
        return self.allocs[self.ended < 0]

    @property
    def leak_bytes(self) -> int:
        """Bytes alive at the end."""
        return int(self.size[self.leaks].sum(dtype=np.float64))


def follow(time: I64, pointer: Array, sizes: Array, is_alloc: Array) -> Allocations:
    """Return what events allocate, in time order.

    Parameters
    ----------
    time, pointer, sizes, is_alloc : of each event; the sizes of frees are not
        looked at.

    Notes
    -----
    An allocation of a pointer that is still alive replaces the earlier one: a
    tensor is reported again each time its graph is allocated.
    """
    codes, _, _ = encode(pointer)
    is_sound = sizes <= np.uint64(MAX_SIZE)
    size = np.where(is_alloc & is_sound, sizes, np.uint64(0)).astype(np.int64)
    previous, after = neighbours(codes)
    # A free has size 0, so the size of the event before is what was alive.
    change = size - np.where(previous >= 0, size[previous], 0)
    # float64 is exact to 2^53 and cannot overflow; so is the counter it becomes.
    live = np.cumsum(change, dtype=np.float64)
    frees = np.flatnonzero(~is_alloc)
    was_alloc = is_alloc[previous[frees]]
    allocs = np.flatnonzero(is_alloc)
    first_of_pointer = np.unique(codes[allocs], return_index=True)[1]
    return Allocations(
        time=time, size=size, live=live, allocs=allocs, ended=after[allocs],
        strays=frees[previous[frees] < 0],
        doubles=frees[(previous[frees] >= 0) & ~was_alloc],
        reused=np.delete(allocs, first_of_pointer),
        oversized=np.flatnonzero(is_alloc & ~is_sound),
    )  # fmt: skip


def add_memory(
    builder: TraceBuilder, events: Events, origin: int, chunked: ChunkedOps
) -> dict[str, object]:
    """Add counters and buffers of allocations; return figures for the summary."""
    summary: dict[str, object] = {}
    memory: dict[str, object] = {}
    rows = chunked.find(events.n, lambda b: is_memory(events.kind[b]))
    by_time = np.argsort(events.time[rows], kind="stable")
    rows, sizes = rows[by_time], events.sizes[: len(rows)][by_time]
    kind = events.kind[rows]
    for alloc, title, prefix in (
        (EventType.TENSOR_ALLOC, "Tensor memory", ""),
        (EventType.BACKEND_BUFFER_ALLOC, "Backend buffers", "buffer_"),
    ):
        of_kind = np.flatnonzero((kind == alloc) | (kind == alloc + 1))
        if not len(of_kind):
            continue
        mine = rows[of_kind]
        done = follow(
            events.time[mine], events.pointer[mine], sizes[of_kind],
            kind[of_kind] == alloc,
        )  # fmt: skip
        builder.add_counter(
            title, "bytes", CounterShape.LEVEL, done.time - origin, done.live
        )
        _warn_memory(builder, done, title, events.pointer[mine])
        if alloc == EventType.BACKEND_BUFFER_ALLOC:
            _add_buffers(builder, events, mine, done, origin)
        summary[prefix + "peak_bytes"] = done.peak_bytes
        summary[prefix + "leak_bytes"] = done.leak_bytes
        memory[title] = _lists(events.pointer[mine], done, origin)
    if memory:
        summary[MEMORY] = memory
    return summary


def _lists(pointer: Array, allocations: Allocations, origin: int) -> dict[str, object]:
    """Return peak, leaks, mistaken frees and pointers that were allocated again.

    Each list is cut at `LISTED`; the numbers beside them are of all.
    """

    def listed(rows: I64, *, has_size: bool = True) -> list[dict[str, object]]:
        return [
            {
                "pointer": f"0x{int(pointer[row]):x}",
                **({"bytes": int(allocations.size[row])} if has_size else {}),
                "at": int(allocations.time[row]) - origin,
            }
            for row in rows[:LISTED].tolist()
        ]

    at = int(np.argmax(allocations.live))
    allocs, ended = allocations.allocs, allocations.ended
    alive = allocs[(allocs <= at) & ((ended < 0) | (ended > at))]
    alive = alive[allocations.size[alive] > 0]
    return {
        "peak_bytes": allocations.peak_bytes,
        "peak_at": int(allocations.time[at]) - origin,
        "alive_at_peak": len(alive),
        "peak": listed(alive),
        "leaked": len(allocations.leaks),
        "leak_bytes": allocations.leak_bytes,
        "leaks": listed(allocations.leaks),
        "double_freed": len(allocations.doubles),
        "double_frees": listed(allocations.doubles, has_size=False),
        "stray_freed": len(allocations.strays),
        "stray_frees": listed(allocations.strays, has_size=False),
        "reused": len(allocations.reused),
        "reuses": listed(allocations.reused),
    }


def _named(pointer: Array) -> str:
    """Return ``0xa, 0xb and 3 more``: distinct pointers in order of appearance."""
    first = np.sort(np.unique(pointer, return_index=True)[1])
    names = ", ".join(f"0x{int(p):x}" for p in pointer[first[:_NAMED]])
    more = len(first) - _NAMED
    return f"{names} and {more:,} more" if more > 0 else names


def _warn_memory(
    builder: TraceBuilder, allocations: Allocations, title: str, pointer: Array
) -> None:
    place = title.lower()
    for severity, code, rows, message in (
        (Severity.NOTICE, "free_without_alloc", allocations.strays,
         "free without an allocation in the file: {0}."),
        (Severity.NOTICE, "double_free", allocations.doubles,
         "double free: {0}."),
        (Severity.NOTICE, "bad_size", allocations.oversized,
         "an allocation size is out of range; it counts as 0 bytes."),
        (Severity.INFO, "never_freed", allocations.leaks,
         f"{allocations.leak_bytes:,} bytes were still allocated at the end: {{0}}."),
        (Severity.INFO, "pointers_reused", allocations.reused,
         "pointer allocated more than once: {0}."),
    ):  # fmt: skip
        if len(rows):
            text = message.format(_named(pointer[rows]))
            builder.warn(severity, code, text, count=len(rows), place=place)


def _add_buffers(
    builder: TraceBuilder,
    events: Events,
    rows: I64,
    allocations: Allocations,
    origin: int,
) -> None:
    pointer = events.pointer[rows[allocations.allocs]]
    codes, distinct, _ = encode(pointer)
    texts = [f"buffer 0x{address:x}" for address in distinct.tolist()]
    label = events.string_of[events.label[rows[allocations.allocs]]]
    freed = np.where(
        allocations.ended >= 0, allocations.time[allocations.ended] - origin, -1
    )
    n = len(allocations.allocs)
    builder.buffers = Buffers(
        name=np.where(label >= 0, label, builder.strings.intern_many(texts)[codes]),
        backend=np.full(n, -1, np.int32),
        usage=np.zeros(n, np.uint8),
        size=allocations.size[allocations.allocs],
        allocated=allocations.time[allocations.allocs] - origin,
        freed=freed,
        address=pointer,
    )
