"""Computation graphs."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag

import numpy as np

from ggscope.model.tables import I64, Array


class NodeCategory(IntEnum):
    """What a node belongs to."""

    INPUT = 0
    ATTENTION = 1
    FFN = 2
    NORM = 3
    OUTPUT = 4
    OTHER = 5


class NodeFlag(IntFlag):
    """What else there is to say of a node."""

    LEAF = 1
    """A constant or an input: nothing in the graph computes it."""
    GRADIENT = 2
    UNDECLARED = 4
    """Only edges name it; the file declares no such node."""
    SHARED = 8
    """An input that several layers use (positions, masks, RoPE factors)."""


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes and edges of one graph; node columns n rows, edge columns m rows.

    Nodes are in the order of the program, as the file lists them. The *id* of a
    node counts over all graphs of a trace, see `first_node`.

    Attributes
    ----------
    name : string id of each node's tensor name, with its suffixes.
    op : op number under ``Trace.ops``; -1 for leaves and unknown operations.
    tensor : row of ``Trace.tensors``; -1 unknown.
    layer : int16, -1 none.
    source, target : node rows of each edge.
    slot : uint8, which source of the target the edge is.
    operation : string id of the operation as the file prints it (``X*Y``), -1 none.
    dtype : string id of the type's name (``q4_K``), -1 unknown.
    shape : int64[n, 4], 0 = unknown.
    category : uint8, `NodeCategory`.
    flags : uint8, `NodeFlag`.
    address : uint64, the ``ggml_tensor*``; never equal to a data pointer.
    token : which token (or graph) the file says it is; -1 none.
    title : what people read: file name or "token 3".
    """

    name: Array
    op: Array
    tensor: Array
    layer: Array
    source: Array
    target: Array
    slot: Array
    operation: Array
    dtype: Array
    shape: I64
    category: Array
    flags: Array
    address: Array
    token: int = -1
    title: str = ""

    def __len__(self) -> int:
        return len(self.name)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.source)

    @property
    def n_dangling(self) -> int:
        """Rows that stand for what only edges name: places, not nodes of the file."""
        return self._count(NodeFlag.UNDECLARED)

    @property
    def n_declared(self) -> int:
        """Nodes that the file declares, leaves among them."""
        return len(self) - self.n_dangling

    @property
    def n_leaves(self) -> int:
        """Declared nodes that nothing computes."""
        return self._count(NodeFlag.LEAF)

    def _count(self, flag: NodeFlag) -> int:
        return int(np.count_nonzero(self.flags & np.uint8(flag)))


def count_words(graph: Graph) -> str:
    """Return "940 nodes (251 leaves), 3 dangling ends, 1,157 edges"."""
    words = f"{graph.n_declared:,} nodes ({graph.n_leaves:,} leaves)"
    if n := graph.n_dangling:
        words += f", {n:,} dangling end" + ("" if n == 1 else "s")
    return f"{words}, {graph.n_edges:,} edges"


def first_node(graphs: Sequence[Graph], graph: int) -> int:
    """Return the id of the first node of ``graphs[graph]``."""
    return sum(len(g) for g in graphs[:graph])


def locate_node(graphs: Sequence[Graph], node_id: int) -> tuple[int, int]:
    """Return (graph, row in it) of a node id. Raises IndexError for no such node."""
    rest = node_id
    for i, graph in enumerate(graphs):
        if 0 <= rest < len(graph):
            return i, rest
        rest -= len(graph)
    raise IndexError(node_id)


def check_graph(graph: Graph, n_strings: int, n_tensors: int) -> list[str]:
    """Return every broken invariant as a sentence; empty if all hold."""
    n, m, broken = len(graph), graph.n_edges, []
    for f in fields(Graph):
        value = getattr(graph, f.name)
        if not isinstance(value, np.ndarray):
            continue
        rows = m if f.name in ("source", "target", "slot") else n
        if len(value) != rows:
            broken.append(f"graph.{f.name} has {len(value)} rows, expected {rows}")
    limits = (
        ("name", -1, n_strings),
        ("operation", -1, n_strings),
        ("dtype", -1, n_strings),
        ("tensor", -1, n_tensors),
        ("source", 0, n),
        ("target", 0, n),
    )
    for name, low, high in limits:
        value = getattr(graph, name)
        if len(value) and not low <= int(value.min()) <= int(value.max()) < high:
            broken.append(f"graph.{name} has values outside [{low}, {high})")
    return broken
