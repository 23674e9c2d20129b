"""Call trees of Apple's Instruments, as its Deep Copy copies them."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "instruments-deep-copy",
    "Instruments call tree",
    (".txt",),
    "Call trees of Apple's Instruments, copied by Edit ▸ Deep Copy.",
    line=r"^[^\t\n]*\bWeight\t+Self (Weight|Bytes|Count)\t",
)
