"""Chrome trace events: JSON of PyTorch, vLLM, Ascend, ONNX Runtime and browsers."""

from ggscope.readers.api import GZIP, ZSTD, ReaderInfo

INFO = ReaderInfo(
    "chrome-json",
    "Chrome trace",
    (".json", ".gz", ".zst", ".trace"),
    "Chrome trace events as JSON, plain or packed by gzip or zstd: what PyTorch's "
    "profiler (Kineto), vLLM, SGLang, Ascend, ONNX Runtime, ggml's OpenCL backend, "
    "viztracer and browsers write, and what ggscope exports.",
    keys=("traceEvents", "ph", "deviceProperties"),
    magic=(GZIP, ZSTD),
)
