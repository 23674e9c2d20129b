"""Lists of ops by backend that ggml prints: its scheduler's, and of Vulkan's logger."""

from ggscope.readers.api import OPS, ReaderInfo

INFO = ReaderInfo(
    "ggml-ops",
    "ggml list of ops",
    (".txt", ".log"),
    "What llama.cpp prints with GGML_SCHED_DEBUG=1 or 2 (splits, nodes, copied "
    "tensors) or GGML_VK_PERF_LOGGER=1 (times of Vulkan by op and shape).",
    role=OPS,
    line=r"^.*(## SPLIT #\d|node # *\d+ \(|Vulkan Timings:)",
)
