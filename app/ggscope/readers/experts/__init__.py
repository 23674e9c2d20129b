"""Which experts the routers of a model chose."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "moe-csv",
    "Expert routing (CSV)",
    (".csv", ".txt"),
    "Rows of layer and expert, as llama.cpp's moe-trace example writes them.",
    role="experts",
    # A line of names with that of the expert, or rows of two numbers.
    line=r"^[ \t]*(\w+[ \t]*,[ \t]*)*(expert|\d{1,5}[ \t]*\r?$)",
)
