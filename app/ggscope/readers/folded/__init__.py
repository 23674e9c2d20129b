"""Folded stacks: lines `frame;frame;frame weight` of FlameGraph's stackcollapse."""

from ggscope.readers.api import Option, ReaderInfo

UNIT = "unit"
INFO = ReaderInfo(
    "folded",
    "folded stacks",
    (".folded", ".txt", ".collapsed"),
    "Folded stacks, a line `frame;frame;frame weight` each: what FlameGraph's "
    "stackcollapse scripts, inferno, py-spy, async-profiler and ggscope write.",
    (
        Option(
            name=UNIT,
            doc="what the weights are: samples (default), ns, us, ms, bytes, counts",
            choices=("samples", "ns", "us", "ms", "bytes", "counts"),
            default="samples",
        ),
    ),
    line=r"^[^;\n]+(;[^;\n]*)+ \d+(\.\d+)?\r?$",
)
