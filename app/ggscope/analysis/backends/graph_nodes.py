"""Which node of a graph each listed op is: by name, op, order and shape."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.model.backend_ops import BackendOps
from ggscope.model.graph import Graph, NodeFlag, first_node
from ggscope.model.tables import I64
from ggscope.model.trace import Trace


class Rule(IntEnum):
    """How an op of a listing and a node of a graph were found to be the same."""

    NONE = 0
    NAME = 1
    """Name, op and order agree."""
    RENAMED = 2
    """Name and order agree; the file calls the op otherwise, or cuts its name."""
    SHAPE = 3
    """Op, shapes of its sources and order agree: the file has no names."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeJoin:
    """Nodes of listed ops.

    Attributes
    ----------
    node : int64[n], id over all graphs of the trace (`model.graph.first_node`), -1.
    rule : uint8[n], `Rule`.
    """

    node: I64
    rule: npt.NDArray[np.uint8]

    @property
    def n_found(self) -> int:
        """How many ops were found."""
        return int(np.count_nonzero(self.node >= 0))


def joined_nodes(trace: Trace, listing: BackendOps) -> NodeJoin:
    """Return the node of each op of a listing that stands for one op.

    Ops and nodes that share a key are counted off in order, and again from the first
    where there is a multiple of them. Of several graphs the one with the most counts.
    """
    ops = listing.ops
    join = NodeJoin(np.full(len(ops), -1, np.int64), np.zeros(len(ops), np.uint8))
    if not trace.graphs or not len(ops):
        return join
    keys = [_GraphKeys(trace, graph, listing.cut_names) for graph in trace.graphs]
    order = np.argsort(ops.graph, kind="stable")
    starts = np.searchsorted(ops.graph[order], np.arange(listing.n_graphs + 1))
    known: dict[bytes, tuple[I64, npt.NDArray[np.uint8]]] = {}
    for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        rows = order[a:b]
        rows = rows[ops.count[rows] == 1]
        parts = [ops.op[rows], ops.name[rows], ops.shape[rows]]
        signature = b"".join(part.astype(np.int32).tobytes() for part in parts)
        if signature not in known:
            known[signature] = _best(trace, listing, rows, keys)
        join.node[rows], join.rule[rows] = known[signature]
    return join


def _best(
    trace: Trace, listing: BackendOps, rows: I64, keys: "list[_GraphKeys]"
) -> tuple[I64, npt.NDArray[np.uint8]]:
    """Return nodes and rules of the ops of one listed graph."""
    best = (np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.uint8))
    for number, of_graph in enumerate(keys):
        node, rule = of_graph.match(listing, rows)
        if np.count_nonzero(node >= 0) > np.count_nonzero(best[0] >= 0):
            first = first_node(trace.graphs, number)
            best = (np.where(node >= 0, node + first, -1), rule)
    return best


class _GraphKeys:
    """The nodes of a graph by what a listing may call them."""

    def __init__(self, trace: Trace, graph: Graph, cut: int) -> None:
        computed = np.flatnonzero((graph.flags & NodeFlag.LEAF) == 0).tolist()
        self._by_op_name: defaultdict[object, list[int]] = defaultdict(list)
        self._by_name: defaultdict[object, list[int]] = defaultdict(list)
        self._by_shape: defaultdict[object, list[int]] = defaultdict(list)
        shapes = _source_shapes(graph)
        for row in computed:
            op = trace.op_name(int(graph.op[row]))
            name = trace.strings[int(graph.name[row])]
            name = name[:cut] if cut else name
            self._by_op_name[op, name].append(row)
            self._by_name[name].append(row)
            self._by_shape[op, shapes[row]].append(row)

    def match(
        self, listing: BackendOps, rows: I64
    ) -> tuple[I64, npt.NDArray[np.uint8]]:
        """Return the node of each op, -1 none, and how it was found."""
        node = np.full(len(rows), -1, np.int64)
        rule = np.zeros(len(rows), np.uint8)
        ops = listing.ops.take(rows)
        texts = [
            (listing.text(op), listing.text(name), listing.text(shape))
            for op, name, shape in zip(
                ops.op.tolist(), ops.name.tolist(), ops.shape.tolist(), strict=True
            )
        ]
        steps: tuple[
            tuple[Rule, dict[object, list[int]], Callable[[str, str, str], object]], ...
        ] = (
            (Rule.NAME, self._by_op_name, lambda o, n, _: (o, n) if n else None),
            (Rule.RENAMED, self._by_name, lambda _, n, __: n or None),
            (Rule.SHAPE, self._by_shape, _op_and_sources),
        )
        for step, nodes, key_of in steps:
            left = np.flatnonzero(node < 0).tolist()
            groups: defaultdict[object, list[int]] = defaultdict(list)
            for i in left:
                if (key := key_of(*texts[i])) is not None and key in nodes:
                    groups[key].append(i)
            taken = set(node[node >= 0].tolist())
            for key, mine in groups.items():
                free = [row for row in nodes[key] if row not in taken]
                if free and len(mine) % len(free) == 0:
                    for nth, i in enumerate(mine):
                        node[i], rule[i] = free[nth % len(free)], step
        return node, rule


def _op_and_sources(op: str, name: str, shape: str) -> object:
    """Return what is known of an op without a name; None where it has one."""
    return None if name else (op, shape.partition(" → ")[0])


def _source_shapes(graph: Graph) -> list[str]:
    """Return the shapes of the sources of each node, ``4096×32 · 4096``."""
    sources: list[list[str]] = [[] for _ in range(len(graph))]
    order = np.lexsort((graph.slot, graph.target))
    shapes = graph.shape.tolist()
    edges = zip(graph.source[order].tolist(), graph.target[order].tolist(), strict=True)
    for source, target in edges:
        sources[target].append(shape_text(shapes[source]))
    return [" · ".join(filter(None, texts)) for texts in sources]


def shape_text(sizes: list[int]) -> str:
    """Return ``4096×32``; "" where a size is not known."""
    known = list(sizes)
    if not known or min(known) <= 0:
        return ""
    while len(known) > 1 and known[-1] == 1:
        known.pop()
    return "×".join(map(str, known))
