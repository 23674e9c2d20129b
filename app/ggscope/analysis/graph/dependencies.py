"""Dependencies of the ops of a pass: who computes what an op reads.

By the edges of a graph where the ops are found in one, by what the trace records as
dependencies of spans, else by the names of what ops read and write. Never from one
pass to another, and never where a name may mean several results: that is listed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.graph.op_links import (
    NO_LINKS,
    EdgeSource,
    NoEdges,
    NoPass,
    NoProducer,
    OpenRead,
    OpLink,
    OpLinks,
)
from ggscope.analysis.graph.pass_ops import PassOps, pass_ops
from ggscope.analysis.reads.op_io import Direction, directions_of
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.summary.partial import hidden_ops
from ggscope.model.ggml.rules import VIEW_OPS
from ggscope.model.graph import Graph, NodeFlag, first_node
from ggscope.model.names import normalise
from ggscope.model.tables import I64, AccessColumns, Space, SpanFlag, looked_up
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class PassEdges:
    """Dependencies of the ops of a pass.

    Attributes
    ----------
    ops : of the pass.
    source, target : int64[m], positions of producer and reader, by (target, source);
        each pair once.
    how : uint8[m], `EdgeSource`.
    open : what is read of unknown producers; weights of the model are not listed.
    unknown : why there are no edges at all; None where there may be.
    """

    ops: PassOps
    source: I64
    target: I64
    how: npt.NDArray[np.uint8]
    open: tuple[OpenRead, ...]
    unknown: NoEdges | None = None

    def inputs(self, position: int) -> I64:
        """Return the edges that lead to an op, in the order of the producers."""
        return np.flatnonzero(self.target == position)

    def consumers(self, position: int) -> I64:
        """Return the edges that lead from an op, in the order of the readers."""
        return np.flatnonzero(self.source == position)


Bools = npt.NDArray[np.bool_]
_last: DerivedCache[Trace, tuple[tuple[str, int], int, PassEdges]] = DerivedCache(
    "dependencies of the last pass"
)


def pass_edges(
    trace: Trace, span: int, correlation: Correlation | None
) -> PassEdges | NoPass:
    """Return the dependencies of the ops of the pass that a span is of.

    Parameters
    ----------
    span : an op, or the span of a token, ubatch or graph.
    correlation : spans and graph nodes of the trace; None = edges of graphs are not
        used.

    Notes
    -----
    O(spans + reads of the pass); that of the last pass is cached.
    """
    ops = pass_ops(trace, span)
    if isinstance(ops, NoPass):
        return ops
    last = _last.get(trace)
    if last is not None and last[:2] == (ops.key, id(correlation)):
        return last[2]
    made = _Search(trace, ops, correlation).edges()
    _last[trace] = ops.key, id(correlation), made
    return made


def op_links(trace: Trace, span: int, correlation: Correlation | None) -> OpLinks:
    """Return what the op of a span reads of other ops, and who reads its result.

    Where no pass shows that, what the trace records as dependencies of the span.
    """
    if not 0 <= span < len(trace.spans):
        return NO_LINKS
    if int(trace.spans.op[span]) < 0:
        return _recorded_links(trace, span) or NO_LINKS
    edges = pass_edges(trace, span, correlation)
    if isinstance(edges, NoPass):
        return _recorded_links(trace, span) or OpLinks(span, unknown=edges)
    at = edges.ops.position(span)
    if at < 0 or edges.unknown is not None:
        unknown = edges.unknown or NoPass.OUTSIDE
        return _recorded_links(trace, span) or OpLinks(span, unknown=unknown)
    lane = int(trace.spans.lane[span])

    def links(which: I64, ends: I64) -> tuple[OpLink, ...]:
        return tuple(
            OpLink(
                edges.ops.span_on(trace, int(ends[edge]), lane),
                EdgeSource(int(edges.how[edge])),
            )
            for edge in which.tolist()
        )

    return OpLinks(
        span,
        links(edges.inputs(at), edges.source),
        links(edges.consumers(at), edges.target),
        tuple(read for read in edges.open if read.op == at),
    )


def _recorded_links(trace: Trace, span: int) -> OpLinks | None:
    """Return the recorded dependencies of a span, by time; None where it has none."""
    flows, start = trace.flows, trace.spans.start
    sources = flows.source[flows.target == span]
    targets = flows.target[flows.source == span]
    if not len(sources) and not len(targets):
        return None

    def links(spans: I64) -> tuple[OpLink, ...]:
        ordered = spans[np.argsort(start[spans], kind="stable")]
        return tuple(OpLink(i, EdgeSource.RECORDED) for i in ordered.tolist())

    return OpLinks(span, links(sources), links(targets))


class _Search:
    """Collects the edges of one pass.

    Loops over the ops of the pass and what they read: each needs what was written
    before it.
    """

    def __init__(
        self, trace: Trace, ops: PassOps, correlation: Correlation | None
    ) -> None:
        self._trace, self._ops = trace, ops
        self._edges: dict[tuple[int, int], EdgeSource] = {}
        self._open: dict[tuple[int, str], OpenRead] = {}
        self._nodes: I64 = np.full(len(ops.ops), -1, np.int64)
        if correlation is not None and len(ops.ops):
            self._nodes = correlation.nodes_of(ops.ops)[0]

    def edges(self) -> PassEdges:
        """Return all that is known."""
        trace, ops = self._trace, self._ops
        by_name = self._nodes < 0
        has_names = len(trace.accesses.patterns) > 0 and _has_results(trace)
        has_writers = trace.accesses.writer is not None
        is_hidden = has_names and bool(hidden_ops(trace))
        if not by_name.all():
            self._by_graphs()
        self._by_writers()
        self._by_flows()
        if has_names and not is_hidden:
            self._by_names(by_name)
        unknown: NoEdges | None = None
        has_evidence = has_writers or bool(self._edges) or not by_name.all()
        if not has_evidence and (is_hidden or not has_names):
            unknown = NoEdges.OPS_HIDDEN if is_hidden else NoEdges.NO_SOURCES
        pairs = sorted(self._edges, key=lambda pair: (pair[1], pair[0]))
        source, target = np.array(pairs, np.int64).reshape(-1, 2).T
        how = [self._edges[pair] for pair in pairs]
        return PassEdges(
            ops,
            source.copy(),
            target.copy(),
            np.array(how, np.uint8),
            tuple(self._open[key] for key in sorted(self._open)),
            unknown,
        )

    def _add(self, source: int, target: int, how: EdgeSource) -> None:
        if source != target:
            self._edges.setdefault((source, target), how)

    def _leave_open(
        self, op: int, name: str, why: NoProducer, n_writers: int = 0
    ) -> None:
        self._open.setdefault((op, name), OpenRead(op, name, why, n_writers))

    # -- edges of graphs -----------------------------------------------------

    def _by_graphs(self) -> None:
        """Follow the edges of the graph that each op is a node of."""
        graphs = self._trace.graphs
        for number, graph in enumerate(graphs):
            first = first_node(graphs, number)
            row = self._nodes - first
            of_graph = np.flatnonzero((row >= 0) & (row < len(graph)))
            if len(of_graph):
                self._by_graph(graph, of_graph, row[of_graph])

    def _by_graph(self, graph: Graph, positions: I64, rows: I64) -> None:
        """Add the edges between ops that are nodes of one graph."""
        count = np.bincount(rows, minlength=len(graph))
        op_of = np.full(len(graph), -1, np.int64)
        op_of[rows] = positions
        sources = _sources(graph)
        self._map_fused(graph, sources, positions, rows, op_of)
        for position, row in zip(positions.tolist(), rows.tolist(), strict=True):
            if count[row] > 1:
                name = self._node_name(graph, row)
                self._leave_open(position, name, NoProducer.AMBIGUOUS, int(count[row]))
                continue
            for producer in self._producers(graph, row, sources, op_of, position):
                if count[producer] > 1:
                    name, n = self._node_name(graph, producer), int(count[producer])
                    self._leave_open(position, name, NoProducer.AMBIGUOUS, n)
                elif op_of[producer] >= 0:
                    self._add(int(op_of[producer]), position, EdgeSource.GRAPH)
                else:
                    name = self._node_name(graph, producer)
                    self._leave_open(position, name, NoProducer.NOT_RECORDED)

    def _map_fused(
        self,
        graph: Graph,
        sources: list[list[int]],
        positions: I64,
        rows: I64,
        op_of: I64,
    ) -> None:
        """Let the node that ran within a span before it be of the same op."""
        flags = self._trace.spans.flags[self._ops.ops[positions]].astype(np.int64)
        for at in np.flatnonzero((flags & int(SpanFlag.FUSED)) != 0).tolist():
            row = int(rows[at])
            after = np.flatnonzero(graph.op[row + 1 :] >= 0)
            if not len(after):
                continue
            fused = row + 1 + int(after[0])
            if op_of[fused] < 0 and row in sources[fused]:
                op_of[fused] = int(positions[at])

    def _producers(
        self,
        graph: Graph,
        row: int,
        sources: list[list[int]],
        op_of: I64,
        position: int,
    ) -> Iterator[int]:
        """Yield the computed nodes that a node reads, seen through its views.

        And those that the node which ran within the same span reads.
        """
        mine = [row]
        mine += [i for i in np.flatnonzero(op_of == position).tolist() if i != row]
        waiting = [source for node in mine for source in sources[node]]
        seen = set(mine)
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            op = int(graph.op[node])
            if op_of[node] >= 0:
                yield node
            elif op >= 0 and self._trace.op_name(op) in VIEW_OPS:
                waiting += sources[node]
            elif not int(graph.flags[node]) & _NOT_COMPUTED:
                yield node

    def _node_name(self, graph: Graph, row: int) -> str:
        return self._trace.strings[int(graph.name[row])]

    # -- names -----------------------------------------------------------------

    def _by_names(self, is_reader: Bools) -> None:
        """Match what ops read with what earlier ops of the pass wrote, by name.

        Of the other ops, which a graph shows, only what they read through memory:
        no edge leads from what is written into the KV cache to who reads it there.
        """
        written_to: set[str] = set()
        writers: dict[str, list[int]] = {}
        reads: dict[str, list[tuple[int, int, int]]] = {}
        for position, span in enumerate(self._ops.ops.tolist()):
            for name, address in self._reads(span):
                n_before = len(writers.get(name, ()))
                reads.setdefault(name, []).append((position, n_before, address))
            destinations = self._destinations(span)
            written_to |= destinations
            for name in self._results(span) | destinations:
                writers.setdefault(name, []).append(position)
        # Where writers are recorded, what has none is an input.
        is_input_known = self._trace.accesses.writer is not None
        for name, of_name in reads.items():
            writing = writers.get(name, [])
            certain = _certain_reads(of_name)
            for (position, n_before, _), is_certain in zip(
                of_name, certain, strict=True
            ):
                if is_certain and (is_reader[position] or name in written_to):
                    self._add(writing[n_before - 1], position, EdgeSource.NAME)
                elif not is_reader[position]:
                    continue
                elif n_before:
                    self._leave_open(position, name, NoProducer.AMBIGUOUS, n_before)
                elif not is_input_known:
                    self._leave_open(position, name, NoProducer.NOT_WRITTEN)

    def _reads(self, span: int) -> Iterator[tuple[str, int]]:
        """Yield name and address (0 none) of what a span reads, but for weights.

        And but for results whose op is recorded.
        """
        what, writer = self._trace.accesses.of_span(span), self._writers(span)
        for row in self._read_rows(span, what):
            if (name := self._base_name(what, row)) and writer[row] < 0:
                yield name, int(what.address[row])

    def _read_rows(self, span: int, what: AccessColumns) -> Iterator[int]:
        """Yield the accesses of a span that read something else than a weight."""
        directions = directions_of(self._trace, span, what)
        for row, direction in enumerate(directions):
            is_weight = int(what.space[row]) == Space.FILE
            if direction is Direction.READ and not is_weight:
                yield row

    def _base_name(self, what: AccessColumns, row: int) -> str:
        trace, tensor = self._trace, int(what.tensor[row])
        name = int(trace.tensors.name[tensor]) if tensor >= 0 else -1
        return normalise(trace.strings[name])

    def _writers(self, span: int) -> list[int]:
        """Return the pattern whose op wrote each access of a span; -1 not recorded."""
        accesses = self._trace.accesses
        pattern = int(accesses.pattern[span]) if len(accesses.pattern) else -1
        if pattern < 0:
            return []
        low, high = int(accesses.first[pattern]), int(accesses.first[pattern + 1])
        if accesses.writer is None:
            return [-1] * (high - low)
        writers: list[int] = accesses.writer[low:high].tolist()
        return writers

    def _by_writers(self) -> None:
        """Add the ops that are recorded to have computed what an op reads."""
        accesses = self._trace.accesses
        if accesses.writer is None:
            return
        ops_of: dict[int, list[int]] = {}
        for position, pattern in enumerate(accesses.pattern[self._ops.ops].tolist()):
            ops_of.setdefault(pattern, []).append(position)
        for position, span in enumerate(self._ops.ops.tolist()):
            what, writer = accesses.of_span(span), self._writers(span)
            for row in self._read_rows(span, what):
                if writer[row] < 0:
                    continue
                writers, name = ops_of.get(writer[row], []), self._base_name(what, row)
                if len(writers) == 1:
                    self._add(writers[0], position, EdgeSource.RECORDED)
                elif writers:
                    n = len(writers)
                    self._leave_open(position, name, NoProducer.AMBIGUOUS, n)
                else:
                    self._leave_open(position, name, NoProducer.NOT_RECORDED)

    def _results(self, span: int) -> set[str]:
        """Return the names of what a span computes."""
        trace, own = self._trace, self._trace.spans.tensor
        names = {trace.strings[int(trace.spans.name[span])]}
        if own is not None and own[span] >= 0:
            names.add(trace.strings[int(trace.tensors.name[own[span]])])
        return {base for name in names if (base := normalise(name))}

    def _destinations(self, span: int) -> set[str]:
        """Return the names of the tensors that a span writes to."""
        what = self._trace.accesses.of_span(span)
        directions = directions_of(self._trace, span, what)
        names = [
            self._base_name(what, row)
            for row, direction in enumerate(directions)
            if direction is Direction.WRITE
        ]
        return {name for name in names if name}

    # -- recorded dependencies -----------------------------------------------------

    def _by_flows(self) -> None:
        """Add the dependencies that the trace records between spans of the pass."""
        flows, ops = self._trace.flows, self._ops
        order = np.argsort(ops.spans, kind="stable")
        ends = [
            looked_up(ops.spans[order], ops.op[order], column)
            for column in (flows.source, flows.target)
        ]
        inside = (ends[0] >= 0) & (ends[1] >= 0)
        for source, target in zip(
            ends[0][inside].tolist(), ends[1][inside].tolist(), strict=True
        ):
            self._add(source, target, EdgeSource.RECORDED)


_NOT_COMPUTED = int(NodeFlag.LEAF | NodeFlag.UNDECLARED)


def _has_results(trace: Trace) -> bool:
    """Return whether the names of spans are those of what ops compute."""
    return trace.claims is None or trace.claims.has_results


def _sources(graph: Graph) -> list[list[int]]:
    """Return the nodes that each node reads."""
    sources: list[list[int]] = [[] for _ in range(len(graph))]
    for source, target in zip(
        graph.source.tolist(), graph.target.tolist(), strict=True
    ):
        sources[target].append(source)
    return sources


def _certain_reads(reads: list[tuple[int, int, int]]) -> list[bool]:
    """Return which reads of a name are surely of what was written last.

    Parameters
    ----------
    reads : (reader, number of ops that wrote the name before it, address) each, in the
        order of time; 0 = no address.

    Notes
    -----
    A name that one op has written before is certain. Where several have, each result
    has a reader, or ggml would not compute it: before the next op writes the name,
    unless a later read may be of it. So a lone read until then is of the last result,
    and so are several of one place in memory, where earlier results are overwritten.
    """
    places: dict[int, list[int]] = {}
    for _, n_before, address in reads:
        places.setdefault(n_before, []).append(address)
    is_certain: dict[int, bool] = {0: False}
    are_later_certain = True
    for n_before in sorted(places, reverse=True):
        here = places[n_before]
        is_one_place = len(here) == 1 or (len(set(here)) == 1 and here[0] != 0)
        certain = n_before == 1 or (is_one_place and are_later_certain)
        is_certain[n_before] = certain and n_before > 0
        are_later_certain = are_later_certain and certain
    return [is_certain[n_before] for _, n_before, _ in reads]
