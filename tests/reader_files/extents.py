"""Files of extent-map."""

import storage_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    maps = (storage_files.filefrag([(0, 9, 4)], path=f"/{next(names)}") for _ in "abcd")
    return b"".join(maps)


FILES = (
    ReaderFiles(
        "extent-map",
        valid=(
            "extents.txt",
            lambda: storage_files.filefrag([(i, 900 + 3 * i, 1) for i in range(40)]),
        ),
        seeds=lambda: [
            ("f.txt", storage_files.filefrag([(0, 90, 4), (4, 99, 2), (9, 7, 1)]))
        ],
        hostile=(".txt", _hostile),
        session="storage",
    ),
)
