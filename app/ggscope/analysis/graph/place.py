"""Coordinates of a layered drawing: x by least squares, y by rows, edges as lines."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph.rows import F64, TOP, Level, Link, Rows, make_rows
from ggscope.analysis.graph.rows import reduce_crossings as _reduce_crossings
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64

GAP_X, GAP_Y = 18.0, 30.0
"""Space between neighbours of a row, and between rows."""
_WAYPOINT_GAP = 10.0
_MANY = 20_000


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
    _reduce_crossings(made, watcher)
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

    Minimises the weighted squares of what is left to wish: neighbours that push each
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
