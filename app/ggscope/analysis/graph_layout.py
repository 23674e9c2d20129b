"""A picture's worth of a computation graph: boxes, lines and stubs with coordinates.

The layout is layered and deterministic. Layers of the network are boxes of their own:
closed ones stand for all their nodes, open ones are frames. The inside of a frame is
laid out alone and kept, because the layers of a network are alike but for two or three
kinds; so opening one layer, or all of them, costs little.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph_drawn import (
    Drawn,
    GraphChoice,
    Items,
    drawn_part,
    items_of,
    opening_choice,
)
from ggscope.analysis.graph_frames import (
    Cache,
    Frame,
    frame_of,
    node_sizes,
    outer_level,
)
from ggscope.analysis.graph_layers import GraphLayers, graph_layers
from ggscope.analysis.graph_place import Placed, place
from ggscope.analysis.graph_rows import F64
from ggscope.analysis.workers import Watcher
from ggscope.model.graph import Graph
from ggscope.model.tables import I64

Flags = npt.NDArray[np.bool_]
MAX_CACHED = 64


class BoxKind(IntEnum):
    """What a box stands for."""

    NODE = 0
    LAYER = 1
    """A closed layer: one box for all its nodes."""
    FRAME = 2
    """An open layer: its nodes are drawn inside."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphLayout:
    """Where everything is; the origin is the top left corner, y grows down.

    Units are pixels at zoom 1.

    Attributes
    ----------
    kind : uint8[b], `BoxKind`.
    node : int64[b], row of the node; -1 for layers. A node that is repeated has
        several boxes.
    layer : int64[b], -1 = none.
    x0, y0, x1, y1 : float64[b].
    segments : float64[s, 4], straight lines (x0, y0, x1, y1), ``y0 <= y1``.
    tips : float64[t, 2], where lines enter a box: arrow heads.
    stubs : float64[k, 4], for each edge that is too long to draw: where it leaves
        (x0, y0) and where it arrives (x1, y1).
    stub_source, stub_target : int64[k], rows of the nodes at its ends.
    box_of : int64[n], box of each node: its own, or its closed layer's; -1 = not shown.
    layers : which layer each node is in.
    choice : what was asked for.
    edge : int64[e], row in the graph of each drawn edge.
    hops : int64[e, 3], the parts of each drawn edge: in the frame it comes from, on
        the way, in the frame it goes to; -1 = no such part.
    hop_first, hop_rows : part p consists of
        ``segments[hop_rows[hop_first[p] : hop_first[p + 1]]]``.
    """

    kind: npt.NDArray[np.uint8]
    node: I64
    layer: I64
    x0: F64
    y0: F64
    x1: F64
    y1: F64
    width: float
    height: float
    segments: F64
    tips: F64
    stubs: F64
    stub_source: I64
    stub_target: I64
    box_of: I64
    layers: GraphLayers
    choice: GraphChoice
    edge: I64
    hops: I64
    hop_first: I64
    hop_rows: I64

    def __len__(self) -> int:
        return len(self.kind)

    def box_of_layer(self, layer: int) -> int:
        """Return the box or frame of a layer; -1 where it is not shown."""
        found = np.flatnonzero((self.layer == layer) & (self.kind != BoxKind.NODE))
        return int(found[0]) if len(found) else -1

    def lines_of(self, edges: Flags) -> I64:
        """Return the rows of `segments` that the marked edges (bool[m]) consist of."""
        parts = np.unique(self.hops[edges[self.edge]])
        parts = parts[parts >= 0]
        first = self.hop_first[parts]
        n = self.hop_first[parts + 1] - first
        within = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n)
        return np.unique(self.hop_rows[np.repeat(first, n) + within])


def lay_out_graph(
    graph: Graph,
    choice: GraphChoice | None = None,
    cache: Cache | None = None,
    watcher: Watcher | None = None,
    layers: GraphLayers | None = None,
) -> GraphLayout:
    """Lay out what `choice` asks for, by default the graph with its layers closed.

    Parameters
    ----------
    cache : kept from call to call, makes opening further layers quick.
    layers : of this graph, if known already.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    wanted = opening_choice(graph) if choice is None else choice
    known = graph_layers(graph) if layers is None else layers
    kept: Cache = {} if cache is None else cache
    if len(kept) > MAX_CACHED:
        kept.clear()
    drawn = drawn_part(graph, known, wanted)
    items = items_of(drawn, wanted)
    frames = {
        item: frame_of(drawn, items, item, kept, watcher)
        for item in np.flatnonzero(items.is_open).tolist()
    }
    level, edge, hop = outer_level(drawn, items, frames)
    outer = place(level, 0.0, watcher)
    parts = _Parts(len(drawn.edge))
    parts.hops[edge, 1] = hop
    parts.add(outer, 0.0, 0.0, ~items.is_open[level.target])
    for item, frame in frames.items():
        from_here = items.of_node[drawn.source[frame.edge]] == item
        parts.hops[frame.edge, np.where(from_here, 0, 2)] = parts.n_hops + frame.hop
        x, y = float(outer.x[item]) + frame.inset, float(outer.y[item])
        parts.add(frame.placed, x, y, frame.arrives)
    sizes = np.stack([level.width, level.height], 1)
    return _assembled(graph, known, wanted, drawn, parts, outer,
                      _boxes(drawn, items, frames, outer, sizes))  # fmt: skip


class _Parts:
    """The lines of all levels, gathered into common tables."""

    def __init__(self, n_edges: int) -> None:
        self.hops = np.full((n_edges, 3), -1, np.int64)
        self.segments: list[F64] = []
        self.first: list[I64] = []
        self.rows: list[I64] = []
        self.is_stub: list[Flags] = []
        self.arrives: list[Flags] = []
        self.ends: list[F64] = []
        self.n_hops = self.n_segments = self.n_rows = 0

    def add(self, placed: Placed, x: float, y: float, arrives: Flags) -> None:
        """Add the lines of a level at (x, y); `arrives` tells which end at a box."""
        shift = np.array([x, y, x, y])
        self.segments.append(placed.segments + shift)
        self.first.append(placed.first[:-1] + self.n_rows)
        self.rows.append(placed.rows + self.n_segments)
        self.is_stub.append(placed.is_stub)
        self.arrives.append(arrives)
        self.ends.append(np.concatenate([placed.start, placed.end], 1) + shift)
        self.n_hops += len(placed.is_stub)
        self.n_segments += len(placed.segments)
        self.n_rows += len(placed.rows)


_Boxes = tuple[I64, F64]
"""Columns (kind, node, layer) and (x0, y0, x1, y1), a row for each box."""


def _boxes(
    drawn: Drawn, items: Items, frames: dict[int, Frame], outer: Placed, sizes: F64
) -> _Boxes:
    """Return all boxes by their top; `sizes` is float64[k, 2] of the items."""
    kind = np.where(items.layer < 0, BoxKind.NODE, BoxKind.LAYER).astype(np.int64)
    kind[items.is_open] = BoxKind.FRAME
    node = np.full(len(kind), -1, np.int64)
    node[items.node >= 0] = drawn.row[items.node[items.node >= 0]]
    what = [np.stack([kind, node, items.layer], 1)]
    corner = np.stack([outer.x, outer.y], 1)
    where = [np.concatenate([corner, corner + sizes], 1)]
    for item, frame in frames.items():
        k = len(frame.members)
        inside = np.full(k, items.layer[item])
        row = drawn.row[frame.members]
        what.append(np.stack([np.zeros(k, np.int64), row, inside], 1))
        x = frame.placed.x[:k] + outer.x[item] + frame.inset
        y = frame.placed.y[:k] + outer.y[item]
        width, height = node_sizes(drawn.is_input[frame.members])
        where.append(np.stack([x, y, x + width, y + height], 1))
    boxes, places = np.concatenate(what), np.concatenate(where)
    order = np.argsort(places[:, 1], kind="stable")
    return boxes[order], places[order]


def _box_of(graph: Graph, layers: GraphLayers, boxes: I64) -> I64:
    """Return the box that shows each node, -1 where none does."""
    of_layer = np.full(int(layers.layer.max(initial=-1)) + 2, -1, np.int64)
    closed = np.flatnonzero(boxes[:, 0] == BoxKind.LAYER)
    of_layer[boxes[closed, 2]] = closed
    box_of: I64 = of_layer[layers.layer]  # -1 takes the last, which is no layer
    single = np.flatnonzero(boxes[:, 0] == BoxKind.NODE)[::-1]
    box_of[boxes[single, 1]] = single  # the uppermost of repeated ones
    return box_of


def _assembled(
    graph: Graph,
    layers: GraphLayers,
    choice: GraphChoice,
    drawn: Drawn,
    parts: _Parts,
    outer: Placed,
    found: _Boxes,
) -> GraphLayout:
    boxes, places = found
    is_stub = np.concatenate(parts.is_stub)
    ends = np.concatenate(parts.ends)
    tips = ends[np.concatenate(parts.arrives) & ~is_stub, 2:]
    # Some edge that each part belongs to; the first one of several.
    owner = np.full(parts.n_hops + 1, -1, np.int64)
    at = np.repeat(np.arange(len(drawn.edge)), 3)[::-1]
    owner[parts.hops.reshape(-1)[::-1]] = at
    owner = owner[:-1]
    stub_edge = drawn.edge[owner[is_stub]]
    return GraphLayout(
        boxes[:, 0].astype(np.uint8),
        boxes[:, 1],
        boxes[:, 2],
        places[:, 0],
        places[:, 1],
        places[:, 2],
        places[:, 3],
        outer.width,
        outer.height,
        np.concatenate(parts.segments),
        np.unique(tips, axis=0),
        ends[is_stub],
        graph.source[stub_edge].astype(np.int64),
        graph.target[stub_edge].astype(np.int64),
        _box_of(graph, layers, boxes),
        layers,
        choice,
        drawn.edge,
        parts.hops,
        np.concatenate([*parts.first, [parts.n_rows]]).astype(np.int64),
        np.concatenate(parts.rows),
    )


__all__ = ["BoxKind", "GraphChoice", "GraphLayout", "lay_out_graph", "opening_choice"]
