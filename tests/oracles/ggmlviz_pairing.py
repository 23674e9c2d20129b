"""What the compiled pairing of ``.ggmlviz`` ops does, with numpy alone."""

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, narrow
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.common.interval_pairing import match
from ggscope.readers.ggmlviz.columns import Events, encode
from ggscope.readers.ggmlviz.layouts import EventType
from ggscope.readers.ggmlviz.pairing import (
    HAS_END,
    IS_MIXED,
    Graphs,
    IntervalFlag,
    Pairs,
)


def pair_ops(
    events: Events, graphs: Graphs, trace_end: int, chunked: ChunkedOps
) -> tuple[Pairs, I64, I64, npt.NDArray[np.uint8]]:
    """Return the pairs, and start, end and flags of each; release the pointers."""
    pairs = _pairs(events, graphs, chunked)
    events.release("pointer")
    return pairs, *_finished(events, graphs, pairs, trace_end, chunked)


def _pairs(events: Events, graphs: Graphs, chunked: ChunkedOps) -> Pairs:
    """Pair ops per thread, innermost open graph and tensor."""
    rows = events.rows_of(EventType.GRAPH_BEGIN, EventType.OP_END, chunked)
    kind, thread = events.kind[rows], events.thread_of[events.place[rows]]
    is_op = kind >= EventType.OP_BEGIN
    graph = np.cumsum(~is_op) - 1
    chunked.check()
    owner = _owners(is_op, graph, thread, graphs)
    owner[~is_op] = graph[~is_op]
    chunked.check()
    ops = np.flatnonzero(is_op)
    place = np.where(owner[ops] >= 0, owner[ops], len(graphs) + thread[ops])
    pointer, distinct, _ = encode(events.pointer[rows[ops]])
    is_begin = kind[ops] == EventType.OP_BEGIN
    partner, _ = match(place.astype(np.int64) * len(distinct) + pointer, is_begin)
    chunked.check()
    ends = np.full(len(rows), -1, np.int64)
    ends[ops] = np.append(rows[ops], -1)[partner]
    begins = np.flatnonzero((kind & 1) == 0)
    n_ops, seen = _tallied(owner[ops], is_begin, len(graphs))
    small = np.int32 if events.n < 1 << 31 else np.int64
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
    result = np.append(graphs.innermost, -1)[graph[by_thread][last]]
    owner = np.empty(len(thread), np.int64)
    owner[by_thread] = np.where(is_own, result, -1)
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


def _finished(
    events: Events, graphs: Graphs, pairs: Pairs, trace_end: int, chunked: ChunkedOps
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
    chunked.check()
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
