"""Event streams of ggml-viz, ``.ggmlviz``: begins and ends of graphs and ops."""

from ggscope.readers.api import Kind, Option, ReaderInfo
from ggscope.readers.partial_reading import NAMES_CHOICES, NAMES_OPTION, RANGE_OPTION

LAYOUT_OPTION = "layout"
OPS_OPTION = "ops"
NUMBERING_OPTION = "numbering"
AUTO = "auto"
LAYOUT_IDS = (
    "c64",
    "c64-old",
    "packed28",
    "packed20",
    "c32",
    "c32-old",
    "var",
    "var-c",
)
NUMBERINGS = (AUTO, "6-8", "8-10")
INFO = ReaderInfo(
    "ggmlviz",
    "ggml-viz event stream",
    (".ggmlviz",),
    "Begin and end events of graphs and ops, and memory events, as the hooks of "
    "ggml-viz write them.",
    (
        Option(
            name=LAYOUT_OPTION,
            doc=f"event layout: {AUTO} or one of " + ", ".join(LAYOUT_IDS),
            choices=(AUTO, *LAYOUT_IDS),
            default=AUTO,
        ),
        Option(
            name=OPS_OPTION,
            doc=f"op table: {AUTO} or an id such as ggml-2025-06-30-86",
            default=AUTO,
        ),
        Option(
            name=NUMBERING_OPTION,
            doc="numbers of barrier and thread events: " + ", ".join(NUMBERINGS),
            choices=NUMBERINGS,
            default=AUTO,
        ),
        Option(
            name=RANGE_OPTION,
            doc=(
                "FIRST:STOP, event numbers or percentages such as 5%: read only "
                "this range"
            ),
            kind=Kind.RANGE,
        ),
        Option(
            name=NAMES_OPTION,
            doc="labels: " + ", ".join(NAMES_CHOICES),
            choices=NAMES_CHOICES,
            default=NAMES_CHOICES[0],
        ),
    ),
    # The last letter is a version.
    magic=(b"GGMLVIZ",),
)
