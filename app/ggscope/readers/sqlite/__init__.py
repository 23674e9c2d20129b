"""SQLite databases of GPU profilers: Nsight Systems exports and rocpd."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "sqlite",
    "SQLite trace",
    (".sqlite", ".sqlite3", ".db", ".rpd"),
    "What nsys export --type sqlite and AMD's rocprofv3 (rocpd) write: kernels and "
    "copies by stream, the calls that launched them, ranges, and OS calls by thread.",
    magic=(b"SQLite format 3\0",),
)
