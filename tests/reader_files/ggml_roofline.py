"""Files of ggml-roofline."""

import roofline_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    return roofline_files.report(1, 2, names=names)[0]


FILES = (
    ReaderFiles(
        "ggml-roofline",
        valid=("roofline.json", lambda: roofline_files.report(1)[0]),
        seeds=lambda: [
            ("a.json", roofline_files.report(1, 1)[0]),
            ("b.json", roofline_files.report(2, 2)[0]),
        ],
        hostile=(".json", _hostile),
    ),
)
