"""Files of instruments-deep-copy."""

import stack_files
from reader_files import Names, ReaderFiles, one_line


def _hostile(names: Names) -> bytes:
    return stack_files.instruments(1, 20, one_line(names))


FILES = (
    ReaderFiles(
        "instruments-deep-copy",
        valid=("tree.txt", lambda: stack_files.instruments(1, 60)),
        seeds=lambda: [("a.txt", stack_files.instruments(1, 30))],
        hostile=(".txt", _hostile),
    ),
)
