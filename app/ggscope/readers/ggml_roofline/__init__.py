"""Reports of GPU time by op that a fork of llama.cpp for ROCm writes as JSON."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "ggml-roofline",
    "ggml roofline report",
    (".json",),
    "What AMD-Ecosystem/llama.cpp with GGML_ROOFLINE_OUT=FILE.json writes: GPU time of "
    "each op and its kernels, shapes, and tokens per expert.",
    keys=("ggml_op", "kernels"),
)
