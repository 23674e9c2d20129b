"""Records of the tensor tracers for llama.cpp: every op and what it reads."""

from ggscope.readers.api import Kind, Option, ReaderInfo
from ggscope.readers.partial_reading import (
    NAMES_CHOICES,
    NAMES_OPTION,
    RANGE_OPTION,
    SAMPLED_SHARE,
)

LAYOUT_OPTION = "layout"
OPS_OPTION = "ops"
LAYOUT_IDS = ("1024", "256", "128", "buffer128", "64p", "64a")
INFO = ReaderInfo(
    "tensor-access",
    "Tensor-access records",
    (".bin",),
    "Fixed-size records of every op and its sources, as the tensor tracers for "
    "llama.cpp write them; no header.",
    (
        Option(
            name=LAYOUT_OPTION,
            doc="record layout: " + ", ".join(LAYOUT_IDS),
            choices=LAYOUT_IDS,
        ),
        Option(name=OPS_OPTION, doc="id of the op table, e.g. ggml-2025-11-25-95"),
        Option(
            name=RANGE_OPTION,
            doc=(
                "FIRST:STOP, record numbers or percentages such as 5%: read only "
                "this range"
            ),
            kind=Kind.RANGE,
        ),
        Option(
            name=NAMES_OPTION,
            doc=f"all, sampled (names of 1 in {SAMPLED_SHARE} blocks) or none",
            choices=NAMES_CHOICES,
            default=NAMES_CHOICES[0],
        ),
    ),
    is_binary=True,
)
