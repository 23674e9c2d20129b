"""Files of ggml-opencl."""

import op_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    plain = (name.replace(",", " ") for name in names)
    return op_files.opencl(op_files.kernels(1, 20, names=plain))


FILES = (
    ReaderFiles(
        "ggml-opencl",
        valid=(
            "cl_profiling.csv",
            lambda: op_files.opencl(op_files.kernels(1)),
        ),
        hostile=(".csv", _hostile),
    ),
)
