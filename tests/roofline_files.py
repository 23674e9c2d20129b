"""Reports of GGML_ROOFLINE_OUT, with the rows that they were made of."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np

Rows = list[dict[str, Any]]
LAYERS, EXPERTS, TOP_K = 3, 8, 2


def report(
    seed: int, passes: int = 3, names: Iterator[str] | None = None, **changes: Any
) -> tuple[bytes, Rows]:
    """Return a report and its rows by invocation; the file has them in any order."""
    rng, rows, number = np.random.default_rng(seed), [], count(7)
    for _ in range(passes):
        tokens = int(rng.integers(1, 40))
        for layer in range(LAYERS):
            hist = rng.multinomial(tokens * TOP_K, rng.dirichlet(np.ones(EXPERTS - 1)))
            for op, weight in (
                ("RMS_NORM", ""), ("MUL_MAT", "attn_q"),
                ("MUL_MAT_ID", "ffn_up_exps"), ("MUL_MAT_ID", "ffn_down_exps"),
            ):  # fmt: skip
                row: dict[str, Any] = {
                    "ggml_op": op, "invocation": next(number),
                    "name": next(names) if names else f"{op.lower()}-{layer}",
                    "out_storage_id": 1, "in_storage_ids": [2, 3],
                    "in_names": [f"blk.{layer}.{weight}.weight" if weight else "inp"],
                    "in_types": ["q4_K"], "in_ne": [[64, 64, 1, 1]],
                    "dtype": "f32", "quant": "q4_K", "ne": [64, tokens, 1, 1],
                    "M": tokens, "N": 64, "K": 64, "n_experts": 0, "top_k": 0,
                    "experts_used": 0,
                }  # fmt: skip
                if op == "MUL_MAT_ID":
                    counts = [*hist.tolist(), 0]
                    row |= {
                        "n_experts": EXPERTS, "top_k": TOP_K,
                        "experts_used": sum(n > 0 for n in counts),
                        "tokens_per_expert": counts,
                    }  # fmt: skip
                row["kernels"] = [
                    {
                        "name": f"kernel_{i}",
                        "gpu_time_us": float(rng.integers(1, 9999)) / 8,
                    }
                    for i in range(int(rng.integers(1, 4)))
                ]
                rows.append(row)
    order = rng.permutation(len(rows)).tolist()
    document = {
        "device": "gfx1151", "total_gpu_time_us": 1234.5,
        "rows": [rows[i] for i in order],
    } | changes  # fmt: skip
    return json.dumps(document, indent=2).encode(), rows
