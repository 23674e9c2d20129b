"""What is known of one node of a graph, as labelled values."""

from ggscope.analysis.graph.layout import GraphLayers
from ggscope.analysis.graph.measures import NodeMeasures
from ggscope.analysis.graph.search import op_words
from ggscope.analysis.reads.unrecorded import is_silent
from ggscope.analysis.sessions.correlate import Rule
from ggscope.model.graph import Graph, NodeCategory, NodeFlag
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
from ggscope.words.spans import Fact


def shape_words(graph: Graph, node: int) -> str:
    """Return the shape of a node, ``2880 × 2``; "" where it is not known."""
    sizes = [int(n) for n in graph.shape[node]]
    while len(sizes) > 1 and sizes[-1] in (0, 1):
        sizes.pop()
    return " × ".join(str(n) for n in sizes) if sizes[0] > 0 else ""


def node_facts(
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
    op = op_words(trace, graph, node)
    if layers.is_input[node]:
        op = "input"
    facts = [
        Fact("op", op or NOT_AVAILABLE),
        Fact("type", text[int(graph.dtype[node])] or NOT_AVAILABLE),
        Fact("shape", shape_words(graph, node) or NOT_AVAILABLE),
        Fact("layer", _layer(layers, node)),
        Fact("category", _category(graph, node)),
        Fact("address", _address(graph, node)),
    ]
    if int(graph.flags[node]) & NodeFlag.UNDECLARED:
        facts.append(Fact("note", "only edges name it; the file does not declare it"))
    if measures is not None:
        facts += _trace_facts(trace, graph, node, layers, measures)
    return tuple(facts)


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
    if n:
        total = round(float(measures.time[node]))
        quality = Quality(int(measures.quality[node])).name.lower()
        spans = f"{format_count(n)} span" + ("" if n == 1 else "s")
        facts.append(
            Fact(
                "time",
                f"{format_duration(total, unit)} in {spans}, {quality}",
                format_exact(total, unit),
                caution=quality != "measured",
                qualifier=quality,
            )
        )
        facts.append(Fact("matched by", Rule(int(measures.rule[node])).words))
    elif not layers.is_input[node]:
        silent = is_silent(trace, graph, node)
        words = "not recorded in any pass" if silent else "not in the trace"
        facts.append(Fact("time", words))
    times = float(measures.accesses[node])
    if times == times:
        size = round(float(measures.access_bytes[node]))
        facts.append(
            Fact(
                "its tensor",
                f"{format_count(round(times))} access"
                + ("" if times == 1 else "es")
                + f", {format_bytes(size)}",
                format_exact_bytes(size),
            )
        )
    else:
        facts.append(Fact("its tensor", "not accessed by name in the trace"))
    return facts
