"""What is known of a node of the computation graph, as texts for people."""

import numpy as np

from ggscope.analysis.correlate import Correlation, node_words
from ggscope.analysis.facts import Fact
from ggscope.analysis.thing_facts import ThingFacts, figure_facts, shape_text
from ggscope.analysis.thing_figures import ThingFigures
from ggscope.model.graph import NodeCategory, NodeFlag, first_node, locate_node
from ggscope.model.names import normalise
from ggscope.model.trace import Trace
from ggscope.model.units import NOT_AVAILABLE, format_count, format_offset

_FLAGS = (
    (NodeFlag.LEAF, "leaf: nothing computes it"),
    (NodeFlag.GRADIENT, "gradient"),
    (NodeFlag.UNDECLARED, "only edges name it"),
    (NodeFlag.SHARED, "shared by several layers"),
)


def node_facts(
    trace: Trace,
    node: int,
    figures: ThingFigures | None,
    correlation: Correlation | None = None,
    *,
    absolute: bool = False,
) -> ThingFacts:
    """Return what is known of a node by its id over all graphs.

    Raises
    ------
    IndexError
        If there is no such node.
    """
    number, row = locate_node(trace.graphs, node)
    graph = trace.graphs[number]
    op = trace.op_name(int(graph.op[row]))
    symbol = trace.strings[int(graph.operation[row])]
    category = NodeCategory(int(graph.category[row])).name.lower()
    layer, address = int(graph.layer[row]), int(graph.address[row])
    flags = [words for bit, words in _FLAGS if int(graph.flags[row]) & bit]
    name = trace.strings[int(graph.name[row])]
    facts = [
        Fact("op", op or NOT_AVAILABLE, f"printed as {symbol}" if symbol else ""),
        Fact("type", trace.strings[int(graph.dtype[row])] or NOT_AVAILABLE),
        Fact("shape", shape_text(graph.shape[row])),
        Fact("layer", format_count(layer) if layer >= 0 else NOT_AVAILABLE),
        Fact("category", category),
        Fact(
            "ggml_tensor at",
            format_offset(address) if address else NOT_AVAILABLE,
            "where the graph's own object lies: never the address of data in a trace",
        ),
        Fact("graph", graph.title or f"token {graph.token}"),
    ]
    base = normalise(name)
    if base != name.strip():
        facts.insert(0, Fact("tensor", base or NOT_AVAILABLE))
    if flags:
        facts.append(Fact("note", "; ".join(flags)))
    facts.append(_match_fact(trace, node, correlation, is_op=bool(op)))
    facts += figure_facts(trace, figures, absolute=absolute)
    words = ["graph node", op, f"layer {layer}" if layer >= 0 else ""]
    return ThingFacts(name or "–", " · ".join(w for w in words if w), tuple(facts))


def neighbours(trace: Trace, node: int) -> tuple[list[int], list[int]]:
    """Return ids of the nodes that a node reads, by slot, and of those that read it."""
    number, row = locate_node(trace.graphs, node)
    graph = trace.graphs[number]
    first = first_node(trace.graphs, number)
    into = np.flatnonzero(graph.target == row)
    sources = graph.source[into[np.argsort(graph.slot[into], kind="stable")]]
    readers = np.unique(graph.target[graph.source == row])
    return (
        [first + int(i) for i in sources.tolist()],
        [first + int(i) for i in readers.tolist()],
    )


def _match_fact(
    trace: Trace, node: int, correlation: Correlation | None, *, is_op: bool
) -> Fact:
    """Return by which rule spans were found to be this node."""
    if not len(trace.spans):
        return Fact("in the trace", NOT_AVAILABLE, "no trace is open beside the graph")
    if correlation is None:
        return Fact("in the trace", NOT_AVAILABLE, "spans are being matched")
    rules = correlation.rules_of(node)
    if not rules:
        why = "no span has this name, op and order" if is_op else "no op computes it"
        return Fact("in the trace", "not found", why)
    words = "; ".join(rule.words for rule in rules)
    return Fact("in the trace", f"by {words}", f"matched by {words}")


__all__ = ["neighbours", "node_facts", "node_words"]
