"""Reads that a graph has and no record tells of: nodes to ops, not ops to nodes.

A tracer may not see every op: repacked weights are multiplied behind its hook. What
such ops read was not left alone, and their time lies in what is derived for the ops
before them. And records have room for four sources of an op; ``FLASH_ATTN_EXT`` reads
its sinks as the fifth.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.sessions.mapping import wholes_of
from ggscope.model.ggml.rules import MOST_SOURCES
from ggscope.model.graph import Graph, NodeFlag, first_node
from ggscope.model.tables import I64, SpanFlag
from ggscope.model.trace import MatchReport, ReadWarning, Severity, Trace
from ggscope.model.units import format_count

CODE = "nodes_not_recorded"
NO_WORK = frozenset({"NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE"})
"""Ops that only describe memory; tracers leave them out."""
_MOST_NAMED = 6
_FEW_LOST = 0.25
"""Of nodes that are alike no more are without a record by chance."""


def computed_nodes(trace: Trace, graph: int) -> npt.NDArray[np.bool_]:
    """Return which nodes of a graph do work that a record could tell of."""
    nodes = trace.graphs[graph]
    passive = np.uint8(NodeFlag.LEAF | NodeFlag.UNDECLARED)
    names = {op: trace.op_name(op) for op in np.unique(nodes.op).tolist()}
    idle = [op for op, name in names.items() if op < 0 or name in NO_WORK]
    return np.asarray(((nodes.flags & passive) == 0) & ~np.isin(nodes.op, idle))


def with_nodes(
    trace: Trace, join: MatchReport, correlation: Correlation
) -> MatchReport:
    """Return a graph's join that tells which of its nodes no record tells of.

    Nodes whose op some span has that was found nowhere are left out: it may be theirs.
    """
    silent: list[int] = []
    cut: list[int] = []
    by_op: dict[str, int] = {}
    n_computed = 0
    no_node = np.zeros(0, np.int32)
    # Whoever lists a fifth source somewhere leaves none out.
    is_short = int(np.diff(trace.accesses.first).max(initial=0)) <= MOST_SOURCES
    for number, (is_recorded, lost_ops) in correlation.recorded().items():
        graph = trace.graphs[number]
        is_computed = computed_nodes(trace, number)
        n_computed += int(np.count_nonzero(is_computed))
        rows = np.flatnonzero(is_computed & ~is_recorded & ~np.isin(graph.op, lost_ops))
        first = first_node(trace.graphs, number)
        silent += (rows + first).tolist()
        beyond = graph.target[graph.slot >= MOST_SOURCES] if is_short else no_node
        cut += (np.unique(beyond[is_recorded[beyond]]) + first).tolist()
        ops, counts = np.unique(graph.op[rows], return_counts=True)
        for op, count in zip(ops.tolist(), counts.tolist(), strict=True):
            by_op[trace.op_name(op)] = by_op.get(trace.op_name(op), 0) + count
    ordered = dict(sorted(by_op.items(), key=lambda pair: (-pair[1], pair[0])))
    return replace(
        join,
        n_nodes=n_computed,
        silent=ordered,
        silent_nodes=tuple(silent),
        cut_nodes=tuple(cut),
    )


def unrecorded_tensors(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return bool[n_tensors]: what is read without a record, as the graphs tell.

    By ops without one, and as sources for which a record has no room. Slices of a
    stack go with it.
    """
    result = np.zeros(len(trace.tensors), np.bool_)
    for number, graph in enumerate(trace.graphs if trace.joins else ()):
        first = first_node(trace.graphs, number)
        silent, cut = np.zeros((2, len(graph)), np.bool_)
        for join in trace.joins:
            for marks, nodes in ((silent, join.silent_nodes), (cut, join.cut_nodes)):
                rows = np.array(nodes, np.int64) - first
                marks[rows[(rows >= 0) & (rows < len(graph))]] = True
        is_read = silent[graph.target]
        is_read |= cut[graph.target] & (graph.slot >= MOST_SOURCES)
        read = graph.tensor[graph.source[is_read]]
        result[read[read >= 0]] = True
    if result.any() and (trace.tensors.expert >= 0).any():
        whole: I64 = wholes_of(trace.tensors, trace.strings).whole
        result |= result[whole]
    return result


def is_silent(trace: Trace, graph: Graph, row: int) -> bool:
    """Tell whether a node does work that no record tells of."""
    number = next((i for i, one in enumerate(trace.graphs) if one is graph), -1)
    node = first_node(trace.graphs, number) + row
    return number >= 0 and any(node in join.silent_nodes for join in trace.joins)


def lost_nodes(trace: Trace) -> I64:
    """Return the ids of nodes without a record whose like are nearly all recorded.

    Like are nodes of one op on one type of weight: a tracer sees all of them or none.
    Nodes before the first and behind the last one that is recorded are left out, for
    a recording may begin and end inside a pass.
    """
    lost: list[int] = []
    silent = np.array([n for join in trace.joins for n in join.silent_nodes], np.int64)
    for number in range(len(trace.graphs) if len(silent) else 0):
        graph, first = trace.graphs[number], first_node(trace.graphs, number)
        is_silent = np.zeros(len(graph), np.bool_)
        own = silent[(silent >= first) & (silent < first + len(graph))] - first
        if not len(own):
            continue
        is_silent[own] = True
        computed = computed_nodes(trace, number)
        there = np.flatnonzero(computed & ~is_silent)
        if not len(there):
            continue
        weight = np.full(len(graph), -1, np.int64)
        of_first = np.flatnonzero(graph.slot == 0)
        weight[graph.target[of_first]] = graph.dtype[graph.source[of_first]]
        kind = weight * (1 << 16) + graph.op.astype(np.int64)
        for row in own[(own > there[0]) & (own < there[-1])].tolist():
            like = computed & (kind == kind[row])
            if is_silent[like].mean() <= _FEW_LOST:
                lost.append(first + row)
    return np.array(lost, np.int64)


def unrecorded_ops(trace: Trace) -> dict[str, int]:
    """Return the number of graph ops without a record by op name, most first."""
    counts: dict[str, int] = {}
    for join in trace.joins:
        for op, count in join.silent.items():
            counts[op] = counts.get(op, 0) + count
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def silent_words(join: MatchReport) -> str:
    """Return "134 of 425 ops of the graph have no record: MUL_MAT 134"; "" for none."""
    n = len(join.silent_nodes)
    if not n:
        return ""
    parts = [f"{op} {format_count(k)}" for op, k in join.silent.items()]
    listed = ", ".join(parts[:_MOST_NAMED])
    listed += " …" if len(parts) > _MOST_NAMED else ""
    return (
        f"{format_count(n)} of {format_count(join.n_nodes)} ops of the graph "
        f"{'has' if n == 1 else 'have'} no record in any pass: {listed}"
    )


def silent_warning(trace: Trace, join: MatchReport) -> ReadWarning:
    """Return the problem of a session with graph nodes without records."""
    time = ""
    if has_derived_times(trace):
        time = ", and derived times of preceding ops include theirs"
    return ReadWarning(
        Severity.NOTICE,
        CODE,
        f"{silent_words(join)}. They were not traced, lost, or came after the end of "
        f"the recording; what they read is unknown{time}.",
        len(join.silent_nodes),
        place=join.part,
        remedy="Record with a tracer that hooks these ops too; ggml computes repacked "
        "weights outside of the usual hook.",
    )


def has_derived_times(trace: Trace) -> bool:
    """Return whether some spans end where the next record of their thread begins."""
    return bool((trace.spans.flags & int(SpanFlag.INFERRED_END)).any())
