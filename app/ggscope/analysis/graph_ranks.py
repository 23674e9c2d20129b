"""Which row of a layered drawing each node of a graph belongs to.

Walks along edges are loops: each node needs what its sources got. They touch every
node and edge a fixed number of times, so 100,000 nodes take a fraction of a second.
"""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64

Flags = npt.NDArray[np.bool_]
TOP, FREE, BOTTOM = -1, 0, 1
"""Where an item is pinned: to the first row, nowhere, to the last row."""
_CHECK_EVERY = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """Edges by node: those of node i are ``edge[first[i] : first[i + 1]]``."""

    first: list[int]
    edge: list[int]
    other: list[int]

    def of(self, node: int) -> list[int]:
        """Return the nodes at the other end of the node's edges."""
        return self.other[self.first[node] : self.first[node + 1]]


def adjacency(n: int, end: I64, other: I64) -> Adjacency:
    """Return the edges of each node by their end `end`, in the order of the edges."""
    order = np.argsort(end, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(end, minlength=n))])
    return Adjacency(first.tolist(), order.tolist(), other[order].tolist())


def sorted_by_edges(
    n: int, source: I64, target: I64, watcher: Watcher | None = None
) -> I64:
    """Return every node once, sources before targets, ties as in the program.

    A cycle is broken at its node that comes first in the program: the edges into
    that node then lead backwards in the result. Self loops mean nothing.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    keep = source != target
    out = adjacency(n, source[keep], target[keep])
    waiting = np.bincount(target[keep], minlength=n).tolist()
    ready = [node for node in range(n) if not waiting[node]]
    done = bytearray(n)
    order: list[int] = []
    first_left = 0
    while len(order) < n:
        if not ready:
            while done[first_left]:
                first_left += 1
            ready.append(first_left)
        node = heappop(ready)
        if done[node]:
            continue
        done[node] = 1
        order.append(node)
        if watcher is not None and not len(order) % _CHECK_EVERY:
            watcher.progress(len(order), 4 * n)
        for follower in out.of(node):
            waiting[follower] -= 1
            if not waiting[follower] and not done[follower]:
                heappush(ready, follower)
    return np.array(order, np.int64)


def leads_back(order: I64, source: I64, target: I64) -> Flags:
    """Return bool[m]: edges that run against `order` (and self loops)."""
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    back: Flags = position[source] >= position[target]
    return back


def ranks(
    n: int, source: I64, target: I64, pinned: I64, watcher: Watcher | None = None
) -> I64:
    """Return the row of each item, int64[n], the first row is 0.

    Every edge that does not lead back (see `sorted_by_edges`) goes to a later row.
    Rows are as early as possible, but what needs nothing computed is drawn to whom
    it feeds: weights stand just above the op that reads them.

    Parameters
    ----------
    pinned : TOP, FREE or BOTTOM for each item.
    """
    order = sorted_by_edges(n, source, target, watcher)
    forth = ~leads_back(order, source, target)
    out = adjacency(n, source[forth], target[forth])
    rank = [0] * n
    for node in order.tolist():
        below = rank[node] + 1
        for follower in out.of(node):
            if rank[follower] < below:
                rank[follower] = below
    found = np.array(rank, np.int64)
    if (pinned == TOP).any():
        _make_room_on_top(found, pinned)
    _pull_down(found, order, source[forth], target[forth], out, pinned)
    if (pinned == BOTTOM).any():
        inside = found[pinned != BOTTOM]
        found[pinned == BOTTOM] = int(inside.max(initial=-1)) + 1
    return found


def _make_room_on_top(rank: I64, pinned: I64) -> None:
    """Keep the first row for the pinned items; their followers are below already."""
    alone = (rank == 0) & (pinned != TOP)
    if alone.any():
        # What follows those moves with them: the whole rest goes one row down.
        rank[pinned != TOP] += 1
    rank[pinned == TOP] = 0


def _pull_down(
    rank: I64, order: I64, source: I64, target: I64, out: Adjacency, pinned: I64
) -> None:
    """Move to its first follower what has more followers than computed sources."""
    n = len(rank)
    is_input = np.bincount(target, minlength=n) == 0
    computed = np.bincount(target[~is_input[source]], minlength=n)
    fed = np.bincount(source, minlength=n)
    movable = (fed > computed) & (pinned == FREE)
    for node in order[::-1].tolist():
        if movable[node]:
            rank[node] = min(rank[follower] for follower in out.of(node)) - 1


__all__ = [
    "BOTTOM",
    "FREE",
    "TOP",
    "Adjacency",
    "adjacency",
    "leads_back",
    "ranks",
    "sorted_by_edges",
]
