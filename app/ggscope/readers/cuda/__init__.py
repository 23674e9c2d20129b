"""Traces of CUDA calls: lines of JSON, and the text of bpftrace and strace."""

from ggscope.model.trace import Trace
from ggscope.readers.api import Option, ReaderInfo

CUT_SHORT = "calls_cut_short"
"""Code of the problem that the hook has not written its last line."""
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


def is_cut_short(trace: Trace) -> bool:
    """Return whether ggscope's hook may go on writing the file of a trace."""
    is_of_calls = trace.info.reader_id == INFO.id
    return is_of_calls and any(w.code == CUT_SHORT for w in trace.warnings)
