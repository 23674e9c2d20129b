"""Files of cuda-calls."""

import json

import cuda_files
from cuda_files import DIALECTS
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    lines = []
    for line in cuda_files.generic_hook(cuda_files.random_calls(1, 20)):
        row = json.loads(line)
        row["name"] = next(names)
        lines.append(json.dumps(row))
    for number in range(8):
        row = {"ts": 98765.5, "event_id": number, "type": next(names)}
        lines.append(json.dumps(row | {"name": next(names), "op": next(names)}))
    return "\n".join(lines).encode()


FILES = (
    ReaderFiles(
        "cuda-calls",
        valid=("cuda.jsonl", lambda: cuda_files.text("hook")),
        seeds=lambda: [
            (f"{i}.txt", cuda_files.text(d, 1, 12)) for i, d in enumerate(DIALECTS)
        ],
        hostile=(".jsonl", _hostile),
    ),
)
