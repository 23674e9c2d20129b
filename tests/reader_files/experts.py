"""Files of moe-csv."""

import side_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    del names  # layers and experts are numbers
    return side_files.sound_routing().encode()


FILES = (
    ReaderFiles(
        "moe-csv",
        valid=("moe.csv", lambda: side_files.sound_routing().encode()),
        hostile=(".csv", _hostile),
        session="folder",
    ),
)
