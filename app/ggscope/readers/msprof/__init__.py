"""Tables of Huawei's Ascend profilers (msprof, torch_npu)."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "msprof",
    "Ascend profiler table",
    (".csv",),
    "CSV of Huawei's msprof and of torch_npu: kernel_details, op_summary and task_time "
    "by stream; op_statistic, api_statistic and step_trace_time as totals.",
    line=(
        r"\A\s*+[^\n]{0,4000}(Start Time|Task Duration\(us\)|task_start\(us\)|"
        r"Total Time\(us\)|API Name|Not Overlapped)"
    ),
)
