"""Files of folded."""

import stack_files
from reader_files import Names, ReaderFiles, one_line


def _hostile(names: Names) -> bytes:
    text = (name.replace(";", ",") for name in one_line(names))
    return stack_files.folded(stack_files.stacks(1, 20, text))


FILES = (
    ReaderFiles(
        "folded",
        valid=(
            "stacks.folded",
            lambda: stack_files.folded(stack_files.stacks(1, 90)),
        ),
        seeds=lambda: [
            ("a.folded", stack_files.folded(stack_files.stacks(1, 40))),
            ("b.folded", b"main;work_[k] 1.5\nmain;;rest_[j] 0.25\nmain 7\n"),
        ],
        hostile=(".folded", _hostile),
    ),
)
