"""Correlation: which span is which node of the computation graph.

Spans and nodes are the same where their names, ops and order within a pass agree.
Records that name what an op reads, and not what it computes, are found by the edges.
Addresses are never compared: a graph prints those of ``ggml_tensor`` objects, a trace
those of their data.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import chunks
from ggscope.analysis.correlate_match import BaseNames, Match, Rule, match_run
from ggscope.analysis.correlate_runs import Runs, run_hashes, run_tokens, runs_of
from ggscope.analysis.workers import Watcher, share_out
from ggscope.model.graph import first_node, locate_node
from ggscope.model.tables import I64, Array, empty
from ggscope.model.trace import Join, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Correlation:
    """Spans of a trace and nodes of its graphs, matched.

    Attributes
    ----------
    rules : how many spans were found by which rule, in the words of `Rule`, in the
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
        for number in np.unique(which).tolist():
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
        wanted = np.zeros(len(self.found) + 1, np.bool_)
        for some in names:
            wanted[some] = True
        if not wanted.any():
            return empty(np.int64)
        maybe = _named(self._trace.spans.name, wanted)
        is_node = self.nodes_of(maybe)[0] == node
        return np.ascontiguousarray(maybe[is_node])

    def recorded(self) -> dict[int, tuple[npt.NDArray[np.bool_], list[int]]]:
        """Return of each graph that spans were found in which nodes they are.

        And the op numbers of spans of its passes that were found nowhere.
        """
        found: dict[int, tuple[npt.NDArray[np.bool_], list[int]]] = {}
        for match in self._matches:
            n = int(np.diff(self._first_node)[match.graph])
            nodes, lost = found.setdefault(match.graph, (np.zeros(n, np.bool_), []))
            nodes[match.node[match.node >= 0]] = True
            lost += match.lost
        return {number: one for number, one in found.items() if one[0].any()}

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


def _named(names: Array, wanted: npt.NDArray[np.bool_]) -> I64:
    """Return the ids of the spans whose name (string id) is wanted, ascending."""
    found: dict[int, I64] = {}

    def look(_: int, rows: slice) -> None:
        found[rows.start] = np.flatnonzero(wanted[names[rows]]) + rows.start

    share_out(look, chunks(len(names)))
    return np.concatenate([np.zeros(0, np.int64), *(found[k] for k in sorted(found))])


def correlate(trace: Trace, watcher: Watcher | None = None) -> Correlation | None:
    """Return which spans are which nodes; None where there is no graph or no span.

    Raises
    ------
    Cancelled
        From the watcher.

    Notes
    -----
    Matches each distinct run once (`correlate_runs`); the rest is one look at the
    columns of names and ops.
    """
    if not trace.graphs or not len(trace.spans):
        return None
    runs = runs_of(trace)
    if not len(runs):
        return None
    graph_of_run, is_borrowed = _graphs_of_runs(trace, runs)
    lengths = np.diff(runs.first)
    keys = np.stack(
        [
            run_hashes(trace, runs, watcher).view(np.int64),
            lengths,
            graph_of_run,
        ]
    )
    _, leader, match_of_run = np.unique(
        keys, axis=1, return_index=True, return_inverse=True
    )
    match_of_run = match_of_run.reshape(-1).astype(np.int32)
    bases = BaseNames(trace)
    are_sources = trace.claims is not None and not trace.claims.has_results
    matches: list[Match] = []
    found = np.zeros(len(trace.strings) + 1, np.bool_)
    for run in leader.tolist():
        if watcher is not None:
            watcher.progress(len(matches), len(leader))
        ids = runs.of_run(run)
        number = int(graph_of_run[run])
        names, ops = trace.spans.name[ids], trace.spans.op[ids]
        match = match_run(
            names, ops, trace.graphs[number], number, bases, are_sources=are_sources
        )
        found[names[match.node >= 0]] = True
        matches.append(match)
    return _counted(trace, runs, match_of_run, matches, found[:-1], is_borrowed)


def _counted(
    trace: Trace,
    runs: Runs,
    match_of_run: Array,
    matches: list[Match],
    found: npt.NDArray[np.bool_],
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
        rules={r.words: int(per_rule[r]) for r in Rule if r and per_rule[r]},
        n_found=int(per_rule[1:].sum()),
        n_all=int((times * n_ops).sum()),
        n_borrowed=int((borrowed * n_ops).sum()),
        found=found,
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
    wanted = run_tokens(trace, runs)
    is_told = len(np.unique(wanted)) >= min(2, len(np.unique(runs.number)))
    if not is_told or not np.isin(wanted, tokens).any():
        wanted = runs.number
    if (tokens < 0).any():  # graphs without a number follow each other
        tokens = np.arange(len(tokens), dtype=np.int64)
    order = np.argsort(tokens, kind="stable")
    at = np.searchsorted(tokens[order], wanted, "right") - 1
    chosen = order[np.maximum(at, 0)]
    return chosen, tokens[chosen] != wanted


def graph_join(
    trace: Trace, correlation: Correlation | None = None, part: str = ""
) -> Join | None:
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
    return Join("graph", part, known.n_found, known.n_all, known.rules)


def node_words(trace: Trace, node: int) -> str:
    """Return "Qcur-0 (ROPE) in token 0": what people read of a node."""
    number, row = locate_node(trace.graphs, node)
    graph = trace.graphs[number]
    name = trace.strings[int(graph.name[row])] or "–"
    op = trace.op_name(int(graph.op[row]))
    where = graph.title or (f"token {graph.token}" if graph.token >= 0 else "the graph")
    return f"{name} ({op}) in {where}" if op else f"{name} in {where}"


__all__ = ["Correlation", "Rule", "correlate", "graph_join", "node_words"]
