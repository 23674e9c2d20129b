"""Files of bigmoe."""

import bigmoe_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    return bigmoe_files.compute_trace(1, names=names)[0]


FILES = (
    ReaderFiles(
        "bigmoe",
        valid=("io.csv", lambda: bigmoe_files.io_trace(1)[0]),
        seeds=lambda: [
            (f"{make.__name__}.csv", make(1)[0]) for make in bigmoe_files.MAKERS
        ],
        small_seeds=lambda: [
            (f"{make.__name__}.csv", make(2, 1)[0]) for make in bigmoe_files.MAKERS
        ],
        hostile=(".csv", _hostile),
    ),
)
