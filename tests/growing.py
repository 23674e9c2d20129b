"""A trace that grows chunk by chunk, and the same trace made in one go."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import NO_WAIT
from ggscope.model.trace import LaneKind, OpTable, Trace, TraceInfo

INFO = TraceInfo((Path("live"),), "ring", "live ring", "1", 0)
LANES = (
    ("token", LaneKind.TOKEN),
    ("thread 0", LaneKind.THREAD),
    ("thread 1", LaneKind.THREAD),
    ("TE 0", LaneKind.ENGINE),
    ("phase", LaneKind.PHASE),
)
OPS = OpTable("test", ("NONE", "MUL_MAT", "ADD", "ROPE", "SOFT_MAX", "RMS_NORM"))


def builder(*, grows: bool) -> TraceBuilder:
    made = TraceBuilder(grows=grows)
    made.ops = OPS
    for name, kind in LANES:
        made.add_lane(name, kind)
    return made


def arrivals(seed: int, n: int) -> dict[str, np.ndarray]:
    """Return n spans in the order in which they arrive.

    Mostly in the order of their ends, as of a program that runs; some overlap, some
    have no length, some come very late.
    """
    rng = np.random.default_rng(seed)
    kind = seed % 4
    length = rng.integers(0, (3, 40, 400, 4)[kind], n)
    start = np.sort(rng.integers(0, 4 * n, n)) if kind else np.arange(n) * 3
    outer = rng.random(n) < (0.0, 0.05, 0.2, 0.02)[kind]
    start = np.where(outer, start - rng.integers(0, 300, n), start)
    length = np.where(outer, length + 300, length)
    late = rng.random(n) < 0.01
    start = np.where(late, rng.integers(0, 4 * n, n), start)
    op = np.where(outer, -1, rng.integers(0, len(OPS.names), n))
    op[: n // 5] = np.minimum(op[: n // 5], 2)  # some ops are seen later only
    return {
        "start": start.astype(np.int64),
        "end": (start + length).astype(np.int64),
        "lane": rng.integers(0, 4 if seed % 3 else 5, n).astype(np.int16),
        "name": rng.integers(-1, 3, n).astype(np.int32),
        "op": op.astype(np.int16),
        "flags": rng.choice([0, 2, 64], n).astype(np.uint16),
        "layer": np.minimum(rng.integers(-1, 6, n), np.arange(n) // 50).astype(
            np.int16
        ),
        "token": (np.arange(n) // 97).astype(np.int32),
        "phase": (np.arange(n) > n // 3).astype(np.int8),
        "wait": np.where(
            rng.random(n) < 0.3, NO_WAIT, rng.integers(0, (4, 30, 200)[seed % 3], n)
        ).astype(np.uint32),
    }


def cut(columns: dict[str, np.ndarray], rows: slice) -> dict[str, np.ndarray]:
    return {name: values[rows] for name, values in columns.items()}


def snapshots(
    columns: dict[str, np.ndarray], sizes: list[int]
) -> Iterator[tuple[int, Trace]]:
    """Yield (number of spans, snapshot) as chunks of `sizes` come."""
    growing, at = builder(grows=True), 0
    growing.strings.intern_many(["a", "b", "c"])
    for size in sizes:
        growing.add_spans(**cut(columns, slice(at, at + size)))
        at += size
        yield at, growing.snapshot(INFO)


def whole(columns: dict[str, np.ndarray], n: int) -> Trace:
    """Return the trace of the first n spans in one go."""
    made = builder(grows=False)
    made.strings.intern_many(["a", "b", "c"])
    made.add_spans(**cut(columns, slice(0, n)))
    return made.snapshot(INFO)
