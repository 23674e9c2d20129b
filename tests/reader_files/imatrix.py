"""Files of imatrix."""

from dataclasses import replace

import imatrix_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    entries = [
        replace(entry, name=f"{entry.name}{next(names)}")
        for entry in imatrix_files.entries()
    ]
    return imatrix_files.gguf(entries, dataset=next(names))


FILES = (
    ReaderFiles(
        "imatrix",
        valid=(
            "imatrix.dat",
            lambda: imatrix_files.legacy(imatrix_files.entries()),
        ),
        seeds=lambda: [
            ("m.dat", imatrix_files.legacy(imatrix_files.entries())),
            ("m.gguf", imatrix_files.gguf(imatrix_files.entries())),
        ],
        small_seeds=lambda: [
            ("m.dat", imatrix_files.legacy(imatrix_files.entries(2, 1, 2, 4, 3))),
            ("m.gguf", imatrix_files.gguf(imatrix_files.entries(2, 1, 2, 4, 3))),
        ],
        hostile=(".gguf", _hostile),
    ),
)
