"""Profiles of ggml's scheduler, JSON version 2."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

Rows = list[dict[str, Any]]


def profile(
    seed: int, n: int = 40, names: Iterator[str] | None = None, **changes: Any
) -> tuple[bytes, Rows]:
    """Return a profile and its records; `names` makes it one of a fork with tensors."""
    rng = np.random.default_rng(seed)
    now, rows = 10**12, []
    for i in range(n):
        duration = int(rng.integers(1, 10**6))
        is_copy = i % 5 == 4
        row = {
            "type": int(is_copy),
            "name": "copy_H2D" if is_copy else ("MUL_MAT", "ADD")[i % 2],
            "backend_id": int(rng.integers(2)), "split_id": i // 10,
            "start_ns": now, "duration_ns": duration,
            "bytes": int(rng.integers(1 << 20)), "extra": None,
            "ne_src0": [4096, 32, 1, 1], "ne_src1": [4096, 1, 1, 1],
            "ne_src2": [0, 0, 0, 0],
        }  # fmt: skip
        if names is not None:
            row["tensor_name"] = next(names)
        rows.append(row)
        now += duration + 100
    document = {
        "version": 2, "profiler": "ggml",
        "backends": [
            {"id": 0, "name": "CUDA0", "device": "a card", "device_type": 1},
            {"id": 1, "name": "CPU", "device": "CPU", "device_type": 0},
        ],
        "records": rows,
    } | changes  # fmt: skip
    return json.dumps(document).encode(), rows


def fork(seed: int, n: int = 40) -> tuple[bytes, Rows, Rows]:
    """Return a profile of a fork with its records and calls of functions."""
    _, rows = profile(seed, n)
    rng = np.random.default_rng(seed)
    for i, row in enumerate(rows):
        for k in range(3):
            del row[f"ne_src{k}"]
        is_copy = row["type"] == 1
        row |= {
            "tensor_name": f"Qcur-{i % 7}", "ne": [32, 1 + i % 3, 1, 1],
            "out_type": 0, "n_src": 0 if is_copy else 2,
            "ne_src": [] if is_copy else [[4096, 32, 1, 1], [4096, 1 + i % 3, 1, 1]],
            "type_src": [] if is_copy else [12, 0],
            # Two splits per graph, ten records each.
            "split_id": (i // 10) % 2,
        }  # fmt: skip
    calls, now = [], rows[0]["start_ns"]
    for i in range(n // 2):
        last = now + int(rng.integers(1000, 10**6))
        thread = {"pid": 7, "tid": 70 + i % 2}
        calls.append({"name": f"fn_{i % 3}", "start_ns": now, "end_ns": last, **thread})
        now = last
    changes = {
        "fn_records": calls,
        "fn_threads": [{"tid": 70, "name": "main"}, {"tid": "x"}],
    }
    return profile(seed, n, records=rows, **changes)[0], rows, calls
