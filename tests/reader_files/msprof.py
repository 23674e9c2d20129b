"""Files of msprof."""

import ascend_files
from reader_files import Names, ReaderFiles


def _seeds(n: int) -> list[tuple[str, bytes]]:
    """Return tables of Ascend's profilers of `n` kernels."""
    made = ascend_files.kernels(1, n)
    makers = (
        ascend_files.kernel_details,
        ascend_files.op_summary,
        ascend_files.task_time,
        ascend_files.op_statistic,
    )
    return [(f"{make.__name__}.csv", make(made)) for make in makers]


def _hostile(names: Names) -> bytes:
    return ascend_files.kernel_details(ascend_files.kernels(1, 20, names=names))


FILES = (
    ReaderFiles(
        "msprof",
        valid=(
            "kernel_details.csv",
            lambda: ascend_files.kernel_details(ascend_files.kernels(1)),
        ),
        seeds=lambda: _seeds(12),
        small_seeds=lambda: _seeds(3),
        hostile=(".csv", _hostile),
    ),
)
