"""Results of llama-bench in each of its forms."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

FORMS = ("json", "jsonl", "csv", "md", "sql")
Row = dict[str, Any]


def rows(seed: int, n: int = 8, **changes: Any) -> list[Row]:
    """Return tests with samples, each of its own size."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        is_prompt = i % 2 == 0
        samples = [int(x) for x in rng.integers(1_000_000, 9_000_000, 3)]
        size = 128 << (i // 2)
        speeds = [round(size * 1e9 / ns, 2) for ns in samples]
        rows.append(
            {
                "build_commit": "12345678", "build_number": 6865,
                "cpu_info": "a processor", "gpu_info": "", "backends": "CPU",
                "model_filename": "/m/tiny.gguf", "model_type": "llama 1B Q4_0",
                "model_size": 799862912, "model_n_params": 1235814432,
                "n_batch": 2048, "n_ubatch": 512, "n_threads": 4, "type_k": "f16",
                "cpu_mask": "0x0", "flash_attn": True, "tensor_split": "0.00",
                "n_prompt": size if is_prompt else 0, "n_gen": 0 if is_prompt else size,
                "n_depth": 0, "test_time": "2025-10-28T12:54:10Z",
                "avg_ns": int(np.mean(samples)), "stddev_ns": int(np.std(samples)),
                "avg_ts": round(float(np.mean(speeds)), 6),
                "stddev_ts": round(float(np.std(speeds)), 6),
                "samples_ns": samples, "samples_ts": speeds,
            }
            | changes
        )  # fmt: skip
    return rows


def written(tests: Sequence[Row], form: str) -> bytes:
    """Return the text that llama-bench prints of some tests."""
    match form:
        case "json":
            return (json.dumps(list(tests), indent=2) + "\n").encode()
        case "jsonl":
            return "".join(json.dumps(test) + "\n" for test in tests).encode()
        case "md":
            return _markdown(tests)
    flat = [
        {key: _flat(value) for key, value in test.items() if "samples" not in key}
        for test in tests
    ]
    if form == "csv":
        out = io.StringIO()
        out.write(",".join(flat[0]) + "\n")
        writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows(row.values() for row in flat)
        return out.getvalue().encode()
    lines = [
        "CREATE TABLE IF NOT EXISTS llama_bench (",
        "  build_commit TEXT",
        ");",
        "",
    ]
    for row in flat:
        values = ", ".join(f"'{value}'" for value in row.values())
        lines.append(f"INSERT INTO llama_bench ({', '.join(row)}) VALUES ({values});")
    return ("\n".join(lines) + "\n").encode()


def text(form: str) -> bytes:
    """Return a sound file of a form."""
    return written(rows(1), form)


def _flat(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def _markdown(tests: Sequence[Row]) -> bytes:
    lines = [
        "| model                          |       size |     params | backend    | "
        "threads |            test |                  t/s |",
        "| ------------------------------ | ---------: | ---------: | ---------- | "
        "------: | --------------: | -------------------: |",
    ]
    for test in tests:
        what = "pp" if test["n_prompt"] else "tg"
        n = test["n_prompt"] or test["n_gen"]
        depth = f" @ d{test['n_depth']}" if test["n_depth"] else ""
        lines.append(
            f"| {test['model_type']:30} | 762.81 MiB |     1.24 B | "
            f"{test['backends']:10} | {test['n_threads']:7} | "
            f"{what + str(n) + depth:>15} | "
            f"{'{:.2f} ± {:.2f}'.format(test['avg_ts'], test['stddev_ts']):>20} |"
        )
    return "\n".join([*lines, "", "build: 12345678 (6865)", ""]).encode()
