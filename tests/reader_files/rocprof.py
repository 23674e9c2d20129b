"""Files of rocprof."""

import gzip

import rocm_files
from reader_files import Names, ReaderFiles


def _seeds(n: int) -> list[tuple[str, bytes]]:
    """Return what rocprofv3 writes of `n` launches, in its forms."""
    made = rocm_files.program(1, n)
    counted = rocm_files.with_counters(made)
    return [
        ("a.json", rocm_files.document(rocm_files.process(made))),
        ("counters.json.gz", gzip.compress(rocm_files.document(counted), mtime=0)),
        ("kernels.csv", rocm_files.kernel_trace(made)),
        ("counters.csv", rocm_files.counter_collection(made)),
        ("copies.csv", rocm_files.copy_trace(made)),
        ("stats.csv", rocm_files.kernel_stats(made)),
    ]


def _hostile(names: Names) -> bytes:
    made = rocm_files.program(1, 20, names=names)
    return rocm_files.document(rocm_files.process(made))


FILES = (
    ReaderFiles(
        "rocprof",
        valid=(
            "results.json",
            lambda: rocm_files.document(rocm_files.process(rocm_files.program(1))),
        ),
        seeds=lambda: _seeds(9),
        small_seeds=lambda: _seeds(4),
        hostile=(".json", _hostile),
    ),
)
