"""Traces of CUDA calls: lines of JSON, and the text of bpftrace and strace."""

from ggscope.readers.api import Option, ReaderInfo

UNIT = "unit"
UNIT_OPTION = Option(
    name=UNIT,
    doc="what the times in lines of JSON count: seconds or ms, or auto.",
    choices=("auto", "s", "ms"),
    default="auto",
)

INFO = ReaderInfo(
    "cuda-calls",
    "CUDA call trace",
    (".jsonl", ".log", ".txt", ".json"),
    "Calls of CUDA as lines of JSON from call hooks, bpftrace and bcc, and the text of "
    "bpftrace and strace: calls by thread and depth, copies, failed calls.",
    (UNIT_OPTION,),
    keys=("op_id", "event_id", "func"),
    line=(
        r"(^[ \t]*\d+(\.\d+)?\s+\d+\s+-?\d+\s+(\xe2\x86\x92|\xe2\x86\x90) |"
        r"^[ \t]*(\[pid +\d+\] +|\d+ +)?(\d\d:\d\d:\d\d\.\d+|\d+\.\d+) "
        r"+(<\.\.\. )?[a-z_]\w*(\(| resumed>))"
    ),
)
