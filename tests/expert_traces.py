"""Traces that record which experts worked, for tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import builders
from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.tables import AccessColumns, Accesses, FlatAccesses, Space
from ggscope.model.tensors import ModelFile, Tensors
from ggscope.model.trace import Trace
from tensor_files import Rec, Src, encode, weight

Chosen = npt.ArrayLike


def routing(
    expert: npt.NDArray[np.integer],
    *,
    tokens: Chosen | None = None,
    layers: Chosen | None = None,
    score: npt.NDArray[np.floating] | None = None,
    used: int | None = None,
) -> Routing:
    """Return the routing of ``expert[token, layer, rank]``.

    `tokens` and `layers` number the axes; -1 tokens are unknown. The first `used`
    ranks compute.
    """
    n_tokens, n_layers, k = expert.shape
    n = expert.size
    token = np.arange(n_tokens) if tokens is None else np.asarray(tokens)
    layer = np.arange(n_layers) if layers is None else np.asarray(layers)
    rank = np.tile(np.arange(k), n_tokens * n_layers)
    return Routing(
        time=np.full(n, -1, np.int64),
        span=np.full(n, -1, np.int64),
        token=np.repeat(token, n_layers * k).astype(np.int32),
        layer=np.tile(np.repeat(layer, k), n_tokens).astype(np.int16),
        expert=expert.reshape(-1).astype(np.int16),
        rank=rank.astype(np.int16),
        score=(
            np.full(n, np.nan, np.float32)
            if score is None
            else score.reshape(-1).astype(np.float32)
        ),
        is_used=rank < (k if used is None else used),
    )


def routed(expert: npt.ArrayLike, **values: object) -> Trace:
    """Return a trace of just that routing; `n_experts` is what a model would say."""
    builder = TraceBuilder()
    n_experts = values.pop("n_experts", None)
    if n_experts is not None:
        builder.models = (ModelFile("m.gguf", metadata={"n_experts": str(n_experts)}),)
    builder.routing = routing(np.asarray(expert), **values)  # type: ignore[arg-type]
    return builders.finished(builder)


def random_choices(
    seed: int, n_tokens: int, n_layers: int, n_experts: int, k: int
) -> npt.NDArray[np.int64]:
    """Return k distinct experts per token and layer, int64[token, layer, rank].

    The lower an expert's number, the hotter it is.
    """
    rng = np.random.default_rng(seed)
    scores = rng.gumbel(size=(n_tokens, n_layers, n_experts))
    scores -= np.log1p(np.arange(n_experts))
    return np.argsort(-scores, axis=2)[:, :, :k]


def falling_scores(seed: int, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return scores that fall with the rank, the last axis."""
    rng = np.random.default_rng(seed)
    return -np.sort(-(rng.random(shape) ** 2), axis=-1)


def tensors(
    builder: TraceBuilder, rows: list[tuple[str, int, int, int, int, int]]
) -> Tensors:
    """Return tensors of (name, offset, size, layer, expert, n_experts)."""
    columns = list(zip(*rows, strict=True))
    return Tensors(
        name=builder.strings.intern_many(list(columns[0])),
        offset=np.array(columns[1], np.int64),
        size=np.array(columns[2], np.int64),
        layer=np.array(columns[3], np.int16),
        expert=np.array(columns[4], np.int16),
        n_experts=np.array(columns[5], np.int32),
    )


def accessing(
    patterns: list[list[tuple[int, int, int, int]]],
    pattern: list[int],
    token: list[int],
    rows: list[tuple[str, int, int, int, int, int]],
) -> Trace:
    """Return spans that access experts.

    Each pattern lists (tensor, layer, expert, bytes); span i does pattern[i] for
    token[i]; `rows` are the tensors.
    """
    builder = TraceBuilder()
    builder.ops = builders.OPS
    builder.add_lane("thread 0", builders.LaneKind.THREAD, ("Threads",))
    n = len(pattern)
    builder.add_spans(
        start=np.arange(n, dtype=np.int64) * 10,
        end=np.arange(n, dtype=np.int64) * 10 + 5,
        lane=np.zeros(n, np.int32),
        token=np.array(token, np.int32),
    )
    builder.tensors = tensors(builder, rows)
    flat = [access for accesses in patterns for access in accesses]
    m = len(flat)
    column = np.array(flat, np.int64).reshape(m, 4)
    what = AccessColumns(
        tensor=column[:, 0].astype(np.int32),
        kind=np.zeros(m, np.uint8),
        space=np.full(m, Space.FILE, np.uint8),
        offset=np.full(m, -1, np.int64),
        size=column[:, 3].copy(),
        buffer=np.full(m, -1, np.int32),
        layer=column[:, 1].astype(np.int16),
        expert=column[:, 2].astype(np.int16),
        address=np.zeros(m, np.uint64),
    )
    first = np.concatenate([[0], np.cumsum([len(p) for p in patterns])])
    builder.accesses = Accesses(
        np.array(pattern, np.int32), first.astype(np.int64), what, FlatAccesses.blank()
    )
    return builders.finished(builder)


def moe_file(folder: Path, chosen: Sequence[tuple[int, ...]]) -> Path:
    """Write 1024-byte records: a pass of one token, with one op, for each choice.

    () = the op is on no stack of experts. The number of experts is unknown.
    """
    records = []
    for i, experts in enumerate(chosen):
        at, token = 1000 + 10_000 * i, {"token": i, "phase": 1}
        parts = (weight("token_embd.weight"), Src("leaf_4", size=4))
        records.append(Rec(at, "inp_embd", 40, parts, **token))
        name = "blk.0.ffn_up_exps.weight" if experts else "blk.0.ffn_up.weight"
        topk = Src("ffn_moe_topk-0", size=4 * len(experts))
        sources = (weight(name, 0), Src("ffn_norm-0"), topk)
        op = 30 if experts else 29  # MUL_MAT_ID, MUL_MAT
        up = Rec(at + 100, "ffn_moe_up-0", op, sources, experts=experts, **token)
        records.append(up)
    path = folder / "run.bin"
    path.write_bytes(encode(records, "1024"))
    return path
