"""Traces with matrix multiplications of known shapes."""

from dataclasses import replace

import numpy as np

from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from reads_builder import Op, Read, TensorRow, reads_trace

SHAPES = ((8, 6), (6, 8), (8, 3))
"""ne0 and ne1 of the weights, by their tensors 0, 1 and 2."""
VECTORS, TABLE, STACK, UNSHAPED = 3, 4, 5, 6
EXPERTS = 4
MODEL = "f16"


def weights() -> list[TensorRow]:
    """Return three weights of f16, vectors, a table, a stack, one without a shape."""
    rows = [
        TensorRow(f"blk.{i}.attn_q.weight", 1000 * i, 2 * k * n, i, shape=(k, n, 1, 1))
        for i, (k, n) in enumerate(SHAPES)
    ]
    rows.append(TensorRow("norm", -1, 64))
    rows.append(TensorRow("token_embd.weight", 5000, 160, shape=(8, 10, 1, 1)))
    rows.append(
        TensorRow("blk.0.ffn_up_exps.weight", 6000, 2 * 8 * 6 * EXPERTS, 0, EXPERTS,
                  (8, 6, EXPERTS, 1))
    )  # fmt: skip
    rows.append(TensorRow("blk.1.ffn_up.weight", 9000, 96, 1))
    return rows


def matmul(start: int, weight: int, columns: int, **more: object) -> Op:
    """Return an op that multiplies so many vectors of F32 with a weight."""
    k, n = SHAPES[weight]
    reads = (Read(weight, 2 * k * n, 1000 * weight), Read(VECTORS, 4 * k * columns))
    return Op(start, reads, **more)  # type: ignore[arg-type]


def with_types(trace: Trace) -> Trace:
    """Return the trace with the weights as f16, and nothing known of the others."""
    kinds = np.array([1, 1, 1, -1, 0, 1, -1], np.int16)
    return replace(trace, tensors=replace(trace.tensors, type=kinds))


def random_roofline(seed: int, n: int = 80, *, threads: int = 1) -> Trace:
    """Return multiplications and other ops; some lack a time, a size or a shape."""
    dice = np.random.default_rng(seed)
    ops: list[Op] = []
    for i in range(n):
        kind, weight = int(dice.integers(0, 10)), int(dice.integers(0, 3))
        at, columns = 100 * i, int(dice.integers(1, 4))
        if kind < 6:
            op = matmul(at, weight, columns)
        elif kind == 6:
            op = Op(at, (Read(VECTORS, 32),), "ADD")
        elif kind == 7:
            op = Op(at, (Read(UNSHAPED, 96, 9000), Read(VECTORS, 32)))
        elif kind == 8:
            op = Op(at, (Read(weight, 50, 1000 * weight), Read(VECTORS, 13)))
        else:
            op = Op(at)
        late = dice.integers(0, 5, threads)
        ops += [
            replace(op, start=at + int(late[k]), thread=k, repeated=k > 0)
            for k in range(threads)
        ]
    ops.sort(key=lambda op: (op.thread, op.start))
    trace = with_types(reads_trace(weights(), ops))
    end = trace.spans.end + dice.integers(0, 60, len(ops))
    flags = trace.spans.flags.copy()
    flags[dice.random(len(ops)) < 0.1] |= np.uint8(SpanFlag.UNFINISHED)
    return replace(trace, spans=replace(trace.spans, end=end, flags=flags))
