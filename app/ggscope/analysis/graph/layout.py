"""A picture's worth of a computation graph: boxes, lines and stubs with coordinates.

The layout is layered and deterministic. Layers of the network are boxes of their own:
closed ones stand for all their nodes, open ones are frames. The inside of a frame is
laid out alone and kept, because the layers of a network are alike but for two or three
kinds; so opening one layer, or all of them, costs little. In order: which transformer
layer each node belongs to and what layers share (`GraphLayers`), what is drawn of it
(`ShownGraph`), the insides of open layers, and the level of everything around them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph.layered import BOTTOM, F64, FREE, TOP, Level, Placed, place
from ggscope.analysis.workers import Watcher
from ggscope.model.graph import Graph, NodeFlag
from ggscope.model.tables import I64, ranges

Flags = npt.NDArray[np.bool_]
NODE_SIZE = (164.0, 40.0)
INPUT_SIZE = (140.0, 24.0)
LAYER_SIZE = (236.0, 46.0)
FRAME_PAD = 14.0
FRAME_HEAD = 28.0
"""Space above the first row of a frame, for its title."""
_MIN_FRAME_WIDTH = 260.0
_INPUT_WEIGHT = 0.02
"""Inputs follow the ops that they feed, not the other way round."""
_SPINE_WEIGHT = 20.0
"""From one layer to the next: the main line of the picture."""
MAX_CACHED = 64
_MAX_VIEWS = 32


@dataclass(frozen=True, slots=True, eq=False)
class GraphLayers:
    """Nodes by layer.

    Attributes
    ----------
    layer : int64[n], -1 = outside all layers.
    is_inferred : bool[n], the file does not say so, the place in the program does.
    is_input : bool[n], nothing in the graph computes it.
    is_shared : bool[n], inputs that several layers use; their layer is -1.
    numbers : int64[k], the layers there are, ascending.
    """

    layer: I64
    is_inferred: Flags
    is_input: Flags
    is_shared: Flags
    numbers: I64


def graph_layers(graph: Graph) -> GraphLayers:
    """Return the layer of every node.

    A computed node without a layer of its own (``node_27``) belongs to the layer whose
    nodes stand around it in the program; between two layers, to the earlier one.
    Inputs without one (``cache_k_l0``, masks) belong to the only layer that uses them.
    """
    n = len(graph)
    stated = graph.layer.astype(np.int64)
    source, target = graph.source.astype(np.int64), graph.target.astype(np.int64)
    proper = source != target
    source, target = source[proper], target[proper]
    leaf = (graph.flags & int(NodeFlag.LEAF)) != 0
    is_input = leaf | (
        (np.bincount(target, minlength=n) == 0) & (np.asarray(graph.op) < 0)
    )
    layer = np.where(is_input, -1, _by_program(stated, is_input))
    low, high = _layers_of_users(layer, source, target, n)
    is_shared = is_input & (high > low) & (low >= 0) & (stated < 0)
    is_flagged = (graph.flags & int(NodeFlag.SHARED)) != 0
    is_shared |= is_input & (stated < 0) & is_flagged
    of_users = np.where((low == high) & ~is_shared, low, -1)
    layer = np.where(is_input, np.where(stated >= 0, stated, of_users), layer)
    return GraphLayers(
        layer,
        (layer >= 0) & (stated < 0),
        is_input,
        is_shared,
        np.unique(layer[layer >= 0]),
    )


def _by_program(stated: I64, is_input: Flags) -> I64:
    """Return the layer of computed nodes, by their neighbours in the program."""
    n = len(stated)
    at = np.arange(n)
    known = (stated >= 0) & ~is_input
    if not known.any():
        return stated
    before = np.maximum.accumulate(np.where(known, at, -1))
    after = np.minimum.accumulate(np.where(known, at, n)[::-1])[::-1]
    inside = ~known & (before >= 0) & (after < n)
    return np.where(inside, stated[np.maximum(before, 0)], stated)


def _layers_of_users(layer: I64, source: I64, target: I64, n: int) -> tuple[I64, I64]:
    """Return the lowest and highest layer of the users of each node; -1 outside."""
    low = np.full(n, np.iinfo(np.int64).max)
    high = np.full(n, -1, np.int64)
    np.minimum.at(low, source, layer[target])
    np.maximum.at(high, source, layer[target])
    return np.where(high < 0, -1, low), high


@dataclass(frozen=True, slots=True)
class GraphChoice:
    """What of a graph to show, and how.

    Attributes
    ----------
    opened : layers that are open; None = all of them.
    layer : only this layer with the inputs that it shares with others; None = all.
    repeats_inputs : draw shared inputs beside each of their users.
    hidden_ops : ops (numbers as in ``Graph.op``) that are left out; who reads their
        result is drawn as reading their first source. See `view_ops`.
    across : from left to right instead of from top to bottom.
    """

    opened: frozenset[int] | None = frozenset()
    layer: int | None = None
    repeats_inputs: bool = False
    hidden_ops: frozenset[int] = frozenset()
    across: bool = False


VIEW_OPS = ("VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE")
"""Ops that compute nothing: their result is their source, seen otherwise."""


def view_ops(graph: Graph, op_name: Callable[[int], str]) -> frozenset[int]:
    """Return the numbers of the ops of a graph that only look at their source."""
    numbers = np.unique(graph.op).tolist()
    return frozenset(i for i in numbers if i >= 0 and op_name(i) in VIEW_OPS)


def opening_choice(graph: Graph) -> GraphChoice:
    """Return how a graph is shown first: by layers where it has several."""
    several = len(graph_layers(graph).numbers) > 1
    return GraphChoice(frozenset() if several else None)


@dataclass(frozen=True, slots=True, eq=False)
class ShownGraph:
    """The nodes and edges that a choice shows.

    Attributes
    ----------
    row : int64[d], row in the graph of each drawn node.
    layer : int64[d], the layer that it is drawn in, -1 = none.
    is_input : bool[d].
    source, target : int64[e], drawn nodes; no self loops.
    edge : int64[e], row in the graph of each drawn edge.
    root : int64[n], of each node of the graph: itself, or for one that is left out the
        node that it is a view of.
    """

    row: I64
    layer: I64
    is_input: Flags
    source: I64
    target: I64
    edge: I64
    root: I64


def drawn_part(graph: Graph, layers: GraphLayers, choice: GraphChoice) -> ShownGraph:
    """Return the nodes and edges that `choice` shows, in the order of the program."""
    edge = np.flatnonzero(graph.source != graph.target)
    source = graph.source[edge].astype(np.int64)
    target = graph.target[edge].astype(np.int64)
    row, layer = np.arange(len(graph)), layers.layer
    root = _roots(graph, layers, choice)
    keep = root == row
    source = root[source]
    shown = keep[target] & (source != target)
    edge, source, target = edge[shown], source[shown], target[shown]
    if choice.repeats_inputs:
        copied = layers.is_shared[source]
        first = len(row)
        keep[source[copied]] = False
        keep[target] = True  # a leaf that an edge enters all the same keeps its box
        row = np.concatenate([row, source[copied]])
        layer = np.concatenate([layer, layer[target[copied]]])
        source = source.copy()
        source[copied] = first + np.arange(int(copied.sum()))
        keep = np.concatenate([keep, np.ones(len(row) - first, np.bool_)])
    if choice.layer is not None:
        inside = layer == choice.layer
        used = np.zeros(len(row), np.bool_)
        used[source[inside[target]]] = True
        keep &= inside | (used & layers.is_shared[row])
    number = np.cumsum(keep) - 1
    both = keep[source] & keep[target]
    return ShownGraph(
        row[keep],
        layer[keep],
        layers.is_input[row[keep]],
        number[source[both]],
        number[target[both]],
        edge[both],
        root,
    )


def _roots(graph: Graph, layers: GraphLayers, choice: GraphChoice) -> I64:
    """Return what each node that is left out is a view of; of the others themselves."""
    own = np.arange(len(graph))
    if not choice.hidden_ops:
        return own
    hidden = np.isin(graph.op, sorted(choice.hidden_ops)) & ~layers.is_input
    into = np.flatnonzero(hidden[graph.target] & (graph.source != graph.target))
    into = into[np.lexsort((graph.slot[into], graph.target[into]))]
    views, first = np.unique(graph.target[into], return_index=True)
    root = own.copy()
    root[views] = graph.source[into[first]]
    for _ in range(_MAX_VIEWS):  # views of views of …: each step doubles the reach
        further = root[root]
        if (further == root).all():
            break
        root = further
    return root


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """What the whole picture is laid out from: layers, and nodes outside of them.

    Attributes
    ----------
    of_node : int64[d], item of each drawn node.
    layer : int64[k], -1 for a single node.
    node : int64[k], the drawn node, -1 for layers.
    is_open : bool[k].
    members : drawn nodes of each item.
    """

    of_node: I64
    layer: I64
    node: I64
    is_open: Flags
    members: list[I64]


def items_of(drawn: ShownGraph, choice: GraphChoice) -> Items:
    """Return the items, ordered by the first computed node of each."""
    n = len(drawn.row)
    at = np.arange(n)
    key = np.where(drawn.layer >= 0, drawn.layer, at + (1 << 40))
    keys, of_node = np.unique(key, return_inverse=True)
    first = np.full(len(keys), 2 * n)
    np.minimum.at(first, of_node, np.where(drawn.is_input, at + n, at))
    order = np.argsort(first, kind="stable")
    number = np.empty(len(keys), np.int64)
    number[order] = np.arange(len(keys))
    of_node = number[of_node.reshape(-1)]
    keys = keys[order]
    is_layer = keys < 1 << 40
    layer = np.where(is_layer, keys, -1)
    if choice.opened is None or choice.layer is not None:
        is_open = is_layer
    else:
        is_open = is_layer & np.isin(layer, sorted(choice.opened))
    by_item = np.argsort(of_node, kind="stable")
    sizes = np.bincount(of_node, minlength=len(keys))
    members = np.split(by_item, np.cumsum(sizes)[:-1]) if len(keys) else []
    return Items(
        of_node, layer, np.where(is_layer, -1, keys - (1 << 40)), is_open, members
    )


Cache = dict[bytes, Placed]
"""Insides of frames by their `Level.key`; belongs to one caller."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The inside of an open layer.

    Attributes
    ----------
    members : int64[k], drawn nodes inside.
    placed : members first, then ports for what comes in and what goes out.
    came, went : drawn nodes whose values come in (from outside) and go out.
    edge, hop : drawn edges with at least one end inside, and which edge of `placed`
        is their part in here.
    arrives : bool[p], edges of `placed` that end at a member, not at the border.
    across : whether all of it is turned afterwards: then the title, at the top, lies
        beside the rows and not before them.
    """

    members: I64
    placed: Placed
    came: I64
    went: I64
    edge: I64
    hop: I64
    arrives: npt.NDArray[np.bool_]
    across: bool = False

    @property
    def width(self) -> float:
        """Width of the frame with its padding."""
        if self.across:
            return self.placed.width + FRAME_HEAD + FRAME_PAD
        return max(self.placed.width + 2 * FRAME_PAD, _MIN_FRAME_WIDTH)

    @property
    def height(self) -> float:
        """Height of the frame; lines that go out end at its lower edge."""
        return self.placed.height + (0.0 if len(self.went) else FRAME_PAD)

    @property
    def inset(self) -> float:
        """How far inside the frame `placed` begins, from the left."""
        if self.across:
            return FRAME_HEAD
        return (self.width - self.placed.width) / 2

    def port_x(self, node: int, *, incoming: bool) -> float:
        """Return where a value crosses the border, from the frame's middle."""
        ports = self.came if incoming else self.went
        port = len(self.members) + int(np.searchsorted(ports, node))
        port += 0 if incoming else len(self.came)
        return float(self.placed.x[port]) + self.inset - self.width / 2


def node_sizes(
    is_input: npt.NDArray[np.bool_], *, across: bool = False
) -> tuple[F64, F64]:
    """Return width and height of the boxes of nodes; `across`: height and width."""
    width = np.where(is_input, INPUT_SIZE[0], NODE_SIZE[0])
    height = np.where(is_input, INPUT_SIZE[1], NODE_SIZE[1])
    return (height, width) if across else (width, height)


def frame_of(
    drawn: ShownGraph,
    items: Items,
    item: int,
    cache: Cache,
    watcher: Watcher | None,
    *,
    across: bool = False,
) -> Frame:
    """Return the inside of an open layer; from the cache where one alike is known."""
    members = items.members[item]
    local = np.full(len(drawn.row), -1, np.int64)
    local[members] = np.arange(len(members))
    here = items.of_node == item
    from_here, to_here = here[drawn.source], here[drawn.target]
    edge = np.flatnonzero(from_here | to_here)
    source, target = drawn.source[edge], drawn.target[edge]
    comes, goes = ~from_here[edge], ~to_here[edge]
    came, went = np.unique(source[comes]), np.unique(source[goes])
    first_in, first_out = len(members), len(members) + len(came)
    begin = np.where(comes, first_in + np.searchsorted(came, source), local[source])
    end = np.where(goes, first_out + np.searchsorted(went, source), local[target])
    n = first_out + len(went)
    pairs, hop = np.unique(begin * n + end, return_inverse=True)
    width, height = node_sizes(drawn.is_input[members], across=across)
    begins = pairs // n if n else pairs
    feeds = np.concatenate([drawn.is_input[members], drawn.is_input[came]])
    ports = np.zeros(n - first_in)
    level = Level(
        np.concatenate([width, ports]),
        np.concatenate([height, ports]),
        begins,
        pairs % n if n else pairs,
        np.zeros(len(pairs)),
        np.zeros(len(pairs)),
        np.where(feeds[begins], _INPUT_WEIGHT, 1.0),
        np.zeros(len(pairs), np.bool_),
        np.repeat([FREE, TOP, BOTTOM], [len(members), len(came), len(went)]),
        np.concatenate([drawn.is_input[members], ports > 0]),
    )
    key = level.key() + bytes([across])
    placed = cache.get(key)
    if placed is None:
        head = FRAME_PAD if across else FRAME_HEAD
        placed = cache[key] = place(level, head, watcher)
    arrives = level.target < first_out
    return Frame(members, placed, came, went, edge, hop.reshape(-1), arrives, across)


def outer_level(
    drawn: ShownGraph, items: Items, frames: dict[int, Frame], *, across: bool = False
) -> tuple[Level, I64, I64]:
    """Return the level of all items.

    Returns
    -------
    The level, the drawn edges that lead from item to item, and which of the level's
    edges each of them is.
    """
    begin, end = items.of_node[drawn.source], items.of_node[drawn.target]
    edge = np.flatnonzero(begin != end)
    begin, end, value = begin[edge], end[edge], drawn.source[edge]
    # Lines from one closed box are one line, whatever it carries.
    is_frame = np.isin(np.arange(len(items.layer)), list(frames))
    carried = np.where(is_frame[begin] | is_frame[end], value, -1)
    rows = np.stack([begin, end, carried], 1).astype(np.int64)
    distinct, hop = np.unique(rows, axis=0, return_inverse=True)
    hop = hop.reshape(-1)
    leave = np.array(
        [_port(frames, int(a), int(v), incoming=False) for a, _, v in distinct],
        np.float64,
    )
    enter = np.array(
        [_port(frames, int(b), int(v), incoming=True) for _, b, v in distinct],
        np.float64,
    )
    begins, ends = distinct[:, 0], distinct[:, 1]
    alone = items.node >= 0
    is_input = alone & drawn.is_input[np.maximum(items.node, 0)]
    width, height = _item_sizes(items, is_input, frames, across=across)
    next_layer = (items.layer[begins] >= 0) & (
        items.layer[ends] == items.layer[begins] + 1
    )
    weight = np.where(next_layer, _SPINE_WEIGHT, 1.0)
    weight = np.where(is_input[begins], _INPUT_WEIGHT, weight)
    pinned = np.full(len(items.layer), FREE, np.int64)
    level = Level(
        width, height, begins, ends, leave, enter, weight, next_layer, pinned, is_input
    )
    return level, edge, hop


def _port(frames: dict[int, Frame], item: int, value: int, *, incoming: bool) -> float:
    frame = frames.get(item)
    return 0.0 if frame is None else frame.port_x(value, incoming=incoming)


def _item_sizes(
    items: Items,
    is_input: npt.NDArray[np.bool_],
    frames: dict[int, Frame],
    *,
    across: bool,
) -> tuple[F64, F64]:
    width, height = node_sizes(is_input, across=across)
    size = LAYER_SIZE[::-1] if across else LAYER_SIZE
    width[items.layer >= 0], height[items.layer >= 0] = size
    for item, frame in frames.items():
        width[item], height[item] = frame.width, frame.height
    return width, height


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
    feeds : bool[s], lines of weights and other inputs, which no op computes.
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
    feeds: Flags

    def __len__(self) -> int:
        return len(self.kind)

    def box_of_layer(self, layer: int) -> int:
        """Return the box or frame of a layer; -1 where it is not shown."""
        boxes = np.flatnonzero((self.layer == layer) & (self.kind != BoxKind.NODE))
        return int(boxes[0]) if len(boxes) else -1

    def lines_of(self, edges: Flags) -> I64:
        """Return the rows of `segments` that the marked edges (bool[m]) consist of."""
        parts = np.unique(self.hops[edges[self.edge]])
        parts = parts[parts >= 0]
        first = self.hop_first[parts]
        n = self.hop_first[parts + 1] - first
        return np.unique(self.hop_rows[ranges(first, n)])


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
    opening = opening_choice(graph) if choice is None else choice
    known = graph_layers(graph) if layers is None else layers
    cached: Cache = {} if cache is None else cache
    if len(cached) > MAX_CACHED:
        cached.clear()
    drawn = drawn_part(graph, known, opening)
    items = items_of(drawn, opening)
    frames = {
        item: frame_of(drawn, items, item, cached, watcher, across=opening.across)
        for item in np.flatnonzero(items.is_open).tolist()
    }
    level, edge, hop = outer_level(drawn, items, frames, across=opening.across)
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
    boxes = _boxes(drawn, items, frames, outer, sizes)
    made = _assembled(graph, known, opening, drawn, parts, outer, boxes)
    return _turned(made) if opening.across else made


def _turned(layout: GraphLayout) -> GraphLayout:
    """Return a layout from left to right, of one from top to bottom."""
    order = np.argsort(layout.x0, kind="stable")
    place = np.append(np.empty(len(order), np.int64), -1)
    place[order] = np.arange(len(order))
    lines = layout.segments[:, [1, 0, 3, 2]]
    up = lines[:, 1] > lines[:, 3]
    lines[up] = lines[up][:, [2, 3, 0, 1]]
    return replace(
        layout,
        kind=layout.kind[order],
        node=layout.node[order],
        layer=layout.layer[order],
        x0=layout.y0[order],
        y0=layout.x0[order],
        x1=layout.y1[order],
        y1=layout.x1[order],
        width=layout.height,
        height=layout.width,
        segments=lines,
        tips=layout.tips[:, ::-1],
        stubs=layout.stubs[:, [1, 0, 3, 2]],
        box_of=place[layout.box_of],
    )


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
        """Add the lines of a level at (x, y); `arrives`: those that end at a box."""
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
    drawn: ShownGraph, items: Items, frames: dict[int, Frame], outer: Placed, sizes: F64
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
        across = frame.across
        width, height = node_sizes(drawn.is_input[frame.members], across=across)
        where.append(np.stack([x, y, x + width, y + height], 1))
    boxes, places = np.concatenate(what), np.concatenate(where)
    order = np.argsort(places[:, 1], kind="stable")
    return boxes[order], places[order]


def _box_of(layers: GraphLayers, boxes: I64, root: I64) -> I64:
    """Return the box that shows each node, or what it is a view of; -1 = none does."""
    of_layer = np.full(int(layers.layer.max(initial=-1)) + 2, -1, np.int64)
    closed = np.flatnonzero(boxes[:, 0] == BoxKind.LAYER)
    of_layer[boxes[closed, 2]] = closed
    box_of: I64 = of_layer[layers.layer]  # -1 takes the last, which is no layer
    single = np.flatnonzero(boxes[:, 0] == BoxKind.NODE)[::-1]
    box_of[boxes[single, 1]] = single  # the uppermost of repeated ones
    return np.where(box_of < 0, box_of[root], box_of)


def _assembled(
    graph: Graph,
    layers: GraphLayers,
    choice: GraphChoice,
    drawn: ShownGraph,
    parts: _Parts,
    outer: Placed,
    placed: _Boxes,
) -> GraphLayout:
    boxes, places = placed
    is_stub = np.concatenate(parts.is_stub)
    ends = np.concatenate(parts.ends)
    tips = ends[np.concatenate(parts.arrives) & ~is_stub, 2:]
    # Some edge that each part belongs to; the first one of several.
    owner = np.full(parts.n_hops + 1, -1, np.int64)
    at = np.repeat(np.arange(len(drawn.edge)), 3)[::-1]
    owner[parts.hops.reshape(-1)[::-1]] = at
    owner = owner[:-1]
    stub_edge = drawn.edge[owner[is_stub]]
    segments = np.concatenate(parts.segments)
    made = GraphLayout(
        boxes[:, 0].astype(np.uint8),
        boxes[:, 1],
        boxes[:, 2],
        places[:, 0],
        places[:, 1],
        places[:, 2],
        places[:, 3],
        outer.width,
        outer.height,
        segments,
        np.unique(tips, axis=0),
        ends[is_stub],
        graph.source[stub_edge].astype(np.int64),
        graph.target[stub_edge].astype(np.int64),
        _box_of(layers, boxes, drawn.root),
        layers,
        choice,
        drawn.edge,
        parts.hops,
        np.concatenate([*parts.first, [parts.n_rows]]).astype(np.int64),
        np.concatenate(parts.rows),
        np.zeros(len(segments), np.bool_),
    )
    feeds = made.feeds.copy()
    feeds[made.lines_of(layers.is_input[graph.source])] = True
    return replace(made, feeds=feeds)
