"""Nodes by what is written on them."""

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ggscope.errors import QueryError
from ggscope.model.graph import Graph
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Trace


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
    is_regex = len(wanted) > 2 and wanted.startswith("/") and wanted.endswith("/")
    try:
        pattern = re.compile(wanted[1:-1] if is_regex else re.escape(wanted), re.I)
    except re.error as error:
        raise QueryError(f"{wanted} is not understood: {error}.") from error
    # Each distinct text is looked at once; nodes share most of them.
    named = _matching(pattern, graph.name, lambda i: trace.strings[i])
    printed = _matching(pattern, graph.operation, lambda i: trace.strings[i])
    called = _matching(pattern, graph.op, trace.op_name)
    return np.flatnonzero(named | printed | called).astype(np.int64)


def _matching(
    pattern: re.Pattern[str], column: Array, text_of: Callable[[int], str]
) -> npt.NDArray[np.bool_]:
    values, inverse = np.unique(column, return_inverse=True)
    hits = [bool(pattern.search(text_of(int(value)))) for value in values]
    found: npt.NDArray[np.bool_] = np.array(hits, np.bool_)[inverse.reshape(-1)]
    return found


__all__ = ["find_nodes", "op_words"]
