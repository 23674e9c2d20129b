"""What of a graph is drawn: nodes with their copies, and the boxes they are in."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph_layers import GraphLayers, graph_layers
from ggscope.model.graph import Graph
from ggscope.model.tables import I64

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GraphChoice:
    """What of a graph to show, and how.

    Attributes
    ----------
    opened : layers that are open; None = all of them.
    layer : only this layer with the inputs that it shares with others; None = all.
    repeats_inputs : draw shared inputs beside each of their users.
    """

    opened: frozenset[int] | None = frozenset()
    layer: int | None = None
    repeats_inputs: bool = False


def opening_choice(graph: Graph) -> GraphChoice:
    """Return how a graph is shown first: by layers where it has several."""
    several = len(graph_layers(graph).numbers) > 1
    return GraphChoice(frozenset() if several else None)


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The nodes and edges that a choice shows.

    Attributes
    ----------
    row : int64[d], row in the graph of each drawn node.
    layer : int64[d], the layer that it is drawn in, -1 = none.
    is_input : bool[d].
    source, target : int64[e], drawn nodes; no self loops.
    edge : int64[e], row in the graph of each drawn edge.
    """

    row: I64
    layer: I64
    is_input: Flags
    source: I64
    target: I64
    edge: I64


def drawn_part(graph: Graph, layers: GraphLayers, choice: GraphChoice) -> Drawn:
    """Return the nodes and edges that `choice` shows, in the order of the program."""
    edge = np.flatnonzero(graph.source != graph.target)
    source = graph.source[edge].astype(np.int64)
    target = graph.target[edge].astype(np.int64)
    row, layer = np.arange(len(graph)), layers.layer
    kept = np.ones(len(graph), np.bool_)
    if choice.repeats_inputs:
        copied = layers.is_shared[source]
        first = len(row)
        kept[source[copied]] = False
        row = np.concatenate([row, source[copied]])
        layer = np.concatenate([layer, layer[target[copied]]])
        source = source.copy()
        source[copied] = first + np.arange(int(copied.sum()))
        kept = np.concatenate([kept, np.ones(len(row) - first, np.bool_)])
    if choice.layer is not None:
        inside = layer == choice.layer
        used = np.zeros(len(row), np.bool_)
        used[source[inside[target]]] = True
        kept &= inside | (used & layers.is_shared[row])
    number = np.cumsum(kept) - 1
    both = kept[source] & kept[target]
    return Drawn(
        row[kept],
        layer[kept],
        layers.is_input[row[kept]],
        number[source[both]],
        number[target[both]],
        edge[both],
    )


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


def items_of(drawn: Drawn, choice: GraphChoice) -> Items:
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


__all__ = ["Drawn", "GraphChoice", "Items", "drawn_part", "items_of",
           "opening_choice"]  # fmt: skip
