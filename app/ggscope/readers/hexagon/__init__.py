"""Profiles of ggml's Hexagon backend: ops and what the NPU's threads did in them."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "ggml-hexagon",
    "ggml Hexagon profile",
    (".txt", ".log"),
    "What llama.cpp prints with -v and GGML_HEXAGON_PROFILE=1 to 3: ops of the NPU "
    "with cycles, and events of its HVX, HMX and DMA.",
    line=r"^.*(profile-op [A-Z]|trace-(op|evt) [A-Z])",
)
