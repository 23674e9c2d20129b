"""Files of ggml-hexagon."""

import op_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    return op_files.hexagon(op_files.npu_ops(1, names=names))


FILES = (
    ReaderFiles(
        "ggml-hexagon",
        valid=("hex.txt", lambda: op_files.hexagon(op_files.npu_ops(1))),
        seeds=lambda: [
            ("hex.txt", op_files.hexagon(op_files.npu_ops(1), clock=True)),
            ("old.txt", op_files.hexagon(op_files.npu_ops(2), old=True)),
            (
                "batch.txt",
                op_files.hexagon(op_files.npu_ops(3, 3))
                + op_files.batch(3, [9, 4], 4284967296, 9_000_000).encode(),
            ),
        ],
        hostile=(".txt", _hostile),
    ),
)
