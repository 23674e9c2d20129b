"""Files of storage."""

from dataclasses import replace

import storage_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    reads = [
        replace(read, path=f"/{next(names)}".replace(">", ")"))
        for read in storage_files.random_reads(1, 20)
    ]
    return storage_files.strace(reads)


FILES = (
    ReaderFiles(
        "storage",
        valid=(
            "blkparse.txt",
            lambda: storage_files.blkparse(storage_files.random_io(1, 12)),
        ),
        seeds=lambda: list(storage_files.samples(1, 9)),
        small_seeds=lambda: list(storage_files.samples(1, 3)),
        hostile=(".txt", _hostile),
        session="storage",
    ),
)
