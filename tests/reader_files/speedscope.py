"""Files of speedscope."""

import stack_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    return stack_files.speedscope(1, 20, names)


FILES = (
    ReaderFiles(
        "speedscope",
        valid=("a.speedscope.json", lambda: stack_files.speedscope(1, 30)),
        seeds=lambda: [
            ("a.json", stack_files.speedscope(1, 20)),
            ("b.json", stack_files.speedscope(2, 20, unit="none")),
        ],
        hostile=(".json", _hostile),
    ),
)
