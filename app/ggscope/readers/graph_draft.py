"""A graph while it is read: nodes and edges as the file names them."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ggscope.model.graph import NodeFlag
from ggscope.model.tables import I64
from ggscope.readers.room import Allowance

UNKNOWN_SLOT = -1
MAX_SLOT = 255
_ELEMENT_BYTES = 800
"""What a node takes at the worst moment; an edge takes a quarter, measured."""


def allowance_of(size: int) -> Allowance:
    """Return the nodes and edges that a file of `size` bytes may describe."""
    return Allowance(size, _ELEMENT_BYTES, "nodes and edges")


@dataclass(slots=True)
class Node:
    """One node as the file describes it.

    Attributes
    ----------
    name : tensor name; "" none.
    operation : as printed; "" unknown.
    dtype : name of the type; "" unknown.
    shape : as many dimensions as the file gives.
    layer : what the file states; -1 nothing.
    category : `NodeCategory` that the file states; -1 none.
    flags : `NodeFlag`.
    address : ``ggml_tensor*``; 0 unknown.
    """

    name: str = ""
    operation: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    layer: int = -1
    category: int = -1
    flags: int = 0
    address: int = 0


@dataclass(slots=True)
class Draft:
    """Nodes by id, and edges between ids.

    Attributes
    ----------
    nodes : in the order of the file.
    rows : row of each id.
    allowance : what of them the file may hold; shared by the graphs of one file.
    """

    allowance: Allowance = field(default_factory=lambda: allowance_of(0))
    nodes: list[Node] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)

    def add_node(self, node_id: str, node: Node) -> bool:
        """Add a node; False where its id is taken, so that no edge can mean it."""
        self.allowance.take()
        is_new = node_id not in self.rows
        if is_new:
            self.rows[node_id] = len(self.nodes)
        self.nodes.append(node)
        return is_new

    def add_edge(self, source: str, target: str, slot: int = UNKNOWN_SLOT) -> None:
        """Add an edge between two ids, declared or not."""
        self.allowance.take()
        self.sources.append(source)
        self.targets.append(target)
        self.slots.append(slot if slot <= MAX_SLOT else UNKNOWN_SLOT)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.sources)


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Edges between rows.

    Attributes
    ----------
    source, target : int64[m], rows of nodes.
    slot : int64[m], 0..255, which source of the target an edge is.
    n_undeclared : nodes that were added because only edges name them.
    first_undeclared : number of the first edge that names one; -1 none.
    """

    source: I64
    target: I64
    slot: I64
    n_undeclared: int = 0
    first_undeclared: int = -1


def resolve(draft: Draft) -> Links:
    """Return the edges between rows, adding the nodes that only edges name."""
    n_declared, first = len(draft.nodes), -1
    rows: list[int] = []
    for i, pair in enumerate(zip(draft.sources, draft.targets, strict=True)):
        for node_id in pair:
            row = draft.rows.get(node_id)
            if row is None:
                draft.allowance.take()
                first = i if first < 0 else first
                row = draft.rows[node_id] = len(draft.nodes)
                draft.nodes.append(
                    Node(
                        name=node_id,
                        flags=int(NodeFlag.UNDECLARED),
                        address=address_of(node_id),
                    )
                )
            rows.append(row)
    ends = np.array(rows, np.int64).reshape(-1, 2)
    target = ends[:, 1].copy()
    slot = np.array(draft.slots, np.int64)
    slot = np.where(slot == UNKNOWN_SLOT, _order_at(target), slot)
    return Links(ends[:, 0].copy(), target, slot, len(draft.nodes) - n_declared, first)


def address_of(text: object) -> int:
    """Return the address that a ``%p`` text tells; 0 where it is none.

    Windows prints sixteen digits without ``0x``.
    """
    if not isinstance(text, str):
        return 0
    try:
        value = int(text, 16)
    except ValueError:
        return 0
    is_address = text.lower().startswith("0x") or len(text) == 16
    return value if is_address and 0 <= value < 1 << 64 else 0


def _order_at(target: I64) -> I64:
    """Return how many edges to the same node come before each edge, at most 255."""
    order = np.argsort(target, kind="stable")
    sorted_target = target[order]
    starts = np.searchsorted(sorted_target, sorted_target)
    result = np.empty(len(target), np.int64)
    result[order] = np.minimum(np.arange(len(target)) - starts, MAX_SLOT)
    return result


def is_acyclic(n: int, links: Links) -> npt.NDArray[np.bool_]:
    """Return which nodes lie on no cycle and behind none, bool[n].

    Edges from a node to itself are no cycles: ggml's cast has one.
    """
    keep = links.source != links.target
    source, target = links.source[keep], links.target[keep]
    waits = np.bincount(target, minlength=n)
    # Leaves stand behind the nodes that use them; else edges lead forward in every
    # file that a program wrote, which settles it at once.
    if ((source < target) | (waits[source] == 0)).all():
        return np.ones(n, np.bool_)
    return _peeled_slow(n, source, target, waits)


def _peeled_slow(n: int, source: I64, target: I64, waits: I64) -> npt.NDArray[np.bool_]:
    """Return which nodes can be reached in order; slow, as each waits for others."""
    order = np.argsort(source, kind="stable")
    followers = target[order].tolist()
    first = np.searchsorted(source[order], np.arange(n + 1)).tolist()
    left = waits.tolist()
    ready = np.flatnonzero(waits == 0).tolist()
    done = np.zeros(n, np.bool_)
    while ready:
        node = ready.pop()
        done[node] = True
        for follower in followers[first[node] : first[node + 1]]:
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    return done
