"""Write large synthetic 256-byte traces for the benchmarks, block by block."""

from pathlib import Path

import numpy as np

SOURCE = np.dtype(
    [
        ("name", "S20"), ("tensor_ptr", "<u8"), ("size_bytes", "<u4"),
        ("layer_id", "<u2"), ("memory_source", "u1"), ("pad", "u1"),
        ("where", "<u8"), ("tensor_idx", "<u4"), ("pad2", "S4"),
    ]
)  # fmt: skip
RECORD = np.dtype(
    [
        ("timestamp_ns", "<u8"), ("token_id", "<u4"), ("layer_id", "<u2"),
        ("thread_id", "<u2"), ("operation_type", "u1"), ("phase", "u1"),
        ("num_sources", "u1"), ("pad", "S5"), ("dst_name", "S24"),
        ("src", SOURCE, (4,)),
    ]
)  # fmt: skip
N_LAYERS = 32
OPS = (
    (25, "norm-{}", 3_000, ""), (7, "attn_norm-{}", 1_500, "attn_norm"),
    (29, "Qcur-{}", 210_000, "attn_q"), (29, "Kcur-{}", 55_000, "attn_k"),
    (29, "Vcur-{}", 56_000, "attn_v"), (48, "Qcur-{}", 6_000, ""),
    (42, "cache_k_l{}", 1_200, ""), (73, "__fattn__-{}", 60_000, ""),
    (29, "attn_out-{}", 205_000, "attn_output"), (2, "ffn_inp-{}", 1_800, ""),
    (29, "ffn_gate-{}", 540_000, "ffn_gate"), (29, "ffn_up-{}", 535_000, "ffn_up"),
    (94, "ffn_swiglu-{}", 7_500, ""), (29, "ffn_out-{}", 560_000, "ffn_down"),
    (2, "l_out-{}", 1_800, ""),
)  # fmt: skip


def _template() -> tuple[np.ndarray, np.ndarray]:
    rows = [(40, "inp_embd", 4_000, "token_embd.weight", 0xFFFF)]
    rows += [
        (op, name.format(i), ns, f"blk.{i}.{w}.weight" if w else "", i)
        for i in range(N_LAYERS)
        for op, name, ns, w in OPS
    ]
    rows += [(29, "result_output", 2_100_000, "output.weight", 0xFFFF)]
    record = np.zeros(len(rows), RECORD)
    length = np.zeros(len(rows), np.float64)
    for i, (op, name, ns, weight, layer) in enumerate(rows):
        r = record[i]
        r["operation_type"], r["dst_name"], length[i] = op, name.encode()[:23], ns
        r["layer_id"] = layer if weight else 0xFFFF
        sources = [(weight, 0)] if weight else []
        sources += [(rows[i - 1][1] if i else "inp_tokens", 1)]
        r["num_sources"] = len(sources)
        for k, (source, space) in enumerate(sources):
            s = r["src"][k]
            s["name"], s["memory_source"] = source.encode()[:19], space
            s["size_bytes"], s["tensor_idx"] = 8192 + ns, 0xFFFFFFFF
            s["tensor_ptr"] = 0x7F00_0000_0000 + i * 0x4000
            s["where"] = 0x1000 if space else i << 20
            s["layer_id"] = layer
    return record, length


def write_bin(path: Path, n: int, threads: int = 8) -> Path:
    """Write `n` records to `path` unless it has them already; return it."""
    if path.exists() and path.stat().st_size == n * RECORD.itemsize:
        return path
    template, length = _template()
    rng = np.random.Generator(np.random.PCG64(1))
    now, token, made = 1_234_567, 0, 0
    with path.open("wb") as file:
        while made < n:
            tokens = 128
            duration = length * rng.lognormal(0, 0.12, (tokens, len(length)))
            prompt = (token + np.arange(tokens)) % 256 == 0
            duration[prompt] *= 24
            ends = now + np.cumsum(duration.astype(np.int64).ravel() + 700)
            records = np.tile(template, tokens)
            records["timestamp_ns"][1:] = ends[:-1]
            records["timestamp_ns"][0] = now
            records["token_id"] = np.repeat(token + np.arange(tokens), len(length))
            records["phase"] = np.repeat((~prompt).astype(np.uint8), len(length))
            records["thread_id"] = 4242 + rng.integers(0, threads, len(records)) * 7
            keep = min(len(records), n - made)
            file.write(records[:keep].tobytes())
            now, token, made = int(ends[-1]) + 50_000, token + tokens, made + keep
    return path
