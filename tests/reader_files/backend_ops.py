"""Files of ggml-ops."""

import op_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    # Names of the scheduler are 20 characters long; those of a logger are whole.
    lists = op_files.vulkan_lists(1, 2, names=names)
    graphs = op_files.graphs(1, 2, names=names)
    return op_files.vulkan(lists) + op_files.scheduler(graphs)


FILES = (
    ReaderFiles(
        "ggml-ops",
        valid=(
            "sched.txt",
            lambda: op_files.scheduler(op_files.graphs(1)),
        ),
        seeds=lambda: [
            ("old.txt", op_files.scheduler(op_files.graphs(1, 2))),
            ("clock.txt", op_files.scheduler(op_files.graphs(2, 2), clock=True)),
            ("vulkan.txt", op_files.vulkan(op_files.vulkan_lists(1))),
            ("first.txt", op_files.vulkan(op_files.vulkan_lists(2), old=True)),
        ],
        small_seeds=lambda: [
            ("old.txt", op_files.scheduler(op_files.graphs(1, 1))),
            ("vulkan.txt", op_files.vulkan(op_files.vulkan_lists(1, 1))),
        ],
        hostile=(".txt", _hostile),
    ),
)
