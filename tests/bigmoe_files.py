"""Tables of BigMoeOnEdge, with the rows that they were made of."""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

import numpy as np

Rows = list[dict[str, Any]]
_HEAD = (
    "# model=/m/x.gguf arch=qwen3moe n_layer=3 n_threads=4 io_threads=2 o_direct=1\n"
)


def table(kind: str, rows: Rows, tail: str = "") -> bytes:
    """Return a table of some rows."""
    out = io.StringIO()
    out.write(f"# {kind} v1\n{_HEAD}" if kind else "")
    out.write(",".join(rows[0]) + "\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(row.values() for row in rows)
    return (out.getvalue() + tail).encode()


def _passes(n: int) -> Iterator[tuple[int, int, int]]:
    """Yield turn, phase and step: a prompt and its tokens, twice."""
    for turn in range(2):
        for i in range(n):
            yield turn, int(i > 0), 20 * turn + i


def io_trace(seed: int, n: int = 5) -> tuple[bytes, Rows]:
    """Return a table of reads."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "turn": turn, "phase": phase, "step": step, "layer": int(rng.integers(3)),
            "expert": int(rng.integers(16)), "proj": int(rng.integers(3)),
            "lane": int(rng.integers(3)), "spec": int(rng.integers(2)),
            "offset": int(rng.integers(1 << 30)), "req_bytes": 65536,
            "read_bytes": int(rng.integers(1 << 20)),
            "latency_ns": int(rng.integers(1, 1 << 22)),
        }
        for turn, phase, step in _passes(n)
        for _ in range(int(rng.integers(1, 9)))
    ]  # fmt: skip
    return table("io_trace", rows), rows


def compute_trace(
    seed: int, n: int = 4, names: Iterator[str] | Sequence[str] = ("norm", "ffn_up")
) -> tuple[bytes, Rows]:
    """Return a table of nodes."""
    rng = np.random.default_rng(seed)
    name = names if isinstance(names, Iterator) else cycle(names)
    rows = [
        {
            "turn": turn, "phase": phase, "step": step, "seq": seq,
            "layer": seq % 3 - 1,
            "op": ("RMS_NORM", "MUL_MAT", "MUL_MAT_ID")[seq % 3],
            "name": next(name).replace('"', "").replace(",", " ").replace("\n", " "),
            "wall_ns": int(rng.integers(1, 1 << 20)), "majflt": int(rng.integers(3)),
        }
        for turn, phase, step in _passes(n)
        for seq in range(8)
    ]  # fmt: skip
    return table("compute_trace", rows), rows


def metrics(seed: int, n: int = 40) -> tuple[bytes, Rows]:
    """Return a table of tokens."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "step": i + 1, "steps": n, "wall_ms": round(float(rng.random() * 400), 3),
            "io_ms": 8.5, "compute_ms": 1.25, "read_bytes": int(rng.integers(1 << 30)),
            "cache_hit_pct": round(float(rng.random() * 100), 2),
        }
        for i in range(n)
    ]  # fmt: skip
    return table("", rows, "# summary tokens=40 tok/s=5.093\n"), rows


MAKERS = (io_trace, compute_trace, metrics)
