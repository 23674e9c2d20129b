"""What AMD's rocprofv3 writes beside databases: JSON and CSV."""

from ggscope.readers.api import GZIP, ReaderInfo

INFO = ReaderInfo(
    "rocprof",
    "rocprofv3 JSON or CSV",
    (".json", ".csv", ".gz"),
    "What rocprofv3 --output-format json or csv writes: kernels, copies and "
    "allocations by stream, calls and ranges by thread, counters of kernels; and its "
    "tables of totals.",
    keys=("rocprofiler-sdk-tool",),
    magic=(GZIP,),
    line=r"\A\s*+[^\n]{0,4000}(Start_Timestamp|TotalDurationNs|Counter_Value)\b",
)
