"""Profiles of ggml's OpenCL backend: ``cl_profiling.csv``."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "ggml-opencl",
    "ggml OpenCL profile",
    (".csv",),
    "cl_profiling.csv that llama.cpp built with GGML_OPENCL_PROFILING writes: kernels "
    "with durations, work sizes and shapes.",
    line=r"^[ \t]*op name, *kernel name, *exec duration",
)
