"""Nodes of a graph by the text that is shown on them."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filters.text import text_matcher
from ggscope.analysis.graph.inputs import graph_input_purposes
from ggscope.model.graph import Graph
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Trace


def op_text(trace: Trace, graph: Graph, node: int) -> str:
    """Return the op of a node: its name, else as the file prints it; "" for inputs."""
    name = trace.op_name(int(graph.op[node]))
    return name or trace.strings[int(graph.operation[node])]


def find_nodes(trace: Trace, graph: Graph, text: str) -> I64:
    """Return the rows of nodes whose name or op has `text` in it, ascending.

    Nameless inputs also match by their purpose (`graph_input_purposes`).

    Parameters
    ----------
    text : any case; ``/…/`` is a regular expression; "" matches nothing.

    Raises
    ------
    QueryError
        If the expression is invalid.
    """
    pattern = text.strip()
    if not pattern:
        return np.zeros(0, np.int64)
    matches = text_matcher(pattern)
    by_name = _matching(matches, graph.name, lambda i: trace.strings[i])
    by_operation = _matching(matches, graph.operation, lambda i: trace.strings[i])
    by_op = _matching(matches, graph.op, trace.op_name)
    purposes = graph_input_purposes(trace, graph).items()
    by_name[[node for node, purpose in purposes if matches(purpose)]] = True
    return np.flatnonzero(by_name | by_operation | by_op).astype(np.int64)


def _matching(
    matches: Callable[[str], bool], column: Array, text_of: Callable[[int], str]
) -> npt.NDArray[np.bool_]:
    """Return which rows of `column` match; each distinct text is compared once."""
    values, inverse = np.unique(column, return_inverse=True)
    hits = np.array([matches(text_of(int(value))) for value in values], np.bool_)
    return np.asarray(hits[inverse.reshape(-1)], np.bool_)
