"""Ops of a graph that have no record, and what they read.

A tracer may not see every op: repacked weights are multiplied outside of its hook.
What such ops read was not untouched, and derived durations of the ops before them
include their time. Records list at most four sources of an op; ``FLASH_ATTN_EXT``
reads its sinks as the fifth.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.sessions.mapping import wholes_of
from ggscope.model.ggml.rules import MAX_SOURCES
from ggscope.model.graph import Graph, NodeFlag, first_node
from ggscope.model.tables import I64, SpanFlag
from ggscope.model.trace import MatchReport, Trace

NO_WORK = frozenset({"NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE"})
"""Ops that only describe memory; tracers leave them out."""
_FEW_LOST = 0.25
"""Largest share of nodes of one kind that may lack records through loss."""


def computed_nodes(trace: Trace, graph: int) -> npt.NDArray[np.bool_]:
    """Return bool[n], which nodes of a graph compute something, so may have records."""
    nodes = trace.graphs[graph]
    passive = np.uint8(NodeFlag.LEAF | NodeFlag.UNDECLARED)
    names = {op: trace.op_name(op) for op in np.unique(nodes.op).tolist()}
    idle = [op for op, name in names.items() if op < 0 or name in NO_WORK]
    return np.asarray(((nodes.flags & passive) == 0) & ~np.isin(nodes.op, idle))


def with_nodes(
    trace: Trace, join: MatchReport, correlation: Correlation
) -> MatchReport:
    """Return the report of a graph's join with its nodes that have no record.

    Nodes of an op that has unmatched spans are left out: the spans may be theirs.
    """
    unrecorded: list[int] = []
    truncated: list[int] = []
    by_op: dict[str, int] = {}
    n_computed = 0
    no_node = np.zeros(0, np.int32)
    # A tracer that lists a fifth source anywhere leaves none out.
    is_limited = int(np.diff(trace.accesses.first).max(initial=0)) <= MAX_SOURCES
    for number, (is_recorded, lost_ops) in correlation.recorded().items():
        graph = trace.graphs[number]
        is_computed = computed_nodes(trace, number)
        n_computed += int(np.count_nonzero(is_computed))
        rows = np.flatnonzero(is_computed & ~is_recorded & ~np.isin(graph.op, lost_ops))
        first = first_node(trace.graphs, number)
        unrecorded += (rows + first).tolist()
        beyond = graph.target[graph.slot >= MAX_SOURCES] if is_limited else no_node
        truncated += (np.unique(beyond[is_recorded[beyond]]) + first).tolist()
        ops, counts = np.unique(graph.op[rows], return_counts=True)
        for op, count in zip(ops.tolist(), counts.tolist(), strict=True):
            by_op[trace.op_name(op)] = by_op.get(trace.op_name(op), 0) + count
    ordered = dict(sorted(by_op.items(), key=lambda pair: (-pair[1], pair[0])))
    return replace(
        join,
        n_nodes=n_computed,
        unrecorded=ordered,
        unrecorded_nodes=tuple(unrecorded),
        truncated_nodes=tuple(truncated),
    )


def unrecorded_tensors(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return bool[n_tensors], which tensors are read without a record, by the graphs.

    By ops without a record, and as a source beyond those that a record lists. Slices
    of a stack go with it.
    """
    result = np.zeros(len(trace.tensors), np.bool_)
    for number, graph in enumerate(trace.graphs if trace.joins else ()):
        first = first_node(trace.graphs, number)
        unrecorded, truncated = np.zeros((2, len(graph)), np.bool_)
        for join in trace.joins:
            for marks, nodes in (
                (unrecorded, join.unrecorded_nodes),
                (truncated, join.truncated_nodes),
            ):
                rows = np.array(nodes, np.int64) - first
                marks[rows[(rows >= 0) & (rows < len(graph))]] = True
        is_read = unrecorded[graph.target]
        is_read |= truncated[graph.target] & (graph.slot >= MAX_SOURCES)
        read = graph.tensor[graph.source[is_read]]
        result[read[read >= 0]] = True
    if result.any() and (trace.tensors.expert >= 0).any():
        whole: I64 = wholes_of(trace.tensors, trace.strings).whole
        result |= result[whole]
    return result


def is_unrecorded(trace: Trace, graph: Graph, row: int) -> bool:
    """Return whether a node computes something and has no record."""
    number = next((i for i, one in enumerate(trace.graphs) if one is graph), -1)
    node = first_node(trace.graphs, number) + row
    return number >= 0 and any(node in join.unrecorded_nodes for join in trace.joins)


def lost_nodes(trace: Trace) -> I64:
    """Return the ids of nodes without a record while others of their kind have one.

    A kind is an op on one type of weight: a tracer sees all of them or none. Nodes
    before the first and behind the last recorded one are left out, for a recording
    may begin and end inside a pass.
    """
    lost: list[int] = []
    ids = np.array([n for join in trace.joins for n in join.unrecorded_nodes], np.int64)
    for number in range(len(trace.graphs) if len(ids) else 0):
        graph, first = trace.graphs[number], first_node(trace.graphs, number)
        is_unrecorded = np.zeros(len(graph), np.bool_)
        own = ids[(ids >= first) & (ids < first + len(graph))] - first
        if not len(own):
            continue
        is_unrecorded[own] = True
        computed = computed_nodes(trace, number)
        recorded = np.flatnonzero(computed & ~is_unrecorded)
        if not len(recorded):
            continue
        weight = np.full(len(graph), -1, np.int64)
        of_first = np.flatnonzero(graph.slot == 0)
        weight[graph.target[of_first]] = graph.dtype[graph.source[of_first]]
        kind = weight * (1 << 16) + graph.op.astype(np.int64)
        for row in own[(own > recorded[0]) & (own < recorded[-1])].tolist():
            same_kind = computed & (kind == kind[row])
            if is_unrecorded[same_kind].mean() <= _FEW_LOST:
                lost.append(first + row)
    return np.array(lost, np.int64)


def unrecorded_ops(trace: Trace) -> dict[str, int]:
    """Return the number of graph ops without a record by op name, the most first."""
    counts: dict[str, int] = {}
    for join in trace.joins:
        for op, count in join.unrecorded.items():
            counts[op] = counts.get(op, 0) + count
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def has_derived_times(trace: Trace) -> bool:
    """Return whether some spans end where the next record of their thread begins."""
    return bool((trace.spans.flags & int(SpanFlag.INFERRED_END)).any())
