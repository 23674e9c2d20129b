"""Correlation: which span is which node of the computation graph.

Spans and nodes are the same where their names, ops and order within a pass agree.
Records that name what an op reads, and not what it computes, are found by the edges.
Addresses are never compared: a graph prints those of ``ggml_tensor`` objects, a trace
those of their data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.sessions.runs import OPS, Runs, run_hashes, run_tokens, runs_of
from ggscope.analysis.workers import Watcher, chunks, share_out
from ggscope.model.graph import Graph, NodeFlag, first_node, locate_node
from ggscope.model.names import normalise
from ggscope.model.tables import I64, Array, distinct, empty
from ggscope.model.trace import MatchReport, Trace

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
    def text(self) -> str:
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
        numbers = self._of_string[names]
        for string in np.unique(names[numbers == _NOT_LOOKED]).tolist():
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
    unmatched = np.flatnonzero(np.asarray(ops) >= 0)
    ops64 = np.asarray(ops, np.int64)
    free = np.flatnonzero((graph.op >= 0) & ((graph.flags & NodeFlag.LEAF) == 0))
    node_ops = graph.op.astype(np.int64)
    base, node_base = bases.of(names), bases.of(graph.name)
    for step, span_key, node_key in (
        (Rule.ORDER, np.asarray(names, np.int64), graph.name.astype(np.int64)),
        (Rule.BASE_ORDER, base, node_base),
    ):
        some = unmatched[span_key[unmatched] >= 0]
        candidate = _counted_off(
            span_key[some] * OPS + ops64[some], node_key[free] * OPS + node_ops[free]
        )
        hit = candidate >= 0
        node[some[hit]], rule[some[hit]] = free[candidate[hit]], step
        unmatched = unmatched[node[unmatched] < 0]
        free = np.setdiff1d(free, node[node >= 0])
    some = unmatched[base[unmatched] >= 0]
    of_ops = np.flatnonzero((graph.op >= 0) & ((graph.flags & NodeFlag.LEAF) == 0))
    candidate = _by_name(
        base[some] * OPS + ops64[some], node_base[of_ops] * OPS + node_ops[of_ops]
    )
    candidate = np.where(candidate >= 0, np.append(of_ops, -1)[candidate], -1)
    hit = candidate >= 0
    node[some[hit]], rule[some[hit]] = candidate[hit], Rule.NAME
    return _match(number, names, ops64, node, rule)


def _match(number: int, names: Array, ops: I64, node: Array, rule: Array) -> Match:
    is_op = ops >= 0
    unmatched_ops = frozenset(np.unique(ops[is_op & (node < 0)]).tolist())
    n_ops = int(np.count_nonzero(is_op))
    return Match(number, names.astype(np.int32), node, rule, n_ops, unmatched_ops)


class _Candidates:
    """Rows by their keys, in order.

    Attributes
    ----------
    rows : int64[m], those of the given keys that are known.
    at, nth, total : int64[m], which known key each of them is, its place among those
        of that key, and how many of them there are.
    count : int64, candidates of each known key.
    """

    def __init__(self, keys: I64, candidates: I64) -> None:
        self._order = np.argsort(candidates, kind="stable")
        known, self._first, self.count = np.unique(
            candidates[self._order], return_index=True, return_counts=True
        )
        at = np.searchsorted(known, keys)
        self.rows = np.flatnonzero(np.append(known, -1)[at] == keys)
        self.at = at[self.rows]
        self.nth, self.total = _ranks(self.at)

    def of(self, nth: I64, some: Array) -> I64:
        """Return the nth candidate of some of the rows."""
        candidate: I64 = self._order[self._first[self.at[some]] + nth]
        return candidate


def _counted_off(keys: I64, candidates: I64) -> I64:
    """Return the candidate that each key is, by its order among equal keys; -1 none.

    Keys whose number is no multiple of the candidates' number are left alone.
    """
    result = np.full(len(keys), -1, np.int64)
    matches = _Candidates(keys, candidates)
    count = matches.count[matches.at]
    fits = np.flatnonzero(matches.total % count == 0)
    result[matches.rows[fits]] = matches.of((matches.nth % count)[fits], fits)
    return result


def _by_name(keys: I64, candidates: I64) -> I64:
    """Return a candidate of the same key for each key; -1 none.

    The nth key takes the nth such candidate, and the last one where they run out.
    """
    result = np.full(len(keys), -1, np.int64)
    matches = _Candidates(keys, candidates)
    nth = np.minimum(matches.nth, matches.count[matches.at] - 1)
    result[matches.rows] = matches.of(nth, np.arange(len(nth)))
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
    candidate = _counted_off(
        base[some] * OPS + ops64[some],
        node_base[graph.source[edges]] * OPS + graph.op[target].astype(np.int64),
    )
    hit = candidate >= 0
    node[some[hit]], rule[some[hit]] = target[candidate[hit]], Rule.SOURCE
    # Several ops read one activation, and not all of them may be recorded: then its
    # record is of the op beside it, where that reads it.
    known = np.unique(target.astype(np.int64) * width + node_base[graph.source[edges]])
    for step in (1, -1):
        unmatched = np.flatnonzero((node < 0) & (ops64 >= 0) & (base >= 0))
        beside = unmatched - step
        inside = (beside >= 0) & (beside < len(node))
        unmatched, beside = unmatched[inside], beside[inside]
        same = (node[beside] >= 0) & (ops64[beside] == ops64[unmatched])
        same &= base[beside] != base[unmatched]
        same &= np.isin(node[beside].astype(np.int64) * width + base[unmatched], known)
        node[unmatched[same]], rule[unmatched[same]] = node[beside[same]], Rule.SOURCE
    return _match(number, names, ops64, node, rule)


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


@dataclass(frozen=True, slots=True, eq=False)
class Correlation:
    """Spans of a trace and nodes of its graphs, matched.

    Attributes
    ----------
    rules : how many spans were found by which rule, by `Rule.text`, in the
        order in which the rules are tried.
    n_found, n_all : ops found in a graph, and all ops.
    n_borrowed : ops of passes whose token has no graph of its own; they were looked
        for in another token's.
    found : bool[n_strings], names that a span was found by.

    Notes
    -----
    Holds one list of nodes per distinct run, not per span: a few hundred kilobytes
    for 33 million spans.
    """

    rules: Mapping[str, int]
    n_found: int
    n_all: int
    n_borrowed: int
    found: npt.NDArray[np.bool_]
    _trace: Trace
    _runs: Runs
    _match_of_run: Array
    _matches: tuple[Match, ...]
    _first_node: I64

    def node_of(self, span: int) -> tuple[int, Rule]:
        """Return (node id, rule) of a span; (-1, NONE) where it is in no graph."""
        nodes, rules = self.nodes_of(np.array([span], np.int64))
        return int(nodes[0]), Rule(int(rules[0]))

    def nodes_of(self, spans: Array) -> tuple[I64, npt.NDArray[np.uint8]]:
        """Return the node id (-1 none) and `Rule` of each of the given spans."""
        ids = np.asarray(spans, np.int64)
        node = np.full(len(ids), -1, np.int64)
        rule = np.zeros(len(ids), np.uint8)
        lane = self._trace.spans.lane
        known = np.flatnonzero((ids >= 0) & (ids < len(lane)))
        position = self._runs.positions(ids[known], lane[ids[known]])
        known, position = known[position >= 0], position[position >= 0]
        run = self._runs.of(position)
        place = position - self._runs.first[run]
        which = self._match_of_run[run]
        for number in distinct(which).tolist():
            match, at = self._matches[number], which == number
            row = match.node[place[at]].astype(np.int64)
            first = int(self._first_node[match.graph])
            node[known[at]] = np.where(row >= 0, first + row, -1)
            rule[known[at]] = match.rule[place[at]]
        return node, rule

    def spans_of(self, node: int) -> I64:
        """Return the ids of the spans that a node is, ascending; maybe none.

        Notes
        -----
        Looks at the names of all spans: 60 ms for 33 million of them.
        """
        graph, row = self._locate(node)
        names = [m.names[m.node == row] for m in self._matches if m.graph == graph]
        is_name = np.zeros(len(self.found) + 1, np.bool_)
        for some in names:
            is_name[some] = True
        if not is_name.any():
            return empty(np.int64)
        maybe = _named(self._trace.spans.name, is_name)
        is_node = self.nodes_of(maybe)[0] == node
        return np.ascontiguousarray(maybe[is_node])

    def recorded(self) -> dict[int, tuple[npt.NDArray[np.bool_], list[int]]]:
        """Return of each graph that spans were found in which nodes they are.

        And the op numbers of spans of its passes that were found nowhere.
        """
        by_graph: dict[int, tuple[npt.NDArray[np.bool_], list[int]]] = {}
        for match in self._matches:
            n = int(np.diff(self._first_node)[match.graph])
            nodes, lost = by_graph.setdefault(match.graph, (np.zeros(n, np.bool_), []))
            nodes[match.node[match.node >= 0]] = True
            lost += match.lost
        return {number: one for number, one in by_graph.items() if one[0].any()}

    def rules_of(self, node: int) -> tuple[Rule, ...]:
        """Return the rules by which spans were found to be a node, best first."""
        graph, row = self._locate(node)
        rules = {
            int(rule)
            for match in self._matches
            if match.graph == graph
            for rule in np.unique(match.rule[match.node == row]).tolist()
        }
        return tuple(Rule(rule) for rule in sorted(rules))

    def _locate(self, node: int) -> tuple[int, int]:
        """Return (graph, row in it) of a node id; (-1, -2) for no such node."""
        if not 0 <= node < int(self._first_node[-1]):
            return -1, -2
        graph = int(np.searchsorted(self._first_node, node, "right")) - 1
        return graph, node - int(self._first_node[graph])


def _named(names: Array, is_requested: npt.NDArray[np.bool_]) -> I64:
    """Return the ids of the spans whose name (string id) is given, ascending."""
    ids_of: dict[int, I64] = {}

    def search(_: int, rows: slice) -> None:
        ids_of[rows.start] = np.flatnonzero(is_requested[names[rows]]) + rows.start

    share_out(search, chunks(len(names)))
    return np.concatenate([np.zeros(0, np.int64), *(ids_of[k] for k in sorted(ids_of))])


def correlate(trace: Trace, watcher: Watcher | None = None) -> Correlation | None:
    """Return which spans are which nodes; None where there is no graph or no span.

    Raises
    ------
    Cancelled
        From the watcher.

    Notes
    -----
    Matches each distinct run once (`sessions.runs`); the rest is one look at the
    columns of names and ops.
    """
    if not trace.graphs or not len(trace.spans):
        return None
    runs = runs_of(trace)
    if not len(runs):
        return None
    graph_of_run, is_borrowed = _graphs_of_runs(trace, runs)
    hashes = run_hashes(trace, runs, watcher).view(np.int64)
    keys = np.stack([hashes, np.diff(runs.first), graph_of_run])
    _, leader, match_of_run = np.unique(
        keys, axis=1, return_index=True, return_inverse=True
    )
    match_of_run = match_of_run.reshape(-1).astype(np.int32)
    bases = BaseNames(trace)
    are_sources = trace.claims is not None and not trace.claims.has_results
    matches: list[Match] = []
    is_matched_name = np.zeros(len(trace.strings) + 1, np.bool_)
    for run in leader.tolist():
        if watcher is not None:
            watcher.progress(len(matches), len(leader))
        ids = runs.of_run(run)
        number = int(graph_of_run[run])
        names, ops = trace.spans.name[ids], trace.spans.op[ids]
        match = match_run(
            names, ops, trace.graphs[number], number, bases, are_sources=are_sources
        )
        is_matched_name[names[match.node >= 0]] = True
        matches.append(match)
    return _counted(
        trace, runs, match_of_run, matches, is_matched_name[:-1], is_borrowed
    )


def _counted(
    trace: Trace,
    runs: Runs,
    match_of_run: Array,
    matches: list[Match],
    is_matched: npt.NDArray[np.bool_],
    is_borrowed: npt.NDArray[np.bool_],
) -> Correlation:
    """Return the correlation with its counts."""
    times = np.bincount(match_of_run, minlength=len(matches))
    borrowed = np.bincount(match_of_run[is_borrowed], minlength=len(matches))
    n_rules = np.stack([np.bincount(m.rule, minlength=len(Rule)) for m in matches])
    per_rule = times @ n_rules
    n_ops = np.array([m.n_ops for m in matches], np.int64)
    first = [first_node(trace.graphs, i) for i in range(len(trace.graphs))]
    total = first_node(trace.graphs, len(trace.graphs))
    return Correlation(
        rules={r.text: int(per_rule[r]) for r in Rule if r and per_rule[r]},
        n_found=int(per_rule[1:].sum()),
        n_all=int((times * n_ops).sum()),
        n_borrowed=int((borrowed * n_ops).sum()),
        found=is_matched,
        _trace=trace,
        _runs=runs,
        _match_of_run=match_of_run,
        _matches=tuple(matches),
        _first_node=np.array([*first, total], np.int64),
    )


def _graphs_of_runs(trace: Trace, runs: Runs) -> tuple[I64, npt.NDArray[np.bool_]]:
    """Return the graph to look for each run in, and whether it is another token's.

    One graph serves all passes. Of several, a run takes the one of its token; where
    all passes claim one token, and graphs count on, the one of its pass. Else the
    nearest earlier graph, or the first: graphs of one run look alike.
    """
    n = len(runs)
    if len(trace.graphs) == 1:
        return np.zeros(n, np.int64), np.zeros(n, np.bool_)
    tokens = np.array([graph.token for graph in trace.graphs], np.int64)
    numbers = run_tokens(trace, runs)
    has_tokens = len(np.unique(numbers)) >= min(2, len(np.unique(runs.number)))
    if not has_tokens or not np.isin(numbers, tokens).any():
        numbers = runs.number
    if (tokens < 0).any():  # graphs without a number follow each other
        tokens = np.arange(len(tokens), dtype=np.int64)
    order = np.argsort(tokens, kind="stable")
    at = np.searchsorted(tokens[order], numbers, "right") - 1
    chosen = order[np.maximum(at, 0)]
    return chosen, tokens[chosen] != numbers


def graph_join(
    trace: Trace, correlation: Correlation | None = None, part: str = ""
) -> MatchReport | None:
    """Return how many ops of the trace were found in its graphs; None without any.

    Parameters
    ----------
    correlation : of the trace, where it is known already.
    part : name of the file with the graphs; "" takes it from the trace's parts.
    """
    known = correlate(trace) if correlation is None else correlation
    if known is None or not known.n_all:
        return None
    if not part:
        files = [p.info.paths[0].name for p in trace.parts if p.role == "graph"]
        part = ", ".join(files) or trace.graphs[0].title
    return MatchReport("graph", part, known.n_found, known.n_all, known.rules)


def node_text(trace: Trace, node: int) -> str:
    """Return "Qcur-0 (ROPE) in token 0": what people read of a node."""
    number, row = locate_node(trace.graphs, node)
    graph = trace.graphs[number]
    name = trace.strings[int(graph.name[row])] or "–"
    op = trace.op_name(int(graph.op[row]))
    where = graph.title or (f"token {graph.token}" if graph.token >= 0 else "the graph")
    return f"{name} ({op}) in {where}" if op else f"{name} in {where}"
