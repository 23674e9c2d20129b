"""Tables of BigMoeOnEdge: times of graph nodes, reads of experts, times per token."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "bigmoe",
    "BigMoeOnEdge table",
    (".csv", ".txt"),
    "compute_trace, io_trace and the table per token of BigMoeOnEdge, which streams "
    "experts from flash, and what it prints at the end of a run.",
    line=r"^# (compute|io)_trace v\d|^turn,phase,step,.*(wall_ns|latency_ns)|"
    r"^step,steps,wall_ms|^moe-stream: read ",
)
