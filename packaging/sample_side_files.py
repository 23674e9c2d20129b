"""The files beside the sample trace: model, map, buffers, graphs."""

import json
import struct
from collections.abc import Iterator

from sample_experiment import (
    CONTEXT,
    EMBD,
    F16,
    F32,
    KV_BUFFER,
    N_EXPERTS,
    N_LAYERS,
    N_PROMPT,
    N_USED,
    NO_LAYER,
    OPS,
    Q4_0,
    Q8_0,
    SCRATCH_BUFFER,
    START_NS,
    VOCAB,
    WEIGHTS_BUFFER,
    Layout,
    Op,
    Weight,
    base,
    model,
    pass_ops,
    trace,
)

SCRATCH_BYTES = 393_216
TYPE_NAMES = {F32: "f32", F16: "f16", Q4_0: "q4_0", Q8_0: "q8_0"}
RELABELLED = {"view": "view(x)", "reshaped": "reshape(x)", "permuted": "permute(x)"}
"""Suffix of a name -> how a graph prints the op."""


def gguf(layout: Layout) -> tuple[bytes, int]:
    """Return a GGUF file of version 3 and where its data begin."""
    tokens = b"".join(_text(f"<{i}>") for i in range(VOCAB))
    fields = [
        _string_entry("general.architecture", "qwen3moe"),
        _string_entry("general.name", "Sample MoE"),
        _number("general.file_type", 2),
        _number("qwen3moe.block_count", N_LAYERS),
        _number("qwen3moe.context_length", CONTEXT),
        _number("qwen3moe.embedding_length", EMBD),
        _number("qwen3moe.expert_count", N_EXPERTS),
        _number("qwen3moe.expert_used_count", N_USED),
        _text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, VOCAB) + tokens,
    ]
    rows = [
        _text(w.name)
        + struct.pack("<I", len(w.shape))
        + struct.pack(f"<{len(w.shape)}Q", *w.shape)
        + struct.pack("<IQ", w.type, w.offset)
        for w in layout.weights.values()
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(fields))
    head += b"".join(fields) + b"".join(rows)
    head += bytes(-len(head) % 32)
    return head + bytes(layout.end), len(head)


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def _number(key: str, value: int) -> bytes:
    return _text(key) + struct.pack("<II", 4, value)


def _string_entry(key: str, value: str) -> bytes:
    return _text(key) + struct.pack("<I", 8) + _text(value)


def memory_map(layout: Layout) -> dict[str, object]:
    """Return the map of the model as the tracer's tools prepare it."""
    return {
        "model_name": "sample-moe",
        "total_size_bytes": layout.end,
        "metadata": {
            "n_layers": N_LAYERS,
            "n_vocab": VOCAB,
            "n_embd": EMBD,
            "n_tensors": len(layout.weights),
        },
        "tensors": [_map_row(weight) for weight in layout.weights.values()],
    }


def _map_row(weight: Weight) -> dict[str, object]:
    parts = weight.name.split(".")
    part = parts[2] if parts[0] == "blk" else parts[0]
    category = next(
        (c for c in ("attn", "ffn", "token_embd") if part.startswith(c)), "output"
    )
    known = {"attn": "attention", "token_embd": "embedding"}
    return {
        "name": weight.name,
        "offset_start": weight.offset,
        "offset_end": weight.offset + weight.size,
        "size_bytes": weight.size,
        "shape": list(weight.shape),
        "category": known.get(category, category),
        "layer_id": int(parts[1]) if parts[0] == "blk" else None,
        "component": part,
        "component_type": part.replace("_", " "),
    }


def buffer_timeline(layout: Layout, end: int) -> dict[str, object]:
    """Return the buffers of the run; the scratch memory is released at its end."""
    kv = N_LAYERS * 2 * EMBD * CONTEXT * 2
    rows = [
        (WEIGHTS_BUFFER, "Model", layout.end, 1, START_NS - 900_000, None),
        (KV_BUFFER, "KVCache_CPU", kv, 2, START_NS - 400_000, None),
        (SCRATCH_BUFFER, "Scratch", SCRATCH_BYTES, 2, START_NS - 150_000,
         end + 40_000),
    ]  # fmt: skip
    events = [(row[4], "alloc", row) for row in rows]
    events += [(row[5], "dealloc", row) for row in rows if row[5] is not None]
    used = alive = peak = 0
    timeline: list[dict[str, object]] = []
    for time, what, row in sorted(events, key=lambda e: e[0]):
        sign = 1 if what == "alloc" else -1
        used, alive = used + sign * row[2], alive + sign
        peak = max(peak, used)
        timeline.append(
            {
                "timestamp_ms": _ms(time),
                "event": what,
                "buffer_id": row[0],
                "buffer_name": row[1],
                "size": row[2],
                "cumulative_size": used,
                "num_active_buffers": alive,
            }
        )
    times = [time for time, _, _ in events]
    return {
        "metadata": {
            "total_events": len(timeline),
            "total_buffers": len(rows),
            "peak_occupancy_bytes": peak,
            "peak_occupancy_mb": round(peak / 2**20, 3),
            "duration_ms": _ms(max(times) - min(times)),
            "usage_breakdown": {"WEIGHTS": 1, "COMPUTE": 2},
        },
        "buffers": [
            {
                "id": buffer_id,
                "name": name,
                "size": size,
                "backend": "CPU",
                "usage": usage,
                "usage_name": {1: "WEIGHTS", 2: "COMPUTE"}[usage],
                "layer": NO_LAYER,
                "alloc_time_ms": _ms(born),
                "dealloc_time_ms": None if died is None else _ms(died),
            }
            for buffer_id, name, size, usage, born, died in rows
        ],
        "timeline": timeline,
    }


def _ms(ns: int) -> float:
    """Return milliseconds, which the file counts in."""
    return round(ns / 1e6, 3)


class Grapher:
    """Builds the graph of a pass, as the tracer's tools export it."""

    def __init__(self, layout: Layout) -> None:
        self._weights = layout.weights
        self._nodes: list[dict[str, object]] = []
        self._leaves: dict[str, dict[str, object]] = {}
        self._edges: list[tuple[str, str, int]] = []
        self._made: dict[str, str] = {}

    def graph(self, token: int, n: int) -> dict[str, object]:
        """Return the graph of a pass over `n` tokens."""
        for op in pass_ops(n):
            inputs = [self._input(op, name, n) for name in op.sources]
            node = self._node(op.name, OPS[op.op][1], op.shape, "f32")
            self._edges += [(s, node, slot) for slot, s in enumerate(inputs)]
            self._made[base(op.name)] = node
        nodes = [*self._nodes, *self._leaves.values()]
        return {
            "token_id": token,
            "metadata": {
                "total_nodes": len(nodes),
                "total_edges": len(self._edges),
                "layers": N_LAYERS,
                "timestamp_generated": None,
            },
            "nodes": nodes,
            "edges": [
                {"source": s, "target": t, "label": f"src {slot}"}
                for s, t, slot in self._edges
            ],
        }

    def _input(self, op: Op, name: str, n: int) -> str:
        """Return the node of a source; views of results are nodes of their own."""
        if name not in self._weights and " (" in name:
            inner = self._input(op, base(name), n)
            word = name.split(" (")[1].rstrip(")")
            node = self._node(name, RELABELLED[word], op.shape, "f32")
            self._edges.append((inner, node, 0))
            return node
        made = self._made.get(name)
        if name.startswith("ffn_moe_topk"):
            made = self._topk(name, n)
        return made or self._leaf(name, n)

    def _topk(self, name: str, n: int) -> str:
        """Return the view of the first experts in the ranking."""
        if name not in self._made:
            ranked = self._made[name.replace("topk", "argsort")]
            node = self._node(name, "view(x)", (N_USED, n), "i32")
            self._edges.append((ranked, node, 0))
            self._made[name] = node
        return self._made[name]

    def _leaf(self, name: str, n: int) -> str:
        leaf = self._leaves.get(name)
        if leaf is None:
            weight = self._weights.get(name)
            shape = weight.shape if weight is not None else (n, 1)
            kind = TYPE_NAMES[weight.type] if weight is not None else "i32"
            if name.startswith("cache_"):
                shape, kind = (EMBD, CONTEXT), "f16"
            leaf = self._entry(f"leaf_{len(self._leaves)}", name, "CONST", shape, kind)
            self._leaves[name] = leaf
        return str(leaf["id"])

    def _node(self, name: str, symbol: str, shape: tuple[int, ...], kind: str) -> str:
        node_id = f"node_{len(self._nodes)}"
        self._nodes.append(self._entry(node_id, name, symbol, shape, kind))
        return node_id

    def _entry(
        self, node_id: str, name: str, symbol: str, shape: tuple[int, ...], kind: str
    ) -> dict[str, object]:
        count = len(self._nodes) + len(self._leaves)
        return {
            "id": node_id,
            "address": hex(0x5600_0000_0000 + count * 0x170),
            "label": name,
            "operation": symbol,
            "shape": list(shape),
            "dtype": kind,
            "layer_id": _layer_of(name),
            "category": _category(name),
            "node_type": "infrastructure" if _layer_of(name) is None else "layer",
        }


def _layer_of(name: str) -> int | None:
    stem = base(name)
    if stem.startswith("blk."):
        return int(stem.split(".")[1])
    digits = stem.rsplit("_l" if stem.startswith("cache_") else "-", 1)
    return int(digits[1]) if len(digits) == 2 and digits[1].isdigit() else None


def _category(name: str) -> str:
    stem = base(name).removeprefix("blk.")
    for word, category in (
        ("embd", "input"), ("norm", "norm"), ("ffn", "ffn"), ("cur-", "attention"),
        ("attn", "attention"), ("cache_", "attention"), ("output", "output"),
    ):  # fmt: skip
        if word in stem:
            return category
    return "other"


def files() -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of every file of the experiment."""
    layout = model()
    weights, data_offset = gguf(layout)
    records, end = trace(layout, data_offset)
    yield "trace-1024.bin", records
    yield "model.gguf", weights
    for name, value in (
        ("memory-map.json", memory_map(layout)),
        ("buffer-timeline.json", buffer_timeline(layout, end)),
        ("graphs/token-00000.json", Grapher(layout).graph(0, N_PROMPT)),
        ("graphs/token-00001.json", Grapher(layout).graph(1, 1)),
    ):
        yield name, json.dumps(value, separators=(",", ":")).encode()
