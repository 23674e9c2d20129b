"""Files of pprof."""

import stack_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    return stack_files.pprof(1, 20, names)


FILES = (
    ReaderFiles(
        "pprof",
        valid=(
            "cpu.prof",
            lambda: stack_files.pprof(1, 60, is_packed=False),
        ),
        seeds=lambda: [
            ("a.prof", stack_files.pprof(1, 20)),
            ("b.prof", stack_files.pprof(2, 20, is_packed=False)),
        ],
        small_seeds=lambda: [("b.prof", stack_files.pprof(2, 3, is_packed=False))],
        hostile=(".prof", _hostile),
    ),
)
