"""Files of perf-script."""

import stack_files
from reader_files import Names, ReaderFiles, one_line


def _hostile(names: Names) -> bytes:
    return stack_files.perf(stack_files.samples(1, 20, one_line(names)))


FILES = (
    ReaderFiles(
        "perf-script",
        valid=(
            "perf.txt",
            lambda: stack_files.perf(stack_files.samples(1, 30)),
        ),
        seeds=lambda: [
            ("a.txt", stack_files.perf(stack_files.samples(1, 30))),
            ("b.txt", stack_files.perf(stack_files.samples(2, 30), period=False)),
        ],
        hostile=(".txt", _hostile),
    ),
)
