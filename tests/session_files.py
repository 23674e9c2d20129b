"""Files of an experiment, written small: a trace, its map, its graphs, its buffers."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from builders import OPS, make_info
from ggscope.model.builder import TraceBuilder
from ggscope.model.graph import Graph
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    Array,
    CounterShape,
    FlatAccesses,
    Space,
)
from ggscope.model.tensors import (
    Buffers,
    BufferUsage,
    ModelFile,
    Place,
    SizeSource,
    Tensors,
)
from ggscope.model.trace import LaneKind, OpTable, Trace
from ggscope.model.units import Clock


def reading_trace(
    reads: Sequence[tuple[str, int, int]],
    *,
    repeats: int = 1,
    origin: int = 0,
    space: Space = Space.FILE,
    addresses: Sequence[int] = (),
    name: str = "run.bin",
    ops: Sequence[str] = (),
) -> Trace:
    """Return a run in which op i reads (tensor, offset, size) number i.

    All ops are repeated, on one thread, 100 ns apart; -1 = the trace does not state.
    """
    builder = TraceBuilder()
    builder.ops = OPS
    builder.clock = Clock("ns", origin)
    lane = builder.add_lane("thread 0", LaneKind.THREAD, ("Threads",))
    n = len(reads)
    names = list(dict.fromkeys(text for text, _, _ in reads))
    tensor = np.array([names.index(text) for text, _, _ in reads], np.int32)
    offset = np.array([o for _, o, _ in reads], np.int64)
    size = np.array([s for _, _, s in reads], np.int64)
    first_offset = np.full(len(names), -1, np.int64)
    for row, at in zip(tensor.tolist(), offset.tolist(), strict=True):
        first_offset[row] = at if first_offset[row] < 0 else min(first_offset[row], at)
    largest = np.full(len(names), -1, np.int64)
    np.maximum.at(largest, tensor, size)
    builder.tensors = Tensors(
        name=builder.strings.intern_many(names),
        offset=first_offset,
        size=largest,
        layer=np.full(len(names), -1, np.int16),
        expert=np.full(len(names), -1, np.int16),
    )
    start = np.arange(n * repeats, dtype=np.int64) * 100
    results = [f"out-{i}" for i in range(n)]
    op = [OPS.names.index(ops[i] if ops else "MUL_MAT") for i in range(n)]
    builder.add_spans(
        start=start,
        end=start + 80,
        lane=lane,
        name=np.tile(builder.strings.intern_many(results), repeats),
        op=np.tile(np.array(op, np.int16), repeats),
    )
    builder.accesses = Accesses(
        np.tile(np.arange(n, dtype=np.int32), repeats),
        np.arange(n + 1, dtype=np.int64),
        AccessColumns(
            tensor=tensor,
            kind=np.zeros(n, np.uint8),
            space=np.full(n, space, np.uint8),
            offset=offset,
            size=size,
            buffer=np.full(n, -1, np.int32),
            layer=np.full(n, -1, np.int16),
            expert=np.full(n, -1, np.int16),
            address=np.array(addresses or [0] * n, np.uint64),
        ),
        FlatAccesses.blank(),
    )
    return _checked(builder, name, n_records=n * repeats)


def model_trace(
    tensors: Sequence[tuple[str, int, int]],
    *,
    experts: Sequence[int] = (),
    place: Place = Place.LISTED,
    source: SizeSource = SizeSource.LISTED,
    data_offset: int = -1,
    addresses: Sequence[int] = (),
    name: str = "memory-map.json",
) -> Trace:
    """Return a side file that lists (tensor, offset, size)."""
    builder = TraceBuilder()
    n = len(tensors)
    builder.models = (ModelFile(name, data_offset=data_offset),)
    builder.tensors = Tensors(
        name=builder.strings.intern_many([text for text, _, _ in tensors]),
        offset=np.array([o for _, o, _ in tensors], np.int64),
        size=np.array([s for _, _, s in tensors], np.int64),
        layer=np.full(n, -1, np.int16),
        expert=np.array(experts or [-1] * n, np.int16),
        file=np.zeros(n, np.int16),
        place=np.full(n, place, np.uint8),
        size_source=np.full(n, source, np.uint8),
        address=np.array(addresses, np.uint64) if addresses else None,
    )
    return _checked(builder, name)


def buffers_trace(
    lives: Sequence[tuple[int, int, int, int]],
    *,
    origin: int = 0,
    name: str = "buffer-timeline.json",
) -> Trace:
    """Return buffers as (address, size, allocated, freed), ticks after `origin`."""
    builder = TraceBuilder()
    builder.clock = Clock("ns", origin)
    n = len(lives)
    columns = [np.array(column, np.int64) for column in zip(*lives, strict=True)]
    address, size, allocated, freed = columns
    builder.buffers = Buffers(
        name=builder.strings.intern_many([f"KV {i}" for i in range(n)]),
        backend=builder.strings.intern_many(["CPU"] * n),
        usage=np.full(n, BufferUsage.COMPUTE, np.uint8),
        size=size,
        allocated=allocated,
        freed=freed,
        address=address.astype(np.uint64),
    )
    order = np.argsort(allocated, kind="stable")
    builder.add_counter(
        "Buffers",
        "bytes",
        CounterShape.LEVEL,
        allocated[order],
        np.cumsum(size[order]).astype(np.float64),
    )
    return _checked(builder, name)


def graph_trace(
    nodes: Sequence[tuple[str, str]],
    edges: Sequence[tuple[int, int, int]] = (),
    name: str = "graph.json",
    table: OpTable = OPS,
) -> Trace:
    """Return a graph: nodes (name, op or ""), edges (source, target, slot)."""
    builder = TraceBuilder()
    builder.ops = table
    n = len(nodes)
    none: Array = np.full(n, -1, np.int32)
    columns = np.array(edges, np.int64).reshape(-1, 3)
    builder.add_graph(
        Graph(
            name=builder.strings.intern_many([text for text, _ in nodes]),
            op=np.array(
                [table.names.index(o) if o else -1 for _, o in nodes], np.int16
            ),
            tensor=none.copy(),
            layer=np.full(n, -1, np.int16),
            source=columns[:, 0].copy(),
            target=columns[:, 1].copy(),
            slot=columns[:, 2].astype(np.uint8),
            operation=none.copy(),
            dtype=none.copy(),
            shape=np.zeros((n, 4), np.int64),
            category=np.zeros(n, np.uint8),
            flags=np.zeros(n, np.uint8),
            address=np.zeros(n, np.uint64),
        )
    )
    return _checked(builder, name)


def rows_by_name(trace: Trace) -> dict[str, int]:
    """Return the row of each tensor of a trace; the last one of a name."""
    return {trace.strings[i]: row for row, i in enumerate(trace.tensors.name.tolist())}


def write_map(path: Path, tensors: Sequence[tuple[str, int, int]]) -> Path:
    """Write a ``memory-map.json``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "name": name,
            "offset_start": offset,
            "offset_end": offset + size,
            "size_bytes": size,
            "shape": [size // 4],
            "category": "ffn",
            "layer_id": 0,
            "component": "up",
            "component_type": "FFN",
        }
        for name, offset, size in tensors
    ]
    end = max(offset + size for _, offset, size in tensors)
    facts = {"n_layers": 1, "n_vocab": 8, "n_embd": 8, "n_tensors": len(rows)}
    whole = {
        "model_name": "tiny",
        "total_size_bytes": end,
        "metadata": facts,
        "tensors": rows,
    }
    path.write_text(json.dumps(whole), "utf-8")
    return path


def write_tokens(
    path: Path,
    reads: Sequence[tuple[str, int, int]],
    *,
    token: int = 0,
    start_ns: int = 10_000_000_000,
) -> Path:
    """Write a token trace of which op i reads (tensor, offset, size) number i."""
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [
        {
            "entry_id": i,
            "timestamp_ns": start_ns + i * 1000,
            "timestamp_relative_ms": i / 1000,
            "token_id": token,
            "layer_id": 0,
            "thread_id": 1,
            "phase": "PROMPT",
            "operation_type": "MUL_MAT",
            "dst_name": f"ffn_up-{i}",
            "num_sources": 1,
            "sources": [
                {
                    "name": name,
                    "tensor_ptr": hex(0x1000 + i),
                    "size_bytes": size,
                    "layer_id": 0,
                    "memory_source": "DISK",
                    "disk_offset": offset,
                }
            ],
        }
        for i, (name, offset, size) in enumerate(reads)
    ]
    facts = {
        "total_entries": len(entries),
        "duration_ms": len(entries) / 1000,
        "timestamp_start_ns": start_ns,
        "format_version": "256-byte",
    }
    whole = {"token_id": token, "metadata": facts, "entries": entries}
    path.write_text(json.dumps(whole), "utf-8")
    return path


def write_experiment(folder: Path, *, delta: int = 4096, tokens: int = 1) -> Path:
    """Write a folder with traces, a map, and files that take no part."""
    tensors = [(f"blk.{i}.ffn_up.weight", i * 1024, 1024) for i in range(6)]
    reads = [(name, offset + delta, size) for name, offset, size in tensors[:4]]
    for token in range(tokens):
        write_tokens(
            folder / "traces" / f"token-{token:05}.json",
            reads,
            token=token,
            start_ns=10_000_000_000 + token * 50_000,
        )
    write_map(folder / "memory-map.json", tensors)
    (folder / "README.md").write_text("# What was measured\n", "utf-8")
    return folder


def _checked(builder: TraceBuilder, name: str, **info: object) -> Trace:
    trace = builder.snapshot(make_info(name, **info))
    broken = trace.check()
    assert not broken, broken
    return trace
