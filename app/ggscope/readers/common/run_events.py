"""What a traced program did besides its ops: graphs, ubatches, calls and copies.

While it runs its ring states this, afterwards the sidecar of its recording; both become
the same spans.
"""

from dataclasses import dataclass, field

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import SpanFlag, Spans
from ggscope.model.trace import LaneKind
from ggscope.model.units import format_count
from ggscope.readers.common.ubatches import UbatchTokens, phase_of

FAR = 1 << 61
"""Later times are damage."""
HOST_NAMES = ("", "decode", "compute", "allocate", "set inputs", "get outputs",
              "synchronize", "sample", "reset")  # fmt: skip
_MAX_BACKENDS = 1 << 8
_CPU = "CPU"
"""What ggml calls the backend that every program has."""
_UNFINISHED, _ESTIMATED = int(SpanFlag.UNFINISHED), int(SpanFlag.ESTIMATED)
_MAX_OPEN = 1 << 8
"""Ubatches that are computed at once."""
_MAX_HELD = 1 << 16
"""Spans of the only sequence of a context that wait for another sequence."""
_KEPT_GRAPHS = 1 << 12
"""Records come soon after their graph began: older graphs are forgotten."""


@dataclass(frozen=True, slots=True)
class RunGraph:
    """A graph that is computed: where its nodes stand, and what it is part of."""

    first: int
    n_nodes: int
    begin: int
    token: int
    phase: int
    lane: int
    name: str = "graph"


@dataclass(slots=True)
class _Ubatch:
    """What is computed at once: from when to when, in how many graphs just now.

    Attributes
    ----------
    is_asynchronous : whether a backend may go on with it after the last call.
    has_result : whether the program has waited for such a backend.
    """

    begin: int
    end: int
    phase: int
    lane: int
    n_open: int = 0
    is_asynchronous: bool = False
    has_result: bool = False

    @property
    def flags(self) -> int:
        """How far its end can be trusted, as `SpanFlag`."""
        if self.n_open:
            return _UNFINISHED
        is_guess = self.is_asynchronous and not self.has_result
        return _ESTIMATED if is_guess else 0


@dataclass(slots=True)
class _Sequences:
    """The sequences of a context: which there are, and spans until there are two.

    A context with one sequence needs no lane for it: its ubatches are all there is.
    """

    known: set[int] = field(default_factory=set)
    held: list[tuple[int, int, int, str, int, int, int]] | None = field(
        default_factory=list
    )


class RunEvents:
    """Lanes and spans of a run, added to a builder. Times are ticks of its clock.

    Attributes
    ----------
    graphs : those that records may name, by their number.
    n_ubatches : that have begun.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self.graphs: dict[int, RunGraph] = {}
        self._open: dict[int, RunGraph] = {}
        self._ubatches: dict[int, _Ubatch] = {}
        self._inputs: dict[int, UbatchTokens] = {}
        self._contexts: dict[int, int] = {}
        self._sequences: dict[int, _Sequences] = {}
        self.n_ubatches = 0
        self._backends: dict[int, str] = {}
        self._backend_names: dict[int, str] = {}
        self._n_graphs: dict[int, int] = {}
        self._self_test = ""
        # Lanes of the trace by what they are for.
        self._lanes: dict[tuple[str, int], int] = {}
        # Spans that come one by one, until they are added together.
        self._single: list[tuple[int, int, int, int, int, int, int]] = []

    # -- lanes -------------------------------------------------------------

    def lane(
        self,
        kind: str,
        number: int,
        name: str,
        lane_kind: LaneKind,
        group: tuple[str, ...] = (),
        **attributes: str,
    ) -> int:
        """Return a lane of the trace, made where it is new."""
        lane = self._lanes.get((kind, number))
        if lane is None:
            lane = self._builder.add_lane(
                name, lane_kind, group, (number,), **attributes
            )
            self._lanes[kind, number] = lane
        return lane

    def thread(self, number: int, slot: int, index: int) -> int:
        """Return the lane of a thread; `number` distinguishes it from all others."""
        group = _group(slot)
        return self.lane("thread", number, f"thread {index}", LaneKind.THREAD, group)

    def _of_ubatches(self) -> int:
        return self.lane("ubatches", 0, "ubatches", LaneKind.TOKEN)

    def _of_sequence(self, context: int, sequence: int) -> int:
        group = (f"Sequences of context {context}",) if context else ("Sequences",)
        number = context << 16 | sequence
        name = f"sequence {sequence}"
        return self.lane("sequence", number, name, LaneKind.SEQUENCE, group)

    # -- what happened -----------------------------------------------------

    def begin_graph(
        self,
        number: int,
        nodes: tuple[int, int],
        tick: int,
        *,
        token: int,
        phase: int,
        slot: int,
        split: int = 0,
        backend: int = 0,
    ) -> RunGraph:
        """Note that a graph began; return it.

        Parameters
        ----------
        nodes : first row of its nodes, and how many they are.
        token : number of its ubatch; -1 where that is not known.
        phase : as a tracer numbers it; that of its ubatch goes before.
        split : number within a computation that is split between backends.
        backend : number of the one that computes it; 0 = not stated.
        """
        self.count_graph(backend)
        lane = self.lane("graphs", slot, "graphs", LaneKind.GRAPH, _group(slot))
        inputs = self._inputs.get(token)
        phase = phase_of(phase) if inputs is None else inputs.phase
        name = self._graph_name(split, backend)
        graph = RunGraph(*nodes, tick, token, phase, lane, name)
        self._open[number] = graph
        if len(self.graphs) > _KEPT_GRAPHS:  # no record will name the oldest ones
            for old in list(self.graphs)[: _KEPT_GRAPHS // 2]:
                del self.graphs[old]
        self.graphs[number] = graph
        if token >= 0:
            for other, known in list(self._ubatches.items()):
                if other != token and not known.n_open and known.lane == lane:
                    self._end_ubatch(other)
            ubatch = self._ubatches.get(token)
            if ubatch is None:
                ubatch = self._ubatches[token] = _Ubatch(tick, tick, phase, lane)
                self.n_ubatches += 1
            ubatch.n_open += 1
            ubatch.is_asynchronous |= self._is_other(backend)
            if len(self._ubatches) > _MAX_OPEN:  # ends were lost
                self._end_ubatch(next(iter(self._ubatches)))
        return graph

    def _is_other(self, backend: int) -> bool:
        """Return whether another backend than the CPU's is known to compute."""
        return self._backend_names.get(backend, _CPU) not in (_CPU, "")

    def _graph_name(self, split: int, backend: int) -> str:
        """Return "graph · split 1 · Vulkan0"; graphs of the CPU need no name for it."""
        parts = ["graph", f"split {split}" if split else ""]
        if self._is_other(backend):
            parts.append(self._backend_names[backend])
        return " · ".join(filter(None, parts))

    def synchronize(self, ubatch: int, begin: int, end: int) -> None:
        """Note that the program waited until all backends were done with a ubatch.

        The first such call behind its graphs is its end, where a backend may go on
        when the call that starts a graph has returned.
        """
        begun = self._ubatches.get(ubatch)
        if begun is None or begun.n_open or not begun.is_asynchronous:
            return
        if not begun.has_result and begin >= begun.end:
            begun.end, begun.has_result = max(begin, end), True

    def end_graph(self, number: int, tick: int) -> None:
        """Note that a graph ended."""
        graph = self._open.pop(number, None)
        if graph is None:
            return
        end = max(tick, graph.begin)
        self.add(
            graph.begin,
            end,
            graph.lane,
            graph.name,
            token=graph.token,
            phase=graph.phase,
        )
        ubatch = self._ubatches.get(graph.token)
        if ubatch is not None:
            ubatch.n_open -= 1
            ubatch.end = max(ubatch.end, end)

    def add_ubatch(self, number: int, tokens: UbatchTokens) -> None:
        """Note what a ubatch computes, before its graphs begin.

        It may be defined again while it is computed: the last word counts.
        """
        if not len(tokens):
            return
        if len(self._inputs) > _KEPT_GRAPHS:  # graphs of the oldest were lost
            for old in list(self._inputs)[: _KEPT_GRAPHS // 2]:
                self._put_tokens(old)
        self._inputs[number] = tokens

    def _name_of(self, number: int, inputs: UbatchTokens | None) -> str:
        arguments = "" if inputs is None else inputs.text()
        return f"ubatch {number} · {arguments}" if arguments else f"ubatch {number}"

    def _end_ubatch(self, number: int) -> None:
        begun = self._ubatches.pop(number)
        inputs = self._put_tokens(number)
        phase = begun.phase if inputs is None else inputs.phase
        name = self._name_of(number, inputs)
        self.add(
            begun.begin, begun.end, self._of_ubatches(), name, begun.flags, number,
            phase,
        )  # fmt: skip
        if inputs is not None:
            self._add_sequences(number, begun, inputs)

    def _put_tokens(self, number: int) -> UbatchTokens | None:
        """Give the builder the tokens of a ubatch; return them where they are known."""
        inputs = self._inputs.pop(number, None)
        if inputs is not None:
            context = self._context(inputs)
            table = inputs.table(number, context)
            self._builder.add_tokens(table, inputs.counts, inputs.sequences)
        return inputs

    def _context(self, inputs: UbatchTokens) -> int:
        return self._contexts.setdefault(inputs.context, len(self._contexts))

    def _add_sequences(
        self, number: int, ubatch: _Ubatch, inputs: UbatchTokens
    ) -> None:
        """Add a span for each sequence of a ubatch, on a lane of its own."""
        context = self._context(inputs)
        of_context = self._sequences.setdefault(context, _Sequences())
        rows = np.repeat(np.arange(len(inputs)), inputs.counts)
        for sequence in np.unique(inputs.sequences).tolist():
            mine = rows[inputs.sequences == sequence]
            phases = np.unique(inputs.phases[mine])
            phase = int(phases[0]) if len(phases) == 1 else -1
            span = (
                ubatch.begin, ubatch.end, sequence, inputs.text(mine), ubatch.flags,
                number, phase,
            )  # fmt: skip
            of_context.known.add(sequence)
            if of_context.held is None:
                self._add_sequence(context, *span)
            else:
                of_context.held.append(span)
        if of_context.held is None or len(of_context.known) < 2:
            if of_context.held is not None:
                del of_context.held[:-_MAX_HELD]
            return
        held, of_context.held = of_context.held, None
        for span in held:
            self._add_sequence(context, *span)

    def _add_sequence(
        self,
        context: int,
        begin: int,
        end: int,
        sequence: int,
        name: str,
        flags: int,
        token: int,
        phase: int,
    ) -> None:
        lane = self._of_sequence(context, sequence)
        self.add(begin, end, lane, name, flags, token, phase)

    def count_graph(self, backend: int) -> None:
        """Count a graph for the one that computes it; 0 = not stated."""
        self._n_graphs[backend] = self._n_graphs.get(backend, 0) + 1

    def add_backend(
        self, number: int, name: str, device: str, description: str
    ) -> None:
        """Note what computes graphs; texts may be empty."""
        if len(self._backends) < _MAX_BACKENDS:
            on = f" on {device}" if device not in ("", name) else ""
            what = f" ({description})" if description not in ("", name, device) else ""
            self._backends[number] = f"{name}{on}{what}"
            self._backend_names[number] = name

    def add_self_test(self, graph: int, n_found: int, expected: int) -> None:
        """Note what the tracer's look at its first graph found; the last one counts."""
        self._self_test = (
            f"graph {graph}: {n_found} of {expected} expected records seen"
        )

    def facts(self) -> dict[str, str]:
        """Return what is stated of the run as a whole, for `TraceInfo.producer`."""
        facts = {"self-test": self._self_test} if self._self_test else {}
        if self._backends:
            known = self._backends
            counts = [(name, self._n_graphs.get(i, 0)) for i, name in known.items()]
            rest = sum(n for i, n in self._n_graphs.items() if i not in known)
            if rest:
                counts.append(("unknown", rest))
            facts["backends"] = "; ".join(
                f"{name}: {format_count(n)} {'graph' if n == 1 else 'graphs'}"
                for name, n in counts
            )
        return facts

    def call(self, name: str, begin: int, end: int) -> None:
        """Add a call of the program's own thread."""
        lane = self.lane("host", 0, "calls of the program", LaneKind.COMMAND, ("Host",))
        self.add(begin, max(begin, end), lane, name)

    def listed(
        self, event_list: tuple[str, str, str], name: str | None, begin: int, end: int
    ) -> None:
        """Add an event of a list of its own, such as a copy between backends.

        Parameters
        ----------
        event_list : its key, the title of its lane, and of the lane's group.
        name : of the span; None = as the lane.
        """
        key, title, group = event_list
        lane = self.lane(key, 0, title, LaneKind.COMMAND, (group,))
        self.add(begin, max(begin, end), lane, title if name is None else name)

    def finish(self, until: int) -> None:
        """Close what is open, at `until`: the program is no more."""
        for graph in self._open.values():
            self.add(
                graph.begin, max(graph.begin, until), graph.lane, graph.name,
                _UNFINISHED, graph.token, graph.phase,
            )  # fmt: skip
        self._open.clear()
        for number, ubatch in list(self._ubatches.items()):
            if ubatch.n_open:
                ubatch.end = max(ubatch.end, until)
            self._end_ubatch(number)
        for number in list(self._inputs):
            self._put_tokens(number)
        self.put()

    # -- spans one by one --------------------------------------------------

    def add(
        self,
        start: int,
        end: int,
        lane: int,
        name: str,
        flags: int = 0,
        token: int = -1,
        phase: int = -1,
    ) -> None:
        """Add a span, with the next `put`."""
        name_id = self._builder.strings.intern(name)
        self._single.append((start, end, lane, name_id, flags, token, phase))

    def put(self) -> None:
        """Give the builder what came one by one: graphs, ubatches, calls, losses."""
        if not self._single:
            return
        columns = np.array(self._single, np.int64).T
        self._single.clear()
        start, end, lane, name, flags, token, phase = columns
        self._builder.add_spans(
            start=start,
            end=end,
            lane=lane.astype(np.int16),
            name=name.astype(np.int32),
            op=np.full(len(start), -1, np.int16),
            flags=flags.astype(np.uint16),
            layer=np.full(len(start), -1, np.int16),
            token=token.astype(np.int32),
            phase=phase.astype(np.int8),
        )

    def open_spans(self, until: int) -> Spans:
        """Return the graphs and ubatches that have begun and not ended."""
        spans = [
            (g.begin, g.lane, g.name, g.token, g.phase) for g in self._open.values()
        ]
        if self._ubatches:
            lane = self._of_ubatches()
            spans += [
                (u.begin, lane, self._name_of(i, self._inputs.get(i)), i, u.phase)
                for i, u in self._ubatches.items()
            ]
        if not spans:
            return Spans.blank()
        begin, lanes, names, tokens, phases = zip(*spans, strict=True)
        start = np.array(begin, np.int64)
        return Spans(
            start=start,
            end=np.maximum(start, until),
            lane=np.array(lanes, np.int16),
            name=self._builder.strings.intern_many(names),
            op=np.full(len(spans), -1, np.int16),
            flags=np.full(len(spans), SpanFlag.UNFINISHED, np.uint16),
            token=np.array(tokens, np.int32),
            phase=np.array(phases, np.int8),
        )


def _group(slot: int) -> tuple[str, ...]:
    return (f"Context {slot}",) if slot else ()
