"""Traces beside a graph that has ops of which no record states."""

from dataclasses import replace

import numpy as np

from builders import OPS, op_number
from ggscope.analysis.sessions.join import SideFile, join
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Trace
from graph_traces import add_graph
from session_files import model_trace, reading_trace

MODEL = [("seen.weight", 0, 64), ("hidden.weight", 64, 192), ("idle.weight", 256, 256)]
NODES = (
    ("seen.weight", ""),
    ("hidden.weight", ""),
    ("norm-0", "MUL"),
    ("norm-0 (view)", "VIEW"),
    ("Qcur-0", "MUL_MAT"),
    ("Kcur-0", "MUL_MAT"),
)
EDGES = [(0, 2), (2, 3), (1, 4), (3, 4), (1, 5), (3, 5)]


def graph_side(nodes=NODES, edges=EDGES) -> SideFile:
    builder = TraceBuilder()
    names = (*OPS.names, "VIEW")
    builder.ops = replace(OPS, names=names)
    leaves = [i for i, (_, op) in enumerate(nodes) if not op]
    ops = [names.index(op) if op else -1 for _, op in nodes]
    add_graph(builder, [n for n, _ in nodes], edges, ops=ops, leaves=leaves, token=0)
    info = reading_trace([]).info
    return SideFile(builder.snapshot(info), "graph")


def traced(ops=("MUL",), reads=MODEL[0]) -> Trace:
    """Return a trace that reads one weight, by ops called norm-0."""
    trace = reading_trace([reads], repeats=len(ops))
    spans = trace.spans
    n = len(spans)
    name = np.full(n, trace.strings.intern("norm-0"), np.int32)
    op = np.array([op_number(o) for o in ops], np.int16)
    flags = np.full(n, 2, np.uint16)
    changed = replace(spans, name=name, op=op, flags=flags)
    return replace(trace, spans=changed, ops=OPS)


def joined(**kwargs) -> Trace:
    sides = [SideFile(model_trace(MODEL), "map"), graph_side()]
    return join(traced(**kwargs), sides)
