"""Graphs of a trace, as ``info --json`` has them."""

import numpy as np

from ggscope.model.graph import Graph, NodeCategory, NodeFlag
from ggscope.model.tables import Array, distinct
from ggscope.model.trace import Trace


def graph_json(trace: Trace, graph: Graph) -> dict[str, object]:
    """Return what a graph holds.

    ``nodes`` counts what the file declares, ``leaves`` are those that nothing computes,
    ``dangling`` (and ``undeclared``, its older name) ends of edges that it does not
    declare; these are in no other count.
    ``operations`` and ``types`` count nodes by the words of the file, "" where it
    gives none; ``edges_by_slot`` counts edges by which source of their target they
    are. ``layers`` counts distinct layers, by the names of nodes.
    """
    slots = np.bincount(graph.slot) if graph.n_edges else np.zeros(0, np.int64)
    declared = (graph.flags & np.uint8(NodeFlag.UNDECLARED)) == 0
    categories = np.bincount(graph.category[declared], minlength=len(NodeCategory))
    return {
        "title": graph.title,
        "token": None if graph.token < 0 else graph.token,
        "nodes": graph.n_declared,
        "leaves": graph.n_leaves,
        "dangling": graph.n_dangling,
        "shared": int(np.count_nonzero(graph.flags & np.uint8(NodeFlag.SHARED))),
        "undeclared": graph.n_dangling,
        "edges": graph.n_edges,
        "layers": len(distinct(graph.layer[graph.layer >= 0])),
        "operations": _counted(trace, graph.operation[declared]),
        "types": _counted(trace, graph.dtype[declared]),
        "categories": {
            category.name.lower(): int(categories[category])
            for category in NodeCategory
            if categories[category]
        },
        "edges_by_slot": {str(i): n for i, n in enumerate(slots.tolist()) if n},
    }


def _counted(trace: Trace, ids: Array) -> dict[str, int]:
    """Return how often each text occurs, the commonest first; "" = none."""
    values, counts = np.unique(ids, return_counts=True)
    order = np.argsort(-counts, kind="stable").tolist()
    counted: dict[str, int] = {}
    for i in order:
        text = trace.strings[int(values[i])] if values[i] >= 0 else ""
        counted[text] = counted.get(text, 0) + int(counts[i])
    return counted
