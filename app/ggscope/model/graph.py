"""Computation graphs."""

from dataclasses import dataclass

from ggscope.model.tables import Array


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes and edges of one graph; node columns n rows, edge columns m rows.

    Attributes
    ----------
    name, op : string id and op number of each node.
    tensor : row of ``Trace.tensors``; -1 unknown.
    layer : -1 none.
    source, target : node rows of each edge.
    slot : which source of the target the edge is.
    """

    name: Array
    op: Array
    tensor: Array
    layer: Array
    source: Array
    target: Array
    slot: Array
