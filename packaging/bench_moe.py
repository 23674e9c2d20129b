"""Write the trace of a mixture of experts, and the head of the model that it reads.

24 layers of 32 experts, each expert a tensor of its own: 2,691 tensors in a model
file of 13 GB, of which only the head is written, the rest being a hole. A token reads
4 experts a layer, the hot ones more often, and goes on with what the token before it
chose. Records are those of 256 bytes; both files depend on the size alone.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from bench_traces import NO_LAYER, RECORD, TraceFile

from ggscope.model.ggml.types import tensor_bytes, type_number

N_LAYERS, N_EXPERTS, N_USED = 24, 32, 4
N_TENSORS = N_LAYERS * (3 * N_EXPERTS + 16) + 3
TOKENS_PER_BLOCK = 64
ALIGNMENT = 32
EMBEDDING, HEADS, KV, VOCABULARY = 2_880, 4_096, 512, 201_088
KINDS = ("gate", "up", "down")
GAP_NS, PAUSE_NS = 700, 50_000
STAYS = 0.3
"""Share of tokens whose layer works with the experts of the token before."""
FILE, BUFFER = 0, 1
ARENA = 0x6000_0000_1000
KV_CACHE = 0x6000_0000_2000

ADD, ADD_ID, MUL, RMS_NORM, MUL_MAT, MUL_MAT_ID = 2, 3, 7, 25, 29, 30
GET_ROWS, SET_ROWS, ROPE, ARGSORT, ATTENTION, GLU = 40, 42, 48, 68, 73, 94
"""Op numbers of November 2025."""


@dataclass(frozen=True)
class Weight:
    """A tensor of the model file.

    Attributes
    ----------
    offset : from the beginning of the data section.
    """

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int
    size: int


@dataclass(frozen=True)
class MoeOp:
    """An op of a token.

    Attributes
    ----------
    weights : names of tensors of the model; an op of an expert has none, but `kind`.
    inputs : names of activations.
    kind, rank : place in KINDS and in the router's choice; -1 for other ops.
    """

    number: int
    name: str
    median_ns: int
    layer: int
    weights: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    kind: int = -1
    rank: int = -1


# -- the model -----------------------------------------------------------------


def expert_name(layer: int, kind: int, expert: int) -> str:
    """Return the name of an expert's tensor; the longest fit a record's 20 bytes."""
    return f"blk.{layer}.ffn_{KINDS[kind]}[{expert}]"


@cache
def weights() -> dict[str, Weight]:
    """Return the tensors of the model in the order of the file, by name."""
    rows: list[tuple[str, tuple[int, ...], str]] = [
        ("token_embd.weight", (EMBEDDING, VOCABULARY), "bf16")
    ]
    for layer in range(N_LAYERS):
        rows += [(f"blk.{layer}.{n}", shape, t) for n, shape, t in _LAYER]
        rows += [
            (expert_name(layer, kind, expert), (EMBEDDING, EMBEDDING), "mxfp4")
            for kind in range(len(KINDS))
            for expert in range(N_EXPERTS)
        ]
    rows.append(("output_norm.weight", (EMBEDDING,), "f32"))
    rows.append(("output.weight", (EMBEDDING, VOCABULARY), "bf16"))
    layers, at = {}, 0
    for name, shape, type_name in rows:
        number = type_number(type_name)
        size = tensor_bytes(number, shape)
        layers[name] = Weight(name, shape, number, at, size)
        at += -(-size // ALIGNMENT) * ALIGNMENT
    return layers


_BIAS = (EMBEDDING, N_EXPERTS)
_LAYER: tuple[tuple[str, tuple[int, ...], str], ...] = (
    ("attn_norm.weight", (EMBEDDING,), "f32"),
    ("attn_q.weight", (EMBEDDING, HEADS), "bf16"), ("attn_q.bias", (HEADS,), "f32"),
    ("attn_k.weight", (EMBEDDING, KV), "bf16"), ("attn_k.bias", (KV,), "f32"),
    ("attn_v.weight", (EMBEDDING, KV), "bf16"), ("attn_v.bias", (KV,), "f32"),
    ("attn_output.weight", (HEADS, EMBEDDING), "bf16"),
    ("attn_output.bias", (EMBEDDING,), "f32"), ("attn_sinks", (64,), "f32"),
    ("post_norm.weight", (EMBEDDING,), "f32"),
    ("ffn_gate_inp.weight", (EMBEDDING, N_EXPERTS), "f32"),
    ("ffn_gate_inp.bias", (N_EXPERTS,), "f32"),
    ("gate_exps.bias", _BIAS, "f32"), ("up_exps.bias", _BIAS, "f32"),
    ("down_exps.bias", _BIAS, "f32"),
)  # fmt: skip
"""What each layer has besides its experts: name, shape, type."""


def write_model(path: Path, _: int) -> None:
    """Write the model: its head, and a hole where the data would be."""
    tensors = list(weights().values())
    fields = [
        _string("general.architecture") + struct.pack("<I", 8) + _string("gpt-oss"),
        _string("general.name") + struct.pack("<I", 8) + _string("Synthetic 20B"),
    ]
    fields += [
        _string(f"gpt-oss.{key}") + struct.pack("<II", 4, value)
        for key, value in (
            ("block_count", N_LAYERS), ("embedding_length", EMBEDDING),
            ("expert_count", N_EXPERTS), ("expert_used_count", N_USED),
        )
    ]  # fmt: skip
    rows = [
        _string(t.name)
        + struct.pack(f"<I{len(t.shape)}Q", len(t.shape), *t.shape)
        + struct.pack("<IQ", t.type, t.offset)
        for t in tensors
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    head += b"".join(fields + rows)
    head += bytes(-len(head) % ALIGNMENT)
    last = tensors[-1]
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + last.offset + last.size)


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


# -- the run -------------------------------------------------------------------


def token_ops() -> list[MoeOp]:
    """Return the ops of one token, in order."""
    ops = [_op(GET_ROWS, "inp_embd", 4_000, -1, ("token_embd.weight",), "inp_tokens")]
    for layer in range(N_LAYERS):
        ops += _layer_ops(layer)
    ops += [
        _op(RMS_NORM, "norm", 3_000, -1, (), f"l_out-{N_LAYERS - 1}"),
        _op(MUL, "result_norm", 1_500, -1, ("output_norm.weight",), "norm"),
        _op(MUL_MAT, "result_output", 2_100_000, -1, ("output.weight",), "result_norm"),
    ]
    return ops


def _op(
    number: int, name: str, ns: int, layer: int, names: Sequence[str], *inputs: str
) -> MoeOp:
    return MoeOp(number, name, ns, layer, tuple(names), inputs)


def _layer_ops(layer: int) -> list[MoeOp]:
    before = f"l_out-{layer - 1}" if layer else "inp_embd"
    ops: list[MoeOp] = []

    def add(number: int, name: str, ns: int, weight: str, *inputs: str) -> None:
        names = (f"blk.{layer}.{weight}",) if weight else ()
        own = tuple(text.format(layer) for text in inputs)
        ops.append(_op(number, name.format(layer), ns, layer, names, *own))

    add(RMS_NORM, "norm-{}", 3_000, "", before)
    add(MUL, "attn_norm-{}", 1_500, "attn_norm.weight", "norm-{}")
    for part, ns in (("q", 210_000), ("k", 55_000), ("v", 56_000)):
        name = part.upper() + "cur-{}"
        add(MUL_MAT, name, ns, f"attn_{part}.weight", "attn_norm-{}")
        add(ADD, name, 1_800, f"attn_{part}.bias", name)
    for name in ("Qcur-{}", "Kcur-{}"):
        add(ROPE, name, 6_000, "", name, "leaf_8")
    add(SET_ROWS, "cache_k_l{}", 1_200, "", "Kcur-{}", "leaf_10", "cache_k_l{}")
    add(SET_ROWS, "cache_v_l{}", 1_200, "", "Vcur-{}", "leaf_12", "cache_v_l{}")
    add(ATTENTION, "__fattn__-{}", 60_000, "attn_sinks", "Qcur-{}", "cache_k_l{}",
        "cache_v_l{}")  # fmt: skip
    add(MUL_MAT, "attn_out-{}", 205_000, "attn_output.weight", "__fattn__-{}")
    add(ADD, "attn_out-{}", 1_800, "attn_output.bias", "attn_out-{}")
    add(ADD, "ffn_inp-{}", 1_800, "", "attn_out-{}", before)
    add(RMS_NORM, "norm-{}", 3_000, "", "ffn_inp-{}")
    add(MUL, "attn_post_norm-{}", 1_500, "post_norm.weight", "norm-{}")
    add(MUL_MAT, "ffn_moe_logits-{}", 9_000, "ffn_gate_inp.weight",
        "attn_post_norm-{}")  # fmt: skip
    add(ADD, "ffn_moe_logits-{}", 900, "ffn_gate_inp.bias", "ffn_moe_logits-{}")
    add(ARGSORT, "ffn_moe_argsort-{}", 900, "", "ffn_moe_logits-{}")
    for kind, part in enumerate(KINDS):
        inputs = "ffn_moe_swiglu-{}" if part == "down" else "attn_post_norm-{}"
        own = (inputs.format(layer), f"ffn_moe_topk-{layer}")
        ops.extend(
            MoeOp(MUL_MAT_ID, f"ffn_moe_{part}-{layer}", 135_000, layer, (), own,
                  kind, rank)
            for rank in range(N_USED)
        )  # fmt: skip
        name = f"ffn_moe_{part}-{{}}"
        add(ADD_ID, name, 1_800, f"{part}_exps.bias", name, "ffn_moe_topk-{}")
        if part == "up":
            add(GLU, "ffn_moe_swiglu-{}", 7_500, "", "ffn_moe_gate-{}", name)
    add(ADD, "l_out-{}", 1_800, "", "ffn_moe_down-{}", "ffn_inp-{}")
    return ops


N_ACCESSES = sum(
    len(op.weights) + len(op.inputs) + (op.kind >= 0) for op in token_ops()
)
"""Accesses of a token."""


def n_tokens(n_accesses: int) -> int:
    """Return how many tokens have at least so many accesses."""
    return -(-n_accesses // N_ACCESSES)


def n_records(n_accesses: int) -> int:
    """Return how many records have at least so many accesses: whole tokens."""
    return n_tokens(n_accesses) * len(token_ops())


def choices(n: int) -> np.ndarray:
    """Return the experts of `n` tokens, int[n, N_LAYERS, N_USED], the first first."""
    rng = np.random.Generator(np.random.PCG64(2))
    # Each layer has its own hot experts.
    order = np.array([rng.permutation(N_EXPERTS) for _ in range(N_LAYERS)])
    heat = -np.log1p(order)
    chosen = np.empty((n, N_LAYERS, N_USED), np.int64)
    for first in range(0, n, 1_024):
        part = chosen[first : first + 1_024]
        scores = heat + rng.gumbel(size=(len(part), N_LAYERS, N_EXPERTS))
        part[:] = np.argsort(-scores, axis=2)[:, :, :N_USED]
        stays = rng.random((len(part), N_LAYERS)) < STAYS
        stays[0] = False
        # From which token of the part each layer has its choice.
        own = np.where(stays, 0, np.arange(len(part))[:, None])
        of = np.maximum.accumulate(own, axis=0)
        part[:] = part[of, np.arange(N_LAYERS)]
    return chosen


def write_run(path: Path, n: int) -> None:
    """Write the records of whole tokens with at least `n` accesses."""
    ops = token_ops()
    template = _template(ops)
    median = np.array([op.median_ns for op in ops], np.float64)
    rng = np.random.Generator(np.random.PCG64(1))
    places = [i for i, op in enumerate(ops) if op.kind >= 0]
    layer, kind, rank = np.array(
        [(ops[i].layer, ops[i].kind, ops[i].rank) for i in places]
    ).T
    sources = _expert_sources()
    chosen = choices(n_tokens(n))
    now = 1_234_567
    with path.open("wb") as file:
        for first in range(0, len(chosen), TOKENS_PER_BLOCK):
            part = chosen[first : first + TOKENS_PER_BLOCK]
            records = np.tile(template, (len(part), 1))
            took = (median * rng.lognormal(0, 0.12, records.shape)).astype(np.int64)
            took[:, -1] += PAUSE_NS
            ends = now + np.cumsum(took.ravel() + GAP_NS)
            begins = np.concatenate([[now], ends[:-1]])
            records["timestamp_ns"] = begins.reshape(records.shape)
            records["token_id"] = first + np.arange(len(part))[:, None]
            records["phase"] = (first + np.arange(len(part))[:, None]) > 0
            records["src"][:, places, 0] = sources[layer, kind, part[:, layer, rank]]
            file.write(records.tobytes())
            now = int(ends[-1])


def _template(ops: Sequence[MoeOp]) -> np.ndarray:
    """Return the records of one token; sources that are experts are left out."""
    record = np.zeros(len(ops), RECORD)
    record["thread_id"] = 4242
    addresses: dict[str, int] = {}
    for i, op in enumerate(ops):
        r = record[i]
        r["operation_type"], r["dst_name"] = op.number, op.name.encode()[:23]
        is_blk = op.kind >= 0 or any(name.startswith("blk.") for name in op.weights)
        r["layer_id"] = op.layer if is_blk else NO_LAYER
        own = [_weight_source(weights()[name]) for name in op.weights]
        own += [np.zeros((), RECORD["src"].base)] * (op.kind >= 0)
        own += [_buffer_source(name, addresses) for name in op.inputs]
        r["num_sources"] = len(own)
        for k, source in enumerate(own):
            r["src"][k] = source
    return record


def _weight_source(weight: Weight) -> np.ndarray:
    source = np.zeros((), RECORD["src"].base)
    layer = weight.name.split(".")[1] if weight.name.startswith("blk.") else NO_LAYER
    source["name"], source["memory_source"] = weight.name.encode()[:19], FILE
    source["tensor_ptr"] = 0x7F00_0000_0000 + weight.offset
    source["size_bytes"], source["where"] = weight.size, weight.offset
    source["layer_id"], source["tensor_idx"] = layer, 0xFFFFFFFF
    return source


def _buffer_source(name: str, addresses: dict[str, int]) -> np.ndarray:
    source = np.zeros((), RECORD["src"].base)
    number = addresses.setdefault(name, len(addresses))
    source["name"], source["memory_source"] = name.encode()[:19], BUFFER
    source["tensor_ptr"] = 0x7E00_0000_0000 + number * 0x4000
    source["size_bytes"] = EMBEDDING * 4
    source["where"] = KV_CACHE if name.startswith("cache_") else ARENA
    source["layer_id"], source["tensor_idx"] = NO_LAYER, 0xFFFFFFFF
    return source


def _expert_sources() -> np.ndarray:
    """Return the sources of all experts, [N_LAYERS, len(KINDS), N_EXPERTS]."""
    shape = (N_LAYERS, len(KINDS), N_EXPERTS)
    records = np.zeros(shape, RECORD["src"].base)
    for place in np.ndindex(shape):
        records[place] = _weight_source(weights()[expert_name(*place)])
    return records


# -- the graph -------------------------------------------------------------------

_SYMBOLS = {
    ADD: "x+y", ADD_ID: "x[i]+y", MUL: "x*y", RMS_NORM: "rms_norm(x)",
    MUL_MAT: "X*Y", MUL_MAT_ID: "X[i]*Y", GET_ROWS: "get_rows(x)",
    SET_ROWS: "set_rows(x)", ROPE: "rope(x)", ARGSORT: "argsort(x)",
    ATTENTION: "flash_attn_ext(x)", GLU: "glu(x)",
}  # fmt: skip


def write_graph(path: Path, _: int) -> None:
    """Write the graph of one token: a node for each op, and what these read."""
    ops = token_ops()
    names, of = [op.name for op in ops], dict[str, int]()
    edges: list[dict[str, str]] = []
    leaves: dict[str, int] = {}
    for i, op in enumerate(ops):
        stacks = (f"blk.{op.layer}.ffn_{KINDS[op.kind]}",) if op.kind >= 0 else ()
        for k, source in enumerate((*op.weights, *stacks, *op.inputs)):
            at = of.get(source)
            if at is None:
                at = len(ops) + leaves.setdefault(source, len(leaves))
            edges.append(
                {"source": f"node_{at}", "target": f"node_{i}", "label": f"src {k}"}
            )
        of[op.name] = i
    symbols = [_SYMBOLS[op.number] for op in ops] + ["CONST"] * len(leaves)
    nodes = [
        {
            "id": f"node_{i}", "address": hex(0x6313_0000_0000 + i * 0x170),
            "label": name, "operation": symbol, "shape": [EMBEDDING, 1],
            "dtype": "f32", "layer_id": None, "category": "other",
            "node_type": "layer",
        }
        for i, (name, symbol) in enumerate(zip([*names, *leaves], symbols, strict=True))
    ]  # fmt: skip
    about = {
        "total_nodes": len(nodes), "total_edges": len(edges), "layers": N_LAYERS,
        "timestamp_generated": None,
    }  # fmt: skip
    document = {"token_id": 0, "metadata": about, "nodes": nodes, "edges": edges}
    path.write_text(json.dumps(document), "utf-8")


# -- which files -----------------------------------------------------------------


def session_files(n_accesses: int) -> tuple[TraceFile, ...]:
    """Return the run, its model and its graph, which lie in a folder of their own."""
    folder = f"moe-{n_accesses}"
    n_bytes = n_records(n_accesses) * RECORD.itemsize
    return (
        TraceFile(f"{folder}/run.bin", n_accesses, n_bytes, write_run),
        TraceFile(f"{folder}/model.gguf", n_accesses, 1 << 18, write_model),
        TraceFile(f"{folder}/graph.json", n_accesses, 1 << 18, write_graph),
    )
