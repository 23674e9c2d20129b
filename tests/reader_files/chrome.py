"""Files of chrome-json."""

import chrome_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    return chrome_files.sample(1, 20, names)


FILES = (
    ReaderFiles(
        "chrome-json",
        valid=("chrome.json", chrome_files.sample),
        seeds=lambda: [
            ("a.json", chrome_files.sample(1, 30)),
            (
                "b.json",
                chrome_files.text(chrome_files.others(), is_list=True, indent=1),
            ),
            ("c.json.gz", chrome_files.packed(chrome_files.sample(2, 30))),
        ],
        small_seeds=lambda: [
            ("a.json", chrome_files.sample(1, 4)),
            ("c.json.gz", chrome_files.packed(chrome_files.sample(2, 4))),
        ],
        hostile=(".json", _hostile),
    ),
)
