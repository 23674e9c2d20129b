"""One-liners that make traces for tests, through the public TraceBuilder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.statistics.table import StatRow, stat_table
from ggscope.model.builder import TraceBuilder
from ggscope.model.selection import By
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    AccessKind,
    Array,
    CounterShape,
    FlatAccesses,
    Phase,
    Space,
    SpanFlag,
    freeze,
)
from ggscope.model.tensors import Tensors
from ggscope.model.trace import LaneKind, OpTable, Trace, TraceInfo
from ggscope.model.units import Clock, TimeRange

OPS = OpTable(
    "test-12",
    (
        "NONE",
        "ADD",
        "MUL",
        "MUL_MAT",
        "RMS_NORM",
        "ROPE",
        "SOFT_MAX",
        "GLU",
        "CPY",
        "FLASH_ATTN_EXT",
        "GET_ROWS",
        "MUL_MAT_ID",
    ),
)
"""Op table of every built trace: numbers are indices into these names."""

LAYER_STEPS = (
    ("attn_norm", "RMS_NORM", "attn_norm.weight", 4),
    ("Qcur", "MUL_MAT", "attn_q.weight", 60),
    ("Qrope", "ROPE", "", 5),
    ("kqv", "FLASH_ATTN_EXT", "", 40),
    ("attn_out", "MUL_MAT", "attn_output.weight", 60),
    ("ffn_inp", "ADD", "", 2),
    ("ffn_norm", "RMS_NORM", "ffn_norm.weight", 4),
    ("ffn_up", "MUL_MAT", "ffn_up.weight", 180),
    ("ffn_act", "GLU", "", 6),
    ("ffn_down", "MUL_MAT", "ffn_down.weight", 190),
    ("l_out", "ADD", "", 2),
)
"""(tensor, op, weight read, duration in µs) of one layer of `llama_like_trace`."""


def op_number(name: str) -> int:
    """Return the number of op `name` in `OPS`."""
    return OPS.names.index(name)


def make_info(name: str = "test.bin", **values: object) -> TraceInfo:
    """Return a TraceInfo of a file that does not exist."""
    known: dict[str, object] = {
        "paths": (Path(name),),
        "reader_id": "test",
        "format": "test",
        "format_version": "1",
        "byte_size": 0,
    }
    return TraceInfo(**{**known, **values})  # type: ignore[arg-type]


def finished(builder: TraceBuilder, **info: object) -> Trace:
    """Return the builder's trace after checking its invariants."""
    trace = builder.snapshot(make_info(**info))  # type: ignore[arg-type]
    broken = trace.check()
    assert not broken, broken
    return trace


def empty_trace() -> Trace:
    """Return a trace with nothing in it."""
    return finished(TraceBuilder())


def spans_trace(
    start: npt.ArrayLike,
    end: npt.ArrayLike,
    lane: npt.ArrayLike = 0,
    *,
    kind: LaneKind = LaneKind.THREAD,
    group: tuple[str, ...] = ("Threads",),
    **columns: npt.ArrayLike,
) -> Trace:
    """Return a trace of just these spans; lanes are called "thread 0", ….

    `columns` are further columns of ``TraceBuilder.add_spans`` (op, layer …).
    """
    builder = TraceBuilder()
    builder.ops = OPS
    begins = np.asarray(start, np.int64)
    lanes = np.broadcast_to(np.asarray(lane, np.int32), begins.shape).copy()
    for number in range(int(lanes.max(initial=0)) + 1):
        builder.add_lane(f"thread {number}", kind, group)
    builder.add_spans(
        start=begins,
        end=np.asarray(end, np.int64),
        lane=lanes,
        **{
            key: np.broadcast_to(np.asarray(value), begins.shape).copy()
            for key, value in columns.items()
        },
    )
    return finished(builder)


def random_row(
    seed: int, n: int, *, max_gap: int = 50, max_length: int = 200, origin: int = 0
) -> tuple[Array, Array]:
    """Return (start, end) int64[n], sorted, not overlapping, lengths may be 0."""
    rng = np.random.default_rng(seed)
    gap = rng.integers(0, max_gap + 1, n)
    length = rng.integers(0, max_length + 1, n)
    end = origin + np.cumsum(gap + length)
    return end - length, end


def random_trace(
    seed: int,
    n: int,
    lanes: int = 2,
    *,
    shuffled: bool = False,
    layers: int = 8,
    tokens: int = 16,
) -> Trace:
    """Return `n` non-overlapping spans on `lanes` threads, with all columns.

    Spans lie lane by lane in start order, or in random order where `shuffled`.
    """
    rng = np.random.default_rng(seed)
    per_lane = [n // lanes + (i < n % lanes) for i in range(lanes)]
    rows = [random_row(seed * 1000 + i, m) for i, m in enumerate(per_lane)]
    start = np.concatenate([row[0] for row in rows])
    end = np.concatenate([row[1] for row in rows])
    lane = np.repeat(np.arange(lanes, dtype=np.int32), per_lane)
    order = rng.permutation(n) if shuffled else np.arange(n)
    names = [f"tensor-{i}" for i in range(32)]
    builder = TraceBuilder()
    builder.ops = OPS
    for number in range(lanes):
        builder.add_lane(f"thread {number}", LaneKind.THREAD, ("Threads",))
    token = (np.argsort(np.argsort(start, kind="stable")) * tokens) // max(n, 1)
    builder.add_spans(
        start=start[order],
        end=end[order],
        lane=lane[order],
        name=builder.strings.intern_many(names)[rng.integers(0, len(names), n)],
        op=rng.integers(1, len(OPS.names), n).astype(np.int16),
        flags=np.where(rng.random(n) < 0.2, SpanFlag.INFERRED_END, SpanFlag(0)).astype(
            np.uint16
        ),
        token=token[order].astype(np.int32),
        layer=rng.integers(-1, layers, n).astype(np.int16),
        phase=(token[order] > 0).astype(np.int8),
    )
    return finished(builder)


def nested_trace(depth: int = 3, width: int = 4) -> Trace:
    """Return spans that nest `depth` deep in one lane, shuffled deterministically.

    The top level has one span; each further level has `width` times as many.
    """
    starts, ends = [], []
    whole = width ** (depth - 1) * 10
    for level in range(depth):
        step = whole // width**level
        begin = np.arange(width**level, dtype=np.int64) * step
        starts.append(begin)
        ends.append(begin + step)
    start, end = np.concatenate(starts), np.concatenate(ends)
    order = np.random.default_rng(depth).permutation(len(start))
    return spans_trace(start[order], end[order], op=op_number("ADD"))


def overlapping_trace(seed: int = 0, n: int = 100, *, span: int = 1000) -> Trace:
    """Return `n` spans of one lane that overlap any way they like."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, span, n)
    return spans_trace(start, start + rng.integers(0, span // 4, n), op=1)


def slowed(trace: Trace, factor: int) -> Trace:
    """Return a trace all of whose spans and waits are multiplied, and its extent."""
    s, extent = trace.spans, trace.extent
    wait = None if s.wait is None else (s.wait * factor).astype(np.uint32)
    spans = replace(s, start=s.start * factor, end=s.end * factor, wait=wait)
    freeze(spans)
    whole = TimeRange(extent.start * factor, extent.end * factor)
    return replace(trace, spans=spans, extent=whole)


def llama_like_trace(tokens: int = 4, layers: int = 4, threads: int = 2) -> Trace:
    """Return a small llama.cpp run: every column and table has something in it.

    Token 0 is the prompt (four times slower), the others are generated. Each
    thread runs every op; matrix multiplications read a weight (FILE) and an
    activation (BUFFER), norms read both, the others only BUFFER, the first ADD
    of a layer nothing at all. Ops of thread 1 have derived ends.
    """
    builder = TraceBuilder()
    builder.ops = OPS
    token_lane = builder.add_lane("tokens", LaneKind.TOKEN, ("Tokens",))
    phase_lane = builder.add_lane("phases", LaneKind.PHASE, ("Tokens",))
    thread_lanes = [
        builder.add_lane(f"thread {i}", LaneKind.THREAD, ("Threads",))
        for i in range(threads)
    ]
    graph_lane = builder.add_lane("graphs", LaneKind.GRAPH, ("CPU backend",))
    marker_lane = builder.add_lane("markers", LaneKind.MARKER, ("Markers",))

    steps = len(LAYER_STEPS)
    length = np.tile([s[3] * 1000 for s in LAYER_STEPS], layers).astype(np.int64)
    step_end = np.cumsum(length + 500)
    step_start = step_end - length
    factor = np.where(np.arange(tokens) == 0, 4, 1)
    token_length = (int(step_end[-1]) + 5_000) * factor
    token_start = np.cumsum(token_length) - token_length
    begin = (token_start[:, None] + step_start * factor[:, None]).ravel()
    finish = begin + (length * factor[:, None]).ravel()

    layer = np.tile(np.repeat(np.arange(layers), steps), tokens).astype(np.int16)
    token = np.repeat(np.arange(tokens), layers * steps).astype(np.int32)
    names = builder.strings.intern_many(
        [f"{s[0]}-{i}" for i in range(layers) for s in LAYER_STEPS]
    )
    op = np.tile([op_number(s[1]) for s in LAYER_STEPS], layers * tokens)
    pattern, accesses = _llama_accesses(builder, layers)
    patterns: list[Array] = []
    for number, lane in enumerate(thread_lanes):
        builder.add_spans(
            start=begin + number * 100,
            end=finish - number * 300,
            lane=lane,
            name=np.tile(names, tokens),
            op=op.astype(np.int16),
            flags=int(SpanFlag.INFERRED_END) if number == 1 else 0,
            token=token,
            layer=layer,
            phase=(token > 0).astype(np.int8),
        )
        patterns.append(np.tile(pattern, tokens))
    n_ops = builder.n_spans
    builder.add_spans(
        start=token_start,
        end=token_start + token_length - 2_000,
        lane=graph_lane,
        name=builder.strings.intern("graph"),
        token=np.arange(tokens, dtype=np.int32),
    )
    builder.add_spans(
        start=token_start,
        end=token_start + token_length,
        lane=token_lane,
        name=builder.strings.intern_many([f"#{i}" for i in range(tokens)]),
        token=np.arange(tokens, dtype=np.int32),
        phase=(np.arange(tokens) > 0).astype(np.int8),
    )
    boundary, last = int(token_length[0]), int(token_length.sum())
    bands = 1 if tokens == 1 else 2
    builder.add_spans(
        start=np.array([0, boundary])[:bands],
        end=np.array([boundary, last])[:bands],
        lane=phase_lane,
        name=builder.strings.intern_many(["prompt", "generate"])[:bands],
        phase=np.array([Phase.PROMPT, Phase.GENERATE], np.int8)[:bands],
    )
    builder.add_markers(
        time=np.array([0, boundary]),
        lane=marker_lane,
        name=builder.strings.intern_many(["RUN_START", "PREFILL_DONE"]),
        detail=np.array([-1, builder.strings.intern("tokens=1")], np.int32),
    )
    builder.add_counter(
        "Memory",
        "bytes",
        CounterShape.LEVEL,
        token_start,
        np.arange(1, tokens + 1) * float(1 << 20),
    )
    patterns.append(np.full(builder.n_spans - n_ops, -1, np.int32))
    builder.accesses = Accesses(np.concatenate(patterns), *accesses)
    return finished(builder, name="llama.bin", n_records=n_ops, n_passes=tokens)


def _llama_accesses(builder: TraceBuilder, layers: int) -> tuple[Array, tuple]:
    """Fill ``builder.tensors``; return the pattern of each op and the tables."""
    weights = [f"blk.{i}.{s[2]}" for i in range(layers) for s in LAYER_STEPS if s[2]]
    names = [*weights, "activation"]
    n = len(weights)
    size = 1 << 16
    builder.tensors = Tensors(
        name=builder.strings.intern_many(names),
        offset=np.append(np.arange(n, dtype=np.int64) * size, -1),
        size=np.append(np.full(n, size, np.int64), 4096),
        layer=np.array([int(w.split(".")[1]) for w in weights] + [-1], np.int16),
        expert=np.full(n + 1, -1, np.int16),
    )
    pattern: list[int] = []
    first, tensor, space = [0], [], []
    for i in range(layers):
        for name, _, weight, _ in LAYER_STEPS:
            if name == "ffn_inp":
                pattern.append(-1)
                continue
            if weight:
                tensor.append(names.index(f"blk.{i}.{weight}"))
                space.append(Space.FILE)
            tensor.append(n)
            space.append(Space.BUFFER)
            pattern.append(len(first) - 1)
            first.append(len(tensor))
    rows = np.array(tensor, np.int32)
    m = len(rows)
    columns = AccessColumns(
        tensor=rows,
        kind=np.full(m, AccessKind.READ, np.uint8),
        space=np.array(space, np.uint8),
        offset=builder.tensors.offset[rows],
        size=builder.tensors.size[rows],
        buffer=np.full(m, -1, np.int32),
        layer=builder.tensors.layer[rows],
        expert=np.full(m, -1, np.int16),
        address=np.zeros(m, np.uint64),
    )
    return (
        np.array(pattern, np.int32),
        (np.array(first, np.int64), columns, FlatAccesses.blank()),
    )


def npu_like_trace(tiles: int = 20) -> Trace:
    """Return an NPU run in cycles: engines, stalls, tokens, markers, counters.

    Engines DMA0, TE0, VE0, CTRL and HOST; TE0's tiles 3 and 4 overlap; tile 0
    of VE0 asks for the colour red; stalls lie over DMA0 (attribute ``over``).
    """
    builder = TraceBuilder()
    builder.clock = Clock("cycle", 1_000, 1e9)
    engines = {
        name: builder.add_lane(name, LaneKind.ENGINE, ("Engines",))
        for name in ("DMA0", "TE0", "VE0", "CTRL", "HOST")
    }
    stall = builder.add_lane(
        "DMA0 stalls", LaneKind.STALL, ("Engines",), over=str(engines["DMA0"])
    )
    loose_stall = builder.add_lane("bus stalls", LaneKind.STALL, ("Stalls",))
    tokens = builder.add_lane("tokens", LaneKind.TOKEN, ("Tokens",))
    phases = builder.add_lane("phases", LaneKind.PHASE, ("Tokens",))
    markers = builder.add_lane("markers", LaneKind.MARKER, ("Markers",))
    i = np.arange(tiles, dtype=np.int64)
    half, total = tiles // 2 * 1_000, tiles * 1_000
    token = (i * 1_000 >= half).astype(np.int32)
    for engine, (offset, length) in {
        "DMA0": (0, 300),
        "TE0": (300, 500),
        "VE0": (800, 150),
        "CTRL": (0, 20),
        "HOST": (980, 20),
    }.items():
        begin = i * 1_000 + offset
        end = begin + length
        color = np.zeros(tiles, np.uint32)
        if engine == "TE0":
            end[3:4] += 600
        if engine == "VE0":
            color[:1] = 0xFFFF0000
        builder.add_spans(
            start=begin,
            end=end,
            lane=engines[engine],
            color=color,
            name=builder.strings.intern_many(
                [f"{engine} tile {k}" for k in range(tiles)]
            ),
            token=token,
            layer=(i % 4).astype(np.int16),
            phase=token.astype(np.int8),
        )
    for lane in (stall, loose_stall):
        builder.add_spans(
            start=i * 1_000 + 100,
            end=i * 1_000 + 150,
            lane=lane,
            name=builder.strings.intern("BANK_CONFLICT"),
        )
    builder.add_spans(
        start=np.array([0, half]),
        end=np.array([half, total]),
        lane=tokens,
        name=builder.strings.intern_many(["#0", "#1"]),
        token=np.array([0, 1], np.int32),
        phase=np.array([0, 1], np.int8),
    )
    builder.add_spans(
        start=np.array([0, half]),
        end=np.array([half, total]),
        lane=phases,
        name=builder.strings.intern_many(["prefill", "decode"]),
        phase=np.array([0, 1], np.int8),
    )
    builder.add_markers(
        time=np.array([half]),
        lane=markers,
        name=builder.strings.intern("PREFILL_DONE"),
    )
    builder.add_counter(
        "DRAM read",
        "bytes",
        CounterShape.RATE,
        i * 1_000,
        (i % 3).astype(np.float64) * 4096,
        window=np.full(tiles, 1_000, np.int64),
    )
    builder.add_counter(
        "SPM used",
        "bytes",
        CounterShape.LEVEL,
        i * 1_000,
        i.astype(np.float64),
    )
    builder.add_counter(
        "allocations",
        "",
        CounterShape.DELTA,
        i * 1_000,
        np.ones(tiles),
    )
    return finished(builder, name="run.nputrace.json", format="npu")


def statistics(trace: Trace, by: By = "op", **options: Any) -> list[StatRow]:
    """Return the rows of `stat_table`, longest total first."""
    return list(stat_table(trace, by, **options).rows)


def token_trace(tokens: Sequence[tuple[int, int, int]]) -> Trace:
    """Return tokens as (begin, end, ticks of work), each with one op at its begin."""
    builder = TraceBuilder()
    builder.ops = OPS
    lanes = [
        builder.add_lane("tokens", LaneKind.TOKEN),
        builder.add_lane("thread 0", LaneKind.THREAD),
    ]
    begin, end, work = (np.array(part, np.int64) for part in zip(*tokens, strict=True))
    number = np.arange(len(tokens), dtype=np.int32)
    for lane, ends, op in ((lanes[0], end, -1), (lanes[1], begin + work, 1)):
        builder.add_spans(
            start=begin,
            end=ends,
            lane=np.full(len(begin), lane, np.int32),
            name=np.full(len(begin), -1, np.int32),
            op=np.full(len(begin), op, np.int16),
            token=number,
        )
    return builder.snapshot(make_info())
