"""Write the sample traces of ``resources/samples``: the same bytes every time.

    python packaging/make_samples.py FOLDER

llama.ggmlviz             12 tokens of an 8-layer model on 4 threads, ops measured
llama-demo.ggmlviz        18 graphs and nothing else: 36 events, 1,668 bytes
whisper.ggmlviz           580 graphs: an encoder, then a decoder; 53,372 bytes
tinyllama-256.bin         256-byte records, derived durations, DISK and BUFFER
npu-prefill-decode.json   one prefill and eight decode steps on 1 DMA, 2 TE, 2 VE
moe-experiment/           a run with its model, map, buffers and graphs
"""

import json
import random
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sample_side_files

from ggscope.atomic_write import make_folder, write_file

EXPERIMENT = "moe-experiment"
CPU_BACKEND = 0
GRAPH_BEGIN, GRAPH_END, OP_BEGIN, OP_END, ALLOC, FREE = range(6)

# Op numbers of ggml between 2025-06-30 and 2025-08-05, when ggml-viz was written.
VIZ_OPS = {
    "ADD": 2,
    "MUL": 6,
    "RMS_NORM": 23,
    "MUL_MAT": 27,
    "CPY": 32,
    "GET_ROWS": 38,
    "SOFT_MAX": 44,
    "ROPE": 46,
    "FLASH_ATTN_EXT": 66,
    "UNARY": 77,
    "GLU": 85,
}
# Op numbers of ggml from 2025-11-25 on (95 ops).
BIN_OPS = {
    "ADD": 2,
    "MUL": 7,
    "RMS_NORM": 25,
    "MUL_MAT": 29,
    "CPY": 34,
    "GET_ROWS": 40,
    "SET_ROWS": 42,
    "ROPE": 48,
    "FLASH_ATTN_EXT": 73,
    "GLU": 94,
}


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of a transformer layer.

    `slot` > 0: starts together with the op before, on another thread.
    `weight` is the tensor read from the model file ("" for none).
    """

    op: str
    name: str
    ns: int
    sources: tuple[str, ...] = ()
    weight: str = ""
    weight_bytes: int = 0
    slot: int = 0


def layer_ops(i: int, scale: float) -> list[Op]:
    """Return the ops of layer `i`; `scale` stretches the matrix products."""

    def m(ns: int) -> int:
        return int(ns * scale)

    w = f"blk.{i}."
    before = f"l_out-{i - 1}" if i else "inp_embd"
    return [
        Op("RMS_NORM", f"norm-{i}", 3_000, (before,)),
        Op(
            "MUL", f"attn_norm-{i}", 1_500, (f"norm-{i}",), w + "attn_norm.weight", 8192
        ),
        Op(
            "MUL_MAT",
            f"Qcur-{i}",
            m(90_000),
            (f"attn_norm-{i}",),
            w + "attn_q.weight",
            2_359_296,
        ),
        Op(
            "MUL_MAT",
            f"Kcur-{i}",
            m(24_000),
            (f"attn_norm-{i}",),
            w + "attn_k.weight",
            294_912,
            1,
        ),
        Op(
            "MUL_MAT",
            f"Vcur-{i}",
            m(26_000),
            (f"attn_norm-{i}",),
            w + "attn_v.weight",
            430_080,
            2,
        ),
        Op("ROPE", f"Qcur-{i}", 6_000, (f"Qcur-{i} (reshaped)", "leaf_4")),
        Op("ROPE", f"Kcur-{i}", 2_500, (f"Kcur-{i} (reshaped)", "leaf_4"), slot=1),
        Op(
            "SET_ROWS",
            f"cache_k_l{i} (view)",
            1_300,
            (f"Kcur-{i}", "leaf_9", f"cache_k_l{i}"),
        ),
        Op(
            "SET_ROWS",
            f"cache_v_l{i} (view)",
            1_400,
            (f"Vcur-{i}", "leaf_10", f"cache_v_l{i}"),
            slot=1,
        ),
        Op(
            "FLASH_ATTN_EXT",
            f"__fattn__-{i}",
            m(38_000),
            (
                f"Qcur-{i} (view)",
                f"cache_k_l{i} (view)",
                f"cache_v_l{i} (view)",
                "leaf_12",
            ),
        ),
        Op(
            "MUL_MAT",
            f"attn_out-{i}",
            m(88_000),
            (f"kqv_out-{i}",),
            w + "attn_output.weight",
            2_359_296,
        ),
        Op("ADD", f"ffn_inp-{i}", 1_800, (f"attn_out-{i}", before)),
        Op("RMS_NORM", f"norm-{i}", 3_100, (f"ffn_inp-{i}",)),
        Op("MUL", f"ffn_norm-{i}", 1_500, (f"norm-{i}",), w + "ffn_norm.weight", 8192),
        Op(
            "MUL_MAT",
            f"ffn_gate-{i}",
            m(210_000),
            (f"ffn_norm-{i}",),
            w + "ffn_gate.weight",
            6_488_064,
        ),
        Op(
            "MUL_MAT",
            f"ffn_up-{i}",
            m(205_000),
            (f"ffn_norm-{i}",),
            w + "ffn_up.weight",
            6_488_064,
            1,
        ),
        Op("GLU", f"ffn_swiglu-{i}", 7_500, (f"ffn_gate-{i}", f"ffn_up-{i}")),
        Op(
            "MUL_MAT",
            f"ffn_out-{i}",
            m(220_000),
            (f"ffn_swiglu-{i}",),
            w + "ffn_down.weight",
            9_461_760,
        ),
        Op("ADD", f"l_out-{i}", 1_800, (f"ffn_out-{i}", f"ffn_inp-{i}")),
    ]


def token_ops(n_layers: int, scale: float) -> list[Op]:
    """Return the ops of one pass through the model."""
    ops = [
        Op(
            "GET_ROWS",
            "inp_embd",
            4_000,
            ("inp_tokens",),
            "token_embd.weight",
            36_864_000,
        )
    ]
    for i in range(n_layers):
        ops += layer_ops(i, scale)
    last = f"l_out-{n_layers - 1}"
    return [
        *ops,
        Op("RMS_NORM", "norm", 3_000, (last,)),
        Op("MUL", "result_norm", 1_500, ("norm",), "output_norm.weight", 8192),
        Op(
            "MUL_MAT",
            "result_output",
            int(700_000 * min(scale, 2)),
            ("result_norm",),
            "output.weight",
            53_760_000,
        ),
    ]


def scheduled(
    ops: list[Op], start: int, threads: int, rng: random.Random
) -> Iterator[tuple[Op, int, int, int]]:
    """Yield (op, thread, start, end) with a barrier after each group."""
    now, i, turn = start, 0, 0
    while i < len(ops):
        group = [ops[i]]
        while i + len(group) < len(ops) and ops[i + len(group)].slot:
            group.append(ops[i + len(group)])
        end = now
        for k, op in enumerate(group):
            begin = now + 350 * k
            length = max(200, int(op.ns * rng.lognormvariate(0.0, 0.12)))
            if rng.random() < 0.002:
                length *= 9
            yield op, (turn + k) % threads, begin, begin + length
            end = max(end, begin + length)
        now = end + rng.randrange(300, 1_500)
        i += len(group)
        turn += 1


# --- .ggmlviz ---------------------------------------------------------------


def viz_event(kind: int, when: int, thread: int, data: bytes, label: str = "") -> bytes:
    """Return one event as a 64-bit build of ggml-viz writes it."""
    head = struct.pack("<BQI", kind, when, thread) + data.ljust(32, b"\0")
    if not label:
        return head + b"\0"
    text = label.encode()[:63]
    return head + b"\1" + struct.pack("<I", len(text)) + text


def llama_viz() -> bytes:
    """Return a run whose op times are measured: begin and end of each op."""
    rng = random.Random(7)
    threads = [1_878_489_018, 3_022_846_551, 402_117_930, 2_611_004_187]
    graph = 0x5555_0000_2000
    events: list[tuple[int, int, bytes]] = []
    pointers: dict[str, int] = {}
    now = 920_489_299_660_375
    for token in range(12):
        start = now
        ops = token_ops(8, 9.0 if token == 0 else 1.0)
        placed = list(scheduled(ops, start + 2_000, len(threads), rng))
        end = max(p[3] for p in placed) + 1_500
        data = struct.pack("<QII", graph, len(ops), 4) + struct.pack("<Q", CPU_BACKEND)
        events.append((start, 0, viz_event(GRAPH_BEGIN, start, threads[0], data)))
        for op, thread, begin, finish in placed:
            pointer = pointers.setdefault(
                op.name + op.op, 0x7F10_0000_0000 + len(pointers) * 0x1_0040
            )
            size = op.weight_bytes or 8192
            number = VIZ_OPS["CPY" if op.op == "SET_ROWS" else op.op]
            payload = struct.pack("<QI4xQQ", pointer, number, size, CPU_BACKEND)
            events.append(
                (
                    begin,
                    2,
                    viz_event(OP_BEGIN, begin, threads[thread], payload, op.name),
                )
            )
            events.append(
                (
                    finish,
                    1,
                    viz_event(OP_END, finish, threads[thread], payload, op.name),
                )
            )
        events.append((end, 3, viz_event(GRAPH_END, end, threads[0], data)))
        if token % 3 == 0:
            cell = struct.pack("<QQ", 0x7E00_0000_0000 + token * 4096, 4 << 20)
            events.append(
                (
                    end + 500,
                    4,
                    viz_event(ALLOC, end + 500, threads[0], cell, f"kv_cell_{token}"),
                )
            )
        if token == 9:
            cell = struct.pack("<QQ", 0x7E00_0000_0000, 0)
            events.append(
                (
                    end + 900,
                    4,
                    viz_event(FREE, end + 900, threads[0], cell, "kv_cell_0"),
                )
            )
        now = end + rng.randrange(30_000, 90_000)
    events.sort(key=lambda e: (e[0], e[1]))
    return b"GGMLVIZ1" + struct.pack("<I", 1) + b"".join(e[2] for e in events)


def graphs_viz(durations: list[int], gap: int, seed: int) -> bytes:
    """Return a run of which only whole graphs were recorded."""
    rng = random.Random(seed)
    out = [b"GGMLVIZ1" + struct.pack("<I", 1)]
    now = 77_105_400_120_000
    for i, length in enumerate(durations):
        nodes = 1_034 if length > 20_000_000 else 488
        data = struct.pack("<QIIQ", 0x6000_0000_1000 + (i % 3) * 0x4000, nodes, 1, 0)
        end = now + int(length * rng.lognormvariate(0.0, 0.08))
        out.append(viz_event(GRAPH_BEGIN, now, 2_204_118_774, data))
        out.append(viz_event(GRAPH_END, end, 2_204_118_774, data))
        now = end + int(gap * rng.uniform(0.6, 1.6))
    return b"".join(out)


# --- 256-byte records -------------------------------------------------------


def bin_256() -> bytes:
    """Return a prompt and 14 tokens of a 10-layer model; only one thread logs."""
    rng = random.Random(11)
    out: list[bytes] = []
    offsets: dict[str, int] = {}
    pointers: dict[str, int] = {}
    next_offset = 1_709_440
    now = 48_120
    for token in range(15):
        ops = token_ops(10, 14.0 if token == 0 else 1.0)
        for op, thread, begin, _end in scheduled(ops, now, 2, rng):
            sources = []
            if op.weight:
                if op.weight not in offsets:
                    offsets[op.weight] = next_offset
                    next_offset += -(-op.weight_bytes // 32) * 32
                sources.append((op.weight, op.weight_bytes, 0, offsets[op.weight]))
            buffer = 0x6000_1000 if "cache" not in op.name else 0x6000_2000
            sources += [(name, 8192, 1, buffer) for name in op.sources]
            packed = b""
            for name, size, space, where in sources[:4]:
                pointer = pointers.setdefault(
                    name, 0x7F00_0000_0000 + len(pointers) * 0x12_3440
                )
                packed += struct.pack(
                    "<20sQIHBBQI4s",
                    name.encode()[:19],
                    pointer,
                    size,
                    layer_of(name),
                    space,
                    0,
                    where,
                    0xFFFFFFFF,
                    b"",
                )
            out.append(
                struct.pack(
                    "<QIHHBBB5s24s",
                    begin,
                    token,
                    layer_of(op.weight or op.name),
                    24_832 + thread * 23_826,
                    BIN_OPS[op.op],
                    int(token > 0),
                    len(sources[:4]),
                    b"",
                    op.name.encode()[:23],
                )
                + packed.ljust(208, b"\0")
            )
            now = max(now, _end)
        now += rng.randrange(40_000, 120_000)
    return b"".join(out)


def layer_of(name: str) -> int:
    """Return the layer as the tracer logs it: only ``blk.N.`` names carry one."""
    return int(name.split(".")[1]) if name.startswith("blk.") else 0xFFFF


# --- NPU --------------------------------------------------------------------


class NpuRun:
    """Builds the timeline of a simulated NPU, cycle by cycle."""

    def __init__(self) -> None:
        self.rng = random.Random(5)
        self.events: list[dict[str, object]] = []
        self.cycle = 100
        self.cmdq = 0
        self.read = self.written = 0
        self.traffic: list[tuple[int, int, int, int]] = []

    def engine(
        self,
        engine: str,
        number: int,
        start: int,
        length: int,
        op: str,
        layer: str,
        tile: int,
        details: dict[str, object],
    ) -> int:
        """Add one engine event; return its end."""
        self.events.append(
            {
                "type": "ENGINE_EVENT",
                "engine": engine,
                "engine_id": number,
                "cmdq_id": self.cmdq,
                "layer_id": layer,
                "tile_id": f"{layer}_t{tile}",
                "op": op,
                "start_cycle": start,
                "end_cycle": start + length,
                "details": details,
            }
        )
        self.cmdq += 1
        return start + length

    def load(self, start: int, size: int, layer: str, tile: int, role: str) -> int:
        """Add a DMA transfer and its memory access; return its end."""
        address = 0x10_0000 + (self.cmdq * 4096) % (1 << 26)
        length = size // 48 + self.rng.randrange(6, 40)
        self.events.append(
            {
                "type": "MEM_ACCESS_EVENT",
                "mem_type": "DRAM",
                "cycle": start + 2,
                "direction": "read",
                "bytes": size,
                "addr": address,
                "source_engine": "DMA",
                "source_engine_id": 0,
                "cmdq_id": self.cmdq,
            }
        )
        self.read += size
        self.traffic.append((start, length, size, size if role == "kv" else 0))
        if self.rng.random() < 0.06:
            wait = self.rng.randrange(30, 140)
            reason = self.rng.choice(["queue_full", "backpressure", "throttle"])
            self.events.append(
                {
                    "type": "STALL_EVENT",
                    "master": "DMA",
                    "master_id": 0,
                    "reason": reason,
                    "start_cycle": max(0, start - wait),
                    "end_cycle": start,
                    "details": {"bytes_pending": size},
                }
            )
        return self.engine(
            "DMA",
            0,
            start,
            length,
            "DMA_LOAD_TILE",
            layer,
            tile,
            {
                "tensor_role": role,
                "direction": "read",
                "bytes": size,
                "qbits": 4,
                "dram_addr": address,
                "spm_bank": tile % 8,
                "spm_offset": tile * 8192,
            },
        )

    def token(self, index: int, phase: str) -> None:
        """Add one token: four layers of attention and feed-forward tiles."""
        begin, m = self.cycle, 16 if phase == "PREFILL" else 1
        dma = te0 = te1 = ve = begin
        for layer in range(4):
            for kind, tiles in (("attn", 3), ("ffn", 4)):
                name = f"{kind}_{layer}"
                for tile in range(tiles):
                    size = 12_288 if kind == "ffn" else 8_192
                    role = "kv" if kind == "attn" and tile == 1 else "weight"
                    dma = self.load(
                        max(dma, begin) + self.rng.randrange(0, 160),
                        size,
                        name,
                        tile,
                        role,
                    )
                    te = min(te0, te1)
                    length = int((70 + 22 * m) * self.rng.uniform(0.9, 1.2))
                    op = "TE_QKT_TILE" if kind == "attn" else "TE_GEMM_TILE"
                    done = self.engine(
                        "TE",
                        int(te1 < te0),
                        max(te, dma),
                        length,
                        op,
                        name,
                        tile,
                        {
                            "m": m,
                            "n": 128,
                            "k": 256,
                            "qbits_weight": 4,
                            "qbits_activation": 8,
                            "macs": m * 128 * 256,
                        },
                    )
                    te0, te1 = (te0, done) if te1 < te0 else (done, te1)
                softmax = kind == "attn"
                ve = self.engine(
                    "VE",
                    layer % 2,
                    max(ve, te0, te1),
                    60 + 10 * m,
                    "VE_SOFTMAX_TILE" if softmax else "VE_LAYERNORM_TILE",
                    name,
                    0,
                    {"length": 2048 * m, "qbits_activation": 8},
                )
        self.cycle = max(dma, te0, te1, ve) + 20
        self.events.append(
            {
                "type": "TOKEN_EVENT",
                "phase": phase,
                "token_index": index,
                "start_cycle": begin,
                "end_cycle": self.cycle,
                "details": {"generated_token_id": 1000 + index},
            }
        )
        self.cycle += self.rng.randrange(80, 240)

    def marker(self, name: str, note: str) -> None:
        """Add a marker at the present cycle."""
        self.events.append(
            {
                "type": "MARKER_EVENT",
                "name": name,
                "cycle": self.cycle,
                "details": {"note": note},
            }
        )

    def samples(self, window: int) -> list[dict[str, int]]:
        """Return bandwidth windows that add up to the traffic."""
        n = self.cycle // window + 1
        read, kv = [0] * n, [0] * n
        for start, _length, size, kv_size in self.traffic:
            read[start // window] += size
            kv[start // window] += kv_size
        return [
            {
                "cycle": i * window,
                "window_cycles": window,
                "dram_read_bytes": read[i],
                "dram_write_bytes": read[i] // 16,
                "stall_cycles": 0,
                "kv_bytes": kv[i],
            }
            for i in range(n)
        ]


def npu() -> bytes:
    """Return the NPU run as its simulator writes it."""
    run = NpuRun()
    run.token(0, "PREFILL")
    run.marker("PREFILL_DONE", "prefill stage finished")
    for i in range(1, 9):
        run.token(i, "DECODE")
    run.marker("RUN_DONE", "all tokens generated")
    tokens = [e for e in run.events if e["type"] == "TOKEN_EVENT"]
    spans = [int(e["end_cycle"]) - int(e["start_cycle"]) for e in tokens]  # type: ignore[call-overload]
    busy: dict[tuple[str, int], int] = {}
    for e in run.events:
        if e["type"] == "ENGINE_EVENT":
            key = (str(e["engine"]), int(str(e["engine_id"])))
            busy[key] = busy.get(key, 0) + int(e["end_cycle"]) - int(e["start_cycle"])  # type: ignore[call-overload]
    total = run.cycle

    def per_engine(engine: str) -> list[dict[str, object]]:
        return [
            {
                "id": number,
                "utilization": round(cycles / total, 4),
                "active_cycles": cycles,
            }
            for (name, number), cycles in sorted(busy.items())
            if name == engine
        ]

    samples = run.samples(512)
    document = {
        "version": "1.0",
        "run_metadata": {
            "run_id": "sample-prefill-decode",
            "timestamp": "2026-01-15T10:00:00Z",
            "model_name": "Sample-4L",
            "workload_type": "LLM_PREFILL_AND_DECODE",
            "tokens": {"prefill_tokens": 16, "decode_tokens": 8},
            "cmdq_file": "sample.cmdq.json",
            "notes": "made by make_samples.py",
        },
        "config_snapshot": {
            "npu": {"num_te": 2, "num_ve": 2, "num_dma": 1},
            "quantization": {
                "default_weight_qbits": 4,
                "default_activation_qbits": 8,
                "default_kv_qbits": 8,
            },
            "memory": {
                "dram_peak_bw_bytes_per_cycle": 64,
                "spm_banks": 8,
                "spm_bank_size_bytes": 262_144,
            },
        },
        "timeline_events": run.events,
        "bandwidth_samples": samples,
        "summary_metrics": {
            "cycles_total": total,
            "dram_bytes_read": run.read,
            "dram_bytes_write": sum(s["dram_write_bytes"] for s in samples),
            "te": {"per_engine": per_engine("TE")},
            "ve": {"per_engine": per_engine("VE")},
            "kv_cache": {
                "bytes_read": sum(s["kv_bytes"] for s in samples),
                "bytes_written": 0,
            },
            "tokens": {
                "prefill_latency_cycles": spans[0],
                "avg_decode_latency_cycles": sum(spans[1:]) // len(spans[1:]),
            },
        },
    }
    return json.dumps(document, separators=(",", ":")).encode()


def samples() -> dict[str, bytes]:
    """Return every sample by its path inside the folder of samples."""
    return {
        "llama.ggmlviz": llama_viz(),
        "llama-demo.ggmlviz": graphs_viz([24_000_000] + [3_100_000] * 17, 60_000, 3),
        "whisper.ggmlviz": graphs_viz([31_000_000] * 4 + [2_400_000] * 576, 35_000, 2),
        "tinyllama-256.bin": bin_256(),
        "npu-prefill-decode.json": npu(),
        **{f"{EXPERIMENT}/{name}": data for name, data in sample_side_files.files()},
    }


def main() -> int:
    """Write the samples into the folder that the command line names."""
    folder = Path(sys.argv[1])
    for name, data in samples().items():
        make_folder((folder / name).parent)
        write_file(folder / name, data)
        print(f"{folder / name}  {len(data):,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
