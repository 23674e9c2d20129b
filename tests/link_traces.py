"""Traces in which spans, tensors, buffers, experts and a graph have to do with each
other at random, for tests of links and filters.
"""

import numpy as np

import builders
from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.tables import AccessColumns, Accesses, FlatAccesses, Space
from ggscope.model.tensors import Buffers, Tensors
from ggscope.model.trace import LaneKind, Trace
from graph_traces import add_graph

N_TENSORS, N_BUFFERS = 8, 4
EXPS = 6
"""Row of the tensor that stacks four experts of layer 2, at byte 1000, 400 bytes."""
SLICE = 7
"""Row of slice 3 of it, listed apart."""


def columns(rng: np.random.Generator, n: int) -> AccessColumns:
    """Return random accesses; those of the stack name an expert or none."""
    tensor = rng.integers(-1, N_TENSORS - 1, n).astype(np.int32)
    space = np.where(tensor % 2 == 0, Space.FILE, Space.BUFFER).astype(np.uint8)
    offset = np.where(space == Space.FILE, rng.integers(-1, 9, n) * 100, -1)
    return AccessColumns(
        tensor=tensor,
        kind=rng.integers(0, 2, n).astype(np.uint8),
        space=space,
        offset=np.where(offset < 0, -1, offset).astype(np.int64),
        size=(rng.integers(-1, 5, n) * 50).clip(-1).astype(np.int64),
        buffer=np.where(
            space == Space.BUFFER, rng.integers(-1, N_BUFFERS, n), -1
        ).astype(np.int32),
        layer=rng.integers(-1, 4, n).astype(np.int16),
        expert=np.where(tensor == EXPS, rng.integers(-1, 4, n), -1).astype(np.int16),
        address=np.zeros(n, np.uint64),
    )


def random_links_trace(seed: int, n: int = 60) -> Trace:
    """Return spans with random accesses, buffers, experts, choices and a graph."""
    rng = np.random.default_rng(seed)
    builder = TraceBuilder()
    builder.ops = builders.OPS
    lane = builder.add_lane("thread 0", LaneKind.THREAD, ("Threads",))
    names = [f"t{i}" for i in range(6)]
    names += ["blk.2.ffn_up_exps.weight", "blk.2.ffn_up_exps.weight[3]"]
    own = rng.integers(-1, 4, n)
    builder.add_spans(
        start=np.arange(n) * 10,
        end=np.arange(n) * 10 + rng.integers(0, 9, n),
        lane=lane,
        name=builder.strings.intern_many([names[i] if i >= 0 else "x" for i in own]),
        op=rng.integers(1, 4, n).astype(np.int16),
        tensor=own.astype(np.int32),
        layer=rng.integers(-1, 4, n).astype(np.int16),
        token=rng.integers(0, 3, n).astype(np.int32),
        flags=rng.choice([0, 2, 4, 64], n).astype(np.uint16),
    )
    builder.tensors = Tensors(
        builder.strings.intern_many(names),
        np.array([0, -1, 100, -1, 200, -1, 1000, 1300], np.int64),
        np.array([50, 50, 50, 50, -1, 50, 400, 100], np.int64),
        np.array([-1, 0, 0, 1, 1, 2, 2, 2], np.int16),
        np.array([-1] * 7 + [3], np.int16),
        n_experts=np.array([0] * 6 + [4, 0], np.int32),
    )
    builder.buffers = Buffers(
        builder.strings.intern_many([f"buffer {i}" for i in range(N_BUFFERS)]),
        np.zeros(N_BUFFERS, np.int32),
        np.zeros(N_BUFFERS, np.uint8),
        np.full(N_BUFFERS, 64, np.int64),
        np.zeros(N_BUFFERS, np.int64),
        np.full(N_BUFFERS, -1, np.int64),
        np.array([0xA0, 0xB0, 0xA0, 0], np.uint64),
    )
    lengths = rng.integers(0, 4, 12)
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    m = 5
    loose = FlatAccesses(
        np.arange(m) * 20,
        np.zeros(m, np.int32),
        rng.integers(-1, n, m).astype(np.int64),
        np.full(m, -1, np.int32),
        columns(rng, m),
    )
    builder.accesses = Accesses(
        rng.integers(-1, 12, n).astype(np.int8),
        first,
        columns(rng, int(first[-1])),
        loose,
    )
    k = 10
    builder.routing = Routing(
        np.zeros(k, np.int64),
        rng.integers(-1, n, k).astype(np.int64),
        np.zeros(k, np.int32),
        rng.integers(0, 4, k).astype(np.int16),
        rng.integers(0, 4, k).astype(np.int16),
        np.zeros(k, np.int16),
        np.ones(k, np.float32),
        np.ones(k, np.bool_),
    )
    add_graph(
        builder, ["t0", "t1", "t2"], [(0, 1), (1, 2)], ops=[1, 2, 3], tensors=[0, 1, 2]
    )
    return builders.finished(builder)
