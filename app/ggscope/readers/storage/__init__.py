"""Requests to storage, as blkparse, biosnoop, fatrace, perf and strace print them."""

from ggscope.readers.api import Kind, Option, ReaderInfo

PARTITION = "partition"
PARTITION_OPTION = Option(
    name=PARTITION,
    doc="sector at which the partition of the file system begins, where the trace has "
    "no remapped requests that state it.",
    kind=Kind.NUMBER,
    between=(-1, 1 << 52),
    example="2048",
)

INFO = ReaderInfo(
    "storage",
    "Storage trace",
    (".txt", ".log", ".blkparse", ".strace"),
    "What was read from storage, as blkparse, biosnoop, fatrace, strace and perf (page "
    "faults) print it: requests with size, latency and queue depth.",
    (PARTITION_OPTION,),
    line=(
        r"(^ *\d+,\d+ +\d+ +\d+ +\d+\.\d{9} +\d+ +[a-z]|"
        r"^TIME\((s|ms)\) |"
        r"^\d+\.\d+ +\S.* \d+ +\S+ +[A-Z]+ +-?\d+ +\d+ +\d+\.\d+ *\r?$|"
        r"\(\d+\)( \[\d+:\d+\])?: [RWOCDMT<>+]+ +/|"
        r"[a-z]-faults:|(maj|min)fault \[|"
        r"^(\[pid +\d+\] +|\d+ +)?(\d\d:\d\d:\d\d(\.\d+)?|\d+\.\d+) +(<\.\.\. )?"
        r"(p?readv?2?|pread64|openat2?|mmap2?)(\(| resumed))"
    ),
)
