"""Purposes of nameless inputs of a graph, inferred from the ops that read them.

llama.cpp gives its inputs no names, so that traces show ``leaf_4``. The second source
of every ``ROPE`` holds the positions, and so on.
"""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.once import once
from ggscope.analysis.workers import chunks
from ggscope.model.graph import Graph
from ggscope.model.names import normalise, parse
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Trace

TOKENS = "token ids"
POSITIONS = "RoPE positions"
FACTORS = "RoPE frequency factors"
K_ROWS = "K cache rows"
V_ROWS = "V cache rows"
OUTPUTS = "output rows"
MASK = "attention mask"
_LEAF = "leaf_"
_COPIES = ("CPY", "CONT", "DUP", "CAST")
_READERS = ("GET_ROWS", "ROPE", "ROPE_BACK", "SET_ROWS", "FLASH_ATTN_EXT", "SOFT_MAX")
_MAX_READS = 100_000
"""Graphs with more readers of nameless inputs are not of llama.cpp."""


def input_title(trace: Trace, graph: Graph, node: int) -> str:
    """Return the name of an input, and its purpose where the name says nothing."""
    name = trace.strings[int(graph.name[node])]
    purpose = graph_input_purposes(trace, graph).get(node, "")
    return f"{name} · {purpose}" if purpose else name


@dataclass(frozen=True, slots=True)
class _Read:
    """One read of a tensor.

    Attributes
    ----------
    op, slot : the op that reads it, and as which source.
    first, result : names of the op's first source and of its result.
    """

    op: str
    slot: int
    first: str
    result: str


def input_purposes(trace: Trace) -> dict[int, str]:
    """Return the purpose of each nameless input, by row of ``Trace.tensors``.

    For display only, as "leaf_4 · RoPE positions (inferred)": inferred from the ops
    that read the input, in accesses and graphs. Inputs whose readers disagree or have
    no known purpose are left out.

    Notes
    -----
    Costs one pass over the pattern column; call it from a worker for long traces.
    """
    leaves = {
        row: text
        for row, i in enumerate(trace.tensors.name.tolist())
        if (text := trace.strings[i]).startswith(_LEAF)
    }
    if not leaves:
        return {}
    votes: dict[int, set[str]] = {}
    for row, read in _reads_of_patterns(trace, leaves):
        if row in leaves and (purpose := _purpose(read)):
            votes.setdefault(row, set()).add(purpose)
    row_of = {name: row for row, name in leaves.items()}
    for graph in trace.graphs:
        for leaf, purposes in _votes_in_graph(trace, graph).items():
            row = row_of.get(normalise(trace.strings[int(graph.name[leaf])]), -1)
            if row >= 0:
                votes.setdefault(row, set()).update(purposes)
    return _unanimous(votes)


def _unanimous(votes: dict[int, set[str]]) -> dict[int, str]:
    return {key: min(purposes) for key, purposes in votes.items() if len(purposes) == 1}


def _purpose(read: _Read) -> str:
    """Return what a source is for, by the op that reads it; "" = unknown."""
    match read.op, read.slot:
        case "GET_ROWS", 1:
            is_embedding = parse(read.first).component == "embedding"
            return TOKENS if is_embedding else OUTPUTS
        case (("ROPE" | "ROPE_BACK"), 1):
            return POSITIONS
        case (("ROPE" | "ROPE_BACK"), 2):
            return FACTORS
        case "SET_ROWS", 1:
            role = parse(read.result).role or parse(read.first).role
            return {"K": K_ROWS, "V": V_ROWS}.get(role, "")
        case ("FLASH_ATTN_EXT", 3) | ("SOFT_MAX", 1):
            return MASK
    return ""


def _reads_of_patterns(trace: Trace, leaves: dict[int, str]) -> list[tuple[int, _Read]]:
    """Return the reads of leaves in the accesses, one per pattern and source."""
    columns, first = trace.accesses.patterns, trace.accesses.first
    is_leaf = np.zeros(len(trace.tensors) + 1, np.bool_)
    is_leaf[list(leaves)] = True
    rows = np.flatnonzero(is_leaf[columns.tensor])
    pattern = np.searchsorted(first, rows, side="right") - 1
    op, span = _first_spans(trace, np.unique(pattern))
    masks = _has_copied_masks(trace)
    reads: list[tuple[int, _Read]] = []
    for row, p in zip(rows.tolist(), pattern.tolist(), strict=True):
        if p not in op:
            continue
        name, slot = trace.op_name(op[p]), row - int(first[p])
        tensor = int(columns.tensor[row])
        if name in _COPIES and slot == 0 and masks:
            reads.append((tensor, _Read("FLASH_ATTN_EXT", 3, "", "")))
            continue
        first_source = int(columns.tensor[int(first[p])])
        reads.append(
            (
                tensor,
                _Read(
                    name,
                    slot,
                    _tensor_name(trace, first_source),
                    trace.span_name(span[p]),
                ),
            )
        )
    return reads


def _first_spans(
    trace: Trace, patterns: Array
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the op, and one span, of each of `patterns` that an op uses."""
    column = trace.accesses.pattern
    n = len(trace.accesses.first) - 1
    is_requested = np.zeros(n + 1, np.bool_)
    is_requested[patterns] = True
    span_of: I64 = np.full(n, -1, np.int64)
    for rows in chunks(len(column)):
        new_rows = np.flatnonzero(
            is_requested[column[rows]] & (trace.spans.op[rows] >= 0)
        )
        new_rows = (
            new_rows[::-1] + rows.start
        )  # the first span of a pattern is written last
        new = new_rows[span_of[column[new_rows]] < 0]
        span_of[column[new]] = new
    known = [p for p in patterns.tolist() if span_of[p] >= 0]
    spans = {p: int(span_of[p]) for p in known}
    return {p: int(trace.spans.op[spans[p]]) for p in known}, spans


def _has_copied_masks(trace: Trace) -> bool:
    """Return whether attention reads its mask from a nameless copy.

    ``leaf_11`` is copied to 16 bits first: all that attention sees is `` (copy)``.
    """
    columns, first = trace.accesses.patterns, trace.accesses.first
    names = trace.strings
    copies = [
        row
        for row, i in enumerate(trace.tensors.name.tolist())
        if names[i].strip() in ("(copy)", "(cont)")
    ]
    rows = np.flatnonzero(np.isin(columns.tensor, copies))
    if not len(rows):
        return False
    pattern = np.searchsorted(first, rows, side="right") - 1
    op, _spans = _first_spans(trace, np.unique(pattern))
    attention = ("FLASH_ATTN_EXT", "SOFT_MAX")
    return any(
        trace.op_name(op[p]) in attention and row - int(first[p]) in (1, 3)
        for row, p in zip(rows.tolist(), pattern.tolist(), strict=True)
        if p in op
    )


def graph_input_purposes(trace: Trace, graph: Graph) -> dict[int, str]:
    """Return the purpose of each nameless input of a graph, by its row in the graph.

    Inferred like `input_purposes`, but from the edges of the graph alone. `graph` is
    one of ``trace.graphs``; cached for each.
    """
    cache = _graph_purposes(trace)
    if id(graph) not in cache:
        cache[id(graph)] = (graph, _unanimous(_votes_in_graph(trace, graph)))
    return cache[id(graph)][1]


@once
def _graph_purposes(trace: Trace) -> dict[int, tuple[Graph, dict[int, str]]]:
    """Return the purposes of graphs by ``id``, each beside the graph with that id."""
    return {}


def _votes_in_graph(trace: Trace, graph: Graph) -> dict[int, set[str]]:
    """Return the purposes that readers suggest for nameless inputs of a graph."""
    names = np.unique(graph.name).tolist()
    leaves = [i for i in names if trace.strings[i].startswith(_LEAF)]
    is_leaf = np.isin(graph.name, leaves) & (graph.op < 0)
    if not is_leaf.any():
        return {}
    leaf_of = _copies_of(trace, graph, np.where(is_leaf, np.arange(len(graph)), -1))
    first: I64 = np.full(len(graph), -1, np.int64)
    by_first = graph.slot == 0
    first[graph.target[by_first]] = graph.source[by_first]
    edges = np.flatnonzero(leaf_of[graph.source] >= 0)
    edges = edges[np.isin(graph.op[graph.target[edges]], _ops(trace, _READERS))]
    votes: dict[int, set[str]] = {}
    if len(edges) > _MAX_READS:
        return votes
    for edge in edges.tolist():
        node, first_source = int(graph.target[edge]), int(first[graph.target[edge]])
        read = _Read(
            trace.op_name(int(graph.op[node])),
            int(graph.slot[edge]),
            trace.strings[int(graph.name[first_source])] if first_source >= 0 else "",
            trace.strings[int(graph.name[node])],
        )
        if purpose := _purpose(read):
            leaf = int(leaf_of[graph.source[edge]])
            votes.setdefault(leaf, set()).add(purpose)
    return votes


def _copies_of(trace: Trace, graph: Graph, leaf_of: I64) -> I64:
    """Return `leaf_of` (int64[n], -1 = none) with the copies of leaves filled in."""
    is_copy = np.isin(graph.op[graph.target], _ops(trace, _COPIES)) & (graph.slot == 0)
    source, target = graph.source[is_copy], graph.target[is_copy]
    for _copies_of_copies in range(3):
        new = (leaf_of[source] >= 0) & (leaf_of[target] < 0)
        leaf_of[target[new]] = leaf_of[source[new]]
    return leaf_of


def _ops(trace: Trace, names: tuple[str, ...]) -> list[int]:
    known = () if trace.ops is None else trace.ops.names
    return [i for i, name in enumerate(known) if name in names]


def _tensor_name(trace: Trace, row: int) -> str:
    return trace.strings[int(trace.tensors.name[row])] if row >= 0 else ""
