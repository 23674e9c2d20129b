"""Files of sqlite."""

import sqlite_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    return sqlite_files.nsys(1, 20, names=names).data


FILES = (
    ReaderFiles(
        "sqlite",
        valid=("report.sqlite", lambda: sqlite_files.nsys().data),
        seeds=lambda: [
            ("nsys.sqlite", sqlite_files.nsys(1, 8).data),
            ("rocpd.db", sqlite_files.rocpd(1, 8).data),
            ("stamps.db", sqlite_files.rocpd(1, 8, stamps=True).data),
        ],
        small_seeds=lambda: [
            ("nsys.sqlite", sqlite_files.nsys(1, 2).data),
            ("rocpd.db", sqlite_files.rocpd(1, 2).data),
        ],
        hostile=(".sqlite", _hostile),
    ),
)
