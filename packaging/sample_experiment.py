"""The sample folder ``moe-experiment``: one small run with everything beside it.

A made-up mixture of experts with 4 layers of 8 experts, of which 2 compute, runs a
prompt of 6 tokens and generates 8. The files are those of a real experiment:

trace-1024.bin          936 records of 1024 bytes, with the experts of each layer
model.gguf              the model; its weights are zeros
memory-map.json         its tensors, with offsets that count from the data section
buffer-timeline.json    weights, KV cache and scratch memory on the clock of the trace
graphs/token-00000.json, token-00001.json    the graphs of the prompt and of a token
"""

import random
import struct
from dataclasses import dataclass, field

N_LAYERS, N_EXPERTS, N_USED, N_PROMPT, N_GENERATED = 4, 8, 2, 6, 8
EMBD, HIDDEN, VOCAB, HEADS, CONTEXT = 64, 96, 512, 4, 256
START_NS = 48_120_500_000_000
WEIGHTS_BUFFER, KV_BUFFER, SCRATCH_BUFFER = 0x6A10_0000, 0x6A20_0000, 0x6A30_0000
NO_LAYER, NO_INDEX = 0xFFFF, 0xFFFFFFFF
F32, F16, Q4_0, Q8_0 = 0, 1, 2, 8
BLOCKS = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34)}
"""ggml type -> (elements, bytes) of a block."""

# Numbers of ggml from 2025-11-25 on, and how its graphs print these ops.
OPS = {
    "ADD": (2, "x+y"),
    "MUL": (7, "x*y"),
    "RMS_NORM": (25, "rms_norm(x)"),
    "MUL_MAT": (29, "X*Y"),
    "MUL_MAT_ID": (30, "X[i]*Y"),
    "GET_ROWS": (40, "get_rows(x)"),
    "SET_ROWS": (42, "set_rows(x)"),
    "SOFT_MAX": (46, "soft_max(x)"),
    "ROPE": (48, "rope(x)"),
    "ARGSORT": (68, "argsort(x)"),
    "FLASH_ATTN_EXT": (73, "flash_attn_ext(x)"),
    "GLU": (94, "glu(x)"),
}


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor of the model file; `offset` counts from the data section."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int

    @property
    def size(self) -> int:
        """Bytes."""
        elements, n_bytes = BLOCKS[self.type]
        n = 1
        for length in self.shape:
            n *= length
        return n // elements * n_bytes


@dataclass(frozen=True, slots=True)
class Op:
    """One operation; `sources` are names, of weights or of earlier results."""

    op: str
    name: str
    ns: int
    sources: tuple[str, ...]
    shape: tuple[int, ...]


@dataclass(slots=True)
class Layout:
    """The model: its tensors in the order of the file."""

    weights: dict[str, Weight] = field(default_factory=dict)
    end: int = 0

    def add(self, name: str, shape: tuple[int, ...], kind: int) -> None:
        """Append a tensor behind the last one, at a multiple of 32."""
        weight = self.weights[name] = Weight(name, shape, kind, self.end)
        self.end += -(-weight.size // 32) * 32


def model() -> Layout:
    """Return the model; one of its tensors is never read."""
    layout = Layout()
    layout.add("token_embd.weight", (EMBD, VOCAB), Q8_0)
    for i in range(N_LAYERS):
        w = f"blk.{i}."
        layout.add(w + "attn_norm.weight", (EMBD,), F32)
        for part in ("q", "k", "v", "output"):
            layout.add(f"{w}attn_{part}.weight", (EMBD, EMBD), F16)
        layout.add(w + "ffn_norm.weight", (EMBD,), F32)
        layout.add(w + "ffn_gate_inp.weight", (EMBD, N_EXPERTS), F32)
        layout.add(w + "ffn_gate_exps.weight", (EMBD, HIDDEN, N_EXPERTS), Q4_0)
        layout.add(w + "ffn_up_exps.weight", (EMBD, HIDDEN, N_EXPERTS), Q4_0)
        layout.add(w + "ffn_down_exps.weight", (HIDDEN, EMBD, N_EXPERTS), Q4_0)
    layout.add("output_norm.weight", (EMBD,), F32)
    layout.add("output.weight", (EMBD, VOCAB), Q8_0)
    layout.add("cls.output.weight", (EMBD, 128), F16)
    return layout


def pass_ops(n: int) -> list[Op]:
    """Return the ops of a pass over `n` tokens, in the order of the program."""
    row, head = (EMBD, n), (EMBD // HEADS, HEADS, n)
    chosen, hidden = (EMBD, N_USED, n), (HIDDEN, N_USED, n)
    scores = (N_EXPERTS, n)

    def m(ns: int) -> int:
        """Products take longer for prompts."""
        return ns * (1 + n // 3)

    ops = [Op("GET_ROWS", "inp_embd", 2_000, ("token_embd.weight", "leaf_2"), row)]
    for i in range(N_LAYERS):
        w, before = f"blk.{i}.", f"l_out-{i - 1}" if i else "inp_embd"
        ops += [
            Op("RMS_NORM", f"norm-{i}", 900, (before,), row),
            Op("MUL", f"attn_norm-{i}", 700,
               (f"norm-{i}", w + "attn_norm.weight"), row),
            Op("MUL_MAT", f"Qcur-{i}", m(4_200),
               (w + "attn_q.weight", f"attn_norm-{i}"), row),
            Op("ROPE", f"Qcur-{i}", 1_100, (f"Qcur-{i} (reshaped)", "leaf_4"), head),
            Op("MUL_MAT", f"Kcur-{i}", m(4_100),
               (w + "attn_k.weight", f"attn_norm-{i}"), row),
            Op("ROPE", f"Kcur-{i}", 1_000, (f"Kcur-{i} (reshaped)", "leaf_4"), head),
            Op("MUL_MAT", f"Vcur-{i}", m(4_000),
               (w + "attn_v.weight", f"attn_norm-{i}"), row),
            Op("SET_ROWS", f"cache_k_l{i} (view)", 600,
               (f"Kcur-{i} (view)", "leaf_9", f"cache_k_l{i}"), (EMBD, CONTEXT)),
            Op("SET_ROWS", f"cache_v_l{i} (view)", 600,
               (f"Vcur-{i} (view)", "leaf_10", f"cache_v_l{i}"), (EMBD, CONTEXT)),
            Op("FLASH_ATTN_EXT", f"__fattn__-{i}", m(6_500),
               (f"Qcur-{i} (permuted)", f"cache_k_l{i} (view)",
                f"cache_v_l{i} (view)", "leaf_12"), head),
            Op("MUL_MAT", f"attn_out-{i}", m(4_300),
               (w + "attn_output.weight", f"__fattn__-{i} (reshaped)"), row),
            Op("ADD", f"ffn_inp-{i}", 700, (f"attn_out-{i}", before), row),
            Op("RMS_NORM", f"norm-{i}", 900, (f"ffn_inp-{i}",), row),
            Op("MUL", f"ffn_norm-{i}", 700, (f"norm-{i}", w + "ffn_norm.weight"), row),
            Op("MUL_MAT", f"ffn_moe_logits-{i}", m(1_200),
               (w + "ffn_gate_inp.weight", f"ffn_norm-{i}"), scores),
            Op("SOFT_MAX", f"ffn_moe_probs-{i}", 500, (f"ffn_moe_logits-{i}",), scores),
            Op("ARGSORT", f"ffn_moe_argsort-{i}", 600,
               (f"ffn_moe_probs-{i}",), scores),
            Op("GET_ROWS", f"ffn_moe_weights-{i}", 500,
               (f"ffn_moe_probs-{i} (reshaped)", f"ffn_moe_topk-{i}"), (1, N_USED, n)),
            Op("MUL_MAT_ID", f"ffn_moe_gate-{i}", m(9_800),
               (w + "ffn_gate_exps.weight", f"ffn_norm-{i} (reshaped)",
                f"ffn_moe_topk-{i}"), hidden),
            Op("MUL_MAT_ID", f"ffn_moe_up-{i}", m(9_600),
               (w + "ffn_up_exps.weight", f"ffn_norm-{i} (reshaped)",
                f"ffn_moe_topk-{i}"), hidden),
            Op("GLU", f"ffn_moe_swiglu-{i}", 1_300,
               (f"ffn_moe_gate-{i}", f"ffn_moe_up-{i}"), hidden),
            Op("MUL_MAT_ID", f"ffn_moe_down-{i}", m(10_100),
               (w + "ffn_down_exps.weight", f"ffn_moe_swiglu-{i}",
                f"ffn_moe_topk-{i}"), chosen),
            Op("MUL", f"ffn_moe_weighted-{i}", 800,
               (f"ffn_moe_down-{i}", f"ffn_moe_weights-{i}"), chosen),
            Op("ADD", f"ffn_moe_out-{i}", 700,
               (f"ffn_moe_weighted-{i} (view)", f"ffn_moe_weighted-{i} (view)"), row),
            Op("ADD", f"l_out-{i}", 700, (f"ffn_moe_out-{i}", f"ffn_inp-{i}"), row),
        ]  # fmt: skip
    last = f"l_out-{N_LAYERS - 1}"
    return [
        *ops,
        Op("RMS_NORM", "norm", 900, (last,), row),
        Op("MUL", "result_norm", 700, ("norm", "output_norm.weight"), row),
        Op("MUL_MAT", "result_output", m(15_000),
           ("output.weight", "result_norm"), (VOCAB, n)),
    ]  # fmt: skip


# --- the trace --------------------------------------------------------------


class Router:
    """Ranks the experts of each layer; a token keeps some of the last one's."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._liked = [
            [rng.uniform(0.75, 1.15) for _ in range(N_EXPERTS)] for _ in range(N_LAYERS)
        ]
        self._last: dict[int, tuple[int, ...]] = {}

    def ranking(self, layer: int) -> tuple[int, ...]:
        """Return all experts, the first `N_USED` of which compute."""
        bonus = self._last.get(layer, ())[:N_USED]
        marks = [
            like * self._rng.uniform(0.4, 1.0) * (1.25 if expert in bonus else 1.0)
            for expert, like in enumerate(self._liked[layer])
        ]
        ranked = tuple(sorted(range(N_EXPERTS), key=lambda e: -marks[e]))
        self._last[layer] = ranked
        return ranked


def base(name: str) -> str:
    """Return a name without its suffixes."""
    return name.split(" (")[0]


def layer_told(op: Op) -> int:
    """Return the layer as the tracer logs it: only ``blk.N.`` names carry one."""
    names = (op.name, *op.sources)
    return next((int(n.split(".")[1]) for n in names if n.startswith("blk.")), NO_LAYER)


class Recorder:
    """Writes records of 1024 bytes."""

    def __init__(self, layout: Layout, data_offset: int) -> None:
        self._weights = layout.weights
        self._data_offset = data_offset
        self._pointers: dict[str, int] = {}
        self.records: list[bytes] = []

    def record(
        self, time: int, token: int, op: Op, n: int, experts: tuple[int, ...]
    ) -> None:
        """Add an op over `n` tokens that begins at `time`."""
        head = struct.pack(
            "<QIHHBBB5s", time, token, layer_told(op), 24_832, OPS[op.op][0],
            int(token > 0), len(op.sources), b"",
        )  # fmt: skip
        sources = b"".join(self._source(name, n) for name in op.sources)
        tail = struct.pack("<16iB", *(*experts, *[0] * 16)[:16], len(experts))
        body = head + op.name.encode().ljust(128, b"\0") + sources.ljust(640, b"\0")
        self.records.append((body + tail).ljust(1024, b"\0"))

    def _source(self, name: str, n: int) -> bytes:
        weight = self._weights.get(name)
        at = self._pointers.setdefault(
            base(name), 0x7F00_0000_0000 + len(self._pointers) * 0x4000
        )
        if weight is not None:
            size, space, where = weight.size, 0, self._data_offset + weight.offset
        else:
            is_cache = name.startswith("cache_")
            size, space = source_bytes(name, n), 1
            where = KV_BUFFER if is_cache else SCRATCH_BUFFER
        layer = int(name.split(".")[1]) if name.startswith("blk.") else NO_LAYER
        return struct.pack(
            "<128sQIHBBQI4s", name.encode(), at, size, layer, space, 0, where,
            NO_INDEX, b"",
        )  # fmt: skip


def source_bytes(name: str, n: int) -> int:
    """Return the bytes of a result or input over `n` tokens."""
    stem = base(name).rsplit("-", 1)[0]
    if name.startswith("cache_"):
        return EMBD * CONTEXT * 2
    if stem == "ffn_moe_topk":
        return 4 * (N_USED + (n - 1) * N_EXPERTS)
    rows = {"ffn_moe_logits": N_EXPERTS, "ffn_moe_probs": N_EXPERTS, "leaf_2": 1,
            "leaf_4": 1, "leaf_9": 2, "leaf_10": 2, "leaf_12": CONTEXT // 2,
            "ffn_moe_gate": HIDDEN * N_USED, "ffn_moe_up": HIDDEN * N_USED,
            "ffn_moe_swiglu": HIDDEN * N_USED, "ffn_moe_down": EMBD * N_USED,
            "ffn_moe_weighted": EMBD * N_USED, "ffn_moe_weights": N_USED}  # fmt: skip
    return 4 * n * rows.get(stem, EMBD)


def trace(layout: Layout, data_offset: int) -> tuple[bytes, int]:
    """Return the records and the time after the last one."""
    rng = random.Random(21)
    router, recorder = Router(rng), Recorder(layout, data_offset)
    now = START_NS
    for token in range(1 + N_GENERATED):
        n = 1 if token else N_PROMPT
        ranked = [router.ranking(layer) for layer in range(N_LAYERS)]
        for op in pass_ops(n):
            layer = layer_told(op)
            experts = ranked[layer] if op.op == "MUL_MAT_ID" else ()
            recorder.record(now, token, op, n, experts)
            now += int(op.ns * rng.uniform(0.85, 1.3))
        now += rng.randrange(20_000, 60_000)
    return b"".join(recorder.records), now
