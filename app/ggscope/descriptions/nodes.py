"""Facts about one node of a graph: as drawn and as selected."""

import numpy as np

from ggscope.analysis.graph.inputs import graph_input_purposes
from ggscope.analysis.graph.layout import GraphLayers
from ggscope.analysis.graph.measures import NodeMeasures
from ggscope.analysis.graph.search import op_text
from ggscope.analysis.reads.unrecorded import is_unrecorded
from ggscope.analysis.reads.usage import Usage
from ggscope.analysis.sessions.correlate import Correlation, Rule
from ggscope.descriptions.selected import SelectedFacts, shape_text, usage_facts
from ggscope.descriptions.spans import Fact
from ggscope.model.graph import Graph, NodeCategory, NodeFlag, first_node, locate_node
from ggscope.model.names import normalise
from ggscope.model.tables import Quality
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_offset,
)

_FLAGS = (
    (NodeFlag.LEAF, "leaf: nothing computes it"),
    (NodeFlag.GRADIENT, "gradient"),
    (NodeFlag.UNDECLARED, "named by edges only"),
    (NodeFlag.SHARED, "shared by several layers"),
)


def drawn_node_facts(
    trace: Trace,
    graph: Graph,
    node: int,
    layers: GraphLayers,
    measures: NodeMeasures | None,
) -> tuple[Fact, ...]:
    """Return op, type, shape, place, and what the trace says of a node.

    Without `measures` (not counted yet, or no trace) the last part is left out.
    """
    text = trace.strings
    op = op_text(trace, graph, node)
    if layers.is_input[node]:
        op = "input"
    facts = [
        Fact("op", op or NOT_AVAILABLE),
        Fact("type", text[int(graph.dtype[node])] or NOT_AVAILABLE),
        Fact("shape", shape_text(graph.shape[node]) or NOT_AVAILABLE),
        Fact("layer", _layer(layers, node)),
        Fact("category", _category(graph, node)),
        Fact("address", _address(graph, node)),
    ]
    facts += _leaf_facts(trace, graph, node)
    if int(graph.flags[node]) & NodeFlag.UNDECLARED:
        facts.append(Fact("note", "named by edges only, not declared in the file"))
    if measures is not None:
        facts += _trace_facts(trace, graph, node, layers, measures)
    return tuple(facts)


def _leaf_facts(trace: Trace, graph: Graph, node: int) -> list[Fact]:
    """Return what a nameless input is for, where its readers say so."""
    text = graph_input_purposes(trace, graph).get(node, "")
    return [Fact("stands for", f"{text} (inferred)", caution=True)] if text else []


def _layer(layers: GraphLayers, node: int) -> str:
    layer = int(layers.layer[node])
    if layer < 0:
        return "shared by layers" if layers.is_shared[node] else NOT_AVAILABLE
    inferred = " (inferred from its place)" if layers.is_inferred[node] else ""
    return f"{layer}{inferred}"


def _category(graph: Graph, node: int) -> str:
    value = min(int(graph.category[node]), int(NodeCategory.OTHER))
    word = NodeCategory(value).name.lower()
    return "FFN" if word == "ffn" else word


def _address(graph: Graph, node: int) -> str:
    address = int(graph.address[node])
    return format_offset(address) if address else NOT_AVAILABLE


def _trace_facts(
    trace: Trace, graph: Graph, node: int, layers: GraphLayers, measures: NodeMeasures
) -> list[Fact]:
    facts = []
    n, unit = int(measures.n_spans[node]), trace.clock.unit
    n_open = int(measures.n_open[node])
    if n:
        quality = Quality(int(measures.quality[node])).word
        spans = f"{format_count(n)} span" + ("" if n == 1 else "s")
        text, exact = f"{spans} without a recorded end, {quality}", ""
        if n > n_open:
            total = round(float(measures.time[node]))
            text, exact = format_duration(total, unit), format_exact(total, unit)
            if not n_open:
                text += f" in {spans}, {quality}"
            else:
                text = f"at least {text} in {spans}, {format_count(n_open)} {quality}"
        facts.append(
            Fact(
                "time",
                text,
                exact,
                caution=quality != "measured",
                qualifier=quality,
            )
        )
        facts.append(Fact("matched by", Rule(int(measures.rule[node])).text))
    elif not layers.is_input[node]:
        unrecorded = is_unrecorded(trace, graph, node)
        text = "not recorded in any pass" if unrecorded else "not in the trace"
        facts.append(Fact("time", text))
    times = float(measures.accesses[node])
    if times == times:
        n_bytes = float(measures.access_bytes[node])
        is_sized = n_bytes == n_bytes
        size = round(n_bytes) if is_sized else 0
        facts.append(
            Fact(
                "its tensor",
                f"{format_count(round(times))} access"
                + ("" if times == 1 else "es")
                + f", {format_bytes(size) if is_sized else 'size unknown'}",
                format_exact_bytes(size) if is_sized else "",
            )
        )
    else:
        facts.append(Fact("its tensor", "not accessed by name in the trace"))
    return facts


def node_facts(
    trace: Trace,
    node: int,
    figures: Usage | None,
    correlation: Correlation | None = None,
    *,
    absolute: bool = False,
) -> SelectedFacts:
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
    flags = [flag for bit, flag in _FLAGS if int(graph.flags[row]) & bit]
    name = trace.strings[int(graph.name[row])]
    facts = [
        Fact("op", op or NOT_AVAILABLE, f"printed as {symbol}" if symbol else ""),
        Fact("type", trace.strings[int(graph.dtype[row])] or NOT_AVAILABLE),
        Fact("shape", shape_text(graph.shape[row]) or NOT_AVAILABLE),
        Fact("layer", format_count(layer) if layer >= 0 else NOT_AVAILABLE),
        Fact("category", category),
        Fact(
            "ggml_tensor at",
            format_offset(address) if address else NOT_AVAILABLE,
            "address of the graph object, not of tensor data",
        ),
        Fact("graph", graph.title or f"token {graph.token}"),
    ]
    facts[:0] = _leaf_facts(trace, graph, row)
    base = normalise(name)
    if base != name.strip():
        facts.insert(0, Fact("tensor", base or NOT_AVAILABLE))
    if flags:
        facts.append(Fact("note", "; ".join(flags)))
    facts.append(_match_fact(trace, node, correlation, figures, is_op=bool(op)))
    facts += usage_facts(trace, figures, absolute=absolute)
    parts = ["graph node", op, f"layer {layer}" if layer >= 0 else ""]
    return SelectedFacts(name or "–", " · ".join(w for w in parts if w), tuple(facts))


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
    trace: Trace,
    node: int,
    correlation: Correlation | None,
    figures: Usage | None,
    *,
    is_op: bool,
) -> Fact:
    """Return by which rule spans were found to be this node, or that ops read it."""
    if not len(trace.spans):
        return Fact("in the trace", NOT_AVAILABLE, "no trace open with the graph")
    if correlation is None:
        return Fact("in the trace", NOT_AVAILABLE, "matching spans…")
    rules = correlation.rules_of(node)
    if not rules and figures is not None and figures.n_spans:
        spans = f"{format_count(figures.n_spans)} span" + "s" * (figures.n_spans != 1)
        exact = f"no span computes it; {spans} access a tensor of this name"
        return Fact("in the trace", "as a tensor, by name", exact)
    if not rules:
        why = "no span with this name, op and order" if is_op else "no op computes it"
        return Fact("in the trace", "not found", why)
    rule_texts = "; ".join(rule.text for rule in rules)
    return Fact("in the trace", f"by {rule_texts}", f"matched by {rule_texts}")
