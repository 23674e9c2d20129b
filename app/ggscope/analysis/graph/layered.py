"""A layered drawing: nodes in rows, x by least squares, edges as lines.

Edges over several rows are routed through *waypoints*, one per row in between; all
edges of one port share them, so a tensor that many ops use is one line with branches.

Walks along edges are loops: each node needs what its sources got. They touch every
node and edge a fixed number of times, so 100,000 nodes take a fraction of a second.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field, fields
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64

Flags = npt.NDArray[np.bool_]
TOP, FREE, BOTTOM = -1, 0, 1
"""Where an item is pinned: to the first row, nowhere, to the last row."""
GAP_X, GAP_Y = 18.0, 30.0
"""Space between neighbours of a row, and between rows."""
_WAYPOINT_GAP = 10.0
_CHECK_EVERY = 4096
MAX_SPAN = 12
"""Edges over more rows than this are drawn as stubs at both ends."""
_WAYPOINT_WEIGHT = 8.0
_MANY = 20_000
"""From so many items on, sweeps are fewer and crossings are not counted."""
_MAX_SPAN_OF_MANY = 3
"""Waypoints of 100,000 items with longer edges would take ten seconds."""


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
    ranks = np.array(rank, np.int64)
    if (pinned == TOP).any():
        _make_room_on_top(ranks, pinned)
    _pull_down(ranks, order, source[forth], target[forth], out, pinned)
    if (pinned == BOTTOM).any():
        inside = ranks[pinned != BOTTOM]
        ranks[pinned == BOTTOM] = int(inside.max(initial=-1)) + 1
    return ranks


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


F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """What is laid out together: the whole graph, or the inside of a layer.

    Attributes
    ----------
    width, height : float64[n], size of each item.
    source, target : int64[m], items of each edge; no self loops.
    source_x, target_x : float64[m], where an edge leaves and enters its items, as
        distance from their middle.
    weight : float64[m], how much an edge wants to be straight.
    aligns : bool[m], edges that want the middles of their items, not their own ends,
        above each other.
    pinned : int64[n], see `ranks`.
    hangs : bool[n], whether an item stands at the bottom of its row.
    """

    width: F64
    height: F64
    source: I64
    target: I64
    source_x: F64
    target_x: F64
    weight: F64
    aligns: npt.NDArray[np.bool_]
    pinned: I64
    hangs: npt.NDArray[np.bool_]

    def key(self) -> bytes:
        """Return what two levels have in common exactly if they look alike."""
        columns = [getattr(self, f.name) for f in fields(self)]
        sizes = np.array([len(self.width), len(self.source)], np.int64)
        return b"".join([sizes.tobytes(), *(c.tobytes() for c in columns)])


Link = tuple[int, float, float]
"""Item or waypoint at the other end, weight, and how far to the right of its middle
the own middle wants to be."""


@dataclass(slots=True, eq=False)
class Rows:
    """Items and waypoints in rows, with their links to the rows above and below.

    Numbers from n on are waypoints. `chain[e]` are the waypoints of edge e, empty for
    edges to the next row; `is_stub[e]` says that an edge is not drawn through.
    """

    n: int
    rank: list[int]
    rows: list[list[int]]
    above: list[list[Link]]
    below: list[list[Link]]
    chain: list[list[int]]
    is_stub: npt.NDArray[np.bool_]
    position: list[int] = field(default_factory=list)

    def number(self) -> None:
        """Note the place of everything in its row."""
        self.position = [0] * len(self.rank)
        for row in self.rows:
            for place, item in enumerate(row):
                self.position[item] = place


def make_rows(level: Level, watcher: Watcher | None = None) -> Rows:
    """Return the level's items in rows, each row in the order of the program."""
    n = len(level.width)
    rank = ranks(n, level.source, level.target, level.pinned, watcher)
    span = rank[level.target] - rank[level.source]
    max_span = MAX_SPAN if n < _MANY else _MAX_SPAN_OF_MANY
    is_stub = (span < 1) | (span > max_span)
    height = int(rank.max(initial=-1)) + 1
    rows: list[list[int]] = [[] for _ in range(height)]
    for item, row in enumerate(rank.tolist()):
        rows[row].append(item)
    made = Rows(
        n,
        rank.tolist(),
        rows,
        [[] for _ in range(n)],
        [[] for _ in range(n)],
        [[] for _ in level.source],
        is_stub,
    )
    _thread(made, level)
    made.number()
    return made


def _thread(made: Rows, level: Level) -> None:
    """Make the waypoints of long edges and all links."""
    waypoints: dict[tuple[int, float], list[int]] = {}
    leaves = np.where(level.aligns, 0.0, level.source_x).tolist()
    enters = np.where(level.aligns, 0.0, level.target_x).tolist()
    ports = level.source_x.tolist()
    sources, targets = level.source.tolist(), level.target.tolist()
    weights = level.weight.tolist()
    for edge in np.flatnonzero(~made.is_stub).tolist():
        source, target, weight = sources[edge], targets[edge], weights[edge]
        thread = waypoints.setdefault((source, ports[edge]), [])
        n_between = made.rank[target] - made.rank[source] - 1
        while len(thread) < n_between:
            thread.append(_waypoint(made, source, ports[edge], thread, weight))
        made.chain[edge] = thread[:n_between]
        last = thread[n_between - 1] if n_between else source
        leave = 0.0 if n_between else leaves[edge]
        _link(made, last, target, weight, leave - enters[edge])


def _waypoint(
    made: Rows, source: int, leave: float, thread: list[int], weight: float
) -> int:
    point = len(made.rank)
    row = made.rank[source] + len(thread) + 1
    made.rank.append(row)
    made.rows[row].append(point)
    made.above.append([])
    made.below.append([])
    if thread:
        _link(made, thread[-1], point, _WAYPOINT_WEIGHT, 0.0)
    else:
        _link(made, source, point, weight, leave)
    return point


def _link(made: Rows, upper: int, lower: int, weight: float, shift: float) -> None:
    made.above[lower].append((upper, weight, shift))
    made.below[upper].append((lower, weight, -shift))


def reduce_crossings(made: Rows, watcher: Watcher | None = None) -> None:
    """Reorder the rows by the middle of their neighbours, up and down in turns.

    Of all states on the way the one with the fewest crossings stays, so the result is
    never worse than the order of the program.
    """
    n = len(made.rank)
    counts = n < _MANY
    best = [row[:] for row in made.rows]
    fewest = crossings(made) if counts else 0
    for sweep in range(8 if n < 2000 else 4 if counts else 2):
        if counts and not fewest:
            break
        is_down = sweep % 2 == 0
        rows = made.rows if is_down else made.rows[::-1]
        for row in rows:
            _sort_row(made, row, made.above if is_down else made.below)
        if watcher is not None:
            watcher.progress(sweep + 2, 12)
        n_crossings = crossings(made) if counts else 0
        if n_crossings < fewest or not counts:
            fewest, best = n_crossings, [row[:] for row in made.rows]
    made.rows = best
    made.number()


def _sort_row(made: Rows, row: list[int], links: list[list[Link]]) -> None:
    """Sort a row by the weighted mean place of its neighbours in another one."""
    place = made.position
    keys: dict[int, float] = {}
    for item in row:
        total = weights = 0.0
        for other, weight, shift in links[item]:
            # Ports of one wide item lie within its place, in their order.
            inside = max(-0.45, min(0.45, shift / 2000))
            total += weight * (place[other] + inside)
            weights += weight
        keys[item] = total / weights if weights else float(place[item])
    row.sort(key=keys.__getitem__)
    for number, item in enumerate(row):
        place[item] = number


def crossings(made: Rows) -> int:
    """Return how many pairs of links between neighbouring rows cross."""
    place, total = made.position, 0
    for row in made.rows:
        pairs = sorted(
            (place[item], place[other])
            for item in row
            for other, _, _ in made.below[item]
        )
        seen: list[int] = []
        for _, lower in pairs:
            # Those that end further right and began further left.
            total += len(seen) - bisect_left(seen, lower + 1)
            insort(seen, lower)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A level with coordinates; the origin is its top left corner, y grows down.

    Attributes
    ----------
    x, y : float64[n], top left corner of each item.
    segments : float64[s, 4], straight lines x0, y0, x1, y1 that edges consist of,
        from source to target; ``y0 <= y1``.
    first, rows : edge e consists of ``segments[rows[first[e] : first[e + 1]]]``.
    is_stub : bool[m], edges that are not drawn through; they have no segments.
    start, end : float64[m, 2], where each edge leaves and enters its items.
    """

    x: F64
    y: F64
    width: float
    height: float
    segments: F64
    first: I64
    rows: I64
    is_stub: npt.NDArray[np.bool_]
    start: F64
    end: F64


def place(level: Level, head: float = 0.0, watcher: Watcher | None = None) -> Placed:
    """Lay out a level.

    Parameters
    ----------
    head : height of the first row where items are pinned to it, else space above.

    Notes
    -----
    Deterministic, and linear in nodes, edges and waypoints but for the sorting.
    """
    made = make_rows(level, watcher)
    reduce_crossings(made, watcher)
    middle = _middles(made, level, watcher)
    left = middle[: made.n] - level.width / 2
    shift = float(left.min(initial=0.0) if made.n else 0.0)
    if len(middle):
        shift = min(float(middle.min()), float(left.min()))
    middle, left = middle - shift, left - shift
    right = float((left + level.width).max(initial=float(middle.max(initial=0.0))))
    tops, bottoms = _row_edges(made, level, head)
    rank = np.array(made.rank[: made.n], np.int64)
    y = np.where(level.hangs, bottoms[rank] - level.height, tops[rank])
    below = y[level.source] + level.height[level.source]
    start = np.stack([middle[level.source] + level.source_x, below], 1)
    end = np.stack([middle[level.target] + level.target_x, y[level.target]], 1)
    segments, first, rows = _routes(made, level, middle, start, end, tops, bottoms)
    height = float(bottoms[-1]) if len(bottoms) else head
    return Placed(
        left, y, right, height, segments, first, rows, made.is_stub, start, end
    )


def _row_edges(made: Rows, level: Level, head: float) -> tuple[F64, F64]:
    """Return where each row begins and ends."""
    highest = np.zeros(len(made.rows))
    np.maximum.at(highest, np.array(made.rank[: made.n], np.int64), level.height)
    has_ports = bool((level.pinned == TOP).any())
    if has_ports and len(highest):
        highest[0] = max(highest[0], head)
    bottoms = np.cumsum(highest + GAP_Y) - GAP_Y + (0.0 if has_ports else head)
    return bottoms - highest, bottoms


def _middles(made: Rows, level: Level, watcher: Watcher | None) -> F64:
    """Return the x of the middle of every item and waypoint."""
    half = [*(level.width / 2).tolist(), *[0.0] * (len(made.rank) - made.n)]
    n = made.n
    x = [0.0] * len(half)
    steps: list[list[float]] = []
    for row in made.rows:
        at, apart = 0.0, [0.0]
        for left, right in pairwise(row):
            is_bare = left >= n and right >= n
            gap = _WAYPOINT_GAP if is_bare else GAP_X
            at += half[left] + half[right] + gap
            apart.append(at)
        steps.append(apart)
        for item, offset in zip(row, apart, strict=True):
            x[item] = offset - at / 2
    turns = 10 if len(half) < 2000 else 6 if len(half) < _MANY else 3
    for turn in range(turns):
        is_down = turn % 2 == 0
        links = made.above if is_down else made.below
        numbers = range(len(made.rows))
        for number in numbers if is_down else reversed(numbers):
            _settle(made.rows[number], steps[number], links, x)
        if watcher is not None:
            watcher.progress(turns + turn, 2 * turns + 1)
    return np.array(x, np.float64)


def _settle(
    row: list[int], apart: list[float], links: list[list[Link]], x: list[float]
) -> None:
    """Move a row to where its links want it, keeping order and distances.

    Minimises the weighted squares of the distances left: neighbours that push each
    other become one block that stands at its common mean (pool adjacent violators).
    """
    means: list[float] = []
    weights: list[float] = []
    sizes: list[int] = []
    for item, offset in zip(row, apart, strict=True):
        total = weight = 0.0
        for other, pull, shift in links[item]:
            total += pull * (x[other] + shift)
            weight += pull
        if not weight:  # nothing pulls: stay, but give way
            weight = 0.01
            total = weight * x[item]
        mean, size = total / weight - offset, 1
        while means and means[-1] >= mean:
            joined = weight + weights[-1]
            mean = (mean * weight + means.pop() * weights.pop()) / joined
            weight = joined
            size += sizes.pop()
        means.append(mean)
        weights.append(weight)
        sizes.append(size)
    at = 0
    for mean, size in zip(means, sizes, strict=True):
        for number in range(at, at + size):
            x[row[number]] = mean + apart[number]
        at += size


@dataclass(slots=True, eq=False)
class _Lines:
    """Segments as they are made; those of no length are left out."""

    drawn: list[tuple[float, float, float, float]]

    def draw(self, x0: float, y0: float, x1: float, y1: float) -> None:
        if x0 != x1 or y0 != y1:
            self.drawn.append((x0, y0, x1, y1))

    def __len__(self) -> int:
        return len(self.drawn)


def _routes(
    made: Rows, level: Level, middle: F64, start: F64, end: F64, tops: F64, bottoms: F64
) -> tuple[F64, I64, I64]:
    """Return the segments of all edges and which ones each edge consists of."""
    lines = _Lines([])
    keys = list(zip(level.source.tolist(), level.source_x.tolist(), strict=True))
    x, top, bottom = middle.tolist(), tops.tolist(), bottoms.tolist()
    begins, stops = start.tolist(), end.tolist()
    longest: dict[tuple[int, float], int] = {}
    for edge, key in enumerate(keys):
        known = longest.get(key)
        if not made.is_stub[edge] and (
            known is None or len(made.chain[edge]) > len(made.chain[known])
        ):
            longest[key] = edge
    threads = {
        key: _thread_lines(
            lines, begins[edge], made.rank[key[0]], made.chain[edge], x, top, bottom
        )
        for key, edge in longest.items()
    }
    first, rows = [0], list[int]()
    for edge, key in enumerate(keys):
        if not made.is_stub[edge]:
            chain, begin = made.chain[edge], threads[key]
            rows += range(begin[0], begin[len(chain) + 1])
            branch, stop = len(lines), stops[edge]
            last = made.rank[int(level.target[edge])]
            from_x = x[chain[-1]] if chain else begins[edge][0]
            lines.draw(from_x, bottom[last - 1], stop[0], top[last])
            lines.draw(stop[0], top[last], stop[0], stop[1])
            rows += range(branch, len(lines))
        first.append(len(rows))
    segments = np.array(lines.drawn, np.float64).reshape(-1, 4)
    return segments, np.array(first, np.int64), np.array(rows, np.int64)


def _thread_lines(
    lines: _Lines,
    begin: list[float],
    row: int,
    chain: list[int],
    x: list[float],
    top: list[float],
    bottom: list[float],
) -> list[int]:
    """Draw a port's line through its waypoints.

    Returns
    -------
    Where its segments begin, where those end that leave the item, and where those
    end that lead through each waypoint.
    """
    marks = [len(lines)]
    at = begin[0]
    lines.draw(at, begin[1], at, bottom[row])
    marks.append(len(lines))
    for point in chain:
        row += 1
        lines.draw(at, bottom[row - 1], x[point], top[row])
        at = x[point]
        lines.draw(at, top[row], at, bottom[row])
        marks.append(len(lines))
    return marks
