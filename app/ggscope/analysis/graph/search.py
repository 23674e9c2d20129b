"""Nodes by what is written on them, and what is written on nameless inputs.

llama.cpp gives its inputs no names, so that traces show ``leaf_4``. What it is for
follows from who reads it: the second source of every ``ROPE`` holds the positions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filters.text import text_matcher
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
_MOST_READS = 100_000
"""Graphs with more readers of nameless inputs are not of llama.cpp."""


def input_words(trace: Trace, graph: Graph, node: int) -> str:
    """Return the name of an input, with what it is for where it has no name."""
    name = trace.strings[int(graph.name[node])]
    words = graph_leaf_words(trace, graph).get(node, "")
    return f"{name} · {words}" if words else name


def op_words(trace: Trace, graph: Graph, node: int) -> str:
    """Return the op of a node: its name, else as the file prints it; "" for inputs."""
    name = trace.op_name(int(graph.op[node]))
    return name or trace.strings[int(graph.operation[node])]


def find_nodes(trace: Trace, graph: Graph, text: str) -> I64:
    """Return the rows of nodes whose name or op has `text` in it, ascending.

    Nameless inputs are found by what they are (`graph_leaf_words`) too.

    Parameters
    ----------
    text : any case; ``/…/`` is a regular expression; "" finds nothing.

    Raises
    ------
    QueryError
        If the expression is not understood.
    """
    wanted = text.strip()
    if not wanted:
        return np.zeros(0, np.int64)
    matches = text_matcher(wanted)
    # Each distinct text is looked at once; nodes share most of them.
    named = _matching(matches, graph.name, lambda i: trace.strings[i])
    printed = _matching(matches, graph.operation, lambda i: trace.strings[i])
    called = _matching(matches, graph.op, trace.op_name)
    leaves = graph_leaf_words(trace, graph).items()
    named[[leaf for leaf, words in leaves if matches(words)]] = True
    return np.flatnonzero(named | printed | called).astype(np.int64)


def _matching(
    matches: Callable[[str], bool], column: Array, text_of: Callable[[int], str]
) -> npt.NDArray[np.bool_]:
    values, inverse = np.unique(column, return_inverse=True)
    hits = [matches(text_of(int(value))) for value in values]
    found: npt.NDArray[np.bool_] = np.array(hits, np.bool_)[inverse.reshape(-1)]
    return found


@dataclass(frozen=True, slots=True)
class _Read:
    """One reading of a tensor: by which op, as which source, beside which others."""

    op: str
    slot: int
    first: str
    result: str


def leaf_words(trace: Trace) -> dict[int, str]:
    """Return what each nameless input is, by row of ``Trace.tensors``.

    For display only, as "leaf_4 · RoPE positions (inferred)": it is inferred from the
    ops that read the input, in the trace's accesses and in its graphs. An input whose
    readers disagree, or say nothing, is left out.

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
        if row in leaves and (words := _words(read)):
            votes.setdefault(row, set()).add(words)
    row_of = {name: row for row, name in leaves.items()}
    for graph in trace.graphs:
        for leaf, said in _votes_in_graph(trace, graph).items():
            row = row_of.get(normalise(trace.strings[int(graph.name[leaf])]), -1)
            if row >= 0:
                votes.setdefault(row, set()).update(said)
    return {row: min(said) for row, said in votes.items() if len(said) == 1}


def _words(read: _Read) -> str:
    """Return what a source is by the op that reads it; "" where that says nothing."""
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
    """Return the readings of leaves in the accesses, one per pattern and source."""
    columns, first = trace.accesses.patterns, trace.accesses.first
    is_leaf = np.zeros(len(trace.tensors) + 1, np.bool_)
    is_leaf[list(leaves)] = True
    rows = np.flatnonzero(is_leaf[columns.tensor])
    pattern = np.searchsorted(first, rows, side="right") - 1
    op, span = _first_spans(trace, np.unique(pattern))
    masks = _copied_masks(trace)
    reads: list[tuple[int, _Read]] = []
    for row, p in zip(rows.tolist(), pattern.tolist(), strict=True):
        if p not in op:
            continue
        name, slot = trace.op_name(op[p]), row - int(first[p])
        tensor = int(columns.tensor[row])
        if name in _COPIES and slot == 0 and masks:
            reads.append((tensor, _Read("FLASH_ATTN_EXT", 3, "", "")))
            continue
        beside = int(columns.tensor[int(first[p])])
        reads.append(
            (
                tensor,
                _Read(
                    name, slot, _tensor_name(trace, beside), trace.span_name(span[p])
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
    wanted = np.zeros(n + 1, np.bool_)
    wanted[patterns] = True
    found: I64 = np.full(n, -1, np.int64)
    for rows in chunks(len(column)):
        here = np.flatnonzero(wanted[column[rows]] & (trace.spans.op[rows] >= 0))
        here = here[::-1] + rows.start  # the first span of a pattern is written last
        new = here[found[column[here]] < 0]
        found[column[new]] = new
    known = [p for p in patterns.tolist() if found[p] >= 0]
    spans = {p: int(found[p]) for p in known}
    return {p: int(trace.spans.op[spans[p]]) for p in known}, spans


def _copied_masks(trace: Trace) -> bool:
    """Tell whether attention reads its mask from a nameless copy.

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


def graph_leaf_words(trace: Trace, graph: Graph) -> dict[int, str]:
    """Return what each nameless input of a graph is, by its row in the graph.

    Inferred, like `leaf_words`, but from the graph's own edges: a graph without a
    trace has them too. `graph` is one of ``trace.graphs``; made once for each.
    """
    known = _graph_words(trace)
    if id(graph) not in known:
        votes = _votes_in_graph(trace, graph)
        words = {leaf: min(said) for leaf, said in votes.items() if len(said) == 1}
        known[id(graph)] = (graph, words)
    return known[id(graph)][1]


@once
def _graph_words(trace: Trace) -> dict[int, tuple[Graph, dict[int, str]]]:
    """Return the words of graphs by ``id``, each beside the graph that has this id."""
    return {}


def _votes_in_graph(trace: Trace, graph: Graph) -> dict[int, set[str]]:
    """Return what the readers of each nameless input of a graph say it is."""
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
    if len(edges) > _MOST_READS:
        return votes
    for edge in edges.tolist():
        node, beside = int(graph.target[edge]), int(first[graph.target[edge]])
        read = _Read(
            trace.op_name(int(graph.op[node])),
            int(graph.slot[edge]),
            trace.strings[int(graph.name[beside])] if beside >= 0 else "",
            trace.strings[int(graph.name[node])],
        )
        if words := _words(read):
            leaf = int(leaf_of[graph.source[edge]])
            votes.setdefault(leaf, set()).add(words)
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
