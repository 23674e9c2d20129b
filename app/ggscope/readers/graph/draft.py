"""A graph while it is read: nodes and edges as the file names them.

ggml prints an op as a symbol (``X*Y``), not a number. Its DOT records are labelled
``NAME (TYPE)|I [a, b] | <x>SYMBOL`` by ``ggml_graph_dump_dot``. Leaves are
``<x>NAME (TYPE)|CONST I [a, b]``, with their values behind another bar where they are
few; nodes with a gradient end in ``| <g>SYMBOL``; tensors without a name begin with
the type. Early graph JSON files hold such a record where a name belongs.
"""

import json
import re
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from ggscope import assets
from ggscope.model.ggml import ops as ggml
from ggscope.model.graph import NodeFlag
from ggscope.model.tables import I64, Bools
from ggscope.model.trace import OpTable
from ggscope.readers.memory import Allowance

UNKNOWN_SLOT = -1
MAX_SLOT = 255
_ELEMENT_BYTES = 800
"""What a node takes at the worst moment; an edge takes a quarter, measured."""
LEAF_OPERATION = "CONST"
"""What the record of a leaf says where other nodes have their symbol."""

_BAR = re.compile(r"(?<!\\)\|")
_PORT = re.compile(r"^\s*<(\w*)>")
_SHAPE = re.compile(r"^\s*+(CONST\b)?\s*+(?:\d++)?\s*+\[([\d,\s]*+)\]\s*+$")
_TYPE = re.compile(r"^(.*?) ?\(([^()]*)\)\s*$", re.DOTALL)
_MAX_DIMENSION = 1 << 62


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
class GraphDraft:
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


def resolve(draft: GraphDraft) -> Links:
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
    """Return the address of a ``%p`` text; 0 where it is none.

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


def is_acyclic(n: int, links: Links) -> Bools:
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


def _peeled_slow(n: int, source: I64, target: I64, waits: I64) -> Bools:
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


@cache
def op_table() -> OpTable:
    """Return the newest table of the main lines, which numbers the ops of graphs.

    Graphs spell ops; the numbers are of this program alone.
    """
    return replace(ggml.tables()[0], source="spelled")


def op_number(operation: str) -> int:
    r"""Return the number under `op_table` of a symbol or an op's name; -1 unknown.

    Parameters
    ----------
    operation : as the file prints it, with the backslashes of DOT records
        (``x-\>y``) or without them.
    """
    text = operation.strip()
    numbers = _numbers()
    number = numbers.get(_symbols().get(_unescaped(text), ""), -1)
    return number if number >= 0 else numbers.get(text.removeprefix("GGML_OP_"), -1)


def op_name(operation: str) -> str:
    """Return the name of the op behind a symbol; "" unknown."""
    number = op_number(operation)
    return op_table().names[number] if number >= 0 else ""


@cache
def _symbols() -> dict[str, str]:
    """Return op names by symbol, without the backslashes."""
    stored = json.loads(assets.path("ggml/op_symbols.json").read_text("utf-8"))
    return {_unescaped(symbol): name for symbol, name in stored.items()}


@cache
def _numbers() -> dict[str, int]:
    # NONE is the op of leaves: no op at all.
    return {n: i for i, n in enumerate(op_table().names) if n and n != "NONE"}


def _unescaped(symbol: str) -> str:
    return symbol.replace("\\", "")


@dataclass(frozen=True, slots=True)
class RecordLabel:
    """What the label of a node's record says.

    Attributes
    ----------
    name : tensor name with its suffixes; may be "".
    dtype : name of the ggml type; "" where the label has none.
    operation : the symbol as printed, ``CONST`` for leaves, "" where there is none.
    shape : as many dimensions as are printed.
    """

    name: str
    dtype: str
    operation: str
    shape: tuple[int, ...]
    is_leaf: bool
    has_gradient: bool = False


def parse_record(text: str) -> RecordLabel | None:
    """Return what a record's label says; None where it is no such label."""
    fields = _BAR.split(text)
    for k, part in enumerate(fields):
        match = _SHAPE.match(_without_port(part))
        if match is None:
            continue
        name, dtype = _name_and_type("|".join(fields[:k]))
        shape = dimensions(match[2].replace(",", " ").split())
        if match[1]:
            return RecordLabel(name, dtype, LEAF_OPERATION, shape, True)
        operation, has_gradient = _symbols_labels(fields[k + 1 :])
        return RecordLabel(name, dtype, operation, shape, False, has_gradient)
    return None


def dimensions(values: list[str]) -> tuple[int, ...]:
    """Return up to four dimensions; those that no tensor has become 0 (unknown)."""
    sizes = (int(v) if len(v) < 20 and v.isdigit() else 0 for v in values[:4])
    return tuple(n if n < _MAX_DIMENSION else 0 for n in sizes)


def _name_and_type(field: str) -> tuple[str, str]:
    # The type stands in the last parenthesis: suffixes of the name come before it.
    text = _without_port(field)
    match = _TYPE.match(text)
    return (match[1], match[2].strip()) if match else (text.rstrip(), "")


def _symbols_labels(fields: list[str]) -> tuple[str, bool]:
    """Return the op's symbol, and whether a gradient's symbol stands beside it."""
    operation, has_gradient = "", False
    for one in fields:
        port = _PORT.match(one)
        if port and port[1] == "g":
            has_gradient = True
        elif not operation:
            operation = _without_port(one).strip()
    return operation, has_gradient


def _without_port(field: str) -> str:
    return _PORT.sub("", field, count=1)
