"""What leads to a node, what follows from it, and the path that takes longest."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph_ranks import adjacency, leads_back, sorted_by_edges
from ggscope.analysis.graph_rows import F64
from ggscope.analysis.workers import Watcher
from ggscope.model.graph import Graph
from ggscope.model.tables import I64

Flags = npt.NDArray[np.bool_]


def predecessors(graph: Graph, nodes: I64) -> Flags:
    """Return bool[n]: all nodes that `nodes` (rows) are computed from, with them."""
    return _reached(len(graph), graph.target, graph.source, nodes)


def successors(graph: Graph, nodes: I64) -> Flags:
    """Return bool[n]: all nodes that are computed from `nodes` (rows), with them."""
    return _reached(len(graph), graph.source, graph.target, nodes)


def _reached(n: int, begin: I64, end: I64, nodes: I64) -> Flags:
    """Return all nodes that edges lead to from `nodes`, however far."""
    out = adjacency(n, begin.astype(np.int64), end.astype(np.int64))
    seen = np.zeros(n, np.bool_)
    seen[nodes] = True
    waiting = [int(node) for node in nodes]
    while waiting:
        for follower in out.of(waiting.pop()):
            if not seen[follower]:
                seen[follower] = True
                waiting.append(follower)
    return seen


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """The chain of nodes with the largest sum of times.

    Attributes
    ----------
    nodes : int64[k], rows, in the order of the program's dependencies.
    total : ticks of all of them.
    everything : ticks of all nodes of the graph.
    n_timed : how many of `nodes` have a time in the trace.
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
    time : float64[n], ticks of each node; NaN counts as 0.

    Notes
    -----
    Edges that close a cycle do not count. Nodes without time at both ends of the path
    are left out; without any time the path is empty.
    """
    n = len(graph)
    known = np.nan_to_num(time)
    source, target = graph.source.astype(np.int64), graph.target.astype(np.int64)
    order = sorted_by_edges(n, source, target, watcher)
    forth = ~leads_back(order, source, target)
    out = adjacency(n, source[forth], target[forth])
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
    timed = np.flatnonzero(known[rows] > 0)
    if len(timed):
        rows = rows[timed[0] : timed[-1] + 1]
    return CriticalPath(
        rows, float(known[rows].sum()), everything, int((known[rows] > 0).sum())
    )


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


__all__ = [
    "CriticalPath",
    "critical_path",
    "edges_within",
    "path_edges",
    "predecessors",
    "successors",
]
