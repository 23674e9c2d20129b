"""Small traces for the tests of the file heatmap."""

from collections.abc import Sequence

import numpy as np

from builders import OPS, finished, op_number
from ggscope.analysis.heat.heatmap import TrackTotals
from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.tables import AccessColumns, Accesses, FlatAccesses, Space
from ggscope.model.tensors import ModelFile, Place, SizeSource, Tensors
from ggscope.model.trace import LaneKind, Trace

SLICE = 64 * 1024
N_EXPERTS = 8
HEADER = 40_000


def make_tensors(
    builder: TraceBuilder, rows: Sequence[tuple[str, int, int, int, int, int]]
) -> None:
    """Fill the tensors: (name, offset, size, layer, expert, n_experts) each."""
    builder.models = (ModelFile("tiny.gguf"),)
    names = builder.strings.intern_many([r[0] for r in rows])
    table = np.array([r[1:] for r in rows], np.int64).reshape(-1, 5)
    builder.tensors = Tensors(
        name=names,
        offset=table[:, 0].copy(),
        size=table[:, 1].copy(),
        layer=table[:, 2].astype(np.int16),
        expert=table[:, 3].astype(np.int16),
        file=np.zeros(len(rows), np.int16),
        n_experts=table[:, 4].astype(np.int32),
        place=np.where(table[:, 0] >= 0, Place.STATED, Place.UNKNOWN).astype(np.uint8),
        size_source=np.full(len(rows), SizeSource.STATED, np.uint8),
    )


def make_accesses(
    patterns: Sequence[Sequence[tuple[int, int, int, int]]], pattern: np.ndarray
) -> Accesses:
    """Return accesses: a list of (tensor, space, offset, size) per pattern."""
    flat = [row for rows in patterns for row in rows]
    table = np.array(flat, np.int64).reshape(-1, 4)
    n = len(table)
    what = AccessColumns(
        tensor=table[:, 0].astype(np.int32),
        kind=np.zeros(n, np.uint8),
        space=table[:, 1].astype(np.uint8),
        offset=table[:, 2].copy(),
        size=table[:, 3].copy(),
        buffer=np.full(n, -1, np.int32),
        layer=np.full(n, -1, np.int16),
        expert=np.full(n, -1, np.int16),
        address=np.zeros(n, np.uint64),
    )
    first = np.concatenate([[0], np.cumsum([len(rows) for rows in patterns])])
    return Accesses(
        pattern.astype(np.int32), first.astype(np.int64), what, FlatAccesses.blank()
    )


def moe_trace(
    tokens: int = 12, layers: int = 4, *, routed: bool = True, seed: int = 0
) -> Trace:
    """Return a run of a small mixture of experts with a model file.

    Each layer has a norm, an attention weight and a stack of `N_EXPERTS` slices of
    `SLICE` bytes; the router chooses two of them per token and layer. Expert 7 is
    never chosen. A tensor that nobody reads ends the file, behind padding.
    """
    builder = TraceBuilder()
    builder.ops = OPS
    tensors, patterns, at = _moe_tensors(layers)
    make_tensors(builder, tensors)
    builder.models = (
        ModelFile("tiny-moe.gguf", at, HEADER, metadata={"n_experts": str(N_EXPERTS)}),
    )
    lane = builder.add_lane("thread 0", LaneKind.THREAD, ("Threads",))
    passes = builder.add_lane("tokens", LaneKind.TOKEN, ("Tokens",))
    n_ops = len(patterns)
    token = np.repeat(np.arange(tokens), n_ops)
    start = token * 1_000 * n_ops + np.tile(np.arange(n_ops), tokens) * 1_000
    layer = np.tile(np.array([-1, *np.repeat(np.arange(layers), 3)]), tokens)
    builder.add_spans(
        start=start, end=start + 900, lane=lane,
        name=builder.strings.intern("op"),
        op=np.full(len(start), op_number("MUL_MAT"), np.int16),
        token=token.astype(np.int32), layer=layer.astype(np.int16),
    )  # fmt: skip
    ends = np.arange(1, tokens + 1) * 1_000 * n_ops
    builder.add_spans(
        start=ends - 1_000 * n_ops, end=ends, lane=passes,
        name=builder.strings.intern("token"), token=np.arange(tokens, dtype=np.int32),
    )  # fmt: skip
    pattern = np.concatenate([np.tile(np.arange(n_ops), tokens), np.full(tokens, -1)])
    builder.accesses = make_accesses(patterns, pattern)
    if routed:
        builder.routing = _choices(tokens, layers, n_ops, seed)
    return finished(builder, name="moe.bin", n_passes=tokens)


def _moe_tensors(
    layers: int,
) -> tuple[list[tuple[str, int, int, int, int, int]], list, int]:
    """Return the tensors, a pattern of accesses per op, and the size of the file."""
    act = 1 + 3 * layers + 1
    at = HEADER
    tensors = [("token_embd.weight", at, 200_000, -1, -1, 0)]
    patterns = [[(0, Space.FILE, at + 4_096, 2_048), (act, Space.BUFFER, -1, 512)]]
    at += 200_000
    for layer in range(layers):
        for name, size, n in (
            ("attn_norm.weight", 1_024, 0),
            ("attn_q.weight", 300_000, 0),
            ("ffn_up_exps.weight", N_EXPERTS * SLICE, N_EXPERTS),
        ):
            row = len(tensors)
            tensors.append((f"blk.{layer}.{name}", at, size, layer, -1, n))
            patterns.append(
                [(row, Space.FILE, at, size), (act, Space.BUFFER, -1, 4_096)]
            )
            at += size
    at += 30_000
    tensors.append(("output.weight", at, 150_000, -1, -1, 0))
    tensors.append(("activation", -1, 4_096, -1, -1, 0))
    return tensors, patterns, at + 150_000


def _choices(tokens: int, layers: int, n_ops: int, seed: int) -> Routing:
    rng = np.random.default_rng(seed)
    rows = [
        (token, layer, int(expert), rank)
        for token in range(tokens)
        for layer in range(layers)
        for rank, expert in enumerate(rng.permutation(N_EXPERTS - 1)[:2])
    ]
    table = np.array(rows, np.int64)
    token, layer = table[:, 0], table[:, 1]
    n = len(table)
    return Routing(
        time=np.full(n, -1, np.int64),
        span=token * n_ops + 3 + 3 * layer,
        token=token.astype(np.int32),
        layer=layer.astype(np.int16),
        expert=table[:, 2].astype(np.int16),
        rank=table[:, 3].astype(np.int16),
        score=np.full(n, np.nan, np.float32),
        is_used=np.ones(n, np.bool_),
    )


def recorded_bytes(totals: TrackTotals) -> int:
    """Return all known bytes of the accesses, as the trace states them."""
    return (
        totals.file_bytes + totals.buffer_bytes + totals.unplaced_bytes
        + totals.other_bytes + totals.passed_bytes
    )  # fmt: skip
