"""Which transformer layer each node of a graph belongs to, and what layers share."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.graph import Graph, NodeFlag
from ggscope.model.tables import I64

Flags = npt.NDArray[np.bool_]


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
    is_shared |= is_input & (stated < 0) & (
        (graph.flags & int(NodeFlag.SHARED)) != 0
    )  # fmt: skip
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


__all__ = ["GraphLayers", "graph_layers"]
