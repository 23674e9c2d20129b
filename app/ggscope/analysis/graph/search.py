"""Nodes by what is written on them, and what is written on nameless inputs.

llama.cpp gives its inputs no names, so that traces show ``leaf_4``. What it is for
follows from who reads it: the second source of every ``ROPE`` holds the positions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filters.text import text_matcher
from ggscope.analysis.workers import chunks
from ggscope.model.graph import Graph
from ggscope.model.names import normalise, parse
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Trace

TOKENS = "token ids"
POSITIONS = "RoPE positions"
FACTORS = "RoPE frequency factors"
K_ROWS = "rows of the K cache"
V_ROWS = "rows of the V cache"
OUTPUTS = "rows to output"
MASK = "attention mask"
_LEAF = "leaf_"
_COPIES = ("CPY", "CONT", "DUP", "CAST")


def op_words(trace: Trace, graph: Graph, node: int) -> str:
    """Return the op of a node: its name, else as the file prints it; "" for inputs."""
    name = trace.op_name(int(graph.op[node]))
    return name or trace.strings[int(graph.operation[node])]


def find_nodes(trace: Trace, graph: Graph, text: str) -> I64:
    """Return the rows of nodes whose name or op has `text` in it, ascending.

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
    reads = _reads_of_patterns(trace, leaves)
    for graph in trace.graphs:
        reads += _reads_of_graph(trace, graph)
    for row, read in reads:
        if row in leaves and (words := _words(read)):
            votes.setdefault(row, set()).add(words)
    return {row: next(iter(said)) for row, said in votes.items() if len(said) == 1}


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


def _reads_of_graph(trace: Trace, graph: Graph) -> Iterable[tuple[int, _Read]]:
    name: Callable[[int], str] = lambda node: trace.strings[int(graph.name[node])]  # noqa: E731
    by_name = {i: name(i) for i in range(len(graph)) if name(i).startswith(_LEAF)}
    if not by_name:
        return
    edges = np.flatnonzero(np.isin(graph.source, list(by_name)))
    row_of = {trace.strings[i]: r for r, i in enumerate(trace.tensors.name.tolist())}
    for edge in edges.tolist():
        leaf, node = int(graph.source[edge]), int(graph.target[edge])
        row = row_of.get(normalise(by_name[leaf]))
        if row is None:
            continue
        first = np.flatnonzero((graph.target == node) & (graph.slot == 0))
        beside = name(int(graph.source[first[0]])) if len(first) else ""
        op = trace.op_name(int(graph.op[node]))
        if op in _COPIES:
            continue  # the copy has no name by which to follow it
        yield row, _Read(op, int(graph.slot[edge]), beside, name(node))


def _tensor_name(trace: Trace, row: int) -> str:
    return trace.strings[int(trace.tensors.name[row])] if row >= 0 else ""
