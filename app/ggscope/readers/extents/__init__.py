"""Maps of where a file lies on a disk: what ``filefrag -v`` prints."""

from ggscope.readers.api import EXTENTS, ReaderInfo

INFO = ReaderInfo(
    "extent-map",
    "Extent map",
    (".txt", ".log"),
    "What filefrag -v prints: which blocks of a disk hold a file. Joins requests to "
    "storage with the model file.",
    role=EXTENTS,
    line=r"^File size of .+ is \d+ \(\d+ blocks? of \d+ bytes\)",
)
