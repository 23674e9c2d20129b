"""Measures of the nodes of a graph: time, accesses, and how nodes were matched.

Also the critical path through the graph by these times, and the predecessors and
successors of nodes.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph.layered import F64, adjacency, leads_back, sorted_by_edges
from ggscope.analysis.reads.op_io import loose_bytes, loose_unsized, op_accesses
from ggscope.analysis.sessions.correlate import Correlation, Rule
from ggscope.analysis.workers import Watcher, chunks
from ggscope.model.graph import Graph, first_node
from ggscope.model.names import normalise
from ggscope.model.tables import I64, Array, Quality, quality_of
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class NodeMeasures:
    """Measures of each node of a graph.

    Attributes
    ----------
    time : float64[n], ticks of all its spans that have an end; NaN = there is none.
    n_spans : int64[n]; `n_open` : int64[n], those of them without a recorded end.
    quality : uint8[n], the worst `Quality` among its spans.
    rule : uint8[n], the weakest `Rule` by which one of its spans was matched.
    accesses, access_bytes : float64[n], how often its tensor is accessed in the whole
        trace, and the known bytes of that; NaN = the trace does not know the tensor, or
        the size of no access.
    tensor : int64[n], row of ``Trace.tensors``, -1 = not known.
    """

    time: F64
    n_spans: I64
    n_open: I64
    quality: npt.NDArray[np.uint8]
    rule: npt.NDArray[np.uint8]
    accesses: F64
    access_bytes: F64
    tensor: I64


def node_measures(
    trace: Trace,
    number: int,
    correlation: Correlation | None,
    watcher: Watcher | None = None,
) -> NodeMeasures:
    """Return the measures of every node of graph `number` of the trace.

    Parameters
    ----------
    correlation : which spans are which nodes; without it no node has a time.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    graph = trace.graphs[number]
    sums = _Sums(len(graph))
    if correlation is not None:
        first = first_node(trace.graphs, number)
        for rows in chunks(len(trace.spans)):
            node, rule = correlation.nodes_of(np.arange(rows.start, rows.stop))
            row = node - first
            in_graph = np.flatnonzero((row >= 0) & (row < len(graph)) & (node >= 0))
            sums.add(trace, in_graph + rows.start, row[in_graph], rule[in_graph])
            if watcher is not None:
                watcher.progress(rows.stop, len(trace.spans))
    tensor = _tensors(trace, graph)
    accesses, access_bytes = _accesses(trace, tensor)
    return NodeMeasures(
        time=np.where(sums.n_spans > sums.n_open, sums.time, np.nan),
        n_spans=sums.n_spans,
        n_open=sums.n_open,
        quality=sums.quality,
        rule=sums.rule,
        accesses=accesses,
        access_bytes=access_bytes,
        tensor=tensor,
    )


class _Sums:
    """Sums for each node."""

    def __init__(self, n: int) -> None:
        self.time = np.zeros(n)
        self.n_spans = np.zeros(n, np.int64)
        self.n_open = np.zeros(n, np.int64)
        self.quality = np.zeros(n, np.uint8)
        self.rule = np.zeros(n, np.uint8)

    def add(
        self, trace: Trace, spans: I64, node: I64, rule: npt.NDArray[np.uint8]
    ) -> None:
        """Add spans; `node` is the row of the node that each of them is."""
        n = len(self.time)
        quality = quality_of(trace.spans.flags[spans])
        unsized_tensor = quality == Quality.UNFINISHED
        duration = np.where(
            unsized_tensor, 0, trace.spans.end[spans] - trace.spans.start[spans]
        )
        self.time += np.bincount(node, duration.astype(np.float64), n)
        self.n_spans += np.bincount(node, minlength=n)
        self.n_open += np.bincount(node[unsized_tensor], minlength=n)
        for worst, codes, kinds in (
            (self.quality, quality, list(Quality)),
            (self.rule, rule, list(Rule)),
        ):
            for kind in kinds:
                has_it = np.bincount(node[codes == kind], minlength=n) > 0
                worst[has_it & (worst < kind)] = kind


def _tensors(trace: Trace, graph: Graph) -> I64:
    """Return the row of each node's tensor, by its base name where not stated."""
    rows = graph.tensor.astype(np.int64)
    unknown = np.flatnonzero(rows < 0)
    if not len(unknown) or not len(trace.tensors):
        return rows
    texts = trace.strings
    known = {texts[int(i)]: k for k, i in enumerate(trace.tensors.name)}
    rows = rows.copy()
    rows[unknown] = [
        known.get(normalise(texts[int(name)]), -1) for name in graph.name[unknown]
    ]
    return rows


def _accesses(trace: Trace, tensor: I64) -> tuple[F64, F64]:
    """Return how often each tensor (rows) is accessed, and the bytes; NaN unknown."""
    table, n = trace.accesses, len(trace.tensors)
    missing = np.full(len(tensor), np.nan)
    if not n or not (len(table.patterns) or len(table.loose)):
        return missing, missing
    access_table = op_accesses(trace)
    times = access_table.row_times()
    counts, sizes = _by_tensor(
        access_table.what.tensor,
        times * access_table.counts,
        times * access_table.known,
        n,
    )
    loose = table.loose
    once = np.ones(len(loose), np.int64)
    loose_counts, loose_sizes = _by_tensor(
        loose.what.tensor, once, loose_bytes(trace)[0], n
    )
    unsized, _ = _by_tensor(
        access_table.what.tensor, times * access_table.unsized, times, n
    )
    unsized_tensor = loose.what.tensor[loose_unsized(trace)]
    unsized += np.bincount(unsized_tensor[unsized_tensor >= 0], minlength=n)
    sizes += loose_sizes
    sizes[(sizes == 0) & (unsized > 0)] = np.nan
    known = tensor >= 0
    return (
        np.where(known, (counts + loose_counts)[tensor], np.nan),
        np.where(known, sizes[tensor], np.nan),
    )


def _by_tensor(tensor: Array, count: I64, size: I64, n: int) -> tuple[F64, F64]:
    """Return the sums of `count` and of `size` for each tensor."""
    has_tensor = tensor >= 0
    rows = tensor[has_tensor]
    counts = np.bincount(rows, count[has_tensor].astype(np.float64), n)
    sizes = np.bincount(rows, size[has_tensor].astype(np.float64), n)
    return counts.astype(np.float64), sizes.astype(np.float64)


Flags = npt.NDArray[np.bool_]


def predecessors(graph: Graph, nodes: I64) -> Flags:
    """Return bool[n]: all nodes that `nodes` (rows) are computed from, with them."""
    return _reached(len(graph), graph.target, graph.source, nodes)


def successors(graph: Graph, nodes: I64) -> Flags:
    """Return bool[n]: all nodes that are computed from `nodes` (rows), with them."""
    return _reached(len(graph), graph.source, graph.target, nodes)


def _reached(n: int, begin: I64, end: I64, nodes: I64) -> Flags:
    """Return all nodes reachable from `nodes` by edges, bool[n]."""
    out = adjacency(n, begin.astype(np.int64), end.astype(np.int64))
    seen = np.zeros(n, np.bool_)
    seen[nodes] = True
    pending = [int(node) for node in nodes]
    while pending:
        for follower in out.of(pending.pop()):
            if not seen[follower]:
                seen[follower] = True
                pending.append(follower)
    return seen


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """The chain of nodes with the largest sum of times.

    Attributes
    ----------
    nodes : int64[k], rows, in the order of the program's dependencies.
    total : ticks of all of them.
    everything : ticks of all nodes of the graph.
    n_timed : how many of `nodes` have a time in the trace, 0 included.
    """

    nodes: I64
    total: float
    everything: float
    n_timed: int


def critical_path(
    graph: Graph, time: F64, watcher: Watcher | None = None
) -> CriticalPath:
    """Return the path through the graph that takes longest.

    Parameters
    ----------
    time : float64[n], ticks of each node; NaN, not known, counts as 0.

    Notes
    -----
    Edges that close a cycle do not count. Nodes without time at both ends of the path
    are left out, but for the one that ends the graph: its last record has no end in
    many traces. Without any time the path is empty.
    """
    n = len(graph)
    known = np.nan_to_num(time)
    source, target = graph.source.astype(np.int64), graph.target.astype(np.int64)
    order = sorted_by_edges(n, source, target, watcher)
    is_forward = ~leads_back(order, source, target)
    out = adjacency(n, source[is_forward], target[is_forward])
    before = [-1] * n
    reached = known.tolist()
    own = known.tolist()
    for node in order.tolist():
        for follower in out.of(node):
            sum_here = reached[node] + own[follower]
            if sum_here > reached[follower]:
                reached[follower] = sum_here
                before[follower] = node
    path: list[int] = []
    everything = float(known.sum())
    if everything > 0:
        at = int(np.argmax(reached))
        while at >= 0:
            path.append(at)
            at = before[at]
    rows = np.array(path[::-1], np.int64)
    is_timed = ~np.isnan(time)
    timed = np.flatnonzero(known[rows] > 0)
    if len(timed):
        rows = rows[timed[0] : timed[-1] + 1]
        ends = [f for f in out.of(int(rows[-1])) if not (is_timed[f] or out.of(f))]
        rows = np.append(rows, ends[-1:]).astype(np.int64)
    n_timed = int(np.count_nonzero(is_timed[rows]))
    return CriticalPath(rows, float(known[rows].sum()), everything, n_timed)


def path_edges(graph: Graph, nodes: I64) -> Flags:
    """Return bool[m]: edges that lead from one of `nodes` to the next."""
    n = len(graph)
    follower = np.full(n, -1, np.int64)
    follower[nodes[:-1]] = nodes[1:]
    edges: Flags = follower[graph.source] == graph.target
    return edges


def edges_within(graph: Graph, nodes: Flags) -> Flags:
    """Return bool[m]: edges with both ends among `nodes` (bool[n])."""
    edges: Flags = nodes[graph.source] & nodes[graph.target]
    return edges
