"""Traces with buffers, for tests."""

from dataclasses import dataclass

import numpy as np

import builders
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import AccessColumns, Accesses, FlatAccesses, Space
from ggscope.model.tensors import Buffers, BufferUsage
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

ANY, WEIGHTS, COMPUTE = BufferUsage.ANY, BufferUsage.WEIGHTS, BufferUsage.COMPUTE
MIB = 1 << 20


@dataclass(frozen=True)
class Life:
    """A buffer; times are ticks, -1 = not recorded or never freed."""

    size: int
    born: int = 0
    freed: int = -1
    usage: BufferUsage = COMPUTE
    name: str = "buffer"
    backend: str = "CPU"
    address: int = 0


def buffers_trace(
    lives: list[Life],
    *,
    accessed: list[list[int]] | None = None,
    extent: TimeRange | None = None,
) -> Trace:
    """Return a trace with these buffers.

    Span i, from 1000 * i on, accesses the buffers ``accessed[i]`` (rows), 64 bytes
    each.
    """
    builder = TraceBuilder()
    builder.ops = builders.OPS
    strings = builder.strings
    builder.buffers = Buffers(
        name=strings.intern_many([life.name for life in lives]).astype(np.int32),
        backend=np.array(
            [strings.intern(life.backend) if life.backend else -1 for life in lives],
            np.int32,
        ),
        usage=np.array([life.usage for life in lives], np.uint8),
        size=np.array([life.size for life in lives], np.int64),
        allocated=np.array([life.born for life in lives], np.int64),
        freed=np.array([life.freed for life in lives], np.int64),
        address=np.array(
            [life.address or 0x1000 * (i + 1) for i, life in enumerate(lives)],
            np.uint64,
        ),
    )
    if accessed is not None:
        _add_ops(builder, accessed)
    trace = builder.snapshot(builders.make_info(), extent=extent)
    assert not trace.check(), trace.check()
    return trace


def _add_ops(builder: TraceBuilder, accessed: list[list[int]]) -> None:
    n = len(accessed)
    builder.add_lane("thread 0", builders.LaneKind.THREAD, ("Threads",))
    start = np.arange(n, dtype=np.int64) * 1000
    builder.add_spans(start=start, end=start + 600, lane=np.zeros(n, np.int32))
    rows = np.array([row for some in accessed for row in some], np.int32)
    m = len(rows)
    what = AccessColumns(
        tensor=np.full(m, -1, np.int32),
        kind=np.zeros(m, np.uint8),
        space=np.full(m, Space.BUFFER, np.uint8),
        offset=np.full(m, -1, np.int64),
        size=np.full(m, 64, np.int64),
        buffer=rows,
        layer=np.full(m, -1, np.int16),
        expert=np.full(m, -1, np.int16),
        address=np.zeros(m, np.uint64),
    )
    first = np.concatenate([[0], np.cumsum([len(some) for some in accessed])])
    builder.accesses = Accesses(
        np.arange(n, dtype=np.int32), first.astype(np.int64), what, FlatAccesses.blank()
    )


def reference_buffers() -> Trace:
    """Return a run whose peak is 654,311,424 bytes: 2 WEIGHTS, 3 COMPUTE."""
    return buffers_trace(
        [
            Life(460 * MIB, 0, usage=WEIGHTS, name="CPU_Mapped"),
            Life(20 * MIB, 1_000_000, usage=WEIGHTS, name="CPU_REPACK"),
            Life(44 * MIB, 2_000_000, name="KVCache_CPU"),
            Life(96 * MIB, 3_000_000, 9_000_000, name="CPU compute"),
            Life(4 * MIB, 4_000_000, 8_000_000, name="CPU output"),
        ],
        extent=TimeRange(0, 10_000_000),
    )


def busy_buffers() -> Trace:
    """Return buffers of every usage on two backends, some freed, some not."""
    return buffers_trace(
        [
            Life(460 * MIB, 0, usage=WEIGHTS, name="CPU_Mapped model"),
            Life(120 * MIB, 2_000_000, usage=WEIGHTS, name="CUDA0", backend="CUDA0"),
            Life(44 * MIB, 5_000_000, name="KVCache_CPU"),
            Life(96 * MIB, 7_000_000, 31_000_000, name="CPU compute"),
            Life(64 * MIB, 8_000_000, 30_000_000, name="CUDA0 compute",
                 backend="CUDA0"),
            Life(20 * MIB, 12_000_000, 13_500_000, ANY, "scratch"),
            Life(24 * MIB, 15_000_000, 16_500_000, ANY, "scratch"),
            Life(22 * MIB, 18_000_000, 19_500_000, ANY, "scratch"),
        ],
        extent=TimeRange(0, 40_000_000),
    )  # fmt: skip
