"""Reads of a model by ops and by a disk, and which access caused which read."""

import random
from dataclasses import dataclass, replace

import numpy as np

from builders import finished
from ggscope.analysis.load.rows import LoadRows
from ggscope.model.builder import TraceBuilder
from ggscope.model.storage import IoKind, IoLevel, IoRequests, Storage, StorageFile
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    AccessKind,
    FlatAccesses,
    Space,
)
from ggscope.model.tensors import ModelFile, Tensors
from ggscope.model.trace import LaneKind, OpTable, Trace

SIZE = 1 << 20
N_TENSORS = 24


@dataclass(frozen=True)
class Read:
    """A read as it was made.

    Attributes
    ----------
    span : whose access caused it; -1 none.
    """

    start: int
    end: int
    offset: int
    size: int
    span: int


def rows(
    seed: int, n: int, *, span: int = 100_000, open_share: float = 0.1
) -> LoadRows:
    """Return reads of any times, sizes and places."""
    rng = np.random.default_rng(seed)
    start = np.sort(rng.integers(0, span, n))
    took = rng.integers(0, 900, n)
    is_open = rng.random(n) < open_share
    size = rng.choice([0, 512, 4096, 5000, 131072, 1 << 20], n)
    size[rng.random(n) < 0.05] = -1
    return LoadRows(
        key="device",
        start=start.astype(np.int64),
        end=np.where(is_open, start, start + took).astype(np.int64),
        is_open=is_open,
        size=size.astype(np.int64),
        offset=rng.integers(0, 40_000_000, n).astype(np.int64),
        file=rng.integers(-1, 2, n).astype(np.int64),
        place=np.full(n, -1, np.int64),
        kind=np.full(n, IoKind.READ, np.uint8),
        span=np.full(n, -1, np.int64),
        row=np.arange(n, dtype=np.int64),
        files=(StorageFile("/m/a.gguf", 50_000_000), StorageFile("/m/b.gguf")),
    )


def paired(seed: int, n: int = 120, *, threads: int = 3) -> tuple[Trace, list[Read]]:
    """Return a trace of ops and of the reads that each of them caused, and these.

    Every op reads a tensor of the model file; while it runs, one or two requests for
    bytes of that tensor are issued. Ops of several threads overlap, and no two at once
    read the same tensor.
    """
    rng = random.Random(seed)
    builder = TraceBuilder()
    builder.ops = OpTable("test", ("MUL_MAT",), "spelled")
    builder.models = (ModelFile("tiny.gguf", N_TENSORS * SIZE + 4096, 4096),)
    strings = builder.strings
    builder.tensors = replace(
        Tensors.blank(N_TENSORS),
        name=strings.intern_many([f"blk.{i}.w" for i in range(N_TENSORS)]),
        offset=4096 + np.arange(N_TENSORS, dtype=np.int64) * SIZE,
        size=np.full(N_TENSORS, SIZE, np.int64),
        file=np.zeros(N_TENSORS, np.int16),
    )
    lanes = [builder.add_lane(f"thread {i}", LaneKind.THREAD) for i in range(threads)]
    starts, ends, of, lane, reads = [], [], [], [], []
    for i in range(n):
        at = 10_000 + i // threads * 1000 + rng.randrange(0, 100)
        took = rng.randrange(500, 800)
        tensor = (i * 7) % N_TENSORS
        starts.append(at)
        ends.append(at + took)
        of.append(tensor)
        lane.append(lanes[i % threads])
        for _ in range(rng.choice((1, 2))):
            begin = 4096 + tensor * SIZE + rng.randrange(0, SIZE - 8192, 4096)
            issued = at + rng.randrange(1, took)
            reads.append(Read(issued, issued + rng.randrange(50, 3000), begin, 8192, i))
    order = np.lexsort((starts, lane))
    place = np.argsort(order)
    builder.add_spans(
        start=np.array(starts)[order],
        end=np.array(ends)[order],
        lane=np.array(lane, np.int32)[order],
        op=0,
        name=-1,
        flags=0,
    )
    tensor = np.array(of)[order]
    none = np.full(n, -1, np.int8)
    builder.accesses = Accesses(
        np.arange(n, dtype=np.int32),
        np.arange(n + 1, dtype=np.int64),
        AccessColumns(
            tensor=tensor.astype(np.int32),
            kind=np.full(n, AccessKind.READ, np.uint8),
            space=np.full(n, Space.FILE, np.uint8),
            offset=4096 + tensor.astype(np.int64) * SIZE,
            size=np.full(n, SIZE, np.int64),
            buffer=none,
            layer=none,
            expert=none,
            address=np.zeros(n, np.uint64),
        ),
        FlatAccesses.blank(),
    )
    reads = [replace(read, span=int(place[read.span])) for read in reads]
    reads.sort(key=lambda read: read.start)
    builder.storage = Storage(
        requests_of(reads),
        files=(StorageFile("/models/tiny.gguf", N_TENSORS * SIZE + 4096),),
        is_aligned=True,
    )
    return finished(builder), reads


def requests_of(reads: list[Read]) -> IoRequests:
    """Return reads as a trace has them."""
    n = len(reads)
    none = np.full(n, -1, np.int64)
    return IoRequests(
        start=np.array([read.start for read in reads], np.int64),
        end=np.array([read.end for read in reads], np.int64),
        is_open=np.zeros(n, np.bool_),
        queued=none,
        kind=np.full(n, IoKind.READ, np.uint8),
        level=np.full(n, IoLevel.DEVICE, np.uint8),
        size=np.array([read.size for read in reads], np.int64),
        sector=none,
        offset=np.array([read.offset for read in reads], np.int64),
        file=np.zeros(n, np.int32),
        device=np.full(n, -1, np.int32),
        process=np.full(n, -1, np.int32),
        pid=np.full(n, -1, np.int32),
        span=none,
    )
