"""Traces that read a model file, from plain lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from builders import OPS, make_info
from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    AccessKind,
    FlatAccesses,
    Space,
    SpanFlag,
)
from ggscope.model.tensors import ModelFile, Place, SizeSource, Tensors
from ggscope.model.trace import LaneKind, OpTable, Trace

READ_OPS = OpTable("reads", (*OPS.names, "SET_ROWS", "VIEW", "ADD_ID"))
"""Op table of these traces."""


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor of the model (offset >= 0) or of the run."""

    name: str
    offset: int = -1
    size: int = -1
    layer: int = -1
    n_experts: int = 0
    shape: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Read:
    """One access; -1 = not recorded."""

    tensor: int
    size: int = -1
    offset: int = -1
    expert: int = -1
    space: Space = Space.FILE
    kind: AccessKind = AccessKind.READ


@dataclass(frozen=True, slots=True)
class Op:
    """One span of ten ticks with its accesses."""

    start: int
    reads: tuple[Read, ...] = ()
    op: str = "MUL_MAT"
    token: int = 0
    thread: int = 0
    repeated: bool = False
    """Whether a span of another thread is of this op."""


def reads_trace(
    tensors: Sequence[TensorRow],
    ops: Sequence[Op],
    chosen: Mapping[tuple[int, int], Sequence[int]] | None = None,
    more: Mapping[tuple[int, int], int] | None = None,
) -> Trace:
    """Return a trace of these ops; equal lists of accesses share a pattern.

    `chosen` holds the experts that a router chose by (token, layer), `more` how many
    further ones no list names.
    """
    builder = TraceBuilder()
    builder.ops = READ_OPS
    threads = max((op.thread for op in ops), default=0) + 1
    lanes = [builder.add_lane(f"thread {i}", LaneKind.THREAD) for i in range(threads)]
    builder.models = (ModelFile("model.gguf", 1 << 20),)
    strings = builder.strings
    builder.tensors = Tensors(
        name=np.array([strings.intern(t.name) for t in tensors], np.int32),
        offset=np.array([t.offset for t in tensors], np.int64),
        size=np.array([t.size for t in tensors], np.int64),
        layer=np.array([t.layer for t in tensors], np.int16),
        expert=np.full(len(tensors), -1, np.int16),
        file=np.array([0 if t.offset >= 0 else -1 for t in tensors], np.int16),
        shape=np.array([t.shape for t in tensors], np.int64).reshape(-1, 4),
        n_experts=np.array([t.n_experts for t in tensors], np.int32),
        place=np.array(
            [Place.STATED if t.offset >= 0 else Place.UNKNOWN for t in tensors],
            np.uint8,
        ),
        size_source=np.array(
            [
                SizeSource.STATED if t.offset >= 0 else SizeSource.UNKNOWN
                for t in tensors
            ],
            np.uint8,
        ),
    )
    start = np.array([op.start for op in ops], np.int64)
    builder.add_spans(
        start=start,
        end=start + 10,
        lane=np.array([lanes[op.thread] for op in ops], np.int32),
        name=np.full(len(ops), -1, np.int32),
        op=np.array([READ_OPS.names.index(op.op) for op in ops], np.int16),
        token=np.array([op.token for op in ops], np.int32),
        flags=np.array(
            [SpanFlag.REPEATED if op.repeated else 0 for op in ops], np.uint8
        ),
    )
    builder.accesses = _accesses(ops)
    if chosen:
        builder.routing = _routing(chosen, more or {})
    return builder.snapshot(make_info())


def _routing(
    chosen: Mapping[tuple[int, int], Sequence[int]],
    more: Mapping[tuple[int, int], int],
) -> Routing:
    rows = [
        (token, layer, expert, rank)
        for (token, layer), experts in chosen.items()
        for rank, expert in enumerate(experts)
    ]
    token, layer, expert, rank = np.array(rows, np.int64).T
    n = len(rows)
    return Routing(
        time=np.full(n, -1, np.int64),
        span=np.full(n, -1, np.int64),
        token=token.astype(np.int32),
        layer=layer.astype(np.int16),
        expert=expert.astype(np.int16),
        rank=rank.astype(np.int16),
        score=np.full(n, np.nan, np.float32),
        is_used=np.ones(n, np.bool_),
        n_more=np.array([more.get(row[:2], 0) for row in rows], np.int32),
    )


def _accesses(ops: Sequence[Op]) -> Accesses:
    patterns: dict[tuple[Read, ...], int] = {}
    pattern = [
        patterns.setdefault(op.reads, len(patterns)) if op.reads else -1 for op in ops
    ]
    rows = [read for reads in patterns for read in reads]
    first = np.concatenate([[0], np.cumsum([len(reads) for reads in patterns])])
    return Accesses(
        np.array(pattern, np.int32),
        first.astype(np.int64),
        AccessColumns(
            tensor=np.array([r.tensor for r in rows], np.int32),
            kind=np.array([r.kind for r in rows], np.uint8),
            space=np.array([r.space for r in rows], np.uint8),
            offset=np.array([r.offset for r in rows], np.int64),
            size=np.array([r.size for r in rows], np.int64),
            buffer=np.full(len(rows), -1, np.int32),
            layer=np.full(len(rows), -1, np.int16),
            expert=np.array([r.expert for r in rows], np.int16),
            address=np.zeros(len(rows), np.uint64),
        ),
        FlatAccesses.blank(),
    )


def moe_reads(
    *, layers: int = 3, experts: int = 4, tokens: int = 6, chosen: int = 2
) -> Trace:
    """Return a run of a small mixture of experts; layers lie alphabetically.

    Each token looks up embeddings, goes through attention and two stacked expert
    tensors per layer, and ends with the output; expert ``(layer + token) % n`` and
    the ones behind it are chosen.
    """
    tensors = [TensorRow("token_embd.weight", 1000, 8000, shape=(10, 800, 1, 1))]
    at, rows = 9000, {}
    for layer in sorted(range(layers), key=str):
        for name, size, n in (
            ("attn_q.weight", 3000, 0),
            ("ffn_up_exps.weight", 1000 * experts, experts),
            ("ffn_down_exps.weight", 1000 * experts, experts),
            ("ffn_norm.weight", 40, 0),
        ):
            rows[layer, name] = len(tensors)
            tensors.append(TensorRow(f"blk.{layer}.{name}", at, size, layer, n))
            at += size
    rows[-1, "output"], rows[-1, "cache"] = len(tensors), len(tensors) + 1
    tensors += [TensorRow("output.weight", at, 5000), TensorRow("cache_k_l0", -1, 100)]
    ops: list[Op] = []

    def add(token: int, op: str, *reads: Read) -> None:
        ops.append(Op(12 * len(ops), reads, op, token))

    for token in range(tokens):
        add(token, "GET_ROWS", Read(0, 8000))
        for layer in range(layers):
            add(
                token,
                "MUL_MAT",
                Read(rows[layer, "attn_q.weight"], 3000),
                Read(rows[-1, "cache"], 50 * (token + 1), space=Space.BUFFER),
            )
            picks = [(layer + token + i) % experts for i in range(chosen)]
            for name in ("ffn_up_exps.weight", "ffn_down_exps.weight"):
                reads = [Read(rows[layer, name], 1000, expert=e) for e in picks]
                add(token, "MUL_MAT_ID", *reads)
        add(token, "MUL_MAT", Read(rows[-1, "output"], 5000))
    return reads_trace(tensors, ops)
