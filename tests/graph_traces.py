"""Graphs for tests: any nodes and edges, and a small network with spans."""

from collections.abc import Sequence

import numpy as np

from builders import OPS, finished, op_number
from ggscope.model.builder import TraceBuilder
from ggscope.model.graph import Graph, NodeCategory, NodeFlag
from ggscope.model.tables import AccessColumns, Accesses, FlatAccesses, Space
from ggscope.model.tensors import Tensors
from ggscope.model.trace import LaneKind, Trace

Edges = Sequence[tuple[int, int]]


def add_graph(
    builder: TraceBuilder,
    names: Sequence[str],
    edges: Edges,
    *,
    ops: Sequence[int] | None = None,
    layers: Sequence[int] | None = None,
    categories: Sequence[int] | None = None,
    leaves: Sequence[int] = (),
    tensors: Sequence[int] | None = None,
    token: int = -1,
    title: str = "",
) -> None:
    """Add a graph; op 1 (ADD) and no layer where nothing else is said."""
    n, ends = len(names), np.array(edges, np.int32).reshape(-1, 2)
    flags = np.zeros(n, np.uint8)
    flags[list(leaves)] = NodeFlag.LEAF
    op = np.full(n, 1, np.int16) if ops is None else np.array(ops, np.int16)
    op[list(leaves)] = -1
    shape = np.ones((n, 4), np.int64)
    shape[:, 0] = 64
    shape[:, 1] = np.arange(n) + 1
    minus = np.full(n, -1)
    slot = np.zeros(len(ends), np.uint8)
    for k, (_, target) in enumerate(ends):
        slot[k] = int((ends[:k, 1] == target).sum())
    builder.add_graph(
        Graph(
            name=builder.strings.intern_many(names),
            op=op,
            tensor=np.array(minus if tensors is None else tensors, np.int32),
            layer=np.array(minus if layers is None else layers, np.int16),
            source=ends[:, 0].copy(),
            target=ends[:, 1].copy(),
            slot=slot,
            operation=minus.astype(np.int32),
            dtype=np.full(n, builder.strings.intern("f32"), np.int32),
            shape=shape,
            category=np.array(
                [NodeCategory.OTHER] * n if categories is None else categories,
                np.uint8,
            ),
            flags=flags,
            address=(0x1000 + 16 * np.arange(n)).astype(np.uint64),
            token=token,
            title=title or f"graph {token}",
        )
    )


def graph_trace(n: int, edges: Edges, **columns: object) -> Trace:
    """Return a trace of one graph of `n` nodes called ``node_0``, …."""
    builder = TraceBuilder()
    builder.ops = OPS
    names = [f"node_{i}" for i in range(n)]
    add_graph(builder, names, edges, **columns)  # type: ignore[arg-type]
    return finished(builder)


def random_graph(seed: int, n: int, m: int, *, acyclic: bool = True) -> Trace:
    """Return a graph with `m` random edges, self loops and cycles where allowed."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n, (m, 2)) if n else np.zeros((0, 2), np.int64)
    if acyclic:
        ends = np.sort(ends, 1)
        ends = ends[ends[:, 0] < ends[:, 1]]
    return graph_trace(n, [(int(a), int(b)) for a, b in ends])


_LAYER = (
    ("norm-{}", "RMS_NORM", NodeCategory.NORM, ("in",)),
    ("attn_norm-{}", "MUL", NodeCategory.NORM, (0, "attn_norm.weight")),
    ("Qcur-{}", "MUL_MAT", NodeCategory.ATTENTION, (1, "attn_q.weight")),
    ("Qcur-{}", "ROPE", NodeCategory.ATTENTION, (2, "positions")),
    ("Kcur-{}", "MUL_MAT", NodeCategory.ATTENTION, (1, "attn_k.weight")),
    ("Kcur-{}", "ROPE", NodeCategory.ATTENTION, (4, "positions")),
    ("kqv-{}", "FLASH_ATTN_EXT", NodeCategory.ATTENTION, (3, 5, "mask")),
    ("node_{}x", "MUL_MAT", NodeCategory.OTHER, (6, "attn_output.weight")),
    ("ffn_inp-{}", "ADD", NodeCategory.FFN, (7, "in")),
    ("ffn_up-{}", "MUL_MAT", NodeCategory.FFN, (8, "ffn_up.weight")),
    ("ffn_act-{}", "GLU", NodeCategory.FFN, (9,)),
    ("ffn_down-{}", "MUL_MAT", NodeCategory.FFN, (10, "ffn_down.weight")),
    ("l_out-{}", "ADD", NodeCategory.OTHER, (11, 8)),
)
"""(name, op, category, sources): numbers are nodes of the layer, "in" is what comes in,
other words are leaves: shared ones, or weights of the layer."""
_SHARED = ("positions", "mask")
N_LAYER_NODES, N_LAYER_INPUTS = len(_LAYER), 6


def network(
    layers: int,
) -> tuple[list[str], Edges, list[int], list[int], list[int], list[int]]:
    """Return names, edges, ops, layers, categories and leaves of a network."""
    names, ops, numbers, kinds = ["inp_embd"], [op_number("GET_ROWS")], [-1], [0]
    edges: list[tuple[int | str, int]] = [("token_embd.weight", 0)]
    carried = 0
    for layer in range(layers):
        first = len(names)
        for k, (name, op, kind, sources) in enumerate(_LAYER):
            names.append(name.format(layer))
            ops.append(op_number(op))
            # The unnamed node has no layer of its own.
            numbers.append(-1 if name.startswith("node_") else layer)
            kinds.append(int(kind))
            for source in sources:
                if source == "in":
                    edges.append((carried, first + k))
                elif isinstance(source, int):
                    edges.append((first + source, first + k))
                elif source in _SHARED:
                    edges.append((source, first + k))
                else:
                    edges.append((f"blk.{layer}.{source}", first + k))
        carried = len(names) - 1
    names.append("result_output")
    ops.append(op_number("MUL_MAT"))
    numbers.append(-1)
    kinds.append(int(NodeCategory.OUTPUT))
    edges += [(carried, len(names) - 1), ("output.weight", len(names) - 1)]
    leaves = list(dict.fromkeys(s for s, _ in edges if isinstance(s, str)))
    n_ops = len(names)
    for leaf in leaves:
        numbers.append(int(leaf.split(".")[1]) if leaf.startswith("blk.") else -1)
        kinds.append(int(NodeCategory.OTHER))
    rows = {leaf: n_ops + k for k, leaf in enumerate(leaves)}
    ends = [(rows[s] if isinstance(s, str) else s, t) for s, t in edges]
    ops += [0] * len(leaves)
    return (
        [*names, *leaves], ends, ops, numbers, kinds,
        list(range(n_ops, n_ops + len(leaves))),
    )  # fmt: skip


def network_trace(layers: int = 4, tokens: int = 2, *, graphs: int = 1) -> Trace:
    """Return a run of the network: per token a span for each node in its order.

    Node k takes (k + 1) × 1,000 ticks; weights are accessed with 100 bytes each time;
    the spans of the last node (result_output) are missing.
    """
    names, edges, ops, numbers, kinds, leaves = network(layers)
    builder = TraceBuilder()
    builder.ops = OPS
    weights = [names[i] for i in leaves]
    row_of = {name: k for k, name in enumerate(weights)}
    n_weights = len(weights)
    builder.tensors = Tensors(
        name=builder.strings.intern_many(weights),
        offset=np.arange(n_weights, dtype=np.int64) * 1000,
        size=np.full(n_weights, 1000, np.int64),
        layer=np.array([numbers[i] for i in leaves], np.int16),
        expert=np.full(n_weights, -1, np.int16),
    )
    lane = builder.add_lane("thread 0", LaneKind.THREAD, ("Threads",))
    n_ops = len(names) - len(leaves)
    step = np.arange(n_ops - 1)
    took = (step + 1) * 1_000
    per_token = int(took.sum())
    end = np.concatenate([np.cumsum(took) + t * per_token for t in range(tokens)])
    builder.add_spans(
        start=end - np.tile(took, tokens),
        end=end,
        lane=lane,
        name=np.tile(builder.strings.intern_many(names)[: n_ops - 1], tokens),
        op=np.tile(np.array(ops[: n_ops - 1], np.int16), tokens),
        token=np.repeat(np.arange(tokens, dtype=np.int32), n_ops - 1),
        layer=np.tile(np.array(numbers[: n_ops - 1], np.int16), tokens),
    )
    sources = [[s for s, t in edges if t == i and s >= n_ops] for i in step.tolist()]
    columns = AccessColumns.blank(sum(map(len, sources)))
    columns.tensor[:] = [row_of[names[s]] for part in sources for s in part]
    columns.size[:] = 100
    columns.space[:] = Space.FILE
    builder.accesses = Accesses(
        np.tile(step.astype(np.int32), tokens),
        np.concatenate([[0], np.cumsum([len(part) for part in sources])]),
        columns,
        FlatAccesses.blank(),
    )
    for token in range(graphs):
        add_graph(
            builder, names, edges, ops=ops, layers=numbers, categories=kinds,
            leaves=leaves, token=token, title=f"token {token}",
            tensors=[row_of.get(name, -1) for name in names],
        )  # fmt: skip
    return finished(builder, name="network.bin")
