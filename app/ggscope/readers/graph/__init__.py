"""Computation graphs: nodes and edges as JSON or DOT."""

from ggscope.readers.api import ReaderInfo

JSON_INFO = ReaderInfo(
    "graph-json",
    "Computation graph (JSON)",
    (".json",),
    "Nodes and edges of one ggml graph, as the tensor tracer's tools export them.",
    role="graph",
    keys=("nodes",),
)
DOT_INFO = ReaderInfo(
    "graph-dot",
    "Computation graph (DOT)",
    (".dot", ".gv"),
    "Nodes and edges of a graph, as ggml_graph_dump_dot writes them.",
    role="graph",
    line=r"\b(di)?graph\b",
)
