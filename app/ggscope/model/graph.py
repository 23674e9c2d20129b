"""Computation graphs."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Annotated

import numpy as np

from ggscope.model.tables import I64, Array, Column


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
    token : which token (or graph) the file says it is; -1 none.
    title : what people read: file name or "token 3".
    """

    name: Annotated[
        Array, Column("int32", "tensor's name with its suffixes", -1, of="strings")
    ]
    op: Annotated[
        Array, Column("int16", "none for leaves and unknown operations", -1, of="ops")
    ]
    tensor: Annotated[Array, Column("int32", "which tensor it is", -1, of="tensors")]
    layer: Annotated[Array, Column("int16", "transformer layer", -1)]
    source: Annotated[
        Array, Column("int32", "node that it leaves", of="nodes", per="edges")
    ]
    target: Annotated[
        Array, Column("int32", "node that it enters", of="nodes", per="edges")
    ]
    slot: Annotated[
        Array, Column("uint8", "which source of the target it is", per="edges")
    ]
    operation: Annotated[
        Array,
        Column("int32", "operation as the file prints it (`X*Y`)", -1, of="strings"),
    ]
    dtype: Annotated[
        Array, Column("int32", "the type's name (`q4_K`)", -1, of="strings")
    ]
    shape: Annotated[I64, Column("int64", "ne0 to ne3; 0 is unknown", 0, width=4)]
    category: Annotated[
        Array,
        Column("uint8", "what it belongs to", NodeCategory.OTHER, code=NodeCategory),
    ]
    flags: Annotated[Array, Column("uint8", "what else there is", 0, code=NodeFlag)]
    address: Annotated[
        Array,
        Column("uint64", "the `ggml_tensor*`; never equal to a data pointer", 0),
    ]
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


def count_text(graph: Graph) -> str:
    """Return "940 nodes (251 leaves), 3 dangling ends, 1,157 edges"."""
    text = f"{graph.n_declared:,} nodes ({graph.n_leaves:,} leaves)"
    if n := graph.n_dangling:
        text += f", {n:,} dangling end" + ("" if n == 1 else "s")
    return f"{text}, {graph.n_edges:,} edges"


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
