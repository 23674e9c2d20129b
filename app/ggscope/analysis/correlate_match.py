"""Which node of a graph each op of a run is: by name, op and order."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.correlate_runs import OPS
from ggscope.model.graph import Graph, NodeFlag
from ggscope.model.names import normalise
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Trace

_NOT_LOOKED = -2


class Rule(IntEnum):
    """How a span and a node of a graph were found to be the same.

    Never by address: graphs print where the ``ggml_tensor`` lies, traces where its
    data do.
    """

    NONE = 0
    ORDER = 1
    """Name and op agree; the nth span of a pass is the nth node of the graph."""
    BASE_ORDER = 2
    """Likewise, once suffixes as in ``Qcur-5 (view)`` are left out."""
    NAME = 3
    """Name and op agree, but there are not equally many of them."""
    SOURCE = 4
    """The trace names what ops read: the nth op that reads a tensor of this name."""

    @property
    def words(self) -> str:
        """What people read."""
        return _WORDS[self]


_WORDS = {
    Rule.NONE: "",
    Rule.ORDER: "name, op and order",
    Rule.BASE_ORDER: "name without suffix, op and order",
    Rule.NAME: "name and op, not order",
    Rule.SOURCE: "name of a source, op and order",
}


class BaseNames:
    """Numbers of names without their suffixes, each looked at once.

    Names that no graph knows share the number -1. For one thread at a time.
    """

    def __init__(self, trace: Trace) -> None:
        self._strings = trace.strings
        self._numbers: dict[str, int] = {}
        self._of_string = np.full(len(trace.strings) + 1, _NOT_LOOKED, np.int32)
        self._of_string[-1] = -1
        for graph in trace.graphs:
            for string in np.unique(graph.name).tolist():
                base = normalise(self._strings[string])
                number = self._numbers.setdefault(base, len(self._numbers))
                self._of_string[string] = number

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, names: Array) -> I64:
        """Return the number of each name (string ids), int64; -1 in no graph."""
        found = self._of_string[names]
        for string in np.unique(names[found == _NOT_LOOKED]).tolist():
            base = normalise(self._strings[string])
            self._of_string[string] = self._numbers.get(base, -1)
        return self._of_string[names].astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """The nodes of one run, and of all runs that are like it.

    Attributes
    ----------
    graph : which graph of the trace.
    names : int32[length], string ids of the spans.
    node : int32[length], node rows; -1 = no op, or not in the graph.
    rule : uint8[length], `Rule`.
    n_ops : how many of the spans are ops.
    lost : op numbers of those that were found nowhere.
    """

    graph: int
    names: npt.NDArray[np.int32]
    node: npt.NDArray[np.int32]
    rule: npt.NDArray[np.uint8]
    n_ops: int
    lost: frozenset[int] = frozenset()


def match_run(
    names: Array,
    ops: Array,
    graph: Graph,
    number: int,
    bases: BaseNames,
    *,
    are_sources: bool = False,
) -> Match:
    """Return which node of `graph` each span of a run is.

    Parameters
    ----------
    names, ops : string id and op number of the spans, in order; op -1 = no op.
    number : of the graph in the trace.
    are_sources : the names are those of tensors that the ops read, not of what they
        compute: they lead to nodes by the edges of the graph, never to their namesakes.

    Notes
    -----
    Spans and nodes that share a key are counted off in order. Where the run has a
    multiple of the graph's number it holds several passes, and counting begins anew;
    where the numbers disagree otherwise, what is left is matched by name and op only.
    Ops must agree in any case.
    """
    if are_sources:
        return _match_by_sources(names, ops, graph, number, bases)
    node = np.full(len(names), -1, np.int32)
    rule = np.zeros(len(names), np.uint8)
    wanted = np.flatnonzero(np.asarray(ops) >= 0)
    ops64 = np.asarray(ops, np.int64)
    free = np.flatnonzero((graph.op >= 0) & ((graph.flags & NodeFlag.LEAF) == 0))
    node_ops = graph.op.astype(np.int64)
    base, node_base = bases.of(names), bases.of(graph.name)
    for step, span_key, node_key in (
        (Rule.ORDER, np.asarray(names, np.int64), graph.name.astype(np.int64)),
        (Rule.BASE_ORDER, base, node_base),
    ):
        some = wanted[span_key[wanted] >= 0]
        found = _counted_off(
            span_key[some] * OPS + ops64[some],
            node_key[free] * OPS + node_ops[free],
        )
        hit = found >= 0
        node[some[hit]], rule[some[hit]] = free[found[hit]], step
        wanted = wanted[node[wanted] < 0]
        free = np.setdiff1d(free, node[node >= 0])
    some = wanted[base[wanted] >= 0]
    of_ops = np.flatnonzero((graph.op >= 0) & ((graph.flags & NodeFlag.LEAF) == 0))
    found = _by_name(
        base[some] * OPS + ops64[some], node_base[of_ops] * OPS + node_ops[of_ops]
    )
    found = np.where(found >= 0, np.append(of_ops, -1)[found], -1)
    hit = found >= 0
    node[some[hit]], rule[some[hit]] = found[hit], Rule.NAME
    return _match(number, names, ops64, node, rule)


def _match(number: int, names: Array, ops: I64, node: Array, rule: Array) -> Match:
    is_op = ops >= 0
    lost = frozenset(np.unique(ops[is_op & (node < 0)]).tolist())
    n_ops = int(np.count_nonzero(is_op))
    return Match(number, names.astype(np.int32), node, rule, n_ops, lost)


def _counted_off(keys: I64, candidates: I64) -> I64:
    """Return the candidate that each key is, by its order among equal keys; -1 none.

    Keys whose number is no multiple of the candidates' number are left alone.
    """
    result = np.full(len(keys), -1, np.int64)
    if not len(keys) or not len(candidates):
        return result
    order = np.argsort(candidates, kind="stable")
    known, first, count = np.unique(
        candidates[order], return_index=True, return_counts=True
    )
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    rows = np.flatnonzero(known[at] == keys)
    at = at[rows]
    nth, total = _ranks(at)
    fits = total % count[at] == 0
    rows, at, nth = rows[fits], at[fits], nth[fits]
    result[rows] = order[first[at] + nth % count[at]]
    return result


def _match_by_sources(
    names: Array, ops: Array, graph: Graph, number: int, bases: BaseNames
) -> Match:
    """Return the nodes of spans that are named after a tensor that their op reads.

    Every edge is a candidate: the op it leads to, under the name it comes from.
    """
    node = np.full(len(names), -1, np.int32)
    rule = np.zeros(len(names), np.uint8)
    ops64 = np.asarray(ops, np.int64)
    edges = np.flatnonzero(
        (graph.source != graph.target) & (graph.op[graph.target] >= 0)
    )
    edges = edges[np.argsort(graph.target[edges], kind="stable")]
    target = graph.target[edges]
    base, node_base = bases.of(names), bases.of(graph.name)
    width = len(bases) + 1
    some = np.flatnonzero((ops64 >= 0) & (base >= 0))
    found = _counted_off(
        base[some] * OPS + ops64[some],
        node_base[graph.source[edges]] * OPS + graph.op[target].astype(np.int64),
    )
    hit = found >= 0
    node[some[hit]], rule[some[hit]] = target[found[hit]], Rule.SOURCE
    # Several ops read one activation, and not all of them may be recorded: then its
    # record is of the op beside it, where that reads it.
    known = np.unique(target.astype(np.int64) * width + node_base[graph.source[edges]])
    for step in (1, -1):
        left = np.flatnonzero((node < 0) & (ops64 >= 0) & (base >= 0))
        beside = left - step
        inside = (beside >= 0) & (beside < len(node))
        left, beside = left[inside], beside[inside]
        same = (node[beside] >= 0) & (ops64[beside] == ops64[left])
        same &= base[beside] != base[left]
        same &= np.isin(node[beside].astype(np.int64) * width + base[left], known)
        node[left[same]], rule[left[same]] = node[beside[same]], Rule.SOURCE
    return _match(number, names, ops64, node, rule)


def _by_name(keys: I64, candidates: I64) -> I64:
    """Return a candidate of the same key for each key; -1 none.

    The nth key takes the nth such candidate, and the last one where they run out.
    """
    result = np.full(len(keys), -1, np.int64)
    if not len(keys) or not len(candidates):
        return result
    order = np.argsort(candidates, kind="stable")
    known, first, count = np.unique(
        candidates[order], return_index=True, return_counts=True
    )
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    hit = np.flatnonzero(known[at] == keys)
    at = at[hit]
    nth, _ = _ranks(at)
    result[hit] = order[first[at] + np.minimum(nth, count[at] - 1)]
    return result


def _ranks(groups: I64) -> tuple[I64, I64]:
    """Return the place of each row among those of its group, and their number."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    lengths = np.diff(np.append(begins, len(groups)))
    nth, total = np.empty_like(groups), np.empty_like(groups)
    nth[order] = np.arange(len(groups)) - np.repeat(begins, lengths)
    total[order] = np.repeat(lengths, lengths)
    return nth, total


__all__ = ["BaseNames", "Match", "Rule", "match_run"]
