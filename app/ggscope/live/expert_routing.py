"""Which experts were chosen while a program runs, as its events state."""

from dataclasses import replace

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.growing import GrowingTable
from ggscope.model.routing import Routing
from ggscope.model.tables import Array
from ggscope.readers.tensor.routing.extensions import CHOICE, merged_choices
from ggscope_capture.ring_format import Frame, FrameType, experts_body

_MAX_NUMBER = 1 << 15
"""Layers and experts; no list is longer."""
_MAX_WAITING = 1 << 6
_KEPT_OPS = 1 << 15
"""Ops that a choice may belong to; a choice comes soon after its op began."""


class Choices:
    """Choices of routers; those of a graph are added when all of it is known."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._grown = GrowingTable(Routing)
        # Of each graph: lists of multiplications, and of routers with their scores.
        self._waiting: dict[int, tuple[list[Array], list[Array]]] = {}
        # Their last records may come with the next poll: heads are read before events.
        self._ending: list[int] = []
        self._ended: list[int] = []
        self._tokens: dict[int, int] = {}
        self._ops = np.zeros((0, 3), np.int64)
        self._n_experts = 0

    def add(self, frame: Frame, tick: int, token: int) -> None:
        """Add the choices of one event; impossible ones are left out.

        Parameters
        ----------
        token : of the graph; -1 where it is not known.

        Raises
        ------
        RingError
            If it is cut.
        """
        head, ids, raw_scores = experts_body(frame)
        graph, layer, used = head.graph, head.layer, head.used
        n, n_experts = head.rows * used, head.n_experts
        if not 0 <= layer < _MAX_NUMBER or not n > 0 or not 0 < used < _MAX_NUMBER:
            return
        experts = np.frombuffer(ids, "<i4")
        if n_experts >= _MAX_NUMBER:
            n_experts = 0  # damaged
        limit = n_experts or _MAX_NUMBER
        if int(experts.min()) < 0 or int(experts.max()) >= limit:
            return
        rows = np.zeros(n, CHOICE)
        rows["time"], rows["layer"] = tick, layer
        # Graphs without tokens must not share a key.
        rows["token"] = graph if token < 0 else token
        rows["row"] = head.first_row + np.arange(n) // used
        rows["rank"] = np.arange(n) % used
        rows["expert"], rows["score"] = experts, np.nan
        has_scores = frame.type == FrameType.ROUTER
        if has_scores:
            rows["score"] = np.clip(np.frombuffer(raw_scores, "<f4"), 0, 1)
        self._n_experts = max(self._n_experts, n_experts)
        self._waiting.setdefault(graph, ([], []))[has_scores].append(rows)
        self._tokens[graph] = token

    def end(self, graph: int) -> None:
        """Note that no more choices of a graph come."""
        if graph in self._waiting:
            self._ending.append(graph)

    def add_ops(self, start: Array, span: Array, layer: Array) -> None:
        """Add ops that choose experts or multiply by them, as they come."""
        new = np.stack([start, span, layer], axis=1).astype(np.int64)
        self._ops = np.concatenate([self._ops, new])[-_KEPT_OPS:]

    def put(self, *, is_over: bool = False) -> bool:
        """Give the choices of complete graphs to the builder; return whether any was.

        To be called once per poll, when its spans are there.

        Parameters
        ----------
        is_over : nothing more will come.
        """
        if is_over:
            self._ended, self._ending = list(self._waiting), []
        elif len(self._waiting) > _MAX_WAITING:  # the end of one was lost
            oldest = next(iter(self._waiting))
            self._ended.append(oldest)
        # A graph may show its end twice: damage.
        parts = [self._of(g) for g in dict.fromkeys(self._ended) if g in self._waiting]
        self._ended, self._ending = self._ending, []
        choices = np.concatenate([np.zeros(0, CHOICE), *parts])
        if not len(choices):
            return False
        choices = choices[
            np.lexsort(
                (choices["rank"], choices["row"], choices["layer"], choices["time"])
            )
        ]
        self._grown.append(
            Routing(
                time=choices["time"].copy(),
                span=self._op_before(choices),
                token=choices["op"].astype(np.int32),
                layer=choices["layer"].astype(np.int16),
                expert=choices["expert"].astype(np.int16),
                rank=choices["rank"].astype(np.int16),
                score=choices["score"].copy(),
                is_used=np.ones(len(choices), np.bool_),
                row=choices["row"].astype(np.int32),
            )
        )
        self._builder.routing = replace(self._grown.table(), n_experts=self._n_experts)
        return True

    def _of(self, graph: int) -> Array:
        computed, routed = (
            np.concatenate([np.zeros(0, CHOICE), *lists])
            for lists in self._waiting.pop(graph)
        )
        merged = merged_choices(self._builder, computed, routed)
        merged["op"] = self._tokens.pop(graph)
        return merged

    def _op_before(self, choices: Array) -> Array:
        """Return the op of each choice: the last that began by then in its layer."""
        ops = self._ops[np.argsort(self._ops[:, 0], kind="stable")]
        if not len(ops):
            return np.full(len(choices), -1, np.int64)
        at = np.searchsorted(ops[:, 0], choices["time"], "right") - 1
        row = ops[np.maximum(at, 0)]
        fits = (at >= 0) & (row[:, 2] == choices["layer"])
        return np.where(fits, row[:, 1], -1)
