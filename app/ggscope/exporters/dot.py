"""A graph as DOT, in the words of ``ggml_graph_dump_dot`` since 25 July 2025."""

import re

import numpy as np

from ggscope.analysis.graph.inputs import graph_input_purposes
from ggscope.model.graph import Graph, NodeFlag
from ggscope.model.trace import Trace

_SPECIAL = re.compile(r'(?<!\\)([|<>{}"])')


def graph_as_dot(trace: Trace, graph: Graph) -> str:
    """Return all nodes and edges of a graph as one DOT text.

    Nodes are named by their address, or by their number where addresses are not known
    or not distinct. Names, types, shapes, ops and edge slots are kept; layers and
    categories are not: the format has no place for them. What a nameless input is for
    is its tooltip.
    """
    ids = _ids(graph)
    lines = ["digraph G {", "  newrank = true;", "  rankdir = TB;"]
    lines += [_node(trace, graph, row, ids[row]) for row in range(len(graph))]
    for source, target, slot in zip(
        graph.source.tolist(), graph.target.tolist(), graph.slot.tolist(), strict=True
    ):
        lines.append(
            f'  "{ids[source]}" -> "{ids[target]}" '
            f'[ arrowhead = vee; style = solid; label = "src {slot}"; ]'
        )
    return "\n".join([*lines, "}", ""])


def _ids(graph: Graph) -> list[str]:
    addresses = graph.address
    distinct = len(np.unique(addresses)) == len(addresses) and bool(addresses.all())
    numbers = addresses.tolist() if distinct else range(1, len(graph) + 1)
    return [f"0x{number:x}" for number in numbers]


def _node(trace: Trace, graph: Graph, row: int, node_id: str) -> str:
    text = trace.strings
    name = _escaped(text[int(graph.name[row])])
    dtype = _escaped(text[int(graph.dtype[row])])
    label = f"{name} ({dtype})" if name else f"({dtype})"
    sizes = [int(n) for n in graph.shape[row]]
    while len(sizes) > 2 and sizes[-1] in (0, 1):
        sizes.pop()
    shape = f"{row} [{', '.join(str(n) for n in sizes)}]"
    if int(graph.flags[row]) & NodeFlag.LEAF:
        fill, label = "pink", f"<x>{label}|CONST {shape}"
    else:
        op = text[int(graph.operation[row])] or trace.op_name(int(graph.op[row]))
        gradient = bool(int(graph.flags[row]) & NodeFlag.GRADIENT)
        fill = "green" if gradient else "white"
        label = f"{label}|{shape} | <x>{_escaped(op)}"
        if gradient:
            label += f" | <g>{_escaped(op)}"
    # Readers of these files know labels by heart: what is inferred stands beside them.
    purpose = graph_input_purposes(trace, graph).get(row, "")
    inferred = f'tooltip="{_escaped(purpose)} (inferred)"; ' if purpose else ""
    return (
        f'  "{node_id}" [ style = filled; fillcolor = {fill}; shape = record; '
        f'label="{label}"; {inferred}]'
    )


def _escaped(text: str) -> str:
    """Return a text in which what divides records is escaped, once."""
    return _SPECIAL.sub(r"\\\1", text.replace("\n", " "))
