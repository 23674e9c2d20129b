"""Files of llama-bench."""

import bench_files
from bench_files import FORMS as FORMS_OF_BENCH
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    rows = [row | {"model_type": next(names)} for row in bench_files.rows(1, 6)]
    return bench_files.written(rows, "jsonl")


FILES = (
    ReaderFiles(
        "llama-bench",
        valid=("bench.jsonl", lambda: bench_files.text("jsonl")),
        seeds=lambda: [(f"b.{f}", bench_files.text(f)) for f in FORMS_OF_BENCH],
        hostile=(".jsonl", _hostile),
    ),
)
